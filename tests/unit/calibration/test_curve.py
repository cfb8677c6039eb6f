# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.calibration import fit
from nicemu.errors import UsageError

SIZES = [1 << power for power in range(12, 25, 2)]


@given(st.floats(1e-7, 1e-2), st.floats(1e-12, 1e-7))
def test_points_on_a_line_give_that_line(latency_s: float, s_per_byte: float) -> None:
    found = fit([(size, latency_s + s_per_byte * size) for size in SIZES])
    for size in SIZES:
        assert found.of(size) == pytest.approx(latency_s + s_per_byte * size, rel=1e-6)
    assert found.residual < 1e-6


def test_small_sizes_count_as_much_as_large_ones() -> None:
    """Residuals are relative: a large size that is off by half does not take the latency with it."""
    points = [(size, 1e-5 + 1e-10 * size) for size in SIZES]
    size, seconds = points[-1]
    found = fit([*points[:-1], (size, 1.5 * seconds)])
    assert found.of(SIZES[0]) == pytest.approx(points[0][1], rel=0.1)
    assert 0.01 < found.residual < 0.2


@pytest.mark.parametrize(
    ("points", "latency_s", "s_per_byte"),
    [([(1, 1e-9), (1000, 2e-6)], 0.0, None), ([(1, 2e-6), (1000, 1e-6)], None, 0.0)],
)
def test_neither_latency_nor_slope_is_negative(
    points: list[tuple[int, float]], latency_s: float | None, s_per_byte: float | None
) -> None:
    found = fit(points)
    assert latency_s is None or found.latency_s == latency_s
    assert s_per_byte is None or found.s_per_byte == s_per_byte
    assert found.latency_s >= 0
    assert found.s_per_byte >= 0


@pytest.mark.parametrize("points", [[], [(4096, 1e-6)], [(4096, 1e-6), (4096, 2e-6)], [(1, 0.0), (2, 1.0)]])
def test_what_makes_no_line_is_refused(points: list[tuple[int, float]]) -> None:
    with pytest.raises(UsageError, match="make no line"):
        fit(points)
    with pytest.raises(UsageError, match="make no line"):
        fit([*points, (7, math.inf)])
