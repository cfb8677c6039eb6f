# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.control import parse_match, parse_value
from nicemu.control.value_text import parse_signed
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Exact, Lpm, Optional, Range, Ternary, ir

INVALID, OUTSIDE = P4RuntimeCode.INVALID_ARGUMENT, P4RuntimeCode.OUT_OF_RANGE


@pytest.mark.parametrize(
    ("text", "width", "number"),
    [
        (42, 8, 42),
        ("42", 8, 42),
        (" 0x2A ", 8, 42),
        ("0b101", 8, 5),
        ("007", 8, 7),
        ("1_000", 16, 1000),
        ("10.0.0.1", 32, 0x0A000001),
        ("::1", 128, 1),
        ("00:11:22:33:44:55", 48, 0x001122334455),
        ("AA-bb-cc-dd-ee-ff", 48, 0xAABBCCDDEEFF),
    ],
)
def test_a_value_is_a_number_or_an_address(text: int | str, width: int, number: int) -> None:
    assert parse_value(text, width) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [(-3, -3), ("-3", -3), (" -0x3", -3), ("0xfffd", -3), (65533, -3), ("7", 7), (32767, 32767)],
)
def test_a_signed_value_is_a_number_with_a_minus_or_its_bits(text: int | str, number: int) -> None:
    assert parse_signed(text, 16) == number


@pytest.mark.parametrize(
    ("text", "code"), [("-32769", OUTSIDE), (65536, OUTSIDE), ("--3", INVALID), ("-", INVALID)]
)
def test_a_signed_value_that_does_not_fit_is_refused(text: int | str, code: P4RuntimeCode) -> None:
    with pytest.raises(ControlError) as refused:
        parse_signed(text, 16, "r")
    assert refused.value.code is code


@pytest.mark.parametrize(
    ("text", "width", "code", "sentence"),
    [
        ("256", 8, OUTSIDE, "port is bit<8>, 0 to 255; 256 does not fit"),
        (-1, 8, OUTSIDE, "-1 does not fit"),
        ("10.0.0.1", 16, INVALID, "an address of 32 bits"),
        ("10.0.0.256", 32, INVALID, "is not a value"),
        ("00:11:22:33:44:55", 32, INVALID, "an address of 48 bits"),
        ("eth0", 32, INVALID, "'eth0' is not a value"),
        ("", 32, INVALID, "'' is not a value"),
        ("0x", 32, INVALID, "is not a value"),
        ("٣", 32, INVALID, "is not a value"),
        ("1__0", 32, INVALID, "is not a value"),
        ("9" * 5000, 32, INVALID, "is not a value"),
    ],
)
def test_other_text_is_refused_with_what_was_expected(
    text: int | str, width: int, code: P4RuntimeCode, sentence: str
) -> None:
    with pytest.raises(ControlError) as refused:
        parse_value(text, width, "port")
    assert refused.value.code is code
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("text", "kind", "width", "match"),
    [
        ("7", "exact", 8, Exact(7)),
        ("10.0.0.0/8", "lpm", 32, Lpm(0x0A000000, 8)),
        ("10.0.0.1", "lpm", 32, Lpm(0x0A000001, 32)),
        ("0.0.0.0/0", "lpm", 32, Lpm(0, 0)),
        ("*", "lpm", 32, Lpm(0, 0)),
        ("fe80::/10", "lpm", 128, Lpm(0xFE80 << 112, 10)),
        ("0x10&&&0xf0", "ternary", 8, Ternary(0x10, 0xF0)),
        ("10.0.0.0 &&& 255.0.0.0", "ternary", 32, Ternary(0x0A000000, 0xFF000000)),
        ("10.0.0.0/8", "ternary", 32, Ternary(0x0A000000, 0xFF000000)),
        (5, "ternary", 8, Ternary(5, 0xFF)),
        ("*", "ternary", 8, Ternary(0, 0)),
        ("1..9", "range", 8, Range(1, 9)),
        ("10.0.0.1..10.0.0.9", "range", 32, Range(0x0A000001, 0x0A000009)),
        (5, "range", 8, Range(5, 5)),
        ("*", "range", 8, Range(0, 255)),
        ("7", "optional", 8, Optional(7)),
        ("*", "optional", 8, Optional(None)),
        (Lpm(0, 0), "lpm", 8, Lpm(0, 0)),
    ],
)
def test_a_match_is_written_as_its_kind_wants(text: int | str, kind: str, width: int, match: object) -> None:
    assert parse_match(text, kind, width) == match


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("*", "exact", "dst is exact: it needs a value"),
        ("10.0.0.0/8", "exact", "is not a value"),
        ("10.0.0.1/8", "lpm", "write 0xa000000/8"),
        ("10.0.0.0/33", "lpm", "0 to 32 was expected"),
        ("10.0.0.0/-1", "lpm", "0 to 32 was expected"),
        ("10.0.0.0/", "lpm", "0 to 32 was expected"),
        ("0x11&&&0xf0", "ternary", "write 16"),
        ("9..1", "range", "write the smaller number first"),
        ("1..", "range", "is not a value"),
        (Exact(1), "lpm", "dst is lpm; a match of class Exact was given"),
    ],
)
def test_a_wrong_match_is_refused_with_the_remedy(text: int | str, kind: str, sentence: str) -> None:
    with pytest.raises(ControlError) as refused:
        parse_match(text, kind, 32, "dst")
    assert sentence in str(refused.value)


@given(st.text(max_size=30), st.sampled_from(["exact", "lpm", "ternary", "range"]))
def test_no_text_raises_anything_but_a_control_error(text: str, kind: str) -> None:
    try:
        match = parse_match(text, kind, 32)
    except ControlError:
        return
    assert type(match).__name__.lower() == kind


def test_a_number_of_no_known_type_may_have_a_minus_and_one_bit_be_a_word() -> None:
    assert parse_value("-5", 8) == 251
    assert parse_value("true", 1) == 1
    assert parse_match("-128..-1", "range", 8) == Range(128, 255)
    for text, width_bits in (("-129", 8), ("true", 2)):
        with pytest.raises(ControlError):
            parse_value(text, width_bits)


@pytest.mark.parametrize("kind", [None, ir.Bits(8, True)])
def test_a_range_with_a_minus_is_in_the_order_of_the_numbers(kind: ir.Type | None) -> None:
    assert parse_match("-5..-1", "range", 8, "key", kind) == Range(251, 255)
    for text in ("5..-5", "-1..-5"):
        with pytest.raises(ControlError, match="is empty; write the smaller number first"):
            parse_match(text, "range", 8, "key", kind)
    with pytest.raises(ControlError, match="goes over 0; write an entry to -1, and one from 0"):
        parse_match("-5..5", "range", 8, "key", kind)
