# SPDX-License-Identifier: Apache-2.0
"""What a key is compared with: kinds of match, whether a value fits one, and how people write them.

Source: P4Runtime Specification 1.4, "Match Format"; P4-16 1.2.5, "Match-Action Tables".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from nicemu.errors import ControlError, P4RuntimeCode

from . import ir


@dataclass(frozen=True, slots=True)
class Exact:
    """Matches one value."""

    value: int


@dataclass(frozen=True, slots=True)
class Lpm:
    """Matches the first `prefix_len` bits of `value`; the other bits must be 0."""

    value: int
    prefix_len: int


@dataclass(frozen=True, slots=True)
class Ternary:
    """Matches the bits of `value` that `mask` selects; the other bits must be 0."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Range:
    """Matches `low` up to and including `high`."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Optional:
    """Matches one value, or any where it is None."""

    value: int | None


Match: TypeAlias = Exact | Lpm | Ternary | Range | Optional
MATCH_CLASS = {
    ir.MatchKind.EXACT: Exact,
    ir.MatchKind.LPM: Lpm,
    ir.MatchKind.TERNARY: Ternary,
    ir.MatchKind.RANGE: Range,
    ir.MatchKind.OPTIONAL: Optional,
}


def check_match(owner: str, match: Match, key: str, width: int) -> None:
    """Raise ControlError unless a match is one of a key of `width` bits; `owner` is who has the key."""
    largest = (1 << width) - 1
    match match:
        case Exact(value) | Lpm(value, _):
            numbers = [value]
        case Ternary(value, mask):
            numbers = [value, mask]
        case Range(low, high):
            numbers = [low, high]
        case Optional(wanted):
            numbers = [] if wanted is None else [wanted]
    for number in numbers:
        if not 0 <= number <= largest:
            raise ControlError(
                P4RuntimeCode.OUT_OF_RANGE,
                f"{owner}: key {key} is bit<{width}>; {number:#x} does not fit",
            )
    match match:
        case Lpm(_, prefix_len) if not 0 <= prefix_len <= width:
            raise _illegal(owner, f"key {key}: prefix length {prefix_len} given; 0 to {width} was expected")
        case Lpm(value, prefix_len) if value & ((1 << (width - prefix_len)) - 1):
            raise _illegal(owner, f"key {key}: {value:#x} has bits set behind its prefix of {prefix_len}")
        case Ternary(value, mask) if value & ~mask:
            raise _illegal(owner, f"key {key}: {value:#x} has bits set outside its mask {mask:#x}")
        case Range(low, high) if low > high:
            raise _illegal(owner, f"key {key}: the range {low:#x}..{high:#x} is empty")


def _illegal(owner: str, sentence: str) -> ControlError:
    return ControlError(P4RuntimeCode.INVALID_ARGUMENT, f"{owner}: {sentence}")


def matches(match: Match, value: int, width: int) -> bool:
    """Return whether `match` accepts `value`, a key of `width` bits."""
    match match:
        case Exact(wanted):
            return value == wanted
        case Lpm(wanted, prefix_len):
            return value >> (width - prefix_len) == wanted >> (width - prefix_len)
        case Ternary(wanted, mask):
            return value & mask == wanted
        case Range(low, high):
            return low <= value <= high
        case Optional(maybe):
            return maybe is None or value == maybe


def distance_bits(match: Match, value: int, width: int) -> int:
    """Return how many bits of a key's value would have to change for `match`, about so many for a range."""
    match match:
        case Exact(wanted):
            return (value ^ wanted).bit_count()
        case Lpm(wanted, prefix_len):
            return ((value ^ wanted) >> (width - prefix_len)).bit_count()
        case Ternary(wanted, mask):
            return ((value ^ wanted) & mask).bit_count()
        case Range(low, high):
            return max(low - value, value - high, 0).bit_length()
        case Optional(maybe):
            return 0 if maybe is None else (value ^ maybe).bit_count()


def width_of(scalar: ir.Type) -> int:
    """Return the width in bits of a scalar as a key or action parameter: 1 for bool, 32 for error."""
    if isinstance(scalar, ir.Bits):
        return scalar.width
    return 1 if isinstance(scalar, ir.Bool) else 32


def matches_text(matches: tuple[Match, ...]) -> str:
    """Return matches as people write them: 0x1, 0x0a000000/8, 0x1&&&0xff, 0x1..0x7, *."""
    texts = []
    for match in matches:
        match match:
            case Exact(value):
                texts.append(f"{value:#x}")
            case Lpm(value, prefix_len):
                texts.append(f"{value:#x}/{prefix_len}")
            case Ternary(value, mask):
                texts.append(f"{value:#x}&&&{mask:#x}")
            case Range(low, high):
                texts.append(f"{low:#x}..{high:#x}")
            case Optional(maybe):
                texts.append("*" if maybe is None else f"{maybe:#x}")
    return ", ".join(texts)


def match_of(keyset: ir.Keyset, kind: ir.MatchKind, width: int) -> Match:
    """Return the match that an entry written in the program means; `verify` has refused what cannot be
    meant.
    """
    ones = (1 << width) - 1
    match keyset:
        case ir.KeyAny():
            value, mask, low, high = 0, 0, 0, ones
        case ir.KeyMask(value, mask):
            low = high = value
        case ir.KeyRange(low, high):
            value, mask = low, ones
        case ir.KeyInSet():
            raise AssertionError("verify lets no value set stand in a table")
    if kind is ir.MatchKind.LPM:
        return Lpm(value & mask, mask.bit_count())
    if kind is ir.MatchKind.TERNARY:
        return Ternary(value & mask, mask)
    if kind is ir.MatchKind.OPTIONAL:
        return Optional(value if mask else None)
    return Range(low, high) if kind is ir.MatchKind.RANGE else Exact(value)
