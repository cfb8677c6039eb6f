# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from itertools import pairwise

import pytest

from nicemu.study.overflow.sequence import Request, Sequence, alike, drawn


def test_a_sequence_grows_from_its_prompt_to_all_of_its_tokens() -> None:
    sequence = Sequence(Request(0, 100, 30, arrival_s=2.0), generated=12)
    assert (sequence.tokens, sequence.remaining, sequence.request.tokens) == (112, 18, 130)
    sequence.first_token_s, sequence.finished_s = 2.5, 8.3
    assert sequence.ttft_s == pytest.approx(0.5)
    assert sequence.tpot_s == pytest.approx(0.2)


def test_what_is_not_drawn_stays_as_it_is() -> None:
    requests = alike(5, 1500, 1024)
    assert drawn(requests, 0.0, 0.0, 65_536, random.Random("1")) == requests


def test_arrivals_are_a_poisson_process() -> None:
    found = drawn(alike(4000, 10, 10), 8.0, 0.0, 65_536, random.Random("1"))
    gaps = [after.arrival_s - before.arrival_s for before, after in pairwise(found)]
    assert min(gaps) > 0
    assert found[-1].arrival_s == pytest.approx(4000 / 8, rel=0.05)
    assert sum(gap > 1 / 8 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.03)


def test_lengths_are_lognormal_around_their_mean_and_cut_to_the_context() -> None:
    found = drawn(alike(8000, 500, 200), 0.0, 0.5, 65_536, random.Random("1"))
    assert sum(item.prompt_tokens for item in found) / 8000 == pytest.approx(500, rel=0.03)
    assert sum(item.output_tokens for item in found) / 8000 == pytest.approx(200, rel=0.03)
    prompts = sorted(item.prompt_tokens for item in found)
    assert prompts[4000] == pytest.approx(500 * 0.8825, rel=0.03)  # exp(-sigma^2 / 2)
    short = drawn(alike(800, 500, 200), 0.0, 1.0, 700, random.Random("1"))
    assert max(item.tokens for item in short) == 700
    assert min(min(item.prompt_tokens, item.output_tokens) for item in short) >= 1


def test_the_same_chance_draws_the_same() -> None:
    first, second, other = (
        drawn(alike(50, 500, 200), 3.0, 1.0, 65_536, random.Random(seed)) for seed in ("1", "1", "2")
    )
    assert first == second != other
