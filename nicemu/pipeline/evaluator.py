# SPDX-License-Identifier: Apache-2.0
"""Evaluates the IR's expressions for one packet, and stores into what they name.

Source: P4-16 Language Specification 1.2.5, "Expressions", "Packet parsing", "Header stacks".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import ir
from .architecture import Architecture
from .arithmetic import binary, cast, unary
from .externs import ExternCall, ExternFunction
from .objects import Objects
from .packet_state import PacketState
from .values import (
    HeaderValue,
    Layouts,
    StackValue,
    UnionValue,
    Value,
    Varbits,
    as_unsigned,
    copied,
    equal,
    valid_parts,
)


class Rejected(Exception):  # noqa: N818  control flow, never seen outside
    """The parser refuses the packet, for `error`."""

    def __init__(self, error: str) -> None:
        self.error = error


class Evaluator:
    """Expressions and lvalues of a program; what runs statements is the subclass."""

    def __init__(self, program: ir.Program, architecture: Architecture, objects: Objects) -> None:
        self._layouts = Layouts(program)
        self._architecture = architecture
        self._objects = objects
        self._evaluators: dict[type, Callable[[PacketState, Any], Any]] = {
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
            ir.Cast: lambda packet, node: cast(self._value(packet, node.operand), node.type),
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
            ir.Text: lambda packet, node: node.text,
            ir.ExternValue: lambda packet, node: self._call_extern(
                packet, node.instance, node.name, node.arguments
            ),
        }

    def _apply(self, packet: PacketState, name: str) -> tuple[bool, str]:
        """Apply a table; return whether an entry matched, and the action that ran."""
        raise NotImplementedError

    def _call_value(self, packet: PacketState, node: ir.Call) -> Value:
        """Call a function and return its result."""
        raise NotImplementedError

    def _value(self, packet: PacketState, node: ir.Expression) -> Value:
        return self._evaluators[type(node)](packet, node)

    def _call_extern(
        self, packet: PacketState, instance: str, name: str, given: tuple[ir.Expression, ...]
    ) -> Value:
        """Call a function of the architecture, or a method of an `instance`; return its value."""
        declared = self._objects.instances[instance] if instance else None
        function = self._extern(declared, name)
        takes = function.signature(len(given))
        assert takes is not None, "verify has seen to it"
        arguments: list[Value] = []
        targets: list[tuple[int, ir.Expression]] = []
        for position, (node, argument) in enumerate(zip(given, takes, strict=True)):
            if argument.is_written:
                node = self._located(packet, node)
                targets.append((position, node))
            if argument.direction is ir.Direction.OUT:
                arguments.append(self._layouts.zero(node.type))
            elif argument.only_valid:
                arguments.append(self._valid_parts(packet, node))
            else:
                arguments.append(copied(self._value(packet, node)))
        types = tuple(node.type for node in given)
        state = self._objects.states[instance] if instance else None
        call = ExternCall(packet, self._objects, self._layouts, arguments, types, declared, state)
        value = self._run_extern(call, name, function)
        for position, target in targets:
            self._store(packet, target, copied(arguments[position]))
        return value

    def _valid_parts(self, packet: PacketState, node: ir.Expression) -> Value:
        """Return a value without what is of headers that are not valid; it is copied."""
        if not isinstance(node, ir.StructValue):
            held = self._held(packet, node)
            return Varbits() if held is None else valid_parts(held)
        assert isinstance(node.type, ir.Named)
        names = (part.name for part in self._layouts.fields(node.type))
        return {name: self._valid_parts(packet, part) for name, part in zip(names, node.fields, strict=True)}

    def _held(self, packet: PacketState, node: ir.Expression) -> Value | None:
        """Return a value, None for a field of a header that is not valid."""
        header = node
        while isinstance(header, ir.Member | ir.Element) and not isinstance(header.base.type, ir.Stack):
            header = header.base
            if isinstance(header.type, ir.Named) and header.type.name in self._layouts.headers:
                return self._value(packet, node) if self._value(packet, header).valid else None
        return self._value(packet, node)

    def _run_extern(self, call: ExternCall, name: str, function: ExternFunction) -> Value:
        """Do what a call does."""
        return function.body(call)

    def _extern(self, declared: ir.ExternInstance | None, name: str) -> ExternFunction:
        if declared is None:
            return self._architecture.functions[name]
        return self._architecture.objects[declared.extern].methods[name]

    def _member(self, packet: PacketState, node: ir.Member) -> Value:
        return _parts(self._value(packet, node.base))[node.field]

    def _element(self, packet: PacketState, node: ir.Element) -> Value:
        base, stack = node.base, None
        if type(node.index) is ir.Constant or not _is_place(base):
            stack = self._value(packet, base)
        elif _has_index(base):
            base = self._located(packet, base)
        index = self._value(packet, node.index)
        if stack is None:  # a call in the index may have put another there
            stack = self._value(packet, base)
        if isinstance(stack, dict):
            return stack[str(index)] if 0 <= index < len(stack) else self._layouts.zero(node.type)
        if 0 <= index < len(stack.elements):
            return stack.elements[index]
        return self._layouts.zero(node.type)

    def _stack_place(self, packet: PacketState, node: ir.StackPlace) -> Value:
        stack: StackValue = self._value(packet, node.stack)
        index = stack.next_index - node.last
        if not 0 <= index < len(stack.elements):
            raise Rejected("StackOutOfBounds")
        return stack.elements[index]

    def _last_index(self, packet: PacketState, node: ir.LastIndex) -> int:
        stack: StackValue = self._value(packet, node.stack)
        return stack.next_index - 1 & 0xFFFF_FFFF  # of an empty one undefined, and no error

    def _binary(self, packet: PacketState, node: ir.Binary) -> int:
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

    def _slice(self, packet: PacketState, node: ir.Slice) -> int:
        value = as_unsigned(self._value(packet, node.base), node.base.type)
        return value >> node.low & ((1 << (node.high - node.low + 1)) - 1)

    def _lookahead(self, packet: PacketState, node: ir.Lookahead) -> Value:
        width_bits = self._layouts.width_bits(node.type)
        number, length_bits = self._peek(packet, (width_bits + 7) // 8)
        return self._layouts.unpacked(node.type, number, length_bits)

    def _struct_value(self, packet: PacketState, node: ir.StructValue) -> Value:
        assert isinstance(node.type, ir.Named)
        values = {
            part.name: copied(self._value(packet, value))
            for part, value in zip(self._layouts.fields(node.type), node.fields, strict=True)
        }
        return HeaderValue(values, True) if node.type.name in self._layouts.headers else values

    def _store(self, packet: PacketState, target: ir.Expression, value: Value) -> None:
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
                held = self._value(packet, base)
                position = self._value(packet, index)
                if isinstance(held, dict):
                    if 0 <= position < len(held):
                        held[str(position)] = value
                elif 0 <= position < len(held.elements):
                    held.elements[position] = value
            case ir.StackPlace(base, last, _):
                self._stack_place(packet, target)
                stack: StackValue = self._value(packet, base)
                stack.elements[stack.next_index - last] = value
            case ir.Slice(base, high, low, _):
                mask = (1 << (high - low + 1)) - 1 << low
                whole = as_unsigned(self._value(packet, base), base.type)
                whole = whole & ~mask | value << low & mask
                self._store(packet, base, cast(whole, base.type))
            case _:
                raise AssertionError(f"{target} cannot be assigned to")

    def _located(self, packet: PacketState, target: ir.Expression) -> ir.Expression:
        """Return an lvalue whose indices are numbers, so that it means the same place later."""
        match target:
            case ir.Member(base, name, kind):
                return ir.Member(self._located(packet, base), name, kind)
            case ir.Element(base, index, kind):
                located = self._located(packet, base)
                position = ir.Constant(self._value(packet, index), index.type)
                return ir.Element(located, position, kind)
            case ir.StackPlace(base, last, kind):
                located = self._located(packet, base)
                self._stack_place(packet, ir.StackPlace(located, last, kind))
                stack: StackValue = self._value(packet, located)
                position = ir.Constant(stack.next_index - last, ir.Bits(32, True))
                return ir.Element(located, position, kind)
            case ir.Slice(base, high, low, kind):
                return ir.Slice(self._located(packet, base), high, low, kind)
        return target

    def _peek(self, packet: PacketState, length_bytes: int) -> tuple[int, int]:
        """Return the next bytes as a number, and its length in bits."""
        end = packet.cursor_bytes + length_bytes
        if end > len(packet.frame):
            raise Rejected("PacketTooShort")
        return int.from_bytes(packet.frame[packet.cursor_bytes : end], "big"), 8 * length_bytes


def _is_place(node: ir.Expression) -> bool:
    """Whether an expression is a variable or a part of one: something that a call may change."""
    while isinstance(node, ir.Member | ir.Element | ir.StackPlace):
        node = node.stack if isinstance(node, ir.StackPlace) else node.base
    return isinstance(node, ir.Name)


def _has_index(node: ir.Expression) -> bool:
    """Whether there is an index on the way to a part of a variable."""
    while isinstance(node, ir.Member):
        node = node.base
    return not isinstance(node, ir.Name)


def _parts(value: Value) -> dict[str, Value]:
    """Return the fields of a header or struct, or the headers of a union."""
    if isinstance(value, HeaderValue):
        return value.fields
    return value.headers if isinstance(value, UnionValue) else value
