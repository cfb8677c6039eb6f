# SPDX-License-Identifier: Apache-2.0
"""Cases of cancelling, flushing and closing. Source: fi_trigger(3), FI_CANCEL_WORK and FI_FLUSH_WORK."""

from __future__ import annotations

from contextlib import suppress

from nicemu.abi import AtomicOperation, DeferredWork, Opcode, TargetCounter, TargetProgram
from nicemu.errors import NicemuError, VerbsStatus

from .bench import Bench, poll_counter, rest
from .case import case
from .refusal import nothing_is_armed, refused


def _add(trigger: TargetCounter, threshold: int, target: TargetCounter, value: int = 1) -> DeferredWork:
    return DeferredWork(trigger.index, threshold, Opcode.COUNTER_ADD, target=target.index, value=value)


@case("R37", "R39")
def a_cancelled_operation_never_fires(bench: Bench) -> None:
    """An operation that was cancelled never fires; the others do."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    handles = bench.nic.arm([_add(trigger, 1, fired, 10**place) for place in range(4)])
    assert bench.nic.cancel(handles[2]) is True
    assert bench.nic.cancel(handles[2]) is False, "it is gone"
    trigger.add(5)
    poll_counter(bench, fired, 1011)


@case("R37")
def cancelling_what_has_fired_changes_nothing(bench: Bench) -> None:
    """Cancelling what has fired says so; the work that took its entry since is not touched."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    (first,) = bench.nic.arm([_add(trigger, 1, fired)])
    trigger.add()
    poll_counter(bench, fired, 1)
    assert bench.nic.cancel(first) is False
    bench.nic.arm([_add(trigger, 2, fired, 10)])
    assert bench.nic.cancel(first) is False
    trigger.add()
    poll_counter(bench, fired, 11)


@case("R37", profile="cassini")
def cassini_cancels_no_single_operation(bench: Bench) -> None:
    """Under Cassini's profile a single operation cannot be cancelled; it fires."""
    _cancels_no_single_operation(bench)


@case("R37", profile="portals")
def portals_cancels_no_single_operation(bench: Bench) -> None:
    """Under Portals' profile a single operation cannot be cancelled; it fires."""
    _cancels_no_single_operation(bench)


def _cancels_no_single_operation(bench: Bench) -> None:
    trigger, fired = bench.nic.counters("trigger", "fired")
    (handle,) = bench.nic.arm([_add(trigger, 1, fired)])
    assert not bench.nic.capabilities.single_cancel
    with refused("ENOSYS"):
        bench.nic.cancel(handle)
    trigger.add()
    poll_counter(bench, fired, 1)


@case("R38", "R39", "C30")
def what_waits_for_a_counter_is_cancelled(bench: Bench) -> None:
    """Cancelling a counter's work removes all that waits for it, says how many, and nothing else."""
    trigger, other, fired = bench.nic.counters("trigger", "other", "fired")
    bench.nic.arm([_add(trigger, threshold, fired) for threshold in (2, 1, 3)])
    bench.nic.arm([_add(other, 1, fired, 100)])
    trigger.add()
    poll_counter(bench, fired, 1)
    assert bench.nic.cancel_counter(trigger) == 2
    assert bench.nic.cancel_counter(trigger) == 0
    trigger.add(10)
    other.add()
    poll_counter(bench, fired, 101)


@case("R38", profile="cassini")
def cassini_cancels_all_that_a_process_has(bench: Bench) -> None:
    """Under Cassini's profile, cancelling one counter's work cancels all that the process has armed."""
    trigger, other, fired = bench.nic.counters("trigger", "other", "fired")
    bench.nic.arm([_add(trigger, 1, fired), _add(other, 1, fired)])
    assert bench.nic.cancel_counter(trigger) == 2
    other.add()
    rest(bench)
    assert fired.read() == (0, 0)


@case("R38", "C30")
def what_is_not_there_cannot_be_cancelled(bench: Bench) -> None:
    """Cancelling by a handle or for a counter that is not there does nothing but say so."""
    trigger, gone, fired = bench.nic.counters("trigger", "gone", "fired")
    bench.nic.arm([_add(trigger, 1, fired)])
    gone.close()
    with refused("EINVAL"):
        bench.nic.cancel_counter(gone)
    for handle in ((12345, 1), (0, 1 << 40)):
        assert bench.nic.cancel(handle) is False
    trigger.add()
    poll_counter(bench, fired, 1)


@case("R38", "R42")
def a_flush_takes_the_work_of_one_process(bench: Bench) -> None:
    """A flush removes all that this process has armed, and leaves other processes' work alone."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    with bench.another() as other:
        its, counted = other.counters("its", "counted")
        other.arm([_add(its, 1, counted)])
        bench.nic.arm([_add(trigger, 1, fired)] * 5)
        assert bench.nic.flush() == 5
        assert bench.nic.flush() == 0
        its.add()
        poll_counter(bench, counted, 1)
    trigger.add()
    rest(bench)
    assert fired.read() == (0, 0)


def _twelve(bench: Bench, trigger: TargetCounter, done: TargetCounter) -> TargetProgram:
    """Return a program of sends, reads, counter sets and atomics at thresholds 12345 to 12356."""
    with bench.nic.program("twelve") as program:
        for number in range(12):
            step = program.when(trigger >= 12345 + number)
            old, place = bench.local[0:8], bench.remote[0:8]
            if number < 3:
                step.send(old, bench.remote.qp_num, then=done, signaled=True)
            elif number < 6:
                step.read(old, place, then=done, signaled=True)
            elif number < 9:
                step.set(done, 1000)
            else:
                step.atomic(AtomicOperation.SUM, place, 1, then=done, signaled=True)
    return program


@case("R39", "R38", "C2")
def after_a_flush_nothing_happens(bench: Bench) -> None:
    """After a flush of sends, reads, sets and atomics a count fires none: no entry, no count, no byte."""
    trigger, done = bench.nic.counters("trigger", "done")
    landed = [bench.peer_receive(8) for _ in range(3)]
    bench.local_bytes[0:8] = b"flushed!"
    _twelve(bench, trigger, done).arm()
    assert bench.nic.flush() == 12
    trigger.add(12357)
    rest(bench)
    assert (trigger.read(), done.read()) == ((12357, 0), (0, 0))
    assert bench.nic.take_completions() == []
    assert not any(bench.remote_bytes[0:8])
    assert bytes(bench.local_bytes[0:8]) == b"flushed!"
    assert not any(any(place) for place in landed)


@case("R39")
def what_was_cancelled_can_be_armed_again(bench: Bench) -> None:
    """A program that was cancelled can be armed again, and fires; what had fired is not cancelled."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    with bench.nic.program("again") as program:
        program.when(trigger >= 1).add(fired)
        program.when(trigger >= 2).add(fired, 10)
    program.arm()
    trigger.add()
    poll_counter(bench, fired, 1)
    assert program.cancel() == 1
    assert program.cancel() == 0
    trigger.set(success=0)
    program.arm()
    trigger.add(2)
    poll_counter(bench, fired, 12)


@case("R40", "C43")
def a_counter_that_work_concerns_is_not_closed(bench: Bench) -> None:
    """A counter that triggers work, counts its end or is its target is closed only when that is gone."""
    trigger, done, target, free = bench.nic.counters("trigger", "done", "target", "free")
    with bench.nic.program("two") as program:
        program.when(trigger >= 1).write(bench.local[0:8], bench.remote[0:8], then=done)
        program.when(trigger >= 1).add(target)
    program.arm()
    for counter in (trigger, done, target):
        with refused("EBUSY"):
            counter.close()
    free.close()
    trigger.add()
    poll_counter(bench, done, 1)
    poll_counter(bench, target, 1)
    for counter in (trigger, done, target):
        counter.close()


@case("R40", "C43")
def a_counter_closed_by_force_takes_its_work_along(bench: Bench) -> None:
    """Closing a counter by force cancels what it triggers and what aims at it, and nothing else."""
    trigger, done, other = bench.nic.counters("trigger", "done", "other")
    bench.nic.arm([_add(trigger, 1, done), _add(other, 1, trigger), _add(other, 1, done, 10)])
    trigger.close(force=True)
    other.add()
    poll_counter(bench, done, 10)
    nothing_is_armed(bench)
    (fresh,) = bench.nic.counters("fresh")
    assert fresh.read() == (0, 0)


@case("R40")
def a_closed_counter_is_gone(bench: Bench) -> None:
    """A counter that was closed cannot be counted, and its number starts again at 0."""
    (counter,) = bench.nic.counters("counter")
    counter.add(5, 1)
    counter.close()
    with refused("EINVAL"):
        counter.add()
    (fresh,) = bench.nic.counters("fresh")
    assert fresh.read() == (0, 0)


@case("R41", "R27", "C43", inside=True)
def memory_that_work_uses_is_given_back_only_by_force(bench: Bench) -> None:
    """A key that armed work uses is taken back only by force; the work then fails, and moves nothing."""
    assert bench.inside is not None
    nic = bench.inside.nic
    trigger, done = bench.nic.counters("trigger", "done")
    memory = nic.allocate((4096,))
    memory.array[:] = 7
    span = nic.register(memory)
    with bench.nic.program("write, read") as program:
        program.when(trigger >= 1).write(span, bench.remote[0:4096], then=done)
    program.arm()
    with refused("EBUSY"):
        nic.deregister(span)
    nic.deregister(span, force=True)
    trigger.add()
    poll_counter(bench, done, 0, 1)
    (entry,) = bench.nic.take_completions()
    assert entry.status is VerbsStatus.LOC_PROT_ERR
    assert not any(bench.remote_bytes[0:4096])


@case("R41", inside=True)
def memory_is_given_back_when_its_work_is_over(bench: Bench) -> None:
    """A key is taken back freely once the work that used it has fired or was cancelled."""
    assert bench.inside is not None
    nic = bench.inside.nic
    trigger, done = bench.nic.counters("trigger", "done")
    for end in ("fire", "cancel"):
        span = nic.register(nic.allocate((64,)))
        with bench.nic.program(end) as program:
            program.when(trigger >= 1).read(span, bench.remote[0:64], then=done)
        program.arm()
        trigger.add() if end == "fire" else bench.nic.flush()
        rest(bench)
        nic.deregister(span)
        trigger.set(success=0)
    assert done.read() == (1, 0)


@case("R42", "R39")
def closing_a_nic_cancels_what_the_process_has_armed(bench: Bench) -> None:
    """Closing a NIC cancels what the process has armed; entries and counters are there for others again."""
    with bench.another() as other:
        its, counted = other.counters("its", "counted")
        other.arm([_add(its, 1, counted)] * 10)
    for use in (its.add, its.read):
        with suppress(NicemuError):  # whatever it says, it changes nothing
            use()
    rest(bench)
    assert bench.nic.flush() == 0
    trigger, fired = bench.nic.counters("trigger", "fired")
    bench.nic.arm([_add(trigger, 1, fired)])
    trigger.add()
    poll_counter(bench, fired, 1)
