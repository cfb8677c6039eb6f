# SPDX-License-Identifier: Apache-2.0
"""The functions of a kernel that take one packet, whatever its program's architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import Layouts, Program, ir

from .effects import Site
from .externs import Externs
from .parts import WITH_NOTES, Part, find_part
from .places import INDEX, WORD, Number, Place, Places, number_type
from .records import DROPPED, offset_of
from .statements import Ends

VOID = llvm.VoidType()


class OnePacket:
    """Makes the functions of one packet: given addresses of the context, the packet and its note."""

    place = ""
    """The variable of the architecture's metadata."""
    given: tuple[tuple[str, str], ...] = ()
    """Its fields that a packet's record gives, with the record's names."""

    def __init__(
        self,
        program: Program,
        module: llvm.Module,
        externs: type[Externs],
        take: Callable[[Part], llvm.Function],
        parameters_at: Callable[[ir.Table], int],
    ) -> None:
        self.program = program
        self._module, self._externs = module, externs
        self._take, self._parameters_at = take, parameters_at
        self._has_loops = mentions(program, (ir.Loop, ir.ForRange))
        self._packet: Number = None
        self.sites: list[Site] = []
        self.headroom_bytes = 0
        self.effect_words = 0
        self._begun: set[str] = set()
        """The tables that packets may come to first."""

    def process(self) -> llvm.Function:
        """Make the function that processes a packet."""
        raise NotImplementedError

    def before_table(self, made: Externs) -> None:
        """Make what comes before the first table, and end the function."""
        raise NotImplementedError

    def begin(self, name: str) -> Externs:
        """Begin a function of context, packet and note; its variables are at their zeros."""
        function = llvm.Function(self._module, llvm.FunctionType(VOID, [WORD] * 3), name)
        function.linkage = "internal"
        entry, start = function.append_basic_block("entry"), function.append_basic_block("start")
        slots = llvm.IRBuilder(entry)
        slots.position_before(slots.branch(start))
        builder = llvm.IRBuilder(start)
        made = self._externs(self.program, Places(Layouts(self.program), slots), builder)
        made.sites = self.sites
        made.context, self._packet, made.note = function.args
        made.has_loops = self._has_loops
        made.take = self._take
        made.find = lambda table: self._take(find_part(table))
        made.end = lambda table: self._take(replace(find_part(table), what="end"))
        made.begun = self._begun
        made.parameters_at = self._parameters_at
        made.frame = self._load(builder, "address", WORD)
        made.length = builder.zext(self._load(builder, "length", INDEX), WORD)
        made.now_ns = self._load(builder, "now_ns", WORD)
        for variable in self.program.variables:
            zero = made.places.zero(variable.type)
            made.places.store(Place(variable.name, variable.type), zero, builder)
        metadata = Place(self.place, made.types[self.place])
        for field, given in self.given:
            kind = next(part.type for part in made.places.fields(metadata.type) if part.name == field)
            number = builder.trunc(self._load(builder, given, INDEX), number_type(kind))
            made.places.store(metadata.part(field, kind), number, builder)
        made.forget_turns()
        made.begin_effects()
        return made

    def _field(self, builder: llvm.IRBuilder, name: str, kind: llvm.IntType) -> Any:  # noqa: ANN401
        at = builder.add(self._packet, WORD(offset_of(name)))
        return builder.inttoptr(at, kind.as_pointer())

    def _load(self, builder: llvm.IRBuilder, name: str, kind: llvm.IntType) -> Number:
        return builder.load(self._field(builder, name, kind))

    def _set(self, builder: llvm.IRBuilder, name: str, number: Number, width: int) -> None:
        kind = llvm.IntType(width)
        builder.store(builder.trunc(number, kind), self._field(builder, name, kind))

    def ahead(self) -> tuple[llvm.Function, dict[int, llvm.Function]]:
        """Make the function that begins to look a packet up in the first table that it comes to.

        The first word of the note becomes the number of that table + 1, or 0. Returns also the functions that
        take lookups on, by that number.
        """
        made = self.begin("ahead")
        builder, note = made.builder, made.note
        builder.store(WORD(0), made.at(note, 0))
        steps: dict[int, llvm.Function] = {}

        def begin(table: ir.Table, key: Number) -> None:
            part = find_part(table)
            if table.keys and part.kind in WITH_NOTES:
                number = self.program.tables.index(table) + 1
                state = builder.load(made.table_word(table, 0))
                made.look_up(self._take(replace(part, what="begin")), state, key, note)
                builder.store(WORD(number), made.at(note, 0))
                steps[number] = self._take(replace(part, what="step"))
                self._begun.add(table.name)
            builder.ret_void()
            builder.position_at_end(made.block("unreached"))

        made.first_table = begin
        self.before_table(made)
        return builder.function, steps

    makes_copies = False
    """Whether a packet may become several."""

    def stages(self) -> None:
        """Make what copies of a packet need."""

    def quiet_end(self, made: Externs) -> Any:  # noqa: ANN401
        """Return a block at which everything ends, however it ends."""
        end = made.block("ended")
        made.ends = Ends(end, end, stuck=end)
        return end

    def drop(self, made: Externs, reason: Number) -> None:
        """End the function with a packet that is dropped as it came."""
        made.builder.store(INDEX(0), made.out_port)
        self.finish(made, INDEX(DROPPED), reason, made.frame, made.length)

    def finish(self, made: Externs, verdict: Number, reason: Number, start: Number, length: Number) -> None:
        """Write what has become of the packet, and end the function."""
        builder = made.builder
        self._set(builder, "verdict", verdict, 16)
        self._set(builder, "reason", reason, 16)
        self._set(builder, "out_port", builder.load(made.out_port), 32)
        self._set(builder, "out_offset", builder.sub(start, made.frame), 32)
        self._set(builder, "out_length", length, 32)
        count: Number = INDEX(0)
        if made.sites:
            first, count = made.end_effects()
            self._set(builder, "effects_at", first, 32)
        self._set(builder, "effects_count", count, 32)
        builder.ret_void()

    def done(self, made: Externs, deparser: ir.Control) -> None:
        """Remember what is to be known of the function that was made."""
        self.effect_words = made.effect_words()
        self.headroom_bytes = made.headroom_bytes(deparser.body)


def mentions(node: object, kinds: tuple[type, ...]) -> bool:
    """Return whether a node of one of some kinds stands anywhere in a program."""
    pending = [node]
    while pending:
        item = pending.pop()
        if isinstance(item, kinds):
            return True
        if isinstance(item, tuple):
            pending.extend(item)
        elif hasattr(item, "__dataclass_fields__"):
            pending.extend(getattr(item, name) for name in item.__dataclass_fields__)
    return False
