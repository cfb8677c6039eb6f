# SPDX-License-Identifier: Apache-2.0
"""What leaves of a kernel's packets, into capture files: as pcap records in memory, written at once.

Source: the libpcap project, pcap-savefile(5).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from nicemu.hot import Int, Records, hot
from nicemu.pcie import copy_memory, store_u32
from nicemu.pipeline import Verdict

from .forwarding import HOST, departing
from .outputs import Output
from .places import HOST_PLACE, PLACES, place_of

u64, u32 = np.uint64, np.uint32

ROOM_BYTES: Final = 1 << 20
_NS_PER_S = u64(1_000_000_000)
_HEADER_BYTES = u64(16)

Array = np.ndarray[Any, Any]
Told = list[tuple[int, Verdict]]


@hot
def pack_records(
    packets: Records, first: Int, last: Int, wanted: Records, room: Int, end: Int
) -> tuple[Int, Int]:
    """Write what leaves of packets `first` to `last` as records of a pcap file into memory at `room`.

    packets: PACKET[n]; wanted: uint8[PLACES], whether what leaves there is written. Numbers have this
    machine's byte order, times are in nanoseconds. Returns the packet for which there was no room before
    `end`, or `last`, and the address behind what was written.
    """
    at = u64(room)
    for number in range(first, last):
        packet = packets[number]
        place = place_of(packet)
        if place == PLACES or not wanted[place]:
            continue
        length = u64(packet["out_length"])
        if at + _HEADER_BYTES + length > u64(end):
            return number, at
        _put_header(at, packet["now_ns"], length)
        start = u64(np.int64(packet["address"]) + np.int64(packet["out_offset"]))
        copy_memory(at + _HEADER_BYTES, start, length)
        at += _HEADER_BYTES + length
    return last, at


@hot
def _put_header(at: Int, now_ns: Int, length: Int) -> None:
    """Write the header of a record."""
    time_ns = u64(now_ns)
    store_u32(at, u32(time_ns // _NS_PER_S))
    store_u32(at + u64(4), u32(time_ns % _NS_PER_S))
    store_u32(at + u64(8), u32(length))
    store_u32(at + u64(12), u32(length))


@hot
def close_up(packet: Records, room: Int) -> Int:
    """Make a record, at the address `room`, of what leaves of a packet that lies there or behind.

    packet: of a frame than which nothing longer leaves, with its record's header before it, not before
    `room`. Returns the address behind what was written.
    """
    length = u64(packet["out_length"])
    start = u64(np.int64(packet["address"]) + np.int64(packet["out_offset"]))
    frame = u64(room) + _HEADER_BYTES
    _put_header(u64(room), packet["now_ns"], length)
    if start != frame:
        copy_memory(frame, start, length)
    return frame + length


def wanted_places(ports: list[int | str], others: bool, named: list[int | str]) -> Array:
    """Return of which places what leaves is wanted, uint8[PLACES].

    It is that of `ports`, and with `others` also that of all which are not `named`.
    """
    wanted = np.full(PLACES, others, np.uint8)
    for port in named:
        wanted[_place(port)] = port in ports
    return wanted


class PacketsWriter:
    """Writes to one output what leaves to some ports, HOST among them."""

    def __init__(self, output: Output, wanted: Array) -> None:
        """wanted: uint8[PLACES], of which places it takes what leaves."""
        self._output, self._wanted = output, wanted
        self._room = np.zeros(ROOM_BYTES, np.uint8)

    def write(self, packets: Array, told: Told) -> None:
        """Write what leaves of packets, PACKET[n], and of those that were told, by their numbers."""
        first = 0
        for number, verdict in told:
            self._write_packets(packets, first, number)
            for to, frame in departing(verdict):
                if self._wanted[_place(to)]:
                    self._output.write(to, int(packets[number]["now_ns"]), frame)
            first = number + 1
        self._write_packets(packets, first, len(packets))

    def _write_packets(self, packets: Array, first: int, last: int) -> None:
        if not self._output.takes_records:
            for to, time_ns, frame in departures(packets[first:last], []):
                if self._wanted[_place(to)]:
                    self._output.write(to, time_ns, frame)
            return
        start = self._room.ctypes.data
        while first < last:
            first, end = pack_records(packets, first, last, self._wanted, start, start + ROOM_BYTES)
            self._output.write_records(self._room.data[: end - start])


def departures(packets: Array, told: Told) -> Iterator[tuple[int | str, int, bytes]]:
    """Yield what leaves of packets, PACKET[n], and of those that were told: where, when, and the frame."""
    verdicts = dict(told)
    for number, packet in enumerate(packets):
        time_ns, place = int(packet["now_ns"]), place_of(packet)
        if place < PLACES:
            start = int(packet["address"]) + int(packet["out_offset"])
            frame = ctypes.string_at(start, int(packet["out_length"]))
            yield HOST if place == HOST_PLACE else int(place), time_ns, frame
        elif number in verdicts:
            for to, frame in departing(verdicts[number]):
                yield to, time_ns, frame


def _place(port: int | str) -> int:
    return HOST_PLACE if port == HOST else int(port)
