# SPDX-License-Identifier: Apache-2.0
"""Capture files that are written: they end behind a whole record or block, on a full disk, too."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_ROOM_BYTES = 64 << 10
_FILE_HEADER_BYTES = 24
_RECORD_HEADER = struct.Struct("=IIII")
_BLOCK_HEADER = struct.Struct("=II")


class Sink(Protocol):
    """What takes the bytes of a capture."""

    def write(self, data: bytes, /) -> object:
        """Take bytes."""


class WholeRecords:
    """A new file, of which each `write` brings whole records of pcap, or whole blocks if it `has_blocks`.

    Raises, opening, writing, flushing and closing: OSError; then the file ends behind the last record that
    has room, and what should come behind is lost.
    """

    def __init__(self, path: Path, *, has_blocks: bool) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by close()
        self._has_blocks = has_blocks
        self._pending = bytearray()
        self._length = 0
        """Bytes in the file."""

    def write(self, data: bytes | memoryview, /) -> None:
        """Take records or blocks."""
        if len(data) >= _ROOM_BYTES:
            self.flush()
            self._put(memoryview(data))
        else:
            self._pending += data
            if len(self._pending) >= _ROOM_BYTES:
                self.flush()

    def flush(self) -> None:
        """Write what was taken."""
        if self._pending:
            pending, self._pending = self._pending, bytearray()
            self._put(memoryview(pending))

    def close(self) -> None:
        """Write what was taken, and close the file."""
        try:
            self.flush()
        finally:
            self._file.close()

    def _put(self, data: memoryview) -> None:
        done = 0
        try:
            while done < len(data):
                done += self._file.write(data[done:])
        except BaseException:  # Ctrl-C, too
            done = self._whole(data, done)
            with suppress(OSError):  # a pipe takes nothing back
                self._file.seek(self._length + done)
                self._file.truncate()
            raise
        finally:
            self._length += done

    def _whole(self, data: memoryview, length: int) -> int:
        """Return how many of the first bytes are whole records or blocks."""
        end = 0
        while end < length:
            if self._has_blocks:
                further = _BLOCK_HEADER.unpack_from(data, end)[1]
            elif self._length or end:
                further = _RECORD_HEADER.size + _RECORD_HEADER.unpack_from(data, end)[2]
            else:
                further = _FILE_HEADER_BYTES
            if end + further > length:
                break
            end += further
        return end
