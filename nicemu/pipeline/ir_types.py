# SPDX-License-Identifier: Apache-2.0
"""Types of the program IR. Source: P4-16 Language Specification 1.2.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

MAX_WIDTH_BITS = 4096
"""Widest bit<N> that the engine takes."""

MAX_HEADER_BYTES = 9216
"""Longest header: that of a jumbo frame."""

MAX_VARBIT_BITS = 65535
"""Widest varbit<N> that the engine takes."""

MAX_STACK_SIZE = 1024
"""Largest header stack that the engine takes."""

MAX_CALLS = 24
"""How many actions, tables and functions may call one another in a row."""

MAX_VALUES = 1 << 18
"""Numbers that one type, and all variables of a program together, may hold."""

MAX_TYPE_DEPTH = 64
"""How many types may hold one another in a row."""


TUPLE, ARRAY = "tuple.", "array."
"""What the names of types begin with that no program has a name for."""


@dataclass(frozen=True, slots=True)
class Bits:
    """bit<width>, or int<width> where `signed`."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True, slots=True)
class Bool:
    """The values 0 and 1."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """An index into `Program.errors`."""

    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True, slots=True)
class Named:
    """A header, header union or struct type of the program."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Stack:
    """A header stack: `size` headers or header unions of type `element`."""

    element: str
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True, slots=True)
class Varbit:
    """varbit<width>: 0 to `width` bits, as many as were extracted."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True, slots=True)
class String:
    """Text, which only externs take."""

    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True, slots=True)
class Integer:
    """A number of any size, which only a program's own externs take."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True, slots=True)
class List:
    """Any number of values of one type, which only constructors of a program's own externs take."""

    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


Type: TypeAlias = Bits | Bool | ErrorCode | Named | Stack | Varbit | String | Integer | List
BOOL = Bool()
ERROR = ErrorCode()
STRING = String()
INTEGER = Integer()


@dataclass(frozen=True, slots=True)
class AnnotationValue:
    """A value in the square brackets of an annotation, with its key, "" for none; a bool is 0 or 1."""

    value: int | str
    key: str = ""
    is_bool: bool = False


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name(body)`, which means nothing to the engine; of @brief and @description the body is their text.

    With square brackets it is `structured`, and has `values` in place of a body.
    """

    name: str
    body: str = ""
    structured: bool = False
    values: tuple[AnnotationValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a header or struct; `type_name` is that of a `NewType` or `EnumType`, "" for none.
    `shown_name` is what controllers are told that it is called, "" for its name.

    `id`, 0 for none, and `annotations` are for controllers, of which packets begin with the header.
    """

    name: str
    type: Type
    type_name: str = ""
    id: int = 0
    annotations: tuple[Annotation, ...] = ()
    shown_name: str = ""


@dataclass(frozen=True, slots=True)
class HeaderType:
    """A header: fields in wire order, and a validity bit. It is whole bytes long.

    Fields are scalars and structs of such; one field may be a varbit. `controller` is "packet_in" or
    "packet_out" where packets to or from a controller begin with this header.
    """

    name: str
    fields: tuple[Field, ...]
    controller: str = ""
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionType:
    """A header union: headers of which one at most is valid."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct of anything; an emitted struct emits its headers in field order. A tuple is one, too.

    And so is an array of anything but headers, whose fields are called 0, 1 and so on.
    """

    name: str
    fields: tuple[Field, ...]

    @property
    def element(self) -> Type | None:
        """The type of an array's elements; None for what is none."""
        is_array = bool(self.fields) and self.fields[0].name == "0"
        return self.fields[0].type if is_array else None


@dataclass(frozen=True, slots=True)
class NewType:
    """A type of the program's own with the values of `type`; packets do not know it, controllers do.

    Where it is `translated`, controllers see `controller_bits` bits, or text where these are 0, and `uri`
    says what means what.
    """

    name: str
    type: Type
    translated: bool = False
    uri: str = ""
    controller_bits: int = 0
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class EnumMember:
    """One member of an enum."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum, whose values are numbers of `type`; packets and controllers have these where it is
    `serializable`, else controllers know its members by their names.
    """

    name: str
    type: Type
    members: tuple[EnumMember, ...]
    serializable: bool = False


CONTROLLER_HEADERS = ("packet_in", "packet_out")
"""What a header may be to a controller: what its packets begin with, to it and from it."""

Layout: TypeAlias = HeaderType | UnionType | StructType
