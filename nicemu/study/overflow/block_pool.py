# SPDX-License-Identifier: Apache-2.0
"""Paged KV memory: blocks that are free, held by sequences, or draining to where their KV is kept."""

from __future__ import annotations

import math
from heapq import heappop, heappush


class BlockPool:
    """`free`, `held` and `draining` always add up to `total`."""

    def __init__(self, total: int) -> None:
        self.total = self.free = total
        self.held = self.draining = 0
        self._drains: list[tuple[float, int]] = []

    @property
    def use(self) -> float:
        """The share of the blocks that are not free, 0 to 1."""
        return 1 - self.free / self.total

    @property
    def next_s(self) -> float:
        """When blocks that drain will be free next; infinity if none drain."""
        return self._drains[0][0] if self._drains else math.inf

    def take(self, count: int) -> None:
        """Give free blocks to a sequence."""
        assert count <= self.free, f"{count} blocks of {self.free} free ones"
        self.free -= count
        self.held += count

    def release(self, count: int, now_s: float, free_at_s: float) -> None:
        """Take blocks from a sequence; they are free now, or have drained at a later time."""
        assert count <= self.held, f"{count} blocks of {self.held} held ones"
        self.held -= count
        if free_at_s <= now_s:
            self.free += count
        else:
            self.draining += count
            heappush(self._drains, (free_at_s, count))

    def drain(self, now_s: float) -> None:
        """Free the blocks that have drained by now."""
        while self._drains and self._drains[0][0] <= now_s:
            _, count = heappop(self._drains)
            self.draining -= count
            self.free += count
