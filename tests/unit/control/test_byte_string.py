# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.control.byte_string import decode_bytes, decode_signed, encode_bytes, encode_signed
from nicemu.errors import ControlError, P4RuntimeCode


@pytest.mark.parametrize(
    ("value", "data"), [(0, b"\0"), (0x63, b"\x63"), (0x3064, b"\x30\x64"), (0x100, b"\x01\x00")]
)
def test_the_canonical_form_is_the_shortest(value: int, data: bytes) -> None:
    assert encode_bytes(value) == data


@given(st.integers(0, (1 << 300) - 1), st.integers(0, 9))
def test_a_value_survives_whatever_the_leading_zeros(value: int, zeros: int) -> None:
    assert decode_bytes(bytes(zeros) + encode_bytes(value), 300, "key") == value


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, b"\0"),
        (-1, b"\xff"),
        (0x63, b"\x63"),
        (-0x63, b"\x9d"),
        (-0x2E3, b"\xfd\x1d"),
        (127, b"\x7f"),
        (128, b"\0\x80"),
        (-128, b"\x80"),
        (-129, b"\xff\x7f"),
    ],
)
def test_the_canonical_form_of_a_signed_value_is_the_shortest_in_two_s_complement(
    value: int, data: bytes
) -> None:
    assert encode_signed(value) == data


@given(st.integers(-(1 << 299), (1 << 299) - 1), st.integers(0, 9))
def test_a_signed_value_survives_whatever_the_copies_of_its_sign(value: int, copies: int) -> None:
    sign = b"\xff" if value < 0 else b"\0"
    assert decode_signed(copies * sign + encode_signed(value), 300, "key") == value


@pytest.mark.parametrize(
    ("data", "width"), [(b"\x00\x9d", 8), (b"\x8d\x1d", 12), (b"\x08\x00", 12), (b"\xf7\xff", 12), (b"", 16)]
)
def test_what_does_not_fit_the_width_of_a_signed_value_is_out_of_range(data: bytes, width: int) -> None:
    with pytest.raises(ControlError, match="key") as refused:
        decode_signed(data, width, "key")
    assert refused.value.code is P4RuntimeCode.OUT_OF_RANGE


@pytest.mark.parametrize(
    ("data", "width"),
    [(b"\x01\x63", 8), (b"", 8), (b"\x01\x00\x63", 16), (b"\x10\x63", 12), (b"\x00\x40\x63", 12)],
)
def test_what_does_not_fit_the_width_is_out_of_range(data: bytes, width: int) -> None:
    with pytest.raises(ControlError, match="key") as refused:
        decode_bytes(data, width, "key")
    assert refused.value.code is P4RuntimeCode.OUT_OF_RANGE


def test_the_error_for_a_monstrous_value_stays_short() -> None:
    with pytest.raises(ControlError) as refused:
        decode_bytes(b"\xff" * 100_000, 32, "key")
    assert str(refused.value) == "key is bit<32>; a value of 800000 bits does not fit"
