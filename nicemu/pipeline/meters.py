# SPDX-License-Identifier: Apache-2.0
"""Two-rate three-colour markers, and arrays of them.

Source: RFC 2698, "A Two Rate Three Color Marker", "Metering" (color-blind mode).
"""

from __future__ import annotations

from dataclasses import dataclass

GREEN, YELLOW, RED = range(3)


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """Rates in units (packets or bytes) a second, bursts in units."""

    committed_rate: float
    committed_burst: int
    peak_rate: float
    peak_burst: int


@dataclass(slots=True, eq=False)
class Meter:
    """One meter. Without a configuration everything is green."""

    config: MeterConfig | None = None
    _committed: float = 0.0
    _peak: float = 0.0
    _filled_ns: int = 0

    def configure(self, config: MeterConfig | None, now_ns: int) -> None:
        """Start afresh with full buckets; None takes the configuration away."""
        self.config = config
        self._filled_ns = now_ns
        if config is not None:
            self._committed, self._peak = float(config.committed_burst), float(config.peak_burst)

    def mark(self, units: int, now_ns: int) -> int:
        """Return the colour of a packet of so many units that comes now."""
        config = self.config
        if config is None:
            return GREEN
        elapsed_s = max(now_ns - self._filled_ns, 0) / 1e9
        self._filled_ns = max(now_ns, self._filled_ns)
        self._committed = min(self._committed + config.committed_rate * elapsed_s, config.committed_burst)
        self._peak = min(self._peak + config.peak_rate * elapsed_s, config.peak_burst)
        if self._peak < units:
            return RED
        self._peak -= units
        if self._committed < units:
            return YELLOW
        self._committed -= units
        return GREEN
