# SPDX-License-Identifier: Apache-2.0
"""The target's end of a controller's queues: rings and buffers in memory that the controller reaches.

Source: NVM Express Base Specification 2.0, "Command Submission and Completion Mechanism".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from nicemu.nvme import (
    Capabilities,
    CompletionConsumer,
    Cqe,
    NvmeRegisters,
    Register,
    Sqe,
    SubmissionProducer,
    build_prp,
    doorbell_offset,
)
from nicemu.pcie import PAGE_BYTES, AddressSpace

from .pdu import MAX_DATA_BYTES

MAX_ENTRIES: Final = 128
QUEUES: Final = 9
"""The admin queue pair and 8 for I/O."""
_BUFFERS: Final = 32
_RING_BYTES: Final = 3 * PAGE_BYTES
_BUFFER_BYTES: Final = MAX_DATA_BYTES + PAGE_BYTES
"""A buffer, and the page behind it for its PRP list."""
TARGET_MEMORY_BYTES: Final = QUEUES * _RING_BYTES + _BUFFERS * _BUFFER_BYTES

Done = Callable[[Cqe], None]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory for the data of one command; a page for a PRP list lies behind it."""

    address: int

    def describe(self, sqe: Sqe, length: int, memory: AddressSpace) -> Sqe:
        """Return a command with PRPs to the first `length` bytes, in place of what it had."""
        if not length:
            return replace(sqe, psdt=0, prp1=0, prp2=0)
        prp = build_prp(self.address, length, memory, lambda: self.address + MAX_DATA_BYTES, initiator="tcp")
        return replace(sqe, psdt=0, prp1=prp.prp1, prp2=prp.prp2)


class Memory:
    """The rings and buffers in `TARGET_MEMORY_BYTES` at `base` (a page), which the controller reaches."""

    def __init__(self, space: AddressSpace, base: int) -> None:
        self.space = space
        self._base = base
        first = base + QUEUES * _RING_BYTES
        self._free = deque(Buffer(first + number * _BUFFER_BYTES) for number in range(_BUFFERS))
        space.find(base, TARGET_MEMORY_BYTES)

    def ring_addresses(self, qid: int) -> tuple[int, int]:
        """Where submission and completion queue of a number lie."""
        address = self._base + qid * _RING_BYTES
        return address, address + 2 * PAGE_BYTES

    def take(self) -> Buffer | None:
        """Take a free buffer."""
        return self._free.popleft() if self._free else None

    def put(self, buffer: Buffer) -> None:
        """Give a buffer back."""
        self._free.append(buffer)


class Ring:
    """One queue pair, and whom each completion concerns."""

    def __init__(self, qid: int, memory: Memory, entry_count: int, registers: NvmeRegisters) -> None:
        self.qid, self.entry_count = qid, entry_count
        self._stride = Capabilities.decode(registers.read64(Register.CAP)).doorbell_stride
        self.sq_address, self.cq_address = memory.ring_addresses(qid)
        self._registers = registers
        self._sq = SubmissionProducer(memory.space, self.sq_address, entry_count, "tcp")
        self._cq = CompletionConsumer(memory.space, self.cq_address, entry_count, "tcp")
        self._cids = deque(range(entry_count - 1))
        self._pending: dict[int, Done] = {}

    def post(self, sqe: Sqe, done: Done) -> int | None:
        """Submit a command under a number of this end, which is returned; None while the ring is full."""
        if not self._cids:
            return None
        cid = self._cids.popleft()
        self._pending[cid] = done
        tail = self._sq.post(replace(sqe, cid=cid))
        self._doorbell(tail, is_completion=False)
        return cid

    def reap(self) -> int:
        """Hand out what has completed; return how many completions."""
        taken: list[tuple[Done, Cqe]] = []
        while cqe := self._cq.poll():
            self._sq.learn_head(cqe.sq_head)
            done = self._pending.pop(cqe.cid, None)
            if done is not None:
                self._cids.append(cqe.cid)
                taken.append((done, cqe))
        if taken:
            self._doorbell(self._cq.head, is_completion=True)
        for done, cqe in taken:
            done(cqe)
        return len(taken)

    def _doorbell(self, value: int, *, is_completion: bool) -> None:
        offset = doorbell_offset(self.qid, is_completion=is_completion, stride=self._stride)
        self._registers.write32(offset, value)
