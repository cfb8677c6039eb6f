# SPDX-License-Identifier: Apache-2.0
"""Keys in the order of a rank that may change: O(log n) to add, O(1) to take out, k log n for the first k."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from heapq import heapify, heappop, heappush

_SPARE = 64


class RankedQueue:
    """Keys by rank, the lowest first; of equal ranks the one that was added first.

    What is taken out stays in the heap until it comes up, or until the heap is more than half of that.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Hashable]] = []
        self._added: dict[Hashable, int] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._added)

    def add(self, key: Hashable, rank: int, second: int = 0) -> None:
        """Add a key that is not there, by its rank; `second` decides between equal ones."""
        self._sequence += 1
        self._added[key] = self._sequence
        heappush(self._heap, (rank, second, self._sequence, key))

    def discard(self, key: Hashable) -> None:
        """Take a key out that is there."""
        del self._added[key]
        if len(self._heap) > 2 * len(self._added) + _SPARE:
            self._heap = [item for item in self._heap if self._added.get(item[3]) == item[2]]
            heapify(self._heap)

    def in_order(self) -> Generator[Hashable, None, None]:
        """Yield the keys, the lowest first; close it before the queue changes. Nothing is taken out."""
        seen: list[tuple[int, int, int, Hashable]] = []
        try:
            while self._heap:
                item = heappop(self._heap)
                if self._added.get(item[3]) == item[2]:
                    seen.append(item)
                    yield item[3]
        finally:
            for item in seen:
                heappush(self._heap, item)
