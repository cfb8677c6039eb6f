# SPDX-License-Identifier: Apache-2.0
"""What a NIC needs of a wire: give frames away, take frames in."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from nicemu.errors import UsageError
from nicemu.wire import ETHERNET_HEADER_BYTES

MAX_FRAME_BYTES = 9216
"""Longest Ethernet frame that every port carries, header included (a jumbo frame)."""
RECEIVE_LIMIT = 64


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

    def fileno(self) -> int | None:
        """Return a descriptor that becomes readable when frames arrive, or None where one has to look."""
        ...

    def close(self) -> None:
        """Give the port back; closing twice does nothing."""
        ...


def check_frames(frames: list[bytes]) -> None:
    """Raise UsageError unless every frame has a length that ports carry."""
    for frame in frames:
        if not ETHERNET_HEADER_BYTES <= len(frame) <= MAX_FRAME_BYTES:
            raise UsageError(
                f"a frame of {len(frame)} bytes was sent; a port carries {ETHERNET_HEADER_BYTES} to "
                f"{MAX_FRAME_BYTES} bytes, so lower the path MTU or split the message"
            )


def closed(address: str) -> UsageError:
    """Return the error of a port that is used after it was closed."""
    return UsageError(f"port {address} is closed; open a new one")
