# SPDX-License-Identifier: Apache-2.0
"""The syntax tree of statements; see `syntax`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .diagnostics import Location
from .syntax_expressions import Call, Expression, TypeRef


@dataclass(slots=True, eq=False, kw_only=True)
class Statement:
    """Any statement."""

    at: Location


@dataclass(slots=True, eq=False, kw_only=True)
class Assignment(Statement):
    """`target op value`; op is = or += and the like, which the checker turns into = (`is_compound`)."""

    target: Expression
    op: str
    value: Expression
    is_compound: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class CallStatement(Statement):
    """A call for its effect."""

    call: Call


@dataclass(slots=True, eq=False, kw_only=True)
class IfArm:
    """A condition of an `if`, and what is done where it is the first that holds."""

    condition: Expression
    body: Statement


@dataclass(slots=True, eq=False, kw_only=True)
class IfStatement(Statement):
    """`if (condition) body`, an arm more for each `else if`, and at last `else otherwise`."""

    arms: list[IfArm]
    otherwise: Statement | None


@dataclass(slots=True, eq=False, kw_only=True)
class SwitchLabel:
    """One case: `label` is None for default, `body` None where it falls through to the next."""

    at: Location
    label: Expression | None
    body: Block | None


@dataclass(slots=True, eq=False, kw_only=True)
class SwitchStatement(Statement):
    """`switch (subject) {...}`."""

    subject: Expression
    cases: list[SwitchLabel]


@dataclass(slots=True, eq=False, kw_only=True)
class Block(Statement):
    """`{...}`."""

    statements: list[Statement]


@dataclass(slots=True, eq=False, kw_only=True)
class ReturnStatement(Statement):
    """`return value;`."""

    result: Expression | None


@dataclass(slots=True, eq=False, kw_only=True)
class ExitStatement(Statement):
    """`exit;`."""


@dataclass(slots=True, eq=False, kw_only=True)
class ForStatement(Statement):
    """`for (initial; condition; update) body`."""

    initial: list[Statement]
    condition: Expression
    update: list[Statement]
    body: Statement


@dataclass(slots=True, eq=False, kw_only=True)
class ForInStatement(Statement):
    """`for (type_ref name in collection) body`; without `type_ref` the variable is one that there is.

    `collection` is a RangeSet or an expression.
    """

    name: str
    name_at: Location
    type_ref: TypeRef | None
    collection: Expression
    body: Statement
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class BreakStatement(Statement):
    """`break;`."""


@dataclass(slots=True, eq=False, kw_only=True)
class ContinueStatement(Statement):
    """`continue;`."""
