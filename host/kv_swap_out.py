# SPDX-License-Identifier: Apache-2.0
"""Leave a session's KV chunks with the storage NICs as the GPU produces them: deferred writes, armed
beforehand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from nicemu.errors import NicemuError, ResourceError
from nicemu.host import Counter, Memory, Nic, Peer, Span
from nicemu.kv import DESCRIPTOR_BYTES, Chunk, Lease, StoreDescriptor

LOOK_AROUND_S = 0.5


class PeerLostError(NicemuError):
    """A storage NIC has ended, or its connection has failed."""


class SwapOut:
    """Stores chunks with several storage nodes; `durable` counts those that are on the medium."""

    def __init__(self, nic: Nic, peers: Sequence[Peer]) -> None:
        self.nic = nic
        self.peers = list(peers)
        (self.produced,) = nic.counters("kv_produced")
        (self.durable,) = nic.counters("kv_durable", remote=True)
        self.leases = [Lease.of_data(peer.private_data) for peer in self.peers]
        self.free = [deque(range(lease.slot_count)) for lease in self.leases]
        self.in_use: list[tuple[int, int]] = []
        self.armed = 0
        rows = sum(lease.slot_count for lease in self.leases)
        self.descriptors: Memory = nic.allocate((rows, DESCRIPTOR_BYTES), kind="host")
        self.descriptor_span = nic.register(self.descriptors)

    def place(self, chunk: Chunk) -> int:
        """Return which peer keeps a chunk: decided by its key, so every host decides alike."""
        return chunk.key % len(self.peers)

    def storage_number(self, chunk: Chunk) -> int:
        """Return the number of the NIC that keeps a chunk, as manifests name it."""
        return self.peers[self.place(chunk)].number

    def arm(self, slot: Memory, key: int, chunks: Iterable[Chunk], threshold: Callable[[Chunk], int]) -> int:
        """Arm a deferred write for each chunk of the session in `slot` (registered under `key`).

        A chunk is written when `produced` reaches `threshold(chunk)`. Returns how many were armed.
        Raises: ResourceError if a storage node's lease has no slot left, with nothing armed.
        """
        chunks = list(chunks)
        taken = self._take_slots(chunks)
        with self.nic.program("swap_out") as program:
            for chunk, (peer, store_slot) in zip(chunks, taken, strict=True):
                self._describe(peer, store_slot, chunk)
                lease, destination = self.leases[peer], self.peers[peer]
                k, v = (
                    self._piece(slot, key, offset, chunk.segment_bytes)
                    for offset in (chunk.k_offset, chunk.v_offset)
                )
                target = lease.slots + store_slot * lease.slot_bytes
                remote = destination.span(target, 2 * chunk.segment_bytes, lease.rkey)
                program.when(self.produced >= threshold(chunk)).write((k, v), remote, imm_data=store_slot)
        program.arm()
        self.in_use += taken
        self.armed += len(chunks)
        return len(chunks)

    @staticmethod
    def _piece(slot: Memory, key: int, offset: int, length_bytes: int) -> Span:
        return Span(slot.address + offset, length_bytes, key)

    def _take_slots(self, chunks: Sequence[Chunk]) -> list[tuple[int, int]]:
        wanted = [self.place(chunk) for chunk in chunks]
        for peer, free in enumerate(self.free):
            if wanted.count(peer) > len(free):
                raise ResourceError(
                    f"{self.peers[peer].name} has {len(free)} free slots, {wanted.count(peer)} are needed; "
                    "wait until earlier chunks are durable, or connect with a larger slot_count"
                )
        return [(peer, self.free[peer].popleft()) for peer in wanted]

    def _describe(self, peer: int, store_slot: int, chunk: Chunk) -> None:
        lease = self.leases[peer]
        row = sum(lease.slot_count for lease in self.leases[:peer]) + store_slot
        descriptor = StoreDescriptor(chunk.key, 2 * chunk.segment_bytes, self.durable.index)
        self.descriptors.array[row] = memoryview(descriptor.encode())
        local = self.descriptor_span[row * DESCRIPTOR_BYTES : (row + 1) * DESCRIPTOR_BYTES]
        place = lease.descriptors + store_slot * DESCRIPTOR_BYTES
        self.nic.write(local, self.peers[peer].span(place, DESCRIPTOR_BYTES, lease.rkey))

    def wait(self, timeout_s: float = 10.0) -> None:
        """Wait until everything armed so far is durable; its slots are free again.

        Raises: CounterError if a chunk could not be stored, PeerLostError if a storage NIC is gone,
        TimeoutError if it takes too long.
        """
        for _ in range(max(1, round(timeout_s / LOOK_AROUND_S))):
            try:
                self.durable.wait(self.armed, min(timeout_s, LOOK_AROUND_S))
                break
            except TimeoutError:
                self._check_peers()
        else:
            raise TimeoutError(
                f"{self.durable.success} of {self.armed} chunks are durable after {timeout_s} s"
            )
        for peer, store_slot in self.in_use:
            self.free[peer].append(store_slot)
        self.in_use.clear()

    def _check_peers(self) -> None:
        connected = self.nic.connected_peers()
        awaited = {self.peers[peer].name for peer, _ in self.in_use}
        gone = sorted(name for name in awaited if name not in connected)
        if gone:
            raise PeerLostError(
                f"{', '.join(gone)} is gone; {self.durable.success} of {self.armed} chunks are durable, and "
                "what was durable is there again when it is"
            )

    def counters(self) -> tuple[Counter, Counter]:
        """The two counters: produced by the GPU, durable at the storage nodes."""
        return self.produced, self.durable
