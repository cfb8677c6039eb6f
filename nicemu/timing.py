# SPDX-License-Identifier: Apache-2.0
"""What a transfer costs: a latency, a rate, and a resource that is busy until it is done."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cost:
    """Time of one transfer: `latency_ns` plus `length_bytes` times `ns_per_byte`."""

    latency_ns: int = 0
    ns_per_byte: float = 0.0

    def of(self, length_bytes: int) -> int:
        """Return the time in nanoseconds that `length_bytes` bytes take."""
        return self.latency_ns + round(length_bytes * self.ns_per_byte)


@dataclass(slots=True)
class Resource:
    """A stage that serves one transfer at a time; later ones wait until it is free.

    The rate part of a cost occupies the stage, the latency part does not (it is pipelined).
    """

    cost: Cost
    busy_until_ns: int = 0

    def complete_at(self, length_bytes: int, now_ns: int) -> int:
        """Occupy the stage with a transfer that arrives at `now_ns`; return when it is complete."""
        start_ns = max(now_ns, self.busy_until_ns)
        self.busy_until_ns = start_ns + round(length_bytes * self.cost.ns_per_byte)
        return self.busy_until_ns + self.cost.latency_ns


@dataclass(frozen=True, slots=True)
class Timings:
    """The costs of one NIC's blocks; all zero means that effects complete at once."""

    link: Cost = field(default_factory=Cost)
    dma: Cost = field(default_factory=Cost)
    nvme_read: Cost = field(default_factory=Cost)
    nvme_write: Cost = field(default_factory=Cost)
    trigger_ns: int = 0
    pipeline_ns: int = 0
    firmware_step_ns: int = 0
