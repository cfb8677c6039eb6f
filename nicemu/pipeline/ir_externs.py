# SPDX-License-Identifier: Apache-2.0
"""The extern objects of a program, and the signatures of externs that it declares itself."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from .ir_types import Annotation, Type


class Direction(enum.Enum):
    """How a parameter is passed; NONE is action data, which the control plane supplies."""

    NONE = ""
    IN = "in"
    OUT = "out"
    INOUT = "inout"


Given: TypeAlias = "int | str | tuple[Given, ...]"
"""What a constructor is given: a number, bool, string, or the parts of a struct, tuple or list in order."""


@dataclass(frozen=True, slots=True)
class ExternInstance:
    """An extern object: `extern` is its type, `arguments` what its constructor was given.

    `id` is 0 unless the program chose it with @id. `type_names` are those of `types`, none where no type has
    one. `constructor` is the name of the signature by which an extern of the program's own makes it.
    """

    name: str
    extern: str
    arguments: tuple[Given, ...] = ()
    types: tuple[Type, ...] = ()
    id: int = 0
    type_names: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    constructor: str = ""

    def number(self, place: int) -> int:
        """Return the number, or bool, that the constructor was given at a place."""
        value = self.arguments[place]
        assert isinstance(value, int), value
        return value


@dataclass(frozen=True, slots=True)
class ExternParameter:
    """What an extern that the program itself declares takes at one place."""

    type: Type
    direction: Direction


@dataclass(frozen=True, slots=True)
class ExternSignature:
    """A function, method or constructor that the program itself declares, for the types of some calls.

    `owner` is its object's type, "" for a function; `declared` is what the program calls it, for a
    constructor the same; `name` is what calls say, another one for each list of types. `results` is the type
    that it returns, nothing or one.
    """

    owner: str
    declared: str
    name: str
    parameters: tuple[ExternParameter, ...] = ()
    results: tuple[Type, ...] = ()

    @property
    def is_constructor(self) -> bool:
        """Whether it makes an object."""
        return self.owner == self.declared

    def spelled(self, type_text: Callable[[Type], str] = str) -> str:
        """Return the declaration as P4 has it, without the names of parameters."""
        takes = ", ".join(
            f"{item.direction.value or 'in'} {type_text(item.type)}" for item in self.parameters
        )
        result = "" if self.is_constructor else f"{(*map(type_text, self.results), 'void')[0]} "
        return f"{result}{self.declared}({takes})"
