# SPDX-License-Identifier: Apache-2.0
"""The ledger without a library: counters are a dict, and the test plays the provider."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nicemu.abi import DeferredWork, Opcode, WorkRequest
from nicemu.fabric.libfabric.ledger import GRACE_NS, Ledger
from nicemu.fabric.libfabric.work import QueuedWork

A, B, C = 1, 2, 3
_places = iter(range(1 << 20, 1 << 30, 64))


def write(trigger: int, threshold: int, completion: int, opcode: Opcode = Opcode.RDMA_WRITE) -> QueuedWork:
    work = DeferredWork(trigger, threshold, opcode, WorkRequest(opcode), 1, completion)
    return QueuedWork(work, None, (), next(_places))


def count(trigger: int, threshold: int, target: int, opcode: Opcode = Opcode.COUNTER_ADD) -> QueuedWork:
    return QueuedWork(
        DeferredWork(trigger, threshold, opcode, target=target, value=2), None, (), next(_places)
    )


class Provider:
    """Counters, and a ledger that reads them."""

    def __init__(self) -> None:
        self.values = {A: 0, B: 0, C: 0}
        self.ledger = Ledger(lambda counter: (self.values[counter], 0))

    def arm(self, *work: QueuedWork) -> None:
        for one in work:
            self.ledger.add(one)

    def host_adds(self, counter: int, value: int = 1) -> None:
        self.ledger.counted(counter, value)
        self.values[counter] += value

    def look(self) -> None:
        """Look, and have the provider go through what is due, as a target does."""
        self.ledger.look(0)
        for trigger in self.ledger.stalled():
            self.ledger.counts_have_fired(trigger, 0)

    def concerning(self, counter: int) -> int:
        return len(self.ledger.concerning(counter))


@pytest.fixture
def provider() -> Provider:
    return Provider()


def test_work_is_waiting_until_its_threshold_is_seen_and_in_flight_until_it_is_counted(
    provider: Provider,
) -> None:
    provider.arm(write(A, 1, B))
    provider.look()
    assert (provider.ledger.waiting, provider.ledger.in_flight) == (1, 0)
    provider.host_adds(A)
    provider.look()
    assert (provider.ledger.waiting, provider.ledger.in_flight) == (0, 1)
    provider.values[B] += 1
    provider.look()
    assert (provider.ledger.in_flight, provider.concerning(B)) == (0, 0)


def test_of_two_operations_one_that_counted_does_not_end_the_other(provider: Provider) -> None:
    provider.arm(write(A, 1, B), write(A, 1, B))
    provider.host_adds(A)
    provider.values[B] += 1
    provider.look()
    assert provider.concerning(B) == 2  # which of them it was cannot be known
    provider.values[B] += 1
    provider.look()
    assert provider.concerning(B) == 0


def test_what_has_not_fired_does_not_hide_the_end_of_what_has(provider: Provider) -> None:
    provider.arm(write(A, 1, B), write(A, 9, B))
    provider.host_adds(A)
    provider.values[B] += 1
    provider.look()
    assert provider.concerning(B) == 1


def test_counts_of_the_host_are_no_ends(provider: Provider) -> None:
    provider.arm(write(A, 1, B))
    provider.host_adds(A)
    provider.host_adds(B, 5)
    provider.look()
    assert provider.concerning(B) == 1


@pytest.mark.parametrize("value", [1, 2])
def test_deferred_counts_that_may_have_fired_are_no_ends(provider: Provider, value: int) -> None:
    provider.arm(write(A, 1, B), count(A, 1, B))
    provider.host_adds(A)
    provider.values[B] += value
    provider.look()
    assert provider.concerning(B) == 2
    provider.values[B] += 3 - value
    provider.look()
    provider.look()
    assert provider.concerning(B) == 0


@pytest.mark.parametrize("opcode", [Opcode.RECV, Opcode.TAGGED_RECV])
def test_a_receive_that_nothing_came_for_is_not_in_the_way(provider: Provider, opcode: Opcode) -> None:
    provider.arm(write(A, 0, C, opcode), count(A, 0, B))
    provider.look()
    provider.ledger.counts_have_fired(A, 0)
    assert provider.concerning(B) == 0
    assert provider.ledger.in_flight == 0


@pytest.mark.parametrize(
    "hide",
    [
        lambda provider: provider.ledger.was_set(B),
        lambda provider: provider.ledger.peers_count_at(B),
        lambda provider: provider.arm(count(C, 1, B, Opcode.COUNTER_SET)),
    ],
)
def test_where_ends_cannot_be_known_work_is_kept(
    provider: Provider, hide: Callable[[Provider], None]
) -> None:
    provider.arm(write(A, 1, B))
    hide(provider)
    provider.host_adds(A)
    provider.values[B] += 100
    provider.look()
    assert any(not work.counts_only for work in provider.ledger.concerning(B))


def test_a_trigger_that_was_set_back_unseen_does_not_make_an_end_of_another_s(provider: Provider) -> None:
    provider.arm(count(C, 1, A, Opcode.COUNTER_SET))
    early, late = write(A, 5, B), write(A, 1, B)
    provider.arm(early, late)
    provider.values[A] = 1
    provider.look()
    provider.values[B] += 1  # the early one: A was at 5, and set back before anybody looked
    provider.look()
    assert late in provider.ledger.concerning(B)


def test_an_entry_of_the_completion_queue_is_an_end_whether_or_not_it_counts(provider: Provider) -> None:
    for counts in (True, False):
        failed, good = write(A, 0, B), write(A, 0, B)
        provider.arm(failed, good)
        provider.look()
        provider.ledger.ended(failed, counts, 0)
        provider.values[B] += counts
        provider.look()
        assert provider.ledger.concerning(B) == [good]
        provider.values[B] += 1
        provider.look()
        assert provider.concerning(B) == 0


def test_what_has_ended_is_kept_for_a_while(provider: Provider) -> None:
    work = write(A, 0, B)
    provider.arm(work)
    provider.values[B] += 1
    provider.look()
    assert provider.concerning(B) == 0
    assert provider.ledger.find(work.context) is work
    provider.ledger.look(GRACE_NS + 1)
    assert provider.ledger.find(work.context) is None


def test_what_was_flushed_is_counted_and_gone(provider: Provider) -> None:
    provider.arm(write(A, 1, C), write(B, 1, C), count(A, 1, C))
    assert provider.ledger.withdraw_waiting(A, 0) == 2
    assert (provider.concerning(A), provider.concerning(B)) == (0, 1)
    assert provider.ledger.withdraw_waiting(None, 0) == 1


@pytest.mark.parametrize(
    ("armed", "new", "closes"),
    [
        ([], [count(A, 1, A)], True),
        ([count(A, 1, B)], [count(B, 1, A)], True),
        ([count(A, 1, B), count(B, 1, C)], [count(C, 1, A, Opcode.COUNTER_SET)], True),
        ([count(A, 1, B)], [count(B, 1, C), count(A, 1, C)], False),
        ([count(A, 1, B)], [write(B, 1, A)], False),
    ],
)
def test_counts_that_lead_back_are_seen(
    provider: Provider, armed: list[QueuedWork], new: list[QueuedWork], closes: bool
) -> None:
    provider.arm(*armed)
    assert (provider.ledger.closes_a_cycle(new) is not None) is closes


def test_counts_that_have_fired_lead_nowhere(provider: Provider) -> None:
    provider.arm(count(A, 1, B))
    provider.host_adds(A)
    provider.values[B] += 2
    provider.look()
    assert provider.ledger.closes_a_cycle([count(B, 9, A)]) is None


def test_a_count_that_a_read_does_not_show_yet_is_not_taken_for_an_end(provider: Provider) -> None:
    """A read of `cxi` returns what was written back last."""
    provider.ledger.counted(B, 5)  # the host has counted; the value still lags behind
    provider.arm(write(A, 1, B))
    provider.host_adds(A)
    provider.values[B] = 5
    provider.look()
    assert provider.concerning(B) == 1
    provider.values[B] = 6
    provider.look()
    assert provider.concerning(B) == 0


@pytest.mark.parametrize("by_host", [True, False])
def test_ends_are_seen_behind_a_counter_that_was_set_back_before(provider: Provider, by_host: bool) -> None:
    provider.host_adds(B, 9)
    if by_host:
        provider.ledger.was_set(B)
    else:
        provider.arm(count(C, 1, B, Opcode.COUNTER_SET))
        provider.host_adds(C)
        provider.look()
    provider.values[B] = 2
    provider.arm(write(A, 1, B))
    provider.host_adds(A)
    provider.values[B] = 3
    provider.look()
    assert provider.concerning(B) == 0
