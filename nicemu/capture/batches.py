# SPDX-License-Identifier: Apache-2.0
"""Capture files read in batches: the frames of a piece of a file where they lie, without an object for each.

They are what `read_capture` yields. Records of pcap files and packets of pcapng files are walked by compiled
code; what else is in the latter is read block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from nicemu.errors import NicemuError

from .blocks import units_of, walk_blocks
from .captured_frame import CapturedFrame
from .pieces import PcapngPieces, PcapPieces
from .reading import CaptureFile, PcapFile, PcapngFile
from .records import walk_records

BATCH_FRAMES: Final = 8192
PIECE_BYTES: Final = 640 << 10

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class CapturedBatch:
    """Frames in file order, in `memory`, with their times since 1970; good until the file's next batch.

    memory: uint8[]; offsets, lengths, originals, times_ns: uint64[n]. A frame had `originals` bytes before
    anything was cut.
    """

    memory: Array
    offsets: Array
    lengths: Array
    originals: Array
    times_ns: Array


def read_batches(path: Path) -> Iterator[CapturedBatch]:
    """Yield the Ethernet frames of a capture file, some at a time. Raises: as `read_capture`."""
    with CaptureFile.opened(path) as opened:
        yield from batches_of(opened)


def batches_of(opened: CaptureFile) -> Iterator[CapturedBatch]:
    """Yield the Ethernet frames of a file that was opened, some at a time. Raises: as `read_capture`."""
    if isinstance(opened, PcapngFile):
        return _walked_blocks(opened)
    assert isinstance(opened, PcapFile)
    return _walked(PcapPieces(opened, PIECE_BYTES))


def _walked(pieces: PcapPieces) -> Iterator[CapturedBatch]:
    offsets, lengths, originals, times_ns = _room()
    while True:
        count, pieces.first = walk_records(
            pieces.memory,
            pieces.first,
            pieces.end,
            pieces.swapped,
            pieces.unit_ns,
            offsets,
            lengths,
            originals,
            times_ns,
        )
        if count:
            arrays = (array[:count] for array in (offsets, lengths, originals, times_ns))
            yield CapturedBatch(pieces.memory, *arrays)
        elif not pieces.read_on():
            return


def _walked_blocks(opened: PcapngFile) -> Iterator[CapturedBatch]:
    opened.source = pieces = PcapngPieces(opened.file, PIECE_BYTES)
    room = _room()
    gathered: list[CapturedFrame] = []
    try:
        for frame in opened.blocks():
            gathered += [frame] if frame is not None else []
            for batch in _walked_packets(opened, pieces, room):
                if gathered:
                    yield _of_frames(gathered)
                    gathered = []
                yield batch
            if len(gathered) == BATCH_FRAMES:
                yield _of_frames(gathered)
                gathered = []
    except NicemuError:
        if gathered:  # which are whole
            yield _of_frames(gathered)
        raise
    if gathered:
        yield _of_frames(gathered)


def _walked_packets(
    opened: PcapngFile, pieces: PcapngPieces, room: tuple[Array, ...]
) -> Iterator[CapturedBatch]:
    """Yield the frames that come next, up to a block that is for `opened` to read."""
    units = units_of(opened.interfaces)
    while True:
        count, end = walk_blocks(
            pieces.memory, pieces.first, pieces.end, int(opened.is_big_endian), units, *room
        )
        if not count:
            return
        opened.read_bytes += int(end) - pieces.first
        pieces.first = int(end)
        yield CapturedBatch(pieces.memory, *(array[:count] for array in room))


def _room() -> tuple[Array, ...]:
    """Return room for offsets, lengths, original lengths and times of a batch's frames."""
    return tuple(np.zeros(BATCH_FRAMES, np.uint64) for _ in range(4))


def _of_frames(frames: list[CapturedFrame]) -> CapturedBatch:
    """Return a batch of frames that were read one by one."""
    lengths = np.array([len(frame.data) for frame in frames], np.uint64)
    memory = np.frombuffer(b"".join(frame.data for frame in frames) or b"\0", np.uint8)
    times_ns = np.array([frame.time_ns for frame in frames], np.uint64)
    originals = np.array([frame.original_bytes for frame in frames], np.uint64)
    return CapturedBatch(memory, np.cumsum(lengths) - lengths, lengths, originals, times_ns)
