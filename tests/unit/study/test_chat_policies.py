# SPDX-License-Identifier: Apache-2.0
"""Hit rates by policy where tiers are too small: three seeds, five sizes. Blocks of 256 tokens: fast."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.study.chat_cases import TIERS, run, small

CASES = [
    pytest.param(seed, *sizes, marks=() if seed == 1 else pytest.mark.slow)
    for seed in (1, 2, 3)
    for sizes in TIERS
]


@pytest.mark.parametrize(("seed", "gpu_gib", "cpu_gib"), CASES)
def test_hint_hits_no_less_than_lru_and_lru_no_less_than_lfu_and_wrong_hints_cost_nothing(
    seed: int, gpu_gib: int, cpu_gib: int
) -> None:
    settings = small(gpu_gib, cpu_gib, policies=("hint", "lru", "lfu"))
    hint, lru, lfu = (row.hit_rate for row in run(settings, seed).rows)
    assert hint >= lru >= lfu
    (wrong,) = run(replace(settings, policies=("hint",), wrong_hints=0.2), seed).rows
    assert wrong.hit_rate >= lru - 0.005


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("wrong_hints", [0.5, 1.0])
def test_hints_that_are_always_wrong_or_tell_nothing_cost_at_most_what_lru_loses(
    seed: int, wrong_hints: float
) -> None:
    settings = small(10, 8, policies=("lru", "hint"), wrong_hints=wrong_hints)
    lru, hint = (row.hit_rate for row in run(settings, seed).rows)
    assert hint >= lru - 0.02


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_reference_tiers_with_blocks_of_16_tokens(seed: int) -> None:
    """The study by whole conversations has 86, 67 and 26 %; blocks keep the beginnings of conversations."""
    rows = run(small(10, 16, policies=("hint", "lru", "lfu"), block_tokens=16), seed).rows
    hint, lru, lfu = (row.hit_rate for row in rows)
    assert hint == pytest.approx(0.88, abs=0.015)
    assert lru == pytest.approx(0.755, abs=0.03)
    assert lfu == pytest.approx(0.26, abs=0.06)
