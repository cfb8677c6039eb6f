# SPDX-License-Identifier: Apache-2.0
"""What people write by mistake is refused with a sentence, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import inf, nan
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from nicemu.abi import (
    DeferredWork,
    Limits,
    Opcode,
    RemoteSpan,
    Span,
    TriggerTableFull,
    Unsupported,
    WorkRequest,
)
from nicemu.errors import ResourceError, UsageError
from nicemu.firmware import Registry
from nicemu.host import Granularity, HostStream, Nic
from nicemu.nic import NicConfig
from nicemu.run import Simulation

_SPAN = Span(0x1000, 8, 1)
_SEND = WorkRequest(Opcode.SEND, (_SPAN.sge(),))
_ADD = DeferredWork(1, 1, Opcode.COUNTER_ADD, target=1, value=1)


@pytest.fixture
def world() -> Simulation:
    configs = [NicConfig("near", "127.0.1.1"), NicConfig("far", "127.0.1.2")]
    return Simulation([*configs, NicConfig("slingshot", "127.0.1.3", limits=Limits.named("cassini"))])


@pytest.fixture
def nic(world: Simulation) -> Iterator[Nic]:
    with Nic(world.open_nic("near")) as nic:
        yield nic


def test_a_counter_of_another_nic_is_not_taken_for_the_one_with_its_number(
    world: Simulation, nic: Nic
) -> None:
    near, other = nic.counters("near", "other")
    with Nic(world.open_nic("far")) as far_nic:
        (far,) = far_nic.counters("far")
        with nic.program("mixed") as program:
            with pytest.raises(UsageError, match="counter far is another NIC's"):
                program.when(near >= 1).add(far)
            with pytest.raises(UsageError, match="counter far is another NIC's"):
                program.when(far >= 1).add(near)
        with pytest.raises(UsageError, match="another NIC's"):
            nic.cancel_counter(far)
    assert program.work == []
    assert other.read() == (0, 0)


@pytest.mark.parametrize("by", [-1, 1.5, 1 << 64, "1", None, True])
def test_a_ring_that_counts_no_number_rings_nothing(world: Simulation, nic: Nic, by: object) -> None:
    (counter,) = nic.counters("counter")
    stream = world.stream()
    counter.trigger_after(stream, by=2)
    with pytest.raises(UsageError, match="EINVAL"):
        counter.trigger_after(stream, by=by)  # type: ignore[arg-type]
    counter.trigger_after(stream)
    world.run_until_idle()
    assert counter.success == 3


def test_two_conditions_do_not_make_one(nic: Nic) -> None:
    a, b = nic.counters("a", "b")
    with nic.program("both") as program, pytest.raises(UsageError, match="one step has one condition"):
        program.when(a >= 1 and b >= 1).add(a)


@pytest.mark.parametrize("count", [0, -1, 1.5, "1"])
def test_the_next_count_is_in_the_future(nic: Nic, count: object) -> None:
    (a,) = nic.counters("a")
    with pytest.raises(UsageError, match="EINVAL"):
        a.next(count)  # type: ignore[arg-type]


def test_numpy_s_whole_numbers_are_thresholds(nic: Nic) -> None:
    (a,) = nic.counters("a")
    with nic.program("numpy") as program:
        program.when(a >= np.int64(5)).add(a)  # type: ignore[arg-type]
    assert program.work[0].threshold == 5


@pytest.mark.parametrize("value", [1.5, -1, "x", True])
def test_a_count_is_a_whole_number(nic: Nic, value: object) -> None:
    (a,) = nic.counters("a")
    calls: list[Any] = [a.add, a.set, partial(a.add, 0), lambda count: a.set(errors=count)]
    for call in calls:
        with pytest.raises(UsageError, match=r"a count of (successes|errors) is a whole number"):
            call(value)
    assert a.read() == (0, 0)


def test_a_count_fits_its_counter(world: Simulation) -> None:
    with Nic(world.open_nic("slingshot")) as nic:
        (a,) = nic.counters("a")
        for count in ((1 << 48, 0), (0, 128)):
            with pytest.raises(UsageError, match=r"0 to (281474976710655|127), not"):
                a.add(*count)
            with pytest.raises(UsageError, match=r"0 to (281474976710655|127), not"):
                a.set(*count)
        with pytest.raises(UsageError, match="a threshold is a whole number, 0 to 281474976710655, not"):
            a.wait(1 << 48)
        assert a.read() == (0, 0)


def test_numpy_s_whole_numbers_are_counts(world: Simulation, nic: Nic) -> None:
    (a,) = nic.counters("a")
    stream = world.stream()
    a.add(np.int64(2), np.uint8(1))  # type: ignore[arg-type]
    a.set(np.int32(3))  # type: ignore[arg-type]
    a.trigger_after(stream, by=np.int64(4))  # type: ignore[arg-type]
    a.wait(np.uint64(7), timeout_s=np.float32(1))  # type: ignore[arg-type]
    a.wait_on(stream, np.int64(7))  # type: ignore[arg-type]
    assert a.read() == (7, 1)
    assert type(a.next(np.int8(2)).threshold) is int  # type: ignore[arg-type]
    span = nic.register(nic.allocate((np.int64(4), np.int32(8)), np.uint16))  # type: ignore[arg-type]
    assert span.length_bytes == 64
    nic.post_receive(span, _connect(world, nic), wr_id=np.int64(1))  # type: ignore[arg-type]
    (handle,) = nic.arm([DeferredWork(a.index, np.int64(99), Opcode.COUNTER_ADD, target=a.index, value=1)])  # type: ignore[arg-type]
    assert nic.cancel((np.int64(handle[0]), np.uint64(handle[1])))  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout_s", ["1", -1, nan, inf, None, True])
def test_a_time_is_a_number_of_seconds(nic: Nic, timeout_s: object) -> None:
    (a,) = nic.counters("a")
    a.add()
    calls: list[Any] = [partial(a.wait, 1), partial(a.wait, 9), partial(nic.completions.wait, 1), nic.receive]
    for call in calls:
        with pytest.raises(UsageError, match="timeout_s is a number of seconds, 0 to 1,000,000,000, not"):
            call(timeout_s=timeout_s)
    a.wait(1, timeout_s=0)
    with pytest.raises(TimeoutError, match="counter a is at 1 after 0 s, not at 9"):
        a.wait(9, timeout_s=0)


@pytest.mark.parametrize("threshold", [-1, 1.5, "1", True, None])
def test_a_wait_is_for_a_whole_number(nic: Nic, threshold: object) -> None:
    (a,) = nic.counters("a")
    calls: list[Any] = [a.wait, lambda count: a >= count, a.next]
    for call in calls:
        with pytest.raises(UsageError, match="is a whole number"):
            call(threshold)


def test_a_refusal_says_which_operation_and_why(world: Simulation) -> None:
    with Nic(world.open_nic("slingshot")) as nic:
        (a,) = nic.counters("a")
        span = nic.register(nic.allocate((64,)))
        with nic.program("wrong for Cassini") as program:
            program.when(a >= 1).add(a)
            program.when(a >= 5).receive(span, _connect(world, nic))
        with pytest.raises(
            UsageError, match=r"2 operations cannot be armed; nothing was \(error \[R21\] step 1"
        ):
            program.arm()
        with nic.program("nobody's queue pair") as program:
            program.when(a >= 0).receive(span, 77)
        said = r"1 operation cannot be armed; nothing was \(step 0: queue pair 77 is closed, or another's"
        with pytest.raises(UsageError, match=said):
            program.arm()


def test_a_closed_counter_is_not_taken_for_the_one_that_has_its_number_now(nic: Nic) -> None:
    (a,) = nic.counters("a")
    with nic.program("late") as program:
        program.when(a >= 1).add(a)
    a.close()
    (b,) = nic.counters("b")
    assert b.index == a.index
    with pytest.raises(UsageError, match="program late: counter a was closed"):
        program.arm()
    with pytest.raises(UsageError, match="program late: counter a was closed"):
        program.window(1)
    for call in (a.add, lambda: a.set(1), a.read, lambda: a.wait(1), a.close, lambda: a.overflow):
        with pytest.raises(UsageError, match="counter a was closed"):
            call()
    assert b.read() == (0, 0)


def test_nothing_is_written_about_a_counter_that_was_closed(nic: Nic) -> None:
    a, b = nic.counters("a", "b")
    before, local = a >= 1, nic.register(nic.allocate((64,)))
    a.close()
    (heir,) = nic.counters("heir")
    assert heir.index == a.index
    with nic.program("late") as program:
        calls: list[Callable[[], object]] = [
            lambda: a >= 1,
            lambda: program.when(before),
            lambda: program.when(b >= 1).add(a),
            lambda: program.when(b >= 1).receive(local, 1, then=a),
            lambda: nic.cancel_counter(a),
            lambda: nic.register(nic.allocate((8,)), a),
        ]
    for call in calls:
        with pytest.raises(UsageError, match="counter a was closed"):
            call()
    with pytest.raises(UsageError, match="counter a was closed"):
        program.when(Granularity.layers(2).condition(a, 0))
    assert program.work == []


def test_work_for_a_queue_pair_that_was_disconnected_is_not_armed(world: Simulation, nic: Nic) -> None:
    (a,) = nic.counters("a")
    world.nics["far"].load_firmware(Registry(connect=lambda card, connection: {}), world.clock.now_ns())
    peer, span = nic.connect("far"), nic.register(nic.allocate((8,)))
    with nic.program("late") as program:
        program.when(a >= 9).add(a)
        program.when(a >= 1).write(span, peer.span(0, 8, 1))
    nic.disconnect(peer)
    said = rf"2 operations cannot be armed; nothing was \(step 1: queue pair {peer.qp_num} is closed"
    for arm in (program.arm, lambda: program.window(1)):
        with pytest.raises(UsageError, match=said):
            arm()


def test_an_event_that_was_never_opened_is_not_armed(nic: Nic) -> None:
    (a,) = nic.counters("a")
    with nic.program("events") as program:
        program.when(a >= 1).event(nic.event("known"))
        program.when(a >= 1).event(4242)
    with pytest.raises(UsageError, match=r"step 1: event 4242 is not open; nic\.event\(name\)"):
        program.arm()


def test_a_closed_nic_arms_nothing_however_long_the_program_is(nic: Nic) -> None:
    nic.counters("a")
    nic.close()
    for calls in (
        lambda: nic.arm([_ADD, _ADD]),
        lambda: nic.arm_window([_ADD], 1),
        lambda: nic.post(1, _SEND),
    ):
        with pytest.raises(UsageError, match="near was closed; open it again"):
            calls()


def test_a_unit_compares_greater_or_equal_and_nothing_else(nic: Nic) -> None:
    a, b = nic.counters("a", "b")
    calls: list[Any] = [lambda: a > 3, lambda: a < 3, lambda: a <= 3, lambda: a > 3]
    for call in calls:
        with pytest.raises(UsageError, match="write `a >= 3`"):
            call()
    both: list[Any] = [lambda: (a >= 1) & (b >= 1), lambda: (a >= 1) | (b >= 1)]
    for call in both:
        with pytest.raises(UsageError, match=r"let each add to a third counter.*when\(both >= 2\)"):
            call()
    with pytest.raises(UsageError, match="a threshold is a whole number, 0 or more, of 64 bits"):
        a >= 1 << 64  # noqa: B015


def test_a_write_back_needs_one_count_more_than_its_operation(world: Simulation) -> None:
    with Nic(world.open_nic("slingshot")) as nic:
        (a,) = nic.counters("a")
        with (
            nic.program("last") as program,
            pytest.raises(UsageError, match=r"write_back=True takes an entry"),
        ):
            program.when(a >= (1 << 48) - 1).send(_SPAN, 1, write_back=True)
        assert program.work == []


def test_a_wait_that_finds_no_slot_says_that_it_takes_one(world: Simulation) -> None:
    with Nic(world.open_nic("slingshot")) as nic:
        (a,) = nic.counters("a")
        a.add()
        nic.arm([DeferredWork(a.index, 9, Opcode.COUNTER_ADD, target=a.index, value=1)] * nic.slots_free)
        a.wait(1)
        with pytest.raises(
            TriggerTableFull, match="a wait takes a trigger slot with cassini, and none is free"
        ):
            a.wait(2)


def test_windows_are_closed_also_where_armed_work_cannot_be_cancelled_by_itself(world: Simulation) -> None:
    with Nic(world.open_nic("slingshot")) as nic:
        (a,) = nic.counters("a")
        with nic.program("both ways") as program:
            program.when(a >= 5).add(a)
        program.arm()
        program.window(1)
        with pytest.raises(Unsupported, match=r"cancel all with nic\.flush\(\)"):
            program.cancel()
        assert nic.flush() == 1, "what the window had was left"


def test_a_counter_of_another_handle_of_one_nic_is_said_to_be_that(world: Simulation, nic: Nic) -> None:
    (a,) = nic.counters("a")
    with Nic(world.open_nic("near")) as again:
        (b,) = again.counters("b")
        with (
            nic.program("mixed") as program,
            pytest.raises(UsageError, match="b is of another handle of near"),
        ):
            program.when(a >= 1).add(b)


def test_counters_are_allocated_all_or_none() -> None:
    world = Simulation([NicConfig("small", "127.0.1.1", limits=Limits(counter_count=4))])
    with Nic(world.open_nic("small")) as nic:
        with pytest.raises(UsageError, match="a counter's name is text, not 3"):
            nic.counters("a", 3)  # type: ignore[arg-type]
        with pytest.raises(ResourceError, match=r"all 4 counters are in use.*ENOSPC"):
            nic.counters("a", "b", "c", "d")
        assert [counter.index for counter in nic.counters("a", "b", "c")] == [1, 2, 3]


def test_a_step_without_an_operation_is_not_armed(nic: Nic) -> None:
    go, done = nic.counters("go", "done")
    with nic.program("two steps") as program:
        program.when(go >= 1).add(done)
        program.when(go >= 2)
    said = r"program two steps: there is no operation at step 1, when\(go >= 2\)"
    with pytest.raises(UsageError, match=said):
        program.arm()
    with pytest.raises(UsageError, match=said):
        program.window(1)
    go.add(2)
    assert done.read() == (0, 0)


def _connect(world: Simulation, nic: Nic) -> int:
    """Return a queue pair to "far", whose firmware takes any."""
    world.nics["far"].load_firmware(Registry(connect=lambda card, connection: {}), world.clock.now_ns())
    return nic.connect("far").qp_num


def test_a_write_moves_as_many_bytes_as_there_are_at_both_ends(world: Simulation, nic: Nic) -> None:
    local, remote = nic.register(nic.allocate((64,))), RemoteSpan(_connect(world, nic), 0x9000, 32, 1)
    with pytest.raises(UsageError, match="64 local bytes, 32 remote bytes; they must be equal"):
        nic.write(local, remote)
    with pytest.raises(UsageError, match="1 local byte, 32 remote bytes; they must be equal"):
        nic.write(local[:1], remote)
    assert nic.connected_peers() == ["far"], "nothing was posted that could fail"


def test_memory_is_registered_before_it_is_named(world: Simulation, nic: Nic) -> None:
    memory = nic.allocate((64,))
    span, remote = nic.register(memory), RemoteSpan(_connect(world, nic), 0x9000, 64, 1)
    for local in (memory, memory.array, bytearray(64)):
        with pytest.raises(UsageError, match="is no registered local memory"):
            nic.write(local, remote)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="local memory is named first, the peer's second"):
        nic.write(remote, span)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="signaled is True or False"):
        nic.write(span, remote, signaled="no")  # type: ignore[arg-type]
    assert nic.connected_peers() == ["far"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda nic: nic.register("x"), r"'x' is no memory that can be registered .* nic\.allocate"),
        (lambda nic: nic.register(np.zeros(8)), "is no memory that can be registered"),
        (lambda nic: nic.register(nic.allocate((8,)), "a"), "'a' is no counter"),
        (lambda nic: nic.deregister(7), "7 is no registered local memory"),
        (lambda nic: nic.allocate("x"), "each side of a shape is a whole number"),
        (lambda nic: nic.allocate((8, -1)), "each side of a shape is a whole number, .* not -1"),
        (lambda nic: nic.allocate((0,)), "memory holds bytes, at least one"),
        (lambda nic: nic.allocate((8,), object), "memory holds bytes"),
        (lambda nic: nic.allocate((8,), "no such"), "'no such' is no dtype"),
        (lambda nic: nic.allocate((8,), kind=3), "kind is text"),
        (lambda nic: nic.allocate((8,)).view("r", 3), "a view is of a span"),
        (lambda nic: nic.arm(["x"]), "step 0: 'x' is no DeferredWork"),
        (lambda nic: nic.arm("x"), "arm takes a list of DeferredWork, not 'x'"),
        (lambda nic: nic.arm(None), "arm takes a list of DeferredWork, not None"),
        (lambda nic: nic.arm([DeferredWork(1, 1, cast(Any, 16))]), "is no DeferredWork with an Opcode"),
        (
            lambda nic: nic.arm([DeferredWork(1, 1, Opcode.SEND, cast(Any, "x"))]),
            "step 0: 'x' is no WorkRequest",
        ),
        (lambda nic: nic.arm([DeferredWork(1, 1, Opcode.SEND, _SEND, 1 << 32)]), "step 0: qp_num is a whole"),
        (lambda nic: nic.arm_window([_ADD], 0), "the size of a window is a whole number"),
        (lambda nic: nic.cancel_window("x"), "the number of a window is a whole number"),
        (lambda nic: nic.post(9, _SEND), r"work for queue pair 9 \(it is closed, or another's\) was refused"),
        (lambda nic: nic.post_receive(_SPAN, 9), r"a receive of queue pair 9 \(it is closed, or another's\)"),
        (lambda nic: nic.post(1, "x"), "request 0: 'x' is no WorkRequest"),
        (lambda nic: nic.post("1"), "qp_num is a whole number"),
        (lambda nic: nic.post_receive("x", 1), "'x' is no registered local memory"),
        (lambda nic: nic.cancel("x"), r"'x' is no handle .* nic\.arm"),
        (lambda nic: nic.cancel(("a", 1)), "each number of a handle is a whole number"),
        (lambda nic: nic.cancel_counter("x"), "'x' is no counter"),
        (lambda nic: nic.event(3), "an event's name is text"),
        (lambda nic: nic.connect(3), "a peer's name is text"),
        (lambda nic: nic.connect("far", slots="2"), "slots is a whole number"),
        (lambda nic: nic.disconnect("far"), "'far' is no Peer"),
        (lambda nic: nic.transmit("x"), "a frame is bytes"),
        (lambda nic: nic.transmit(b"x"), "a frame of 1 byte; the transmit ring takes 14"),
        (lambda nic: nic.post_landing(0, "x"), "'x' is no registered local memory"),
        (lambda nic: nic.completions.poll(-1), "the limit of a poll is a whole number"),
        (lambda nic: nic.completions.wait(1025), "how many completions is a whole number, 1 to 1024"),
        (lambda nic: nic.counters("a", remote="no"), "remote is True or False"),
        (lambda nic: nic.counters("a")[0].trigger_after("x"), "'x' is no stream"),
        (lambda nic: nic.counters("a")[0].trigger_after(SimpleNamespace(store=1, wait_value=2)), "no stream"),
        (lambda nic: nic.counters("a")[0].wait_on(None, 1), r"None is no stream .* CudaStream\(stream\)"),
        (lambda nic: nic.counters("a")[0].follow("x"), "'x' is no registered local memory"),
        (lambda nic: nic.counters("a")[0].close(force="yes"), "force is True or False"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(nic: Nic, call: Callable[[Nic], object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        call(nic)


@pytest.mark.parametrize("size", [0, -1, 1.5, "1", True])
def test_a_window_holds_an_operation_at_least(nic: Nic, size: object) -> None:
    (a,) = nic.counters("a")
    with nic.program("window") as program:
        program.when(a >= 0).add(a)
    with pytest.raises(UsageError, match="the size of a window is a whole number, 1 or more"):
        program.window(size)  # type: ignore[arg-type]
    assert a.read() == (0, 0)


def test_a_counter_at_its_maximum_has_overflowed_until_it_is_closed(world: Simulation) -> None:
    with Nic(world.open_nic("slingshot")) as nic:
        full, other = nic.counters("full", "other")
        full.set((1 << 48) - 1)
        assert not full.overflow, "it is at its maximum, and nothing was lost"
        full.add()
        assert (full.overflow, full.success, other.overflow) == (True, (1 << 48) - 1, False)
        full.set(0)
        assert full.overflow
        full.close()
        (again,) = nic.counters("again")
        assert (again.index, again.overflow) == (full.index, False)


def test_a_closed_stream_takes_no_work_and_waits_for_nobody() -> None:
    stream = HostStream()
    stream.close()
    stream.close()
    for call in (stream.synchronize, lambda: stream.submit(int), lambda: stream.launch("kernel")):
        with pytest.raises(UsageError, match="the stream is closed"):
            call()


def test_memory_that_cannot_be_had_is_refused(nic: Nic) -> None:
    with pytest.raises(ResourceError, match=f"{1 << 50} bytes of memory cannot be had: .*ENOMEM"):
        nic.allocate((1 << 50,))
