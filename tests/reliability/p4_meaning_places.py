# SPDX-License-Identifier: Apache-2.0
"""Variables of a P4 program and the places in them that l-values name.

Specification: P4-16 Language Specification 1.2.5, "Left-values".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tests.reliability.p4_meaning_types import Type
from tests.reliability.p4_meaning_values import (
    Elements,
    Fields,
    Value,
    copied,
    default,
    elements,
    fields,
    number,
    wrapped,
)


@dataclass
class Frame:
    """The variables of one activation, inside those of the block that declares what is activated."""

    values: dict[str, Value]
    outer: Frame | None = None

    def of(self, name: str) -> dict[str, Value]:
        if name in self.values:
            return self.values
        assert self.outer is not None, name
        return self.outer.of(name)


@dataclass(frozen=True)
class Bounds:
    """The bits that a slice has of a value of some type."""

    high: int
    low: int
    kind: Type


Step: TypeAlias = str | int | Bounds


@dataclass(frozen=True)
class Place:
    """Where an l-value is: a variable, and fields, elements and slices in it."""

    root: dict[str, Value]
    name: str
    steps: tuple[Step, ...] = ()

    def read(self) -> Value:
        value = self.root[self.name]
        for step in self.steps:
            value = part(value, step)
        return copied(value)

    def write(self, value: Value) -> None:
        self.root[self.name] = changed(self.root[self.name], self.steps, copied(value))

    def object(self) -> Value | None:
        """What is there, not a copy; None behind the end of a stack."""
        value = self.root[self.name]
        for step in self.steps:
            if isinstance(value, Elements) and isinstance(step, int) and not 0 <= step < len(value.values):
                return None
            value = part(value, step)
        return value


def part(value: Value, step: Step) -> Value:
    if isinstance(step, Bounds):
        return (number(value) >> step.low) & ((1 << (step.high - step.low + 1)) - 1)
    if isinstance(step, int):
        stack = elements(value)
        return stack.values[step] if 0 <= step < len(stack.values) else default(stack.kind.element)
    return fields(value).values[step]


def changed(value: Value, steps: tuple[Step, ...], new: Value) -> Value:
    """Write into a value what its steps lead to; return what stands there now."""
    if not steps:
        return new
    step, rest = steps[0], steps[1:]
    if isinstance(step, Bounds):
        low, mask = step.low, (1 << (step.high - step.low + 1)) - 1
        inner = number(changed((number(value) >> low) & mask, rest, new))
        return wrapped(step.kind, (number(value) & ~(mask << low)) | ((inner & mask) << low))
    if isinstance(step, int):
        stack = elements(value)
        if 0 <= step < len(stack.values):
            stack.values[step] = changed(stack.values[step], rest, new)
        return stack
    whole = fields(value)
    whole.values[step] = changed(whole.values[step], rest, new)
    if whole.kind.kind == "header_union" and not rest:
        alone(whole, step)
    return whole


def alone(union: Fields, name: str) -> None:
    """A header of a union has been assigned or set valid: the others become invalid."""
    for other, value in union.values.items():
        if other != name:
            fields(value).valid = False
