# SPDX-License-Identifier: Apache-2.0
"""Windows and conditions from now over libfabric: as on a NIC of ours, but it is this process that arms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from nicemu.abi import TriggerTableFull, Unsupported
from nicemu.errors import UsageError
from nicemu.fabric import LibfabricCounter, LibfabricProgram
from tests.conformance.trigger.libfabric_world import World, a_world, eventually, needs_sockets

pytestmark = needs_sockets


@pytest.fixture
def world() -> Iterator[World]:
    with a_world(slot_count=8) as world:
        yield world


def steps(
    world: World, trigger: LibfabricCounter, done: LibfabricCounter, count: int, thresholds: int = 1
) -> LibfabricProgram:
    """A program whose operation number n waits for `thresholds` times n + 1 counts."""
    with world.target.program("steps") as program:
        for number in range(count):
            program.when(trigger >= thresholds * (number + 1)).add(done)
    return program


def closes(world: World, close: Callable[[], object]) -> bool:
    try:
        close()
    except UsageError:
        return False
    return True


# The condition "k counts from now"


def test_next_is_a_condition_that_many_counts_from_now(world: World) -> None:
    trigger, done = world.target.counters("trigger", "done")
    trigger.add(5)
    assert trigger.next(3) == (trigger >= 8)
    with world.target.program("once more") as program:
        program.when(trigger.next()).add(done)
    program.arm()
    assert done.read() == (0, 0)
    trigger.add()
    done.wait(1)


def test_errors_are_no_counts_from_now_where_they_fire_nothing(world: World) -> None:
    """Rule R22, in which `sockets` deviates."""
    trigger, done = world.target.counters("trigger", "done")
    trigger.add(2, 4)
    with world.target.program("next") as program:
        program.when(trigger.next(1)).add(done)
    program.arm()
    trigger.add()
    done.wait(1)


@pytest.mark.parametrize("count", [0, -1, 1.0, "1", None, True, 1 << 31])
def test_what_is_no_count_from_now_is_refused(world: World, count: int) -> None:
    (trigger,) = world.target.counters("trigger")
    with pytest.raises(UsageError, match="EINVAL"):
        trigger.next(count)


def test_a_condition_on_another_target_s_counter_is_refused(world: World) -> None:
    with a_world() as other:
        (foreign,) = other.target.counters("foreign")
        with world.target.program("mixed") as program, pytest.raises(UsageError, match="counter foreign"):
            program.when(foreign >= 1)


# Windows


def test_a_program_of_any_length_runs_in_a_window(world: World) -> None:
    start, done = world.target.counters("start", "done")
    with world.target.program("long") as program:
        for number in range(100):
            piece = slice(8 * number, 8 * number + 8)
            program.when(start >= number + 1).write(world.local[piece], world.remote[piece], then=done)
    program.window(4)
    world.here.array[:800] = 7  # read when the work fires
    for _ in range(100):
        start.add()
    done.wait(100)
    assert (world.there.array[:800] == 7).all()
    assert not world.there.array[800:].any()


def test_the_next_operation_is_armed_when_one_has_fired_in_the_order_written(world: World) -> None:
    trigger, done = world.target.counters("trigger", "done")
    with world.target.program("backwards") as program:
        program.when(trigger >= 1).set(done, 10)
        program.when(trigger >= 3).add(done, 5)
        program.when(trigger >= 2).add(done, 1)  # due before the one above, and armed behind it
    program.window(2)
    trigger.add(1)
    done.wait(10)
    trigger.add(1)
    done.wait(11)
    trigger.add(1)
    done.wait(16)


def test_operations_that_are_due_at_once_follow_each_other(world: World) -> None:
    trigger, done = world.target.counters("trigger", "done")
    trigger.add(50)
    steps(world, trigger, done, 50).window(1)
    done.wait(50)


def test_no_more_than_the_window_is_armed(world: World) -> None:
    """The table has 8 slots, of which the window takes 3."""
    trigger, other, done = world.target.counters("trigger", "other", "done")
    steps(world, trigger, done, 20).window(3)
    steps(world, other, done, 5).arm()
    with pytest.raises(TriggerTableFull, match=r"1 operation; 0 of 8 trigger slots are free \(ENOSPC\)"):
        steps(world, other, done, 1).arm()


def test_a_window_is_armed_whole_or_not_at_all(world: World) -> None:
    trigger, done = world.target.counters("trigger", "done")
    with pytest.raises(TriggerTableFull, match=r"a window of 9 operations, 8 trigger slots free \(ENOSPC\)"):
        steps(world, trigger, done, 20).window(9)
    trigger.add(20)
    assert done.read() == (0, 0)
    trigger.close()


def test_the_whole_program_is_checked_before_anything_is_armed(world: World) -> None:
    trigger, done = world.target.counters("trigger", "done")
    with world.target.program("wrong at the end") as program:
        for number in range(3):
            program.when(trigger >= number).add(done)
        program.when(trigger >= 1).event(1)
    with pytest.raises(Unsupported, match="R15"):
        program.window(1)
    assert done.read() == (0, 0)
    trigger.close()


def test_a_cycle_through_what_a_window_has_not_armed_is_refused(world: World) -> None:
    """Rule R31: it would hang `sockets` when the window gets there."""
    trigger, one, other = world.target.counters("trigger", "one", "other")
    with world.target.program("half") as program:
        program.when(trigger >= 1).add(other)
        program.when(one >= 1).add(other)
    program.window(1)
    with world.target.program("other half") as back:
        back.when(other >= 1).add(one)
    with pytest.raises(Unsupported, match=r"\[R31\]"):
        back.arm()


def test_a_window_goes_on_only_while_this_process_calls_in(world: World) -> None:
    """There is no firmware behind a library."""
    trigger, done = world.target.counters("trigger", "done")
    steps(world, trigger, done, 6).window(2)
    trigger.add(6)
    time.sleep(0.05)
    assert done.values() == (2, 0)  # `values` looks, and lets nothing go on
    eventually(done.read, (6, 0))


def test_a_window_that_finds_no_free_slot_goes_on_when_there_is_one(world: World) -> None:
    trigger, other, done = world.target.counters("trigger", "other", "done")
    steps(world, trigger, done, 2).window(1)
    steps(world, other, done, 7).arm()
    with world.target.exclusive():  # nobody looks in between
        trigger.add()
    steps(world, other, done, 1).arm()  # takes the slot that the window's first operation gave back
    trigger.add()
    world.target.progress()
    assert done.read()[0] <= 2
    other.add(7)
    done.wait(10)


def test_a_counter_and_memory_that_a_window_needs_later_are_kept(world: World) -> None:
    trigger, later, done = world.target.counters("trigger", "later", "done")
    with world.target.program("later") as program:
        program.when(trigger >= 1).add(done)
        program.when(later >= 1).write(world.local[0:8], world.remote[0:8], then=done)
    program.window(1)
    with pytest.raises(UsageError, match="1 operation waits for, counts at or changes counter later"):
        later.close()
    with pytest.raises(UsageError, match="EBUSY"):
        world.target.deregister(world.local)
    trigger.add()
    later.add()
    done.wait(2)
    eventually(lambda: closes(world, later.close), True)


@pytest.mark.parametrize("ending", ["cancel", "flush"])
def test_what_a_window_has_not_armed_is_cancelled_also_where_the_rest_cannot_be(
    world: World, ending: str
) -> None:
    """Rules R37 and R38: `sockets` cancels nothing that it has."""
    trigger, done = world.target.counters("trigger", "done")
    program = steps(world, trigger, done, 6)
    program.window(2)
    with pytest.raises(Unsupported, match="4 operations that were not armed yet never will be"):
        (program.cancel if ending == "cancel" else world.target.flush)()
    trigger.add(6)
    done.wait(2)
    time.sleep(0.01)
    assert done.read() == (2, 0)
    assert program.cancel() == 0


def test_a_window_that_is_through_is_forgotten_and_cancels_nothing(world: World) -> None:
    trigger, done = world.target.counters("trigger", "done")
    program = steps(world, trigger, done, 4)
    program.window(2)
    trigger.add(4)
    done.wait(4)
    world.target.take_completions()
    assert not world.target._queue._windows._open
    assert program.cancel() == 0
    program.window(2)  # and can be armed again: everything is due
    done.wait(8)


@pytest.mark.parametrize("size", [0, -1, 1.5, "2", None])
def test_a_window_holds_at_least_one_operation(world: World, size: int) -> None:
    trigger, done = world.target.counters("trigger", "done")
    with pytest.raises(UsageError, match="size of a window"):
        steps(world, trigger, done, 2).window(size)


def test_closing_a_target_ends_its_windows(world: World) -> None:
    trigger, done = world.target.counters("trigger", "done")
    program = steps(world, trigger, done, 6)
    program.window(2)
    world.target.close()
    with pytest.raises(UsageError, match="closed"):
        program.window(2)
    with pytest.raises(UsageError, match="closed"):
        program.cancel()
