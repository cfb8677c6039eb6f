# SPDX-License-Identifier: Apache-2.0
"""The syntax tree: what the programmer wrote, every node with its place.

The checker fills in what it finds out: an expression's `type`, its `value` where it is a compile-time
constant, and the `symbol` that a name or a call means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .diagnostics import Location

# Types as written


@dataclass(slots=True, eq=False)
class TypeRef:
    """A type as written: `name` is bit, int, bool, ... or a declared name; `width` and `arguments` follow it
    in <>.

    `stack` is the size in brackets of a header stack.
    """

    at: Location
    name: str
    width: Expression | None = None
    arguments: list[TypeRef] = field(default_factory=list)
    stack: Expression | None = None


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
    """A number; `width` is 0 where none is written."""

    number: int
    width: int = 0
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
    """A name; `absolute` with a leading dot."""

    name: str
    absolute: bool = False
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class MemberRef(Expression):
    """`base.name`; `symbol` is filled where the member is no field."""

    base: Expression
    name: str
    name_at: Location
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class SliceRef(Expression):
    """`base[high:low]`."""

    base: Expression
    high: Expression
    low: Expression


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


@dataclass(slots=True, eq=False, kw_only=True)
class Call(Expression):
    """`callee<type_arguments>(arguments)`, or a constructor: then `constructed` is the type."""

    callee: Expression | None
    arguments: list[Expression]
    type_arguments: list[TypeRef] = field(default_factory=list)
    constructed: TypeRef | None = None
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class ListValue(Expression):
    """`{a, b}` or `{x = a, y = b}`: then `names` has one name an item."""

    items: list[Expression]
    names: list[str] | None = None


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


# Statements


@dataclass(slots=True, eq=False, kw_only=True)
class Statement:
    """Any statement."""

    at: Location


@dataclass(slots=True, eq=False, kw_only=True)
class Assignment(Statement):
    """`target op value`; op is = or += and the like."""

    target: Expression
    op: str
    value: Expression


@dataclass(slots=True, eq=False, kw_only=True)
class CallStatement(Statement):
    """A call for its effect."""

    call: Call


@dataclass(slots=True, eq=False, kw_only=True)
class IfStatement(Statement):
    """`if (condition) then else otherwise`."""

    condition: Expression
    then: Statement
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


# Declarations


@dataclass(slots=True, eq=False, kw_only=True)
class Annotation:
    """`@name(...)`: `text` is the body as written, tokens joined."""

    at: Location
    name: str
    tokens: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class Declaration(Statement):
    """Anything with a name."""

    name: str
    annotations: list[Annotation] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class VariableDeclaration(Declaration):
    """`type name = initial;`; `constant` with const."""

    type_ref: TypeRef
    initial: Expression | None
    constant: bool = False
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class Instantiation(Declaration):
    """`type(arguments) name;`."""

    type_ref: TypeRef
    arguments: list[Expression]
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class ParameterDeclaration(Declaration):
    """A parameter; direction is in, out, inout or "" (directionless)."""

    type_ref: TypeRef
    direction: str
    default: Expression | None = None
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class TypeAliasDeclaration(Declaration):
    """`typedef` or, with `distinct`, `type`."""

    type_ref: TypeRef
    distinct: bool


@dataclass(slots=True, eq=False, kw_only=True)
class FieldDeclaration(Declaration):
    """A field of a header or struct."""

    type_ref: TypeRef


@dataclass(slots=True, eq=False, kw_only=True)
class StructDeclaration(Declaration):
    """`kind` is header, struct or header_union."""

    kind: str
    fields: list[FieldDeclaration]
    type_parameters: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class EnumMember:
    """A member of an enum, with its value where the enum is serializable."""

    at: Location
    name: str
    value: Expression | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class EnumDeclaration(Declaration):
    """`underlying` is given where the enum is serializable. `error` and `match_kind` lists are enums too."""

    kind: str
    underlying: TypeRef | None
    members: list[EnumMember]


@dataclass(slots=True, eq=False, kw_only=True)
class MethodDeclaration(Declaration):
    """A method or constructor of an extern, or an extern function; `returns` is None for a constructor."""

    returns: TypeRef | None
    parameters: list[ParameterDeclaration]
    type_parameters: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class ExternDeclaration(Declaration):
    """An extern object type."""

    methods: list[MethodDeclaration]
    type_parameters: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class ActionDeclaration(Declaration):
    """An action."""

    parameters: list[ParameterDeclaration]
    body: Block
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class KeyElement:
    """One key of a table."""

    at: Location
    expression: Expression
    match_kind: str
    match_kind_at: Location
    annotations: list[Annotation] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class ActionElement:
    """An action in a table's list or default_action; `arguments` is None without parentheses."""

    at: Location
    name: str
    arguments: list[Expression] | None
    annotations: list[Annotation] = field(default_factory=list)
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class EntryElement:
    """One entry written in the program."""

    at: Location
    keysets: list[Expression]
    action: ActionElement
    priority: Expression | None = None
    constant: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class TableDeclaration(Declaration):
    """A table; None where a property is absent."""

    keys: list[KeyElement] = field(default_factory=list)
    actions: list[ActionElement] | None = None
    default_action: ActionElement | None = None
    const_default: bool = False
    size: Expression | None = None
    entries: list[EntryElement] | None = None
    const_entries: bool = False
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class SelectLabel:
    """One case of a select."""

    at: Location
    keysets: list[Expression]
    state: str
    state_at: Location


@dataclass(slots=True, eq=False, kw_only=True)
class StateDeclaration(Declaration):
    """A parser state: goes to `goto`, or selects over `keys`; neither where the transition is missing."""

    body: list[Statement]
    goto: str = ""
    goto_at: Location | None = None
    keys: list[Expression] | None = None
    cases: list[SelectLabel] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class BlockDeclaration(Declaration):
    """A parser or control, or just its type where `body` and `states` are None. `kind` is parser or
    control.
    """

    kind: str
    parameters: list[ParameterDeclaration]
    type_parameters: list[str] = field(default_factory=list)
    constructor_parameters: list[ParameterDeclaration] = field(default_factory=list)
    locals: list[Declaration] = field(default_factory=list)
    states: list[StateDeclaration] | None = None
    body: Block | None = None

    @property
    def is_type(self) -> bool:
        """Whether this declares a type alone."""
        return self.states is None and self.body is None


@dataclass(slots=True, eq=False, kw_only=True)
class PackageDeclaration(Declaration):
    """A package type."""

    parameters: list[ParameterDeclaration]
    type_parameters: list[str] = field(default_factory=list)
