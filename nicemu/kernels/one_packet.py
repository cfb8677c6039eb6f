# SPDX-License-Identifier: Apache-2.0
"""The functions of a kernel that take one packet, whatever its program's architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import Layouts, Program, ir, nodes_of

from .effects import Site
from .externs import Externs
from .growth import may_grow
from .many_packets import Ahead
from .packets import can_repeat
from .parts import WITH_NOTES, Part, find_part, steps_of
from .places import INDEX, WORD, Number, Place, Places, number_type
from .records import DROPPED, offset_of
from .statements import Ends
from .staying import stays_in_place

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
        cpu_port: int,
    ) -> None:
        self.program = program
        self._cpu_port = cpu_port
        self._module, self._externs = module, externs
        self._take, self._parameters_at = take, parameters_at
        loops = any(True for _ in nodes_of(program, ir.Loop, ir.ForRange))
        has_circle = can_repeat(program.parser)
        called = nodes_of(program.parser, ir.Call, ir.CallRoutine) if has_circle else ()
        self._has_turns = loops or any(True for _ in called)
        self._repeats = loops or has_circle
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

    def begin(self, name: str, result: llvm.Type = VOID) -> Externs:
        """Begin a function of context, packet and note; its variables are at their zeros."""
        function = llvm.Function(self._module, llvm.FunctionType(result, [WORD] * 3), name)
        function.linkage = "internal"
        entry, start = function.append_basic_block("entry"), function.append_basic_block("start")
        slots = llvm.IRBuilder(entry)
        slots.position_before(slots.branch(start))
        builder = llvm.IRBuilder(start)
        made = self._externs(self.program, Places(Layouts(self.program), slots), builder)
        made.sites = self.sites
        made.context, self._packet, made.note = function.args
        made.has_turns, made.repeats = self._has_turns, self._repeats
        made.take = self._take
        made.find = lambda table: self._take(find_part(table))
        made.find_apart = lambda table: self._apart(find_part(table))
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

    def _apart(self, part: Part) -> llvm.Function:
        """Return the function that a part is, for a call that stays one: it is seldom made."""
        name = f"{part.name}_apart"
        if name in self._module.globals:
            return self._module.globals[name]
        part_function = self._take(part)
        function = llvm.Function(self._module, part_function.function_type, name)
        function.linkage = "internal"
        function.attributes.add("cold")
        function.attributes.add("noinline")
        builder = llvm.IRBuilder(function.append_basic_block("entry"))
        builder.ret(builder.call(part_function, function.args))
        return function

    def _field(self, builder: llvm.IRBuilder, name: str, kind: llvm.IntType) -> Any:  # noqa: ANN401
        at = builder.add(self._packet, WORD(offset_of(name)))
        return builder.inttoptr(at, kind.as_pointer())

    def _load(self, builder: llvm.IRBuilder, name: str, kind: llvm.IntType) -> Number:
        return builder.load(self._field(builder, name, kind))

    def _set(self, builder: llvm.IRBuilder, **numbers: Number) -> None:
        """Store fields of the packet that lie in one word, and are all of it."""
        places = {name: 8 * (offset_of(name) - offset_of(next(iter(numbers)))) for name in numbers}
        ends = [*list(places.values())[1:], WORD.width]
        word: Number = WORD(0)
        for (name, shift), end in zip(places.items(), ends, strict=True):
            number = numbers[name]
            kind = llvm.IntType(end - shift)
            number = builder.zext(builder.trunc(number, kind) if number.type != kind else number, WORD)
            word = builder.or_(word, builder.shl(number, WORD(shift)))
        builder.store(word, self._field(builder, next(iter(numbers)), WORD))

    def ahead(self) -> Ahead:
        """Make what begins to look a packet up in the first table that it comes to."""
        made = self.begin("ahead", WORD)
        builder = made.builder
        steps: dict[int, llvm.Function] = {}
        depth = 0

        def begin(table: ir.Table, key: list[Number]) -> None:
            nonlocal depth
            part, number = find_part(table), 0
            if table.keys and part.kind in WITH_NOTES:
                number = self.program.tables.index(table) + 1
                state = builder.load(made.table_word(table, 0))
                made.look_up(self._take(replace(part, what="begin")), state, made.kept(key), made.note)
                steps[number] = self._take(replace(part, what="step"))
                self._begun.add(table.name)
                depth = max(depth, steps_of(table))
            builder.ret(WORD(number))
            builder.position_at_end(made.block("unreached"))

        made.first_table = begin
        self.before_table(made)
        return Ahead(builder.function, steps, depth)

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
        self._set(builder, verdict=verdict, reason=reason, out_port=builder.load(made.out_port))
        self._set(builder, out_offset=builder.sub(start, made.frame), out_length=length)
        first, count = made.end_effects() if made.sites else (WORD(0), INDEX(0))
        self._set(builder, effects_at=first, effects_count=count)
        builder.ret_void()

    def deparse(self, made: Externs, deparser: ir.Control) -> tuple[Number, Number]:
        """Make the deparser; return the address and length (i64) of the frame that leaves."""
        most = made.headroom_bytes(deparser.body)
        made.stays = not self.makes_copies and stays_in_place(self.program, most)
        return made.deparse(deparser.body)

    def done(self, made: Externs, deparser: ir.Control) -> None:
        """Remember what is to be known of the function that was made."""
        self.effect_words = made.effect_words()
        grows = self.makes_copies or may_grow(self.program)
        self.headroom_bytes = made.headroom_bytes(deparser.body) if grows else 0
