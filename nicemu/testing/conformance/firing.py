# SPDX-License-Identifier: Apache-2.0
"""Cases of firing: when, how often, in which order. Source: fi_trigger(3), DEFERRED WORK QUEUES."""

from __future__ import annotations

import random

from nicemu.abi import FiringOrder, TargetCounter

from .bench import Bench, poll, poll_counter, rest
from .case import case

OPERATIONS = 300
"""Operations whose order a peer sees, as messages."""
THRESHOLDS = 50


@case("R22", "C34")
def work_fires_by_the_sum_of_both_values(bench: Bench) -> None:
    """Work fires when successes plus errors reach its threshold; errors alone do as well."""
    mixed, errors, fired = bench.nic.counters("mixed", "errors", "fired")
    with bench.nic.program("two") as program:
        program.when(mixed >= 3).add(fired, 1)
        program.when(errors >= 2).add(fired, 10)
    program.arm()
    mixed.add(2)
    errors.add(0, 1)
    rest(bench)
    assert fired.read() == (0, 0)
    mixed.add(0, 1)
    poll_counter(bench, fired, 1)
    errors.add(0, 1)
    poll_counter(bench, fired, 11)


@case("R22")
def a_counter_that_jumps_over_a_threshold_fires_it(bench: Bench) -> None:
    """A count that jumps over thresholds fires all of them."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    with bench.nic.program("three") as program:
        for threshold, value in ((3, 1), (54321, 10), (123456, 100)):
            program.when(trigger >= threshold).add(fired, value)
    program.arm()
    trigger.add(123455)
    poll_counter(bench, fired, 11)
    trigger.add(1000)
    poll_counter(bench, fired, 111)


@case("R22")
def thresholds_are_unsigned_numbers_of_64_bits(bench: Bench) -> None:
    """Thresholds and counts of 31, 32, 63 bits and more are compared as what they are."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    with bench.nic.program("wide") as program:
        for place, threshold in enumerate((1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1)):
            program.when(trigger >= threshold).add(fired, 10**place)
    program.arm()
    rest(bench)
    assert fired.read() == (0, 0)
    trigger.add((1 << 31) - 1)
    rest(bench)
    assert fired.read() == (0, 0)
    trigger.add(1)
    poll_counter(bench, fired, 1)
    trigger.add(1 << 32)
    poll_counter(bench, fired, 11)
    trigger.set(success=1 << 63)
    poll_counter(bench, fired, 111)
    trigger.set(success=(1 << 64) - 1)
    poll_counter(bench, fired, 1111)


@case("R23")
def work_fires_once(bench: Bench) -> None:
    """However often a counter passes its threshold, work fires once."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    with bench.nic.program("once") as program:
        program.when(trigger >= 2).add(fired)
    program.arm()
    for _ in range(5):
        trigger.add()
    trigger.set(success=0)
    trigger.add(7)
    poll_counter(bench, fired, 1)
    rest(bench)
    assert fired.read() == (1, 0)


def _two(
    bench: Bench, kind: str, values: tuple[int, int], reverse: bool
) -> tuple[TargetCounter, TargetCounter]:
    """Arm adds or sets of two values at thresholds 1 and 2; return their trigger and their target."""
    trigger, target = bench.nic.counters("trigger", "target")
    steps = list(enumerate(values, start=1))
    with bench.nic.program(kind) as program:
        for threshold, value in reversed(steps) if reverse else steps:
            step = program.when(trigger >= threshold)
            step.add(target, value) if kind == "add" else step.set(target, value)
    program.arm()
    return trigger, target


@case("R23", "R24", "C22")
def two_adds_count_one_after_the_other(bench: Bench) -> None:
    """Adds at thresholds 1 and 2, armed in either order, each count when the counter gets there."""
    for reverse in (False, True):
        trigger, target = _two(bench, "add", (1, 2), reverse)
        trigger.add()
        poll_counter(bench, target, 1)
        trigger.add()
        poll_counter(bench, target, 3)


@case("R24", "C23")
def sets_take_effect_by_threshold_also_after_a_jump(bench: Bench) -> None:
    """Of two sets that one count makes due, that of the higher threshold is last, armed in either order."""
    for reverse in (False, True):
        trigger, target = _two(bench, "set", (1, 7), reverse)
        trigger.add()
        poll_counter(bench, target, 1)
        trigger.add()
        poll_counter(bench, target, 7)
        trigger, target = _two(bench, "set", (1, 7), reverse)
        trigger.add(2)
        poll_counter(bench, target, 7)
        rest(bench)
        assert target.read() == (7, 0)


@case("R25")
def equal_thresholds_take_effect_in_arming_order(bench: Bench) -> None:
    """Of several sets at one threshold, that armed last is last."""
    trigger, target = bench.nic.counters("trigger", "target")
    with bench.nic.program("sets") as program:
        for value in (7, 3, 5, 1):
            program.when(trigger >= 1).set(target, value)
    program.arm()
    trigger.add()
    poll_counter(bench, target, 1)
    rest(bench)
    assert target.read() == (1, 0)


def _order_of_messages(bench: Bench, seed: int = 1) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Arm sends at random thresholds, and make them due by one count.

    Returns (threshold, place in the program) of each, in arming order, and in the order of arrival.
    """
    rng = random.Random(seed)
    trigger, done = bench.nic.counters("trigger", "done")
    armed = [(rng.randint(1, THRESHOLDS), place) for place in range(OPERATIONS)]
    places = [bench.peer_receive(8) for _ in armed]
    with bench.nic.program("shuffled") as program:
        for threshold, place in armed:
            bench.local_bytes[8 * place : 8 * place + 8] = place.to_bytes(8, "little")
            local = bench.local[8 * place : 8 * place + 8]
            program.when(trigger >= threshold).send(local, bench.remote.qp_num, then=done)
    program.arm()
    trigger.add(THRESHOLDS)
    poll_counter(bench, done, OPERATIONS)
    rest(bench)
    arrived = [int.from_bytes(place, "little") for place in places]
    return armed, [armed[place] for place in arrived]


@case("R24", "R25", "R26", "C32", "C33")
def what_one_count_makes_due_fires_by_threshold(bench: Bench) -> None:
    """Hundreds of sends, armed shuffled, arrive by threshold, those of equal thresholds in arming order."""
    armed, arrived = _order_of_messages(bench)
    assert arrived == sorted(armed)


@case("R24", profile="portals")
def portals_fires_in_arming_order(bench: Bench) -> None:
    """Under Portals' profile, what one count makes due fires in arming order, whatever the thresholds."""
    armed, arrived = _order_of_messages(bench)
    assert arrived == armed


@case("R24", "R23", order=FiringOrder.SHUFFLE, seed=7)
def a_shuffled_order_is_any_order_and_fires_all(bench: Bench) -> None:
    """With a shuffled order everything fires once, neither by threshold nor in arming order."""
    armed, arrived = _order_of_messages(bench)
    assert sorted(arrived) == sorted(armed)
    assert arrived not in (armed, sorted(armed))


@case("R24")
def what_comes_later_fires_later(bench: Bench) -> None:
    """What an earlier count made due fires before what a later count makes due, whatever the thresholds."""
    trigger, target = bench.nic.counters("trigger", "target")
    with bench.nic.program("first") as program:
        program.when(trigger >= 5).set(target, 5)
        program.when(trigger >= 6).set(target, 6)
    program.arm()
    trigger.add(5)
    poll_counter(bench, target, 5)
    with bench.nic.program("met already") as program:
        program.when(trigger >= 1).set(target, 1)
    program.arm()
    poll_counter(bench, target, 1)
    trigger.add()
    poll_counter(bench, target, 6)


@case("R26")
def operations_of_a_queue_pair_take_effect_in_order(bench: Bench) -> None:
    """Of writes to one place over one queue pair, that initiated last is what stays there."""
    trigger, done = bench.nic.counters("trigger", "done")
    size = 64 << 10
    count = 8
    with bench.nic.program("overwrite") as program:
        for place in range(count):
            bench.local_bytes[place * size : (place + 1) * size] = bytes([place + 1]) * size
            local = bench.local[place * size : (place + 1) * size]
            program.when(trigger >= place + 1).write(local, bench.remote[0:size], then=done)
    program.arm()
    trigger.add(count)
    poll_counter(bench, done, count)
    poll(bench, lambda: bytes(bench.remote_bytes[0:size]), bytes([count]) * size)


@case("R34", "R4")
def anybody_who_counts_fires(bench: Bench) -> None:
    """Work fires whoever counts: this program, somebody else while it waits, or other work."""
    trigger, chained, fired = bench.nic.counters("trigger", "chained", "fired")
    with bench.nic.program("three") as program:
        program.when(trigger >= 1).add(fired)
        program.when(trigger >= 2).add(chained)
        program.when(chained >= 1).add(fired)
    program.arm()
    trigger.add()
    poll_counter(bench, fired, 1)
    bench.later(trigger.add)
    fired.wait(2)
    poll_counter(bench, fired, 2)


@case("R34", "R12", "C14", "C47", inside=True)
def a_doorbell_counts_what_is_rung(bench: Bench) -> None:
    """Every ring of a doorbell adds, also two before the NIC looks, and fires what it reaches."""
    assert bench.inside is not None
    (trigger,) = bench.inside.nic.counters("trigger")
    (fired,) = bench.nic.counters("fired")
    with bench.nic.program("rung") as program:
        program.when(trigger >= 3).add(fired, 1)
        program.when(trigger >= 13).add(fired, 10)
    program.arm()
    bench.inside.ring(trigger, 1, 1)
    poll_counter(bench, trigger, 2)
    bench.inside.ring(trigger, 1, 10)
    poll_counter(bench, trigger, 13)
    poll_counter(bench, fired, 11)
    trigger.add(5)
    bench.inside.ring(trigger, 1)
    poll_counter(bench, trigger, 19)
