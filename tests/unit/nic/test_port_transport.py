# SPDX-License-Identifier: Apache-2.0
"""Work that is posted many at a time is what it would be one by one, in the order of each queue pair."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.abi import ARMED, AtomicOperation, Opcode, Sge, WorkRequest, pack_work, unpack_work
from nicemu.errors import VerbsStatus
from nicemu.nic.control import Record
from nicemu.nic.port_transport import PortTransport
from nicemu.rdma import POSTED

DEPTH = 4


class Engine:
    """Takes up to DEPTH requests a queue pair; `drain` makes room again."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.held: dict[int, int] = defaultdict(int)

    def post_many(self, works: Any, now_ns: int) -> int:  # noqa: ANN401
        for number, work in enumerate(works):
            if self.held[int(work["number"])] == DEPTH:
                return number
            self.held[int(work["number"])] += 1
            self.taken.append(work.copy())
        return len(works)

    def drain(self) -> None:
        self.held.clear()

    def take_ended(self) -> Any:  # noqa: ANN401
        return np.zeros(0, POSTED)

    take_arrived = take_ended


class Rings:
    def __init__(self) -> None:
        self.live = True
        self.pushed: list[tuple[int, ...]] = []

    def push(self, *words: int) -> None:
        self.pushed.append(words)


def transport(numbers: set[int]) -> tuple[PortTransport, Engine, Rings]:
    engine, rings = Engine(), Rings()
    pairs: Any = SimpleNamespace(numbers=dict.fromkeys(numbers, "peer"))
    nothing: Any = SimpleNamespace()
    made = PortTransport(engine, pairs, nothing, nothing, rings)  # type: ignore[arg-type]
    return made, engine, rings


def record(qp: int, work: WorkRequest) -> Record:
    one = np.zeros(1, ARMED)
    pack_work(one[0], work, qp)
    return Record(0, (qp, 0, 0, 0), one[0].copy())


addresses, keys = st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 32) - 1)
pieces = st.lists(st.builds(Sge, addresses, st.integers(0, 1 << 20), keys), max_size=2).map(tuple)
opcodes = st.sampled_from([Opcode.SEND, Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM, Opcode.RDMA_READ])
requests = st.builds(
    WorkRequest, opcodes, pieces, addresses, keys, keys, wr_id=st.integers(0, 100), signaled=st.booleans()
)
atomics = st.builds(
    WorkRequest,
    st.sampled_from([Opcode.FETCH_ADD, Opcode.COMPARE_SWAP]),
    st.builds(Sge, addresses, st.just(8), keys).map(lambda piece: (piece,)),
    addresses,
    keys,
    compare_add=st.integers(0, (1 << 64) - 1),
    swap=st.integers(0, (1 << 64) - 1),
)


@given(st.lists(st.tuples(st.integers(1, 3), requests | atomics), max_size=30))
@settings(max_examples=100)
def test_every_request_is_posted_once_in_the_order_of_its_queue_pair(
    meant: list[tuple[int, WorkRequest]],
) -> None:
    port, engine, _ = transport({1, 2, 3})
    for qp, work in meant:
        port.post(record(qp, work))
    for _ in range(10):
        port.run(0)
        engine.drain()
    for qp in (1, 2, 3):
        wanted = [unpack_work(record(qp, work).work) for to, work in meant if to == qp]
        got = [work for work in engine.taken if work["number"] == qp]
        assert len(got) == len(wanted)
        for one, work in zip(got, wanted, strict=True):
            there = work.sges + (Sge(0, 0, 0),) * (2 - len(work.sges))
            places = [(int(one[f"address{n}"]), int(one[f"length{n}"]), int(one[f"lkey{n}"])) for n in (0, 1)]
            is_atomic = work.opcode in (Opcode.FETCH_ADD, Opcode.COMPARE_SWAP)
            if not is_atomic:
                assert places == [(piece.address, piece.length, piece.lkey) for piece in there]
            else:
                assert places[0] == (there[0].address, there[0].length, there[0].lkey)
                assert (one["compare_add"], one["swap"]) == (work.compare_add, work.swap)
            assert (one["opcode"], one["sge_count"], one["wr_id"]) == (
                work.opcode,
                len(work.sges),
                work.wr_id,
            )
            assert one["remote_address"] == work.remote_address
            assert (one["rkey"], one["imm_data"]) == (work.rkey, work.imm_data)


def test_a_full_queue_pair_does_not_hold_up_another_one() -> None:
    port, engine, _ = transport({1, 2})
    for number in range(2 * DEPTH):
        port.post(record(1, WorkRequest(Opcode.SEND, wr_id=number)))
    port.post(record(2, WorkRequest(Opcode.SEND, wr_id=99)))
    port.run(0)
    assert [int(work["wr_id"]) for work in engine.taken] == [0, 1, 2, 3, 99]


def test_work_of_a_queue_pair_that_is_gone_is_forgotten() -> None:
    port, engine, _ = transport({1})
    port.post(record(7, WorkRequest(Opcode.SEND)))
    engine.held[7] = DEPTH
    port.run(0)
    engine.drain()
    port.run(0)
    assert engine.taken == []


def test_an_atomic_that_rocev2_does_not_have_ends_at_once_and_others_go() -> None:
    port, engine, rings = transport({1})
    piece = (Sge(64, 8, 1),)
    port.post(record(1, WorkRequest(Opcode.ATOMIC, piece, operation=AtomicOperation.MAX, wr_id=5)))
    port.post(record(1, WorkRequest(Opcode.ATOMIC, piece, operation=AtomicOperation.SUM, wr_id=6)))
    port.run(0)
    assert [(int(work["opcode"]), int(work["wr_id"])) for work in engine.taken] == [(Opcode.FETCH_ADD, 6)]
    (pushed,) = rings.pushed
    assert VerbsStatus.LOC_QP_OP_ERR in pushed
