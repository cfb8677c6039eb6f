# SPDX-License-Identifier: Apache-2.0
"""What the study of KV overflow does: the poster's figures, the follow-up's totals, a user's workload."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nicemu.errors import UsageError
from nicemu.model import Serving, read_server
from nicemu.study.contract import Progress

from .figures import Case, CaseFigure, EvictionFigure, Wait, Waits, Workload
from .limits import Limits
from .published import BY_BLOCK_TOKENS, BY_EVICTED_TOKENS, TOTALS
from .runs import Eviction, Run, evict_once, serve
from .sequence import Request, alike, drawn
from .settings import OverflowSettings

_GIB = 1 << 30
_PUBLISHED = "published: measured on an A100 of 40 GB under vLLM, Yarn-Llama-2-7B-64k"
_IN_BLOCKS = f"{_PUBLISHED}, in blocks of 16 tokens"
_OVERHEADS = (
    "attributed: all of each prefill that resumes a sequence, new prompts in it included, and each copy",
    "marginal: what the GPU would have saved without preemptions",
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A case to be served: its labels, its requests, the KV memory that they share, what was measured."""

    labels: tuple[float, ...]
    requests: Sequence[Request]
    kv_bytes: float
    published: Mapping[str, float] = field(default_factory=dict)


class Experiments:
    """A server with an engine's settings, on which workloads are served.

    Raises: UsageError if the server or its geometry is impossible.
    """

    def __init__(self, settings: OverflowSettings, seed: int, progress: Progress) -> None:
        server = read_server(settings.server).having(settings.values, "the user")
        self.settings, self.serving = settings, Serving(server)
        self.memory_bytes, self.kv_bytes = server.number("gpu.memory_bytes"), server.number("gpu.kv_bytes")
        if self.kv_bytes > self.memory_bytes:
            raise UsageError(
                f"{server.name}: gpu.kv_bytes is {self.kv_bytes:,.0f} and gpu.memory_bytes "
                f"{self.memory_bytes:,.0f}; KV has a part of the GPU's memory"
            )
        self.requests = self._requests(seed)
        self._progress, self._done, self._all = progress, 0, 1
        if 4 in settings.figures:
            self._all += len(settings.figure4_sequence_tokens) + len(TOTALS)
        if 5 in settings.figures:
            self._all += len(settings.figure5_kv_percents)

    def figure2(self) -> EvictionFigure:
        """Return what evicting some tokens costs, by the tokens of a block."""
        settings = self.settings
        tokens = settings.figure2_evicted_tokens
        title = f"{tokens:,} tokens out and back, by block size"
        points = {block: self._evictions(tokens, block) for block in settings.figure2_block_tokens}
        return EvictionFigure(
            2, title, "block, tokens", points, BY_BLOCK_TOKENS, (f"{_PUBLISHED}, 4,096 tokens",)
        )

    def figure3(self) -> EvictionFigure:
        """Return what evicting a sequence costs, by its tokens."""
        block = self.settings.block_tokens
        title = f"a sequence out and back, by its tokens, in blocks of {block}"
        points = {tokens: self._evictions(tokens, block) for tokens in self.settings.figure3_evicted_tokens}
        return EvictionFigure(3, title, "evicted tokens", points, BY_EVICTED_TOKENS, (_IN_BLOCKS,))

    def waits(self) -> Waits:
        """Return how soon sequences of figure 3 run again, and what their prefills write."""
        block, serving = self.settings.block_tokens, self.serving
        points = []
        for tokens in self.settings.figure3_evicted_tokens:
            recompute, swap, fetch = (
                evict_once(serving, policy, tokens, block, self.settings.write_through).wait_s
                for policy in ("recompute", "swap_pinned", "triggered")
            )
            rate = tokens * serving.kv_token_bytes / serving.prefill_s([tokens])
            points.append(Wait(tokens, recompute, swap, fetch, rate))
        even = block * serving.kv_token_bytes / serving.swap_s(1, block)
        return Waits(points, serving.offload_bytes_per_s, even)

    def figure4(self) -> CaseFigure:
        """Return overheads by the length of sequences, half prompt and half output."""
        count = self.settings.figure4_requests
        title = f"{count} requests by their tokens, half prompt, half output"
        recipes = [
            Recipe((tokens,), alike(count, tokens // 2, tokens - tokens // 2), self.kv_bytes)
            for tokens in self.settings.figure4_sequence_tokens
        ]
        return self._served(4, title, ("tokens",), recipes, (self._conditions(self.kv_bytes), *_OVERHEADS))

    def totals(self) -> CaseFigure:
        """Return the workloads whose overheads the follow-up publishes."""
        recipes = [
            Recipe((count, tokens), alike(count, tokens // 2, tokens // 2), self.kv_bytes, published)
            for (count, tokens), published in TOTALS.items()
        ]
        notes = (self._conditions(self.kv_bytes), f"{_IN_BLOCKS}, 24 GiB of KV")
        title = "Totals of the follow-up, half prompt, half output"
        return self._served(0, title, ("requests", "tokens"), recipes, notes)

    def figure5(self) -> CaseFigure:
        """Return overheads of the workload by the memory that KV has."""
        recipes = [
            Recipe((percent,), self.requests, percent / 100 * self.memory_bytes)
            for percent in self.settings.figure5_kv_percents
        ]
        title = f"{self._workload_told()}, by the share of memory that KV has"
        notes = (
            f"of {self.memory_bytes / _GIB:.4g} GiB; {self._conditions()}",
            "published: no numbers; the poster says that overheads are lowest with 30 or 50 %",
        )
        return self._served(5, title, ("KV %",), recipes, (*notes, *_OVERHEADS))

    def workload(self) -> Workload:
        """Return the runs of the workload. Raises: UsageError if it can never be served."""
        kv_bytes = self.settings.kv_percent / 100 * self.memory_bytes
        runs = self._runs(self.requests, kv_bytes, "workload")
        percent = f"{self.settings.kv_percent:g} % of {self.memory_bytes / _GIB:.4g} GiB"
        standard = OverflowSettings()
        told = replace(self.settings, figures=standard.figures, policies=standard.policies)
        figure = "The workload, figure 6" if told == standard else "The workload"
        title = f"{figure}: {self._workload_told()}, KV has {percent}"
        return Workload(title, runs, (self._conditions(kv_bytes), *_OVERHEADS))

    # How

    def _requests(self, seed: int) -> list[Request]:
        settings = self.settings
        requests = alike(settings.requests, settings.prompt_tokens, settings.output_tokens)
        self._limits(settings.kv_percent / 100 * self.memory_bytes).check_fits(requests[0])
        rate, sigma = settings.arrivals_per_s, settings.length_sigma
        return drawn(requests, rate, sigma, self.serving.context_tokens, random.Random(f"overflow {seed}"))

    def _workload_told(self) -> str:
        settings = self.settings
        told = f"{settings.requests:,} x {settings.prompt_tokens:,} + {settings.output_tokens:,} tokens"
        if settings.length_sigma:
            told += f" in the mean (sigma {settings.length_sigma:g})"
        return f"{told}, {settings.arrivals_per_s:g} a second" if settings.arrivals_per_s else told

    def _evictions(self, tokens: int, block_tokens: int) -> list[Eviction]:
        through = self.settings.write_through
        return [
            evict_once(self.serving, policy, tokens, block_tokens, through)
            for policy in self.settings.policies
        ]

    def _limits(self, kv_bytes: float) -> Limits:
        settings = self.settings
        block_bytes = settings.block_tokens * self.serving.kv_token_bytes
        if block_bytes > kv_bytes:
            raise UsageError(
                f"a block of {settings.block_tokens:,} tokens has {block_bytes:,} bytes of KV; the KV memory "
                f"has {int(kv_bytes):,}"
            )
        return Limits(
            int(kv_bytes // block_bytes),
            settings.block_tokens,
            settings.prompt_budget_tokens,
            settings.max_sequences,
            settings.watermark,
            settings.lookahead_tokens,
            self.serving.context_tokens,
        )

    def _runs(self, requests: Sequence[Request], kv_bytes: float, what: str) -> list[Run]:
        self._progress(self._done / self._all, what)
        self._done += 1
        limits, through = self._limits(kv_bytes), self.settings.write_through
        return [serve(self.serving, requests, policy, limits, through) for policy in self.settings.policies]

    def _served(
        self,
        number: int,
        title: str,
        labels: tuple[str, ...],
        recipes: Iterable[Recipe],
        notes: tuple[str, ...],
    ) -> CaseFigure:
        """Serve each case; one that can never be served is left out, with the reason."""
        cases, refused = [], []
        what = f"figure {number}" if number else "totals"
        for recipe in recipes:
            told = ", ".join(f"{name} {at:g}" for name, at in zip(labels, recipe.labels, strict=True))
            try:
                runs = self._runs(recipe.requests, recipe.kv_bytes, f"{what}: {told}")
            except UsageError as error:
                refused.append(f"{told}: {error}")
            else:
                cases.append(Case(recipe.labels, runs, recipe.published))
        return CaseFigure(number, title, labels, cases, notes, tuple(refused))

    def _conditions(self, kv_bytes: float | None = None) -> str:
        settings = self.settings
        memory = "" if kv_bytes is None else f"{kv_bytes / _GIB:.4g} GiB of KV, "
        return (
            f"{self.serving.server.name}, {memory}blocks of {settings.block_tokens:,} tokens, prefills of "
            f"{settings.prompt_budget_tokens:,} tokens at most"
        )
