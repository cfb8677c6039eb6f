# SPDX-License-Identifier: Apache-2.0
"""Types and the syntax tree of the programs whose meaning is judged; `str` of a node is its P4 text.

Specification: P4-16 Language Specification 1.2.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Bits:
    """`bit<width>` or `int<width>`."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True)
class Named:
    """A type of bits with a name of its own: a `type` or an `enum` with a type; members of the latter."""

    name: str
    width: int
    members: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return self.name

    def declaration(self) -> str:
        if not self.members:
            return f"type bit<{self.width}> {self.name};"
        inner = ", ".join(f"{name} = {number}" for name, number in self.members)
        return f"enum bit<{self.width}> {self.name} {{ {inner} }}"


@dataclass(frozen=True)
class Bool:
    """`bool`."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True)
class Error:
    """`error`."""

    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True)
class Record:
    """A header, header_union, struct or tuple; a tuple's fields are named by their numbers."""

    kind: str
    name: str
    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        if self.kind == "tuple":
            return f"tuple<{', '.join(str(kind) for _, kind in self.fields)}>"
        return self.name

    def declaration(self) -> str:
        inner = "".join(f" {kind} {name};" for name, kind in self.fields)
        return f"{self.kind} {self.name} {{{inner} }}"


@dataclass(frozen=True)
class StackOf:
    """A header stack."""

    element: Record
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class Varbit:
    """`varbit<most>`."""

    most: int

    def __str__(self) -> str:
        return f"varbit<{self.most}>"


Type: TypeAlias = Bits | Named | Bool | Error | Record | StackOf | Varbit


@dataclass(frozen=True)
class Literal:
    kind: Type
    value: int | bool | str

    def __str__(self) -> str:
        match self.kind:
            case Bits(width, signed):
                number = int(self.value)
                if number < 0:
                    return f"((int<{width}>){width}w{number + (1 << width)})"
                return f"{width}{'s' if signed else 'w'}{number}"
            case Named(name, width, members):
                for member, number in members:
                    if number == self.value:
                        return f"{name}.{member}"
                return f"(({name}){width}w{self.value})"
            case Bool():
                return "true" if self.value else "false"
            case _:
                return f"error.{self.value}"


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
    """`{…}` or `{name = …}` of a type: the parts in the order in which they are written; `{#}` without any."""

    kind: Record
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
    """A call of a function (with a value) or of an action, by arguments in the order of the parameters."""

    kind: Type | None
    callee: Callable_
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.callee.name}({', '.join(str(argument) for argument in self.arguments)})"


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
        return f"if ({self.condition}) {self.yes}" + (f" else {self.no}" if self.no is not None else "")


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
    """On a value, or on the action that a table runs; a label None is `default`, a block None falls through."""

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
        subject = f"{self.subject.name}.apply().action_run" if isinstance(self.subject, Table) else self.subject
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

    def __str__(self) -> str:
        first = ["packet"] if isinstance(self.callee, Parser) else []
        return f"{self.instance}.apply({', '.join(first + [str(argument) for argument in self.arguments])});"


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


@dataclass(frozen=True)
class Parameter:
    direction: str
    kind: Type
    name: str

    def __str__(self) -> str:
        return f"{self.direction} {self.kind} {self.name}".strip()


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


Matcher: TypeAlias = tuple[str, int, int]
"""("exact", value, 0), ("mask", value, mask), ("range", first, last), ("any", 0, 0)."""


def matcher_text(kind: Type, matcher: Matcher) -> str:
    what, first, second = matcher
    one, other = Literal(kind, first), Literal(kind, second)
    return {"exact": f"{one}", "mask": f"{one} &&& {other}", "range": f"{one} .. {other}", "any": "_"}[what]


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
            sets = [matcher_text(key.kind, one) for (key, _), one in zip(self.keys, matchers, strict=True) if key.kind]
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
        rest = "\n".join(str(one) for one in [*self.callables, *self.blocks, self.parser, self.ingress, self.egress])
        return (
            "#include <core.p4>\n#include <v1model.p4>\n"
            f"error {{ {', '.join(self.errors)} }}\n{types}\n{rest}\n"
            "control TheVerification(inout headers_t headers, inout meta_t meta) { apply { } }\n"
            "control TheComputation(inout headers_t headers, inout meta_t meta) { apply { } }\n"
            "control TheDeparser(packet_out packet, in headers_t headers) { apply { packet.emit(headers); } }\n"
            "V1Switch(TheParser(), TheVerification(), TheIngress(), TheEgress(), TheComputation(), TheDeparser())"
            " main;\n"
        )
