# SPDX-License-Identifier: Apache-2.0
"""The plot of the analytics job: how much longer it takes without the prefix in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nicemu.study.contract import figure, legend_below

if TYPE_CHECKING:
    from .analytics import AnalyticsRow


def plot_analytics(rows: Sequence[AnalyticsRow], texts: int, folder: Path) -> list[Path]:
    """Draw the ratio against the prefix's length; return the files. Raises: UsageError."""
    written: list[Path] = []
    prefixes = sorted({row.prefix for row in rows})
    batches = sorted({row.batch for row in rows})
    with figure(folder, "analytics_ratio", written) as axes:
        for batch in batches:
            points = sorted((row.prefix, row.ratio) for row in rows if row.batch == batch)
            label = "serial client" if batch == 1 else f"batches of {batch}"
            axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=label)
        axes.axhline(1, color="0.5", linewidth=1)
        axes.annotate(
            "below: the cache costs more than it saves",
            (prefixes[-1], 1),
            (0, -12),
            textcoords="offset points",
            ha="right",
            fontsize="small",
            color="0.4",
        )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(prefixes, [str(prefix) for prefix in prefixes], rotation=30)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.set_xlabel("shared prefix, tokens")
        axes.set_ylabel("time without / with the prefix cached")
        axes.set_title(f"Analytics: what a pinned prefix gains a job of {texts:,} rows")
        legend_below(axes, len(batches))
    return written
