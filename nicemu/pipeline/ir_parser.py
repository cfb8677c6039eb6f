# SPDX-License-Identifier: Apache-2.0
"""The program IR: parsers. All of it is at hand as `ir`.

Source: P4-16 Language Specification 1.2.5, "Packet parsing".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .ir_expressions import Expression
from .ir_statements import Statement

ACCEPT = "accept"
REJECT = "reject"
"""States in which every parser ends."""


@dataclass(frozen=True, slots=True)
class KeyMask:
    """Matches where value & mask are equal; a plain value has a mask of all ones."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Matches `low` up to and including `high`."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class KeyAny:
    """Matches everything."""


@dataclass(frozen=True, slots=True)
class KeyInSet:
    """Matches what a value set holds; alone in its case, it stands for all keys of the select."""

    value_set: str


Keyset: TypeAlias = KeyMask | KeyRange | KeyAny | KeyInSet


@dataclass(frozen=True, slots=True)
class Goto:
    """Go to a state, or `accept`, or `reject`."""

    state: str


@dataclass(frozen=True, slots=True)
class SelectCase:
    """One keyset for every key of the select."""

    keysets: tuple[Keyset, ...]
    state: str


@dataclass(frozen=True, slots=True)
class Select:
    """Go where the first matching case says; without one the packet is rejected with NoMatch."""

    keys: tuple[Expression, ...]
    cases: tuple[SelectCase, ...]


Transition: TypeAlias = Goto | Select


@dataclass(frozen=True, slots=True)
class State:
    """One parser state."""

    name: str
    body: tuple[Statement, ...]
    transition: Transition


@dataclass(frozen=True, slots=True)
class Parser:
    """States, entered at `start`; `prologue` initialises the parser's locals."""

    name: str
    states: tuple[State, ...]
    prologue: tuple[Statement, ...] = ()
    start: str = "start"
