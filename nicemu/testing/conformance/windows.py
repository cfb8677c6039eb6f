# SPDX-License-Identifier: Apache-2.0
"""Cases of programs that are armed a window at a time: what is not armed yet is work of theirs all the same.

Source: fi_trigger(3), FI_CANCEL_WORK and FI_FLUSH_WORK; the window is nicemu's own.
"""

from __future__ import annotations

from collections.abc import Callable

from nicemu.abi import RemoteSpan, TargetCounter, TargetProgram
from nicemu.errors import VerbsStatus
from nicemu.host import Peer

from .bench import Bench, poll, poll_counter, rest
from .case import case
from .inside import Inside
from .refusal import nothing_is_armed, refused

OPERATIONS = 12
SIZE = 3


def _opened(bench: Bench, trigger: TargetCounter, fired: TargetCounter) -> TargetProgram:
    """Return a program that counts at `fired` at 1, 2, 3, ..., of which a window is armed."""
    with bench.nic.program("a window") as program:
        for number in range(OPERATIONS):
            program.when(trigger >= number + 1).add(fired)
    program.window(SIZE)
    return program


def _moves(bench: Bench, trigger: TargetCounter, done: TargetCounter) -> TargetProgram:
    """Return a program of four writes, of which the first is armed."""
    with bench.nic.program("four writes") as program:
        for number in range(4):
            place = slice(8 * number, 8 * number + 8)
            program.when(trigger >= number + 1).write(bench.local[place], bench.remote[place], then=done)
    program.window(1)
    return program


def _another_peer(inside: Inside) -> tuple[Peer, RemoteSpan]:
    """Connect once more; return the peer, and memory of its."""
    peer = inside.nic.connect("there", length_bytes=64)
    data = peer.private_data
    return peer, peer.span(data["address"], 64, data["rkey"])


def _what_fired_and_what_was_cancelled_is_the_program(
    bench: Bench, cancel: Callable[[TargetProgram, TargetCounter], int], settled: bool
) -> None:
    for counted in range(OPERATIONS + 2):
        trigger, fired = bench.nic.counters("trigger", "fired")
        program = _opened(bench, trigger, fired)
        for _ in range(counted):
            trigger.add()
            if settled:
                rest(bench)
        cancelled = cancel(program, trigger)
        poll(bench, lambda: fired.read()[0] + cancelled, OPERATIONS)  # noqa: B023 - it is asked at once
        trigger.add(OPERATIONS)
        rest(bench)
        assert fired.read() == (OPERATIONS - cancelled, 0), f"cancelled {cancelled} after {counted} counts"
        assert cancel(program, trigger) == 0
        nothing_is_armed(bench)
        trigger.close()
        fired.close()


@case("R37", "R39", "R23")
def what_fires_of_a_window_and_what_is_cancelled_is_all_of_it(bench: Bench) -> None:
    """Whenever a program is cancelled that is armed by a window, each operation fires or is cancelled."""
    for settled in (False, True):
        _what_fired_and_what_was_cancelled_is_the_program(bench, lambda one, _: one.cancel(), settled)


@case("R38", "R39", "R23")
def a_flush_takes_what_a_window_has_not_armed(bench: Bench) -> None:
    """Whenever a process flushes, each operation of a program armed by a window fires or is flushed."""
    for settled in (False, True):
        _what_fired_and_what_was_cancelled_is_the_program(bench, lambda _, __: bench.nic.flush(), settled)


@case("R38", "R39", "R23")
def a_counter_s_work_is_cancelled_in_windows_too(bench: Bench) -> None:
    """Whenever a counter's work is cancelled, that takes what a window would arm behind it, and no more."""
    for settled in (False, True):
        _what_fired_and_what_was_cancelled_is_the_program(
            bench, lambda _, trigger: bench.nic.cancel_counter(trigger), settled
        )
    first, second, fired = bench.nic.counters("first", "second", "fired")
    with bench.nic.program("two counters") as program:
        for number in range(OPERATIONS):
            program.when((second if number % 2 else first) >= 1).add(fired, 1 if number % 2 else 100)
    program.window(SIZE)
    assert bench.nic.cancel_counter(first) == OPERATIONS // 2
    first.add()
    second.add()
    poll_counter(bench, fired, OPERATIONS // 2)
    nothing_is_armed(bench)


@case("R39", "R20")
def a_window_that_was_cancelled_can_be_opened_again(bench: Bench) -> None:
    """A program whose window was cancelled is armed again, whole or by a window, and fires once."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    program = _opened(bench, trigger, fired)
    assert program.cancel() == OPERATIONS
    program.window(1)
    assert program.cancel() == OPERATIONS
    program.arm()
    trigger.add(OPERATIONS)
    poll_counter(bench, fired, OPERATIONS)
    assert program.cancel() == 0


@case("R40")
def a_counter_that_a_window_will_need_is_not_closed(bench: Bench) -> None:
    """A counter that an operation names which no window has armed yet is closed when that is through."""
    trigger, last, done, target = bench.nic.counters("trigger", "last", "done", "target")
    with bench.nic.program("a window") as program:
        for number in range(1, 4):
            program.when(trigger >= number).write(bench.local[0:8], bench.remote[0:8])
        program.when(last >= 1).write(bench.local[0:8], bench.remote[0:8], then=done)
        program.when(last >= 1).add(target)
    program.window(1)
    for counter in (last, done, target):
        with refused("EBUSY"):
            counter.close()
    trigger.add(3)
    last.add()
    poll_counter(bench, done, 1)
    poll_counter(bench, target, 1)
    rest(bench)
    for counter in (trigger, last, done, target):
        counter.close()


@case("R15", "R40")
def a_program_does_not_take_another_counter_for_one_that_was_closed(bench: Bench) -> None:
    """What names a closed counter is refused, also if it was written before and its number is another's."""
    for use in ("condition", "trigger", "then", "target", "window"):
        trigger, closed, done = bench.nic.counters("trigger", "closed", "done")
        condition = closed >= 1
        with bench.nic.program(use) as program:
            if use in ("trigger", "window"):
                program.when(condition).add(done)
            elif use == "then":
                program.when(trigger >= 1).write(bench.local[0:8], bench.remote[0:8], then=closed)
            elif use == "target":
                program.when(trigger >= 1).add(closed)
        closed.close()
        (fresh,) = bench.nic.counters("fresh")
        with refused("EINVAL"):
            if use == "condition":
                program.when(condition)
            elif use == "window":
                program.window(1)
            else:
                program.arm()
        trigger.add()
        fresh.add()
        rest(bench)
        assert (fresh.read(), done.read()) == ((1, 0), (0, 0)), use
        nothing_is_armed(bench)


@case("R41", "R27", inside=True)
def memory_that_a_window_will_need_is_given_back_only_by_force(bench: Bench) -> None:
    """A key that a window's operations name, armed or not yet, goes by force alone; they fail then."""
    assert bench.inside is not None
    nic = bench.inside.nic
    for forced_at in range(4):  # a failure leaves its queue pair in error: each time another one
        trigger, done, fine = bench.nic.counters("trigger", "done", "fine")
        _, remote = _another_peer(bench.inside)
        span = nic.register(nic.allocate((64,)))
        with bench.nic.program("a window") as program:
            program.when(trigger >= 1).add(fine)
            for threshold in (2, 3):
                program.when(trigger >= threshold).read(span, remote, then=done)
        program.window(1)
        if forced_at:
            trigger.add(forced_at)
            rest(bench)
        if forced_at < 3:
            with refused("EBUSY"):
                nic.deregister(span)
        nic.deregister(span, force=forced_at < 3)
        trigger.add(3)
        rest(bench)
        fetched = max(0, forced_at - 1)
        assert (done.read(), fine.read()) == ((fetched, 2 - fetched), (1, 0)), f"after {forced_at} counts"
        statuses = [entry.status for entry in bench.nic.take_completions()]
        failed = [VerbsStatus.LOC_PROT_ERR, VerbsStatus.WR_FLUSH_ERR]
        assert statuses == failed[: 2 - fetched], f"after {forced_at} counts"


@case("R41", inside=True)
def memory_is_given_back_when_its_window_is_over(bench: Bench) -> None:
    """A key is taken back freely once all of a window's operations have fired, or were cancelled."""
    assert bench.inside is not None
    nic = bench.inside.nic
    ends: dict[str, Callable[[TargetProgram, TargetCounter], object]] = {
        "fire": lambda _, trigger: trigger.add(4),
        "cancel": lambda program, _: program.cancel(),
        "flush": lambda _, __: bench.nic.flush(),
        "cancel the counter": lambda _, trigger: bench.nic.cancel_counter(trigger),
    }
    for name, end in ends.items():
        trigger, done = bench.nic.counters("trigger", "done")
        span = nic.register(nic.allocate((64,)))
        with bench.nic.program(name) as program:
            for threshold in range(1, 5):
                program.when(trigger >= threshold).read(span, bench.remote[0:64], then=done)
        program.window(2)
        with refused("EBUSY"):
            nic.deregister(span)
        end(program, trigger)
        rest(bench)
        nic.deregister(span)
        assert done.read() == (4 if name == "fire" else 0, 0), name


@case("R41", inside=True)
def a_queue_pair_that_a_window_will_need_is_left_only_by_force(bench: Bench) -> None:
    """A queue pair that a window's operations name, armed or not yet, is disconnected by force alone."""
    assert bench.inside is not None
    nic = bench.inside.nic
    for armed in (True, False):
        trigger, done = bench.nic.counters("trigger", "done")
        peer, remote = _another_peer(bench.inside)
        with bench.nic.program("a window") as program:
            if not armed:
                program.when(trigger >= 1).add(done, 100)
            for threshold in (2, 3):
                program.when(trigger >= threshold).write(bench.local[0:64], remote, then=done)
        program.window(1)
        with refused("EBUSY"):
            nic.disconnect(peer)
        if armed:
            assert program.cancel() == 2
        else:
            trigger.add(3)
            poll_counter(bench, done, 102)
            rest(bench)
        nic.disconnect(peer)
