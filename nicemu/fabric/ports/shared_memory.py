# SPDX-License-Identifier: Apache-2.0
"""Two ports of one machine, joined by rings in a memfd of sealed size; the two may be in different processes.

Each direction is a single-producer single-consumer ring of bytes. `head` and `tail` count bytes without end,
in cache lines of their own, and each is stored by one side only, through `nicemu.pcie` (release stores,
acquire loads). A record is the frame's length (4 bytes, little-endian), 4 bytes unused, and the frame,
padded to 8 bytes; a record that would not fit before the ring's end is preceded by a marker and starts at
the ring's beginning. A reader believes nothing: a record that does not fit what the ring can hold empties
the ring and is counted.
"""

from __future__ import annotations

import os
import struct
from collections import Counter

from nicemu.errors import UsageError
from nicemu.pcie import PAGE_BYTES, Backing, load_u64, store_u64

from .port import MAX_FRAME_BYTES, RECEIVE_LIMIT, check_frames, closed

RING_BYTES = 1 << 20
MINIMUM_RING_BYTES = 1 << 15

_MAGIC = int.from_bytes(b"nicring1", "little")
_CAPACITY = 8
_RINGS = (64, 192)  # of each direction: tail, and head one cache line further on
_HEAD = 64
_RECORD = struct.Struct("<II")
_SKIP = 0xFFFFFFFF


def _record_bytes(length: int) -> int:
    return _RECORD.size + (length + 7 & ~7)


class SharedMemoryPort:
    """One end of a link in shared memory: `create` it here, `attach` the other end to `memory_fd` there."""

    def __init__(self, backing: Backing, capacity_bytes: int, side: int) -> None:
        self.address = f"shared-memory:{os.fstat(backing.fd or 0).st_ino}/{side}"
        self.drops: Counter[str] = Counter()
        self._backing: Backing | None = backing
        self._capacity_bytes = capacity_bytes
        rings = [
            (
                backing.address + _RINGS[direction],
                backing.view[
                    PAGE_BYTES + direction * capacity_bytes : PAGE_BYTES + (direction + 1) * capacity_bytes
                ],
            )
            for direction in (0, 1)
        ]
        self._send_ring, self._send_view = rings[side]
        self._receive_ring, self._receive_view = rings[1 - side]
        self._tail = int(load_u64(self._send_ring))
        self._head = int(load_u64(self._receive_ring + _HEAD))

    @classmethod
    def create(cls, capacity_bytes: int = RING_BYTES) -> SharedMemoryPort:
        """Make a link and return its first end; each direction holds `capacity_bytes`, a power of two.

        Raises: UsageError if it is no power of two or smaller than 32 KiB.
        """
        if capacity_bytes < MINIMUM_RING_BYTES or capacity_bytes & (capacity_bytes - 1):
            raise UsageError(
                f"a ring of {capacity_bytes} bytes; use a power of two, {MINIMUM_RING_BYTES} at least"
            )
        backing = Backing.memfd("nicemu-port", PAGE_BYTES + 2 * capacity_bytes)
        store_u64(backing.address + _CAPACITY, capacity_bytes)
        store_u64(backing.address, _MAGIC)
        return cls(backing, capacity_bytes, 0)

    @classmethod
    def attach(cls, memory_fd: int) -> SharedMemoryPort:
        """Return the other end of a link, from a descriptor of its memory, which is taken over.

        Raises: UsageError if it is no memfd of sealed size, or holds no link.
        """
        backing = Backing.from_fd(memory_fd, max(PAGE_BYTES, os.fstat(memory_fd).st_size))
        capacity_bytes = int(load_u64(backing.address + _CAPACITY))
        expected = PAGE_BYTES + 2 * capacity_bytes
        if load_u64(backing.address) != _MAGIC or expected != backing.length_bytes:
            backing.close()
            raise UsageError("the memory holds no link; attach the memory_fd of a SharedMemoryPort")
        return cls(backing, capacity_bytes, 1)

    @property
    def memory_fd(self) -> int:
        """The descriptor to pass to the other process, which attaches a duplicate of it."""
        if self._backing is None or self._backing.fd is None:
            raise closed(self.address)
        return self._backing.fd

    def send(self, frames: list[bytes]) -> int:
        """Write frames into the ring, as many as fit, and make them visible at once."""
        if self._backing is None:
            raise closed(self.address)
        check_frames(frames)
        capacity, view, tail = self._capacity_bytes, self._send_view, self._tail
        free = capacity - (tail - int(load_u64(self._send_ring + _HEAD)))
        accepted = 0
        for frame in frames:
            need = _record_bytes(len(frame))
            place = tail & capacity - 1
            skip = capacity - place if need > capacity - place else 0
            if need + skip > free:
                break
            if skip:
                _RECORD.pack_into(view, place, _SKIP, 0)
                tail, free, place = tail + skip, free - skip, 0
            _RECORD.pack_into(view, place, len(frame), 0)
            start = place + _RECORD.size
            view[start : start + len(frame)] = frame
            tail, free = tail + need, free - need
            accepted += 1
        self._tail = tail
        store_u64(self._send_ring, tail)
        return accepted

    def receive(self, limit: int = RECEIVE_LIMIT) -> list[bytes]:
        """Copy up to `limit` frames out of the ring and give their room back."""
        if self._backing is None:
            raise closed(self.address)
        capacity, view, head = self._capacity_bytes, self._receive_view, self._head
        tail = int(load_u64(self._receive_ring))
        frames: list[bytes] = []
        if tail == head:
            return frames
        if not head < tail <= head + capacity or (head | tail) & 7:
            return self._corrupt(tail)
        while head < tail and len(frames) < limit:
            place = head & capacity - 1
            (length, _) = _RECORD.unpack_from(view, place)
            if length == _SKIP:
                head += capacity - place
                continue
            need = _record_bytes(length)
            if length > MAX_FRAME_BYTES or need > min(tail - head, capacity - place):
                return frames + self._corrupt(tail)
            start = place + _RECORD.size
            frames.append(bytes(view[start : start + length]))
            head += need
        self._head = head
        store_u64(self._receive_ring + _HEAD, head)
        return frames

    def fileno(self) -> int | None:
        """There is nothing to wait on; look at the ring, then nap."""
        return None

    def close(self) -> None:
        """Unmap this end; the memory goes when both ends are closed."""
        backing, self._backing = self._backing, None
        if backing is not None:
            self._send_view.release()
            self._receive_view.release()
            backing.close()

    def _corrupt(self, tail: int) -> list[bytes]:
        """The other end wrote what cannot be: skip all of it."""
        self.drops["ring.corrupt"] += 1
        self._head = tail
        store_u64(self._receive_ring + _HEAD, tail)
        return []
