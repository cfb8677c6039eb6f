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
from .architecture import ARCHITECTURES
from .arithmetic import binary, cast, unary
from .externs import Outcome
from .tables import Table, width_of
from .values import HeaderValue, Layouts, StackValue, UnionValue, Value, as_unsigned, copied, equal
from .verdict import Disposition, Verdict

MAX_STATES = 256
"""Parser states that one packet may pass; a parser that loops without end rejects the packet."""

MAX_FRAME_BYTES = 9216

MAX_TURNS = 65536
"""Turns of loops and calls of functions and actions for one packet; then the packet is dropped."""

_GO_ON, _RETURN, _BREAK, _CONTINUE = range(4)

_NAMED_REASONS = {
    "PacketTooShort": "parser.too_short",
    "NoMatch": "parser.no_transition",
    "ParserTimeout": "parser.too_many_states",
    "NoError": "parser.rejected",
}
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class _Rejected(Exception):  # noqa: N818  control flow, never seen outside
    def __init__(self, error: str) -> None:
        self.error = error


class _Exited(Exception):  # noqa: N818  control flow, never seen outside
    pass


class _Stuck(Exception):  # noqa: N818  control flow, never seen outside
    """Loops took too many turns, or calls were too many."""


@dataclass(slots=True, eq=False)
class _Packet:
    """One packet on its way: its bytes, the parser's cursor, every variable, and what was asked for."""

    frame: bytes
    places: dict[str, Any]
    outcome: Outcome
    trace: list[str] | None
    cursor_bytes: int = 0
    turns: int = 0
    emitted: list[bytes] = field(default_factory=list)


class Interpreter:
    """A program ready to run over `tables`, the tables of the engine by name."""

    def __init__(self, program: ir.Program, tables: Mapping[str, Table]) -> None:
        self._program = program
        self._tables = tables
        self._architecture = ARCHITECTURES[program.architecture]
        self._layouts = Layouts(program)
        self._states = {state.name: state for state in program.parser.states}
        self._actions = {action.name: action for action in program.actions}
        self._functions = {function.name: function for function in program.functions}
        self._instances = {instance.name: instance for instance in program.externs}
        self._types = {variable.name: variable.type for variable in program.variables}
        self._refs = {(table.name, ref.action): ref for table in program.tables for ref in table.actions}
        self._specs = {table.name: table for table in program.tables}
        self._evaluators: dict[type, Callable[[_Packet, Any], Any]] = {
            ir.Constant: lambda packet, node: node.value,
            ir.Name: lambda packet, node: packet.places[node.name],
            ir.Member: self._member,
            ir.Element: self._element,
            ir.StackPlace: self._stack_place,
            ir.LastIndex: self._last_index,
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
            ir.StackValue: lambda packet, node: StackValue(
                [copied(self._value(packet, element)) for element in node.elements]
            ),
            ir.Zero: lambda packet, node: self._layouts.zero(node.type),
            ir.PacketLength: lambda packet, node: len(packet.frame),
            ir.Call: self._call_value,
        }
        self._executors: dict[type, Callable[[_Packet, Any], int | None]] = {
            ir.Assign: self._assign,
            ir.Reset: self._reset,
            ir.If: lambda packet, node: self._run(
                packet, node.then if self._value(packet, node.condition) else node.otherwise
            ),
            ir.ApplyTable: lambda packet, node: self._apply(packet, node.table) and None,
            ir.SwitchAction: self._switch_action,
            ir.Switch: self._switch,
            ir.Loop: self._loop,
            ir.ForRange: self._for_range,
            ir.Break: lambda packet, node: _BREAK,
            ir.Continue: lambda packet, node: _CONTINUE,
            ir.CallRoutine: lambda packet, node: self._call(
                packet, self._functions[node.function], node.arguments
            ),
            ir.CallAction: lambda packet, node: self._call(
                packet, self._actions[node.action], node.arguments
            ),
            ir.CallFunction: self._call_function,
            ir.CallMethod: self._call_method,
            ir.SetValid: self._set_valid,
            ir.MoveStack: self._move_stack,
            ir.Exit: self._exit,
            ir.Return: lambda packet, node: _RETURN,
            ir.Extract: lambda packet, node: self._extract(packet, node.header, 0),
            ir.ExtractVarbit: lambda packet, node: self._extract(
                packet, node.header, self._value(packet, node.bits)
            ),
            ir.Advance: self._advance,
            ir.Verify: self._verify,
            ir.Emit: self._emit,
        }

    def process(self, frame: bytes, ingress_port: int, trace: bool) -> Verdict:
        """Run one frame through parser, control and deparser."""
        places = {name: self._layouts.zero(kind) for name, kind in self._types.items()}
        places[ir.NIC]["ingress_port"] = ingress_port & 0xFFFF
        places[ir.NIC]["packet_length"] = len(frame)
        packet = _Packet(frame, places, Outcome(), [] if trace else None)
        try:
            self._parse(packet)
        except _Stuck:
            return self._rejected(packet, "ParserTimeout")
        except _Rejected as rejected:
            return self._rejected(packet, rejected.error)
        try:
            for control in self._program.controls:
                self._block(packet, control.body)
        except _Stuck:
            reason = "pipeline.too_many_turns"
            self._note(packet, f"dropped: {MAX_TURNS} turns of loops and calls")
            return Verdict(Disposition.DROP, 0, frame, reason, trace=tuple(packet.trace or ()))
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

    def _rejected(self, packet: _Packet, error: str) -> Verdict:
        self._note(packet, f"reject: {error} at byte {packet.cursor_bytes}")
        return Verdict(Disposition.DROP, 0, packet.frame, reason_of(error), trace=tuple(packet.trace or ()))

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

    def _run(self, packet: _Packet, body: tuple[ir.Statement, ...]) -> int:
        """Run statements; return how they ended: at their end, or with return, break or continue."""
        executors = self._executors
        for statement in body:
            end = executors[type(statement)](packet, statement)
            if end:
                return end
        return _GO_ON

    # Expressions

    def _value(self, packet: _Packet, node: ir.Expression) -> Value:
        return self._evaluators[type(node)](packet, node)

    def _member(self, packet: _Packet, node: ir.Member) -> Value:
        return _parts(self._value(packet, node.base))[node.field]

    def _element(self, packet: _Packet, node: ir.Element) -> Value:
        stack: StackValue = self._value(packet, node.base)
        index = self._value(packet, node.index)
        if 0 <= index < len(stack.elements):
            return stack.elements[index]
        return self._layouts.zero(node.type)

    def _stack_place(self, packet: _Packet, node: ir.StackPlace) -> Value:
        stack: StackValue = self._value(packet, node.stack)
        index = stack.next_index - node.last
        if not 0 <= index < len(stack.elements):
            raise _Rejected("StackOutOfBounds")
        return stack.elements[index]

    def _last_index(self, packet: _Packet, node: ir.LastIndex) -> int:
        stack: StackValue = self._value(packet, node.stack)
        if not stack.next_index:
            raise _Rejected("StackOutOfBounds")
        return stack.next_index - 1

    def _binary(self, packet: _Packet, node: ir.Binary) -> int:
        left = self._value(packet, node.left)
        if node.op == "&&":
            return left and self._value(packet, node.right)  # type: ignore[no-any-return]
        if node.op == "||":
            return left or self._value(packet, node.right)  # type: ignore[no-any-return]
        left = copied(left)
        right = self._value(packet, node.right)
        if node.op in ("==", "!="):
            return int(equal(left, right) is (node.op == "=="))
        return binary(node.op, left, right, node)

    def _slice(self, packet: _Packet, node: ir.Slice) -> int:
        value = as_unsigned(self._value(packet, node.base), node.base.type)
        return value >> node.low & ((1 << (node.high - node.low + 1)) - 1)

    def _lookahead(self, packet: _Packet, node: ir.Lookahead) -> Value:
        width_bits = self._layouts.width_bits(node.type)
        number, length_bits = self._peek(packet, (width_bits + 7) // 8)
        value = self._layouts.unpacked(node.type, number, length_bits)
        is_header = isinstance(node.type, ir.Named) and node.type.name in self._layouts.headers
        return HeaderValue(value, True) if is_header else value

    def _struct_value(self, packet: _Packet, node: ir.StructValue) -> Value:
        assert isinstance(node.type, ir.Named)
        values = {
            part.name: copied(self._value(packet, value))
            for part, value in zip(self._layouts.fields(node.type), node.fields, strict=True)
        }
        return HeaderValue(values, True) if node.type.name in self._layouts.headers else values

    # Statements

    def _assign(self, packet: _Packet, node: ir.Assign) -> None:
        self._store(packet, node.target, copied(self._value(packet, node.value)))

    def _store(self, packet: _Packet, target: ir.Expression, value: Value) -> None:
        match target:
            case ir.Name(name, _):
                packet.places[name] = value
            case ir.Member(base, name, _):
                owner = self._value(packet, base)
                if isinstance(owner, UnionValue):
                    owner.headers[name] = value
                    owner.set_valid(name, value.valid)
                else:
                    _parts(owner)[name] = value
            case ir.Element(base, index, _):
                stack: StackValue = self._value(packet, base)
                position = self._value(packet, index)
                if 0 <= position < len(stack.elements):
                    stack.elements[position] = value
            case ir.StackPlace(base, last, _):
                self._stack_place(packet, target)
                stack = self._value(packet, base)
                stack.elements[stack.next_index - last] = value
            case ir.Slice(base, high, low, _):
                mask = (1 << (high - low + 1)) - 1 << low
                whole = as_unsigned(self._value(packet, base), base.type)
                whole = whole & ~mask | value << low & mask
                self._store(packet, base, cast(whole, ir.Bits(width_of(base.type)), base.type))
            case _:
                raise AssertionError(f"{target} cannot be assigned to")

    def _located(self, packet: _Packet, target: ir.Expression) -> ir.Expression:
        """Return an lvalue whose indices are numbers, so that it means the same place later."""
        match target:
            case ir.Member(base, name, kind):
                return ir.Member(self._located(packet, base), name, kind)
            case ir.Element(base, index, kind):
                position = ir.Constant(self._value(packet, index), index.type)
                return ir.Element(self._located(packet, base), position, kind)
            case ir.StackPlace(base, last, kind):
                stack: StackValue = self._value(packet, base)
                position = ir.Constant(stack.next_index - last, ir.Bits(32, True))
                return ir.Element(self._located(packet, base), position, kind)
            case ir.Slice(base, high, low, kind):
                return ir.Slice(self._located(packet, base), high, low, kind)
        return target

    def _reset(self, packet: _Packet, node: ir.Reset) -> None:
        packet.places[node.variable] = self._layouts.zero(self._types[node.variable])

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
        self._call(packet, self._actions[call.action], ref.arguments, call.parameters)
        return row is not None, call.action

    def _switch_action(self, packet: _Packet, node: ir.SwitchAction) -> int:
        _, action = self._apply(packet, node.table)
        for case in node.cases:
            if not case.actions or action in case.actions:
                return self._run(packet, case.body)
        return _GO_ON

    def _switch(self, packet: _Packet, node: ir.Switch) -> int:
        subject = self._value(packet, node.subject)
        for case in node.cases:
            if not case.values or subject in case.values:
                return self._run(packet, case.body)
        return _GO_ON

    def _loop(self, packet: _Packet, node: ir.Loop) -> int:
        while self._value(packet, node.condition):
            self._count_turn(packet)
            end = self._run(packet, node.body)
            if end in (_RETURN, _BREAK):
                return _RETURN if end == _RETURN else _GO_ON
            self._run(packet, node.update)
        return _GO_ON

    def _for_range(self, packet: _Packet, node: ir.ForRange) -> int:
        low, high = self._value(packet, node.low), self._value(packet, node.high)
        for number in range(low, high + 1):
            self._count_turn(packet)
            packet.places[node.variable] = number
            end = self._run(packet, node.body)
            if end in (_RETURN, _BREAK):
                return _RETURN if end == _RETURN else _GO_ON
        return _GO_ON

    def _count_turn(self, packet: _Packet) -> None:
        packet.turns += 1
        if packet.turns > MAX_TURNS:
            raise _Stuck

    def _call_value(self, packet: _Packet, node: ir.Call) -> Value:
        function = self._functions[node.function]
        self._call(packet, function, node.arguments)
        return packet.places[function.result]

    def _call(
        self,
        packet: _Packet,
        called: ir.Action | ir.Function,
        arguments: tuple[ir.Expression, ...],
        action_data: Sequence[int] = (),
    ) -> None:
        """Run an action or function: `arguments` for its parameters with a direction, then its action data.

        A direct call passes expressions for the action data too.
        """
        self._count_turn(packet)
        data = iter(action_data)
        given = iter(arguments)
        copies_out: list[tuple[ir.Expression, str]] = []
        copies_in: list[tuple[str, Any]] = []
        for parameter in called.parameters:
            if parameter.direction is ir.Direction.NONE and action_data:
                copies_in.append(
                    (parameter.variable, cast(next(data), _unsigned(parameter.type), parameter.type))
                )
                continue
            argument = next(given)
            if parameter.direction is ir.Direction.OUT:
                copies_in.append((parameter.variable, self._layouts.zero(parameter.type)))
            else:
                copies_in.append((parameter.variable, copied(self._value(packet, argument))))
            if parameter.direction in (ir.Direction.OUT, ir.Direction.INOUT):
                copies_out.append((self._located(packet, argument), parameter.variable))
        for variable, value in copies_in:
            packet.places[variable] = value
        try:
            self._run(packet, called.body)
        finally:
            for target, variable in copies_out:
                self._store(packet, target, copied(packet.places[variable]))

    def _call_function(self, packet: _Packet, node: ir.CallFunction) -> None:
        self._note(packet, node.function)
        self._architecture.functions[node.function].body(
            packet.outcome, [self._value(packet, value) for value in node.arguments]
        )

    def _call_method(self, packet: _Packet, node: ir.CallMethod) -> None:
        instance = self._instances[node.instance]
        arguments = [copied(self._value(packet, value)) for value in node.arguments]
        self._architecture.objects[instance.extern].methods[node.method].body(
            packet.outcome, instance, arguments
        )
        if packet.trace is not None:
            self._note(packet, f"{node.instance}.{node.method}: {packet.outcome.effects[-1]}")

    def _set_valid(self, packet: _Packet, node: ir.SetValid) -> None:
        header = node.header
        if isinstance(header, ir.Member):
            owner = self._value(packet, header.base)
            if isinstance(owner, UnionValue):
                owner.set_valid(header.field, node.valid)
                return
        self._value(packet, header).valid = node.valid

    def _move_stack(self, packet: _Packet, node: ir.MoveStack) -> None:
        assert isinstance(node.stack.type, ir.Stack)
        count = min(node.count, node.stack.type.size)
        empty = [self._layouts.zero(ir.Named(node.stack.type.element)) for _ in range(count)]
        self._value(packet, node.stack).move(count, node.front, empty)

    def _exit(self, packet: _Packet, node: ir.Exit) -> bool:
        raise _Exited

    def _extract(self, packet: _Packet, target: ir.Expression, varbit_bits: int) -> None:
        kind = target.type
        assert isinstance(kind, ir.Named)
        header = self._value(packet, target)
        width_bits = self._layouts.width_bits(kind) + varbit_bits
        if width_bits % 8:
            raise _Rejected("ParserInvalidArgument")
        if varbit_bits > _varbit_room(self._layouts.headers[kind.name]):
            raise _Rejected("HeaderTooShort")
        number, length_bits = self._peek(packet, width_bits // 8)
        header.fields = self._layouts.unpacked(kind, number, length_bits, varbit_bits)
        self._set_valid(packet, ir.SetValid(target, True))
        if isinstance(target, ir.StackPlace) and not target.last:
            self._value(packet, target.stack).next_index += 1
        packet.cursor_bytes += length_bits // 8

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
        packet.emitted.append(self._layouts.emitted(node.value.type, self._value(packet, node.value)))

    # Bytes

    def _peek(self, packet: _Packet, length_bytes: int) -> tuple[int, int]:
        """Return the next bytes as a number, and its length in bits."""
        end = packet.cursor_bytes + length_bytes
        if end > len(packet.frame):
            raise _Rejected("PacketTooShort")
        return int.from_bytes(packet.frame[packet.cursor_bytes : end], "big"), 8 * length_bytes

    def _note(self, packet: _Packet, line: str) -> None:
        if packet.trace is not None:
            packet.trace.append(line)


def reason_of(error: str) -> str:
    """Return the drop reason of a parser error: PacketTooShort is parser.too_short, BadVersion
    parser.bad_version.
    """
    return _NAMED_REASONS.get(error) or f"parser.{_WORD.sub('_', error).lower()}"


def _parts(value: Value) -> dict[str, Value]:
    """Return the fields of a header or struct, or the headers of a union."""
    if isinstance(value, HeaderValue):
        return value.fields
    return value.headers if isinstance(value, UnionValue) else value


def _varbit_room(layout: ir.HeaderType) -> int:
    return sum(part.type.width for part in layout.fields if isinstance(part.type, ir.Varbit))


def in_keyset(keyset: ir.Keyset, value: int) -> bool:
    """Return whether a select's keyset accepts `value`, unsigned."""
    match keyset:
        case ir.KeyMask(wanted, mask):
            return value & mask == wanted & mask
        case ir.KeyRange(low, high):
            return low <= value <= high
        case ir.KeyAny():
            return True


def _unsigned(kind: ir.Type) -> ir.Type:
    return ir.Bits(width_of(kind))
