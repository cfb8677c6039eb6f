# SPDX-License-Identifier: Apache-2.0
"""What NVMe controllers do with each command, sent by hand: ours and QEMU's, held to the text.

Every status is the specification's. Where a controller answers otherwise, `nvme_deviations` says what it
answers, and a deviation that has gone is a failure as well.
Source: NVM Express Base Specification 2.0; NVM Command Set Specification 1.0.
"""

from __future__ import annotations

import dataclasses
import random

import pytest

from nicemu.errors import NvmeStatus, UsageError
from nicemu.nvme import (
    AdminOpcode,
    Feature,
    IdentifyCns,
    IoOpcode,
    NamespaceIdentity,
    Sqe,
)
from nicemu.nvme.command import AdminStatus
from nicemu.nvme.identify import ControllerIdentity, decode_namespace_list
from nicemu.pcie import PAGE_BYTES as PAGE
from tests.contract.nvme_deviations import OTHER_REVISION_IN_SLOT, check
from tests.contract.nvme_plain_host import PlainHost, command, read, write
from tests.contract.nvme_rigs import (
    BLOCKS,
    GUARD,
    HOST,
    SMALL_BLOCKS,
    SMALL_NSID,
)

OK = NvmeStatus.SUCCESS
NOWHERE = 0x7000_0000_0000
ALL = 0xFFFF_FFFF
LAST_NSID = 256


def marked(number: int, length_bytes: int) -> bytes:
    return random.Random(number).randbytes(length_bytes)


def identify(host: PlainHost, cns: int, nsid: int = 0, prp1: int = 0, prp2: int = 0) -> int:
    return host.admin(
        Sqe(AdminOpcode.IDENTIFY, nsid=nsid, prp1=prp1 or host.data, prp2=prp2, cdw10=cns)
    ).status


# Identify


def test_identify_tells_controller_and_namespaces(host: PlainHost) -> None:
    assert identify(host, IdentifyCns.CONTROLLER) == OK
    controller = ControllerIdentity.decode(host.memory.read(host.data, PAGE))
    assert controller.namespace_limit >= SMALL_NSID
    assert controller.mdts == 9
    for nsid, geometry in ((1, (PAGE, BLOCKS)), (SMALL_NSID, (512, SMALL_BLOCKS)), (2, (0, 0))):
        assert identify(host, IdentifyCns.NAMESPACE, nsid) == OK
        found = NamespaceIdentity.decode(host.memory.read(host.data, PAGE))
        assert (found.block_bytes, found.block_count) == geometry


@pytest.mark.parametrize(("above", "listed"), [(0, [1, 3]), (1, [3]), (2, [3]), (3, [])])
def test_active_namespaces_are_listed_above_an_nsid(host: PlainHost, above: int, listed: list[int]) -> None:
    assert identify(host, IdentifyCns.ACTIVE_NAMESPACES, above) == OK
    assert decode_namespace_list(host.memory.read(host.data, PAGE)) == listed


def test_each_namespace_has_a_descriptor(host: PlainHost) -> None:
    assert identify(host, IdentifyCns.NAMESPACE_DESCRIPTORS, 1) == OK
    kind, length_bytes = host.memory.read(host.data, 2)
    assert (kind, length_bytes) in ((1, 8), (2, 16), (3, 16), (4, 1))


@pytest.mark.parametrize(
    ("cns", "nsid", "status"),
    [
        (IdentifyCns.NAMESPACE, 0, NvmeStatus.INVALID_NAMESPACE),
        (IdentifyCns.NAMESPACE, LAST_NSID + 1, NvmeStatus.INVALID_NAMESPACE),
        (IdentifyCns.NAMESPACE, ALL, NvmeStatus.INVALID_NAMESPACE),
        (IdentifyCns.ACTIVE_NAMESPACES, ALL - 1, NvmeStatus.INVALID_NAMESPACE),
        (IdentifyCns.ACTIVE_NAMESPACES, ALL, NvmeStatus.INVALID_NAMESPACE),
        (IdentifyCns.NAMESPACE_DESCRIPTORS, 2, NvmeStatus.INVALID_FIELD),
        (0x55, 0, NvmeStatus.INVALID_FIELD),
    ],
)
def test_what_cannot_be_identified_is_refused(host: PlainHost, cns: int, nsid: int, status: int) -> None:
    assert identify(host, cns, nsid) == status
    assert set(host.memory.view(host.data, PAGE)) == {GUARD}


def test_an_identify_page_may_lie_across_two_pages(host: PlainHost) -> None:
    assert identify(host, IdentifyCns.CONTROLLER) == OK
    whole = host.memory.read(host.data, PAGE)
    first, second = host.data + 2 * PAGE + 64, host.data + 8 * PAGE
    assert identify(host, IdentifyCns.CONTROLLER, 0, first, second) == OK
    assert host.memory.read(first, PAGE - 64) + host.memory.read(second, 64) == whole
    assert identify(host, IdentifyCns.CONTROLLER, 0, first, second + 8) == NvmeStatus.PRP_OFFSET_INVALID


# Admin commands


def test_unknown_admin_opcodes_and_plain_rules(host: PlainHost) -> None:
    assert host.admin(Sqe(0x7F)).status == NvmeStatus.INVALID_COMMAND_OPCODE
    assert host.admin(Sqe(0xC5)).status == NvmeStatus.INVALID_COMMAND_OPCODE
    fused = Sqe(AdminOpcode.IDENTIFY, prp1=host.data, cdw10=1, fuse=1)
    assert host.admin(fused).status == NvmeStatus.INVALID_FIELD
    lists = dataclasses.replace(fused, fuse=0, psdt=1)
    assert host.admin(lists).status == NvmeStatus.INVALID_FIELD


def test_the_number_of_queues_is_negotiated_before_there_is_one(host: PlainHost) -> None:
    wanted = Sqe(AdminOpcode.SET_FEATURES, cdw10=Feature.NUMBER_OF_QUEUES, cdw11=1 << 16 | 1)
    done = host.admin(wanted)
    assert done.status == OK
    assert done.result & 0xFFFF >= 1
    assert done.result >> 16 >= 1
    none = host.admin(dataclasses.replace(wanted, cdw11=0xFFFF))
    assert none.status == NvmeStatus.INVALID_FIELD
    host.open(1)
    assert host.admin(wanted).status == AdminStatus.COMMAND_SEQUENCE_ERROR


def test_features_that_are_not_there_or_not_changeable_are_refused(host: PlainHost) -> None:
    unknown = Sqe(AdminOpcode.SET_FEATURES, cdw10=0xBF)
    assert host.admin(unknown).status == NvmeStatus.INVALID_FIELD
    assert host.admin(dataclasses.replace(unknown, opcode=0x0A)).status == NvmeStatus.INVALID_FIELD
    cache = Feature.VOLATILE_WRITE_CACHE
    capabilities = host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=3 << 8 | cache))
    assert capabilities.status == OK
    off = host.admin(Sqe(AdminOpcode.SET_FEATURES, cdw10=cache, cdw11=0)).status
    assert off == (OK if capabilities.result & 4 else AdminStatus.FEATURE_NOT_CHANGEABLE)
    assert host.admin(Sqe(AdminOpcode.SET_FEATURES, cdw10=cache, cdw11=1)).status == OK
    saved = Sqe(AdminOpcode.SET_FEATURES, cdw10=1 << 31 | Feature.ASYNC_EVENT_CONFIGURATION)
    assert host.admin(saved).status == AdminStatus.FEATURE_NOT_SAVEABLE
    reserved = host.admin(Sqe(AdminOpcode.GET_FEATURES, cdw10=4 << 8 | Feature.NUMBER_OF_QUEUES)).status
    check(host, "a reserved selection of a feature", reserved, NvmeStatus.INVALID_FIELD)


def select(feature: int, selected: int, *, cdw11: int = 0, nsid: int = 0) -> Sqe:
    return Sqe(AdminOpcode.GET_FEATURES, nsid=nsid, cdw10=selected << 8 | feature, cdw11=cdw11)


@pytest.mark.parametrize(
    ("feature", "which", "value", "nsid"),
    [
        (Feature.ARBITRATION, 0, 0x0403_0205, 0),
        (Feature.POWER_MANAGEMENT, 0, 1 << 5, 0),
        (Feature.TEMPERATURE_THRESHOLD, 0, 350, 0),
        (Feature.TEMPERATURE_THRESHOLD, 1 << 20, 250, 0),
        (Feature.ERROR_RECOVERY, 0, 77, 1),
        (Feature.INTERRUPT_COALESCING, 0, 0x1234, 0),
        (Feature.INTERRUPT_VECTOR_CONFIGURATION, 2, 1 << 16 | 2, 0),
        (Feature.WRITE_ATOMICITY_NORMAL, 0, 1, 0),
        (Feature.ASYNC_EVENT_CONFIGURATION, 0, 0x1F, 0),
    ],
)
def test_a_feature_that_an_io_controller_must_have_is_kept_until_a_reset(
    host: PlainHost, feature: Feature, which: int, value: int, nsid: int
) -> None:
    current, default, saved, capabilities = (
        host.admin(select(feature, selected, cdw11=which, nsid=nsid)) for selected in range(4)
    )
    assert {one.status for one in (current, default, saved, capabilities)} == {OK}
    assert current.result == default.result == saved.result != value
    wanted = Sqe(AdminOpcode.SET_FEATURES, nsid=nsid, cdw10=feature, cdw11=which | value)
    is_changeable = bool(capabilities.result & 1 << 2)
    assert is_changeable or host.rig.name == "qemu"
    assert host.admin(wanted).status == (OK if is_changeable else AdminStatus.FEATURE_NOT_CHANGEABLE)
    kept = host.admin(select(feature, 0, cdw11=which, nsid=nsid)).result
    assert kept == (value if is_changeable else default.result)
    assert host.admin(select(feature, 1, cdw11=which, nsid=nsid)).result == default.result
    host.enable()
    after = host.admin(select(feature, 0, cdw11=which, nsid=nsid)).result
    check(host, f"{feature.name}, {which:#x}, after a reset", after, default.result)
    if after != default.result:
        assert host.admin(dataclasses.replace(wanted, cdw11=which | default.result)).status == OK


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        (Feature.POWER_MANAGEMENT, 1),
        (Feature.TEMPERATURE_THRESHOLD, 2 << 20),
        (Feature.INTERRUPT_VECTOR_CONFIGURATION, 99),
    ],
)
def test_a_value_of_a_feature_that_there_is_not_is_refused(
    host: PlainHost, feature: Feature, value: int
) -> None:
    capabilities = host.admin(select(feature, 3)).result
    refusal = NvmeStatus.INVALID_FIELD if capabilities & 4 else AdminStatus.FEATURE_NOT_CHANGEABLE
    refused = host.admin(Sqe(AdminOpcode.SET_FEATURES, cdw10=feature, cdw11=value)).status
    check(host, f"{feature.name} of {value:#x}", refused, refusal)


def test_features_are_of_a_namespace_or_of_the_controller(host: PlainHost) -> None:
    recovery, events = Feature.ERROR_RECOVERY, Feature.ASYNC_EVENT_CONFIGURATION
    assert host.admin(select(recovery, 3, nsid=1)).result & 1 << 1
    assert host.admin(select(recovery, 0, nsid=0)).status == NvmeStatus.INVALID_NAMESPACE
    everywhere = Sqe(AdminOpcode.SET_FEATURES, nsid=ALL, cdw10=recovery, cdw11=9)
    assert host.admin(everywhere).status == OK
    assert [host.admin(select(recovery, 0, nsid=nsid)).result for nsid in (1, SMALL_NSID)] == [9, 9]
    assert host.admin(dataclasses.replace(everywhere, cdw11=0)).status == OK
    assert not host.admin(select(events, 3)).result & 1 << 1
    one = host.admin(Sqe(AdminOpcode.SET_FEATURES, nsid=1, cdw10=events)).status
    assert one == AdminStatus.FEATURE_NOT_NAMESPACE_SPECIFIC


def test_a_temperature_at_a_threshold_is_a_critical_warning_and_an_event(host: PlainHost) -> None:
    def health() -> tuple[int, int]:
        cdw10 = 127 << 16 | 2
        log = Sqe(AdminOpcode.GET_LOG_PAGE, nsid=ALL, prp1=host.data, cdw10=cdw10)
        assert host.admin(log).status == OK
        warning, low, high = host.memory.read(host.data, 3)
        return warning, low | high << 8

    def identity(offset: int) -> int:
        assert identify(host, IdentifyCns.CONTROLLER) == OK
        return int.from_bytes(host.memory.read(host.data + offset, 2), "little")

    warning, temperature = health()
    assert not warning & 2
    assert temperature < identity(266) <= identity(268)
    threshold, events = Feature.TEMPERATURE_THRESHOLD, Feature.ASYNC_EVENT_CONFIGURATION
    assert host.admin(select(threshold, 1)).result == identity(266)
    assert host.admin(Sqe(AdminOpcode.SET_FEATURES, cdw10=events, cdw11=2)).status == OK
    host.send(Sqe(AdminOpcode.ASYNC_EVENT_REQUEST, 0x77), qid=0)
    wanted = Sqe(AdminOpcode.SET_FEATURES, 0x78, cdw10=threshold, cdw11=temperature)
    host.send(wanted, qid=0)
    done = {cqe.cid: cqe for cqe in host.reap(2, qid=0)}
    assert done[0x78].status == OK
    assert (done[0x77].status, done[0x77].result) == (OK, 0x02_0101)
    assert health()[0] & 2
    assert host.admin(Sqe(AdminOpcode.SET_FEATURES, cdw10=threshold, cdw11=temperature + 1)).status == OK
    assert not health()[0] & 2
    for feature, default in ((threshold, identity(266)), (events, 0)):
        host.admin(Sqe(AdminOpcode.SET_FEATURES, cdw10=feature, cdw11=default))


def test_an_abort_that_finds_nothing_says_so(io: PlainHost) -> None:
    done = io.admin(Sqe(AdminOpcode.ABORT, cdw10=55 << 16 | 1))
    assert (done.status, done.result & 1) == (OK, 1)


# Reads, writes, flushes


@pytest.mark.parametrize("offset", [0, 4, 512, PAGE - 4])
def test_one_block_lies_in_one_page_or_two(io: PlainHost, offset: int) -> None:
    data = marked(offset, PAGE)
    first, second, back = io.data, io.data + 9 * PAGE, io.data + 20 * PAGE
    io.memory.write(first + offset, data[: PAGE - offset])
    io.memory.write(second, data[PAGE - offset :])
    assert io.do(write(9, 1, first + offset, second)) == OK
    assert io.do(read(9, 1, back)) == OK
    assert io.memory.read(back, PAGE) == data


@pytest.mark.parametrize("blocks", [2, 3, 4, 256, 512])
@pytest.mark.parametrize("offset", [0, 4, PAGE - 4])
def test_pages_of_a_list_may_lie_in_any_order(io: PlainHost, blocks: int, offset: int) -> None:
    data = marked(blocks, blocks * PAGE)
    page_count = blocks + bool(offset)
    pages = [io.data + PAGE * number for number in range(page_count)]
    random.Random(offset).shuffle(pages)
    pieces = [data[: PAGE - offset]]
    pieces += [data[start : start + PAGE] for start in range(PAGE - offset, len(data), PAGE)]
    for page, piece, skip in zip(pages, pieces, [offset] + [0] * page_count, strict=False):
        io.memory.write(page + skip, piece)
    second = pages[1] if page_count == 2 else io.pages(*pages[1:])
    if page_count - 1 > PAGE // 8:  # the last entry of a full page of a list points on
        io.pages(*pages[512:], at=io.lists + PAGE)
        io.pages(*pages[1:512], io.lists + PAGE)
    assert io.do(write(3, blocks, pages[0] + offset, second)) == OK
    for page in pages:
        io.memory.write(page, bytes([GUARD]) * PAGE)
    assert io.do(read(3, blocks, pages[0] + offset, second)) == OK
    found = b"".join(
        io.memory.read(page + skip, len(piece))
        for page, piece, skip in zip(pages, pieces, [offset] + [0] * page_count, strict=False)
    )
    assert found == data
    assert set(io.memory.view(pages[0], offset)) <= {GUARD}
    assert io.rig.memory.read(HOST, 64) == bytes([GUARD]) * 64


def test_a_list_may_start_anywhere_in_its_page_and_go_on_in_another(io: PlainHost) -> None:
    data = marked(4, 4 * PAGE)
    pages = [io.data + PAGE * number for number in (5, 3, 8, 1)]
    for number, page in enumerate(pages):
        io.memory.write(page, data[number * PAGE : (number + 1) * PAGE])
    end = io.lists + PAGE - 16
    io.pages(pages[1], io.lists + PAGE, at=end)
    io.pages(*pages[2:], at=io.lists + PAGE)
    assert io.do(write(0, 4, pages[0], end)) == OK
    assert io.do(read(0, 4, pages[0], io.pages(*pages[1:], at=io.lists + 800))) == OK
    assert b"".join(io.memory.read(page, PAGE) for page in pages) == data
    io.pages(pages[1], io.lists + PAGE + 8, at=end)
    assert io.do(read(0, 4, pages[0], end)) == NvmeStatus.PRP_OFFSET_INVALID


@pytest.mark.parametrize("opcode", [IoOpcode.READ, IoOpcode.WRITE])
def test_entries_and_lists_that_are_not_aligned_are_refused(io: PlainHost, opcode: int) -> None:
    data = io.data
    refused = NvmeStatus.PRP_OFFSET_INVALID
    assert io.do(command(opcode, 0, 2, data, data + PAGE + 4)) == refused
    assert io.do(command(opcode, 0, 1, data + 4, data + PAGE + 4)) == refused
    assert io.do(command(opcode, 0, 3, data, io.pages(0, data + PAGE, data + 2 * PAGE) + 4)) == refused
    assert io.do(command(opcode, 0, 3, data, io.pages(data + PAGE, data + 2 * PAGE + 4))) == refused
    assert io.do(command(opcode, 0, 3, data, io.pages(data + PAGE + 8, data + 2 * PAGE))) == refused


@pytest.mark.parametrize("low_bits", [1, 2, 3])
def test_the_low_bits_of_prp1_are_refused_or_ignored(io: PlainHost, low_bits: int) -> None:
    """QEMU does neither, and moves the bytes to where no entry can point."""
    status = io.do(read(0, 1, io.data + low_bits, io.data + PAGE))
    found = io.memory.read(io.data, PAGE + 8)
    if io.rig.name == "qemu":
        assert status == OK
        assert found == bytes([GUARD]) * low_bits + bytes(PAGE) + bytes([GUARD]) * (8 - low_bits)
    elif status != NvmeStatus.PRP_OFFSET_INVALID:
        assert (status, found) == (OK, bytes(PAGE) + bytes([GUARD]) * 8)


@pytest.mark.parametrize("opcode", [IoOpcode.READ, IoOpcode.WRITE])
def test_memory_that_nobody_has_is_an_error(io: PlainHost, opcode: IoOpcode) -> None:
    with pytest.raises(UsageError):
        io.memory.find(NOWHERE, 1)
    status = io.do(command(opcode, 0, 1, NOWHERE))
    check(io, f"a {opcode.name} with memory that nobody has", status, NvmeStatus.DATA_TRANSFER_ERROR)
    assert io.do(command(opcode, 0, 3, io.data, NOWHERE)) == NvmeStatus.DATA_TRANSFER_ERROR
    assert io.do(read(0, 1, io.data)) == OK


@pytest.mark.parametrize("opcode", [IoOpcode.READ, IoOpcode.WRITE])
@pytest.mark.parametrize(
    ("slba", "blocks"), [(BLOCKS - 1, 2), (BLOCKS, 1), (1 << 63, 1), ((1 << 64) - 1, 1), ((1 << 64) - 1, 2)]
)
def test_blocks_behind_the_end_are_refused(io: PlainHost, opcode: int, slba: int, blocks: int) -> None:
    second = io.data + PAGE if blocks == 2 else 0
    assert io.do(command(opcode, slba, blocks, io.data, second)) == NvmeStatus.LBA_OUT_OF_RANGE
    assert set(io.memory.view(io.data, 2 * PAGE)) == {GUARD}


@pytest.mark.parametrize(
    ("nsid", "status"),
    [
        (0, NvmeStatus.INVALID_NAMESPACE),
        (2, NvmeStatus.INVALID_FIELD),
        (LAST_NSID + 1, NvmeStatus.INVALID_NAMESPACE),
        (ALL, NvmeStatus.INVALID_FIELD),
    ],
)
def test_a_namespace_that_is_not_active_is_refused(io: PlainHost, nsid: int, status: int) -> None:
    assert io.do(read(0, 1, io.data, nsid=nsid)) == status
    if nsid != ALL:
        assert io.do(Sqe(IoOpcode.FLUSH, nsid=nsid)) == status


def test_a_flush_of_all_namespaces_does_as_the_controller_says(io: PlainHost) -> None:
    assert io.do(Sqe(IoOpcode.FLUSH, nsid=1)) == OK
    assert identify(io, IdentifyCns.CONTROLLER) == OK
    cache = io.memory.read(io.data + 525, 1)[0]
    assert cache & 1
    specified = {2: NvmeStatus.INVALID_NAMESPACE, 3: OK}[cache >> 1 & 3]
    assert io.do(Sqe(IoOpcode.FLUSH, nsid=ALL)) == specified


def test_unknown_opcodes_fused_commands_and_too_long_transfers_are_refused(io: PlainHost) -> None:
    assert io.do(command(0x7F)) == NvmeStatus.INVALID_COMMAND_OPCODE
    assert io.do(dataclasses.replace(read(0, 1, io.data), fuse=1)) == NvmeStatus.INVALID_FIELD
    pages = [io.data + PAGE * number for number in range(1, 513)]
    io.pages(*pages[511:], at=io.lists + PAGE)
    too_long = read(0, 513, io.data, io.pages(*pages[:511], io.lists + PAGE))
    assert io.do(too_long) == NvmeStatus.INVALID_FIELD


def test_force_unit_access_is_taken(io: PlainHost) -> None:
    io.memory.write(io.data, b"forced.." * 512)
    assert io.do(dataclasses.replace(write(1, 1, io.data), cdw12=1 << 30)) == OK
    assert io.do(dataclasses.replace(read(1, 1, io.data + PAGE), cdw12=1 << 30)) == OK
    assert io.memory.read(io.data + PAGE, PAGE) == b"forced.." * 512


def test_a_second_namespace_has_blocks_of_its_own(io: PlainHost) -> None:
    io.memory.write(io.data, marked(1, PAGE))
    assert io.do(write(8, 8, io.data, nsid=SMALL_NSID)) == OK
    assert io.do(read(8, 1, io.data + PAGE)) == OK
    assert set(io.memory.view(io.data + PAGE, PAGE)) == {0}
    assert io.do(read(9, 7, io.data + 2 * PAGE, nsid=SMALL_NSID)) == OK
    assert io.memory.read(io.data + 2 * PAGE, PAGE) == marked(1, PAGE)[512:] + bytes([GUARD]) * 512
    assert io.do(read(SMALL_BLOCKS - 1, 2, io.data, nsid=SMALL_NSID)) == NvmeStatus.LBA_OUT_OF_RANGE


# Log pages


def log_page(host: PlainHost, identifier: int, length: int, offset: int = 0, nsid: int = ALL) -> int:
    dwords = length // 4 - 1
    sqe = Sqe(AdminOpcode.GET_LOG_PAGE, nsid=nsid, prp1=host.data, cdw10=dwords << 16 | identifier)
    return host.admin(dataclasses.replace(sqe, cdw12=offset)).status


def test_health_counts_what_was_read_and_written(host: PlainHost) -> None:
    host.open(1)

    def counts() -> list[int]:
        assert log_page(host, 2, 512) == OK
        page = host.memory.read(host.data, 512)
        assert page[0] == 0
        assert 270 < int.from_bytes(page[1:3], "little") < 340
        return [int.from_bytes(page[at : at + 16], "little") for at in (64, 80)]

    before = counts()
    for number in range(3):
        assert host.do(write(number, 1, host.data + 8 * PAGE)) == OK
    assert host.do(read(0, 1, host.data + 8 * PAGE)) == OK
    assert host.do(read(BLOCKS, 1, host.data + 8 * PAGE)) == NvmeStatus.LBA_OUT_OF_RANGE
    assert counts() == [before[0] + 1, before[1] + 3]


def test_the_firmware_slot_is_that_of_identify(host: PlainHost) -> None:
    assert identify(host, IdentifyCns.CONTROLLER) == OK
    revision = host.memory.read(host.data + 64, 8)
    assert log_page(host, 3, 512) == OK
    page = host.memory.read(host.data, 512)
    assert page[0] & 7 == 1
    is_same = page[8:16].rstrip() == revision.rstrip()
    assert is_same is (host.rig.name not in OTHER_REVISION_IN_SLOT)


def test_a_log_page_can_be_read_from_an_offset_on_and_nothing_beside_is_touched(host: PlainHost) -> None:
    assert log_page(host, 2, 512) == OK
    whole = host.memory.read(host.data, 512)
    host.memory.write(host.data, bytes([GUARD]) * 512)
    assert log_page(host, 2, 64, offset=64) == OK
    assert host.memory.read(host.data, 128) == whole[64:128] + bytes([GUARD]) * 64
    assert log_page(host, 2, 64, offset=513) == NvmeStatus.INVALID_FIELD


def test_errors_were_none(host: PlainHost) -> None:
    assert log_page(host, 1, 64) == OK
    assert not any(host.memory.read(host.data, 64))


def test_a_log_page_that_there_is_not_is_refused(host: PlainHost) -> None:
    found = log_page(host, 0xBF, 64)
    check(host, "a log page that there is not", found, AdminStatus.INVALID_LOG_PAGE)


@pytest.mark.parametrize("cns", [IdentifyCns.COMMAND_SET_NAMESPACE, IdentifyCns.COMMAND_SET_CONTROLLER])
def test_the_nvm_command_set_identifies_itself_and_others_are_refused(host: PlainHost, cns: int) -> None:
    assert identify(host, cns, nsid=1) == OK
    sqe = Sqe(AdminOpcode.IDENTIFY, nsid=1, prp1=host.data, cdw10=cns, cdw11=1 << 24)
    assert host.admin(sqe).status == NvmeStatus.INVALID_FIELD
