# SPDX-License-Identifier: Apache-2.0
"""What replays have found, as tables: transfers and requests side by side, neither hiding the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nicemu.model import Operation, Way, transfer_s
from nicemu.study.contract import Table, rounded, size_text

from .cluster import GROUPS
from .histogram import WIDTH, Histogram
from .run import Found
from .settings import Ground, ReplaySettings, ReplayWay

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both ways: seconds led by CPUs, and triggered."""

    what: str
    cpu_s: float
    triggered_s: float

    @property
    def speedup(self) -> float | None:
        """How many times longer the CPUs' way takes; None where there is nothing to compare."""
        return self.cpu_s / self.triggered_s if self.triggered_s else None


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What the replays of one trace have found, a way each."""

    settings: ReplaySettings
    ground: Ground
    found: Mapping[ReplayWay, Found]

    def compared(self) -> list[Compared]:
        """Return messages alone, transfers in the replay, and requests end to end, both ways; [] of one."""
        if not {ReplayWay.CPU, ReplayWay.TRIGGERED} <= set(self.found):
            return []
        cpu, triggered = self.found[ReplayWay.CPU], self.found[ReplayWay.TRIGGERED]
        token_layer = self.ground.serving.kv_token_bytes // self.ground.serving.layers
        rows = []
        for length in sorted({token_layer, self.ground.message_bytes}):
            for where in ("remote_memory", "durable"):
                profile = self.ground.hardware.having({"transfer.completion": where})
                rows.append(
                    Compared(
                        f"a fetch of {size_text(length)} alone, from "
                        + ("a node's memory" if where == "remote_memory" else "a drive"),
                        *(transfer_s(profile, way, Operation.FETCH, length) for way in Way),
                    )
                )
        rows += [
            Compared("a fetch in the replay, mean", cpu.fetch.mean(), triggered.fetch.mean()),
            Compared("a store in the replay, mean", cpu.store.mean(), triggered.store.mean()),
            Compared("TTFT, mean", cpu.ttft.mean(), triggered.ttft.mean()),
            Compared("TTFT, p99", cpu.ttft.quantile(0.99), triggered.ttft.quantile(0.99)),
            Compared("end to end, mean", cpu.end_to_end.mean(), triggered.end_to_end.mean()),
        ]
        return rows

    def headline(self) -> Mapping[str, float]:
        """Return what a sweep compares: mean TTFT of each way, hit rate, and the ratios of both ways."""
        told = {f"{way}_ttft_mean_s": found.ttft.mean() for way, found in self.found.items()}
        for way, found in self.found.items():
            if way is not ReplayWay.NONE:
                told[f"{way}_hit_rate"] = found.hit_rate
                told[f"{way}_fetch_mean_s"] = found.fetch.mean()
        cpu, triggered = self.found.get(ReplayWay.CPU), self.found.get(ReplayWay.TRIGGERED)
        if cpu and triggered:
            told["ttft_cpu_over_triggered"] = cpu.ttft.mean() / triggered.ttft.mean()
            if triggered.fetch.count:
                told["fetch_cpu_over_triggered"] = cpu.fetch.mean() / triggered.fetch.mean()
            told["host_core_saved_s"] = cpu.host_core_s - triggered.host_core_s
        return told

    def as_data(self) -> dict[str, object]:
        """Return everything, ready for JSON."""
        return {
            "trace": self.settings.trace or "synthetic",
            "message_bytes": self.ground.message_bytes,
            "block_bytes": self.ground.block_bytes,
            "quantiles_within": WIDTH / 2,
            "ways": {str(way): _data(found) for way, found in self.found.items()},
            "side_by_side": [
                {
                    "what": row.what,
                    "cpu_s": row.cpu_s,
                    "triggered_s": row.triggered_s,
                    "cpu_over_triggered": row.speedup,
                }
                for row in self.compared()
            ],
            "headline": dict(self.headline()),
        }

    def tables(self) -> list[Table]:
        """Return requests, where their time goes, both ways side by side, and what works how much."""
        tables = [self._requests(), self._breakdown()]
        if self.compared():
            tables.append(self._side_by_side())
        return [*tables, self._use()]

    def plot(self, folder: Path) -> list[Path]:
        """Draw into a folder; return the files. Raises: UsageError."""
        from .plots import plot_replay

        return plot_replay(self, folder)

    @property
    def title(self) -> str:
        """What was replayed, on what."""
        first = next(iter(self.found.values()))
        name = Path(self.settings.trace).name if self.settings.trace else "a synthetic trace"
        model = self.ground.serving.server.title
        return f"{first.ttft.count:,} requests of {name}, {first.gpus} GPUs: {model}"

    def _requests(self) -> Table:
        rows = [
            (
                str(way),
                *(rounded(value) for value in _latencies(found.ttft)),
                rounded(1e3 * found.tpot_s),
                rounded(found.end_to_end.mean()),
                None if way is ReplayWay.NONE else rounded(100 * found.hit_rate),
            )
            for way, found in self.found.items()
        ]
        first = next(iter(self.found.values()))
        notes = [f"Quantiles are within {WIDTH / 2:.2%}; the last answer ends after {first.span_s:,.0f} s."]
        if first.failed_requests:
            notes.append(f"{first.failed_requests:,} rows of requests that failed are left out.")
        columns = ("way", "TTFT mean, s", *(f"{name}, s" for name in _QUANTILES))
        return Table(
            self.title, (*columns, "TPOT, ms", "end to end, s", "token hit rate, %"), rows, tuple(notes)
        )

    def _breakdown(self) -> Table:
        rows = [
            (
                str(way),
                *(
                    rounded(spent / found.ttft.count)
                    for spent in (found.fetch_s, found.wait_s, found.prefill_s, found.ttft.total)
                ),
                rounded(100 * found.prefill_s / found.ttft.total),
            )
            for way, found in self.found.items()
        ]
        return Table(
            "Where the time to first token goes, mean of all requests",
            ("way", "fetch, s", "wait for the GPU, s", "prefill, s", "TTFT, s", "prefill, %"),
            rows,
        )

    def _side_by_side(self) -> Table:
        rows: list[tuple[object, ...]] = [
            (row.what, rounded(1e3 * row.cpu_s), rounded(1e3 * row.triggered_s), _ratio(row.speedup))
            for row in self.compared()
        ]
        cpu, triggered = self.found[ReplayWay.CPU], self.found[ReplayWay.TRIGGERED]
        fetches = triggered.fetch.count
        mean = size_text(round(triggered.fetched_bytes / fetches)) if fetches else "no bytes"
        return Table(
            "Transfers and requests, side by side",
            ("what", "cpu, ms", "triggered, ms", "speed-up"),
            rows,
            (
                f"A fetch has {mean} in the replay, mean; its time counts what it waits for others.",
                f"Host cores work {cpu.compute_core_s:,.0f} s at the compute node and "
                f"{cpu.storage_core_s:,.0f} s at storage nodes for transfers that CPUs lead, "
                f"{_cores(cpu)}; {triggered.host_core_s:,.0f} s for triggered ones.",
            ),
        )

    def _use(self) -> Table:
        rows: list[tuple[object, ...]] = [
            ("GPU, prefill", *(cell for found in self.found.values() for cell in _percent(found.gpu_use)))
        ]
        for group in GROUPS:
            cells = [cell for found in self.found.values() for cell in _percent(found.use.get(group))]
            if any(cell is not None for cell in cells):
                rows.append((group, *cells))
        columns = [f"{way}, {what}" for way in self.found for what in ("mean %", "busiest %")]
        return Table("Which part of the time things work", ("what", *columns), rows)


def _latencies(found: Histogram) -> list[float]:
    return [found.mean(), *(found.quantile(share) for share in _QUANTILES.values())]


def _cores(found: Found) -> str:
    return f"{found.host_core_s / found.span_s:.2f} cores all the time" if found.span_s else "in no time"


def _percent(use: tuple[float, float] | None) -> tuple[float | None, float | None]:
    return (None, None) if use is None else (rounded(100 * use[0]), rounded(100 * use[1]))


def _ratio(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _data(found: Found) -> dict[str, object]:
    return {
        "requests": found.ttft.count,
        "failed_requests": found.failed_requests,
        "span_s": found.span_s,
        "ttft_s": _summary(found.ttft),
        "end_to_end_s": _summary(found.end_to_end),
        "tpot_s": found.tpot_s,
        "token_hit_rate": found.hit_rate,
        "prompt_tokens": found.prompt_tokens,
        "hit_tokens": found.hit_tokens,
        "breakdown_mean_s": {
            "fetch": found.fetch_s / found.ttft.count,
            "wait": found.wait_s / found.ttft.count,
            "prefill": found.prefill_s / found.ttft.count,
        },
        "fetches": found.fetch.count,
        "fetch_s": _summary(found.fetch),
        "fetched_bytes": found.fetched_bytes,
        "fetch_by_size": [
            {"fetches": count, "bytes_mean": total / count, "s_mean": spent_s / count}
            for _, (count, total, spent_s) in sorted(found.fetch_by_size.items())
        ],
        "stores": found.store.count,
        "store_s": _summary(found.store),
        "stored_bytes": found.stored_bytes,
        "held_blocks": found.held_blocks,
        "evicted_blocks": found.evicted_blocks,
        "host_core_s": {"compute": found.compute_core_s, "storage": found.storage_core_s},
        "use": {
            what: {"mean": mean, "busiest": busiest}
            for what, (mean, busiest) in {"GPU, prefill": found.gpu_use, **found.use}.items()
        },
    }


def _summary(found: Histogram) -> dict[str, float]:
    told: Sequence[float] = _latencies(found)
    return dict(zip(("mean", *_QUANTILES), told, strict=True))
