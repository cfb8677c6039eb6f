# SPDX-License-Identifier: Apache-2.0
"""The policies by name: none, LRU, LFU, pin, hint, and what triggered offload uses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Hashable, Mapping
from typing import Final

from .hints import HintPolicy
from .policy import Hint, Policy, Record
from .ranked_queue import RankedQueue


class Lru(Policy):
    """Least recently used: the entry goes whose last use, or arrival in the tier, is longest ago.

    Entries of one time go in the order in which they were released: release a prefix from its end, and the
    end goes first, without which the rest is still of use.
    """

    name = "lru"

    def __init__(self) -> None:
        super().__init__()
        self._queue: OrderedDict[Hashable, None] = OrderedDict()

    def _enter(self, key: Hashable, record: Record) -> None:
        self._queue[key] = None

    def _leave(self, key: Hashable, record: Record) -> None:
        del self._queue[key]

    def _in_order(self, now_ns: int) -> Generator[Hashable, None, None]:
        yield from self._queue


class NoCache(Lru):
    """Nothing is kept: no entry is worth a place. One that is inserted nevertheless goes as by LRU."""

    name = "none"

    def admits(self, key: Hashable, length_bytes: int, now_ns: int, hint: Hint | None = None) -> bool:
        """Return that none is."""
        return False


class Pin(Lru):
    """LRU, but what a hint pins stays until another hint says otherwise."""

    name = "pin"
    heeds_pins = True


class Lfu(Policy):
    """Least frequently used: the entry goes that was used least often while it was here, or in another tier.

    Among equals, the least recently used goes. Counts never age, so that what was popular once stays long.
    """

    name = "lfu"

    def __init__(self) -> None:
        super().__init__()
        self._queue = RankedQueue()

    def _enter(self, key: Hashable, record: Record) -> None:
        self._queue.add(key, record.uses, record.used_ns)

    def _leave(self, key: Hashable, record: Record) -> None:
        self._queue.discard(key)

    def _in_order(self, now_ns: int) -> Generator[Hashable, None, None]:
        yield from self._queue.in_order()


class Triggered(HintPolicy):
    """As `hint`: the same host gives the hints when it arms the work; what differs is who moves the bytes."""

    name = "triggered"


POLICIES: Final[Mapping[str, type[Policy]]] = {
    policy.name: policy for policy in (NoCache, Lru, Lfu, HintPolicy, Pin, Triggered)
}
"""The policies by their names."""
