# SPDX-License-Identifier: Apache-2.0
"""Expressions of the program IR. Source: P4-16 Language Specification 1.2.5."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from .ir_types import BOOL, STRING, Type


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, 0 or 1 for bool, an index for error."""

    value: int
    type: Type


@dataclass(frozen=True, slots=True)
class Name:
    """A variable; `shown` is what the program calls it, where that is not its name."""

    name: str
    type: Type
    shown: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a header or struct."""

    base: Expression
    field: str
    type: Type


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a header stack, or of an array: a struct with an `element`.

    Outside the stack there is an invalid header, outside the array a zero; neither keeps anything.
    """

    base: Expression
    index: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class StackPlace:
    """`stack.next` (`last` false) or `stack.last`, in a parser: StackOutOfBounds where there is none."""

    stack: Expression
    last: bool
    type: Type


@dataclass(frozen=True, slots=True)
class LastIndex:
    """`stack.lastIndex`, in a parser: 2^32 - 1 where nothing was extracted yet."""

    stack: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Unary:
    """`op` is one of - ~ !."""

    op: str
    operand: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Binary:
    """`op` is an operator of P4; && and || do not evaluate their right side in vain."""

    op: str
    left: Expression
    right: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? yes : no`."""

    condition: Expression
    yes: Expression
    no: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion between bit, int and bool; widening copies the sign of an int."""

    operand: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Slice:
    """Bits `high` down to `low` of `base`."""

    base: Expression
    high: int
    low: int
    type: Type


@dataclass(frozen=True, slots=True)
class IsValid:
    """The validity bit of a header; of a header union, whether one of its headers is valid."""

    header: Expression
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class TableApply:
    """Apply a table; the value says whether an entry matched (`hit`), or the contrary."""

    table: str
    hit: bool = True
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Read a value of `type` at the parser's cursor, which stays."""

    type: Type


@dataclass(frozen=True, slots=True)
class StructValue:
    """A new struct, or a new valid header, of one value a field."""

    fields: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class StackValue:
    """A new header stack of one value an element."""

    elements: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Zero:
    """The zero of a type: 0, false, NoError, an invalid header, an empty varbit."""

    type: Type


@dataclass(frozen=True, slots=True)
class PacketLength:
    """The bytes of the packet, as bit<32> (parser)."""

    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """The value that a function returns; arguments as in `CallAction`."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Text:
    """Text in quotes, for an extern."""

    text: str
    type: Type = STRING


@dataclass(frozen=True, slots=True)
class ExternValue:
    """What a function of the architecture returns, or a method of the extern object `instance`."""

    instance: str
    name: str
    arguments: tuple[Expression, ...]
    type: Type


Expression: TypeAlias = (
    Constant
    | Name
    | Member
    | Element
    | StackPlace
    | LastIndex
    | Unary
    | Binary
    | Conditional
    | Cast
    | Slice
    | IsValid
    | TableApply
    | Lookahead
    | StructValue
    | StackValue
    | Zero
    | PacketLength
    | Call
    | Text
    | ExternValue
)
