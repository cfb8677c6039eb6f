# SPDX-License-Identifier: Apache-2.0
"""Plots of the study of the talk: latency against message size, and the speed-up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nicemu.model import Operation
from nicemu.study.contract import figure, legend_below, size_text

from .readings import HpeRow, HpeSettings

_LARGEST_SMALL_BYTES = 64 << 10
_FINE = 8
"""Points an octave of a curve."""


def plot_hpe(rows: Sequence[HpeRow], settings: HpeSettings, folder: Path) -> list[Path]:
    """Draw latency against size, small and large, and the speed-up; return the files. Raises: UsageError."""
    written: list[Path] = []
    sizes = _curve(min(settings.sizes), max(settings.sizes))
    small = [size for size in sizes if size <= _LARGEST_SMALL_BYTES]
    large = [size for size in sizes if size >= _LARGEST_SMALL_BYTES]
    for operation in settings.operations:
        for name, chosen in (("small", small), ("large", large)):
            if len(chosen) > 1:
                with figure(folder, f"hpe_{operation}_latency_{name}", written) as axes:
                    _latency(axes, rows, settings, operation, chosen)
        with figure(folder, f"hpe_{operation}_speedup", written) as axes:
            _speedup(axes, rows, settings, operation, sizes)
    return written


def _curve(first: int, last: int) -> list[int]:
    found, step = [], 0
    while (size := round(first * 2 ** (step / _FINE))) < last:
        found.append(size)
        step += 1
    return [*found, last]


def _latency(
    axes: Any,  # noqa: ANN401
    rows: Sequence[HpeRow],
    settings: HpeSettings,
    operation: Operation,
    sizes: Sequence[int],
) -> None:
    for place, row in enumerate(rows):
        points = [row.point(operation, size, settings.target) for size in sizes]
        colour = f"C{place}"
        axes.plot(
            sizes, [1e6 * point.cpu_s for point in points], color=colour, label=f"{row.name} CPU: {row.title}"
        )
        axes.plot(sizes, [1e6 * point.triggered_s for point in points], color=colour, linestyle="--")
    axes.plot([], [], color="black", linestyle="--", label="triggered, same colour")
    axes.set_ylabel("latency, us")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title(f"Time to {operation} KV, led by CPUs and by triggered NICs")
    _finish(axes, sizes)


def _speedup(
    axes: Any,  # noqa: ANN401
    rows: Sequence[HpeRow],
    settings: HpeSettings,
    operation: Operation,
    sizes: Sequence[int],
) -> None:
    low, high = settings.target - settings.tolerance, settings.target + settings.tolerance
    axes.axhspan(low, high, color="0.85", label=f"{settings.target:g} ± {settings.tolerance:g}")
    for row in rows:
        found = [row.point(operation, size, settings.target).speedup for size in sizes]
        axes.plot(sizes, found, label=f"{row.name}: {row.title}")
    axes.set_ylabel("speed-up, CPUs / triggered")
    axes.set_ylim(bottom=0)
    axes.set_title(f"Speed-up to {operation} KV, under each row's conditions")
    _finish(axes, sizes)


def _finish(axes: Any, sizes: Sequence[int]) -> None:  # noqa: ANN401
    axes.set_xscale("log", base=2)
    axes.set_xlabel("message size")
    powers = [1 << power for power in range(0, 60, 2) if sizes[0] <= 1 << power <= sizes[-1]]
    axes.set_xticks(powers or [sizes[0]], [size_text(size) for size in powers or [sizes[0]]], rotation=30)
    axes.minorticks_off()
    legend_below(axes)
