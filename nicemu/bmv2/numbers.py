# SPDX-License-Identifier: Apache-2.0
"""BMv2's numbers, which have no width, as the IR's, which have one.

BMv2 computes with unbounded integers and cuts a value off where it is stored. A `Number` knows the range that
its value can have, and how to compute the value modulo 2**width in bit<width>. Sums, products, left shifts
and bitwise operators need of their operands no more bits than are asked of them; everything else asks for
whole operands, in the narrowest type that holds their range. So no bit is lost that BMv2 would have kept.
Source: p4lang/behavioral-model, "BMv2 JSON input format", "General information" and "The type value object".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nicemu.pipeline import ir

RANGE_BITS = 2 * ir.MAX_WIDTH_BITS
"""Ranges beyond so many bits are not followed any more."""

COMPARED = ("==", "!=", "<", "<=", ">", ">=")
_BITWISE = ("&", "|", "^")
OPERATORS = ("+", "-", "*", "/", "%", "<<", ">>", *_BITWISE, *COMPARED)


class TooWide(Exception):  # noqa: N818  becomes a Bmv2Error where the path is known
    """A value whose range fits no type of the IR; the message says so."""


@dataclass(frozen=True, slots=True)
class Number:
    """An integer from `low` to `high`, without bounds where `low` is None.

    `modulo(width)` gives it modulo 2**width as bit<width>, for a width no wider than `kind`. `truth` is the
    bool that it was made of, `error` the error whose number it is.
    """

    low: int | None
    high: int
    modulo: Callable[[int], ir.Expression]
    truth: ir.Expression | None = None
    error: ir.Expression | None = None

    @property
    def kind(self) -> ir.Bits | None:
        """The narrowest type that holds the range, None where there is none."""
        return None if self.low is None else narrowest(self.low, self.high)

    @property
    def constant(self) -> int | None:
        """The value, where it is always the same."""
        return self.low if self.low == self.high else None

    def bits(self, width: int) -> ir.Expression:
        """Return the value modulo 2**width as bit<width>."""
        kind = self.kind
        if kind is None or width <= kind.width:
            return self.modulo(width)
        return cast(cast(self.modulo(kind.width), kind), ir.Bits(width))

    def of(self, kind: ir.Bits) -> ir.Expression:
        """Return the value as `kind`, cut off where it does not fit."""
        return cast(self.bits(kind.width), kind)

    def exact(self) -> ir.Expression:
        """Return the whole value in the narrowest type. Raises: TooWide."""
        return self.of(_held(self))


def narrowest(low: int, high: int) -> ir.Bits:
    """Return the narrowest type with all values from `low` to `high`."""
    if low < 0:
        return ir.Bits(max((~low).bit_length(), high.bit_length() if high > 0 else 0) + 1, True)
    return ir.Bits(max(high.bit_length(), 1))


def cast(node: ir.Expression, kind: ir.Type) -> ir.Expression:
    """Return an expression as another type."""
    if node.type == kind:
        return node
    if isinstance(node, ir.Constant) and isinstance(kind, ir.Bits):
        value = node.value & ((1 << kind.width) - 1)
        if kind.signed and value >> (kind.width - 1):
            value -= 1 << kind.width
        return ir.Constant(value, kind)
    return ir.Cast(node, kind)


def constant(value: int) -> Number:
    """Return a constant."""
    return _made(value, value, lambda width: ir.Constant(value & ((1 << width) - 1), ir.Bits(width)))


def held(node: ir.Expression) -> Number:
    """Return what an expression of type bit<N> or int<N> holds."""
    kind = node.type
    assert isinstance(kind, ir.Bits)
    low, high = (
        (-(1 << (kind.width - 1)), (1 << (kind.width - 1)) - 1) if kind.signed else (0, (1 << kind.width) - 1)
    )
    return Number(low, high, lambda width: cast(node, ir.Bits(width)))


def of_truth(node: ir.Expression) -> Number:
    """Return 1 for true and 0 for false."""
    return Number(0, 1, lambda width: cast(ir.Cast(node, ir.Bits(1)), ir.Bits(width)), node)


def truth_of(number: Number) -> ir.Expression:
    """Return whether a number is not 0."""
    if number.truth is not None:
        return number.truth
    whole = number.exact()
    if whole.type == ir.Bits(1):
        return ir.Cast(whole, ir.BOOL)
    return ir.Binary("!=", whole, ir.Constant(0, whole.type), ir.BOOL)


def binary(op: str, left: Number, right: Number) -> Number:
    """Return `left op right` for an operator of numbers. Raises: TooWide."""
    match op:
        case "+" | "-" | "*":
            return _sum(op, left, right)
        case "&" | "|" | "^":
            return _bitwise(op, left, right)
        case "<<":
            return _shifted_left(left, right)
        case ">>":
            return _shifted_right(left, right)
    return _divided(op, left, right)


def folded(op: str, terms: list[Number]) -> Number:
    """Return all terms with an operator between: a tree, not nested as deep as there are terms."""
    while len(terms) > 1:
        terms = [
            binary(op, *terms[place : place + 2]) if place + 1 < len(terms) else terms[place]
            for place in range(0, len(terms), 2)
        ]
    return terms[0]


def compare(op: str, left: Number, right: Number) -> ir.Expression:
    """Return whether `left op right` holds. Raises: TooWide."""
    kind = _covering(left, right)
    return ir.Binary(op, left.of(kind), right.of(kind), ir.BOOL)


def complement(operand: Number) -> Number:
    """Return `~operand`, which is -1 - operand."""
    low, high = _range(operand)
    return _made(
        None if low is None else ~high,
        ~(low or 0),
        lambda width: ir.Unary("~", operand.bits(width), ir.Bits(width)),
    )


def chosen(condition: ir.Expression, yes: Number, no: Number) -> Number:
    """Return one of two numbers."""
    low = None if yes.low is None or no.low is None else min(yes.low, no.low)
    return _made(
        low,
        max(yes.high, no.high),
        lambda width: ir.Conditional(condition, yes.bits(width), no.bits(width), ir.Bits(width)),
    )


def wrapped(operand: Number, width_bits: int) -> Number:
    """Return the value that the lower bits of `operand` are in two's complement (two_comp_mod)."""
    half = 1 << (width_bits - 1)
    if operand.low is not None and -half <= operand.low and operand.high < half:
        return operand
    return Number(-half, half - 1, operand.bits)


def saturated(operand: Number, width_bits: int, signed: bool) -> Number:
    """Return `operand`, or the nearest value of bit<width> or int<width> (usat_cast, sat_cast).

    The saturating operators of a type with room to spare cut off below and above: with the range moved up by
    2**(N - 1), x |-| lowest is never less than 0, and x |+| k - k never more than the greatest value less k.
    Raises: TooWide.
    """
    lowest = -(1 << (width_bits - 1)) if signed else 0
    highest = (1 << (width_bits - signed)) - 1
    kind = _held(operand)
    if operand.low is not None and lowest <= operand.low and operand.high <= highest:
        return operand
    wide = ir.Bits(max(kind.width, width_bits) + 2)
    _check(wide)
    moved = 1 << (wide.width - 1)
    above = (1 << wide.width) - 1 - (highest - lowest)
    node = operand.bits(wide.width)
    for op, number in (("+", moved), ("|-|", moved + lowest), ("|+|", above), ("-", above), ("-", -lowest)):
        node = ir.Binary(op, node, ir.Constant(number, wide), wide) if number else node
    return Number(lowest, highest, lambda width: cast(node, ir.Bits(width)))


def _made(low: int | None, high: int, modulo: Callable[[int], ir.Expression]) -> Number:
    if low is None or max(low.bit_length(), high.bit_length()) > RANGE_BITS:
        return Number(None, 0, modulo)
    return Number(low, high, modulo)


def _range(number: Number) -> tuple[int | None, int]:
    return number.low, number.high


def _held(number: Number) -> ir.Bits:
    kind = number.kind
    if kind is None:
        raise TooWide(f"can be wider than {ir.MAX_WIDTH_BITS} bits; mask it")
    _check(kind)
    return kind


def _check(kind: ir.Bits) -> None:
    if kind.width > ir.MAX_WIDTH_BITS:
        raise TooWide(f"can be {kind.width} bits wide; {ir.MAX_WIDTH_BITS} are allowed: mask it")


def _covering(left: Number, right: Number) -> ir.Bits:
    _held(left), _held(right)
    assert left.low is not None
    assert right.low is not None
    kind = narrowest(min(left.low, right.low), max(left.high, right.high))
    _check(kind)
    return kind


def _sum(op: str, left: Number, right: Number) -> Number:
    low, high = None, 0
    if left.low is not None and right.low is not None:
        if op == "+":
            low, high = left.low + right.low, left.high + right.high
        elif op == "-":
            low, high = left.low - right.high, left.high - right.low
        else:
            corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
            low, high = min(corners), max(corners)
    return _made(low, high, lambda width: ir.Binary(op, left.bits(width), right.bits(width), ir.Bits(width)))


def _bitwise(op: str, left: Number, right: Number) -> Number:
    natural = [side for side in (left, right) if side.low is not None and side.low >= 0]
    low, high = None, 0
    if op == "&" and natural:
        low, high = 0, min(side.high for side in natural)
    elif left.low is not None and right.low is not None:
        both = narrowest(min(left.low, right.low, 0), max(left.high, right.high, 0))
        low = -(1 << (both.width - 1)) if both.signed else 0
        high = (1 << (both.width - both.signed)) - 1

    def modulo(width: int) -> ir.Expression:
        ones = (1 << width) - 1
        for mask, other in ((right, left), (left, right)):
            if op == "&" and mask.constant is not None and mask.constant & ones == ones:
                return other.bits(width)
        return ir.Binary(op, left.bits(width), right.bits(width), ir.Bits(width))

    return _made(low, high, modulo)


def _amount(right: Number) -> ir.Expression:
    if right.low is None or right.low < 0:
        raise TooWide("shifts by what can be a negative number")
    return right.exact()


def _shifted_left(left: Number, right: Number) -> Number:
    amount = _amount(right)
    low, high = None, 0
    if left.low is not None and right.low is not None and right.high <= RANGE_BITS:
        low = min(left.low << right.low, left.low << right.high)
        high = max(left.high << right.low, left.high << right.high)
    return _made(low, high, lambda width: ir.Binary("<<", left.bits(width), amount, ir.Bits(width)))


def _shifted_right(left: Number, right: Number) -> Number:
    amount = _amount(right)
    fewest = right.constant
    if left.low is None and fewest is not None and fewest <= RANGE_BITS:

        def modulo(width: int) -> ir.Expression:
            wide = ir.Bits(width + fewest)
            _check(wide)
            return cast(ir.Binary(">>", left.bits(wide.width), amount, wide), ir.Bits(width))

        return _made(None, 0, modulo)
    kind = _held(left)
    assert left.low is not None
    assert right.low is not None
    shortest, longest = min(right.low, RANGE_BITS), min(right.high, RANGE_BITS)
    low = min(left.low >> shortest, left.low >> longest)
    high = max(left.high >> shortest, left.high >> longest)
    node = ir.Binary(">>", left.exact(), amount, kind)
    return _made(low, high, lambda width: cast(node, ir.Bits(width)))


def _divided(op: str, left: Number, right: Number) -> Number:
    covering = _covering(left, right)
    kind = ir.Bits(covering.width + covering.signed, covering.signed)  # the least value / -1 fits, too
    _check(kind)
    assert left.low is not None
    largest = max(abs(left.low), abs(left.high))
    low = 0 if not covering.signed else -largest
    node = ir.Binary(op, left.of(kind), right.of(kind), kind)
    return _made(low, largest, lambda width: cast(node, ir.Bits(width)))
