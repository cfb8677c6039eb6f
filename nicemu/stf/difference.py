# SPDX-License-Identifier: Apache-2.0
"""What an expectation and a frame that left differ in: byte by byte, and field by field."""

from __future__ import annotations

from collections.abc import Sequence

from nicemu.errors import counted
from nicemu.pipeline import FieldPlace

from .commands import Expect

_ROW_BYTES = 16
_MAX_ROWS = 8


def meets(expected: Expect, frame: bytes) -> bool:
    """Return whether a frame is what was expected: it begins so and, where that is exact, ends there."""
    nibbles = expected.nibbles
    if nibbles is None:
        return True
    seen = frame.hex()
    if len(seen) < len(nibbles) or (expected.exact and len(seen) > len(nibbles)):
        return False
    return not _differing(nibbles, seen)


def difference(expected: Expect, frame: bytes, fields: Sequence[FieldPlace]) -> str:
    """Return lines that show where they differ; "" where they do not. `fields` are the frame's."""
    nibbles, seen = expected.nibbles or "", frame.hex()
    wrong = _differing(nibbles, seen)
    lines = _length_lines(expected, nibbles, seen)
    rows = sorted({place // (2 * _ROW_BYTES) for place in wrong})
    for row in rows[:_MAX_ROWS]:
        lines += _row(row, nibbles, seen, wrong)
    if len(rows) > _MAX_ROWS:
        lines.append(f"and {len(rows) - _MAX_ROWS} more rows of {_ROW_BYTES} bytes")
    lines += _field_lines(nibbles, wrong, fields)
    return "\n".join(lines)


def hex_bytes(data: bytes) -> str:
    """Return bytes as two digits each, with blanks between; the first 64 of them."""
    shown = data[:64].hex(" ")
    return f"{shown} … ({len(data)} bytes)" if len(data) > 64 else shown or "(no byte)"


def _differing(nibbles: str, seen: str) -> list[int]:
    return [
        place
        for place, (wanted, found) in enumerate(zip(nibbles, seen, strict=False))
        if wanted not in ("*", found)
    ]


def _length_lines(expected: Expect, nibbles: str, seen: str) -> list[str]:
    if len(seen) < len(nibbles):
        left = counted(len(seen) // 2, "byte")
        return [f"{left} left; {_bytes(nibbles)} were expected{_ending(expected)}"]
    if expected.exact and len(seen) > len(nibbles):
        beyond = seen[len(nibbles) :]
        left = counted(len(seen) // 2, "byte")
        return [f"{left} left; {_bytes(nibbles)} and no more were expected: {beyond[:64]} behind"]
    return []


def _bytes(nibbles: str) -> str:
    return f"{len(nibbles) / 2:g}"


def _ending(expected: Expect) -> str:
    return "" if expected.exact else " at least"


def _row(row: int, nibbles: str, seen: str, wrong: list[int]) -> list[str]:
    start, end = row * 2 * _ROW_BYTES, (row + 1) * 2 * _ROW_BYTES
    marks = "".join("^" if place in wrong else " " for place in range(start, end))
    head = f"byte {start // 2:<5}"
    blank = " " * len(head)
    return [
        f"{head} expected  {_pairs(nibbles[start:end])}",
        f"{blank} seen      {_pairs(seen[start:end])}",
        f"{blank}           {_pairs(marks)}".rstrip(),
    ]


def _pairs(nibbles: str) -> str:
    return " ".join(nibbles[place : place + 2] for place in range(0, len(nibbles), 2))


def _field_lines(nibbles: str, wrong: list[int], fields: Sequence[FieldPlace]) -> list[str]:
    """Say which fields of the frame are wrong; bits of a digit that is shared by fields are told apart."""
    open_digits = nibbles.replace("*", "0")
    value, length = int(open_digits or "0", 16), 4 * len(nibbles)
    mask = int("".join("0" if digit == "*" else "f" for digit in nibbles) or "0", 16)
    lines = []
    for field in fields:
        end = field.offset_bits + field.width_bits
        if end > length or not any(field.offset_bits // 4 <= place <= (end - 1) // 4 for place in wrong):
            continue
        ones = (1 << field.width_bits) - 1
        wanted, care = value >> (length - end) & ones, mask >> (length - end) & ones
        if field.number & care != wanted & care:
            digits = (field.width_bits + 3) // 4
            due = _open(wanted, care, digits, ones)
            lines.append(f"{field.name}: expected 0x{due}, seen 0x{field.number:0{digits}x}")
    return lines


def _open(wanted: int, care: int, digits: int, ones: int) -> str:
    """Return a number whose digits are `*` where any of their bits is open."""
    shown = ""
    for place in reversed(range(digits)):
        of_digit = ones >> 4 * place & 15
        shown += f"{wanted >> 4 * place & 15:x}" if care >> 4 * place & of_digit == of_digit else "*"
    return shown
