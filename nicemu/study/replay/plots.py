# SPDX-License-Identifier: Apache-2.0
"""Plots of a replay: TTFT, where it goes, fetches against their size, speed-ups, what works how much."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from nicemu.model import Operation, Way, send
from nicemu.study.contract import figure, legend_below, size_text

from .cluster import GROUPS, Cluster
from .found import ReplayResult
from .histogram import Histogram
from .run import Found
from .settings import ReplayWay

_COLOURS: Final = {ReplayWay.NONE: "C7", ReplayWay.CPU: "C1", ReplayWay.TRIGGERED: "C0"}
_NAMES: Final = {
    ReplayWay.NONE: "none: recomputed",
    ReplayWay.CPU: "cpu: fetched by CPUs",
    ReplayWay.TRIGGERED: "triggered: fetched by NICs",
}
_LINES: Final = {ReplayWay.NONE: ":", ReplayWay.CPU: "--", ReplayWay.TRIGGERED: "-"}


def plot_replay(result: ReplayResult, folder: Path) -> list[Path]:
    """Draw into a folder; return the files. Raises: UsageError."""
    written: list[Path] = []
    with figure(folder, "replay_ttft", written) as axes:
        _distribution(axes, result)
    with figure(folder, "replay_where_time_goes", written) as axes:
        _where_time_goes(axes, result)
    with figure(folder, "replay_use", written) as axes:
        _use(axes, result)
    if any(found.fetch.count for found in result.found.values()):
        with figure(folder, "replay_fetch", written) as axes:
            _fetches(axes, result)
    if result.compared():
        with figure(folder, "replay_side_by_side", written) as axes:
            _side_by_side(axes, result)
    return written


def _distribution(axes: Any, result: ReplayResult) -> None:  # noqa: ANN401
    for way, found in result.found.items():
        ends, shares = found.ttft.cumulative()
        axes.step(
            ends,
            [100 * share for share in shares],
            where="post",
            color=_COLOURS[way],
            linestyle=_LINES[way],
            label=f"{_NAMES[way]}, mean {_told(found.ttft)}",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("time to first token, s")
    axes.set_ylabel("requests that have it by then, %")
    axes.set_ylim(0, 100)
    axes.set_title(result.title, fontsize="medium")
    legend_below(axes, columns=1)


def _told(found: Histogram) -> str:
    return f"{found.mean():.3f} s"


def _where_time_goes(axes: Any, result: ReplayResult) -> None:  # noqa: ANN401
    parts = (("fetch", "fetch_s", "C0"), ("wait for the GPU", "wait_s", "C2"), ("prefill", "prefill_s", "C3"))
    places = range(len(result.found))
    left = [0.0] * len(result.found)
    for name, field, colour in parts:
        widths = [getattr(found, field) / found.ttft.count for found in result.found.values()]
        axes.barh(places, widths, left=left, color=colour, label=name)
        for place, width in zip(places, widths, strict=True):
            if width > 0.06 * max(found.ttft.mean() for found in result.found.values()):
                axes.text(
                    left[place] + width / 2, place, f"{width:.3f}", ha="center", va="center", color="white"
                )
        left = [before + width for before, width in zip(left, widths, strict=True)]
    axes.set_yticks(list(places), [str(way) for way in result.found])
    axes.invert_yaxis()
    axes.set_xlabel("mean time to first token, s")
    axes.set_title(f"Where the time to first token goes\n{result.title}", fontsize="medium")
    legend_below(axes, columns=3)


def _use(axes: Any, result: ReplayResult) -> None:  # noqa: ANN401
    names = ["GPU, prefill", *(g for g in GROUPS if any(g in found.use for found in result.found.values()))]
    height = 0.8 / len(result.found)
    for number, (way, found) in enumerate(result.found.items()):
        for place, name in enumerate(names):
            use = found.gpu_use if name == names[0] else found.use.get(name)
            if use is None:
                continue
            at = place + (number - (len(result.found) - 1) / 2) * height
            axes.barh(at, 100 * use[0], height, color=_COLOURS[way])
            axes.plot(100 * use[1], at, marker="|", color="black", markersize=8)
    for way in result.found:
        axes.barh(0, 0, color=_COLOURS[way], label=_NAMES[way])
    axes.plot([], [], marker="|", linestyle="", color="black", label="the busiest one")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("part of the time that it works, mean, %")
    axes.set_xlim(left=0)
    axes.set_title(f"What works how much\n{result.title}", fontsize="medium")
    legend_below(axes)


def _fetches(axes: Any, result: ReplayResult) -> None:  # noqa: ANN401
    sizes: set[int] = set()
    for way, found in result.found.items():
        points = [
            (total / count, spent_s / count)
            for _, (count, total, spent_s) in sorted(found.fetch_by_size.items())
        ]
        if not points:
            continue
        sizes |= set(found.fetch_by_size)
        axes.plot(
            [size for size, _ in points],
            [1e3 * taken_s for _, taken_s in points],
            "s" if way is ReplayWay.CPU else "o",
            fillstyle="none" if way is ReplayWay.CPU else "full",
            markersize=9 if way is ReplayWay.CPU else 5,
            color=_COLOURS[way],
            label=f"{way}, mean in the replay",
        )
        alone = [1 << power for power in range(min(found.fetch_by_size), max(found.fetch_by_size) + 1)]
        axes.plot(
            alone,
            [1e3 * alone_s(result, found, size) for size in alone],
            color=_COLOURS[way],
            linestyle=_LINES[way],
            label=f"{way}, nothing else under way",
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    ticks = [1 << power for power in sorted(sizes)]
    axes.set_xticks(ticks, [size_text(size) for size in ticks], rotation=30)
    axes.minorticks_off()
    axes.set_xlabel("KV of a fetch")
    axes.set_ylabel("time of a fetch, ms")
    axes.set_title(f"Fetches, by powers of two\n{result.title}", fontsize="medium")
    legend_below(axes)


def alone_s(result: ReplayResult, found: Found, length_bytes: int) -> float:
    """Return the seconds of a fetch of so many bytes with nothing else under way, spread as blocks are."""
    cluster = Cluster(result.ground, result.settings, Way(found.way))
    blocks = -(-length_bytes // result.ground.block_bytes)
    spread = 1 if result.settings.placement == "prefix" else min(blocks, cluster.nodes)
    shares = [length_bytes * (node + 1) // spread - length_bytes * node // spread for node in range(spread)]
    return max(
        send(0.0, share, cluster.path(Operation.FETCH, 0, node), cluster.grain_bytes)
        for node, share in enumerate(shares)
    )


def _side_by_side(axes: Any, result: ReplayResult) -> None:  # noqa: ANN401
    rows = [row for row in result.compared() if row.speedup is not None]
    speedups = [row.speedup or 0.0 for row in rows]
    places = range(len(rows))
    colours = ["C0" if "alone" in row.what else "C2" if "replay" in row.what else "C3" for row in rows]
    axes.barh(places, speedups, color=colours)
    for place, value in zip(places, speedups, strict=True):
        axes.text(value * 1.02, place, f"{value:.3f}", va="center", fontsize="small")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(places, [row.what for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(min(0.9, *speedups), max(speedups) * 1.3)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.set_xlabel("speed-up, led by CPUs / triggered")
    for colour, name in (("C0", "a message alone"), ("C2", "transfers in the replay"), ("C3", "requests")):
        axes.barh(0, 0, color=colour, label=name)
    axes.figure.suptitle(f"Transfers and requests, side by side\n{result.title}", fontsize="medium")
    legend_below(axes, columns=3)
