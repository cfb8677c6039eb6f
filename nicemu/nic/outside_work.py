# SPDX-License-Identifier: Apache-2.0
"""Work that an RDMA device outside carries: from the datapath to it, its completions and arrivals back.

And what peers have to know of regions: the device has its own keys and addresses for them, which a peer asks
for when it first names a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from nicemu.abi import AtomicOperation, Opcode, unpack_work
from nicemu.errors import VerbsStatus
from nicemu.rdma import (
    FLAG_IMPLICIT_RECEIVES,
    Arrival,
    ArrivalKind,
    MemoryRegion,
    OutsideTransport,
)

from . import datapath
from .arena import Arena
from .control import ControlRings, Record
from .memory import NicMemory
from .queue_pairs import QueuePairs

if TYPE_CHECKING:
    from .device import SmartNic

POLL_NS = 20_000
"""How often the stepper looks at a device with work under way: it has no descriptors to wait for."""
WATCH_NS = 500_000
"""How often a live NIC looks where no descriptor tells: at the ledgers of counted regions."""

_OPCODE_OF = {
    ArrivalKind.WRITE: Opcode.RDMA_WRITE,
    ArrivalKind.WRITE_WITH_IMM: Opcode.RDMA_WRITE_WITH_IMM,
    ArrivalKind.SEND: Opcode.SEND,
    ArrivalKind.SEND_WITH_IMM: Opcode.SEND_WITH_IMM,
}
_NATIVE = {
    AtomicOperation.SUM: Opcode.FETCH_ADD,
    AtomicOperation.COMPARE_SWAP: Opcode.COMPARE_SWAP,
}
"""What of the atomics a device has: both return the old value. Others end with LOC_QP_OP_ERR."""
_SEQUENCE_MASK = (1 << 40) - 1


class OutsideWork:
    """Hands work of one NIC to a transport outside, and what comes of it to the datapath.

    `ask(peer, key)` is called when work waits to learn where a peer's region lies, `revoke(peer, key)` for
    each peer that knows of a key which was taken back.
    """

    def __init__(
        self,
        transport: OutsideTransport,
        queue_pairs: QueuePairs,
        memory: NicMemory,
        arena: Arena,
        rings: ControlRings,
        drops: Counter[str],
    ) -> None:
        self.transport = transport
        self.ask: Callable[[str, int], None] = lambda peer, key: None
        self.revoke: Callable[[str, int], None] = lambda peer, key: None
        self._queue_pairs = queue_pairs
        self._memory = memory
        self._arena = arena
        self._rings = rings
        self._drops = drops
        self._in_flight: dict[int, tuple[int, int, int]] = {}
        self._next_context = 1
        self._askers: dict[int, set[str]] = {}
        memory.on_registered = self._registered
        memory.on_deregistered = self._deregistered

    @classmethod
    def of(cls, device: SmartNic, transport: OutsideTransport | None) -> OutsideWork | None:
        """Return what hands a NIC's work to a transport outside, if there is one."""
        if transport is None:
            return None
        return cls(transport, device.queue_pairs, device.memory, device.arena, device.rings, device.drops)

    # Work

    def post(self, record: Record) -> None:
        """Take fired work from the datapath."""
        work = unpack_work(record.work)
        context = self._next_context
        self._next_context += 1
        qp = record.words[0]
        packed = int(record.work["cq"]) | int(work.signaled) << 8 | int(work.opcode) << 16
        packed |= (int(record.work["sequence"]) & _SEQUENCE_MASK) << 24
        self._in_flight[context] = (int(record.work["completion"]) + 1, work.wr_id, packed)
        if work.opcode is Opcode.ATOMIC:
            native = _NATIVE.get(work.operation) if work.sges else None
            if native is None:
                self.completed(context, qp, VerbsStatus.LOC_QP_OP_ERR, 0)
                return
            work = replace(work, opcode=native)
        if qp in self._queue_pairs.numbers:
            self.transport.post_send(qp, work, context)

    def post_receive(self, record: Record) -> None:
        """Take a receive from the datapath."""
        work = unpack_work(record.work)
        qp = int(record.work["qp"])
        if qp in self._queue_pairs.numbers:
            self.transport.post_receive(qp, work.wr_id, work.sges)

    def run(self, now_ns: int) -> int:
        """Hand completions and arrivals to the datapath; return how much there was."""
        transport = self.transport
        done = transport.run()
        for qp, key in transport.take_unknown():
            self.ask(self._queue_pairs.numbers[qp], key)
        for event in transport.take_events():
            self._drops[f"verbs.{event}"] += 1
        completions = transport.take_completions()
        for completion in completions:
            self.completed(completion.context, completion.qp_num, completion.status, completion.byte_len)
        arrivals = transport.take_arrivals()
        for arrival in arrivals:
            self._arrived(arrival)
        failed = [qp for qp in transport.take_failed() if qp in self._queue_pairs.numbers]
        if failed:
            with self._rings.paused():
                for qp in failed:
                    self._queue_pairs.fail(qp)
        return done + len(completions)

    def _arrived(self, arrival: Arrival) -> None:
        opcode = _OPCODE_OF[arrival.kind]
        counter = self._memory.table.counters.get(arrival.rkey, -1) + 1 if arrival.rkey else 0
        if opcode is Opcode.RDMA_WRITE and not counter:
            return  # its region was taken back in between
        implicit = self._arena.rdma.queue_pairs[arrival.qp_num].options & FLAG_IMPLICIT_RECEIVES
        is_write = opcode is Opcode.RDMA_WRITE or (opcode is Opcode.RDMA_WRITE_WITH_IMM and implicit)
        self._rings.push(
            datapath.DOWN_ARRIVAL,
            arrival.qp_num,
            (arrival.imm_data or 0) | int(opcode) << 32,
            arrival.byte_len,
            int(not is_write),
            arrival.wr_id,
            counter,
        )

    def completed(self, context: int, qp: int, status: VerbsStatus, byte_len: int) -> None:
        """Tell the datapath the end of an operation."""
        held = self._in_flight.pop(context, None)
        if held is not None:
            completion, wr_id, packed = held
            self._rings.push(datapath.DOWN_COMPLETE, qp, completion, int(status), byte_len, wr_id, packed)

    def take_frames(self) -> list[bytes]:
        """Return none: the device makes its own."""
        return []

    def next_deadline_ns(self, now_ns: int) -> int | None:
        """When the device is to be looked at again, though no descriptor tells."""
        if self._rings.live:
            return now_ns + WATCH_NS if self.transport.watches else None
        return now_ns + POLL_NS if self.transport.busy else None

    # Regions

    def describe(self, peer: str, key: int) -> dict[str, object]:
        """Say where a region lies, to a peer that names its key."""
        if key in self._memory.table.regions:
            self._askers.setdefault(key, set()).add(peer)
        return self.transport.describe(key)

    def learn(self, peer: str, key: int, place: object) -> None:
        """Hear from a peer where its region lies; None: it was taken back."""
        known = self._queue_pairs.peers.get(peer)
        for qp in sorted(known.queue_pairs) if known is not None else ():
            self.transport.learn(qp, key, place)

    def _registered(self, region: MemoryRegion, address: int) -> None:
        self.transport.register(region, address, region.key in self._memory.table.counters)

    def _deregistered(self, key: int) -> None:
        self.transport.deregister(key)
        for peer in sorted(self._askers.pop(key, ())):
            self.revoke(peer, key)
