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
from collections import Counter

import numpy as np

from nicemu.errors import UsageError
from nicemu.pcie import PAGE_BYTES, Backing, load_u64, store_u64
from nicemu.wire import FrameBatch

from .frame_ring import CORRUPT, COUNT_MASK, HEAD, put_frames, take_frames
from .port import MAX_FRAME_BYTES, BatchPort, check_batch, closed

RING_BYTES = 1 << 20
MINIMUM_RING_BYTES = 1 << 15

_MAGIC = int.from_bytes(b"nicring1", "little")
_CAPACITY = 8
_RINGS = (64, 192)  # of each direction: tail, and head one cache line further on


class SharedMemoryPort(BatchPort):
    """One end of a link in shared memory: `create` it here, `attach` the other end to `memory_fd` there."""

    def __init__(self, backing: Backing, capacity_bytes: int, side: int) -> None:
        super().__init__()
        self.address = f"shared-memory:{os.fstat(backing.fd or 0).st_ino}/{side}"
        self.drops: Counter[str] = Counter()
        self._backing: Backing | None = backing
        rings = [
            (backing.address + place, backing.address + PAGE_BYTES + number * capacity_bytes, capacity_bytes)
            for number, place in enumerate(_RINGS)
        ]
        self.send_ring, self.receive_ring = rings[side], rings[1 - side]
        """Of each direction: raw addresses of the ring and of its data, and the data's length in bytes."""
        self.tail, self.head = np.zeros(1, np.int64), np.zeros(1, np.int64)
        """Bytes written and bytes read so far, as `put_frames` and `take_frames` have it."""
        self.tail[0] = load_u64(self.send_ring[0]) & COUNT_MASK
        self.head[0] = load_u64(self.receive_ring[0] + HEAD) & COUNT_MASK

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

    def send_batch(self, batch: FrameBatch, first: int = 0) -> int:
        """Write frames into the ring, as many as fit, and make them visible at once."""
        if self._backing is None:
            raise closed(self.address)
        check_batch(batch, first)
        offsets, lengths = batch.offsets[: batch.count], batch.lengths[: batch.count]
        return int(put_frames(*self.send_ring, self.tail, batch.address, offsets, lengths, first)) - first

    def receive_batch(self, batch: FrameBatch, limit: int | None = None) -> int:
        """Copy frames out of the ring and give their room back."""
        if self._backing is None:
            raise closed(self.address)
        most = len(batch.offsets) if limit is None else limit
        room, places = len(batch.memory), (batch.offsets, batch.lengths)
        taken = take_frames(
            *self.receive_ring, self.head, MAX_FRAME_BYTES, batch.address, room, *places, most
        )
        count = int(taken)
        if count == CORRUPT:
            self._skip_all()
            count = 0
        batch.count = count
        return count

    def fileno(self) -> int | None:
        """There is nothing to wait on; look at the ring, then nap."""
        return None

    def close(self) -> None:
        """Unmap this end; the memory goes when both ends are closed."""
        backing, self._backing = self._backing, None
        if backing is not None:
            backing.close()

    def _skip_all(self) -> None:
        """The other end wrote what cannot be: forget all of it."""
        self.drops["ring.corrupt"] += 1
        self.head[0] = load_u64(self.receive_ring[0]) & COUNT_MASK
        store_u64(self.receive_ring[0] + HEAD, int(self.head[0]))
