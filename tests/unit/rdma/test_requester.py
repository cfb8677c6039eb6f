# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import UsageError, VerbsStatus
from nicemu.rdma.roce import ArrivalKind, QpState
from nicemu.wire import (
    RNR_TIMER_NS,
    Aeth,
    NakCode,
    RcOpcode,
    RoceFramer,
    decode_roce_frame,
    parse_ipv4,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.rdma.conftest import TwoEngines

    Connect = Callable[..., TwoEngines]
A, B = 0x1000, 0x80000
DATA = bytes(i * 7 % 251 for i in range(6000))
OK = VerbsStatus.SUCCESS
SIZES = (0, 1, 3, 255, 256, 257, 511, 512, 513, 1024, 2049)


def opcodes(pair: TwoEngines) -> list[RcOpcode]:
    return [RcOpcode(decode_roce_frame(frame).bth.opcode) for frame in pair.frames_sent]


@pytest.mark.parametrize("length", SIZES)
def test_a_write_of_any_size_lands_whole_and_nowhere_else(connect: Connect, length: int) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(3000))
    pair.post(
        Opcode.RDMA_WRITE, local, [(A + 1, length)], remote_address=B + 5, rkey=remote, context=77, wr_id=5
    )
    pair.run()
    (done,) = pair.a.completions
    assert (done.context, done.status, done.opcode) == (77, OK, Opcode.RDMA_WRITE)
    assert (done.byte_len, done.wr_id, done.qp_num) == (length, 5, 7)
    expected = bytes(5) + DATA[1 : 1 + length]
    assert pair.b.memory.content(remote) == expected + bytes(3000 - len(expected))
    (arrival,) = pair.b.arrivals
    assert (arrival.kind, arrival.byte_len, arrival.rkey) == (ArrivalKind.WRITE, length, remote)


@pytest.mark.parametrize("length", SIZES)
def test_a_read_of_any_size_brings_what_is_there(connect: Connect, length: int) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, bytes(3000)), pair.b.memory.register(B, DATA)
    pair.post(Opcode.RDMA_READ, local, [(A + 9, length)], remote_address=B + 3, rkey=remote)
    pair.run()
    assert [(c.status, c.byte_len) for c in pair.a.completions] == [(OK, length)]
    expected = bytes(9) + DATA[3 : 3 + length]
    assert pair.a.memory.content(local) == expected + bytes(3000 - len(expected))
    assert [(x.kind, x.byte_len) for x in pair.b.arrivals] == [(ArrivalKind.READ, length)]


@pytest.mark.parametrize("length", SIZES)
def test_a_send_of_any_size_fills_the_oldest_receive(connect: Connect, length: int) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(3000))
    pair.b.engine.post_receive(9, 41, [Sge(B, 100, remote), Sge(B + 500, 2500, remote)])
    pair.b.engine.post_receive(9, 42, [])
    pair.post(Opcode.SEND_WITH_IMM, local, [(A, length)], imm_data=0xCAFE)
    pair.run()
    content = pair.b.memory.content(remote)
    assert content[:100] + content[500:] == DATA[:length] + bytes(2600 - length)
    (arrival,) = pair.b.arrivals
    assert (arrival.kind, arrival.wr_id, arrival.imm_data) == (ArrivalKind.SEND_WITH_IMM, 41, 0xCAFE)
    assert arrival.byte_len == length


def test_two_local_pieces_are_gathered_and_scattered(connect: Connect) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(600))
    pair.post(Opcode.RDMA_WRITE, local, [(A + 10, 301), (A + 1000, 299)], remote_address=B, rkey=remote)
    pair.run()
    assert pair.b.memory.content(remote) == DATA[10:311] + DATA[1000:1299]
    pair.post(Opcode.RDMA_READ, local, [(A + 3000, 1), (A + 4000, 599)], remote_address=B, rkey=remote)
    pair.run()
    content = pair.a.memory.content(local)
    assert content[3000:3001] + content[4000:4599] == DATA[10:311] + DATA[1000:1299]


def test_segments_are_named_first_middle_last_and_only(connect: Connect) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(3000))
    pair.b.engine.post_receive(9, 1)
    for length in (600, 256):
        pair.post(Opcode.RDMA_WRITE_WITH_IMM, local, [(A, length)], remote_address=B, rkey=remote)
        pair.b.engine.post_receive(9, 2)
    pair.post(Opcode.RDMA_READ, local, [(A, 513)], remote_address=B, rkey=remote)
    pair.run()
    assert opcodes(pair) == [
        RcOpcode.RDMA_WRITE_FIRST,
        RcOpcode.RDMA_WRITE_MIDDLE,
        RcOpcode.RDMA_WRITE_LAST_WITH_IMMEDIATE,
        RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE,
        RcOpcode.RDMA_READ_REQUEST,
        RcOpcode.ACKNOWLEDGE,
        RcOpcode.RDMA_READ_RESPONSE_FIRST,
        RcOpcode.RDMA_READ_RESPONSE_MIDDLE,
        RcOpcode.RDMA_READ_RESPONSE_LAST,
    ]


def test_atomics_return_the_old_value_and_change_memory_once(connect: Connect) -> None:
    pair = connect()
    local = pair.a.memory.register(A, bytes(24))
    remote = pair.b.memory.register(B, (2**64 - 2).to_bytes(8, "little"))
    target = {"remote_address": B, "rkey": remote}
    pair.post(Opcode.FETCH_ADD, local, [(A, 8)], compare_add=5, **target)
    pair.post(Opcode.COMPARE_SWAP, local, [(A + 8, 8)], compare_add=4, swap=9, **target)
    pair.post(Opcode.COMPARE_SWAP, local, [(A + 16, 8)], compare_add=3, swap=8, **target)
    pair.run()
    old = pair.a.memory.content(local)
    assert [int.from_bytes(old[i : i + 8], "little") for i in (0, 8, 16)] == [2**64 - 2, 3, 3]
    assert int.from_bytes(pair.b.memory.content(remote), "little") == 8
    assert [arrival.kind for arrival in pair.b.arrivals] == [ArrivalKind.ATOMIC] * 3


def test_packet_sequence_numbers_wrap(connect: Connect) -> None:
    pair = connect(path_mtu=256, psns=(0xFFFFFD, 0xFFFFFE))
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(6000))
    pair.post(Opcode.RDMA_WRITE, local, [(A, 2000)], remote_address=B, rkey=remote)
    pair.post(Opcode.RDMA_READ, local, [(A + 3000, 2000)], remote_address=B, rkey=remote)
    pair.run()
    assert pair.a.statuses() == [OK, OK]
    assert pair.a.memory.content(local)[3000:5000] == DATA[:2000]
    assert {decode_roce_frame(frame).bth.psn for frame in pair.frames_sent} >= {0xFFFFFD, 0xFFFFFF, 0, 1}


def test_no_more_than_the_window_is_sent_without_an_answer(connect: Connect) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, bytes(40_000)), pair.b.memory.register(B, bytes(40_000))
    pair.post(Opcode.RDMA_WRITE, local, [(A, 40_000)], remote_address=B, rkey=remote)
    assert len(pair.a.engine.take_frames()) == 64


def test_several_messages_are_acknowledged_at_once(connect: Connect) -> None:
    pair = connect()
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(100))
    for _ in range(10):
        pair.post(Opcode.RDMA_WRITE, local, [(A, 10)], remote_address=B, rkey=remote)
    pair.run()
    assert len(pair.a.completions) == 10
    assert opcodes(pair).count(RcOpcode.ACKNOWLEDGE) == 1


def test_at_most_sixteen_reads_and_atomics_wait_for_answers(connect: Connect) -> None:
    pair = connect()
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(100))
    for _ in range(20):
        pair.post(Opcode.FETCH_ADD, local, [(A, 8)], remote_address=B, rkey=remote, compare_add=1)
    assert len(pair.a.engine.take_frames()) == 16


def test_a_full_send_queue_refuses_and_takes_work_again_later(connect: Connect) -> None:
    pair = connect(send_queue_depth=2)
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(100))
    work = (Opcode.RDMA_WRITE, local, [(A, 10)])
    assert [pair.post(*work, remote_address=B, rkey=remote) for _ in range(3)] == [True, True, False]
    pair.run()
    assert pair.post(*work, remote_address=B, rkey=remote)


def test_memory_is_read_when_packets_are_made_not_when_work_is_posted(connect: Connect) -> None:
    pair = connect()
    local, remote = pair.a.memory.register(A, bytes(4)), pair.b.memory.register(B, bytes(4))
    pair.post(Opcode.RDMA_WRITE, local, [(A, 4)], remote_address=B, rkey=remote)
    pair.a.memory.fill(local, b"late")
    pair.run()
    assert pair.b.memory.content(remote) == b"late"


def test_without_an_answer_work_is_sent_once_and_retried_retry_count_times(connect: Connect) -> None:
    pair = connect(retry_count=3, timeout_ns=1_000_000, rates={"loss": 1.0})
    local = pair.a.memory.register(A, DATA)
    for context in range(3):
        pair.post(Opcode.RDMA_WRITE, local, [(A, 10)], remote_address=B, rkey=1, context=context)
    pair.a.engine.post_receive(7, 99)
    pair.run()
    assert len(pair.frames_sent) == 3 * (1 + 3)
    assert pair.a.engine.retransmitted_packets == 3 * 3
    assert pair.now_ns >= 4_000_000
    assert pair.a.statuses() == [
        VerbsStatus.RETRY_EXC_ERR,
        VerbsStatus.WR_FLUSH_ERR,
        VerbsStatus.WR_FLUSH_ERR,
        VerbsStatus.WR_FLUSH_ERR,
    ]
    assert [c.context for c in pair.a.completions][:3] == [0, 1, 2]
    assert (pair.a.completions[3].opcode, pair.a.completions[3].wr_id) == (Opcode.RECV, 99)
    assert pair.a.engine.state(7) is QpState.ERR


def test_a_receiver_that_is_not_ready_is_asked_again_after_its_timer(connect: Connect) -> None:
    pair = connect(min_rnr_timer_ns=100_000)
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(100))
    pair.post(Opcode.SEND, local, [(A, 50)])
    while pair.exchange():
        pass
    assert pair.a.engine.next_deadline_ns() == 120_000
    assert 120_000 in RNR_TIMER_NS
    pair.b.engine.post_receive(9, 5, [Sge(B, 100, remote)])
    assert pair.a.engine.take_frames() == []
    pair.run()
    assert pair.a.statuses() == [OK]
    assert pair.now_ns >= 120_000
    assert pair.b.memory.content(remote)[:50] == DATA[:50]


def test_receiver_not_ready_retries_run_out(connect: Connect) -> None:
    pair = connect(rnr_retry=2)
    local = pair.a.memory.register(A, DATA)
    pair.post(Opcode.SEND, local, [(A, 50)])
    pair.run()
    assert pair.a.statuses() == [VerbsStatus.RNR_RETRY_EXC_ERR]
    assert opcodes(pair).count(RcOpcode.SEND_ONLY) == 3


def test_rnr_retry_seven_means_for_ever(connect: Connect) -> None:
    pair = connect(rnr_retry=7)
    local = pair.a.memory.register(A, DATA)
    pair.post(Opcode.SEND, local, [(A, 50)])
    with pytest.raises(AssertionError, match="never come to rest"):
        pair.run(max_steps=200)
    pair.b.engine.post_receive(9, 5, [])
    assert pair.a.completions == []


def test_a_lost_packet_is_asked_for_by_one_nak_and_sent_again(connect: Connect) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(2048))
    pair.post(Opcode.RDMA_WRITE, local, [(A, 2048)], remote_address=B, rkey=remote)
    frames = pair.a.engine.take_frames()
    for frame in frames[:3] + frames[4:]:
        pair.b.engine.on_frame(frame, 0)
    (answer,) = pair.b.engine.take_frames()
    nak = decode_roce_frame(answer)
    assert nak.aeth == Aeth.nak(NakCode.PSN_SEQUENCE_ERROR, 0)
    assert nak.bth.psn == decode_roce_frame(frames[3]).bth.psn
    assert pair.a.engine.retransmitted_packets == 0
    pair.a.engine.on_frame(answer, 0)
    assert pair.a.engine.take_frames() == frames[3:]
    assert pair.a.engine.retransmitted_packets == len(frames[3:])


def test_a_read_that_is_asked_again_is_one_packet_sent_again(connect: Connect) -> None:
    pair = connect(path_mtu=256, timeout_ns=1000)
    local, remote = pair.a.memory.register(A, bytes(2048)), pair.b.memory.register(B, DATA)
    pair.post(Opcode.RDMA_READ, local, [(A, 2048)], remote_address=B, rkey=remote)
    pair.a.engine.take_frames()
    pair.a.engine.on_timer(1000)
    (again,) = pair.a.engine.take_frames()
    assert pair.a.engine.retransmitted_packets == 1
    pair.b.engine.on_frame(again, 1000)
    pair.a.engine.on_frames(pair.b.engine.take_frames(), 1000)
    assert pair.a.engine.retransmitted_packets == 1
    assert pair.b.engine.retransmitted_packets == 0


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (NakCode.INVALID_REQUEST, VerbsStatus.REM_INV_REQ_ERR),
        (NakCode.REMOTE_ACCESS_ERROR, VerbsStatus.REM_ACCESS_ERR),
        (NakCode.REMOTE_OPERATIONAL_ERROR, VerbsStatus.REM_OP_ERR),
    ],
)
def test_a_fatal_nak_ends_its_message_and_flushes_the_rest(
    connect: Connect, code: NakCode, status: VerbsStatus
) -> None:
    pair = connect()
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(2048))
    for _ in range(3):
        pair.post(Opcode.RDMA_WRITE, local, [(A, 8)], remote_address=B, rkey=remote)
    second = decode_roce_frame(pair.a.engine.take_frames()[1])
    back = RoceFramer(b"\x02\0\0\0\0\2", b"\x02\0\0\0\0\1", second.ip.destination, second.ip.source)
    nak = back.frame(RcOpcode.ACKNOWLEDGE, 7, second.bth.psn, extension=Aeth.nak(code, 1).encode())
    pair.a.engine.on_frame(nak, 0)
    pair.a.collect()
    assert pair.a.statuses() == [OK, status, VerbsStatus.WR_FLUSH_ERR]
    assert pair.a.engine.state(7) is QpState.ERR


def test_work_that_names_wrong_local_memory_fails_in_its_turn(connect: Connect) -> None:
    pair = connect()
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(2048))
    target = {"remote_address": B, "rkey": remote}
    pair.post(Opcode.RDMA_WRITE, local, [(A, 2000)], **target)
    pair.post(Opcode.RDMA_WRITE, local, [(A + 5999, 2)], **target)
    pair.post(Opcode.RDMA_WRITE, local, [(A, 8)], **target)
    assert pair.a.engine.take_completions() == []
    pair.run()
    assert pair.a.statuses() == [OK, VerbsStatus.LOC_PROT_ERR, VerbsStatus.WR_FLUSH_ERR]


@pytest.mark.parametrize(
    ("work", "status"),
    [
        (WorkRequest(Opcode.FETCH_ADD, (Sge(A, 4, 0x100),)), VerbsStatus.LOC_LEN_ERR),
        (WorkRequest(Opcode.RDMA_WRITE, (Sge(A, 1, 0x100),) * 3), VerbsStatus.LOC_QP_OP_ERR),
        (WorkRequest(Opcode.COUNTER_ADD), VerbsStatus.LOC_QP_OP_ERR),
        (WorkRequest(Opcode.RDMA_WRITE, (Sge(A, (1 << 30) + 1, 0x100),)), VerbsStatus.LOC_LEN_ERR),
    ],
)
def test_work_that_no_packet_can_carry_completes_at_once_with_an_error(
    connect: Connect, work: WorkRequest, status: VerbsStatus
) -> None:
    pair = connect()
    pair.a.memory.register(A, DATA)
    assert pair.a.engine.post_send(7, work, 3, 0)
    assert [(c.context, c.status) for c in pair.a.engine.take_completions()] == [(3, status)]


def test_in_the_error_state_work_is_flushed_when_posted(connect: Connect) -> None:
    pair = connect()
    pair.a.engine.modify(7, QpState.ERR)
    assert pair.post(Opcode.SEND, 0, [], context=8)
    assert pair.a.engine.post_receive(7, 9)
    pair.a.collect()
    assert [(c.status, c.opcode) for c in pair.a.completions] == [
        (VerbsStatus.WR_FLUSH_ERR, Opcode.SEND),
        (VerbsStatus.WR_FLUSH_ERR, Opcode.RECV),
    ]


def test_going_to_the_error_state_flushes_both_queues_in_order(connect: Connect) -> None:
    pair = connect()
    local = pair.a.memory.register(A, DATA)
    for context in (1, 2):
        pair.post(Opcode.RDMA_WRITE, local, [(A, 8)], remote_address=B, rkey=1, context=context)
    pair.a.engine.post_receive(7, 30)
    pair.a.engine.modify(7, QpState.ERR)
    pair.a.collect()
    assert [(c.context, c.wr_id) for c in pair.a.completions] == [(1, 0), (2, 0), (0, 30)]
    assert set(pair.a.statuses()) == {VerbsStatus.WR_FLUSH_ERR}
    assert pair.a.engine.take_frames() == []


def test_before_ready_to_send_posting_is_refused(connect: Connect) -> None:
    pair = connect()
    pair.a.engine.modify(7, QpState.RESET)
    with pytest.raises(UsageError, match="RTS"):
        pair.post(Opcode.SEND, 0, [])
    with pytest.raises(UsageError, match="INIT"):
        pair.a.engine.post_receive(7, 1)


@pytest.mark.parametrize("nak", [Aeth.nak(NakCode.PSN_SEQUENCE_ERROR, 1), Aeth.rnr_nak(1, 1)])
def test_work_whose_key_was_taken_back_on_the_way_ends_when_a_nak_makes_it_the_first(
    connect: Connect, nak: Aeth
) -> None:
    pair = connect(path_mtu=256, psns=(100, 200))
    kept, taken = pair.a.memory.register(A, bytes(8)), pair.a.memory.register(2 * A, bytes(600))
    pair.post(Opcode.RDMA_WRITE, kept, [(A, 8)])
    pair.post(Opcode.RDMA_WRITE, taken, [(2 * A, 600)])
    pair.a.engine.take_frames(2)
    pair.a.memory.deregister(taken)
    assert pair.a.engine.take_frames() == []
    framer = RoceFramer(b"\2\0\0\0\0\2", b"\2\0\0\0\0\1", parse_ipv4("10.0.0.2"), parse_ipv4("10.0.0.1"))
    pair.a.engine.on_frame(framer.frame(RcOpcode.ACKNOWLEDGE, 7, 101, extension=nak.encode()), 0)
    pair.a.collect()
    assert pair.a.statuses() == [OK, VerbsStatus.LOC_PROT_ERR]
    assert pair.a.engine.state(7) is QpState.ERR


def test_a_drained_send_queue_finishes_what_began_and_resumes_later(connect: Connect) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, DATA), pair.b.memory.register(B, bytes(2048))
    target = {"remote_address": B, "rkey": remote}
    pair.post(Opcode.RDMA_WRITE, local, [(A, 1024)], **target)
    pair.exchange(limit=1)
    pair.a.engine.modify(7, QpState.SQD)
    pair.post(Opcode.RDMA_WRITE, local, [(A, 8)], **target)
    pair.run()
    assert pair.a.statuses() == [OK]
    pair.a.engine.modify(7, QpState.RTS)
    pair.run()
    assert pair.a.statuses() == [OK, OK]


def test_a_limit_only_delays_frames(connect: Connect) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, bytes(6000)), pair.b.memory.register(B, DATA)
    pair.post(Opcode.RDMA_READ, local, [(A, 6000)], remote_address=B, rkey=remote)
    pair.run(limit=1)
    assert pair.a.memory.content(local) == DATA
    assert pair.a.statuses() == [OK]
