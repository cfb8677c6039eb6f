# SPDX-License-Identifier: Apache-2.0
"""Values and matches as people write them: 42, 0x2a, 10.0.0.1, ::1, 10.0.0.0/8, 0x10&&&0xf0, 1..9.

Every fault is a ControlError that names what was found and what was allowed.
"""

from __future__ import annotations

import ipaddress
import re

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Exact, Lpm, Match, Optional, Range, Ternary, ir

from .refusals import illegal

ANY = "*"
"""Text of the match that every value satisfies; not for exact keys."""

_NUMBER = re.compile(r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|[0-9][0-9_]*")
_MAC = re.compile(r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}")
_BOOLS = ("false", "true")
_MAX_TEXT = 2_000
MAX_TEXT_BYTES = 1_024
"""Longest text that stands for a value of a translated type, in UTF-8."""
TEXT_BITS = 8 * MAX_TEXT_BYTES
"""Width of a value that is a text, to clients: a number of these bytes. No field of a program is as wide."""


def parse_value(value: int | str, width_bits: int, what: str = "value", kind: ir.Type | None = None) -> int:
    """Return the number that `value` means, of at most `width_bits` bits.

    Text is a number (decimal, 0x, 0b, 0o), an IPv4 address (32 bits), an IPv6 address (128) or a MAC
    address (48). Of TEXT_BITS it is what it is. Where `kind`, the program's type, is int<N> or not known, a
    number may have a minus, and where it is bool, or one bit that is not known, be true or false.
    Raises: ControlError: INVALID_ARGUMENT for other text, OUT_OF_RANGE for a value that does not fit.
    """
    if width_bits == TEXT_BITS:
        return _text_number(value, what)
    text = value.strip() if isinstance(value, str) and kind is None else ""
    if (isinstance(kind, ir.Bits) and kind.signed) or text.startswith("-"):
        return parse_signed(value, width_bits, what) & (1 << width_bits) - 1
    if isinstance(kind, ir.Bool) or (width_bits == 1 and text in _BOOLS):
        return _parse_bool(value, what)
    number = value if isinstance(value, int) else _parse_text(value.strip(), width_bits, what)
    if not 0 <= number < 1 << width_bits:
        raise ControlError(
            P4RuntimeCode.OUT_OF_RANGE,
            f"{what} is bit<{width_bits}>, 0 to {_shown((1 << width_bits) - 1)}; "
            f"{_shown(number)} does not fit",
        )
    return int(number)


def parse_signed(value: int | str, width_bits: int, what: str = "value") -> int:
    """Return the number of type int<N> that `value` means: a number, which may have a minus, or N bits.

    Raises: ControlError, as for `parse_value`.
    """
    if isinstance(value, str):
        text = value.strip()
        number = _parse_text(text.removeprefix("-"), width_bits, what)
        number = -number if text.startswith("-") else number
    else:
        number = value
    bound = 1 << width_bits - 1
    if not -bound <= number < 2 * bound:
        raise ControlError(
            P4RuntimeCode.OUT_OF_RANGE,
            f"{what} is int<{width_bits}>, {_shown(-bound)} to {_shown(bound - 1)}; "
            f"{_shown(number)} does not fit",
        )
    return number - 2 * bound if number >= bound else number


def parse_match(
    value: int | str | Match,
    match_kind: str,
    width_bits: int,
    what: str = "key",
    kind: ir.Type | None = None,
) -> Match:
    """Return the match that `value` means for a key.

    exact: a value. lpm: value/prefix_len, or a value (all its bits). ternary: value&&&mask,
    value/prefix_len, or a value. range: low..high, or a value. optional: a value. "*" matches everything,
    except for exact.
    A finished match is only checked for kind. For `kind` see `parse_value`.
    Raises: ControlError.
    """
    if isinstance(value, Match):
        return _of_kind(value, match_kind, what)
    text = value.strip() if isinstance(value, str) else ""
    if text == ANY:
        return match_anything(match_kind, width_bits, what)
    if match_kind == "lpm":
        number, prefix_len = _parse_prefix(value, width_bits, what, kind)
        return Lpm(number, prefix_len)
    if match_kind == "ternary":
        return _parse_ternary(value, width_bits, what, kind)
    if match_kind == "range":
        low_text, dots, high_text = text.partition("..")
        if dots:
            low = parse_value(low_text, width_bits, what, kind)
            high = parse_value(high_text, width_bits, what, kind)
            has_sign = text.startswith("-") or high_text.strip().startswith("-")
            half = 1 << width_bits - 1 if has_sign else 0  # bits are taken in their own order
            first, last = (low ^ half) - half, (high ^ half) - half
            if first < 0 <= last:
                raise illegal(f"{what}: the range {text} goes over 0; write an entry to -1, and one from 0")
            if first > last:
                raise illegal(f"{what}: the range {text} is empty; write the smaller number first")
            return Range(low, high)
        number = parse_value(value, width_bits, what, kind)
        return Range(number, number)
    number = parse_value(value, width_bits, what, kind)
    return Optional(number) if match_kind == "optional" else Exact(number)


def match_anything(match_kind: str, width_bits: int, what: str) -> Match:
    """Return the match of a key that is left out.

    Raises: ControlError(INVALID_ARGUMENT) for an exact key, which has no such match.
    """
    if match_kind == "lpm":
        return Lpm(0, 0)
    if match_kind == "ternary":
        return Ternary(0, 0)
    if match_kind == "range":
        return Range(0, (1 << width_bits) - 1)
    if match_kind == "optional":
        return Optional(None)
    raise illegal(f"{what} is exact: it needs a value, and cannot be left out")


def text_of(number: int) -> str:
    """Return the text that a value of TEXT_BITS is."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big").decode(errors="replace")


def _text_number(value: int | str, what: str) -> int:
    data = str(value).encode(errors="replace")
    is_whole = not isinstance(value, str) or data.decode() == value
    if not is_whole or not data or len(data) > MAX_TEXT_BYTES or b"\0" in data:
        raise illegal(
            f"{what}: {_clipped(str(value))} found; a text of 1 to {MAX_TEXT_BYTES} bytes was expected"
        )
    return int.from_bytes(data, "big")


def _parse_bool(value: int | str, what: str) -> int:
    text = str(value).strip()
    if text in _BOOLS:
        return _BOOLS.index(text)
    number = _parse_text(text, 1, what) if _NUMBER.fullmatch(text) else -1
    if number not in (0, 1):
        raise illegal(f"{what} is bool, false or true; {_clipped(text)} is neither")
    return number


def _parse_ternary(value: int | str, width_bits: int, what: str, kind: ir.Type | None) -> Ternary:
    ones = (1 << width_bits) - 1
    if isinstance(value, str) and "&&&" in value:
        value_text, _, mask_text = value.partition("&&&")
        number = parse_value(value_text, width_bits, what, kind)
        mask = parse_value(mask_text, width_bits, what)
    elif isinstance(value, str) and "/" in value:
        number, prefix_len = _parse_prefix(value, width_bits, what, kind)
        mask = ones >> (width_bits - prefix_len) << (width_bits - prefix_len)
    else:
        number, mask = parse_value(value, width_bits, what, kind), ones
    if number & ~mask:
        raise illegal(
            f"{what}: {_shown(number)} has bits set outside its mask {_shown(mask)}; "
            f"write {_shown(number & mask)}"
        )
    return Ternary(number, mask)


def _parse_prefix(value: int | str, width_bits: int, what: str, kind: ir.Type | None) -> tuple[int, int]:
    value_text, slash, length_text = value.partition("/") if isinstance(value, str) else (value, "", "")
    number = parse_value(value_text, width_bits, what, kind)
    prefix_len = width_bits
    if slash:
        length_text = length_text.strip()
        short = length_text.isascii() and length_text.isdigit() and len(length_text) <= 4
        if not short or int(length_text) > width_bits:
            raise illegal(
                f"{what}: prefix length {_clipped(length_text)} found; 0 to {width_bits} was expected"
            )
        prefix_len = int(length_text)
    behind = (1 << (width_bits - prefix_len)) - 1
    if number & behind:
        raise illegal(
            f"{what}: {value} has bits set behind its prefix of {prefix_len}; "
            f"write {_shown(number & ~behind)}/{prefix_len}"
        )
    return number, prefix_len


def _parse_text(text: str, width_bits: int, what: str) -> int:
    if _NUMBER.fullmatch(text) and len(text) <= _MAX_TEXT:
        try:
            return int(text, 0)
        except ValueError:
            if text.isdigit():
                return int(text)
    elif _MAC.fullmatch(text):
        return _of_width(int(re.sub("[:-]", "", text), 16), 48, width_bits, what, text)
    elif "." in text or ":" in text:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            pass
        else:
            return _of_width(int(address), address.max_prefixlen, width_bits, what, text)
    raise illegal(
        f"{what}: {_clipped(text)} is not a value; a number (42, 0x2a, 0b101), an IPv4 or IPv6 address, or a "
        "MAC address was expected"
    )


def _of_width(number: int, text_bits: int, width_bits: int, what: str, text: str) -> int:
    if text_bits != width_bits:
        raise illegal(f"{what} is bit<{width_bits}>; {text} is an address of {text_bits} bits")
    return number


def _of_kind(match: Match, match_kind: str, what: str) -> Match:
    if type(match).__name__.lower() != match_kind:
        raise illegal(f"{what} is {match_kind}; a match of class {type(match).__name__} was given")
    return match


def _shown(number: int) -> str:
    return str(number) if -1_000_000 < number < 1_000_000 else f"{number:#x}"[:80]


def _clipped(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
