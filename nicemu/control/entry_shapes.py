# SPDX-License-Identifier: Apache-2.0
"""Entries read straight out of encoded updates, where thousands differ in nothing but their values.

Two encoded updates of the same length that are equal but for the bytes of their values are the same message
with other values. So the first update of a shape is understood as any other, and its shape is learnt: which
bits are values, and whose. Those that follow are compared with it as whole numbers, which makes no object for
each part of a message. The bits that a value must not have belong to the shape, so what has a shape is legal;
what has none is for `entities` to understand, or to refuse.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

from nicemu.pipeline import Exact, Lpm, Match, TableEntry, Ternary

from .changes import Change
from .entry_changes import NONE_GIVEN, DeleteEntry, InsertEntry, ModifyEntry
from .messages import DELETE, MODIFY, Message, messages
from .schema import Schema, TableSchema

MAX_SHAPES = 1_024
"""Shapes that are remembered of one program."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What updates of a shape have in common: their kind, their length, and all bits that are no values.

    `values` takes those of matches, then those of parameters, from an encoded update; `matches` make matches
    of the former. In `fixed` the bits are set that are no values, and `pattern` is what they are.
    """

    update_type: int
    table: str
    action: str
    priority: int
    matches: tuple[Callable[[int], Match], ...]
    values: Callable[[bytes], tuple[bytes, ...]]
    length: int
    fixed: int
    pattern: int

    def end_of_run(self, encoded: Sequence[bytes], first: int) -> int:
        """Return the place of the first update behind `first`, which has this shape, that has it not."""
        length, fixed, pattern, number_of = self.length, self.fixed, self.pattern, int.from_bytes
        for place in range(first + 1, len(encoded)):
            data = encoded[place]
            if len(data) != length or number_of(data, "big") & fixed != pattern:
                return place
        return len(encoded)

    def entries(self, encoded: Sequence[bytes]) -> list[TableEntry]:
        """Return the entries that encoded updates of this shape are about; a deletion's has no action."""
        columns = [map(int.from_bytes, column) for column in zip(*map(self.values, encoded), strict=True)]
        matches = zip(*map(map, self.matches, columns), strict=True)
        data = columns[len(self.matches) :]
        parameters = zip(*data, strict=True) if data else repeat((), len(encoded))
        make, kind, action, priority = tuple.__new__, TableEntry, self.action, self.priority
        return [
            make(kind, (match, action, given, priority, None, 0, None))
            for match, given in zip(matches, parameters, strict=True)
        ]

    def changes(self, encoded: Sequence[bytes]) -> list[Change]:
        """Return the changes that encoded updates of this shape mean."""
        table, priority = self.table, self.priority
        entries = self.entries(encoded)
        if self.update_type == DELETE:
            return [DeleteEntry(table, entry.matches, priority) for entry in entries]
        if self.update_type == MODIFY:
            return [ModifyEntry(table, entry.matches, priority, entry, True) for entry in entries]
        return [InsertEntry(table, entry) for entry in entries]


class EntryShapes:
    """The shapes of updates of entries of the tables of one program."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[int, dict[int, dict[int, Shape]]] = {}
        """By length, by the bits that are no values, by what these are."""
        self._count = 0

    def shape_of(self, data: bytes) -> Shape | None:
        """Return the shape of an encoded update, None if it has no known one."""
        known = self._known.get(len(data))
        if known is None:
            return None
        number = int.from_bytes(data, "big")
        for fixed, shapes in known.items():
            shape = shapes.get(number & fixed)
            if shape is not None:
                return shape
        return None

    def learn(self, update: Message, data: bytes, change: Change) -> None:
        """Remember the shape of an encoded update that means `change`, if it has one."""
        entry = _entry_of(change)
        if entry is None or self._count >= MAX_SHAPES:
            return
        copy = messages().Update()
        copy.CopyFrom(update)
        message = copy.entity.table_entry
        table = self._schema.table_of_id(message.table_id)
        if _is_translated(entry, table):
            return
        if not _is_plain(entry, table) or len(message.match) != len(table.keys):
            return
        if not all(_is_legal(match, key.width) for match, key in zip(entry.matches, table.keys, strict=True)):
            return
        fields = {field.field_id: field for field in message.match}
        values = [getattr(fields[key.id], key.match_kind) for key in table.keys]
        bits = [_bits_of(match, key.width) for match, key in zip(entry.matches, table.keys, strict=True)]
        if entry.action:
            given = {param.param_id: param for param in message.action.action.params}
            for param in table.action_named(entry.action).params:
                values.append(given[param.id])
                bits.append((1 << param.width) - 1)
        elif message.HasField("action"):  # of a deletion, which does not look at it
            return
        if any(int.from_bytes(value.value, "big") & ~free for value, free in zip(values, bits, strict=True)):
            return
        layout, fixed = _layout_of(values, bits, copy)
        if layout is not None:
            pattern = int.from_bytes(data, "big") & fixed
            shape = Shape(
                update.type,
                table.name,
                entry.action,
                entry.priority,
                tuple(map(_maker_of, entry.matches)),
                layout.unpack,
                len(data),
                fixed,
                pattern,
            )
            self._known.setdefault(len(data), {}).setdefault(fixed, {})[pattern] = shape
            self._count += 1


def _entry_of(change: Change) -> TableEntry | None:
    """Return the entry that a change is about, None if it may be about more."""
    match change:
        case InsertEntry(entry=entry) if change.resources is NONE_GIVEN:
            return entry
        case ModifyEntry(matches=(_, *_), entry=entry, has_action=True) if change.resources is NONE_GIVEN:
            return entry
        case DeleteEntry(matches=(_, *_) as matches, priority=priority):
            return TableEntry(tuple(matches), "", (), priority)
    return None


def _is_translated(entry: TableEntry, table: TableSchema) -> bool:
    """Return whether values of an entry are not those of its message."""
    params = table.action_named(entry.action).params if entry.action else ()
    keys = any(key.controller_bits is not None for key in table.keys)
    return keys or any(param.controller_bits is not None for param in params)


def _is_plain(entry: TableEntry, table: TableSchema) -> bool:
    """Return whether an entry has nothing but matches of these kinds, an action, and a legal priority."""
    return (
        all(type(match) in (Exact, Lpm, Ternary) for match in entry.matches)
        and entry.choice is None
        and entry.idle_timeout_ns == 0
        and entry.note is None
        and (entry.priority > 0 if table.has_priority else entry.priority == 0)
    )


def _is_legal(match: Match, width: int) -> bool:
    """Return whether a match can be one of a key, whatever its value: else all of its shape would be."""
    match match:
        case Lpm(_, prefix_len):
            return 0 < prefix_len <= width
        case Ternary(_, mask):
            return 0 < mask < 1 << width
    return True


def _bits_of(match: Match, width: int) -> int:
    """Return the bits that the value of a match may have."""
    ones = (1 << width) - 1
    match match:
        case Lpm(_, prefix_len):
            return ones ^ ones >> prefix_len
        case Ternary(_, mask):
            return mask
    return ones


def _maker_of(match: Match) -> Callable[[int], Match]:
    """Return what makes such a match of another value."""
    match match:
        case Lpm(_, prefix_len):
            return partial(Lpm, prefix_len=prefix_len)
        case Ternary(_, mask):
            return partial(Ternary, mask=mask)
    return Exact


def _layout_of(
    values: Sequence[Message], bits: Sequence[int], update: Message
) -> tuple[struct.Struct | None, int]:
    """Return what takes the values of an update from its encoding, and the bits of that which are in none; no
    layout if the values lie there in another order.

    `bits` are those that each value may have; the update's own values are lost.
    """
    for owner in values:
        owner.value = bytes(len(owner.value))
    empty = update.SerializeToString()
    layout, end, fixed = "", 0, (1 << 8 * len(empty)) - 1
    for owner, free in zip(values, bits, strict=True):
        length = len(owner.value)
        owner.value = b"\xff" * length
        filled = update.SerializeToString()
        owner.value = bytes(length)
        start = next(at for at, octet in enumerate(empty) if octet != filled[at])
        if start < end:
            return None, 0
        layout += f"{start - end}x{length}s"
        end = start + length
        fixed ^= (free & (1 << 8 * length) - 1) << 8 * (len(empty) - end)
    return struct.Struct(f"{layout}{len(empty) - end}x"), fixed
