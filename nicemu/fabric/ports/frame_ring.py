# SPDX-License-Identifier: Apache-2.0
"""A ring of frames in shared memory, as hot functions over raw addresses: what `shared_memory` describes."""

from __future__ import annotations

import numpy as np

from nicemu.hot import Int, hot
from nicemu.pcie import copy_memory, load_u32, load_u64, store_u32, store_u64

HEAD = 64
"""Where a ring's `head` stands behind its `tail`."""
CORRUPT = -1
"""What `take_frames` returns where the other end wrote what cannot be."""

_RECORD_BYTES = 8
_SKIP = 0xFFFFFFFF
COUNT_MASK = (1 << 62) - 1
"""What is believed of a count that the other end stores; the rest would only be mistaken for a sign."""
_PUBLISHED = 16
"""Frames that are made visible together: the reader begins while others are written."""
_ALIGNMENT_BYTES = 64


@hot
def _load_count(address: Int) -> Int:
    return np.int64(np.uint64(load_u64(address)) & np.uint64(COUNT_MASK))


@hot
def put_frames(
    ring: Int,
    data: Int,
    capacity: Int,
    own_tail: np.ndarray,
    memory: Int,
    offsets: np.ndarray,
    lengths: np.ndarray,
    first: Int,
) -> Int:
    """Write frames from number `first` on into a ring until one does not fit; return that one's number.

    Frames lie at `offsets` from raw address `memory`. `own_tail`: the writer's own array of one word.
    """
    tail: Int = np.int64(own_tail[0])
    number = first
    free = capacity - (tail - _load_count(ring + HEAD))
    while number < len(offsets):
        length = lengths[number]
        need = _RECORD_BYTES + (length + 7 & ~7)
        place = tail & capacity - 1
        skip = capacity - place if need > capacity - place else 0
        if need + skip > free:
            break
        if skip != 0:
            store_u32(data + place, _SKIP)
            tail += skip
            free -= skip
            place = 0
        store_u32(data + place, length)
        copy_memory(data + place + _RECORD_BYTES, memory + offsets[number], length)
        tail += need
        free -= need
        number += 1
        if (number - first) % _PUBLISHED == 0:
            store_u64(ring, tail)
    own_tail[0] = tail
    store_u64(ring, tail)
    return number


@hot
def take_frames(
    ring: Int,
    data: Int,
    capacity: Int,
    own_head: np.ndarray,
    longest: Int,
    memory: Int,
    room: Int,
    offsets: np.ndarray,
    lengths: np.ndarray,
    limit: Int,
) -> Int:
    """Copy frames of up to `longest` bytes out of a ring to raw address `memory`; return how many.

    That is CORRUPT for a ring that holds what cannot be, of which nothing is taken. `own_head`: the reader's
    own array of one word. Frames are taken until `limit`, or until there is no room for the next one in
    `room` bytes or in `offsets`.
    """
    head: Int = np.int64(own_head[0])
    tail = _load_count(ring)
    if tail == head:
        return 0
    if tail < head or tail > head + capacity or (head | tail) & 7 != 0:
        return CORRUPT
    count: Int = 0
    used: Int = 0
    while head < tail and count < limit and count < len(offsets):
        place = head & capacity - 1
        length = np.int64(load_u32(data + place))
        if length == _SKIP:
            head += capacity - place
            continue
        need = _RECORD_BYTES + (length + 7 & ~7)
        if length > longest or need > min(tail - head, capacity - place):
            if count == 0:
                return CORRUPT
            break
        if used + length > room:
            break
        copy_memory(memory + used, data + place + _RECORD_BYTES, length)
        offsets[count] = used
        lengths[count] = length
        used += length + -length % _ALIGNMENT_BYTES
        count += 1
        head += need
    own_head[0] = head
    store_u64(ring + HEAD, head)
    return count
