# SPDX-License-Identifier: Apache-2.0
"""Submission and completion rings over bus addresses, seen from either end.

The controller holds a `SubmissionQueue` and a `CompletionQueue`, the initiator a `SubmissionProducer` and a
`CompletionConsumer`. A ring of n entries holds n - 1 at most: head == tail means empty, tail + 1 == head
full.

Source: NVM Express Base Specification 2.0, "Queue Model", "Phase Tag", "Submission Queue y Tail Doorbell",
"Completion Queue y Head Doorbell".
"""

from __future__ import annotations

from nicemu.errors import ResourceError, UsageError
from nicemu.pcie import AddressSpace, load_u32, store_u32

from .command import CQE_BYTES, SQE_BYTES, Cqe, Sqe

MIN_ENTRY_COUNT = 2
MAX_ENTRY_COUNT = 65536

_PHASE_DWORD_OFFSET = 12
_PHASE_SHIFT = 16
"""The phase bit is bit 16 of a completion's last dword, which is stored last and loaded first."""


class _Ring:
    """Entries of one size in memory; the ring lies inside one window."""

    def __init__(
        self, memory: AddressSpace, bus_address: int, entry_bytes: int, entry_count: int, initiator: str
    ) -> None:
        if not MIN_ENTRY_COUNT <= entry_count <= MAX_ENTRY_COUNT:
            raise UsageError(
                f"a queue has {MIN_ENTRY_COUNT} to {MAX_ENTRY_COUNT} entries, {entry_count} were asked for"
            )
        memory.find(bus_address, entry_bytes * entry_count)
        self.bus_address = bus_address
        self.entry_count = entry_count
        self.head = 0
        self.tail = 0
        self._memory = memory
        self._entry_bytes = entry_bytes
        self._initiator = initiator

    @property
    def used_count(self) -> int:
        """Entries between head and tail."""
        return (self.tail - self.head) % self.entry_count

    @property
    def is_full(self) -> bool:
        """True if one more entry would make the ring look empty."""
        return self.used_count == self.entry_count - 1

    def _address_of(self, place: int) -> int:
        return self.bus_address + place * self._entry_bytes

    def _raw_address_of(self, place: int) -> int:
        """Return where an entry lies in this process; refuses as `AddressSpace.find` does."""
        address = self._address_of(place)
        window = self._memory.find(address, self._entry_bytes)
        return window.backing.address + address - window.bus_address

    def _next(self, place: int) -> int:
        return (place + 1) % self.entry_count


class SubmissionQueue(_Ring):
    """The controller's end of a submission queue: the host moves `tail`, fetching moves `head`.

    Raises: UsageError if the entry count is out of range or the ring does not lie inside one window.
    """

    def __init__(
        self,
        memory: AddressSpace,
        bus_address: int,
        entry_count: int,
        sq_id: int,
        cq_id: int,
        initiator: str = "",
    ) -> None:
        super().__init__(memory, bus_address, SQE_BYTES, entry_count, initiator)
        self.sq_id = sq_id
        self.cq_id = cq_id

    def ring(self, tail: int) -> bool:
        """Take a tail doorbell; False (and nothing changed) for a value that no host could mean.

        Such are values past the ring, and tails that would pass the head.
        """
        if not 0 <= tail < self.entry_count:
            return False
        if (tail - self.tail) % self.entry_count > self.entry_count - 1 - self.used_count:
            return False
        self.tail = tail
        return True

    def fetch(self) -> Sqe | None:
        """Take the entry at the head; None if the queue is empty.

        Raises: UsageError if the memory is no longer mapped.
        """
        if self.head == self.tail:
            return None
        sqe = Sqe.decode(self._memory.view(self._address_of(self.head), SQE_BYTES, self._initiator))
        self.head = self._next(self.head)
        return sqe


class CompletionQueue(_Ring):
    """The controller's end of a completion queue: posting moves `tail`, the host moves `head`.

    `vector` is the interrupt vector, None where interrupts are off.
    Raises: UsageError if the entry count is out of range or the ring does not lie inside one window.
    """

    def __init__(
        self,
        memory: AddressSpace,
        bus_address: int,
        entry_count: int,
        cq_id: int,
        vector: int | None,
        initiator: str = "",
    ) -> None:
        super().__init__(memory, bus_address, CQE_BYTES, entry_count, initiator)
        self.cq_id = cq_id
        self.vector = vector
        self.phase = 1

    def ring(self, head: int) -> bool:
        """Take a head doorbell; False (and nothing changed) for a head past the ring or past the tail."""
        if not 0 <= head < self.entry_count or (head - self.head) % self.entry_count > self.used_count:
            return False
        self.head = head
        return True

    def post(self, cqe: Cqe) -> None:
        """Store an entry at the tail with the current phase; the dword with the phase bit goes last.

        Raises: ResourceError if the queue is full; UsageError if the memory is no longer mapped.
        """
        if self.is_full:
            raise ResourceError(f"completion queue {self.cq_id} is full; the host has to move its head")
        data = cqe.encode(self.phase)
        entry = self._memory.view(self._address_of(self.tail), CQE_BYTES, self._initiator)
        entry[:_PHASE_DWORD_OFFSET] = data[:_PHASE_DWORD_OFFSET]
        visible = int.from_bytes(data[_PHASE_DWORD_OFFSET:], "little")
        store_u32(self._raw_address_of(self.tail) + _PHASE_DWORD_OFFSET, visible)
        self.tail = self._next(self.tail)
        if self.tail == 0:
            self.phase ^= 1


class SubmissionProducer(_Ring):
    """The host's end of a submission queue: posting moves `tail`, completions tell how far `head` came.

    Raises: UsageError if the entry count is out of range or the ring does not lie inside one window.
    """

    def __init__(self, memory: AddressSpace, bus_address: int, entry_count: int, initiator: str = "") -> None:
        super().__init__(memory, bus_address, SQE_BYTES, entry_count, initiator)

    def post(self, sqe: Sqe) -> int:
        """Store an entry and return the new tail, the value for the doorbell.

        Raises: ResourceError if the queue is full.
        """
        if self.is_full:
            raise ResourceError(
                f"the submission queue of {self.entry_count} entries is full; reap completions"
            )
        self._memory.write(self._address_of(self.tail), sqe.encode(), self._initiator)
        self.tail = self._next(self.tail)
        return self.tail

    def learn_head(self, head: int) -> None:
        """Note the `sq_head` of a completion: entries before it may be used again."""
        if (head - self.head) % self.entry_count <= self.used_count:
            self.head = head


class CompletionConsumer(_Ring):
    """The host's end of a completion queue: an entry is new while its phase bit is the expected one.

    The ring is zeroed first, as the specification asks of the host.
    Raises: UsageError if the entry count is out of range or the ring does not lie inside one window.
    """

    def __init__(self, memory: AddressSpace, bus_address: int, entry_count: int, initiator: str = "") -> None:
        super().__init__(memory, bus_address, CQE_BYTES, entry_count, initiator)
        self.phase = 1
        memory.write(bus_address, bytes(CQE_BYTES * entry_count), initiator)

    def poll(self) -> Cqe | None:
        """Take the next new entry; None if there is none. The caller rings the doorbell with `head`."""
        dword = load_u32(self._raw_address_of(self.head) + _PHASE_DWORD_OFFSET)
        if dword >> _PHASE_SHIFT & 1 != self.phase:
            return None
        cqe = Cqe.decode(self._memory.view(self._address_of(self.head), CQE_BYTES, self._initiator))
        self.head = self.tail = self._next(self.head)
        if self.head == 0:
            self.phase ^= 1
        return cqe
