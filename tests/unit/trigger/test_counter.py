# SPDX-License-Identifier: Apache-2.0
"""fi_cntr(3): two values, add and set, saturation, and what a write-back entry shows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from nicemu.abi import Limits
from nicemu.errors import ResourceError, UsageError
from nicemu.trigger import TriggerUnit, value_of

if TYPE_CHECKING:
    from tests.conformance.trigger.firing_loop import FiringLoop

from tests.conformance.trigger.firing_loop import LATER, counter_add, counter_set, write

U64_MAX = (1 << 64) - 1
CASSINI = Limits(8, 32, max_success=(1 << 48) - 1, max_errors=127)


def overflow(unit: TriggerUnit, counter: int) -> bool:
    return bool(unit.state.counters[counter].overflow)


def test_success_and_errors_of_a_new_counter_are_zero(unit: TriggerUnit) -> None:
    """R1."""
    first = unit.allocate()
    unit.add(first, 5, 6)
    unit.close(first)
    again = unit.allocate()
    assert (again, unit.read(again)) == (first, (0, 0))
    assert not overflow(unit, again)


def test_adding_counts_both_values_at_once(unit: TriggerUnit) -> None:
    """R4."""
    counter = unit.allocate()
    unit.add(counter, 3, 2)
    unit.add(counter, errors=1)
    unit.add(counter, success=4)
    assert unit.read(counter) == (7, 3)


def test_adding_zero_fires_nothing_new(loop: FiringLoop) -> None:
    """R4."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, 1))
    loop.add(counter, 0)
    assert (loop.fired, loop.unit.read(counter)) == ([], (0, 0))


def test_set_replaces_the_success_value_only(unit: TriggerUnit) -> None:
    """R5."""
    counter = unit.allocate()
    unit.add(counter, 3, 2)
    unit.set(counter, success=9)
    assert unit.read(counter) == (9, 2)


def test_set_of_the_errors_replaces_the_error_value_only(unit: TriggerUnit) -> None:
    """R5."""
    counter = unit.allocate()
    unit.add(counter, 3, 2)
    unit.set(counter, errors=9)
    assert unit.read(counter) == (3, 9)


def test_reset_replaces_both_values(unit: TriggerUnit) -> None:
    """R5."""
    counter = unit.allocate()
    unit.add(counter, 3, 2)
    unit.set(counter, success=0, errors=0)
    assert unit.read(counter) == (0, 0)


def test_setting_neither_value_changes_nothing(unit: TriggerUnit) -> None:
    counter = unit.allocate()
    unit.add(counter, 3, 2)
    unit.set(counter)
    assert unit.read(counter) == (3, 2)


def test_a_deferred_counter_set_replaces_the_success_value_only(loop: FiringLoop) -> None:
    """R5, C5: add 123456 to a counter at 1, set another; the trigger keeps its value."""
    trigger, added, replaced = (loop.unit.allocate() for _ in range(3))
    loop.unit.add(added, 1)
    loop.unit.add(replaced, 77, 5)
    loop.arm(counter_add(trigger, 1234, added, 123456), counter_set(trigger, 1234, replaced, 123456))
    loop.add(trigger, 1234)
    assert [loop.unit.read(counter) for counter in (trigger, added, replaced)] == [
        (1234, 0),
        (123457, 0),
        (123456, 5),
    ]


@pytest.mark.parametrize("limits", [Limits(8, 32), CASSINI], ids=["64 bits", "cassini"])
def test_at_its_maximum_a_value_stays_there_and_the_overflow_flag_is_raised(
    limits: Limits, make_loop: Callable[..., FiringLoop]
) -> None:
    """R3, C39."""
    unit = make_loop(limits).unit
    counter = unit.allocate()
    unit.add(counter, limits.max_success, limits.max_errors)
    assert unit.read(counter) == (limits.max_success, limits.max_errors)
    assert not overflow(unit, counter)
    unit.add(counter, 1, 0)
    assert overflow(unit, counter)
    unit.add(counter, limits.max_success, limits.max_errors)
    assert unit.read(counter) == (limits.max_success, limits.max_errors)


def test_the_overflow_flag_is_raised_by_the_error_value_too(unit: TriggerUnit) -> None:
    """R3."""
    counter = unit.allocate()
    unit.set(counter, errors=U64_MAX - 1)
    unit.add(counter, 1, 1)
    assert not overflow(unit, counter)
    unit.add(counter, 1, 1)
    assert overflow(unit, counter)
    assert unit.read(counter) == (2, U64_MAX)


def test_the_overflow_flag_stays_when_the_counter_is_set_to_zero(unit: TriggerUnit) -> None:
    """R3: sticky."""
    counter = unit.allocate()
    unit.add(counter, U64_MAX)
    unit.add(counter, 1)
    unit.set(counter, success=0, errors=0)
    assert overflow(unit, counter)


def test_the_sum_of_both_values_does_not_wrap(loop: FiringLoop) -> None:
    """R3: 2**64 - 1 successes and one error still reach the highest threshold."""
    counter = loop.unit.allocate()
    loop.arm(write(counter, U64_MAX))
    loop.unit.set(counter, success=U64_MAX - 1)
    loop.run()
    assert loop.fired == []
    loop.unit.set(counter, errors=U64_MAX)
    loop.run()
    assert loop._call(value_of, counter) == U64_MAX
    assert loop.names_fired == [0]


@pytest.mark.parametrize(
    ("success", "errors"), [(1 << 48, 0), (0, 128), (-1, 0), (0, -1), (1 << 64, 0), (0, 1 << 64)]
)
def test_an_operand_above_the_maximum_is_refused_and_nothing_is_changed(
    success: int, errors: int, make_loop: Callable[..., FiringLoop]
) -> None:
    """R2, C10."""
    unit = make_loop(CASSINI).unit
    counter = unit.allocate()
    unit.add(counter, 3, 2)
    before = unit.state.counters.tobytes()
    for change in (unit.add, unit.set):
        with pytest.raises(UsageError, match=r"outside 0\.\.\d+ \(EINVAL\)"):
            change(counter, success, errors)
    assert unit.state.counters.tobytes() == before


def test_adding_and_setting_ten_times_gives_exact_values(make_loop: Callable[..., FiringLoop]) -> None:
    """C10."""
    unit = make_loop(CASSINI).unit
    counter = unit.allocate()
    for step in range(10):
        unit.set(counter, success=1000 * step, errors=step)
        unit.add(counter, step, 1)
        assert unit.read(counter) == (1001 * step, step + 1)


def test_a_set_while_counted_operations_are_in_flight_is_counted(loop: FiringLoop) -> None:
    """R7: atomic, but updates may be lost, so that the program should wait for its operations first."""
    trigger, completion = loop.unit.allocate(), loop.unit.allocate()
    loop.outcome = lambda work: LATER
    loop.arm(write(trigger, 1, completion))
    loop.unit.set(completion, success=1)
    assert loop.unit.state.unit[0].unsettled_sets == 0
    loop.add(trigger, 1)
    loop.unit.set(completion, success=2)
    assert loop.unit.state.unit[0].unsettled_sets == 1
    loop.complete_pending()
    assert loop.unit.read(completion) == (3, 0)
    loop.unit.set(completion, success=0)
    assert loop.unit.state.unit[0].unsettled_sets == 1


def test_an_arrival_counter_is_an_ordinary_trigger(loop: FiringLoop) -> None:
    """R12: a counter that peers bump fires what waits for it."""
    arrivals = loop.unit.allocate(remote=True, pd=5)
    loop.arm(write(arrivals, 2))
    loop.add(arrivals, 1)
    assert loop.fired == []
    loop.add(arrivals, 1)
    assert loop.names_fired == [0]


def test_counters_run_out_and_come_back(unit: TriggerUnit) -> None:
    taken = [unit.allocate() for _ in range(8)]
    assert taken == list(range(8))
    with pytest.raises(ResourceError, match=r"all 8 counters are in use.*ENOSPC"):
        unit.allocate()
    unit.close(5)
    assert unit.allocate() == 5


@pytest.mark.parametrize("counter", [-1, 3, 8, 1 << 40])
def test_a_counter_that_is_not_allocated_is_refused(unit: TriggerUnit, counter: int) -> None:
    unit.allocate()
    for use in (unit.read, unit.add, unit.set, unit.cancel_counter, unit.close):
        with pytest.raises(UsageError, match=f"counter {counter} is not allocated"):
            use(counter)


@pytest.mark.parametrize(("counters", "slots"), [(0, 1), (65537, 1), (1, 0), (1, (1 << 24) + 1)])
def test_limits_outside_what_a_unit_can_hold_are_refused(counters: int, slots: int) -> None:
    with pytest.raises(
        UsageError,
        match=r"(counter_count .* 1 to 65536|slot_count .* 1 to 16777216), not",
    ):
        Limits(counters, slots)


# The write-back entry.


class Entry:
    """64 bytes that a counter publishes into, with guards around them."""

    def __init__(self) -> None:
        self.words = (ctypes.c_uint64 * 24)(*[0xA5A5A5A5A5A5A5A5] * 24)
        self.address = (ctypes.addressof(self.words) + 63) & ~63
        self._first = (self.address - ctypes.addressof(self.words)) // 8

    def __getitem__(self, word: int) -> int:
        return int(self.words[self._first + word])

    def guards_hold(self) -> bool:
        outside = [word for place, word in enumerate(self.words) if not 0 <= place - self._first < 4]
        return all(word == 0xA5A5A5A5A5A5A5A5 for word in outside)


def test_a_write_back_entry_holds_the_cassini_word_and_both_values_in_full(unit: TriggerUnit) -> None:
    """R36: success in bits 0-47, errors in bits 48-54, valid bit 63."""
    entry = Entry()
    counter = unit.allocate(published=entry.address)
    assert entry[0] == 1 << 63
    unit.add(counter, 0x123456789ABC, 0x55)
    assert entry[0] == 1 << 63 | 0x55 << 48 | 0x123456789ABC
    assert (entry[1], entry[2]) == (0x123456789ABC, 0x55)
    unit.set(counter, success=7)
    assert (entry[0], entry[1], entry[2]) == (1 << 63 | 0x55 << 48 | 7, 7, 0x55)
    assert entry.guards_hold()


def test_the_cassini_word_saturates_where_the_values_do_not_fit(unit: TriggerUnit) -> None:
    """R36: a wrapped word would show a waiter less than was counted."""
    entry = Entry()
    counter = unit.allocate(published=entry.address)
    unit.add(counter, 1 << 48, 128)
    assert entry[0] == 1 << 63 | 127 << 48 | (1 << 48) - 1
    assert (entry[1], entry[2]) == (1 << 48, 128)


def test_the_version_of_a_write_back_entry_grows_by_two_with_every_change(unit: TriggerUnit) -> None:
    """R36: it is odd only while the entry is being written."""
    entry = Entry()
    counter = unit.allocate(published=entry.address)
    version = entry[3]
    unit.add(counter, 1)
    unit.set(counter, success=0)
    assert (entry[3], entry[3] % 2) == (version + 4, 0)


def test_a_closed_counter_writes_its_entry_no_more(unit: TriggerUnit) -> None:
    entry = Entry()
    counter = unit.allocate(published=entry.address)
    unit.add(counter, 1)
    unit.close(counter)
    last = [entry[word] for word in range(4)]
    assert unit.allocate() == counter
    unit.add(counter, 100)
    assert [entry[word] for word in range(4)] == last


def test_work_that_fires_on_its_own_counter_shows_threshold_plus_one(loop: FiringLoop) -> None:
    """R36, C16: trigger and completion are one counter."""
    entry = Entry()
    counter = loop.unit.allocate(published=entry.address)
    loop.arm(write(counter, 1, completion=counter))
    loop.add(counter, 1)
    assert entry[0] == 1 << 63 | 2
