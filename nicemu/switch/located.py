# SPDX-License-Identifier: Apache-2.0
"""The parts of a JSON document, each with its place, so that every fault names where it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nicemu.errors import NicemuError, UsageError


class _LocatedError(UsageError):
    """A fault that says already where it is."""


@dataclass(slots=True, eq=False)
class Located:
    """A value of a document: `place` is the path to it, $ for the whole document of the file `file`.

    Inside a `with` of one, errors that are raised say that they are here.
    """

    value: Any
    file: str
    place: str = "$"

    def fault(self, sentence: str) -> UsageError:
        """Return the error of a fault here; the sentence goes on where the place ends."""
        return _LocatedError(f"{self.file}: {self.place} {sentence}")

    def __enter__(self) -> None:
        """Begin what is done here."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Raise an error again with its place."""
        if isinstance(error, NicemuError) and not isinstance(error, _LocatedError):
            raise _LocatedError(f"{self.file}: {self.place}: {error}") from None

    def members(self, needed: Sequence[str] = (), optional: Sequence[str] | None = ()) -> dict[str, Located]:
        """Return the members of an object, which are these; with `optional` None there may be any others."""
        if not isinstance(self.value, dict):
            raise self.fault(f"is {_described(self.value)}; an object was expected")
        found = {name: Located(item, self.file, f"{self.place}.{name}") for name, item in self.value.items()}
        if optional is not None:
            known = [*needed, *optional]
            for name in found.keys() - set(known):
                raise found[name].fault(f"is unknown; there may be {', '.join(known) or 'nothing'}")
        for name in needed:
            if name not in found:
                raise self.fault(f"lacks {name}")
        return found

    def items(self) -> list[Located]:
        """Return the items of a list."""
        if not isinstance(self.value, list):
            raise self.fault(f"is {_described(self.value)}; a list was expected")
        return [Located(item, self.file, f"{self.place}[{index}]") for index, item in enumerate(self.value)]

    def word(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str):
            raise self.fault(f"is {_described(self.value)}; a name was expected")
        return self.value

    def flag(self) -> bool:
        """Return a boolean."""
        if not isinstance(self.value, bool):
            raise self.fault(f"is {_described(self.value)}; true or false was expected")
        return self.value

    def number(self, last: int | None = None, first: int = 0) -> int:
        """Return a number from `first` up to `last`, if there is one."""
        number = self.value
        fits = isinstance(number, int) and not isinstance(number, bool) and number >= first
        if not fits or (last is not None and number > last):
            allowed = f"from {first} up" if last is None else f"from {first} to {last}"
            raise self.fault(f"is {_described(number)}; a number {allowed} was expected")
        return int(number)

    def number_or_text(self, *, is_bool: bool = False) -> int | str:
        """Return what may stand for a number, as on the command line; where that `is_bool`, for a bool."""
        if is_bool and isinstance(self.value, bool):
            return "true" if self.value else "false"
        if not isinstance(self.value, int | str) or isinstance(self.value, bool):
            raise self.fault(f"is {_described(self.value)}; a number or a text was expected")
        return self.value


def read_document(path: Path) -> Located:
    """Return the document in a JSON file. Raises: UsageError with line and column."""
    try:
        text = path.read_text(encoding="utf-8")
        doubled: list[tuple[dict[str, Any], str]] = []
        document = json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, doubled))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: this is no JSON: {error.msg}") from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply; a document of a few levels was expected") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    whole = Located(document, str(path))
    if doubled:
        where, name = doubled[0]
        raise (_found(where, whole) or whole).fault(f"has {name} twice")
    return whole


def _object(pairs: list[tuple[str, Any]], doubled: list[tuple[dict[str, Any], str]]) -> dict[str, Any]:
    """Return an object of these members; a name that stands in it twice goes to `doubled`, with it."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            doubled.append((found, name))
        found[name] = value
    return found


def _found(wanted: object, whole: Located) -> Located | None:
    """Return where an object lies in a document."""
    left = [whole]
    while left:
        item = left.pop()
        if item.value is wanted:
            return item
        if isinstance(item.value, dict):
            left += (Located(value, item.file, f"{item.place}.{name}") for name, value in item.value.items())
        elif isinstance(item.value, list):
            left += (Located(value, item.file, f"{item.place}[{at}]") for at, value in enumerate(item.value))
    return None


def _described(value: Any) -> str:  # noqa: ANN401 - whatever JSON has
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
