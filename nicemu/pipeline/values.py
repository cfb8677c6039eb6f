# SPDX-License-Identifier: Apache-2.0
"""What variables hold while a packet is on its way, and how headers become bytes and back.

A scalar is an int; a struct a dict; a varbit its length and number. Headers, header unions and stacks are
objects that are changed in place, so whoever keeps one takes a copy first.
Source: P4-16 Language Specification 1.2.5, "P4 data types", "Packet parsing", "Packet construction
(deparsing)".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from . import ir
from .arithmetic import cast
from .matches import width_of


class Varbits(NamedTuple):
    """The bits of a varbit<N>, as many as it has."""

    length_bits: int = 0
    number: int = 0


@dataclass(slots=True, eq=False)
class HeaderValue:
    """The fields of one header, and whether it is there."""

    fields: dict[str, Any]
    valid: bool = False


@dataclass(slots=True, eq=False)
class UnionValue:
    """The headers of a header union; one at most is valid."""

    headers: dict[str, HeaderValue]

    @property
    def valid(self) -> bool:
        """Whether one of the headers is valid."""
        return any(header.valid for header in self.headers.values())

    def set_valid(self, name: str, valid: bool) -> None:
        """Make a header valid and all others invalid, or all invalid."""
        for other, header in self.headers.items():
            header.valid = valid and other == name


@dataclass(slots=True, eq=False)
class StackValue:
    """The elements of a header stack; `next_index` counts what a parser has extracted."""

    elements: list[HeaderValue | UnionValue]
    next_index: int = 0

    def move(self, count: int, front: bool, empty: list[HeaderValue | UnionValue]) -> None:
        """Push or pop `count` elements at the front; `empty` are as many invalid ones."""
        size = len(self.elements)
        if front:
            self.elements = (empty + self.elements)[:size]
            self.next_index = min(self.next_index + count, size)
        else:
            self.elements = (self.elements + empty)[-size:]
            self.next_index = max(self.next_index - count, 0)


Value: TypeAlias = Any
"""An int, a Varbits, a HeaderValue, a UnionValue, a StackValue, or the dict of a struct."""


def copied(value: Value) -> Value:
    """Return a value that no later assignment to its source changes."""
    if isinstance(value, int):
        return value
    if isinstance(value, HeaderValue):
        return HeaderValue({name: copied(part) for name, part in value.fields.items()}, value.valid)
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    if isinstance(value, UnionValue):
        return UnionValue({name: copied(header) for name, header in value.headers.items()})
    if isinstance(value, StackValue):
        return StackValue([copied(element) for element in value.elements], value.next_index)
    return value


def valid_parts(value: Value) -> Value:
    """Return a copy of a value in which each header that is not valid has no bits."""
    if isinstance(value, HeaderValue) and not value.valid:
        return Varbits()
    if isinstance(value, dict):
        return {name: valid_parts(part) for name, part in value.items()}
    if isinstance(value, StackValue):
        return StackValue([valid_parts(element) for element in value.elements], value.next_index)
    return copied(value)


def equal(left: Value, right: Value) -> bool:
    """Return whether two values of one type are equal.

    Headers are when both are invalid, or both valid with equal fields; everything else part by part.
    """
    if isinstance(left, HeaderValue):
        return left.valid == right.valid and (not left.valid or equal(left.fields, right.fields))
    if isinstance(left, dict):
        return all(equal(part, right[name]) for name, part in left.items())
    if isinstance(left, UnionValue):
        return equal(left.headers, right.headers)
    if isinstance(left, StackValue):
        return all(map(equal, left.elements, right.elements))
    return bool(left == right)


def plain(value: Value) -> Any:  # noqa: ANN401 - what JSON has
    """Return a value as JSON has it: a number, an object of such, or a list; a header that is not there is
    None, a union an object of the header that it holds.
    """
    if isinstance(value, HeaderValue):
        return plain(value.fields) if value.valid else None
    if isinstance(value, UnionValue):
        return {name: plain(header) for name, header in value.headers.items() if header.valid} or None
    if isinstance(value, StackValue):
        return [plain(element) for element in value.elements]
    if isinstance(value, dict):
        return [*map(plain, value.values())] if "0" in value else {name: plain(value[name]) for name in value}
    return value.number if isinstance(value, Varbits) else value


def as_unsigned(value: int, kind: ir.Type) -> int:
    """Return the bits of a scalar as a number from 0 up."""
    return value & ((1 << kind.width) - 1) if isinstance(kind, ir.Bits) and kind.signed else value


class Layouts:
    """The types of a program: their zeros, and their bytes."""

    def __init__(self, program: ir.Program) -> None:
        self.headers = {header.name: header for header in program.headers}
        self.structs = {struct.name: struct for struct in program.structs}
        self.unions = {union.name: union for union in program.unions}
        self._width_bits: dict[str, int] = {}

    def zero(self, kind: ir.Type) -> Value:
        """Return the value that a variable of a type starts with."""
        if isinstance(kind, ir.Stack):
            return StackValue([self.zero(ir.Named(kind.element)) for _ in range(kind.size)])
        if isinstance(kind, ir.Varbit):
            return Varbits()
        if not isinstance(kind, ir.Named):
            return 0
        header = self.headers.get(kind.name)
        if header is not None:
            return HeaderValue({part.name: self.zero(part.type) for part in header.fields})
        union = self.unions.get(kind.name)
        if union is not None:
            return UnionValue({part.name: self.zero(part.type) for part in union.fields})
        return {part.name: self.zero(part.type) for part in self.structs[kind.name].fields}

    def fields(self, kind: ir.Named) -> tuple[ir.Field, ...]:
        """Return the fields of a header or struct."""
        return (self.headers.get(kind.name) or self.structs[kind.name]).fields

    def parts(self, kind: ir.Named) -> tuple[ir.Field, ...]:
        """Return the fields of a header or struct, or the headers of a union."""
        union = self.unions.get(kind.name)
        return union.fields if union is not None else self.fields(kind)

    def width_bits(self, kind: ir.Type) -> int:
        """Return the bits that a type takes on the wire; a varbit counts nothing."""
        if isinstance(kind, ir.Varbit):
            return 0
        if isinstance(kind, ir.Stack):
            return kind.size * self.width_bits(ir.Named(kind.element))
        if not isinstance(kind, ir.Named):
            return width_of(kind)
        if kind.name not in self._width_bits:
            self._width_bits[kind.name] = sum(self.width_bits(part.type) for part in self.fields(kind))
        return self._width_bits[kind.name]

    def unpacked(self, kind: ir.Type, number: int, left_bits: int, varbit_bits: int = 0) -> Value:
        """Return a scalar, a valid header, a stack or a struct that the top of `left_bits` bits hold."""
        if isinstance(kind, ir.Varbit):
            return Varbits(varbit_bits, number >> (left_bits - varbit_bits) & ((1 << varbit_bits) - 1))
        if isinstance(kind, ir.Stack):
            element = ir.Named(kind.element)
            each_bits = self.width_bits(element)
            starts = [left_bits - place * each_bits for place in range(kind.size)]
            return StackValue([self.unpacked(element, number, start_bits) for start_bits in starts])
        if not isinstance(kind, ir.Named):
            width = width_of(kind)
            return cast(number >> (left_bits - width) & ((1 << width) - 1), kind)
        values = self.unpacked_fields(kind, number, left_bits, varbit_bits)
        return HeaderValue(values, True) if kind.name in self.headers else values

    def unpacked_fields(
        self, kind: ir.Named, number: int, left_bits: int, varbit_bits: int = 0
    ) -> dict[str, Value]:
        """Return the fields of a header or struct that the top of `left_bits` bits hold."""
        values = {}
        for part in self.fields(kind):
            values[part.name] = self.unpacked(part.type, number, left_bits, varbit_bits)
            left_bits -= varbit_bits if isinstance(part.type, ir.Varbit) else self.width_bits(part.type)
        return values

    def packed(self, kind: ir.Type, value: Value) -> Varbits:
        """Return the bits of a scalar, or of everything in a composite value; an invalid header has its own,
        too, unless they were taken out.
        """
        if isinstance(value, Varbits):
            return value
        if isinstance(kind, ir.Stack):
            pieces = [self.packed(ir.Named(kind.element), element) for element in value.elements]
        elif isinstance(value, UnionValue) and isinstance(kind, ir.Named):
            valid = [part for part in self.unions[kind.name].fields if value.headers[part.name].valid]
            pieces = [self.packed(part.type, value.headers[part.name]) for part in valid]
        elif isinstance(kind, ir.Named):
            held = value.fields if isinstance(value, HeaderValue) else value
            pieces = [self.packed(part.type, held[part.name]) for part in self.fields(kind)]
        else:
            return Varbits(width_of(kind), as_unsigned(value, kind))
        length_bits, number = 0, 0
        for bits in pieces:
            length_bits += bits.length_bits
            number = number << bits.length_bits | bits.number
        return Varbits(length_bits, number)

    def emitted(self, kind: ir.Type, value: Value) -> bytes:
        """Return the bytes of the valid headers in a value, in order."""
        if isinstance(value, StackValue):
            assert isinstance(kind, ir.Stack)
            element = ir.Named(kind.element)
            return b"".join(self.emitted(element, item) for item in value.elements)
        assert isinstance(kind, ir.Named)
        if isinstance(value, HeaderValue):
            if not value.valid:
                return b""
            bits = self.packed(kind, value.fields)
            padding = -bits.length_bits % 8
            return (bits.number << padding).to_bytes((bits.length_bits + padding) // 8, "big")
        if isinstance(value, UnionValue):
            parts, held = self.unions[kind.name].fields, value.headers
        else:
            parts, held = self.structs[kind.name].fields, value
        return b"".join(self.emitted(part.type, held[part.name]) for part in parts)
