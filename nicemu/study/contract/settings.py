# SPDX-License-Identifier: Apache-2.0
"""What a study is about: a dataclass whose fields say what they may be, read from TOML and options.

A field is declared by `whole`, `number`, `flag`, `choice`, `text` or `several`, which take its default. Names
with a dot are fields of profiles (`[set.link]` in a file), and go into `values`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from nicemu.arguments import check_flag, check_number, check_whole, read_toml
from nicemu.errors import UsageError
from nicemu.model import Value

Check: TypeAlias = Callable[[str, object], Any]
"""Returns the value, as it is meant. Raises: UsageError, which begins with the name that it is given."""
_CHECK = "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every study may be told: other values for fields of profiles, by their names."""

    values: Mapping[str, Value] = dataclasses.field(default_factory=dict)


S = TypeVar("S", bound=Settings)


def whole(default: int, least: int, most: int) -> Any:  # noqa: ANN401 - a field
    """Declare a whole number."""
    return _declared(default, lambda name, value: check_whole(name, value, least, most))


def number(default: float, least: float = 0.0, most: float | None = None, *, more_than: bool = False) -> Any:  # noqa: ANN401 - a field
    """Declare a finite number of `least` at least, or `more_than` that, and `most` at most."""
    return _declared(default, number_from(least, most, more_than=more_than))


def flag(default: bool) -> Any:  # noqa: ANN401 - a field
    """Declare true or false."""

    def check(name: str, value: object) -> bool:
        check_flag(name, value)
        return bool(value)

    return _declared(default, check)


def choice(default: str, *words: str) -> Any:  # noqa: ANN401 - a field
    """Declare one of some words."""
    return _declared(default, one_of(*words))


def text(default: str) -> Any:  # noqa: ANN401 - a field
    """Declare a text, as the name of a profile."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise UsageError(f"{name} is {value!r}; a text was expected")
        return value

    return _declared(default, check)


def several(default: tuple[Any, ...], check: Check) -> Any:  # noqa: ANN401 - a field
    """Declare a list of one or more that differ, which `check` takes each; a value alone is a list of one."""

    def check_all(name: str, value: object) -> tuple[Any, ...]:
        items = list(value) if isinstance(value, list | tuple) else [value]
        if not items:
            raise UsageError(f"{name} is empty; one or more were expected")
        found = tuple(check(f"{name}[{place}]", item) for place, item in enumerate(items))
        for place, item in enumerate(found):
            if item in found[:place]:
                raise UsageError(f"{name} has {item!r} twice; each may be there once")
        return found

    return _declared(default, check_all)


def one_of(*words: str) -> Check:
    """Return a check for one of some words."""

    def check(name: str, value: object) -> str:
        if value not in words:
            raise UsageError(f"{name} is {value!r}; one of {', '.join(words)} was expected")
        return str(value)

    return check


def whole_from(least: int, most: int) -> Check:
    """Return a check for a whole number, for lists."""
    return lambda name, value: check_whole(name, value, least, most)


def number_from(least: float, most: float | None = None, *, more_than: bool = False) -> Check:
    """Return a check for a finite number, for lists."""

    def check(name: str, value: object) -> float:
        found = check_number(name, value, least, more_than=more_than)
        if most is not None and found > most:
            raise UsageError(f"{name} is {value!r}; it is {most:g} at most")
        return found

    return check


def _declared(default: Any, check: Check) -> Any:  # noqa: ANN401
    return dataclasses.field(default=default, metadata={_CHECK: check})


def read_settings(standard: S, path: Path) -> S:
    """Return what a TOML file says, over `standard`. Raises: UsageError, with the file and the key."""
    document = read_toml(path)
    tables = document.pop("set", {})
    if not isinstance(tables, dict):
        raise UsageError(f"{path}: set is {tables!r}; tables of fields were expected")
    for table, entries in tables.items():
        if not isinstance(entries, dict):
            raise UsageError(f"{path}: set.{table} is {entries!r}; a table of fields was expected")
        document |= {f"{table}.{key}": value for key, value in entries.items()}
    return settings_with(standard, document, f"{path}: ")


def settings_with(standard: S, given: Mapping[str, Any], where: str = "") -> S:
    """Return `standard` with other values for some of its settings, and for fields of profiles.

    Raises: UsageError, which begins with `where` and the name.
    """
    changed: dict[str, Any] = {}
    values = dict(standard.values)
    for key, value in given.items():
        if "." in key:
            values[key] = value
        else:
            changed[key] = checked_setting(standard, key, value, where)
    try:
        return dataclasses.replace(standard, values=values, **changed)
    except UsageError as error:
        raise UsageError(f"{where}{error}") if where and where not in str(error) else error from None


def checked_setting(standard: Settings, name: str, value: object, where: str = "") -> Any:  # noqa: ANN401
    """Return a value of a setting as it is meant; fields of profiles, with a dot, are as they are given.

    Raises: UsageError if there is no such setting, or the value is none of its own.
    """
    if "." in name:
        return value
    known = {item.name: item for item in dataclasses.fields(standard) if _CHECK in item.metadata}
    if name in known:
        return known[name].metadata[_CHECK](f"{where}{name}", value)
    near = get_close_matches(name, list(known), 2, 0.7)
    told = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
    raise UsageError(f"{where}there is no setting {name}; {told}")


def settings_data(settings: Settings) -> dict[str, object]:
    """Return settings as they would stand in a JSON document."""
    return {
        item.name: dict(value)
        if isinstance(value, Mapping)
        else list(value)
        if isinstance(value, tuple)
        else value
        for item in dataclasses.fields(settings)
        for value in [getattr(settings, item.name)]
    }
