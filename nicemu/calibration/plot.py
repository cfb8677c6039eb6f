# SPDX-License-Identifier: Apache-2.0
"""Latency against size, as measured and as fitted."""

from __future__ import annotations

from pathlib import Path

from nicemu.study import figure, legend_below, size_text

from .machine import Calibration

_FINE = 64
"""Pieces of a line, which is a curve where both axes are logarithmic."""


def plot_calibration(calibration: Calibration, folder: Path) -> list[Path]:
    """Draw all curves into a folder, as PNG and SVG; return the files. Raises: UsageError."""
    written: list[Path] = []
    with figure(folder, "calibration", written) as axes:
        for place, curve in enumerate(calibration.curves.values()):
            sizes, seconds = zip(*curve.points, strict=True)
            told = f"{curve.name} ({curve.fit.residual:.0%})"
            axes.plot(sizes, [1e6 * item for item in seconds], "o", color=f"C{place}", label=told)
            along = [sizes[0] * (sizes[-1] / sizes[0]) ** (step / _FINE) for step in range(_FINE + 1)]
            axes.plot(along, [1e6 * curve.fit.of(size) for size in along], color=f"C{place}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        ticks = sorted({size for curve in calibration.curves.values() for size, _ in curve.points})[::2]
        axes.set_xticks(ticks, [size_text(size) for size in ticks], rotation=30)
        axes.minorticks_off()
        axes.set_xlabel("size")
        axes.set_ylabel("latency, us")
        axes.set_title("This machine: measured, and latency + size / rate (residual)")
        legend_below(axes, 3)
    return written
