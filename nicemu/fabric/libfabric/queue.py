# SPDX-License-Identifier: Apache-2.0
"""Deferred work on its way through a libfabric domain: queued, kept going, cancelled, completed.

One caller at a time: the target that has the queue sees to that.
Sources: fi_trigger(3), DEFERRED WORK QUEUES; fi_cq(3).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from nicemu.abi import (
    DeferredWork,
    Limits,
    Opcode,
    TriggerTableFull,
    Unsupported,
    WorkCompletion,
)
from nicemu.errors import NicemuError, VerbsStatus, counted

from . import abi as fi
from .counter import LibfabricCounter
from .domain import Domain, QueueEntry, Region
from .ledger import Ledger
from .provider import Provider
from .window import Windows
from .work import QueuedWork, QueuePair, WorkBuilder

_TRY_AGAIN_S = 5.0
_BETWEEN_TRIES_S = 50e-6
_NO_PEER = frozenset({-2, -107, -110, -111, -113})
"""What `sockets` says when it connects to nobody: ENOENT, ENOTCONN, ETIMEDOUT, ECONNREFUSED, EHOSTUNREACH."""
_AGAIN, _NO_SPACE, _NOT_SUPPORTED = -11, -28, -38
_STATUS = {
    13: VerbsStatus.REM_ACCESS_ERR,
    22: VerbsStatus.REM_INV_REQ_ERR,
    104: VerbsStatus.RETRY_EXC_ERR,
    107: VerbsStatus.RETRY_EXC_ERR,
    110: VerbsStatus.RETRY_EXC_ERR,
    111: VerbsStatus.RETRY_EXC_ERR,
    125: VerbsStatus.WR_FLUSH_ERR,
    265: VerbsStatus.LOC_LEN_ERR,
}
"""By errno of an error entry; 265 is libfabric's own, of a message that was cut. Source: fi_errno(3)."""


class WorkQueue:
    """The deferred work of one domain."""

    def __init__(
        self,
        provider: Provider,
        domain: Domain,
        limits: Limits,
        counters: Mapping[int, LibfabricCounter],
        queue_pairs: Mapping[int, QueuePair],
        regions: Mapping[int, Region],
    ) -> None:
        self._provider = provider
        self._domain = domain
        self._limits = limits
        self._counters = counters
        self._completions: deque[WorkCompletion] = deque()
        self.ledger = Ledger(lambda index: counters[index].values())
        self._builder = WorkBuilder(domain.lib, limits, domain.max_tag, queue_pairs, regions, counters)
        self._room = limits.host_slots
        self._windows = Windows(self.ledger, self._room, self._give, self._refused)
        self.looked_ns = 0

    def queue(self, work: list[DeferredWork]) -> list[tuple[int, int]]:
        """Check all of `work`, then give it to the provider; return handles.

        Raises: TriggerTableFull, UsageError, Unsupported.
        """
        queued = self._checked(work)
        free = self._make_room(len(queued))
        if len(queued) > free:
            raise TriggerTableFull(
                f"{counted(len(queued), 'operation')}; {free} of {self._room} trigger slots are free "
                "(ENOSPC); nothing was armed"
            )
        self._arm(queued)
        return [(one.deferred.trigger, one.sequence) for one in queued]

    def open_window(self, work: list[DeferredWork], size: int) -> int:
        """Check all of `work` and arm the first `size` operations; return a number for `cancel_windows`.

        Raises: as `queue`.
        """
        queued = self._checked(work)
        first = queued[:size]
        free = self._make_room(len(first))
        if len(first) > free:
            raise TriggerTableFull(
                f"a window of {counted(len(first), 'operation')}, {counted(free, 'trigger slot')} free "
                "(ENOSPC); nothing was armed"
            )
        self._arm(first)
        number = self._windows.open(first, queued[size:], size)
        self.look(kick=False)
        return number

    def _checked(self, work: list[DeferredWork]) -> list[QueuedWork]:
        queued = [self._builder.build(item) for item in work]
        if self._provider.cycles_hang:
            self._refuse_cycles(queued)
        return queued

    def _make_room(self, count: int) -> int:
        """Return how many trigger slots are free, and look for some where they are fewer than `count`."""
        if self.ledger.waiting + count > self._room:
            self._look(kick=True)
        return self._room - self.ledger.waiting

    def _arm(self, queued: list[QueuedWork]) -> None:
        for position, one in enumerate(queued):
            self.ledger.add(one)
            status = self._queue_one(one)
            if status:
                self.ledger.withdraw(one)
                self._refuse(status, one.deferred.opcode, self._take_back(queued[:position]))

    def _queue_one(self, work: QueuedWork) -> int:
        """Give one operation to the provider; one that fires at once may find its queue full for a while."""
        deadline = time.monotonic() + _TRY_AGAIN_S
        while True:
            status = self._give(work)
            if status != _AGAIN or time.monotonic() > deadline:
                return status
            self._look(kick=False)
            time.sleep(_BETWEEN_TRIES_S)

    def _give(self, work: QueuedWork) -> int:
        return self._domain.control(fi.QUEUE_WORK, work.memory)

    def _take_back(self, armed: list[QueuedWork]) -> int:
        """Cancel what was armed before the provider refused what follows; return how much it cannot."""
        left = 0
        for work in armed:
            if not self._provider.single_cancel or self._domain.control(fi.CANCEL_WORK, work.memory):
                left += 1
            else:
                self.ledger.withdraw(work)
        return left

    def _refuse(self, status: int, opcode: Opcode, left: int) -> None:
        """Raises: what the provider's status says."""
        stays = f"; {_stay(left, 'before it')}" if left else ""
        if status == _NOT_SUPPORTED:
            raise Unsupported("R15", f"{self._provider.name} defers no {opcode.name}{stays}")
        if status == _NO_SPACE:
            raise TriggerTableFull(
                f"{self._provider.name} has no trigger slot for {opcode.name} (ENOSPC): others have "
                f"some of the {self._room}{stays}"
            )
        peer = " (is the peer there?)" if status in _NO_PEER else ""
        self._domain.lib.check(status, f"{self._provider.name} refused {opcode.name}{stays}{peer}")

    def _refuse_cycles(self, queued: list[QueuedWork]) -> None:
        if not any(work.counts_only for work in queued):
            return
        counter = self.ledger.closes_a_cycle(queued)
        if counter is not None:  # perhaps only by way of work that has fired
            self._look(kick=True)
            counter = self.ledger.closes_a_cycle(queued)
        if counter is not None:
            raise Unsupported(
                "R31",
                f"deferred counts lead from counter {self._counters[counter].name} back to it, which hangs "
                f"{self._provider.name}",
            )

    def cancel(self, handle: tuple[int, int]) -> bool:
        """Cancel one operation: True if it will never fire. Raises: Unsupported."""
        if not self._provider.single_cancel:
            raise Unsupported("R37", f"{self._provider.name} cancels no single operation")
        self._look(kick=False)
        work = self.ledger.armed(handle[1])
        if work is None or work.reached:
            return False
        status = self._domain.control(fi.CANCEL_WORK, work.memory)
        if status == _NOT_SUPPORTED:
            raise Unsupported("R37", f"{self._provider.name} cancels no single operation")
        if status == 0:
            self.ledger.withdraw(work)
        return status == 0

    def cancel_windows(self, numbers: list[int]) -> int:
        """Close windows and cancel what they have armed; return how many operations will never fire.

        Raises: Unsupported where single operations cannot be cancelled and some are armed. These stay; what
        was not armed never is.
        """
        self._look(kick=True)
        forgone, armed = self._windows.forgo(numbers)
        if armed and not self._provider.single_cancel:
            raise Unsupported(
                "R37",
                f"{self._provider.name} cancels no single operation: {_stay(len(armed), 'of the window')}"
                f"{_and_never(forgone)}",
            )
        return forgone + sum(self.cancel((work.deferred.trigger, work.sequence)) for work in armed)

    def flush(self, counter: LibfabricCounter | None) -> int:
        """Cancel what waits for a counter (None: all that waits); return how much.

        What windows had not armed yet never is. Raises: Unsupported, if anything else waits.
        """
        if self._limits.domain_flush:
            counter = None
        index = None if counter is None else counter.index
        self._look(kick=True)
        forgone = self._windows.forgo_counter(index)
        if not self._provider.flush:
            if forgone and not self.ledger.waiting_for(index):
                return forgone
            raise Unsupported("R38", f"{self._provider.name} cannot flush deferred work{_and_never(forgone)}")
        argument = self._domain.lib.ffi.NULL if counter is None else counter.fid
        status = self._domain.control(fi.FLUSH_WORK, argument)
        if status == _NOT_SUPPORTED:
            raise Unsupported("R38", f"{self._provider.name} cannot flush deferred work{_and_never(forgone)}")
        self._domain.lib.check(status, "flushing deferred work")
        return forgone + self.ledger.withdraw_waiting(index, time.monotonic_ns())

    def look(self, kick: bool) -> None:
        """Drain the completion queue, let go of what has ended, and arm what is next in windows.

        `kick`: start again what has stalled.
        """
        self._look(kick)
        self._windows.refill()

    def _look(self, kick: bool) -> None:
        now_ns = self.looked_ns = time.monotonic_ns()
        for entry in self._domain.read_queue():
            self._take(entry, now_ns)
        self.ledger.look(now_ns)
        if kick:
            for index in self.ledger.stalled():
                self._counters[index].kick()
                self.ledger.counts_have_fired(index, now_ns)

    def _take(self, entry: QueueEntry, now_ns: int) -> None:
        status = _STATUS.get(entry.error, VerbsStatus.GENERAL_ERR) if entry.error else VerbsStatus.SUCCESS
        imm_data = entry.data & 0xFFFFFFFF if entry.flags & fi.REMOTE_CQ_DATA else None
        work = self.ledger.find(entry.context)
        if work is None or work.deferred.work is None:  # a peer's write with an immediate
            self._completions.append(WorkCompletion(0, status, Opcode.RECV, entry.length_bytes, 0, imm_data))
            return
        request, qp_num = work.deferred.work, work.deferred.qp_num
        self.ledger.ended(work, self._provider.failures_count or not entry.error, now_ns)
        self._completions.append(
            WorkCompletion(request.wr_id, status, request.opcode, entry.length_bytes, qp_num, imm_data)
        )

    def _refused(self, work: QueuedWork, status: int) -> None:
        """Tell, by an error entry, of an operation of a window that the provider did not take."""
        what = _STATUS.get(-status, VerbsStatus.GENERAL_ERR)
        request = work.deferred.work
        wr_id = 0 if request is None else request.wr_id
        self._completions.append(WorkCompletion(wr_id, what, work.deferred.opcode, 0, work.deferred.qp_num))

    def take_completions(self) -> list[WorkCompletion]:
        """Return the completions that have come in."""
        self.look(kick=False)
        taken = list(self._completions)
        self._completions.clear()
        return taken

    def finish(self, within_s: float) -> None:
        """Flush if the provider can, and give what has fired some time to end."""
        self._windows.forgo_counter(None)
        if self._provider.flush:
            with suppress(NicemuError):
                self.flush(None)
        deadline = time.monotonic() + within_s
        while self.ledger.in_flight and time.monotonic() < deadline:
            self._look(kick=True)
            time.sleep(_BETWEEN_TRIES_S)


def _and_never(forgone: int) -> str:
    """Say what will not happen, for a refusal that has changed something nevertheless."""
    if not forgone:
        return ""
    were = "were" if forgone > 1 else "was"
    return f"; {counted(forgone, 'operation')} that {were} not armed yet never will be"


def _stay(count: int, which: str) -> str:
    return f"{counted(count, 'operation')} {which} {'stay' if count > 1 else 'stays'} armed"
