# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nicemu.errors import NvmeStatus, UsageError
from nicemu.nvme import (
    AdminOpcode,
    BlockIo,
    BlockIoKind,
    Capabilities,
    Configuration,
    IoOpcode,
    Namespace,
    NvmeController,
    Register,
    Sqe,
    Status,
    doorbell_offset,
)
from nicemu.pcie import AddressSpace
from nicemu.timing import Cost

if TYPE_CHECKING:
    from tests.unit.nvme.conftest import Host

OK = NvmeStatus.SUCCESS
PAGE = 4096
SQ_TAIL = doorbell_offset(1, is_completion=False)
CQ_HEAD = doorbell_offset(1, is_completion=True)


def read_command(host: Host, cid: int = 1, slba: int = 0, nlb: int = 0, nsid: int = 1) -> Sqe:
    return Sqe(IoOpcode.READ, cid, nsid, prp1=host.data, cdw10=slba, cdw12=nlb)


def io_status(host: Host, sqe: Sqe) -> int:
    host.send(sqe)
    assert host.perform() == 0, "a refused command began I/O"
    (cqe,) = host.reap()
    assert (cqe.cid, cqe.dnr) == (sqe.cid, True)
    return cqe.status


# Registers


def test_capabilities_and_version_can_be_read_by_halves(bare_host: Host) -> None:
    found = Capabilities.decode(bare_host.read(Register.CAP) | bare_host.read(Register.CAP + 4) << 32)
    assert found == Capabilities(max_queue_entry_count=64)
    assert bare_host.read(Register.CAP) >> 16 & 1, "contiguous queues required"
    assert bare_host.read(Register.CAP + 4) >> 5 & 1, "the NVM command set"
    assert bare_host.read(Register.VS) == 0x0002_0000


def test_admin_queue_addresses_are_64_bits_in_two_halves(bare_host: Host) -> None:
    bare_host.write(Register.ASQ + 4, 0x12)
    bare_host.write(Register.ASQ, 0x3456_7000)
    assert (bare_host.read(Register.ASQ), bare_host.read(Register.ASQ + 4)) == (0x3456_7000, 0x12)


def test_enabling_makes_the_controller_ready_and_disabling_unready(bare_host: Host) -> None:
    assert bare_host.read(Register.CSTS) == 0
    bare_host.enable()
    assert bare_host.read(Register.CSTS) == Status.READY
    bare_host.disable()
    assert bare_host.read(Register.CSTS) == 0


@pytest.mark.parametrize(
    "configuration",
    [
        Configuration(enable=True, page_shift=1),
        Configuration(enable=True, command_set=1),
        Configuration(enable=True, arbitration=1),
    ],
)
def test_an_unsupported_configuration_is_fatal_until_reset(
    bare_host: Host, configuration: Configuration
) -> None:
    bare_host.enable(configuration)
    assert bare_host.read(Register.CSTS) == Status.FATAL
    bare_host.disable()
    assert bare_host.read(Register.CSTS) == 0
    bare_host.enable()
    assert bare_host.read(Register.CSTS) == Status.READY


@pytest.mark.parametrize("address", [0x100_0004, 0x7000_0000_0000])
def test_admin_queues_off_a_page_or_outside_memory_are_fatal(bare_host: Host, address: int) -> None:
    bare_host.write(Register.AQA, 31 << 16 | 31)
    bare_host.write(Register.ASQ, address & 0xFFFF_FFFF)
    bare_host.write(Register.ASQ + 4, address >> 32)
    bare_host.write(Register.ACQ, bare_host.data)
    bare_host.write(Register.CC, 0x46_0001)
    assert bare_host.read(Register.CSTS) == Status.FATAL
    assert bare_host.controller.faults == {"register.configuration": 1}


def test_admin_queue_registers_do_not_change_while_enabled(host: Host) -> None:
    before = host.read(Register.AQA), host.read(Register.ASQ)
    host.write(Register.AQA, 0)
    host.write(Register.ASQ, 0)
    assert (host.read(Register.AQA), host.read(Register.ASQ)) == before
    assert host.controller.faults == {"register.controller_enabled": 2}


@pytest.mark.parametrize("offset", [Register.CAP, Register.VS, Register.CSTS, 0x38, 0xFFC])
def test_writing_a_register_that_cannot_be_written_is_counted(host: Host, offset: int) -> None:
    before = host.read(offset)
    host.write(offset, 0xFFFF_FFFF)
    assert host.read(offset) == before
    assert host.controller.faults == {"register.not_writable": 1}


# I/O commands


def test_a_read_becomes_an_effect_with_its_place_and_memory(host: Host) -> None:
    host.send(replace(read_command(host, slba=5, nlb=1), prp2=host.data + 7 * PAGE))
    (io,) = host.controller.take_io()
    segments = ((host.data, PAGE), (host.data + 7 * PAGE, PAGE))
    assert io == BlockIo(io.tag, BlockIoKind.READ, 1, 5 * PAGE, segments, 0)
    assert host.reap() == []
    host.controller.on_io_complete(io.tag, OK, 0)
    (cqe,) = host.reap()
    assert (cqe.cid, cqe.status, cqe.sq_id, cqe.sq_head, cqe.dnr) == (1, OK, 1, 1, False)


def test_a_write_with_force_unit_access_says_so(host: Host) -> None:
    host.send(Sqe(IoOpcode.WRITE, 1, 3, prp1=host.data + 512, cdw10=63, cdw12=1 << 30))
    (io,) = host.controller.take_io()
    assert io == BlockIo(io.tag, BlockIoKind.WRITE, 3, 63 * 512, ((host.data + 512, 512),), 0, fua=True)


def test_a_flush_has_no_memory(host: Host) -> None:
    host.send(Sqe(IoOpcode.FLUSH, 1, 1))
    (io,) = host.controller.take_io()
    assert io == BlockIo(io.tag, BlockIoKind.FLUSH, 1, 0, (), 0)


def test_several_commands_behind_one_doorbell_start_in_order(host: Host) -> None:
    host.send(*(read_command(host, cid, slba=cid) for cid in range(5)))
    assert [io.offset_bytes // PAGE for io in host.controller.take_io()] == [0, 1, 2, 3, 4]
    assert host.controller.take_io() == []


def test_an_unknown_io_opcode_completes_with_invalid_opcode(host: Host) -> None:
    assert io_status(host, Sqe(0x99, 1, 1)) is NvmeStatus.INVALID_COMMAND_OPCODE


@pytest.mark.parametrize(
    ("nsid", "status"),
    [(0, NvmeStatus.INVALID_NAMESPACE), (2, NvmeStatus.INVALID_FIELD), (4, NvmeStatus.INVALID_NAMESPACE)],
)
def test_a_namespace_that_is_not_active_is_refused(host: Host, nsid: int, status: NvmeStatus) -> None:
    assert io_status(host, read_command(host, nsid=nsid)) is status
    assert io_status(host, Sqe(IoOpcode.FLUSH, 1, nsid)) is status


def test_no_command_goes_to_all_namespaces(host: Host) -> None:
    everybody = 0xFFFF_FFFF
    assert io_status(host, read_command(host, nsid=everybody)) is NvmeStatus.INVALID_FIELD
    assert io_status(host, Sqe(IoOpcode.FLUSH, 1, everybody)) is NvmeStatus.INVALID_NAMESPACE


@pytest.mark.parametrize(("slba", "nlb"), [(100, 0), (99, 1), (0xFFFF_FFFF, 0)])
def test_blocks_behind_the_end_are_out_of_range(host: Host, slba: int, nlb: int) -> None:
    assert io_status(host, read_command(host, slba=slba, nlb=nlb)) is NvmeStatus.LBA_OUT_OF_RANGE


def test_the_upper_half_of_the_block_address_counts(host: Host) -> None:
    assert io_status(host, replace(read_command(host), cdw11=1)) is NvmeStatus.LBA_OUT_OF_RANGE


def test_the_maximum_transfer_size_is_the_last_that_is_allowed(host: Host) -> None:
    assert host.controller.max_transfer_bytes == 1 << 20
    entries = [host.data] * 256
    host.memory.write(host.lists, struct.pack("<256Q", *entries))
    big = Namespace(1, 4096, 1000)
    host.controller.namespaces[1] = big
    sqe = replace(read_command(host, nlb=256), prp2=host.lists)
    assert io_status(host, sqe) is NvmeStatus.INVALID_FIELD
    host.send(replace(sqe, cdw12=255))
    assert host.controller.take_io()[0].length_bytes == 1 << 20


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"prp1": 0x102_0002}, NvmeStatus.PRP_OFFSET_INVALID),
        ({"cdw12": 1, "prp2": 0x102_1008}, NvmeStatus.PRP_OFFSET_INVALID),
        ({"cdw12": 1, "prp2": 0x7000_0000}, NvmeStatus.DATA_TRANSFER_ERROR),
        ({"prp1": 0}, NvmeStatus.DATA_TRANSFER_ERROR),
        ({"psdt": 1}, NvmeStatus.INVALID_FIELD),
        ({"fuse": 1}, NvmeStatus.INVALID_FIELD),
    ],
)
def test_data_that_cannot_be_reached_is_refused(
    host: Host, change: dict[str, int], status: NvmeStatus
) -> None:
    assert io_status(host, replace(read_command(host), **change)) is status


def test_a_command_identifier_in_use_is_a_conflict_and_the_first_command_goes_on(host: Host) -> None:
    host.send(read_command(host, cid=5), read_command(host, cid=5, slba=9))
    (conflict,) = host.reap()
    assert (conflict.cid, conflict.status) == (5, NvmeStatus.COMMAND_ID_CONFLICT)
    host.send(read_command(host, cid=5))
    assert [cqe.status for cqe in host.reap()] == [NvmeStatus.COMMAND_ID_CONFLICT]
    assert host.perform() == 1
    (cqe,) = host.reap()
    assert (cqe.cid, cqe.status) == (5, OK)
    host.send(read_command(host, cid=5))
    assert host.perform() == 1
    assert host.reap()[0].status is OK


@pytest.mark.parametrize("status", [NvmeStatus.WRITE_FAULT, NvmeStatus.UNRECOVERED_READ_ERROR])
def test_the_status_of_the_io_is_the_status_of_the_command(host: Host, status: NvmeStatus) -> None:
    host.send(read_command(host))
    host.perform(status)
    (cqe,) = host.reap()
    assert (cqe.status, cqe.dnr) == (status, False)


def test_a_tag_that_is_not_being_performed_is_a_usage_error(host: Host) -> None:
    host.send(read_command(host))
    with pytest.raises(UsageError, match="not being performed"):
        host.controller.on_io_complete(1, OK, 0)
    (io,) = host.controller.take_io()
    host.controller.on_io_complete(io.tag, OK, 0)
    with pytest.raises(UsageError, match="not being performed"):
        host.controller.on_io_complete(io.tag, OK, 0)


# Doorbells


@pytest.mark.parametrize(
    ("offset", "value", "fault"),
    [
        (SQ_TAIL, 8, "doorbell.invalid_value"),
        (SQ_TAIL, 0xFFFF_FFFF, "doorbell.invalid_value"),
        (CQ_HEAD, 1, "doorbell.invalid_value"),
        (CQ_HEAD, 8, "doorbell.invalid_value"),
        (doorbell_offset(2, is_completion=False), 1, "doorbell.invalid_register"),
        (doorbell_offset(2, is_completion=True), 1, "doorbell.invalid_register"),
        (SQ_TAIL + 2, 1, "doorbell.invalid_register"),
        (0xFFFF_FFF0, 1, "doorbell.invalid_register"),
    ],
)
def test_a_doorbell_without_meaning_is_counted_and_ignored(
    host: Host, offset: int, value: int, fault: str
) -> None:
    host.write(offset, value)
    assert host.controller.faults == {fault: 1}
    assert host.reap() == []
    host.send(read_command(host))
    assert host.perform() == 1
    assert host.reap()[0].status is OK


def test_a_doorbell_before_the_controller_is_ready_is_counted(bare_host: Host) -> None:
    bare_host.write(SQ_TAIL, 1)
    assert bare_host.controller.faults == {"doorbell.not_ready": 1}


# Completions


def test_a_full_completion_queue_holds_completions_back_and_loses_none(host: Host) -> None:
    host.send(*(read_command(host, cid) for cid in range(7)))
    host.perform()
    host.send(*(read_command(host, cid) for cid in range(7, 12)))
    host.perform()
    assert host.controller.held_completion_count == 5
    first = host.reap(ring=False)
    assert [cqe.cid for cqe in first] == list(range(7))
    assert host.reap(ring=False) == []
    host.ring_head()
    assert [cqe.cid for cqe in host.reap()] == list(range(7, 12))
    assert host.controller.held_completion_count == 0


def test_the_identifier_of_a_held_completion_is_still_in_use(host: Host) -> None:
    host.send(*(read_command(host, cid) for cid in range(7)))
    host.perform()
    host.send(read_command(host, 7))
    host.perform()
    host.send(read_command(host, 7))
    assert host.perform() == 0
    host.reap()
    assert [(cqe.cid, cqe.status) for cqe in host.reap()] == [(7, OK), (7, NvmeStatus.COMMAND_ID_CONFLICT)]


def test_completions_write_nothing_outside_their_ring(host: Host) -> None:
    for _ in range(3):
        host.send(*(read_command(host, cid) for cid in range(7)))
        host.perform()
        assert len(host.reap()) == 7
    ring = host.memory.view(host.cq_address(1), PAGE)
    assert set(ring[host.entry_count * 16 :]) == {host.guard}
    assert set(host.memory.view(host.data, 200 * PAGE)) == {host.guard}


def test_an_interrupt_is_raised_once_for_new_completions(host: Host) -> None:
    host.controller.take_interrupts()
    host.send(read_command(host, 1), read_command(host, 2))
    assert host.controller.take_interrupts() == []
    host.perform()
    assert host.controller.take_interrupts() == [1]
    assert host.controller.take_interrupts() == []


def test_a_masked_interrupt_waits_for_its_unmasking(host: Host) -> None:
    host.controller.take_interrupts()
    host.write(Register.INTMS, 1 << 1)
    assert host.read(Register.INTMS) == host.read(Register.INTMC) == 2
    host.send(read_command(host))
    host.perform()
    assert host.controller.take_interrupts() == []
    host.write(Register.INTMC, 1 << 1)
    assert host.controller.take_interrupts() == [1]


def test_a_queue_without_interrupts_raises_none(host: Host) -> None:
    host.create_cq(2)
    host.create_sq(2, 2)
    host.controller.take_interrupts()
    host.send(read_command(host), qid=2)
    host.perform()
    assert len(host.reap(2)) == 1
    assert host.controller.take_interrupts() == []


# Time


def test_a_completion_waits_for_its_io_and_its_time(new_host: Callable[[Cost, Cost], Host]) -> None:
    host = new_host(Cost(1000, 1.0), Cost())
    host.send(read_command(host, 1), read_command(host, 2))
    first, second = host.controller.take_io()
    assert (first.target_ns, second.target_ns) == (1000 + PAGE, 1000 + 2 * PAGE)
    assert host.controller.next_deadline_ns() is None
    host.controller.on_io_complete(second.tag, OK, 10)
    assert host.controller.next_deadline_ns() == second.target_ns
    host.controller.on_io_complete(first.tag, OK, 20)
    assert host.controller.next_deadline_ns() == first.target_ns
    host.controller.on_timer(first.target_ns - 1)
    assert host.reap() == []
    host.controller.on_timer(first.target_ns)
    assert [cqe.cid for cqe in host.reap()] == [1]
    host.controller.on_timer(second.target_ns)
    assert [cqe.cid for cqe in host.reap()] == [2]
    assert host.controller.next_deadline_ns() is None


def test_io_that_ends_after_its_time_completes_at_once(new_host: Callable[[Cost, Cost], Host]) -> None:
    host = new_host(Cost(1000), Cost())
    host.send(read_command(host))
    (io,) = host.controller.take_io()
    host.controller.on_io_complete(io.tag, OK, 5000)
    assert len(host.reap()) == 1


def test_reads_do_not_wait_for_writes(new_host: Callable[[Cost, Cost], Host]) -> None:
    host = new_host(Cost(0, 1.0), Cost(0, 2.0))
    host.send(replace(read_command(host, 1), opcode=IoOpcode.WRITE), read_command(host, 2))
    host.send(Sqe(IoOpcode.FLUSH, 3, 1))
    assert [io.target_ns for io in host.controller.take_io()] == [2 * PAGE, PAGE, 2 * PAGE]


# Reset, shutdown, and what goes wrong for good


def test_a_reset_waits_for_the_io_in_flight_and_posts_nothing(host: Host) -> None:
    host.send(read_command(host, 1), read_command(host, 2))
    ios = host.controller.take_io()
    host.send(read_command(host, 3))
    host.disable()
    assert host.read(Register.CSTS) & Status.READY, "DMA is still in flight"
    assert host.controller.take_io() == []
    for io in ios:
        host.controller.on_io_complete(io.tag, OK, 0)
    assert not host.read(Register.CSTS) & Status.READY
    assert host.reap(ring=False) == []
    assert host.controller.outstanding_io_count == 0


def test_enabling_before_the_reset_is_over_is_refused(host: Host) -> None:
    host.send(read_command(host))
    (io,) = host.controller.take_io()
    host.disable()
    host.write(Register.CC, Configuration(enable=True).encode())
    assert host.controller.faults == {"register.enabled_before_reset_was_done": 1}
    host.controller.on_io_complete(io.tag, OK, 0)
    host.enable()
    assert host.read(Register.CSTS) == Status.READY


def test_a_reset_removes_the_io_queues(host: Host) -> None:
    host.disable()
    host.enable()
    host.write(SQ_TAIL, 1)
    assert host.controller.faults == {"doorbell.invalid_register": 1}
    assert host.create_cq() == host.create_sq() == OK


def test_a_shutdown_flushes_every_namespace_before_it_is_complete(host: Host) -> None:
    host.write(Register.CC, Configuration(enable=True, shutdown=1).encode())
    assert host.read(Register.CSTS) == Status.READY | Status.SHUTDOWN_OCCURRING
    ios = host.controller.take_io()
    assert [(io.kind, io.nsid) for io in ios] == [(BlockIoKind.FLUSH, 1), (BlockIoKind.FLUSH, 3)]
    for io in ios:
        assert host.read(Register.CSTS) == Status.READY | Status.SHUTDOWN_OCCURRING
        host.controller.on_io_complete(io.tag, OK, 0)
    assert host.read(Register.CSTS) == Status.READY | Status.SHUTDOWN_COMPLETE


def test_queue_memory_that_is_unmapped_is_fatal_and_raises_nothing(host: Host) -> None:
    host.send(read_command(host))
    (io,) = host.controller.take_io()
    host.memory.remove(host.window)
    host.controller.on_io_complete(io.tag, OK, 0)
    assert host.read(Register.CSTS) == Status.READY | Status.FATAL
    host.write(SQ_TAIL, 2)
    assert host.controller.faults == {"queue.memory_gone": 1, "doorbell.not_ready": 1}


def test_an_unmapped_submission_queue_is_fatal(host: Host) -> None:
    host.memory.remove(host.window)
    host.write(SQ_TAIL, 1)
    assert host.read(Register.CSTS) == Status.READY | Status.FATAL
    host.disable()
    assert host.read(Register.CSTS) == 0


def test_an_admin_command_that_stays_pending_does_not_stop_the_others(host: Host) -> None:
    host.send(Sqe(AdminOpcode.ASYNC_EVENT_REQUEST), qid=0, cid=900)
    assert host.reap(0) == []
    assert host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=7)).status is OK


def test_two_namespaces_with_one_identifier_are_refused() -> None:
    with pytest.raises(UsageError, match="two namespaces have nsid 1"):
        NvmeController(AddressSpace(), [Namespace(1, 4096, 1), Namespace(1, 4096, 1)])


@pytest.mark.parametrize(
    "wrong", [{"io_queue_limit": 0}, {"mdts": 0}, {"max_queue_entry_count": 1}, {"serial": "x" * 21}]
)
def test_impossible_parameters_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        NvmeController(AddressSpace(), [], **wrong)  # type: ignore[arg-type]
