# SPDX-License-Identifier: Apache-2.0
"""Distributions in bounded memory: values counted in buckets that are each half a percent wide."""

from __future__ import annotations

from collections import Counter
from math import exp, floor, log, sqrt
from typing import Final

WIDTH: Final = 0.005
"""A bucket ends at 1 + this times its beginning: a quantile is off by half of that at most."""
_STEP: Final = log(1 + WIDTH)
_LEAST: Final = 1e-9


class Histogram:
    """Values above 0: their number and mean exactly, their quantiles to a quarter of a percent.

    From a nanosecond to a year of seconds there are some 7,700 buckets, however many values there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.greatest = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, value: float) -> None:
        """Count a value; one below 1e-9 counts as that."""
        self.count += 1
        self.total += value
        if value > self.greatest:
            self.greatest = value
        self._buckets[floor(log(value if value > _LEAST else _LEAST) / _STEP)] += 1

    def mean(self) -> float:
        """Return the mean, 0 of none."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """Return the middle of the bucket below whose end `share` of all values lie, 0 of none."""
        wanted, reached = share * self.count, 0
        for bucket in sorted(self._buckets):
            reached += self._buckets[bucket]
            if reached >= wanted:
                return min(exp(bucket * _STEP) * sqrt(1 + WIDTH), self.greatest)
        return self.greatest

    def cumulative(self) -> tuple[list[float], list[float]]:
        """Return the ends of the buckets that have values, and the share of all values up to each."""
        ends, shares, reached = [], [], 0
        for bucket in sorted(self._buckets):
            reached += self._buckets[bucket]
            ends.append(exp((bucket + 1) * _STEP))
            shares.append(reached / self.count)
        return ends, shares
