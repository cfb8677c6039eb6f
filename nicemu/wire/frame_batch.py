# SPDX-License-Identifier: Apache-2.0
"""Frames in memory, without an object for each: what passes between a transport and a port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

BATCH_FRAMES = 128
"""Frames that a batch holds unless it is told otherwise."""
BATCH_BYTES = 768 << 10
_ALIGNMENT_BYTES = 64


class FrameBatch:
    """Up to a number of frames, and memory in which they lie, used again for other frames.

    `memory`: uint8[room_bytes]; `offsets`, `lengths`: int64[capacity]; the first `count` of these are frames.
    `address` is the raw address of `memory`.
    """

    __slots__ = ("address", "count", "lengths", "memory", "offsets")

    def __init__(self, room_bytes: int = BATCH_BYTES, capacity: int = BATCH_FRAMES) -> None:
        self.memory: np.ndarray[Any, Any] = np.zeros(room_bytes, np.uint8)
        self.offsets: np.ndarray[Any, Any] = np.zeros(capacity, np.int64)
        self.lengths: np.ndarray[Any, Any] = np.zeros(capacity, np.int64)
        self.count = 0
        self.address = int(self.memory.ctypes.data)

    @classmethod
    def over(cls, memory: np.ndarray[Any, Any], offsets: Any, lengths: Any) -> FrameBatch:  # noqa: ANN401
        """Return a batch of frames that lie in memory already; arguments as the attributes."""
        batch = cls.__new__(cls)
        batch.memory, batch.offsets, batch.lengths = memory, offsets, lengths
        batch.count = len(offsets)
        batch.address = int(memory.ctypes.data)
        return batch

    def fill(self, frames: Sequence[bytes | memoryview]) -> int:
        """Hold these frames instead of others, as many as there is room for; return how many."""
        used = count = 0
        view = self.memory.data
        for frame in frames[: len(self.offsets)]:
            end = used + len(frame)
            if end > len(view):
                break
            view[used:end] = frame
            self.offsets[count], self.lengths[count] = used, len(frame)
            used = end + -end % _ALIGNMENT_BYTES
            count += 1
        self.count = count
        return count

    def frames(self, first: int = 0) -> list[bytes]:
        """Return copies of the frames from number `first` on."""
        view = self.memory.data
        places = zip(
            self.offsets[first : self.count].tolist(), self.lengths[first : self.count].tolist(), strict=True
        )
        return [bytes(view[offset : offset + length]) for offset, length in places]

    def keep(self, kept: np.ndarray[Any, Any]) -> None:
        """Hold only some of the frames. kept: bool[count]."""
        count = int(kept.sum())
        self.offsets[:count] = self.offsets[: self.count][kept]
        self.lengths[:count] = self.lengths[: self.count][kept]
        self.count = count
