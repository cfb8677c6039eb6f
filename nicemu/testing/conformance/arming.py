# SPDX-License-Identifier: Apache-2.0
"""Cases of arming: when it fires at once, what is checked, what is copied. Source: fi_trigger(3)."""

from __future__ import annotations

import gc
from dataclasses import replace

from nicemu.abi import DeferredWork, Finding, Opcode, Severity, Sge, WorkRequest

from .bench import Bench, poll, poll_counter, rest
from .case import case
from .refusal import nothing_is_armed, refused

DATA = (Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM, Opcode.RDMA_READ, Opcode.SEND)
ATOMICS = (Opcode.FETCH_ADD, Opcode.COMPARE_SWAP, Opcode.ATOMIC)


@case("R13", "R22")
def work_whose_threshold_is_met_fires_when_armed(bench: Bench) -> None:
    """Work whose threshold has been met or passed already fires when it is armed."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    trigger.add(3)
    with bench.nic.program("met, passed, ahead") as program:
        program.when(trigger >= 3).add(fired, 1)
        program.when(trigger >= 1).add(fired, 10)
        program.when(trigger >= 4).add(fired, 100)
    rest(bench)
    assert fired.read() == (0, 0), "a program fires only when it has been armed"
    program.arm()
    poll_counter(bench, fired, 11)
    trigger.add()
    poll_counter(bench, fired, 111)


@case("R14")
def a_threshold_of_zero_fires_when_armed(bench: Bench) -> None:
    """A threshold of 0 fires when it is armed, on a counter that nobody has touched."""
    trigger, done = bench.nic.counters("trigger", "done")
    bench.local_bytes[0:8] = b"at once!"
    with bench.nic.program("zero") as program:
        program.when(trigger >= 0).write(bench.local[0:8], bench.remote[0:8], then=done)
    program.arm()
    poll_counter(bench, done, 1)
    poll(bench, lambda: bytes(bench.remote_bytes[0:8]), b"at once!")
    assert trigger.read() == (0, 0)


def _work(bench: Bench, opcode: Opcode, trigger: int, completion: int | None = None) -> DeferredWork:
    """Return valid work of any kind, at threshold 1."""
    pieces = (bench.local[0:8].sge(),)
    request = WorkRequest(opcode, pieces, bench.remote.address, bench.remote.rkey)
    return DeferredWork(trigger, 1, opcode, request, bench.remote.qp_num, completion)


@case("R15", "C26")
def objects_that_are_not_there_are_refused(bench: Bench) -> None:
    """For every kind of work: a counter that is not there is refused, and nothing is left behind."""
    trigger, gone = bench.nic.counters("trigger", "gone")
    number = gone.index
    gone.close()
    for opcode in (*DATA, *ATOMICS):
        good = _work(bench, opcode, trigger.index)
        for wrong in (replace(good, trigger=number), replace(good, completion=number)):
            with refused("EINVAL"):
                bench.nic.arm([good, wrong])
    for opcode in (Opcode.COUNTER_ADD, Opcode.COUNTER_SET):
        good = DeferredWork(trigger.index, 1, opcode, target=trigger.index, value=1)
        for wrong in (replace(good, trigger=number), replace(good, target=number)):
            with refused("EINVAL"):
                bench.nic.arm([good, wrong])
    nothing_is_armed(bench)


@case("R15", "C26")
def a_queue_pair_that_is_not_there_is_refused(bench: Bench) -> None:
    """For every kind of work: a queue pair that is not there is refused, and nothing is left behind."""
    (trigger,) = bench.nic.counters("trigger")
    for opcode in (*DATA, *ATOMICS):
        good = _work(bench, opcode, trigger.index)
        with refused("EINVAL"):
            bench.nic.arm([good, replace(good, qp_num=1 << 20)])
    nothing_is_armed(bench)


@case("R15", "C26")
def counters_of_another_process_are_refused(bench: Bench) -> None:
    """A process can arm no work on, or aimed at, another process's counters, nor on its queue pairs."""
    (counter,) = bench.nic.counters("counter")
    with bench.another() as other:
        (own,) = other.counters("own")
        add = DeferredWork(own.index, 1, Opcode.COUNTER_ADD, target=own.index, value=1)
        for stolen in (
            replace(add, trigger=counter.index),
            replace(add, target=counter.index),
            _work(bench, Opcode.RDMA_WRITE, own.index),
        ):
            with refused("EACCES"):
                other.arm([stolen])


@case("R15")
def what_a_target_cannot_do_is_refused(bench: Bench) -> None:
    """Work of a kind that the target does not have is refused when it is armed."""
    (trigger,) = bench.nic.counters("trigger")
    for opcode in (Opcode.TAGGED_SEND, Opcode.TAGGED_RECV):
        if opcode not in bench.nic.capabilities.operations:
            with refused("ENOSYS"):
                bench.nic.arm([_work(bench, opcode, trigger.index)])
    nothing_is_armed(bench)


@case("R15", "R27")
def remote_keys_are_looked_at_when_work_fires(bench: Bench) -> None:
    """A remote key that names nothing is no reason to refuse: the work fires, and ends in error."""
    trigger, done = bench.nic.counters("trigger", "done")
    with bench.nic.program("wrong key") as program:
        program.when(trigger >= 1).write(bench.local[0:8], bench.wrong[0:8], then=done)
    program.arm()
    rest(bench)
    assert done.read() == (0, 0)
    trigger.add()
    poll_counter(bench, done, 0, 1)
    assert not any(bench.remote_bytes[0:8])


@case("R15", "C27", max_message_bytes=4096)
def a_message_of_more_than_the_limit_is_refused(bench: Bench) -> None:
    """For every kind of data work: the longest message is armed, one byte more is refused."""
    (trigger,) = bench.nic.counters("trigger")
    for opcode in DATA:
        for length, fits in ((4096, True), (4097, False)):
            request = WorkRequest(opcode, (bench.local[0:length].sge(),), bench.remote.address)
            work = DeferredWork(trigger.index, 1, opcode, request, bench.remote.qp_num)
            if fits:
                assert len(bench.nic.arm([work])) == 1
            else:
                with refused("EINVAL"):
                    bench.nic.arm([work])
    if bench.nic.capabilities.flush:
        assert bench.nic.flush() == len(DATA)


@case("R15", "C27")
def an_atomic_of_other_than_8_bytes_is_refused(bench: Bench) -> None:
    """For every atomic: an old value of other than 8 bytes is refused."""
    (trigger,) = bench.nic.counters("trigger")
    for opcode in ATOMICS:
        good = _work(bench, opcode, trigger.index)
        assert good.work is not None
        for length in (4, 16):
            short = (Sge(bench.local.address, length, bench.local.key),)
            with refused("EINVAL"):
                bench.nic.arm([replace(good, work=replace(good.work, sges=short))])
    nothing_is_armed(bench)


@case("R16")
def a_counter_operation_names_no_completion_counter(bench: Bench) -> None:
    """A deferred add or set that names a completion counter is refused."""
    trigger, done = bench.nic.counters("trigger", "done")
    for opcode in (Opcode.COUNTER_ADD, Opcode.COUNTER_SET):
        work = DeferredWork(trigger.index, 1, opcode, completion=done.index, target=done.index, value=1)
        with refused("EINVAL"):
            bench.nic.arm([work])
    nothing_is_armed(bench)


@case("R17")
def data_operations_need_no_completion_counter(bench: Bench) -> None:
    """Writes, reads and atomics without a completion counter are carried out."""
    (trigger,) = bench.nic.counters("trigger")
    bench.local_bytes[0:8] = b"no count"
    bench.remote_bytes[64:72] = b"all read"
    with bench.nic.program("uncounted") as program:
        program.when(trigger >= 1).write(bench.local[0:8], bench.remote[0:8])
        program.when(trigger >= 1).read(bench.local[64:72], bench.remote[64:72])
        program.when(trigger >= 1).fetch_add(bench.local[128:136], bench.remote[128:136], 5)
    program.arm()
    trigger.add()
    poll(bench, lambda: bytes(bench.remote_bytes[0:8]), b"no count")
    poll(bench, lambda: bytes(bench.local_bytes[64:72]), b"all read")
    poll(bench, lambda: bench.remote_bytes[128], 5)
    assert trigger.read() == (1, 0)


@case("R18", "C41")
def a_payload_is_read_when_the_work_fires(bench: Bench) -> None:
    """What is in the buffer when the work fires is what arrives, not what was in it before."""
    trigger, done = bench.nic.counters("trigger", "done")
    bench.local_bytes[0:4096] = b"1" * 4096
    with bench.nic.program("late") as program:
        program.when(trigger >= 1).write(bench.local[0:4096], bench.remote[0:4096], then=done)
    program.arm()
    bench.local_bytes[0:4096] = b"2" * 4096
    rest(bench)
    assert not any(bench.remote_bytes[0:4096]), "nothing moves before the work fires"
    trigger.add()
    poll_counter(bench, done, 1)
    poll(bench, lambda: bytes(bench.remote_bytes[0:4096]), b"2" * 4096)


@case("R18", "C42")
def a_program_may_be_forgotten_once_it_is_armed(bench: Bench) -> None:
    """A program that is changed, dropped and collected after arming fires as it was armed."""
    trigger, done = bench.nic.counters("trigger", "done")
    bench.local_bytes[0:8] = b"armed 1!"
    with bench.nic.program("first") as program:
        program.when(trigger >= 1).write(bench.local[0:8], bench.remote[0:8], then=done)
        program.when(trigger >= 1).add(done, 10)
    program.arm()
    program.work.clear()
    with bench.nic.program("second") as program:
        program.when(trigger >= 2).add(done, 1000)
        program.when(trigger >= 2).add(done, 1000)
    program.arm()
    del program
    gc.collect()
    trigger.add()
    poll_counter(bench, done, 11)
    poll(bench, lambda: bytes(bench.remote_bytes[0:8]), b"armed 1!")
    trigger.add()
    poll_counter(bench, done, 2011)


@case("R18", "C42", inside=True)
def memory_may_be_forgotten_once_work_uses_it(bench: Bench) -> None:
    """Memory, counters and program that Python has dropped are still there when the work fires."""
    assert bench.inside is not None
    nic = bench.inside.nic
    (trigger,) = nic.counters("trigger")

    def arm() -> None:
        memory = nic.allocate((4096,))
        span = nic.register(memory)
        memory.array[:] = 9
        (done,) = nic.counters("done")
        with nic.program("forgotten") as program:
            program.when(trigger >= 1).write(span, bench.remote[0:4096], then=done)
            program.when(done >= 1).add(trigger, 100)
        program.arm()

    arm()
    gc.collect()
    trigger.add()
    poll_counter(bench, trigger, 101)
    assert bytes(bench.remote_bytes[0:4096]) == b"\x09" * 4096


@case("R20", "C45", profile="cassini")
def a_program_that_does_not_fit_arms_nothing(bench: Bench) -> None:
    """A program of one operation more than there are entries is refused, and arms nothing of it."""
    trigger, fired = bench.nic.counters("trigger", "fired")
    entries = bench.nic.limits.host_slots
    for taken in (0, 100):
        one = DeferredWork(trigger.index, 1, Opcode.COUNTER_ADD, target=fired.index, value=1)
        bench.nic.arm([one] * taken)
        with bench.nic.program("too many") as program:
            for _ in range(entries - taken + 1):
                program.when(trigger >= 1).add(fired, 1000)
        with refused("ENOSPC"):
            program.arm()
        trigger.add()
        poll_counter(bench, fired, taken)
        trigger.set(success=0)


@case("R20", "R15")
def a_program_with_one_wrong_operation_arms_nothing(bench: Bench) -> None:
    """A program is refused whole if one of its operations is wrong, wherever that stands."""
    trigger, fired, gone = bench.nic.counters("trigger", "fired", "gone")
    number = gone.index
    gone.close()
    good = DeferredWork(trigger.index, 1, Opcode.COUNTER_ADD, target=fired.index, value=1)
    for place in (0, 3, 6):
        work = [good] * 6
        work.insert(place, replace(good, target=number))
        with refused("EINVAL"):
            bench.nic.arm(work)
    trigger.add()
    rest(bench)
    assert fired.read() == (0, 0)


@case("R21", profile="cassini")
def cassini_takes_one_local_piece(bench: Bench) -> None:
    """Cassini takes one local piece; work of two is refused when armed, and by the check beforehand."""
    (trigger,) = bench.nic.counters("trigger")
    with bench.nic.program("two pieces") as program:
        local = (bench.local[0:8], bench.local[64:72])
        program.when(trigger >= 1).write(local, bench.remote[0:16])
    assert _errors(program.check("cassini")) == ["R21"]
    with refused("EINVAL"):
        program.arm()


@case("R21", "C6", profile="cassini")
def cassini_defers_no_receive(bench: Bench) -> None:
    """Cassini takes a receive at threshold 0, and refuses one that would have to wait."""
    trigger, done = bench.nic.counters("trigger", "done")
    with bench.nic.program("waits") as program:
        program.when(trigger >= 1).receive(bench.local[0:64], bench.remote.qp_num, then=done)
    assert _errors(program.check("cassini")) == ["R21"]
    with refused("EINVAL"):
        program.arm()
    with bench.nic.program("at once") as program:
        program.when(trigger >= 0).receive(bench.local[0:64], bench.remote.qp_num, then=done)
    assert _errors(program.check("cassini")) == []
    program.arm()
    bench.peer_send(b"m" * 64)
    poll_counter(bench, done, 1)
    assert bytes(bench.local_bytes[0:64]) == b"m" * 64


@case("R21", "R15", profile="cassini")
def cassini_has_none_of_our_own_operations(bench: Bench) -> None:
    """Operations that only nicemu has are refused under Cassini's profile."""
    (trigger,) = bench.nic.counters("trigger")
    with bench.nic.program("ours") as program:
        program.when(trigger >= 1).event(1)
    assert _errors(program.check("cassini")) == ["R15"]
    with refused("ENOSYS"):
        program.arm()


def _errors(findings: list[Finding]) -> list[str]:
    return [finding.rule for finding in findings if finding.severity is Severity.ERROR]
