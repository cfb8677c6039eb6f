# SPDX-License-Identifier: Apache-2.0
"""Selective retransmission, an option between two engines of ours: a lost packet alone is sent again.

Source: Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018, "IRN's Loss Recovery Mechanism".
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from nicemu.abi import Opcode, Sge
from nicemu.errors import VerbsStatus
from nicemu.rdma.roce import ArrivalKind, QpState
from nicemu.wire import NakCode, RcOpcode, SyndromeKind, decode_roce_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.rdma.conftest import Node, TwoEngines

    Connect = Callable[..., TwoEngines]
A, B = 0x1000, 0x80000
OK = VerbsStatus.SUCCESS
PSN = 0xFFFFFA
MTU = 256
ALL_FAULTS = ["loss", "duplication", "reordering"]


def connected(connect: Connect, **more: object) -> TwoEngines:
    """Return engines with selective retransmission, and memory of 64 KiB each."""
    options = {"path_mtu": MTU, "psns": (PSN, 5), "selective_retransmission": True, **more}
    pair = connect(**options)
    for node, seed in ((pair.a, 1), (pair.b, 2)):
        node.memory.register(A if node is pair.a else B, random.Random(seed).randbytes(1 << 16))
    return pair


def psns(frames: list[bytes]) -> list[int]:
    """Return PSNs behind the first one."""
    return [(decode_roce_frame(frame).bth.psn - PSN) & 0xFFFFFF for frame in frames]


def give(node: Node, frames: list[bytes]) -> list[bytes]:
    """Give frames to a node, and return what it says."""
    node.engine.on_frames(frames, 0)
    said = node.engine.take_frames()
    node.collect()
    return said


def test_the_nak_says_what_is_here_behind_the_packet_that_is_expected(connect: Connect) -> None:
    pair = connected(connect)
    pair.post(Opcode.RDMA_WRITE, 0x100, [(A, 10 * MTU)], remote_address=B, rkey=0x100)
    frames = pair.a.engine.take_frames()
    (said,) = give(pair.b, [frames[0], frames[2], frames[3], frames[6]])
    nak = decode_roce_frame(said)
    assert nak.bth.opcode == RcOpcode.ACKNOWLEDGE
    assert nak.aeth is not None
    assert (nak.aeth.kind, nak.aeth.value) == (SyndromeKind.NAK, NakCode.PSN_SEQUENCE_ERROR)
    assert psns([said]) == [1]
    assert int.from_bytes(nak.payload, "big") == 0b10011


def test_what_is_missing_alone_is_sent_again(connect: Connect) -> None:
    pair = connected(connect)
    pair.post(Opcode.RDMA_WRITE, 0x100, [(A, 10 * MTU)], remote_address=B, rkey=0x100)
    frames = pair.a.engine.take_frames()
    again = give(pair.a, give(pair.b, [frame for n, frame in enumerate(frames) if n not in (1, 4, 5)]))
    assert psns(again) == [1, 4, 5]
    assert again == [frames[1], frames[4], frames[5]]
    assert pair.a.engine.retransmitted_packets == 3
    assert give(pair.a, give(pair.b, again)) == []
    assert pair.a.statuses() == [OK]
    assert pair.b.memory.content(0x100)[: 10 * MTU] == pair.a.memory.content(0x100)[: 10 * MTU]
    assert [arrival.byte_len for arrival in pair.b.arrivals] == [10 * MTU]


def test_without_the_option_all_behind_it_is_sent_again(connect: Connect) -> None:
    pair = connected(connect, selective_retransmission=False)
    pair.post(Opcode.RDMA_WRITE, 0x100, [(A, 10 * MTU)], remote_address=B, rkey=0x100)
    frames = pair.a.engine.take_frames()
    again = give(pair.a, give(pair.b, [frames[0], *frames[2:]]))
    assert psns(again) == [*range(1, 10)]


def test_one_that_is_lost_twice_is_sent_again_when_a_later_one_has_arrived(connect: Connect) -> None:
    pair = connected(connect)
    for _ in range(2):
        pair.post(Opcode.RDMA_WRITE, 0x100, [(A, 40 * MTU)], remote_address=B, rkey=0x100)
    frames = pair.a.engine.take_frames()
    assert len(frames) == 64  # the window is full
    again = give(pair.a, give(pair.b, [*frames[:4], *frames[5:]]))
    assert psns(again) == [4, 64, 65, 66, 67]  # up to there the window goes
    assert psns(give(pair.a, give(pair.b, again[1:]))) == [4]


def test_the_last_packet_is_for_the_timer_to_send_again(connect: Connect) -> None:
    pair = connected(connect, timeout_ns=1000)
    pair.post(Opcode.RDMA_WRITE, 0x100, [(A, 3 * MTU)], remote_address=B, rkey=0x100)
    frames = pair.a.engine.take_frames()
    assert give(pair.b, frames[:2]) == []
    assert pair.a.engine.next_deadline_ns() == 1000
    pair.a.engine.on_timer(1000)
    assert psns(pair.a.engine.take_frames()) == [0, 1, 2]


def test_operations_behind_a_gap_are_carried_out_in_order(connect: Connect) -> None:
    pair = connected(connect)
    pair.b.engine.post_receive(9, 70, (Sge(B + 0x8000, 300, 0x100),))
    pair.post(Opcode.RDMA_WRITE, 0x100, [(A, 300)], remote_address=B, rkey=0x100, wr_id=1)
    pair.post(Opcode.FETCH_ADD, 0x100, [(A + 0x800, 8)], remote_address=B, rkey=0x100, compare_add=3, wr_id=2)
    pair.post(Opcode.SEND, 0x100, [(A, 300)], wr_id=3)
    pair.post(Opcode.RDMA_READ, 0x100, [(A + 0x900, 600)], remote_address=B, rkey=0x100, wr_id=4)
    frames = pair.a.engine.take_frames()
    naks = give(pair.b, frames[1:])
    assert pair.b.arrivals == []
    assert psns(give(pair.a, naks)) == [0]
    give(pair.a, give(pair.b, frames[:1]))
    kinds = ArrivalKind.WRITE, ArrivalKind.ATOMIC, ArrivalKind.SEND, ArrivalKind.READ
    assert [arrival.kind for arrival in pair.b.arrivals] == [*kinds]
    assert [done.wr_id for done in pair.a.completions] == [1, 2, 3, 4]
    assert pair.a.statuses() == [OK] * 4


def test_nothing_is_written_before_its_turn(connect: Connect) -> None:
    pair = connected(connect)
    before = pair.b.memory.content(0x100)
    pair.post(Opcode.RDMA_WRITE, 0x100, [(A, 10 * MTU)], remote_address=B, rkey=0x100)
    frames = pair.a.engine.take_frames()
    give(pair.b, frames[1:])
    assert pair.b.memory.content(0x100) == before
    pair.b.memory.deregister(0x100)
    give(pair.a, give(pair.b, frames[:1]))
    assert pair.a.statuses() == [VerbsStatus.REM_ACCESS_ERR]
    assert pair.b.engine.state(9) is QpState.ERR


def test_packets_beyond_the_window_are_not_kept(connect: Connect) -> None:
    pair = connected(connect)
    pair.post(Opcode.RDMA_WRITE, 0x100, [(A, 200 * MTU)], remote_address=B, rkey=0x100)
    more = give(pair.a, give(pair.b, pair.a.engine.take_frames()))
    other = connected(connect)
    (said,) = give(other.b, [more[0]])
    assert int.from_bytes(decode_roce_frame(said).payload, "big") == 1 << 63
    give(other.b, [more[1]])
    assert other.b.drops == {"responder.psn_gap": 1}


def test_a_receiver_that_is_not_ready_keeps_nothing(connect: Connect) -> None:
    pair = connected(connect, min_rnr_timer_ns=10_000)
    for _ in range(3):
        pair.post(Opcode.SEND, 0x100, [(A, 2 * MTU)])
    frames = pair.a.engine.take_frames()
    said = give(pair.b, [*frames[2:], frames[0]])
    give(pair.a, said)
    for number in range(3):
        pair.b.engine.post_receive(9, number, (Sge(B + 0x1000 * number, 2 * MTU, 0x100),))
    pair.now_ns = 10_000
    pair.a.engine.on_timer(pair.now_ns)
    pair.run()
    assert pair.a.statuses() == [OK] * 3
    assert [arrival.wr_id for arrival in pair.b.arrivals] == [0, 1, 2]


@pytest.mark.parametrize("ends", [(True, False), (False, True)])
def test_an_end_without_the_option_is_understood(connect: Connect, ends: tuple[bool, bool]) -> None:
    b = {"selective_retransmission": ends[1]}
    pair = connected(
        connect, selective_retransmission=ends[0], b=b, rates={"loss": 0.05}, timeout_ns=100_000, seed=3
    )
    for _ in range(8):
        pair.post(Opcode.RDMA_WRITE, 0x100, [(A, 30 * MTU + 7)], remote_address=B, rkey=0x100)
    pair.run()
    assert pair.a.statuses() == [OK] * 8
    assert pair.b.memory.content(0x100)[: 30 * MTU + 7] == pair.a.memory.content(0x100)[: 30 * MTU + 7]


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("faults", [["loss"], ["duplication"], ["reordering"], ALL_FAULTS])
@pytest.mark.parametrize("seed", range(3))
def test_every_message_is_byte_exact_and_completes_in_order(
    connect: Connect, rate: float, faults: list[str], seed: int
) -> None:
    rates = dict.fromkeys(faults, rate)
    pair = connected(connect, rates=rates, seed=seed, timeout_ns=100_000, send_queue_depth=200)
    rng = random.Random(seed)
    length = 60_000
    expected = bytearray(pair.b.memory.content(0x100))
    source = pair.a.memory.content(0x100)
    posted = 0
    for number in range(60):
        pair.b.engine.post_receive(9, 1000 + number, (Sge(B + 63_000, 2000, 0x100),))
        start, size = rng.randrange(length // 2), rng.choice([0, 1, MTU, 9 * MTU + 3, 20 * MTU])
        opcode = rng.choice([Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM])
        where = rng.randrange(length // 2)
        more = {"remote_address": B + where, "rkey": 0x100, "wr_id": number}
        assert pair.post(opcode, 0x100, [(A + start, size)], **more)
        expected[where : where + size] = source[start : start + size]
        posted += 1
    pair.run()
    assert pair.a.statuses() == [OK] * posted
    assert [done.wr_id for done in pair.a.completions] == [*range(posted)]
    assert pair.b.memory.content(0x100) == expected
    assert pair.b.memory.guards_hold()
