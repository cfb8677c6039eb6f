# SPDX-License-Identifier: Apache-2.0
"""What the study of KV overflow may be told: a workload, an engine, and what the poster's figures vary."""

from __future__ import annotations

from dataclasses import dataclass

from nicemu.errors import UsageError
from nicemu.study.contract import (
    Settings,
    flag,
    number,
    number_from,
    one_of,
    several,
    text,
    whole,
    whole_from,
)

from .preemption import POLICIES

FIGURES = (2, 3, 4, 5, 6)
_MOST_TOKENS, _MOST_REQUESTS = 1 << 24, 1 << 20
_FEWEST_PER_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowSettings(Settings):
    """The defaults are the poster's figures; docs/overflow.md says where each comes from.

    `requests` to `kv_percent` are the workload, whose runs are figure 6 and what `headline` tells.
    """

    server: str = text("a100_llama2_7b")
    figures: tuple[int, ...] = several(FIGURES, whole_from(FIGURES[0], FIGURES[-1]))
    policies: tuple[str, ...] = several(POLICIES, one_of(*POLICIES))
    write_through: bool = flag(True)

    requests: int = whole(32, 1, _MOST_REQUESTS)
    prompt_tokens: int = whole(1500, 1, _MOST_TOKENS)
    output_tokens: int = whole(1024, 1, _MOST_TOKENS)
    arrivals_per_s: float = number(0.0, 0.0, 1e9)
    length_sigma: float = number(0.0, 0.0, 3.0)
    kv_percent: float = number(12.0, 0.0, 100.0, more_than=True)

    block_tokens: int = whole(16, 1, _MOST_TOKENS)
    prompt_budget_tokens: int = whole(65_536, 1, _MOST_TOKENS)
    max_sequences: int = whole(256, 1, _MOST_REQUESTS)
    watermark: float = number(0.01, 0.0, 0.99)
    lookahead_tokens: int = whole(1, 0, 1024)

    figure2_block_tokens: tuple[int, ...] = several((2, 4, 8, 16, 32, 64), whole_from(1, _MOST_TOKENS))
    figure2_evicted_tokens: int = whole(4096, 1, _MOST_TOKENS)
    figure3_evicted_tokens: tuple[int, ...] = several(
        (1024, 2048, 4096, 8192, 16_384), whole_from(1, _MOST_TOKENS)
    )
    figure4_requests: int = whole(16, 1, _MOST_REQUESTS)
    figure4_sequence_tokens: tuple[int, ...] = several(
        (2048, 4096, 8192, 16_384, 32_768), whole_from(2, _MOST_TOKENS)
    )
    figure5_kv_percents: tuple[float, ...] = several(
        (10.0, 20.0, 30.0, 40.0, 50.0), number_from(0.0, 100.0, more_than=True)
    )

    def __post_init__(self) -> None:
        if 0 < self.arrivals_per_s < _FEWEST_PER_S:
            raise UsageError(
                f"arrivals_per_s is {self.arrivals_per_s:g}; {_FEWEST_PER_S:g} at least was expected, one in "
                "11 days, or 0: all at once"
            )
