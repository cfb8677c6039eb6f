# SPDX-License-Identifier: Apache-2.0
"""Entries of one tuple with the same masked key: a chain, larger priority first, then who came first.

What a record has between key and parameters: priority, order of arrival, address of the next in the chain,
the entry's own value and mask in limbs, and for every range two numbers as the limbs that it touches, its
lower and its upper end.
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Flag, Int, hot
from nicemu.pcie import load_u64, store_u64

from .buckets import find, index_of, put, remove, replace
from .entries import (
    COUNT,
    EIGHT,
    FULL,
    KEY,
    KIND_STATE,
    LIMBS,
    MISS,
    ONE,
    PRESENT,
    SIZE,
    ZERO,
    copy_words,
    entry_at,
    hash_of,
    number_of,
    release,
    same_words,
    take,
    updated,
    write_entry,
)
from .words import load_word

u64 = np.uint64
PRIORITY, ORDER, NEXT, VALUE = u64(0), u64(8), u64(16), u64(24)
"""Offsets behind a record's key; the mask and the bounds of ranges come behind the value."""
ADDED_AT, ARRIVED, OWN_WORDS = KIND_STATE, KIND_STATE + u64(8), KIND_STATE + u64(16)
RANGES, RANGE_COUNT = KIND_STATE + u64(24), KIND_STATE + u64(32)
"""In a table's state: where the added words begin, entries that came, words from the value on, ranges of the
key.
"""
_SPAN, _MASK, _WORDS = u64(8), u64(16), u64(3)


@hot
def in_ranges(state: Int, bounds: Int, key: Int) -> Flag:
    """Return whether the key at `key` lies in the ranges whose ends are at `bounds`.

    A range of the key is described by the offset of its first limb, the number of its limbs, and their masks.
    """
    about = load_word(state + RANGES)
    for _ in range(load_word(state + RANGE_COUNT)):
        span, place = load_word(about + _SPAN), key + load_word(about)
        upper = bounds + span * EIGHT
        if _less(place, about + _MASK, bounds, span) or _more(place, about + _MASK, upper, span):
            return False
        bounds = upper + span * EIGHT
        about += _MASK + span * EIGHT
    return True


@hot
def _less(key: Int, mask: Int, bound: Int, limbs: Int) -> Flag:
    for limb in range(limbs):
        value, end = (
            load_word(key + limb * EIGHT) & load_word(mask + limb * EIGHT),
            load_word(bound + limb * EIGHT),
        )
        if value != end:
            return value < end
    return False


@hot
def _more(key: Int, mask: Int, bound: Int, limbs: Int) -> Flag:
    for limb in range(limbs):
        value, end = (
            load_word(key + limb * EIGHT) & load_word(mask + limb * EIGHT),
            load_word(bound + limb * EIGHT),
        )
        if value != end:
            return value > end
    return False


@hot
def link(state: Int, key: Int, added: Int, action: Int, parameters: Int, now_ns: Int) -> Int:
    """Insert an entry behind those of its chain that it does not beat, and return its number, or FULL or
    PRESENT.

    `key` is the masked key and the tuple; at `added` lie priority, two words to be filled in, value, mask and
    bounds.
    """
    if load_word(state + COUNT) == load_word(state + SIZE):
        return FULL
    index, at, words = index_of(state), load_word(state + ADDED_AT), load_word(state + LIMBS)
    digest = hash_of(key, words)
    first, _ = find(index, key, words, digest)
    before, behind = MISS, first
    priority = load_word(added + PRIORITY)
    while behind != MISS and load_word(behind + at + PRIORITY) >= priority:
        if _is_equal(state, behind + at, added):
            return PRESENT
        before, behind = behind, load_word(behind + at + NEXT)
    store_u64(added + ORDER, load_word(state + ARRIVED))
    store_u64(state + ARRIVED, load_word(state + ARRIVED) + ONE)
    store_u64(added + NEXT, behind)
    number = take(state)
    entry = entry_at(state, number)
    copy_words(entry + at, added, _WORDS + load_word(state + OWN_WORDS))
    write_entry(state, entry, key, action, parameters, now_ns)
    if before != MISS:
        store_u64(before + at + NEXT, entry)
    elif first != MISS:
        replace(index, digest, number_of(state, first), number)
    else:
        put(index, digest, number)
    updated(state)
    return number


@hot
def _is_equal(state: Int, one: Int, other: Int) -> Flag:
    """Return whether the words that two entries add to their keys are of equal ones of one priority."""
    return load_word(one + PRIORITY) == load_word(other + PRIORITY) and same_words(
        one + VALUE, other + VALUE, load_word(state + OWN_WORDS)
    )


@hot
def first_in_chain(state: Int, key: Int) -> Int:
    """Return the address of the first entry of a masked key and tuple, or MISS."""
    words = load_word(state + LIMBS)
    first, _ = find(index_of(state), key, words, hash_of(key, words))
    return first


@hot
def is_chained(state: Int, key: Int, added: Int) -> Flag:
    """Return whether the chain of `key` holds an entry equal to the one whose words are at `added`."""
    at, entry = load_word(state + ADDED_AT), first_in_chain(state, key)
    while entry != MISS:
        if _is_equal(state, entry + at, added):
            return True
        entry = load_word(entry + at + NEXT)
    return False


@hot
def is_long(state: Int, key: Int, limit: Int) -> Flag:
    """Return whether the chain of `key` has `limit` entries or more."""
    at, entry = load_word(state + ADDED_AT), first_in_chain(state, key)
    while entry != MISS:
        limit -= ONE
        if limit == ZERO:
            return True
        entry = load_word(entry + at + NEXT)
    return False


@hot
def unlink(state: Int, number: Int) -> None:
    """Delete an entry from its chain."""
    index, at, words = index_of(state), load_word(state + ADDED_AT), load_word(state + LIMBS)
    entry = entry_at(state, number)
    digest = hash_of(entry + KEY, words)
    behind = load_u64(entry + at + NEXT)
    before, _ = find(index, entry + KEY, words, digest)
    if before != entry:
        while load_word(before + at + NEXT) != entry:
            before = load_word(before + at + NEXT)
        store_u64(before + at + NEXT, behind)
    elif behind != ZERO:
        replace(index, digest, number, number_of(state, behind))
    else:
        remove(index, digest, number)
    updated(state)  # who sees the empty record sees that something has changed
    release(state, number)
