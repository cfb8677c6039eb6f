# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

import pytest

from nicemu.errors import NvmeStatus, ProtocolError, UsageError
from nicemu.nvme import (
    Capabilities,
    Cqe,
    InitiatorState,
    IoOpcode,
    LocalRegisters,
    Namespace,
    NamespaceIdentity,
    NvmeController,
    NvmeInitiator,
    Register,
    Status,
    queue_memory_bytes,
)
from nicemu.nvme.initiator import TRANSITIONS
from nicemu.pcie import AddressSpace, Backing

PAGE = 4096
NIC = 0x200_0000
NIC_BYTES = 8 << 20
DATA = NIC + (4 << 20)
DEPTH = 4
OK = NvmeStatus.SUCCESS
GUARD = 0xA5


class Bench:
    """An initiator in front of a controller whose I/O ends when the test says so."""

    def __init__(self, **parameters: Any) -> None:  # noqa: ANN401
        self.memory = AddressSpace()
        self.window = self.memory.add(NIC, "nic", Backing.anonymous(NIC_BYTES))
        self.controller = NvmeController(
            self.memory, [Namespace(1, 4096, 1000), Namespace(2, 512, 8)], **parameters
        )
        self.registers = LocalRegisters(self.controller, lambda: 0)
        self.queue_bytes = queue_memory_bytes(DEPTH)
        self.initiator = self.attach(self.registers)

    def attach(self, registers: Any) -> NvmeInitiator:  # noqa: ANN401
        return NvmeInitiator(registers, self.memory, NIC + PAGE, self.queue_bytes, depth=DEPTH)

    def perform(self, status: NvmeStatus = OK) -> None:
        for io in self.controller.take_io():
            self.controller.on_io_complete(io.tag, status, 0)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.initiator.start(0)
    assert made.initiator.advance(0) is InitiatorState.READY
    return made


class Registers:
    """Registers that a test sets by hand; `on_write` may answer."""

    def __init__(self, cap: Capabilities) -> None:
        self.values: dict[int, int] = {Register.CAP: cap.encode()}
        self.on_write: Callable[[int, int], None] = lambda offset, value: None

    def read32(self, offset: int) -> int:
        return self.values.get(offset, 0)

    read64 = read32

    def write32(self, offset: int, value: int) -> None:
        self.values[offset] = value
        self.on_write(offset, value)

    write64 = write32


# Bringing up


def test_bringing_up_learns_what_the_controller_has(bench: Bench) -> None:
    initiator = bench.initiator
    assert initiator.namespaces == {1: NamespaceIdentity(4096, 1000), 2: NamespaceIdentity(512, 8)}
    assert initiator.identity is not None
    assert initiator.identity.namespace_limit == 2
    assert initiator.max_transfer_bytes == 2 << 20


def test_the_smaller_of_both_transfer_limits_holds() -> None:
    bench = Bench(mdts=3)
    bench.initiator.start(0)
    bench.initiator.advance(0)
    assert bench.initiator.max_transfer_bytes == 8 * PAGE


def test_the_queue_is_no_longer_than_the_controller_allows() -> None:
    bench = Bench(max_queue_entry_count=3)
    bench.initiator.start(0)
    bench.initiator.advance(0)
    assert [bench.initiator.submit(IoOpcode.FLUSH, 1) for _ in range(3)] == [0, 1, None]


@pytest.mark.parametrize(("asked", "granted"), [(0, ()), (2, (2, 3)), (5, (2, 3, 4))])
def test_there_are_as_many_single_queues_as_the_controller_grants(
    asked: int, granted: tuple[int, ...]
) -> None:
    bench = Bench(io_queue_limit=4)
    queue_bytes = queue_memory_bytes(DEPTH, single_queues=asked)
    initiator = NvmeInitiator(
        bench.registers, bench.memory, NIC, queue_bytes, depth=DEPTH, single_queues=asked
    )
    view = bench.window.backing.view
    view[queue_bytes:] = bytes([GUARD]) * (NIC_BYTES - queue_bytes)
    initiator.start(0)
    assert initiator.advance(0) is InitiatorState.READY
    assert initiator.single_queues == granted
    for queue in granted:
        for _ in range(3):
            assert initiator.is_idle(queue)
            assert initiator.submit(IoOpcode.READ, 1, 0, 512, DATA, queue, queue=queue) is not None
            assert initiator.submit(IoOpcode.FLUSH, 1, queue=queue) is None
            assert not initiator.is_idle(queue)
            bench.perform()
            assert queue in bench.controller.take_interrupts()
            assert initiator.reap() == [(queue, OK)]
    with pytest.raises(UsageError, match="there is no I/O queue pair 6"):
        initiator.submit(IoOpcode.FLUSH, 1, queue=6)
    assert set(view[queue_bytes : DATA - NIC]) == {GUARD}


def test_nothing_outside_the_queue_memory_is_written() -> None:
    bench = Bench()
    view = bench.window.backing.view
    view[:] = bytes([GUARD]) * NIC_BYTES
    bench.initiator.start(0)
    bench.initiator.advance(0)
    for _ in range(3 * DEPTH):
        assert bench.initiator.submit(IoOpcode.READ, 1, 0, 512, DATA) is not None
        bench.perform()
        assert len(bench.initiator.reap()) == 1
    assert set(view[:PAGE]) == {GUARD}
    assert set(view[PAGE + bench.queue_bytes :]) == {GUARD}


def test_a_controller_that_is_never_ready_fails_after_its_own_timeout() -> None:
    initiator = Bench().attach(Registers(Capabilities(64, ready_timeout_ms=1000)))
    initiator.start(5)
    assert initiator.advance(5) is InitiatorState.ENABLING
    assert initiator.advance(5 + 999_999_999) is InitiatorState.ENABLING
    with pytest.raises(ProtocolError, match="nothing came of enabling within 1000 ms"):
        initiator.advance(5 + 1_000_000_000)
    assert initiator.state is InitiatorState.FAILED


def test_a_controller_that_is_never_unready_is_not_enabled() -> None:
    registers = Registers(Capabilities(64))
    registers.values[Register.CSTS] = Status.READY
    initiator = Bench().attach(registers)
    initiator.start(0)
    assert initiator.advance(0) is InitiatorState.RESETTING
    assert registers.values[Register.CC] & 1 == 0
    registers.values[Register.CSTS] = 0
    assert initiator.advance(1) is InitiatorState.ENABLING
    assert registers.values[Register.CC] == 0x46_0001


def test_a_fatal_status_fails_the_initiator() -> None:
    registers = Registers(Capabilities(64))
    initiator = Bench().attach(registers)
    initiator.start(0)
    initiator.advance(0)
    registers.values[Register.CSTS] = Status.FATAL
    with pytest.raises(ProtocolError, match=r"fatal status \(CSTS.CFS\)"):
        initiator.advance(1)


def test_a_controller_with_larger_pages_only_is_refused() -> None:
    initiator = Bench().attach(Registers(Capabilities(64, min_page_shift=1, max_page_shift=1)))
    with pytest.raises(ProtocolError, match="smallest page is 8192 bytes"):
        initiator.start(0)
    assert initiator.state is InitiatorState.FAILED


def test_a_refused_admin_command_fails_with_its_name_and_status() -> None:
    bench = Bench()
    registers = Registers(Capabilities(64))
    initiator = bench.attach(registers)
    registers.on_write = lambda offset, value: (
        registers.values.update({Register.CSTS: value & 1})
        if offset == Register.CC
        else bench.memory.write(
            registers.values[Register.ACQ], Cqe(0, NvmeStatus.INTERNAL_ERROR, sq_head=1, phase=1).encode()
        )
        if offset == 0x1000
        else None
    )
    initiator.start(0)
    with pytest.raises(ProtocolError, match="refused IDENTIFY: INTERNAL_ERROR"):
        initiator.advance(0)


def test_the_doorbell_stride_of_the_controller_is_used() -> None:
    registers = Registers(Capabilities(64, doorbell_stride=3))
    initiator = Bench().attach(registers)
    registers.on_write = lambda offset, value: (
        registers.values.update({Register.CSTS: value & 1}) if offset == Register.CC else None
    )
    initiator.start(0)
    initiator.advance(0)
    assert registers.values[0x1000] == 1
    assert initiator._capabilities.doorbell_stride == 3


def test_every_state_can_be_left_and_every_target_exists() -> None:
    assert set(TRANSITIONS) == set(InitiatorState)
    assert all(targets for targets in TRANSITIONS.values())


@pytest.mark.parametrize(
    "wrong", [{"queue_base": NIC + 512}, {"queue_bytes": PAGE}, {"depth": 0}, {"depth": 1024}]
)
def test_impossible_queue_memory_is_refused(wrong: dict[str, int]) -> None:
    bench = Bench()
    right: dict[str, Any] = {"queue_base": NIC, "queue_bytes": bench.queue_bytes, "depth": DEPTH}
    with pytest.raises(UsageError):
        NvmeInitiator(bench.registers, bench.memory, **(right | wrong))


def test_queue_memory_that_is_not_mapped_is_refused() -> None:
    bench = Bench()
    with pytest.raises(UsageError, match="no memory is mapped"):
        NvmeInitiator(bench.registers, bench.memory, 0x1000, bench.queue_bytes, depth=DEPTH)


# Commands


def test_a_read_names_its_blocks_and_memory(bench: Bench) -> None:
    assert bench.initiator.submit(IoOpcode.READ, 1, 7, 3, DATA + 8) == 0
    (io,) = bench.controller.take_io()
    assert (io.offset_bytes, io.segments) == (7 * PAGE, ((DATA + 8, 3 * PAGE),))


def test_force_unit_access_reaches_the_controller(bench: Bench) -> None:
    bench.initiator.submit(IoOpcode.WRITE, 1, 0, 1, DATA, fua=True)
    bench.initiator.submit(IoOpcode.WRITE, 1, 0, 1, DATA)
    assert [io.fua for io in bench.controller.take_io()] == [True, False]


def test_cookies_come_back_with_the_status(bench: Bench) -> None:
    bench.initiator.submit(IoOpcode.READ, 1, 1000, 1, DATA, "behind the end")
    assert bench.initiator.reap() == [("behind the end", NvmeStatus.LBA_OUT_OF_RANGE)]
    bench.initiator.submit(IoOpcode.FLUSH, 1, cookie="flush")
    bench.perform()
    assert bench.initiator.reap() == [("flush", OK)]
    assert bench.initiator.reap() == []


def test_no_more_than_depth_commands_are_outstanding(bench: Bench) -> None:
    for cookie in range(DEPTH):
        assert bench.initiator.submit(IoOpcode.READ, 1, 0, 512, DATA, cookie) is not None
    assert bench.initiator.submit(IoOpcode.READ, 1, 0, 1, DATA) is None
    assert bench.initiator.submit(IoOpcode.FLUSH, 1) is None
    assert bench.initiator.outstanding_count == DEPTH
    bench.perform()
    assert bench.initiator.submit(IoOpcode.FLUSH, 1) is None, "a command is outstanding until it is reaped"
    assert sorted(bench.initiator.reap()) == [(cookie, OK) for cookie in range(DEPTH)]
    assert bench.initiator.outstanding_count == 0
    assert bench.initiator.submit(IoOpcode.FLUSH, 1) is not None


def test_list_pages_come_back_after_each_command(bench: Bench) -> None:
    for _ in range(5 * DEPTH):
        for _ in range(DEPTH):
            assert bench.initiator.submit(IoOpcode.WRITE, 1, 0, 512, DATA + 4) is not None
        bench.perform(NvmeStatus.WRITE_FAULT)
        assert [status for _, status in bench.initiator.reap()] == [NvmeStatus.WRITE_FAULT] * DEPTH


@pytest.mark.parametrize(
    ("nsid", "block_count", "buffer", "message"),
    [
        (3, 1, DATA, r"nsid 3 is not active; active are \[1, 2\]"),
        (1, 0, DATA, "0 blocks of 4096 bytes"),
        (1, 513, DATA, "513 blocks of 4096 bytes; a command carries 1 block to 2097152 bytes"),
        (1, 1, DATA + 2, "cannot be described"),
    ],
)
def test_what_no_command_can_carry_is_refused_and_takes_nothing(
    bench: Bench, nsid: int, block_count: int, buffer: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        bench.initiator.submit(IoOpcode.READ, nsid, 0, block_count, buffer)
    for _ in range(DEPTH):
        assert bench.initiator.submit(IoOpcode.READ, 1, 0, 512, DATA) is not None


def test_memory_that_the_controller_does_not_reach_is_refused_without_asking_it(bench: Bench) -> None:
    for buffer, blocks in ((0x7000_0000_0000, 1), (NIC + NIC_BYTES - PAGE, 2), (NIC - PAGE, 2)):
        assert bench.initiator.submit(IoOpcode.READ, 1, 0, blocks, buffer, buffer) is not None
    assert bench.controller.take_io() == []
    assert bench.initiator.outstanding_count == 3
    assert {status for _, status in bench.initiator.reap()} == {NvmeStatus.DATA_TRANSFER_ERROR}
    assert bench.initiator.outstanding_count == 0


def test_a_controller_may_reach_less_than_its_host() -> None:
    bench = Bench()
    bench.memory.add(NIC + NIC_BYTES, "host", Backing.anonymous(PAGE))
    bench.memory.add(NIC + NIC_BYTES + PAGE, "host", Backing.anonymous(PAGE))
    reach = AddressSpace()
    reach.add(NIC, "nic", bench.window.backing)
    for space, status in ((bench.memory, OK), (reach, NvmeStatus.DATA_TRANSFER_ERROR)):
        initiator = NvmeInitiator(
            bench.registers, bench.memory, NIC + PAGE, bench.queue_bytes, depth=DEPTH, reach=space
        )
        initiator.start(0)
        initiator.advance(0)
        initiator.submit(IoOpcode.WRITE, 1, 0, 3, NIC + NIC_BYTES - PAGE, "last page and more")
        bench.perform()
        assert initiator.reap() == [("last page and more", status)]


def test_queues_that_the_controller_does_not_reach_are_refused() -> None:
    bench = Bench()
    with pytest.raises(UsageError, match="no memory is mapped"):
        NvmeInitiator(
            bench.registers, bench.memory, NIC, bench.queue_bytes, depth=DEPTH, reach=AddressSpace()
        )


def test_a_controller_that_is_gone_leaves_errors_and_takes_nothing_more(bench: Bench) -> None:
    bench.initiator.submit(IoOpcode.READ, 1, 0, 1, DATA, "lost")
    bench.initiator.abandon()
    assert bench.initiator.state is InitiatorState.FAILED
    assert bench.initiator.reap() == [("lost", NvmeStatus.INTERNAL_ERROR)]
    with pytest.raises(UsageError, match="the initiator is failed"):
        bench.initiator.submit(IoOpcode.READ, 1, 0, 1, DATA)


def test_nothing_is_submitted_before_the_initiator_is_ready() -> None:
    bench = Bench()
    with pytest.raises(UsageError, match="the initiator is stopped; call start"):
        bench.initiator.submit(IoOpcode.FLUSH, 1)


def test_a_completion_that_nobody_asked_for_is_counted(bench: Bench) -> None:
    bench.memory.write(bench.initiator._place.cq_address, Cqe(3, OK, phase=1).encode())
    assert bench.initiator.reap() == []
    assert bench.initiator.faults == {"completion.unknown_cid": 1}


# Bringing down


def test_stopping_completes_what_is_outstanding_once_the_controller_is_reset(bench: Bench) -> None:
    bench.initiator.submit(IoOpcode.READ, 1, 0, 1, DATA, "in flight")
    (io,) = bench.controller.take_io()
    bench.initiator.submit(IoOpcode.READ, 1, 0, 1, DATA, "not begun")
    bench.initiator.stop(0)
    assert bench.initiator.advance(0) is InitiatorState.STOPPING
    assert bench.initiator.reap() == []
    bench.controller.on_io_complete(io.tag, OK, 0)
    assert bench.initiator.advance(0) is InitiatorState.STOPPED
    aborted = NvmeStatus.ABORTED_BY_REQUEST
    assert bench.initiator.reap() == [("in flight", aborted), ("not begun", aborted)]
    assert bench.initiator.reap() == []


def test_a_stopped_initiator_starts_again_with_everything_free(bench: Bench) -> None:
    for _ in range(DEPTH):
        bench.initiator.submit(IoOpcode.READ, 1, 0, 512, DATA)
    bench.initiator.stop(0)
    bench.initiator.advance(0)
    bench.initiator.start(0)
    assert bench.initiator.advance(0) is InitiatorState.READY
    assert len(bench.initiator.reap()) == DEPTH
    for _ in range(DEPTH):
        assert bench.initiator.submit(IoOpcode.READ, 1, 0, 512, DATA) is not None


def test_a_fatal_controller_is_reset_by_stopping_and_starting(bench: Bench) -> None:
    bench.initiator.submit(IoOpcode.READ, 1, 0, 1, DATA, "lost")
    (io,) = bench.controller.take_io()
    bench.memory.remove(bench.window)
    bench.controller.on_io_complete(io.tag, OK, 0)
    with pytest.raises(ProtocolError, match="fatal status"):
        bench.initiator.advance(0)
    bench.memory.add(NIC, "nic", bench.window.backing)
    bench.initiator.stop(0)
    assert bench.initiator.advance(0) is InitiatorState.STOPPED
    assert bench.initiator.reap() == [("lost", NvmeStatus.ABORTED_BY_REQUEST)]
    bench.initiator.start(0)
    assert bench.initiator.advance(0) is InitiatorState.READY


def test_stopping_twice_and_starting_twice_are_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match="is ready and cannot become resetting"):
        bench.initiator.start(0)
    bench.initiator.stop(0)
    bench.initiator.advance(0)
    with pytest.raises(UsageError, match="is stopped and cannot become stopping"):
        bench.initiator.stop(0)
