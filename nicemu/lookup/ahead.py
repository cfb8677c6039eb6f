# SPDX-License-Identifier: Apache-2.0
"""Lookups taken apart, so that many wait for memory together: begun, taken on step by step, and ended.

A lookup that has begun stands in a note of `NOTE_WORDS` words. Each step looks at memory that the one before
began to fetch, and begins to fetch what the next one needs. `end_…` is then given the key that really is
looked up, and believes a note only if it is about this key and nothing has changed since; else the caller
looks up as if there were none. So whoever makes notes may guess.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nicemu.hot import Int, hot
from nicemu.pcie import load_u64, store_u64

from .buckets import candidate, home_and_tag, index_of
from .entries import (
    KEY,
    KIND,
    MISS,
    ONE,
    RETIRED,
    UPDATES,
    ZERO,
    copy_words,
    entry_at,
    hash_of,
    same_words,
    whole_head,
)
from .lpm import entry_and_head
from .trie import ALIGN, LEVEL_BYTES, child_in, entry_in, slot_in
from .words import fence_loads, load_word, prefetch

u64 = np.uint64

NOTE_WORDS: Final = 8
"""Words of a note: two that are the caller's, then these, and a last one that is the caller's, too."""
_AT, _BEST, _UPDATES = u64(16), u64(24), u64(32)
_KEY = u64(40)
"""The key of a prefix lookup, of up to two limbs."""
_LEVEL = u64(8)
"""The second of the caller's words is the level of a trie while there are steps."""


@hot
def begin_exact(state: Int, key: Int, limbs: Int, note: Int) -> Int:
    """Begin to look up in an exact table; return whether there are steps, 1 or 0."""
    line, wanted = home_and_tag(index_of(state), hash_of(key, limbs))
    prefetch(line)
    store_u64(note + _AT, line)
    store_u64(note + _BEST, wanted)
    return ONE


@hot
def step_exact(state: Int, limbs: Int, note: Int) -> Int:
    """Take a lookup on; return whether there are more steps, 1 or 0."""
    found = candidate(index_of(state), load_word(note + _AT), load_word(note + _BEST))
    store_u64(note + _BEST, found)
    prefetch(found)
    return ZERO


@hot
def end_exact(state: Int, key: Int, limbs: Int, note: Int) -> tuple[Int, Int, Int]:
    """Return whether the note says what a key finds, 1 or 0; then address and head of the key's entry."""
    entry = u64(load_word(note + _BEST))
    if entry != MISS:
        head = whole_head(entry)
        if head < RETIRED and same_words(entry + KEY, key, limbs):
            return ONE, entry, head
    return ZERO, MISS, ZERO


@hot
def begin_lpm(state: Int, key: Int, limbs: Int, note: Int) -> Int:
    """Begin to look up the longest prefix; return whether there are steps, 1 or 0."""
    level = u64(load_word(state + KIND))
    store_u64(note + _UPDATES, load_u64(state + UPDATES))
    at = slot_in(level, ZERO, key, limbs, load_word(state + ALIGN))
    prefetch(at)
    store_u64(note + _AT, at)
    store_u64(note + _LEVEL, level)
    store_u64(note + _BEST, ZERO)
    copy_words(note + _KEY, key, limbs)
    return ONE


@hot
def step_lpm(state: Int, limbs: Int, note: Int) -> Int:
    """Take a lookup on; return whether there are more steps, 1 or 0."""
    at = u64(load_word(note + _AT))
    if at == ZERO:
        return ZERO
    slot = u64(load_u64(at))
    if entry_in(slot) != ZERO:
        store_u64(note + _BEST, entry_in(slot))
    if child_in(slot) != ZERO:
        level = load_word(note + _LEVEL) + u64(LEVEL_BYTES)
        at = slot_in(level, child_in(slot) - ONE, note + _KEY, limbs, load_word(state + ALIGN))
        prefetch(at)
        store_u64(note + _AT, at)
        store_u64(note + _LEVEL, level)
        return ONE
    store_u64(note + _AT, ZERO)
    best = u64(load_word(note + _BEST))
    if best != ZERO:
        prefetch(entry_at(state, best - ONE))
    return ZERO


@hot
def end_lpm(state: Int, key: Int, limbs: Int, note: Int) -> tuple[Int, Int, Int]:
    """As `end_exact`, for the entry with a key's longest prefix; MISS and 0 if there is none."""
    if same_words(note + _KEY, key, limbs):
        entry, head = entry_and_head(state, u64(load_word(note + _BEST)))
        fence_loads()
        if load_u64(state + UPDATES) == load_word(note + _UPDATES):
            return ONE, entry, head
    return ZERO, MISS, ZERO
