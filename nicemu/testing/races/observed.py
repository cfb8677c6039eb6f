# SPDX-License-Identifier: Apache-2.0
"""What somebody knows who has seen a value of a counter: those counts without which it could not be there.

A counter says how many, not which. Who has seen 1 where two operations of different queue pairs count has
seen the end of neither: either may come first. Of counts that come one after the other (of one queue pair,
one stream, one host) the first ones are needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from .graph import Graph
from .operation import Count

ROUNDS = 16
"""How often orders that hang on orders that are none are taken back."""

MAX_COMPARISONS = 1_000_000
"""Pairs of counts and observers that are compared; later observers come after the counts as they came."""


@dataclass(eq=False, slots=True)
class Observation:
    """An event that comes after a counter had at least these values; `total`: both together.

    `steps`: of the counter, between two sets that lower it. `place`: the step that brought it there.
    """

    event: int
    steps: list[Count]
    place: int
    success: int
    errors: int
    total: int = 0
    behind: list[int] = field(default_factory=list)
    """The events that it comes after, as far as is known now."""


class Observations:
    """Orders observers behind what they must have seen."""

    def __init__(self, graph: Graph, observations: list[Observation]) -> None:
        self._graph = graph
        self._all = observations
        self._left = MAX_COMPARISONS

    def settle(self) -> int:
        """Close the graph with what observers know; return how many of its edges contradict the others.

        At first an observer comes after all that had been counted. Then it loses what could be missing, and
        with it others may, until nothing changes.
        """
        for one in self._all:
            self._put(one, [one.steps[one.place].joined])
        contradictions = self._graph.close()
        chains: dict[int, bool] = {}
        for _ in range(ROUNDS):
            chains.clear()
            changed = False
            for one in self._all:
                which = id(one.steps)
                if which not in chains:
                    chains[which] = self._is_chain(one.steps)
                if chains[which]:
                    continue  # whatever is missing, the first ones are not
                needed = self._needed(one)
                if needed != one.behind:
                    changed = True
                    self._put(one, needed)
            if not changed:
                break
            contradictions = self._graph.close()
        for one in self._all:
            if not chains.get(id(one.steps), True) and one.steps[0].enough is None:
                for step in one.steps:
                    step.enough = one.steps[-1].success
        return contradictions

    def _put(self, one: Observation, behind: list[int]) -> None:
        for event in one.behind:
            self._graph.drop(event, one.event)
        for event in behind:
            self._graph.edge(event, one.event)
        one.behind = behind

    def _comes_with(self, one: Count, other: Count) -> bool:
        """Whether `other` could not have been counted without `one` before it."""
        if one is other:
            return True
        return bool(one.causes) and all(self._graph.is_before(cause, other.event) for cause in one.causes)

    def _is_chain(self, steps: list[Count]) -> bool:
        return all(after.is_set or self._comes_with(before, after) for before, after in pairwise(steps))

    def _needed(self, one: Observation) -> list[int]:
        """Return what an observer comes after: of the steps so far, those that cannot have been missing.

        A step cannot if what would be missing with it is more than there was to spare: what can have been
        counted by then, without what comes after the observer, beyond what it has seen.
        """
        begin = max((place for place in range(one.place + 1) if one.steps[place].is_set), default=0)
        so_far, counted = one.steps[begin : one.place + 1], one.steps[begin : one.place + 1]
        for step in one.steps[one.place + 1 :]:
            if step.is_set:
                break
            if not self._graph.is_before(one.event, step.event):
                counted.append(step)
        self._left -= len(one.steps)
        kinds = [
            (which, sum(which(step) for step in counted) - value)
            for which, value in ((_successes, one.success), (_errors, one.errors), (_both, one.total))
            if value
        ]
        found: list[Count] = []
        for step in reversed(so_far):
            if any(self._comes_with(step, other) for other in found):
                continue  # they bring it along
            self._left -= len(counted)
            if self._left < 0:
                return one.behind
            missing = [other for other in counted if self._comes_with(step, other)]
            if any(sum(map(which, missing)) > spare for which, spare in kinds):
                found.append(step)
        return sorted(step.event for step in found)


def _successes(step: Count) -> int:
    return step.more[0]


def _errors(step: Count) -> int:
    return step.more[1]


def _both(step: Count) -> int:
    return sum(step.more)
