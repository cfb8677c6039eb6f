# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from nicemu.errors import NvmeStatus
from nicemu.nvme import (
    AdminOpcode,
    AdminStatus,
    Configuration,
    ControllerIdentity,
    Feature,
    IdentifyCns,
    IoOpcode,
    NamespaceIdentity,
    Sqe,
)

if TYPE_CHECKING:
    from tests.unit.nvme.conftest import Host

OK = NvmeStatus.SUCCESS
PAGE = 4096


def identify(host: Host, cns: int, nsid: int = 0) -> bytes:
    address = host.data + PAGE
    cqe = host.admin(Sqe(AdminOpcode.IDENTIFY, nsid=nsid, prp1=address, cdw10=cns))
    assert cqe.status is OK
    assert set(host.memory.view(address - PAGE, PAGE)) == {host.guard}
    assert set(host.memory.view(address + PAGE, PAGE)) == {host.guard}
    return host.memory.read(address, PAGE)


def status_of(host: Host, opcode: int, **fields: int) -> int:
    return host.admin(Sqe(opcode, **fields)).status


# Identify


def test_identify_controller_tells_limits_and_names(host: Host) -> None:
    data = identify(host, IdentifyCns.CONTROLLER)
    found = ControllerIdentity.decode(data)
    assert found == ControllerIdentity("NICEMU0001", "nicemu NVMe controller", mdts=8, namespace_limit=3)
    assert data[512] == 0x66
    assert data[513] == 0x44
    assert struct.unpack_from("<I", data, 80) == (0x0002_0000,)
    assert data[525] & 1, "a volatile write cache is present"
    assert data[768:].startswith(b"nqn.2014-08.org.nvmexpress:uuid:")


@pytest.mark.parametrize(("nsid", "block_bytes", "block_count"), [(1, 4096, 100), (3, 512, 64), (2, 0, 0)])
def test_identify_namespace_tells_its_geometry(
    host: Host, nsid: int, block_bytes: int, block_count: int
) -> None:
    data = identify(host, IdentifyCns.NAMESPACE, nsid)
    assert NamespaceIdentity.decode(data) == NamespaceIdentity(block_bytes, block_count)
    assert struct.unpack_from("<QQQ", data) == (block_count,) * 3


@pytest.mark.parametrize(("after", "nsids"), [(0, [1, 3]), (1, [3]), (2, [3]), (3, []), (0xFFFF_FFFD, [])])
def test_the_active_list_has_the_identifiers_above_the_given_one(
    host: Host, after: int, nsids: list[int]
) -> None:
    data = identify(host, IdentifyCns.ACTIVE_NAMESPACES, after)
    assert list(struct.unpack_from("<3I", data)) == [*nsids, 0, 0, 0][:3]
    assert not any(data[12:])


def test_the_descriptors_of_a_namespace_are_one_uuid_that_stays_the_same(host: Host) -> None:
    first = identify(host, IdentifyCns.NAMESPACE_DESCRIPTORS, 1)
    assert first[:4] == bytes([3, 16, 0, 0])
    assert any(first[4:20])
    assert not any(first[20:])
    assert identify(host, IdentifyCns.NAMESPACE_DESCRIPTORS, 1) == first
    assert identify(host, IdentifyCns.NAMESPACE_DESCRIPTORS, 3) != first


@pytest.mark.parametrize(
    ("cns", "nsid", "status"),
    [
        (IdentifyCns.NAMESPACE, 0, NvmeStatus.INVALID_NAMESPACE),
        (IdentifyCns.NAMESPACE, 4, NvmeStatus.INVALID_NAMESPACE),
        (IdentifyCns.NAMESPACE, 0xFFFF_FFFF, NvmeStatus.INVALID_NAMESPACE),
        (IdentifyCns.ACTIVE_NAMESPACES, 0xFFFF_FFFE, NvmeStatus.INVALID_NAMESPACE),
        (IdentifyCns.NAMESPACE_DESCRIPTORS, 2, NvmeStatus.INVALID_FIELD),
        (0x1C, 0, NvmeStatus.INVALID_FIELD),
    ],
)
def test_what_cannot_be_identified_is_refused(host: Host, cns: int, nsid: int, status: NvmeStatus) -> None:
    assert status_of(host, AdminOpcode.IDENTIFY, cdw10=cns, nsid=nsid, prp1=host.data) is status
    assert set(host.memory.view(host.data, PAGE)) == {host.guard}


def test_identify_data_may_straddle_two_pages(host: Host) -> None:
    sqe = Sqe(
        AdminOpcode.IDENTIFY, prp1=host.data + 1024, prp2=host.data + 9 * PAGE, cdw10=IdentifyCns.CONTROLLER
    )
    assert host.admin(sqe).status is OK
    data = host.memory.read(host.data + 1024, 3072) + host.memory.read(host.data + 9 * PAGE, 1024)
    assert ControllerIdentity.decode(data).serial == "NICEMU0001"
    view = host.memory.view(host.data, 10 * PAGE)
    for start, end in ((0, 1024), (PAGE, 9 * PAGE), (9 * PAGE + 1024, 10 * PAGE)):
        assert set(view[start:end]) == {host.guard}


@pytest.mark.parametrize(
    ("prp1", "status"), [(0x102_0001, NvmeStatus.PRP_OFFSET_INVALID), (0, NvmeStatus.DATA_TRANSFER_ERROR)]
)
def test_identify_into_nowhere_is_refused(host: Host, prp1: int, status: NvmeStatus) -> None:
    assert status_of(host, AdminOpcode.IDENTIFY, cdw10=IdentifyCns.CONTROLLER, prp1=prp1) is status


# Queues


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"cdw10": 7 << 16}, NvmeStatus.INVALID_QUEUE_IDENTIFIER),
        ({"cdw10": 7 << 16 | 1}, NvmeStatus.INVALID_QUEUE_IDENTIFIER),
        ({"cdw10": 7 << 16 | 5}, NvmeStatus.INVALID_QUEUE_IDENTIFIER),
        ({"cdw10": 0 << 16 | 2}, NvmeStatus.INVALID_QUEUE_SIZE),
        ({"cdw10": 64 << 16 | 2}, NvmeStatus.INVALID_QUEUE_SIZE),
        ({"cdw11": 0}, NvmeStatus.INVALID_FIELD),
        ({"cdw11": 5 << 16 | 3}, AdminStatus.INVALID_INTERRUPT_VECTOR),
        ({"prp1": 0x102_0010}, NvmeStatus.PRP_OFFSET_INVALID),
        ({"prp1": 0x7000_0000}, NvmeStatus.INVALID_FIELD),
    ],
)
def test_a_completion_queue_that_cannot_be_is_refused(
    host: Host, change: dict[str, int], status: int
) -> None:
    fields = {"prp1": host.data, "cdw10": 7 << 16 | 2, "cdw11": 1} | change
    assert status_of(host, AdminOpcode.CREATE_IO_CQ, **fields) is status


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"cdw10": 7 << 16}, NvmeStatus.INVALID_QUEUE_IDENTIFIER),
        ({"cdw10": 7 << 16 | 1}, NvmeStatus.INVALID_QUEUE_IDENTIFIER),
        ({"cdw10": 7 << 16 | 5}, NvmeStatus.INVALID_QUEUE_IDENTIFIER),
        ({"cdw10": 0 << 16 | 2}, NvmeStatus.INVALID_QUEUE_SIZE),
        ({"cdw11": 0 << 16 | 1}, NvmeStatus.INVALID_QUEUE_IDENTIFIER),
        ({"cdw11": 5 << 16 | 1}, NvmeStatus.INVALID_QUEUE_IDENTIFIER),
        ({"cdw11": 2 << 16 | 1}, NvmeStatus.COMPLETION_QUEUE_INVALID),
        ({"cdw11": 1 << 16}, NvmeStatus.INVALID_FIELD),
        ({"prp1": 0x102_0010}, NvmeStatus.PRP_OFFSET_INVALID),
        ({"prp1": 0x7000_0000}, NvmeStatus.INVALID_FIELD),
    ],
)
def test_a_submission_queue_that_cannot_be_is_refused(
    host: Host, change: dict[str, int], status: int
) -> None:
    fields = {"prp1": host.data, "cdw10": 7 << 16 | 2, "cdw11": 1 << 16 | 1} | change
    assert status_of(host, AdminOpcode.CREATE_IO_SQ, **fields) is status


def test_io_queues_need_the_entry_sizes_in_the_configuration(bare_host: Host) -> None:
    bare_host.enable(Configuration(enable=True, io_sqe_shift=0, io_cqe_shift=0))
    assert bare_host.create_cq() is NvmeStatus.INVALID_QUEUE_SIZE
    assert bare_host.create_sq() is NvmeStatus.INVALID_QUEUE_SIZE


def test_a_completion_queue_in_use_cannot_be_deleted(host: Host) -> None:
    assert status_of(host, AdminOpcode.DELETE_IO_CQ, cdw10=1) is AdminStatus.INVALID_QUEUE_DELETION
    assert status_of(host, AdminOpcode.DELETE_IO_SQ, cdw10=1) is OK
    assert status_of(host, AdminOpcode.DELETE_IO_CQ, cdw10=1) is OK
    assert host.create_cq() == host.create_sq() == OK


@pytest.mark.parametrize("opcode", [AdminOpcode.DELETE_IO_CQ, AdminOpcode.DELETE_IO_SQ])
@pytest.mark.parametrize("qid", [0, 2, 0xFFFF])
def test_a_queue_that_does_not_exist_cannot_be_deleted(host: Host, opcode: int, qid: int) -> None:
    assert status_of(host, opcode, cdw10=qid) is NvmeStatus.INVALID_QUEUE_IDENTIFIER


def test_deleting_a_submission_queue_aborts_what_has_not_begun_and_waits_for_the_rest(host: Host) -> None:
    host.send(Sqe(IoOpcode.READ, 1, 1, prp1=host.data))
    (io,) = host.controller.take_io()
    host.send(Sqe(IoOpcode.READ, 2, 1, prp1=host.data))
    host.send(Sqe(AdminOpcode.DELETE_IO_SQ, cdw10=1), qid=0, cid=77)
    assert host.reap(0) == []
    assert [(cqe.cid, cqe.status) for cqe in host.reap()] == [(2, NvmeStatus.ABORTED_SQ_DELETION)]
    assert host.controller.take_io() == []
    host.controller.on_io_complete(io.tag, OK, 0)
    assert [(cqe.cid, cqe.status) for cqe in host.reap()] == [(1, OK)]
    assert [(cqe.cid, cqe.status) for cqe in host.reap(0)] == [(77, OK)]


def test_a_submission_queue_is_not_deleted_before_its_held_completions_are_posted(host: Host) -> None:
    host.send(*(Sqe(IoOpcode.FLUSH, cid, 1) for cid in range(7)))
    host.perform()
    host.send(Sqe(IoOpcode.FLUSH, 7, 1))
    host.perform()
    host.send(Sqe(AdminOpcode.DELETE_IO_SQ, cdw10=1), qid=0, cid=77)
    assert host.reap(0) == []
    assert len(host.reap()) == 7
    assert [cqe.cid for cqe in host.reap(0)] == [77]
    assert [cqe.cid for cqe in host.reap()] == [7]


# Features, abort, events


def test_the_number_of_queues_is_what_both_sides_can(bare_host: Host) -> None:
    bare_host.enable()
    wanted = bare_host.admin(
        Sqe(AdminOpcode.SET_FEATURES, cdw10=Feature.NUMBER_OF_QUEUES, cdw11=99 << 16 | 1)
    )
    assert (wanted.status, wanted.result) == (OK, 3 << 16 | 1)
    got = bare_host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=Feature.NUMBER_OF_QUEUES))
    assert got.result == 3 << 16 | 1
    default = bare_host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=1 << 8 | Feature.NUMBER_OF_QUEUES))
    assert default.result == 3 << 16 | 3
    assert bare_host.create_cq(3) is OK
    assert bare_host.create_sq(3, 3) is NvmeStatus.INVALID_QUEUE_IDENTIFIER


@pytest.mark.parametrize(
    ("cdw10", "cdw11", "status"),
    [
        (Feature.NUMBER_OF_QUEUES, 0, AdminStatus.COMMAND_SEQUENCE_ERROR),
        (1 << 31 | Feature.ASYNC_EVENT_CONFIGURATION, 0, AdminStatus.FEATURE_NOT_SAVEABLE),
        (Feature.VOLATILE_WRITE_CACHE, 0, AdminStatus.FEATURE_NOT_CHANGEABLE),
        (0x55, 0, NvmeStatus.INVALID_FIELD),
    ],
)
def test_a_feature_that_cannot_be_set_is_refused(host: Host, cdw10: int, cdw11: int, status: int) -> None:
    assert status_of(host, AdminOpcode.SET_FEATURES, cdw10=cdw10, cdw11=cdw11) is status


@pytest.mark.parametrize("cdw11", [0xFFFF, 0xFFFF_0000])
def test_the_reserved_number_of_queues_is_refused(bare_host: Host, cdw11: int) -> None:
    bare_host.enable()
    assert (
        status_of(bare_host, AdminOpcode.SET_FEATURES, cdw10=Feature.NUMBER_OF_QUEUES, cdw11=cdw11)
        is NvmeStatus.INVALID_FIELD
    )


def test_a_feature_that_is_set_is_read_back_until_reset(host: Host) -> None:
    feature = Feature.ASYNC_EVENT_CONFIGURATION
    assert status_of(host, AdminOpcode.SET_FEATURES, cdw10=feature, cdw11=0x1F) is OK
    assert host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=feature)).result == 0x1F
    assert host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=1 << 8 | feature)).result == 0
    assert host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=3 << 8 | feature)).result == 4
    assert status_of(host, AdminOpcode.GET_FEATURES, cdw10=0x55) is NvmeStatus.INVALID_FIELD
    host.disable()
    host.enable()
    assert host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=feature)).result == 0


@pytest.mark.parametrize(
    ("feature", "cdw11", "nsid", "status"),
    [
        (Feature.POWER_MANAGEMENT, 1, 0, NvmeStatus.INVALID_FIELD),
        (Feature.POWER_MANAGEMENT, 3 << 5, 0, NvmeStatus.INVALID_FIELD),
        (Feature.TEMPERATURE_THRESHOLD, 1 << 16 | 300, 0, NvmeStatus.INVALID_FIELD),
        (Feature.TEMPERATURE_THRESHOLD, 2 << 20 | 300, 0, NvmeStatus.INVALID_FIELD),
        (Feature.ERROR_RECOVERY, 1 << 16, 1, NvmeStatus.INVALID_FIELD),
        (Feature.ERROR_RECOVERY, 1, 2, NvmeStatus.INVALID_FIELD),
        (Feature.ERROR_RECOVERY, 1, 4, NvmeStatus.INVALID_NAMESPACE),
        (Feature.INTERRUPT_VECTOR_CONFIGURATION, 5, 0, NvmeStatus.INVALID_FIELD),
        (Feature.ARBITRATION, 1, 3, AdminStatus.FEATURE_NOT_NAMESPACE_SPECIFIC),
        (Feature.ARBITRATION, 1, 4, NvmeStatus.INVALID_NAMESPACE),
        (Feature.KEEP_ALIVE_TIMER, 1000, 0, NvmeStatus.INVALID_FIELD),
    ],
)
def test_a_value_that_a_feature_cannot_have_is_refused(
    host: Host, feature: Feature, cdw11: int, nsid: int, status: int
) -> None:
    assert status_of(host, AdminOpcode.SET_FEATURES, cdw10=feature, cdw11=cdw11, nsid=nsid) is status


@pytest.mark.parametrize(
    ("feature", "cdw11", "kept"),
    [
        (Feature.ARBITRATION, 0xFFFF_FFFF, 0xFFFF_FF07),
        (Feature.POWER_MANAGEMENT, 0xFFFF_FF40, 0x40),
        (Feature.TEMPERATURE_THRESHOLD, 0xF << 16 | 301, 301),
        (Feature.INTERRUPT_COALESCING, 0xFFFF_1234, 0x1234),
        (Feature.WRITE_ATOMICITY_NORMAL, 3, 1),
    ],
)
def test_reserved_bits_of_a_feature_are_not_kept(host: Host, feature: int, cdw11: int, kept: int) -> None:
    assert status_of(host, AdminOpcode.SET_FEATURES, cdw10=feature, cdw11=cdw11) is OK
    assert host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=feature)).result == kept


def test_every_interrupt_vector_and_namespace_has_a_value_of_its_own(host: Host) -> None:
    vectors, recovery = Feature.INTERRUPT_VECTOR_CONFIGURATION, Feature.ERROR_RECOVERY
    assert status_of(host, AdminOpcode.SET_FEATURES, cdw10=vectors, cdw11=1 << 16 | 4) is OK
    got = [host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=vectors, cdw11=one)).result for one in range(5)]
    assert got == [0, 1, 2, 3, 1 << 16 | 4]
    assert status_of(host, AdminOpcode.SET_FEATURES, cdw10=recovery, cdw11=5, nsid=3) is OK
    got = [host.admin(Sqe(AdminOpcode.GET_FEATURES, nsid=nsid, cdw10=recovery)).result for nsid in (1, 3)]
    assert got == [0, 5]
    broadcast = {"cdw10": recovery, "nsid": 0xFFFF_FFFF}
    assert status_of(host, AdminOpcode.GET_FEATURES, **broadcast) is NvmeStatus.INVALID_NAMESPACE


def test_a_temperature_event_waits_for_a_request_and_comes_once_until_the_log_is_read(host: Host) -> None:
    event = (0x77, OK, 0x02_0101)

    def send(opcode: int, cid: int, cdw10: int = 0, cdw11: int = 0) -> list[tuple[int, int, int]]:
        host.send(Sqe(opcode, cid, prp1=host.data, cdw10=cdw10, cdw11=cdw11), qid=0)
        return [(cqe.cid, cqe.status, cqe.result) for cqe in host.reap(0)]

    def cross() -> list[tuple[int, int, int]]:
        threshold = Feature.TEMPERATURE_THRESHOLD
        done = [*send(AdminOpcode.SET_FEATURES, 1, threshold, 400)]
        done += send(AdminOpcode.SET_FEATURES, 2, threshold, 300)
        assert {(1, OK, 0), (2, OK, 0)} <= set(done)
        return [one for one in done if one[0] > 2]

    def read_health(retain: int) -> list[tuple[int, int, int]]:
        done = send(AdminOpcode.GET_LOG_PAGE, 3, 127 << 16 | retain << 15 | 2)
        assert host.memory.read(host.data, 1) == b"\2"
        return [one for one in done if one[0] > 3]

    assert cross() == []
    assert send(AdminOpcode.ASYNC_EVENT_REQUEST, 0x77) == []  # nobody wanted to hear of it
    assert send(AdminOpcode.SET_FEATURES, 4, Feature.ASYNC_EVENT_CONFIGURATION, 1 << 1) == [(4, OK, 0)]
    assert cross() == [event]
    assert cross() == []
    assert send(AdminOpcode.ASYNC_EVENT_REQUEST, 0x77) == []
    assert read_health(retain=1) == []
    assert read_health(retain=0) == [event]
    assert cross() == read_health(retain=0) == []
    assert send(AdminOpcode.ASYNC_EVENT_REQUEST, 0x77) == [event]


def test_a_temperature_at_the_lower_threshold_is_a_warning_as_well(host: Host) -> None:
    threshold = Feature.TEMPERATURE_THRESHOLD
    assert status_of(host, AdminOpcode.SET_FEATURES, cdw10=threshold, cdw11=1 << 20 | 300) is OK
    assert status_of(host, AdminOpcode.GET_LOG_PAGE, cdw10=127 << 16 | 2, prp1=host.data) is OK
    assert host.memory.read(host.data, 1) == b"\2"


def test_a_command_that_has_not_begun_is_aborted(host: Host) -> None:
    host.send(Sqe(IoOpcode.READ, 5, 1, prp1=host.data), Sqe(IoOpcode.READ, 6, 1, prp1=host.data))
    cqe = host.admin(Sqe(AdminOpcode.ABORT, cdw10=5 << 16 | 1))
    assert (cqe.status, cqe.result) == (OK, 0)
    assert [(cqe.cid, cqe.status) for cqe in host.reap()] == [(5, NvmeStatus.ABORTED_BY_REQUEST)]
    assert len(host.controller.take_io()) == 1


def test_a_command_in_flight_or_unknown_is_not_aborted(host: Host) -> None:
    host.send(Sqe(IoOpcode.READ, 5, 1, prp1=host.data))
    (io,) = host.controller.take_io()
    for cdw10 in (5 << 16 | 1, 9 << 16 | 1, 5 << 16 | 3):
        cqe = host.admin(Sqe(AdminOpcode.ABORT, cdw10=cdw10))
        assert (cqe.status, cqe.result) == (OK, 1)
    host.controller.on_io_complete(io.tag, OK, 0)
    assert [(cqe.cid, cqe.status) for cqe in host.reap()] == [(5, OK)]


def test_asynchronous_event_requests_stay_pending_up_to_the_limit_and_can_be_aborted(host: Host) -> None:
    for cid in range(900, 904):
        host.send(Sqe(AdminOpcode.ASYNC_EVENT_REQUEST), qid=0, cid=cid)
    assert host.reap(0) == []
    assert status_of(host, AdminOpcode.ASYNC_EVENT_REQUEST) is AdminStatus.ASYNC_EVENT_LIMIT_EXCEEDED
    host.send(Sqe(AdminOpcode.ABORT, cdw10=901 << 16), qid=0, cid=950)
    assert [(cqe.cid, cqe.status, cqe.result) for cqe in host.reap(0)] == [
        (901, NvmeStatus.ABORTED_BY_REQUEST, 0),
        (950, OK, 0),
    ]


@pytest.mark.parametrize("opcode", [0x03, 0x10, 0x80, 0xFF])
def test_other_admin_commands_are_refused(host: Host, opcode: int) -> None:
    assert status_of(host, opcode) is NvmeStatus.INVALID_COMMAND_OPCODE


@pytest.mark.parametrize("change", [{"fuse": 1}, {"psdt": 1}])
def test_fused_and_scatter_gather_admin_commands_are_refused(host: Host, change: dict[str, int]) -> None:
    assert status_of(host, AdminOpcode.GET_FEATURES, cdw10=7, **change) is NvmeStatus.INVALID_FIELD
