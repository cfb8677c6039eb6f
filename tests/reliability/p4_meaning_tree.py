# SPDX-License-Identifier: Apache-2.0
"""The syntax tree of the programs whose meaning is judged; `str` of a node is its P4 text.

Specification: P4-16 Language Specification 1.2.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tests.reliability.p4_meaning_nodes import (
    Applied,
    Binary,
    Call,
    Cast,
    Conditional,
    Expression,
    Ignored,
    Index,
    IsValid,
    LastIndex,
    Lookahead,
    Member,
    Parts,
    Slice,
    SliceAt,
    Unary,
    Variable,
    arguments_text,
)
from tests.reliability.p4_meaning_types import (
    Bits,
    Bool,
    Error,
    Literal,
    Matcher,
    Named,
    Parameter,
    Record,
    StackOf,
    Type,
    Varbit,
    matcher_text,
)

__all__ = [
    "Advance",
    "Applied",
    "ApplyControl",
    "ApplyTable",
    "Assign",
    "Binary",
    "Bits",
    "Block",
    "Bool",
    "Call",
    "Callable_",
    "Cast",
    "Conditional",
    "Control",
    "Declare",
    "Do",
    "Error",
    "Expression",
    "Extract",
    "If",
    "Ignored",
    "Index",
    "IsValid",
    "LastIndex",
    "Leave",
    "Literal",
    "Lookahead",
    "Loop",
    "LoopOver",
    "Matcher",
    "Member",
    "Method",
    "Named",
    "Parameter",
    "Parser",
    "Parts",
    "Record",
    "Return",
    "Slice",
    "SliceAt",
    "StackOf",
    "State",
    "Statement",
    "Switch",
    "Table",
    "Tree",
    "Type",
    "Unary",
    "Varbit",
    "Variable",
    "Verify",
]


@dataclass(eq=False)
class Block:
    statements: list[Statement] = field(default_factory=list)

    def __str__(self) -> str:
        return "{\n" + "".join(f"{statement}\n" for statement in self.statements) + "}"


@dataclass(eq=False)
class Declare:
    kind: Type
    name: str
    start: Expression | None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}{f' = {self.start}' if self.start is not None else ''};"


@dataclass(eq=False)
class Assign:
    target: Expression
    value: Expression
    operator: str = ""

    def __str__(self) -> str:
        return f"{self.target} {self.operator}= {self.value};"


@dataclass(eq=False)
class Do:
    """A call as a statement."""

    call: Call

    def __str__(self) -> str:
        return f"{self.call};"


@dataclass(eq=False)
class If:
    condition: Expression
    yes: Block
    no: Block | None

    def __str__(self) -> str:
        inner = self.no.statements if self.no is not None else []
        no = inner[0] if len(inner) == 1 and isinstance(inner[0], If) else self.no
        return f"if ({self.condition}) {self.yes}" + (f" else {no}" if no is not None else "")


@dataclass(eq=False)
class Leave:
    """`exit`, `break` or `continue`."""

    how: str

    def __str__(self) -> str:
        return f"{self.how};"


@dataclass(eq=False)
class Return:
    value: Expression | None

    def __str__(self) -> str:
        return "return;" if self.value is None else f"return {self.value};"


@dataclass(eq=False)
class Loop:
    """`for (bit<8> name = first; name <= last; name = name + step)`."""

    name: str
    first: Expression
    last: Expression
    body: Block

    def __str__(self) -> str:
        name = self.name
        return f"for (bit<8> {name} = {self.first}; {name} < {self.last}; {name} = {name} + 1) {self.body}"


@dataclass(eq=False)
class LoopOver:
    """`for (kind name in first .. last)` or, without a last one, over a stack."""

    kind: Type
    name: str
    first: Expression
    last: Expression | None
    body: Block

    def __str__(self) -> str:
        over = f"{self.first} .. {self.last}" if self.last is not None else str(self.first)
        return f"for ({self.kind} {self.name} in {over}) {self.body}"


@dataclass(eq=False)
class Switch:
    """On a value, or on the action that a table runs; a label None is `default`, no block falls through."""

    subject: Expression | Table
    cases: list[tuple[int | str | None, Block | None]]

    def __str__(self) -> str:
        texts = []
        for label, block in self.cases:
            if label is None:
                name = "default"
            elif isinstance(label, str) or isinstance(self.subject, Table):
                name = str(label)
            else:
                name = str(Literal(self.subject.kind, label)) if self.subject.kind is not None else ""
            texts.append(f"{name}: {block if block is not None else ''}\n")
        subject = (
            f"{self.subject.name}.apply().action_run" if isinstance(self.subject, Table) else self.subject
        )
        return f"switch ({subject}) {{\n{''.join(texts)}}}"


@dataclass(eq=False)
class ApplyTable:
    table: Table

    def __str__(self) -> str:
        return f"{self.table.name}.apply();"


@dataclass(eq=False)
class ApplyControl:
    """An instance of a control or parser is applied."""

    instance: str
    callee: Control | Parser
    arguments: tuple[Expression, ...]
    order: tuple[int, ...] = ()

    def __str__(self) -> str:
        texts = arguments_text(self.callee.parameters, self.arguments, self.order)
        if isinstance(self.callee, Parser):
            first = "packet = packet" if self.order else "packet"
            texts = f"{first}, {texts}" if texts else first
        return f"{self.instance}.apply({texts});"


@dataclass(eq=False)
class Method:
    """`setValid`, `setInvalid`, `push_front`, `pop_front` of a header or stack."""

    base: Expression
    name: str
    count: int | None = None

    def __str__(self) -> str:
        return f"{self.base}.{self.name}({'' if self.count is None else self.count});"


@dataclass(eq=False)
class Extract:
    """Into a header, or into the next element of a stack; with a length in bits where it has a varbit."""

    target: Expression
    following: bool = False
    length: Expression | None = None

    def __str__(self) -> str:
        length = f", (bit<32>)({self.length})" if self.length is not None else ""
        return f"packet.extract({self.target}{'.next' if self.following else ''}{length});"


@dataclass(eq=False)
class Advance:
    length: int

    def __str__(self) -> str:
        return f"packet.advance({self.length});"


@dataclass(eq=False)
class Verify:
    condition: Expression
    error: str

    def __str__(self) -> str:
        return f"verify({self.condition}, error.{self.error});"


Statement: TypeAlias = (
    Block
    | Declare
    | Assign
    | Do
    | If
    | Leave
    | Return
    | Loop
    | LoopOver
    | Switch
    | ApplyTable
    | ApplyControl
    | Method
    | Extract
    | Advance
    | Verify
)


@dataclass(eq=False)
class Callable_:  # noqa: N801 - a name of typing's
    """A function, or an action (`result` None, `action` true)."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type | None
    body: Block
    action: bool = False

    def __str__(self) -> str:
        kind = "action" if self.action else str(self.result) if self.result is not None else "void"
        return f"{kind} {self.name}({', '.join(str(each) for each in self.parameters)}) {self.body}"


@dataclass(eq=False)
class Table:
    """Entries are (matchers, action by its number, action data); the actions are calls without their data."""

    name: str
    keys: tuple[tuple[Expression, str], ...]
    actions: tuple[Call, ...]
    entries: tuple[tuple[tuple[Matcher, ...], int, tuple[int, ...]], ...]
    default: int
    default_data: tuple[int, ...]

    def __str__(self) -> str:
        keys = " ".join(f'{key}: {how} @name("k{at}");' for at, (key, how) in enumerate(self.keys))
        lines = []
        for matchers, number, data in self.entries:
            sets = [
                matcher_text(key.kind, one)
                for (key, _), one in zip(self.keys, matchers, strict=True)
                if key.kind
            ]
            inner = sets[0] if len(sets) == 1 else f"({', '.join(sets)})"
            lines.append(f"{inner}: {self._call(number, data)};\n")
        actions = " ".join(f"{call};" for call in self.actions)
        entries = f"const entries = {{\n{''.join(lines)}}}\n" if lines else ""
        default = f"const default_action = {self._call(self.default, self.default_data)};"
        return f"table {self.name} {{ key = {{ {keys} }} actions = {{ {actions} }}\n{default}\n{entries}}}"

    def _call(self, number: int, data: tuple[int, ...]) -> str:
        call = self.actions[number]
        rest = call.callee.parameters[len(call.arguments) :]
        texts = [str(one) for one in call.arguments]
        texts += [str(Literal(each.kind, value)) for each, value in zip(rest, data, strict=True)]
        return f"{call.callee.name}({', '.join(texts)})"


@dataclass(eq=False)
class Control:
    name: str
    parameters: tuple[Parameter, ...]
    locals: list[Declare | Callable_ | Table | tuple[str, Control]]
    body: Block

    def __str__(self) -> str:
        inner = "".join(
            f"{one[1].name}() {one[0]};\n" if isinstance(one, tuple) else f"{one}\n" for one in self.locals
        )
        parameters = ", ".join(str(each) for each in self.parameters)
        return f"control {self.name}({parameters}) {{\n{inner}apply {self.body}\n}}"


@dataclass(eq=False)
class State:
    """Goes to a state by name, or by the first case that matches the subjects; none of them is `NoMatch`."""

    name: str
    body: Block
    subjects: tuple[Expression, ...]
    cases: tuple[tuple[tuple[Matcher, ...], str], ...]

    def __str__(self) -> str:
        inner = "".join(f"{one}\n" for one in self.body.statements)
        if not self.subjects:
            return f"state {self.name} {{\n{inner}transition {self.cases[0][1]};\n}}"
        lines = []
        for matchers, to in self.cases:
            sets = [
                matcher_text(one.kind, matcher)
                for one, matcher in zip(self.subjects, matchers, strict=True)
                if one.kind is not None
            ]
            inner_sets = sets[0] if len(sets) == 1 else f"({', '.join(sets)})"
            lines.append(f"{inner_sets}: {to};\n")
        subjects = ", ".join(str(one) for one in self.subjects)
        return f"state {self.name} {{\n{inner}transition select({subjects}) {{\n{''.join(lines)}}}\n}}"


@dataclass(eq=False)
class Parser:
    name: str
    parameters: tuple[Parameter, ...]
    locals: list[Declare | tuple[str, Parser]]
    states: list[State]

    def __str__(self) -> str:
        inner = "".join(
            f"{one[1].name}() {one[0]};\n" if isinstance(one, tuple) else f"{one}\n" for one in self.locals
        )
        parameters = ", ".join(["packet_in packet", *(str(each) for each in self.parameters)])
        states = "\n".join(str(one) for one in self.states)
        return f"parser {self.name}({parameters}) {{\n{inner}{states}\n}}"


@dataclass(eq=False)
class Tree:
    """A program: what it declares, in the order of the text; the main parser and controls are called so."""

    types: list[Named | Record]
    errors: list[str]
    callables: list[Callable_]
    blocks: list[Control | Parser]
    parser: Parser
    ingress: Control
    egress: Control

    def __str__(self) -> str:
        types = "\n".join(one.declaration() for one in self.types)
        rest = "\n".join(
            str(one) for one in [*self.callables, *self.blocks, self.parser, self.ingress, self.egress]
        )
        return (
            "#include <core.p4>\n#include <v1model.p4>\n"
            f"error {{ {', '.join(self.errors)} }}\n{types}\n{rest}\n"
            "control TheVerification(inout headers_t headers, inout meta_t meta) { apply { } }\n"
            "control TheComputation(inout headers_t headers, inout meta_t meta) { apply { } }\n"
            "control TheDeparser(packet_out packet, in headers_t headers) {\n"
            "apply { packet.emit(headers); }\n}\n"
            "V1Switch(TheParser(), TheVerification(), TheIngress(), TheEgress(), TheComputation(),"
            " TheDeparser()) main;\n"
        )
