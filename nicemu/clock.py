# SPDX-License-Identifier: Apache-2.0
"""Where time comes from: the wall, or a number that only the stepper moves. Integer nanoseconds."""

from __future__ import annotations

import os
import time
from typing import Protocol

from nicemu.errors import UsageError

PATIENCE = float(os.environ.get("NICEMU_PATIENCE", "1"))
"""How many times longer than usual everything may take: more than 1 on an emulated processor. The clocks of
NICs run slower by it, and whoever waits for a NIC waits longer.
"""


class Clock(Protocol):
    """Something that tells the time in integer nanoseconds, never going back."""

    def now_ns(self) -> int:
        """Return the time in nanoseconds since an arbitrary start."""
        ...


class WallClock:
    """The machine's monotonic clock, `slower` times slower."""

    def __init__(self, slower: float = 1.0) -> None:
        self._slower = slower

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC in nanoseconds, or what is left of it."""
        now_ns = time.monotonic_ns()
        return now_ns if self._slower == 1 else int(now_ns / self._slower)


class VirtualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return the virtual time."""
        return self._now_ns

    def advance_to(self, now_ns: int) -> None:
        """Move the clock forward to `now_ns`.

        Raises: UsageError if that lies in the past.
        """
        if now_ns < self._now_ns:
            raise UsageError(f"virtual time is {self._now_ns} ns and cannot go back to {now_ns} ns")
        self._now_ns = now_ns
