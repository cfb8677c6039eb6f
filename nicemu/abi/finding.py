# SPDX-License-Identifier: Apache-2.0
"""What a check of a program says: one finding for all steps that it is true of."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_MOST_PARTS = 6
"""Runs of numbers, or names, that are told one by one."""


class Severity(enum.Enum):
    """ERROR: the target refuses it. WARNING: it runs, and does not do what it seems to."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that would not work. `steps`: positions in the program, from 0; empty: the whole of it."""

    severity: Severity
    rule: str
    steps: tuple[int, ...]
    message: str

    def __str__(self) -> str:
        place = f"{named_steps(self.steps)}: " if self.steps else ""
        return f"{self.severity.value} [{self.rule}] {place}{self.message}"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers in order, those that follow each other as a range: "3 to 12 and 14"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = []
    for first, last in runs[:_MOST_PARTS]:
        parts += [f"{first} to {last}"] if last > first + 1 else [str(n) for n in range(first, last + 1)]
    left = sum(last - first + 1 for first, last in runs[_MOST_PARTS:])
    return _listed([*parts, f"{left} more"] if left else parts)


def named_steps(steps: Sequence[int]) -> str:
    """Return which steps of a program these are: "step 4", "steps 3 to 12 and 14"."""
    return f"step{'' if len(set(steps)) == 1 else 's'} {ranges(steps)}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


@dataclass(slots=True)
class _Told:
    """What one message is true of: its steps, the steps before them that it names, numbers and counters."""

    steps: set[int] = field(default_factory=set)
    before: set[int] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    names: dict[str, None] = field(default_factory=dict)


class Findings:
    """Findings as they come up. What is said in the same words of several steps is one finding."""

    def __init__(self) -> None:
        self._told: dict[tuple[Severity, str, str], _Told] = {}

    def say(
        self,
        severity: Severity,
        rule: str,
        steps: Iterable[int],
        message: str,
        *,
        before: Iterable[int] = (),
        number: int | None = None,
        name: str | None = None,
    ) -> None:
        """Say `message` of `steps`. It may have places for what differs from step to step.

        `{before}`: steps that come before; `{number}`: a threshold or a length; `{name}`: a counter.
        """
        told = self._told.setdefault((severity, rule, message), _Told())
        told.steps.update(steps)
        told.before.update(before)
        if number is not None:
            told.numbers.add(number)
        if name is not None:
            told.names[name] = None

    def found(self) -> list[Finding]:
        """Return what was said; errors come first."""
        found = []
        for (severity, rule, message), told in self._told.items():
            names = list(told.names)
            if len(names) > _MOST_PARTS:
                names[_MOST_PARTS:] = [f"{len(names) - _MOST_PARTS} more"]
            text = message.format(
                before=named_steps(sorted(told.before)) if told.before else "",
                number=ranges(told.numbers) if told.numbers else "",
                name=_listed(names) if names else "",
            )
            found.append(Finding(severity, rule, tuple(sorted(told.steps)), text))
        return sorted(found, key=lambda finding: finding.severity is Severity.WARNING)
