# SPDX-License-Identifier: Apache-2.0
"""Work that frames carry: from the datapath to the RoCEv2 engine, and its completions and arrivals back."""

from __future__ import annotations

from typing import Any

import numpy as np

from nicemu.abi import (
    ARMED,
    MAX_SGE,
    OPERATION_SHIFT,
    SIGNALED,
    AtomicOperation,
    Opcode,
    unpack_work,
)
from nicemu.errors import VerbsStatus
from nicemu.hot import Records
from nicemu.rdma import FLAG_IMPLICIT_RECEIVES, POSTED, ArrivalKind, RoceEngine

from . import datapath
from .arena import Arena
from .control import ControlRings, Record
from .memory import NicMemory
from .queue_pairs import QueuePairs

_TOLD_AS = {
    ArrivalKind.WRITE: Opcode.RDMA_WRITE,
    ArrivalKind.WRITE_WITH_IMM: Opcode.RDMA_WRITE_WITH_IMM,
    ArrivalKind.SEND: Opcode.SEND,
    ArrivalKind.SEND_WITH_IMM: Opcode.SEND_WITH_IMM,
    ArrivalKind.ATOMIC: Opcode.FETCH_ADD,
}
_OPCODE_OF = [_TOLD_AS.get(kind) for kind in ArrivalKind]
"""By the kind of an ARRIVED record."""
_NATIVE = {
    AtomicOperation.SUM: Opcode.FETCH_ADD,
    AtomicOperation.COMPARE_SWAP: Opcode.COMPARE_SWAP,
}
"""What of the atomics RoCEv2 has: both return the old value. Others end with LOC_QP_OP_ERR."""
_SEQUENCE_MASK = (1 << 40) - 1
_SENDS = (Opcode.SEND, Opcode.SEND_WITH_IMM)
_ATOMICS = (Opcode.ATOMIC, Opcode.COMPARE_SWAP, Opcode.FETCH_ADD)


class PortTransport:
    """Keeps what a full send queue cannot take, and remembers whom each operation's end concerns."""

    def __init__(
        self,
        roce: RoceEngine,
        queue_pairs: QueuePairs,
        memory: NicMemory,
        arena: Arena,
        rings: ControlRings,
    ) -> None:
        self._roce = roce
        self._queue_pairs = queue_pairs
        self._memory = memory
        self._arena = arena
        self._rings = rings
        self._in_flight: dict[int, tuple[int, int, int]] = {}
        self._next_context = 1
        self._frames: list[bytes] = []
        self._fired: list[Record] = []
        self._waiting: dict[int, Records] = {}
        """By queue pair, what its send queue had no room for."""

    def post(self, record: Record) -> None:
        """Take fired work from the datapath; it is posted with what else has fired by `run`."""
        self._fired.append(record)

    def _take_fired(self) -> Records:
        """Return what has fired as POSTED records, and remember whom each one's end concerns."""
        fired, self._fired = self._fired, []
        armed = np.array([record.work for record in fired], ARMED)
        works = np.zeros(len(fired), POSTED).view(np.recarray)
        first, self._next_context = self._next_context, self._next_context + len(fired)
        works["context"] = np.arange(first, self._next_context)
        works["number"] = [record.words[0] for record in fired]
        for name in ("wr_id", "remote_address", "rkey", "imm_data", "opcode"):
            works[name] = armed[name]
        count = works["sge_count"] = np.minimum(armed["sge_count"], MAX_SGE)
        is_atomic = np.isin(armed["opcode"], _ATOMICS)
        for place, is_there in ((0, count > 0), (1, (count > 1) & ~is_atomic)):
            for name in ("address", "length", "lkey"):
                works[f"{name}{place}"] = np.where(is_there, armed[f"sge{place}_{name}"], 0)
        swap = armed["sge1_length"].astype(np.uint64) | armed["sge1_lkey"].astype(np.uint64) << np.uint64(32)
        works["compare_add"] = np.where(is_atomic, armed["sge1_address"], 0)
        works["swap"] = np.where(is_atomic, swap, 0)
        signaled = (armed["options"] & SIGNALED != 0).astype(np.uint64)
        packed = armed["cq"].astype(np.uint64) | signaled << np.uint64(8)
        packed |= armed["opcode"].astype(np.uint64) << np.uint64(16)
        packed |= (armed["sequence"] & np.uint64(_SEQUENCE_MASK)) << np.uint64(24)
        ends = zip((armed["completion"] + 1).tolist(), armed["wr_id"].tolist(), packed.tolist(), strict=True)
        self._in_flight.update(zip(range(first, self._next_context), ends, strict=True))
        return self._with_native_atomics(works, armed)

    def _with_native_atomics(self, works: Records, armed: np.ndarray[Any, Any]) -> Records:
        """Replace atomics by what RoCEv2 has; end those that it does not have, and return the others."""
        kept = np.ones(len(works), bool)
        for number in (works["opcode"] == Opcode.ATOMIC).nonzero()[0].tolist():
            operation = AtomicOperation(int(armed["options"][number]) >> OPERATION_SHIFT & 7)
            native = _NATIVE.get(operation) if works["sge_count"][number] else None
            if native is None:
                kept[number] = False
                context, qp = int(works["context"][number]), int(works["number"][number])
                self.completed(context, qp, VerbsStatus.LOC_QP_OP_ERR, 0)
            else:
                works["opcode"][number] = native
        return works if kept.all() else works[kept]

    def _post(self, now_ns: int) -> None:
        """Post what has waited, and what has fired since; what finds no room in its queue waits."""
        held = [works for qp, works in self._waiting.items() if qp in self._queue_pairs.numbers]
        self._waiting = {}
        if self._fired:
            held.append(self._take_fired())
        works: Records = np.concatenate(held).view(np.recarray) if held else np.zeros(0, POSTED)
        while len(works):
            works = works[self._roce.post_many(works, now_ns) :]
            if len(works):
                refused = int(works["number"][0])
                waits = works["number"] == refused
                if refused in self._queue_pairs.numbers:
                    self._waiting[refused] = works[waits]
                works = works[~waits]

    def post_receive(self, record: Record) -> None:
        """Take a receive from the datapath; one that its engine refuses ends as the queue pair does."""
        work = unpack_work(record.work)
        qp = int(record.work["qp"])
        if qp in self._queue_pairs.numbers:
            self._roce.post_receive(qp, work.wr_id, work.sges)

    def run(self, now_ns: int) -> int:
        """Post what waits, hand completions and arrivals to the datapath; return how many there were."""
        if self._fired or self._waiting:
            self._post(now_ns)
        if not self._rings.live:
            self._frames += self._roce.take_frames()
        ended = self._roce.take_ended().tolist()
        for context, _, byte_len, qp, status, _ in ended:
            self.completed(context, qp, VerbsStatus(status), byte_len)
        arrived = self._roce.take_arrived().tolist()
        for byte_len, wr_id, rkey, imm_data, qp, _, _, kind, _ in arrived:
            opcode = _OPCODE_OF[kind]
            if opcode is None:
                continue
            counter = self._memory.table.counters.get(rkey, -1) + 1 if rkey else 0
            has_imm = opcode is Opcode.RDMA_WRITE_WITH_IMM
            if not counter and opcode not in _SENDS and not has_imm:
                continue  # a plain write or atomic that nobody counts
            implicit = self._arena.rdma.queue_pairs[qp].options & FLAG_IMPLICIT_RECEIVES
            consumed = opcode in _SENDS or (has_imm and not implicit)
            packed = imm_data | int(opcode) << 32
            self._rings.push(datapath.DOWN_ARRIVAL, qp, packed, byte_len, int(consumed), wr_id, counter)
        return len(ended) + len(arrived)

    def take_frames(self) -> list[bytes]:
        """Take the frames to send; a live NIC's are made when its driver asks for them."""
        frames, self._frames = self._frames, []
        return frames

    def completed(self, context: int, qp: int, status: VerbsStatus, byte_len: int) -> None:
        """Tell the datapath the end of an operation."""
        held = self._in_flight.pop(context, None)
        if held is not None:
            completion, wr_id, packed = held
            self._rings.push(datapath.DOWN_COMPLETE, qp, completion, int(status), byte_len, wr_id, packed)
