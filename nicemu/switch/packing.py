# SPDX-License-Identifier: Apache-2.0
"""What leaves of a kernel's packets, into capture files: as pcap records or pcapng blocks in memory, written
at once.

Source: the libpcap project, pcap-savefile(5); IETF draft-ietf-opsawg-pcapng, "PCAP Next Generation (pcapng)
Capture File Format": "Enhanced Packet Block".
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from nicemu.capture import OUTBOUND_OPTIONS, PACKET_BLOCK
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
_BLOCK_BYTES: Final = 44
"""Of a packet's block beside the frame."""
_OPTIONS: Final = tuple(memoryview(OUTBOUND_OPTIONS).cast("I"))
UNNAMED: Final = -1
"""For the number of an interface: not yet in the file."""
UNWANTED: Final = -2
"""For the number of an interface: what leaves there is not written."""

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
def pack_blocks(
    packets: Records, first: Int, last: Int, interfaces: Records, room: Int, end: Int
) -> tuple[Int, Int]:
    """Write what leaves of packets `first` to `last` as packet blocks of a pcapng file into memory at `room`.

    packets: PACKET[n]; interfaces: int64[PLACES], the number of each place's interface, or one of `UNNAMED`
    and `UNWANTED`. Numbers have this machine's byte order, times are in nanoseconds. Returns the packet for
    which there was no room before `end`, or no interface yet, or `last`, and the address behind what was
    written.
    """
    at = u64(room)
    for number in range(first, last):
        packet = packets[number]
        place = place_of(packet)
        if place == PLACES or interfaces[place] == UNWANTED:
            continue
        length = u64(packet["out_length"])
        padded = length + u64(3) & ~u64(3)
        block = padded + u64(_BLOCK_BYTES)
        if interfaces[place] == UNNAMED or at + block > u64(end):
            return number, at
        time_ns = u64(packet["now_ns"])
        store_u32(at, u32(PACKET_BLOCK))
        store_u32(at + u64(4), u32(block))
        store_u32(at + u64(8), u32(interfaces[place]))
        store_u32(at + u64(12), u32(time_ns >> u64(32)))
        store_u32(at + u64(16), u32(time_ns))
        store_u32(at + u64(20), u32(length))
        store_u32(at + u64(24), u32(length))
        store_u32(at + u64(24) + padded, u32(0))
        start = u64(np.int64(packet["address"]) + np.int64(packet["out_offset"]))
        copy_memory(at + u64(28), start, length)
        behind = at + u64(28) + padded
        store_u32(behind, u32(_OPTIONS[0]))
        store_u32(behind + u64(4), u32(_OPTIONS[1]))
        store_u32(behind + u64(8), u32(_OPTIONS[2]))
        store_u32(behind + u64(12), u32(block))
        at += block
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
        self._interfaces = np.where(wanted, UNNAMED, UNWANTED).astype(np.int64)
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
        start = self._room.ctypes.data
        end = start + ROOM_BYTES
        while first < last:
            if self._output.takes_records:
                first, behind = pack_records(packets, first, last, self._wanted, start, end)
            else:
                first, behind = pack_blocks(packets, first, last, self._interfaces, start, end)
            self._output.write_packed(self._room.data[: behind - start])
            if first < last and not self._output.takes_records:
                place = int(place_of(packets[first]))
                self._interfaces[place] = self._output.interface_of(_port(place))


def departures(packets: Array, told: Told) -> Iterator[tuple[int | str, int, bytes]]:
    """Yield what leaves of packets, PACKET[n], and of those that were told: where, when, and the frame."""
    verdicts = dict(told)
    for number, packet in enumerate(packets):
        time_ns, place = int(packet["now_ns"]), place_of(packet)
        if place < PLACES:
            start = int(packet["address"]) + int(packet["out_offset"])
            frame = ctypes.string_at(start, int(packet["out_length"]))
            yield _port(int(place)), time_ns, frame
        elif number in verdicts:
            for to, frame in departing(verdicts[number]):
                yield to, time_ns, frame


def _place(port: int | str) -> int:
    return HOST_PLACE if port == HOST else int(port)


def _port(place: int) -> int | str:
    return HOST if place == HOST_PLACE else place
