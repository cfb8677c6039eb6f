# SPDX-License-Identifier: Apache-2.0
"""Plots of the chat benchmark: times and throughput against chatters, and how much was cached, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from nicemu.study.contract import figure

from .chat_run import TIERS, ChatRow

_MARKS: Final = {"none": "o", "lru": "s", "lfu": "^", "hint": "D", "pin": "x", "triggered": "*"}
_COLOURS: Final = {name: f"C{place}" for place, name in enumerate(_MARKS)}
_SHADES: Final = ("0.85", "#c6dbef", "#6baed6", "#2171b5", "#08306b")


def plot_chat(rows: Sequence[ChatRow], conditions: Sequence[str], folder: Path) -> list[Path]:
    """Draw the results under their conditions; return the files. Raises: UsageError."""
    written: list[Path] = []
    for percent in sorted({row.shared_percent for row in rows}):
        chosen = [row for row in rows if row.shared_percent == percent]
        ending = f"_{percent:g}_shared" if percent else ""
        with figure(folder, f"chat_speed{ending}", written, rows=1, columns=3) as axes:
            _speed(axes, chosen, _condition(percent, conditions))
        with figure(folder, f"chat_cached{ending}", written, rows=1, columns=2) as axes:
            _cached(axes, chosen, _condition(percent, conditions))
    return written


def _condition(percent: float, conditions: Sequence[str]) -> str:
    shares = f"{percent:g} % of conversations share a prompt" if percent else "no shared prompt"
    return "\n".join((shares, *conditions))


def _speed(axes: Any, rows: Sequence[ChatRow], condition: str) -> None:  # noqa: ANN401
    panels: list[tuple[str, Callable[[ChatRow], float]]] = [
        ("mean end-to-end latency, s", lambda row: row.end_to_end_s),
        ("mean time to first byte, s", lambda row: row.first_byte_s),
        ("messages/s", lambda row: row.messages_per_s),
    ]
    policies = list(dict.fromkeys(row.policy for row in rows))
    chatters = sorted({row.chatters for row in rows})
    for axis, (label, value) in zip(axes, panels, strict=True):
        if len(chatters) > 1:
            _curves(axis, rows, policies, value)
            axis.set_xscale("log", base=2)
            axis.set_xticks(chatters, [str(count) for count in chatters])
            axis.minorticks_off()
            axis.set_xlabel("concurrent chatters")
        else:
            axis.bar(policies, [value(row) for row in rows], color=[_COLOURS[row.policy] for row in rows])
            axis.set_xlabel(f"policy, {chatters[0]} concurrent chatters")
        axis.set_ylabel(label)
        axis.grid(visible=True, color="0.92")
        axis.set_axisbelow(True)
    if len(chatters) > 1:
        axes[1].set_yscale("log")
        axes[1].yaxis.set_major_formatter("{x:g}")
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(
            handles, labels, loc="outside lower center", ncols=len(policies), fontsize="small"
        )
    axes[0].figure.suptitle(f"Chat by eviction policy, {condition}", fontsize="medium")


def _curves(
    axis: Any,  # noqa: ANN401
    rows: Sequence[ChatRow],
    policies: Sequence[str],
    value: Callable[[ChatRow], float],
) -> None:
    for policy in policies:
        points = sorted((row.chatters, value(row)) for row in rows if row.policy == policy)
        axis.plot(
            [x for x, _ in points],
            [y for _, y in points],
            marker=_MARKS[policy],
            color=_COLOURS[policy],
            linestyle="--" if policy in ("pin", "triggered") else "-",
            markersize=9 if policy in ("lru", "triggered") else 6,
            markerfacecolor="none",
            linewidth=1,
            label=policy,
        )


def _cached(axes: Any, rows: Sequence[ChatRow], condition: str) -> None:  # noqa: ANN401
    most = max(row.chatters for row in rows)
    shown = [row for row in rows if row.chatters == most]
    names = [row.policy for row in shown]
    steps = [f"{100 * limit:.0f} %" for limit in shown[0].above]
    labels = ["none", f"some, < {steps[0]}", *(f"{a} to {b}" for a, b in pairwise(steps)), f">= {steps[-1]}"]
    parts = [_parts(row) for row in shown]
    _stack(
        axes[0],
        names,
        labels,
        [[100 * part[place] for part in parts] for place in range(len(labels))],
        _SHADES,
    )
    axes[0].set_ylabel("requests, %")
    axes[0].set_title("how much of the prompt was cached")
    tiers = [name for name in TIERS if any(name in row.hits_by_tier for row in shown)]
    _stack(
        axes[1],
        names,
        tiers,
        [[100 * row.hits_by_tier.get(name, 0.0) for row in shown] for name in tiers],
        [_SHADES[1 + TIERS.index(name)] for name in tiers],
    )
    axes[1].set_ylabel("prompt tokens, %")
    axes[1].set_title("which tier had it")
    axes[0].figure.suptitle(f"Prefix cache with {most} chatters, {condition}", fontsize="medium")


def _parts(row: ChatRow) -> list[float]:
    """Return the shares of requests with nothing cached, with less than the first threshold, and so on."""
    bounds = [1.0, 1 - row.none_cached, *row.above.values(), 0.0]
    return [before - after for before, after in pairwise(bounds)]


def _stack(
    axis: Any,  # noqa: ANN401
    names: Sequence[str],
    labels: Sequence[str],
    heights: Sequence[Sequence[float]],
    shades: Sequence[str],
) -> None:
    below = [0.0] * len(names)
    for place, (label, values) in enumerate(zip(labels, heights, strict=True)):
        axis.bar(
            range(len(names)),
            values,
            bottom=below,
            color=shades[place],
            label=label,
            width=0.7,
        )
        below = [low + value for low, value in zip(below, values, strict=True)]
    axis.set_xticks(range(len(names)), names)
    axis.set_ylim(0, 100)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=len(labels), fontsize="x-small")
