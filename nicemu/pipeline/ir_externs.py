# SPDX-License-Identifier: Apache-2.0
"""The extern objects of a program, and the signatures of externs that it declares itself."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .ir_types import Annotation, Type


class Direction(enum.Enum):
    """How a parameter is passed; NONE is action data, which the control plane supplies."""

    NONE = ""
    IN = "in"
    OUT = "out"
    INOUT = "inout"


@dataclass(frozen=True, slots=True)
class ExternInstance:
    """An extern object: `extern` is its type, `arguments` what its constructor was given.

    `id` is 0 unless the program chose it with @id. `type_names` are those of `types`, none where no type has
    one.
    """

    name: str
    extern: str
    arguments: tuple[int | str, ...] = ()
    types: tuple[Type, ...] = ()
    id: int = 0
    type_names: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()


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

    def __str__(self) -> str:
        takes = ", ".join(f"{item.direction.value or 'in'} {item.type}" for item in self.parameters)
        result = "" if self.is_constructor else f"{(*self.results, 'void')[0]} "
        return f"{result}{self.declared}({takes})"
