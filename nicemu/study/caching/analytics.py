# SPDX-License-Identifier: Apache-2.0
"""`nicemu study analytics`: the sentiment of many short texts behind one instruction, pinned in the cache.

A client sends rows in batches, the next when it has the answers, so that a job takes the sum of its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from nicemu.cache import Hint, Pin, Tier, TieredCache
from nicemu.errors import UsageError
from nicemu.model import Serving, read_server
from nicemu.study.contract import Progress, Settings, Table, number, several, text, whole, whole_from

from .chat_workload import tokens_of

POSTER_S: Final = (26.1, 30.2)
"""What the poster's two bars say; it does not say which of them has the prefix cached."""
_PREFIX: Final = -1
_MOST_PREFIX: Final = 1 << 20
_LONGEST_SOUGHT: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticsSettings(Settings):
    """The job, and the server that does it."""

    server: str = text("a6000_llama2_7b")
    rows: int = whole(530, 1, 1_000_000)
    prefixes: tuple[int, ...] = several(
        (16, 32, 60, 80, 136, 256, 512, 1024, 3500), whole_from(1, _MOST_PREFIX)
    )
    batches: tuple[int, ...] = several((1, 8, 32), whole_from(1, 4096))
    row_mean: float = number(35.0, 1, 1e6)
    row_sigma: float = number(0.5, 0, 5)
    row_most: int = whole(140, 4, 1 << 20)
    answer: int = whole(2, 1, 1 << 20)
    block_tokens: int = whole(16, 1, 4096)


@dataclass(frozen=True, slots=True)
class AnalyticsRow:
    """A job with and without the prefix in the cache, in seconds; the hit rate is of the prompts' tokens."""

    prefix: int
    batch: int
    baseline_s: float
    cached_s: float
    hit_rate: float

    @property
    def ratio(self) -> float:
        """How many times longer the job takes without."""
        return self.baseline_s / self.cached_s


class Job:
    """The job's rows, on a server.

    Raises: UsageError if a prefix and a row do not fit the model's window.
    """

    def __init__(self, settings: AnalyticsSettings, seed: int) -> None:
        self._settings = settings
        self.serving = Serving(read_server(settings.server).having(settings.values, "the user"))
        draw = Random(f"analytics {seed}")
        self.lengths = [
            tokens_of(settings.row_mean, settings.row_sigma, settings.row_most, draw)
            for _ in range(settings.rows)
        ]
        needed = max(settings.prefixes) + max(self.lengths) + settings.answer
        if needed > self.serving.context_tokens:
            raise UsageError(
                f"a prefix of {max(settings.prefixes)} tokens and a row come to {needed}; the model's window "
                f"has {self.serving.context_tokens}"
            )

    def compare(self, prefix: int, batch: int) -> AnalyticsRow:
        """Return what the job takes each way. Raises: UsageError if the GPU's memory holds no batch."""
        hits = self._cached_tokens(prefix, batch)
        tokens = sum(prefix + length for length in self.lengths)
        return AnalyticsRow(
            prefix,
            batch,
            self._seconds(prefix, batch, [0] * len(self.lengths), 0.0),
            self._seconds(prefix, batch, hits, self.serving.server.number("cache.step_s")),
            sum(hits) / tokens,
        )

    def longest_prefix(self) -> int:
        """Return the longest prefix, of 1,024 tokens at most, that is served with each of the rows alone."""
        longest, block_tokens = max(self.lengths) + self._settings.answer, self._settings.block_tokens
        kv_bytes = int(self.serving.server.number("gpu.kv_bytes"))
        blocks = kv_bytes // (block_tokens * self.serving.kv_token_bytes)
        return min(_LONGEST_SOUGHT, self.serving.context_tokens - longest, blocks * block_tokens - longest)

    def _cached_tokens(self, prefix: int, batch: int) -> list[int]:
        """Return for each row how many tokens the cache had: full blocks of the prefix, pinned there."""
        block_tokens, answer = self._settings.block_tokens, self._settings.answer
        block_bytes = block_tokens * self.serving.kv_token_bytes
        cache = TieredCache([Tier("GPU", int(self.serving.server.number("gpu.kv_bytes")), Pin())])
        shared = [(_PREFIX, block) for block in range(prefix // block_tokens)]
        self._pin(cache, shared, block_bytes)
        found: list[int] = []
        for first in range(0, len(self.lengths), batch):
            held: list[Sequence[tuple[int, int]]] = []
            private_bytes = 0
            for row in range(first, min(first + batch, len(self.lengths))):
                total = prefix + self.lengths[row] + answer
                total_bytes = -(-total // block_tokens) * block_bytes
                keys = shared + [(row, block) for block in range(len(shared), (total - 1) // block_tokens)]
                tiers = cache.acquire(keys[: (total - answer - 1) // block_tokens], total_bytes, row)
                if tiers is None:
                    raise UsageError(
                        f"the GPU's memory does not hold {batch} rows with a prefix of {prefix} tokens; set "
                        "gpu.kv_bytes, or smaller batches"
                    )
                found.append(len(tiers) * block_tokens)
                filled = [key for key in keys[len(tiers) :] if cache.fill(key, block_bytes, row)]
                private_bytes += total_bytes - (len(tiers) + len(filled)) * block_bytes
                held.append(keys[: len(tiers)] + filled)
            cache.give_back(private_bytes)
            for row_keys in held:
                cache.release(row_keys, first)
        return found

    @staticmethod
    def _pin(cache: TieredCache, keys: Sequence[tuple[int, int]], block_bytes: int) -> None:
        """Put the prefix into the cache, before the job begins."""
        if cache.acquire((), len(keys) * block_bytes, 0) is None:
            raise UsageError("the GPU's memory does not hold the prefix; set gpu.kv_bytes, or a shorter one")
        for key in keys:
            cache.fill(key, block_bytes, 0)
        cache.hint(keys, Hint(pinned=True))
        cache.release(keys, 0)

    def _seconds(self, prefix: int, batch: int, hits: Sequence[int], step_s: float) -> float:
        """Return the job's time: for each batch a prefill, no shorter than its weights take, and decodes."""
        serving, decodes = self.serving, self._settings.answer - 1
        found_s = 0.0
        for first in range(0, len(hits), batch):
            rows = range(first, min(first + batch, len(hits)))
            prefill_s = serving.prefill_fixed_s + sum(
                serving.prompt_s(prefix + self.lengths[row], hits[row]) for row in rows
            )
            tokens = sum(prefix + self.lengths[row] for row in rows) + len(rows)
            decode_s = serving.decode_s(len(rows), tokens) + serving.decode_s(
                len(rows), tokens + len(rows) * (decodes - 1)
            )
            found_s += max(prefill_s, serving.decode_fixed_s) + decodes * decode_s / 2
            found_s += (1 + decodes) * step_s
        return found_s


@dataclass(frozen=True, slots=True)
class Poster:
    """Where a serial client sees the ratio of the poster's two bars, 30.2 / 26.1, and how many rows take
    26.1 s there with the prefix cached. It is one reading: the poster does not say which bar is which.
    """

    prefix: int
    rows: int
    cached_s: float
    baseline_s: float


def prefix_for(settings: AnalyticsSettings, seed: int, ratio: float) -> AnalyticsRow | None:
    """Return what a serial client sees with the shortest prefix that gives a ratio; None if none does, of
    1,024 tokens at most, that model and GPU have room for.
    """

    def at(prefix: int) -> AnalyticsRow:
        return Job(replace(settings, prefixes=(prefix,)), seed).compare(prefix, 1)

    low, high = 1, Job(replace(settings, prefixes=(1,)), seed).longest_prefix()
    if at(high).ratio < ratio:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle).ratio >= ratio else (middle + 1, high)
    return at(low)


def poster_of(settings: AnalyticsSettings, seed: int) -> Poster | None:
    """Return where the model meets the poster's ratio, None if no prefix gives it."""
    cached_s, baseline_s = POSTER_S
    found = prefix_for(settings, seed, baseline_s / cached_s)
    if found is None:
        return None
    rows = round(settings.rows * cached_s / found.cached_s)
    scale = rows / settings.rows
    return Poster(found.prefix, rows, scale * found.cached_s, scale * found.baseline_s)


@dataclass(frozen=True, slots=True)
class AnalyticsResult:
    """The rows, and where the poster's ratio is met."""

    rows: tuple[AnalyticsRow, ...]
    gains_from: int | None
    """The shortest prefix with which a serial client is no slower, in tokens."""
    poster: Poster | None
    texts: int

    def headline(self) -> dict[str, float]:
        """Return how many times longer each job takes without the prefix cached."""
        return {f"ratio_{row.prefix}_tokens_batch_{row.batch}": row.ratio for row in self.rows}

    def as_data(self) -> dict[str, object]:
        """Return the rows for JSON."""
        return {
            "rows": [{**asdict(row), "ratio": row.ratio} for row in self.rows],
            "serial_client_gains_from_tokens": self.gains_from,
            "poster": {
                "bars_s": list(POSTER_S),
                "bars_are_named": False,
                "met_at": asdict(self.poster) if self.poster else None,
            },
        }

    def tables(self) -> list[Table]:
        """Return one table, and what the poster's figures may mean."""
        return [
            Table(
                f"Analytics: {self.texts:,} rows behind one instruction, without and with it cached",
                ("prefix tokens", "batch", "none s", "pinned s", "none / pinned", "hit rate %"),
                [
                    (
                        row.prefix,
                        row.batch,
                        round(row.baseline_s, 2),
                        round(row.cached_s, 2),
                        round(row.ratio, 2),
                        round(100 * row.hit_rate, 1),
                    )
                    for row in self.rows
                ],
                self._notes(),
            )
        ]

    def _notes(self) -> tuple[str, ...]:
        cached_s, baseline_s = POSTER_S
        gains = "a serial client gains " + (
            f"from {self.gains_from} tokens on"
            if self.gains_from
            else f"with no prefix that there is room for, {_LONGEST_SOUGHT:,} tokens at most"
        )
        told = f"the poster has {cached_s} and {baseline_s} s, and does not say which has the prefix cached"
        if self.poster is None:
            return gains, told, f"no prefix of {_LONGEST_SOUGHT:,} tokens at most gives their ratio"
        found = self.poster
        return (
            gains,
            told,
            f"if the {cached_s} s have it, {found.rows} rows behind {found.prefix} tokens take "
            f"{found.cached_s:.1f} s with it and {found.baseline_s:.1f} s without; other costs, other pairs",
        )

    def plot(self, folder: Path) -> list[Path]:
        """Draw the ratio against the prefix. Raises: UsageError."""
        from .analytics_plots import plot_analytics

        return plot_analytics(self.rows, self.texts, folder)


class AnalyticsStudy:
    """The sentiment job."""

    name: str = "analytics"
    about: str = """Ask what caching one long instruction gains a job of many short texts.

    \b
    nicemu study analytics
    nicemu study analytics --set rows=1000 --set prefixes=64,128 --set batches=1
    nicemu study analytics --set cache.step_s=0 --plot plots

    CONFIG is a TOML file: rows, prefixes, batches, row_mean, answer, ..., [set.TABLE] of the server's fields.
    docs/prefix-caching.md has all settings.
    """
    standard: Settings = AnalyticsSettings()

    def run(self, settings: AnalyticsSettings, seed: int, progress: Progress) -> AnalyticsResult:
        """Compare each prefix with each batch size. Raises: UsageError."""
        job = Job(settings, seed)
        cases = [(prefix, batch) for batch in settings.batches for prefix in settings.prefixes]
        rows = []
        for place, (prefix, batch) in enumerate(cases):
            progress(place / len(cases), f"prefix of {prefix} tokens, batches of {batch}")
            rows.append(job.compare(prefix, batch))
        least = prefix_for(settings, seed, 1.0)
        gains_from = least.prefix if least else None
        return AnalyticsResult(tuple(rows), gains_from, poster_of(settings, seed), settings.rows)
