# SPDX-License-Identifier: Apache-2.0
"""The control thread's side of the rings: records down to the datapath, records up from it, and standing
still.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from nicemu.abi import ARMED
from nicemu.hot import Int, Records, hot
from nicemu.pcie import exchange_u64, load_u64, store_u64

from .arena import RING_COUNT, Arena

_UP_HEAD, _UP_TAIL, _DOWN_HEAD, _DOWN_TAIL = 0, 8, 16, 24
_STOP, _SLEEPING, _PAUSE, _PARKED = 32, 40, 128, 136


@hot
def _exchange(address: Int, value: Int) -> None:
    """Store with a full barrier: what is loaded behind it is not older than what others see."""
    exchange_u64(address, value)


@dataclass(slots=True)
class Record:
    """A record from the datapath: a kind, up to four operands, and armed work where the kind has some."""

    kind: int
    words: tuple[int, int, int, int]
    work: Any


class ControlRings:
    """Talks to the datapath of one arena.

    `live` says whether a datapath thread runs; without one, pausing it takes no time.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._link = int(arena.link[0].address)
        self._waiting: deque[tuple[int, tuple[int, ...], Any]] = deque()
        self._up_head = 0
        self._fence = np.zeros(1, np.uint64)
        self.live = False
        self._pauses = 0

    def push(self, kind: int, *words: int, work: Records = None) -> None:
        """Ask the datapath for something; kept here while the ring is full."""
        self._waiting.append((kind, words, work))
        self.flush()

    def flush(self) -> None:
        """Move what is kept here into the ring as far as there is room."""
        tail = load_u64(self._link + _DOWN_TAIL)
        while self._waiting and tail - load_u64(self._link + _DOWN_HEAD) < RING_COUNT:
            kind, words, work = self._waiting.popleft()
            record = self._arena.down[tail % RING_COUNT]
            record.kind = kind
            for position, word in enumerate(words):
                record.words[position] = word
            if work is not None:
                record.work = work
            tail += 1
            store_u64(self._link + _DOWN_TAIL, tail)

    @property
    def unread(self) -> int:
        """Records that the datapath has not read, at most."""
        in_ring: int = load_u64(self._link + _DOWN_TAIL) - load_u64(self._link + _DOWN_HEAD)
        return in_ring + len(self._waiting)

    def on_their_way(self, kind: int, window: int) -> list[Any]:
        """Return a window's work in records of a kind that the datapath, which is paused, has not read."""
        return [record.work for record in self._unread(kind, window)] + [
            work for number, _, work in self._waiting if number == kind and work["window"] == window
        ]

    def withdraw(self, kind: int, window: int, is_meant: Callable[[Any], bool]) -> int:
        """Take back such records; return how many."""
        kept = deque(
            one
            for one in self._waiting
            if one[0] != kind or one[2]["window"] != window or not is_meant(one[2])
        )
        count = len(self._waiting) - len(kept)
        self._waiting = kept
        for record in self._unread(kind, window):
            if is_meant(record.work):
                record.kind = 0
                count += 1
        return count

    def _unread(self, kind: int, window: int) -> Iterator[Any]:
        for number in range(load_u64(self._link + _DOWN_HEAD), load_u64(self._link + _DOWN_TAIL)):
            record = self._arena.down[number % RING_COUNT]
            if record.kind == kind and record.work["window"] == window:
                yield record

    def take(self) -> list[Record]:
        """Take all records that the datapath has handed up."""
        records = []
        tail = load_u64(self._link + _UP_TAIL)
        while self._up_head < tail:
            record = self._arena.up[self._up_head % RING_COUNT]
            words = record.words
            copied = np.zeros((), ARMED)
            copied[()] = record.work
            records.append(
                Record(
                    int(record.kind),
                    (int(words[0]), int(words[1]), int(words[2]), int(words[3])),
                    copied[()],
                )
            )
            self._up_head += 1
        store_u64(self._link + _UP_HEAD, self._up_head)
        return records

    @property
    def idle(self) -> bool:
        """Whether nothing waits in either direction."""
        link = self._link
        return (
            not self._waiting
            and load_u64(link + _UP_TAIL) == self._up_head
            and load_u64(link + _DOWN_TAIL) == load_u64(link + _DOWN_HEAD)
        )

    def prepare_sleep(self) -> bool:
        """Say that the control thread will wait for its eventfd; False: there is work, do not wait."""
        _exchange(np.uint64(self._link + _SLEEPING), np.uint64(1))
        if load_u64(self._link + _UP_TAIL) != self._up_head or self._waiting:
            self.woke()
            return False
        return True

    def fence(self) -> None:
        """Let what was stored before be seen by peers before anything is loaded behind it."""
        _exchange(np.uint64(self._fence.ctypes.data), np.uint64(0))

    def woke(self) -> None:
        """Say that the control thread is awake, and empty the eventfd."""
        store_u64(self._link + _SLEEPING, 0)
        with suppress(BlockingIOError):
            os.eventfd_read(int(self._arena.link[0].eventfd))

    def stop(self) -> None:
        """Let `run_datapath` return."""
        store_u64(self._link + _STOP, 1)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the datapath stand still, so that this thread may change what it works on."""
        self._pauses += 1
        store_u64(self._link + _PAUSE, 1)
        try:
            while self.live and load_u64(self._link + _PARKED) == 0 and load_u64(self._link + _STOP) == 0:
                os.sched_yield()
            yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                store_u64(self._link + _PAUSE, 0)
                while self.live and load_u64(self._link + _PARKED) and load_u64(self._link + _STOP) == 0:
                    os.sched_yield()
