# SPDX-License-Identifier: Apache-2.0
"""Choices of a schedule: following a list of them, drawing them, writing them down.

A choice list has one number for every place where more than one thing could happen next: which of them did.
What is missing at its end is 0, which is what the stepper does by itself.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nicemu.errors import UsageError
from nicemu.nic import Footprint, Step, Thing

MAX_STEPS = 100_000
"""Steps of one schedule; a test that takes more does not end."""


@dataclass(slots=True)
class Happened:
    """A step that was taken: what it was, who else could have, what it touched."""

    step: Step
    enabled: tuple[Thing, ...]
    position: int
    touched: Footprint


def parse_choices(text: str) -> tuple[int, ...]:
    """Return the choices that `format_choices` wrote. Raises: UsageError for anything else."""
    parts = text.strip().split(".") if text.strip() else []
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"a choice list is numbers with dots between them, such as 0.2.1, not {text!r}")
    return tuple(int(part) for part in parts)


def format_choices(choices: Sequence[int]) -> str:
    """Write a choice list, without the zeros at its end; "0" for what the stepper does by itself."""
    return ".".join(map(str, trimmed(choices))) or "0"


def trimmed(choices: Sequence[int]) -> tuple[int, ...]:
    """Return a choice list without the zeros at its end."""
    end = len(choices)
    while end and choices[end - 1] == 0:
        end -= 1
    return tuple(choices[:end])


class Schedule:
    """A chooser that follows a choice list and remembers what happened; what it cannot follow is 0."""

    def __init__(self, choices: Sequence[int] = ()) -> None:
        self._given = tuple(choices)
        self.choices: list[int] = []
        self.happened: list[Happened] = []

    def choose(self, options: Sequence[Step]) -> int:
        """Say which step is taken."""
        if len(self.happened) >= MAX_STEPS:
            raise UsageError(f"a schedule of more than {MAX_STEPS} steps: does the test end?")
        position = self._pick(options)
        if len(options) > 1:
            self.choices.append(position)
        keys = tuple(option.key for option in options)
        self.happened.append(Happened(options[position], keys, position, Footprint()))
        return position

    def _pick(self, options: Sequence[Step]) -> int:
        place = len(self.choices)
        if len(options) == 1 or place >= len(self._given):
            return 0
        return self._given[place] if self._given[place] < len(options) else 0

    @property
    def was_followed(self) -> bool:
        """Whether every choice that was given was there to be made."""
        given = trimmed(self._given)
        return tuple(self.choices[: len(given)]) == given

    def took(self, touched: Footprint) -> None:
        """Remember what the step touched."""
        self.happened[-1].touched = touched

    def story(self) -> list[str]:
        """Say what happened, in order; a step that was not the stepper's own choice is marked."""
        lines = []
        for number, happened in enumerate(self.happened, start=1):
            mark = " " if happened.position == 0 else "*"
            rest = "" if happened.touched.progressed else " (it cannot yet)"
            lines.append(f"{number:4} {mark} {happened.step.label}{rest}")
        return lines


class RandomSchedule(Schedule):
    """A chooser that draws: some seeds leave the stepper's own way often, others rarely."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._boldness = self._random.choice((0.05, 0.2, 0.5, 1.0))

    def _pick(self, options: Sequence[Step]) -> int:
        if len(options) == 1 or self._random.random() >= self._boldness:
            return 0
        return self._random.randrange(len(options))
