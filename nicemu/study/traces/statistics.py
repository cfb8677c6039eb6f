# SPDX-License-Identifier: Apache-2.0
"""What a trace is like: how many requests of which lengths, and how much of them a cache could serve.

Blocks are all kept that a trace has, about 100 bytes each, since which are new can be known in no other way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from .block_lru import BlockLru
from .request import BLOCK_TOKENS, Request


@dataclass(slots=True)
class Lengths:
    """Lengths in tokens; exact, whatever their number, as each length is counted."""

    counts: Counter[int] = field(default_factory=Counter)

    def mean(self) -> float:
        """Return the mean."""
        return sum(length * times for length, times in self.counts.items()) / self.counts.total()

    def quantile(self, share: float) -> int:
        """Return the least length that `share` of all do not exceed."""
        lengths = sorted(self.counts)
        below = accumulate(self.counts[length] for length in lengths)
        wanted = share * self.counts.total()
        return next(
            (length for length, reached in zip(lengths, below, strict=True) if reached >= wanted), lengths[-1]
        )


@dataclass(slots=True)
class TraceStatistics:
    """What is counted while requests pass."""

    requests: int = 0
    span_s: float = 0.0
    arrival_times: int = 0
    inputs: Lengths = field(default_factory=Lengths)
    outputs: Lengths = field(default_factory=Lengths)
    input_tokens: int = 0
    blocks: int = 0
    distinct_blocks: int = 0
    partial_last_blocks: int = 0
    hits: list[tuple[int, float]] = field(default_factory=list)
    """Capacities in blocks, 0 for unbounded, and the share of prompt tokens that a cache of each has."""


def statistics_of(requests: Iterable[Request], capacities: Sequence[int] = (0,)) -> TraceStatistics:
    """Return the statistics of a trace, with hit rates of LRU caches of so many blocks, 0 for unbounded.

    A partial last block is nobody's hit, and is not held.
    """
    found = TraceStatistics()
    caches = [BlockLru(capacity) for capacity in capacities]
    hits = [0] * len(caches)
    names: set[int] = set()
    last_s = None
    for request in requests:
        found.requests += 1
        found.span_s = request.arrival_s
        found.arrival_times += request.arrival_s != last_s
        last_s = request.arrival_s
        found.inputs.counts[request.input_tokens] += 1
        found.outputs.counts[request.output_tokens] += 1
        found.blocks += len(request.blocks)
        full = request.full_blocks
        found.partial_last_blocks += full < len(request.blocks)
        names.update(request.blocks)
        for place, cache in enumerate(caches):
            hits[place] += cache.prefix(request.blocks, full, 0.0)
            cache.put(request.blocks[:full], 0.0)
    found.distinct_blocks = len(names)
    found.input_tokens = sum(length * times for length, times in found.inputs.counts.items())
    found.hits = [
        (capacity, BLOCK_TOKENS * hit / found.input_tokens) if found.input_tokens else (capacity, 0.0)
        for capacity, hit in zip(capacities, hits, strict=True)
    ]
    return found
