# SPDX-License-Identifier: Apache-2.0
"""Interrupts a firmware step that does not return, so that one script cannot hold up the NIC's control
thread.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

from nicemu.clock import PATIENCE
from nicemu.firmware import FirmwareOverrun

BUDGET_S, LONGEST_S = 0.1 * PATIENCE, 2.0 * PATIENCE
"""How long a step may run, and how long it may take where it waits, or a busy machine makes it wait."""
LOAD_BUDGET_S, LONGEST_LOAD_S = 2.0 * PATIENCE, 5.0 * PATIENCE
"""For the top level of a script, which may import what nobody has imported before."""


class Watchdog:
    """Brackets steps with an interval timer of the main thread; install it there once.

    A budget is of the time that the thread runs, so that a script is not at fault for a busy machine.
    """

    def __init__(self, budget_s: float = BUDGET_S, longest_s: float = LONGEST_S) -> None:
        self._limits_s = self._current_s = (budget_s, longest_s)
        self._begun_s = (0.0, 0.0)
        self._inside = False
        signal.signal(signal.SIGALRM, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._inside:
            return
        for now_s, begun_s, limit_s in zip(_clocks(), self._begun_s, self._current_s, strict=True):
            if now_s - begun_s >= _MOST * limit_s:
                raise FirmwareOverrun(f"it did not return within {limit_s} s")

    def step(self) -> AbstractContextManager[None]:
        """Bracket a step: FirmwareOverrun is raised into it when it takes longer than it may."""
        return self._within(self._limits_s)

    def load(self) -> AbstractContextManager[None]:
        """Bracket the top level of a script."""
        return self._within((LOAD_BUDGET_S, LONGEST_LOAD_S))

    @contextmanager
    def _within(self, limits_s: tuple[float, float]) -> Iterator[None]:
        """Raise FirmwareOverrun into what runs inside when it takes too long, again and again."""
        self._current_s, self._begun_s = limits_s, _clocks()
        self._inside = True
        signal.setitimer(signal.ITIMER_REAL, limits_s[0], limits_s[0])
        try:
            yield
        finally:
            self._inside = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)


_MOST = 0.9
"""The timer may ring a little before the thread has run as long."""


def _clocks() -> tuple[float, float]:
    """Return how long this thread has run, and what time it is, in seconds."""
    return time.thread_time(), time.monotonic()
