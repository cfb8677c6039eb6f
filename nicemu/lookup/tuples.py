# SPDX-License-Identifier: Apache-2.0
"""The tuples of a table with priorities, in memory: what each masks, best priority first.

A tuple is of the entries with one mask, or it is `SHARED` by entries of many masks, which all have its bits.

Lookups are given one address: of the number of tuples, and behind it for every tuple its best priority, its
number, and its mask in limbs. A change is written beside what is published and published by one store. What
is published never promises less than there is: a tuple comes before its first entry and goes after its last.
"""

from __future__ import annotations

import ctypes
import heapq
import struct
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from nicemu.pcie import load_u64, store_u64

from .entries import KIND, UPDATES
from .memory import Memory
from .table import WORD_BYTES, limbs_of

SHARED: Final = 1 << 63
"""The bit of a tuple's number that says so."""
_MOST_UNUSED: Final = 64


@dataclass(slots=True, eq=False)
class _Tuple:
    """The entries of a tuple: how many of each priority, and a heap of the priorities, negative.

    Both keep priorities that no entry has any more, until they are the best or as many as the others.
    """

    mask: int
    number: int
    counts: dict[int, int] = field(default_factory=dict)
    priorities: list[int] = field(default_factory=list)
    unused: int = 0
    """How many of the priorities no entry has."""
    listed: int = 0
    """The best priority that is published; 0: the tuple is not."""

    @property
    def best(self) -> int:
        """The largest priority of an entry; 0 if there is none."""
        while self.priorities and not self.counts[-self.priorities[0]]:
            del self.counts[-heapq.heappop(self.priorities)]
            self.unused -= 1
        return -self.priorities[0] if self.priorities else 0

    def add(self, priority: int) -> None:
        """Count an entry that has come."""
        count = self.counts.get(priority)
        if count is None:
            heapq.heappush(self.priorities, -priority)
        elif not count:
            self.unused -= 1
        self.counts[priority] = (count or 0) + 1

    def drop(self, priority: int) -> None:
        """Count an entry that has gone."""
        self.counts[priority] -= 1
        if self.counts[priority]:
            return
        self.unused += 1
        if self.unused > _MOST_UNUSED and 2 * self.unused > len(self.priorities):
            self.counts = {priority: count for priority, count in self.counts.items() if count}
            self.priorities = sorted(-priority for priority in self.counts)
            self.unused = 0


class Tuples:
    """The tuples of the table whose state is at `state`; at most `size` of them."""

    def __init__(self, state: np.uint64, size: int, limbs: int) -> None:
        self._state = state
        self._limbs = limbs
        self._pack = struct.Struct(f"={2 + limbs}Q").pack
        self._tuple_bytes = (2 + limbs) * WORD_BYTES
        buffer_bytes = WORD_BYTES + (size + 1) * self._tuple_bytes
        self._memory = Memory(2 * buffer_bytes)
        self._buffers = [self._memory.address, self._memory.address + buffer_bytes]
        self._by_mask: dict[tuple[int, bool], _Tuple] = {}
        self._by_number: dict[int, _Tuple] = {}
        self._ordered: list[tuple[int, int]] = []
        self._packed = bytearray()
        self._numbered = 0
        self._publish()

    def __len__(self) -> int:
        return len(self._ordered)

    def number_of(self, mask: int, shared: bool) -> int | None:
        """Return the number of a tuple, None if there is none."""
        found = self._by_mask.get((mask, shared))
        return None if found is None else found.number

    def mask_of(self, number: int) -> int:
        """Return the mask of a tuple."""
        return self._by_number[number].mask

    def number_for(self, mask: int, shared: bool, priority: int) -> int:
        """Return the number of a tuple, published for an entry of this priority to come."""
        found = self._by_mask.get((mask, shared))
        if found is None:
            found = _Tuple(mask, self._numbered | (SHARED if shared else 0))
            self._by_mask[mask, shared] = self._by_number[found.number] = found
            self._numbered += 1
        if priority > found.listed:
            self._list(found, priority)
        return found.number

    def add(self, number: int, priority: int) -> None:
        """Count an entry that has come."""
        self._by_number[number].add(priority)

    def drop(self, number: int, priority: int) -> None:
        """Count an entry that has gone, and publish what is less now."""
        found = self._by_number[number]
        found.drop(priority)
        if found.best < found.listed:
            self._list(found, found.best)
        if not found.listed:
            del self._by_mask[found.mask, bool(number & SHARED)], self._by_number[number]

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()

    def _list(self, one: _Tuple, best: int) -> None:
        """Publish a tuple with another best priority; with 0, no longer."""
        if one.listed:
            place = bisect_left(self._ordered, (-one.listed, one.number))
            del self._ordered[place]
            del self._packed[place * self._tuple_bytes : (place + 1) * self._tuple_bytes]
        if best:
            insort(self._ordered, (-best, one.number))
            at = bisect_left(self._ordered, (-best, one.number)) * self._tuple_bytes
            self._packed[at:at] = self._pack(best, one.number, *limbs_of(one.mask, self._limbs))
        one.listed = best
        self._publish()

    def _publish(self) -> None:
        self._buffers.reverse()
        target = self._buffers[0]
        packed = (ctypes.c_char * len(self._packed)).from_buffer(self._packed)
        ctypes.memmove(target + WORD_BYTES, packed, len(self._packed))
        store_u64(target, len(self._ordered))
        store_u64(self._state + KIND, target)
        store_u64(self._state + UPDATES, load_u64(self._state + UPDATES) + 1)
