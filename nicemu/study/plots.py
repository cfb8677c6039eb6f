# SPDX-License-Identifier: Apache-2.0
"""Plots of the studies, each as PNG and SVG, the same bytes for the same results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nicemu.errors import UsageError
from nicemu.model import Operation

from .hpe import HpeRow, HpeSettings
from .sizes import size_text

_LARGEST_SMALL_BYTES = 64 << 10
_FINE = 8
"""Points an octave of a curve."""


def plot_hpe(rows: Sequence[HpeRow], settings: HpeSettings, folder: Path) -> list[Path]:
    """Draw latency against size, small and large, and the speed-up; return the files. Raises: UsageError."""
    pyplot = _pyplot()
    written: list[Path] = []
    sizes = _curve(min(settings.sizes), max(settings.sizes))
    small = [size for size in sizes if size <= _LARGEST_SMALL_BYTES]
    large = [size for size in sizes if size >= _LARGEST_SMALL_BYTES]
    for operation in settings.operations:
        for name, chosen in (("small", small), ("large", large)):
            if len(chosen) > 1:
                figure = _latency(pyplot, rows, settings, operation, chosen)
                written += _saved(pyplot, figure, folder, f"hpe_{operation}_latency_{name}")
        figure = _speedup(pyplot, rows, settings, operation, sizes)
        written += _saved(pyplot, figure, folder, f"hpe_{operation}_speedup")
    return written


def _pyplot() -> Any:  # noqa: ANN401 - a module
    try:
        import matplotlib
    except ImportError:
        raise UsageError(
            "plots need matplotlib, which is not installed: pip install 'nicemu[plots]'"
        ) from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "nicemu"
    from matplotlib import pyplot

    return pyplot


def _curve(first: int, last: int) -> list[int]:
    found, step = [], 0
    while (size := round(first * 2 ** (step / _FINE))) < last:
        found.append(size)
        step += 1
    return [*found, last]


def _latency(
    pyplot: Any,  # noqa: ANN401
    rows: Sequence[HpeRow],
    settings: HpeSettings,
    operation: Operation,
    sizes: Sequence[int],
) -> Any:  # noqa: ANN401
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
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
    return figure


def _speedup(
    pyplot: Any,  # noqa: ANN401
    rows: Sequence[HpeRow],
    settings: HpeSettings,
    operation: Operation,
    sizes: Sequence[int],
) -> Any:  # noqa: ANN401
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    low, high = settings.target - settings.tolerance, settings.target + settings.tolerance
    axes.axhspan(low, high, color="0.85", label=f"{settings.target:g} ± {settings.tolerance:g}")
    for row in rows:
        found = [row.point(operation, size, settings.target).speedup for size in sizes]
        axes.plot(sizes, found, label=f"{row.name}: {row.title}")
    axes.set_ylabel("speed-up, CPUs / triggered")
    axes.set_ylim(bottom=0)
    axes.set_title(f"Speed-up to {operation} KV, under each row's conditions")
    _finish(axes, sizes)
    return figure


def _finish(axes: Any, sizes: Sequence[int]) -> None:  # noqa: ANN401
    axes.set_xscale("log", base=2)
    axes.set_xlabel("message size")
    powers = [1 << power for power in range(0, 60, 2) if sizes[0] <= 1 << power <= sizes[-1]]
    axes.set_xticks(powers or [sizes[0]], [size_text(size) for size in powers or [sizes[0]]], rotation=30)
    axes.minorticks_off()
    axes.grid(visible=True, color="0.92")
    axes.figure.legend(loc="outside lower center", ncols=2, fontsize="small")


def _saved(pyplot: Any, figure: Any, folder: Path, name: str) -> Iterable[Path]:  # noqa: ANN401
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, about in (
            (folder / f"{name}.png", {"Software": None}),
            (folder / f"{name}.svg", {"Date": None}),
        ):
            figure.savefig(path, metadata=about, dpi=120)
            yield path
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    finally:
        pyplot.close(figure)
