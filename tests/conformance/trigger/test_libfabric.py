# SPDX-License-Identifier: Apache-2.0
"""Programs on libfabric: what the target itself promises. The rules are tried on it by test_rules.py.

What the provider does wrong and the target works around is shown here too, each in a process of its own.
"""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nicemu.abi import (
    AtomicOperation,
    CounterError,
    DeferredWork,
    Opcode,
    RemoteSpan,
    Sge,
    TriggerTableFull,
    Unsupported,
    WorkCompletion,
    WorkRequest,
)
from nicemu.errors import ResourceError, UsageError, VerbsStatus
from nicemu.fabric import LibfabricTarget
from nicemu.fabric.libfabric import abi as libfabric_abi
from tests.conformance.trigger.libfabric_world import (
    DEADLINE_S,
    LENGTH,
    World,
    a_world,
    eventually,
    needs_sockets,
)

HANGS_AFTER_S = 2.0


pytestmark = needs_sockets


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as world:
        yield world


def child(script: str, within_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SET_UP + script], timeout=within_s, capture_output=True, text=True, check=False
    )


SET_UP = """
from dataclasses import replace
from nicemu.abi import DeferredWork, Opcode, WorkRequest
from nicemu.fabric import LibfabricTarget
target = LibfabricTarget("sockets")
loopback = target.loopback()
local = target.register(target.allocate((64,)))
remote = target.remote(target.register(target.allocate((64,)), qp_num=loopback.peer_qp_num), loopback.qp_num)
trigger, done = target.counters("trigger", "done")
request = WorkRequest(Opcode.RDMA_WRITE, (local.sge(),), remote.address, remote.rkey)
write = DeferredWork(trigger.index, 1, Opcode.RDMA_WRITE, request, remote.qp_num, done.index)
"""


# Programs


def test_a_program_runs_without_this_process_after_one_count(world: World) -> None:
    target = world.target
    start, written, read, total = target.counters("start", "written", "read", "total")
    world.here.array[0:8] = 7
    with target.program("there and back") as program:
        program.when(start >= 1).write(world.local[0:8], world.remote[0:8], then=written)
        program.when(written >= 1).read(world.local[8:16], world.remote[0:8], then=read)
        program.when(read >= 1).add(total, 5)
    program.arm()
    assert not world.there.array.any()
    start.add()
    total.wait(5)
    assert (world.here.array[8:16] == 7).all()
    assert [counter.read() for counter in (start, written, read)] == [(1, 0)] * 3


def test_tagged_messages_land_where_their_tag_is_taken(world: World) -> None:
    target, loopback = world.target, world.loopback
    start, sent, landed = target.counters("start", "sent", "landed")
    world.here.array[0:8], world.here.array[8:16] = 1, 2
    with target.program("tags") as program:
        for tag, place in ((0x20, 64), (0x10, 128)):
            step = program.when(start >= 0)
            step.tagged_receive(
                world.offered[place : place + 8], loopback.peer_qp_num, tag, ignore=0xF, then=landed
            )
        program.when(start >= 1).tagged_send(world.local[0:8], loopback.qp_num, 0x1A, then=sent)
        program.when(start >= 1).tagged_send(world.local[8:16], loopback.qp_num, 0x20, then=sent)
    program.arm()
    start.add()
    sent.wait(2)
    landed.wait(2)
    eventually(lambda: (world.there.array[64], world.there.array[128]), (2, 1))


def test_two_processes_worth_of_targets_reach_each_other_by_address() -> None:
    with LibfabricTarget("sockets") as near, LibfabricTarget("sockets") as far:
        source, landing = near.allocate((4096,)), far.allocate((4096,))
        source.array[:] = 9
        (arrived,) = far.counters("arrived")
        address, rkey = far.offer(far.register(landing, arrived)[1024:2048])
        remote = RemoteSpan(near.connect(far.address), address, 1024, rkey)
        start, done = near.counters("start", "done")
        with near.program("far away") as program:
            program.when(start >= 1).write(near.register(source)[0:1024], remote, then=done)
        program.arm()
        start.add()
        done.wait(1)
        arrived.wait(1)
        assert (landing.array[1024:2048] == 9).all()
        assert not landing.array[:1024].any()
        assert not landing.array[2048:].any()


@pytest.mark.process
def test_a_peer_in_another_process_is_reached_by_its_address() -> None:
    script = """
import sys
from nicemu.fabric import LibfabricTarget
with LibfabricTarget("sockets") as target:
    memory = target.allocate((64,))
    (arrived,) = target.counters("arrived")
    address, rkey = target.offer(target.register(memory, arrived))
    print(target.address.hex(), address, rkey, flush=True)
    arrived.wait(1, timeout_s=20.0)
    print(bytes(memory.array[:8]).decode(), flush=True)
    sys.stdin.read()  # a peer that leaves at once would take the acknowledgement along
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        try:
            where, address, rkey = peer.stdout.readline().split()
            with LibfabricTarget("sockets") as target:
                memory = target.allocate((8,))
                memory.array[:] = list(b"far away")
                remote = RemoteSpan(target.connect(bytes.fromhex(where)), int(address), 8, int(rkey))
                start, done = target.counters("start", "done")
                with target.program("to another process") as program:
                    program.when(start >= 1).write(target.register(memory), remote, then=done)
                program.arm()
                start.add()
                assert peer.stdout.readline() == "far away\n"
                done.wait(1)
            peer.stdin.close()
            assert peer.wait(DEADLINE_S) == 0
        finally:
            peer.kill()


def test_what_a_peer_writes_triggers_work(world: World) -> None:
    target = world.target
    arrived, start, answered = target.counters("arrived", "start", "answered")
    landing = target.register(target.allocate((64,)), arrived, qp_num=world.loopback.peer_qp_num)
    with target.program("answer") as program:
        program.when(start >= 1).write(world.local[0:64], target.remote(landing, world.remote.qp_num))
        program.when(arrived >= 1).write(world.local[0:64], world.remote[0:64], then=answered)
    program.arm()
    start.add()
    answered.wait(1)


def test_a_comparison_whose_old_value_nobody_wants_is_carried_out(world: World) -> None:
    start, done = world.target.counters("start", "done")
    word = world.there.array[0:8].view("u8")
    word[0] = 5
    with world.target.program("swap") as program:
        swap = AtomicOperation.COMPARE_SWAP
        program.when(start >= 0).atomic(swap, world.remote[0:8], 4, swap=1, then=done)
        program.when(start >= 0).atomic(swap, world.remote[0:8], 5, swap=77, then=done)
    program.arm()
    done.wait(2)
    assert word[0] == 77


@pytest.mark.parametrize("kind", [AtomicOperation.SUM, AtomicOperation.COMPARE_SWAP])
def test_an_atomic_that_answers_asks_for_no_delivery_besides(world: World, kind: AtomicOperation) -> None:
    """fi_cxi(7), ERRATA: it takes no such atomics."""
    with world.target.program("atomics") as program:
        (start,) = world.target.counters("start")
        program.when(start >= 1).atomic(kind, world.remote[0:8], 1, old=world.local[0:8])
        program.when(start >= 1).atomic(AtomicOperation.SUM, world.remote[0:8], 1)
    build = world.target._queue._builder.build
    answering, plain = (build(work).memory for work in program.work)
    compares = kind is AtomicOperation.COMPARE_SWAP
    flags = answering.op.compare.flags if compares else answering.op.fetch.flags
    assert not flags & libfabric_abi.DELIVERY_COMPLETE
    assert plain.op.atomic.flags & libfabric_abi.DELIVERY_COMPLETE


def test_a_tag_has_no_more_bits_than_the_provider_s_messages(world: World) -> None:
    builder = world.target._queue._builder
    assert world.target.domain.max_tag == (1 << 64) - 1
    builder._max_tag = (1 << 48) - 1
    (start,) = world.target.counters("start")
    with world.target.program("tag") as program:
        program.when(start >= 1).tagged_send(world.local[0:8], world.loopback.qp_num, 1 << 48)
    with pytest.raises(UsageError, match=r"tag 281474976710656; it must lie in 0\.\.281474976710655"):
        program.arm()


def test_a_wait_ends_by_a_change_of_the_errors_and_says_which_counter(world: World) -> None:
    (counter,) = world.target.counters("arrivals")
    counter.add(0, 1)
    with pytest.raises(TimeoutError, match="counter arrivals is at 0"):
        counter.wait(1, timeout_s=0.02)
    timer = threading.Timer(0.05, counter.add, (0, 1))
    timer.start()
    with pytest.raises(CounterError, match="counter arrivals: 2 errors, 0 successes"):
        counter.wait(1)
    timer.join()


@pytest.mark.process
def test_python_keeps_its_signals() -> None:
    """Libraries that come with libfabric would take them."""
    script = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)\n"
    assert "KeyboardInterrupt" in child(script, 30.0).stderr


# What is refused


def test_what_only_nicemu_has_is_refused_with_its_rule(world: World) -> None:
    (counter,) = world.target.counters("counter")
    for rule, opcode in (
        ("R15", Opcode.NVME_WRITE),
        ("R15", Opcode.FIRMWARE_EVENT),
        ("R36", Opcode.WRITE_BACK),
    ):
        assert opcode not in world.target.capabilities.operations
        with pytest.raises(Unsupported) as caught:
            world.target.arm([DeferredWork(counter.index, 1, opcode)])
        assert caught.value.rule == rule


@pytest.mark.parametrize(
    ("key", "offset", "length"), [(0, 0, 8), (99, 0, 8), (None, LENGTH - 4, 8), (None, -8, 8)]
)
def test_memory_that_is_not_registered_never_reaches_the_provider(
    world: World, key: int | None, offset: int, length: int
) -> None:
    (counter,) = world.target.counters("counter")
    sge = Sge(world.local.address + offset, length, world.local.key if key is None else key)
    request = WorkRequest(Opcode.RDMA_WRITE, (sge,), world.remote.address, world.remote.rkey)
    with pytest.raises(UsageError, match="EINVAL"):
        world.target.arm([DeferredWork(counter.index, 0, Opcode.RDMA_WRITE, request, world.remote.qp_num)])


@pytest.mark.parametrize("offset", [LENGTH - 4, 1 << 40, (1 << 64) - 4])
@pytest.mark.parametrize("opcode", [Opcode.RDMA_WRITE, Opcode.RDMA_READ, Opcode.FETCH_ADD])
def test_remote_memory_out_of_bounds_is_an_error_entry(world: World, opcode: Opcode, offset: int) -> None:
    start, done = world.target.counters("start", "done")
    request = WorkRequest(opcode, (world.local[0:8].sge(),), offset, world.remote.rkey, wr_id=4)
    world.target.arm([DeferredWork(start.index, 0, opcode, request, world.remote.qp_num, done.index)])
    entries: list[WorkCompletion] = []
    deadline = time.monotonic() + DEADLINE_S
    while not entries and time.monotonic() < deadline:
        entries = world.target.take_completions()
    assert [(entry.wr_id, entry.status, entry.opcode) for entry in entries] == [
        (4, VerbsStatus.REM_ACCESS_ERR, opcode)
    ]


def test_the_target_s_own_counters_cannot_be_used(world: World) -> None:
    (counter,) = world.target.counters("counter")
    good = DeferredWork(counter.index, 1, Opcode.COUNTER_ADD, target=counter.index, value=1)
    for wrong in (
        replace(good, trigger=-1),
        replace(good, target=-1),
        replace(good, trigger=500),
        replace(good, target=0),
    ):
        with pytest.raises(UsageError, match="EINVAL"):
            world.target.arm([wrong])


def test_counters_are_finite_and_none_is_allocated_in_vain(world: World) -> None:
    free = world.target.limits.counter_count
    with pytest.raises(ResourceError, match="ENOSPC"):
        world.target.counters(*("one",) * (free + 1))
    assert len(world.target.counters(*("one",) * free)) == free


def test_a_narrower_table_is_kept(world: World) -> None:
    with LibfabricTarget("sockets", slot_count=2) as target:
        start, fired = target.counters("start", "fired")
        add = DeferredWork(start.index, 1, Opcode.COUNTER_ADD, target=fired.index, value=1)
        with pytest.raises(TriggerTableFull, match="ENOSPC"):
            target.arm([add] * 3)
        target.arm([add] * 2)
        start.add()
        fired.wait(2)
        target.arm([add] * 2)
    with pytest.raises(UsageError, match="slot_count"):
        LibfabricTarget("sockets", slot_count=1 << 30)


def test_a_provider_that_is_not_there_is_named_and_so_are_those_that_are() -> None:
    absent = r"no provider 'absent' with triggered operations \(.*\); there (is|are) .*sockets"
    with pytest.raises(ResourceError, match=absent):
        LibfabricTarget("absent")


def test_a_library_that_is_not_there_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libfabric_abi, "LIBRARY", "libfabric-is-not-here.so.1")
    with pytest.raises(ResourceError, match="apt-get install libfabric1"):
        libfabric_abi.load_libfabric.__wrapped__()


# What is kept, and what is let go


def test_memory_of_armed_work_is_taken_back_by_force_only(world: World) -> None:
    start, done = world.target.counters("start", "done")
    with world.target.program("write") as program:
        program.when(start >= 1).write(world.local[0:8], world.remote[0:8], then=done)
    program.arm()
    with pytest.raises(UsageError, match="EBUSY"):
        world.target.deregister(world.local)
    world.target.deregister(world.local, force=True)
    world.here = world.target.allocate((1,))
    gc.collect()
    start.add()
    done.wait(1)


def test_what_has_ended_is_let_go(world: World) -> None:
    """A counter is free to be closed, and memory to be taken back, when work that used it has ended."""
    start, done, tally = world.target.counters("start", "done", "tally")
    with world.target.program("mixed") as program:
        for number in range(20):
            program.when(start >= number).write(world.local[0:8], world.remote[0:8], then=done)
            program.when(start >= number).add(done, 2)
            program.when(done >= 60).set(tally, 3)
    program.arm()
    with pytest.raises(UsageError, match="EBUSY"):
        done.close()
    start.add(20)
    done.wait(60)
    tally.wait(3)

    def is_closed() -> bool:
        try:
            done.close()
        except UsageError:
            return False
        return True

    eventually(is_closed, True)
    world.target.deregister(world.local)


def test_a_closed_target_says_so_and_does_nothing(world: World) -> None:
    (counter,) = world.target.counters("counter")
    world.target.close()
    world.target.close()
    for call in (
        counter.read,
        counter.add,
        world.target.flush,
        world.target.loopback,
        world.target.take_completions,
        lambda: counter.wait(1),
        lambda: world.target.counters("another"),
        lambda: world.target.arm([]),
        lambda: world.target.register(world.here),
    ):
        with pytest.raises(UsageError, match="closed"):
            call()


@pytest.mark.parametrize("ending", ["", "import gc; del target, local, remote, trigger, done; gc.collect()"])
@pytest.mark.process
def test_a_target_that_nobody_closed_does_no_harm(ending: str) -> None:
    ended = child(f"target.arm([write] * 500)\ntrigger.add()\n{ending}", 30.0)
    assert (ended.returncode, ended.stderr) == (0, "")


# What the provider does, and why the target does what it does


@pytest.mark.process
def test_counts_that_lead_back_hang_the_provider_unless_they_are_refused(world: World) -> None:
    """Rule R31."""
    one, other = world.target.counters("one", "other")
    with world.target.program("round") as program:
        program.when(one >= 1).add(other)
        program.when(other >= 1).add(one)
    with pytest.raises(Unsupported) as caught:
        program.arm()
    assert caught.value.rule == "R31"
    unrefused = """
queue = target._queue
queue._provider = replace(queue._provider, cycles_hang=False)
target.arm([DeferredWork(trigger.index, 1, Opcode.COUNTER_ADD, target=trigger.index, value=1)])
print("armed", flush=True)
trigger.add()
"""
    with subprocess.Popen(
        [sys.executable, "-c", SET_UP + unrefused], stdout=subprocess.PIPE, text=True
    ) as hanging:
        try:
            assert hanging.stdout is not None
            assert hanging.stdout.readline() == "armed\n"  # however long a busy machine takes to get there
            with pytest.raises(subprocess.TimeoutExpired):
                hanging.wait(HANGS_AFTER_S)
        finally:
            hanging.kill()


@pytest.mark.process
def test_work_without_a_completion_counter_ends_the_process_unless_it_has_one() -> None:
    """Rule R17."""
    uncounted = "target.arm([replace(write, completion=None)])\ntrigger.add()\nimport time; time.sleep(0.2)\n"
    assert child(uncounted, 30.0).returncode == 0
    unguarded = """
queue = target._queue
build = queue._builder.build
def without(item):
    work = build(item)
    work.memory.work.completion_cntr = target.domain.lib.ffi.NULL
    return work
queue._builder.build = without
"""
    assert child(unguarded + uncounted, 30.0).returncode == -signal.SIGSEGV


def test_the_provider_goes_on_only_when_it_is_asked_again(world: World) -> None:
    """Rule R32: of many due writes some wait until the counter is touched once more."""
    start, done = world.target.counters("start", "done")
    count = 10_000
    request = WorkRequest(
        Opcode.RDMA_WRITE, (world.local[0:8].sge(),), world.remote.address, world.remote.rkey
    )
    work = DeferredWork(start.index, 1, Opcode.RDMA_WRITE, request, world.remote.qp_num, done.index)
    world.target.arm([work] * count)
    start.add()
    seen = -1
    while done.values()[0] != seen:  # `values` looks, and lets nothing go on
        seen = done.values()[0]
        time.sleep(0.1)
    assert 0 < seen < count
    done.wait(count, timeout_s=30.0)
