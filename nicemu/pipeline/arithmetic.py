# SPDX-License-Identifier: Apache-2.0
"""What P4's operators compute; the interpreter and constant folding share these definitions.

Numbers are Python integers: 0 to 2**N - 1 for bit<N>, -2**(N-1) to 2**(N-1) - 1 for int<N>, 0 and 1 for bool.
Source: P4-16 Language Specification 1.2.5, "Operations on fixed-width bit types", "Operations on fixed-width
signed integers", "Casts".
"""

from __future__ import annotations

from . import ir

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
LOGICAL = frozenset({"&&", "||"})
SHIFTS = frozenset({"<<", ">>"})
SAME_WIDTH = frozenset({"+", "-", "*", "/", "%", "|+|", "|-|", "&", "|", "^"})
CONCATENATION = "++"
BINARY = COMPARISONS | LOGICAL | SHIFTS | SAME_WIDTH | {CONCATENATION}
UNARY = frozenset({"-", "~", "!"})


def wrap(number: int, kind: ir.Type) -> int:
    """Return `number` modulo 2**N, read as `kind`."""
    if not isinstance(kind, ir.Bits):
        return number
    number &= (1 << kind.width) - 1
    if kind.signed and number >> (kind.width - 1):
        number -= 1 << kind.width
    return number


def saturate(number: int, kind: ir.Bits) -> int:
    """Return `number`, or the nearest value that `kind` has."""
    low, high = bounds(kind)
    return min(max(number, low), high)


def bounds(kind: ir.Bits) -> tuple[int, int]:
    """Return the least and the greatest value of a type."""
    if kind.signed:
        return -(1 << (kind.width - 1)), (1 << (kind.width - 1)) - 1
    return 0, (1 << kind.width) - 1


def unary(op: str, operand: int, kind: ir.Type) -> int:
    """Return -, ~ or ! of a value of type `kind`."""
    if op == "!":
        return 1 - operand
    return wrap(-operand if op == "-" else ~operand, kind)


def binary(op: str, left: int, right: int, node: ir.Binary) -> int:
    """Return `left op right` of scalars; && and || are the caller's, who may not evaluate `right` at all."""
    if op in COMPARISONS:
        return int(_compare(op, left, right))
    kind = node.type
    assert isinstance(kind, ir.Bits)
    match op:
        case "+" | "-" | "*":
            return wrap(left + right if op == "+" else left - right if op == "-" else left * right, kind)
        case "|+|" | "|-|":
            return saturate(left + right if op == "|+|" else left - right, kind)
        case "/":
            return wrap(_quotient(left, right), kind)
        case "%":
            return wrap(left - right * _quotient(left, right) if right else 0, kind)
        case "&" | "|" | "^":
            return wrap(left & right if op == "&" else left | right if op == "|" else left ^ right, kind)
        case "<<":
            return wrap(left << right, kind) if right < kind.width else 0
        case ">>":
            return wrap(left >> min(right, kind.width), kind)
        case "++":
            low = node.right.type
            assert isinstance(low, ir.Bits)
            return wrap(left << low.width | right & ((1 << low.width) - 1), kind)
    raise AssertionError(f"unknown operator {op}")


def cast(value: int, target: ir.Type) -> int:
    """Return a value as `target`: bits are cut off, or extended by the sign that the value has."""
    if isinstance(target, ir.Bool):
        return value & 1
    return wrap(value, target)


def _quotient(left: int, right: int) -> int:
    if right == 0:
        return 0
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _compare(op: str, left: int, right: int) -> bool:
    match op:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
    return left >= right
