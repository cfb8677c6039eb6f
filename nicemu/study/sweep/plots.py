# SPDX-License-Identifier: Apache-2.0
"""Figures of a sweep: each metric against the first setting that is varied, a line for each of the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicemu.study.contract import figure, legend_below

if TYPE_CHECKING:
    from .plan import SweepResult

_LINES = 10
"""Lines of a figure that a legend can still tell apart."""


def plot_sweep(result: SweepResult, metrics: Sequence[str], folder: Path) -> list[Path]:
    """Draw each metric into a figure of its own; return the files. Raises: UsageError."""
    written: list[Path] = []
    first, *others = result.plan.axes
    values = list(result.plan.axes[first])
    as_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    for metric in metrics:
        lines = _lines(result, metric, first, others)
        with figure(folder, f"sweep_{result.plan.study.name}_{metric}", written) as axes:
            for label, points in list(lines.items())[:_LINES]:
                places = [place if as_numbers else values.index(place) for place, _ in points]
                axes.plot(places, [found for _, found in points], "o-", label=label or metric)
            if not as_numbers:
                axes.set_xticks(range(len(values)), [str(value) for value in values])
            left_out = f"; {len(lines) - _LINES} more lines are left out" if len(lines) > _LINES else ""
            axes.set_xlabel(first)
            axes.set_ylabel(metric)
            axes.set_title(f"{result.plan.study.name}: {metric} against {first}{left_out}")
            legend_below(axes)
    return written


def _lines(
    result: SweepResult, metric: str, first: str, others: Sequence[str]
) -> dict[str, list[tuple[Any, float]]]:
    """Return points by what the other settings are, of the points that were not refused."""
    lines: dict[str, list[tuple[Any, float]]] = {}
    for outcome in result.outcomes:
        if metric in outcome.figures:
            label = ", ".join(f"{name} = {outcome.point[name]}" for name in others)
            lines.setdefault(label, []).append((outcome.point[first], outcome.figures[metric]))
    return lines
