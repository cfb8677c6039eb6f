# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them: 4 KiB, 1GiB, 512."""

from __future__ import annotations

import re
from typing import Final

from nicemu.errors import UsageError

LARGEST_BYTES: Final = 1 << 50
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB)?")
_UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}


def size_of(text: object) -> int:
    """Return the bytes that a size names, a number or a text: 1 B to 1 PiB. Raises: UsageError."""
    match = _SIZE.fullmatch(str(text)) if isinstance(text, str | int) and not isinstance(text, bool) else None
    length = float(match[1]) * _UNITS[match[2] or "B"] if match else 0.0
    if not 1 <= length <= LARGEST_BYTES or length != int(length):
        raise UsageError(f"{text!r} is no size; whole bytes were expected, as 4 KiB or 1 GiB")
    return int(length)


def size_text(length_bytes: float) -> str:
    """Return a size as people write it, with three digits."""
    for unit, bytes_of in _UNITS.items():
        if length_bytes >= bytes_of:
            return (
                f"{length_bytes / bytes_of:.4g} {unit}"
                if length_bytes % bytes_of == 0
                else (f"{length_bytes / bytes_of:.3g} {unit}")
            )
    return f"{length_bytes:g} B"
