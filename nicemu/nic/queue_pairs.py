# SPDX-License-Identifier: Apache-2.0
"""Peers and queue pairs of one NIC: creating, connecting over the network, tearing down."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from nicemu import rdma
from nicemu.abi import registers
from nicemu.errors import ProtocolError, ResourceError, UsageError
from nicemu.pcie import load_u64, store_u32, store_u64
from nicemu.trigger import NONE, TriggerUnit

from .arena import FIRMWARE, Arena
from .carriers import Carrier
from .config import NicConfig
from .firing import READY_TO_SEND, fail_queue_pair
from .pacing import drop_flights

INIT, READY_TO_RECEIVE = 1, 2
_KINDS = {"direct": rdma.KIND_DIRECT, "port": rdma.KIND_PORT, "verbs": rdma.KIND_OUTSIDE}


@dataclass(eq=False, slots=True)
class Peer:
    """Another NIC. `attached`: its public tables are mapped, so that direct queue pairs can use them."""

    index: int
    name: str
    ip: str
    attached: bool = False
    queue_pairs: set[int] = field(default_factory=set)


class QueuePairs:
    """The queue pairs of one NIC; `carrier` has what stands behind each of them."""

    def __init__(
        self, config: NicConfig, arena: Arena, unit: TriggerUnit, carrier: Carrier, rng: random.Random
    ) -> None:
        self._config = config
        self._arena = arena
        self._unit = unit
        self._carrier = carrier
        self._rng = rng
        self.peers: dict[str, Peer] = {}
        self.numbers: dict[int, str] = {}
        self._free = list(range(registers.MAX_QUEUE_PAIRS - 1, 0, -1))
        self.remote_numbers: dict[int, int] = {}
        self.remote_nics: dict[int, int] = {}

    @property
    def kind(self) -> int:
        """What carries this NIC's queue pairs."""
        return _KINDS[self._config.transport]

    def peer(self, name: str, ip: str | None = None) -> Peer:
        """Return the peer of that name, known or new.

        Raises: UsageError for an unknown name without an address, ResourceError if there are too many.
        """
        if name not in self.peers:
            if ip is None:
                known = ", ".join(sorted(self.peers)) or "none"
                raise UsageError(f"{self._config.name} has no peer {name!r} (known: {known})")
            if len(self.peers) >= rdma.MAX_PEERS:
                raise ResourceError(f"{self._config.name} has {rdma.MAX_PEERS} peers already")
            self.peers[name] = Peer(len(self.peers), name, ip)
        return self.peers[name]

    def _entry(self, qp: int) -> int:
        table = int(self._arena.rdma.public[0]) + registers.QUEUE_PAIR_TABLE
        return table + qp * registers.QUEUE_PAIR_BYTES

    def _tagged(self, qp: int, place: int) -> int:
        """Raw address of the state of a tagged receive."""
        number = qp * registers.TAGGED_RECEIVE_COUNT + place
        table = int(self._arena.rdma.public[0]) + registers.TAGGED_RECEIVES
        return table + number * registers.TAGGED_RECEIVE_BYTES + 56

    def _set_state(self, qp: int, state: int) -> None:
        self._arena.rdma.queue_pairs[qp].state = state
        store_u32(self._entry(qp), state)

    def create(self, peer: Peer, pd: int, owner: int, flags: int, cq: int) -> int:
        """Return the number of a new queue pair in INIT. `cq`: first completion queue of its owner, -1 for
        none.

        Raises: ResourceError if all are in use.
        """
        if not self._free:
            raise ResourceError(f"all {registers.MAX_QUEUE_PAIRS - 1} queue pairs are in use (ENOSPC)")
        counter = self._unit.allocate(owner=owner)
        qp = self._free[-1]
        try:
            self._carrier.create(qp, pd, bool(flags & rdma.FLAG_IMPLICIT_RECEIVES))
        except ResourceError:
            self._unit.close(counter)
            raise
        self._free.pop()
        record = self._arena.rdma.queue_pairs[qp]
        record.kind, record.options, record.pd = self.kind, flags, pd
        record.peer, record.owner, record.cq, record.remote_qp = peer.index, owner, cq, 0
        self._arena.queue_counters[qp] = counter
        self._arena.received[qp] = self._arena.tagged_posted[qp] = 0
        for place in range(registers.TAGGED_RECEIVE_COUNT):
            store_u64(self._tagged(qp, place), rdma.TAGGED_FREE)
        entry = self._entry(qp)
        store_u32(entry + 4, pd)
        store_u32(entry + 8, flags)
        store_u64(entry + 16, 0)
        store_u64(entry + 24, 0)
        receives = int(self._arena.rdma.public[0]) + registers.RECEIVE_QUEUES
        for slot in range(registers.RECEIVE_QUEUE_COUNT):
            place = (qp * registers.RECEIVE_QUEUE_COUNT + slot) * registers.RECEIVE_BYTES
            store_u64(receives + place + 24, 0)
        self._set_state(qp, INIT)
        self.numbers[qp] = peer.name
        peer.queue_pairs.add(qp)
        return qp

    def offer(self, qp: int, private_data: dict[str, Any]) -> dict[str, Any]:
        """Return what a peer has to know of a queue pair, as JSON-able data."""
        return {
            "nic": self._config.name,
            "number": self._config.number,
            "ip": self._config.ip,
            "transport": self._config.transport,
            "qp_num": qp,
            "private_data": private_data,
            **self._carrier.offer(qp),
        }

    def connect(self, qp: int, offer: dict[str, Any]) -> None:
        """Bring a queue pair to ready-to-send with what the peer offered.

        Raises: ProtocolError if the offer makes no sense or names another transport.
        """
        remote, psn, transport = offer.get("qp_num"), offer.get("psn"), offer.get("transport")
        if not isinstance(remote, int) or not isinstance(psn, int):
            remote = psn = -1
        if not 0 < remote < 1 << 24 or not 0 <= psn < 1 << 24:
            raise ProtocolError(f"queue pair offer {offer!r} has no number and first PSN")
        if transport != self._config.transport:
            raise ProtocolError(
                f"{offer.get('nic')} carries RDMA over {transport!r}, {self._config.name} over "
                f"{self._config.transport!r}; give both the same --fabric"
            )
        record = self._arena.rdma.queue_pairs[qp]
        if self.kind == rdma.KIND_DIRECT and remote >= registers.MAX_QUEUE_PAIRS:
            raise ProtocolError(
                f"queue pair number {remote} is past the table of {registers.MAX_QUEUE_PAIRS}"
            )
        self._carrier.connect(qp, offer)
        record.remote_qp = remote
        self.remote_numbers[qp] = remote
        self.remote_nics[qp] = int(offer.get("number", 0))
        self._set_state(qp, READY_TO_SEND)

    def connected(self) -> dict[int, tuple[str, int]]:
        """Return the peer of each queue pair that is connected, and the queue pair there."""
        return {qp: (self.numbers[qp], remote) for qp, remote in self.remote_numbers.items()}

    def fail(self, qp: int) -> None:
        """Move a queue pair to the error state; what is posted from here on is flushed."""
        if self._arena.rdma.queue_pairs[qp].state in (INIT, READY_TO_RECEIVE, READY_TO_SEND):
            self._carrier.fail(qp)
            fail_queue_pair(self._arena, qp)

    def destroy(self, qp: int) -> None:
        """Remove a queue pair; its receives, and its transfers on their way, go without completions. The
        datapath stands still meanwhile.

        Source: ibv_destroy_qp(3).
        """
        arena, posted = self._arena, load_u64(self._entry(qp) + 16)
        numbers = range(int(arena.received[qp]), posted)
        ends = [int(arena.receives[qp, at % registers.RECEIVE_QUEUE_COUNT].completion) for at in numbers]
        for place in range(registers.TAGGED_RECEIVE_COUNT if arena.tagged_posted[qp] else 0):
            if load_u64(self._tagged(qp, place)) != rdma.TAGGED_FREE:
                ends.append(int(arena.tagged[qp, place].completion))
        for slot in drop_flights(arena.pacing, arena.trigger.slots, qp):
            ends.append(int(arena.trigger.slots[slot].completion))
            self._unit.release(slot)
        for completion in ends:
            if completion != NONE and self._unit.state.counters[completion].in_flight:
                self._unit.state.counters[completion].in_flight -= 1
        self._set_state(qp, 0)
        self._arena.rdma.queue_pairs[qp].kind = rdma.KIND_NONE
        self._carrier.destroy(qp)
        counter = int(self._arena.queue_counters[qp])
        self._unit.close(counter, force=True)
        self.remote_numbers.pop(qp, None)
        self.remote_nics.pop(qp, None)
        name = self.numbers.pop(qp)
        self.peers[name].queue_pairs.discard(qp)
        self._free.insert(0, qp)

    def of_firmware(self, peer_name: str) -> list[int]:
        """Queue pairs with a peer that firmware owns."""
        pairs = self.peers[peer_name].queue_pairs if peer_name in self.peers else set()
        return sorted(qp for qp in pairs if self._arena.rdma.queue_pairs[qp].owner == FIRMWARE)
