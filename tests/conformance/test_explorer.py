# SPDX-License-Identifier: Apache-2.0
"""The explorer over stepped NICs: it finds planted bugs of order that plain runs miss, misses no outcome, and
leaves the stepper as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from nicemu.host import Nic
from nicemu.testing.choices import Schedule, parse_choices
from nicemu.testing.explorer import Exploration, explore, report
from nicemu.testing.worlds import PeerMemory, World
from tests.conformance.stepped_world import World as KvWorld

RUNS_A_WORLD = 10

Program = Callable[[World, Nic, PeerMemory], Callable[[], bool]]
"""Arms and rings; what it returns runs the test's own part to its end: whether all is well."""


def explored(program: Program, schedules: int = 200, *, reduction: bool = True) -> Exploration:
    def run(schedule: Schedule) -> bool:
        world = World("compute0", "peer0")
        proceed = program(world, world["compute0"], world.peer())
        world.simulation.step_by(schedule)
        try:
            return proceed()
        finally:
            world.close()

    return explore(run, schedules, reduction=reduction)


def passes_plainly(program: Program) -> bool:
    """Whether a program passes runs of the stepper as it is, one after the other in one world."""
    world = World("compute0", "peer0")
    good = True
    for _ in range(RUNS_A_WORLD):
        good &= program(world, world["compute0"], world.peer())()
        world.peer().array[:] = 0
    world.close()
    return good


def chains(lengths: tuple[int, ...]) -> Program:
    """Chains of writes, each behind a counter, queue pair and stream of its own."""

    def program(world: World, nic: Nic, peer: PeerMemory) -> Callable[[], bool]:
        place = 0
        for number, length in enumerate(lengths):
            (counter,) = nic.counters(f"chain {number}")
            memory = nic.allocate((8 * length,))
            local, there = nic.register(memory), peer.another_queue_pair().span
            memory.array[:] = number + 1
            with nic.program("chain") as armed:
                for link in range(length):
                    piece = there[place : place + 8]
                    armed.when(counter >= link + 1).write(local[8 * link : 8 * link + 8], piece, then=counter)
                    place += 8
            armed.arm()
            counter.trigger_after(world.stream())

        def proceed() -> bool:
            world.simulation.run_until_idle()
            expected = b"".join(bytes([number + 1]) * 8 * n for number, n in enumerate(lengths))
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


# Planted bugs


def flag_on_another_queue_pair(world: World, nic: Nic, peer: PeerMemory) -> Callable[[], bool]:
    """Data and flag are due together, but each queue pair keeps its own order only."""
    ready, done = nic.counters("ready", "done")
    memory = nic.allocate((16,))
    memory.array[:] = 1
    local, flag = nic.register(memory), peer.another_queue_pair().span
    with nic.program("publish") as program:
        program.when(ready >= 1).write(local[0:8], peer.span[0:8], then=done)
        program.when(ready >= 1).write(local[8:16], flag[8:16], then=done)
    program.arm()
    ready.trigger_after(world.stream())

    def proceed() -> bool:
        seen = world.simulation.run_until(lambda: bool(peer.array[8] == 1), 1_000_000)
        good = seen and peer.bytes[:8] == b"\1" * 8
        world.simulation.run_until_idle()
        return good

    return proceed


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

    def proceed() -> bool:
        world.simulation.run_until_idle()
        return peer.bytes[:8] == b"\7" * 8

    return proceed


def order_across_counters(world: World, nic: Nic, peer: PeerMemory) -> Callable[[], bool]:
    """Two counters are rung in order by one stream; what they fire need not fire in that order."""
    first, second = nic.counters("first", "second")
    memory = nic.allocate((16,))
    memory.array[:8], memory.array[8:] = 1, 2
    local, other = nic.register(memory), peer.another_queue_pair().span
    with nic.program("overwrite") as program:
        program.when(first >= 1).write(local[0:8], peer.span[0:8])
        program.when(second >= 1).write(local[8:16], other[0:8])
    program.arm()
    stream = world.stream()
    first.trigger_after(stream)
    second.trigger_after(stream)

    def proceed() -> bool:
        world.simulation.run_until_idle()
        return peer.bytes[:8] == b"\2" * 8

    return proceed


BUGS = [flag_on_another_queue_pair, counter_that_two_streams_bump, order_across_counters]


@pytest.mark.parametrize("program", BUGS)
def test_a_planted_bug_that_plain_runs_miss_is_found_and_replayed(program: Program) -> None:
    exploration = explored(program)
    failure = exploration.failure
    assert failure is not None, exploration
    assert exploration.schedules < 50
    said = report(exploration).splitlines()
    assert len(failure.story) <= 12, said
    choices = next(line for line in said if line.startswith("again: ")).rsplit(" ", 1)[1]
    for given, is_good in ((choices, False), ("0", True)):
        world = World("compute0", "peer0")
        proceed = program(world, world["compute0"], world.peer())
        world.simulation.step_by(Schedule(parse_choices(given)))
        assert proceed() is is_good
        world.close()


@pytest.mark.slow
@pytest.mark.parametrize(("program", "runs"), list(zip(BUGS, (50, 1000, 50), strict=True)))
def test_a_thousand_plain_runs_miss_the_planted_bug(program: Program, runs: int) -> None:
    """Plain runs are all the same; the numbers are for whoever doubts it."""
    assert all(passes_plainly(program) for _ in range(runs // RUNS_A_WORLD))


def mended_flag(world: World, nic: Nic, peer: PeerMemory) -> Callable[[], bool]:
    """The flag is written when the data have been delivered."""
    ready, done = nic.counters("ready", "done")
    memory = nic.allocate((16,))
    memory.array[:] = 1
    local, flag = nic.register(memory), peer.another_queue_pair().span
    with nic.program("publish") as program:
        program.when(ready >= 1).write(local[0:8], peer.span[0:8], then=done)
        program.when(done >= 1).write(local[8:16], flag[8:16])
    program.arm()
    ready.trigger_after(world.stream())

    def proceed() -> bool:
        seen = world.simulation.run_until(lambda: bool(peer.array[8] == 1), 1_000_000)
        return seen and peer.bytes[:8] == b"\1" * 8

    return proceed


def mended_order(world: World, nic: Nic, peer: PeerMemory) -> Callable[[], bool]:
    """One counter, one queue pair: threshold order is the order of the effects."""
    (ready,) = nic.counters("ready")
    memory = nic.allocate((16,))
    memory.array[:8], memory.array[8:] = 1, 2
    local = nic.register(memory)
    with nic.program("overwrite") as program:
        program.when(ready >= 2).write(local[8:16], peer.span[0:8])
        program.when(ready >= 1).write(local[0:8], peer.span[0:8])
    program.arm()
    stream = world.stream()
    ready.trigger_after(stream)
    ready.trigger_after(stream)

    def proceed() -> bool:
        world.simulation.run_until_idle()
        return peer.bytes[:8] == b"\2" * 8

    return proceed


@pytest.mark.parametrize("program", [mended_flag, mended_order])
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


@pytest.mark.parametrize("seed", range(8))
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
        world = KvWorld(transport)
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
    world = World("compute0", "peer0")
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
    world.close()
