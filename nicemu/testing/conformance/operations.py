# SPDX-License-Identifier: Apache-2.0
"""Cases of what fires: writes, reads, sends, receives, atomics, counter operations, and how they end.

Source: fi_trigger(3), DEFERRED WORK QUEUES; fi_atomic(3); fi_cq(3).
"""

from __future__ import annotations

from collections.abc import Callable

from nicemu.abi import AtomicOperation, Step, TargetCounter
from nicemu.errors import VerbsStatus

from .bench import Bench, poll, poll_counter, rest
from .case import case

U64_MAX = (1 << 64) - 1


def _word(memory: memoryview, place: int = 0) -> int:
    return int.from_bytes(memory[place : place + 8], "little")


def _pattern(length: int, seed: int) -> bytes:
    return bytes((seed + place * 7) & 0xFF for place in range(256)) * (length // 256 + 1)


def _entries(bench: Bench) -> list[VerbsStatus]:
    return [entry.status for entry in bench.nic.take_completions()]


@case("R28", "R22", "C3")
def a_write_counts_once_and_tells_if_asked(bench: Bench) -> None:
    """A deferred write of 12345 bytes: nothing before, all bytes after, one count, an entry only if asked."""

    def step(step: Step, done: TargetCounter, signaled: bool) -> None:
        step.write(bench.local[0:12345], bench.remote[0:12345], then=done, signaled=signaled)

    _moves(bench, step, bench.local_bytes, bench.remote_bytes)


@case("R28", "R22", "C3")
def a_read_counts_once_and_tells_if_asked(bench: Bench) -> None:
    """A deferred read of 12345 bytes: nothing before, all bytes after, one count, an entry only if asked."""

    def step(step: Step, done: TargetCounter, signaled: bool) -> None:
        step.read(bench.local[0:12345], bench.remote[0:12345], then=done, signaled=signaled)

    _moves(bench, step, bench.remote_bytes, bench.local_bytes)


def _moves(
    bench: Bench, step: Callable[[Step, TargetCounter, bool], None], source: memoryview, target: memoryview
) -> None:
    for seed, signaled in enumerate((False, True)):
        trigger, done = bench.nic.counters("trigger", "done")
        data = _pattern(12345, seed + 1)[:12345]
        source[0:12345] = data
        before = bytes(target[0:12345])
        with bench.nic.program("move") as program:
            step(program.when(trigger >= 54321), done, signaled)
        program.arm()
        trigger.add(54320)
        rest(bench)
        assert bytes(target[0:12345]) == before
        trigger.add()
        poll_counter(bench, done, 1)
        poll(bench, lambda: bytes(target[0:12345]), data)
        poll(bench, lambda: trigger.read(), (54321, 0))  # noqa: B023
        rest(bench)
        assert _entries(bench) == [VerbsStatus.SUCCESS] * signaled


@case("R22", "R28", "C1")
def a_send_arrives_when_its_counter_gets_there(bench: Bench) -> None:
    """Sends of 1 KiB and 1 MiB arrive when their counter gets there, and count; an entry if asked."""
    for length in (1 << 10, 1 << 20):
        for signaled in (False, True):
            (counter,) = bench.nic.counters("trigger and completion")
            data = _pattern(length, length + signaled)[:length]
            bench.local_bytes[0:length] = data
            landed = bench.peer_receive(length)
            with bench.nic.program("send") as program:
                step = program.when(counter >= 123546)
                step.send(bench.local[0:length], bench.remote.qp_num, then=counter, signaled=signaled)
            program.arm()
            counter.add(123545)
            rest(bench)
            assert not any(landed[0:length])
            counter.add()
            poll_counter(bench, counter, 123547)
            poll(bench, lambda: bytes(landed[0:length]) == data, True)  # noqa: B023
            rest(bench)
            assert _entries(bench) == [VerbsStatus.SUCCESS] * signaled


@case("R28", "C13")
def ten_writes_count_ten(bench: Bench) -> None:
    """Ten writes count ten at their counter and leave no entry; reads and sends count at their own."""
    trigger, written, read, sent = bench.nic.counters("trigger", "written", "read", "sent")
    landed = [bench.peer_receive(64) for _ in range(3)]
    with bench.nic.program("each its own") as program:
        for _ in range(10):
            program.when(trigger >= 1).write(bench.local[0:64], bench.remote[0:64], then=written)
        for _ in range(5):
            program.when(trigger >= 1).read(bench.local[64:128], bench.remote[64:128], then=read)
        for _ in landed:
            program.when(trigger >= 1).send(bench.local[0:64], bench.remote.qp_num, then=sent)
    program.arm()
    trigger.add()
    for counter, count in ((written, 10), (read, 5), (sent, 3)):
        poll_counter(bench, counter, count)
    rest(bench)
    assert _entries(bench) == []
    assert trigger.read() == (1, 0)


@case("R28", "C4")
def atomics_change_the_peer_s_word(bench: Bench) -> None:
    """A sum, a fetching sum and a compare-and-swap: the peer's word, the old value, one count each."""
    for signaled in (False, True):
        trigger, done = bench.nic.counters("trigger", "done")
        bench.remote_bytes[0:8] = (1000).to_bytes(8, "little")
        place = bench.remote[0:8]
        with bench.nic.program("atomics") as program:
            program.when(trigger >= 1).atomic(AtomicOperation.SUM, place, 5, then=done, signaled=signaled)
            program.when(trigger >= 2).fetch_add(bench.local[0:8], place, 10, then=done, signaled=signaled)
            step = program.when(trigger >= 3)
            step.compare_swap(bench.local[8:16], place, 1015, 77, then=done, signaled=signaled)
            step = program.when(trigger >= 4)
            step.compare_swap(bench.local[16:24], place, 1015, 88, then=done, signaled=signaled)
        program.arm()
        for count, expected in enumerate((1005, 1015, 77, 77), start=1):
            trigger.add()
            poll_counter(bench, done, count)
            poll(bench, lambda: _word(bench.remote_bytes), expected)
        assert [_word(bench.local_bytes, place) for place in (0, 8, 16)] == [1005, 1015, 77]
        rest(bench)
        assert _entries(bench) == [VerbsStatus.SUCCESS] * 4 * signaled


def _results(old: int, operand: int) -> dict[AtomicOperation, int]:
    return {
        AtomicOperation.SUM: (old + operand) & U64_MAX,
        AtomicOperation.AND: old & operand,
        AtomicOperation.OR: old | operand,
        AtomicOperation.XOR: old ^ operand,
        AtomicOperation.MIN: min(old, operand),
        AtomicOperation.MAX: max(old, operand),
        AtomicOperation.SWAP: operand,
    }


@case("R28", "C4", "C20")
def every_atomic_does_what_its_name_says(bench: Bench) -> None:
    """Sum, and, or, xor, min, max and swap, with and without the old value, on unsigned words."""
    for old, operand in ((0xF0F0, 0x0FF1), (U64_MAX - 2, 7)):
        for operation, expected in _results(old, operand).items():
            for fetches in (False, True):
                trigger, done = bench.nic.counters("trigger", "done")
                bench.remote_bytes[0:8] = old.to_bytes(8, "little")
                bench.local_bytes[0:8] = bytes(8)
                with bench.nic.program(operation.name) as program:
                    fetched = bench.local[0:8] if fetches else None
                    step = program.when(trigger >= 1)
                    step.atomic(operation, bench.remote[0:8], operand, old=fetched, then=done)
                program.arm()
                trigger.add()
                poll_counter(bench, done, 1)
                poll(bench, lambda: _word(bench.remote_bytes), expected)
                assert _word(bench.local_bytes) == (old if fetches else 0)
                trigger.close()
                done.close()


@case("R5", "R30", "C5")
def counter_operations_change_another_counter(bench: Bench) -> None:
    """A deferred add of 123456 to 1 gives 123457, a set gives 123456; their trigger stays at 1234."""
    trigger, added, replaced = bench.nic.counters("trigger", "added", "replaced")
    added.set(1, 1)
    replaced.set(1, 1)
    with bench.nic.program("two") as program:
        program.when(trigger >= 1234).add(added, 123456)
        program.when(trigger >= 1234).set(replaced, 123456)
    program.arm()
    trigger.add(1234)
    poll_counter(bench, added, 123457, 1)
    poll_counter(bench, replaced, 123456, 1)
    assert trigger.read() == (1234, 0)


@case("R25", "R30", "C20")
def a_set_and_an_add_at_one_threshold_are_both_seen(bench: Bench) -> None:
    """A set to 5 and then an add of 5 at one threshold give 10."""
    trigger, target = bench.nic.counters("trigger", "target")
    target.set(success=1000)
    with bench.nic.program("set, add") as program:
        program.when(trigger >= 1).set(target, 5)
        program.when(trigger >= 1).add(target, 5)
    program.arm()
    trigger.add()
    poll_counter(bench, target, 10)


@case("R28", "R14", "C6")
def a_receive_at_threshold_0_is_posted_at_once(bench: Bench) -> None:
    """A deferred receive at threshold 0 is a posted receive, and counts the message that lands in it."""
    _receives(bench, 0)


@case("R28", "R22", "C6")
def a_receive_is_posted_when_its_counter_gets_there(bench: Bench) -> None:
    """A deferred receive is posted when its counter gets there, and counts the message that lands in it."""
    _receives(bench, 3)


def _receives(bench: Bench, threshold: int) -> None:
    trigger, done = bench.nic.counters("trigger", "done")
    with bench.nic.program("receive") as program:
        program.when(trigger >= threshold).receive(bench.local[0:256], bench.remote.qp_num, then=done)
    program.arm()
    trigger.add(threshold)
    rest(bench)
    assert done.read() == (0, 0)
    bench.peer_send(b"r" * 200)
    poll_counter(bench, done, 1)
    poll(bench, lambda: bytes(bench.local_bytes[0:256]), b"r" * 200 + bytes(56))
    rest(bench)
    assert done.read() == (1, 0)


@case("R28")
def two_pieces_are_gathered_and_scattered(bench: Bench) -> None:
    """A write gathers two local pieces, a read scatters into two."""
    trigger, done = bench.nic.counters("trigger", "done")
    bench.local_bytes[0:8], bench.local_bytes[100:104] = b"in two p", b"arts"
    with bench.nic.program("pieces") as program:
        program.when(trigger >= 1).write(
            (bench.local[0:8], bench.local[100:104]), bench.remote[0:12], then=done
        )
        program.when(done >= 1).read(
            (bench.local[200:203], bench.local[300:309]), bench.remote[0:12], then=done
        )
    program.arm()
    trigger.add()
    poll_counter(bench, done, 2)
    assert bytes(bench.remote_bytes[0:12]) == b"in two parts"
    assert bytes(bench.local_bytes[200:203]) + bytes(bench.local_bytes[300:309]) == b"in two parts"


@case("R27", "R15", "C34")
def a_failed_operation_counts_an_error_and_tells(bench: Bench) -> None:
    """A transfer that fails counts an error, not a success, and leaves an entry though none was asked for."""
    trigger, done = bench.nic.counters("trigger", "done")
    bench.local_bytes[0:64] = b"x" * 64
    with bench.nic.program("fails") as program:
        program.when(trigger >= 1).write(bench.local[0:64], bench.wrong[0:64], then=done)
    program.arm()
    trigger.add()
    poll_counter(bench, done, 0, 1)
    found: list[VerbsStatus] = []

    def entries() -> int:
        found.extend(_entries(bench))
        return len(found)

    poll(bench, entries, 1)
    assert found[0] is not VerbsStatus.SUCCESS
    assert not any(bench.remote_bytes[0:64])


@case("R27", "R22", "C34")
def what_depends_on_a_failed_operation_fires(bench: Bench) -> None:
    """What waits for the completion counter of an operation that fails fires, by the sum."""
    trigger, done, fired = bench.nic.counters("trigger", "done", "fired")
    with bench.nic.program("dependent") as program:
        program.when(trigger >= 1).write(bench.local[0:64], bench.wrong[0:64], then=done)
        program.when(done >= 1).add(fired)
    program.arm()
    trigger.add()
    poll_counter(bench, fired, 1)
    poll_counter(bench, done, 0, 1)


@case("R27", "C34", stall_on_error=True)
def where_errors_stall_what_depends_on_them_waits(bench: Bench) -> None:
    """Where errors do not count towards thresholds, what depends on a failed operation does not fire."""
    trigger, done, fired = bench.nic.counters("trigger", "done", "fired")
    with bench.nic.program("dependent") as program:
        program.when(trigger >= 1).write(bench.local[0:64], bench.wrong[0:64], then=done)
        program.when(done >= 1).add(fired)
    program.arm()
    trigger.add()
    poll_counter(bench, done, 0, 1)
    rest(bench)
    assert fired.read() == (0, 0)
    done.add()
    poll_counter(bench, fired, 1)


@case("R29")
def what_was_delivered_is_there_when_its_count_is(bench: Bench) -> None:
    """A flag written behind the completion counter of the data is never there before the data."""
    trigger, delivered, flagged = bench.nic.counters("trigger", "delivered", "flagged")
    length = 1 << 20
    data = _pattern(length, 3)[:length]
    bench.local_bytes[0:length] = data
    bench.local_bytes[length : length + 8] = b"the flag"
    with bench.nic.program("data, then flag") as program:
        flag = bench.local[length : length + 8]
        program.when(trigger >= 1).write(bench.local[0:length], bench.remote[0:length], then=delivered)
        program.when(delivered >= 1).write(flag, bench.remote[length : length + 8], then=flagged)
    program.arm()
    trigger.add()
    poll(bench, lambda: bytes(bench.remote_bytes[length : length + 8]), b"the flag")
    assert bytes(bench.remote_bytes[0:length]) == data
    poll_counter(bench, flagged, 1)


@case("R29")
def work_that_need_only_leave_counts_too(bench: Bench) -> None:
    """Writes and sends that need only have left count once, like others."""
    trigger, done = bench.nic.counters("trigger", "done")
    landed = bench.peer_receive(8)
    bench.local_bytes[0:8] = b"has left"
    with bench.nic.program("transmitted") as program:
        program.when(trigger >= 1).write(bench.local[0:8], bench.remote[0:8], then=done, transmitted=True)
        program.when(trigger >= 1).send(bench.local[0:8], bench.remote.qp_num, then=done, transmitted=True)
    program.arm()
    trigger.add()
    poll_counter(bench, done, 2)
    poll(bench, lambda: (bytes(bench.remote_bytes[0:8]), bytes(landed[0:8])), (b"has left", b"has left"))
