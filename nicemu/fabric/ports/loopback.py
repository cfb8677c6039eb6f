# SPDX-License-Identifier: Apache-2.0
"""Two ports of one process, joined by queues."""

from __future__ import annotations

from collections import Counter, deque

from .port import RECEIVE_LIMIT, ListPort, check_frames, closed

QUEUE_FRAMES = 1024


class LoopbackPort(ListPort):
    """One end of a pair that `loopback_pair` makes."""

    def __init__(
        self, address: str, outgoing: deque[bytes], incoming: deque[bytes], capacity_frames: int
    ) -> None:
        self.address = address
        self.drops: Counter[str] = Counter()
        self._outgoing = outgoing
        self._incoming = incoming
        self._capacity_frames = capacity_frames
        self._open = True

    def send(self, frames: list[bytes]) -> int:
        """Queue frames for the other end, as many as fit."""
        self._check_open()
        check_frames(frames)
        room = max(0, self._capacity_frames - len(self._outgoing))
        accepted = frames[:room]
        self._outgoing.extend(accepted)
        return len(accepted)

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Return up to `limit` frames from the other end."""
        self._check_open()
        return [self._incoming.popleft() for _ in range(min(limit, len(self._incoming)))]

    def fileno(self) -> int | None:
        """There is nothing to wait on."""
        return None

    def close(self) -> None:
        """Close this end; frames in flight to the other one stay readable there."""
        self._open = False

    def _check_open(self) -> None:
        if not self._open:
            raise closed(self.address)


def loopback_pair(capacity_frames: int = QUEUE_FRAMES) -> tuple[LoopbackPort, LoopbackPort]:
    """Return two joined ports; each direction holds `capacity_frames` frames."""
    there: deque[bytes] = deque()
    back: deque[bytes] = deque()
    return (
        LoopbackPort("loopback:0", there, back, capacity_frames),
        LoopbackPort("loopback:1", back, there, capacity_frames),
    )
