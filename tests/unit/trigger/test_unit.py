# SPDX-License-Identifier: Apache-2.0
"""fi_trigger(3), fi_close(3): what may be armed, how many, how it is cancelled, how counters are closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nicemu.abi import DeferredWork, Limits, Opcode, Sge, WorkRequest
from nicemu.errors import ResourceError, UsageError
from nicemu.trigger import TriggerUnit
from tests.conformance.trigger.firing_loop import BUSY, LATER, counter_add, counter_set, write

if TYPE_CHECKING:
    from tests.conformance.trigger.firing_loop import FiringLoop

CASSINI = Limits(8, 504, max_success=(1 << 48) - 1, max_errors=127)


def reachable_state(unit: TriggerUnit) -> tuple[object, ...]:
    """Everything but the contents of free slots."""
    free, slot = [], int(unit.state.unit[0].free_head)
    while slot != -1:
        free.append(slot)
        slot = int(unit.state.slots[slot].next)
    used = sorted(set(range(int(unit.state.unit[0].touched))) - set(free))
    slots = [unit.state.slots[slot].tobytes() for slot in used]
    return unit.state.counters.tobytes(), unit.state.unit.tobytes(), free, used, slots


def data(opcode: Opcode, *sges: Sge) -> DeferredWork:
    return DeferredWork(0, 1, opcode, WorkRequest(opcode, sges, 0x2000, 1), 1)


REFUSED = {
    "trigger not allocated": replace(write(0, 1), trigger=7),
    "trigger out of range": replace(write(0, 1), trigger=99),
    "negative trigger": replace(write(0, 1), trigger=-1),
    "completion not allocated": write(0, 1, completion=7),
    "completion out of range": write(0, 1, completion=1 << 20),
    "target not allocated": counter_add(0, 1, 7, 1),
    "target out of range": counter_set(0, 1, 0xFFFFFFFF, 1),
    "target too large for its field": counter_set(0, 1, 1 << 32, 1),
    "threshold too large": write(0, 1 << 48),
    "threshold larger than 64 bits": write(0, 1 << 64),
    "negative threshold": write(0, -1),
    "operand too large": counter_add(0, 1, 0, 1 << 48),
    "operand to set too large": counter_set(0, 1, 0, 1 << 48),
    "negative operand": counter_add(0, 1, 0, -1),
    "a receive of two pieces": data(Opcode.RECV, Sge(0, 8, 1), Sge(8, 8, 1)),
    "an NVMe command that names no work": DeferredWork(0, 1, Opcode.NVME_READ),
    "an event with a completion counter": replace(write(0, 1), opcode=Opcode.FIRMWARE_EVENT, completion=0),
    "an atomic on 4 bytes": data(Opcode.FETCH_ADD, Sge(0, 4, 1)),
    "an atomic on two pieces": data(Opcode.COMPARE_SWAP, Sge(0, 8, 1), Sge(8, 8, 1)),
    "three local pieces": data(Opcode.RDMA_WRITE, *[Sge(0, 8, 1)] * 3),
    "a data operation without work": DeferredWork(0, 1, Opcode.RDMA_WRITE),
    "an opcode that differs from the work's": replace(write(0, 1), opcode=Opcode.RDMA_READ),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_armed_is_refused_and_leaves_no_state(
    refused: DeferredWork, make_loop: Callable[..., FiringLoop]
) -> None:
    """R15, C26: also in the middle of a list of valid operations."""
    unit = make_loop(CASSINI).unit
    counter = unit.allocate()
    unit.arm(write(counter, 9))
    before = reachable_state(unit)
    for work in ([refused], [write(counter, 0), refused, write(counter, 3)]):
        with pytest.raises(UsageError):
            unit.arm(*work)
        assert reachable_state(unit) == before


def test_the_refusal_names_the_operation_and_the_reason(unit: TriggerUnit) -> None:
    """R15."""
    unit.allocate()
    with pytest.raises(UsageError, match=r"trigger=7.*cannot be armed \(INVALID\); nothing was armed"):
        unit.arm(write(7, 1))


@pytest.mark.parametrize("operation", [counter_add(0, 1, 0, 1), counter_set(0, 1, 0, 1)])
def test_a_counter_operation_must_not_name_a_completion_counter(
    operation: DeferredWork, unit: TriggerUnit
) -> None:
    """R16."""
    unit.allocate()
    with pytest.raises(UsageError, match=r"has no completion counter \(EINVAL\); leave it out"):
        unit.arm(replace(operation, completion=0))
    assert unit.slots_in_use == 0


def test_a_firmware_event_must_not_name_a_completion_counter(unit: TriggerUnit) -> None:
    """Nothing would ever count there."""
    unit.allocate()
    with pytest.raises(UsageError, match="FIRMWARE_EVENT has no completion counter"):
        unit.arm(DeferredWork(0, 1, Opcode.FIRMWARE_EVENT, completion=0))


@pytest.mark.parametrize("of", ["trigger", "completion", "target"])
def test_counters_of_another_owner_cannot_be_used(unit: TriggerUnit, of: str) -> None:
    """R15: neither to wait for, nor to count on, nor to change."""
    mine, theirs = unit.allocate(owner=1), unit.allocate(owner=2)
    work = {
        "trigger": write(theirs, 1),
        "completion": write(mine, 1, completion=theirs),
        "target": counter_add(mine, 1, theirs, 1),
    }[of]
    with pytest.raises(UsageError, match="PERMISSION"):
        unit.arm(work, owner=1)
    assert unit.slots_in_use == 0


# How many.


def test_slots_run_out_and_come_back(loop: FiringLoop) -> None:
    """R19, C8: a full table refuses; what has fired or was cancelled gives its slot back."""
    counter = loop.unit.allocate()
    loop.arm(*(write(counter, 1 + position) for position in range(32)))
    with pytest.raises(ResourceError, match=r"1 operations, 0 trigger slots free \(ENOSPC\)"):
        loop.unit.arm(write(counter, 0))
    loop.add(counter, 2)
    assert loop.unit.slots_in_use == 30
    loop.arm(write(counter, 50), write(counter, 51))
    with pytest.raises(ResourceError, match="ENOSPC"):
        loop.unit.arm(write(counter, 0))
    assert loop.unit.flush() == 32
    assert len(loop.unit.arm(*(write(counter, 99) for _ in range(32)))) == 32


def test_every_kind_of_operation_takes_one_slot(loop: FiringLoop) -> None:
    """R19, C25: data operations, counter operations and firmware events alike."""
    counter = loop.unit.allocate()
    atomics = [Opcode.COMPARE_SWAP, Opcode.FETCH_ADD]
    opcodes = [Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM, Opcode.RDMA_READ, Opcode.SEND, *atomics]
    loop.arm(*(data(opcode, Sge(0, 8, 1)) for opcode in opcodes))
    loop.arm(counter_add(counter, 1, counter, 1), counter_set(counter, 1, counter, 1))
    loop.arm(DeferredWork(counter, 1, Opcode.FIRMWARE_EVENT))
    assert loop.unit.slots_in_use == 9
    loop.add(counter, 1)
    assert len(loop.fired) == 9
    assert loop.unit.slots_in_use == 0


def test_a_slot_is_held_until_its_operation_has_been_taken(loop: FiringLoop) -> None:
    """R19: what is due but refused by the transport still takes its slot."""
    counter = loop.unit.allocate()
    loop.outcome = lambda work: BUSY
    loop.arm(write(counter, 1))
    loop.add(counter, 1)
    assert loop.unit.slots_in_use == 1
    loop.outcome = lambda work: LATER
    loop.run()
    assert loop.unit.slots_in_use == 0


def test_a_program_that_does_not_fit_arms_nothing_of_it(loop: FiringLoop) -> None:
    """R20, C45: one operation more than there are free slots."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, 1))
    before = reachable_state(loop.unit)
    with pytest.raises(ResourceError, match=r"32 operations, 31 trigger slots free.*nothing was armed"):
        loop.unit.arm(*(write(counter, 0) for _ in range(32)))
    assert reachable_state(loop.unit) == before
    loop.unit.arm(*(write(counter, 5) for _ in range(31)))
    assert loop.unit.slots_in_use == 32


def test_arming_an_empty_program_changes_nothing(unit: TriggerUnit) -> None:
    """R20."""
    before = reachable_state(unit)
    assert unit.arm() == []
    assert reachable_state(unit) == before


# Cancelling.


def test_a_cancelled_operation_never_fires(loop: FiringLoop) -> None:
    """R37."""
    counter = loop.unit.allocate()
    handles = loop.arm(*(write(counter, threshold) for threshold in (1, 2, 3)))
    assert loop.unit.cancel(handles[1]) is True
    loop.add(counter, 3)
    assert loop.names_fired == [0, 2]
    assert loop.unit.slots_in_use == 0


@pytest.mark.parametrize("position", range(7))
def test_any_operation_of_a_table_can_be_cancelled(loop: FiringLoop, position: int) -> None:
    """R37: first, last or in the middle of the order, before and after the order was disturbed by firing."""
    counter = loop.unit.allocate()
    order: list[object] = [4, 2, 6, 1, 3, 7, 5]
    handles = loop.arm(*(write(counter, threshold + 1) for threshold in order), write(counter, 1))  # type: ignore[operator]
    loop.add(counter, 1)
    assert loop.unit.cancel(handles[position]) is True
    loop.add(counter, 7)
    fired = [order[handles.index(handle)] for handle in loop.fired[1:]]
    assert fired == sorted(set(order) - {order[position]})  # type: ignore[type-var]


def test_cancelling_what_has_fired_says_so_and_changes_nothing(loop: FiringLoop) -> None:
    """R37."""
    counter = loop.unit.allocate()
    (handle,) = loop.arm(write(counter, 1))
    loop.add(counter, 1)
    before = reachable_state(loop.unit)
    assert loop.unit.cancel(handle) is False
    assert reachable_state(loop.unit) == before


def test_cancelling_what_is_due_fails_and_it_fires(loop: FiringLoop) -> None:
    """R37: exactly one of fired and cancelled."""
    counter = loop.unit.allocate()
    (handle,) = loop.arm(write(counter, 1))
    loop.unit.add(counter, 1)
    assert loop.unit.cancel(handle) is False
    loop.run()
    assert loop.fired == [handle]


def test_cancelling_twice_succeeds_once(loop: FiringLoop) -> None:
    """R37."""
    counter = loop.unit.allocate()
    (handle,) = loop.arm(write(counter, 1))
    assert [loop.unit.cancel(handle), loop.unit.cancel(handle)] == [True, False]
    assert loop.unit.slots_in_use == 0


def test_a_handle_does_not_name_what_took_its_slot_later(loop: FiringLoop) -> None:
    """R37."""
    counter = loop.unit.allocate()
    (old,) = loop.arm(write(counter, 1))
    loop.unit.cancel(old)
    (new,) = loop.arm(write(counter, 1))
    assert new[0] == old[0]
    assert loop.unit.cancel(old) is False
    loop.add(counter, 1)
    assert loop.fired == [new]


@pytest.mark.parametrize("slot", [-1, 32, 1 << 40])
def test_a_handle_of_no_slot_is_refused(unit: TriggerUnit, slot: int) -> None:
    with pytest.raises(UsageError, match=f"no trigger slot {slot}"):
        unit.cancel((slot, 0))


def test_cancelling_a_counter_removes_all_that_waits_for_it_and_nothing_else(loop: FiringLoop) -> None:
    """R38, C30."""
    a, b = loop.unit.allocate(), loop.unit.allocate()
    loop.arm(*(write(a, threshold) for threshold in (3, 1, 2)), write(b, 1), names=["a"] * 3 + ["b"])
    assert loop.unit.cancel_counter(a) == 3
    assert loop.unit.cancel_counter(a) == 0
    loop.add(a, 5)
    loop.add(b, 5)
    assert loop.names_fired == ["b"]


def test_flush_removes_the_work_of_one_owner(loop: FiringLoop) -> None:
    """R38."""
    mine, theirs = loop.unit.allocate(owner=1), loop.unit.allocate(owner=2)
    loop.arm(write(mine, 1), write(mine, 2), names=["mine", "mine"], owner=1)
    loop.arm(write(theirs, 1), names=["theirs"], owner=2)
    assert loop.unit.flush(owner=1) == 2
    loop.add(mine, 5)
    loop.add(theirs, 5)
    assert loop.names_fired == ["theirs"]


def test_after_a_flush_nothing_fires_and_counters_are_unchanged(loop: FiringLoop) -> None:
    """R39, C2: twelve operations at thresholds 12345 to 12356, then a count of 12357."""
    trigger, target = loop.unit.allocate(), loop.unit.allocate()
    for threshold in range(12345, 12357, 2):
        loop.arm(write(trigger, threshold, target), counter_set(trigger, threshold + 1, target, 9))
    assert loop.unit.flush() == 12
    loop.add(trigger, 12357)
    assert loop.fired == []
    assert (loop.unit.read(trigger), loop.unit.read(target)) == ((12357, 0), (0, 0))
    assert loop.unit.slots_in_use == 0
    assert loop.unit.state.unit[0].cancelled == 12


def test_what_was_flushed_can_be_armed_again(loop: FiringLoop) -> None:
    """R39."""
    counter = loop.unit.allocate()
    work = [write(counter, 1 + position) for position in range(32)]
    for _ in range(3):
        loop.arm(*work)
        assert loop.unit.flush() == 32
    handles = loop.arm(*work)
    loop.add(counter, 32)
    assert loop.fired == handles


def test_what_has_fired_before_a_flush_runs_to_completion(loop: FiringLoop) -> None:
    """R39."""
    trigger, completion = loop.unit.allocate(), loop.unit.allocate()
    loop.outcome = lambda work: LATER
    loop.arm(write(trigger, 1, completion), write(trigger, 2, completion))
    loop.add(trigger, 1)
    assert loop.unit.flush() == 1
    loop.complete_pending()
    assert loop.unit.read(completion) == (1, 0)


def test_what_is_due_before_a_flush_fires(loop: FiringLoop) -> None:
    """R39: its threshold was reached; only the transport has not taken it yet."""
    counter = loop.unit.allocate()
    loop.outcome = lambda work: BUSY
    loop.arm(write(counter, 1), write(counter, 2))
    loop.add(counter, 1)
    assert loop.unit.flush() == 1
    loop.outcome = lambda work: 0
    loop.run()
    assert loop.names_fired == [0]


# Closing.


@pytest.mark.parametrize("how", ["trigger", "completion", "target"])
def test_a_counter_with_work_armed_on_it_or_aimed_at_it_cannot_be_closed(loop: FiringLoop, how: str) -> None:
    """R40, C43."""
    unit = loop.unit
    trigger, other = unit.allocate(), unit.allocate()
    unit.arm(write(trigger, 1, completion=other) if how != "target" else counter_add(trigger, 1, other, 1))
    counter = trigger if how == "trigger" else other
    before = reachable_state(unit)
    with pytest.raises(UsageError, match=rf"counter {counter} has .*EBUSY.*cancel them or close with force"):
        unit.close(counter)
    assert reachable_state(unit) == before


@pytest.mark.parametrize("how", ["trigger", "completion", "target"])
def test_closing_by_force_cancels_what_is_armed_on_it_and_aimed_at_it(loop: FiringLoop, how: str) -> None:
    """R40, C43."""
    unit = loop.unit
    trigger, other = unit.allocate(), unit.allocate()
    unit.arm(write(trigger, 1, completion=other) if how != "target" else counter_add(trigger, 1, other, 1))
    loop.arm(write(trigger, 1), names=["bystander"])
    unit.close(trigger if how == "trigger" else other, force=True)
    if how == "trigger":
        assert unit.slots_in_use == 0
        unit.close(other)
    else:
        loop.add(trigger, 1)
        assert loop.names_fired == ["bystander"]
        unit.close(trigger)


def test_closing_by_force_removes_what_is_due_but_could_not_start(loop: FiringLoop) -> None:
    """R40: on the counter itself and on others that aim at it; the rest fires in its order."""
    unit = loop.unit
    a, b, c = (unit.allocate() for _ in range(3))
    loop.arm(write(a, 1), write(a, 2, completion=b), names=["a", "a then b"])
    loop.arm(write(b, 1, completion=c), write(b, 1, completion=a), names=["b then c", "b then a"])
    loop.arm(write(c, 1, completion=a), write(c, 1), write(c, 1, completion=a), names=["c1", "c2", "c3"])
    for counter in (a, b, c):
        unit.add(counter, 2)
    unit.close(a, force=True)
    assert unit.slots_in_use == 2
    loop.run()
    assert loop.names_fired == ["b then c", "c2"]
    assert unit.slots_in_use == 0
    for counter in (b, c):
        unit.close(counter)


@pytest.mark.parametrize("closed", range(3))
def test_counters_take_turns_still_after_one_with_due_work_was_closed_by_force(
    make_loop: Callable[..., FiringLoop], closed: int
) -> None:
    """R40: the first, the middle or the last of the counters that are ready."""
    loop = make_loop(Limits(4, 12), fairness=1)
    counters = [loop.unit.allocate() for _ in range(3)]
    loop.arm(*(write(counter, 1) for counter in counters for _ in range(2)), names=list("aabbcc"))
    for counter in counters:
        loop.unit.add(counter, 1)
    loop.unit.close(counters[closed], force=True)
    late = loop.unit.allocate()
    loop.arm(write(late, 0), names=["d"])
    loop.run()
    assert "".join(map(str, loop.names_fired)) == "abcdabc".replace("abc"[closed], "")


def test_a_counter_with_operations_in_flight_cannot_be_closed_even_by_force(loop: FiringLoop) -> None:
    """R40: their completions would count on whoever is given the counter next."""
    trigger, completion = loop.unit.allocate(), loop.unit.allocate()
    loop.outcome = lambda work: LATER
    loop.arm(write(trigger, 1, completion))
    loop.add(trigger, 1)
    with pytest.raises(UsageError, match=r"1 in flight \(EBUSY\); wait for the completions"):
        loop.unit.close(completion, force=True)
    loop.complete_pending()
    loop.unit.close(completion)


def test_after_a_flush_every_counter_can_be_closed(loop: FiringLoop) -> None:
    """R42: closing a NIC is flush, then close."""
    counters = [loop.unit.allocate() for _ in range(8)]
    for position in range(30):
        a, b = counters[position % 8], counters[(position + 3) % 8]
        loop.arm(write(a, 5, b) if position % 2 else counter_add(a, 5, b, 1))
    assert loop.unit.flush() == 30
    for counter in counters:
        loop.unit.close(counter)
    assert not loop.unit.state.counters["allocated"].any()
    assert loop.unit.slots_in_use == 0
