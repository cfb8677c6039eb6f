# SPDX-License-Identifier: Apache-2.0
"""Interrupts a firmware step that does not return, so that one script cannot hold up the NIC's control
thread.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

from nicemu.clock import PATIENCE
from nicemu.firmware import FirmwareOverrun

BUDGET_S = 0.1 * PATIENCE
LOAD_BUDGET_S = 2.0 * PATIENCE
"""For the top level of a script, which may import what nobody has imported before."""


class Watchdog:
    """Brackets steps with an interval timer of the main thread; install it there once."""

    def __init__(self, budget_s: float = BUDGET_S) -> None:
        self._budget_s = budget_s
        self._inside = False
        signal.signal(signal.SIGALRM, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._inside:
            raise FirmwareOverrun(f"it did not return within {signal.getitimer(signal.ITIMER_REAL)[1]} s")

    def step(self) -> AbstractContextManager[None]:
        """Bracket a step: FirmwareOverrun is raised into it when it takes longer than the budget."""
        return self._within(self._budget_s)

    def load(self) -> AbstractContextManager[None]:
        """Bracket the top level of a script."""
        return self._within(LOAD_BUDGET_S)

    @contextmanager
    def _within(self, budget_s: float) -> Iterator[None]:
        """Raise FirmwareOverrun into what runs inside when it takes too long, again and again."""
        self._inside = True
        signal.setitimer(signal.ITIMER_REAL, budget_s, budget_s)
        try:
            yield
        finally:
            self._inside = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
