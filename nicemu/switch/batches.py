# SPDX-License-Identifier: Apache-2.0
"""Frames through a compiled program, thousands at a time.

What `Forwarder` does a frame at a time, held equal to it by tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nicemu.kernels import CompiledEngine, Kernel, Slots
from nicemu.pipeline import Disposition

from .asked import AskedOfKernel, tally_asked
from .forwarding import Summary, left_of
from .packing import Told
from .tallies import Tallies, count_oversized, tally

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames in memory that come in: at offsets from the address `base`; so many are `cut`.

    offsets, lengths, times_ns, ports: uint64[n].
    """

    base: int
    offsets: Array
    lengths: Array
    times_ns: Array
    ports: Array
    cut: int = 0


class BatchForwarder:
    """Runs frames through an engine that has a kernel. `summary` lacks what `count` has not added yet."""

    def __init__(self, engine: CompiledEngine, summary: Summary | None = None) -> None:
        self._engine = engine
        self.summary = Summary() if summary is None else summary
        self._kernel: Kernel | None = None
        self._slots: Slots | None = None
        self._tallies = Tallies()
        self._asked: AskedOfKernel | None = None

    @property
    def memory(self) -> Array:
        """Where the frames of packets lie, uint8[], until the next `run`."""
        assert self._slots is not None
        return self._slots.memory

    def run(self, frames: Frames) -> Iterator[tuple[Array, Told]]:
        """Run frames through the program, in order; yield their packets, some at a time, until the next.

        A packet whose verdict is TOLD stands in the list beside the packets, by its number.
        """
        slots = self._slots_of(self._engine.kernel)
        self.summary.cut += frames.cut
        first = 0
        while first < len(frames.lengths):
            packets = slots.fill(
                frames.base, frames.offsets, frames.lengths, frames.times_ns, frames.ports, first
            )
            if len(packets) == 0:  # longer than any frame
                count_oversized(1, self.summary, self._engine)
            last = first + max(len(packets), 1)
            self.summary.packets += last - first
            self.summary.bytes += int(frames.lengths[first:last].sum())
            while len(packets):
                taken, left, told = self._engine.process_batch(packets)
                self._count(left, told)
                yield left, told
                packets = packets[taken:]
            first = last

    def _count(self, packets: Array, told: Told) -> None:
        tallies = self._tallies
        self.summary.with_firmware += tally(packets, tallies.out, tallies.reasons, tallies.limits)
        if self._asked is not None:
            tally_asked(packets, *self._asked.arrays())
        for _, verdict in told:
            left_of(verdict, self.summary)
            if verdict.disposition is Disposition.DROP:
                self._engine.drops[verdict.drop_reason] += 1

    def _slots_of(self, kernel: Kernel | None) -> Slots:
        """Return memory for the packets of a kernel, which may be another one than before."""
        assert kernel is not None
        if self._slots is None or self._kernel is not kernel:
            self.close()
            self._kernel, self._slots = kernel, Slots(kernel.headroom_bytes)
            self._asked = AskedOfKernel.of(kernel)
        return self._slots

    def count(self) -> Summary:
        """Return the summary, up to date."""
        if self._kernel is not None:
            self._tallies.settle(self.summary, self._engine, self._kernel)
        if self._asked is not None:
            self._asked.settle(self.summary.asked)
        return self.summary

    def close(self) -> None:
        """Count what is to be counted, and give the memory back."""
        self.count()
        if self._slots is not None:
            self._slots.close()
            self._slots = None
