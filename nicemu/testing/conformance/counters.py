# SPDX-License-Identifier: Apache-2.0
"""Cases of counters: two values, their widths, counting, setting. Source: fi_cntr(3)."""

from __future__ import annotations

from nicemu.abi import DeferredWork, Limits, Opcode, TargetCounter
from nicemu.errors import ResourceError

from .bench import Bench, poll, poll_counter, rest
from .case import case
from .refusal import refused

U64_MAX = (1 << 64) - 1
CASSINI_MAX = (1 << 48) - 1


@case("R1")
def a_new_counter_has_two_values_both_zero(bench: Bench) -> None:
    """A new counter has two values, both zero."""
    (counter,) = bench.nic.counters("counter")
    assert counter.read() == (0, 0)
    counter.add(3, 2)
    poll_counter(bench, counter, 3, 2)


@case("R8", "C18")
def what_was_set_is_read(bench: Bench) -> None:
    """What was set is what is read."""
    (counter,) = bench.nic.counters("counter")
    for value in (7, 1 << 30, 0, 12345):
        counter.set(success=value)
        poll_counter(bench, counter, value)


@case("R2", "R5", "C10")
def every_count_and_set_is_read_exactly(bench: Bench) -> None:
    """Ten rounds of counting and setting both values read exactly."""
    (counter,) = bench.nic.counters("counter")
    for turn in range(1, 11):
        counter.set(success=10 * turn)
        counter.set(errors=turn)
        poll_counter(bench, counter, 10 * turn, turn)
        counter.add(turn)
        counter.add(0, 2)
        poll_counter(bench, counter, 11 * turn, turn + 2)


@case("R2")
def a_count_of_more_than_64_bits_is_refused(bench: Bench) -> None:
    """A count that is negative or takes more than 64 bits is refused, and changes nothing."""
    (counter,) = bench.nic.counters("counter")
    counter.set(5, 1)
    for wrong in (-1, 1 << 64):
        with refused("EINVAL"):
            counter.add(wrong)
        with refused("EINVAL"):
            counter.add(0, wrong)
        with refused("EINVAL"):
            counter.set(success=wrong)
        with refused("EINVAL"):
            counter.set(errors=wrong)
    poll_counter(bench, counter, 5, 1)


@case("R2", "C10", profile="cassini")
def cassini_counts_48_bits_and_7_bits(bench: Bench) -> None:
    """Cassini takes 48 bits of successes and 7 of errors, and refuses more."""
    (counter,) = bench.nic.counters("counter")
    counter.set(CASSINI_MAX, 127)
    poll_counter(bench, counter, CASSINI_MAX, 127)
    counter.set(3, 4)
    for success, errors in ((CASSINI_MAX + 1, 0), (0, 128)):
        with refused("EINVAL"):
            counter.add(success, errors)
        with refused("EINVAL"):
            counter.set(success or None, errors or None)
    with refused("EINVAL"):
        bench.nic.arm([_add(counter.index, CASSINI_MAX + 1, counter.index, 1)])
    with refused("EINVAL"):
        bench.nic.arm([_add(counter.index, 1, counter.index, CASSINI_MAX + 1)])
    poll_counter(bench, counter, 3, 4)


def _add(trigger: int, threshold: int, target: int, value: int) -> DeferredWork:
    return DeferredWork(trigger, threshold, Opcode.COUNTER_ADD, target=target, value=value)


@case("R3", "C39")
def a_value_of_64_bits_stays_at_its_maximum(bench: Bench) -> None:
    """At 2^64-1 a value stays, and does not wrap."""
    _stays_at(bench, U64_MAX, U64_MAX)


@case("R3", "C39", profile="cassini")
def a_value_of_cassini_stays_at_its_maximum(bench: Bench) -> None:
    """At 2^48-1 successes and 127 errors Cassini's values stay, and do not wrap."""
    _stays_at(bench, CASSINI_MAX, 127)


def _stays_at(bench: Bench, success: int, errors: int) -> None:
    (counter,) = bench.nic.counters("counter")
    counter.set(success - 1, errors - 1)
    for _ in range(3):
        counter.add(1, 1)
    poll_counter(bench, counter, success, errors)


@case("R3", "C39", inside=True)
def a_value_that_was_held_back_raises_a_flag_that_stays(bench: Bench) -> None:
    """A value that had to stay at its maximum raises a flag, which a set does not clear."""
    assert bench.inside is not None
    reached, held = bench.nic.counters("reached", "held")
    for counter, step in ((reached, 1), (held, 2)):
        counter.set(success=U64_MAX - 1)
        counter.add(step)
        counter.set(success=0)
    poll_counter(bench, held, 0)
    records = bench.inside.unit.state.counters
    assert (records[reached.index].overflow, records[held.index].overflow) == (0, 1)


@case("R3", "R22", "C39")
def the_sum_of_both_values_does_not_wrap(bench: Bench) -> None:
    """A success value at its maximum and an error together still reach every threshold."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    with bench.nic.program("highest threshold") as program:
        program.when(trigger >= U64_MAX).add(fired)
    program.arm()
    trigger.set(errors=5)
    rest(bench)
    assert fired.read() == (0, 0)
    trigger.set(success=U64_MAX - 2)
    poll_counter(bench, fired, 1)


@case("R4")
def counting_zero_fires_nothing_new(bench: Bench) -> None:
    """Counting 0 is allowed, and fires nothing new."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    with bench.nic.program("one") as program:
        program.when(trigger >= 1).add(fired)
    program.arm()
    trigger.add(0)
    rest(bench)
    assert (trigger.read(), fired.read()) == ((0, 0), (0, 0))
    trigger.add(1)
    trigger.add(0)
    poll_counter(bench, fired, 1)
    rest(bench)
    assert fired.read() == (1, 0)


@case("R4")
def both_values_are_counted_in_one_step(bench: Bench) -> None:
    """Successes and errors of one call are counted in one step: no threshold sees half of it."""
    trigger, first, second = bench.nic.counters("trigger", "first", "second")
    with bench.nic.program("two") as program:
        program.when(trigger >= 4).set(second, 4)
        program.when(trigger >= 3).set(second, 3)
        program.when(trigger >= 5).add(first)
    program.arm()
    trigger.add(2, 2)
    poll_counter(bench, second, 4)
    rest(bench)
    assert first.read() == (0, 0)


@case("R5")
def a_set_replaces_what_it_names(bench: Bench) -> None:
    """A set replaces the success value, the error value, or both, as asked."""
    (counter,) = bench.nic.counters("counter")
    counter.add(3, 2)
    counter.set(success=10)
    poll_counter(bench, counter, 10, 2)
    counter.set(errors=4)
    poll_counter(bench, counter, 10, 4)
    counter.set(0, 0)
    poll_counter(bench, counter, 0, 0)


@case("R5", "C28", profile="portals")
def a_set_of_portals_replaces_both_values(bench: Bench) -> None:
    """Portals' set replaces both values at once."""
    (counter,) = bench.nic.counters("counter")
    counter.set(success=7, errors=3)
    counter.add(1)
    poll_counter(bench, counter, 8, 3)
    counter.add(0, 3)
    poll_counter(bench, counter, 8, 6)
    counter.set(success=2)
    poll_counter(bench, counter, 2, 0)


@case("R5", "C28", profile="portals")
def portals_counts_one_value_at_a_time(bench: Bench) -> None:
    """Portals refuses to count successes and errors in one call."""
    (counter,) = bench.nic.counters("counter")
    with refused("EINVAL"):
        counter.add(1, 1)
    rest(bench)
    assert counter.read() == (0, 0)


@case("R6", "C40")
def a_set_fires_what_it_reaches(bench: Bench) -> None:
    """A set to a value that meets or passes a threshold fires it; one below does not."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    with bench.nic.program("two") as program:
        program.when(trigger >= 5).add(fired, 1)
        program.when(trigger >= 8).add(fired, 10)
    program.arm()
    trigger.set(success=4)
    rest(bench)
    assert fired.read() == (0, 0)
    trigger.set(success=5)
    poll_counter(bench, fired, 1)
    trigger.set(success=100)
    poll_counter(bench, fired, 11)


@case("R6", "R23", "C40")
def a_set_to_a_lower_value_arms_nothing_again(bench: Bench) -> None:
    """A set to a lower value does not arm fired work again; what waits waits for a new crossing."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    with bench.nic.program("two") as program:
        program.when(trigger >= 2).add(fired, 1)
        program.when(trigger >= 4).add(fired, 10)
    program.arm()
    trigger.set(success=3)
    poll_counter(bench, fired, 1)
    trigger.set(success=0)
    trigger.set(success=3)
    rest(bench)
    assert fired.read() == (1, 0)
    trigger.add(1)
    poll_counter(bench, fired, 11)


@case("R7", inside=True)
def a_set_while_operations_are_in_flight_is_noted(bench: Bench) -> None:
    """A set while counted operations are in flight is carried out in one step, and noted."""
    assert bench.inside is not None
    (counter,) = bench.nic.counters("counter")
    with bench.nic.program("receive") as program:
        program.when(counter >= 0).receive(bench.local[0:64], bench.remote.qp_num, then=counter)
    program.arm()
    unit = bench.inside.unit.state.unit[0]
    noted = int(unit.unsettled_sets)
    counter.set(success=40)
    assert unit.unsettled_sets == noted + 1
    bench.peer_send(b"x" * 64)
    poll_counter(bench, counter, 41)


@case("R11", inside=True)
def a_counter_of_bytes_counts_bytes(bench: Bench) -> None:
    """A counter of bytes counts the bytes of a success, and 1 for an error."""
    assert bench.inside is not None
    (trigger,) = bench.nic.counters("trigger")
    (moved,) = bench.inside.nic.counters("moved", counts_bytes=True)
    with bench.nic.program("three") as program:
        program.when(trigger >= 1).write(bench.local[0:100], bench.remote[0:100], then=moved)
        program.when(trigger >= 1).read(bench.local[0:23], bench.remote[0:23], then=moved)
        program.when(trigger >= 2).write(bench.local[0:100], bench.wrong[0:100], then=moved)
        program.when(moved >= 123).add(trigger)
    program.arm()
    trigger.add()
    poll_counter(bench, moved, 123, 1)


@case("R1", "C21", counter_count=32)
def counters_can_be_opened_and_closed_over_and_over(bench: Bench) -> None:
    """Any number of counters up to the limit can be opened, set, read and closed, again and again."""
    most = len(_open_all(bench))
    assert most >= bench.limits.counter_count - 2
    for count in (1, 2, most - 1, most):
        opened = bench.nic.counters(*(f"counter{number}" for number in range(count)))
        assert [counter.read() for counter in opened] == [(0, 0)] * count
        for number, counter in enumerate(opened):
            counter.set(success=number + 1)
        poll(bench, lambda: [one.read()[0] for one in opened], list(range(1, count + 1)))  # noqa: B023
        for counter in opened:
            counter.close()


def _open_all(bench: Bench) -> list[int]:
    """Open counters until none is left, and close them; return their numbers."""
    opened: list[TargetCounter] = []
    try:
        while len(opened) <= bench.limits.counter_count:
            opened += bench.nic.counters("one more")
    except ResourceError:
        pass
    assert len(opened) <= bench.limits.counter_count, "the limit is not kept"
    for counter in opened:
        counter.close()
    return [counter.index for counter in opened]


@case("R2", profile="cassini")
def the_profile_of_cassini_has_its_figures(bench: Bench) -> None:
    """Cassini has 2048 counters, 504 entries for processes, and lanes of 48 and 7 bits."""
    limits = bench.nic.limits
    assert (limits.counter_count, limits.slot_count, limits.host_slots) == (2048, 2048, 504)
    assert (limits.max_success, limits.max_errors) == (CASSINI_MAX, 127)
    assert limits == Limits.named("cassini")
