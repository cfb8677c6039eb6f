# SPDX-License-Identifier: Apache-2.0
"""What people arm: a list of operations, each behind a condition on a counter, armed all or nothing.

A `Program` knows nothing of the NIC that will run it; the host library arms it, and a backend with triggers
of its own may take it over whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol, SupportsIndex

from nicemu.errors import UsageError

from .check import Finding, check_program
from .limits import PROFILES, Limits
from .operands import U32_MAX, U64_MAX, shown, whole, yes_or_no
from .span import Pieces, RemoteSpan, Span, check_remote, local_piece, local_pieces
from .work import AtomicOperation, DeferredWork, Opcode, WorkRequest

_WORD_BYTES = 8
"""What an atomic changes, and as much takes its old value."""


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
    source: object = field(default=None, compare=False, repr=False)
    """The counter itself, if that is known: once it is closed, another one may get its number."""

    def __str__(self) -> str:
        return f"{self.name or f'counter {self.counter}'} >= {self.threshold}"

    def __bool__(self) -> bool:
        raise UsageError("a condition is neither true nor false here; one step has one condition (no `and`)")

    def _together(self, other: object) -> Condition:
        """Refuse what would make two conditions of one, or the contrary of one."""
        raise UsageError(
            "one step has one condition (no `&`, no `|`); for both of two, let each add to a third counter, "
            "when(a >= 1).add(both) and when(b >= 1).add(both), and write when(both >= 2) (EINVAL)"
        )

    __and__ = __rand__ = __or__ = __ror__ = _together


class Step:
    """The operation behind a condition; exactly one of its methods is called.

    What data operations have in common: `then` counts the end, success or error; `signaled` puts an entry
    into the completion queue also when all is well; `transmitted` ends the operation when its last byte has
    left instead of when it has been delivered; `write_back` publishes the *triggering* counter once more when
    the end has been counted (useful where `then` is that counter), for one more trigger slot.
    Raises: UsageError (EINVAL) for an operand that makes no sense, with nothing added to the program.
    Source: fi_trigger(3), DEFERRED WORK QUEUES; fi_cq(3), completion levels; fi_cxi(7), FI_CXI_CNTR_WB.
    """

    __slots__ = ("_program", "condition")

    def __init__(self, program: Program, condition: Condition) -> None:
        self._program = program
        self.condition = condition

    def _arm(
        self,
        work: WorkRequest,
        qp_num: int,
        then: CounterLike | None,
        write_back: bool,
        nsid: int = 0,
        slba: int = 0,
    ) -> None:
        if not type(work.signaled) is type(work.transmitted) is type(write_back) is bool:
            signaled = yes_or_no(work.signaled, "signaled")
            transmitted = yes_or_no(work.transmitted, "transmitted")
            work = replace(work, signaled=signaled, transmitted=transmitted)
            write_back = yes_or_no(write_back, "write_back")
        if type(qp_num) is not int:
            qp_num = whole(qp_num, "qp_num", most=U32_MAX)
        if write_back:
            self._check_write_back()
        completion = None if then is None else self._program.named(then)
        counter, threshold = self.condition.counter, self.condition.threshold
        self._append(
            DeferredWork(counter, threshold, work.opcode, work, qp_num, completion, nsid=nsid, slba=slba)
        )
        if write_back:
            self._append(DeferredWork(counter, threshold + 1, Opcode.WRITE_BACK))

    def _check_write_back(self) -> None:
        """Raise UsageError if the counter cannot get to the threshold of a write-back's own entry."""
        limits = getattr(self._program.target, "limits", None)
        most = limits.max_success if isinstance(limits, Limits) else U64_MAX
        if self.condition.threshold >= most:
            raise UsageError(
                f"{self.condition}: write_back=True takes an entry of its own, behind one count more than "
                f"the operation; {most} is the last that the counter gets to (EINVAL)"
            )

    def _append(self, work: DeferredWork) -> None:
        self._program.append(work)
        self._program.unwritten.pop(self, None)

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
            local_pieces(local, remote),
            remote.address,
            remote.rkey,
            _immediate(imm_data),
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
        sges = local_pieces(local, remote)
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
        opcode = Opcode.SEND if imm_data is None else Opcode.SEND_WITH_IMM
        work = WorkRequest(
            opcode,
            local_pieces(local),
            imm_data=_immediate(imm_data),
            signaled=signaled,
            transmitted=transmitted,
        )
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
        work = WorkRequest(Opcode.RECV, (local_piece(local),), signaled=signaled, wr_id=whole(wr_id, "wr_id"))
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
            Opcode.TAGGED_SEND,
            (local_piece(local),),
            tag=whole(tag, "tag"),
            signaled=signaled,
            transmitted=transmitted,
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
            Opcode.TAGGED_RECV,
            (local_piece(local),),
            signaled=signaled,
            wr_id=whole(wr_id, "wr_id"),
            tag=whole(tag, "tag"),
            ignore=whole(ignore, "ignore"),
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
        if not isinstance(operation, AtomicOperation):
            known = ", ".join(AtomicOperation.__members__)
            raise UsageError(f"{shown(operation)} is no AtomicOperation (EINVAL); there are {known}")
        work = self._atomic(Opcode.ATOMIC, old, remote, value, swap, signaled, operation)
        self._arm(work, remote.qp_num, then, write_back)

    @staticmethod
    def _atomic(
        opcode: Opcode,
        old: Span | None,
        remote: RemoteSpan,
        value: int,
        swap: int,
        signaled: bool,
        operation: AtomicOperation = AtomicOperation.SUM,
    ) -> WorkRequest:
        check_remote(remote, _WORD_BYTES)
        return WorkRequest(
            opcode,
            () if old is None and opcode is Opcode.ATOMIC else (local_piece(old, _WORD_BYTES),),
            remote.address,
            remote.rkey,
            compare_add=whole(value, "compare" if opcode is Opcode.COMPARE_SWAP else "value"),
            swap=whole(swap, "swap"),
            signaled=signaled,
            operation=operation,
        )

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
        work = self._atomic(Opcode.FETCH_ADD, old, remote, value, 0, signaled)
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
        work = self._atomic(Opcode.COMPARE_SWAP, old, remote, compare, swap, signaled)
        self._arm(work, remote.qp_num, then, False)

    def nvme_read(
        self,
        local: Span,
        nsid: int,
        slba: int,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
        queue: SupportsIndex = 0,
    ) -> None:
        """Read blocks of a namespace of this NIC, from `slba` on, into local memory (whole blocks).

        `queue`: what `counter.count_completions()` returned; that counter then counts by the controller's
        interrupt.
        """
        self._nvme(Opcode.NVME_READ, local, nsid, slba, then, signaled, queue)

    def nvme_write(
        self,
        local: Span,
        nsid: int,
        slba: int,
        *,
        then: CounterLike | None = None,
        signaled: bool = False,
        queue: SupportsIndex = 0,
    ) -> None:
        """Write local memory (whole blocks) to a namespace of this NIC, from `slba` on; as `nvme_read`."""
        self._nvme(Opcode.NVME_WRITE, local, nsid, slba, then, signaled, queue)

    def _nvme(
        self,
        opcode: Opcode,
        local: Span,
        nsid: int,
        slba: int,
        then: CounterLike | None,
        signaled: bool,
        queue: SupportsIndex,
    ) -> None:
        work = WorkRequest(opcode, (local_piece(local),), signaled=signaled)
        number = whole(queue, "queue (counter.count_completions() returns it)", most=0xFFFF)
        self._arm(work, number, then, False, whole(nsid, "nsid", most=U32_MAX), whole(slba, "slba"))

    def event(self, event: int, value: int = 0) -> None:
        """Hand an event to the NIC's firmware (`@on_trigger`); `event` is what `nic.event(name)` returned."""
        number = whole(event, "event (nic.event(name) returns it)")
        self._count(Opcode.FIRMWARE_EVENT, 0, value, number)

    def add(self, counter: CounterLike, value: int = 1) -> None:
        """Add to the success value of another counter."""
        self._count(Opcode.COUNTER_ADD, self._program.named(counter), value)

    def set(self, counter: CounterLike, value: int) -> None:
        """Set the success value of another counter."""
        self._count(Opcode.COUNTER_SET, self._program.named(counter), value)

    def _count(self, opcode: Opcode, target: int, value: int, cookie: int = 0) -> None:
        condition = self.condition
        if type(value) is not int or not 0 <= value <= U64_MAX:
            value = whole(value, "value")
        self._append(
            DeferredWork(condition.counter, condition.threshold, opcode, None, 0, None, target, value, cookie)
        )


def _immediate(imm_data: int | None) -> int:
    return 0 if imm_data is None else whole(imm_data, "imm_data", most=U32_MAX)


def check_counter(counter: CounterLike, target: object) -> CounterLike:
    """Return a counter that work for `target` may name.

    Raises: UsageError for a counter of another target, one that was closed, and what is none.
    """
    if not isinstance(getattr(counter, "index", None), int):
        raise UsageError(f"{shown(counter)} is no counter (EINVAL); nic.counters(name) returns some")
    its_target = getattr(counter, "target", None)
    if its_target is not target:
        _check_target(its_target, target, getattr(counter, "name", ""))
    if getattr(counter, "closed", False):
        raise _closed(counter)
    return counter


def _check_target(found: object, wanted: object, name: str) -> None:
    if found is None or wanted is None or found is wanted:
        return
    nic_name = getattr(found, "name", None)
    whose = "another NIC's"
    if nic_name is not None and nic_name == getattr(wanted, "name", None):
        whose = f"of another handle of {nic_name}, which was opened twice"
    raise UsageError(f"counter {name} is {whose}; its number means something else here (EINVAL)")


def _closed(counter: object) -> UsageError:
    return UsageError(f"counter {getattr(counter, 'name', '')} was closed (EINVAL); allocate another")


@dataclass(slots=True)
class Program:
    """Operations in arming order. Nothing is armed while it is written.

    `unwritten`: steps on which no operation was called so far, and how many entries were before them.
    """

    name: str
    work: list[DeferredWork] = field(default_factory=list)
    counter_names: dict[int, str] = field(default_factory=dict)
    target: object = field(default=None, repr=False)
    unwritten: dict[Step, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    _sources: dict[int, object] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By `id`: the counters that are named here and can be closed."""

    def when(self, condition: Condition) -> Step:
        """Begin an operation that fires once `condition` holds.

        Raises: UsageError for what is no condition, or one on a counter of another target or a closed one.
        """
        if not isinstance(condition, Condition):
            raise UsageError(f"write `when(counter >= threshold)`; {shown(condition)} is no such condition")
        if type(condition.threshold) is not int or not 0 <= condition.threshold <= U64_MAX:
            condition = replace(condition, threshold=whole(condition.threshold, "a threshold"))
        if condition.target is not self.target:
            _check_target(condition.target, self.target, condition.name)
        if condition.name:
            self.counter_names[condition.counter] = condition.name
        source = condition.source
        if source is not None and id(source) not in self._sources:
            if getattr(source, "closed", False):
                raise _closed(source)
            self._sources[id(source)] = source
        step = Step(self, condition)
        self.unwritten[step] = len(self.work)
        return step

    def check_written(self) -> None:
        """Raise UsageError for steps on which no operation was called, or only a refused one, and for a
        counter that was closed since it was named: its number may be another one's by now.
        """
        for source in self._sources.values():
            if getattr(source, "closed", False):
                raise UsageError(f"program {self.name}: {_closed(source)}")
        if not self.unwritten:
            return
        first = [f"step {place}, when({step.condition})" for step, place in list(self.unwritten.items())[:3]]
        more = ", ..." if len(self.unwritten) > len(first) else ""
        raise UsageError(
            f"program {self.name}: there is no operation at {', '.join(first)}{more} (EINVAL): none was "
            "called, or it was refused; call one, such as .write(...) or .add(...)"
        )

    def named(self, counter: CounterLike) -> int:
        """Return a counter's number, and remember what people call it.

        Raises: UsageError for what is no counter, or one of another NIC or a closed one.
        """
        check_counter(counter, self.target)
        if id(counter) not in self._sources and hasattr(counter, "closed"):
            self._sources[id(counter)] = counter
        self.counter_names[counter.index] = getattr(counter, "name", "")
        return counter.index

    def check(self, target: str | Limits = "cassini") -> list[Finding]:
        """Say what would not work on a target, before anything runs; see `check_program`.

        Raises: UsageError for what is no target, and for a step on which no operation was called.
        """
        if not isinstance(target, (str, Limits)):
            known = ", ".join(PROFILES)
            raise UsageError(
                f"a target is a Limits or a profile's name ({known}), not {shown(target)} (EINVAL)"
            )
        self.check_written()
        return check_program(self.work, target, self.counter_names)

    def append(self, work: DeferredWork) -> None:
        """Add an operation."""
        self.work.append(work)

    @property
    def entries(self) -> int:
        """Trigger slots the program takes."""
        return len(self.work)
