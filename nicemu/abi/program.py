# SPDX-License-Identifier: Apache-2.0
"""What people arm: a list of operations, each behind a condition on a counter, armed all or nothing.

A `Program` knows nothing of the NIC that will run it; the host library arms it, and a backend with triggers
of its own may take it over whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from nicemu.errors import UsageError

from .work import DeferredWork, Opcode, Sge, WorkRequest


class CounterLike(Protocol):
    """Anything with a counter's number."""

    @property
    def index(self) -> int:
        """The counter's number."""
        ...


@dataclass(frozen=True, slots=True)
class Condition:
    """`counter >= threshold`: success plus errors of the counter have reached the threshold."""

    counter: int
    threshold: int


@dataclass(frozen=True, slots=True)
class Span:
    """Registered local memory: a bus address, a length, and the key that covers it."""

    address: int
    length_bytes: int
    key: int

    def __getitem__(self, part: slice) -> Span:
        start, stop = _bounds(part, self.length_bytes)
        return Span(self.address + start, stop - start, self.key)

    def sge(self) -> Sge:
        """The span as a scatter/gather element."""
        return Sge(self.address, self.length_bytes, self.key)


@dataclass(frozen=True, slots=True)
class RemoteSpan:
    """Memory of a peer, reached through queue pair `qp_num`: an iova, a length, and the rkey that covers
    it.
    """

    qp_num: int
    address: int
    length_bytes: int
    rkey: int

    def __getitem__(self, part: slice) -> RemoteSpan:
        start, stop = _bounds(part, self.length_bytes)
        return RemoteSpan(self.qp_num, self.address + start, stop - start, self.rkey)


def _bounds(part: slice, length_bytes: int) -> tuple[int, int]:
    """Return where a piece begins and ends; unlike a list's, it does not end where the memory does."""
    start, stop, step = part.indices(length_bytes)
    outside = (part.start or 0) > length_bytes or (part.stop or 0) > length_bytes
    if step != 1 or stop <= start or outside:
        raise UsageError(f"bytes {part.start}:{part.stop} of {length_bytes} are no piece of memory")
    return start, stop


class Step:
    """The operation behind a condition; exactly one of its methods is called."""

    def __init__(self, program: Program, condition: Condition) -> None:
        self._program = program
        self._condition = condition

    def _arm(self, work: WorkRequest, qp_num: int, then: CounterLike | None) -> None:
        completion = None if then is None else then.index
        self._program.append(
            DeferredWork(
                self._condition.counter,
                self._condition.threshold,
                work.opcode,
                work,
                qp_num,
                completion,
            )
        )

    @staticmethod
    def _pieces(local: Span | tuple[Span, ...], remote: RemoteSpan) -> tuple[Sge, ...]:
        spans = (local,) if isinstance(local, Span) else local
        length = sum(span.length_bytes for span in spans)
        if length != remote.length_bytes:
            raise UsageError(f"{length} local bytes, {remote.length_bytes} remote bytes; they must be equal")
        return tuple(span.sge() for span in spans)

    def write(
        self,
        local: Span | tuple[Span, ...],
        remote: RemoteSpan,
        *,
        imm_data: int | None = None,
        then: CounterLike | None = None,
        signaled: bool = False,
    ) -> None:
        """RDMA write, with immediate if `imm_data` is given; `then` counts its completion (delivered)."""
        opcode = Opcode.RDMA_WRITE if imm_data is None else Opcode.RDMA_WRITE_WITH_IMM
        sges = self._pieces(local, remote)
        work = WorkRequest(opcode, sges, remote.address, remote.rkey, imm_data or 0, signaled=signaled)
        self._arm(work, remote.qp_num, then)

    def read(
        self,
        local: Span | tuple[Span, ...],
        remote: RemoteSpan,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
    ) -> None:
        """RDMA read into local memory."""
        sges = self._pieces(local, remote)
        work = WorkRequest(Opcode.RDMA_READ, sges, remote.address, remote.rkey, signaled=signaled)
        self._arm(work, remote.qp_num, then)

    def fetch_add(
        self,
        old: Span,
        remote: RemoteSpan,
        value: int,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
    ) -> None:
        """Add to 8 remote bytes; the old value lands in `old`."""
        work = WorkRequest(
            Opcode.FETCH_ADD, (old.sge(),), remote.address, remote.rkey, compare_add=value, signaled=signaled
        )
        self._arm(work, remote.qp_num, then)

    def add(self, counter: CounterLike, value: int = 1) -> None:
        """Add to the success value of another counter."""
        self._program.append(
            DeferredWork(
                self._condition.counter,
                self._condition.threshold,
                Opcode.COUNTER_ADD,
                target=counter.index,
                value=value,
            )
        )

    def set(self, counter: CounterLike, value: int) -> None:
        """Set the success value of another counter."""
        self._program.append(
            DeferredWork(
                self._condition.counter,
                self._condition.threshold,
                Opcode.COUNTER_SET,
                target=counter.index,
                value=value,
            )
        )


@dataclass(slots=True)
class Program:
    """Operations in arming order. Nothing is armed while it is written."""

    name: str
    work: list[DeferredWork] = field(default_factory=list)

    def when(self, condition: Condition) -> Step:
        """Begin an operation that fires once `condition` holds.

        Raises: UsageError for a negative threshold.
        """
        wrong = not isinstance(condition, Condition) or not isinstance(condition.threshold, int)
        if wrong or condition.threshold < 0:
            raise UsageError(f"write `when(counter >= threshold)`; {condition!r} is no such condition")
        return Step(self, condition)

    def append(self, work: DeferredWork) -> None:
        """Add an operation."""
        self.work.append(work)

    @property
    def entries(self) -> int:
        """Trigger slots the program takes."""
        return len(self.work)
