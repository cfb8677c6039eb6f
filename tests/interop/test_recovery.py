# SPDX-License-Identifier: Apache-2.0
"""What is lost, late, early, repeated or spoiled between our engine and the kernel's rxe is made good.

Source: InfiniBand Architecture Specification Volume 1, "Reliable Service", "Responder: Generating
Responses", "Requester: Receiving Responses".
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from nicemu.abi import Opcode
from nicemu.errors import VerbsStatus
from nicemu.rdma import ArrivalKind, QpState

from .faults import Lost, Spoiled, twice, unreliable
from .world import ACKNOWLEDGE, Connection, Packet, some_bytes

pytestmark = [pytest.mark.interop, pytest.mark.slow]
SUCCESS = VerbsStatus.SUCCESS
Connect = Callable[..., Connection]
RNR_NAK, PSN_ERROR = 0x20, 0x60
READ_REQUEST = 0x0C
IBV_QPS_ERR = 6
SHORT = {"timeout_ns": 100_000_000}
"""Our timer where a test waits for it; rxe answers in far less."""


def sent(packets: list[Packet]) -> list[int]:
    """Return the PSNs of packets."""
    return [packet.psn for packet in packets]


def has_psn(psn: int) -> Callable[[Packet], bool]:
    return lambda packet: packet.psn == psn and packet.opcode != ACKNOWLEDGE


def is_answer(packet: Packet) -> bool:
    return packet.opcode in (0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12)


# Receiver not ready


@pytest.mark.parametrize("opcode", [Opcode.SEND, Opcode.SEND_WITH_IMM, Opcode.RDMA_WRITE_WITH_IMM])
def test_we_wait_as_long_as_rxe_s_rnr_nak_says(connect: Connect, opcode: Opcode) -> None:
    timer, wait_ns = 26, 81_920_000
    one = connect(1024, peers={"min_rnr_timer": timer})
    data = some_bytes(1, 3000)
    one.write(data)
    one.post(opcode, 3000)
    one.world.run_until(lambda: one.syndromes(ours=False).count(RNR_NAK | timer) == 2, "two RNR NAKs")
    nak = next(p for p in one.packets(ours=False) if p.syndrome == RNR_NAK | timer)
    after = [p for p in one.packets(ours=True) if p.time_ns > nak.time_ns]
    assert after[0].psn == nak.psn
    assert after[0].time_ns - nak.time_ns >= wait_ns
    one.peer_receive(3000)
    assert one.completed()[0].status == SUCCESS
    assert one.peer_completed()[0]["status"] == 0
    assert one.peer_holds(data)


def test_our_send_ends_with_13_when_rxe_stays_unready(connect: Connect) -> None:
    one = connect(ours={"rnr_retry": 2})
    one.post(Opcode.SEND, 10)
    assert one.completed()[0].status == VerbsStatus.RNR_RETRY_EXC_ERR
    assert len(one.packets(ours=True)) == 1 + 2
    assert one.world.engine.state(one.qp) is QpState.ERR


TICKS_NS = 10_000_000
"""By how much rxe's wait may be short: it counts in ticks of 4 ms, and a guest that was held up makes up for
them. The next shorter timer there is, of 61.44 ms, is shorter by twice as much.
"""


@pytest.mark.parametrize("op", ["SEND", "SEND_WITH_IMM", "RDMA_WRITE_WITH_IMM"])
def test_rxe_waits_as_long_as_our_rnr_nak_says(connect: Connect, op: str) -> None:
    wait_ns = 81_920_000
    one = connect(1024, ours={"min_rnr_timer_ns": wait_ns})
    data = one.peer_fill(1, 3000)
    one.peer_post(op, 3000)
    one.world.run_until(lambda: one.syndromes(ours=True).count(RNR_NAK | 26) == 2, "two RNR NAKs")
    first = next(p for p in one.packets(ours=True) if p.syndrome == RNR_NAK | 26)
    again = next(p for p in one.packets(ours=False) if p.time_ns > first.time_ns and p.psn == first.psn)
    assert again.time_ns - first.time_ns >= wait_ns - TICKS_NS
    one.receive(3000)
    assert one.peer_completed()[0]["status"] == 0
    one.arrived()
    assert one.read(3000) == data


def test_rxe_s_send_ends_with_13_when_we_stay_unready(connect: Connect) -> None:
    one = connect(peers={"rnr_retry": 2})
    one.peer_post("SEND", 10)
    assert one.peer_completed()[0]["status"] == VerbsStatus.RNR_RETRY_EXC_ERR
    assert len(one.packets(ours=False)) == 1 + 2
    assert one.peer_state() == IBV_QPS_ERR


# Sequence errors


@pytest.mark.parametrize("lost", [0, 2, 4])
def test_we_go_back_to_what_rxe_missed(connect: Connect, lost: int) -> None:
    one = connect(256)
    data = some_bytes(1, 7 * 256)
    one.write(data)
    one.world.cable.leaving = Lost(has_psn(0x100 + lost))
    one.post(Opcode.RDMA_WRITE, len(data))
    assert one.completed()[0].status == SUCCESS
    naks = [p for p in one.packets(ours=False) if p.syndrome == PSN_ERROR]
    assert sent(naks) == [0x100 + lost]
    again = [p.psn for p in one.packets(ours=True) if p.time_ns > naks[0].time_ns]
    assert again[: 7 - lost] == list(range(0x100 + lost, 0x107))
    assert one.peer_holds(data)


@pytest.mark.parametrize("lost", [0, 2, 4])
def test_rxe_goes_back_to_what_we_missed(connect: Connect, lost: int) -> None:
    one = connect(256)
    data = one.peer_fill(1, 7 * 256)
    one.world.cable.arriving = Lost(has_psn(0x200 + lost))
    one.peer_post("RDMA_WRITE", len(data))
    assert one.peer_completed()[0]["status"] == 0
    naks = [p for p in one.packets(ours=True) if p.syndrome == PSN_ERROR]
    assert sent(naks) == [0x200 + lost]
    assert one.read(len(data)) == data


def test_we_ask_again_for_the_read_responses_that_are_missing(connect: Connect) -> None:
    one = connect(256)
    data = one.peer_fill(1, 6 * 256)
    one.world.cable.arriving = Lost(has_psn(0x102))
    one.post(Opcode.RDMA_READ, len(data))
    assert one.completed()[0].status == SUCCESS
    requests = one.packets(ours=True)
    assert [p.opcode for p in requests] == [READ_REQUEST] * 2
    assert sent(requests) == [0x100, 0x102]
    address, _, left = (int.from_bytes(requests[1].body[a:b], "big") for a, b in ((0, 8), (8, 12), (12, 16)))
    assert (address, left) == (one.peer_address + 2 * 256, 4 * 256)
    assert one.read(len(data)) == data


def test_rxe_asks_again_for_the_read_responses_that_are_missing(connect: Connect) -> None:
    one = connect(256, peers={"timeout": 14})
    data = some_bytes(1, 6 * 256)
    one.write(data)
    one.world.cable.leaving = Lost(has_psn(0x202))
    one.peer_post("RDMA_READ", len(data))
    assert one.peer_completed()[0]["status"] == 0
    requests = one.packets(ours=False)
    assert {p.opcode for p in requests} == {READ_REQUEST}
    assert sent(requests)[:2] == [0x200, 0x202]
    assert one.peer_holds(data)
    assert [a.kind for a in one.world.arrivals] == [ArrivalKind.READ]


# Lost answers, duplicates


def test_a_lost_answer_of_rxe_s_makes_nothing_happen_twice(connect: Connect) -> None:
    one = connect(ours=SHORT)
    one.peer_write((5).to_bytes(8, "little"))
    for opcode in (Opcode.SEND, Opcode.RDMA_WRITE_WITH_IMM, Opcode.FETCH_ADD, Opcode.RDMA_READ):
        one.peer_receive(64, 4096)
        lost = one.world.cable.arriving = Lost(is_answer)
        one.post(opcode, 8, compare_add=3)
        (done,) = one.completed()
        assert done.status == SUCCESS, opcode
        assert lost.seen == 2, "the request came again, and was answered again"
    assert len(one.peer_completed(2)) == 2
    assert one.world.ask({"do": "poll", "qp": one.peer_qp, "count": 1, "time_limit_s": 0.2}) == [[]]
    # SEND and the write consumed a receive each; the write stored zeros over the 5, and the addition 3.
    assert one.peer_read(8) == (3).to_bytes(8, "little")
    assert one.read(8) == (3).to_bytes(8, "little")


def test_a_lost_answer_of_ours_makes_nothing_happen_twice(connect: Connect) -> None:
    one = connect(peers={"timeout": 15})
    one.receive(64, 4096, count=4)
    for op in ("SEND", "RDMA_WRITE_WITH_IMM", "ATOMIC_FETCH_AND_ADD", "RDMA_READ"):
        more = {"compare_add": 3, "swap": 0} if op.startswith("ATOMIC") else {}
        lost = one.world.cable.leaving = Lost(is_answer)
        one.peer_post(op, 8, **more)
        assert one.peer_completed()[0]["status"] == 0, op
        assert lost.seen >= 2, "the request came again, and was answered again"
    kinds = [arrival.kind for arrival in one.world.arrivals]
    wanted = [ArrivalKind.SEND, ArrivalKind.WRITE_WITH_IMM, ArrivalKind.ATOMIC, ArrivalKind.READ]
    assert kinds == wanted
    assert one.read(8) == (3).to_bytes(8, "little") == one.peer_read(8)


@pytest.mark.parametrize("side", ["leaving", "arriving"])
def test_repeated_packets_change_nothing(connect: Connect, side: str) -> None:
    one = connect(256)
    setattr(one.world.cable, side, twice)
    data, theirs = some_bytes(1, 2000), one.peer_fill(2, 2000, 4096)
    one.write(data)
    one.peer_receive(2000, 8192, count=9)
    one.receive(2000, 8192, count=9)
    one.post(Opcode.RDMA_WRITE, 2000)
    one.post(Opcode.SEND, 2000)
    one.post(Opcode.RDMA_READ, 2000, offset=16384, remote_offset=4096)
    one.post(Opcode.FETCH_ADD, 8, offset=30000, remote_offset=30000, compare_add=3)
    assert [done.status for done in one.completed(4)] == [SUCCESS] * 4
    one.peer_post("RDMA_WRITE", 2000, offset=4096, remote_offset=32768)
    one.peer_post("SEND", 2000, offset=4096)
    one.peer_post("RDMA_READ", 2000, offset=40000)
    one.peer_post("ATOMIC_FETCH_AND_ADD", 8, offset=50000, remote_offset=50000, compare_add=3, swap=0)
    assert [done["status"] for done in one.peer_completed(5)] == [0] * 5  # one is our SEND's
    assert [one.peer_holds(data, place) for place in (0, 8192, 40000)] == [True] * 3
    assert one.read(2000, 16384) == one.read(2000, 32768) == one.read(2000, 8192) == theirs
    assert one.peer_read(8, 30000) == one.read(8, 50000) == (3).to_bytes(8, "little")
    kinds = sorted(arrival.kind.name for arrival in one.world.arrivals)
    assert kinds == ["ATOMIC", "READ", "SEND", "WRITE"]


# Nothing answers


def test_our_work_ends_with_12_when_nothing_answers(connect: Connect) -> None:
    one = connect(ours={"timeout_ns": 20_000_000, "retry_count": 3})
    lost = one.world.cable.leaving = Lost(lambda packet: True, times=1000)
    one.post(Opcode.RDMA_WRITE, 100)
    one.post(Opcode.RDMA_WRITE, 100)
    first, second = one.completed(2)
    assert first.status == VerbsStatus.RETRY_EXC_ERR
    assert second.status == VerbsStatus.WR_FLUSH_ERR
    assert lost.seen == 2 * (1 + 3)
    assert one.world.engine.state(one.qp) is QpState.ERR


def test_rxe_s_work_ends_with_12_when_nothing_answers(connect: Connect) -> None:
    one = connect(peers={"timeout": 14, "retry_cnt": 3})
    lost = one.world.cable.arriving = Lost(lambda packet: True, times=1000)
    one.peer_post("RDMA_WRITE", 100)
    assert one.peer_completed()[0]["status"] == VerbsStatus.RETRY_EXC_ERR
    assert lost.seen == 1 + 3
    assert one.peer_state() == IBV_QPS_ERR


# The ICRC


def test_rxe_drops_our_packet_with_a_wrong_icrc_in_silence(connect: Connect) -> None:
    one = connect(ours=SHORT)
    data = some_bytes(1, 64)
    one.write(data)
    spoiled = one.world.cable.leaving = Spoiled(lambda packet: True)
    one.post(Opcode.RDMA_WRITE, 64)
    assert one.completed()[0].status == SUCCESS
    assert spoiled.done
    assert len(one.packets(ours=True)) == 2
    assert len(one.packets(ours=False)) == 1, "only what was right is answered"
    assert one.peer_holds(data)


def test_we_drop_rxe_s_packet_with_a_wrong_icrc_in_silence(connect: Connect) -> None:
    one = connect(peers={"timeout": 14})
    data = one.peer_fill(1, 64)
    spoiled = one.world.cable.arriving = Spoiled(lambda packet: True)
    one.peer_post("RDMA_WRITE", 64)
    assert one.peer_completed()[0]["status"] == 0
    assert spoiled.done
    assert one.world.drops["rocev2.icrc"] == 1
    assert len(one.packets(ours=True)) == 1
    assert one.read(64) == data


# Numbers that wrap, and a bad day


@pytest.mark.parametrize("lost", [False, True])
def test_packet_sequence_numbers_wrap_in_every_kind_of_work(connect: Connect, lost: bool) -> None:
    for before in range(1, 6):
        start = (1 << 24) - before
        one = connect(256, our_psn=start, peer_psn=start, ours=SHORT, peers={"timeout": 14})
        if lost:
            one.world.cable.leaving, one.world.cable.arriving = Lost(has_psn(1)), Lost(has_psn(1))
        data, theirs = some_bytes(1, 1000), one.peer_fill(2, 1000, 4096)
        one.write(data)
        one.peer_receive(1000, 8192, count=9)
        one.receive(1000, 8192, count=9)
        one.post(Opcode.RDMA_WRITE, 1000)
        one.post(Opcode.RDMA_READ, 1000, offset=16384, remote_offset=4096)
        one.post(Opcode.SEND, 1000)
        one.post(Opcode.FETCH_ADD, 8, offset=30000, remote_offset=30000, compare_add=3)
        assert [done.status for done in one.completed(4)] == [SUCCESS] * 4
        one.peer_post("RDMA_READ", 1000, offset=40000)
        one.peer_post("RDMA_WRITE", 1000, offset=4096, remote_offset=32768)
        one.peer_post("SEND", 1000, offset=4096)
        assert [done["status"] for done in one.peer_completed(4)] == [0] * 4
        assert [one.peer_holds(data, place) for place in (0, 8192, 40000)] == [True] * 3
        assert one.read(1000, 16384) == one.read(1000, 32768) == one.read(1000, 8192) == theirs
        for ours in (True, False):
            numbers = sent(one.packets(ours=ours))
            assert min(numbers) < 50
            assert max(numbers) >= start
        one.world.arrivals.clear()


@pytest.mark.parametrize("seed", [1, 2])
def test_with_one_packet_in_a_hundred_lost_every_byte_arrives(connect: Connect, seed: int) -> None:
    one = connect(1024, region_bytes=4 << 20, ours={"timeout_ns": 120_000_000}, peers={"timeout": 14})
    rng = random.Random(seed)
    one.world.cable.leaving = unreliable(rng, 0.01)
    one.world.cable.arriving = unreliable(rng, 0.01)
    data, theirs = some_bytes(seed, 1 << 20), one.peer_fill(seed + 9, 1 << 20)
    one.write(data)
    chunks = 32
    size = (1 << 20) // chunks
    for chunk in range(chunks):
        place = chunk * size
        one.post(Opcode.RDMA_WRITE, size, offset=place, remote_offset=(1 << 20) + place)
        one.post(Opcode.RDMA_READ, size, offset=(1 << 20) + place, remote_offset=place)
        one.peer_post("RDMA_WRITE", size, offset=place, remote_offset=(2 << 20) + place)
        one.peer_post("RDMA_READ", size, offset=(2 << 20) + place, remote_offset=place)
    assert {done.status for done in one.completed(2 * chunks)} == {SUCCESS}
    assert {done["status"] for done in one.peer_completed(2 * chunks)} == {0}
    assert one.peer_holds(data, 1 << 20)
    assert one.peer_holds(data, 2 << 20)
    assert one.read(1 << 20, 1 << 20) == one.read(1 << 20, 2 << 20) == theirs
    assert one.syndromes(ours=True).count(PSN_ERROR) + one.syndromes(ours=False).count(PSN_ERROR) > 0
