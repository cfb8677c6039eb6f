# SPDX-License-Identifier: Apache-2.0
"""Cases of waiting for a counter. Source: fi_cntr(3), fi_cntr_wait; Portals 4.3, "PtlCTWait"."""

from __future__ import annotations

from nicemu.abi import CounterError, TargetCounter

from .bench import Bench, poll, poll_counter
from .case import case
from .refusal import refused

NO_TIME_S = 0.02


def _times_out(counter: TargetCounter, threshold: int) -> None:
    try:
        counter.wait(threshold, timeout_s=NO_TIME_S)
    except TimeoutError:
        return
    raise AssertionError(f"the wait for {threshold} ended at {counter.read()}")


def _fails(counter: TargetCounter, threshold: int) -> None:
    """The wait ends because the error value has changed."""
    try:
        counter.wait(threshold)
    except CounterError:
        return
    raise AssertionError(f"the wait for {threshold} ended well at {counter.read()}")


@case("R9", "C11", "C29")
def a_wait_for_what_is_there_returns_at_once(bench: Bench) -> None:
    """A wait for a value that is there already, or for 0, returns."""
    (counter,) = bench.nic.counters("counter")
    counter.wait(0)
    counter.add(3)
    counter.wait(2)
    counter.wait(3)


@case("R9", "C12", "C29")
def a_wait_ends_when_somebody_counts(bench: Bench) -> None:
    """A wait ends when somebody else counts or sets the success value there."""
    (counter,) = bench.nic.counters("counter")
    bench.later(lambda: counter.add(2))
    counter.wait(2)
    bench.later(lambda: counter.set(success=50))
    counter.wait(20)
    assert counter.read() == (50, 0)


@case("R9", "C11", "C12")
def a_wait_that_takes_too_long_changes_nothing(bench: Bench) -> None:
    """A wait that is not met times out and leaves the values alone."""
    (counter,) = bench.nic.counters("counter")
    _times_out(counter, 1)
    bench.later(lambda: counter.add(2))
    _times_out(counter, 3)
    poll_counter(bench, counter, 2)


@case("R9", "C12", "C29")
def an_error_ends_a_wait(bench: Bench) -> None:
    """A change of the error value ends a wait whose success value is not there."""
    (counter,) = bench.nic.counters("counter")
    bench.later(lambda: counter.add(0, 1))
    _fails(counter, 1)
    bench.later(lambda: counter.add(1, 1))
    _fails(counter, 2)
    poll_counter(bench, counter, 1, 2)


@case("R9")
def errors_do_not_make_a_wait_end_well(bench: Bench) -> None:
    """A wait looks at the success value, not at the sum."""
    (counter,) = bench.nic.counters("counter")
    counter.add(2, 5)
    poll_counter(bench, counter, 2, 5)
    _times_out(counter, 3)


@case("R9", "C12")
def success_is_looked_at_first(bench: Bench) -> None:
    """Where the success value is there, an error that came with it does not spoil the wait."""
    (counter,) = bench.nic.counters("counter")
    bench.later(lambda: counter.add(1, 1))
    counter.wait(1)
    poll_counter(bench, counter, 1, 1)


@case("R9")
def an_error_from_before_a_wait_does_not_end_it(bench: Bench) -> None:
    """Only an error that comes during a wait ends it."""
    (counter,) = bench.nic.counters("counter")
    counter.add(0, 1)
    poll_counter(bench, counter, 0, 1)
    bench.later(lambda: counter.add(1))
    counter.wait(1)


@case("R9", "C29")
def of_two_waits_each_ends_for_itself(bench: Bench) -> None:
    """Of two waits for one counter, one times out and the other ends well."""
    (counter,) = bench.nic.counters("counter")
    ended: list[str] = []

    def other() -> None:
        try:
            counter.wait(9, timeout_s=NO_TIME_S)
        except TimeoutError:
            ended.append("timed out")
        counter.add(1)

    bench.later(other)
    counter.wait(1)
    assert ended == ["timed out"]


@case("R9", "C29")
def two_waits_for_one_threshold_both_end(bench: Bench) -> None:
    """Two waits for the same threshold both end well."""
    (counter,) = bench.nic.counters("counter")
    ended: list[int] = []

    def other() -> None:
        counter.wait(1)
        ended.append(1)

    bench.later(other)
    bench.later(lambda: counter.add(1))
    counter.wait(1)
    poll(bench, lambda: ended, [1])


@case("R9", "C11", profile="cassini")
def a_wait_for_more_than_a_counter_holds_is_refused(bench: Bench) -> None:
    """A wait for a negative number, or for more than a counter holds, is refused."""
    (counter,) = bench.nic.counters("counter")
    for wrong in (-1, 1 << 48):
        with refused("EINVAL"):
            counter.wait(wrong)


@case("R9", "C29", profile="portals")
def portals_counts_errors_in_a_wait(bench: Bench) -> None:
    """A wait of Portals ends well when successes and errors together are there."""
    (counter,) = bench.nic.counters("counter")
    bench.later(lambda: counter.add(0, 1))
    counter.wait(1)
    counter.add(1)
    counter.wait(2)


@case("R10", "R19", profile="cassini", inside=True)
def a_wait_of_cassini_takes_an_entry(bench: Bench) -> None:
    """A wait of Cassini takes an entry; one that timed out keeps it until the counter gets there."""
    assert bench.inside is not None
    nic = bench.inside.nic
    (counter,) = bench.nic.counters("counter")
    free = nic.slots_free
    _times_out(counter, 2)
    _times_out(counter, 3)
    assert nic.slots_free == free - 2
    counter.add(2)
    assert nic.slots_free == free - 1
    counter.add(1)
    assert nic.slots_free == free


@case("R10", inside=True)
def a_wait_takes_no_entry_without_that_limit(bench: Bench) -> None:
    """Elsewhere a wait that times out leaves nothing behind."""
    assert bench.inside is not None
    (counter,) = bench.nic.counters("counter")
    _times_out(counter, 2)
    assert bench.inside.slots_in_use() == 0


@case("R10", "R19", profile="cassini", service_slots=2)
def a_wait_finds_no_entry_where_none_is_left(bench: Bench) -> None:
    """Where no entry is left, a wait of Cassini is refused like any other work."""
    counter, other = bench.nic.counters("counter", "other")
    with bench.nic.program("two") as program:
        program.when(counter >= 1).add(other)
        program.when(counter >= 1).add(other)
    program.arm()
    with refused("ENOSPC"):
        counter.wait(1)
    assert bench.nic.flush() == 2
    _times_out(counter, 1)
