# SPDX-License-Identifier: Apache-2.0
"""fi_trigger(3), DEFERRED WORK QUEUES: when work fires, in what order, and how its end is counted."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from nicemu.abi import CommandStatus, DeferredWork, Limits, Opcode, pack_deferred
from nicemu.errors import VerbsStatus
from nicemu.trigger import (
    DUE,
    FREE,
    IN_FLIGHT,
    WAITING,
    check_armed,
    next_due,
    release,
    take_due,
    take_slot,
)
from tests.conformance.trigger.firing_loop import BUSY, LATER, counter_add, counter_set, write

if TYPE_CHECKING:
    from tests.conformance.trigger.firing_loop import FiringLoop

REMOTE_ACCESS_ERROR = int(VerbsStatus.REM_ACCESS_ERR)
U64_MAX = (1 << 64) - 1


# When work fires.


def test_work_fires_when_success_plus_errors_reaches_its_threshold(loop: FiringLoop) -> None:
    """R22."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, 5))
    loop.add(counter, success=2)
    loop.add(counter, errors=2)
    assert loop.fired == []
    loop.add(counter, errors=1)
    assert loop.names_fired == [0]


def test_errors_alone_fire_work(loop: FiringLoop) -> None:
    """R22, C34."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, 1))
    loop.add(counter, errors=1)
    assert loop.names_fired == [0]


def test_work_fires_when_the_counter_jumps_over_its_threshold(loop: FiringLoop) -> None:
    """R22."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, 3))
    loop.add(counter, 1 << 40)
    assert loop.names_fired == [0]


def test_a_threshold_of_two_to_the_31_does_not_fire_at_zero(loop: FiringLoop) -> None:
    """R22: comparison is unsigned, in 64 bits."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, 1 << 31), write(counter, 1 << 63), names=["31 bits", "63 bits"])
    loop.run()
    assert loop.fired == []
    loop.add(counter, (1 << 32) - 1)
    assert loop.names_fired == ["31 bits"]
    loop.add(counter, 1 << 63)
    assert loop.names_fired == ["31 bits", "63 bits"]


def test_work_fires_exactly_once(loop: FiringLoop) -> None:
    """R23."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, 2))
    for _ in range(5):
        loop.add(counter, 2)
    loop.unit.set(counter, success=0)
    loop.add(counter, 2)
    assert loop.names_fired == [0]
    assert loop.unit.state.unit[0].fired == 1


def test_work_whose_threshold_is_already_met_fires_at_once(loop: FiringLoop) -> None:
    """R13: it is due when `arm` returns, without another count."""
    counter = loop.unit.allocate()
    loop.add(counter, 3, 1)
    ((slot, _),) = loop.arm(write(counter, 4))
    assert loop.unit.state.slots[slot].state == DUE
    loop.run()
    assert loop.names_fired == [0]


def test_armed_work_is_either_in_the_table_or_due(loop: FiringLoop) -> None:
    """R13: whichever of arming and counting comes first, the work fires."""
    for first_armed in (True, False):
        counter = loop.unit.allocate()
        if first_armed:
            loop.arm(write(counter, 1))
        loop.unit.add(counter, 1)
        if not first_armed:
            loop.arm(write(counter, 1))
        loop.run()
    assert loop.names_fired == [0, 1]


def test_a_threshold_of_zero_fires_when_armed(loop: FiringLoop) -> None:
    """R14."""
    loop.arm(write(loop.unit.allocate(), 0))
    loop.run()
    assert loop.names_fired == [0]


def test_setting_a_lower_value_does_not_arm_fired_work_again(loop: FiringLoop) -> None:
    """R6, C40."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, 3), write(counter, 5))
    loop.add(counter, 4)
    loop.unit.set(counter, success=0)
    loop.add(counter, 4)
    assert loop.names_fired == [0]
    loop.add(counter, 1)
    assert loop.names_fired == [0, 1]


def test_armed_work_waits_for_the_new_crossing_after_a_set(loop: FiringLoop) -> None:
    """R6."""
    counter = loop.unit.allocate()
    loop.unit.set(counter, success=10)
    loop.arm(write(counter, 12))
    loop.unit.set(counter, success=1)
    loop.add(counter, 2)
    assert loop.fired == []
    loop.add(counter, 9)
    assert loop.names_fired == [0]


@pytest.mark.parametrize(("value", "fires"), [(6, False), (7, True), (8, True)])
def test_setting_a_value_that_meets_the_threshold_fires(loop: FiringLoop, value: int, fires: bool) -> None:
    """R6, C40."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, 7))
    loop.unit.set(counter, success=value)
    loop.run()
    assert bool(loop.fired) is fires


def test_setting_the_error_value_fires_too(loop: FiringLoop) -> None:
    """R6, R22."""
    counter = loop.unit.allocate()
    loop.unit.add(counter, 2)
    loop.arm(write(counter, 7))
    loop.unit.set(counter, errors=5)
    loop.run()
    assert loop.names_fired == [0]


def test_counting_makes_work_due_and_fires_nothing_itself(loop: FiringLoop) -> None:
    """R34: who calls `add` must not rely on anything having fired when it returns."""
    trigger, target = loop.unit.allocate(), loop.unit.allocate()
    ((slot, _),) = loop.arm(counter_add(trigger, 1, target, 1))
    loop.unit.add(trigger, 1)
    assert loop.unit.state.slots[slot].state == DUE
    assert loop.unit.read(target) == (0, 0)
    loop.run()
    assert loop.unit.read(target) == (1, 0)


def test_the_unit_keeps_its_own_copy_of_what_was_armed(loop: FiringLoop) -> None:
    """R18, C42: every object of the caller may go."""
    trigger, target = loop.unit.allocate(), loop.unit.allocate()
    work = counter_add(trigger, 1, target, 0x123456789)
    loop.unit.arm(work)
    del work
    gc.collect()
    loop.unit.add(trigger, 1)
    slot = int(loop._call(next_due))
    assert loop.unit.state.slots[slot].remote_address == 0x123456789


# In what order.


def test_work_fires_in_threshold_order_even_if_the_counter_jumps(loop: FiringLoop) -> None:
    """R24: fi_trigger(3), "even if the counter increments by a value greater than 1"."""
    counter = loop.unit.allocate()
    loop.arm(*(write(counter, threshold) for threshold in (4, 1, 3, 2)), names=[4, 1, 3, 2])
    loop.add(counter, 9)
    assert loop.names_fired == [1, 2, 3, 4]


def test_a_thousand_operations_in_any_arming_order_fire_in_threshold_order(
    make_loop: Callable[..., FiringLoop],
) -> None:
    """R24, C32: in three jumps, each of which reaches some of them."""
    loop = make_loop(Limits(2, 1000))
    counter = loop.unit.allocate()
    thresholds: list[object] = [*range(1, 1001)]
    random.Random(3).shuffle(thresholds)
    loop.arm(*(write(counter, threshold) for threshold in thresholds), names=thresholds)  # type: ignore[arg-type]
    for step in (1, 400, 599):
        loop.add(counter, step)
    assert loop.names_fired == sorted(thresholds)  # type: ignore[type-var]


def test_equal_thresholds_fire_in_arming_order(make_loop: Callable[..., FiringLoop]) -> None:
    """R25, C33: a thousand of them, armed one by one, over a few thresholds."""
    loop = make_loop(Limits(2, 1000))
    counter = loop.unit.allocate()
    rng = random.Random(5)
    armed = [(rng.randrange(1, 5), position) for position in range(1000)]
    for threshold, position in armed:
        loop.arm(write(counter, threshold), names=[(threshold, position)])
    loop.add(counter, 10)
    assert loop.names_fired == sorted(armed)


def test_work_armed_later_with_a_met_threshold_fires_after_what_is_due_already(loop: FiringLoop) -> None:
    """R13, R24: order is by threshold among what one count makes due, then by the time it became due."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, 5), write(counter, 6), names=["five", "six"])
    loop.unit.add(counter, 6)
    loop.arm(write(counter, 1), names=["late one"])
    loop.run()
    assert loop.names_fired == ["five", "six", "late one"]


@pytest.mark.parametrize("reverse", [False, True])
def test_two_deferred_adds_at_thresholds_one_and_two(loop: FiringLoop, reverse: bool) -> None:
    """C22: armed in either order, the first count adds 1, the second 2."""
    trigger, target = loop.unit.allocate(), loop.unit.allocate()
    work = [counter_add(trigger, 1, target, 1), counter_add(trigger, 2, target, 2)]
    loop.arm(*(reversed(work) if reverse else work))
    loop.add(trigger, 1)
    assert loop.unit.read(target) == (1, 0)
    loop.add(trigger, 1)
    assert loop.unit.read(target) == (3, 0)


@pytest.mark.parametrize("reverse", [False, True])
def test_of_two_deferred_sets_the_one_with_the_higher_threshold_is_the_last(
    loop: FiringLoop, reverse: bool
) -> None:
    """C23, R24: armed in either order, one count that reaches both leaves the value of threshold 2."""
    trigger, target = loop.unit.allocate(), loop.unit.allocate()
    work = [counter_set(trigger, 1, target, 1), counter_set(trigger, 2, target, 7)]
    loop.arm(*(reversed(work) if reverse else work))
    loop.add(trigger, 2)
    assert loop.unit.read(target) == (7, 0)


def test_a_set_and_an_add_at_one_threshold_take_effect_in_arming_order(loop: FiringLoop) -> None:
    """C20, R25: set to 5, then add 5."""
    trigger, target = loop.unit.allocate(), loop.unit.allocate()
    loop.unit.add(target, 99)
    loop.arm(counter_set(trigger, 1, target, 5), counter_add(trigger, 1, target, 5))
    loop.add(trigger, 1)
    assert loop.unit.read(target) == (10, 0)


def test_the_order_is_of_initiation_and_completions_may_come_in_another(loop: FiringLoop) -> None:
    """R26: the second write completes first, and only its own dependent fires."""
    trigger, first, second = (loop.unit.allocate() for _ in range(3))
    loop.outcome = lambda work: LATER if work.trigger == trigger else 0
    loop.arm(write(trigger, 1, first), write(trigger, 2, second), names=["write 1", "write 2"])
    loop.arm(write(first, 1), write(second, 1), names=["after 1", "after 2"])
    loop.add(trigger, 2)
    assert loop.names_fired == ["write 1", "write 2"]
    assert loop.pending == [first, second]
    for position in (1, 0):
        loop.complete_pending(position)
        loop.run()
    assert loop.names_fired == ["write 1", "write 2", "after 2", "after 1"]


# How the end of work is counted.


def test_the_success_of_an_operation_counts_once_at_its_completion_counter(loop: FiringLoop) -> None:
    """R28, C3: trigger and completion counters end at the threshold and at 1."""
    trigger, completion = loop.unit.allocate(), loop.unit.allocate()
    loop.arm(write(trigger, 54321, completion))
    loop.add(trigger, 54321)
    assert loop.unit.read(trigger) == (54321, 0)
    assert loop.unit.read(completion) == (1, 0)


def test_an_operation_needs_no_completion_counter(loop: FiringLoop) -> None:
    """R17."""
    trigger, bystander = loop.unit.allocate(), loop.unit.allocate()
    loop.arm(write(trigger, 1))
    loop.add(trigger, 1)
    assert loop.names_fired == [0]
    assert loop.unit.read(bystander) == (0, 0)


def test_a_failed_operation_counts_as_an_error_and_its_dependents_fire(loop: FiringLoop) -> None:
    """R27, C34."""
    trigger, completion = loop.unit.allocate(), loop.unit.allocate()
    loop.outcome = lambda work: REMOTE_ACCESS_ERROR if work.trigger == trigger else 0
    loop.arm(write(trigger, 1, completion), write(completion, 1), names=["fails", "dependent"])
    loop.add(trigger, 1)
    assert loop.unit.read(completion) == (0, 1)
    assert loop.names_fired == ["fails", "dependent"]


# Chains.


def test_the_completion_counter_of_one_operation_triggers_the_next(loop: FiringLoop) -> None:
    """R30."""
    counters = [loop.unit.allocate() for _ in range(4)]
    for position in (2, 0, 1):
        loop.arm(write(counters[position], 1, counters[position + 1]), names=[position])
    loop.add(counters[0], 1)
    assert loop.names_fired == [0, 1, 2]
    assert loop.unit.read(counters[3]) == (1, 0)


def test_one_counter_may_be_trigger_and_completion_of_a_chain(loop: FiringLoop) -> None:
    """R30: eight writes and one count of 1 end at nine."""
    counter = loop.unit.allocate()
    loop.arm(*(write(counter, threshold, counter) for threshold in range(1, 9)))
    loop.add(counter, 1)
    assert loop.names_fired == list(range(8))
    assert loop.unit.read(counter) == (9, 0)


def test_work_that_counts_on_its_own_trigger_fires_once(loop: FiringLoop) -> None:
    """R31: A >= 1 makes A += 1."""
    counter = loop.unit.allocate()
    loop.arm(counter_add(counter, 1, counter, 1))
    loop.add(counter, 1)
    assert loop.unit.read(counter) == (2, 0)
    assert loop.names_fired == [0]


def test_two_counters_that_trigger_each_other_come_to_rest(loop: FiringLoop) -> None:
    """R31: A >= 1 makes B += 1, B >= 1 makes A += 1; A ends at 2, B at 1."""
    a, b = loop.unit.allocate(), loop.unit.allocate()
    loop.arm(counter_add(a, 1, b, 1), counter_add(b, 1, a, 1))
    loop.add(a, 1)
    assert (loop.unit.read(a), loop.unit.read(b)) == ((2, 0), (1, 0))


def test_a_chain_deeper_than_the_recursion_limit_finishes(make_loop: Callable[..., FiringLoop]) -> None:
    """R31, C38: firing uses a work list, not recursion."""
    depth = 1500
    loop = make_loop(Limits(2, depth))
    counter = loop.unit.allocate()
    loop.arm(*(counter_add(counter, threshold, counter, 1) for threshold in range(1, depth + 1)))
    loop.add(counter, 1)
    assert loop.unit.read(counter) == (depth + 1, 0)
    assert loop.names_fired == list(range(depth))


def test_what_one_count_makes_due_fires_before_what_its_counter_operations_make_due(loop: FiringLoop) -> None:
    """R31."""
    trigger, target = loop.unit.allocate(), loop.unit.allocate()
    loop.arm(counter_add(trigger, 1, target, 1), write(trigger, 2), names=["add", "write"])
    loop.arm(write(target, 1), names=["effect"])
    loop.add(trigger, 2)
    assert loop.names_fired == ["add", "write", "effect"]


def test_a_firmware_event_fires_like_any_work(loop: FiringLoop) -> None:
    counter = loop.unit.allocate()
    loop.arm(DeferredWork(counter, 2, Opcode.FIRMWARE_EVENT, cookie=77))
    loop.unit.add(counter, 2)
    assert loop.unit.state.slots[int(loop._call(next_due))].wr_id == 77
    loop.run()
    assert loop.names_fired == [0]


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("completion", 0, CommandStatus.INVALID),
        ("trigger", 1, CommandStatus.INVALID),
        ("owner", 9, CommandStatus.PERMISSION),
        ("opcode", 0, CommandStatus.NOT_SUPPORTED),
        ("opcode", 12, CommandStatus.NOT_SUPPORTED),
        ("opcode", 22, CommandStatus.NOT_SUPPORTED),
        ("opcode", 255, CommandStatus.NOT_SUPPORTED),
        ("completion", -1, CommandStatus.OK),
    ],
)
def test_a_record_that_no_library_packed_is_checked_too(
    loop: FiringLoop, field: str, value: int, status: CommandStatus
) -> None:
    """R15: a process writes records into shared memory itself."""
    counter = loop.unit.allocate()
    slot = int(loop._call(take_slot))
    record = loop.unit.state.slots[slot]
    pack_deferred(record, DeferredWork(counter, 1, Opcode.FIRMWARE_EVENT))
    record[field] = value
    assert loop._call(check_armed, slot) == status


# When the transport cannot take it, and when many counters want to fire.


def test_work_that_the_transport_cannot_take_stays_due_without_another_count(loop: FiringLoop) -> None:
    """R32."""
    counter, completion = loop.unit.allocate(), loop.unit.allocate()
    loop.outcome = lambda work: BUSY
    loop.arm(write(counter, 1, completion), write(counter, 1, completion))
    loop.add(counter, 1)
    assert (loop.fired, loop.unit.slots_in_use) == ([], 2)
    loop.outcome = lambda work: 0
    loop.run()
    assert loop.names_fired == [0, 1]
    assert loop.unit.read(completion) == (2, 0)


def test_a_small_transport_queue_carries_any_number_of_operations_without_another_count(
    make_loop: Callable[..., FiringLoop],
) -> None:
    """R32, C44: a queue of 7 that is emptied between polls."""
    loop = make_loop(Limits(2, 500))
    counter, completion = loop.unit.allocate(), loop.unit.allocate()
    room = [7]

    def outcome(work: object) -> int:
        room[0] -= 1
        return 0 if room[0] >= 0 else BUSY

    loop.outcome = outcome
    loop.arm(*(write(counter, 1, completion) for _ in range(500)))
    loop.add(counter, 1)
    polls = 1
    while loop.unit.slots_in_use:
        room[0] = 7
        assert loop.run() > 0
        polls += 1
    assert polls == 72
    assert loop.names_fired == list(range(500))
    assert loop.unit.read(completion) == (500, 0)


def test_a_counter_whose_work_cannot_go_does_not_hold_up_another_counter(loop: FiringLoop) -> None:
    """R32."""
    stuck, free = loop.unit.allocate(), loop.unit.allocate()
    loop.outcome = lambda work: BUSY if work.trigger == stuck else 0
    loop.arm(write(stuck, 1), write(free, 1), names=["stuck", "free"])
    loop.unit.add(stuck, 1)
    loop.unit.add(free, 1)
    loop.run()
    assert loop.names_fired == ["free"]


def test_a_counter_with_much_due_work_lets_another_one_fire_after_a_batch(
    make_loop: Callable[..., FiringLoop],
) -> None:
    """R33, C46."""
    loop = make_loop(Limits(2, 301), fairness=64)
    busy, other = loop.unit.allocate(), loop.unit.allocate()
    loop.arm(*(write(busy, 1) for _ in range(300)), write(other, 1), names=["busy"] * 300 + ["other"])
    loop.unit.add(busy, 1)
    loop.unit.add(other, 1)
    loop.run()
    assert loop.names_fired.index("other") == 64
    assert len(loop.fired) == 301


def test_counters_with_due_work_take_turns(make_loop: Callable[..., FiringLoop]) -> None:
    """R33: batch by batch, in the order in which they became ready."""
    loop = make_loop(Limits(3, 12), fairness=2)
    counters = [loop.unit.allocate() for _ in range(3)]
    loop.arm(*(write(counter, 1) for counter in counters for _ in range(4)), names=list("aaaabbbbcccc"))
    for counter in counters:
        loop.unit.add(counter, 1)
    loop.run()
    assert "".join(map(str, loop.names_fired)) == "aabbccaabbcc"


def test_a_slot_is_waiting_then_due_then_in_flight_then_free(loop: FiringLoop) -> None:
    counter = loop.unit.allocate()
    ((slot, _),) = loop.arm(write(counter, 1))
    states = [int(loop.unit.state.slots[slot].state)]
    loop.unit.add(counter, 1)
    states.append(int(loop.unit.state.slots[slot].state))
    assert loop._call(take_due) == slot
    states.append(int(loop.unit.state.slots[slot].state))
    loop._call(release, slot)
    states.append(int(loop.unit.state.slots[slot].state))
    assert states == [WAITING, DUE, IN_FLIGHT, FREE]
