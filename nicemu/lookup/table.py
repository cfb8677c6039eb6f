# SPDX-License-Identifier: Apache-2.0
"""What the tables of all match kinds have in common: their memory, and their entries by number."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar

import numpy as np

from nicemu import hot
from nicemu.errors import ResourceError, UsageError
from nicemu.pcie import load_u64, store_u64

from . import entries
from .buckets import MAX_SIZE, bucket_count, tag_mask
from .entries import NO_ACTION, STATE_BYTES, u64, write_action
from .memory import LINE_BYTES, Memory, whole_lines

Function = TypeVar("Function", bound=Callable[..., Any])
Words = np.ndarray[Any, np.dtype[np.uint64]]
WORD_BITS: Final = 64
WORD_BYTES: Final = 8
_LARGEST = (1 << WORD_BITS) - 1
_interpreted = cache(hot.interpreted)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a record holds; `parameters` in 64-bit words, `hit_ns` the time of its last hit or insertion."""

    key: int
    action: int
    parameters: tuple[int, ...]
    packets: int
    bytes: int
    hit_ns: int


class Table:
    """The entries of one table, by number, and the `state` that lookups are given: one address.

    A key is a number of `key_bits` bits, the table's fields in order, the first in the highest bits; in
    memory it is that number in 64-bit limbs, the most significant first. An entry has an action, a number,
    and up to `parameter_words` words of action data. `size` entries are the most; all memory but what a match
    kind says of its own is reserved here and taken as it is touched: 12 to 20 bytes an entry for the index
    and the list of free records, and a record.

    One thread at a time changes a table; others may look up in it meanwhile. `compiled=False` runs the source
    as plain Python. The memory lives until `close`, and nobody may look up after it.
    """

    _find: Callable[[Any, Any], Any]
    """From state and address of a key to the address of the entry that wins, or MISS."""
    _delete: Callable[[Any, Any], None]
    """Deletes, from state and number."""
    _insert_many: Callable[[Any, Any, Any, Any, Any, Any, Any], Any]
    """As `insert_entries` of exact tables."""

    def __init__(
        self, size: int, key_bits: int, parameter_words: int, added_words: int, compiled: bool
    ) -> None:
        if not 1 <= size <= MAX_SIZE:
            raise UsageError(f"a table of {size} entries was asked for; 1 to {MAX_SIZE} can be had")
        if key_bits < 1 or parameter_words < 0:
            raise UsageError(
                f"a key of {key_bits} bits and {parameter_words} words of parameters make no entry"
            )
        self.size = size
        self.key_bits = key_bits
        self.limbs = -(-key_bits // WORD_BITS)
        self.parameter_words = parameter_words
        self.parameters_at = int(entries.KEY) + (self.limbs + added_words) * WORD_BYTES
        self.stride = whole_lines(self.parameters_at + parameter_words * WORD_BYTES)
        self._compiled = compiled
        self._reserve()
        self._write_action = self._run(write_action)

    def _reserve(self) -> None:
        buckets = bucket_count(self.size)
        scratch_bytes = whole_lines(self.stride)
        freed_bytes = whole_lines(self.size * 4)
        bucket_bytes = buckets * LINE_BYTES
        lengths = [STATE_BYTES, scratch_bytes, freed_bytes, bucket_bytes, self.size * self.stride]
        self._memory = Memory(sum(lengths))
        starts = [self._memory.address + sum(lengths[:place]) for place in range(len(lengths))]
        self.state = u64(starts[0])
        self._scratch, self._records = starts[1], starts[4]
        self._given_key = u64(self._scratch) + entries.KEY
        self._given_parameters = u64(self._scratch + self.parameters_at)
        for word, value in (
            (entries.FREED, starts[2]),
            (entries.BUCKETS, starts[3]),
            (entries.ENTRIES, starts[4]),
            (entries.BUCKET_MASK, buckets - 1),
            (entries.TAG_MASK, tag_mask(self.size)),
            (entries.STRIDE, self.stride),
            (entries.LIMBS, self.limbs),
            (entries.PARAMETERS_AT, self.parameters_at),
            (entries.PARAMETER_WORDS, self.parameter_words),
            (entries.SIZE, self.size),
        ):
            store_u64(self.state + word, value)

    def modify(self, number: int, action: int, parameters: Sequence[int] = ()) -> None:
        """Give an entry another action and parameters; it keeps its counters.

        Raises: UsageError if there is no such entry, or nothing that fits.
        """
        record = self._record(number)
        self._give_parameters(action, parameters)
        self._write_action(self.state, u64(record), u64(action), self._given_parameters)

    def _insert_rows(self, keys: Words, actions: Words, parameters: Words, now_ns: int) -> Words:
        """Insert entries whose keys are as records have them, all or none, and return their numbers."""
        count = len(keys)
        expected = ((count, load_u64(self.state + entries.LIMBS)), (count,), (count, self.parameter_words))
        given = [np.ascontiguousarray(array, np.uint64) for array in (keys, actions, parameters)]
        shapes = tuple(array.shape for array in given)
        if shapes != expected:
            raise UsageError(f"arrays of shapes {shapes} were given, not {expected}")
        if (given[1] >= u64(NO_ACTION)).any():
            raise UsageError(f"some actions are above {NO_ACTION - 1:#x}")
        self._refuse_full(count)
        numbers = np.zeros(count, np.uint64)
        at_keys, at_actions, at_parameters, at_numbers = (u64(a.ctypes.data) for a in (*given, numbers))
        done = int(
            self._insert_many(
                self.state, at_keys, at_actions, at_parameters, u64(count), u64(now_ns), at_numbers
            )
        )
        if done < count:
            for number in numbers[:done]:
                self._delete(self.state, number)
            raise UsageError(
                f"row {done}: the key {_key_of(given[0][done]):#x} has an entry already; modify it"
            )
        return numbers

    def _check_keys(self, keys: Words) -> None:
        if keys.ndim != 2 or keys.shape[1] != self.limbs:
            raise UsageError(f"keys of shape {keys.shape} were given; they are rows of {self.limbs} limbs")
        free_bits = self.limbs * WORD_BITS - self.key_bits
        if free_bits and (keys[:, 0] >> u64(WORD_BITS - free_bits)).any():
            raise UsageError(f"some keys do not fit into {self.key_bits} bits")

    def delete(self, number: int) -> None:
        """Delete an entry. Raises: UsageError if there is none of this number."""
        self._record(number)
        self._delete(self.state, u64(number))

    def find(self, key: int) -> int | None:
        """Return the number of the entry that wins for a key; nothing is counted."""
        self._give_key(key)
        return self.number_at(int(self._find(self.state, self._given_key)))

    def number_at(self, record: int) -> int | None:
        """Return the number of the entry at an address that a lookup has found; None for MISS."""
        return (record - self._records) // self.stride if record else None

    def entry(self, number: int) -> Entry:
        """Return an entry. Raises: UsageError if there is none of this number."""
        record = self._record(number)
        head, *words = (ctypes.c_uint64 * (self.stride // WORD_BYTES)).from_address(record)
        packets, length_bytes, hit_ns, *words = words
        key = sum(limb << WORD_BITS * place for place, limb in enumerate(reversed(words[: self.limbs])))
        first = (self.parameters_at - int(entries.KEY)) // WORD_BYTES
        parameters = tuple(words[first : first + self.parameter_words])
        return Entry(key, head >> 32, parameters, packets, length_bytes, hit_ns)

    def counters(self, number: int) -> tuple[int, int, int]:
        """Return packets, bytes, and the time of the last hit of an entry. Raises: as `entry`."""
        record = self._record(number)
        packets, length_bytes, hit_ns = (ctypes.c_uint64 * 3).from_address(record + int(entries.PACKETS))
        return packets, length_bytes, hit_ns

    def set_counters(self, number: int, packets: int, length_bytes: int) -> None:
        """Set what an entry has counted. Raises: UsageError if there is none of this number."""
        record = self._record(number)
        store_u64(record + int(entries.PACKETS), packets)
        store_u64(record + int(entries.BYTES), length_bytes)

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, in no order of time."""
        with self._column(0) as heads:
            return list(map(int, np.flatnonzero(heads >> u64(32) != NO_ACTION)))

    def idle(self, before_ns: int) -> list[int]:
        """Return the numbers of entries that were last hit, or inserted, before a time."""
        with self._column(0) as heads, self._column(int(entries.HIT_NS)) as hits:
            return list(map(int, np.flatnonzero((heads >> u64(32) != NO_ACTION) & (hits < u64(before_ns)))))

    def __len__(self) -> int:
        return int(load_u64(self.state + entries.COUNT))

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()

    def _run(self, function: Function) -> Function:
        """Return a hot function in the form that this table runs."""
        return function if self._compiled else _interpreted(function)

    def _record(self, number: int) -> int:
        if 0 <= number < load_u64(self.state + entries.FRESH):
            record = self._records + number * self.stride
            if load_u64(record) >> 32 != NO_ACTION:
                return record
        raise UsageError(f"the table has no entry {number}; insert() says what the number of an entry is")

    def _refuse_full(self, wanted: int = 1) -> None:
        if len(self) + wanted > self.size:
            raise ResourceError(
                f"the table holds {len(self)} of {self.size} entries and takes no {wanted} more; delete "
                "some, or declare a larger size"
            )

    def _give_key(self, key: int) -> None:
        """Lay a key where hot functions are told to take it from."""
        if not 0 <= key < 1 << self.key_bits:
            raise UsageError(f"the key {key:#x} does not fit into {self.key_bits} bits")
        self._lay(self._given_key, limbs_of(key, self.limbs))

    def _give_parameters(self, action: int, parameters: Sequence[int]) -> None:
        self._lay(self._given_parameters, self._checked(action, parameters))

    def _checked(self, action: int, parameters: Sequence[int]) -> Sequence[int]:
        """Return the parameters as they lie in a record, zeros behind them."""
        if not 0 <= action < NO_ACTION:
            raise UsageError(f"action {action} was given; 0 to {NO_ACTION - 1:#x} are actions")
        missing = self.parameter_words - len(parameters)
        if missing < 0 or any(not 0 <= word <= _LARGEST for word in parameters):
            raise UsageError(
                f"the parameters {list(parameters)} are no {self.parameter_words} words of {WORD_BITS} bits"
            )
        return (*parameters, *(0,) * missing)

    @staticmethod
    def _lay(address: int | np.uint64, words: Sequence[int]) -> None:
        (ctypes.c_uint64 * len(words)).from_address(int(address))[:] = words  # type: ignore[call-overload]

    @contextmanager
    def _column(self, offset: int) -> Iterator[Words]:
        """Give the words at an offset of all records that were ever taken."""
        count = load_u64(self.state + entries.FRESH)
        start = self._records - self._memory.address + offset
        with self._memory.view as view:
            yield np.ndarray((count,), np.uint64, view, start, (self.stride,))


def limbs_of(key: int, count: int) -> list[int]:
    """Return a number as 64-bit limbs, the most significant first."""
    return [key >> WORD_BITS * place & _LARGEST for place in reversed(range(count))]


def _key_of(limbs: Words) -> int:
    return int.from_bytes(limbs.astype(">u8").tobytes(), "big")


def pack_keys(keys: Sequence[int], count: int) -> Words:
    """Return keys as lookups take them: uint64, shape (len(keys), count)."""
    packed = [limb for key in keys for limb in limbs_of(key, count)]
    return np.array(packed, np.uint64).reshape(len(keys), count)
