# SPDX-License-Identifier: Apache-2.0
"""Frames of a batch as messages of a socket, each frame one message: what several ports do alike."""

from __future__ import annotations

import errno
import os

import numpy as np

from nicemu.wire import ETHERNET_HEADER_BYTES, FrameBatch

from .port import MAX_FRAME_BYTES
from .socket_calls import MESSAGE, PIECE, receive_messages, send_messages

SLOT_BYTES = MAX_FRAME_BYTES + 64
"""What a received frame may fill: one byte more than the longest tells one that is too long."""


class FrameMessages:
    """Sends and receives the frames of batches as messages of a socket, each frame one message.

    `destination` is the address that messages go to, as the kernel has it; empty for a connected socket.
    """

    def __init__(self, destination: bytes = b"") -> None:
        self._name = np.frombuffer(destination or b"\0", np.uint8)
        self._messages = np.zeros(0, MESSAGE)
        self._pieces = np.zeros(0, PIECE)
        self._name_bytes = len(destination)

    def _make_room(self, count: int) -> None:
        if len(self._messages) < count:
            self._messages, self._pieces = np.zeros(count, MESSAGE), np.zeros(count, PIECE)
            self._messages["piece_count"] = 1
            self._messages["pieces"] = self._pieces.ctypes.data + np.arange(count) * PIECE.itemsize

    def send(self, fd: int, batch: FrameBatch, first: int) -> int:
        """Send frames from number `first` on until the socket takes no more; return the next one's number.

        Raises: OSError if not even the first one could be sent.
        """
        count = batch.count - first
        if count == 0:
            return first
        self._make_room(count)
        self._messages["name"] = self._name.ctypes.data if self._name_bytes else 0
        self._messages["name_bytes"] = self._name_bytes
        self._pieces["address"][:count] = batch.address + batch.offsets[first : batch.count]
        self._pieces["length"][:count] = batch.lengths[first : batch.count]
        return first + or_error(send_messages(fd, self._messages.ctypes.data, count))

    def receive(self, fd: int, batch: FrameBatch, limit: int | None) -> int:
        """Receive up to `limit` frames into a batch, whatever their length; return how many.

        A message longer than MAX_FRAME_BYTES has a length of one byte more. Raises: OSError.
        """
        most = min(len(batch.offsets), len(batch.memory) // SLOT_BYTES)
        count = most if limit is None else min(limit, most)
        batch.count = 0
        if count == 0:
            return 0
        self._make_room(count)
        self._messages["name_bytes"] = self._messages["name"] = 0
        batch.offsets[:count] = np.arange(count) * SLOT_BYTES
        self._pieces["address"][:count] = batch.address + batch.offsets[:count]
        self._pieces["length"][:count] = MAX_FRAME_BYTES + 1
        came = or_error(receive_messages(fd, self._messages.ctypes.data, count))
        batch.lengths[:came] = self._messages["length"][:came]
        batch.count = came
        return came


def drop_misfits(batch: FrameBatch) -> int:
    """Take out of a batch what is no frame, being too short or too long; return how many there were."""
    lengths = batch.lengths[: batch.count]
    fits = (lengths >= ETHERNET_HEADER_BYTES) & (lengths <= MAX_FRAME_BYTES)
    wrong = batch.count - int(fits.sum())
    if wrong:
        batch.keep(fits)
    return wrong


def or_error(done: int) -> int:
    """Return what a call has done. Raises: OSError for the number of an error, negative."""
    if done < 0:
        raise OSError(-done, os.strerror(-done))
    return done


def is_full(error: OSError) -> bool:
    """Return whether an error of sending says that it may go better later."""
    return error.errno in (errno.EAGAIN, errno.ENOBUFS)
