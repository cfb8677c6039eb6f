# SPDX-License-Identifier: Apache-2.0
"""What people arm: a list of operations, each behind a condition on a counter, armed all or nothing.

A `Program` knows nothing of the NIC that will run it; the host library arms it, and a backend with triggers
of its own may take it over whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from nicemu.errors import UsageError

from .check import Finding, check_program
from .limits import Limits
from .work import AtomicOperation, DeferredWork, Opcode, Sge, WorkRequest


class CounterLike(Protocol):
    """Anything with a counter's number and name."""

    @property
    def index(self) -> int:
        """The counter's number."""
        ...

    @property
    def name(self) -> str:
        """What people call it."""
        ...


@dataclass(frozen=True, slots=True)
class Condition:
    """`counter >= threshold`: success plus errors of the counter have reached the threshold."""

    counter: int
    threshold: int
    name: str = field(default="", compare=False)
    target: object = field(default=None, compare=False, repr=False)
    """What the counter belongs to, if that is known: its number means nothing elsewhere."""

    def __bool__(self) -> bool:
        raise UsageError("a condition is neither true nor false here; one step has one condition (no `and`)")


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


Pieces: TypeAlias = Span | tuple[Span, ...]
"""Local memory of one operation: one piece, or two that are gathered or scattered."""


def _bounds(part: slice, length_bytes: int) -> tuple[int, int]:
    """Return where a piece begins and ends; unlike a list's, it does not end where the memory does."""
    start, stop, step = part.indices(length_bytes)
    outside = (part.start or 0) > length_bytes or (part.stop or 0) > length_bytes
    if step != 1 or stop <= start or outside:
        raise UsageError(f"bytes {part.start}:{part.stop} of {length_bytes} are no piece of memory")
    return start, stop


class Step:
    """The operation behind a condition; exactly one of its methods is called.

    What data operations have in common: `then` counts the end, success or error; `signaled` puts an entry
    into the completion queue also when all is well; `transmitted` ends the operation when its last byte has
    left instead of when it has been delivered; `write_back` publishes the *triggering* counter once more when
    the end has been counted (useful where `then` is that counter), for one more trigger slot.
    Source: fi_trigger(3), DEFERRED WORK QUEUES; fi_cq(3), completion levels; fi_cxi(7), FI_CXI_CNTR_WB.
    """

    def __init__(self, program: Program, condition: Condition) -> None:
        self._program = program
        self._condition = condition

    def _arm(
        self,
        work: WorkRequest,
        qp_num: int,
        then: CounterLike | None,
        write_back: bool,
        nsid: int = 0,
        slba: int = 0,
    ) -> None:
        completion = None if then is None else self._program.named(then)
        counter, threshold = self._condition.counter, self._condition.threshold
        self._program.append(
            DeferredWork(counter, threshold, work.opcode, work, qp_num, completion, nsid=nsid, slba=slba)
        )
        if write_back:
            self._program.append(DeferredWork(counter, threshold + 1, Opcode.WRITE_BACK))

    @staticmethod
    def _pieces(local: Pieces, remote: RemoteSpan) -> tuple[Sge, ...]:
        spans = (local,) if isinstance(local, Span) else local
        length = sum(span.length_bytes for span in spans)
        if length != remote.length_bytes:
            raise UsageError(f"{length} local bytes, {remote.length_bytes} remote bytes; they must be equal")
        return tuple(span.sge() for span in spans)

    def write(
        self,
        local: Pieces,
        remote: RemoteSpan,
        *,
        imm_data: int | None = None,
        then: CounterLike | None = None,
        signaled: bool = False,
        transmitted: bool = False,
        write_back: bool = False,
    ) -> None:
        """RDMA write, with immediate if `imm_data` is given."""
        opcode = Opcode.RDMA_WRITE if imm_data is None else Opcode.RDMA_WRITE_WITH_IMM
        work = WorkRequest(
            opcode,
            self._pieces(local, remote),
            remote.address,
            remote.rkey,
            imm_data or 0,
            signaled=signaled,
            transmitted=transmitted,
        )
        self._arm(work, remote.qp_num, then, write_back)

    def read(
        self,
        local: Pieces,
        remote: RemoteSpan,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
        write_back: bool = False,
    ) -> None:
        """RDMA read into local memory."""
        sges = self._pieces(local, remote)
        work = WorkRequest(Opcode.RDMA_READ, sges, remote.address, remote.rkey, signaled=signaled)
        self._arm(work, remote.qp_num, then, write_back)

    def send(
        self,
        local: Pieces,
        qp_num: int,
        *,
        imm_data: int | None = None,
        then: CounterLike | None = None,
        signaled: bool = False,
        transmitted: bool = False,
        write_back: bool = False,
    ) -> None:
        """Send a message; it lands in the next receive that the peer has posted."""
        spans = (local,) if isinstance(local, Span) else local
        opcode = Opcode.SEND if imm_data is None else Opcode.SEND_WITH_IMM
        sges = tuple(span.sge() for span in spans)
        work = WorkRequest(opcode, sges, imm_data=imm_data or 0, signaled=signaled, transmitted=transmitted)
        self._arm(work, qp_num, then, write_back)

    def receive(
        self,
        local: Span,
        qp_num: int,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
        wr_id: int = 0,
    ) -> None:
        """Post a receive; `then` counts the message that lands in it."""
        work = WorkRequest(Opcode.RECV, (local.sge(),), signaled=signaled, wr_id=wr_id)
        self._arm(work, qp_num, then, False)

    def tagged_send(
        self,
        local: Span,
        qp_num: int,
        tag: int,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
        transmitted: bool = False,
    ) -> None:
        """Send a message with a tag; it lands in a posted receive that takes this tag."""
        work = WorkRequest(
            Opcode.TAGGED_SEND, (local.sge(),), tag=tag, signaled=signaled, transmitted=transmitted
        )
        self._arm(work, qp_num, then, False)

    def tagged_receive(
        self,
        local: Span,
        qp_num: int,
        tag: int,
        *,
        ignore: int = 0,
        then: CounterLike | None = None,
        signaled: bool = False,
        wr_id: int = 0,
    ) -> None:
        """Post a receive for messages whose tag is `tag`, but for the bits that are set in `ignore`."""
        work = WorkRequest(
            Opcode.TAGGED_RECV, (local.sge(),), signaled=signaled, wr_id=wr_id, tag=tag, ignore=ignore
        )
        self._arm(work, qp_num, then, False)

    def atomic(
        self,
        operation: AtomicOperation,
        remote: RemoteSpan,
        value: int,
        *,
        swap: int = 0,
        old: Span | None = None,
        then: CounterLike | None = None,
        signaled: bool = False,
        write_back: bool = False,
    ) -> None:
        """Change 8 remote bytes (unsigned) in one step; the old value lands in `old`, if that is given.

        `value` is the operand; for COMPARE_SWAP it is what must be there for `swap` to be stored.
        """
        if remote.length_bytes != 8 or (old is not None and old.length_bytes != 8):
            raise UsageError("an atomic changes 8 remote bytes, and its old value takes 8 local ones")
        work = WorkRequest(
            Opcode.ATOMIC,
            () if old is None else (old.sge(),),
            remote.address,
            remote.rkey,
            compare_add=value,
            swap=swap,
            signaled=signaled,
            operation=operation,
        )
        self._arm(work, remote.qp_num, then, write_back)

    def fetch_add(
        self,
        old: Span,
        remote: RemoteSpan,
        value: int,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
    ) -> None:
        """Add to 8 remote bytes; the old value lands in `old`. The verbs atomic, on any transport."""
        work = WorkRequest(
            Opcode.FETCH_ADD, (old.sge(),), remote.address, remote.rkey, compare_add=value, signaled=signaled
        )
        self._arm(work, remote.qp_num, then, False)

    def compare_swap(
        self,
        old: Span,
        remote: RemoteSpan,
        compare: int,
        swap: int,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
    ) -> None:
        """Store `swap` in 8 remote bytes if they hold `compare`; the old value lands in `old`."""
        work = WorkRequest(
            Opcode.COMPARE_SWAP,
            (old.sge(),),
            remote.address,
            remote.rkey,
            compare_add=compare,
            swap=swap,
            signaled=signaled,
        )
        self._arm(work, remote.qp_num, then, False)

    def nvme_read(
        self,
        local: Span,
        nsid: int,
        slba: int,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
    ) -> None:
        """Read blocks of a namespace of this NIC, from `slba` on, into local memory (whole blocks)."""
        work = WorkRequest(Opcode.NVME_READ, (local.sge(),), signaled=signaled)
        self._arm(work, 0, then, False, nsid, slba)

    def nvme_write(
        self,
        local: Span,
        nsid: int,
        slba: int,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
    ) -> None:
        """Write local memory (whole blocks) to a namespace of this NIC, from `slba` on."""
        work = WorkRequest(Opcode.NVME_WRITE, (local.sge(),), signaled=signaled)
        self._arm(work, 0, then, False, nsid, slba)

    def event(self, event: int, value: int = 0) -> None:
        """Hand an event to the NIC's firmware (`@on_trigger`); `event` is what `nic.event(name)` returned."""
        self._append(Opcode.FIRMWARE_EVENT, 0, value, event)

    def add(self, counter: CounterLike, value: int = 1) -> None:
        """Add to the success value of another counter."""
        self._append(Opcode.COUNTER_ADD, self._program.named(counter), value)

    def set(self, counter: CounterLike, value: int) -> None:
        """Set the success value of another counter."""
        self._append(Opcode.COUNTER_SET, self._program.named(counter), value)

    def _append(self, opcode: Opcode, target: int, value: int, cookie: int = 0) -> None:
        condition = self._condition
        if not isinstance(value, int) or value < 0:
            raise UsageError(f"{value!r} is no unsigned count (EINVAL)")
        self._program.append(
            DeferredWork(condition.counter, condition.threshold, opcode, None, 0, None, target, value, cookie)
        )


@dataclass(slots=True)
class Program:
    """Operations in arming order. Nothing is armed while it is written."""

    name: str
    work: list[DeferredWork] = field(default_factory=list)
    counter_names: dict[int, str] = field(default_factory=dict)
    target: object = field(default=None, repr=False)

    def when(self, condition: Condition) -> Step:
        """Begin an operation that fires once `condition` holds.

        Raises: UsageError for a negative threshold.
        """
        wrong = not isinstance(condition, Condition) or not isinstance(condition.threshold, int)
        if wrong or condition.threshold < 0:
            raise UsageError(f"write `when(counter >= threshold)`; {condition!r} is no such condition")
        self._check_target(condition.target, condition.name)
        if condition.name:
            self.counter_names[condition.counter] = condition.name
        return Step(self, condition)

    def named(self, counter: CounterLike) -> int:
        """Return a counter's number, and remember what people call it.

        Raises: UsageError for what is no counter, or one of another NIC.
        """
        if not isinstance(getattr(counter, "index", None), int):
            raise UsageError(f"{counter!r} is no counter (EINVAL)")
        self._check_target(getattr(counter, "target", None), getattr(counter, "name", ""))
        self.counter_names[counter.index] = getattr(counter, "name", "")
        return counter.index

    def _check_target(self, target: object, name: str) -> None:
        if None not in (target, self.target) and target is not self.target:
            raise UsageError(f"counter {name} is another NIC's; its number means something else here")

    def check(self, target: str | Limits = "cassini") -> list[Finding]:
        """Say what would not work on a target, before anything runs; see `check_program`."""
        return check_program(self.work, target, self.counter_names)

    def append(self, work: DeferredWork) -> None:
        """Add an operation."""
        self.work.append(work)

    @property
    def entries(self) -> int:
        """Trigger slots the program takes."""
        return len(self.work)
