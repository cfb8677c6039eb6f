# SPDX-License-Identifier: Apache-2.0
"""Which blocks a store of some capacity holds: the least recently used goes first.

Of one prompt the last block goes first, as in vLLM: a prefix without its head is of no use.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class BlockLru:
    """Blocks by name, each with the second at which it can be read. `capacity` 0 has no bound."""

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity
        self.evicted = 0
        self._ready_s: OrderedDict[int, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ready_s)

    def __contains__(self, block: int) -> bool:
        return block in self._ready_s

    def prefix(self, blocks: Sequence[int], count: int, now_s: float) -> int:
        """Return how many of the first `count` blocks can be read now, up to the first that cannot."""
        ready_s = self._ready_s.get
        for found in range(count):
            at_s = ready_s(blocks[found])
            if at_s is None or at_s > now_s:
                return found
        return count

    def missing(self, blocks: Sequence[int], first: int, count: int) -> list[int]:
        """Return those of blocks `first` to `count` that are not here, nor on their way."""
        return [block for block in blocks[first:count] if block not in self._ready_s]

    def use(self, blocks: Sequence[int], count: int) -> None:
        """Mark the first `count` blocks as used now, the head of the prompt last."""
        ready_s = self._ready_s
        for block in reversed(blocks[:count]):
            if block in ready_s:
                ready_s.move_to_end(block)

    def put(self, blocks: Sequence[int], ready_s: float) -> None:
        """Take blocks, in the order of the prompt; what has no place any more goes."""
        for block in reversed(blocks):
            self._ready_s[block] = ready_s
            self._ready_s.move_to_end(block)
        if self.capacity:
            while len(self._ready_s) > self.capacity:
                self._ready_s.popitem(last=False)
                self.evicted += 1

    def ready(self, blocks: Sequence[int], ready_s: float) -> None:
        """Say when blocks can be read, where they still have a place."""
        for block in blocks:
            if block in self._ready_s:
                self._ready_s[block] = ready_s
