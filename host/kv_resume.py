# SPDX-License-Identifier: Apache-2.0
"""Let the NIC bring a session home by itself: publish its manifest, keep landing slots on the free ring."""

from __future__ import annotations

from collections import deque

from nicemu.errors import ResourceError
from nicemu.host import Counter, Memory, Nic, Packet, Span
from nicemu.kv import KvLayout, Manifest

MANIFEST_BYTES = 64 << 10


class Resume:
    """Session memory that the NIC may land in, and the sessions it knows.

    `memory[i]` holds one session; all of them begin on the free ring of this object, and `offer` puts one on
    the NIC's.
    """

    def __init__(self, nic: Nic, layout: KvLayout, slot_count: int, session_count: int = 256) -> None:
        self.nic = nic
        self.memory: list[Memory] = [nic.allocate(layout.shape, layout.dtype) for _ in range(slot_count)]
        self.spans = [nic.register(memory) for memory in self.memory]
        self.free = deque(range(slot_count))
        self.offered: set[int] = set()
        (self.hits,) = nic.counters("kv_hits")
        self._manifests = nic.allocate((session_count, MANIFEST_BYTES), kind="host")
        self._rows: dict[bytes, int] = {}
        self._free_rows = deque(range(session_count))

    def take(self) -> int:
        """Take a free slot for a new session. Raises: ResourceError if there is none."""
        if not self.free:
            raise ResourceError("all session slots are in use; drop a session first")
        return self.free.popleft()

    def drop(self, slot: int) -> None:
        """A session's memory is not needed any more; the next session gets it."""
        self.free.appendleft(slot)

    def offer(self) -> int:
        """Put a free slot on the NIC's ring of landing slots, under a fresh key; return its number."""
        slot = self.take()
        self.spans[slot] = self.nic.post_landing(slot, self.spans[slot])
        self.offered.add(slot)
        return slot

    def withdraw(self, slot: int) -> bool:
        """Take a landing slot back from the NIC; False if a fetch is using it."""
        key = self.nic.withdraw_landing(slot)
        if key is None:
            return False
        self._rekey(slot, key)
        self.offered.discard(slot)
        self.free.append(slot)
        return True

    def landed(self, packet: Packet) -> int | None:
        """Return the slot that the packet's session has landed in; None for a packet that is a miss."""
        if packet.info[0] == 0:
            return None
        slot = packet.info[1]
        self._rekey(slot, packet.info[4])
        self.offered.discard(slot)
        return slot

    def _rekey(self, slot: int, key: int) -> None:
        """Note a slot's key: the NIC gives it another one when a fetch has failed."""
        span = self.spans[slot]
        self.spans[slot] = Span(span.address, span.length_bytes, key)

    def publish(self, manifest: Manifest) -> None:
        """Make the NIC fetch this session when its user comes back.

        Raises: ResourceError if too many sessions are published or the manifest is too long.
        """
        data = manifest.encode()
        row = self._rows.get(manifest.session)
        if len(data) > MANIFEST_BYTES or (row is None and not self._free_rows):
            raise ResourceError(
                f"a manifest of {len(data)} bytes, {len(self._free_rows)} rows of {MANIFEST_BYTES} free"
            )
        if row is not None:
            self.withdraw_session(manifest.session)
        row = self._rows[manifest.session] = self._free_rows.popleft()
        self._manifests.array[row, : len(data)] = memoryview(data)
        self.nic.connection.insert(
            "session",
            {"session": int.from_bytes(manifest.session, "big")},
            "fetch_session",
            {
                "manifest_address": self._manifests.address + row * MANIFEST_BYTES,
                "manifest_bytes": len(data),
                "hits_counter": self.hits.index,
            },
        )

    def withdraw_session(self, session: bytes) -> None:
        """Forget a session: its requests go to the host again."""
        row = self._rows.pop(session, None)
        if row is not None:
            self.nic.connection.delete("session", {"session": int.from_bytes(session, "big")})
            self._free_rows.append(row)

    def counter(self) -> Counter:
        """The counter of matched follow-up requests."""
        return self.hits
