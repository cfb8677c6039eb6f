# SPDX-License-Identifier: Apache-2.0
"""What programs of a NIC ask for beside frames: events, counts at trigger counters, armed work.

There is no firmware behind a switch that it would be done by; it is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from nicemu.hot import Int, Records, hot
from nicemu.kernels import Kernel
from nicemu.pipeline import CounterAdd, Effect, EventPosted, WorkArmed

TRIGGER_COUNTERS: Final = 1 << 16
"""Trigger counters that are told apart; no NIC has as many."""
OTHERS: Final = "others"
"""What all further ones are called."""
_OTHER, _ADD, _NAMED = range(3)
_LOWER: Final = np.uint64(0xFFFFFFFF)
u64 = np.uint64

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Asked:
    """How often events were posted and work was armed, by name, and what trigger counters got, by number."""

    events: Counter[str] = field(default_factory=Counter)
    armed: Counter[str] = field(default_factory=Counter)
    trigger_counters: Counter[int | str] = field(default_factory=Counter)

    def add(self, effects: Iterable[Effect]) -> None:
        """Count what a packet has left behind."""
        for effect in effects:
            match effect:
                case EventPosted(name):
                    self.events[name] += 1
                case WorkArmed(name):
                    self.armed[name] += 1
                case CounterAdd(counter, value):
                    self.trigger_counters[counter if counter < TRIGGER_COUNTERS else OTHERS] += value


@hot
def tally_asked(
    packets: Records,
    effects: Records,
    base: Int,
    kinds: Records,
    words: Records,
    times: Records,
    sums: Records,
) -> None:
    """Count what packets have left behind, by the site of each call, and what trigger counters got.

    packets: PACKET[n]; effects: uint64[], at the address `base`, as a kernel has written them; kinds:
    uint8[s] and words: uint64[s], of sites and of their records; times: uint64[s]; sums:
    uint64[TRIGGER_COUNTERS + 1].
    """
    for number in range(len(packets)):
        packet = packets[number]
        left = packet["effects_count"]
        if left == 0:
            continue
        at = np.int64((u64(packet["effects_at"]) - base & _LOWER) >> u64(3))
        for _ in range(left):
            site = np.int64(effects[at])
            times[site] += u64(1)
            if kinds[site] == _ADD:
                sums[min(effects[at + 1], u64(TRIGGER_COUNTERS))] += effects[at + 2]
            at += np.int64(words[site])


class AskedOfKernel:
    """Counts of a kernel's packets that `tally_asked` adds to, until `settle`; `arrays` are what it takes."""

    def __init__(self, kernel: Kernel) -> None:
        names = {"add": _ADD, "post": _NAMED, "arm": _NAMED}
        kinds = [names.get(site.name, _OTHER) for site in kernel.sites]
        self._kernel = kernel
        self.is_any = any(kinds)
        self._kinds = np.array(kinds, np.uint8)
        self._words = np.array([site.words for site in kernel.sites], np.uint64)
        self._times = np.zeros(len(kinds), np.uint64)
        self._sums = np.zeros(TRIGGER_COUNTERS + 1 if self.is_any else 0, np.uint64)

    @classmethod
    def of(cls, kernel: Kernel) -> AskedOfKernel | None:
        """Return what counts for a kernel; None where there is nothing to count."""
        made = cls(kernel)
        return made if made.is_any else None

    def arrays(self) -> tuple[Array, np.uint64, Array, Array, Array, Array]:
        """Return what `tally_asked` takes behind packets, until the kernel has room for more."""
        memory = self._kernel.effects_memory
        return memory, u64(memory.ctypes.data), self._kinds, self._words, self._times, self._sums

    def settle(self, asked: Asked) -> None:
        """Add what has been counted."""
        for place in np.flatnonzero(self._times).tolist():
            site, count = self._kernel.sites[place], int(self._times[place])
            if site.name in ("post", "arm"):
                name = self._kernel.event_of(site)
                (asked.events if site.name == "post" else asked.armed)[name] += count
        for number in np.flatnonzero(self._sums).tolist():
            asked.trigger_counters[number if number < TRIGGER_COUNTERS else OTHERS] += int(self._sums[number])
        self._times[:] = self._sums[:] = 0
