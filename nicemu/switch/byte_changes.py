# SPDX-License-Identifier: Apache-2.0
"""What became of a frame's bytes: the places where it left otherwise than it came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

_NEAR_BYTES = 4
"""Changes with fewer equal bytes between them are told as one."""
_ROW_BYTES = 16


@dataclass(frozen=True, slots=True)
class ByteChange:
    """Bytes `before` of the frame that came, and the bytes `after` of the one that left in their place."""

    at_before: int
    before: bytes
    at_after: int
    after: bytes


def byte_changes(before: bytes, after: bytes) -> list[ByteChange]:
    """Return what has to change in `before` to make it `after`, in order.

    Frames of one length are compared byte by byte; else the bytes that were inserted or removed are sought.
    """
    if len(before) == len(after):
        spans = [
            (place, place + 1, place, place + 1)
            for place in range(len(before))
            if before[place] != after[place]
        ]
    else:
        same = _common_end(before, after)
        matcher = SequenceMatcher(
            None, before[: len(before) - same], after[: len(after) - same], autojunk=False
        )
        spans = [
            (first, last, start, end)
            for kind, first, last, start, end in matcher.get_opcodes()
            if kind != "equal"
        ]
    return [
        ByteChange(first, before[first:last], start, after[start:end])
        for first, last, start, end in _joined(spans)
    ]


def change_lines(changes: Iterable[ByteChange]) -> list[str]:
    """Return changes as text: the place, then rows of bytes that went (-) and came (+)."""
    lines = []
    for change in changes:
        for sign, at, data in (("-", change.at_before, change.before), ("+", change.at_after, change.after)):
            for start in range(0, len(data), _ROW_BYTES):
                lines.append(f"{sign} {at + start:04x}  {data[start : start + _ROW_BYTES].hex(' ')}")
    return lines


def _common_end(first: bytes, second: bytes) -> int:
    length = 0
    for one, other in zip(reversed(first), reversed(second), strict=False):
        if one != other:
            break
        length += 1
    return length


def _joined(spans: Iterable[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    held: tuple[int, int, int, int] | None = None
    for first, last, start, end in spans:
        if held is None:
            held = (first, last, start, end)
        elif first - held[1] < _NEAR_BYTES:
            held = (held[0], last, held[2], end)
        else:
            yield held
            held = (first, last, start, end)
    if held is not None:
        yield held
