# SPDX-License-Identifier: Apache-2.0
"""What a number of a program says: 42, 8w0xff, 4s0b1010.

Source: P4-16 Language Specification 1.2.5, "Integer literals".
"""

from __future__ import annotations

import re
from functools import lru_cache

from nicemu.pipeline import ir

_NUMBER = re.compile(r"(?:([0-9]+)([ws]))?(0[xXbBoOdD])?(.*)")
_BASES = {"0x": 16, "0b": 2, "0o": 8, "0d": 10}


@lru_cache(maxsize=1024)
def number_of(text: str) -> tuple[int, int | None, bool, str]:
    """Return a number, its width in bits, whether it has a sign, and what is wrong with it."""
    match = _NUMBER.fullmatch(text)
    assert match is not None
    width, sign, base, digits = match.groups()
    signed = sign == "s"
    try:
        number = int(digits.replace("_", "") or "0", _BASES[base.lower()] if base else 10)
        bits = int(width) if width else None
    except ValueError:
        return 0, None, signed, "this number has too many digits"
    least, most = int(signed), ir.MAX_WIDTH_BITS
    if bits is not None and not least <= bits <= most:
        return number, 1, signed, f"a number of {width} bits; {least} to {most} were expected"
    return number, bits, signed, ""
