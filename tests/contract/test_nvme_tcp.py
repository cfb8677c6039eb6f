# SPDX-License-Identifier: Apache-2.0
"""An NVMe/TCP target in front of our controller and of QEMU's: one meaning, whatever is behind it.

Source: NVM Express TCP Transport Specification 1.0; Base Specification 2.0, "Fabrics Command Set".
"""

from __future__ import annotations

import random
import socket
import struct
from pathlib import Path

import pytest

from nicemu.errors import ResourceError
from nicemu.fabric import DEFAULT_SUBSYSTEM, NvmeTcpTarget
from nicemu.fabric.nvme_tcp.association import Association
from tests.contract.nvme_rigs import NIC, SMALL_NSID, Rig, nicemu_rig, until
from tests.contract.nvme_tcp_host import IN_CAPSULE, PlainHost, RigController

FLUSH, WRITE, READ = 0x00, 0x01, 0x02
IDENTIFY, ABORT, SET_FEATURES, GET_FEATURES, ASYNC, KEEP_ALIVE = 0x06, 0x08, 0x09, 0x0A, 0x0C, 0x18
BLOCK = 4096


def bytes_of(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


@pytest.fixture
def association(rig: Rig) -> Association:
    return Association(RigController(rig), DEFAULT_SUBSYSTEM)


@pytest.fixture
def admin(rig: Rig, association: Association) -> PlainHost:
    host = PlainHost(rig, association)
    host.enable()
    return host


@pytest.fixture
def io(rig: Rig, association: Association, admin: PlainHost) -> PlainHost:
    host = PlainHost(rig, association)
    assert host.connect(qid=1, entries=64).status == 0
    return host


def free_buffers(association: Association) -> int:
    return len(association._memory._free)


def test_a_connection_begins_with_its_request(rig: Rig, association: Association) -> None:
    host = PlainHost(rig, association)
    assert host.initialized
    early = PlainHost(rig, association, initialize=False)
    early.send(IDENTIFY)
    assert early.terminated == 2
    assert early.connection.is_over


@pytest.mark.parametrize("alignment", [0, 1, 6, 9, 31])
def test_data_begin_where_the_host_wants_them(rig: Rig, association: Association, alignment: int) -> None:
    admin = PlainHost(rig, association, alignment=alignment)
    admin.enable()
    data = admin.ask(IDENTIFY, length=4096, cdw10=1).data
    assert len(data) == 4096
    assert data[768:1024].rstrip(b"\0") == DEFAULT_SUBSYSTEM.encode()


@pytest.mark.parametrize("alignment", [32, 255])
def test_an_alignment_that_there_is_not_ends_the_connection(
    rig: Rig, association: Association, alignment: int
) -> None:
    host = PlainHost(rig, association, alignment=alignment)
    assert not host.initialized
    assert (host.terminated, host.terminated_at) == (1, 10)
    assert host.connection.is_over


def test_properties_are_the_controller_s_registers(admin: PlainHost) -> None:
    capabilities = admin.get(0, eight=True)
    assert capabilities.result & 0xFFFF == 127
    assert capabilities.result >> 37 & 1
    assert admin.get(0x14).result == 0x0046_0001
    assert admin.get(0x08).result >> 16 in (1, 2)
    for offset, eight in ((0x14, True), (0, False), (0x24, False), (0x28, True), (0x1000, False)):
        assert admin.get(offset, eight).status == 0x02
    assert admin.set(0x24, 1).status == 0x02


def test_identify_is_the_controller_s_with_what_the_fabric_wants(admin: PlainHost) -> None:
    data = admin.ask(IDENTIFY, length=4096, cdw10=1).data
    assert struct.unpack_from("<H", data, 78) == (1,)
    assert data[77] == 5
    assert struct.unpack_from("<H", data, 320)[0] > 0
    assert struct.unpack_from("<I", data, 536)[0] & 3 == 1
    assert struct.unpack_from("<IIH", data, 1792) == (516, 1, 0)
    assert data[768:1024].rstrip(b"\0") == DEFAULT_SUBSYSTEM.encode()
    assert data[512:514] == bytes([0x66, 0x44])
    assert admin.ask(IDENTIFY, length=4096, cdw10=2).data[:12] == struct.pack("<III", 1, SMALL_NSID, 0)
    assert struct.unpack_from("<Q", admin.ask(IDENTIFY, nsid=1, length=4096).data)[0] == 1024


def test_blocks_go_there_in_capsules_and_by_transfers_and_come_back(io: PlainHost) -> None:
    small, large = bytes_of(1, BLOCK), bytes_of(2, 32 * BLOCK)
    assert io.ask(WRITE, nsid=1, length=BLOCK, data=small, kind=IN_CAPSULE, cdw10=7).status == 0
    cid = io.send(WRITE, nsid=1, length=len(large), cdw10=8, cdw12=31)
    ((named, tag, offset, length),) = io.transfers
    assert (named, offset, length) == (cid, 0, len(large))
    for start in range(0, len(large), 5000):
        part = large[start : start + 5000]
        io.host_data(cid, tag, start, part, start + 5000 >= len(large))
    assert io.answer(cid).status == 0
    assert io.ask(FLUSH, nsid=1).status == 0
    read = io.ask(READ, nsid=1, length=32 * BLOCK, cdw10=7, cdw12=31)
    assert read.status == 0
    assert read.data == small + large[: 31 * BLOCK]


def test_namespaces_have_blocks_of_their_own(io: PlainHost) -> None:
    data = bytes_of(3, 1024)
    assert io.ask(WRITE, nsid=SMALL_NSID, length=1024, data=data, kind=IN_CAPSULE, cdw12=1).status == 0
    assert io.ask(READ, nsid=SMALL_NSID, length=512, cdw10=1).data == data[512:]


def test_many_commands_at_once_are_all_answered_and_leave_no_buffer_behind(
    io: PlainHost, association: Association
) -> None:
    before = free_buffers(association)
    for number in range(40):
        data = bytes([number]) * BLOCK
        assert io.ask(WRITE, nsid=1, length=BLOCK, data=data, kind=IN_CAPSULE, cdw10=number).status == 0
    cids = [io.send(READ, nsid=1, length=BLOCK, cdw10=number) for number in range(40)]
    for number, cid in enumerate(cids):
        assert io.answer(cid).data == bytes([number]) * BLOCK
    assert free_buffers(association) == before


@pytest.mark.parametrize("length", [0, 512, 2 * BLOCK, (128 << 10) + BLOCK])
def test_a_length_that_is_not_that_of_the_blocks_is_refused(io: PlainHost, length: int) -> None:
    assert io.ask(READ, nsid=1, length=length).status == 0x0F


def test_what_the_controller_refuses_comes_back_as_it_said(io: PlainHost) -> None:
    assert io.ask(READ, nsid=1, length=BLOCK, cdw10=1024).status == 0x80
    assert io.ask(READ, nsid=0, length=BLOCK).status == 0x0B
    assert io.ask(0x55, nsid=1).status == 0x01
    assert io.ask(READ, nsid=1, length=BLOCK, flags=0).status == 0x02
    assert io.ask(READ, nsid=1, length=BLOCK, kind=0x02).status == 0x11
    assert io.ask(READ, nsid=1, length=BLOCK, data=bytes(BLOCK), kind=IN_CAPSULE).status == 0x11
    assert io.ask(WRITE, nsid=1, length=BLOCK, data=bytes(512), kind=IN_CAPSULE).status == 0x0F
    assert io.ask(READ, nsid=1, length=BLOCK).status == 0


def test_queues_are_not_made_by_commands(admin: PlainHost) -> None:
    for opcode in (0x00, 0x01, 0x04, 0x05):
        assert admin.ask(opcode, cdw10=1 << 16 | 1, cdw11=1).status == 0x01


def test_features_aborts_and_keep_alive(admin: PlainHost) -> None:
    granted = admin.ask(SET_FEATURES, cdw10=7, cdw11=63 << 16 | 63)
    assert granted.status == 0
    assert granted.result & 0xFFFF <= 7
    assert granted.result >> 16 <= 7
    assert admin.ask(GET_FEATURES, cdw10=7).result == granted.result
    assert admin.ask(KEEP_ALIVE).status == 0
    waiting = admin.send(ASYNC)
    assert waiting not in admin.answers
    assert admin.ask(ABORT, cdw10=0x1234 << 16).result & 1
    assert admin.ask(GET_FEATURES, cdw10=7).status == 0
    assert waiting not in admin.answers
    assert not admin.association.is_busy


@pytest.mark.parametrize(
    ("operands", "status", "result"),
    [
        ({"subsystem": "nqn.2014-08.org.nicemu:other"}, 0x182, 1 << 16 | 256),
        ({"host": ""}, 0x182, 1 << 16 | 512),
        ({"cntlid": 7}, 0x182, 1 << 16 | 16),
        ({"entries": 1}, 0x182, 44),
        ({"entries": 129}, 0x182, 44),
        ({"qid": 1}, 0x00C, 0),
    ],
)
def test_a_connect_that_makes_no_sense_is_refused_by_its_field(
    rig: Rig, association: Association, operands: dict[str, object], status: int, result: int
) -> None:
    host = PlainHost(rig, association)
    refused = host.connect(**operands)  # type: ignore[arg-type]
    assert (refused.status, refused.result) == (status, result)
    host.enable()


def test_one_host_at_a_time_and_its_queues_are_its_own(
    rig: Rig, association: Association, admin: PlainHost, io: PlainHost
) -> None:
    other = PlainHost(rig, association)
    assert other.connect().status == 0x181
    assert other.connect(qid=2, host="nqn.2014-08.org.nicemu:thief").status == 0x184
    assert other.connect(qid=1).status == 0x182
    assert other.connect(qid=9).status == 0x182
    assert io.connect(qid=2).status == 0x00C
    association.leave(admin.connection)
    assert io.connection.is_over
    next_one = PlainHost(rig, association)
    next_one.enable()


def test_a_queue_whose_connection_is_gone_can_be_made_again(
    rig: Rig, association: Association, admin: PlainHost
) -> None:
    before = free_buffers(association)
    for _ in range(40):
        host = PlainHost(rig, association)
        until(lambda host=host: host.connect(qid=1, entries=16).status == 0, rig)  # type: ignore[misc]
        host.send(WRITE, nsid=1, length=BLOCK, cdw10=3)  # its data never come
        host.send(READ, nsid=1, length=BLOCK)
        association.leave(host.connection)

    def is_quiet() -> bool:
        association.run(0)
        return free_buffers(association) == before

    until(is_quiet, rig)
    assert admin.ask(KEEP_ALIVE).status == 0


@pytest.mark.parametrize(
    ("offset", "length", "tag", "last", "status"),
    [
        (8, BLOCK, 0, True, 2),
        (0, BLOCK, 1, True, 1),
        (0, BLOCK, 0, False, 2),
        (0, BLOCK - 4, 0, True, 2),
        (0, BLOCK + 4, 0, True, 4),
    ],
)
def test_data_that_were_not_asked_for_end_the_connection(
    io: PlainHost, offset: int, length: int, tag: int, last: bool, status: int
) -> None:
    guard = io.rig.memory.read(NIC + (12 << 20), 4096)
    cid = io.send(WRITE, nsid=1, length=BLOCK, cdw10=3)
    assert io.transfers[0][1] == 0
    io.host_data(cid, tag, offset, bytes(length), last)
    assert io.terminated == status
    assert io.connection.is_over
    assert io.rig.memory.read(NIC + (12 << 20), 4096) == guard


def test_a_command_identifier_in_use_is_refused_and_its_command_goes_on(
    io: PlainHost, association: Association
) -> None:
    before = free_buffers(association)
    data = bytes_of(4, BLOCK)
    cid = io.send(WRITE, nsid=1, length=BLOCK, cdw10=3)
    for _ in range(2):
        io.send(READ, nsid=1, length=BLOCK, cid=cid)
        assert io.answer(cid).status == 0x03
    io.host_data(cid, io.transfers[0][1], 0, data, last=True)
    assert io.answer(cid).status == 0
    assert io.ask(READ, nsid=1, length=BLOCK, cdw10=3).data == data
    cid = io.send(WRITE, nsid=1, length=BLOCK, cdw10=3)
    io.send(READ, nsid=1, length=BLOCK, cid=cid)
    association.leave(io.connection)
    assert free_buffers(association) == before


def test_a_reset_by_the_host_forgets_commands_and_the_controller_comes_up_again(
    admin: PlainHost, io: PlainHost, association: Association
) -> None:
    io.send(WRITE, nsid=1, length=BLOCK, cdw10=3)
    admin.send(ASYNC)
    assert admin.set(0x14, 0).status == 0
    assert admin.get(0x1C).result & 1 == 0
    assert admin.ask(IDENTIFY, length=4096, cdw10=1).status == 0x0C
    assert io.ask(READ, nsid=1, length=BLOCK).status == 0x0C
    assert admin.set(0x14, 0x0046_0001).status == 0
    until(lambda: bool(admin.get(0x1C).result & 1), admin.rig)
    assert admin.ask(IDENTIFY, length=4096, cdw10=1).status == 0


def test_every_response_says_how_far_the_hosts_submission_queue_is_taken(
    rig: Rig, association: Association
) -> None:
    admin = PlainHost(rig, association)
    taken = 1
    assert admin.connect(entries=8).sq_head == taken
    assert admin.set(0x14, 0x0046_0001).sq_head == taken + 1
    taken += 1
    while True:
        ready = admin.get(0x1C)
        taken += 1
        assert ready.sq_head == taken % 8
        if ready.result & 1:
            break
    for opcode in (KEEP_ALIVE, IDENTIFY, 0x01, IDENTIFY, KEEP_ALIVE, 0x55) * 4:
        taken += 1
        length = 4096 if opcode == IDENTIFY else 0
        assert admin.ask(opcode, length=length, cdw10=1).sq_head == taken % 8
    io = PlainHost(rig, association)
    assert io.connect(qid=1, entries=5).sq_head == 1
    for number in range(2, 20):
        refused = 0x55 if number % 3 else READ
        assert io.ask(refused, nsid=1, length=BLOCK).sq_head == number % 5


def test_a_queue_whose_flow_control_is_disabled_says_so_when_it_is_connected(
    rig: Rig, association: Association, admin: PlainHost
) -> None:
    io = PlainHost(rig, association)
    connected = io.connect(qid=1, attributes=1 << 2)
    assert (connected.status, connected.sq_head) == (0, 0xFFFF)
    assert [io.ask(READ, nsid=1, length=BLOCK).sq_head for _ in range(3)] == [0, 0, 0]


def test_the_keep_alive_timer_is_a_feature_in_steps_of_what_the_controller_announces(
    rig: Rig, association: Association
) -> None:
    host = PlainHost(rig, association)
    assert host.connect(keep_alive_ms=1500).status == 0
    assert host.set(0x14, 0x0046_0001).status == 0
    until(lambda: bool(host.get(0x1C).result & 1), rig)
    assert struct.unpack_from("<H", host.ask(IDENTIFY, length=4096, cdw10=1).data, 320) == (10,)
    assert [host.ask(GET_FEATURES, cdw10=select << 8 | 0xF).result for select in range(4)] == [
        2000, 2000, 2000, 4,
    ]  # fmt: skip
    assert host.ask(GET_FEATURES, cdw10=4 << 8 | 0xF).status == 0x02
    assert host.ask(SET_FEATURES, cdw10=1 << 31 | 0xF, cdw11=3000).status == 0x10D
    assert host.ask(SET_FEATURES, cdw10=0xF, cdw11=2001).status == 0
    assert [host.ask(GET_FEATURES, cdw10=select << 8 | 0xF).result for select in range(3)] == [
        3000, 2000, 2000,
    ]  # fmt: skip
    association.run(6_000_000_000)
    assert not host.connection.is_over
    association.run(6_000_000_001)
    assert host.connection.ended_by == "keep_alive"


def test_features_of_interrupts_are_not_there_over_a_fabric(admin: PlainHost) -> None:
    for feature in (8, 9):
        assert admin.ask(GET_FEATURES, cdw10=feature).status == 0x02
        assert admin.ask(SET_FEATURES, cdw10=feature).status == 0x02
    for feature in (1, 2, 4, 6, 0xA, 0xB):
        assert admin.ask(GET_FEATURES, cdw10=feature).status == 0
    assert admin.ask(GET_FEATURES, nsid=1, cdw10=5).status == 0


def test_a_host_that_falls_silent_is_dropped(rig: Rig, association: Association) -> None:
    host = PlainHost(rig, association)
    assert host.connect(keep_alive_ms=1000).status == 0
    association.run(1_999_000_000)
    assert not host.connection.is_over
    association.run(2_001_000_000)
    assert host.connection.is_over
    assert host.connection.ended_by == "keep_alive"


def test_sockets_carry_it_and_a_port_in_use_is_told(tmp_path: Path) -> None:
    with nicemu_rig(None) as rig, NvmeTcpTarget(RigController(rig), ("127.0.0.1", 0)) as target:
        with (
            nicemu_rig(None) as other,
            pytest.raises(ResourceError, match=rf"no NVMe/TCP target at 127.0.0.1:{target.port}"),
        ):
            NvmeTcpTarget(RigController(other), ("127.0.0.1", target.port))
        with socket.create_connection(("127.0.0.1", target.port)) as host:
            host.settimeout(5)
            host.sendall(struct.pack("<BBBBI", 0, 0, 128, 0, 128) + bytes(120))
            while not target._connections or not next(iter(target._connections.values()))._is_ready:
                target.run()
            assert host.recv(128)[:8] == struct.pack("<BBBBI", 1, 0, 128, 0, 128)
            host.sendall(b"\xff" * 8)
            while target._connections:
                target.run()
            assert host.recv(128)[0] == 3
            assert host.recv(1) == b""
        assert target.faults == {"invalid_field": 1}
