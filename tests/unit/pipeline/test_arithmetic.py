# SPDX-License-Identifier: Apache-2.0
"""Sentences of P4-16, "Operations on fixed-width bit types" and "... signed integers"; a naive model is the
judge.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.pipeline import arithmetic, ir


def compute(op: str, left: int, right: int, kind: ir.Bits, right_kind: ir.Type | None = None) -> int:
    result = ir.BOOL if op in arithmetic.COMPARISONS else kind
    node = ir.Binary(op, ir.Constant(0, kind), ir.Constant(0, right_kind or kind), result)
    return arithmetic.binary(op, left, right, node)


def residue(number: int, kind: ir.Bits) -> int:
    """Return the value of `kind` that is congruent to `number`, found by counting from its bounds."""
    low, _ = arithmetic.bounds(kind)
    return (number - low) % (1 << kind.width) + low


@given(st.data(), st.integers(1, 70), st.booleans())
def test_results_wrap_modulo_two_to_the_width(data: st.DataObject, width: int, signed: bool) -> None:
    kind = ir.Bits(width, signed)
    low, high = arithmetic.bounds(kind)
    left, right = data.draw(st.integers(low, high)), data.draw(st.integers(low, high))
    assert compute("+", left, right, kind) == residue(left + right, kind)
    assert compute("-", left, right, kind) == residue(left - right, kind)
    assert compute("*", left, right, kind) == residue(left * right, kind)
    assert compute("|+|", left, right, kind) == sorted((low, left + right, high))[1]
    assert compute("|-|", left, right, kind) == sorted((low, left - right, high))[1]
    assert arithmetic.unary("~", left, kind) == residue(-1 - left, kind)
    assert arithmetic.unary("-", left, kind) == residue(-left, kind)


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("<<", 0x81, 1, 0x02),
        ("<<", 1, 8, 0),
        ("<<", 1, 1 << 60, 0),
        (">>", 0x81, 1, 0x40),
        (">>", 0x81, 1 << 60, 0),
    ],
)
def test_bits_shifted_out_are_lost_however_far(op: str, left: int, right: int, expected: int) -> None:
    assert compute(op, left, right, ir.Bits(8), ir.Bits(64)) == expected


def test_a_right_shift_of_an_int_copies_its_sign() -> None:
    assert compute(">>", -5, 1, ir.Bits(8, True), ir.Bits(8)) == -3
    assert compute(">>", -5, 200, ir.Bits(8, True), ir.Bits(8)) == -1


def test_concatenation_puts_the_left_side_above() -> None:
    node = ir.Binary("++", ir.Constant(0, ir.Bits(4)), ir.Constant(0, ir.Bits(8)), ir.Bits(12))
    assert arithmetic.binary("++", 0xA, 0xBC, node) == 0xABC


def test_division_truncates_and_by_zero_gives_zero() -> None:
    assert [compute("/", 7, 2, ir.Bits(8)), compute("%", 7, 2, ir.Bits(8))] == [3, 1]
    assert [compute("/", -7, 2, ir.Bits(8, True)), compute("%", -7, 2, ir.Bits(8, True))] == [-3, -1]
    assert [compute("/", 7, 0, ir.Bits(8)), compute("%", 7, 0, ir.Bits(8))] == [0, 0]


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (0x1FF, ir.Bits(8), 0xFF),
        (-1, ir.Bits(16, True), -1),
        (0xFF, ir.Bits(8, True), -1),
        (-1, ir.Bits(8), 0xFF),
        (1, ir.Bits(1), 1),
        (1, ir.BOOL, 1),
    ],
)
def test_a_cast_cuts_or_extends_and_keeps_the_sign_of_an_int(
    value: int, target: ir.Type, expected: int
) -> None:
    assert arithmetic.cast(value, target) == expected
