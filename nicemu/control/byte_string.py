# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's byte strings: integers, big-endian, in the fewest bytes; zero is one zero byte.

Signed ones are in two's complement, and what stands in front of them are copies of their sign.

Source: P4Runtime Specification 1.4, "Bytestrings".
"""

from __future__ import annotations

from nicemu.errors import ControlError, P4RuntimeCode


def encode_bytes(value: int) -> bytes:
    """Return the canonical byte string of a value that is not negative."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def encode_signed(value: int) -> bytes:
    """Return the canonical byte string of a value of type int<N>."""
    return value.to_bytes((value ^ value >> 1).bit_length() // 8 + 1, "big", signed=True)


def decode_bytes(data: bytes, width_bits: int, what: str) -> int:
    """Return the value of a byte string; leading zeros are accepted, whatever their number.

    `what` names the value in the error, as "table t: key k".
    Raises: ControlError(OUT_OF_RANGE) for an empty string, and for a value of more than `width_bits` bits.
    """
    _refuse_empty(data, what)
    value = int.from_bytes(data, "big")
    if value.bit_length() > width_bits:
        raise _too_wide(value, value.bit_length(), f"{what} is bit<{width_bits}>")
    return value


def decode_signed(data: bytes, width_bits: int, what: str) -> int:
    """Return the value of a byte string of type int<N>; leading copies of its sign are accepted.

    Raises: ControlError(OUT_OF_RANGE) as for `decode_bytes`.
    """
    _refuse_empty(data, what)
    value = int.from_bytes(data, "big", signed=True)
    needed = (value ^ value >> 1).bit_length() + 1
    if needed > width_bits:
        raise _too_wide(value, needed, f"{what} is int<{width_bits}>")
    return value


def _refuse_empty(data: bytes, what: str) -> None:
    if not data:
        raise ControlError(
            P4RuntimeCode.OUT_OF_RANGE, f"{what}: the byte string is empty; zero is one zero byte"
        )


def _too_wide(value: int, length_bits: int, owner: str) -> ControlError:
    shown = f"{value:#x}" if length_bits <= 256 else f"a value of {length_bits} bits"
    return ControlError(P4RuntimeCode.OUT_OF_RANGE, f"{owner}; {shown} does not fit")
