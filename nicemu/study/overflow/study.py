# SPDX-License-Identifier: Apache-2.0
"""KV overflow: recompute, swap, or let the NIC do it; the poster's figures, and a workload of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nicemu.study.contract import Progress, Settings, Table

from .experiments import Experiments
from .figures import CaseFigure, EvictionFigure, Waits, Workload
from .settings import OverflowSettings


@dataclass(frozen=True, slots=True)
class OverflowResult:
    """The workload, and the figures that were asked for."""

    workload: Workload
    with_steps: bool
    evictions: Sequence[EvictionFigure] = ()
    waits: Waits | None = None
    served: Sequence[CaseFigure] = ()
    totals: CaseFigure | None = None

    def headline(self) -> Mapping[str, float]:
        """Return makespan, overheads and preemptions of the workload, by policy."""
        return self.workload.headline()

    def as_data(self) -> dict[str, object]:
        """Return everything."""
        return {
            "workload": self.workload.as_data(self.with_steps),
            **{f"figure{item.number}": item.as_data() for item in self.evictions},
            **{f"figure{item.number}": item.as_data() for item in self.served},
            **({"waits": self.waits.as_data()} if self.waits else {}),
            **({"totals": self.totals.as_data()} if self.totals else {}),
        }

    def tables(self) -> list[Table]:
        """Return the figures' tables, and the workload's last."""
        found = [item.table() for item in self.evictions]
        found += [self.waits.table()] if self.waits else []
        for item in self.served:
            found.append(item.table())
            if item.number == 4 and self.totals:
                found.append(self.totals.table())
        return [*found, self.workload.table()]

    def plot(self, folder: Path) -> list[Path]:
        """Draw the figures. Raises: UsageError."""
        from .plots import plot_overflow

        return plot_overflow(self, folder)


class Overflow:
    """The study: KV that does not fit, and what each policy does about it."""

    name = "overflow"
    about = """Compare recompute, swap and triggered offload when KV outgrows the GPU's memory.

    \b
    nicemu study overflow --plot plots
    nicemu study overflow --set figures=6 --set kv_percent=20 --set requests=64
    nicemu study overflow --set figures=6 --set write_through=false --set offload.nic_bytes_per_s=5e10

    Without settings it is the poster's figures 2 to 6. The workload (requests, prompt_tokens, output_tokens,
    arrivals_per_s, length_sigma, kv_percent of the GPU's memory) is always served, under each of policies;
    figures=6 is the workload alone, step by step. CONFIG is a TOML file of settings, and [set.TABLE] of
    fields of the server; docs/overflow.md has all. The seed draws arrivals and lengths, where they are drawn.
    """
    standard: Settings = OverflowSettings()

    def run(self, settings: OverflowSettings, seed: int, progress: Progress) -> OverflowResult:
        """Run it. Raises: UsageError if the workload can never be served, or the server has no such field."""
        make, asked = Experiments(settings, seed, progress), settings.figures
        return OverflowResult(
            make.workload(),
            6 in asked,
            [figure() for number, figure in ((2, make.figure2), (3, make.figure3)) if number in asked],
            make.waits() if 3 in asked else None,
            [figure() for number, figure in ((4, make.figure4), (5, make.figure5)) if number in asked],
            make.totals() if 4 in asked else None,
        )
