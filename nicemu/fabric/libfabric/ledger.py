# SPDX-License-Identifier: Apache-2.0
"""What a libfabric domain has been given to do, and when it is known to have ended.

A provider says of deferred work no more than what its counters say, so an end is inferred. What a counter
shows beyond what is accounted for (host, deferred counts that have fired, earlier ends) are ends of the work
that counts there; when there are as many as can have fired, all that have fired have ended. Where that cannot
be known, because a value was set meanwhile or a peer counts too, work is kept until the target is closed.
What has ended is kept a little longer still: a provider may look at it once more after it has counted.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from nicemu.abi import Opcode

from .checks import RECEIVES
from .work import QueuedWork

GRACE_NS = 200_000_000


@dataclass(slots=True)
class _Account:
    """Of one counter: the sum of its values that is explained, and the work whose ends are not yet in it."""

    accounted: int = 0
    is_known: bool = True
    peers_count: bool = False
    outstanding: dict[int, QueuedWork] = field(default_factory=dict)
    due: dict[int, QueuedWork] = field(default_factory=dict)
    """Of what is outstanding, what was seen to reach its threshold; nothing else has fired."""
    may_overlook: bool = False
    """That is not certain: a trigger may have been set to a lower value before anybody looked."""
    aims: int = 0
    """Deferred counts and sets that aim at the counter and are not known to have fired."""

    @property
    def is_quiet(self) -> bool:
        return not self.outstanding and not self.aims


class Ledger:
    """All work that is not known to have ended. `read` returns both values of a counter."""

    def __init__(self, read: Callable[[int], tuple[int, int]]) -> None:
        self._read = read
        self._work: dict[int, QueuedWork] = {}
        self._promised: dict[int, QueuedWork] = {}
        self._contexts: dict[int, QueuedWork] = {}
        self._waiting: dict[int, list[tuple[int, int]]] = {}
        self._due: dict[int, dict[int, QueuedWork]] = {}
        self._accounts: dict[int, _Account] = {}
        self._edges: Counter[tuple[int, int]] = Counter()
        self._released: deque[tuple[int, int, QueuedWork]] = deque()
        self._next = 1
        self._sets = 0
        self._ever_set: set[int] = set()

    # What is there

    @property
    def waiting(self) -> int:
        """How much work has not been seen to reach its threshold."""
        return sum(map(len, self._waiting.values()))

    def waiting_for(self, counter: int | None) -> int:
        """How much work waits for a counter (None: for any)."""
        return self.waiting if counter is None else len(self._waiting.get(counter, ()))

    @property
    def in_flight(self) -> int:
        """How much work has reached its threshold and is not known to have ended, but for receives."""
        return sum(
            work.deferred.opcode not in RECEIVES for due in self._due.values() for work in due.values()
        )

    def concerning(self, counter: int) -> list[QueuedWork]:
        """Return the work that waits for a counter, counts at it, or changes it; also what is promised."""
        return [
            work
            for work in (*self._work.values(), *self._promised.values())
            if work.deferred.trigger == counter
            or (work.counts_only and work.deferred.target == counter)
            or (not work.counts_only and work.completion == counter)
        ]

    def find(self, context: int) -> QueuedWork | None:
        """Return the work whose context is at this address; it may have ended just now."""
        return self._contexts.get(context)

    def armed(self, sequence: int) -> QueuedWork | None:
        """Return work that is not known to have ended."""
        return self._work.get(sequence)

    def waits(self, work: QueuedWork) -> bool:
        """Whether work is queued, and not seen to have reached its threshold."""
        return not work.reached and self._work.get(work.sequence) is work

    def closes_a_cycle(self, new: Iterable[QueuedWork]) -> int | None:
        """Return a counter that would change itself by deferred counts and sets alone, if there is one."""
        edges: dict[int, set[int]] = {}
        fresh = {(work.deferred.trigger, work.deferred.target) for work in new if work.counts_only}
        fresh = {edge for edge in fresh if not self._edges[edge]}
        for trigger, target in (*self._edges, *fresh):
            edges.setdefault(trigger, set()).add(target)
        for start, target in fresh:
            ahead, reached = [target], {target}
            while ahead:
                counter = ahead.pop()
                if counter == start:
                    return start
                ahead += edges.get(counter, set()) - reached
                reached |= edges.get(counter, set())
        return None

    # What happens to it

    def promise(self, work: QueuedWork) -> None:
        """Note work that is queued later: what it needs stays till then, and it is an edge of cycles."""
        self._promised[work.context] = work
        self._pin(work)

    def forgo(self, work: QueuedWork) -> None:
        """Forget what was promised; it is not queued after all."""
        del self._promised[work.context]
        self._unpin(work)

    def _pin(self, work: QueuedWork) -> None:
        for region in work.regions:
            region.uses += 1
        if work.counts_only:
            self._edges[work.deferred.trigger, work.deferred.target] += 1

    def _unpin(self, work: QueuedWork) -> None:
        for region in work.regions:
            region.uses -= 1
        if work.counts_only:
            edge = work.deferred.trigger, work.deferred.target
            self._edges[edge] -= 1
            if not self._edges[edge]:
                del self._edges[edge]

    def add(self, work: QueuedWork) -> None:
        """Note work that is about to be queued, so that it is here when it fires."""
        if self._promised.pop(work.context, None) is None:
            self._pin(work)
        work.sequence, self._next = self._next, self._next + 1
        self._work[work.sequence] = work
        self._contexts[work.context] = work
        deferred = work.deferred
        account = self._account(deferred.target if work.counts_only else work.completion)
        if account.is_quiet:
            counter = deferred.target if work.counts_only else work.completion
            explained = account.accounted if account.is_known else 0
            account.accounted = max(explained, sum(self._read(counter)))  # a read may lag behind
            account.is_known, account.may_overlook = not account.peers_count, False
        if work.counts_only:
            account.aims += 1
            if deferred.opcode is Opcode.COUNTER_SET:
                self._sets += 1
                self._may_be_set_back(deferred.target)
        else:
            account.outstanding[work.sequence] = work
            account.may_overlook = account.may_overlook or deferred.trigger in self._ever_set
        heap = self._waiting.setdefault(deferred.trigger, [])
        heapq.heappush(heap, (deferred.threshold, work.sequence))

    def counted(self, counter: int, count: int) -> None:
        """Note that the host counts."""
        self._account(counter).accounted += count

    def was_set(self, counter: int) -> None:
        """Note that a counter's values were replaced: what of its work ended meanwhile cannot be known."""
        self.look_at(counter)
        account = self._account(counter)
        account.is_known = account.is_known and account.is_quiet
        account.accounted = 0 if account.is_quiet else account.accounted
        self._may_be_set_back(counter)

    def _may_be_set_back(self, trigger: int) -> None:
        self._ever_set.add(trigger)
        for _, sequence in self._waiting.get(trigger, ()):
            work = self._work.get(sequence)
            if work is not None and not work.counts_only:
                self._account(work.completion).may_overlook = True

    def peers_count_at(self, counter: int) -> None:
        """Note that peers count at a counter."""
        account = self._account(counter)
        account.peers_count, account.is_known = True, False

    def withdraw(self, work: QueuedWork) -> None:
        """Forget work that the provider never took, or has cancelled."""
        self._remove(work)
        self._waiting[work.deferred.trigger] = [
            entry for entry in self._waiting.get(work.deferred.trigger, []) if entry[1] != work.sequence
        ]
        heapq.heapify(self._waiting[work.deferred.trigger])

    def withdraw_waiting(self, counter: int | None, now_ns: int) -> int:
        """Forget what waits for a counter (None: for any) and was flushed; return how much it was."""
        withdrawn = 0
        for trigger in [trigger for trigger in self._waiting if counter is None or trigger == counter]:
            for _, sequence in self._waiting.pop(trigger):
                work = self._work.get(sequence)
                if work is not None:
                    self._end(work, now_ns)
                    withdrawn += 1
        return withdrawn

    def ended(self, work: QueuedWork, counts: bool, now_ns: int) -> None:
        """Note that the completion queue tells of work's end; `counts`: its counter does so too."""
        if self._work.get(work.sequence) is not work:
            return
        if counts:
            self._account(work.completion).accounted += 1
        work.reached = True
        self._due.get(work.deferred.trigger, {}).pop(work.sequence, None)
        self._end(work, now_ns)

    # What can be inferred

    def look(self, now_ns: int) -> None:
        """Find out what has reached its threshold and what has ended, and let go of what ended long ago.

        Counters are read before it is looked at which counts can have fired, so that none is overlooked.
        """
        sums = {
            counter: sum(self._read(counter))
            for counter, account in self._accounts.items()
            if account.outstanding and account.is_known
        }
        for trigger in list(self._waiting):
            self._look_at_trigger(trigger)
        fired = self._counts_that_may_have_fired() if sums else {}
        for counter, total in sums.items():
            account = self._accounts[counter]
            ends = total - account.accounted - fired.get(counter, 0)
            fired_at_most = len(account.outstanding if account.may_overlook else account.due)
            if account.due and ends >= fired_at_most and (not account.aims or not self._sets):
                account.accounted += len(account.due)
                for work in list(account.due.values()):
                    self._due.get(work.deferred.trigger, {}).pop(work.sequence, None)
                    self._end(work, now_ns)
        while self._released and self._released[0][0] < now_ns - GRACE_NS:
            _, context, work = self._released.popleft()
            if self._contexts.get(context) is work:
                del self._contexts[context]

    def _counts_that_may_have_fired(self) -> dict[int, int]:
        """Return by counter what deferred counts that have reached their threshold add there."""
        counts: dict[int, int] = {}
        for due in self._due.values():
            for work in due.values():
                if work.deferred.opcode is Opcode.COUNTER_ADD:
                    counts[work.deferred.target] = counts.get(work.deferred.target, 0) + work.deferred.value
        return counts

    def stalled(self) -> list[int]:
        """Return the counters that have due work which is not known to have ended, but for receives."""
        return [
            trigger
            for trigger, due in self._due.items()
            if any(work.deferred.opcode not in RECEIVES for work in due.values())
        ]

    def counts_have_fired(self, trigger: int, now_ns: int) -> None:
        """Note that the provider has just been through the due work of a counter, as far as it could.

        It goes through it in order and stops at what it cannot carry out, so that deferred counts have been
        carried out where no data operation is in the way.
        """
        due = self._due.get(trigger, {})
        if any(not work.counts_only and work.deferred.opcode not in RECEIVES for work in due.values()):
            return
        for sequence, work in list(due.items()):
            if work.counts_only:
                del due[sequence]
                account = self._account(work.deferred.target)
                if work.deferred.opcode is Opcode.COUNTER_ADD:
                    account.accounted += work.deferred.value
                else:
                    account.is_known = account.is_known and not account.outstanding
                    account.accounted = account.accounted if account.outstanding else 0
                self._end(work, now_ns)

    def look_at(self, trigger: int) -> None:
        """Find out what has reached its threshold at one counter."""
        if trigger in self._waiting:
            self._look_at_trigger(trigger)

    def _look_at_trigger(self, trigger: int) -> None:
        heap = self._waiting[trigger]
        if not heap:
            del self._waiting[trigger]
            return
        if heap[0][0] > self._read(trigger)[0]:
            return
        value = self._read(trigger)[0]
        due = self._due.setdefault(trigger, {})
        while heap and heap[0][0] <= value:
            _, sequence = heapq.heappop(heap)
            work = self._work.get(sequence)
            if work is not None:
                work.reached = True
                due[sequence] = work
                if not work.counts_only:
                    self._account(work.completion).due[sequence] = work

    def _account(self, counter: int) -> _Account:
        return self._accounts.setdefault(counter, _Account())

    def forget_counter(self, counter: int) -> None:
        """Drop what is known of a counter that was closed."""
        self._ever_set.discard(counter)
        self._accounts.pop(counter, None)
        self._waiting.pop(counter, None)
        self._due.pop(counter, None)

    def _end(self, work: QueuedWork, now_ns: int) -> None:
        self._remove(work, keep_context=True)
        self._released.append((now_ns, work.context, work))

    def _remove(self, work: QueuedWork, keep_context: bool = False) -> None:
        self._work.pop(work.sequence, None)
        if not keep_context:
            self._contexts.pop(work.context, None)
        self._unpin(work)
        deferred = work.deferred
        if work.counts_only:
            self._account(deferred.target).aims -= 1
            self._sets -= deferred.opcode is Opcode.COUNTER_SET
        else:
            account = self._account(work.completion)
            account.outstanding.pop(work.sequence, None)
            account.due.pop(work.sequence, None)
