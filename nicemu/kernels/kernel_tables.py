# SPDX-License-Identifier: Apache-2.0
"""The entries of a program's tables as kernels look them up, kept equal to the engine's tables."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nicemu.lookup import BYTES, HIT_NS, PACKETS, ExactTable, LpmTable, Table, TernaryTable
from nicemu.pcie import store_u64
from nicemu.pipeline import (
    Choice,
    Exact,
    Lpm,
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
_VERSION = (1 << 32) - 2
"""The bits of a head that count its changes; where the lowest one is set, there is one under way."""
Words = np.ndarray[Any, np.dtype[np.uint64]]


class KernelTable:
    """One table with keys: the records that lookups find, and the default action's record."""

    def __init__(self, program: Program, spec: ir.Table, compiled: bool = True) -> None:
        self.spec = spec
        self.settle: Callable[[KernelTable], None] = lambda table: None
        """Has a kernel see where the default action lies."""
        self._actions = {
            action.name: (number, [width_of(item.type) for item in parameters_of(action)])
            for number, action in enumerate(program.actions)
        }
        self._records: dict[int, int] = {}
        """The number of each row's record, by the row's number."""
        self._gathered: dict[int, tuple[int, int]] = {}
        """What records, by their numbers, have counted that their rows know of: packets and bytes."""
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
        self._data_words = data_words(program, spec)
        self.choices = KernelChoices(self._call_in_words, self._data_words)
        self._chosen: dict[int, Choice] = {}
        """What entries, by their numbers, have taken of `choices`."""
        self._default: _DefaultRecord | None = None

    @property
    def state(self) -> int:
        """The address that lookups are given, 0 for a table without keys."""
        return int(self.table.state) if self.table is not None else 0

    def insert(self, rows: Sequence[Row]) -> None:
        """Add entries that the engine's table has taken."""
        if isinstance(self.table, ExactTable | LpmTable) and len(rows) > 1:
            records = self._insert_many(self.table, rows)
        else:
            records = [self._insert(row.entry, self._call_of(row), row.last_hit_ns) for row in rows]
        self._records.update(zip([row.number for row in rows], records, strict=True))
        if self._meter_word is None and not self.spec.profile:
            return
        for row, number in zip(rows, records, strict=True):
            if self._meter_word is not None:
                self._meters[number] = row.meter
            if row.entry.choice is not None:
                self._chosen[number] = row.entry.choice

    def hold(self, entry: TableEntry) -> int:
        """Add an entry without an action; return its number."""
        return self._insert(entry, (0, 0), 0)

    def forget(self, number: int) -> None:
        """Remove an entry that `hold` has added."""
        assert self.table is not None
        self.table.delete(number)

    def refill(self, rows: Sequence[Row]) -> None:
        """Hold these entries alone, in this order."""
        for number in self._records.values():
            self._remove(number)
        self._records = {}
        self.insert(rows)

    def modify(self, row: Row) -> None:
        """Give an entry another action."""
        assert self.table is not None
        number, before, choice = self._records[row.number], None, row.entry.choice
        action, data = self._call_of(row)
        if choice is not None:
            before, self._chosen[number] = self._chosen[number], choice
        self.table.modify(number, action, self._words_of(data))
        if before is not None:
            self.choices.release(before)

    def delete(self, row: Row) -> None:
        """Remove an entry; its row has what was counted."""
        self.gather(row)
        self._remove(self._records.pop(row.number))

    def _remove(self, number: int) -> None:
        assert self.table is not None
        self.table.delete(number)
        self._gathered.pop(number, None)
        if number in self._chosen:
            self.choices.release(self._chosen.pop(number))

    @property
    def default(self) -> int:
        """The address of the default entry's record, 0 as long as there is none."""
        return self._default.address if self._default is not None else 0

    def set_default(self, row: Row) -> None:
        """Choose the default entry."""
        number, data = self._call_of(row)
        if self._default is None:
            self._default = _DefaultRecord(self.parameters_at, self.words)
        if self._meter_word is not None:
            self._default.keep(row.meter)
        self._default.write(number, self._words_of(data))
        self.settle(self)

    def gather(self, row: Row) -> None:
        """Give a row the packets that were counted for it here."""
        if self._default is not None and row.number == 0:
            self._default.gather(row)
        number = self._records.get(row.number)
        if self.table is None or number is None:
            return
        found_packets, found_bytes, hit_ns = self.table.counters(number)
        packets, length_bytes = self._gathered.get(number, (0, 0))
        if found_packets != packets:  # a kernel may be counting: its counters are never written
            self._gathered[number] = found_packets, found_bytes
            row.hits += found_packets - packets
            row.bytes += found_bytes - length_bytes
            row.last_hit_ns = max(row.last_hit_ns, hit_ns)

    def close(self) -> None:
        """Give the memory back."""
        if self.table is not None:
            self.table.close()

    def _call_of(self, row: Row) -> tuple[int, int]:
        """Return the number of a row's action, and what its entry has behind the key, as one number."""
        choice = row.entry.choice
        if choice is None:
            action, data = self._call(row.entry.action, row.entry.parameters)
        else:
            action, data = len(self._actions), self.choices.take(choice)
        if self._meter_word is not None:
            data |= row.meter.address << 64 * self._meter_word
        return action, data

    def _call(self, action: str, parameters: Sequence[int]) -> tuple[int, int]:
        """Return an action's number, and its data as one number."""
        number, widths = self._actions[action]
        if len(widths) == 1:
            return number, parameters[0]
        data = first = 0
        for parameter, width in zip(parameters, widths, strict=True):
            data |= parameter << first
            first += width
        return number, data

    def _call_in_words(self, action: str, parameters: Sequence[int]) -> tuple[int, list[int]]:
        number, data = self._call(action, parameters)
        return number, [data >> 64 * word & _WORD for word in range(self._data_words)]

    def _words_of(self, data: int) -> list[int]:
        return [data >> 64 * word & _WORD for word in range(self.words)]

    def _ranges(self) -> list[tuple[int, int]]:
        """Return where the range fields lie in the key: offset from its lowest bit, and width."""
        found, offset = [], key_bits(self.spec)
        for key, width in zip(self.spec.keys, self._widths, strict=True):
            offset -= width
            if key.match_kind is ir.MatchKind.RANGE:
                found.append((offset, width))
        return found

    def _insert_many(self, table: ExactTable | LpmTable, rows: Sequence[Row]) -> list[int]:
        """Add entries of exact keys, or of one lpm key, and return the numbers of their records."""
        entries = [row.entry for row in rows]
        keys = _rows_of(self._keys_of(entries), table.limbs)[:, ::-1]
        numbers, data = self._calls_of(rows)
        given = keys, np.array(numbers, np.uint64), data
        if isinstance(table, ExactTable):
            return list(table.insert_many(*given).tolist())
        lengths = [entry.matches[0].prefix_len for entry in entries]  # type: ignore[union-attr]
        return list(table.insert_many(given[0], np.array(lengths, np.uint64), *given[1:]).tolist())

    def _keys_of(self, entries: Sequence[TableEntry]) -> list[int]:
        """Return the key of each entry, whose matches have a value each, as one number."""
        if len(self._widths) == 1:
            return [entry.matches[0].value for entry in entries]  # type: ignore[union-attr,misc]
        values = []
        for entry in entries:
            value = 0
            for match, width in zip(entry.matches, self._widths, strict=True):
                value = value << width | match.value  # type: ignore[union-attr,operator]
            values.append(value)
        return values

    def _calls_of(self, rows: Sequence[Row]) -> tuple[Sequence[int], Words]:
        """Return the `_call_of` each row, numbers apart and data in words; most rows have one action."""
        action = rows[0].entry.action
        if self._meter_word is not None or any(
            row.entry.action != action or row.entry.choice is not None for row in rows
        ):
            numbers, data = zip(*map(self._call_of, rows), strict=True)
            return numbers, _rows_of(data, self.words)
        number, widths = self._actions[action]
        words = np.zeros((len(rows), self.words), np.uint64)
        first = 0
        for width, values in zip(
            widths, zip(*[row.entry.parameters for row in rows], strict=True), strict=True
        ):
            if not width:
                continue
            for value in _rows_of(values, -(-width // 64)).T if width > 64 else [np.array(values, np.uint64)]:
                word, shift = divmod(first, 64)
                words[:, word] |= value << np.uint64(shift)
                if shift and word + 1 < self.words:
                    words[:, word + 1] |= value >> np.uint64(64 - shift)
                first += 64
            first += width - 64 * -(-width // 64)
        return [number] * len(rows), words

    def _insert(self, entry: TableEntry, given: tuple[int, int], now_ns: int) -> int:
        call = given[0], self._words_of(given[1])
        value = mask = 0
        bounds: list[tuple[int, int]] = []
        rank = 0  # of the lengths of prefixes: that of the first key counts most
        for match, width in zip(entry.matches, self._widths, strict=True):
            ones = (1 << width) - 1
            part, bits = 0, 0
            match match:
                case Exact(number):
                    part, bits = number, ones
                case Ternary(number, bits):
                    part = number
                case Lpm(number, length):
                    part, bits = number, ones ^ ones >> length
                    rank = rank * (width + 1) + length
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
        return self.table.insert(value, mask, entry.priority or 1 + rank, *call, bounds, now_ns)


class _DefaultRecord:
    """The record of a default entry, laid out as those of a table, and changed as those are: in its place.

    Its head is odd while it is written, so who reads then, reads again.
    """

    def __init__(self, parameters_at: int, words: int) -> None:
        self._parameters_at = parameters_at
        self._words = (ctypes.c_uint64 * (parameters_at // 8 + max(words, 1)))()
        self._meters: list[Meter] = []
        self._packets = self._bytes = 0
        """What the entry's row knows of."""

    @property
    def address(self) -> int:
        """Where it lies, as long as the table is there."""
        return ctypes.addressof(self._words)

    def keep(self, meter: Meter) -> None:
        """Hold a meter, and the one before, in which packets may still be marked."""
        self._meters = [*self._meters[-1:], meter]

    def write(self, action: int, data: Sequence[int]) -> None:
        """Name another action, with other data."""
        version = self._words[0] & _VERSION
        store_u64(self.address, self._words[0] | 1)
        for place, word in enumerate(data):
            store_u64(self.address + self._parameters_at + 8 * place, word)
        store_u64(self.address, action << 32 | version + 2 & _VERSION)

    def gather(self, row: Row) -> None:
        """Give the row what was counted here since; a kernel may be counting, so nothing is written here."""
        packets, length_bytes, hit_ns = (self._words[int(at) // 8] for at in (PACKETS, BYTES, HIT_NS))
        row.hits += packets - self._packets
        row.bytes += length_bytes - self._bytes
        row.last_hit_ns = max(row.last_hit_ns, hit_ns)
        self._packets, self._bytes = packets, length_bytes


def _rows_of(numbers: Sequence[int], words: int) -> Words:
    """Return numbers as rows of so many 64-bit words, the least significant first."""
    joined = b"".join([number.to_bytes(8 * words, "little") for number in numbers])
    return np.ndarray((len(numbers), words), "<u8", joined)
