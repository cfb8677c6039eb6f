# SPDX-License-Identifier: Apache-2.0
"""Which record holds a key: a hash index of 64-byte buckets, each 15 slots and a count of what overflowed.

A slot is 32 bits: a mark that it is taken, some bits of the key's hash, the number of the record; a lookup
compares all of a bucket at once, so it seldom looks at a record in vain, and seldom guesses wrong how far to
search. A key whose bucket is full goes into the next one with a free slot, and every bucket that it had to
pass counts it; where that count is 0 no search goes on, nor behind the last bucket. So nothing is left behind
by what was removed, nothing moves, and a change is published by one 32-bit store: a reader finds a key or
does not. Buckets are at most 8/15 full. A key stays where it was put when room comes nearer to its home.
Source of the arrangement: N. Bronson and X. Shi, "Open-sourcing F14 for faster, more memory-efficient hash
tables" (Facebook Engineering, 2019).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from nicemu.hot import Int, hot
from nicemu.pcie import load_u32, store_u32

from .entries import (
    BUCKET_MASK,
    BUCKETS,
    EIGHT,
    ENTRIES,
    FOUR,
    KEY,
    MISS,
    ONE,
    RETIRED,
    STRIDE,
    TAG_MASK,
    ZERO,
    same_masked,
    same_words,
    u64,
    whole_head,
)
from .memory import LINE_BYTES
from .words import load_word, matching_slots, prefetch, trailing_zeros

Index: TypeAlias = tuple[Int, Int, Int, Int, Int]
"""First bucket, bucket mask, tag mask; first record, and from one to the next."""
MAX_SIZE: Final = 1 << 24
"""Entries of a table at most: 7 bits of a slot are left for the hash then."""
_ENTRIES_A_BUCKET: Final = 8
_LINE, _OVERFLOWED = u64(LINE_BYTES), u64(60)
_TAKEN, _TAG_AT, _WHOLE_SLOT = u64(1 << 31), u64(32), u64(0xFFFFFFFF)


def bucket_count(size: int) -> int:
    """Return how many buckets an index of at most `size` keys has, a power of two."""
    return 1 << (-(-size // _ENTRIES_A_BUCKET) - 1).bit_length()


def tag_mask(size: int) -> int:
    """Return which bits of a slot are not the number of a record."""
    return 0xFFFFFFFF & -1 << (size - 1).bit_length()


@hot
def index_of(state: Int) -> Index:
    """Return what the functions here take: words of a table's state, which never change."""
    return (
        load_word(state + BUCKETS),
        load_word(state + BUCKET_MASK),
        load_word(state + TAG_MASK),
        load_word(state + ENTRIES),
        load_word(state + STRIDE),
    )


@hot
def prefetch_bucket(index: Index, digest: Int) -> None:
    """Begin to fetch what `find` looks at first."""
    prefetch(_home(index, digest))


@hot
def prefetch_entry(index: Index, digest: Int) -> None:
    """Begin to fetch the record that `find` compares first; its bucket should be here by now."""
    line, wanted = home_and_tag(index, digest)
    entry = candidate(index, line, wanted)
    if entry != MISS:
        prefetch(entry)


@hot
def home_and_tag(index: Index, digest: Int) -> tuple[Int, Int]:
    """Return the address of the bucket that `find` looks at first, and what a slot there has of the hash."""
    return _home(index, digest), _tag(digest, index[2])


@hot
def candidate(index: Index, line: Int, wanted: Int) -> Int:
    """Return the address of the record that `find` compares first, or MISS, from `home_and_tag`."""
    _, _, mask, entries, stride = index
    matching = matching_slots(line, wanted, mask)
    if matching == ZERO:
        return MISS
    slot = u64(load_u32(line + trailing_zeros(matching) * FOUR))
    return entries + (slot & (mask ^ _WHOLE_SLOT)) * stride


@hot
def find(index: Index, key: Int, limbs: Int, digest: Int) -> tuple[Int, Int]:
    """Return the address of the entry whose key is the `limbs` words at `key`, and its head.

    MISS and 0 are returned if there is none. `digest` is the key's `hash_of`.
    """
    _, _, mask, entries, stride = index
    wanted = _tag(digest, mask)
    home = line = _home(index, digest)
    while True:
        matching = matching_slots(line, wanted, mask)
        while matching != ZERO:
            slot = u64(load_u32(line + trailing_zeros(matching) * FOUR))
            if slot & mask == wanted:  # it may have been emptied since
                entry = entries + (slot ^ wanted) * stride
                head = whole_head(entry)
                if head < RETIRED and same_words(entry + KEY, key, limbs):
                    return entry, head
            matching &= matching - ONE
        if u64(load_u32(line + _OVERFLOWED)) == ZERO:
            return MISS, ZERO
        line = _next(index, line)
        if line == home:  # every bucket was passed by some key
            return MISS, ZERO


@hot
def find_masked(index: Index, key: Int, mask: Int, limbs: Int, last: Int, digest: Int) -> tuple[Int, Int]:
    """As `find`, for the words at `key` under those at `mask`, and the word `last` behind them."""
    _, _, tag_bits, entries, stride = index
    wanted = _tag(digest, tag_bits)
    home = line = _home(index, digest)
    while True:
        matching = matching_slots(line, wanted, tag_bits)
        while matching != ZERO:
            slot = u64(load_u32(line + trailing_zeros(matching) * FOUR))
            if slot & tag_bits == wanted:
                entry = entries + (slot ^ wanted) * stride
                head = whole_head(entry)
                same = load_word(entry + KEY + limbs * EIGHT) == last
                if same and head < RETIRED and same_masked(entry + KEY, key, mask, limbs):
                    return entry, head
            matching &= matching - ONE
        if u64(load_u32(line + _OVERFLOWED)) == ZERO:
            return MISS, ZERO
        line = _next(index, line)
        if line == home:  # every bucket was passed by some key
            return MISS, ZERO


@hot
def put(index: Index, digest: Int, number: Int) -> None:
    """Have a key found, whose record has been written; no key is put twice."""
    line = _home(index, digest)
    free = matching_slots(line, ZERO, _WHOLE_SLOT)
    while free == ZERO:
        overflowed = line + _OVERFLOWED
        store_u32(overflowed, u64(load_u32(overflowed)) + ONE)
        line = _next(index, line)
        free = matching_slots(line, ZERO, _WHOLE_SLOT)
    store_u32(line + trailing_zeros(free) * FOUR, _tag(digest, index[2]) | number)


@hot
def replace(index: Index, digest: Int, number: Int, other: Int) -> None:
    """Have a key found in another record, which has been written."""
    slot, _ = slot_of(index, digest, number)
    store_u32(slot, _tag(digest, index[2]) | other)


@hot
def remove(index: Index, digest: Int, number: Int) -> None:
    """Have a key found no longer."""
    slot, last = slot_of(index, digest, number)
    store_u32(slot, ZERO)
    line = _home(index, digest)
    while line != last:
        overflowed = line + _OVERFLOWED
        store_u32(overflowed, u64(load_u32(overflowed)) - ONE)
        line = _next(index, line)


@hot
def slot_of(index: Index, digest: Int, number: Int) -> tuple[Int, Int]:
    """Return the addresses of the slot that names a record, and of its bucket; there must be one."""
    wanted = _tag(digest, index[2]) | number
    line = _home(index, digest)
    matching = matching_slots(line, wanted, _WHOLE_SLOT)
    while matching == ZERO:
        line = _next(index, line)
        matching = matching_slots(line, wanted, _WHOLE_SLOT)
    return line + trailing_zeros(matching) * FOUR, line


@hot
def _home(index: Index, digest: Int) -> Int:
    return index[0] + (digest & index[1]) * _LINE


@hot
def _next(index: Index, line: Int) -> Int:
    return index[0] + ((line - index[0] + _LINE) & (index[1] * _LINE))


@hot
def _tag(digest: Int, mask: Int) -> Int:
    return (digest >> _TAG_AT | _TAKEN) & mask
