# SPDX-License-Identifier: Apache-2.0
"""Latency against size: measured points, and the line through them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from nicemu.errors import UsageError

ROUNDS, REPEATS = 5, 3
_LEAST_S, _MOST_S = 0.006, 0.3
"""How long a size is measured in a round, at least and, but for one try, at most."""


@dataclass(frozen=True, slots=True)
class Fit:
    """latency_s + s_per_byte times the size; `residual`: of the points, relative, root mean square."""

    latency_s: float
    s_per_byte: float
    residual: float

    def of(self, length_bytes: float) -> float:
        """Return the seconds that so many bytes take."""
        return self.latency_s + self.s_per_byte * length_bytes


@dataclass(frozen=True, slots=True)
class Curve:
    """What was measured: seconds, the median of several tries, at each of some sizes in bytes."""

    name: str
    points: tuple[tuple[int, float], ...]

    @property
    def fit(self) -> Fit:
        """The line through the points."""
        return fit(self.points)


def fit(points: Sequence[tuple[int, float]]) -> Fit:
    """Return the line with the least squares of relative residuals, its latency and slope not negative.

    Raises: UsageError unless there are two sizes at least, and every time is more than 0.
    """
    if len({size for size, _ in points}) < 2 or any(not 0 < seconds < math.inf for _, seconds in points):
        raise UsageError(f"{len(points)} points make no line; two sizes, each with a time, are the least")
    # With weights 1/t the residual of a point is (a + b m) / t - 1: two unknowns, whose equations are these.
    ones = [1 / seconds for _, seconds in points]
    sizes = [size / seconds for size, seconds in points]
    aa, ab, bb = (
        math.fsum(x * y for x, y in zip(one, other, strict=True))
        for one, other in ((ones, ones), (ones, sizes), (sizes, sizes))
    )
    a, b = math.fsum(ones), math.fsum(sizes)
    determinant = aa * bb - ab * ab
    latency = (a * bb - b * ab) / determinant
    slope = (b * aa - a * ab) / determinant
    if latency < 0:
        latency, slope = 0.0, b / bb
    elif slope < 0:
        latency, slope = a / aa, 0.0
    squares = [((latency + slope * size) / seconds - 1) ** 2 for size, seconds in points]
    return Fit(latency, slope, math.sqrt(math.fsum(squares) / len(squares)))


@dataclass(frozen=True, slots=True)
class Work:
    """What is timed, and what is done before each time and is not."""

    act: Callable[[], object]
    ready: Callable[[], object] = lambda: None


def measured(
    name: str, sizes: Sequence[int], prepare: Callable[[int], Work], progress: Callable[[str], None]
) -> Curve:
    """Return a curve of the work that `prepare(size)` returns, which is tried once before it counts.

    All sizes take turns, round after round: a machine that is disturbed for a while does not disturb one size
    alone. A point is the median of the rounds' medians.
    """
    rounds: dict[int, list[float]] = {size: [] for size in sizes}
    works = {size: prepare(size) for size in rounds}
    for number in range(ROUNDS):
        for size, work in works.items():
            progress(f"{name}, round {number + 1} of {ROUNDS}, {size:,} bytes")
            rounds[size].append(_tried_s(work))
    return Curve(name, tuple((size, median(found)) for size, found in rounds.items()))


def _tried_s(work: Work) -> float:
    """Return the median of several tries, after one that does not count."""
    work.ready()
    work.act()
    tries: list[float] = []
    begin = time.perf_counter()
    while len(tries) < REPEATS or time.perf_counter() - begin < _LEAST_S:
        work.ready()
        at = time.perf_counter()
        work.act()
        tries.append(time.perf_counter() - at)
        if time.perf_counter() - begin > _MOST_S:
            break
    return median(tries)
