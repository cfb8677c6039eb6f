# SPDX-License-Identifier: Apache-2.0
"""A link between two engines in virtual time: a rate, a delay, and frames that it loses."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Engine = Any


@dataclass
class Way:
    """One direction: when it is free again, and what is under way, in order."""

    source: Engine
    target: Engine
    free_ns: float = 0.0
    under_way: deque[tuple[int, bytes]] = field(default_factory=deque)


class SimulatedLink:
    """Joins two engines; a frame is lost with a chance that the seed decides, in both directions.

    `sent` counts the frames of the near end. `moved`, if given, is called after each frame that was sent or
    arrived, with the time in nanoseconds.
    """

    def __init__(
        self,
        near: Engine,
        far: Engine,
        *,
        bytes_per_ns: float,
        delay_ns: int,
        loss: float,
        seed: int,
        moved: Callable[[int], None] = lambda now_ns: None,
    ) -> None:
        self.now_ns = 0
        self.sent = 0
        self._ways = Way(near, far), Way(far, near)
        self._bytes_per_ns = bytes_per_ns
        self._delay_ns = delay_ns
        self._loss = loss
        self._rng = random.Random(seed)
        self._moved = moved

    def run(self) -> int:
        """Carry frames until neither engine has any, nor waits for anything; return the time it took."""
        began_ns = self.now_ns
        while True:
            idle = [self._send(way) for way in self._ways]
            times = [way.under_way[0][0] for way in self._ways if way.under_way]
            times += [
                int(way.free_ns) + 1 for way, is_idle in zip(self._ways, idle, strict=True) if not is_idle
            ]
            deadlines = [way.source.next_deadline_ns() for way in self._ways]
            times += [deadline_ns for deadline_ns in deadlines if deadline_ns is not None]
            if not times:
                return self.now_ns - began_ns
            self.now_ns = max(self.now_ns, min(times))
            for way, deadline_ns in zip(self._ways, deadlines, strict=True):
                self._deliver(way)
                if deadline_ns is not None and deadline_ns <= self.now_ns:
                    way.source.on_timer(self.now_ns)

    def _send(self, way: Way) -> bool:
        """Put frames on the link while it is free; True if the engine has no more of them."""
        while way.free_ns <= self.now_ns:
            frames = way.source.take_frames(1)
            if not frames:
                return True
            self.sent += way is self._ways[0]
            self._moved(self.now_ns)
            way.free_ns = max(way.free_ns, self.now_ns) + len(frames[0]) / self._bytes_per_ns
            if self._rng.random() >= self._loss:
                way.under_way.append((int(way.free_ns) + self._delay_ns, frames[0]))
        return False

    def _deliver(self, way: Way) -> None:
        while way.under_way and way.under_way[0][0] <= self.now_ns:
            way.target.on_frame(way.under_way.popleft()[1], self.now_ns)
            self._moved(self.now_ns)
