# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nicemu.model import Serving, read_server
from nicemu.study.overflow.preemption import POLICIES, Recompute, Swap, Triggered, preemption_of
from nicemu.study.overflow.runs import evict_once
from nicemu.study.overflow.sequence import Request, Sequence

A100 = Serving(read_server("a100_llama2_7b"))
TOKEN_BYTES = 524_288


def a100(**fields: float) -> Serving:
    values = {f"offload.{name}": value for name, value in fields.items()}
    return Serving(read_server("a100_llama2_7b").having(values))


def victim(tokens: int, number: int = 0) -> Sequence:
    return Sequence(Request(number, tokens, 1), blocks=-(-tokens // 16))


def test_a_name_is_a_policy_of_its_own_for_each_run() -> None:
    kinds = [type(preemption_of(name, A100, 16)) for name in POLICIES]
    assert kinds == [Recompute, Swap, Swap, Triggered]
    assert preemption_of("triggered", A100, 16) is not preemption_of("triggered", A100, 16)


def test_recompute_gives_blocks_up_for_nothing_and_pays_a_prefill() -> None:
    policy = preemption_of("recompute", A100, 16)
    move = policy.evict(1.0, victim(1024))
    assert (policy.keeps_kv, move.gpu_s, move.done_s) == (False, 0.0, None)
    found = evict_once(A100, "recompute", 1024, 16, True)
    assert found.gpu_s == found.wait_s == A100.prefill_s([1024])


@pytest.mark.parametrize("memory", ["pinned", "pageable"])
def test_a_swap_copies_the_blocks_that_are_held_while_the_gpu_waits(memory: str) -> None:
    policy = preemption_of(f"swap_{memory}", A100, 16)
    one_way_s = A100.swap_s(65, 16, memory)
    for move in (policy.evict(1.0, victim(1025)), policy.resume(2.0, victim(1025))):
        assert (policy.keeps_kv, move.gpu_s, move.done_s) == (True, one_way_s, None)
    found = evict_once(A100, f"swap_{memory}", 1025, 16, True)
    assert found.gpu_s == pytest.approx(2 * one_way_s)
    assert found.wait_s == one_way_s


def test_a_trigger_costs_the_gpu_a_microsecond_each_way_and_the_sequence_a_fetch() -> None:
    found = evict_once(A100, "triggered", 1024, 16, True)
    assert found.gpu_s == pytest.approx(2e-6)
    assert found.wait_s == pytest.approx(A100.fetch_s(1024))


def test_fetches_pass_the_nic_one_behind_the_other() -> None:
    policy = preemption_of("triggered", A100, 16)
    for number in (0, 1):
        policy.evict(0.0, victim(1024, number))
    first, second = (policy.resume(1.0, victim(1024, number)).done_s for number in (0, 1))
    assert first is not None
    assert second is not None
    assert first == pytest.approx(1.0 + A100.fetch_s(1024))
    assert second - first == pytest.approx(1024 * TOKEN_BYTES / 12.5e9)


def test_what_was_written_through_is_free_at_once() -> None:
    policy = preemption_of("triggered", A100, 16, write_through=True)
    policy.produced(0.0, 1024)
    prefilled_s = A100.prefill_s([1024])
    move = policy.evict(prefilled_s, victim(1024))
    assert move.done_s is not None
    assert move.done_s < prefilled_s


def test_without_write_through_blocks_are_free_when_their_bytes_have_passed_the_link() -> None:
    policy = preemption_of("triggered", A100, 16, write_through=False)
    policy.produced(0.0, 1024)
    first, second = (policy.evict(1.0, victim(1024, number)).done_s for number in (0, 1))
    late_s = 1024 * TOKEN_BYTES / 12.5e9
    assert first == pytest.approx(1.0 + late_s)
    assert second == pytest.approx(1.0 + 2 * late_s)


def test_a_slow_nic_is_behind_with_writing_through() -> None:
    policy = preemption_of("triggered", a100(nic_bytes_per_s=1e9), 16, write_through=True)
    policy.produced(0.0, 1024)
    move = policy.evict(0.1, victim(1024))
    assert move.done_s == pytest.approx(1024 * TOKEN_BYTES / 1e9)


def test_kv_is_fetched_only_after_it_was_stored() -> None:
    policy = preemption_of("triggered", A100, 16, write_through=False)
    stored_s = policy.evict(1.0, victim(1024)).done_s
    back_s = policy.resume(1.0, victim(1024)).done_s
    assert stored_s is not None
    assert back_s == pytest.approx(stored_s + A100.fetch_s(1024))


def test_a_slow_store_slows_both_ways() -> None:
    slow = a100(store_bytes_per_s=5e9)
    policy = preemption_of("triggered", slow, 16, write_through=False)
    assert policy.evict(0.0, victim(1000)).done_s == pytest.approx(1000 * TOKEN_BYTES / 5e9)
    assert evict_once(slow, "triggered", 1000, 16, True).wait_s == pytest.approx(slow.fetch_s(1000))
