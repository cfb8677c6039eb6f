# SPDX-License-Identifier: Apache-2.0
"""Which entries of a table have had no packet for as long as their idle timeouts.

Source: P4Runtime Specification 1.4, "Idle-timeout".
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from .table_entry import Row

_SPARE = 1024
"""Deadlines that no longer count which are kept beside as many as do."""


class IdleRows:
    """Rows with an idle timeout, by when it may have passed: not before, as packets only put it off."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Row]] = []
        self._serials: dict[int, int] = {}
        """Which item of the heap counts for a row, by its number: a row may come back as a copy of itself."""
        self._serial = 0

    def watch(self, row: Row) -> None:
        """Watch a row, or do so anew where its timeout has changed; one without a timeout no more."""
        if row.entry.idle_timeout_ns:
            self._push(row)
        else:
            self.forget(row)

    def forget(self, row: Row) -> None:
        """Watch a row no more."""
        self._serials.pop(row.number, None)

    def passed(self, now_ns: int, gather: Callable[[Row], None]) -> list[Row]:
        """Return the rows whose timeout has passed, each again when it has passed once more.

        `gather` makes a row say when the last packet was; only rows that may be idle are asked.
        """
        found = []
        while self._heap and self._heap[0][0] <= now_ns:
            _, number, serial, row = heapq.heappop(self._heap)
            if self._serials.get(number) != serial:
                continue
            gather(row)
            if now_ns >= _deadline_ns(row):
                row.told_ns = now_ns
                found.append(row)
            self._push(row)
        return sorted(found, key=lambda row: row.number)

    def _push(self, row: Row) -> None:
        self._serial += 1
        self._serials[row.number] = self._serial
        heapq.heappush(self._heap, (_deadline_ns(row), row.number, self._serial, row))
        if len(self._heap) > 2 * len(self._serials) + _SPARE:
            self._heap = [item for item in self._heap if self._serials.get(item[1]) == item[2]]
            heapq.heapify(self._heap)


def _deadline_ns(row: Row) -> int:
    return max(row.last_hit_ns, row.told_ns) + row.entry.idle_timeout_ns
