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
from .pieces import PcapPieces
from .reading import CaptureFile, PcapFile
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
    if isinstance(opened, PcapFile):
        return _walked(PcapPieces(opened, PIECE_BYTES))
    return _gathered(opened.frames())


def _walked(pieces: PcapPieces) -> Iterator[CapturedBatch]:
    offsets, lengths, originals, times_ns = (np.zeros(BATCH_FRAMES, np.uint64) for _ in range(4))
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
            originals = np.array([frame.original_bytes for frame in taken], np.uint64)
            yield CapturedBatch(memory, np.cumsum(lengths) - lengths, lengths, originals, times_ns)
        elif fault is None:
            return
    raise fault
