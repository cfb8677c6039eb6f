# SPDX-License-Identifier: Apache-2.0
"""Eviction by hints, as far as they have been right: finished first, then what is used again latest.

A hint decides nothing by itself; it says to which kind an entry belongs. How likely entries of each kind
come back is learned from what became of those before, the evicted ones too. The entry goes that is least
likely to be used soon: the chance that its kind comes back, over the time that it will take. That time is
taken to grow with the entry's age, as LRU does, or, where a use is expected, is that until then or, if it
is overdue, since. So hints that are right make finished entries go first, wrong ones lose their weight, and
if either kind comes back as often as the other, the order is LRU's. A hint drops nothing that has a place
in a tier below.
"""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from collections.abc import Generator, Hashable
from contextlib import ExitStack, closing
from typing import Final

from .policy import Hint, Policy, Record
from .ranked_queue import RankedQueue

_FADES = 1 << 14
"""Outcomes of a kind after which the older half counts half."""
_LATE = 4
"""An evicted entry that has not come back after so many mean intervals of reuse is lost."""
_TELLING = 1.5
"""Hints tell something if what was said to be used again comes back so many times as often, or as seldom."""
_REMEMBERED = 1 << 10
"""Evicted entries that are remembered at least; more if the tier has more."""


class _Kind(enum.IntEnum):
    """What was said of an entry."""

    FINISHED = 0
    UNKNOWN = 1
    EXPECTED = 2


_BELIEVED: Final = ((1.0, 64.0), (32.0, 64.0), (63.0, 64.0))
"""Reused, of how many: what is believed of each kind before anything has happened."""
_FINISHED, _UNKNOWN, _EXPECTED = map(int, _Kind)


def _kind(hint: Hint | None) -> int:
    if hint is None:
        return _UNKNOWN
    return _FINISHED if hint.finished else _UNKNOWN if hint.expected_ns is None else _EXPECTED


def _expected_ns(record: Record) -> int | None:
    """Return when an entry is expected to be used."""
    return None if record.hint is None or record.hint.finished else record.hint.expected_ns


class HintWorth:
    """What hints have been worth: how many entries of each kind came back, and after what time."""

    def __init__(self) -> None:
        self._reused = [reused for reused, _ in _BELIEVED]
        self._of = [of for _, of in _BELIEVED]
        self._intervals_ns = 0.0
        self._intervals = 0.0

    def chance(self, hint: Hint | None) -> float:
        """Return how likely an entry of which this was said comes back, 0 to 1."""
        return self.chances()[_kind(hint)]

    def chances(self) -> list[float]:
        """Return how likely entries come back: finished ones, unknown ones, expected ones."""
        return [reused / of for reused, of in zip(self._reused, self._of, strict=True)]

    @property
    def tells(self) -> bool:
        """Whether entries of which different things were said have fared differently."""
        finished, _, expected = self.chances()
        return max(finished, expected) > _TELLING * min(finished, expected)

    @property
    def interval_ns(self) -> float:
        """The mean time after which entries came back, 0 before the first did."""
        return self._intervals_ns / self._intervals if self._intervals else 0.0

    def came_back(self, hint: Hint | None, after_ns: int) -> None:
        """Count an entry that was used again."""
        kind = _kind(hint)
        self._reused[kind] += 1
        self._counted(kind)
        self._intervals_ns += after_ns
        self._intervals += 1
        if self._intervals > _FADES:
            self._intervals_ns, self._intervals = self._intervals_ns / 2, self._intervals / 2

    def stayed_away(self, hint: Hint | None) -> None:
        """Count an entry that was not."""
        self._counted(_kind(hint))

    def _counted(self, kind: int) -> None:
        self._of[kind] += 1
        if self._of[kind] > _FADES:
            self._of[kind], self._reused[kind] = self._of[kind] / 2, self._reused[kind] / 2


class HintPolicy(Policy):
    """Finished entries first, then those that are used again latest, each as far as hints have been right.

    It needs the memory of a key and a record for each entry, and for as many that were evicted.
    """

    name = "hint"
    heeds_hints = True

    def __init__(self) -> None:
        super().__init__()
        self.worth = HintWorth()
        self._by_use = [RankedQueue() for _ in _Kind]
        self._latest = RankedQueue()
        self._evicted: OrderedDict[Hashable, tuple[Hint | None, int]] = OrderedDict()

    def adopted(self, key: Hashable, record: Record, now_ns: int) -> None:
        """Hear of an entry; if it was evicted here before, it has come back."""
        super().adopted(key, record, now_ns)
        if key in self._evicted:
            hint, used_ns = self._evicted.pop(key)
            self.worth.came_back(hint, now_ns - used_ns)
        self._forget(now_ns)

    def touched(self, key: Hashable, now_ns: int) -> None:
        """Hear that an entry was used; what was said of it is fulfilled, and does not hold any more."""
        record = self._record(key)
        self.worth.came_back(record.hint, now_ns - record.used_ns)
        if record.hint is not None:
            self.hinted(key, None)
        super().touched(key, now_ns)

    def removed(self, key: Hashable, now_ns: int, *, reused: bool = False) -> Record:
        """Hear that an entry is gone; unless it was used, it is remembered, to see whether it comes back."""
        record = super().removed(key, now_ns)
        if reused:
            self.worth.came_back(record.hint, now_ns - record.used_ns)
            record.hint = None
        else:
            self._evicted[key] = record.hint, record.used_ns
            self._forget(now_ns)
        return record

    def _forget(self, now_ns: int) -> None:
        """Count what has not come back for long, at most two entries a call, so that no call takes long."""
        late_ns = _LATE * self.worth.interval_ns or math.inf
        for _ in range(min(2, len(self._evicted))):
            key = next(iter(self._evicted))
            hint, used_ns = self._evicted[key]
            if len(self._evicted) <= max(_REMEMBERED, len(self)) and now_ns - used_ns <= late_ns:
                return
            del self._evicted[key]
            self.worth.stayed_away(hint)

    def _enter(self, key: Hashable, record: Record) -> None:
        self._by_use[_kind(record.hint)].add(key, record.used_ns)
        if (expected_ns := _expected_ns(record)) is not None:
            self._latest.add(key, -expected_ns)

    def _leave(self, key: Hashable, record: Record) -> None:
        self._by_use[_kind(record.hint)].discard(key)
        if _expected_ns(record) is not None:
            self._latest.discard(key)

    def _in_order(self, now_ns: int) -> Generator[Hashable, None, None]:
        tells, interval_ns, chances = self.worth.tells, self.worth.interval_ns, self.worth.chances()

        def soon(key: Hashable) -> tuple[float, int]:
            """Return how likely an entry is used soon, and minus its wait: the least goes first."""
            record = self._records[key]
            wait_ns = now_ns - record.used_ns
            if not tells:
                return 0.0, -wait_ns
            if (expected_ns := _expected_ns(record)) is not None:
                wait_ns = abs(now_ns - expected_ns)
            chance = chances[_kind(record.hint)]
            return (chance / (wait_ns + interval_ns + 1) if interval_ns else chance), -wait_ns

        queues = [*self._by_use, *([self._latest] if tells else [])]
        given: set[Hashable] = set()
        with ExitStack() as stack:
            orders = [stack.enter_context(closing(queue.in_order())) for queue in queues if queue]
            heads = [(soon(key), place, key) for place, order in enumerate(orders) for key in [next(order)]]
            while heads:
                head = min(heads)
                heads.remove(head)
                _, place, key = head
                if key not in given:
                    given.add(key)
                    yield key
                if (following := next(orders[place], None)) is not None:
                    heads.append((soon(following), place, following))
