# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's byte strings: unsigned integers, big-endian, in the fewest bytes; zero is one zero byte.

Source: P4Runtime Specification 1.4, "Bytestrings".
"""

from __future__ import annotations

from nicemu.errors import ControlError, P4RuntimeCode


def encode_bytes(value: int) -> bytes:
    """Return the canonical byte string of a value that is not negative."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode_bytes(data: bytes, width_bits: int, what: str) -> int:
    """Return the value of a byte string; leading zeros are accepted, whatever their number.

    `what` names the value in the error, as "table t: key k".
    Raises: ControlError(OUT_OF_RANGE) for an empty string, and for a value of more than `width_bits` bits.
    """
    if not data:
        raise ControlError(
            P4RuntimeCode.OUT_OF_RANGE, f"{what}: the byte string is empty; zero is one zero byte"
        )
    value = int.from_bytes(data, "big")
    if value.bit_length() > width_bits:
        shown = f"{value:#x}" if len(data) <= 32 else f"a value of {value.bit_length()} bits"
        raise ControlError(P4RuntimeCode.OUT_OF_RANGE, f"{what} is bit<{width_bits}>; {shown} does not fit")
    return value
