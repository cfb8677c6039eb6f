# SPDX-License-Identifier: Apache-2.0
"""The queues of a controller: which exist, what is outstanding on each, what waits for room to complete.

Source: NVM Express Base Specification 2.0, "Create I/O Submission Queue command", "Create I/O Completion
Queue command", "Delete I/O Submission Queue command", "Delete I/O Completion Queue command".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from nicemu.errors import NvmeStatus, UsageError
from nicemu.pcie import PAGE_BYTES, AddressSpace

from .command import AdminStatus, Cqe
from .queue import CompletionQueue, SubmissionQueue

ADMIN = 0

_WORTH_A_RETRY = frozenset(
    {
        NvmeStatus.SUCCESS,
        NvmeStatus.INTERNAL_ERROR,
        NvmeStatus.ABORTED_BY_REQUEST,
        NvmeStatus.ABORTED_SQ_DELETION,
        NvmeStatus.NAMESPACE_NOT_READY,
        NvmeStatus.WRITE_FAULT,
        NvmeStatus.UNRECOVERED_READ_ERROR,
    }
)
"""Statuses without Do Not Retry."""


@dataclass(frozen=True, slots=True)
class _HeldCompletion:
    sq: SubmissionQueue
    cid: int
    status: int
    result: int
    ends_command: bool


class QueueTable:
    """Submission queues, completion queues, and the command identifiers in use.

    A completion that finds its queue full is held and posted when the host has made room; until it is posted
    its command identifier stays in use. Queue 0 is the admin pair.
    """

    def __init__(self, memory: AddressSpace, max_entry_count: int, vector_count: int, initiator: str) -> None:
        self.max_entry_count = max_entry_count
        self.vector_count = vector_count
        self._memory = memory
        self._initiator = initiator
        self._submission: dict[int, SubmissionQueue] = {}
        self._completion: dict[int, CompletionQueue] = {}
        self._held: dict[int, deque[_HeldCompletion]] = {}
        self._cids: dict[int, set[int]] = {}
        self._closing: set[int] = set()
        self._vectors: dict[int, None] = {}

    @property
    def io_queue_count(self) -> int:
        """I/O submission and completion queues together."""
        return sum(qid != ADMIN for qid in (*self._submission, *self._completion))

    @property
    def held_count(self) -> int:
        """Completions that wait for room."""
        return sum(map(len, self._held.values()))

    def reset(self) -> None:
        """Forget all queues, held completions and pending interrupts."""
        for table in (
            self._submission,
            self._completion,
            self._held,
            self._cids,
            self._closing,
            self._vectors,
        ):
            table.clear()

    def create_admin(
        self, sq_address: int, sq_entry_count: int, cq_address: int, cq_entry_count: int
    ) -> None:
        """Create the admin pair.

        Raises: UsageError if a ring is misplaced or of an impossible size; nothing changed.
        """
        if sq_address % PAGE_BYTES or cq_address % PAGE_BYTES:
            raise UsageError(
                f"the admin queues at {sq_address:#x} and {cq_address:#x} have to start on a page"
            )
        sq = SubmissionQueue(self._memory, sq_address, sq_entry_count, ADMIN, ADMIN, self._initiator)
        cq = CompletionQueue(self._memory, cq_address, cq_entry_count, ADMIN, 0, self._initiator)
        self._add_completion(cq)
        self._add_submission(sq)

    def create_completion(self, qid: int, address: int, entry_count: int, vector: int | None) -> int:
        """Create an I/O completion queue; return the status of the command."""
        if qid == ADMIN or qid in self._completion:
            return NvmeStatus.INVALID_QUEUE_IDENTIFIER
        if vector is not None and vector >= self.vector_count:
            return AdminStatus.INVALID_INTERRUPT_VECTOR
        status = self._check_ring(address, entry_count)
        if status is not NvmeStatus.SUCCESS:
            return status
        try:
            cq = CompletionQueue(self._memory, address, entry_count, qid, vector, self._initiator)
        except UsageError:
            return NvmeStatus.INVALID_FIELD
        self._add_completion(cq)
        return NvmeStatus.SUCCESS

    def create_submission(self, qid: int, cq_id: int, address: int, entry_count: int) -> int:
        """Create an I/O submission queue that completes to `cq_id`; return the status of the command."""
        if ADMIN in (qid, cq_id) or qid in self._submission:
            return NvmeStatus.INVALID_QUEUE_IDENTIFIER
        if cq_id not in self._completion:
            return NvmeStatus.COMPLETION_QUEUE_INVALID
        status = self._check_ring(address, entry_count)
        if status is not NvmeStatus.SUCCESS:
            return status
        try:
            sq = SubmissionQueue(self._memory, address, entry_count, qid, cq_id, self._initiator)
        except UsageError:
            return NvmeStatus.INVALID_FIELD
        self._add_submission(sq)
        return NvmeStatus.SUCCESS

    def close_submission(self, qid: int) -> bool:
        """Fetch no more from an I/O submission queue; False if there is none (or it is closing already)."""
        if qid == ADMIN or qid not in self._submission or qid in self._closing:
            return False
        self._closing.add(qid)
        return True

    def take_drained(self) -> list[int]:
        """Delete and return the closing submission queues whose last completion has been posted."""
        drained = [qid for qid in sorted(self._closing) if self._is_drained(qid)]
        for qid in drained:
            self._closing.discard(qid)
            del self._submission[qid], self._cids[qid]
        return drained

    def delete_completion(self, qid: int) -> int:
        """Delete an I/O completion queue that no submission queue uses; return the status of the command."""
        if qid == ADMIN or qid not in self._completion:
            return NvmeStatus.INVALID_QUEUE_IDENTIFIER
        if any(sq.cq_id == qid for sq in self._submission.values()):
            return AdminStatus.INVALID_QUEUE_DELETION
        del self._completion[qid], self._held[qid]
        return NvmeStatus.SUCCESS

    def find_submission(self, qid: int) -> SubmissionQueue | None:
        """Return a submission queue that is open for commands."""
        return None if qid in self._closing else self._submission.get(qid)

    def find_completion(self, qid: int) -> CompletionQueue | None:
        """Return a completion queue."""
        return self._completion.get(qid)

    def begin(self, sq_id: int, cid: int) -> bool:
        """Mark a command identifier as in use; False if it is already."""
        cids = self._cids[sq_id]
        if cid in cids:
            return False
        cids.add(cid)
        return True

    def is_outstanding(self, sq_id: int, cid: int) -> bool:
        """True until the completion of that command is posted."""
        return cid in self._cids.get(sq_id, ())

    def complete(
        self, sq_id: int, cid: int, status: int, result: int = 0, *, ends_command: bool = True
    ) -> None:
        """Post a completion, or hold it until there is room.

        `ends_command` is False for the refusal of a command whose identifier another one still uses.
        Raises: UsageError if the memory of the queue is no longer mapped.
        """
        sq = self._submission[sq_id]
        held = self._held[sq.cq_id]
        held.append(_HeldCompletion(sq, cid, status, result, ends_command))
        self.post_held(sq.cq_id)

    def post_held(self, cq_id: int) -> None:
        """Post as many held completions as there is room for, in order.

        Raises: UsageError if the memory of the queue is no longer mapped.
        """
        cq, held = self._completion[cq_id], self._held[cq_id]
        while held and not cq.is_full:
            first = held[0]
            dnr = first.status not in _WORTH_A_RETRY
            cq.post(Cqe(first.cid, first.status, first.sq.sq_id, first.sq.head, first.result, dnr=dnr))
            held.popleft()
            if first.ends_command:
                self._cids[first.sq.sq_id].discard(first.cid)
            if cq.vector is not None:
                self._vectors[cq.vector] = None

    def take_vectors(self, mask: int) -> list[int]:
        """Take the vectors of queues that got new entries, except those whose bit in `mask` is set."""
        taken = [vector for vector in self._vectors if vector >= 32 or not mask >> vector & 1]
        for vector in taken:
            del self._vectors[vector]
        return taken

    def _is_drained(self, sq_id: int) -> bool:
        held = self._held[self._submission[sq_id].cq_id]
        return not self._cids[sq_id] and all(completion.sq.sq_id != sq_id for completion in held)

    def _check_ring(self, address: int, entry_count: int) -> NvmeStatus:
        if not 2 <= entry_count <= self.max_entry_count:
            return NvmeStatus.INVALID_QUEUE_SIZE
        return NvmeStatus.PRP_OFFSET_INVALID if address % PAGE_BYTES else NvmeStatus.SUCCESS

    def _add_submission(self, sq: SubmissionQueue) -> None:
        self._submission[sq.sq_id] = sq
        self._cids[sq.sq_id] = set()

    def _add_completion(self, cq: CompletionQueue) -> None:
        self._completion[cq.cq_id] = cq
        self._held[cq.cq_id] = deque()
