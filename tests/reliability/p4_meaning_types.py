# SPDX-License-Identifier: Apache-2.0
"""Types, literals, parameters and matchers of judged programs; `str` of one is its P4 text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Bits:
    """`bit<width>` or `int<width>`."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True)
class Named:
    """A type of bits with a name of its own: a `type` or an `enum` with a type; members of the latter."""

    name: str
    width: int
    members: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return self.name

    def declaration(self) -> str:
        if not self.members:
            return f"type bit<{self.width}> {self.name};"
        inner = ", ".join(f"{name} = {number}" for name, number in self.members)
        return f"enum bit<{self.width}> {self.name} {{ {inner} }}"


@dataclass(frozen=True)
class Bool:
    """`bool`."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True)
class Error:
    """`error`."""

    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True)
class Record:
    """A header, header_union, struct or tuple; a tuple's fields are named by their numbers."""

    kind: str
    name: str
    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        if self.kind == "tuple":
            return f"tuple<{', '.join(str(kind) for _, kind in self.fields)}>"
        return self.name

    def declaration(self) -> str:
        inner = "".join(f" {kind} {name};" for name, kind in self.fields)
        return f"{self.kind} {self.name} {{{inner} }}"


@dataclass(frozen=True)
class StackOf:
    """A header stack, or an array of anything else."""

    element: Type
    size: int

    @property
    def is_stack(self) -> bool:
        return isinstance(self.element, Record) and self.element.kind == "header"

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class Varbit:
    """`varbit<most>`."""

    most: int

    def __str__(self) -> str:
        return f"varbit<{self.most}>"


Type: TypeAlias = Bits | Named | Bool | Error | Record | StackOf | Varbit


@dataclass(frozen=True)
class Literal:
    kind: Type
    value: int | bool | str

    def __str__(self) -> str:
        match self.kind:
            case Bits(width, signed):
                number = int(self.value)
                if number < 0:
                    return f"((int<{width}>){width}w{number + (1 << width)})"
                return f"{width}{'s' if signed else 'w'}{number}"
            case Named(name, width, members):
                for member, number in members:
                    if number == self.value:
                        return f"{name}.{member}"
                return f"(({name}){width}w{self.value})"
            case Bool():
                return "true" if self.value else "false"
            case _:
                return f"error.{self.value}"


@dataclass(frozen=True)
class Parameter:
    direction: str
    kind: Type
    name: str

    def __str__(self) -> str:
        return f"{self.direction} {self.kind} {self.name}".strip()


Matcher: TypeAlias = tuple[str, int, int]
"""("exact", value, 0), ("mask", value, mask), ("range", first, last), ("any", 0, 0)."""


def matcher_text(kind: Type, matcher: Matcher) -> str:
    what, first, second = matcher
    one, other = Literal(kind, first), Literal(kind, second)
    return {"exact": f"{one}", "mask": f"{one} &&& {other}", "range": f"{one} .. {other}", "any": "_"}[what]
