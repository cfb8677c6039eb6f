# SPDX-License-Identifier: Apache-2.0
"""Many frames, much work and many queue pairs at a time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import UsageError, VerbsStatus
from nicemu.rdma import ARRIVED, POSTED
from nicemu.rdma.roce import ArrivalKind, QpState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.rdma.conftest import Node, TwoEngines

    Connect = Callable[..., TwoEngines]
A, B = 0x1000, 0x80000
OK = VerbsStatus.SUCCESS


def join(a: Node, b: Node, number: int, **attributes: Any) -> None:  # noqa: ANN401
    """Connect queue pairs of one number."""
    for node in (a, b):
        node.engine.create_qp(number, 1, **attributes)
    for node, other in ((a, b), (b, a)):
        remote = other.engine.local(number)
        node.engine.modify(number, QpState.INIT)
        node.engine.modify(number, QpState.RTR, remote=remote)
    for node in (a, b):
        node.engine.modify(number, QpState.RTS)


def writes(numbers: list[int], length: int, local: int, remote: int) -> np.recarray[Any, Any]:
    """Return a write a queue pair, each of its own piece of memory."""
    works = np.zeros(len(numbers), POSTED).view(np.recarray)
    places = length * np.arange(len(numbers))
    works["number"], works["opcode"], works["sge_count"] = numbers, Opcode.RDMA_WRITE, 1
    works["address0"], works["length0"], works["lkey0"] = A + places, length, local
    works["remote_address"], works["rkey"], works["context"] = B + places, remote, numbers
    return works


def move(source: Node, target: Node, room_bytes: int = 1 << 16, frames: int = 100) -> int:
    """Carry frames in one piece of memory."""
    memory = np.zeros(room_bytes, np.uint8)
    offsets, lengths = np.zeros(frames, np.int64), np.zeros(frames, np.int64)
    count = source.engine.frames_into(memory, offsets, lengths)
    target.engine.on_memory(memory.ctypes.data, offsets[:count], lengths[:count], 0)
    return count


def test_work_of_many_queue_pairs_is_posted_at_once_and_each_write_lands(connect: Connect) -> None:
    pair, count = connect(), 300
    numbers = random.Random(1).sample(range(10, 1 << 24), count)
    for number in numbers:
        join(pair.a, pair.b, number)
    data = random.Random(2).randbytes(40 * count)
    local, remote = pair.a.memory.register(A, data), pair.b.memory.register(B, bytes(len(data)))
    assert pair.a.engine.post_many(writes(numbers, 40, local, remote), 0) == count
    while move(pair.a, pair.b, 5000, 7) + move(pair.b, pair.a):
        pass
    ended = pair.a.engine.take_ended()
    assert ended["context"].tolist() == ended["number"].tolist() == numbers
    assert not ended["status"].any()
    assert pair.b.engine.take_arrived()["number"].tolist() == numbers
    assert pair.b.memory.content(remote) == data


def test_posting_many_stops_at_what_is_refused(connect: Connect) -> None:
    pair = connect(send_queue_depth=2)
    local = pair.a.memory.register(A, bytes(100))
    assert pair.a.engine.post_many(writes([7, 7, 7, 7], 8, local, 1), 0) == 2
    assert pair.a.engine.post_many(writes([6], 8, local, 1), 0) == 0
    assert len(pair.a.engine.take_frames()) == 2


def test_a_lack_of_room_only_delays_frames_and_keeps_turns(connect: Connect) -> None:
    runs = []
    for room_bytes, count in ((1 << 19, 2000), (4352, 1), (20_000, 5)):
        pair = connect(path_mtu=256, psns=(1, 2))
        pair.a.engine.create_qp(8, 1, path_mtu=256)
        pair.a.engine.modify(8, QpState.INIT)
        pair.a.engine.modify(8, QpState.RTR, remote=pair.b.engine.local(9))
        pair.a.engine.modify(8, QpState.RTS, sq_psn=3)
        local = pair.a.memory.register(A, bytes(20_000))
        for qp in (7, 8):
            work = WorkRequest(Opcode.RDMA_WRITE, (Sge(A, 10_000, local),), B, 1)
            pair.a.engine.post_send(qp, work, 0, 0)
        memory, frames = np.zeros(room_bytes, np.uint8), []
        offsets, lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
        while made := pair.a.engine.frames_into(memory, offsets, lengths):
            for offset, length in zip(offsets[:made], lengths[:made], strict=True):
                frames.append(memory[offset : offset + length].tobytes())
        runs.append(frames)
    assert runs[0] == runs[1] == runs[2]
    assert len(runs[0]) == 80


def test_more_arrivals_than_can_be_reported_at_once_are_all_reported(connect: Connect) -> None:
    pair = connect(send_queue_depth=20_000, b={"implicit_receives": True})
    assert len(pair.b.engine._state.arrived) < 10_000
    pair.b.memory.register(B, bytes(8))
    for imm_data in range(10_000):
        work = WorkRequest(Opcode.RDMA_WRITE_WITH_IMM, (), B, 0, imm_data, wr_id=imm_data)
        pair.a.engine.post_send(7, work, 0, 0)
    while move(pair.a, pair.b) + move(pair.b, pair.a):
        pass
    assert [x.imm_data for x in pair.b.engine.take_arrivals()] == list(range(10_000))
    assert [c.wr_id for c in pair.a.engine.take_completions()] == list(range(10_000))


def test_flushing_reports_whatever_was_posted_however_much(connect: Connect) -> None:
    pair = connect(send_queue_depth=9000, receive_queue_depth=9000)
    for wr_id in range(9000):
        assert pair.a.engine.post_send(7, WorkRequest(Opcode.SEND, wr_id=wr_id), 0, 0)
        assert pair.a.engine.post_receive(7, wr_id)
    pair.a.engine.modify(7, QpState.ERR)
    for wr_id in range(9000, 30_000):
        assert pair.a.engine.post_send(7, WorkRequest(Opcode.SEND, wr_id=wr_id), 0, 0)
    ended = pair.a.engine.take_completions()
    assert {completion.status for completion in ended} == {VerbsStatus.WR_FLUSH_ERR}
    assert [c.wr_id for c in ended if c.opcode is Opcode.SEND] == list(range(30_000))
    assert [c.wr_id for c in ended if c.opcode is Opcode.RECV] == list(range(9000))


def test_deadlines_are_kept_in_order_and_the_oldest_queue_pair_retries_first(connect: Connect) -> None:
    pair = connect()
    numbers = random.Random(3).sample(range(10, 1000), 200)
    for number in numbers:
        join(pair.a, pair.b, number, timeout_ns=1000)
    rng = random.Random(4)
    times = {}
    for number in rng.sample(numbers, 150):
        times[number] = now_ns = rng.randrange(500)
        pair.a.engine.post_send(number, WorkRequest(Opcode.SEND), 0, now_ns)
        assert len(pair.a.engine.take_frames()) == 1
        assert pair.a.engine.next_deadline_ns() == min(times.values()) + 1000
    pair.a.engine.on_timer(1250)
    first = [number for number in numbers if times.get(number, 999) <= 250]
    repeated = [int.from_bytes(frame[46:50], "big") for frame in pair.a.engine.take_frames()]
    assert repeated == first
    left = [number for number in numbers if times.get(number, -1) > 250]
    assert pair.a.engine.next_deadline_ns() == min(times[number] for number in left) + 1000
    for number in left:
        pair.a.engine.modify(number, QpState.ERR)
    assert pair.a.engine.next_deadline_ns() == 2250


def test_what_a_destroyed_queue_pair_held_is_free_for_others(connect: Connect) -> None:
    pair = connect()
    local = pair.a.memory.register(A, bytes(64))
    sizes = []
    for number in range(100, 140):
        join(pair.a, pair.b, number, send_queue_depth=8, receive_queue_depth=8)
        for _ in range(8):
            work = WorkRequest(Opcode.RDMA_WRITE, (Sge(A, 8, local),), B, 1)
            assert pair.a.engine.post_send(number, work, 0, 0)
            assert pair.a.engine.post_receive(number, 1)
        assert pair.a.engine.take_frames()
        for node in (pair.a, pair.b):
            node.engine.destroy_qp(number)
        state = pair.a.engine._state
        sizes.append((len(state.sends), len(state.receives), len(state.queue_pairs)))
        assert int(state.engine[0].send_touched) == int(state.engine[0].receive_touched) == 8
    assert set(sizes) == {sizes[0]}
    assert pair.a.engine.next_deadline_ns() is None


def test_a_local_key_taken_back_ends_work_and_no_byte_of_it_is_sent(connect: Connect) -> None:
    pair = connect(path_mtu=256)
    keys = [pair.a.memory.register(A * number, b"mine" * 200) for number in (1, 2)]
    remote = pair.b.memory.register(B, bytes(800))
    for number, key in enumerate(keys, 1):
        work = WorkRequest(Opcode.RDMA_WRITE, (Sge(A * number, 800, key),), B, remote, wr_id=number)
        pair.a.engine.post_send(7, work, 0, 0)
    assert len(pair.a.engine.take_frames(5)) == 5
    pair.a.memory.deregister(keys[1])
    assert pair.a.engine.take_frames() == []
    pair.now_ns = 1 << 30
    pair.a.engine.on_timer(pair.now_ns)
    pair.run()
    assert [(c.wr_id, c.status) for c in pair.a.completions] == [(1, OK), (2, VerbsStatus.LOC_PROT_ERR)]
    assert pair.b.memory.content(remote) == b"mine" * 200
    assert pair.a.engine.state(7) is QpState.ERR


@pytest.mark.parametrize("opcode", [Opcode.RDMA_READ, Opcode.FETCH_ADD])
def test_what_comes_back_for_a_local_key_taken_back_is_not_written(connect: Connect, opcode: Opcode) -> None:
    pair = connect()
    local, remote = pair.a.memory.register(A, bytes(8)), pair.b.memory.register(B, b"whatever")
    pair.post(opcode, local, [(A, 8)], remote_address=B, rkey=remote)
    frames = pair.a.engine.take_frames()
    pair.a.memory.deregister(local)
    for frame in frames:
        pair.b.engine.on_frame(frame, 0)
    pair.run()
    assert pair.a.statuses() == [VerbsStatus.LOC_PROT_ERR]
    assert pair.a.memory.content(local) == bytes(8)


def test_what_is_sent_for_a_receive_whose_key_was_taken_back_is_not_written(connect: Connect) -> None:
    pair = connect(path_mtu=256)
    local, remote = pair.a.memory.register(A, b"d" * 600), pair.b.memory.register(B, bytes(600))
    pair.b.engine.post_receive(9, 5, [Sge(B, 600, remote)])
    pair.post(Opcode.SEND, local, [(A, 600)])
    pair.exchange(limit=1)
    pair.b.memory.deregister(remote)
    pair.run()
    assert pair.b.memory.content(remote) == b"d" * 256 + bytes(344)
    assert [(c.wr_id, c.status) for c in pair.b.completions] == [(5, VerbsStatus.LOC_PROT_ERR)]
    assert pair.a.statuses() == [VerbsStatus.REM_OP_ERR]


def test_a_receive_has_two_pieces_at_most(connect: Connect) -> None:
    pair = connect()
    with pytest.raises(UsageError, match="at most 2"):
        pair.b.engine.post_receive(9, 5, [Sge(B, 1, 1)] * 3)


def test_answers_that_wait_are_bounded_and_requests_beyond_are_dropped(connect: Connect) -> None:
    pair = connect(psns=(100, 100))
    pair.post(Opcode.SEND, 0, [])
    (send,) = pair.a.engine.take_frames()
    pair.b.engine.on_frames([send] * 1000, 0)
    assert pair.b.drops == {"responder.not_ready": 256, "responder.answers_full": 744}
    assert len(pair.b.engine.take_frames()) == 256


def test_arrivals_as_records_say_what_arrivals_say(connect: Connect) -> None:
    pair = connect()
    remote = pair.b.memory.register(B, bytes(8))
    for _ in range(2):
        pair.post(
            Opcode.FETCH_ADD, pair.a.memory.register(A, bytes(8)), [(A, 8)], remote_address=B, rkey=remote
        )
    pair.b.engine.on_frames(pair.a.engine.take_frames(), 0)
    records = pair.b.engine.take_arrived()
    assert records.dtype == ARRIVED
    assert [list(ArrivalKind)[kind] for kind in records["kind"]] == [ArrivalKind.ATOMIC] * 2
    assert pair.b.engine.take_arrivals() == []
