# SPDX-License-Identifier: Apache-2.0
"""Counters, meters and registers of v1model: arrays whose places take memory once they are used."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nicemu.errors import ControlError, P4RuntimeCode

from . import ir
from .meters import GREEN, Meter, MeterConfig
from .values import Value

MAX_PLACES = 1 << 28
"""Largest array that the engine takes; only what is used takes memory."""
MAX_COUNT = (1 << 64) - 1


@dataclass(slots=True, eq=False)
class Count:
    """What a counter has counted, modulo 2**64."""

    packets: int = 0
    bytes: int = 0

    def add(self, length_bytes: int) -> None:
        """Count one packet."""
        self.packets = self.packets + 1 & MAX_COUNT
        self.bytes = self.bytes + length_bytes & MAX_COUNT


@dataclass(slots=True, eq=False)
class Array:
    """`size` places, called `name` in messages."""

    name: str
    size: int

    def __post_init__(self) -> None:
        if not 0 <= self.size <= MAX_PLACES:
            raise ControlError(
                P4RuntimeCode.INVALID_ARGUMENT,
                f"{self.name} has {self.size} places; {MAX_PLACES} are allowed",
            )

    def checked(self, index: int) -> int:
        """Return an index that a controller gave. Raises: ControlError(OUT_OF_RANGE)."""
        if not 0 <= index < self.size:
            raise ControlError(
                P4RuntimeCode.OUT_OF_RANGE, f"{self.name} has {self.size} places; there is no place {index}"
            )
        return index


@dataclass(slots=True, eq=False)
class CounterArray(Array):
    """Counts by index; one that is outside is not counted. `others` is what all others stand at."""

    counts: dict[int, Count] = field(default_factory=dict)
    others: Count = field(default_factory=Count)

    def fill(self, count: Count) -> None:
        """Have every place stand at this."""
        self.counts.clear()
        self.others = replace(count)

    def count(self, index: int, length_bytes: int) -> None:
        """Count a packet at an index."""
        if 0 <= index < self.size:
            if index not in self.counts:
                self.counts[index] = replace(self.others)
            self.counts[index].add(length_bytes)


@dataclass(slots=True, eq=False)
class MeterArray(Array):
    """Meters by index; one that is outside, or not configured, is green. `in_bytes` says what is metered.

    `others` is how all others are configured.
    """

    in_bytes: bool
    meters: dict[int, Meter] = field(default_factory=dict)
    others: MeterConfig | None = None

    def configure(self, index: int, config: MeterConfig | None, now_ns: int) -> None:
        """Give the meter at an index its rates, with full buckets."""
        self.meters.setdefault(index, Meter()).configure(config, now_ns)

    def mark(self, index: int, length_bytes: int, now_ns: int) -> int:
        """Return the colour of a packet at an index."""
        if not 0 <= index < self.size:
            return GREEN
        meter = self.meters.get(index)
        if meter is None:
            meter = self.meters[index] = Meter()
            meter.configure(self.others, now_ns)
        return meter.mark(length_bytes if self.in_bytes else 1, now_ns, length_bytes)

    def fill(self, config: MeterConfig | None, now_ns: int) -> None:
        """Give every meter these rates, with full buckets."""
        self.others = config
        for meter in self.meters.values():
            meter.configure(config, now_ns)


@dataclass(slots=True, eq=False)
class RegisterArray(Array):
    """Values by index; one that was never written is `others`, the zero of `type` where that is None."""

    type: ir.Type
    values: dict[int, Value] = field(default_factory=dict)
    others: Value = None

    def fill(self, value: Value) -> None:
        """Store a value everywhere."""
        self.values.clear()
        self.others = value

    def read(self, index: int, zero: Value) -> Value:
        """Return a value; outside it is `zero`."""
        if not 0 <= index < self.size:
            return zero
        return self.values.get(index, zero if self.others is None else self.others)

    def write(self, index: int, value: Value) -> None:
        """Store a value; outside nothing changes."""
        if 0 <= index < self.size:
            self.values[index] = value
