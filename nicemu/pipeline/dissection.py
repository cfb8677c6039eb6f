# SPDX-License-Identifier: Apache-2.0
"""Where fields lie in a frame that has left, as far as the program's own parser and deparser tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import ir
from .interpreter import Interpreter
from .ir_text import part_text
from .values import HeaderValue, Layouts, StackValue, UnionValue, Value, Varbits


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """One field of a frame: its name without the name of all headers, where it begins, and its bits."""

    name: str
    offset_bits: int
    width_bits: int
    number: int


class Dissector(Interpreter):
    """An interpreter whose externs do nothing: it may parse a packet once more, and nothing has happened."""

    def __init__(self, program: ir.Program, *parts: Any) -> None:  # noqa: ANN401 - as Interpreter takes them
        super().__init__(program, *parts)
        self._evaluators[ir.ExternValue] = lambda packet, node: self._layouts.zero(node.type)
        self._executors[ir.CallFunction] = self._executors[ir.CallMethod] = lambda packet, node: None

    def dissect(self, frame: bytes) -> tuple[FieldPlace, ...]:
        """Parse `frame` with the program's parser; return the fields of the headers that its deparser would
        emit.

        It ends where the frame no longer begins with them: what a program emits, its parser need not
        understand.
        """
        packet = self.packet(frame, None, None)
        self.parse(packet)
        layouts = self._layouts
        fields: list[FieldPlace] = []
        at_bits = 0
        for name, kind, header in _emitted(layouts, self._program.control("deparser").body, packet.places):
            data = layouts.emitted(kind, header)
            if frame[at_bits // 8 : at_bits // 8 + len(data)] != data:
                break
            offset_bits = at_bits
            for path, width_bits, number in _fields(layouts, name, kind, header.fields):
                fields.append(FieldPlace(path, offset_bits, width_bits, number))
                offset_bits += width_bits
            at_bits += 8 * len(data)
        return tuple(fields)


def _emitted(
    layouts: Layouts, body: tuple[ir.Statement, ...], places: dict[str, Value]
) -> Iterator[tuple[str, ir.Named, HeaderValue]]:
    """Return the valid headers that a deparser may emit, in order, whatever its conditions are."""
    for statement in body:
        match statement:
            case ir.Emit(expression):
                name, value = _named(expression, places)
                yield from _headers(layouts, name, expression.type, value)
            case ir.If(_, then, otherwise):
                yield from _emitted(layouts, then, places)
                yield from _emitted(layouts, otherwise, places)


def _named(expression: ir.Expression, places: dict[str, Value]) -> tuple[str, Value]:
    """Return the path and the value of what is emitted; nothing where that is no plain place."""
    match expression:
        case ir.Name(name, _):
            return "", places[name]
        case ir.Member(base, field, _):
            path, value = _named(base, places)
            parts = value.headers if isinstance(value, UnionValue) else value
            found = parts.get(field) if isinstance(parts, dict) else None
            return f"{path}.{field}".lstrip("."), found
        case ir.Element(base, ir.Constant(index, _), _):
            path, value = _named(base, places)
            known = isinstance(value, StackValue) and 0 <= index < len(value.elements)
            return f"{path}[{index}]", value.elements[index] if known else None
    return "", None


def _headers(
    layouts: Layouts, name: str, kind: ir.Type, value: Value
) -> Iterator[tuple[str, ir.Named, HeaderValue]]:
    if isinstance(kind, ir.Stack) and isinstance(value, StackValue):
        for index, element in enumerate(value.elements):
            yield from _headers(layouts, f"{name}[{index}]", ir.Named(kind.element), element)
    elif isinstance(kind, ir.Named) and isinstance(value, HeaderValue):
        if value.valid:
            yield name, kind, value
    elif isinstance(kind, ir.Named) and isinstance(value, UnionValue | dict):
        held = value.headers if isinstance(value, UnionValue) else value
        parts = (layouts.unions.get(kind.name) or layouts.structs[kind.name]).fields
        for part in parts:
            yield from _headers(layouts, part_text(name, part.name).lstrip("."), part.type, held[part.name])


def _fields(
    layouts: Layouts, name: str, kind: ir.Named, values: dict[str, Value]
) -> Iterator[tuple[str, int, int]]:
    for part in layouts.fields(kind):
        path, value = part_text(name, part.name).lstrip("."), values[part.name]
        if isinstance(part.type, ir.Named):
            yield from _fields(layouts, path, part.type, value)
        elif isinstance(value, Varbits):
            yield path, value.length_bits, value.number
        else:
            bits = layouts.packed(part.type, value)
            yield path, bits.length_bits, bits.number
