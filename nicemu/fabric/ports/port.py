# SPDX-License-Identifier: Apache-2.0
"""What a NIC needs of a wire: give frames away, take frames in.

A port has two faces: lists of bytes objects, and batches of frames in memory. `ListPort` and `BatchPort` give
a port that has one of them the other.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from nicemu.errors import UsageError
from nicemu.wire import ETHERNET_HEADER_BYTES, FrameBatch

MAX_FRAME_BYTES = 9216
"""Longest Ethernet frame that every port carries, header included (a jumbo frame)."""
RECEIVE_LIMIT = 64
_NEEDED = ("send", "receive", "send_batch", "receive_batch", "fileno", "close")


class Port(Protocol):
    """One end of a link that carries whole Ethernet frames.

    Frames may be lost but never changed or cut, unless a fault port says so. A port is used by one thread.
    """

    @property
    def drops(self) -> Counter[str]:
        """Frames that could not be carried, by reason."""
        ...

    @property
    def address(self) -> str:
        """Where this end is, for people and log lines."""
        ...

    def send(self, frames: list[bytes]) -> int:
        """Accept frames in order and return how many; the rest did not fit and may be offered again.

        Raises: UsageError if the port is closed, or a frame is no frame (14 to 9216 bytes); then none is
        sent.
        """
        ...

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Return up to `limit` frames that have arrived, oldest first; an empty list if none have.

        Raises: UsageError if the port is closed.
        """
        ...

    def send_batch(self, batch: FrameBatch, first: int = 0) -> int:
        """As `send`, of the frames of a batch from number `first` on; its memory is not kept."""
        ...

    def receive_batch(self, batch: FrameBatch, limit: int | None = None) -> int:
        """As `receive`, into a batch, which then holds these frames alone; return how many.

        There are no more than the batch has room for, which is one frame of MAX_FRAME_BYTES at least.
        """
        ...

    def fileno(self) -> int | None:
        """Return a descriptor that becomes readable when frames arrive, or None where one has to look.

        Take frames until there are none before waiting for it: a port may hold some that it has read.
        """
        ...

    def close(self) -> None:
        """Give the port back; closing twice does nothing."""
        ...


class ListPort:
    """The face for batches of a port that carries lists."""

    def send(self, frames: list[bytes]) -> int:
        """As a port does."""
        raise NotImplementedError

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """As a port does."""
        raise NotImplementedError

    def send_batch(self, batch: FrameBatch, first: int = 0) -> int:
        """Send copies of a batch's frames from number `first` on."""
        return self.send(batch.frames(first))

    def receive_batch(self, batch: FrameBatch, limit: int | None = None) -> int:
        """Receive into a batch."""
        most = min(len(batch.offsets), len(batch.memory) // MAX_FRAME_BYTES)
        return batch.fill(self.receive(most if limit is None else min(limit, most)))


class BatchPort:
    """The face for lists of a port that carries batches."""

    def __init__(self) -> None:
        self._listed = FrameBatch()

    def send_batch(self, batch: FrameBatch, first: int = 0) -> int:
        """As a port does."""
        raise NotImplementedError

    def receive_batch(self, batch: FrameBatch, limit: int | None = None) -> int:
        """As a port does."""
        raise NotImplementedError

    def send(self, frames: list[bytes]) -> int:
        """Send frames, a batch at a time."""
        check_frames(frames)
        sent = 0
        while True:
            held = self._listed.fill(frames[sent:])
            taken = self.send_batch(self._listed)
            sent += taken
            if taken < held or sent == len(frames):
                return sent

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Return up to `limit` frames, received in batches."""
        frames: list[bytes] = []
        while True:
            wanted = min(limit - len(frames), RECEIVE_LIMIT)
            came = self.receive_batch(self._listed, wanted)
            frames += self._listed.frames()
            if came < wanted or len(frames) >= limit:
                return frames


def check_frames(frames: list[bytes]) -> None:
    """Raise UsageError unless every frame has a length that ports carry."""
    try:
        for frame in frames:
            if not ETHERNET_HEADER_BYTES <= len(frame) <= MAX_FRAME_BYTES:
                raise _no_frame(len(frame))
    except TypeError:
        raise UsageError(f"{frames!r} was sent; pass a list of frames, each of them bytes") from None


def check_port(port: object) -> None:
    """Raise UsageError unless `port` is one: frames can be sent and received, and it can be closed."""
    missing = [name for name in _NEEDED if not callable(getattr(port, name, None))]
    if missing or isinstance(port, type):
        raise UsageError(
            f"port is {port!r}, which has no {', '.join(missing) or 'instance'}; pass a Port, such as one of "
            "loopback_pair()"
        )


def check_batch(batch: FrameBatch, first: int) -> None:
    """Raise UsageError unless every frame from number `first` on has a length that ports carry."""
    lengths = batch.lengths[first : batch.count]
    if len(lengths) and not ETHERNET_HEADER_BYTES <= lengths.min() <= lengths.max() <= MAX_FRAME_BYTES:
        wrong = (lengths < ETHERNET_HEADER_BYTES) | (lengths > MAX_FRAME_BYTES)
        raise _no_frame(int(lengths[wrong][0]))


def _no_frame(length: int) -> UsageError:
    return UsageError(
        f"a frame of {length} bytes was sent; a port carries {ETHERNET_HEADER_BYTES} to "
        f"{MAX_FRAME_BYTES} bytes, so lower the path MTU or split the message"
    )


def closed(address: str) -> UsageError:
    """Return the error of a port that is used after it was closed."""
    return UsageError(f"port {address} is closed; open a new one")
