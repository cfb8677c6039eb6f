# SPDX-License-Identifier: Apache-2.0
"""Running one test under many schedules, and making a failing schedule short.

Half of the schedules at most are for the systematic search; if that does not end, the others are drawn,
seeded. A choice list that fails is made shorter: as many choices as possible become 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nicemu.errors import counted

from .choices import RandomSchedule, Schedule, format_choices, trimmed
from .reduction import Search

Run = Callable[[Schedule], bool]
"""Runs the test once under a schedule; False if it failed."""

SHRINK_RUNS = 200
"""Runs that making a failure short may take."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A schedule under which the test fails: `choices` as short as was found. `seed`: None if not drawn."""

    choices: tuple[int, ...]
    found: tuple[int, ...]
    seed: int | None
    story: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exploration:
    """What came of it. `is_complete`: every order that matters was run."""

    schedules: int
    systematic: int
    drawn: int
    is_complete: bool
    failure: Failure | None

    def sentence(self) -> str:
        """Say what was run."""
        runs = counted(self.schedules, "schedule")
        if self.failure is not None:
            return f"failed after {runs}"
        if self.is_complete:
            return f"{runs}: every order that matters"
        return f"{runs}: {self.systematic} in order, {self.drawn} drawn"


def explore(
    run: Run, schedules: int = 200, *, depth: int | None = None, seed: int = 1, reduction: bool = True
) -> Exploration:
    """Run a test under at most `schedules` schedules, until one fails.

    `depth`: how many of the first choice points the systematic search varies. The draws are seeded by `seed`
    and the numbers after it.
    """
    search = Search(depth, reduction)
    systematic = drawn = 0
    is_complete = False
    while systematic < max(1, schedules // 2):
        schedule = search.next_schedule()
        if schedule is None:
            is_complete = search.is_complete
            break
        systematic += 1
        if not run(schedule):
            failure = _shortened(run, schedule, None)
            return Exploration(systematic, systematic, 0, False, failure)
        search.learn(schedule)
    else:
        is_complete = search.next_schedule() is None and search.is_complete
    while not is_complete and systematic + drawn < schedules:
        number = seed + drawn
        schedule = RandomSchedule(number)
        drawn += 1
        if not run(schedule):
            failure = _shortened(run, schedule, number)
            return Exploration(systematic + drawn, systematic, drawn, False, failure)
    return Exploration(systematic + drawn, systematic, drawn, is_complete, None)


def _shortened(run: Run, failed: Schedule, seed: int | None) -> Failure:
    """Try shorter lists, then zeros in the middle; keep what still fails."""
    best = trimmed(failed.choices)
    story = tuple(failed.story())
    left = SHRINK_RUNS

    def fails(choices: tuple[int, ...]) -> bool:
        nonlocal best, story, left
        if left == 0 or choices == best:
            return False
        left -= 1
        schedule = Schedule(choices)
        if run(schedule):
            return False
        best, story = trimmed(choices), tuple(schedule.story())
        return True

    size = len(best)
    while size:
        start = 0
        while start < len(best):
            if any(best[start : start + size]):
                zeroed = best[:start] + (0,) * len(best[start : start + size]) + best[start + size :]
                if fails(trimmed(zeroed)):
                    continue
            start += size
        for cut in range(0, max(0, len(best) - size + 1), size):
            fails(trimmed(best[:cut] + best[cut + size :]))
        size //= 2
    for place in range(len(best)):
        for smaller in range(1, best[place] if place < len(best) else 0):
            if fails((*best[:place], smaller, *best[place + 1 :])):
                break
    return Failure(best, trimmed(failed.choices), seed, story)


def report(exploration: Exploration, test: str = "TEST") -> str:
    """Say how to see a failure again, and what happened."""
    failure = exploration.failure
    if failure is None:
        return exploration.sentence()
    choices = format_choices(failure.choices)
    lines = [
        f"{exploration.sentence()}" + ("" if failure.seed is None else f", drawn with seed {failure.seed}"),
        f"choices: {choices} (found as {format_choices(failure.found)})",
        f"again: nicemu explore '{test}' --replay {choices}",
        "what happened (* is not what the stepper does by itself):",
        *failure.story,
    ]
    return "\n".join(lines)
