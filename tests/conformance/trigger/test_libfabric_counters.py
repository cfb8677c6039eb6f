# SPDX-License-Identifier: Apache-2.0
"""Counters over libfabric as programs of nicemu's NIC know them: behind streams, and once closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from nicemu.abi import Condition, Unsupported
from nicemu.errors import NicemuError, UsageError
from nicemu.fabric import LibfabricCounter, LibfabricTarget
from nicemu.host import HostStream, ProcessStream
from tests.conformance.trigger.libfabric_world import World, a_world, eventually, needs_sockets

pytestmark = needs_sockets


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as world:
        yield world


@pytest.fixture
def stream() -> Iterator[HostStream]:
    stream = HostStream()
    yield stream
    stream.close()


# Streams


def test_a_program_is_armed_behind_a_stream_as_on_a_nic(world: World, stream: HostStream) -> None:
    target = world.target
    produced, delivered = target.counters("produced", "delivered")
    with target.program("chunk") as program:
        program.when(produced >= 1).write(world.local[0:64], world.remote[0:64], then=delivered)
    program.arm()
    go_on = threading.Event()

    def kernel() -> None:
        go_on.wait()
        world.here.array[0:64] = 7

    stream.submit(kernel)
    produced.trigger_after(stream)
    assert produced.read() == (0, 0)  # nothing was counted before its turn
    go_on.set()
    delivered.wait(1)
    assert (world.there.array[0:64] == 7).all()


def test_streams_and_the_host_count_at_once_and_nothing_is_lost(world: World) -> None:
    (counter,) = world.target.counters("counter")
    streams = [HostStream() for _ in range(3)]
    for _ in range(200):
        for stream in streams:
            counter.trigger_after(stream, by=2)
        counter.add()
    for stream in streams:
        stream.synchronize()
        stream.close()
    assert counter.read() == (1400, 0)


def test_a_count_whose_counter_is_gone_by_then_fails_as_a_kernel_does(
    world: World, stream: HostStream
) -> None:
    (counter,) = world.target.counters("counter")
    go_on = threading.Event()
    stream.submit(go_on.wait)
    counter.trigger_after(stream)
    counter.close()
    (other,) = world.target.counters("other")
    assert other.index == counter.index
    go_on.set()
    with pytest.raises(NicemuError, match="counter is closed"):
        stream.synchronize()
    assert other.read() == (0, 0)


def test_what_cannot_ring_here_is_refused_and_says_why(world: World, stream: HostStream) -> None:
    (counter,) = world.target.counters("counter")
    elsewhere = ProcessStream()
    with pytest.raises(Unsupported, match=r"no doorbell.*HostStream\(\)"):
        counter.trigger_after(elsewhere)  # type: ignore[arg-type]
    elsewhere.close()
    for no_stream in (None, 5, HostStream):
        with pytest.raises(UsageError, match="is no stream"):
            counter.trigger_after(no_stream)  # type: ignore[arg-type]
    for by in (-1, 1.0, True, 1 << 40):
        with pytest.raises(UsageError, match="what a ring counts"):
            counter.trigger_after(stream, by)  # type: ignore[arg-type]
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: counter.follow(world.local[0:8]), r"no NIC polls.*counter\.add\(\)"),
        (lambda: counter.overflow, "does not say whether counter counter has wrapped"),
        (lambda: counter.wait_on(stream, 1), r"publishes counter counter nowhere.*counter\.wait\(1\)"),
    ]
    for call, sentence in calls:
        with pytest.raises(Unsupported, match=sentence):
            call()
    stream.synchronize()
    assert counter.read() == (0, 0)


# Closed counters, whose number another counter has


def reused(target: LibfabricTarget) -> tuple[LibfabricCounter, Condition, LibfabricCounter]:
    """A counter that was closed, a condition made before that, and the counter that has its number now."""
    (closed,) = target.counters("closed")
    condition = closed >= 1
    closed.close()
    (fresh,) = target.counters("fresh")
    assert fresh.index == closed.index
    return closed, condition, fresh


def test_a_closed_counter_is_named_nowhere(world: World) -> None:
    target = world.target
    (trigger,) = target.counters("trigger")
    closed, condition, fresh = reused(target)
    memory = target.allocate((64,))
    with target.program("refused") as program:
        step = program.when(trigger >= 1)
        calls: list[Callable[[], object]] = [
            lambda: program.when(condition),
            lambda: step.write(world.local[0:8], world.remote[0:8], then=closed),
            lambda: step.add(closed),
            lambda: step.set(closed, 1),
            lambda: closed >= 1,
            closed.next,
            lambda: target.register(memory, closed),
            lambda: target.cancel_counter(closed),
            lambda: closed.add(1),
            closed.read,
        ]
        for call in calls:
            with pytest.raises(UsageError, match="closed"):
                call()
        step.add(fresh)
    program.arm()
    trigger.add()
    eventually(fresh.read, (1, 0))


@pytest.mark.parametrize("use", ["trigger", "then", "target"])
@pytest.mark.parametrize("windowed", [False, True], ids=["armed", "a window"])
def test_a_program_written_before_the_close_is_not_armed_after_it(
    world: World, use: str, windowed: bool
) -> None:
    target = world.target
    trigger, closed = target.counters("trigger", "closed")
    with target.program("written before") as program:
        if use == "trigger":
            program.when(closed >= 1).add(trigger)
        elif use == "then":
            program.when(trigger >= 1).write(world.local[0:8], world.remote[0:8], then=closed)
        else:
            program.when(trigger >= 1).add(closed)
    closed.close()
    (fresh,) = target.counters("fresh")
    assert fresh.index == closed.index
    with pytest.raises(UsageError, match="counter closed was closed"):
        program.window(1) if windowed else program.arm()
    fresh.add()
    trigger.add()
    target.progress()
    assert (fresh.read(), trigger.read()) == ((1, 0), (1, 0))
