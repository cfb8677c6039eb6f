# SPDX-License-Identifier: Apache-2.0
"""The syntax tree of types and expressions; see `syntax`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .diagnostics import Location

# Types as written


@dataclass(slots=True, eq=False)
class TypeRef:
    """A type as written: `name` is bit, int, bool, ... or a declared name; `width` and `arguments` follow it
    in <>.

    `sizes` stand in brackets, of an array or header stack, that of the elements' own arrays first;
    `absolute` with a leading dot; `scope` as a NameRef's.
    """

    at: Location
    name: str
    width: Expression | None = None
    arguments: list[TypeRef] = field(default_factory=list)
    sizes: list[Expression] = field(default_factory=list)
    absolute: bool = False
    scope: Any = None


# Expressions


@dataclass(slots=True, eq=False, kw_only=True)
class Expression:
    """Any expression; `depth` counts its levels."""

    at: Location
    type: Any = None
    value: Any = None
    depth: int = 1


@dataclass(slots=True, eq=False, kw_only=True)
class Number(Expression):
    """A number; `width` is None where none is written."""

    number: int
    width: int | None = None
    signed: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class BoolLiteral(Expression):
    """`true` or `false`."""

    truth: bool


@dataclass(slots=True, eq=False, kw_only=True)
class StringLiteral(Expression):
    """Text in quotes."""

    text: str


@dataclass(slots=True, eq=False, kw_only=True)
class NameRef(Expression):
    """A name; `absolute` with a leading dot; `scope` is what it is looked up in, None where it stands."""

    name: str
    absolute: bool = False
    scope: Any = None
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class MemberRef(Expression):
    """`base.name`."""

    base: Expression
    name: str
    name_at: Location


@dataclass(slots=True, eq=False, kw_only=True)
class SliceRef(Expression):
    """`base[high:low]`, or `base[low+:width]`, whose `high` is made of the two."""

    base: Expression
    high: Expression
    low: Expression
    width: Expression | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class IndexRef(Expression):
    """`base[index]`."""

    base: Expression
    index: Expression


@dataclass(slots=True, eq=False, kw_only=True)
class UnaryOp(Expression):
    """`op operand`."""

    op: str
    operand: Expression


@dataclass(slots=True, eq=False, kw_only=True)
class BinaryOp(Expression):
    """`left op right`."""

    op: str
    left: Expression
    right: Expression


@dataclass(slots=True, eq=False, kw_only=True)
class ConditionalOp(Expression):
    """`condition ? yes : no`."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(slots=True, eq=False, kw_only=True)
class CastOp(Expression):
    """`(target) operand`."""

    target: TypeRef
    operand: Expression


Written: TypeAlias = "tuple[list[Expression], list[str] | None]"
"""Arguments as they stand in the program, and their names."""


@dataclass(slots=True, eq=False, kw_only=True)
class Call(Expression):
    """`callee<type_arguments>(arguments)`, or a constructor: then `constructed` is the type.

    `names` has one name an argument where they are given by name; once they are in the order of the
    parameters, `order` is that in which they were written, and `written` are they as they were.
    """

    callee: Expression | None
    arguments: list[Expression]
    type_arguments: list[TypeRef] = field(default_factory=list)
    constructed: TypeRef | None = None
    names: list[str] | None = None
    order: list[int] | None = None
    written: Written | None = None
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class ListValue(Expression):
    """`{a, b}` or `{x = a, y = b}`: then `names` has one name an item; `rest` with `...` at the end."""

    items: list[Expression]
    names: list[str] | None = None
    rest: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class MaskSet(Expression):
    """`left &&& mask` in a keyset."""

    left: Expression
    mask: Expression


@dataclass(slots=True, eq=False, kw_only=True)
class RangeSet(Expression):
    """`low .. high` in a keyset."""

    low: Expression
    high: Expression


@dataclass(slots=True, eq=False, kw_only=True)
class AnySet(Expression):
    """`default` or `_` in a keyset."""


@dataclass(slots=True, eq=False, kw_only=True)
class DefaultValue(Expression):
    """`...`: the value that a type has by default."""


@dataclass(slots=True, eq=False, kw_only=True)
class InvalidHeader(Expression):
    """`{#}`: an invalid header or header union."""


@dataclass(slots=True, eq=False, kw_only=True)
class ThisRef(Expression):
    """`this`, in an abstract method."""


@dataclass(slots=True, eq=False, kw_only=True)
class TypeName(Expression):
    """A type where a member of it follows: `stack_t<bit<8>>.apply(...)`."""

    ref: TypeRef
