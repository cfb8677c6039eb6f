# SPDX-License-Identifier: Apache-2.0
"""Plots of the study of KV overflow: the poster's figures, and modelled totals against measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicemu.study.contract import figure, legend_below

from .figures import CaseFigure, EvictionFigure, Workload
from .preemption import POLICIES
from .runs import Run

if TYPE_CHECKING:
    from .study import OverflowResult

_COLOURS = {policy: f"C{place}" for place, policy in enumerate(POLICIES)}
_NAMES = {
    "recompute": "recompute",
    "swap_pinned": "swap, pinned",
    "swap_pageable": "swap, pageable",
    "triggered": "triggered offload",
}


def plot_overflow(result: OverflowResult, folder: Path) -> list[Path]:
    """Draw what a result has into a folder; return the files. Raises: UsageError."""
    written: list[Path] = []
    for evictions in result.evictions:
        with figure(folder, f"overflow_figure{evictions.number}", written, columns=2) as axes:
            _evictions(axes, evictions)
    for served in result.served:
        if served.cases:
            with figure(folder, f"overflow_figure{served.number}", written, columns=2) as axes:
                _served(axes, served)
    if result.totals and result.totals.is_measured:
        with figure(folder, "overflow_totals", written) as axes:
            _totals(axes, result.totals)
    if result.with_steps:
        runs = result.workload.runs
        with figure(folder, "overflow_figure6", written, rows=len(runs), columns=2) as axes:
            _workload(axes.reshape(len(runs), 2), result.workload)
    return written


def _evictions(axes: Any, found: EvictionFigure) -> None:  # noqa: ANN401
    """What the GPU loses, as lines, with what was measured as points; and how long the sequence waits."""
    from matplotlib.ticker import LogLocator

    losses, waits = axes
    xs, seconds = list(found.points), list[float]()
    for place, first in enumerate(found.points[xs[0]]):
        items = [found.points[x][place] for x in xs]
        colour, name = _COLOURS[first.policy], _NAMES[first.policy]
        lost = [item.gpu_s for item in items]
        if first.policy == "triggered":
            name += f" ({1e6 * max(lost):.3g} us of the GPU)"
        else:
            seconds += lost
        losses.plot(xs, lost, color=colour, marker=".", label=name)
        waits.plot(xs, [item.wait_s for item in items], color=colour, marker=".")
        measured = {x: s for x, s in found.published.get(first.policy, {}).items() if x in found.points}
        losses.plot(list(measured), list(measured.values()), color=colour, marker="x", linestyle="")
    losses.plot([], [], color="black", marker="x", linestyle="", label="measured, same colour")
    losses.set_ylabel("time that the GPU loses, s")
    waits.set_ylabel("until the sequence runs again, s")
    for part in axes:
        part.set_xscale("log", base=2)
        part.set_yscale("log")
        part.set_xticks(xs, [f"{x:,}" for x in xs])
        part.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        part.yaxis.set_major_formatter("{x:g}")
        part.minorticks_off()
        part.set_xlabel(found.varied.replace(", tokens", " size, tokens"))
        part.grid(visible=True, color="0.92")
    if seconds:  # what triggers cost is far below: the legend tells it
        losses.set_ylim(bottom=min(seconds) / 2)
    losses.figure.suptitle(f"Figure {found.number}: {found.title}")
    legend_below(losses, 3)


def _served(axes: Any, found: CaseFigure) -> None:  # noqa: ANN401
    """Overheads and makespans, against what the cases vary."""
    overheads, makespans = axes
    xs = [case.labels[0] for case in found.cases]
    for place, first in enumerate(found.cases[0].runs):
        runs = [case.runs[place] for case in found.cases]
        colour, name = _COLOURS[first.policy], _NAMES[first.policy]
        overheads.plot(xs, [run.overhead.attributed_s for run in runs], color=colour, marker=".", label=name)
        if first.policy == "recompute":
            marginal = [run.overhead.marginal_s for run in runs]
            overheads.plot(xs, marginal, color=colour, linestyle="--", label="recompute, marginal")
        makespans.plot(xs, _longer(runs, found), color=colour, marker=".")
    overheads.set_ylabel("overhead, s")
    makespans.set_ylabel(f"makespan, % of that with {_NAMES[found.cases[0].runs[0].policy]}")
    for part in (overheads, makespans):
        if found.number == 4:
            part.set_xscale("log", base=2)
        part.set_xticks(xs, [f"{x:,g}" for x in xs])
        part.set_xlabel("tokens of a sequence" if found.number == 4 else "KV, % of the GPU's memory")
        part.grid(visible=True, color="0.92")
    overheads.set_ylim(bottom=0)
    overheads.figure.suptitle(found.heading)
    legend_below(overheads, 3)


def _longer(runs: Sequence[Run], found: CaseFigure) -> list[float]:
    """Return makespans in percent of the first policy's."""
    return [
        100 * run.makespan_s / case.runs[0].makespan_s for run, case in zip(runs, found.cases, strict=True)
    ]


def _totals(axes: Any, found: CaseFigure) -> None:  # noqa: ANN401
    """Modelled against measured, one point a workload and policy."""
    ends: list[float] = []
    for place, first in enumerate(found.cases[0].runs):
        points = [
            (case.published[first.policy], case.runs[place].overhead.attributed_s)
            for case in found.cases
            if first.policy in case.published
        ]
        if points:
            xs, ys = zip(*points, strict=True)
            colour, name = _COLOURS[first.policy], _NAMES[first.policy]
            axes.plot(xs, ys, color=colour, marker="o", linestyle="", label=name)
            ends += [*xs, *ys]
    line = [min(ends), max(ends)]
    low, high = ([share * x for x in line] for share in (0.8, 1.25))
    axes.plot(line, line, color="black", label="as measured")
    axes.fill_between(line, low, high, color="0.9", label="0.8 to 1.25 of it")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("measured overhead, s")
    axes.set_ylabel("modelled overhead (attributed), s")
    axes.set_title("Totals of workloads: no constant was fitted to them")
    legend_below(axes)


def _workload(axes: Any, found: Workload) -> None:  # noqa: ANN401
    """Use of the KV memory, and tokens a second, over time: a row a policy."""
    last_s = max(run.makespan_s for run in found.runs)
    for (use, rate), run in zip(axes, found.runs, strict=True):
        colour = _COLOURS[run.policy]
        times = [at for step in run.steps for at in (step.start_s, step.end_s)]
        uses = [100 * at for step in run.steps for at in (step.kv_use_start, step.kv_use_end)]
        rates = [step.tokens_per_s for step in run.steps for _ in range(2)]
        use.plot(times, uses, color=colour, linewidth=1)
        rate.plot(times, rates, color=colour, linewidth=1)
        use.set_ylim(0, 105)
        use.set_ylabel("KV use, %")
        rate.set_ylabel("tokens/s")
        rate.set_yscale("log")
        rate.yaxis.set_major_formatter("{x:g}")
        told = f"{_NAMES[run.policy]}: {run.overhead.preemptions} preemptions"
        use.set_title(told, fontsize="medium")
        rate.set_title(f"{_NAMES[run.policy]}: {run.prefills} prefills", fontsize="medium")
        for part in (use, rate):
            part.set_xlim(0, last_s)
            part.grid(visible=True, color="0.92")
    for part in axes[-1]:
        part.set_xlabel("time, s")
    axes[0][0].figure.suptitle(found.title)
