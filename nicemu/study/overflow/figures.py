# SPDX-License-Identifier: Apache-2.0
"""The poster's figures as data and tables: evictions by themselves (2, 3), and workloads served (4, 5, 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nicemu.study.contract import Table, rounded

from .runs import Eviction, Run
from .scheduler import Step


@dataclass(frozen=True, slots=True)
class EvictionFigure:
    """One sequence out and back, by policy, as something grows; and what was measured of it."""

    number: int
    title: str
    varied: str
    points: Mapping[int, Sequence[Eviction]]
    published: Mapping[str, Mapping[int, float]]
    notes: tuple[str, ...] = ()

    def as_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "title": self.title,
            "points": [
                {
                    "policy": item.policy,
                    "tokens": item.tokens,
                    "block_tokens": item.block_tokens,
                    "gpu_s": item.gpu_s,
                    "wait_s": item.wait_s,
                    "published_s": self.published.get(item.policy, {}).get(at),
                }
                for at, items in self.points.items()
                for item in items
            ],
        }

    def table(self) -> Table:
        """Return a row a point, what was measured beside each policy that was."""
        rows, columns = list[tuple[object, ...]](), [self.varied]
        for at, items in self.points.items():
            row, columns = list[object]([at]), [self.varied]
            for item in items:
                row.append(rounded(item.gpu_s))
                columns.append(f"{item.policy} s")
                if item.policy in self.published:
                    row.append(rounded(self.published[item.policy].get(at)))
                    columns.append("published s")
            rows.append(tuple(row))
        return Table(f"Figure {self.number}: {self.title}", tuple(columns), rows, self.notes)


@dataclass(frozen=True, slots=True)
class Case:
    """A workload served under every policy, by what it is labelled with; `published` by policy."""

    labels: tuple[float, ...]
    runs: Sequence[Run]
    published: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseFigure:
    """Workloads served, one a case. `refused` says which could not be, and why. `number` 0: no figure."""

    number: int
    title: str
    labels: tuple[str, ...]
    cases: Sequence[Case]
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether anything was measured of it, under a policy that is here."""
        return any(run.policy in case.published for case in self.cases for run in case.runs)

    def as_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "title": self.title,
            "cases": [
                {
                    **dict(zip(self.labels, case.labels, strict=True)),
                    **run.as_data(),
                    "published_overhead_s": case.published.get(run.policy),
                }
                for case in self.cases
                for run in case.runs
            ],
            "refused": list(self.refused),
        }

    def table(self) -> Table:
        """Return a row a case and policy."""
        rows = list[tuple[object, ...]]()
        for case in self.cases:
            labels = [int(label) if label == int(label) else label for label in case.labels]
            for run in case.runs:
                row: list[object] = [*labels, run.policy, rounded(run.overhead.attributed_s)]
                if self.is_measured:
                    published = case.published.get(run.policy)
                    ratio = round(run.overhead.attributed_s / published, 2) if published else None
                    row += [rounded(published), ratio]
                rows.append((*row, *_more(run)))
        measured = ("published s", "ratio") if self.is_measured else ()
        columns = (*self.labels, "policy", "attributed s", *measured, *_MORE)
        refused = tuple(f"not served: {told}" for told in self.refused)
        return Table(self.heading, columns, rows, (*self.notes, *refused))

    @property
    def heading(self) -> str:
        """The figure with its title."""
        return f"Figure {self.number}: {self.title}" if self.number else self.title


_MORE = ("marginal s", "preemptions", "moved tokens", "stalled s", "makespan s")


def _more(run: Run) -> tuple[object, ...]:
    overhead = run.overhead
    marginal_s, stalled_s = rounded(overhead.marginal_s), rounded(overhead.stalled_s)
    return marginal_s, overhead.preemptions, overhead.moved_tokens, stalled_s, rounded(run.makespan_s)


@dataclass(frozen=True, slots=True)
class Workload:
    """A user's workload, served under every policy: its figures, and what happened step by step."""

    title: str
    runs: Sequence[Run]
    notes: tuple[str, ...] = ()

    def as_data(self, steps: bool) -> dict[str, object]:
        """Return it for JSON, with the steps if asked."""
        return {
            "title": self.title,
            "runs": [
                {**run.as_data(), **({"steps": [_step_data(step) for step in run.steps]} if steps else {})}
                for run in self.runs
            ],
        }

    def table(self) -> Table:
        """Return a row a policy."""
        columns = (
            "policy",
            "makespan s",
            "tokens/s",
            "attributed s",
            *_MORE[:-1],
            "prefills",
            "KV use %",
            "TTFT s",
            "TPOT ms",
        )
        rows = [
            (
                run.policy,
                rounded(run.makespan_s),
                rounded(run.tokens_per_s),
                rounded(run.overhead.attributed_s),
                *_more(run)[:-1],
                run.prefills,
                rounded(100 * run.kv_use),
                rounded(run.ttft_s),
                rounded(1e3 * run.tpot_s),
            )
            for run in self.runs
        ]
        return Table(self.title, columns, rows, self.notes)

    def headline(self) -> dict[str, float]:
        """Return what sweeps compare, for each policy."""
        found: dict[str, float] = {}
        for run in self.runs:
            found[f"{run.policy}_makespan_s"] = run.makespan_s
            found[f"{run.policy}_attributed_overhead_s"] = run.overhead.attributed_s
            found[f"{run.policy}_marginal_overhead_s"] = run.overhead.marginal_s
            found[f"{run.policy}_preemptions"] = run.overhead.preemptions
        return found


def _step_data(step: Step) -> dict[str, object]:
    return {
        "kind": step.kind.value,
        "count": step.count,
        "start_s": step.start_s,
        "end_s": step.end_s,
        "sequences": step.sequences,
        "tokens_per_s": step.tokens_per_s,
        "kv_use_start": step.kv_use_start,
        "kv_use_end": step.kv_use_end,
    }


@dataclass(frozen=True, slots=True)
class Wait:
    """How soon a sequence of some tokens runs again, and what writing its prompt through asks of a NIC."""

    tokens: int
    recompute_s: float
    swap_in_s: float
    fetch_s: float
    prefill_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits by tokens, and the NIC's rate at which a fetch is as soon there as a swap-in."""

    points: Sequence[Wait]
    nic_bytes_per_s: float
    even_bytes_per_s: float

    def as_data(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "nic_bytes_per_s": self.nic_bytes_per_s,
            "even_bytes_per_s": self.even_bytes_per_s,
            "points": [
                {
                    "tokens": point.tokens,
                    "recompute_s": point.recompute_s,
                    "swap_in_s": point.swap_in_s,
                    "fetch_s": point.fetch_s,
                    "prefill_bytes_per_s": point.prefill_bytes_per_s,
                }
                for point in self.points
            ],
        }

    def table(self) -> Table:
        """Return a row a number of tokens."""
        columns = ("tokens", "recompute s", "swap-in s", "fetch s", "KV of a prefill GB/s", "of the NIC %")
        rows = [
            (
                point.tokens,
                rounded(point.recompute_s),
                rounded(point.swap_in_s),
                rounded(point.fetch_s),
                rounded(point.prefill_bytes_per_s / 1e9),
                rounded(100 * point.prefill_bytes_per_s / self.nic_bytes_per_s),
            )
            for point in self.points
        ]
        notes = (
            f"fetches by a NIC of {_gbit(self.nic_bytes_per_s)} Gb/s; as soon there as a pinned swap-in from "
            f"{_gbit(self.even_bytes_per_s)} Gb/s on",
            "above 100 % of the NIC, what is written through lags behind a prefill",
        )
        return Table("Until a preempted sequence runs again", columns, rows, notes)


def _gbit(bytes_per_s: float) -> str:
    return f"{8 * bytes_per_s / 1e9:.4g}"
