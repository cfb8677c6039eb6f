# SPDX-License-Identifier: Apache-2.0
"""The program IR: what a compiled P4 program is, as immutable values that travel as JSON.

The IR is P4 after name resolution, type checking and renaming. Every variable, parameter and local of the
whole program has one unique name and one static place (`Program.variables`): P4 has no recursion, so no call
ever needs a second copy. Every expression carries its type. Names that the control plane sees (tables,
actions) stay hierarchical, "KvMatch.session".
Source: P4-16 Language Specification 1.2.5.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .ir_encode import encode_text
from .ir_expressions import (
    Binary,
    Call,
    Cast,
    Conditional,
    Constant,
    Element,
    Expression,
    ExternValue,
    IsValid,
    LastIndex,
    Lookahead,
    Member,
    Name,
    PacketLength,
    Slice,
    StackPlace,
    StackValue,
    StructValue,
    TableApply,
    Text,
    Unary,
    Zero,
)
from .ir_externs import Direction, ExternInstance, ExternParameter, ExternSignature, Given
from .ir_parser import (
    ACCEPT,
    REJECT,
    Goto,
    KeyAny,
    KeyInSet,
    KeyMask,
    KeyRange,
    Keyset,
    Parser,
    Select,
    SelectCase,
    State,
    Transition,
)
from .ir_statements import (
    FOR,
    Advance,
    ApplyTable,
    Assign,
    Break,
    CallAction,
    CallFunction,
    CallMethod,
    CallRoutine,
    Continue,
    Emit,
    Exit,
    Extract,
    ExtractVarbit,
    ForRange,
    If,
    Loop,
    MoveStack,
    Reset,
    Return,
    SetValid,
    Statement,
    Switch,
    SwitchAction,
    SwitchCase,
    ValueCase,
    Verify,
)
from .ir_types import (
    ARRAY,
    BOOL,
    CONTROLLER_HEADERS,
    ERROR,
    INTEGER,
    MAX_CALLS,
    MAX_HEADER_BYTES,
    MAX_STACK_SIZE,
    MAX_TYPE_DEPTH,
    MAX_VALUES,
    MAX_VARBIT_BITS,
    MAX_WIDTH_BITS,
    STRING,
    TUPLE,
    Annotation,
    AnnotationValue,
    Bits,
    Bool,
    EnumMember,
    EnumType,
    ErrorCode,
    Field,
    HeaderType,
    Integer,
    Layout,
    List,
    Named,
    NewType,
    Stack,
    String,
    StructType,
    Type,
    UnionType,
    Varbit,
)

__all__ = [
    "ACCEPT",
    "ARRAY",
    "BOOL",
    "CONTROLLER_HEADERS",
    "CORE_ERRORS",
    "ERROR",
    "FOR",
    "HEADERS",
    "INTEGER",
    "MAX_CALLS",
    "MAX_HEADER_BYTES",
    "MAX_STACK_SIZE",
    "MAX_TYPE_DEPTH",
    "MAX_VALUES",
    "MAX_VARBIT_BITS",
    "MAX_WIDTH_BITS",
    "METADATA",
    "NIC",
    "REJECT",
    "STRING",
    "TUPLE",
    "Action",
    "ActionCall",
    "ActionRef",
    "Advance",
    "Annotation",
    "AnnotationValue",
    "ApplyTable",
    "Assign",
    "Binary",
    "Bits",
    "Bool",
    "Break",
    "Call",
    "CallAction",
    "CallFunction",
    "CallMethod",
    "CallRoutine",
    "Cast",
    "Conditional",
    "Constant",
    "Continue",
    "Control",
    "Direction",
    "Element",
    "Emit",
    "Entry",
    "EnumMember",
    "EnumType",
    "ErrorCode",
    "Exit",
    "Expression",
    "ExternInstance",
    "ExternParameter",
    "ExternSignature",
    "ExternValue",
    "Extract",
    "ExtractVarbit",
    "Field",
    "FieldList",
    "ForRange",
    "Function",
    "Given",
    "Goto",
    "HeaderType",
    "If",
    "Integer",
    "IsValid",
    "Key",
    "KeyAny",
    "KeyInSet",
    "KeyMask",
    "KeyRange",
    "Keyset",
    "LastIndex",
    "Layout",
    "List",
    "Lookahead",
    "Loop",
    "MatchKind",
    "Member",
    "MoveStack",
    "Name",
    "Named",
    "NewType",
    "PacketLength",
    "Parameter",
    "Parser",
    "Program",
    "Reset",
    "Return",
    "Select",
    "SelectCase",
    "SetValid",
    "Slice",
    "Stack",
    "StackPlace",
    "StackValue",
    "State",
    "Statement",
    "String",
    "StructType",
    "StructValue",
    "Switch",
    "SwitchAction",
    "SwitchCase",
    "Table",
    "TableApply",
    "Text",
    "Transition",
    "Type",
    "Unary",
    "UnionType",
    "ValueCase",
    "ValueSet",
    "ValueSetField",
    "Varbit",
    "Variable",
    "Verify",
    "Zero",
]

HEADERS = "headers"
METADATA = "metadata"
NIC = "nic"
"""Names of the variables that the architecture owns: parsed headers, user metadata, the NIC's metadata."""

CORE_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)
"""Errors that the engine itself raises; every program's list begins with them. Source: core.p4."""


MAX_LPM_KEYS = 4
"""In one table. Of the entries that match, the one with the longest prefix of the first of them wins, among
those the one with the longest of the second, and so on.
"""


class MatchKind(enum.Enum):
    """How a table key is compared."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"
    OPTIONAL = "optional"

    @property
    def has_priority(self) -> bool:
        """Whether entries of a table with such a key have priorities."""
        return self in (MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an action: `variable` is its place, `name` what the control plane calls it.

    `type_name` here and below is that of a `NewType` or `EnumType`, "" for none.
    """

    name: str
    variable: str
    type: Type
    direction: Direction = Direction.NONE
    id: int = 0
    type_name: str = ""
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """An action; `id` is 0 unless the program chose it with @id."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    id: int = 0
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the program; `result` is the variable that holds what it returns, "" for none.

    An instance of a control inside another is one too: then `is_control`, and it may exit, and apply tables.
    An action calls none that does what actions may not.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    result: str = ""
    is_control: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table."""

    name: str
    expression: Expression
    match_kind: MatchKind
    id: int = 0
    type_name: str = ""
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionRef:
    """An action that a table may run; `arguments` bind its parameters that have a direction."""

    action: str
    arguments: tuple[Expression, ...] = ()
    default_only: bool = False
    table_only: bool = False
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action with its action data."""

    action: str
    parameters: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the program's own, one keyset a key. Larger `priority` wins; 0 in exact and lpm tables.

    `const` keeps it as it is in a table whose other entries may change.
    """

    keysets: tuple[Keyset, ...]
    call: ActionCall
    priority: int = 0
    const: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A match-action table; `size` is its capacity in entries.

    `profile`, `counter` and `meter` name extern objects of the table's own, "" for none; `selector_keys` are
    what a selector hashes.
    """

    name: str
    keys: tuple[Key, ...]
    actions: tuple[ActionRef, ...]
    default_action: ActionCall
    size: int
    const_default: bool = False
    entries: tuple[Entry, ...] = ()
    const_entries: bool = False
    id: int = 0
    profile: str = ""
    selector_keys: tuple[Expression, ...] = ()
    counter: str = ""
    meter: str = ""
    idle_timeout: bool = False
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """A control block, in one of the roles that its architecture has, such as "deparser"."""

    role: str
    name: str
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """One static place."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class ValueSetField:
    """One field of a value set's members, compared as a table's key is."""

    name: str
    type: Type
    match_kind: MatchKind = MatchKind.EXACT
    type_name: str = ""
    id: int = 0
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A value set of a parser; `size` is how many members it has room for."""

    name: str
    size: int
    fields: tuple[ValueSetField, ...]
    id: int = 0
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldList:
    """The places in the program's metadata that a copy of a packet keeps where it is made with `index`."""

    index: int
    fields: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled program for one pipeline: the parser, and the controls behind it in their roles' order.

    `package` is what @pkginfo and @platform_property say of it, the text of each key. `extern_signatures` are
    of the externs that it declares itself and calls, and that the architecture does not have.
    """

    name: str
    architecture: str
    headers: tuple[HeaderType, ...]
    structs: tuple[StructType, ...]
    errors: tuple[str, ...]
    variables: tuple[Variable, ...]
    externs: tuple[ExternInstance, ...]
    parser: Parser
    controls: tuple[Control, ...]
    actions: tuple[Action, ...] = ()
    tables: tuple[Table, ...] = ()
    unions: tuple[UnionType, ...] = ()
    functions: tuple[Function, ...] = ()
    field_lists: tuple[FieldList, ...] = ()
    value_sets: tuple[ValueSet, ...] = ()
    new_types: tuple[NewType, ...] = ()
    enums: tuple[EnumType, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    package: tuple[Annotation, ...] = ()
    extern_signatures: tuple[ExternSignature, ...] = ()

    def control(self, role: str) -> Control:
        """Return the control in a role of the architecture."""
        return next(control for control in self.controls if control.role == role)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the program as JSON text; fields that hold their default are left out."""
        return encode_text(self, indent)
