# SPDX-License-Identifier: Apache-2.0
"""Operands as people give them: whole numbers (NumPy's too), yes or no, seconds; others are refused.

What is refused is refused where it was given, with a sentence, before anything has changed.
"""

from __future__ import annotations

from numbers import Real
from operator import index
from reprlib import Repr

import numpy as np

from nicemu.errors import UsageError

U32_MAX = (1 << 32) - 1
U64_MAX = (1 << 64) - 1
LONGEST_S = 1_000_000_000
"""The longest time that anybody waits; it can be told in nanoseconds."""

_short = Repr()
_short.maxother = _short.maxstring = _short.maxlong = 60


def shown(value: object) -> str:
    """Return what a message shows of something that was given, in one line."""
    return " ".join(_short.repr(value).split())


def whole(value: object, what: str, least: int = 0, most: int = U64_MAX) -> int:
    """Return a whole number from `least` to `most`; `what` is the caller's word for it.

    Raises: UsageError (EINVAL) for what is not whole, such as 1.0 and True, or lies outside.
    """
    try:
        number = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        bounds = f"{least} or more, of 64 bits" if most == U64_MAX else f"{least} to {most}"
        raise UsageError(f"{what} is a whole number, {bounds}, not {shown(value)} (EINVAL)")
    return int(number)


def yes_or_no(value: object, what: str) -> bool:
    """Return True or False. Raises: UsageError (EINVAL) for anything else, such as "no"."""
    if not isinstance(value, (bool, np.bool_)):
        raise UsageError(f"{what} is True or False, not {shown(value)} (EINVAL)")
    return bool(value)


def seconds(value: object, what: str = "timeout_s") -> float:
    """Return a time in seconds. Raises: UsageError (EINVAL) for what is negative, endless or no number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= LONGEST_S:  # type: ignore[operator]
        bounds = f"0 to {LONGEST_S:,}"
        raise UsageError(f"{what} is a number of seconds, {bounds}, not {shown(value)} (EINVAL)")
    return float(value)


def text(value: object, what: str) -> str:
    """Return a name. Raises: UsageError (EINVAL) for what is no text."""
    if not isinstance(value, str):
        raise UsageError(f"{what} is text, not {shown(value)} (EINVAL)")
    return value
