# SPDX-License-Identifier: Apache-2.0
"""Unreliable datagrams: whom they reach, what they bring, and what is dropped or ends with an error.

Source: InfiniBand Architecture Specification Volume 1, "Unreliable Datagram", "Q_Key"; ibv_post_recv(3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import UsageError, VerbsStatus
from nicemu.rdma.roce import ArrivalKind, Datagram, QpState, QpType
from nicemu.wire import PSN_MASK, Deth, Ipv4, RoceFramer, UdOpcode, decode_roce_frame, parse_ipv4
from tests.unit.rdma.conftest import Node

if TYPE_CHECKING:
    from tests.unit.rdma.conftest import GuardedMemory

A, B = 0x1000, 0x80000
A_QP, B_QP = 0x123457, 9
MAC_A, MAC_B = b"\2\0\0\0\0\1", b"\2\0\0\0\0\2"
Q_KEY = 0x11111111
GRH = 40
OK = VerbsStatus.SUCCESS


class Datagrams:
    """A queue pair of type UD at each of two nodes; `a` has an address handle for `b`."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        self.a, self.b = Node(1, 1), Node(2, 2)
        for node, number in ((self.a, A_QP), (self.b, B_QP)):
            node.memory.register((A, B)[node is self.b], bytes(range(256)) * 32)
            node.engine.create_qp(number, 1, **{"qp_type": QpType.UD, "q_key": Q_KEY} | options)  # type: ignore[arg-type]
            for state in (QpState.INIT, QpState.RTR, QpState.RTS):
                node.engine.modify(number, state)
        self.handle = self.a.engine.create_address_handle(MAC_B, "10.0.0.2")

    def send(self, length: int, opcode: Opcode = Opcode.SEND, q_key: int = Q_KEY, **more: Any) -> list[bytes]:  # noqa: ANN401
        """Post a datagram at `a`; return the frames that it made."""
        work = WorkRequest(opcode, (Sge(A, length, 0x100),), wr_id=5, **more)
        to = Datagram(self.handle, B_QP, q_key)
        assert self.a.engine.post_send(A_QP, work, 77, 0, to=to)
        return self.a.engine.take_frames()

    def receive(self, length: int, wr_id: int = 8) -> None:
        """Post a receive at `b`."""
        assert self.b.engine.post_receive(B_QP, wr_id, (Sge(B, length, 0x100),))

    def deliver(self, frames: list[bytes]) -> None:
        """Give frames to `b`, which answers none."""
        for frame in frames:
            self.b.engine.on_frame(frame, 0)
        assert self.b.engine.take_frames() == []
        for node in (self.a, self.b):
            node.collect()
            assert node.memory.guards_hold()


@pytest.fixture
def pair() -> Datagrams:
    return Datagrams(path_mtu=1024)


def content(memory: GuardedMemory, length: int) -> bytes:
    return memory.content(0x100)[:length]


@pytest.mark.parametrize("length", [0, 1, 3, 4, 255, 1024])
@pytest.mark.parametrize("opcode", [Opcode.SEND, Opcode.SEND_WITH_IMM])
def test_a_datagram_lands_behind_40_bytes_for_a_route_header(
    pair: Datagrams, length: int, opcode: Opcode
) -> None:
    pair.receive(GRH + length)
    before = content(pair.b.memory, GRH)
    (frame,) = pair.send(length, opcode, imm_data=0xC0FFEE)
    pair.deliver([frame])
    (arrival,) = pair.b.arrivals
    with_imm = opcode is Opcode.SEND_WITH_IMM
    assert arrival.kind is (ArrivalKind.DATAGRAM_WITH_IMM if with_imm else ArrivalKind.DATAGRAM)
    assert (arrival.byte_len, arrival.wr_id) == (GRH + length, 8)
    assert arrival.imm_data == (0xC0FFEE if with_imm else None)
    assert (arrival.source_qp, arrival.source_ip) == (A_QP, "10.0.0.1")
    landed = content(pair.b.memory, GRH + length)
    assert landed[GRH:] == content(pair.a.memory, length)
    assert landed[:20] == before[:20]
    assert Ipv4.decode(frame[14:]) == Ipv4.decode(landed[20:GRH] + bytes(2000))


def test_a_datagram_is_complete_when_it_has_left(pair: Datagrams) -> None:
    pair.send(100)
    pair.a.collect()
    (done,) = pair.a.completions
    assert (done.context, done.status, done.byte_len, done.wr_id) == (77, OK, 100, 5)
    assert pair.a.engine.next_deadline_ns() is None


def test_psns_count_datagrams_and_nobody_is_asked_for_an_answer(pair: Datagrams) -> None:
    packets = [decode_roce_frame(pair.send(1)[0]) for _ in range(3)]
    first = packets[0].bth.psn
    assert [packet.bth.psn for packet in packets] == [first + n & PSN_MASK for n in range(3)]
    assert not any(packet.bth.ack_request for packet in packets)
    assert packets[0].deth == Deth(Q_KEY, A_QP)
    assert packets[0].bth.destination_qp == B_QP


def test_lost_repeated_and_reordered_datagrams_are_the_program_s_affair(pair: Datagrams) -> None:
    for number in range(4):
        pair.receive(GRH + 8, number)
    frames = [frame for _ in range(4) for frame in pair.send(8)]
    pair.deliver([frames[3], frames[0], frames[0]])
    assert [arrival.wr_id for arrival in pair.b.arrivals] == [0, 1, 2]


def test_another_q_key_is_dropped_and_counted(pair: Datagrams) -> None:
    pair.receive(GRH + 8)
    pair.deliver(pair.send(8, q_key=Q_KEY + 1))
    assert pair.b.arrivals == []
    assert pair.b.drops == {"datagram.q_key": 1}
    pair.deliver(pair.send(8))
    assert len(pair.b.arrivals) == 1


@pytest.mark.parametrize("q_key", [1 << 31, 0x80010000, 0xFFFFFFFF])
def test_work_with_a_controlled_q_key_carries_that_of_its_queue_pair(pair: Datagrams, q_key: int) -> None:
    (frame,) = pair.send(8, q_key=q_key)
    assert decode_roce_frame(frame).deth == Deth(Q_KEY, A_QP)
    pair.receive(GRH + 8)
    pair.deliver([frame])
    assert len(pair.b.arrivals) == 1
    assert decode_roce_frame(pair.send(8, q_key=(1 << 31) - 1)[0]).deth == Deth((1 << 31) - 1, A_QP)


def test_a_queue_pair_with_a_controlled_q_key_sends_it_and_takes_no_other() -> None:
    pair = Datagrams(q_key=0x80000001)
    pair.receive(GRH + 8)
    pair.deliver(pair.send(8))
    assert pair.b.drops == {"datagram.q_key": 1}
    (frame,) = pair.send(8, q_key=1 << 31)
    assert decode_roce_frame(frame).deth == Deth(0x80000001, A_QP)
    pair.deliver([frame])
    assert len(pair.b.arrivals) == 1


def test_without_a_receive_a_datagram_is_dropped(pair: Datagrams) -> None:
    pair.deliver(pair.send(8))
    assert pair.b.drops == {"datagram.no_receive": 1}


def test_one_that_the_receive_has_no_room_for_is_dropped_and_the_receive_stays(pair: Datagrams) -> None:
    pair.receive(GRH + 7)
    pair.deliver(pair.send(8))
    assert pair.b.drops == {"datagram.too_long": 1}
    pair.deliver(pair.send(7))
    assert [arrival.byte_len for arrival in pair.b.arrivals] == [GRH + 7]


def test_a_message_of_more_than_one_packet_ends_with_a_length_error(pair: Datagrams) -> None:
    assert pair.send(1025) == []
    assert pair.send(8) == []  # in SQE it is flushed
    pair.a.collect()
    assert pair.a.statuses() == [VerbsStatus.LOC_LEN_ERR, VerbsStatus.WR_FLUSH_ERR]
    assert pair.a.engine.state(A_QP) is QpState.SQE
    pair.a.engine.modify(A_QP, QpState.RTS)
    pair.receive(GRH + 8)
    pair.deliver(pair.send(8))
    assert len(pair.b.arrivals) == 1


@pytest.mark.parametrize("opcode", [Opcode.RDMA_WRITE, Opcode.RDMA_READ, Opcode.FETCH_ADD])
def test_there_are_sends_and_nothing_else(pair: Datagrams, opcode: Opcode) -> None:
    assert pair.send(8, opcode) == []
    pair.a.collect()
    assert pair.a.statuses() == [VerbsStatus.LOC_QP_OP_ERR]


def test_what_a_destroyed_handle_was_to_carry_ends_with_an_error(pair: Datagrams) -> None:
    work = WorkRequest(Opcode.SEND, (Sge(A, 8, 0x100),))
    pair.a.engine.post_send(A_QP, work, 1, 0, to=Datagram(pair.handle, B_QP, Q_KEY))
    pair.a.engine.destroy_address_handle(pair.handle)
    assert pair.a.engine.take_frames() == []
    pair.a.collect()
    assert pair.a.statuses() == [VerbsStatus.LOC_QP_OP_ERR]


def test_memory_that_is_not_ours_any_more_ends_a_receive_and_a_send(pair: Datagrams) -> None:
    pair.receive(GRH + 8)
    frames = pair.send(8)
    pair.b.memory.deregister(0x100)
    pair.deliver(frames)
    assert pair.b.statuses() == [VerbsStatus.LOC_PROT_ERR]
    assert pair.b.engine.state(B_QP) is QpState.ERR
    pair.a.memory.deregister(0x100)
    assert pair.send(8) == []
    pair.a.collect()
    assert pair.a.statuses()[-1] is VerbsStatus.LOC_PROT_ERR
    assert pair.a.engine.state(A_QP) is QpState.SQE


def test_packets_of_the_other_service_are_dropped(pair: Datagrams) -> None:
    framer = RoceFramer(MAC_A, MAC_B, parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2"))
    pair.receive(GRH + 8)
    pair.deliver([framer.frame(0x04, B_QP, 0, payload=[b"12345678"])])
    assert pair.b.drops == {"rocev2.transport": 1}
    pair.b.engine.create_qp(40, 1)
    pair.b.engine.modify(40, QpState.INIT)
    pair.b.engine.modify(40, QpState.RTR, remote=pair.a.engine.local(A_QP))
    pair.deliver([framer.frame(UdOpcode.SEND_ONLY, 40, 0, extension=Deth(Q_KEY, A_QP).encode())])
    assert pair.b.drops == {"rocev2.transport": 2}
    assert pair.b.arrivals == []


def test_wrong_use_is_refused_in_words(pair: Datagrams) -> None:
    engine, work = pair.a.engine, WorkRequest(Opcode.SEND)
    engine.create_qp(40, 1)
    with pytest.raises(UsageError, match=r"is of type UD; .*: pass to=Datagram\(handle, qp_num, q_key\)"):
        engine.post_send(A_QP, work, 0, 0)
    wrong: Any
    for wrong, words in (
        ((pair.handle, B_QP, Q_KEY), r"to is .*; pass Datagram\("),
        (Datagram("0", B_QP, Q_KEY), "an address handle is '0'"),  # type: ignore[arg-type]
        (Datagram(-1, B_QP, Q_KEY), "an address handle is -1"),
        (Datagram(pair.handle, None, Q_KEY), "qp_num of to is None"),  # type: ignore[arg-type]
        (Datagram(pair.handle, B_QP, 1 << 32), "q_key of to is 4294967296"),
    ):
        with pytest.raises(UsageError, match=words):
            engine.post_send(A_QP, work, 0, 0, to=wrong)
    with pytest.raises(UsageError, match="work is None"):
        engine.post_send(A_QP, None, 0, 0, to=Datagram(pair.handle, B_QP, Q_KEY))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no address handle 99"):
        engine.post_send(A_QP, work, 0, 0, to=Datagram(99, B_QP, Q_KEY))
    with pytest.raises(UsageError, match="qp_num of to is 16777216; it is a whole number"):
        engine.post_send(A_QP, work, 0, 0, to=Datagram(pair.handle, 1 << 24, Q_KEY))
    engine.modify(A_QP, QpState.RESET)
    engine.modify(A_QP, QpState.INIT)
    with pytest.raises(UsageError, match="has no peer"):
        engine.modify(A_QP, QpState.RTR, remote=pair.b.engine.local(B_QP))
    with pytest.raises(UsageError, match="6 bytes"):
        engine.create_address_handle(b"12345", "10.0.0.1")
    with pytest.raises(UsageError, match=r"'02:.*' is no MAC address"):
        engine.create_address_handle("02:00:00:00:00:02", "10.0.0.1")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no IPv4 address"):
        engine.create_address_handle(MAC_B, 7)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="traffic_class is None"):
        engine.create_address_handle(MAC_B, "10.0.0.1", traffic_class=None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="an address handle is 'x'"):
        engine.destroy_address_handle("x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="DSCP"):
        engine.create_address_handle(MAC_B, "10.0.0.1", traffic_class=3)
    with pytest.raises(UsageError, match="q_key is 4294967296"):
        engine.create_qp(41, 1, qp_type=QpType.UD, q_key=1 << 32)


def test_handles_are_given_again(pair: Datagrams) -> None:
    engine = pair.a.engine
    handles = [engine.create_address_handle(MAC_B, f"10.0.1.{n}", traffic_class=8) for n in range(40)]
    assert len({pair.handle, *handles}) == 41
    for handle in handles:
        engine.destroy_address_handle(handle)
    with pytest.raises(UsageError, match="no address handle"):
        engine.destroy_address_handle(handles[0])
    assert engine.create_address_handle(MAC_B, "10.0.1.7") in handles
    (frame,) = pair.send(8)
    assert decode_roce_frame(frame).ip.destination == parse_ipv4("10.0.0.2")
