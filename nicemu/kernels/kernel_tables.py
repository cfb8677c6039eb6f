# SPDX-License-Identifier: Apache-2.0
"""The entries of a program's tables as kernels look them up, kept equal to the engine's tables."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from nicemu.lookup import ExactTable, LpmTable, Table, TernaryTable
from nicemu.pipeline import (
    Choice,
    Exact,
    Lpm,
    Match,
    Meter,
    Optional,
    Program,
    Range,
    Row,
    TableEntry,
    Ternary,
    ir,
    width_of,
)

from .kernel_choices import KernelChoices
from .parts import find_part
from .table_keys import data_words, entry_words, key_bits, meter_word, parameters_of

_WORD = (1 << 64) - 1


class KernelTable:
    """One table with keys: the records that lookups find, and the default action's record."""

    def __init__(self, program: Program, spec: ir.Table, compiled: bool = True) -> None:
        self.spec = spec
        self.settle: Callable[[KernelTable], None] = lambda table: None
        """Has a kernel see where the default action lies."""
        self._actions = {action.name: action for action in program.actions}
        self._numbers = {action.name: number for number, action in enumerate(program.actions)}
        self._rows: dict[tuple[tuple[Match, ...], int], int] = {}
        self._widths = [width_of(key.expression.type) for key in spec.keys]
        self._meter_word = meter_word(program, spec) if spec.meter else None
        self.words = entry_words(program, spec)
        self._meters: dict[int, Meter] = {}
        """The meters of entries by their numbers; they stay as long as a packet may find them."""
        self.table: Table | None = None
        if spec.keys:
            bits = key_bits(spec)
            kind = find_part(spec).kind
            if kind == "exact":
                self.table = ExactTable(spec.size, bits, self.words, compiled=compiled)
            elif kind == "lpm":
                self.table = LpmTable(spec.size, bits, self.words, compiled=compiled)
            else:
                ranges = self._ranges()
                self.table = TernaryTable(spec.size, bits, self.words, ranges=ranges, compiled=compiled)
        self.parameters_at = self.table.parameters_at if self.table is not None else 64
        self.choices = KernelChoices(self._call, data_words(program, spec))
        self._chosen: dict[int, Choice] = {}
        """What entries, by their numbers, have taken of `choices`."""
        self._defaults: list[ctypes.Array[ctypes.c_uint64]] = []
        self.default = 0

    @property
    def state(self) -> int:
        """The address that lookups are given, 0 for a table without keys."""
        return int(self.table.state) if self.table is not None else 0

    def insert(self, row: Row) -> None:
        """Add an entry that the engine's table has taken."""
        entry = row.entry
        number = self._insert(entry, self._call_of(row), row.last_hit_ns)
        if self._meter_word is not None:
            self._meters[number] = row.meter
        if entry.choice is not None:
            self._chosen[number] = entry.choice
        self._rows[entry.matches, entry.priority] = number

    def hold(self, entry: TableEntry) -> int:
        """Add an entry without an action; return its number."""
        return self._insert(entry, (0, []), 0)

    def forget(self, number: int) -> None:
        """Remove an entry that `hold` has added."""
        assert self.table is not None
        self.table.delete(number)

    def refill(self, rows: Sequence[Row]) -> None:
        """Hold these entries alone, in this order."""
        for number in self._rows.values():
            self._remove(number)
        self._rows = {}
        for row in rows:
            self.insert(row)

    def modify(self, row: Row) -> None:
        """Give an entry another action."""
        assert self.table is not None
        entry = row.entry
        number, before = self._rows[entry.matches, entry.priority], None
        action, data = self._call_of(row)
        if entry.choice is not None:
            before, self._chosen[number] = self._chosen[number], entry.choice
        self.table.modify(number, action, data)
        if before is not None:
            self.choices.release(before)

    def delete(self, row: Row) -> None:
        """Remove an entry; its row has what was counted."""
        self.gather(row)
        self._remove(self._rows.pop((row.entry.matches, row.entry.priority)))

    def _remove(self, number: int) -> None:
        assert self.table is not None
        self.table.delete(number)
        if number in self._chosen:
            self.choices.release(self._chosen.pop(number))

    def set_default(self, call: ir.ActionCall) -> None:
        """Choose the default action. The record of the one before stays, as a packet may still read it."""
        action, data = self._call(call.action, call.parameters)
        words = self.parameters_at // 8 + max(self.words, 1)
        record = (ctypes.c_uint64 * words)()
        record[0] = action << 32
        record[self.parameters_at // 8 : self.parameters_at // 8 + len(data)] = data  # type: ignore[assignment]
        self._defaults = [*self._defaults[-1:], record]
        self.default = ctypes.addressof(record)
        self.settle(self)

    def gather(self, row: Row) -> None:
        """Give a row the packets that were counted for it here."""
        number = self._rows.get((row.entry.matches, row.entry.priority))
        if self.table is None or number is None:
            return
        counted = self.table.entry(number)
        if counted.packets:
            self.table.set_counters(number, 0, 0)
            row.hits += counted.packets
            row.bytes += counted.bytes
            row.last_hit_ns = max(row.last_hit_ns, counted.hit_ns)

    def close(self) -> None:
        """Give the memory back."""
        if self.table is not None:
            self.table.close()

    def _call_of(self, row: Row) -> tuple[int, list[int]]:
        """Return the number of a row's action, and all words of its entry."""
        choice = row.entry.choice
        if choice is None:
            action, data = self._call(row.entry.action, row.entry.parameters)
        else:
            action, data = len(self._actions), [self.choices.take(choice)]
        if self._meter_word is not None:
            data = [*data, *[0] * (self._meter_word - len(data)), row.meter.address]
        return action, data

    def _call(self, action: str, parameters: Sequence[int]) -> tuple[int, list[int]]:
        """Return an action's number, and its data in words."""
        data = first = 0
        for item, number in zip(parameters_of(self._actions[action]), parameters, strict=True):
            data |= number << first
            first += width_of(item.type)
        return self._numbers[action], [data >> 64 * word & _WORD for word in range(-(-first // 64))]

    def _ranges(self) -> list[tuple[int, int]]:
        """Return where the range fields lie in the key: offset from its lowest bit, and width."""
        found, offset = [], key_bits(self.spec)
        for key, width in zip(self.spec.keys, self._widths, strict=True):
            offset -= width
            if key.match_kind is ir.MatchKind.RANGE:
                found.append((offset, width))
        return found

    def _insert(self, entry: TableEntry, call: tuple[int, list[int]], now_ns: int) -> int:
        value = mask = 0
        bounds: list[tuple[int, int]] = []
        priority = entry.priority
        for match, width in zip(entry.matches, self._widths, strict=True):
            ones = (1 << width) - 1
            part, bits = 0, 0
            match match:
                case Exact(number):
                    part, bits = number, ones
                case Ternary(number, given):
                    part, bits = number, given
                case Lpm(number, length):
                    part, bits = number, ones ^ ones >> length
                    priority = priority or 1 + length
                case Optional(maybe):
                    part, bits = (maybe, ones) if maybe is not None else (0, 0)
                case Range(low, high):
                    bounds.append((low, high))
            value, mask = value << width | part, mask << width | bits
        if isinstance(self.table, LpmTable):
            return self.table.insert(value, mask.bit_count(), *call, now_ns)
        if isinstance(self.table, ExactTable):
            return self.table.insert(value, *call, now_ns)
        assert isinstance(self.table, TernaryTable)
        return self.table.insert(value, mask, priority, *call, bounds, now_ns)
