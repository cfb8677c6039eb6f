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

NOT_WHOLE: Final = LARGEST_BYTES + 1
"""In place of the length of a record that cannot be taken."""


@hot
def read_number(data: Records, at: Int, swapped: Int) -> Int:
    """Return 32 bits of a capture, big-endian if `swapped`. data: uint8[]."""
    number = u64(data[at])
    for place in (1, 2, 3):
        number |= u64(data[at + u64(place)]) << u64(8 * place)
    if swapped:
        ends = number << u64(24) | number >> u64(24)
        number = (
            (ends & u64(0xFF0000FF)) | (number & u64(0xFF00)) << u64(8) | (number >> u64(8)) & u64(0xFF00)
        )
    return number


@hot
def read_record(data: Records, at: Int, last: Int, swapped: Int, unit_ns: Int) -> tuple[Int, Int, Int]:
    """Return length, length before anything was cut, and time in nanoseconds of the frame of a record.

    data: uint8[], up to `last`. Numbers are big-endian if `swapped`, a fraction of a second counts `unit_ns`.
    The length is `NOT_WHOLE` where the record is not whole, or longer than one may be.
    """
    if at + u64(RECORD_HEADER_BYTES) > last:
        return u64(NOT_WHOLE), u64(0), u64(0)
    length = read_number(data, at + u64(8), swapped)
    if length > u64(LARGEST_BYTES) or at + u64(RECORD_HEADER_BYTES) + length > last:
        return u64(NOT_WHOLE), u64(0), u64(0)
    seconds, fraction = read_number(data, at, swapped), read_number(data, at + u64(4), swapped)
    return (
        length,
        read_number(data, at + u64(12), swapped),
        seconds * u64(1_000_000_000) + fraction * u64(unit_ns),
    )


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
    while count < room:
        length, original, time_ns = read_record(data, at, last, swapped, unit_ns)
        if length == u64(NOT_WHOLE):
            break
        offsets[count], lengths[count] = at + header, length
        originals[count], times_ns[count] = original, time_ns
        at += header + length
        count += u64(1)
    return np.int64(count), np.int64(at)
