# SPDX-License-Identifier: Apache-2.0
"""Markers of one rate and of two. Their state lies in memory, so that compiled code can mark, too.

Source: RFC 2698, "A Two Rate Three Color Marker", RFC 2697, "A Single Rate Three Color Marker", "Metering" of
both (color-blind mode); P4Runtime Specification 1.4, "Meter & DirectMeter".
"""

from __future__ import annotations

import ctypes
import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

GREEN, YELLOW, RED = range(3)
METER_TYPES = ("two_rate_three_color", "single_rate_three_color", "single_rate_two_color")
"""What meters there are, by the annotations that say so; the first is what others are."""
Colours: TypeAlias = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
"""Packets and bytes that were marked green, yellow and red."""
UNCOUNTED: Final[Colours] = ((0, 0), (0, 0), (0, 0))


class MeterMode(enum.IntEnum):
    """How a meter marks packets."""

    UNCONFIGURED = 0
    """Green, since it was never configured."""
    TWO_RATE = 1
    PASS = 2
    """Green, since its configuration was taken away."""
    ONE_RATE = 3


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """Rates in units (packets or bytes) a second, bursts in units. With an `excess_burst` the meter has one
    rate, the committed one.
    """

    committed_rate: float
    committed_burst: int
    peak_rate: float
    peak_burst: int
    excess_burst: int = 0


class MeterState(ctypes.Structure):
    """A meter in memory, 128 bytes: its mode, its rates and bursts, what its two buckets hold, when they
    were filled last, in nanoseconds, and the packets and bytes marked green, yellow and red. The peak rate's
    bucket is that of the excess burst where there is one.
    """

    _fields_ = (
        ("mode", ctypes.c_uint64),
        ("committed_rate", ctypes.c_double),
        ("committed_burst", ctypes.c_double),
        ("peak_rate", ctypes.c_double),
        ("peak_burst", ctypes.c_double),
        ("committed", ctypes.c_double),
        ("peak", ctypes.c_double),
        ("filled_ns", ctypes.c_uint64),
        ("marked", ctypes.c_uint64 * 6),
        ("unused", ctypes.c_uint64 * 2),
    )


@dataclass(slots=True, eq=False)
class Meter:
    """One meter. Without a configuration everything is green. It counts what it has marked."""

    config: MeterConfig | None = None
    _state: MeterState | None = None

    def __post_init__(self) -> None:
        if self._state is not None:  # a copy of another meter has a state of its own
            self._state = MeterState.from_buffer_copy(self._state)

    @property
    def address(self) -> int:
        """The address of the meter's state, valid until the meter is moved, and as long as it."""
        if self._state is None:
            self._state = MeterState()
        return ctypes.addressof(self._state)

    def move(self, address: int) -> None:
        """Keep the state at an address from now on."""
        before, self._state = self._state, MeterState.from_address(address)
        if before is not None:
            ctypes.memmove(address, ctypes.addressof(before), ctypes.sizeof(MeterState))

    def leave(self) -> None:
        """Keep the state in memory of the meter's own."""
        if self._state is not None:
            self._state = MeterState.from_buffer_copy(self._state)

    def resume(self, other: Meter) -> None:
        """Go on as another meter, with the state where this one's is: a kernel may mark there."""
        self.config = other.config
        ctypes.memmove(self.address, other.address, ctypes.sizeof(MeterState))

    @property
    def colours(self) -> Colours:
        """What was marked in each colour."""
        if self._state is None:
            return UNCOUNTED
        green, green_bytes, yellow, yellow_bytes, red, red_bytes = self._state.marked
        return (green, green_bytes), (yellow, yellow_bytes), (red, red_bytes)

    @colours.setter
    def colours(self, colours: Colours) -> None:
        self._state = self._state or MeterState()
        self._state.marked[:] = [number for count in colours for number in count]

    def configure(self, config: MeterConfig | None, now_ns: int) -> None:
        """Start afresh with full buckets; None takes the configuration away."""
        self.config = config
        if config is None and self._state is None:
            return
        state = self._state = self._state or MeterState()
        state.filled_ns = now_ns
        state.mode = MeterMode.PASS
        if config is not None:
            state.mode = MeterMode.ONE_RATE if config.excess_burst else MeterMode.TWO_RATE
            state.committed_rate, state.peak_rate = config.committed_rate, config.peak_rate
            state.committed_burst = state.committed = config.committed_burst
            state.peak_burst = state.peak = config.excess_burst or config.peak_burst

    def mark(self, units: int, now_ns: int, length_bytes: int = 0) -> int:
        """Return the colour of a packet of so many units that comes now, and count it."""
        state = self._state = self._state or MeterState()
        colour = self._colour(state, units, now_ns)
        state.marked[2 * colour] += 1
        state.marked[2 * colour + 1] += length_bytes
        return colour

    @staticmethod
    def _colour(state: MeterState, units: int, now_ns: int) -> int:
        if state.mode in (MeterMode.UNCONFIGURED, MeterMode.PASS):
            return GREEN
        elapsed_s = max(now_ns - state.filled_ns, 0) / 1e9
        state.filled_ns = max(now_ns, state.filled_ns)
        if state.mode == MeterMode.ONE_RATE:
            return _colour_of_one_rate(state, units, elapsed_s)
        state.committed = min(state.committed + state.committed_rate * elapsed_s, state.committed_burst)
        state.peak = min(state.peak + state.peak_rate * elapsed_s, state.peak_burst)
        if state.peak < units:
            return RED
        state.peak -= units
        if state.committed < units:
            return YELLOW
        state.committed -= units
        return GREEN


def _colour_of_one_rate(state: MeterState, units: int, elapsed_s: float) -> int:
    """Fill the committed bucket, with what it cannot hold the excess one, and take a packet from either."""
    total = state.committed + state.committed_rate * elapsed_s
    state.committed = min(total, state.committed_burst)
    state.peak = min(state.peak + max(total - state.committed_burst, 0.0), state.peak_burst)
    if state.committed >= units:
        state.committed -= units
        return GREEN
    if state.peak >= units:
        state.peak -= units
        return YELLOW
    return RED
