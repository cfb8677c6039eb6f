# SPDX-License-Identifier: Apache-2.0
"""A port that wraps a port and writes every frame, sent or received, to a capture file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nicemu.capture import PcapWriter, WholeRecords
from nicemu.clock import Clock

from .port import RECEIVE_LIMIT, ListPort, Port, closed


class PcapPort(ListPort):
    """Carries frames through `inner` and writes them to `path` with the time that `clock` tells.

    `epoch_ns` is added to each time stamp: with the wall clock, the time since 1970 at which the clock was 0.
    Whoever reads the file meanwhile finds what has passed. Raises: OSError with its name where it cannot be
    written.
    """

    def __init__(self, inner: Port, path: Path, clock: Clock, epoch_ns: int = 0) -> None:
        self._inner, self._path = inner, path
        self._clock = clock
        self._epoch_ns = epoch_ns
        self._file: WholeRecords | None = WholeRecords(path, has_blocks=False)
        try:
            with self._named():
                self._writer = PcapWriter(self._file)
                self._file.flush()
        except OSError:
            self._file.close()
            raise

    @property
    def address(self) -> str:
        """Address of the inner port."""
        return self._inner.address

    @property
    def drops(self) -> Counter[str]:
        """Drops of the inner port."""
        return self._inner.drops

    def send(self, frames: list[bytes]) -> int:
        """Send through the inner port; what it accepted is written."""
        accepted = self._inner.send(frames)
        self._write(frames[:accepted])
        return accepted

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Receive from the inner port; what came is written."""
        frames = self._inner.receive(limit)
        self._write(frames)
        return frames

    def fileno(self) -> int | None:
        """Descriptor of the inner port."""
        return self._inner.fileno()

    def close(self) -> None:
        """Write what is left, close the file and the inner port."""
        file, self._file = self._file, None
        try:
            if file is not None:
                with self._named():
                    file.close()
        finally:
            self._inner.close()

    def _write(self, frames: list[bytes]) -> None:
        if self._file is None:
            raise closed(self.address)
        time_ns = self._epoch_ns + self._clock.now_ns()
        with self._named():
            for frame in frames:
                self._writer.write(time_ns, frame)
            self._file.flush()

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Have an error of the file say which it is: a disk that is full."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None
