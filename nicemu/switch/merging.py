# SPDX-License-Identifier: Apache-2.0
"""The frames of several captures in the order of their times, in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nicemu.capture import CapturedBatch, read_batches

from .batches import Frames

Array = np.ndarray[Any, Any]


def merged(inputs: Mapping[int, Path]) -> Iterator[Frames]:
    """Yield the frames of files, by their ports, by time; those of one file stay in its order.

    At equal times the file that stands first in `inputs` comes first. A batch is good until the next one.
    Raises: as `read_batches`, behind the frames that stand before the fault.
    """
    if len(inputs) == 1:
        ((port, path),) = inputs.items()
        yield from coming_in(read_batches(path), port)
        return
    sources = [_Source(port, read_batches(path)) for port, path in inputs.items()]
    while ready := [source for source in sources if source.has_more()]:
        counts = _before_the_horizon(ready)
        pieces = [source.taken(count) for source, count in zip(ready, counts, strict=True)]
        keys = np.concatenate([source.taken_keys for source in ready])
        order = np.argsort(keys, kind="stable")
        offsets = np.concatenate([piece.offsets + np.uint64(piece.base) for piece in pieces])
        lengths, times_ns, ports = (
            np.concatenate([getattr(piece, name) for piece in pieces])[order]
            for name in ("lengths", "times_ns", "ports")
        )
        yield Frames(0, offsets[order], lengths, times_ns, ports, sum(piece.cut for piece in pieces))


def coming_in(batches: Iterable[CapturedBatch], port: int) -> Iterator[Frames]:
    """Yield the frames of batches as they come in on a port."""
    for batch in batches:
        yield _of_batch(batch, port)


def _of_batch(batch: CapturedBatch, port: int, first: int = 0, last: int | None = None) -> Frames:
    lengths, times_ns = batch.lengths[first:last], batch.times_ns[first:last]
    ports = np.full(len(lengths), port, np.uint64)
    cut = int((batch.originals[first:last] > lengths).sum())
    return Frames(batch.memory.ctypes.data, batch.offsets[first:last], lengths, times_ns, ports, cut)


class _Source:
    """A file: what of its last batch was not taken yet. A key is the latest time up to a frame."""

    def __init__(self, port: int, batches: Iterator[CapturedBatch]) -> None:
        self._port, self._batches = port, batches
        self._held: CapturedBatch | None = None
        self._latest = 0
        self._used = 0
        self.keys = self.taken_keys = np.zeros(0, np.uint64)

    def has_more(self) -> bool:
        """Return whether a frame is left; read on for it."""
        while len(self.keys) == 0:
            self._held = next(self._batches, None)
            if self._held is None:
                return False
            self._used = 0
            self.keys = np.maximum(np.maximum.accumulate(self._held.times_ns), np.uint64(self._latest))
            self._latest = int(self.keys[-1])
        return True

    def taken(self, count: int) -> Frames:
        """Return the next `count` frames, which are here."""
        assert self._held is not None
        first, self._used = self._used, self._used + count
        self.taken_keys, self.keys = self.keys[:count], self.keys[count:]
        return _of_batch(self._held, self._port, first, self._used)


def _before_the_horizon(sources: list[_Source]) -> list[int]:
    """Return how many frames of each source come before all that were not read yet."""
    ends = [source.keys[-1] for source in sources]
    horizon = min(ends)
    limiting = ends.index(horizon)
    return [
        int(np.searchsorted(source.keys, horizon, "right" if number <= limiting else "left"))
        for number, source in enumerate(sources)
    ]
