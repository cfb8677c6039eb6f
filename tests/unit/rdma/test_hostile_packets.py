# SPDX-License-Identifier: Apache-2.0
"""A peer that is broken or means harm: nothing raises, nothing is written where no key allows it, and every
queue pair ends in a state that the specification names, with each piece of work completed once.

Source: InfiniBand Architecture Specification Volume 1, "Queue Pair State Machine", "Responder: Receiving
Inbound Request Packets", "Requester: Receiving Responses".
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import settings

from nicemu.abi import Access, Opcode, Sge, WorkRequest
from nicemu.errors import VerbsStatus
from nicemu.hot import JIT
from nicemu.rdma.roce import QpState
from nicemu.rdma.roce_state import DROPS
from nicemu.wire import (
    Aeth,
    AtomicEth,
    NakCode,
    RcOpcode,
    Reth,
    RoceFramer,
    icrc,
    internet_checksum,
    parse_ipv4,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.rdma.conftest import TwoEngines

    Connect = Callable[..., TwoEngines]
A, B = 0x1000, 0x80000
REGION_BYTES = 4096
ENDS = (QpState.RTS, QpState.ERR)
HEADERS = range(14, 58)


class Fuzzer:
    """Plays the peer of both ends of a connection, with packets that are nearly right."""

    def __init__(self, pair: TwoEngines, rng: random.Random) -> None:
        self.pair, self.rng = pair, rng
        self.seen: list[bytes] = []
        self.posted, self.completed = Counter[str](), Counter[str]()
        self.ended_in = Counter[QpState]()
        for node in (pair.a, pair.b):
            node.memory.register(A, bytes(REGION_BYTES))
            node.memory.register(B, bytes(REGION_BYTES))
            node.memory.register(B << 1, b"another domain's" * 16, pd=2)
            node.memory.register(B << 2, b"only to be read." * 16, access=Access.REMOTE_READ)
        ends = (b"\2\0\0\0\0\1", parse_ipv4("10.0.0.1")), (b"\2\0\0\0\0\2", parse_ipv4("10.0.0.2"))
        self.framers = tuple(
            RoceFramer(one[0], other[0], one[1], other[1]) for one, other in (ends, ends[::-1])
        )

    def work(self, node: int) -> None:
        """Keep both ends busy."""
        rng, end = self.rng, (self.pair.a, self.pair.b)[node]
        number = (7, 9)[node]
        for _ in range(rng.randrange(1, 4)):
            opcode = rng.choice(list(Opcode)[:7])
            length = 8 if opcode in (Opcode.COMPARE_SWAP, Opcode.FETCH_ADD) else rng.choice([0, 1, 300, 2000])
            sges = (Sge(A + rng.randrange(2000), length, 0x100),)
            request = WorkRequest(opcode, sges, B + 8 * rng.randrange(200), 0x101, rng.getrandbits(32))
            posted = end.engine.post_send(number, request, 1, self.pair.now_ns)
            self.posted[f"send {node}"] += posted
            self.posted[f"receive {node}"] += end.engine.post_receive(number, 2, (Sge(A, 2500, 0x100),))

    def forge(self, node: int) -> bytes:
        """Return a packet for a node, made by hand."""
        rng, pair = self.rng, (self.pair.a, self.pair.b)[node].engine._state.queue_pairs[0]
        near = int(rng.choice([pair.expected_psn, pair.unanswered_psn, pair.sent_end_psn]))
        psn = (near + rng.choice([0, 0, 0, 0, 1, -1, -2, 5, 70, rng.getrandbits(24)])) & 0xFFFFFF
        opcode = rng.choice([*RcOpcode, rng.randrange(32)])
        key = rng.choice([0x101, 0x101, 0x101, 0x100, 0x102, 0x103, 0x104, 0, rng.getrandbits(32)])
        address = B + rng.choice([0, 8, 100, -8, REGION_BYTES - 8, REGION_BYTES, 1 << 63, (1 << 64) - 8 - B])
        length = rng.choice([0, 1, 8, 256, 257, 600, REGION_BYTES, REGION_BYTES + 1, (1 << 32) - 1])
        headers = {
            16: Reth(address, key, length).encode() + rng.randbytes(4),
            28: AtomicEth(address, key, rng.getrandbits(64), rng.getrandbits(64)).encode(),
            4: Aeth(rng.choice([0x1F, 0x20, 0x60, 0x61, 0x62, 0x63, 0x64, rng.randrange(256)]), 1).encode(),
        }
        extension = rng.choice([*headers.values(), b"", rng.randbytes(12)])
        payload = bytes(rng.choice([0, 0, 1, 8, 255, 256, 257, length % 256]))
        number = rng.choice([(7, 9)[node]] * 30 + [8, 0xFFFFFF])
        return self.framers[1 - node].frame(
            opcode, number, psn, ack_request=rng.random() < 0.3, extension=extension, payload=[payload]
        )

    def changed(self, frame: bytes) -> bytes:
        """Return a frame with some header fields changed, cut, or spliced with another one."""
        rng, data = self.rng, bytearray(frame)
        for _ in range(rng.choice([1, 1, 2, 4])):
            place = rng.choice([rng.choice(HEADERS), rng.randrange(len(data))])
            data[place % len(data)] = rng.choice(
                [0, 1, 0xFF, rng.randrange(256), data[place % len(data)] ^ 1]
            )
        chance = rng.random()
        if chance < 0.05:
            return bytes(data[: rng.randrange(len(data))])
        if chance < 0.1:
            place = rng.randrange(len(data))
            data = data[:place] + bytearray(rng.choice(self.seen)[place:])
        return seal(data) if rng.random() < 0.9 and len(data) >= 58 else bytes(data)

    def arriving(self, node: int, frames: list[bytes]) -> list[bytes]:
        """Return what becomes of frames on their way to a node."""
        rng = self.rng
        arriving: list[bytes] = []
        self.seen = [*self.seen, *frames][-64:]
        for frame in frames:
            chance = rng.random()
            if chance < 0.75:
                arriving.append(frame)
            elif chance < 0.85:
                arriving.append(self.changed(frame))
            elif chance < 0.9:
                arriving += [frame, rng.choice(self.seen)]
            elif chance < 0.92:
                arriving.append(self.forge(node))
            elif chance < 0.925:
                arriving += [frame] * rng.choice([20, 300])  # a storm
        if rng.random() < 0.1:
            rng.shuffle(arriving)
        return arriving

    def turn(self) -> int:
        """Let something happen at both ends; return how many packets were taken."""
        rng, pair, taken = self.rng, self.pair, 0
        for node in range(2):
            if rng.random() < 0.5:
                self.work(node)
        for node, (source, target) in enumerate(((pair.b, pair.a), (pair.a, pair.b))):
            frames = source.engine.take_frames(rng.choice([None, 5]))
            arriving = self.arriving(node, frames)
            if rng.random() < 0.02:
                arriving += [self.forge(node) for _ in range(20)]
            target.engine.on_frames(arriving, pair.now_ns)
            taken += len(arriving)
        pair.now_ns += rng.choice([1000, 1000, 60_000])
        for node, end in enumerate((pair.a, pair.b)):
            end.engine.on_timer(pair.now_ns)
            self.collect(node)
        return taken

    def collect(self, node: int) -> None:
        end = (self.pair.a, self.pair.b)[node]
        for completion in end.engine.take_completions():
            kind = "receive" if completion.opcode is Opcode.RECV else "send"
            self.completed[f"{kind} {node}"] += 1
        for arrival in end.engine.take_arrivals():
            self.completed[f"receive {node}"] += bool(arrival.wr_id)

    def check(self) -> None:
        for node in (self.pair.a, self.pair.b):
            assert node.memory.guards_hold()
            assert node.memory.content(0x102) == b"another domain's" * 16
            assert node.memory.content(0x103) == b"only to be read." * 16
            assert set(node.drops) <= set(DROPS)

    def end(self) -> None:
        """See both ends off; all work has completed exactly once."""
        for node, end in enumerate((self.pair.a, self.pair.b)):
            state = end.engine.state((7, 9)[node])
            assert state in ENDS
            self.ended_in[state] += 1
            if state is not QpState.ERR:
                end.engine.modify((7, 9)[node], QpState.ERR)
            self.collect(node)
        assert self.completed == self.posted
        self.check()

    def connect_anew(self) -> None:
        """Take both ends to RTS again, from wherever they are."""
        engines = (self.pair.a.engine, 7), (self.pair.b.engine, 9)
        for engine, number in engines:
            engine.modify(number, QpState.RESET)
            engine.modify(number, QpState.INIT)
        remotes = [engine.local(number) for engine, number in engines]
        for (engine, number), remote in zip(engines, reversed(remotes), strict=True):
            engine.modify(number, QpState.RTR, remote=remote)
            engine.modify(number, QpState.RTS)


def seal(frame: bytearray) -> bytes:
    """Make checksum and ICRC fit."""
    frame[24:26] = b"\0\0"
    frame[24:26] = internet_checksum(bytes(frame[14:34])).to_bytes(2, "big")
    frame[-4:] = icrc(bytes(frame[14:34]), bytes(frame[34:42]), [bytes(frame[42:-4])])
    return bytes(frame)


def fuzz(connect: Connect, seed: int, packets: int) -> Fuzzer:
    """Fuzz one connection, made anew whenever it has broken, with so many packets."""
    pair = connect(path_mtu=256, timeout_ns=50_000, rnr_retry=3, seed=seed)
    fuzzer = Fuzzer(pair, random.Random(seed))
    taken = turns = 0
    while taken < packets:
        taken += fuzzer.turn()
        turns += 1
        broken = QpState.ERR in (pair.a.engine.state(7), pair.b.engine.state(9))
        if broken or turns % 200 == 0:
            fuzzer.end()
            fuzzer.connect_anew()
    fuzzer.end()
    return fuzzer


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_comes_crashes_an_end_or_goes_where_no_key_allows_it(
    connect: Connect, seed: int
) -> None:
    fuzzer = fuzz(connect, seed, 25_000 if JIT else 1000)
    assert fuzzer.ended_in[QpState.ERR]
    if JIT:
        assert fuzzer.ended_in[QpState.ERR] > 10
        assert sum(fuzzer.completed.values()) > 300
        assert len(fuzzer.pair.a.drops | fuzzer.pair.b.drops) > 25


@pytest.mark.slow
@pytest.mark.skipif(settings().max_examples < 1000, reason="minutes; run with --hypothesis-profile=long")
def test_ten_million_packets(connect: Connect) -> None:
    for seed in range(100, 150):
        fuzz(connect, seed, 200_000)


@pytest.mark.parametrize(
    "changes",
    [[1 << bit for bit in range(8)], pytest.param(range(256), marks=pytest.mark.slow)],
    ids=["one bit", "every value"],
)
@pytest.mark.parametrize("place", HEADERS)
def test_whatever_a_header_byte_becomes_it_is_taken_or_dropped_by_name(
    connect: Connect, place: int, changes: Iterable[int]
) -> None:
    pair = connect(path_mtu=256, psns=(100, 100))
    rkey = pair.b.memory.register(B, bytes(64))
    framer = RoceFramer(b"\2\0\0\0\0\1", b"\2\0\0\0\0\2", parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2"))
    good = framer.frame(
        RcOpcode.RDMA_WRITE_ONLY, 9, 100, extension=Reth(B, rkey, 8).encode(), payload=[b"12345678"]
    )
    for change in changes:
        if pair.b.engine.state(9) is QpState.ERR:
            pair = connect(path_mtu=256, psns=(100, 100))
            assert pair.b.memory.register(B, bytes(64)) == rkey
        frame = bytearray(good)
        frame[place] ^= change
        drops = sum(pair.b.drops.values())
        pair.b.engine.on_frame(seal(frame), 0)
        arrived = len(pair.b.engine.take_arrivals())
        incoming = int(pair.b.engine._state.queue_pairs[0].incoming) > 0
        assert arrived or incoming or sum(pair.b.drops.values()) > drops or pair.b.engine.take_frames()
        assert pair.b.memory.guards_hold()
        if pair.b.engine.state(9) is QpState.RTS:
            pair.b.engine.modify(9, QpState.ERR)


def test_a_storm_of_acknowledgements_completes_nothing_twice(connect: Connect) -> None:
    pair = connect(psns=(100, 200))
    local, remote = pair.a.memory.register(A, bytes(64)), pair.b.memory.register(B, bytes(64))
    for _ in range(3):
        pair.post(Opcode.RDMA_WRITE, local, [(A, 64)], remote_address=B, rkey=remote)
    pair.a.engine.take_frames()
    framer = RoceFramer(b"\2\0\0\0\0\2", b"\2\0\0\0\0\1", parse_ipv4("10.0.0.2"), parse_ipv4("10.0.0.1"))
    storm = [
        framer.frame(RcOpcode.ACKNOWLEDGE, 7, psn, extension=Aeth.ack(1).encode()) for psn in (100, 101, 105)
    ]
    storm += [framer.frame(RcOpcode.ACKNOWLEDGE, 7, 100, extension=Aeth.nak(NakCode(0), 1).encode())]
    pair.a.engine.on_frames(storm * 5000, 0)
    pair.a.collect()
    assert pair.a.statuses() == [VerbsStatus.SUCCESS] * 2
    assert pair.a.engine.state(7) is QpState.RTS
    assert pair.a.drops == {"requester.stale_response": 14_998, "requester.unexpected_psn": 5000}


def test_a_peer_that_stops_in_the_middle_of_a_message_holds_a_receive_until_the_pair_is_reset(
    connect: Connect,
) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, b"s" * 600), pair.b.memory.register(B, bytes(600))
    pair.b.engine.post_receive(9, 5, [Sge(B, 600, remote)])
    pair.post(Opcode.SEND, local, [(A, 600)])
    pair.exchange(limit=1)
    pair.a.engine.destroy_qp(7)
    assert pair.b.engine.next_deadline_ns() is None
    pair.b.engine.on_timer(1 << 40)
    assert pair.b.engine.state(9) is QpState.RTS
    assert pair.b.engine.take_completions() == []
    pair.b.engine.modify(9, QpState.ERR)
    assert [(c.wr_id, c.status) for c in pair.b.engine.take_completions()] == [(5, VerbsStatus.WR_FLUSH_ERR)]


def test_a_peer_that_stops_while_it_is_read_from_costs_the_retries_and_no_more(connect: Connect) -> None:
    pair = connect(path_mtu=256, retry_count=2, timeout_ns=1000)
    local, remote = pair.a.memory.register(A, bytes(600)), pair.b.memory.register(B, b"r" * 600)
    pair.post(Opcode.RDMA_READ, local, [(A, 600)], remote_address=B, rkey=remote)
    for frame in pair.a.engine.take_frames():
        pair.b.engine.on_frame(frame, 0)
    pair.a.engine.on_frames(pair.b.engine.take_frames(1), 0)
    pair.b.engine.destroy_qp(9)
    pair.run()
    assert pair.a.statuses() == [VerbsStatus.RETRY_EXC_ERR]
    assert pair.a.memory.content(local) == b"r" * 256 + bytes(344)
    assert pair.now_ns < 10_000


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("fault", ["loss", "duplication", "reordering", "corruption"])
def test_whatever_the_wire_does_every_completed_message_is_byte_exact(
    connect: Connect, fault: str, rate: float
) -> None:
    count = 300 if JIT else 40
    pair = connect(seed=6, rates={fault: rate}, path_mtu=256, timeout_ns=50_000, send_queue_depth=count)
    data = random.Random(7).randbytes(700 * count)
    local, remote = pair.a.memory.register(A, data), pair.b.memory.register(B, bytes(len(data)))
    for number in range(count):
        start = 700 * number
        pair.post(Opcode.RDMA_WRITE, local, [(A + start, 700)], remote_address=B + start, rkey=remote)
    pair.run()
    content = np.frombuffer(pair.b.memory.content(remote), np.uint8).reshape(count, 700)
    expected = np.frombuffer(data, np.uint8).reshape(count, 700)
    done = sum(status is VerbsStatus.SUCCESS for status in pair.a.statuses())
    assert (content[:done] == expected[:done]).all()
    assert done == count or rate == 0.1
    assert len(pair.a.statuses()) == count
