# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.model import Serving, read_server
from nicemu.study.overflow.limits import Limits
from nicemu.study.overflow.preemption import POLICIES, Move, Swap, preemption_of
from nicemu.study.overflow.scheduler import Scheduler, Step, StepKind
from nicemu.study.overflow.sequence import Request, Sequence, alike, drawn

A100 = Serving(read_server("a100_llama2_7b"))


def scheduler(requests: list[Request], limits: Limits, policy: str = "recompute") -> Scheduler:
    return Scheduler(A100, requests, preemption_of(policy, A100, limits.block_tokens), limits)


def run(found: Scheduler, most: int = 1 << 30) -> list[Step]:
    steps = []
    while not found.done:
        steps.append(found.advance(most))
    return steps


# Prefill


def test_prompts_are_prefilled_together_as_far_as_memory_and_the_prompt_budget_go() -> None:
    for limits, prompts in (
        (Limits(1000), 4),
        (Limits(1000, prompt_budget_tokens=250), 2),
        (Limits(1000, max_sequences=3), 3),
        (Limits(15, watermark=0.0), 2),
    ):
        step = scheduler(alike(4, 100, 10), limits).advance()
        assert (step.kind, step.sequences) == (StepKind.PREFILL, prompts)
        assert step.end_s == A100.prefill_s([100] * prompts)


def test_a_watermark_of_blocks_stays_free_unless_there_is_nobody_else() -> None:
    limits = Limits(20, 10, watermark=0.2)
    crowd = scheduler(alike(2, 90, 5), limits)
    assert crowd.advance().sequences == 1
    alone = scheduler(alike(1, 190, 5), limits)
    assert alone.advance().sequences == 1


def test_a_request_is_prefilled_no_sooner_than_it_comes() -> None:
    found = scheduler([Request(0, 10, 5), Request(1, 10, 5, arrival_s=3.0)], Limits(100))
    steps = run(found)
    assert [step.kind for step in steps] == ["prefill", "decode", "wait", "prefill", "decode"]
    assert steps[3].start_s == 3.0
    assert [sequence.ttft_s for sequence in found.finished] == [pytest.approx(A100.prefill_s([10]))] * 2


# Decode


def test_each_step_decodes_a_token_of_every_sequence() -> None:
    found = scheduler(alike(3, 100, 11), Limits(100))
    _, decode = run(found)
    assert (decode.count, decode.generated_tokens) == (10, 30)
    seconds = sum(A100.decode_s(3, 3 * (101 + done)) for done in range(10))
    assert decode.end_s - decode.start_s == pytest.approx(seconds)
    assert found.finished[0].tpot_s == pytest.approx(seconds / 10)


def full(policy: str, count: int = 2) -> Scheduler:
    """A scheduler whose sequences, of 5 blocks each, have just been prefilled; there are 2 blocks more."""
    found = scheduler(alike(count, 50, 30), Limits(5 * count + 2, 10, watermark=0.0), policy)
    assert found.advance().sequences == count
    return found


def after_preemption(policy: str, count: int = 2) -> Scheduler:
    found = full(policy, count)
    while not found.overhead.preemptions:
        found.advance()
    return found


def test_who_came_last_is_preempted() -> None:
    found = after_preemption("swap_pinned", 3)
    assert [sequence.request.number for sequence in found.swapped] == [2]
    assert [sequence.request.number for sequence in found.running] == [0, 1]


def test_a_victim_of_recompute_waits_ahead_of_all_others() -> None:
    limits = Limits(12, 10, watermark=0.0)
    found = scheduler(alike(4, 50, 30), limits)
    while not found.overhead.preemptions:
        found.advance()
    assert [sequence.request.number for sequence in found.waiting] == [1, 2, 3]
    assert found.waiting[0].generated > 1
    assert found.waiting[0].blocks == 0


def test_nobody_is_prefilled_while_somebody_is_swapped_out() -> None:
    limits = Limits(14, 10, watermark=0.0)
    found = scheduler([*alike(2, 50, 40), Request(2, 1, 1, arrival_s=0.3)], limits, "swap_pinned")
    while not found.swapped:
        found.advance()
    while found.swapped:
        assert found.advance(1).kind is StepKind.DECODE
    assert not found.finished or found.finished[-1].request.number != 2


class Noting(Swap):
    """Swap, which notes who leaves, who comes back, and how much is written."""

    def __init__(self) -> None:
        super().__init__(A100, 10, "pinned")
        self.left: list[int] = []
        self.back: list[int] = []
        self.tokens: list[int] = []

    def produced(self, start_s: float, tokens: int) -> None:
        self.tokens.append(tokens)

    def evict(self, now_s: float, victim: Sequence) -> Move:
        self.left.append(victim.request.number)
        return super().evict(now_s, victim)

    def resume(self, now_s: float, sequence: Sequence) -> Move:
        self.back.append(sequence.request.number)
        return super().resume(now_s, sequence)


def test_sequences_come_back_by_arrival() -> None:
    policy = Noting()
    run(Scheduler(A100, alike(4, 50, 30), policy, Limits(22, 10, watermark=0.0)))
    assert policy.left[:2] == [3, 2]
    assert policy.back[:2] == [2, 3]


def test_a_swap_makes_the_step_longer_by_its_copies() -> None:
    found = full("swap_pinned")
    while not found.overhead.preemptions:
        step = found.advance(1)
    (still,) = found.running
    copies_s = A100.swap_s(6, 10)
    assert found.overhead.attributed_s == found.overhead.marginal_s == copies_s
    assert step.end_s - step.start_s == pytest.approx(copies_s + A100.decode_s(1, still.tokens - 1))


def test_a_sequence_that_is_fetched_runs_when_it_is_there_and_others_meanwhile() -> None:
    requests = [Request(number, 50, tokens) for number, tokens in enumerate((60, 30, 40))]
    found = scheduler(requests, Limits(17, 10, watermark=0.0), "triggered")
    while not found.fetching:
        found.advance()
    ((ready_s, sequence),) = found.fetching
    assert sequence.request.number == 2
    while found.now_s < ready_s:
        assert found.advance().sequences == 1
        assert sequence not in found.running
    assert found.advance().sequences == 2
    assert found.overhead.attributed_s == pytest.approx(2e-6)


def test_sequences_that_are_fetched_have_their_seats() -> None:
    requests = [Request(number, 50, tokens) for number, tokens in enumerate((60, 30, 40))]
    requests += [Request(number, 5, 5) for number in (3, 4)]
    slow = Serving(read_server("a100_llama2_7b").having({"offload.request_s": 1.0}))
    limits = Limits(17, 10, max_sequences=3, watermark=0.0)
    found = Scheduler(slow, requests, preemption_of("triggered", slow, 10), limits)
    while not found.fetching:
        found.advance()
    assert found.advance().kind is StepKind.PREFILL
    assert ([item.request.number for item in found.running], len(found.fetching)) == ([0, 3], 1)


def draining(requests: list[Request], blocks: int) -> Scheduler:
    """A scheduler that has just preempted, without write-through, by a NIC that takes seconds for it."""
    serving = Serving(read_server("a100_llama2_7b").having({"offload.nic_bytes_per_s": 1e7}))
    policy = preemption_of("triggered", serving, 10, write_through=False)
    found = Scheduler(serving, requests, policy, Limits(blocks, 10, watermark=0.0))
    while not found.overhead.preemptions:
        step = found.advance()
    assert step.sequences == 0
    return found


def test_who_lacks_a_block_waits_for_those_that_drain_and_preempts_nobody_else() -> None:
    found = draining(alike(3, 50, 30), 15)
    assert (found.overhead.preemptions, len(found.running), found.pool.draining) == (1, 2, 5)
    drained_s = found.pool.next_s
    step = found.advance()
    assert (step.kind, step.end_s, found.overhead.preemptions) == (StepKind.WAIT, drained_s, 1)
    assert found.advance().sequences == 2


def test_a_block_that_drains_is_promised_once() -> None:
    found = draining([Request(0, 50, 30), Request(1, 50, 30), Request(2, 5, 30)], 11)
    assert [sequence.request.number for sequence in found.swapped] == [2, 1]


def test_a_policy_is_told_of_all_kv_that_is_written() -> None:
    policy = Noting()
    run(Scheduler(A100, alike(3, 50, 30), policy, Limits(100, 10)))
    assert policy.tokens == [150, 3 * 29]


# Overheads


def test_recompute_is_charged_the_whole_prefill_and_in_the_margin_its_own_part() -> None:
    requests = [*alike(2, 50, 30), Request(2, 30, 1)]
    found = scheduler(requests, Limits(12, 10, watermark=0.0))
    while not found.overhead.attributed_s:
        step = found.advance()
    assert (step.kind, step.sequences) == (StepKind.PREFILL, 2)
    assert found.overhead.attributed_s == pytest.approx(step.end_s - step.start_s)
    marginal_s = step.end_s - step.start_s - A100.prefill_s([30])
    assert found.overhead.marginal_s == pytest.approx(marginal_s)
    assert found.overhead.moved_tokens == step.prompt_tokens - 30


def test_a_preempted_sequence_stands_until_it_can_run_again() -> None:
    found = full("recompute")
    while not found.overhead.preemptions:
        step = found.advance()
    preempted_at_s = step.start_s
    while not found.overhead.stalled_s:
        step = found.advance()
    assert found.overhead.stalled_s == pytest.approx(step.end_s - preempted_at_s)


# What is refused


@pytest.mark.parametrize(
    ("request_", "limits", "told"),
    [
        (
            Request(3, 150, 60),
            Limits(20, 10),
            r"request 3 has 150 tokens of prompt and 60 of output, 21 blocks",
        ),
        (Request(3, 150, 50), Limits(20, 10, lookahead_tokens=2), r"it never fits"),
        (Request(3, 150, 60), Limits(99, 10, 200), r"a prefill takes 200 tokens at most"),
        (Request(3, 150, 60), Limits(99, 10, context_tokens=209), r"the model's context has 209 tokens"),
    ],
)
def test_a_request_that_can_never_be_served_is_refused(request_: Request, limits: Limits, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        scheduler([request_], limits)


def test_a_request_that_just_fits_is_served() -> None:
    for policy in POLICIES:
        found = scheduler([Request(0, 150, 50)], Limits(20, 10, 200, context_tokens=200), policy)
        run(found)
        assert (found.finished[0].generated, found.overhead.preemptions) == (50, 0)


# What always holds


@st.composite
def situations(draw: st.DrawFn) -> tuple[Serving, list[Request], Limits, str, bool]:
    """Small memories and many requests, so that almost everybody is preempted; NICs of all speeds."""
    limits = Limits(
        blocks=draw(st.integers(12, 60)),
        block_tokens=draw(st.integers(1, 8)),
        max_sequences=draw(st.integers(1, 12)),
        watermark=draw(st.sampled_from([0.0, 0.01, 0.2, 0.9])),
        lookahead_tokens=draw(st.integers(0, 2)),
    )
    most = limits.blocks * limits.block_tokens - 2
    count = draw(st.integers(1, 12))
    chance = random.Random(draw(st.integers(0, 1 << 30)))
    arrivals_per_s = draw(st.sampled_from([0.0, 20.0, 500.0]))
    spread = [
        Request(number, chance.randint(1, most // 2), chance.randint(1, most // 2)) for number in range(count)
    ]
    limits = replace(limits, prompt_budget_tokens=draw(st.sampled_from([most, 65_536])))
    server = read_server("a100_llama2_7b").having(
        {
            "offload.nic_bytes_per_s": draw(st.sampled_from([1e7, 1e8, 1e9, 1.25e10])),
            "offload.fire_s": draw(st.sampled_from([0.0, 1e-6])),
        }
    )
    requests = drawn(spread, arrivals_per_s, 0.0, 65_536, chance)
    return Serving(server), requests, limits, draw(st.sampled_from(POLICIES)), draw(st.booleans())


def made(situation: tuple[Serving, list[Request], Limits, str, bool]) -> Scheduler:
    serving, requests, limits, policy, through = situation
    return Scheduler(serving, requests, preemption_of(policy, serving, limits.block_tokens, through), limits)


@given(situations())
@settings(max_examples=150)
def test_blocks_are_conserved_time_goes_on_and_every_request_is_served(
    situation: tuple[Serving, list[Request], Limits, str, bool],
) -> None:
    found, requests, steps = made(situation), situation[1], list[Step]()
    while not found.done:
        step = found.advance()
        steps.append(step)
        pool, fetched = found.pool, [sequence for _, sequence in found.fetching]
        assert pool.free + pool.held + pool.draining == pool.total
        assert pool.held == sum(sequence.blocks for sequence in (*found.running, *fetched))
        assert 0 <= step.kv_use_start <= 1
        assert 0 <= step.kv_use_end <= 1
        assert step.start_s <= step.end_s == found.now_s
        assert len(found.running) + len(fetched) <= found.limits.max_sequences
        everybody = [*found.waiting, *found.running, *found.swapped, *fetched, *found.finished]
        assert sorted(item.request.number for item in everybody) == [item.number for item in requests]
    assert all(before.end_s == after.start_s for before, after in pairwise(steps))
    assert all(item.generated == item.request.output_tokens for item in found.finished)
    assert sum(step.generated_tokens for step in steps) == sum(item.output_tokens for item in requests)
    assert all(item.ttft_s > 0 for item in found.finished)
    assert found.overhead.marginal_s <= found.overhead.attributed_s + 1e-12
    found.pool.drain(float("inf"))
    assert found.pool.free == found.pool.total


@given(situations())
@settings(max_examples=60)
def test_steps_taken_at_once_are_the_same_as_one_by_one(
    situation: tuple[Serving, list[Request], Limits, str, bool],
) -> None:
    leaps, single = made(situation), made(situation)
    run(leaps)
    steps = run(single, most=1)
    assert all(step.count == 1 for step in steps)
    assert leaps.overhead.preemptions == single.overhead.preemptions
    assert leaps.now_s == pytest.approx(single.now_s, rel=1e-9)
    assert leaps.overhead.attributed_s == pytest.approx(single.overhead.attributed_s, rel=1e-9)
    assert leaps.overhead.stalled_s == pytest.approx(single.overhead.stalled_s, rel=1e-9)
    ends = [{item.request.number: item.finished_s for item in found.finished} for found in (leaps, single)]
    assert ends[0] == pytest.approx(ends[1])
