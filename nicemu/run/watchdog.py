# SPDX-License-Identifier: Apache-2.0
"""Interrupts a firmware step that does not return, so that one script cannot hold up the NIC's control
thread.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nicemu.firmware import FirmwareOverrun

BUDGET_S = 0.1


class Watchdog:
    """Brackets steps with an interval timer of the main thread; install it there once."""

    def __init__(self, budget_s: float = BUDGET_S) -> None:
        self._budget_s = budget_s
        self._inside = False
        signal.signal(signal.SIGALRM, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._inside:
            raise FirmwareOverrun(f"a firmware step did not return within {self._budget_s} s")

    @contextmanager
    def step(self) -> Iterator[None]:
        """Raise FirmwareOverrun into what runs inside when it takes longer than the budget, again and
        again.
        """
        self._inside = True
        signal.setitimer(signal.ITIMER_REAL, self._budget_s, self._budget_s)
        try:
            yield
        finally:
            self._inside = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
