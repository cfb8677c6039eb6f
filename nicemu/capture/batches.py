# SPDX-License-Identifier: Apache-2.0
"""Capture files read in batches: the frames of a piece of a file where they lie, without an object for each.

They are what `read_capture` yields. pcap files are walked by compiled code; the frames of other files are
gathered one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from nicemu.errors import ProtocolError

from .captured_frame import CapturedFrame
from .reading import LARGEST_BYTES, CaptureFile, PcapFile
from .records import RECORD_HEADER_BYTES, walk_records

BATCH_FRAMES: Final = 8192
PIECE_BYTES: Final = 640 << 10

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class CapturedBatch:
    """Frames in file order, in `memory`, with their times since 1970; good until the file's next batch.

    memory: uint8[]; offsets, lengths, times_ns: uint64[n].
    """

    memory: Array
    offsets: Array
    lengths: Array
    times_ns: Array


def read_batches(path: Path) -> Iterator[CapturedBatch]:
    """Yield the Ethernet frames of a capture file, some at a time. Raises: as `read_capture`."""
    with CaptureFile.opened(path) as opened:
        if isinstance(opened, PcapFile):
            yield from _Pieces(opened).batches()
            return
        yield from _gathered(opened.frames())


class _Pieces:
    """A pcap file a piece at a time; what a record lacks at the end of a piece is read with the next one."""

    def __init__(self, opened: PcapFile) -> None:
        self._opened = opened
        self._memory = np.zeros(PIECE_BYTES, np.uint8)
        self._behind_the_buffer = False
        """Whether all is read that the file object had read ahead."""
        self._first = self._end = 0
        """Where in the memory what was not walked yet begins and ends."""

    def batches(self) -> Iterator[CapturedBatch]:
        offsets, lengths, times_ns = (np.zeros(BATCH_FRAMES, np.uint64) for _ in range(3))
        swapped, unit_ns = int(self._opened.is_big_endian), self._opened.unit_ns
        while True:
            count, self._first = walk_records(
                self._memory, self._first, self._end, swapped, unit_ns, offsets, lengths, times_ns
            )
            if count:
                yield CapturedBatch(self._memory, offsets[:count], lengths[:count], times_ns[:count])
            elif not self._read_on():
                return

    def _read_on(self) -> bool:
        """Read what comes behind what is left; return whether there was something.

        Raises: ProtocolError where the file ends in a record, or a record is too long to be one.
        """
        left = self._memory[self._first : self._end].copy()
        needed = self._record_bytes(left)
        if needed > len(self._memory):
            self._memory = np.zeros(needed, np.uint8)
        self._memory[: len(left)] = left
        came = self._read_into(self._memory.data[len(left) :])
        self._first, self._end = 0, len(left) + came
        self._opened.read_bytes += came
        if came == 0 and len(left):
            raise self._opened.cut(self._opened.read_bytes)
        return bool(came)

    def _read_into(self, room: memoryview) -> int:
        """Read once into memory, what is there; return the bytes. readinto1 would wait behind a buffer."""
        file = self._opened.file
        if self._behind_the_buffer:
            return file.raw.readinto(room) or 0
        buffered = file.read1(len(room))
        self._behind_the_buffer = len(buffered) < len(room)
        room[: len(buffered)] = buffered
        return len(buffered)

    def _record_bytes(self, start: Array) -> int:
        """Return how long a record is that begins so."""
        if len(start) < RECORD_HEADER_BYTES:
            return RECORD_HEADER_BYTES
        length = int.from_bytes(start[8:12].tobytes(), "big" if self._opened.is_big_endian else "little")
        if length > LARGEST_BYTES:
            at = self._opened.read_bytes - len(start) + RECORD_HEADER_BYTES
            raise self._opened.too_long(length, at)
        return RECORD_HEADER_BYTES + length


def _gathered(frames: Iterator[CapturedFrame]) -> Iterator[CapturedBatch]:
    fault: ProtocolError | None = None
    while fault is None:
        taken: list[CapturedFrame] = []
        try:
            taken.extend(islice(frames, BATCH_FRAMES))
        except ProtocolError as error:  # behind frames that are whole
            fault = error
        if taken:
            lengths = np.array([len(frame.data) for frame in taken], np.uint64)
            memory = np.frombuffer(b"".join(frame.data for frame in taken) or b"\0", np.uint8)
            times_ns = np.array([frame.time_ns for frame in taken], np.uint64)
            yield CapturedBatch(memory, np.cumsum(lengths) - lengths, lengths, times_ns)
        elif fault is None:
            return
    raise fault
