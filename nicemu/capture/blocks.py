# SPDX-License-Identifier: Apache-2.0
"""Where the frames of a pcapng file lie in a piece of it: the walk over its packets, compiled.

Source: IETF draft-ietf-opsawg-pcapng, "PCAP Next Generation (pcapng) Capture File Format": "General Block
Structure", "Enhanced Packet Block".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nicemu.hot import Int, Records, hot

from .reading import ENHANCED_PACKET, LARGEST_BYTES, Interface
from .records import read_number

u64 = np.uint64

_LEAST_BYTES: Final = 32
"""Of a block with a frame of none: type, length, interface, time, two lengths, length again."""
_FRAME_AT: Final = 28
_NS_PER_S: Final = 1_000_000_000
_MOST_NS: Final = (1 << 63) - 1

Array = np.ndarray[Any, Any]


def units_of(interfaces: Sequence[Interface]) -> Array:
    """Return the nanoseconds that interfaces count, uint64[n]; 0 for what the walk leaves alone."""
    found = np.zeros(len(interfaces), np.uint64)
    for number, interface in enumerate(interfaces):
        if interface.offset_s == 0 and _NS_PER_S % interface.units_per_s == 0:
            found[number] = _NS_PER_S // interface.units_per_s
    return found


@hot
def walk_blocks(
    data: Records,
    start: Int,
    end: Int,
    swapped: Int,
    units: Records,
    offsets: Records,
    lengths: Records,
    originals: Records,
    times_ns: Records,
) -> tuple[Int, Int]:
    """Note the frames of the whole packet blocks in `data`, as many as there is room for.

    data: uint8[]; units: as `units_of` has them; offsets, lengths, originals, times_ns: uint64[n]. Numbers
    are big-endian if `swapped`. Returns how many there were, and where the next block begins: one of another
    kind, with something wrong, not whole, or of an interface whose times are not whole nanoseconds.
    """
    at, last = u64(start), u64(end)
    count, room = u64(0), u64(len(offsets))
    while count < room:
        if at + u64(_LEAST_BYTES) > last or read_number(data, at, swapped) != u64(ENHANCED_PACKET):
            break
        length = read_number(data, at + u64(4), swapped)
        if length < u64(_LEAST_BYTES) or length % u64(4) or length > u64(LARGEST_BYTES):
            break
        if at + length > last or read_number(data, at + length - u64(4), swapped) != length:
            break
        interface = read_number(data, at + u64(8), swapped)
        if interface >= u64(len(units)) or units[interface] == u64(0):
            break
        time = read_number(data, at + u64(12), swapped) << u64(32) | read_number(data, at + u64(16), swapped)
        taken = read_number(data, at + u64(20), swapped)
        if time > u64(_MOST_NS) // units[interface] or taken > length - u64(_LEAST_BYTES):
            break
        offsets[count], lengths[count] = at + u64(_FRAME_AT), taken
        originals[count] = read_number(data, at + u64(24), swapped)
        times_ns[count] = time * units[interface]
        at += length
        count += u64(1)
    return np.int64(count), np.int64(at)
