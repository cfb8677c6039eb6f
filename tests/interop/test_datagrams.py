# SPDX-License-Identifier: Apache-2.0
"""Unreliable datagrams between our engine and the kernel's rxe, in both directions."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import VerbsStatus
from nicemu.fabric import mac_of_host
from nicemu.rdma import ArrivalKind, Datagram, QpState, QpType
from nicemu.wire import parse_ipv4

from .world import ALL_RIGHTS, OUR_IP, PD, PEER_IP, World, some_bytes

pytestmark = [pytest.mark.interop, pytest.mark.slow]
Q_KEY = 0x1EE7
CONTROLLED = 1 << 31 | 0x1EE8
GRH = 40
MTU = 4096
"""What rxe takes in a datagram is what its interface carries."""
IMMEDIATE = 0xC0FFEE42
LENGTHS = (0, 1, 2, 3, 4, 255, 1023, 1024, MTU)
WC_RECV, WC_GRH, WC_LOC_QP_OP_ERR = 128, 1, 2
REGION_BYTES = 1 << 16


class Pair:
    """A queue pair of type UD here and one at rxe's, each with a region."""

    def __init__(self, world: World) -> None:
        self.world, engine = world, world.engine
        self.qp = next(world.numbers)
        self.key, self.address = world.memory.register(REGION_BYTES, ALL_RIGHTS)
        (opened,) = world.ask({"do": "open", "region_bytes": REGION_BYTES, "q_key": Q_KEY})
        self.peer_qp = opened["qp"]
        engine.create_qp(self.qp, PD, path_mtu=MTU, qp_type=QpType.UD, q_key=Q_KEY)
        for state in (QpState.INIT, QpState.RTR, QpState.RTS):
            engine.modify(self.qp, state)
        self.handle = engine.create_address_handle(mac_of_host(parse_ipv4(PEER_IP)), PEER_IP)
        self._ids = count(1)

    @property
    def memory(self) -> memoryview:
        """Our region."""
        return self.world.memory.content(self.key)

    def order(self, do: str, **more: Any) -> Any:  # noqa: ANN401
        """Have the peer do something with its queue pair."""
        return self.world.ask({"do": do, "qp": self.peer_qp, **more})[0]

    def send(self, length: int, opcode: Opcode = Opcode.SEND, q_key: int = Q_KEY) -> None:
        """Send the start of our region to rxe."""
        work = WorkRequest(opcode, (Sge(self.address, length, self.key),), imm_data=IMMEDIATE)
        to = Datagram(self.handle, self.peer_qp, q_key)
        assert self.world.engine.post_send(self.qp, work, next(self._ids), time.monotonic_ns(), to=to)

    def receive(self, length: int) -> None:
        """Post a receive here, at the start of our region."""
        assert self.world.engine.post_receive(self.qp, 7, (Sge(self.address, length, self.key),))

    def peer_send(self, length: int, op: str = "SEND", q_key: int = Q_KEY) -> None:
        """Have rxe send the start of its region here."""
        more = {"id": 1, "imm": IMMEDIATE, "remote_qp": self.qp, "remote_q_key": q_key}
        self.order("post", op=op, offset=0, length=length, **more)
        assert self.order("poll", count=1, time_limit_s=10)[0]["status"] == 0

    def close(self) -> None:
        """Destroy both queue pairs."""
        self.world.engine.destroy_qp(self.qp)
        self.order("close")


@pytest.fixture
def pair(world: World) -> Iterator[Pair]:
    made = Pair(world)
    yield made
    made.close()
    assert world.memory.guards_hold()


@pytest.mark.parametrize("opcode", [Opcode.SEND, Opcode.SEND_WITH_IMM])
def test_our_datagram_lands_at_rxe(pair: Pair, opcode: Opcode) -> None:
    for seed, length in enumerate(LENGTHS):
        data = some_bytes(seed, length)
        pair.memory[:length] = data
        pair.order("fill", seed=99, length=GRH + length + 4, offset=0)
        pair.order("receive", id=500 + seed, count=1, offset=0, length=GRH + length + 4)
        pair.send(length, opcode)
        (told,) = pair.order("poll", count=1, time_limit_s=10)
        assert (told["status"], told["opcode"], told["id"]) == (0, WC_RECV, 500 + seed)
        assert (told["bytes"], told["source_qp"]) == (GRH + length, pair.qp)
        assert told["flags"] & WC_GRH
        if opcode is Opcode.SEND_WITH_IMM:
            assert told["imm"] == IMMEDIATE
        landed = data + some_bytes(99, GRH + length + 4)[-4:]
        digest = pair.order("digest", offset=GRH, length=length + 4)
        assert digest == hashlib.sha256(landed).hexdigest(), f"{length} bytes"
        header = bytes.fromhex(pair.order("read", offset=20, length=20))
        assert header[12:] == parse_ipv4(OUR_IP) + parse_ipv4(PEER_IP)
    pair.world.run_until(lambda: len(pair.world.completions) == len(LENGTHS), "completions")
    assert {done.status for done in pair.world.completions} == {VerbsStatus.SUCCESS}


@pytest.mark.parametrize("op", ["SEND", "SEND_WITH_IMM"])
def test_rxe_s_datagram_lands_here(pair: Pair, op: str) -> None:
    for seed, length in enumerate(LENGTHS):
        data = some_bytes(seed, length)
        pair.order("fill", seed=seed, length=length, offset=0)
        pair.memory[: GRH + length + 4] = bytes(GRH + length + 4)
        pair.receive(GRH + length + 4)
        pair.peer_send(length, op)
        pair.world.run_until(lambda: bool(pair.world.arrivals), "the datagram")
        arrival = pair.world.arrivals.pop()
        with_imm = op == "SEND_WITH_IMM"
        assert arrival.kind is (ArrivalKind.DATAGRAM_WITH_IMM if with_imm else ArrivalKind.DATAGRAM)
        assert arrival.imm_data == (IMMEDIATE if with_imm else None)
        assert (arrival.byte_len, arrival.wr_id) == (GRH + length, 7)
        assert (arrival.source_qp, arrival.source_ip) == (pair.peer_qp, PEER_IP)
        assert bytes(pair.memory[GRH : GRH + length + 4]) == data + bytes(4), f"{length} bytes"
        assert bytes(pair.memory[32:GRH]) == parse_ipv4(PEER_IP) + parse_ipv4(OUR_IP)


def test_both_sides_drop_another_q_key_in_silence(pair: Pair) -> None:
    pair.receive(GRH + 8)
    pair.order("receive", id=1, count=1, offset=0, length=GRH + 8)
    pair.peer_send(8, q_key=Q_KEY + 1)
    pair.world.run_until(lambda: pair.world.drops["datagram.q_key"] == 1, "the drop")
    pair.send(8, q_key=Q_KEY + 1)
    pair.send(5)
    (told,) = pair.order("poll", count=1, time_limit_s=10)
    assert (told["status"], told["bytes"]) == (0, GRH + 5)
    assert pair.world.arrivals == []


def test_where_a_controlled_q_key_is_named_ours_carries_its_queue_pair_s_and_rxe_s_what_is_named(
    pair: Pair,
) -> None:
    pair.order("receive", id=1, count=1, offset=0, length=GRH + 8)
    pair.send(5, q_key=CONTROLLED)
    (told,) = pair.order("poll", count=1, time_limit_s=10)
    assert (told["status"], told["bytes"]) == (0, GRH + 5)
    engine, number = pair.world.engine, next(pair.world.numbers)
    engine.create_qp(number, PD, path_mtu=MTU, qp_type=QpType.UD, q_key=CONTROLLED)
    for state in (QpState.INIT, QpState.RTR, QpState.RTS):
        engine.modify(number, state)
    assert engine.post_receive(number, 9, (Sge(pair.address, GRH + 8, pair.key),))
    more = {"id": 2, "imm": 0, "remote_qp": number, "remote_q_key": CONTROLLED}
    pair.order("post", op="SEND", offset=0, length=8, **more)
    pair.world.run_until(lambda: bool(pair.world.arrivals), "the datagram")
    arrival = pair.world.arrivals.pop()
    assert (arrival.qp_num, arrival.wr_id, arrival.byte_len) == (number, 9, GRH + 8)
    engine.destroy_qp(number)


def test_a_datagram_too_long_for_the_receive_is_dropped_here(pair: Pair) -> None:
    pair.receive(GRH + 7)
    pair.peer_send(8)
    pair.world.run_until(lambda: pair.world.drops["datagram.too_long"] == 1, "the drop")
    pair.peer_send(7)
    pair.world.run_until(lambda: bool(pair.world.arrivals), "the datagram")


def test_a_datagram_too_long_for_the_receive_ends_it_at_rxe(pair: Pair) -> None:
    pair.order("receive", id=1, count=1, offset=0, length=GRH + 7)
    pair.send(8)
    (told,) = pair.order("poll", count=1, time_limit_s=10)
    assert (told["status"], told["id"]) == (WC_LOC_QP_OP_ERR, 1)


def test_without_a_receive_both_sides_drop_in_silence(pair: Pair) -> None:
    pair.peer_send(8)
    pair.world.run_until(lambda: pair.world.drops["datagram.no_receive"] == 1, "the drop")
    pair.send(8)
    pair.world.run_for(0.1)
    pair.order("receive", id=1, count=1, offset=0, length=GRH + 8)
    assert pair.order("poll", count=1, time_limit_s=0.2) == []
