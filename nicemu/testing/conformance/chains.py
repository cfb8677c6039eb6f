# SPDX-License-Identifier: Apache-2.0
"""Cases of chains and cascades, of transports that cannot keep up, and of who is served.

Source: fi_trigger(3), DEFERRED WORK QUEUES; Portals 4.3, "PtlTriggeredCTInc".
"""

from __future__ import annotations

from contextlib import ExitStack

from nicemu.abi import DeferredWork, Opcode, Severity, TargetCounter, WorkRequest
from nicemu.host import Counter, Memory, Nic

from .bench import Bench, poll, poll_counter, rest
from .case import case

INBOX_RECORDS = 1024
"""What a peer's inbox holds, in a NIC of ours."""
FAIR_SHARE = 256
"""So many operations of others may fire before a counter with due work has its turn."""


@case("R30", "C20")
def a_read_follows_the_write_that_it_waits_for(bench: Bench) -> None:
    """A read behind a write's completion counter reads back what was written."""
    trigger, written, read = bench.nic.counters("trigger", "written", "read")
    bench.local_bytes[0:4096] = b"w" * 4096
    with bench.nic.program("write, read") as program:
        program.when(written >= 1).read(bench.local[4096:8192], bench.remote[0:4096], then=read)
        program.when(trigger >= 1).write(bench.local[0:4096], bench.remote[0:4096], then=written)
    program.arm()
    trigger.add()
    poll_counter(bench, read, 1)
    poll(bench, lambda: bytes(bench.local_bytes[4096:8192]), b"w" * 4096)


@case("R30", "R12", "C19")
def a_write_behind_another_lands_after_it(bench: Bench) -> None:
    """A write armed first, behind a later one, lands after it; their common counter counts both."""
    (counter,) = bench.nic.counters("counter")
    bench.local_bytes[0:8], bench.local_bytes[8:16] = b"the last", b"thefirst"
    with bench.nic.program("second first") as program:
        program.when(counter >= 1).write(bench.local[0:8], bench.remote[0:8], then=counter)
    program.arm()
    with bench.nic.program("now") as program:
        program.when(counter >= 0).write(bench.local[8:16], bench.remote[0:8], then=counter)
    program.arm()
    poll_counter(bench, counter, 2)
    poll(bench, lambda: bytes(bench.remote_bytes[0:8]), b"the last")


@case("R30", "R31")
def a_counter_drives_its_own_chain(bench: Bench) -> None:
    """Eight writes whose counter is their trigger: one count starts the first, and 9 is reached."""
    (counter,) = bench.nic.counters("counter")
    with bench.nic.program("self-driving") as program:
        for place in range(8):
            bench.local_bytes[8 * place] = place + 1
            piece = slice(8 * place, 8 * place + 8)
            program.when(counter >= place + 1).write(bench.local[piece], bench.remote[piece], then=counter)
    program.arm()
    rest(bench)
    assert counter.read() == (0, 0)
    counter.add()
    poll_counter(bench, counter, 9)
    poll(bench, lambda: list(bench.remote_bytes[0:64:8]), [1, 2, 3, 4, 5, 6, 7, 8])


@case("R31", "R23", "C38")
def cycles_come_to_rest(bench: Bench) -> None:
    """A counter that counts itself, and two that count each other, come to rest."""
    alone, one, other = bench.nic.counters("alone", "one", "other")
    with bench.nic.program("cycles") as program:
        program.when(alone >= 1).add(alone)
        program.when(one >= 1).add(other)
        program.when(other >= 1).add(one)
    program.arm()
    alone.add()
    one.add()
    poll_counter(bench, alone, 2)
    poll_counter(bench, one, 2)
    poll_counter(bench, other, 1)


@case("R31", "C38")
def a_chain_of_any_depth_finishes(bench: Bench) -> None:
    """A chain of thousands of counts, each behind the one before, finishes."""
    (counter,) = bench.nic.counters("counter")
    bench.nic.arm(
        [
            DeferredWork(counter.index, number + 1, Opcode.COUNTER_ADD, target=counter.index, value=1)
            for number in range(bench.many)
        ]
    )
    counter.add()
    poll_counter(bench, counter, bench.many + 1)


@case("R31", "C38")
def a_chain_of_many_counters_finishes(bench: Bench) -> None:
    """A chain through forty counters finishes, and comes back to the first."""
    counters = bench.nic.counters(*(f"counter{number}" for number in range(40)))
    with bench.nic.program("round") as program:
        for counter, following in zip(counters, [*counters[1:], counters[0]], strict=True):
            program.when(counter >= 1).add(following)
    program.arm()
    counters[0].add()
    poll_counter(bench, counters[0], 2)
    assert all(counter.read() == (1, 0) for counter in counters[1:])


@case("R32")
def what_finds_no_receive_waits_for_one(bench: Bench) -> None:
    """Sends that find no receive are kept, and go when the peer posts one; nobody counts again."""
    trigger, done, other, fired = bench.nic.counters("trigger", "done", "other", "fired")
    bench.local_bytes[0:8] = b"patience"
    with bench.nic.program("sends") as program:
        for _ in range(3):
            program.when(trigger >= 1).send(bench.local[0:8], bench.remote.qp_num, then=done)
        program.when(other >= 1).add(fired)
    program.arm()
    trigger.add()
    rest(bench)
    assert done.read() == (0, 0)
    other.add()
    poll_counter(bench, fired, 1)
    for count in range(1, 4):
        landed = bench.peer_receive(8)
        poll_counter(bench, done, count)
        poll(bench, lambda: bytes(landed[0:8]), b"patience")  # noqa: B023


@case("R32", "C44")
def many_more_operations_than_the_transport_holds_all_complete(bench: Bench) -> None:
    """One count makes many more writes due than the transport's queue holds; all complete without another."""
    trigger, done = bench.nic.counters("trigger", "done")
    count = max(bench.many, 2 * INBOX_RECORDS)
    local = bench.local[0:8].sge()
    request = WorkRequest(
        Opcode.RDMA_WRITE_WITH_IMM, (local,), bench.remote.address, bench.remote.rkey, imm_data=1
    )
    work = DeferredWork(trigger.index, 1, request.opcode, request, bench.remote.qp_num, done.index)
    bench.nic.arm([work] * count)
    trigger.add()
    poll_counter(bench, done, count)
    if bench.inside is not None:
        assert bench.inside.counted("transport.busy") > 0, "the inbox was never full"
        assert bench.inside.slots_in_use() == 0


@case("R33", "C46", inside=True)
def a_counter_with_much_due_work_lets_another_one_fire(bench: Bench) -> None:
    """While a counter has thousands of operations due, another one's operation fires within a few hundred.

    The other one's operation copies the progress of the first, as it is published then, to the peer.
    """
    assert bench.inside is not None
    nic = bench.inside.nic
    start, busy, other, progress, done = nic.counters("start", "busy", "other", "progress", "done")
    place = nic.allocate((64,))
    published = nic.register(place)
    progress.publish_in(published)
    count = min(bench.many, 20_000)
    add = DeferredWork(busy.index, 1, Opcode.COUNTER_ADD, target=progress.index, value=1)
    nic.arm([add] * count)
    with nic.program("both at once") as program:
        program.when(start >= 1).add(busy)
        program.when(start >= 1).add(other)
        program.when(other >= 1).write(published, bench.remote[0:64], then=done)
    program.arm()
    start.add()
    poll_counter(bench, done, 1)
    poll(bench, lambda: int.from_bytes(place.array[8:16].tobytes(), "little"), count)
    seen = int.from_bytes(bench.remote_bytes[8:16], "little")
    assert 0 < seen <= FAIR_SHARE, f"{seen} of {count} had fired"


@case("R12", "R34", "C13", "C24", inside=True)
def arrivals_count_and_trigger(bench: Bench) -> None:
    """A peer's writes count at the memory's counter, whose work answers without this program."""
    assert bench.inside is not None
    nic = bench.inside.nic
    arrived, answered = nic.counters("arrived", "answered")
    landing = nic.register(nic.allocate((4096,)), arrived)
    bench.local_bytes[0:8] = b"got both"
    with nic.program("answer") as program:
        program.when(arrived >= 2).write(bench.local[0:8], bench.remote[0:8], then=answered)
    program.arm()
    bench.inside.peer_write(landing)
    poll_counter(bench, arrived, 1)
    assert not any(bench.remote_bytes[0:8])
    bench.inside.peer_write(landing)
    poll_counter(bench, answered, 1)
    assert (arrived.read(), bytes(bench.remote_bytes[0:8])) == ((2, 0), b"got both")


@case("R12", inside=True)
def an_immediate_counts_where_the_peer_may(bench: Bench) -> None:
    """A peer's immediate counts a success or an error at a counter that is open to peers, and at no other."""
    assert bench.inside is not None
    nic = bench.inside.nic
    (opened,) = nic.counters("opened", remote=True)
    (closed,) = nic.counters("closed")
    landing = nic.register(nic.allocate((64,)))
    for imm_data in (opened.index, opened.index | 1 << 31, closed.index):
        bench.inside.peer_write(landing, imm_data)
    poll_counter(bench, opened, 1, 1)
    assert closed.read() == (0, 0)
    assert bench.inside.counted("immediate.refused") == 1


@case("R12", "C24", inside=True)
def several_processes_write_and_read_at_one_peer(bench: Bench) -> None:
    """Writes and reads of four processes to one peer, all triggered at once, complete without an error."""
    with ExitStack() as stack:
        done: list[tuple[TargetCounter, Memory]] = []
        for number in range(4):
            other = stack.enter_context(bench.another())
            assert isinstance(other, Nic)
            granted = other.connect("there", length_bytes=4096)
            data = granted.private_data
            remote = granted.span(data["address"], 4096, data["rkey"])
            memory = other.allocate((2, 4096))
            memory.array[0] = number + 1
            local = other.register(memory)
            trigger, completed = other.counters("trigger", "completed")
            with other.program("write, read back") as program:
                program.when(trigger >= 1).write(local[0:4096], remote, then=completed)
                program.when(completed >= 1).read(local[4096:8192], remote, then=completed)
            program.arm()
            trigger.add()
            done.append((completed, memory))
        for number, (ended, memory) in enumerate(done):
            poll_counter(bench, ended, 2)
            assert (memory.array == number + 1).all()


@case("R35")
def a_chain_of_data_and_counts_needs_nobody(bench: Bench) -> None:
    """A chain of write, atomic, count and read runs to its end by one count; the check finds no CPU in it."""
    start, first, second, third = bench.nic.counters("start", "first", "second", "third")
    bench.local_bytes[0:8] = (41).to_bytes(8, "little")
    with bench.nic.program("offloaded") as program:
        program.when(start >= 1).write(bench.local[0:8], bench.remote[0:8], then=first)
        program.when(first >= 1).fetch_add(bench.local[8:16], bench.remote[0:8], 1, then=second)
        program.when(second >= 1).add(third)
        program.when(third >= 1).read(bench.local[16:24], bench.remote[0:8], then=third)
    assert [finding for finding in program.check("cassini") if finding.rule == "R35"] == []
    program.arm()
    start.add()
    poll_counter(bench, third, 2)
    assert bytes(bench.local_bytes[8:24]) == bytes([41, *bytes(7), 42, *bytes(7)])


@case("R35")
def what_needs_a_cpu_is_told_beforehand(bench: Bench) -> None:
    """The check says that receives and long sends need a CPU on Cassini, and says it of nothing else."""
    (trigger,) = bench.nic.counters("trigger")
    queue_pair = bench.remote.qp_num
    with bench.nic.program("mixed") as program:
        program.when(trigger >= 0).receive(bench.local[0:64], queue_pair)
        program.when(trigger >= 1).send(bench.local[0:2048], queue_pair)
        program.when(trigger >= 2).send(bench.local[0:2047], queue_pair)
        program.when(trigger >= 3).write(bench.local[0:4096], bench.remote[0:4096])
    told = [finding for finding in program.check("cassini") if finding.rule == "R35"]
    assert [finding.steps for finding in told] == [(0,), (1,)]
    assert all(finding.severity is Severity.WARNING for finding in told)


def _word(success: int, errors: int) -> int:
    return success | errors << 48 | 1 << 63


@case("R36", "C15", inside=True)
def the_write_back_word_has_cassini_s_layout(bench: Bench) -> None:
    """The word holds successes in 48 bits, errors in 7, a valid bit, each held at its maximum."""
    assert bench.inside is not None
    inside, (counter,) = bench.inside, bench.inside.nic.counters("counter")

    def is_published(success: int, errors: int) -> None:
        poll(bench, lambda: inside.write_back(counter), _word(success, errors))

    is_published(0, 0)
    counter.add(5)
    is_published(5, 0)
    counter.add(0, 1)
    is_published(5, 1)
    counter.set((1 << 48) + 3, 200)
    is_published((1 << 48) - 1, 127)
    poll_counter(bench, counter, (1 << 48) + 3, 200)


@case("R36", "C15", inside=True)
def a_write_back_word_that_is_moved_is_published_there_at_once(bench: Bench) -> None:
    """A write-back entry that is moved to other memory has the values there at once, and follows them."""
    assert bench.inside is not None
    nic = bench.inside.nic
    (counter,) = nic.counters("counter")
    counter.add(3, 1)
    memory = nic.allocate((128,))
    counter.publish_in(nic.register(memory))
    view = memory.array.data
    assert int.from_bytes(view[0:8], "little") == _word(3, 1)
    counter.add(4)
    poll(bench, lambda: int.from_bytes(view[0:8], "little"), _word(7, 1))


@case("R36", "C16", inside=True)
def a_forced_write_back_shows_the_end_of_an_operation(bench: Bench) -> None:
    """Work that publishes its counter, which is its trigger too, shows the threshold plus 1 in the word."""
    assert bench.inside is not None
    for kind in ("write", "read"):
        counter: Counter
        (counter,) = bench.inside.nic.counters(kind)
        with bench.nic.program(kind) as program:
            step = program.when(counter >= 1)
            if kind == "write":
                step.write(bench.local[0:8], bench.remote[0:8], then=counter, write_back=True)
            else:
                step.read(bench.local[0:8], bench.remote[0:8], then=counter, write_back=True)
        assert program.entries == 2
        program.arm()
        counter.add()
        inside = bench.inside
        poll(bench, lambda: inside.write_back(counter), _word(2, 0))  # noqa: B023
        assert inside.slots_in_use() == 0
