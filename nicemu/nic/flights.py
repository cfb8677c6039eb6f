# SPDX-License-Identifier: Apache-2.0
"""A NIC's transfers on their way, as its driver sees them: what time it is for them, and when one lands."""

from __future__ import annotations

import numpy as np

from .pacing import PaceState


class Flights:
    """Reads and writes words of a NIC's `PaceState` without a record for each, which would cost more than all
    else at a step.
    """

    def __init__(self, state: PaceState) -> None:
        words = state.pace.view(np.ndarray)
        self._now, self._count = words["now_ns"], words["count"]
        self._lands_ns = state.flights.view(np.ndarray)["lands_ns"]

    @property
    def now_ns(self) -> int:
        """The time at which transfers leave and land."""
        return int(self._now[0])

    @now_ns.setter
    def now_ns(self, now_ns: int) -> None:
        self._now[0] = now_ns

    @property
    def next_ns(self) -> int | None:
        """When a transfer that is on its way lands; None if there is none."""
        return int(self._lands_ns[0]) if self._count[0] else None
