# SPDX-License-Identifier: Apache-2.0
"""Exact tables: an entry for each key.

`find_batch` looks up many keys in three steps, each for all of them before the next one, so that the memory
of one step is fetched during the step before: `hash_of` and `prefetch_bucket`; `prefetch_entry`; `find`.
Tables that fit into caches do without the second. Kernels take such steps packet by packet (`ahead.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nicemu import hot as hot_room
from nicemu.errors import UsageError
from nicemu.hot import Int, hot
from nicemu.pcie import store_u64

from .buckets import find, index_of, prefetch_bucket, prefetch_entry, put, remove
from .entries import (
    COUNT,
    EIGHT,
    FULL,
    KEY,
    LIMBS,
    MISS,
    ONE,
    PARAMETER_WORDS,
    PRESENT,
    SIZE,
    TWO,
    ZERO,
    entry_at,
    hash_of,
    release,
    take,
    u64,
    write_entry,
)
from .table import Table, Words
from .words import load_word

BATCH: Final = 32
"""Lookups that go together through the steps of a batch."""
_BATCH = u64(BATCH)
_FOUND_BYTES = u64(16)


@hot
def find_batch(state: Int, keys: Int, count: Int, found: Int) -> None:
    """Look up `count` keys, one after the other in limbs at `keys`.

    Each leaves two words at `found`: the address of its entry, and the entry's head; MISS and 0 if there is
    none.
    """
    limbs = load_word(state + LIMBS)
    if limbs == ONE:  # one number for each, so that the loops over limbs are none
        _find_batch(state, keys, count, found, ONE)
    elif limbs == TWO:
        _find_batch(state, keys, count, found, TWO)
    else:
        _find_batch(state, keys, count, found, limbs)


@hot
def _find_batch(state: Int, keys: Int, count: Int, found: Int, limbs: Int) -> None:
    index = index_of(state)
    key_bytes = limbs * EIGHT
    done = ZERO
    while done < count:
        end = min(done + _BATCH, count)
        for place in range(done, end):
            digest = hash_of(keys + place * key_bytes, limbs)
            prefetch_bucket(index, digest)
            store_u64(found + place * _FOUND_BYTES, digest)
        for place in range(done, end):
            prefetch_entry(index, load_word(found + place * _FOUND_BYTES))
        for place in range(done, end):
            result = found + place * _FOUND_BYTES
            entry, head = find(index, keys + place * key_bytes, limbs, load_word(result))
            store_u64(result, entry)
            store_u64(result + EIGHT, head)
        done = end


@hot
def find_key(state: Int, key: Int) -> Int:
    """Return the address of the entry of the key at `key`, or MISS."""
    limbs = load_word(state + LIMBS)
    entry, _ = find(index_of(state), key, limbs, hash_of(key, limbs))
    return entry


@hot
def insert_entry(state: Int, key: Int, action: Int, parameters: Int, now_ns: Int) -> Int:
    """Insert an entry and return its number; PRESENT or FULL, and nothing is changed, if that cannot be."""
    limbs = load_word(state + LIMBS)
    index, digest = index_of(state), hash_of(key, limbs)
    entry, _ = find(index, key, limbs, digest)
    if entry != MISS:
        return PRESENT
    if load_word(state + COUNT) == load_word(state + SIZE):
        return FULL
    number = take(state)
    write_entry(state, entry_at(state, number), key, action, parameters, now_ns)
    put(index, digest, number)
    return number


@hot
def insert_entries(
    state: Int, keys: Int, actions: Int, parameters: Int, count: Int, now_ns: Int, numbers: Int
) -> Int:
    """Insert `count` entries, leave their numbers, in 64-bit words, at `numbers`, return how many went in."""
    key_bytes = load_word(state + LIMBS) * EIGHT
    parameter_bytes = load_word(state + PARAMETER_WORDS) * EIGHT
    for place in range(count):
        number = insert_entry(
            state,
            keys + place * key_bytes,
            load_word(actions + place * EIGHT),
            parameters + place * parameter_bytes,
            now_ns,
        )
        if number >= FULL:
            return u64(place)
        store_u64(numbers + place * EIGHT, number)
    return u64(count)


@hot
def delete_entry(state: Int, number: Int) -> None:
    """Delete an entry."""
    digest = hash_of(entry_at(state, number) + KEY, load_word(state + LIMBS))
    remove(index_of(state), digest, number)
    release(state, number)


class ExactTable(Table):
    """A table with an entry for each key."""

    def __init__(
        self, size: int, key_bits: int, parameter_words: int = 0, *, compiled: bool = hot_room.JIT
    ) -> None:
        super().__init__(size, key_bits, parameter_words, 0, compiled)
        self._find = self._run(find_key)
        self._delete = self._run(delete_entry)
        self._insert = self._run(insert_entry)
        self._insert_many = self._run(insert_entries)

    def insert(self, key: int, action: int, parameters: Sequence[int] = (), now_ns: int = 0) -> int:
        """Insert an entry and return its number.

        Raises: ResourceError if the table is full; UsageError if the key has an entry, or nothing fits.
        """
        self._give_key(key)
        self._give_parameters(action, parameters)
        number = int(
            self._insert(self.state, self._given_key, u64(action), self._given_parameters, u64(now_ns))
        )
        if number == FULL:
            self._refuse_full()
        if number == PRESENT:
            raise UsageError(f"the key {key:#x} has an entry already; modify it")
        return number

    def insert_many(self, keys: Words, actions: Words, parameters: Words, now_ns: int = 0) -> Words:
        """Insert entries and return their numbers, or none of them where one cannot be.

        All are uint64: `keys` in limbs, shape (n, limbs); `actions` (n,); `parameters` (n, parameter_words).
        Raises: as `insert`.
        """
        self._check_keys(keys)
        return self._insert_rows(keys, actions, parameters, now_ns)
