# SPDX-License-Identifier: Apache-2.0
"""What a transfer costs: a latency, a rate, and a resource that is busy until it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Cost:
    """Time of one transfer: `latency_ns` plus `length_bytes` times `ns_per_byte`."""

    latency_ns: float = 0
    ns_per_byte: float = 0.0

    def occupied_ns(self, length_bytes: int) -> int:
        """Return how long `length_bytes` bytes occupy what they pass, in nanoseconds."""
        return round(length_bytes * self.ns_per_byte)


@dataclass(frozen=True, slots=True)
class GrowingCost:
    """Time of one transfer at a rate that grows with it: `bytes_per_s` plus `growth_bytes_per_s` a byte, up
    to the largest that was measured, behind `latency_ns`.
    """

    latency_ns: float
    bytes_per_s: float
    growth_bytes_per_s: float
    measured_bytes: int

    def occupied_ns(self, length_bytes: int) -> int:
        """Return how long `length_bytes` bytes occupy what they pass, in nanoseconds."""
        measured = min(length_bytes, self.measured_bytes)
        return round(1e9 * length_bytes / (self.bytes_per_s + self.growth_bytes_per_s * measured))


AnyCost: TypeAlias = Cost | GrowingCost


@dataclass(slots=True)
class Resource:
    """A stage that serves one transfer at a time; later ones wait until it is free.

    The rate part of a cost occupies the stage, the latency part does not (it is pipelined).
    """

    cost: AnyCost
    busy_until_ns: int = 0

    def complete_at(self, length_bytes: int, now_ns: int) -> int:
        """Occupy the stage with a transfer that arrives at `now_ns`; return when it is complete."""
        start_ns = max(now_ns, self.busy_until_ns)
        self.busy_until_ns = start_ns + self.cost.occupied_ns(length_bytes)
        return self.busy_until_ns + round(self.cost.latency_ns)


@dataclass(frozen=True, slots=True)
class Timings:
    """The costs of one NIC's blocks; all zero means that effects complete at once.

    `memory`: of the GPU or host that the NIC serves. `nic`: of all its stages that a message passes.
    `trigger_ns`: the trigger unit's, for each transfer that it starts. `pipeline_ns`: of a packet in the
    match-action pipeline. `firmware_step_ns`: of a core, from one `await` to the next. `request_ns`: until
    the far side of a read sends. Pipelined stages hand on packets of `packet_bytes`. A transfer is complete
    at the far NIC, or, `to_memory`, in the memory behind it.
    """

    memory: Cost = field(default_factory=Cost)
    dma: Cost = field(default_factory=Cost)
    nic: Cost = field(default_factory=Cost)
    link: Cost = field(default_factory=Cost)
    nvme_read: AnyCost = field(default_factory=Cost)
    nvme_write: AnyCost = field(default_factory=Cost)
    trigger_ns: float = 0
    pipeline_ns: float = 0
    firmware_step_ns: int = 0
    request_ns: float = 0
    packet_bytes: int = 4096
    to_memory: bool = True

    @property
    def paces_transfers(self) -> bool:
        """Whether a transfer between NICs of one machine takes time."""
        stages = self.memory, self.dma, self.nic, self.link
        return any(cost.latency_ns or cost.ns_per_byte for cost in stages) or bool(self.trigger_ns)
