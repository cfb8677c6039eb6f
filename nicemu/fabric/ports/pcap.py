# SPDX-License-Identifier: Apache-2.0
"""A port that wraps a port and writes every frame, sent or received, to a capture file.

Source: the libpcap project, pcap-savefile(5): classic format, magic of nanosecond time stamps,
LINKTYPE_ETHERNET.
"""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from nicemu.clock import Clock

from .port import MAX_FRAME_BYTES, RECEIVE_LIMIT, ListPort, Port, closed

_FILE_HEADER = struct.Struct("=IHHiIII")
_RECORD_HEADER = struct.Struct("=IIII")
_NANOSECOND_MAGIC = 0xA1B23C4D
_VERSION = (2, 4)
_LINKTYPE_ETHERNET = 1
_NS_PER_S = 1_000_000_000


class PcapPort(ListPort):
    """Carries frames through `inner` and writes them to `path` with the time that `clock` tells.

    `epoch_ns` is added to each time stamp: with the wall clock, the time since 1970 at which the clock was 0.
    The file is complete after `close`.
    """

    def __init__(self, inner: Port, path: Path, clock: Clock, epoch_ns: int = 0) -> None:
        self._inner = inner
        self._clock = clock
        self._epoch_ns = epoch_ns
        self._file: BinaryIO | None = open(path, "wb")  # noqa: SIM115 - closed by close()
        self._file.write(
            _FILE_HEADER.pack(_NANOSECOND_MAGIC, *_VERSION, 0, 0, MAX_FRAME_BYTES, _LINKTYPE_ETHERNET)
        )

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
        if file is not None:
            file.close()
        self._inner.close()

    def _write(self, frames: list[bytes]) -> None:
        if self._file is None:
            raise closed(self.address)
        seconds, nanoseconds = divmod(self._epoch_ns + self._clock.now_ns(), _NS_PER_S)
        for frame in frames:
            self._file.write(_RECORD_HEADER.pack(seconds, nanoseconds, len(frame), len(frame)))
            self._file.write(frame)
