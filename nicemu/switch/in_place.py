# SPDX-License-Identifier: Apache-2.0
"""A pcap file through a compiled program into another, where it lies: bytes are read, changed and written.

For programs of which nothing that leaves is longer than what came, and no packet becomes several. Everything
else goes through `batches` and `packing`, which say what is done here, and tests hold the two equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from nicemu.capture import NOT_WHOLE, RECORD_HEADER_BYTES, PcapFile, PcapPieces, read_record
from nicemu.hot import Int, Records, hot
from nicemu.kernels import PACKET, CompiledEngine, run_kernel
from nicemu.lookup import prefetch
from nicemu.pipeline import MAX_FRAME_BYTES

from .asked import AskedOfKernel, tally_asked
from .forwarding import Summary
from .outputs import Output
from .packing import close_up
from .places import PLACES, place_of
from .tallies import Tallies, count_oversized, tally_one

u64 = np.uint64

PIECE_BYTES: Final = 1 << 21
GROUP_FRAMES: Final = 1024
"""Frames whose records stay in a core's caches from one step to the next."""
_AHEAD_BYTES: Final = 2048
"""By how much records are fetched before they are read: where one begins, the one before says."""
_PACKETS, _BYTES, _OVERSIZED, _HELD, _LATEST_NS, _CUT = range(6)

Array = np.ndarray[Any, Any]


@hot
def _begin(
    memory: Records,
    base: Int,
    piece: tuple[Int, Int],
    form: tuple[Int, Int],
    port: Int,
    packets: Records,
    sums: Records,
) -> tuple[Int, Int, Int]:
    """Begin the packets of a piece's next records, where they lie, but for those that no pipeline takes.

    packets: PACKET[n]; sums: uint64[6], to which all records are added; the rest as `pass_through` has it.
    Returns how many packets there are, how many records, and where the next one begins.
    """
    swapped, unit_ns = form
    at, last = u64(piece[0]), u64(piece[1])
    begun, count, latest_ns = 0, 0, sums[_LATEST_NS]
    passed = cut = oversized = u64(0)
    while count < len(packets):
        prefetch(u64(base) + at + u64(_AHEAD_BYTES))
        length, original, now_ns = read_record(memory, at, last, swapped, unit_ns)
        if length == u64(NOT_WHOLE):
            break
        at += u64(RECORD_HEADER_BYTES)
        count += 1
        passed += length
        if original > length:
            cut += u64(1)
        if length <= u64(MAX_FRAME_BYTES):
            packet = packets[begun]
            packet["address"], packet["length"] = u64(base) + at, length
            packet["port"], packet["now_ns"] = port, now_ns
            latest_ns = max(latest_ns, now_ns)
            begun += 1
        else:
            oversized += u64(1)
        at += length
    sums[_PACKETS] += u64(count)
    sums[_BYTES] += passed
    sums[_CUT] += cut
    sums[_OVERSIZED] += oversized
    sums[_LATEST_NS] = latest_ns
    return begun, count, np.int64(at)


@hot
def pass_through(
    call: Records,
    memory: Records,
    base: Int,
    piece: tuple[Int, Int],
    form: tuple[Int, Int],
    port: Int,
    packets: Records,
    packets_at: Int,
    counts: tuple[Records, Records, Records, Records],
    wanted: Records,
    asked: tuple[Records, Int, Records, Records, Records, Records],
) -> tuple[Int, Int]:
    """Take the whole records of a piece of a pcap file through a kernel, and make what leaves the same way.

    memory: uint8[], at the address `base`; piece: from where to where the records lie in it; form: whether
    their numbers are big-endian, and the unit of their times in nanoseconds; packets: PACKET[n], room for as
    many as go through at once, also by its address; counts: as `tally` has them, and the sums; wanted:
    uint8[PLACES], whether what leaves there is written; asked: as `tally_asked` has it. Returns where the
    next record begins, and where those that leave end: they begin where the piece did.
    """
    begin, end = piece
    out, reasons, limits, sums = counts
    effects, effects_at, kinds, words, times, given = asked
    left = u64(base) + u64(begin)
    while True:
        begun, count, begin = _begin(memory, base, (begin, end), form, port, packets, sums)
        if count == 0:
            return begin, np.int64(left - u64(base))
        if begun == 0:
            continue
        run_kernel(call, packets_at, begun)
        if len(given) > 0:
            tally_asked(packets[:begun], effects, u64(effects_at), kinds, words, times, given)
        for number in range(begun):
            packet = packets[number]
            place = place_of(packet)
            sums[_HELD] += u64(tally_one(packet, place, out, reasons, limits))
            if place < PLACES and wanted[place]:
                left = close_up(packet, left)


def fits(engine: CompiledEngine) -> bool:
    """Return whether an engine's packets can go through where they lie."""
    kernel = engine.kernel
    return (
        kernel is not None
        and kernel.headroom_bytes == 0
        and not kernel.makes_copies
        and kernel.has_room_for(GROUP_FRAMES)
        and not engine.objects.digests
    )


def read_pieces(opened: PcapFile) -> Iterator[PcapPieces]:
    """Yield a file piece by piece, each to be taken as far as its records are whole.

    Raises: ProtocolError as `read_capture`, behind the records that stand before the fault.
    """
    pieces = PcapPieces(opened, PIECE_BYTES)
    while pieces.read_on():
        yield pieces


class InPlace:
    """Runs a pcap file through an engine that `fits`, into an output that takes records."""

    def __init__(self, engine: CompiledEngine, summary: Summary | None = None) -> None:
        assert engine.kernel is not None
        self._engine, self._kernel = engine, engine.kernel
        self.summary = Summary() if summary is None else summary
        self._tallies = Tallies()
        self._sums = np.zeros(6, np.uint64)
        self._call = self._kernel.call_for(GROUP_FRAMES)
        self._packets = np.zeros(GROUP_FRAMES, PACKET)
        self._asked = AskedOfKernel(self._kernel)

    def run(self, pieces: PcapPieces, port: int, wanted: Array, output: Output) -> None:
        """Take what a piece has through the program, and write what leaves."""
        tallies, begin = self._tallies, pieces.first
        pieces.first, end = pass_through(
            self._call,
            pieces.memory,
            pieces.memory.ctypes.data,
            (begin, pieces.end),
            (pieces.swapped, pieces.unit_ns),
            port,
            self._packets,
            self._packets.ctypes.data,
            (tallies.out, tallies.reasons, tallies.limits, self._sums),
            wanted,
            self._asked.arrays(),
        )
        self._add()
        output.write_packed(pieces.memory.data[begin:end])

    def _add(self) -> None:
        """Add the sums to the summary."""
        packets, passed, oversized, held, latest_ns, cut = self._sums.tolist()
        self.summary.cut += cut
        self.summary.packets += packets
        self.summary.bytes += passed
        self.summary.with_firmware += held
        count_oversized(oversized, self.summary, self._engine)
        self._engine.tick(latest_ns)
        self._sums[:] = 0

    def close(self) -> None:
        """Count what is to be counted."""
        self._tallies.settle(self.summary, self._engine, self._kernel)
        self._asked.settle(self.summary.asked)
