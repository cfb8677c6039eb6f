# SPDX-License-Identifier: Apache-2.0
"""The blocks of a v1model program one by one, for packets that are copies, or come again.

`stage` is given the context, a packet's record, its state, and which of `STAGES` it goes through.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from .places import WORD
from .statements import Ends
from .v1_externs import V1Externs
from .v1_packet import V1Packet
from .v1_state import RESULT

STAGES = ("parse", "verify", "ingress", "egress", "compute", "deparser")
VOID = llvm.VoidType()


class V1Stages(V1Packet):
    """Makes a function for each block."""

    def stages(self) -> None:
        """Make `stage`, where the program needs it."""
        if not self.makes_copies:
            return
        made = [self._stage(name) for name in STAGES]
        function = llvm.Function(self._module, llvm.FunctionType(VOID, [WORD] * 4), "stage")
        *given, which = function.args
        builder = llvm.IRBuilder(function.append_basic_block("entry"))
        end = function.append_basic_block("end")
        choice = builder.switch(which, end)
        for number, stage in enumerate(made):
            block = function.append_basic_block(STAGES[number])
            choice.add_case(WORD(number), block)
            builder.position_at_end(block)
            builder.call(stage, given)
            builder.branch(end)
        builder.position_at_end(end)
        builder.ret_void()

    def _stage(self, name: str) -> llvm.Function:
        made = self.begin(f"stage.{name}")
        assert isinstance(made, V1Externs)
        builder, address = made.builder, made.note
        made.begun = frozenset()  # there is a state in place of a note
        self.load_state(made, address)
        made.forget_origins()
        stuck, ended = made.block("stuck"), made.block("ended")
        result = made.at(address, 8 * RESULT)
        builder.store(WORD(0), result)
        if name == "parse":
            made.parse()
            builder.branch(ended)
            builder.position_at_end(made.rejected)
            builder.store(builder.add(builder.zext(builder.load(made.error), WORD), WORD(1)), result)
        elif name == "deparser":
            made.ends = Ends(stuck=stuck)
            start, length = made.deparse(self.program.control(name).body)
            self._set(builder, out_offset=builder.sub(start, made.frame), out_length=length)
        else:
            self._control(made, self.program.control(name), stuck)
        builder.branch(ended)
        builder.position_at_end(stuck)
        builder.store(builder.zext(builder.load(made.given_up), WORD), result)
        builder.branch(ended)
        builder.position_at_end(ended)
        self.store_state(made, address)
        first, count = made.end_effects()
        self._set(builder, effects_at=first, effects_count=count)
        builder.ret_void()
        return builder.function
