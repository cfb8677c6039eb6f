# SPDX-License-Identifier: Apache-2.0
"""What has become of a kernel's packets, counted in arrays until somebody asks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nicemu.hot import Int, Records, hot
from nicemu.kernels import DROPPED, HELD, SPLIT, CompiledEngine, Kernel, drop_reason

from .forwarding import HOST, Summary
from .places import HOST_PLACE, PLACES, place_of

_REASONS: Final = 1 << 16

Array = np.ndarray[Any, Any]


@hot
def tally(packets: Records, out: Records, reasons: Records, limits: Records) -> Int:
    """Count packets by where they leave, why they are dropped, and why some of what they become is.

    packets: PACKET[n]; out: uint64[PLACES]; reasons, limits: uint64[65536]. Returns how many are held.
    """
    held = 0
    for number in range(len(packets)):
        held += tally_one(packets[number], place_of(packets[number]), out, reasons, limits)
    return held


@hot
def tally_one(packet: Records, place: Int, out: Records, reasons: Records, limits: Records) -> Int:
    """Count a packet that leaves to a place, as `place_of` has them; return 1 if it is held, else 0."""
    if place < PLACES:
        out[place] += np.uint64(1)
    elif packet["verdict"] == DROPPED:
        reasons[packet["reason"]] += np.uint64(1)
    elif packet["verdict"] == SPLIT and packet["reason"] != 0:
        limits[packet["reason"]] += np.uint64(1)
    elif packet["verdict"] == HELD:
        return 1
    return 0


class Tallies:
    """Counts that `tally` adds to, and that a summary and an engine lack until `settle`."""

    def __init__(self) -> None:
        self.out = np.zeros(PLACES, np.uint64)
        self.reasons, self.limits = np.zeros(_REASONS, np.uint64), np.zeros(_REASONS, np.uint64)

    def settle(self, summary: Summary, engine: CompiledEngine, kernel: Kernel) -> None:
        """Add what packets of a kernel have been counted to a summary, and drops to an engine's."""
        for place in np.flatnonzero(self.out).tolist():
            summary.out[HOST if place == HOST_PLACE else place] += int(self.out[place])
        for code in np.flatnonzero(self.reasons).tolist():
            reason, count = drop_reason(kernel.program, code), int(self.reasons[code])
            summary.dropped[reason] += count
            engine.drops[reason] += count
        for code in np.flatnonzero(self.limits).tolist():
            summary.dropped[drop_reason(kernel.program, code)] += int(self.limits[code])
        for counts in (self.out, self.reasons, self.limits):
            counts[:] = 0


def count_oversized(count: int, summary: Summary, engine: CompiledEngine) -> None:
    """Count packets that are longer than any frame."""
    if count:
        summary.dropped["pipeline.oversized"] += count
        engine.drops["pipeline.oversized"] += count
