# SPDX-License-Identifier: Apache-2.0
"""Runs the IR, one packet at a time: the definition of what a program means.

Where P4 leaves a value undefined, it is defined here: variables start at zero and headers invalid, an invalid
header's fields may be read and written and keep their values, a division by zero gives 0.
Source: P4-16 Language Specification 1.2.5, "Packet parsing", "Control blocks", "Calling convention: call by
copy in/copy out", "Packet construction (deparsing)".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import ir
from .arithmetic import binary, cast, unary
from .externs import FUNCTIONS, OBJECTS, Outcome
from .tables import Table, width_of
from .verdict import Disposition, Verdict

MAX_STATES = 256
"""Parser states that one packet may pass; a parser that loops without end rejects the packet."""

MAX_FRAME_BYTES = 9216

_NAMED_REASONS = {
    "PacketTooShort": "parser.too_short",
    "NoMatch": "parser.no_transition",
    "ParserTimeout": "parser.too_many_states",
    "NoError": "parser.rejected",
}
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(slots=True, eq=False)
class HeaderValue:
    """The fields of one header, and whether it is there."""

    fields: dict[str, int]
    valid: bool = False


class _Rejected(Exception):  # noqa: N818  control flow, never seen outside
    def __init__(self, error: str) -> None:
        self.error = error


class _Exited(Exception):  # noqa: N818  control flow, never seen outside
    pass


@dataclass(slots=True, eq=False)
class _Packet:
    """One packet on its way: its bytes, the parser's cursor, every variable, and what was asked for."""

    frame: bytes
    places: dict[str, Any]
    outcome: Outcome
    trace: list[str] | None
    cursor_bytes: int = 0
    emitted: list[bytes] = field(default_factory=list)


class Interpreter:
    """A program ready to run over `tables`, the tables of the engine by name."""

    def __init__(self, program: ir.Program, tables: Mapping[str, Table]) -> None:
        self._program = program
        self._tables = tables
        self._headers = {header.name: header for header in program.headers}
        self._structs = {struct.name: struct for struct in program.structs}
        self._states = {state.name: state for state in program.parser.states}
        self._actions = {action.name: action for action in program.control.actions}
        self._instances = {instance.name: instance for instance in program.externs}
        self._types = {variable.name: variable.type for variable in program.variables}
        self._refs = {
            (table.name, ref.action): ref for table in program.control.tables for ref in table.actions
        }
        self._specs = {table.name: table for table in program.control.tables}
        self._evaluators: dict[type, Callable[[_Packet, Any], Any]] = {
            ir.Constant: lambda packet, node: node.value,
            ir.Name: lambda packet, node: packet.places[node.name],
            ir.Member: self._member,
            ir.Unary: lambda packet, node: unary(node.op, self._value(packet, node.operand), node.type),
            ir.Binary: self._binary,
            ir.Conditional: lambda packet, node: self._value(
                packet, node.yes if self._value(packet, node.condition) else node.no
            ),
            ir.Cast: lambda packet, node: cast(
                self._value(packet, node.operand), node.operand.type, node.type
            ),
            ir.Slice: self._slice,
            ir.IsValid: lambda packet, node: int(self._value(packet, node.header).valid),
            ir.TableApply: lambda packet, node: int((self._apply(packet, node.table)[0]) is node.hit),
            ir.Lookahead: self._lookahead,
            ir.StructValue: self._struct_value,
        }
        self._executors: dict[type, Callable[[_Packet, Any], bool | None]] = {
            ir.Assign: self._assign,
            ir.Reset: self._reset,
            ir.If: lambda packet, node: self._run(
                packet, node.then if self._value(packet, node.condition) else node.otherwise
            ),
            ir.ApplyTable: lambda packet, node: self._apply(packet, node.table) and None,
            ir.SwitchAction: self._switch,
            ir.CallAction: lambda packet, node: self._call(packet, node.action, node.arguments),
            ir.CallFunction: self._call_function,
            ir.CallMethod: self._call_method,
            ir.SetValid: self._set_valid,
            ir.Exit: self._exit,
            ir.Return: lambda packet, node: True,
            ir.Extract: self._extract,
            ir.Advance: self._advance,
            ir.Verify: self._verify,
            ir.Emit: self._emit,
        }

    def process(self, frame: bytes, ingress_port: int, trace: bool) -> Verdict:
        """Run one frame through parser, control and deparser."""
        places = {name: self._zero(kind) for name, kind in self._types.items()}
        places[ir.NIC]["ingress_port"] = ingress_port & 0xFFFF
        places[ir.NIC]["packet_length"] = len(frame)
        packet = _Packet(frame, places, Outcome(), [] if trace else None)
        try:
            self._parse(packet)
        except _Rejected as rejected:
            reason = reason_of(rejected.error)
            self._note(packet, f"reject: {rejected.error} at byte {packet.cursor_bytes}")
            return Verdict(Disposition.DROP, 0, frame, reason, trace=tuple(packet.trace or ()))
        self._block(packet, self._program.control.body)
        self._block(packet, self._program.deparser.body)
        outcome = packet.outcome
        dropped = outcome.disposition is Disposition.DROP
        return Verdict(
            outcome.disposition,
            outcome.port,
            frame if dropped else b"".join((*packet.emitted, frame[packet.cursor_bytes :])),
            "pipeline.dropped" if dropped else "",
            tuple(outcome.effects),
            tuple(packet.trace or ()),
        )

    # Blocks

    def _parse(self, packet: _Packet) -> None:
        parser = self._program.parser
        self._run(packet, parser.prologue)
        name = parser.start
        for _ in range(MAX_STATES):
            if name == ir.ACCEPT:
                return
            if name == ir.REJECT:
                raise _Rejected("NoError")
            self._note(packet, f"state {name}")
            state = self._states[name]
            self._run(packet, state.body)
            name = self._next_state(packet, state.transition)
        if name != ir.ACCEPT:
            raise _Rejected("ParserTimeout")

    def _next_state(self, packet: _Packet, transition: ir.Transition) -> str:
        if isinstance(transition, ir.Goto):
            return transition.state
        values = [as_unsigned(self._value(packet, key), key.type) for key in transition.keys]
        for case in transition.cases:
            if all(map(in_keyset, case.keysets, values)):
                return case.state
        raise _Rejected("NoMatch")

    def _block(self, packet: _Packet, body: tuple[ir.Statement, ...]) -> None:
        try:
            self._run(packet, body)
        except _Exited:
            self._note(packet, "exit")

    def _run(self, packet: _Packet, body: tuple[ir.Statement, ...]) -> bool:
        """Run statements; return True when one of them returned."""
        executors = self._executors
        return any(executors[type(statement)](packet, statement) for statement in body)

    # Expressions

    def _value(self, packet: _Packet, node: ir.Expression) -> Any:  # noqa: ANN401
        return self._evaluators[type(node)](packet, node)

    def _member(self, packet: _Packet, node: ir.Member) -> Any:  # noqa: ANN401
        base = self._value(packet, node.base)
        return base.fields[node.field] if isinstance(base, HeaderValue) else base[node.field]

    def _binary(self, packet: _Packet, node: ir.Binary) -> int:
        left = self._value(packet, node.left)
        if node.op == "&&":
            return left and self._value(packet, node.right)  # type: ignore[no-any-return]
        if node.op == "||":
            return left or self._value(packet, node.right)  # type: ignore[no-any-return]
        left = copied(left)
        return binary(node.op, left, self._value(packet, node.right), node)

    def _slice(self, packet: _Packet, node: ir.Slice) -> int:
        value = as_unsigned(self._value(packet, node.base), node.base.type)
        return value >> node.low & ((1 << (node.high - node.low + 1)) - 1)

    def _lookahead(self, packet: _Packet, node: ir.Lookahead) -> Any:  # noqa: ANN401
        if isinstance(node.type, ir.Named):
            return HeaderValue(self._read_fields(packet, self._headers[node.type.name]), True)
        width = width_of(node.type)
        length_bytes = (width + 7) // 8
        number = self._peek(packet, length_bytes) >> (8 * length_bytes - width)
        return cast(number, ir.Bits(width), node.type)

    def _struct_value(self, packet: _Packet, node: ir.StructValue) -> Any:  # noqa: ANN401
        values = [copied(self._value(packet, value)) for value in node.fields]
        assert isinstance(node.type, ir.Named)
        header = self._headers.get(node.type.name)
        if header is not None:
            return HeaderValue(
                {part.name: value for part, value in zip(header.fields, values, strict=True)}, True
            )
        struct = self._structs[node.type.name]
        return {part.name: value for part, value in zip(struct.fields, values, strict=True)}

    # Statements

    def _assign(self, packet: _Packet, node: ir.Assign) -> None:
        self._store(packet, node.target, copied(self._value(packet, node.value)))

    def _store(self, packet: _Packet, target: ir.Expression, value: Any) -> None:  # noqa: ANN401
        match target:
            case ir.Name(name, _):
                packet.places[name] = value
            case ir.Member(base, name, _):
                owner = self._value(packet, base)
                (owner.fields if isinstance(owner, HeaderValue) else owner)[name] = value
            case ir.Slice(base, high, low, _):
                mask = (1 << (high - low + 1)) - 1 << low
                whole = as_unsigned(self._value(packet, base), base.type)
                whole = whole & ~mask | value << low & mask
                self._store(packet, base, cast(whole, ir.Bits(width_of(base.type)), base.type))
            case _:
                raise AssertionError(f"{target} cannot be assigned to")

    def _reset(self, packet: _Packet, node: ir.Reset) -> None:
        packet.places[node.variable] = self._zero(self._types[node.variable])

    def _apply(self, packet: _Packet, name: str) -> tuple[bool, str]:
        spec, table = self._specs[name], self._tables[name]
        values = tuple(
            as_unsigned(self._value(packet, key.expression), key.expression.type) for key in spec.keys
        )
        row = table.lookup(values)
        call = table.default if row is None else row.entry
        if packet.trace is not None:
            keys = ", ".join(f"{key.name}={value:#x}" for key, value in zip(spec.keys, values, strict=True))
            found = "miss" if row is None else "hit"
            data = ", ".join(f"{number:#x}" for number in call.parameters)
            self._note(packet, f"table {name} ({keys}): {found}, {call.action}({data})")
        ref = self._refs[name, call.action]
        self._call(packet, call.action, ref.arguments, call.parameters)
        return row is not None, call.action

    def _switch(self, packet: _Packet, node: ir.SwitchAction) -> bool:
        _, action = self._apply(packet, node.table)
        for case in node.cases:
            if not case.actions or action in case.actions:
                return self._run(packet, case.body)
        return False

    def _call(
        self,
        packet: _Packet,
        name: str,
        arguments: tuple[ir.Expression, ...],
        action_data: Sequence[int] = (),
    ) -> None:
        """Run an action: `arguments` for its parameters with a direction, then its action data.

        A direct call passes expressions for the action data too.
        """
        action = self._actions[name]
        data = iter(action_data)
        given = iter(arguments)
        copies_out: list[tuple[ir.Expression, str]] = []
        copies_in: list[tuple[str, Any]] = []
        for parameter in action.parameters:
            if parameter.direction is ir.Direction.NONE and action_data:
                copies_in.append(
                    (parameter.variable, cast(next(data), _unsigned(parameter.type), parameter.type))
                )
                continue
            argument = next(given)
            if parameter.direction is ir.Direction.OUT:
                copies_in.append((parameter.variable, self._zero(parameter.type)))
            else:
                copies_in.append((parameter.variable, copied(self._value(packet, argument))))
            if parameter.direction in (ir.Direction.OUT, ir.Direction.INOUT):
                copies_out.append((argument, parameter.variable))
        for variable, value in copies_in:
            packet.places[variable] = value
        try:
            self._run(packet, action.body)
        finally:
            for target, variable in copies_out:
                self._store(packet, target, copied(packet.places[variable]))

    def _call_function(self, packet: _Packet, node: ir.CallFunction) -> None:
        self._note(packet, node.function)
        FUNCTIONS[node.function].body(
            packet.outcome, [self._value(packet, value) for value in node.arguments]
        )

    def _call_method(self, packet: _Packet, node: ir.CallMethod) -> None:
        instance = self._instances[node.instance]
        arguments = [copied(self._value(packet, value)) for value in node.arguments]
        OBJECTS[instance.extern].methods[node.method].body(packet.outcome, instance, arguments)
        if packet.trace is not None:
            self._note(packet, f"{node.instance}.{node.method}: {packet.outcome.effects[-1]}")

    def _set_valid(self, packet: _Packet, node: ir.SetValid) -> None:
        self._value(packet, node.header).valid = node.valid

    def _exit(self, packet: _Packet, node: ir.Exit) -> bool:
        raise _Exited

    def _extract(self, packet: _Packet, node: ir.Extract) -> None:
        assert isinstance(node.header.type, ir.Named)
        layout = self._headers[node.header.type.name]
        header = self._value(packet, node.header)
        header.fields = self._read_fields(packet, layout)
        header.valid = True
        packet.cursor_bytes += header_bytes(layout)

    def _advance(self, packet: _Packet, node: ir.Advance) -> None:
        bits = self._value(packet, node.bits)
        if bits % 8:
            raise _Rejected("ParserInvalidArgument")
        if packet.cursor_bytes + bits // 8 > len(packet.frame):
            raise _Rejected("PacketTooShort")
        packet.cursor_bytes += bits // 8

    def _verify(self, packet: _Packet, node: ir.Verify) -> None:
        if not self._value(packet, node.condition):
            raise _Rejected(self._program.errors[self._value(packet, node.error)])

    def _emit(self, packet: _Packet, node: ir.Emit) -> None:
        self._emit_value(packet, self._value(packet, node.value), node.value.type)

    def _emit_value(self, packet: _Packet, value: Any, kind: ir.Type) -> None:  # noqa: ANN401
        assert isinstance(kind, ir.Named)
        if isinstance(value, HeaderValue):
            if value.valid:
                packet.emitted.append(self._header_bytes(value, self._headers[kind.name]))
            return
        for part in self._structs[kind.name].fields:
            self._emit_value(packet, value[part.name], part.type)

    # Bytes and values

    def _read_fields(self, packet: _Packet, layout: ir.HeaderType) -> dict[str, int]:
        length_bytes = header_bytes(layout)
        number = self._peek(packet, length_bytes)
        fields = {}
        left = 8 * length_bytes
        for part in layout.fields:
            width = width_of(part.type)
            left -= width
            fields[part.name] = cast(number >> left & ((1 << width) - 1), ir.Bits(width), part.type)
        return fields

    def _peek(self, packet: _Packet, length_bytes: int) -> int:
        end = packet.cursor_bytes + length_bytes
        if end > len(packet.frame):
            raise _Rejected("PacketTooShort")
        return int.from_bytes(packet.frame[packet.cursor_bytes : end], "big")

    def _header_bytes(self, header: HeaderValue, layout: ir.HeaderType) -> bytes:
        number = 0
        for part in layout.fields:
            number = number << width_of(part.type) | as_unsigned(header.fields[part.name], part.type)
        return number.to_bytes(header_bytes(layout), "big")

    def _zero(self, kind: ir.Type) -> Any:  # noqa: ANN401
        if not isinstance(kind, ir.Named):
            return 0
        if kind.name in self._headers:
            return HeaderValue(dict.fromkeys([part.name for part in self._headers[kind.name].fields], 0))
        return {part.name: self._zero(part.type) for part in self._structs[kind.name].fields}

    def _note(self, packet: _Packet, line: str) -> None:
        if packet.trace is not None:
            packet.trace.append(line)


def reason_of(error: str) -> str:
    """Return the drop reason of a parser error: PacketTooShort is parser.too_short, BadVersion
    parser.bad_version.
    """
    return _NAMED_REASONS.get(error) or f"parser.{_WORD.sub('_', error).lower()}"


def header_bytes(layout: ir.HeaderType) -> int:
    """Return the length of a header in bytes."""
    return sum(width_of(part.type) for part in layout.fields) // 8


def in_keyset(keyset: ir.Keyset, value: int) -> bool:
    """Return whether a select's keyset accepts `value`, unsigned."""
    match keyset:
        case ir.KeyMask(wanted, mask):
            return value & mask == wanted & mask
        case ir.KeyRange(low, high):
            return low <= value <= high
        case ir.KeyAny():
            return True


def copied(value: Any) -> Any:  # noqa: ANN401
    """Return a value that no later assignment to its source changes."""
    if isinstance(value, HeaderValue):
        return HeaderValue(dict(value.fields), value.valid)
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    return value


def as_unsigned(value: int, kind: ir.Type) -> int:
    """Return the bits of a scalar as a number from 0 up."""
    return value & ((1 << kind.width) - 1) if isinstance(kind, ir.Bits) and kind.signed else value


def _unsigned(kind: ir.Type) -> ir.Type:
    return ir.Bits(width_of(kind))
