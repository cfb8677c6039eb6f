# SPDX-License-Identifier: Apache-2.0
"""Work that frames carry: from the datapath to the RoCEv2 engine, and its completions and arrivals back."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from nicemu.abi import AtomicOperation, Opcode, WorkRequest, unpack_work
from nicemu.errors import VerbsStatus
from nicemu.rdma import FLAG_IMPLICIT_RECEIVES, ArrivalKind, RoceEngine

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
        self._waiting: dict[int, deque[tuple[WorkRequest, int]]] = {}

    def post(self, record: Record) -> None:
        """Take fired work from the datapath."""
        work = unpack_work(record.work)
        context = self._next_context
        self._next_context += 1
        packed = int(record.work["cq"]) | int(work.signaled) << 8 | int(work.opcode) << 16
        packed |= (int(record.work["sequence"]) & _SEQUENCE_MASK) << 24
        self._in_flight[context] = (int(record.work["completion"]) + 1, work.wr_id, packed)
        if work.opcode is Opcode.ATOMIC:
            native = _NATIVE.get(work.operation) if work.sges else None
            if native is None:
                self.completed(context, record.words[0], VerbsStatus.LOC_QP_OP_ERR, 0)
                return
            work = replace(work, opcode=native)
        self._waiting.setdefault(record.words[0], deque()).append((work, context))

    def post_receive(self, record: Record) -> None:
        """Take a receive from the datapath; one that its engine refuses ends as the queue pair does."""
        work = unpack_work(record.work)
        qp = int(record.work["qp"])
        if qp in self._queue_pairs.numbers:
            self._roce.post_receive(qp, work.wr_id, work.sges)

    def run(self, now_ns: int) -> int:
        """Post what waits, hand completions and arrivals to the datapath; return how many there were."""
        for qp, waiting in list(self._waiting.items()):
            while waiting and qp in self._queue_pairs.numbers:
                if not self._roce.post_send(qp, *waiting[0], now_ns):
                    break
                waiting.popleft()
            if not waiting or qp not in self._queue_pairs.numbers:
                del self._waiting[qp]
        if not self._rings.live:
            self._frames += self._roce.take_frames()
        ended = self._roce.take_ended().tolist()
        for context, _, byte_len, qp, status, _ in ended:
            self.completed(context, qp, VerbsStatus(status), byte_len)
        arrived = self._roce.take_arrived().tolist()
        for byte_len, wr_id, rkey, imm_data, qp, kind, _ in arrived:
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
