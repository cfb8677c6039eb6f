# SPDX-License-Identifier: Apache-2.0
"""Deferred work on its way through a libfabric domain: queued, kept going, cancelled, completed.

One caller at a time: the target that has the queue sees to that.
Sources: fi_trigger(3), DEFERRED WORK QUEUES; fi_cq(3).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping

from nicemu.abi import DeferredWork, Limits, Opcode, TriggerTableFull, Unsupported, WorkCompletion
from nicemu.errors import VerbsStatus

from . import libfabric_abi as fi
from .libfabric_counter import LibfabricCounter
from .libfabric_domain import Domain, QueueEntry, Region
from .libfabric_ledger import Ledger
from .libfabric_provider import Provider
from .libfabric_work import QueuedWork, QueuePair, WorkBuilder

_TRY_AGAIN_S = 5.0
_BETWEEN_TRIES_S = 50e-6
_AGAIN, _NOT_SUPPORTED = -11, -38
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
        self._builder = WorkBuilder(domain.lib, limits, queue_pairs, regions, counters)
        self.looked_ns = 0

    def queue(self, work: list[DeferredWork]) -> list[tuple[int, int]]:
        """Check all of `work`, then give it to the provider; return handles.

        Raises: TriggerTableFull, UsageError, Unsupported.
        """
        ledger, room = self.ledger, self._limits.host_slots
        queued = [self._builder.build(item) for item in work]
        if ledger.waiting + len(queued) > room:
            self.look(kick=True)
        if ledger.waiting + len(queued) > room:
            raise TriggerTableFull(
                f"{len(queued)} operations; {ledger.waiting} of {room} trigger slots are taken (ENOSPC); "
                "nothing was armed"
            )
        if self._provider.cycles_hang:
            self._refuse_cycles(queued)
        for position, one in enumerate(queued):
            ledger.add(one)
            status = self._queue_one(one)
            if status:
                ledger.withdraw(one)
                self._refuse(status, one.deferred.opcode, self._take_back(queued[:position]))
        return [(one.deferred.trigger, one.sequence) for one in queued]

    def _queue_one(self, work: QueuedWork) -> int:
        """Give one operation to the provider; one that fires at once may find its queue full for a while."""
        deadline = time.monotonic() + _TRY_AGAIN_S
        while True:
            status = self._domain.control(fi.QUEUE_WORK, work.memory)
            if status != _AGAIN or time.monotonic() > deadline:
                return status
            self.look(kick=False)
            time.sleep(_BETWEEN_TRIES_S)

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
        if status == _NOT_SUPPORTED:
            raise Unsupported("R15", f"{self._provider.name} defers no {opcode.name}")
        stays = f"; {left} operations before it stay armed, for it cannot cancel them" if left else ""
        self._domain.lib.check(status, f"{self._provider.name} refused a {opcode.name}{stays}")

    def _refuse_cycles(self, queued: list[QueuedWork]) -> None:
        if not any(work.counts_only for work in queued):
            return
        counter = self.ledger.closes_a_cycle(queued)
        if counter is not None:  # perhaps only by way of work that has fired
            self.look(kick=True)
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
        self.look(kick=False)
        work = self.ledger.armed(handle[1])
        if work is None or work.reached:
            return False
        status = self._domain.control(fi.CANCEL_WORK, work.memory)
        if status == _NOT_SUPPORTED:
            raise Unsupported("R37", f"{self._provider.name} cancels no single operation")
        if status == 0:
            self.ledger.withdraw(work)
        return status == 0

    def flush(self, counter: LibfabricCounter | None) -> int:
        """Cancel what waits for a counter (None: all that waits); return how much. Raises: Unsupported."""
        if not self._provider.flush:
            raise Unsupported("R38", f"{self._provider.name} cannot flush deferred work")
        if self._limits.domain_flush:
            counter = None
        self.look(kick=True)
        argument = self._domain.lib.ffi.NULL if counter is None else counter.fid
        status = self._domain.control(fi.FLUSH_WORK, argument)
        if status == _NOT_SUPPORTED:
            raise Unsupported("R38", f"{self._provider.name} cannot flush deferred work")
        self._domain.lib.check(status, "flushing deferred work")
        return self.ledger.withdraw_waiting(None if counter is None else counter.index, time.monotonic_ns())

    def look(self, kick: bool) -> None:
        """Drain the completion queue and let go of what has ended; `kick`: start again what has stalled."""
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

    def take_completions(self) -> list[WorkCompletion]:
        """Return the completions that have come in."""
        self.look(kick=False)
        taken = list(self._completions)
        self._completions.clear()
        return taken

    def finish(self, within_s: float) -> None:
        """Flush if the provider can, and give what has fired some time to end."""
        if self._provider.flush:
            self.flush(None)
        deadline = time.monotonic() + within_s
        while self.ledger.in_flight and time.monotonic() < deadline:
            self.look(kick=True)
            time.sleep(_BETWEEN_TRIES_S)
