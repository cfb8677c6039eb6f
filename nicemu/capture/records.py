# SPDX-License-Identifier: Apache-2.0
"""Where the frames of a pcap file lie in a piece of it: the walk over its records, compiled.

Source: the libpcap project, pcap-savefile(5).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nicemu.hot import Int, Records, hot

from .reading import LARGEST_BYTES

u64 = np.uint64

RECORD_HEADER_BYTES: Final = 16
"""Seconds, their fraction, bytes that follow, bytes that the frame had: 32 bits each."""


@hot
def _number(data: Records, at: Int, swapped: Int) -> Int:
    first, second = u64(data[at]), u64(data[at + u64(1)])
    third, fourth = u64(data[at + u64(2)]), u64(data[at + u64(3)])
    if swapped:
        return first << u64(24) | second << u64(16) | third << u64(8) | fourth
    return fourth << u64(24) | third << u64(16) | second << u64(8) | first


@hot
def walk_records(
    data: Records,
    start: Int,
    end: Int,
    swapped: Int,
    unit_ns: Int,
    offsets: Records,
    lengths: Records,
    originals: Records,
    times_ns: Records,
) -> tuple[Int, Int]:
    """Note the frames of the whole records in `data`, as many as there is room for.

    data: uint8[]; offsets, lengths, originals, times_ns: uint64[n]. Numbers are big-endian if `swapped`, a
    fraction of a second counts `unit_ns`. Returns how many there were, and where the next record begins. One
    that is longer than `LARGEST_BYTES` ends the walk, too.
    """
    header, at, last = u64(RECORD_HEADER_BYTES), u64(start), u64(end)
    count, room = u64(0), u64(len(offsets))
    while count < room and at + header <= last:
        length = _number(data, at + u64(8), swapped)
        if length > u64(LARGEST_BYTES) or at + header + length > last:
            break
        seconds, fraction = _number(data, at, swapped), _number(data, at + u64(4), swapped)
        times_ns[count] = seconds * u64(1_000_000_000) + fraction * u64(unit_ns)
        offsets[count] = at + header
        lengths[count] = length
        originals[count] = _number(data, at + u64(12), swapped)
        at += header + length
        count += u64(1)
    return np.int64(count), np.int64(at)
