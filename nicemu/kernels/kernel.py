# SPDX-License-Identifier: Apache-2.0
"""A program as one LLVM function for one packet, and one that takes many packets through it.

Packets go in groups: for each of a group the way to its first table is computed and what the table will look
at is fetched, then each is processed. So a group waits for memory once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import Layouts, Program, ir

from .expressions import NotCompiled
from .externs import Externs, Site
from .packets import BYTE
from .places import INDEX, WORD, Number, Place, Places, number_type
from .records import DROPPED, PACKET, STUCK, TABLE_WORDS, TO_HOST, offset_of
from .statements import Ends
from .tables import key_bits

GROUP = 32
"""Packets whose tables are fetched together."""

NOTE_WORDS = 3
"""Words that are noted of a packet between fetching a bucket and fetching its entry."""

VOID = llvm.VoidType()


@dataclass(frozen=True, slots=True)
class Lookup:
    """What looks up in a table: functions of its state and more words, addresses or hashes."""

    kind: str
    limbs: int

    @property
    def find(self) -> str:
        """The name of the function that finds, given the key and where the result goes."""
        return f"find_{self.kind}_{self.limbs}"

    @property
    def fetch(self) -> str:
        """The name of the function that begins to fetch what is looked at first, and returns the key's hash."""
        return f"fetch_{self.kind}_{self.limbs}"

    @property
    def entry(self) -> str:
        """The name of the function that begins to fetch the entry that `find` looks at, given that hash."""
        return f"entry_{self.kind}_{self.limbs}"

    @property
    def functions(self) -> dict[str, int]:
        """How many words each function takes."""
        if self.kind != "exact":
            return {self.find: 3}
        return {self.find: 3, self.fetch: 2, self.entry: 2}


@dataclass(slots=True)
class Generated:
    """A kernel before it is compiled: its module's text, what it looks up with, its effects."""

    text: str
    lookups: tuple[Lookup, ...]
    sites: tuple[Site, ...]
    headroom_bytes: int


def lookup_of(table: ir.Table) -> Lookup:
    """Return how a table is looked up in."""
    kinds = {key.match_kind for key in table.keys}
    return Lookup("exact" if kinds <= {ir.MatchKind.EXACT} else "ternary", -(-key_bits(table) // 64))


def effects_word(program: Program) -> int:
    """Return which word of the context holds the address of the next effect."""
    return TABLE_WORDS * len(program.tables)


def generate(program: Program, parameters_at: Callable[[ir.Table], int]) -> Generated:
    """Return the kernel of a program. Raises: NotCompiled where it needs the interpreter."""
    if program.architecture != "nicemu":
        raise NotCompiled(f"it is for {program.architecture}")
    module = llvm.Module(name=program.name)
    lookups = {table.name: lookup_of(table) for table in program.tables if table.keys}
    functions: dict[str, llvm.Function] = {}
    for lookup in lookups.values():
        for name, count in lookup.functions.items():
            if name not in functions:
                pointers = [WORD.as_pointer(), BYTE.as_pointer()]  # numba's: of the value, of an exception
                kind = llvm.FunctionType(INDEX, [*pointers, *[WORD] * count])
                functions[name] = llvm.Function(module, kind, name)
    one = _OnePacket(program, module, lookups, functions, parameters_at)
    _many(module, one.process(), *one.ahead())
    used = {lookup.find: lookup for lookup in lookups.values()}
    return Generated(str(module), tuple(used.values()), tuple(one.sites), one.headroom_bytes)


class _OnePacket:
    """Makes the functions that take one packet: the context's address and the packet's."""

    def __init__(
        self,
        program: Program,
        module: llvm.Module,
        lookups: dict[str, Lookup],
        functions: dict[str, llvm.Function],
        parameters_at: Callable[[ir.Table], int],
    ) -> None:
        self._program, self._module = program, module
        self._lookups, self._functions = lookups, functions
        self._parameters_at = parameters_at
        self._has_loops = _mentions(program, (ir.Loop, ir.ForRange))
        self.sites: list[Site] = []
        self.headroom_bytes = 0

    def _begin(self, name: str, more: int = 0) -> Externs:
        """Begin a function; its variables are at their zeros."""
        function = llvm.Function(self._module, llvm.FunctionType(VOID, [WORD] * (2 + more)), name)
        function.linkage = "internal"
        entry, start = function.append_basic_block("entry"), function.append_basic_block("start")
        slots = llvm.IRBuilder(entry)
        slots.position_before(slots.branch(start))
        builder = llvm.IRBuilder(start)
        made = Externs(self._program, Places(Layouts(self._program), slots), builder)
        made.context, self._packet = function.args[:2]
        made.has_loops = self._has_loops
        made.find = lambda table: self._functions[self._lookups[table.name].find]
        made.parameters_at = self._parameters_at
        made.frame = self._load(builder, "address", WORD)
        made.length = builder.zext(self._load(builder, "length", INDEX), WORD)
        made.now_ns = self._load(builder, "now_ns", WORD)
        for variable in self._program.variables:
            zero = made.places.zero(variable.type)
            made.places.store(Place(variable.name, variable.type), zero, builder)
        nic = Place(ir.NIC, made.types[ir.NIC])
        for field, given in (("ingress_port", "port"), ("packet_length", "length")):
            kind = next(part.type for part in made.places.fields(nic.type) if part.name == field)
            number = builder.trunc(self._load(builder, given, INDEX), number_type(kind))
            made.places.store(nic.part(field, kind), number, builder)
        if self._has_loops:
            builder.store(INDEX(0), made.places.slot(Place("$turns", ir.Bits(32)), builder))
        return made

    def _field(self, builder: llvm.IRBuilder, name: str, kind: llvm.IntType) -> Any:  # noqa: ANN401
        at = builder.add(self._packet, WORD(offset_of(name)))
        return builder.inttoptr(at, kind.as_pointer())

    def _load(self, builder: llvm.IRBuilder, name: str, kind: llvm.IntType) -> Number:
        return builder.load(self._field(builder, name, kind))

    def _set(self, builder: llvm.IRBuilder, name: str, number: Number, width: int) -> None:
        kind = llvm.IntType(width)
        builder.store(builder.trunc(number, kind), self._field(builder, name, kind))

    def ahead(self) -> tuple[llvm.Function, list[llvm.Function]]:
        """Make the function that begins to fetch what the first table of a packet looks at.

        It leaves at a third address which of the functions, returned beside it, fetches the entry (0 for
        none, else its place in the list + 1), the table's state and the key's hash.
        """
        made = self._begin("ahead", 1)
        builder = made.builder
        note = builder.function.args[2]
        builder.store(WORD(0), made.at(note, 0))
        entries: list[llvm.Function] = []

        def fetch(table: ir.Table, key: Number) -> None:
            lookup = self._lookups.get(table.name)
            if lookup is not None and lookup.kind == "exact":
                state = builder.load(made.table_word(table, 0))
                digest = made.look_up(self._functions[lookup.fetch], state, key)
                entry = self._functions[lookup.entry]
                if entry not in entries:
                    entries.append(entry)
                builder.store(WORD(entries.index(entry) + 1), made.at(note, 0))
                builder.store(state, made.at(note, 8))
                builder.store(digest, made.at(note, 16))
            builder.ret_void()
            builder.position_at_end(made.block("unreached"))

        made.first_table = fetch
        made.parse()
        end = made.block("ended")
        made.ends = Ends(end, end, stuck=end)
        made.body(self._program.controls[0].body)
        made.go(end)
        builder.ret_void()
        builder.position_at_end(made.rejected)
        builder.ret_void()
        return builder.function, entries

    def process(self) -> llvm.Function:
        """Make the function that processes a packet."""
        made = self._begin("process")
        builder = made.builder
        effects = made.at(made.context, 8 * effects_word(self._program))
        first = builder.load(effects)
        builder.store(first, made.effects)
        builder.store(INDEX(0), made.effect_count)
        builder.store(INDEX(TO_HOST), made.verdict)
        builder.store(INDEX(0), made.out_port)
        made.forget_origins()
        made.parse()
        control, deparser = self._program.controls
        controlled, stuck = made.block("controlled"), made.block("stuck")
        made.ends = Ends(controlled, controlled, stuck=stuck)
        made.body(control.body)
        made.go(controlled)
        dropped, leaves = made.block("dropped"), made.block("leaves")
        verdict = builder.load(made.verdict)
        is_dropped = builder.icmp_unsigned("==", verdict, INDEX(DROPPED))
        builder.cbranch(is_dropped, dropped, leaves)
        builder.position_at_end(leaves)
        start, length = made.deparse(deparser.body)
        self._finish(made, verdict, INDEX(0), start, length, first, effects)
        builder.position_at_end(dropped)
        self._finish(made, INDEX(DROPPED), INDEX(0), made.frame, made.length, first, effects)
        for block, reason in ((made.rejected, None), (stuck, INDEX(STUCK))):
            builder.position_at_end(block)
            if reason is None:
                reason = builder.add(builder.load(made.error), INDEX(1))
            builder.store(INDEX(0), made.effect_count)
            builder.store(INDEX(0), made.out_port)
            builder.store(first, made.effects)
            self._finish(made, INDEX(DROPPED), reason, made.frame, made.length, first, effects)
        self.sites = made.sites
        emitted = [node.value.type for node in deparser.body if isinstance(node, ir.Emit)]
        self.headroom_bytes = sum(map(made.most_bytes, emitted))
        return builder.function

    def _finish(
        self,
        made: Externs,
        verdict: Number,
        reason: Number,
        start: Number,
        length: Number,
        first: Number,
        effects: Any,  # noqa: ANN401
    ) -> None:
        """Write what has become of the packet, and end the function."""
        builder = made.builder
        self._set(builder, "verdict", verdict, 16)
        self._set(builder, "reason", reason, 16)
        self._set(builder, "out_port", builder.load(made.out_port), 32)
        self._set(builder, "out_offset", builder.sub(start, made.frame), 32)
        self._set(builder, "out_length", length, 32)
        if self._has_effects:
            self._set(builder, "effects_at", first, 32)
            self._set(builder, "effects_count", builder.load(made.effect_count), 32)
            builder.store(builder.load(made.effects), effects)
        else:
            self._set(builder, "effects_count", INDEX(0), 32)
        builder.ret_void()

    @property
    def _has_effects(self) -> bool:
        return _mentions(self._program, (ir.CallMethod,))


def _many(
    module: llvm.Module, process: llvm.Function, ahead: llvm.Function, entries: list[llvm.Function]
) -> None:
    """Make `run`: context, packets, count, and whether to fetch ahead."""
    function = llvm.Function(module, llvm.FunctionType(VOID, [WORD, WORD, WORD, WORD]), "run")
    context, packets, count, fetches = function.args
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    notes = builder.ptrtoint(builder.alloca(WORD, GROUP * NOTE_WORDS), WORD)
    first = builder.alloca(WORD)
    builder.store(WORD(0), first)
    wanted = builder.icmp_unsigned("!=", fetches, WORD(0))
    group, end = function.append_basic_block("group"), function.append_basic_block("end")
    builder.branch(group)
    builder.position_at_end(group)
    start = builder.load(first)
    last = builder.add(start, WORD(GROUP))
    last = builder.select(builder.icmp_unsigned("<", last, count), last, count)
    some, fetching = function.append_basic_block("some"), function.append_basic_block("fetching")
    working = function.append_basic_block("working")
    builder.cbranch(builder.icmp_unsigned("<", start, count), some, end)
    builder.position_at_end(some)
    builder.cbranch(wanted, fetching, working)

    def packet(number: Number) -> Number:
        return builder.add(packets, builder.mul(number, WORD(PACKET.itemsize)))

    def note(number: Number) -> Number:
        return builder.add(notes, builder.mul(builder.sub(number, start), WORD(8 * NOTE_WORDS)))

    builder.position_at_end(fetching)
    _each(builder, start, last, lambda number: builder.call(ahead, [context, packet(number), note(number)]))
    _each(builder, start, last, lambda number: _fetch_entry(builder, entries, note(number)))
    builder.branch(working)
    builder.position_at_end(working)
    _each(builder, start, last, lambda number: builder.call(process, [context, packet(number)]))
    builder.store(last, first)
    builder.branch(group)
    builder.position_at_end(end)
    builder.ret_void()


def _each(builder: llvm.IRBuilder, first: Number, end: Number, make: Callable[[Number], object]) -> None:
    """Make a loop over numbers; there is at least one."""
    before, turn = builder.block, builder.append_basic_block("each")
    builder.branch(turn)
    builder.position_at_end(turn)
    number = builder.phi(WORD)
    number.add_incoming(first, before)
    make(number)
    further = builder.add(number, WORD(1))
    number.add_incoming(further, builder.block)
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_unsigned("<", further, end), turn, after)
    builder.position_at_end(after)


def _fetch_entry(builder: llvm.IRBuilder, entries: list[llvm.Function], note: Number) -> None:
    """Begin to fetch the entry that a note is about."""
    which, state, digest = (
        builder.load(builder.inttoptr(builder.add(note, WORD(8 * word)), WORD.as_pointer()))
        for word in range(NOTE_WORDS)
    )
    after = builder.append_basic_block("fetched")
    choice = builder.switch(which, after)
    for place, entry in enumerate(entries, start=1):
        block = builder.append_basic_block("entry")
        choice.add_case(WORD(place), block)
        builder.position_at_end(block)
        nothing = BYTE.as_pointer()(None)
        builder.call(entry, [builder.inttoptr(note, WORD.as_pointer()), nothing, state, digest])
        builder.branch(after)
    builder.position_at_end(after)


def _mentions(node: object, kinds: tuple[type, ...]) -> bool:
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
