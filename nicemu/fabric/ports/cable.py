# SPDX-License-Identifier: Apache-2.0
"""A cable between two ports: what comes in at one goes out at the other, and can be looked at on the way."""

from __future__ import annotations

import time
from collections import deque

from nicemu.capture import CapturedFrame

from .port import Port

MAX_WAITING_FRAMES = 4096
"""Frames that may wait for a port that takes none; as many are taken from the other one, and no more."""


class Cable:
    """Joins two ports, which it takes over. Nothing is lost but what the ports lose."""

    def __init__(self, first: Port, second: Port) -> None:
        self.interfaces = (first.address, second.address)
        self._ports = (first, second)
        self._waiting: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self._received = [0, 0]
        self.ended = False
        self.unsplit = 0

    @property
    def waits(self) -> bool:
        """Whether there are frames that a port would not take yet."""
        return any(self._waiting)

    def receive(self) -> list[CapturedFrame]:
        """Move frames, and return those that came in at a port: its number is their interface."""
        seen: list[CapturedFrame] = []
        for number, port in enumerate(self._ports):
            waiting = self._waiting[1 - number]
            frames = port.receive() if len(waiting) < MAX_WAITING_FRAMES else []
            now_ns = time.time_ns()
            seen += [CapturedFrame(now_ns, False, frame, len(frame), number) for frame in frames]
            self._received[number] += len(frames)
            waiting.extend(frames)
            for _ in range(self._ports[1 - number].send(list(waiting)) if waiting else 0):
                waiting.popleft()
        return seen

    def news(self) -> list[str]:
        """Return nothing: ports count what goes wrong."""
        return []

    def statistics(self) -> list[tuple[int, int]]:
        """Return for each port how many frames came in, and how many frames it has lost."""
        lost = [sum(port.drops.values()) for port in self._ports]
        return list(zip(self._received, lost, strict=True))

    def filenos(self) -> list[int]:
        """Return descriptors that are readable when frames have come."""
        return [fd for port in self._ports if (fd := port.fileno()) is not None]

    def close(self) -> None:
        """Close both ports."""
        for port in self._ports:
            port.close()
