# SPDX-License-Identifier: Apache-2.0
"""The explorer over stepped NICs: it finds planted bugs of order that plain runs miss, misses no outcome, and
leaves the stepper as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from nicemu.abi import Limits, Span
from nicemu.host import Nic
from nicemu.testing.choices import Schedule, parse_choices
from nicemu.testing.explorer import Exploration, explore, report
from nicemu.testing.worlds import PeerMemory, World
from nicemu.timing import Cost
from tests.conformance.stepped_world import TIMINGS
from tests.conformance.stepped_world import World as KvWorld

RUNS_A_WORLD = 10
SMALL = Limits(counter_count=64, slot_count=256)
"""Enough for every program here; a NIC looks through its counters when a process closes."""

Program = Callable[[World, Nic, PeerMemory], Callable[[], bool]]
"""Arms and rings; what it returns runs the test's own part to its end: whether all is well."""


@contextmanager
def small_world() -> Iterator[World]:
    world = World("compute0", "peer0", limits=SMALL, peer_bytes=4096)
    try:
        yield world
    finally:
        world.close()


def run(program: Program, schedule: Schedule) -> bool:
    """Run a program under one schedule, in a world of its own: whether all is well."""
    with small_world() as world:
        proceed = program(world, world["compute0"], world.peer())
        world.simulation.step_by(schedule)
        return proceed()


def explored(program: Program, schedules: int = 200, *, reduction: bool = True) -> Exploration:
    return explore(lambda schedule: run(program, schedule), schedules, reduction=reduction)


def passes_plainly(program: Program) -> bool:
    """Whether a program passes runs of the stepper as it is, one after the other in one world."""
    good = True
    with small_world() as world:
        for _ in range(RUNS_A_WORLD):
            good &= program(world, world["compute0"], world.peer())()
            world.peer().array[:] = 0
    return good


def words(nic: Nic, *values: int) -> Span:
    """Register memory that holds 8 bytes of each value."""
    memory = nic.allocate((8 * len(values),))
    memory.array[:] = np.repeat(np.array(values, np.uint8), 8)
    return nic.register(memory)


def runs_idle_with(world: World, peer: PeerMemory, value: int, length: int = 8) -> Callable[[], bool]:
    """All is well if the peer's first bytes are `value` when nothing is left to happen."""

    def proceed() -> bool:
        world.simulation.run_until_idle()
        return peer.bytes[:length] == bytes([value]) * length

    return proceed


def chains(lengths: tuple[int, ...]) -> Program:
    """Chains of writes, each behind a counter, queue pair and stream of its own."""

    def program(world: World, nic: Nic, peer: PeerMemory) -> Callable[[], bool]:
        expected = b""
        for number, length in enumerate(lengths, start=1):
            (counter,) = nic.counters(f"chain {number}")
            local = words(nic, *[number] * length)
            there = peer.another_queue_pair().span[len(expected) : len(expected) + 8 * length]
            expected += bytes([number]) * 8 * length
            with nic.program("chain") as armed:
                for link in range(length):
                    piece = slice(8 * link, 8 * link + 8)
                    armed.when(counter >= link + 1).write(local[piece], there[piece], then=counter)
            armed.arm()
            counter.trigger_after(world.stream())

        def proceed() -> bool:
            world.simulation.run_until_idle()
            return peer.bytes[: len(expected)] == expected

        return proceed

    return program


@pytest.mark.parametrize("length", [1, 2, 8])
def test_two_independent_chains_cost_one_schedule(length: int) -> None:
    exploration = explored(chains((length, length)))
    assert (exploration.schedules, exploration.is_complete) == (1, True)
    assert exploration.failure is None


def test_without_reduction_two_chains_of_one_operation_cost_seventy() -> None:
    """Each is four steps: the store, the look, the initiation, the effect."""
    exploration = explored(chains((1, 1)), 200, reduction=False)
    assert (exploration.schedules, exploration.is_complete) == (70, True)


# Planted bugs, and what mends them


def publish(*, behind_delivery: bool) -> Program:
    """Data, and a flag on another queue pair: due with the data, or mended, behind their delivery."""

    def program(world: World, nic: Nic, peer: PeerMemory) -> Callable[[], bool]:
        ready, done = nic.counters("ready", "done")
        local, flag = words(nic, 1, 1), peer.another_queue_pair().span
        with nic.program("publish") as armed:
            armed.when(ready >= 1).write(local[0:8], peer.span[0:8], then=done)
            condition = done >= 1 if behind_delivery else ready >= 1
            armed.when(condition).write(local[8:16], flag[8:16])
        armed.arm()
        ready.trigger_after(world.stream())

        def proceed() -> bool:
            seen = world.simulation.run_until(lambda: bool(peer.array[8] == 1), 1_000_000)
            good = seen and peer.bytes[:8] == b"\1" * 8
            world.simulation.run_until_idle()
            return good

        return proceed

    return program


def overwrite(*, one_counter: bool) -> Program:
    """Two writes to one place, rung in order by one stream: by two counters, which have no order, and by two
    queue pairs; or mended, by one of each, whose threshold order is the order of the effects.
    """

    def program(world: World, nic: Nic, peer: PeerMemory) -> Callable[[], bool]:
        local, stream = words(nic, 1, 2), world.stream()
        first, second = nic.counters("first", "second")
        later, place = (
            (first >= 2, peer.span) if one_counter else (second >= 1, peer.another_queue_pair().span)
        )
        with nic.program("overwrite") as armed:
            armed.when(later).write(local[8:16], place[0:8])
            armed.when(first >= 1).write(local[0:8], peer.span[0:8])
        armed.arm()
        first.trigger_after(stream)
        (first if one_counter else second).trigger_after(stream)
        return runs_idle_with(world, peer, 2)

    return program


def counter_that_two_streams_bump(world: World, nic: Nic, peer: PeerMemory) -> Callable[[], bool]:
    """The first stream's write waits for one count; the second stream's count is as good."""
    ready, done = nic.counters("ready", "done")
    memory = nic.allocate((8,))
    local = nic.register(memory)
    with nic.program("store") as program:
        program.when(ready >= 1).write(local, peer.span[0:8], then=done)
    program.arm()
    first, second = world.stream(), world.stream()
    first.submit(lambda: memory.array.fill(7))
    ready.trigger_after(first)
    ready.trigger_after(second)
    return runs_idle_with(world, peer, 7)


BUGS = {
    "flag_on_another_queue_pair": (publish(behind_delivery=False), 50),
    "counter_that_two_streams_bump": (counter_that_two_streams_bump, 1000),
    "order_across_counters": (overwrite(one_counter=False), 50),
}
"""Programs, and how many plain runs miss the bug: those are all the same, but whoever doubts it may count."""


@pytest.mark.parametrize("program", [program for program, _ in BUGS.values()], ids=BUGS)
def test_a_planted_bug_that_plain_runs_miss_is_found_and_replayed(program: Program) -> None:
    exploration = explored(program)
    failure = exploration.failure
    assert failure is not None, exploration
    assert exploration.schedules < 50
    said = report(exploration).splitlines()
    assert len(failure.story) <= 12, said
    choices = next(line for line in said if line.startswith("again: ")).rsplit(" ", 1)[1]
    assert not run(program, Schedule(parse_choices(choices)))
    assert run(program, Schedule(parse_choices("0")))


@pytest.mark.slow
@pytest.mark.parametrize(("program", "runs"), BUGS.values(), ids=BUGS)
def test_a_thousand_plain_runs_miss_the_planted_bug(program: Program, runs: int) -> None:
    assert all(passes_plainly(program) for _ in range(runs // RUNS_A_WORLD))


@pytest.mark.parametrize(
    "program", [publish(behind_delivery=True), overwrite(one_counter=True)], ids=["flag", "order"]
)
def test_the_mended_program_passes_under_every_order(program: Program) -> None:
    exploration = explored(program)
    assert exploration.failure is None, report(exploration)
    assert exploration.is_complete


# No outcome is missed


def random_program(seed: int) -> tuple[Program, set[str]]:
    """Three operations that share counters, memory and queue pairs, and two streams; and outcomes."""
    rng = random.Random(seed)
    operations = []
    for _ in range(3):
        kind, threshold = rng.choice(("write", "write", "read", "add")), rng.choice((1, 1, 2))
        operations.append((kind, rng.randrange(2), threshold, rng.randrange(2), rng.choice((None, 0, 1))))
    rings = [rng.randrange(2), rng.randrange(2)]
    found: set[str] = set()

    def program(world: World, nic: Nic, peer: PeerMemory) -> Callable[[], bool]:
        counters = nic.counters("a", "b")
        memory = nic.allocate((8,), "u8")
        memory.array[:] = range(8)
        local, spans = nic.register(memory), [peer.span, peer.another_queue_pair().span]
        with nic.program("drawn") as drawn:
            for number, (kind, counter, threshold, qp, then) in enumerate(operations, start=1):
                step, there = drawn.when(counters[counter] >= threshold), spans[qp][0:8]
                counted = None if then is None else counters[then]
                if kind == "write":
                    step.write(local[8 * number : 8 * number + 8], there, then=counted)
                elif kind == "read":
                    step.read(local[0:8], there, then=counted)
                else:
                    step.add(counters[then or 0])
        drawn.arm()
        for ring in rings:
            counters[ring].trigger_after(world.stream())

        def proceed() -> bool:
            world.simulation.run_until_idle()
            values = [counter.read() for counter in counters]
            found.add(f"{int(peer.words()[0])} {int(memory.array[0])} {values}")
            return True

        return proceed

    return program, found


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(more, marks=pytest.mark.slow) for more in range(3, 8))]
)
def test_the_reduced_search_sees_every_outcome_that_drawn_and_whole_search_see(seed: int) -> None:
    program, reduced = random_program(seed)
    exploration = explored(program, 400)
    assert exploration.is_complete
    program, whole = random_program(seed)
    explored(program, 60, reduction=False)
    assert whole <= reduced


# The stepper as it is


@pytest.mark.parametrize("transport", ["direct", "port"])
def test_a_schedule_of_zeros_gives_the_journey_the_same_end(transport: str) -> None:
    ends = []
    for chooser in (None, Schedule()):
        # With a chooser transfers of direct queue pairs take no time, so that the links are to cost none.
        world = KvWorld(transport, timings=replace(TIMINGS, link=Cost()))
        world.simulation.step_by(chooser)
        session = (1).to_bytes(16, "big")
        kept = world.leave(session, 20)
        world.resume.offer()
        slot = world.fetch(session)
        assert slot is not None
        world.simulation.run_until_idle()
        assert world.bytes_of(slot) == kept.data
        ends.append((slot, world.counted("compute0", "writes"), world.simulation.clock.now_ns()))
    assert ends[0] == ends[1]


def test_after_the_last_choice_the_nics_run_by_themselves_again() -> None:
    with small_world() as world:
        nic = world["compute0"]
        ready, done = nic.counters("ready", "done")
        with nic.program("add") as program:
            program.when(ready >= 2).add(done)
        program.arm()
        world.simulation.step_by(Schedule())
        ready.add()
        world.simulation.step_by(None)
        ready.add()
        assert done.read() == (1, 0)
