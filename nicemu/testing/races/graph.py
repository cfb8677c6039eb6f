# SPDX-License-Identifier: Apache-2.0
"""What happened before what: events and edges, and for each event the set of all that comes before it.

Source: Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", happened before.
"""

from __future__ import annotations


class Graph:
    """Events are numbers from 0. Add events and edges, then `close`, then ask `is_before`."""

    def __init__(self) -> None:
        self._parents: list[list[int]] = []
        self._before: list[int] = []

    def __len__(self) -> int:
        return len(self._parents)

    def event(self, *parents: int | None) -> int:
        """Return a new event that comes after `parents` (None stands for none)."""
        self._parents.append([parent for parent in parents if parent is not None])
        return len(self._parents) - 1

    def edge(self, before: int | None, after: int | None) -> None:
        """Say that one event comes before another, if both are known."""
        if before is not None and after is not None and before != after:
            self._parents[after].append(before)

    def drop(self, before: int, after: int) -> None:
        """Take an edge back; `close` again afterwards."""
        self._parents[after].remove(before)

    def close(self) -> int:
        """Work out what comes before each event; return how many edges contradict the others (0 in a whole
        log).

        An event's set is one integer, a bit an event.
        """
        children: list[list[int]] = [[] for _ in self._parents]
        missing = [len(parents) for parents in self._parents]
        for event, parents in enumerate(self._parents):
            for parent in parents:
                children[parent].append(event)
        self._before = [0] * len(self._parents)
        done = [False] * len(self._parents)
        ready = [event for event, count in enumerate(missing) if count == 0]
        contradictions = 0
        oldest = 0
        for _ in range(len(self._parents)):
            if not ready:
                while done[oldest]:
                    oldest += 1
                contradictions += missing[oldest]
                missing[oldest] = 0
                ready.append(oldest)
            event = ready.pop()
            done[event] = True
            known = 0
            for parent in self._parents[event]:
                if done[parent]:
                    known |= self._before[parent] | 1 << parent
            self._before[event] = known
            for child in children[event]:
                missing[child] -= 1
                if missing[child] == 0 and not done[child]:
                    ready.append(child)
        return contradictions

    def is_before(self, one: int | None, other: int | None) -> bool:
        """Whether `one` comes before `other`, or is it; an event that never came is before nothing."""
        if one is None or other is None:
            return False
        return one == other or bool(self._before[other] >> one & 1)
