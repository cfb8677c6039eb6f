# SPDX-License-Identifier: Apache-2.0
"""Windows without a library: counters are a dict, and the test plays the provider."""

from __future__ import annotations

import errno

import pytest

from nicemu.abi import DeferredWork, Opcode
from nicemu.fabric.libfabric.ledger import Ledger
from nicemu.fabric.libfabric.window import AT_ONCE, Windows
from nicemu.fabric.libfabric.work import QueuedWork

TRIGGER, DONE = 1, 2
ROOM = 4
_places = iter(range(1 << 30, 1 << 40, 64))


def add(threshold: int) -> QueuedWork:
    work = DeferredWork(TRIGGER, threshold, Opcode.COUNTER_ADD, target=DONE, value=1)
    return QueuedWork(work, None, (), next(_places))


class Provider:
    """Takes work as `status` says, and a ledger and windows that believe it."""

    def __init__(self) -> None:
        self.values = {TRIGGER: 0, DONE: 0}
        self.status = 0
        self.given: list[int] = []
        self.refused: list[tuple[int, int]] = []
        self.ledger = Ledger(lambda counter: (self.values[counter], 0))
        self.windows = Windows(self.ledger, ROOM, self.give, self.refuse)

    def give(self, work: QueuedWork) -> int:
        if not self.status:
            self.given.append(work.deferred.threshold)
        return self.status

    def refuse(self, work: QueuedWork, status: int) -> None:
        self.refused.append((work.deferred.threshold, status))

    def open(self, count: int, size: int) -> int:
        work = [add(threshold) for threshold in range(1, count + 1)]
        for one in work[:size]:
            self.ledger.add(one)
        return self.windows.open(work[:size], work[size:], size)

    def counts(self, value: int) -> None:
        self.values[TRIGGER] += value
        self.ledger.look(0)
        self.windows.refill()


@pytest.fixture
def provider() -> Provider:
    return Provider()


def test_a_window_arms_as_many_operations_as_have_fired(provider: Provider) -> None:
    provider.open(6, 2)
    provider.counts(0)
    assert provider.given == []
    provider.counts(1)
    assert provider.given == [3]
    provider.counts(2)
    assert provider.given == [3, 4, 5]
    provider.counts(9)
    assert provider.given == [3, 4, 5, 6]
    assert provider.ledger.waiting == 0


def test_windows_share_the_free_slots(provider: Provider) -> None:
    provider.open(8, 2)
    provider.open(8, 2)
    provider.counts(1)
    assert provider.given == [3, 3]
    assert provider.ledger.waiting == ROOM


def test_what_the_provider_has_no_room_for_now_stays_next(provider: Provider) -> None:
    provider.open(4, 1)
    provider.status = -errno.EAGAIN
    provider.counts(1)
    assert (provider.given, provider.refused) == ([], [])
    provider.status = 0
    provider.counts(0)
    assert provider.given == [2]


def test_what_the_provider_refuses_is_told_and_the_next_is_armed(provider: Provider) -> None:
    number = provider.open(3, 1)
    provider.status = -errno.ECONNREFUSED
    provider.counts(1)
    assert provider.refused == [(2, -errno.ECONNREFUSED), (3, -errno.ECONNREFUSED)]
    assert provider.windows.forgo([number]) == (0, [])
    assert provider.ledger.waiting == 0


def test_one_look_arms_so_many_operations_and_the_next_look_goes_on(provider: Provider) -> None:
    count = 2 * AT_ONCE
    provider.open(count, 1)
    provider.counts(count)
    assert len(provider.given) == AT_ONCE
    provider.counts(0)
    assert len(provider.given) == count - 1


def test_a_window_that_is_given_up_leaves_nothing_behind(provider: Provider) -> None:
    number = provider.open(6, 2)
    assert len(provider.ledger.concerning(TRIGGER)) == 6
    forgone, armed = provider.windows.forgo([number])
    assert (forgone, [work.deferred.threshold for work in armed]) == (4, [1, 2])
    assert len(provider.ledger.concerning(TRIGGER)) == 2
    provider.counts(6)
    assert provider.given == []


def test_work_that_waits_for_one_counter_is_given_up_alone(provider: Provider) -> None:
    provider.open(6, 2)
    assert provider.windows.forgo_counter(DONE) == 0
    assert provider.windows.forgo_counter(TRIGGER) == 4
    assert provider.windows.forgo_counter(None) == 0


def test_promised_work_is_an_edge_of_cycles_until_it_is_given_up(provider: Provider) -> None:
    number = provider.open(2, 1)
    back = DeferredWork(DONE, 1, Opcode.COUNTER_ADD, target=TRIGGER, value=1)
    assert provider.ledger.closes_a_cycle([QueuedWork(back, None, (), next(_places))]) == DONE
    provider.windows.forgo([number])
    provider.counts(1)
    provider.ledger.counts_have_fired(TRIGGER, 0)
    assert provider.ledger.closes_a_cycle([QueuedWork(back, None, (), next(_places))]) is None
