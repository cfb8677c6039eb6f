# SPDX-License-Identifier: Apache-2.0
"""Expressions of the programs whose meaning is judged; `str` of one is its P4 text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tests.reliability.p4_meaning_types import Bits, Literal, Parameter, Record, StackOf, Type

if TYPE_CHECKING:
    from tests.reliability.p4_meaning_tree import Callable_, Table


@dataclass(frozen=True)
class Variable:
    kind: Type
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Member:
    kind: Type
    base: Expression
    name: str

    def __str__(self) -> str:
        return f"{self.base}[{self.name}]" if self.name.isdigit() else f"{self.base}.{self.name}"


@dataclass(frozen=True)
class Index:
    kind: Type
    base: Expression
    index: Expression

    def __str__(self) -> str:
        return f"{self.base}[{self.index}]"


@dataclass(frozen=True)
class Slice:
    kind: Type
    base: Expression
    high: int
    low: int

    def __str__(self) -> str:
        return f"{self.base}[{self.high}:{self.low}]"


@dataclass(frozen=True)
class SliceAt:
    """`base[low+:width]`, of bits from one on that is computed."""

    kind: Bits
    base: Expression
    low: Expression

    def __str__(self) -> str:
        return f"{self.base}[{self.low}+:{self.kind.width}]"


@dataclass(frozen=True)
class Ignored:
    """`_`, in place of what an `out` parameter would be copied to."""

    kind: Type

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True)
class Unary:
    kind: Type
    operator: str
    operand: Expression

    def __str__(self) -> str:
        return f"({self.operator}({self.operand}))"


@dataclass(frozen=True)
class Binary:
    kind: Type
    operator: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"({self.left} {self.operator} {self.right})"


@dataclass(frozen=True)
class Conditional:
    kind: Type
    condition: Expression
    yes: Expression
    no: Expression

    def __str__(self) -> str:
        return f"({self.condition} ? {self.yes} : {self.no})"


@dataclass(frozen=True)
class Cast:
    kind: Type
    operand: Expression

    def __str__(self) -> str:
        return f"(({self.kind})({self.operand}))"


@dataclass(frozen=True)
class IsValid:
    kind: Type
    base: Expression

    def __str__(self) -> str:
        return f"{self.base}.isValid()"


@dataclass(frozen=True)
class Parts:
    """`{…}` or `{name = …}` of a type: the parts in the order of the text; `{#}` without any."""

    kind: Record | StackOf
    parts: tuple[tuple[str, Expression], ...]
    named: bool = False
    invalid: bool = False
    cast: bool = True

    def __str__(self) -> str:
        if self.invalid:
            inner = "{#}"
        else:
            texts = [f"{name} = {part}" if self.named else str(part) for name, part in self.parts]
            inner = "{ " + ", ".join(texts) + " }"
        return f"(({self.kind}) {inner})" if self.cast else inner


@dataclass(frozen=True)
class Call:
    """A call of a function (with a value) or of an action, by arguments in the order of the parameters.

    `order` has them be named, and stand in another order.
    """

    kind: Type | None
    callee: Callable_
    arguments: tuple[Expression, ...]
    order: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.callee.name}({arguments_text(self.callee.parameters, self.arguments, self.order)})"


def arguments_text(
    parameters: tuple[Parameter, ...], arguments: tuple[Expression, ...], order: tuple[int, ...]
) -> str:
    """The text of arguments, by name where there is an order."""
    if order:
        return ", ".join(f"{parameters[at].name} = {arguments[at]}" for at in order)
    return ", ".join(map(str, arguments))


@dataclass(frozen=True)
class Applied:
    """`table.apply().hit` or `.miss`."""

    kind: Type
    table: Table
    what: str

    def __str__(self) -> str:
        return f"{self.table.name}.apply().{self.what}"


@dataclass(frozen=True)
class Lookahead:
    kind: Type

    def __str__(self) -> str:
        return f"packet.lookahead<{self.kind}>()"


@dataclass(frozen=True)
class LastIndex:
    kind: Type
    base: Expression
    what: str = "lastIndex"

    def __str__(self) -> str:
        return f"{self.base}.{self.what}"


Expression: TypeAlias = (
    Literal
    | Variable
    | Member
    | Index
    | Slice
    | SliceAt
    | Ignored
    | Unary
    | Binary
    | Conditional
    | Cast
    | IsValid
    | Parts
    | Call
    | Applied
    | Lookahead
    | LastIndex
)
