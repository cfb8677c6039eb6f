# SPDX-License-Identifier: Apache-2.0
"""What callers pass: numbers, flags, values, TOML files, refused in words before anything changes."""

from __future__ import annotations

import math
import tomllib
from operator import index
from pathlib import Path
from typing import Any

from nicemu.errors import UsageError


def check_whole(name: str, value: object, least: int, most: int) -> int:
    """Return `value` as an int.

    Raises: UsageError unless it is a whole number from `least` to `most`; True and False are none.
    """
    try:
        number = least - 1 if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise UsageError(f"{name} is {value!r}; it is a whole number from {least} to {most}")
    return number


def check_number(name: str, value: object, least: float, *, more_than: bool = False) -> float:
    """Return `value` as a float.

    Raises: UsageError unless it is a finite number of `least` at least, or `more_than` that.
    """
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < least or (more_than and number == least):
        raise UsageError(
            f"{name} is {value!r}; it is a finite number, {'more than ' if more_than else ''}{least:g}"
            f"{'' if more_than else ' at least'}"
        )
    return number


def check_flag(name: str, value: object) -> None:
    """Raise UsageError unless `value` is True or False."""
    check_type(name, value, bool, "True or False")


def check_type(name: str, value: object, wanted: type | tuple[type, ...], words: str) -> None:
    """Raise UsageError unless `value` is of a type `wanted`, which `words` name with what to pass."""
    if not isinstance(value, wanted):
        raise UsageError(f"{name} is {value!r}; pass {words}")


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds. Raises: UsageError, which names it, if it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except RecursionError:
        raise UsageError(f"{path}: arrays or tables lie in one another too deep") from None
    except ValueError as error:  # no text, no TOML, or a number of more digits than Python reads
        raise UsageError(f"{path}: {error}") from error
