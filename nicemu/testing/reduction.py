# SPDX-License-Identifier: Apache-2.0
"""Systematic search over schedules that tries two orders of two steps only if the order matters.

Depth first over the choice points, with dynamic partial-order reduction and sleep sets: every schedule is run
to its end; then each pair of steps that race (dependent, and nothing between them puts them in order) adds,
at the place of the first one, somebody who leads to the other order. What was tried at a place sleeps until a
step that depends on it. Two chains that touch nothing in common cost one schedule.

Which steps are dependent is `nicemu.nic.footprint`'s to say. Counts are treated apart: they commute, and
fired work comes after all counts that were there when it became due; if it could have become due without one
of them, because others count enough, that is a race too.

Sources: Flanagan and Godefroid, "Dynamic Partial-Order Reduction for Model Checking Software"; Abdulla,
Aronis, Jonsson, Sagonas, "Optimal Dynamic Partial Order Reduction"; Godefroid, "Partial-Order Methods for the
Verification of Concurrent Systems" (sleep sets).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nicemu.errors import UsageError
from nicemu.nic import Footprint, Step, Thing, Use, are_independent, makes_for, order_matters

from .choices import Happened, Schedule


@dataclass(slots=True)
class _Node:
    """A place in the tree: a state of the world, and what was tried there."""

    enabled: tuple[Thing, ...]
    chosen: Thing
    number: int
    wanted: set[Thing] = field(default_factory=set)
    tried: dict[Thing, Footprint] = field(default_factory=dict)
    asleep: dict[Thing, Footprint] = field(default_factory=dict)


class Search:
    """A search in progress: `next_schedule`, run it, `learn` from it, until there is none.

    `reduction=False` tries every order of everything. `depth`: how many of the first choice points are
    varied.
    """

    def __init__(self, depth: int | None = None, reduction: bool = True) -> None:
        self._depth = depth
        self._reduction = reduction
        self._path: list[_Node] = []
        self._started = False
        self._cut = False

    @property
    def is_complete(self) -> bool:
        """Whether a search that has ended has seen every order that matters."""
        return not self._cut

    def next_schedule(self) -> Schedule | None:
        """Return the next schedule to run; None: all have been."""
        if not self._started:
            self._started = True
            return _Guided(self._path, self._reduction)
        while self._path:
            node = self._path[-1]
            left = [key for key in node.enabled if key in node.wanted and key not in node.tried]
            left = [key for key in left if key not in node.asleep]
            if left and self._may_vary(node):
                node.chosen = left[0]
                return _Guided(self._path, self._reduction)
            self._path.pop()
        return None

    def _may_vary(self, node: _Node) -> bool:
        if self._depth is None or node.number < self._depth:
            return True
        self._cut = True
        return False

    def learn(self, schedule: Schedule) -> None:
        """Take over what a schedule that was run has shown."""
        if not isinstance(schedule, _Guided):
            return
        happened = schedule.happened
        for node, what in zip(self._path, happened, strict=False):
            node.tried[node.chosen] = what.touched
            if not self._reduction:
                node.wanted.update(node.enabled)
        if self._reduction:
            for place, keys in races(happened):
                if place < len(self._path) and not keys & self._path[place].wanted:
                    self._want(self._path[place], keys)

    @staticmethod
    def _want(node: _Node, keys: set[Thing]) -> None:
        possible = [key for key in node.enabled if key in keys]
        if possible and not any(key in node.tried for key in possible):
            node.wanted.add(possible[0])


class _Guided(Schedule):
    """Follows the path of a search, then makes it longer: the first option that does not sleep."""

    def __init__(self, path: list[_Node], reduction: bool) -> None:
        super().__init__()
        self._path = path
        self._known = len(path)
        self._reduction = reduction
        self._is_redundant = False

    def _pick(self, options: Sequence[Step]) -> int:
        place = len(self.happened)
        keys = [option.key for option in options]
        if place < self._known:
            chosen = self._path[place].chosen
            if chosen not in keys:
                raise UsageError(
                    f"the test is not the same each time: {chosen} could step here before, and cannot now"
                )
            return keys.index(chosen)
        if self._is_redundant:
            return 0
        asleep = self._asleep()
        awake = [number for number, key in enumerate(keys) if key not in asleep]
        if not awake:  # all that follows was seen in another order; only to bring the test to its end
            self._is_redundant = True
            return 0
        chosen = keys[awake[0]]
        node = _Node(tuple(keys), chosen, len(self.choices), {chosen}, {}, asleep)
        self._path.append(node)
        return awake[0]

    def _asleep(self) -> dict[Thing, Footprint]:
        if not self._path or not self._reduction:
            return {}
        before, last = self._path[-1], self.happened[-1].touched
        candidates = {**before.asleep, **before.tried}
        candidates.pop(before.chosen, None)
        return {key: touched for key, touched in candidates.items() if are_independent(touched, last)}


def races(happened: Sequence[Happened]) -> list[tuple[int, set[Thing]]]:
    """Return the races of a schedule: the place of the first step of each, and who can lead to the other
    order there.
    """
    before = _happens_before(happened)
    found = []
    for late, what in enumerate(happened):
        for early in _direct(happened, before, late):
            if happened[early].step.key != what.step.key:
                found.append((early, _leaders(happened, before, early, late, [])))
        for early, others in _replaceable(happened, before, late):
            found.append((early, _leaders(happened, before, early, late, others)))
    return [(place, keys) for place, keys in found if keys]


def _happens_before(happened: Sequence[Happened]) -> list[int]:
    """Return, for each step, the set of the steps before it in the partial order, as bits."""
    before: list[int] = []
    last_of: dict[Thing, int] = {}
    enabler: dict[Thing, int] = {}
    counted: dict[Thing, int] = {}
    due: dict[Thing, int] = {}
    previous: set[Thing] = set()
    for number, what in enumerate(happened):
        for key in what.enabled:
            has_stalled = key in last_of and not happened[last_of[key]].touched.progressed
            if key not in previous and number and not has_stalled:
                enabler[key] = number - 1
        previous = set(what.enabled)
        mine = 0
        for cause in (last_of.get(what.step.key), enabler.get(what.step.key)):
            if cause is not None:
                mine |= before[cause] | 1 << cause
        for early in range(number - 1, -1, -1):
            if not mine >> early & 1 and (
                order_matters(happened[early].touched, what.touched)
                or makes_for(happened[early].touched, what.touched)
            ):
                mine |= before[early] | 1 << early
        for thing, how in what.touched.uses.items():
            if thing[0] == "due" and how & Use.TAKE:
                mine |= due.get(thing, 0)
        before.append(mine)
        last_of[what.step.key] = number
        previous.discard(what.step.key)
        for counter in what.touched.counts:
            counted[counter] = counted.get(counter, 0) | mine | 1 << number
        for thing, how in what.touched.uses.items():
            if thing[0] == "due" and how & Use.MAKE:
                for counter in what.touched.counts:
                    due[thing] = due.get(thing, 0) | counted[counter]
    return before


def _direct(happened: Sequence[Happened], before: list[int], late: int) -> list[int]:
    """Return the steps that race with `late`: order matters, and nothing between them orders them."""
    found, covered = [], 0
    for early in range(late - 1, -1, -1):
        if covered >> early & 1:
            continue
        if before[late] >> early & 1:
            covered |= before[early]
            if order_matters(happened[early].touched, happened[late].touched):
                found.append(early)
    return found


def _replaceable(happened: Sequence[Happened], before: list[int], late: int) -> list[tuple[int, list[int]]]:
    """Return the counts that fired work needed, but could have done without; with counts that come after."""
    needs = happened[late].touched.needs
    if needs is None:
        return []
    counter, threshold, value = needs
    counting = [n for n, what in enumerate(happened) if counter in what.touched.counts]
    there = value - sum(happened[n].touched.counts[counter] for n in counting if n < late)
    found = []
    for early in counting:
        if early >= late or not before[late] >> early & 1:
            continue
        others = [
            n for n in counting if n != early and not before[n] >> early & 1 and not before[n] >> late & 1
        ]
        if there + sum(happened[n].touched.counts[counter] for n in others) >= threshold:
            found.append((early, [n for n in others if n > late]))
    return found


def _leaders(
    happened: Sequence[Happened], before: list[int], early: int, late: int, more: list[int]
) -> set[Thing]:
    """Return who, going first at the place of `early`, leads to `late` (after `more`) before `early`."""
    instead = [n for n in range(early + 1, late) if not before[n] >> early & 1]
    wanted = set(more)
    for n in more:  # and what they come after
        wanted |= {m for m in range(late + 1, n) if before[n] >> m & 1}
    instead += sorted(wanted) if more else []
    if not more:
        instead.append(late)
    leaders: set[Thing] = set()
    for place, n in enumerate(instead):
        if not any(before[n] >> m & 1 for m in instead[:place]):
            leaders.add(happened[n].step.key)
    return {key for key in leaders if key in happened[early].enabled}
