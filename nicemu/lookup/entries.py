# SPDX-License-Identifier: Apache-2.0
"""Table entries in memory: key, action, parameters and counters in one record of whole 64-byte lines.

A record never moves, so its number and its address name an entry as long as it lives. It begins with a head:
the action in the upper half, a version in the lower. The version is odd while the one writer of a table
changes the record, and another even number afterwards. A reader takes the head, reads what it needs, and has
read a whole entry if the head is `unchanged` then; else it looks up again. Readers never write heads, and
never wait for more than the few stores of one change.

    0   head: action << 32 | version        32  key, in 64-bit limbs, the most significant first
    8   packets                             ..  what the match kind adds
    16  bytes                               ..  parameters, in 64-bit words
    24  time of the last hit
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nicemu.hot import Flag, Int, hot
from nicemu.pcie import load_u32, load_u64, store_u32, store_u64

from .words import fence_loads, load_word, multiply_fold, word_of

u64 = np.uint64
ZERO, ONE, TWO, FOUR, EIGHT = u64(0), u64(1), u64(2), u64(4), u64(8)

PACKETS, BYTES, HIT_NS, KEY = u64(8), u64(16), u64(24), u64(32)
"""Offsets in a record."""
NO_ACTION: Final = 0xFFFFFFFF
"""The action of a record that holds no entry."""
MISS = u64(0)
"""The entry of a lookup that found none."""

FULL, PRESENT = u64(0xFFFFFFFE), u64(0xFFFFFFFF)
"""What an insertion returns in place of a number, which is less: nothing has changed."""

# A table's state, as offsets of 64-bit words: first what lookups read, from the second line on what changes.
ENTRIES, STRIDE, LIMBS, PARAMETERS_AT = u64(0), u64(8), u64(16), u64(24)
BUCKETS, BUCKET_MASK, TAG_MASK, KIND = u64(32), u64(40), u64(48), u64(56)
UPDATES, COUNT, FRESH, FREED_FIRST = u64(64), u64(72), u64(80), u64(88)
FREED_END, FREED, SIZE, PARAMETER_WORDS = u64(96), u64(104), u64(112), u64(120)
KIND_STATE = u64(128)
STATE_BYTES: Final = 256

_ACTION_AT = u64(32)
_LOWER, _EVEN = u64(0xFFFFFFFF), u64(0xFFFFFFFE)
RETIRED = u64(NO_ACTION << 32)
"""Heads from here on are of records that hold no entry."""
_SEED, _MULTIPLIER = u64(0x9E3779B97F4A7C15), u64(0xD6E8FEB86659FD93)
"""The golden ratio, and an odd number without pattern."""


# What lookups and generated kernels use


@hot
def hash_of(key: Int, limbs: Int) -> Int:
    """Return 64 bits that depend on every bit of the `limbs` words at `key`."""
    digest = _SEED
    for limb in range(limbs):
        digest = multiply_fold(word_of(key, limb) ^ digest, _MULTIPLIER)
    return digest


@hot
def hash_masked(key: Int, mask: Int, limbs: Int, last: Int) -> Int:
    """Return the `hash_of` the words at `key` under those at `mask`, and the word `last` behind them."""
    digest = _SEED
    for limb in range(limbs):
        masked = word_of(key, limb) & word_of(mask, limb)
        digest = multiply_fold(masked ^ digest, _MULTIPLIER)
    return multiply_fold(last ^ digest, _MULTIPLIER)


@hot
def whole_head(entry: Int) -> Int:
    """Return the head of a record that is not being written."""
    head = load_u64(entry)
    while head & ONE != ZERO:
        head = load_u64(entry)
    return head


@hot
def unchanged(entry: Int, head: Int) -> Flag:
    """Return whether all that was read of the record since `head` was loaded is one entry's."""
    fence_loads()
    return load_u64(entry) == head


@hot
def action_of(head: Int) -> Int:
    """Return the action that a head names."""
    return head >> _ACTION_AT


@hot
def count_packet(entry: Int, length_bytes: Int, now_ns: Int) -> None:
    """Count a packet that matched the entry; for one reader at a time, as counts are not atomic."""
    store_u64(entry + PACKETS, load_word(entry + PACKETS) + ONE)
    store_u64(entry + BYTES, load_word(entry + BYTES) + length_bytes)
    store_u64(entry + HIT_NS, now_ns)


@hot
def same_words(one: Int, other: Int, count: Int) -> Flag:
    """Return whether `count` words are equal in two places."""
    different = ZERO
    for place in range(count):
        different |= word_of(one, place) ^ word_of(other, place)
    return different == ZERO


@hot
def same_masked(one: Int, key: Int, mask: Int, count: Int) -> Flag:
    """Return whether `count` words at `one` equal those at `key` under those at `mask`."""
    different = ZERO
    for place in range(count):
        different |= word_of(one, place) ^ word_of(key, place) & word_of(mask, place)
    return different == ZERO


# What the writer of a table uses


@hot
def entry_at(state: Int, number: Int) -> Int:
    """Return the address of a record."""
    return load_word(state + ENTRIES) + number * load_word(state + STRIDE)


@hot
def number_of(state: Int, entry: Int) -> Int:
    """Return the number of the record at an address."""
    return (entry - load_word(state + ENTRIES)) // load_word(state + STRIDE)


@hot
def take(state: Int) -> Int:
    """Return the number of a record that holds no entry; there must be one: see COUNT and SIZE."""
    store_u64(state + COUNT, load_u64(state + COUNT) + ONE)
    first = load_word(state + FREED_FIRST)
    if first != load_word(state + FREED_END):
        store_u64(state + FREED_FIRST, first + ONE)
        place = first % load_word(state + SIZE)
        return u64(load_u32(load_word(state + FREED) + place * FOUR))
    fresh = u64(load_word(state + FRESH))
    store_u64(state + FRESH, fresh + ONE)
    return fresh


@hot
def release(state: Int, number: Int) -> None:
    """Empty a record, so that readers that still stand on it look up again, and keep it for `take`."""
    entry = entry_at(state, number)
    store_u64(entry, RETIRED | _next_version(load_word(entry)))
    end = load_word(state + FREED_END)
    place = end % load_word(state + SIZE)
    store_u32(load_word(state + FREED) + place * FOUR, number)
    store_u64(state + FREED_END, end + ONE)
    store_u64(state + COUNT, load_u64(state + COUNT) - ONE)


@hot
def write_action(state: Int, entry: Int, action: Int, parameters: Int) -> None:
    """Give the record another action and the parameters at `parameters`."""
    version = load_word(entry)
    store_u64(entry, version | ONE)
    copy_words(entry + load_word(state + PARAMETERS_AT), parameters, load_word(state + PARAMETER_WORDS))
    store_u64(entry, action << _ACTION_AT | _next_version(version))


@hot
def write_entry(state: Int, entry: Int, key: Int, action: Int, parameters: Int, now_ns: Int) -> None:
    """Fill a record that was taken: counters at 0, its last hit now."""
    version = load_word(entry)
    store_u64(entry, version | ONE)
    store_u64(entry + PACKETS, ZERO)
    store_u64(entry + BYTES, ZERO)
    store_u64(entry + HIT_NS, now_ns)
    copy_words(entry + KEY, key, load_word(state + LIMBS))
    copy_words(entry + load_word(state + PARAMETERS_AT), parameters, load_word(state + PARAMETER_WORDS))
    store_u64(entry, action << _ACTION_AT | _next_version(version))


@hot
def copy_words(target: Int, source: Int, count: Int) -> None:
    """Copy `count` words, each stored after the one before."""
    for place in range(count):
        store_u64(target + place * EIGHT, word_of(source, place))


@hot
def updated(state: Int) -> None:
    """Say that a change of the table is complete."""
    store_u64(state + UPDATES, load_u64(state + UPDATES) + ONE)


@hot
def _next_version(head: Int) -> Int:
    return ((head & _EVEN) + TWO) & _LOWER
