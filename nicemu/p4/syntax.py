# SPDX-License-Identifier: Apache-2.0
"""The syntax tree: what the programmer wrote, every node with its place.

The checker fills in what it finds out: an expression's `type`, its `value` where it is a compile-time
constant, and the `symbol` that a name or a call means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from .diagnostics import Location
from .syntax_expressions import (
    AnySet,
    BinaryOp,
    BoolLiteral,
    Call,
    CastOp,
    ConditionalOp,
    DefaultValue,
    Expression,
    IndexRef,
    InvalidHeader,
    ListValue,
    MaskSet,
    MemberRef,
    NameRef,
    Number,
    RangeSet,
    SliceRef,
    StringLiteral,
    ThisRef,
    TypeName,
    TypeRef,
    UnaryOp,
    Written,
)
from .syntax_statements import (
    Assignment,
    Block,
    BreakStatement,
    CallStatement,
    ContinueStatement,
    ExitStatement,
    ForInStatement,
    ForStatement,
    IfArm,
    IfStatement,
    ReturnStatement,
    Statement,
    SwitchLabel,
    SwitchStatement,
)

# fmt: off
__all__ = [
    "ActionDeclaration", "ActionElement", "Annotation", "AnySet", "Assignment", "BinaryOp", "Block",
    "BlockDeclaration", "BoolLiteral", "BreakStatement", "Call", "CallStatement", "CastOp",
    "ConditionalOp", "ContinueStatement", "Declaration", "DefaultValue", "EntryElement",
    "EnumDeclaration", "EnumMember", "ExitStatement", "Expression", "ExternDeclaration",
    "FieldDeclaration", "ForInStatement", "ForStatement", "FunctionDeclaration", "IfArm", "IfStatement",
    "IndexRef", "Instantiation", "InvalidHeader", "KeyElement", "ListValue", "MaskSet", "MemberRef",
    "MethodDeclaration", "NameRef", "Number", "PackageDeclaration", "ParameterDeclaration",
    "PropertyElement", "RangeSet", "ReturnStatement", "SelectLabel", "SliceRef", "StateDeclaration",
    "Statement", "StringLiteral", "StructDeclaration", "SwitchLabel", "SwitchStatement",
    "TableDeclaration", "ThisRef", "TypeAliasDeclaration", "TypeName", "TypeRef", "UnaryOp",
    "ValueSetDeclaration", "VariableDeclaration",
]
# fmt: on


@dataclass(slots=True, eq=False, kw_only=True)
class Annotation:
    """`@name(...)`, or `@name[...]` where `structured`; `tokens` are those of the body.

    `values` are the expressions in the body of @field_list and in square brackets, `keys` what stands before
    each of them and =, "" for nothing. `value` is the body of @name where it is computed: the checker puts
    the string that it is into `tokens`.
    """

    at: Location
    name: str
    tokens: list[str] = field(default_factory=list)
    structured: bool = False
    values: list[Expression] = field(default_factory=list)
    value: Expression | None = None
    keys: list[str] = field(default_factory=list)


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
    """`type(arguments) name;`; `members` are abstract methods written out, and what they use."""

    type_ref: TypeRef
    arguments: list[Expression]
    names: list[str] | None = None
    members: list[Declaration] | None = None
    written: Written | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class ParameterDeclaration(Declaration):
    """A parameter; direction is in, out, inout or "" (directionless)."""

    type_ref: TypeRef
    direction: str
    default: Expression | None = None

    @property
    def is_optional(self) -> bool:
        """Whether it is @optional: externs and packages may be given no argument for it."""
        return any(item.name == "optional" for item in self.annotations)


@dataclass(slots=True, eq=False, kw_only=True)
class TypeAliasDeclaration(Declaration):
    """`typedef` or, with `distinct`, `type`; `declared` is what a typedef declares and names at once."""

    type_ref: TypeRef
    distinct: bool
    declared: Declaration | None = None


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

    @property
    def is_open(self) -> bool:
        """Whether it is a list of errors or match kinds, of which a program has several."""
        return self.kind in ("error", "match_kind")


@dataclass(slots=True, eq=False, kw_only=True)
class MethodDeclaration(Declaration):
    """A method or constructor of an extern, or an extern function; `returns` is None for a constructor."""

    returns: TypeRef | None
    parameters: list[ParameterDeclaration]
    type_parameters: list[str] = field(default_factory=list)
    abstract: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class FunctionDeclaration(Declaration):
    """A function with a body."""

    returns: TypeRef
    parameters: list[ParameterDeclaration]
    body: Block
    type_parameters: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class ValueSetDeclaration(Declaration):
    """`value_set<type_ref>(size) name;`."""

    type_ref: TypeRef
    size: Expression


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


@dataclass(slots=True, eq=False, kw_only=True)
class KeyElement:
    """One key of a table."""

    at: Location
    expression: Expression
    match_kind: str
    match_kind_at: Location
    annotations: list[Annotation] = field(default_factory=list)
    id: int = 0


@dataclass(slots=True, eq=False, kw_only=True)
class ActionElement:
    """An action in a table's list or default_action; `arguments` is None without parentheses."""

    scope: ClassVar[None] = None
    """It is looked up where it stands."""
    at: Location
    name: str
    arguments: list[Expression] | None
    names: list[str] | None = None
    absolute: bool = False
    annotations: list[Annotation] = field(default_factory=list)
    written: Written | None = None
    symbol: Any = None


@dataclass(slots=True, eq=False, kw_only=True)
class EntryElement:
    """One entry written in the program."""

    at: Location
    keysets: list[Expression]
    action: ActionElement
    priority: Expression | None = None
    constant: bool = False
    annotations: list[Annotation] = field(default_factory=list)


@dataclass(slots=True, eq=False, kw_only=True)
class PropertyElement(Declaration):
    """A property of a table that the language leaves to the architecture, such as `implementation`."""

    value: Expression
    constant: bool


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
    entry_annotations: list[Annotation] = field(default_factory=list)
    properties: list[PropertyElement] = field(default_factory=list)
    property_names: set[str] = field(default_factory=set)


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
