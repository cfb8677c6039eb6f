# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nicemu.abi import Access, Opcode, Sge
from nicemu.errors import VerbsStatus
from nicemu.rdma.roce import ArrivalKind, QpState
from nicemu.wire import (
    Aeth,
    AtomicEth,
    NakCode,
    RcOpcode,
    Reth,
    RoceFramer,
    RocePacket,
    SyndromeKind,
    decode_roce_frame,
    parse_ipv4,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.rdma.conftest import TwoEngines

    Connect = Callable[..., TwoEngines]
A, B = 0x1000, 0x80000
PSN = 1000
OK = VerbsStatus.SUCCESS


class Peer:
    """A requester made by hand, which talks to queue pair 9 of node b."""

    def __init__(self, pair: TwoEngines) -> None:
        self.node = pair.b
        self.framer = RoceFramer(
            b"\x02\0\0\0\0\1", b"\x02\0\0\0\0\2", parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2")
        )

    def ask(
        self, opcode: int, psn: int = PSN, extension: bytes = b"", payload: bytes = b"", ack: bool = True
    ) -> list[RocePacket]:
        frame = self.framer.frame(opcode, 9, psn, ack_request=ack, extension=extension, payload=[payload])
        self.node.engine.on_frame(frame, 0)
        frames = self.node.engine.take_frames()
        self.node.collect()
        return [decode_roce_frame(answer) for answer in frames]


@pytest.fixture
def pair(connect: Connect) -> TwoEngines:
    return connect(path_mtu=256, psns=(PSN, 5))


@pytest.fixture
def peer(pair: TwoEngines) -> Peer:
    return Peer(pair)


def aeths(answers: list[RocePacket]) -> list[Aeth | None]:
    return [answer.aeth for answer in answers]


def test_an_answer_carries_the_request_s_psn_and_counts_messages(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(300))
    (first,) = peer.ask(RcOpcode.RDMA_WRITE_ONLY, PSN, Reth(B, rkey, 1).encode(), b"x")
    (second,) = peer.ask(RcOpcode.RDMA_WRITE_ONLY, PSN + 1, Reth(B, rkey, 1).encode(), b"x")
    assert [(p.bth.psn, p.aeth) for p in (first, second)] == [(PSN, Aeth.ack(1)), (PSN + 1, Aeth.ack(2))]
    assert first.bth.destination_qp == 7


def test_without_a_request_for_it_there_is_no_acknowledgement(peer: Peer) -> None:
    assert peer.ask(RcOpcode.RDMA_WRITE_ONLY, PSN, Reth(0, 0, 0).encode(), ack=False) == []


def test_a_repeated_write_is_acknowledged_and_not_executed_again(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(4))
    peer.ask(RcOpcode.RDMA_WRITE_ONLY, PSN, Reth(B, rkey, 4).encode(), b"once")
    peer.node.memory.fill(rkey, b"used")
    (again,) = peer.ask(RcOpcode.RDMA_WRITE_ONLY, PSN, Reth(B, rkey, 4).encode(), b"once", ack=False)
    assert (again.bth.psn, again.aeth) == (PSN, Aeth.ack(1))
    assert peer.node.memory.content(rkey) == b"used"
    assert len(peer.node.arrivals) == 1


def test_a_repeated_read_is_read_again_from_where_it_asks(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(range(256)) * 3)
    assert len(peer.ask(RcOpcode.RDMA_READ_REQUEST, PSN, Reth(B, rkey, 600).encode())) == 3
    again = peer.ask(RcOpcode.RDMA_READ_REQUEST, PSN + 1, Reth(B + 256, rkey, 344).encode())
    assert [(p.bth.psn, p.bth.opcode) for p in again] == [
        (PSN + 1, RcOpcode.RDMA_READ_RESPONSE_FIRST),
        (PSN + 2, RcOpcode.RDMA_READ_RESPONSE_LAST),
    ]
    assert len(peer.node.arrivals) == 1


def test_a_read_is_reported_with_its_whole_length_where_only_its_end_is_read_again(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(600))
    frames = [
        peer.framer.frame(RcOpcode.RDMA_READ_REQUEST, 9, PSN + psn, extension=Reth(B, rkey, length).encode())
        for psn, length in ((0, 600), (1, 344))
    ]
    peer.node.engine.on_frame(frames[0], 0)
    assert len(peer.node.engine.take_frames(1)) == 1
    peer.node.engine.on_frame(frames[1], 0)
    assert len(peer.node.engine.take_frames()) == 2
    assert [arrival.byte_len for arrival in peer.node.engine.take_arrivals()] == [600]


def test_a_repeated_read_that_still_waits_keeps_its_place_among_the_answers(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(8))
    reads = [
        peer.framer.frame(RcOpcode.RDMA_READ_REQUEST, 9, PSN + i, extension=Reth(B, rkey, 8 - i).encode())
        for i in range(2)
    ]
    peer.node.engine.on_frames([*reads, reads[0]], 0)
    answers = [decode_roce_frame(frame) for frame in peer.node.engine.take_frames()]
    assert [(a.bth.psn, len(a.payload)) for a in answers] == [(PSN, 8), (PSN + 1, 7)]
    assert [arrival.byte_len for arrival in peer.node.engine.take_arrivals()] == [8, 7]


def test_a_repeated_read_must_stay_within_what_was_read(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(2000))
    peer.ask(RcOpcode.RDMA_READ_REQUEST, PSN, Reth(B, rkey, 600).encode())
    assert peer.ask(RcOpcode.RDMA_READ_REQUEST, PSN + 1, Reth(B, rkey, 600).encode()) == []
    assert peer.ask(RcOpcode.RDMA_READ_REQUEST, PSN, Reth(B, rkey + 1, 600).encode()) == []
    assert peer.node.drops["responder.bad_duplicate_read"] == 2


def test_a_repeated_atomic_is_answered_from_memory_of_it_and_not_executed_again(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(8))
    request = AtomicEth(B, rkey, 3).encode()
    answers = [peer.ask(RcOpcode.FETCH_ADD, PSN + i, request)[0] for i in (0, 1, 0, 1, 1)]
    assert [p.atomic_ack.original for p in answers if p.atomic_ack] == [0, 3, 0, 3, 3]
    assert peer.node.memory.content(rkey)[0] == 6
    assert len(peer.node.arrivals) == 2


def test_an_atomic_older_than_the_sixteen_that_are_kept_is_not_answered(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(8))
    for i in range(17):
        peer.ask(RcOpcode.FETCH_ADD, PSN + i, AtomicEth(B, rkey, 1).encode())
    assert peer.ask(RcOpcode.FETCH_ADD, PSN, AtomicEth(B, rkey, 1).encode()) == []
    assert len(peer.ask(RcOpcode.FETCH_ADD, PSN + 1, AtomicEth(B, rkey, 1).encode())) == 1
    assert peer.node.memory.content(rkey)[0] == 17


def test_a_gap_gets_one_nak_until_the_missing_packet_comes(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(8))
    empty = Reth(B, rkey, 0).encode()
    assert aeths(peer.ask(RcOpcode.RDMA_WRITE_ONLY, PSN + 1, empty)) == [Aeth(0x60, 0)]
    assert peer.ask(RcOpcode.RDMA_WRITE_ONLY, PSN + 2, empty) == []
    assert aeths(peer.ask(RcOpcode.RDMA_WRITE_ONLY, PSN, empty)) == [Aeth.ack(1)]
    assert aeths(peer.ask(RcOpcode.RDMA_WRITE_ONLY, PSN + 3, empty)) == [Aeth(0x60, 1)]
    assert peer.node.drops["responder.psn_gap"] == 3


FIRST, MIDDLE, LAST = RcOpcode.RDMA_WRITE_FIRST, RcOpcode.RDMA_WRITE_MIDDLE, RcOpcode.RDMA_WRITE_LAST
FULL = bytes(256)


@pytest.mark.parametrize(
    "packets",
    [
        [(MIDDLE, None, FULL)],
        [(LAST, None, b"x")],
        [(RcOpcode.SEND_LAST, None, b"x")],
        [(FIRST, 600, FULL), (RcOpcode.RDMA_WRITE_ONLY, 1, b"x")],
        [(FIRST, 600, FULL), (RcOpcode.SEND_MIDDLE, None, FULL)],
        [(FIRST, 600, FULL), (RcOpcode.RDMA_READ_REQUEST, 8, b"")],
        [(FIRST, 600, FULL[:255])],
        [(FIRST, 600, FULL), (MIDDLE, None, FULL[:8])],
        [(FIRST, 600, FULL), (LAST, None, b"")],
        [(FIRST, 600, FULL), (LAST, None, FULL)],
        [(FIRST, 512, FULL), (MIDDLE, None, FULL)],
        [(FIRST, 256, FULL)],
        [(RcOpcode.RDMA_WRITE_ONLY, 5, b"four")],
        [(RcOpcode.RDMA_WRITE_ONLY, 3, b"four")],
        [(RcOpcode.RDMA_WRITE_ONLY, 300, FULL + bytes(44))],
        [(RcOpcode.RDMA_READ_REQUEST, (1 << 31) + 1, b"")],
        [(RcOpcode.RDMA_READ_REQUEST, 8, b"data")],
        [(RcOpcode.FETCH_ADD, None, AtomicEth(B + 4, 0x100, 1).encode())],
        [(0x1F, None, b"")],
    ],
)
def test_a_request_that_breaks_the_rules_of_order_and_length_is_invalid(
    peer: Peer, packets: list[tuple[int, int | None, bytes]]
) -> None:
    rkey = peer.node.memory.register(B, bytes(2000))
    assert rkey == 0x100
    for i, (opcode, dma_length, payload) in enumerate(packets):
        reth = b"" if dma_length is None else Reth(B, rkey, dma_length).encode()
        answers = peer.ask(opcode, PSN + i, reth, payload, ack=False)
        assert len(answers) == (i == len(packets) - 1)
    assert answers[0].aeth is not None
    assert answers[0].aeth.syndrome == Aeth.nak(NakCode.INVALID_REQUEST, 0).syndrome
    assert peer.node.engine.state(9) is QpState.ERR
    assert peer.node.arrivals == []


@pytest.mark.parametrize("opcode", [Opcode.RDMA_WRITE, Opcode.RDMA_READ, Opcode.FETCH_ADD])
@pytest.mark.parametrize("wrong", ["key", "domain", "rights", "before", "behind", "huge"])
def test_memory_that_the_key_does_not_cover_is_refused_before_a_byte_moves(
    pair: TwoEngines, opcode: Opcode, wrong: str
) -> None:
    rights = {
        Opcode.RDMA_WRITE: Access.REMOTE_WRITE,
        Opcode.RDMA_READ: Access.REMOTE_READ,
        Opcode.FETCH_ADD: Access.REMOTE_ATOMIC,
    }
    right = Access(7 ^ rights[opcode]) if wrong == "rights" else Access.LOCAL_WRITE | rights[opcode]
    content = bytes(range(200)) * 5
    local = pair.a.memory.register(A, bytes(1000))
    remote = pair.b.memory.register(B, content, pd=2 if wrong == "domain" else 1, access=right | 1)
    if wrong == "rights":
        pair.b.memory.allow(remote, Access(15) & ~rights[opcode])
    address = {"before": B - 8, "behind": B + 1000 - 8 * (opcode != Opcode.FETCH_ADD), "huge": (1 << 64) - 8}
    length = 8 if opcode == Opcode.FETCH_ADD else 600
    pair.post(
        opcode,
        local,
        [(A, length)],
        remote_address=address.get(wrong, B),
        rkey=remote + 1 if wrong == "key" else remote,
    )
    pair.run()
    assert pair.a.statuses() == [VerbsStatus.REM_ACCESS_ERR]
    assert pair.b.engine.state(9) is QpState.ERR
    assert pair.b.memory.content(remote) == content
    assert pair.a.memory.content(local) == bytes(1000)
    assert pair.a.memory.guards_hold()
    assert pair.b.memory.guards_hold()


def test_a_whole_message_is_checked_at_its_first_packet(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(300))
    answers = peer.ask(RcOpcode.RDMA_WRITE_FIRST, PSN, Reth(B, rkey, 301).encode(), b"x" * 256)
    assert aeths(answers) == [Aeth.nak(NakCode.REMOTE_ACCESS_ERROR, 0)]
    assert peer.node.memory.content(rkey) == bytes(300)


def test_a_key_taken_back_in_the_middle_of_a_message_protects_the_rest(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(600))
    peer.ask(RcOpcode.RDMA_WRITE_FIRST, PSN, Reth(B, rkey, 600).encode(), b"x" * 256)
    peer.node.memory.deregister(rkey)
    answers = peer.ask(RcOpcode.RDMA_WRITE_MIDDLE, PSN + 1, b"", b"x" * 256)
    assert aeths(answers) == [Aeth.nak(NakCode.REMOTE_ACCESS_ERROR, 0)]
    assert peer.node.memory.content(rkey)[256:] == bytes(344)


def test_a_key_taken_back_between_read_request_and_response_protects_the_data(pair: TwoEngines) -> None:
    local, remote = pair.a.memory.register(A, bytes(600)), pair.b.memory.register(B, b"s" * 600)
    pair.post(Opcode.RDMA_READ, local, [(A, 600)], remote_address=B, rkey=remote)
    for frame in pair.a.engine.take_frames():
        pair.b.engine.on_frame(frame, 0)
    pair.b.memory.deregister(remote)
    pair.run()
    assert pair.a.statuses() == [VerbsStatus.REM_ACCESS_ERR]
    assert pair.a.memory.content(local) == bytes(600)
    assert pair.b.drops["responder.key_taken_back"] == 1


def test_an_empty_write_needs_no_key(peer: Peer) -> None:
    assert aeths(peer.ask(RcOpcode.RDMA_WRITE_ONLY, PSN, Reth(5, 999, 0).encode())) == [Aeth.ack(1)]


def test_a_send_longer_than_the_receive_ends_both_sides(pair: TwoEngines) -> None:
    local, remote = pair.a.memory.register(A, bytes(600)), pair.b.memory.register(B, bytes(600))
    pair.b.engine.post_receive(9, 1, [Sge(B, 300, remote)])
    pair.b.engine.post_receive(9, 2)
    pair.post(Opcode.SEND, local, [(A, 301)])
    pair.run()
    assert pair.a.statuses() == [VerbsStatus.REM_INV_REQ_ERR]
    assert [(c.wr_id, c.status) for c in pair.b.completions] == [
        (1, VerbsStatus.LOC_LEN_ERR),
        (2, VerbsStatus.WR_FLUSH_ERR),
    ]
    assert pair.b.memory.content(remote)[300:] == bytes(300)


def test_a_receive_into_memory_that_is_not_ours_is_an_operational_error(pair: TwoEngines) -> None:
    local, remote = pair.a.memory.register(A, bytes(600)), pair.b.memory.register(B, bytes(60), pd=2)
    pair.b.engine.post_receive(9, 1, [Sge(B, 60, remote)])
    pair.post(Opcode.SEND, local, [(A, 10)])
    pair.run()
    assert pair.a.statuses() == [VerbsStatus.REM_OP_ERR]
    assert [(c.wr_id, c.status) for c in pair.b.completions] == [(1, VerbsStatus.LOC_PROT_ERR)]


def test_the_receive_in_use_is_flushed_first(pair: TwoEngines) -> None:
    local, remote = pair.a.memory.register(A, bytes(600)), pair.b.memory.register(B, bytes(600))
    pair.b.engine.post_receive(9, 1, [Sge(B, 600, remote)])
    pair.b.engine.post_receive(9, 2)
    pair.post(Opcode.SEND, local, [(A, 600)])
    pair.exchange(limit=1)
    pair.b.engine.modify(9, QpState.ERR)
    pair.b.collect()
    assert [c.wr_id for c in pair.b.completions] == [1, 2]


def test_an_immediate_consumes_a_receive_and_waits_for_one(pair: TwoEngines) -> None:
    local, remote = pair.a.memory.register(A, b"d" * 600), pair.b.memory.register(B, bytes(600))
    pair.post(Opcode.RDMA_WRITE_WITH_IMM, local, [(A, 200)], remote_address=B, rkey=remote, imm_data=6)
    while pair.exchange():
        pass
    assert pair.b.memory.content(remote) == bytes(600)
    assert pair.b.drops["responder.not_ready"] == 1
    pair.b.engine.post_receive(9, 31)
    pair.run()
    (arrival,) = pair.b.arrivals
    assert (arrival.kind, arrival.imm_data, arrival.wr_id) == (ArrivalKind.WRITE_WITH_IMM, 6, 31)
    assert pair.a.statuses() == [OK]


def test_with_implicit_receives_an_immediate_consumes_none(connect: Connect) -> None:
    pair = connect(path_mtu=256, b={"implicit_receives": True})
    local, remote = pair.a.memory.register(A, b"d" * 600), pair.b.memory.register(B, bytes(600))
    pair.b.engine.post_receive(9, 31)
    for length in (600, 0):
        pair.post(
            Opcode.RDMA_WRITE_WITH_IMM, local, [(A, length)], remote_address=B, rkey=remote, imm_data=length
        )
    pair.run()
    assert [(x.imm_data, x.byte_len, x.wr_id) for x in pair.b.arrivals] == [(600, 600, 0), (0, 0, 0)]
    pair.post(Opcode.SEND, local, [])
    pair.run()
    assert pair.b.arrivals[-1].wr_id == 31


def test_while_not_ready_later_packets_are_dropped_without_a_nak(peer: Peer) -> None:
    (first,) = peer.ask(RcOpcode.SEND_ONLY, PSN)
    assert first.aeth is not None
    assert first.aeth.kind is SyndromeKind.RNR_NAK
    assert peer.ask(RcOpcode.SEND_ONLY, PSN + 1) == []
    peer.node.engine.post_receive(9, 1)
    assert aeths(peer.ask(RcOpcode.SEND_ONLY, PSN)) == [Aeth.ack(1)]


def test_more_reads_at_once_than_agreed_are_an_invalid_request(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(8))
    for i in range(17):
        frame = peer.framer.frame(RcOpcode.RDMA_READ_REQUEST, 9, PSN + i, extension=Reth(B, rkey, 8).encode())
        peer.node.engine.on_frame(frame, 0)
    answers = [decode_roce_frame(frame) for frame in peer.node.engine.take_frames()]
    assert [a.aeth.kind for a in answers if a.aeth] == [SyndromeKind.ACK] * 16 + [SyndromeKind.NAK]


def test_a_repeated_read_takes_no_place_of_those_agreed_on(peer: Peer) -> None:
    rkey = peer.node.memory.register(B, bytes(8))
    reads = [
        peer.framer.frame(RcOpcode.RDMA_READ_REQUEST, 9, PSN + i, extension=Reth(B, rkey, 8).encode())
        for i in range(17)
    ]
    peer.node.engine.on_frames(reads[:16], 0)
    assert len(peer.node.engine.take_frames(1)) == 1  # so one more may come
    peer.node.engine.on_frames([reads[0], reads[16]], 0)  # and the first comes twice, late
    assert peer.node.drops == {"responder.duplicate": 1}
    assert len(peer.node.engine.take_frames()) == 17


def test_a_full_receive_queue_refuses(connect: Connect) -> None:
    pair = connect(receive_queue_depth=2)
    assert [pair.b.engine.post_receive(9, i) for i in range(3)] == [True, True, False]


def test_nothing_is_acknowledged_before_its_data_is_in_memory(pair: TwoEngines) -> None:
    local, remote = pair.a.memory.register(A, b"d" * 600), pair.b.memory.register(B, bytes(600))
    pair.post(Opcode.RDMA_WRITE, local, [(A, 600)], remote_address=B, rkey=remote)
    for count, frame in enumerate(pair.a.engine.take_frames(), start=1):
        pair.b.engine.on_frame(frame, 0)
        assert pair.b.memory.content(remote)[: min(600, count * 256)] == b"d" * min(600, count * 256)
        assert len(pair.b.engine.take_frames()) == (count == 3)
        assert len(pair.b.engine.take_arrivals()) == (count == 3)
