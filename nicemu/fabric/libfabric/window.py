# SPDX-License-Identifier: Apache-2.0
"""Programs that are armed piece by piece: when an operation of a window has fired, the next one is armed.

There is no firmware behind a library: whoever looks after the domain refills the windows, which is this
process, when it reads, waits, takes completions or lets the target go on. If it does nothing, nothing of a
program follows what is armed.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .ledger import Ledger
from .work import QueuedWork

AT_ONCE = 1024
"""So many operations are armed in one look, so that whoever reads a counter has its value soon."""


@dataclass(eq=False, slots=True)
class _Window:
    size: int
    armed: list[QueuedWork]
    pending: deque[QueuedWork]


class Windows:
    """The windows of one domain.

    `room`: trigger slots; `give`: hands work to the provider and returns its status; `refused`: is told of
    work that the provider did not take.
    """

    def __init__(
        self,
        ledger: Ledger,
        room: int,
        give: Callable[[QueuedWork], int],
        refused: Callable[[QueuedWork, int], None],
    ) -> None:
        self._ledger = ledger
        self._room = room
        self._give = give
        self._refused = refused
        self._open: dict[int, _Window] = {}
        self._next = 1

    def open(self, armed: list[QueuedWork], pending: list[QueuedWork], size: int) -> int:
        """Have `pending` follow what was armed, at most `size` operations at a time; return a number."""
        number, self._next = self._next, self._next + 1
        self._open[number] = _Window(size, armed, deque(pending))
        for work in pending:
            self._ledger.promise(work)
        return number

    def refill(self) -> None:
        """Arm what follows operations that were seen to reach their threshold."""
        left = AT_ONCE
        for number in list(self._open):
            window = self._open[number]
            left -= self._refill(window, left)
            if not window.pending:
                window.armed = [work for work in window.armed if self._ledger.waits(work)]
            if not window.pending and not window.armed:
                del self._open[number]

    def _refill(self, window: _Window, most: int) -> int:
        """Return how many operations were taken from the window: armed, or refused by the provider."""
        ledger, taken = self._ledger, 0
        while window.pending and taken < most:
            window.armed = [work for work in window.armed if ledger.waits(work)]
            free = min(window.size - len(window.armed), self._room - ledger.waiting, most - taken)
            if free <= 0:
                break
            for _ in range(min(free, len(window.pending))):
                work = window.pending.popleft()
                ledger.add(work)
                status = self._give(work)
                if status:
                    ledger.withdraw(work)
                if status == -errno.EAGAIN:
                    ledger.promise(work)
                    window.pending.appendleft(work)
                    return taken
                taken += 1
                if status:
                    self._refused(work, status)
                else:
                    window.armed.append(work)
                    ledger.look_at(work.deferred.trigger)
        return taken

    def forgo(self, numbers: Iterable[int]) -> tuple[int, list[QueuedWork]]:
        """Close windows; return how many operations they had not armed, and those that they have armed and
        that still wait.
        """
        forgone, armed = 0, []
        for number in numbers:
            window = self._open.pop(number, None)
            if window is not None:
                forgone += self._forgo(window.pending)
                armed += window.armed
        return forgone, [work for work in armed if self._ledger.waits(work)]

    def forgo_counter(self, counter: int | None) -> int:
        """Have what would wait for a counter (None: for any) never be armed; return how many operations."""
        forgone = 0
        for window in self._open.values():
            gone = [work for work in window.pending if counter in (None, work.deferred.trigger)]
            leaves = set(map(id, gone))
            window.pending = deque(work for work in window.pending if id(work) not in leaves)
            forgone += self._forgo(gone)
        return forgone

    def _forgo(self, pending: Iterable[QueuedWork]) -> int:
        count = 0
        for work in pending:
            self._ledger.forgo(work)
            count += 1
        return count
