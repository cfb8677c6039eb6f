# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import UsageError, VerbsStatus
from nicemu.rdma.roce import ArrivalKind, QpState
from nicemu.wire import RcOpcode, Reth, RoceFramer, icrc, internet_checksum, parse_ipv4

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.rdma.conftest import TwoEngines

    Connect = Callable[..., TwoEngines]
A, B = 0x1000, 0x80000
OK = VerbsStatus.SUCCESS
FAULTS = ("loss", "duplication", "reordering", "corruption")
CASES = [
    *[{fault: 0.05} for fault in FAULTS],
    *[{first: 0.05, second: 0.05} for i, first in enumerate(FAULTS) for second in FAULTS[i + 1 :]],
    dict.fromkeys(FAULTS, 0.01),
    dict.fromkeys(FAULTS, 0.05),
]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("rates", CASES, ids=lambda rates: "-".join(rates))
def test_over_a_bad_wire_every_byte_arrives_and_everything_completes_once_in_order(
    connect: Connect, seed: int, rates: dict[str, float]
) -> None:
    slot, count = 1100, 40
    pair = connect(
        seed=seed,
        rates=rates,
        path_mtu=256,
        psns=(0xFFFFF0, 0xFFFFFE),
        timeout_ns=50_000,
        send_queue_depth=count,
    )
    rng = random.Random(seed)
    source = rng.randbytes(slot * count)
    local = pair.a.memory.register(A, source)
    landing = pair.a.memory.register(A << 20, bytes(slot * count))
    remote = pair.b.memory.register(B, source[::-1])
    counter = pair.b.memory.register(B << 20, bytes(8))
    expected_remote, expected_landing = bytearray(source[::-1]), bytearray(slot * count)
    kinds, atomics = [], 0
    for i in range(count):
        opcode = rng.choice(
            [Opcode.RDMA_WRITE, Opcode.RDMA_READ, Opcode.SEND, Opcode.RDMA_WRITE_WITH_IMM, Opcode.FETCH_ADD]
        )
        length = rng.choice([0, 1, 256, 700, 1100])
        start, end = i * slot, i * slot + length
        if opcode == Opcode.FETCH_ADD:
            pair.post(
                opcode, landing, [((A << 20) + start, 8)], remote_address=B << 20, rkey=counter, compare_add=1
            )
            expected_landing[start : start + 8] = atomics.to_bytes(8, "little")
            atomics += 1
        elif opcode == Opcode.RDMA_READ:
            pair.post(opcode, landing, [((A << 20) + start, length)], remote_address=B + start, rkey=remote)
            expected_landing[start:end] = source[::-1][start:end]
        else:
            if opcode != Opcode.RDMA_WRITE:
                sges = [Sge(B + start, slot, remote)] if opcode == Opcode.SEND else []
                pair.b.engine.post_receive(9, i, sges)
            target = {} if opcode == Opcode.SEND else {"remote_address": B + start, "rkey": remote}
            pair.post(opcode, local, [(A + start, length)], **target)
            expected_remote[start:end] = source[start:end]
        kinds.append(opcode)
    pair.run()
    assert [(c.opcode, c.status) for c in pair.a.completions] == [(opcode, OK) for opcode in kinds]
    assert pair.b.memory.content(remote) == expected_remote
    assert pair.a.memory.content(landing) == expected_landing
    assert pair.b.memory.content(counter) == atomics.to_bytes(8, "little")
    arrived = {
        Opcode.RDMA_WRITE: ArrivalKind.WRITE,
        Opcode.RDMA_READ: ArrivalKind.READ,
        Opcode.SEND: ArrivalKind.SEND,
        Opcode.RDMA_WRITE_WITH_IMM: ArrivalKind.WRITE_WITH_IMM,
        Opcode.FETCH_ADD: ArrivalKind.ATOMIC,
    }
    assert sorted(x.kind.name for x in pair.b.arrivals) == sorted(arrived[opcode].name for opcode in kinds)
    in_order = [x.wr_id for x in pair.b.arrivals if x.kind in (ArrivalKind.SEND, ArrivalKind.WRITE_WITH_IMM)]
    assert in_order == sorted(in_order)
    assert pair.a.memory.guards_hold()
    assert pair.b.memory.guards_hold()


def test_both_ends_may_ask_at_the_same_time(connect: Connect) -> None:
    pair = connect(path_mtu=256, rates={"loss": 0.03}, timeout_ns=50_000, seed=4)
    a = pair.a.memory.register(A, b"a" * 3000 + bytes(3000))
    b = pair.b.memory.register(B, b"b" * 3000 + bytes(3000))
    pair.post(Opcode.RDMA_WRITE, a, [(A, 3000)], remote_address=B + 3000, rkey=b)
    work = WorkRequest(Opcode.RDMA_WRITE, (Sge(B, 3000, b),), A + 3000, a)
    pair.b.engine.post_send(9, work, 0, 0)
    pair.run()
    assert pair.a.memory.content(a) == b"a" * 3000 + b"b" * 3000
    assert pair.b.memory.content(b) == b"b" * 3000 + b"a" * 3000
    assert pair.a.statuses() == pair.b.statuses() == [OK]


def test_the_same_seed_gives_the_same_frames(connect: Connect) -> None:
    runs = []
    for _ in range(2):
        pair = connect(seed=3, rates=dict.fromkeys(FAULTS, 0.05), path_mtu=256, timeout_ns=50_000)
        local, remote = pair.a.memory.register(A, bytes(5000)), pair.b.memory.register(B, bytes(5000))
        pair.post(Opcode.RDMA_WRITE, local, [(A, 5000)], remote_address=B, rkey=remote)
        pair.run()
        runs.append((pair.frames_sent, pair.now_ns))
    assert runs[0] == runs[1]


def test_queue_pairs_take_turns(connect: Connect) -> None:
    pair = connect(path_mtu=256)
    engine = pair.a.engine
    engine.create_qp(8, 1, path_mtu=256)
    engine.modify(8, QpState.INIT)
    engine.modify(8, QpState.RTR, remote=pair.b.engine.local(9))
    engine.modify(8, QpState.RTS)
    local = pair.a.memory.register(A, bytes(20_000))
    for qp in (7, 8):
        engine.post_send(qp, WorkRequest(Opcode.RDMA_WRITE, (Sge(A, 20_000, local),), B, 1), 0, 0)
    frames = engine.take_frames(40)
    assert len(frames) == 40
    framed = RcOpcode.RDMA_WRITE_FIRST
    assert [i for i, frame in enumerate(frames) if frame[42] == framed] == [0, 16]


FRAMER = RoceFramer(b"\x02\0\0\0\0\1", b"\x02\0\0\0\0\2", parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2"))


def test_each_frame_that_is_not_for_a_queue_pair_is_dropped_by_name(connect: Connect) -> None:
    pair = connect(psns=(100, 100))
    node = pair.b
    write = Reth(B, 1, 0).encode()
    good = FRAMER.frame(RcOpcode.RDMA_WRITE_ONLY, 9, 100, extension=write)
    stranger = RoceFramer(b"\2" * 6, b"\2" * 6, parse_ipv4("10.0.0.3"), parse_ipv4("10.0.0.2"))
    elsewhere = RoceFramer(b"\2" * 6, b"\2" * 6, parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.4"))
    other_partition = bytearray(good)
    other_partition[44:46] = b"\x12\x34"
    other_partition[-4:] = icrc(
        bytes(other_partition[14:34]), bytes(other_partition[34:42]), [bytes(other_partition[42:-4])]
    )
    node.engine.create_qp(3, 1)
    for frame in (
        good[:-1] + b"?",
        FRAMER.frame(RcOpcode.RDMA_WRITE_ONLY, 8, 100, extension=write),
        FRAMER.frame(RcOpcode.RDMA_WRITE_ONLY, 3, 100, extension=write),
        stranger.frame(RcOpcode.RDMA_WRITE_ONLY, 9, 100, extension=write),
        elsewhere.frame(RcOpcode.RDMA_WRITE_ONLY, 9, 100, extension=write),
        bytes(other_partition),
        FRAMER.frame(RcOpcode.ACKNOWLEDGE, 9, 100, extension=bytes(4)),
        FRAMER.frame(RcOpcode.ACKNOWLEDGE, 9, 99, extension=bytes(4)),
    ):
        node.engine.on_frame(frame, 0)
    assert dict(node.drops) == {
        "rocev2.icrc": 1,
        "rocev2.unknown_qp": 1,
        "rocev2.qp_state": 1,
        "rocev2.source": 1,
        "ip.destination": 1,
        "rocev2.partition_key": 1,
        "requester.unexpected_psn": 1,
        "requester.stale_response": 1,
    }
    assert node.engine.take_frames() == []
    assert node.engine.state(9) is QpState.RTS


def seal(frame: bytearray) -> bytes:
    """Make IP checksum and ICRC fit, so that a mutation reaches the engine's inner checks."""
    frame[24:26] = b"\0\0"
    frame[24:26] = internet_checksum(bytes(frame[14:34])).to_bytes(2, "big")
    frame[-4:] = icrc(bytes(frame[14:34]), bytes(frame[34:42]), [bytes(frame[42:-4])])
    return bytes(frame)


mutations = st.lists(
    st.tuples(st.integers(0, 63), st.integers(42, 400), st.integers(0, 255)), min_size=1, max_size=6
)


@given(mutations, st.integers(0, 2**32))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_frames_never_raise_and_never_touch_memory_outside_the_regions(
    connect: Connect, mutated: list[tuple[int, int, int]], seed: int
) -> None:
    pair = connect(path_mtu=256, psns=(100, 200), seed=seed, timeout_ns=50_000)
    rng = random.Random(seed)
    local, remote = pair.a.memory.register(A, bytes(1000)), pair.b.memory.register(B, b"b" * 1000)
    secret = pair.b.memory.register(B + 2000, b"secret", pd=2)
    pair.b.engine.post_receive(9, 1, [Sge(B, 300, remote)])
    target = {"remote_address": B, "rkey": remote}
    pair.post(Opcode.RDMA_WRITE, local, [(A, 600)], **target)
    pair.post(Opcode.RDMA_READ, local, [(A, 600)], **target)
    pair.post(Opcode.SEND, local, [(A, 300)])
    pair.post(Opcode.FETCH_ADD, local, [(A, 8)], compare_add=1, **target)
    for _ in range(6):
        for source, receiver in ((pair.a, pair.b), (pair.b, pair.a)):
            for i, frame in enumerate(source.engine.take_frames()):
                changed = bytearray(frame)
                for which, place, value in mutated:
                    if which % 8 == i and place < len(changed) - 4:
                        changed[place] = value
                receiver.engine.on_frame(seal(changed), pair.now_ns)
                if rng.random() < 0.1:
                    receiver.engine.on_frame(seal(changed)[: rng.randrange(len(frame))], pair.now_ns)
            receiver.collect()
        pair.now_ns += 60_000
        pair.a.engine.on_timer(pair.now_ns)
    assert pair.a.memory.guards_hold()
    assert pair.b.memory.guards_hold()
    assert pair.b.memory.content(secret) == b"secret"
    pair.a.collect()
    assert len(pair.a.completions) <= 4


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_noise_is_counted_and_nothing_else(connect: Connect, noise: bytes) -> None:
    pair = connect()
    pair.b.engine.on_frame(noise, 0)
    assert sum(pair.b.drops.values()) == 1
    assert pair.b.engine.take_frames() == []


def test_an_answer_that_does_not_fit_its_request_is_a_bad_response(connect: Connect) -> None:
    for opcode, extension, payload in (
        (RcOpcode.ATOMIC_ACKNOWLEDGE, bytes(12), b""),
        (RcOpcode.RDMA_READ_RESPONSE_ONLY, bytes(4), b"too long"),
        (RcOpcode.RDMA_READ_RESPONSE_FIRST, bytes(4), b"four"),
    ):
        pair = connect(psns=(100, 200))
        local = pair.a.memory.register(A, bytes(100))
        pair.post(Opcode.RDMA_READ, local, [(A, 4)], remote_address=B, rkey=1)
        pair.a.engine.take_frames()
        back = RoceFramer(b"\2" * 6, b"\2" * 6, parse_ipv4("10.0.0.2"), parse_ipv4("10.0.0.1"))
        pair.a.engine.on_frame(back.frame(opcode, 7, 100, extension=extension, payload=[payload]), 0)
        pair.a.collect()
        assert pair.a.statuses() == [VerbsStatus.BAD_RESP_ERR]
        assert pair.a.memory.content(local) == bytes(100)


def test_reset_forgets_work_and_the_pair_connects_anew(connect: Connect) -> None:
    pair = connect()
    local, remote = pair.a.memory.register(A, b"new!"), pair.b.memory.register(B, bytes(4))
    pair.post(Opcode.RDMA_WRITE, local, [(A, 4)], remote_address=B, rkey=remote)
    pair.b.engine.post_receive(9, 1)
    for node, qp in ((pair.a, 7), (pair.b, 9)):
        node.engine.modify(qp, QpState.RESET)
        node.engine.modify(qp, QpState.INIT)
    remotes = pair.b.engine.local(9), pair.a.engine.local(7)
    for node, qp, peer in ((pair.a, 7, remotes[0]), (pair.b, 9, remotes[1])):
        node.engine.modify(qp, QpState.RTR, remote=peer)
        node.engine.modify(qp, QpState.RTS)
    assert pair.a.engine.take_frames() == []
    pair.post(Opcode.RDMA_WRITE, local, [(A, 4)], remote_address=B, rkey=remote)
    pair.run()
    assert pair.a.statuses() == [OK]
    assert pair.b.completions == []
    assert pair.b.memory.content(remote) == b"new!"


def test_a_destroyed_queue_pair_is_unknown(connect: Connect) -> None:
    pair = connect()
    local = pair.a.memory.register(A, bytes(4))
    pair.post(Opcode.RDMA_WRITE, local, [(A, 4)], remote_address=B, rkey=1)
    pair.a.engine.destroy_qp(7)
    assert pair.a.engine.take_frames() == []
    assert pair.a.engine.next_deadline_ns() is None
    with pytest.raises(UsageError, match="no queue pair"):
        pair.post(Opcode.SEND, local, [])
