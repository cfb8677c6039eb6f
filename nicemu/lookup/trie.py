# SPDX-License-Identifier: Apache-2.0
"""Prefixes as a trie of arrays: a node takes 16, then 8, then 4 bits of the key at a time.

A slot of a node is 64 bits: in the lower half the entry, plus one, of the longest prefix that ends in this
node and covers the slot; in the upper half the node below, plus one. So a lookup goes down and keeps the last
entry that it saw, a prefix is written into the slots of one node alone, at most 2^16, and each change of a
slot is one store. Nodes of a level lie in an array of their own; a node that no prefix needs any more is
empty, and used again.

Source of the kind: P. Gupta, S. Lin, N. McKeown, "Routing Lookups in Hardware at Memory Access Speeds"
(INFOCOM 1998), which takes 24 and 8 bits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nicemu.hot import Int, hot
from nicemu.pcie import load_u32, load_u64, store_u32, store_u64

from .buckets import find, index_of
from .entries import (
    EIGHT,
    FOUR,
    KEY,
    KIND,
    KIND_STATE,
    LIMBS,
    MISS,
    ONE,
    ZERO,
    copy_words,
    entry_at,
    hash_of,
    number_of,
)
from .words import load_word, word_of

u64 = np.uint64
STRIDES: Final = (16, 8, 4)
"""Bits that the first levels take; the last of them is taken again and again."""

# A level, as offsets of 64-bit words: first what lookups read.
BASE, STRIDE_BITS, DEPTH, NODE_SHIFT = u64(0), u64(8), u64(16), u64(24)
PREFIXES, FREED, FRESH, FREED_COUNT = u64(32), u64(40), u64(48), u64(56)
LEVEL_BYTES: Final = 64
ALIGN, SHORTER = KIND_STATE, KIND_STATE + u64(8)
"""In a table's state: bits above the key in its limbs, and room for a key and a length."""

_LEVEL, _HALF = u64(LEVEL_BYTES), u64(32)
_ENTRY, _CHILD = u64(0xFFFFFFFF), u64(0xFFFFFFFF_00000000)
_WORD_BITS, _LAST_BIT, _ONES = u64(64), u64(63), u64((1 << 64) - 1)


def strides_of(key_bits: int) -> list[int]:
    """Return how many bits each level of a trie takes."""
    strides: list[int] = []
    while key_bits > 0:
        strides.append(min(key_bits, STRIDES[min(len(strides), len(STRIDES) - 1)]))
        key_bits -= strides[-1]
    return strides


@hot
def chunk_of(key: Int, limbs: Int, above: Int, bits: Int) -> Int:
    """Return `bits` bits of a key of one or two limbs, below the `above` highest."""
    upper = u64(word_of(key, ZERO))
    if limbs == ONE:
        return (upper << above) >> (_WORD_BITS - bits)
    lower = u64(word_of(key, ONE))
    if above >= _WORD_BITS:
        return (lower << (above - _WORD_BITS)) >> (_WORD_BITS - bits)
    return ((upper << above) | ((lower >> ONE) >> (_LAST_BIT - above))) >> (_WORD_BITS - bits)


@hot
def slot_in(level: Int, node: Int, key: Int, limbs: Int, align: Int) -> Int:
    """Return the address of the slot of a level's node, counted from 0, in which a key goes on."""
    chunk = chunk_of(key, limbs, align + load_word(level + DEPTH), load_word(level + STRIDE_BITS))
    return load_word(level + BASE) + (node << load_word(level + NODE_SHIFT)) + chunk * EIGHT


@hot
def entry_in(slot: Int) -> Int:
    """Return the number of the entry of a slot, plus one; 0 if there is none."""
    return slot & _ENTRY


@hot
def child_in(slot: Int) -> Int:
    """Return the number of the node below a slot, plus one; 0 if there is none."""
    return slot >> _HALF


@hot
def longest(state: Int, key: Int, limbs: Int) -> Int:
    """Return the number of the entry with the longest prefix of a key, plus one; 0 if there is none."""
    level, align = load_word(state + KIND), load_word(state + ALIGN)
    slot = u64(load_u64(slot_in(level, ZERO, key, limbs, align)))
    best = entry_in(slot)
    while child_in(slot) != ZERO:
        level += _LEVEL
        slot = u64(load_u64(slot_in(level, child_in(slot) - ONE, key, limbs, align)))
        if entry_in(slot) != ZERO:
            best = entry_in(slot)
    return best


@hot
def paint(state: Int, key: Int, number: Int) -> None:
    """Have the prefix at `key`, whose length lies behind its limbs, found in the record of this number."""
    limbs, align = load_word(state + LIMBS) - ONE, load_word(state + ALIGN)
    length = u64(load_word(key + limbs * EIGHT))
    level, node = u64(load_word(state + KIND)), ZERO
    while length > load_word(level + DEPTH) + load_word(level + STRIDE_BITS):
        place = slot_in(level, node, key, limbs, align)
        slot = u64(load_word(place))
        level += _LEVEL
        node = child_in(slot)
        if node == ZERO:
            node = _take_node(level)
            store_u64(place, slot | node << _HALF)
        node -= ONE
        _count_prefix(level, node, ONE)
    first, end = _covered(level, node, key, limbs, align, length)
    while first != end:
        slot = u64(load_word(first))
        if entry_in(slot) == ZERO or _length_of(state, entry_in(slot), limbs) < length:
            store_u64(first, (slot & _CHILD) | (number + ONE))
        first += EIGHT


@hot
def wipe(state: Int, key: Int, number: Int) -> None:
    """Undo `paint`: where the prefix was the longest of its node, the next shorter one is now."""
    limbs, align = load_word(state + LIMBS) - ONE, load_word(state + ALIGN)
    length = u64(load_word(key + limbs * EIGHT))
    level, node = u64(load_word(state + KIND)), ZERO
    while length > load_word(level + DEPTH) + load_word(level + STRIDE_BITS):
        node = child_in(u64(load_word(slot_in(level, node, key, limbs, align)))) - ONE
        level += _LEVEL
    other = _next_shorter(state, level, key, limbs, length)
    first, end = _covered(level, node, key, limbs, align, length)
    while first != end:
        slot = u64(load_word(first))
        if entry_in(slot) == number + ONE:
            store_u64(first, (slot & _CHILD) | other)
        first += EIGHT
    _prune(state, key, limbs, length)


@hot
def _prune(state: Int, key: Int, limbs: Int, length: Int) -> None:
    """Count a prefix less in the nodes above its end, and free those that have none."""
    level, node, align = u64(load_word(state + KIND)), ZERO, load_word(state + ALIGN)
    while length > load_word(level + DEPTH) + load_word(level + STRIDE_BITS):
        place = slot_in(level, node, key, limbs, align)
        slot = u64(load_word(place))
        level += _LEVEL
        node = child_in(slot) - ONE
        if _count_prefix(level, node, _ENTRY) == ZERO:
            store_u64(place, entry_in(slot))
            freed = load_word(level + FREED_COUNT)
            store_u32(load_word(level + FREED) + freed * FOUR, node)
            store_u64(level + FREED_COUNT, freed + ONE)


@hot
def _take_node(level: Int) -> Int:
    """Return the number of an empty node, plus one."""
    freed = u64(load_word(level + FREED_COUNT))
    if freed != ZERO:
        store_u64(level + FREED_COUNT, freed - ONE)
        return u64(load_u32(load_word(level + FREED) + (freed - ONE) * FOUR)) + ONE
    fresh = u64(load_word(level + FRESH))
    store_u64(level + FRESH, fresh + ONE)
    return fresh + ONE


@hot
def _count_prefix(level: Int, node: Int, more: Int) -> Int:
    """Add to the prefixes that end in a node or below, in 32 bits, and return their number."""
    place = load_word(level + PREFIXES) + node * FOUR
    count = (u64(load_u32(place)) + more) & _ENTRY
    store_u32(place, count)
    return count


@hot
def _covered(level: Int, node: Int, key: Int, limbs: Int, align: Int, length: Int) -> tuple[Int, Int]:
    """Return where the slots begin and end that a prefix covers in the node in which it ends."""
    first = slot_in(level, node, key, limbs, align)
    free = load_word(level + DEPTH) + load_word(level + STRIDE_BITS) - length
    return first, first + (EIGHT << free)


@hot
def _length_of(state: Int, entry: Int, limbs: Int) -> Int:
    return load_word(entry_at(state, entry - ONE) + KEY + limbs * EIGHT)


@hot
def _next_shorter(state: Int, level: Int, key: Int, limbs: Int, length: Int) -> Int:
    """Return the entry, plus one, of the longest prefix of a prefix that ends in the same node; 0: none."""
    shorter, index = state + SHORTER, index_of(state)
    width = limbs * _WORD_BITS - load_word(state + ALIGN)
    least = u64(load_word(level + DEPTH))  # a prefix of so many bits ends in the node above, if there is one
    if level != load_word(state + KIND):
        least += ONE
    copy_words(shorter, key, limbs)
    while length > least:
        length -= ONE
        bit = width - ONE - length
        limb = shorter + (limbs - ONE - bit // _WORD_BITS) * EIGHT
        store_u64(limb, load_word(limb) & (_ONES ^ ONE << bit % _WORD_BITS))
        store_u64(shorter + limbs * EIGHT, length)
        entry, _ = find(index, shorter, limbs + ONE, hash_of(shorter, limbs + ONE))
        if entry != MISS:
            return number_of(state, entry) + ONE
    return ZERO
