# SPDX-License-Identifier: Apache-2.0
"""Capture files a piece at a time, as compiled code walks them."""

from __future__ import annotations

from io import BufferedReader
from typing import Any, Final

import numpy as np

from .reading import LARGEST_BYTES, PcapFile
from .records import RECORD_HEADER_BYTES

_BEHIND: Final = 64
"""Bytes behind a piece, as many as a cache's line has."""

Array = np.ndarray[Any, Any]


def _memory(length: int) -> Array:
    """Return memory for a piece with some behind it, for who takes whole words of the last frame."""
    return np.zeros(length + _BEHIND, np.uint8)[:length]


class _Pieces:
    """A piece of a file in `memory`, uint8[]: what was not taken yet lies from `first` to `end`."""

    def __init__(self, file: BufferedReader, piece_bytes: int) -> None:
        self._file = file
        self.memory = _memory(piece_bytes)
        self.first = self.end = 0
        self._behind_the_buffer = False
        """Whether all is read that the file object had read ahead."""

    def fill(self, needed: int) -> int:
        """Read once what comes behind what is left, with room for `needed` bytes in all; return how much."""
        left = self.memory[self.first : self.end].copy()
        if needed > len(self.memory):
            self.memory = _memory(needed)
        self.memory[: len(left)] = left
        came = self._read_into(self.memory.data[len(left) :])
        self.first, self.end = 0, len(left) + came
        return came

    def _read_into(self, room: memoryview) -> int:
        """Read once into memory, what is there; return the bytes. readinto1 would wait behind a buffer."""
        if self._behind_the_buffer:
            return self._file.raw.readinto(room) or 0
        buffered = self._file.read1(len(room))
        self._behind_the_buffer = len(buffered) < len(room)
        room[: len(buffered)] = buffered
        return len(buffered)


class PcapngPieces(_Pieces):
    """A pcapng file as something to read from, of which a piece lies in memory."""

    def read(self, length: int) -> bytes:
        """Return so many bytes, or fewer at the end of the file."""
        while self.end - self.first < length and self.fill(length):
            pass
        data = self.memory[self.first : min(self.first + length, self.end)].tobytes()
        self.first += len(data)
        return data


class PcapPieces(_Pieces):
    """A pcap file a piece at a time.

    What a record lacks at the end of a piece is read with the next one. Numbers are big-endian if `swapped`,
    the fraction of a second counts `unit_ns`.
    """

    def __init__(self, opened: PcapFile, piece_bytes: int) -> None:
        super().__init__(opened.file, piece_bytes)
        self._opened = opened
        self.swapped, self.unit_ns = int(opened.is_big_endian), opened.unit_ns

    def read_on(self) -> bool:
        """Read what comes behind what is left; return whether there was something.

        Raises: ProtocolError where the file ends in a record, or a record is too long to be one.
        """
        left = self.end - self.first
        came = self.fill(self._record_bytes(self.memory[self.first : self.end]))
        self._opened.read_bytes += came
        if came == 0 and left:
            raise self._opened.cut(self._opened.read_bytes)
        return bool(came)

    def _record_bytes(self, start: Array) -> int:
        """Return how long a record is that begins so."""
        if len(start) < RECORD_HEADER_BYTES:
            return RECORD_HEADER_BYTES
        length = int.from_bytes(start[8:12].tobytes(), "big" if self._opened.is_big_endian else "little")
        if length > LARGEST_BYTES:
            at = self._opened.read_bytes - len(start) + RECORD_HEADER_BYTES
            raise self._opened.too_long(length, at)
        return RECORD_HEADER_BYTES + length
