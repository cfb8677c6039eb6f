# SPDX-License-Identifier: Apache-2.0
"""What a step did to the arena, found by comparing before and after: counts, ring entries, completions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nicemu.abi import Opcode, registers
from nicemu.hot import Records
from nicemu.pcie import load_u64

from .device import SmartNic
from .footprint import Footprint, Use

_ATOMICS = (Opcode.COMPARE_SWAP, Opcode.FETCH_ADD, Opcode.ATOMIC)
_SENDS = (Opcode.SEND, Opcode.SEND_WITH_IMM)


class _Seen(NamedTuple):
    success: np.ndarray
    errors: np.ndarray
    completions: np.ndarray
    up_tail: int
    down_tail: int
    posted: list[int]


class Watch:
    """Looks at one NIC before and after a step."""

    def __init__(self, device: SmartNic) -> None:
        self._device = device
        self._due: set[int] = set()

    def look(self) -> _Seen:
        """Remember how things are."""
        arena = self._device.arena
        link = int(arena.link[0].address)
        counters = arena.trigger.counters
        return _Seen(
            counters["success"].copy(),
            counters["errors"].copy(),
            arena.rdma.completion_queues["tail"].copy(),
            load_u64(link + 8),
            load_u64(link + 24),
            [self._outbox_tail(index) for index in range(len(self._device.queue_pairs.peers))],
        )

    def _outbox_tail(self, peer: int) -> int:
        outbox = int(self._device.arena.rdma.peers[peer].outbox)
        return load_u64(outbox + registers.INBOX_TAIL) if outbox else 0

    def compare(self, before: _Seen, touched: Footprint) -> None:
        """Note what is not as it was."""
        name, after = self._device.config.name, self.look()
        changed = (before.success != after.success) | (before.errors != after.errors)
        for counter in np.flatnonzero(changed).tolist():
            amount = int(after.success[counter]) + int(after.errors[counter])
            amount -= int(before.success[counter]) + int(before.errors[counter])
            touched.count(amount, name, counter)
        for queue in np.flatnonzero(before.completions != after.completions).tolist():
            touched.use(Use.WRITE, "completions", name, queue)
        for number in range(before.up_tail, after.up_tail):
            touched.use(Use.MAKE, "record", name, number)
            touched.use(Use.WRITE, "up ring", name)
        for number in range(before.down_tail, after.down_tail):
            touched.use(Use.MAKE, "down", name, number)
        for peer, old, new in zip(self._device.queue_pairs.peers, before.posted, after.posted, strict=False):
            for number in range(old, new):
                touched.use(Use.MAKE, "inbox", peer, name, number)
                touched.use(Use.WRITE, "outbox", name, peer)
        due = self._sequences()
        for sequence in due - self._due:
            touched.use(Use.MAKE, "due", name, sequence)
        self._due |= due

    def _sequences(self) -> set[int]:
        state = self._device.arena.trigger
        found = set()
        counter = int(state.unit[0].ready_head)
        while counter >= 0:
            slot = int(state.counters[counter].due_head)
            while slot >= 0:
                found.add(int(state.slots[slot].sequence))
                slot = int(state.slots[slot].next)
            counter = int(state.counters[counter].ready_next)
        return found

    def note_raw(self, touched: Footprint, raw: int, length_bytes: int, is_written: bool) -> None:
        """Note that bytes at a raw address were moved, if the NIC reaches them."""
        for piece in self._device.memory.pieces.values():
            offset = raw - piece.window.backing.address
            if 0 <= offset < piece.window.length_bytes:
                at = piece.window.bus_address + offset
                touched.move(self._device.config.name, at, length_bytes, is_written)


def note_effect(device: SmartNic, work: Records, touched: Footprint) -> None:
    """Note which bytes an operation will move when it takes effect, here and at its peer."""
    opcode, qp = int(work.opcode), int(work.qp)
    here, peer = device.config.name, device.queue_pairs.numbers.get(qp, "")
    writes_back = opcode == Opcode.RDMA_READ or opcode in _ATOMICS
    pieces = [(int(work.sge0_address), int(work.sge0_length))]
    if opcode not in _ATOMICS:
        pieces.append((int(work.sge1_address), int(work.sge1_length)))
    length_bytes = 0
    for address, piece_bytes in pieces[: int(work.sge_count)]:
        touched.move(here, address, piece_bytes, writes_back)
        length_bytes += piece_bytes
    if opcode in _ATOMICS:
        touched.move(peer, int(work.remote_address), 8, True)
    elif opcode in _SENDS:
        touched.use(Use.READ, "receives", peer, int(device.arena.rdma.queue_pairs[qp].remote_qp))
        touched.move(peer, _next_receive(device, qp), length_bytes, True)
    else:
        touched.move(peer, int(work.remote_address), length_bytes, opcode != Opcode.RDMA_READ)


def _next_receive(device: SmartNic, qp: int) -> int:
    """Return the bus address at the peer of the receive that is taken next; anything if there is none."""
    pair = device.arena.rdma.queue_pairs[qp]
    public, remote = int(device.arena.rdma.peers[int(pair.peer)].public), int(pair.remote_qp)
    if not public:
        return 0
    head = load_u64(public + registers.QUEUE_PAIR_TABLE + remote * registers.QUEUE_PAIR_BYTES + 24)
    place = remote * registers.RECEIVE_QUEUE_COUNT + head % registers.RECEIVE_QUEUE_COUNT
    return int(load_u64(public + registers.RECEIVE_QUEUES + place * registers.RECEIVE_BYTES))
