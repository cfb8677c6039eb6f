# SPDX-License-Identifier: Apache-2.0
"""Values of P4 programs as plain Python, and what operators make of them.

Specification: P4-16 Language Specification 1.2.5, "Expressions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tests.reliability.p4_meaning_tree import Bits, Bool, Error, Named, Record, StackOf, Type, Varbit


class NotDefined(Exception):  # noqa: N818 - no error: the program asks for what P4 does not say
    """The program reads what the specification leaves open."""


@dataclass
class Fields:
    """A header, union, struct or tuple. Only headers have a validity of their own."""

    kind: Record
    values: dict[str, Value]
    valid: bool = False


@dataclass
class Elements:
    """A header stack and its next index, or an array."""

    kind: StackOf
    values: list[Value]
    following: int = 0


@dataclass(frozen=True)
class BitString:
    """A varbit."""

    length: int
    bits: int


Value: TypeAlias = int | bool | str | Fields | Elements | BitString


def default(kind: Type) -> Value:
    """What nicemu's docs/p4.md promises for what is not initialised: zero, headers invalid."""
    match kind:
        case Bits() | Named():
            return 0
        case Bool():
            return False
        case Error():
            return "NoError"
        case Record():
            return Fields(kind, {name: default(inner) for name, inner in kind.fields})
        case StackOf(element, size):
            return Elements(kind, [default(element) for _ in range(size)])
        case Varbit():
            return BitString(0, 0)


def fields(value: Value) -> Fields:
    assert isinstance(value, Fields)
    return value


def elements(value: Value) -> Elements:
    assert isinstance(value, Elements)
    return value


def number(value: Value) -> int:
    assert isinstance(value, int)
    return int(value)


def copied(value: Value) -> Value:
    """Return a copy; no part of it is shared."""
    if isinstance(value, Fields):
        return Fields(value.kind, {name: copied(one) for name, one in value.values.items()}, value.valid)
    if isinstance(value, Elements):
        return Elements(value.kind, [copied(one) for one in value.values], value.following)
    return value


def is_valid(value: Fields) -> bool:
    if value.kind.kind == "header_union":
        return any(fields(one).valid for one in value.values.values())
    return value.valid


def set_valid(value: Fields) -> None:
    if not value.valid:
        value.values = fields(default(value.kind)).values
    value.valid = True


def wrapped(kind: Type, value: int) -> int:
    """The value of the type that is congruent to a number."""
    assert isinstance(kind, Bits | Named)
    rest = value & ((1 << kind.width) - 1)
    if isinstance(kind, Bits) and kind.signed and rest >> (kind.width - 1):
        rest -= 1 << kind.width
    return rest


def clamped(kind: Type, value: int) -> int:
    """The value of the type that is nearest to a number."""
    assert isinstance(kind, Bits)
    half = 1 << (kind.width - 1)
    least, most = (-half, half - 1) if kind.signed else (0, (1 << kind.width) - 1)
    return max(least, min(most, value))


def equal(left: Value, right: Value) -> bool:
    if isinstance(left, Fields):
        assert isinstance(right, Fields)
        if left.kind.kind == "header" and (not left.valid or not right.valid):
            return left.valid == right.valid
        return all(equal(one, right.values[name]) for name, one in left.values.items())
    if isinstance(left, Elements):
        return all(equal(one, other) for one, other in zip(left.values, elements(right).values, strict=True))
    return left == right


def computed(
    kind: Type, operator: str, left: Value, right: Value, left_kind: Type, right_kind: Type
) -> Value:
    """What an operator with two operands gives, of type `kind`; && and || are not among them."""
    if operator in ("==", "!="):
        return equal(left, right) == (operator == "==")
    a, b = number(left), number(right)
    if operator in ("<", "<=", ">", ">="):
        return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]
    if operator == "<<":
        return wrapped(kind, a << b) if b < 10_000 else 0
    if operator == ">>":
        return wrapped(kind, a >> min(b, 10_000))
    if operator == "++":
        assert isinstance(left_kind, Bits)
        assert isinstance(right_kind, Bits)
        low = b & ((1 << right_kind.width) - 1)
        return wrapped(kind, (a << right_kind.width) | low)
    if operator == "|+|":
        return clamped(kind, a + b)
    if operator == "|-|":
        return clamped(kind, a - b)
    if operator in ("/", "%"):
        if b == 0:
            raise NotDefined("division by zero")
        return a // b if operator == "/" else a % b
    return wrapped(kind, {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[operator])


def cast(kind: Type, value: Value) -> Value:
    if isinstance(kind, Bool):
        return value in (1, True)
    return wrapped(kind, number(value))


def from_bits(kind: Type, bits: int) -> Value:
    """A value of the bits that it has in a packet."""
    match kind:
        case Bits() | Named():
            return wrapped(kind, bits)
        case Bool():
            return bool(bits)
        case Record():
            made, left = fields(default(kind)), width(kind)
            for name, inner in kind.fields:
                left -= width(inner)
                made.values[name] = from_bits(inner, (bits >> left) & ((1 << width(inner)) - 1))
            made.valid = kind.kind == "header"
            return made
        case StackOf(element, size):
            each = width(element)
            parts = [(bits >> each * (size - 1 - at)) & ((1 << each) - 1) for at in range(size)]
            return Elements(kind, [from_bits(element, one) for one in parts])
        case _:
            raise AssertionError(kind)


def width(kind: Type) -> int:
    """The bits of a type in a packet; a varbit's are none."""
    match kind:
        case Bits() | Named():
            return kind.width
        case Bool():
            return 1
        case Record():
            return sum(width(inner) for _, inner in kind.fields)
        case StackOf():
            return width(kind.element) * kind.size
        case _:
            return 0


def emitted(value: Value) -> str:
    """The bits that emit puts in a packet, as a text of 0 and 1."""
    if isinstance(value, Elements):
        return "".join(emitted(one) for one in value.values)
    fields_ = fields(value)
    if fields_.kind.kind != "header":
        return "".join(emitted(one) for one in fields_.values.values())
    if not fields_.valid:
        return ""
    return "".join(_bits(kind, fields_.values[name]) for name, kind in fields_.kind.fields)


def _bits(kind: Type, value: Value) -> str:
    if isinstance(value, Elements):
        return "".join(_bits(value.kind.element, one) for one in value.values)
    if isinstance(value, BitString):
        return format(value.bits, f"0{value.length}b") if value.length else ""
    return format(number(value) & ((1 << width(kind)) - 1), f"0{width(kind)}b")
