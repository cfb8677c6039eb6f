# SPDX-License-Identifier: Apache-2.0
"""Tables in a kernel: keys, lookups, and the actions of what is found.

An entry is a record of `nicemu.lookup`; the default action is one, too, that no lookup finds. Action data are
read before anything is done with them, and read again if the entry has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from llvmlite import ir as llvm

from nicemu.lookup import BYTES, HIT_NS, PACKETS
from nicemu.pipeline import ir, width_of

from .choices import Choosing, Ways
from .metering import mark_function
from .packets import BYTE
from .paths import own_path
from .places import BIT, INDEX, WORD, Number, Place, number_type
from .records import (
    TABLE_DEFAULT,
    TABLE_HITS,
    TABLE_MISSES,
    TABLE_STATE,
    TABLE_WORDS,
    word_of_value_set,
)
from .table_keys import WORD_BITS, data_bits, meter_word, parameters_of, table_of

_ACTION_AT = 32
_LIKELY = (1 << 10, 1)
"""How often the first of two ways is taken, and how often the other one."""
NO_ACTION = 0xFFFFFFFF
"""In place of an action's number: an entry whose group has no members runs none."""


class Tables(Choosing):
    """Applies tables; `context` is the i64 address of the tables' words."""

    context: Number
    now_ns: Number
    take: Callable[[Any], Any]
    """Returns the function that a `Part` is, for calls by `look_up`."""
    find: Callable[[ir.Table], Any]
    """Returns the function that looks up in a table: state and key, i64 addresses."""
    find_apart: Callable[[ir.Table], Any]
    """Returns the same, to be called where it seldom is."""
    end: Callable[[ir.Table], Any]
    """Returns the function that ends a lookup which has begun: state, key and note."""
    note: Number
    """The address of the packet's note, whose first word is 0 where no lookup has begun."""
    begun: Set[str] = frozenset()
    """The tables whose lookups may have begun."""
    parameters_at: Callable[[ir.Table], int]
    """Returns the offset of the action data in a table's records."""
    first_table: Callable[[ir.Table, list[Number]], None] | None = None
    """Where set, it is given the first table's key, and the function ends there."""

    def table_word(self, table: ir.Table, which: int) -> Any:  # noqa: ANN401
        """Return a pointer to one of a table's words in the context."""
        number = self.program.tables.index(table)
        return self.at(self.context, 8 * (TABLE_WORDS * number + which))

    def apply(self, table: str) -> Number:
        """Apply a table; return whether an entry matched, as i1."""
        spec = next(item for item in self.program.tables if item.name == table)
        key = self._key([self.value(part.expression) for part in spec.keys])
        if not spec.keys:  # what nothing is looked up by is evaluated all the same
            for chosen in spec.selector_keys:
                self.value(chosen)
        if self.first_table is not None:
            self.first_table(spec, key)
            return BIT(0)
        builder = self.builder
        again, chosen = self.block("lookup"), self.block("entry")
        self.go(again)
        if spec.keys:
            state = builder.load(self.table_word(spec, TABLE_STATE))
            entry, head = self._find(spec, state, key)
        else:
            entry, head = WORD(0), WORD(0)
        hit = builder.icmp_unsigned("!=", entry, WORD(0))
        looked_up, missed = builder.block, self.block("default")
        builder.cbranch(hit, chosen, missed)
        builder.position_at_end(missed)
        default = builder.load(self.table_word(spec, TABLE_DEFAULT))
        default_head = self._head(default)
        builder.branch(chosen)
        builder.position_at_end(chosen)
        record, record_head = builder.phi(WORD), builder.phi(WORD)
        record.add_incoming(entry, looked_up)
        record.add_incoming(default, missed)
        record_head.add_incoming(head, looked_up)
        record_head.add_incoming(default_head, missed)
        self._run_entry(spec, record, record_head, hit, again)
        return hit

    def _find(self, table: ir.Table, state: Number, key: list[Number]) -> list[Number]:
        """Return address and head of what a key finds; a lookup that has begun is ended."""
        if table.name not in self.begun:
            return self.look_up(self.find(table), state, self.kept(key), values=2)
        builder, number = self.builder, self.program.tables.index(table) + 1
        ends, anew, found = (self.block(name) for name in ("ends", "anew", "found"))
        which = builder.load(self.at(self.note, 0))
        has_begun = builder.cbranch(builder.icmp_unsigned("==", which, WORD(number)), ends, anew)
        has_begun.set_weights(_LIKELY)
        builder.position_at_end(ends)
        is_known, *told = self.look_up(self.end(table), state, self.kept(key), self.note, values=3)
        known = builder.cbranch(builder.icmp_unsigned("!=", is_known, WORD(0)), found, anew)
        known.set_weights(_LIKELY)
        ended = builder.block
        builder.position_at_end(anew)
        told_anew = self.look_up(self.find_apart(table), state, self.kept(key), values=2)
        builder.branch(found)
        builder.position_at_end(found)
        result = []
        for one, other in zip(told, told_anew, strict=True):
            chosen = builder.phi(WORD)
            chosen.add_incoming(one, ended)
            chosen.add_incoming(other, anew)
            result.append(chosen)
        return result

    def look_up(self, function: Any, *words: Number, values: int = 1) -> list[Number]:  # noqa: ANN401
        """Return the values of a lookup that numba has compiled: it is given where they go, no exception."""
        room = self.buffer("$values", values)
        self.builder.call(function, [room, BYTE.as_pointer()(None), *words])
        return [self.builder.load(self.builder.gep(room, [INDEX(place)])) for place in range(values)]

    def _head(self, record: Number) -> Number:
        """Return the head of the default action's record; one that it will not have while it is written."""
        head = self.builder.load_atomic(self.builder.inttoptr(record, WORD.as_pointer()), "acquire", 8)
        return self.builder.and_(head, WORD(-2))

    def in_value_set(self, name: str, values: list[Number]) -> Number:
        """Return whether a value set holds these values."""
        number = next(n for n, item in enumerate(self.program.value_sets) if item.name == name)
        state = self.builder.load(self.at(self.context, 8 * word_of_value_set(self.program, number)))
        find = self.find(table_of(self.program.value_sets[number]))
        entry, _ = self.look_up(find, state, self.kept(self._key(values)), values=2)
        return self.builder.icmp_unsigned("!=", entry, WORD(0))

    def _key(self, values: list[Number]) -> list[Number]:
        """Return the limbs of a key of some numbers, the most significant first."""
        width = sum(value.type.width for value in values)
        limbs = -(-width // WORD_BITS)
        whole = llvm.IntType(limbs * WORD_BITS)
        number: Number = whole(0)
        for value in values:
            if value.type.width < whole.width:
                number = self.builder.shl(number, whole(value.type.width))
            number = self.builder.or_(number, self.builder.zext(value, whole))
        shifts = [WORD_BITS * (limbs - 1 - limb) for limb in range(limbs)]
        moved = [self.builder.lshr(number, whole(shift)) if shift else number for shift in shifts]
        return [self._truncated(limb, WORD_BITS) for limb in moved]

    def kept(self, key: list[Number]) -> Number:
        """Return the address of a copy of a key."""
        if not key:
            return WORD(0)
        buffer = self.buffer("$key", len(key))
        for place, limb in enumerate(key):
            self.builder.store(limb, self.builder.gep(buffer, [INDEX(place)]))
        return self._number(buffer)

    def _run_entry(self, table: ir.Table, record: Number, head: Number, hit: Number, again: Any) -> None:  # noqa: ANN401
        """Run the action of an entry, or of the default; look up `again` if the entry has changed."""
        builder = self.builder
        after, none = self.block("applied"), self.block("no_action")
        data_at, called_head = self.address(record, self.parameters_at(table)), head
        if table.profile:
            nothing = self.block("nothing")
            called_head, data_at = self.picked(table, record, data_at, head, Ways(again, nothing))
        action = builder.trunc(builder.lshr(called_head, WORD(_ACTION_AT)), INDEX)
        choice = builder.switch(action, none)
        builder.position_at_end(none)
        builder.unreachable()
        for ref in table.actions:
            number = self.action_number(ref.action)
            called = self.program.actions[number]
            block = self.block(f"action.{ref.action}")
            choice.add_case(INDEX(number), block)
            builder.position_at_end(block)
            data = self._data(data_at, called)
            builder.fence("acquire")
            whole = self.block("whole")
            builder.cbranch(self.still(record, head), whole, again).set_weights(_LIKELY)
            builder.position_at_end(whole)
            self._count_lookup(table, record, hit)
            self.run(called, ref.arguments, data)
            if not builder.block.is_terminated:
                builder.store(INDEX(number), self.ran(table.name))
                builder.branch(after)
        if table.profile:
            builder.position_at_end(nothing)
            self._count_lookup(table, record, hit)
            builder.store(INDEX(NO_ACTION), self.ran(table.name))
            builder.branch(after)
        builder.position_at_end(after)

    def still(self, record: Number, head: Number) -> Number:
        """Return whether a record has the head that was read first."""
        pointer = self.builder.inttoptr(record, WORD.as_pointer())
        return self.builder.icmp_unsigned("==", self.builder.load_atomic(pointer, "acquire", 8), head)

    def _data(self, start: Number, action: ir.Action) -> list[Number]:
        """Return the action data at an address."""
        data = []
        words = [
            self.builder.load(self.at(start, 8 * word)) for word in range(-(-data_bits(action) // WORD_BITS))
        ]
        first = 0
        for parameter in parameters_of(action):
            width, kind = width_of(parameter.type), number_type(parameter.type)
            number: Number = kind(0)
            for word in range(first // WORD_BITS, -(-(first + width) // WORD_BITS)) if width else ():
                shift = word * WORD_BITS - first
                piece = words[word]
                if shift < 0:
                    piece = self.builder.lshr(piece, WORD(-shift))
                piece = self.resized(piece, ir.Bits(WORD_BITS), parameter.type)
                if shift > 0:
                    piece = self.builder.shl(piece, kind(shift))
                number = self.builder.or_(number, piece)
            data.append(number)
            first += width
        return data

    def _count_lookup(self, table: ir.Table, record: Number, hit: Number) -> None:
        """Count a hit or a miss, in its entry and in all."""
        builder = self.builder
        hits, misses = (self.table_word(table, which) for which in (TABLE_HITS, TABLE_MISSES))
        self._add(builder.select(hit, hits, misses), WORD(1))
        self._add(self.at(record, int(PACKETS)), WORD(1))
        self._add(self.at(record, int(BYTES)), self.length)
        builder.store(self.now_ns, self.at(record, int(HIT_NS)))
        if table.meter:
            self._mark(table, record)

    def _mark(self, table: ir.Table, record: Number) -> None:
        """Have an entry's meter mark the packet; the last of the entry's words says where it is."""
        words = meter_word(self.program, table)
        meter = self.builder.load(self.at(record, self.parameters_at(table) + 8 * words))
        in_bytes = next(item.arguments[0] for item in self.program.externs if item.name == table.meter)
        units = self.length if in_bytes else WORD(1)
        colour = self.builder.call(
            mark_function(self.builder.module), [meter, units, self.now_ns, self.length]
        )
        self.builder.store(self.builder.trunc(colour, INDEX), self.colour(table.meter))

    def colour(self, meter: str) -> Any:  # noqa: ANN401
        """Return the address of what a direct meter has said of the packet (i32)."""
        return self.places.slot(Place(own_path(f"colour.{meter}"), ir.Bits(32)), self.builder)

    def _add(self, pointer: Any, number: Number) -> None:  # noqa: ANN401
        self.builder.store(self.builder.add(self.builder.load(pointer), number), pointer)
