# SPDX-License-Identifier: Apache-2.0
"""Tables of prefixes: the longest that a key has wins.

The trie says which entry that is; the hash index of all tables finds an entry by prefix and length, for the
control plane. What a reader has found holds if no change was completed meanwhile, else it looks up again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from nicemu import hot as hot_room
from nicemu.errors import UsageError
from nicemu.hot import Int, hot
from nicemu.pcie import load_u64, store_u64

from . import trie
from .buckets import find, index_of, put, remove
from .entries import (
    COUNT,
    EIGHT,
    FULL,
    KEY,
    KIND,
    LIMBS,
    MISS,
    ONE,
    PARAMETER_WORDS,
    PRESENT,
    SIZE,
    UPDATES,
    ZERO,
    entry_at,
    hash_of,
    release,
    take,
    u64,
    updated,
    whole_head,
    write_entry,
)
from .exact import BATCH
from .memory import Memory, whole_lines
from .table import WORD_BITS, WORD_BYTES, Table, Words, pack_keys
from .trie import child_in, entry_in, longest, paint, slot_in, wipe
from .words import fence_loads, load_word, prefetch

MAX_KEY_BITS: Final = 128
_BATCH, _FOUND_BYTES, _LEVEL = u64(BATCH), u64(16), u64(trie.LEVEL_BYTES)


@hot
def find_lpm(state: Int, key: Int, limbs: Int) -> tuple[Int, Int]:
    """Return the address of the entry with the longest prefix of the `limbs` words at `key`, and its head.

    MISS and 0 are returned if there is none.
    """
    while True:
        updates = load_u64(state + UPDATES)
        entry, head = entry_and_head(state, longest(state, key, limbs))
        fence_loads()
        if load_u64(state + UPDATES) == updates:
            return entry, head


@hot
def entry_and_head(state: Int, number: Int) -> tuple[Int, Int]:
    """Return address and head of the entry of a number, plus one, that a slot names."""
    if number == ZERO:
        return MISS, ZERO
    entry = entry_at(state, number - ONE)
    return entry, whole_head(entry)


@hot
def find_lpm_batch(state: Int, keys: Int, count: Int, found: Int) -> None:
    """Look up `count` keys, as `find_batch` does in an exact table."""
    if load_word(state + LIMBS) == ONE + ONE:
        _find_batch(state, keys, count, found, ONE)
    else:
        _find_batch(state, keys, count, found, ONE + ONE)


@hot
def _find_batch(state: Int, keys: Int, count: Int, found: Int, limbs: Int) -> None:
    key_bytes = limbs * EIGHT
    done = ZERO
    while done < count:
        some = min(count - done, _BATCH)
        updates = load_u64(state + UPDATES)
        _descend(state, keys, some, found, limbs)
        for place in range(some):
            result = found + place * _FOUND_BYTES
            entry, head = entry_and_head(state, u64(load_word(result + EIGHT)))
            store_u64(result, entry)
            store_u64(result + EIGHT, head)
        fence_loads()
        if load_u64(state + UPDATES) != updates:
            for place in range(some):
                entry, head = find_lpm(state, keys + place * key_bytes, limbs)
                store_u64(found + place * _FOUND_BYTES, entry)
                store_u64(found + place * _FOUND_BYTES + EIGHT, head)
        keys += some * key_bytes
        found += some * _FOUND_BYTES
        done += some


@hot
def _descend(state: Int, keys: Int, count: Int, found: Int, limbs: Int) -> None:
    """Go down the trie with all keys, level by level; leave at `found` a word and `longest`."""
    level, align = u64(load_word(state + KIND)), load_word(state + trie.ALIGN)
    for place in range(count):
        at = slot_in(level, ZERO, keys + place * limbs * EIGHT, limbs, align)
        prefetch(at)
        store_u64(found + place * _FOUND_BYTES, at)
        store_u64(found + place * _FOUND_BYTES + EIGHT, ZERO)
    below = u64(count)
    while below != ZERO:
        below = ZERO
        level += _LEVEL
        for place in range(count):
            result = found + place * _FOUND_BYTES
            at = u64(load_word(result))
            if at != ZERO:
                slot = u64(load_u64(at))
                if entry_in(slot) != ZERO:
                    store_u64(result + EIGHT, entry_in(slot))
                if child_in(slot) != ZERO:
                    at = slot_in(level, child_in(slot) - ONE, keys + place * limbs * EIGHT, limbs, align)
                    prefetch(at)
                    store_u64(result, at)
                    below += ONE
                else:
                    store_u64(result, ZERO)
                    best = u64(load_word(result + EIGHT))
                    if best != ZERO:
                        prefetch(entry_at(state, best - ONE))


@hot
def find_lpm_key(state: Int, key: Int) -> Int:
    """Return the address of the entry with the longest prefix of the key at `key`, or MISS."""
    entry, _ = find_lpm(state, key, load_word(state + LIMBS) - ONE)
    return entry


@hot
def insert_prefix(state: Int, key: Int, action: Int, parameters: Int, now_ns: Int) -> Int:
    """Insert the prefix at `key`, its length behind its limbs; return its number, or FULL or PRESENT."""
    if load_word(state + COUNT) == load_word(state + SIZE):
        return FULL
    index, words = index_of(state), load_word(state + LIMBS)
    digest = hash_of(key, words)
    entry, _ = find(index, key, words, digest)
    if entry != MISS:
        return PRESENT
    number = take(state)
    write_entry(state, entry_at(state, number), key, action, parameters, now_ns)
    put(index, digest, number)
    paint(state, key, number)
    updated(state)
    return number


@hot
def insert_prefixes(
    state: Int, keys: Int, actions: Int, parameters: Int, count: Int, now_ns: Int, numbers: Int
) -> Int:
    """As `insert_entries` of exact tables, for prefixes."""
    key_bytes = load_word(state + LIMBS) * EIGHT
    parameter_bytes = load_word(state + PARAMETER_WORDS) * EIGHT
    for place in range(count):
        action = load_word(actions + place * EIGHT)
        given = parameters + place * parameter_bytes
        number = insert_prefix(state, keys + place * key_bytes, action, given, now_ns)
        if number >= FULL:
            return u64(place)
        store_u64(numbers + place * EIGHT, number)
    return u64(count)


@hot
def delete_prefix(state: Int, number: Int) -> None:
    """Delete a prefix."""
    key = entry_at(state, number) + KEY
    remove(index_of(state), hash_of(key, load_word(state + LIMBS)), number)
    wipe(state, key, number)
    updated(state)  # who sees the empty record sees that something has changed
    release(state, number)


class LpmTable(Table):
    """A table of prefixes of a key of at most 128 bits.

    Beside what every table has, memory for the trie: 512 KiB, and for each level min(2^depth, size) nodes at
    most, of 2056 bytes after 16 bits of the key and of 136 bytes after 24, 28 and so on: at most 134 MB and
    272 bytes an entry for IPv4, 134 MB and 3.5 kB an entry for IPv6. It is taken as nodes are needed.
    """

    def __init__(
        self, size: int, key_bits: int, parameter_words: int = 0, *, compiled: bool = hot_room.JIT
    ) -> None:
        if key_bits > MAX_KEY_BITS:
            raise UsageError(
                f"a key of {key_bits} bits was asked for; {MAX_KEY_BITS} can be had, in a TernaryTable more"
            )
        super().__init__(size, key_bits, parameter_words, 1, compiled)
        self._find = self._run(find_lpm_key)
        self._delete = self._run(delete_prefix)
        self._insert = self._run(insert_prefix)
        self._insert_many = self._run(insert_prefixes)
        self._given_length = self._given_key + u64(self.limbs * WORD_BYTES)
        self._plant()

    def _plant(self) -> None:
        """Reserve the trie, with a level of zeros behind its last."""
        strides = trie.strides_of(self.key_bits)
        described = (len(strides) + 1) * trie.LEVEL_BYTES
        depths = [sum(strides[:place]) for place in range(len(strides))]
        nodes = [min(1 << depth, self.size) for depth in depths]
        lengths = [whole_lines(count * 4) for count in nodes]
        total = sum(2 * lengths[at] + (nodes[at] << strides[at]) * WORD_BYTES for at in range(len(strides)))
        self._trie = Memory(described + total)
        free = self._trie.address + described
        for at, (stride, depth) in enumerate(zip(strides, depths, strict=True)):
            level = self._trie.address + at * trie.LEVEL_BYTES
            prefixes, freed, base = free, free + lengths[at], free + 2 * lengths[at]
            free = base + (nodes[at] << stride) * WORD_BYTES
            for word, value in (
                (trie.BASE, base),
                (trie.STRIDE_BITS, stride),
                (trie.DEPTH, depth),
                (trie.NODE_SHIFT, stride + 3),
                (trie.PREFIXES, prefixes),
                (trie.FREED, freed),
            ):
                store_u64(level + int(word), value)
        store_u64(self.state + LIMBS, self.limbs + 1)
        store_u64(self.state + trie.ALIGN, self.limbs * WORD_BITS - self.key_bits)
        store_u64(self.state + KIND, self._trie.address)

    def insert(
        self, key: int, prefix_len: int, action: int, parameters: Sequence[int] = (), now_ns: int = 0
    ) -> int:
        """Insert the first `prefix_len` bits of `key`, whose other bits are 0, and return the entry's number.

        Raises: ResourceError if the table is full; UsageError if the prefix has an entry, or nothing fits.
        """
        if not 0 <= prefix_len <= self.key_bits or key & (1 << self.key_bits - prefix_len) - 1:
            raise UsageError(
                f"{key:#x}/{prefix_len} is no prefix of {self.key_bits} bits with zeros behind its length"
            )
        self._give_key(key)
        self._give_parameters(action, parameters)
        self._lay(self._given_length, [prefix_len])
        number = int(
            self._insert(self.state, self._given_key, u64(action), self._given_parameters, u64(now_ns))
        )
        if number == FULL:
            self._refuse_full()
        if number == PRESENT:
            raise UsageError(f"the prefix {key:#x}/{prefix_len} has an entry already; modify it")
        return number

    def insert_many(
        self, keys: Words, prefix_lens: Words, actions: Words, parameters: Words, now_ns: int = 0
    ) -> Words:
        """Insert entries and return their numbers, or none of them where one cannot be.

        All are uint64, as `insert_many` of exact tables takes them; `prefix_lens` has shape (n,).
        Raises: as `insert`.
        """
        self._check_keys(keys)
        if prefix_lens.shape != (len(keys),) or (prefix_lens > u64(self.key_bits)).any():
            raise UsageError(f"{len(keys)} prefix lengths of at most {self.key_bits} are expected")
        if (keys & self._behind()[prefix_lens.astype(np.int64)]).any():
            raise UsageError("some keys have bits set behind their prefix length")
        return self._insert_rows(np.column_stack((keys, prefix_lens)), actions, parameters, now_ns)

    def close(self) -> None:
        """Give the memory back."""
        super().close()
        self._trie.close()

    def _behind(self) -> Words:
        """Return the bits behind a prefix of each length, in limbs."""
        return pack_keys(
            [(1 << self.key_bits - length) - 1 for length in range(self.key_bits + 1)], self.limbs
        )
