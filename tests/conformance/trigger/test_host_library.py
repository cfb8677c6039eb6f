# SPDX-License-Identifier: Apache-2.0
"""Sentences of fi_trigger(3) and fi_cntr(3) that a host program sees, over stepped NICs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nicemu.abi import DeferredWork, Limits, Opcode, RemoteSpan, Span, WorkRequest, registers
from nicemu.errors import UsageError, VerbsStatus
from nicemu.host import CounterError, Memory, Nic, Peer, TriggerTableFull
from nicemu.kv import Lease
from nicemu.nic import NamespaceConfig, NicConfig
from nicemu.pcie import store_u64
from nicemu.run import Simulation

SLOTS = 64


@dataclass(frozen=True, slots=True)
class Host:
    """A process at a NIC with few slots, and a storage NIC's slot that it may write."""

    simulation: Simulation
    nic: Nic
    peer: Peer
    memory: Memory
    local: Span
    remote: RemoteSpan

    def landed(self) -> bytes:
        """What lies in the storage NIC's slot."""
        return self.simulation.nics["storage0"].memory.space.read(self.remote.address, 8)

    def slots_in_use(self) -> int:
        """Slots of the NIC that hold work."""
        return self.simulation.nics["compute0"].unit.slots_in_use

    def counted(self, name: str) -> int:
        """A count of the NIC."""
        return self.simulation.nics["compute0"].statistics()[name]

    def wrong(self) -> RemoteSpan:
        """The slot under a key that names nothing."""
        return self.peer.span(self.remote.address, 8, self.remote.rkey ^ 0x1000)


@pytest.fixture
def host() -> Iterator[Host]:
    space = NamespaceConfig(1, 256)
    simulation = Simulation(
        [
            NicConfig("compute0", "127.0.1.1", 1, 1 << 20, limits=Limits(slot_count=SLOTS)),
            NicConfig("storage0", "127.0.1.2", 2, 16 << 20, Limits(slot_count=SLOTS), (space,)),
        ]
    )
    simulation.load_program("storage0", "p4/kvserve.p4")
    simulation.load_firmware("storage0", "firmware/kv_storage.py")
    with Nic(simulation.open_nic("compute0")) as nic:
        peer = nic.connect("storage0", slot_count=1, slot_bytes=4096)
        lease = Lease.of_data(peer.private_data)
        memory = nic.allocate((8,))
        yield Host(simulation, nic, peer, memory, nic.register(memory), peer.span(lease.slots, 8, lease.rkey))


# fi_cntr_wait


def test_a_wait_ends_when_the_success_value_reaches_the_threshold(host: Host) -> None:
    (counter,) = host.nic.counters("counter")
    counter.add(success=2, errors=1)
    counter.wait(2)
    with pytest.raises(TimeoutError, match=r"counter counter is at 2 after 0\.001 s, not at 3, with 1 error"):
        counter.wait(3, timeout_s=0.001)  # the sum is 3


def test_a_change_of_the_error_value_ends_a_wait(host: Host) -> None:
    (counter,) = host.nic.counters("counter")
    unit = host.simulation.nics["compute0"].unit
    host.simulation.schedule(1000, lambda: unit.add(counter.index, errors=1))
    with pytest.raises(CounterError, match="counter counter: 1 error, 0 successes"):
        counter.wait(1)


def test_an_error_from_before_a_wait_does_not_end_it(host: Host) -> None:
    (counter,) = host.nic.counters("counter")
    counter.add(success=0, errors=1)
    host.simulation.schedule(1000, lambda: host.simulation.nics["compute0"].unit.add(counter.index, 1))
    counter.wait(1)


def test_a_wait_that_takes_too_long_changes_nothing(host: Host) -> None:
    (counter,) = host.nic.counters("counter")
    with pytest.raises(TimeoutError):
        counter.wait(1, timeout_s=0.001)
    assert counter.read() == (0, 0)


# Arming and firing


def test_a_buffer_is_read_when_its_work_fires(host: Host) -> None:
    trigger, done = host.nic.counters("trigger", "done")
    host.memory.array[:] = 1
    with host.nic.program("write") as program:
        program.when(trigger >= 1).write(host.local, host.remote, then=done)
    program.arm()
    host.memory.array[:] = 2
    assert host.landed() == bytes(8)
    trigger.add()
    done.wait(1)
    assert host.landed() == b"\x02" * 8


def test_a_program_is_not_armed_while_it_is_written(host: Host) -> None:
    (counter,) = host.nic.counters("counter")
    with host.nic.program("add") as program:
        program.when(counter >= 0).add(counter, 5)
    assert (host.slots_in_use(), counter.read()) == (0, (0, 0))
    program.arm()
    assert counter.read() == (5, 0)


@pytest.mark.parametrize("count", [SLOTS + 1, registers.STAGING_COUNT + 1])
def test_a_program_of_too_many_operations_is_refused_whole(host: Host, count: int) -> None:
    (counter,) = host.nic.counters("counter")
    with host.nic.program("many") as program:
        for _ in range(count):
            program.when(counter >= 1).add(counter)
    with pytest.raises(TriggerTableFull, match="ENOSPC"):
        program.arm()
    assert host.slots_in_use() == 0


def test_counters_and_queue_pairs_of_another_process_cannot_be_armed(host: Host) -> None:
    (counter,) = host.nic.counters("counter")
    work = WorkRequest(Opcode.RDMA_WRITE, (), host.remote.address, host.remote.rkey)
    with Nic(host.simulation.open_nic("compute0")) as other:
        (own,) = other.counters("own")
        for stolen in (
            DeferredWork(counter.index, 1, Opcode.COUNTER_ADD, target=own.index, value=1),
            DeferredWork(own.index, 1, Opcode.COUNTER_ADD, target=counter.index, value=1),
            DeferredWork(own.index, 1, Opcode.RDMA_WRITE, work, host.peer.qp_num),
        ):
            with pytest.raises(UsageError, match=r"permission \(errno 13\)"):
                other.arm([stolen])


def test_work_that_finds_no_posted_receive_stays_due_and_holds_up_nobody(host: Host) -> None:
    stuck, free, done = host.nic.counters("stuck", "free", "done")
    send = WorkRequest(Opcode.SEND, (host.local.sge(),))
    host.nic.arm([DeferredWork(stuck.index, 1, Opcode.SEND, send, host.peer.qp_num, done.index)])
    with host.nic.program("write") as program:
        program.when(free >= 1).write(host.local, host.remote, then=done)
    program.arm()
    stuck.add()
    free.add()
    done.wait(1)
    assert done.read() == (1, 0)
    assert host.slots_in_use() == 1
    assert host.counted("transport.busy") > 0


# Ends


def test_deferred_work_leaves_a_completion_only_if_asked_or_failed(host: Host) -> None:
    trigger, done = host.nic.counters("trigger", "done")
    with host.nic.program("three") as program:
        program.when(trigger >= 1).write(host.local, host.remote, then=done)
        program.when(trigger >= 2).write(host.local, host.remote, then=done, signaled=True)
        program.when(trigger >= 3).write(host.local, host.wrong(), then=done)
    program.arm()
    seen = []
    for _ in range(3):
        trigger.add()
        seen.append([completion.status for completion in host.nic.completions.poll()])
    assert seen == [[], [VerbsStatus.SUCCESS], [VerbsStatus.REM_ACCESS_ERR]]
    assert done.read() == (2, 1)


def test_what_fires_on_a_failed_queue_pair_is_flushed_and_counts_as_an_error(host: Host) -> None:
    trigger, done = host.nic.counters("trigger", "done")
    host.memory.array[:] = 3
    with host.nic.program("two") as program:
        program.when(trigger >= 1).write(host.local, host.wrong(), then=done)
        program.when(done >= 1).write(host.local, host.remote, then=done)
    program.arm()
    trigger.add()
    assert done.read() == (0, 2)
    statuses = [completion.status for completion in host.nic.completions.poll()]
    assert statuses == [VerbsStatus.REM_ACCESS_ERR, VerbsStatus.WR_FLUSH_ERR]
    assert host.landed() == bytes(8)


# Cancel, flush, close


def test_a_program_is_cancelled_as_far_as_it_has_not_fired(host: Host) -> None:
    trigger, done = host.nic.counters("trigger", "done")
    with host.nic.program("two") as program:
        program.when(trigger >= 1).add(done)
        program.when(trigger >= 2).add(done)
    program.arm()
    trigger.add()
    assert program.cancel() == 1
    trigger.add()
    assert done.read() == (1, 0)
    assert program.cancel() == 0


def test_a_flush_takes_the_work_of_one_process_alone(host: Host) -> None:
    (counter,) = host.nic.counters("counter")
    with Nic(host.simulation.open_nic("compute0")) as other:
        (its,) = other.counters("its")
        other.arm([DeferredWork(its.index, 1, Opcode.COUNTER_ADD, target=its.index, value=1)])
        host.nic.arm([DeferredWork(counter.index, 1, Opcode.COUNTER_ADD, target=counter.index, value=1)] * 3)
        assert host.nic.flush() == 3
        assert host.slots_in_use() == 1
    assert host.slots_in_use() == 0  # and the end of a process takes what it had


def test_a_key_that_armed_work_uses_is_taken_back_only_by_force(host: Host) -> None:
    trigger, done = host.nic.counters("trigger", "done")
    with host.nic.program("write") as program:
        program.when(trigger >= 1).write(host.local, host.remote, then=done)
    program.arm()
    with pytest.raises(UsageError, match=r"key 0x[0-9a-f]+ is used by 1 armed operation \(EBUSY\)"):
        host.nic.deregister(host.local)
    host.nic.deregister(host.local, force=True)
    trigger.add()
    assert done.read() == (0, 1)
    assert [completion.status for completion in host.nic.completions.poll()] == [VerbsStatus.LOC_PROT_ERR]
    assert host.landed() == bytes(8)


def test_a_nic_that_was_closed_says_so(host: Host) -> None:
    """Its memory is gone: nothing of it is touched any more, and closing it twice is closing it once."""
    other = Nic(host.simulation.open_nic("compute0"))
    (counter,) = other.counters("counter")
    other.close()
    other.close()
    for use in (counter.add, counter.read, lambda: counter.wait(1), other.flush):
        with pytest.raises(UsageError, match="compute0 was closed; open it again"):
            use()


# Doorbells


def test_two_rings_before_the_nic_looks_are_both_counted(host: Host) -> None:
    (counter,) = host.nic.counters("counter")
    stream = host.simulation.stream()
    counter.trigger_after(stream)
    counter.trigger_after(stream, by=2)
    counter.wait(3)
    assert counter.read() == (3, 0)
    assert host.counted("doorbells") <= 2


def test_a_total_that_goes_backwards_counts_nothing(host: Host) -> None:
    (counter,) = host.nic.counters("counter")
    number = host.nic.connection.request("doorbell_open", counter=counter.index)["cell"]
    cell = host.nic.connection.bar.address + registers.DOORBELLS + 8 * number
    for total in (5, 3, 4):
        store_u64(cell, total)
        host.nic.connection.notify()
    assert counter.read() == (6, 0)
    assert host.counted("doorbell.backwards") == 1
