# SPDX-License-Identifier: Apache-2.0
"""Cases: functions that try a bench, with the rules they hold it to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from nicemu.abi import Limits

from .bench import Bench

CaseFunction: TypeAlias = Callable[[Bench], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to try. `name` is the function's, `numbers` are those of the rules and of the case list.

    `inside`: it looks into a NIC of ours. It raises AssertionError where the bench does not follow the rules,
    and passes `Unsupported` on where it cannot.
    """

    name: str
    sentence: str
    numbers: tuple[str, ...]
    limits: Limits
    inside: bool
    function: CaseFunction

    @property
    def rules(self) -> tuple[str, ...]:
        """Its rules, R1 to R42."""
        return tuple(number for number in self.numbers if number.startswith("R"))


CASES: dict[str, Case] = {}
"""Every case by name, in the order in which the topics are imported."""


def case(
    *numbers: str, profile: str = "unlimited", inside: bool = False, **changes: object
) -> Callable[[CaseFunction], CaseFunction]:
    """Register a case; the first line of its docstring is its sentence.

    `profile`, `changes`: the limits that the target needs.
    """

    def register(function: CaseFunction) -> CaseFunction:
        name = function.__name__
        sentence = (function.__doc__ or name).strip().splitlines()[0].rstrip(".")
        assert name not in CASES, name
        CASES[name] = Case(name, sentence, numbers, Limits.named(profile, **changes), inside, function)
        return function

    return register
