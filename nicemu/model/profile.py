# SPDX-License-Identifier: Apache-2.0
"""What hardware and software cost, as data: every field with where its value comes from.

A profile is a TOML file: tables of fields, a field being `[value, provenance, source]`, or a value alone,
which is the user's own. `based_on` names the profile whose fields stand where a file says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from nicemu.arguments import read_toml
from nicemu.errors import UsageError

from .fields import Field, Provenance, Value, checked, stages_in


@dataclass(frozen=True, slots=True)
class Family:
    """Profiles that have the same fields: those of the first of its names, which stand alone. `shown_by`: the
    command that lists them.
    """

    what: str
    shown_by: str
    folder: Path
    names: tuple[str, ...]

    def path(self, name: str) -> Path:
        """Return the file of a profile that comes with nicemu."""
        return self.folder / f"{name}.toml"


_HERE = Path(__file__).parent
_HARDWARE: Final = Family("profile", "nicemu model show", _HERE / "profiles", ("seed", "physical"))
_SERVERS: Final = Family(
    "server",
    "nicemu model show --server",
    _HERE / "servers",
    ("a100_llama2_7b", "a6000_llama2_7b", "h100_llama31_8b"),
)
PROFILES: Final = _HARDWARE.names
"""The profiles of hardware that come with nicemu."""
SERVERS: Final = _SERVERS.names
"""The servers, a model on a GPU each, that come with nicemu."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A set of fields by their names, `table.field`."""

    name: str
    title: str
    fields: Mapping[str, Field]

    def number(self, name: str) -> float:
        """Return the value of a field that is a number."""
        value = self.fields[name].value
        assert not isinstance(value, str), name
        return float(value)

    def whole(self, name: str) -> int:
        """Return the value of a field that is a whole number."""
        value = self.fields[name].value
        assert isinstance(value, int), name
        return value

    def text(self, name: str) -> str:
        """Return the value of a field that is a word."""
        return str(self.fields[name].value)

    def stages(self) -> tuple[str, ...]:
        """Return the stages of a NIC that a message passes."""
        return stages_in(self.text("nic.stages"))

    def having(self, values: Mapping[str, Value], source: str = "") -> Profile:
        """Return the profile with other values in some fields, which are given. Raises: UsageError."""
        fields = dict(self.fields)
        for name, value in values.items():
            if name not in fields:
                raise UsageError(f"{self.name}: there is no field {name}; {_near(name, fields)}")
            fields[name] = checked(self.name, Field(name, value, Provenance.GIVEN, source))
        return replace(self, fields=fields)


def read_profile(name: str | Path) -> Profile:
    """Return a profile of hardware that comes with nicemu, by its name, or that of a file.

    Raises: UsageError where there is none, or something in it is wrong: with the file and the field.
    """
    return _named(_HARDWARE, name)


def read_server(name: str | Path) -> Profile:
    """Return a server, a model on a GPU: one that comes with nicemu, by its name, or that of a file.

    Raises: UsageError as `read_profile`.
    """
    return _named(_SERVERS, name)


def _named(family: Family, name: str | Path) -> Profile:
    if str(name) in family.names:
        return _read(family, family.path(str(name)), str(name))
    path = Path(name)
    if not path.is_file():
        raise UsageError(_no_such(family, str(name), "a TOML file"))
    return _read(family, path, path.stem)


def _read(family: Family, path: Path, name: str, above: tuple[Path, ...] = ()) -> Profile:
    if path.resolve() in above:
        raise UsageError(f"{path}: it is based on itself")
    document = read_toml(path)
    base = document.pop("based_on", None)
    title = document.pop("title", "")
    if not isinstance(title, str) or not (base is None or isinstance(base, str)):
        raise UsageError(f"{path}: title and based_on are texts")
    fields = dict(_base_of(family, base, path, above)) if base is not None else {}
    known = fields or _root_names(family, path)
    for table, entries in document.items():
        if not isinstance(entries, dict):
            raise UsageError(f"{path}: {table} is {entries!r}; a table of fields was expected")
        for key, given in entries.items():
            field = f"{table}.{key}"
            if field not in known and path.parent != family.folder:
                raise UsageError(f"{path}: there is no field {field}; {_near(field, known)}")
            fields[field] = checked(str(path), _field_of(path, field, given))
    missing = [field for field in known if field not in fields]
    if missing:
        raise UsageError(f'{path} lacks {", ".join(missing)}; give them, or based_on = "{family.names[0]}"')
    return Profile(name, title, fields)


def _base_of(family: Family, base: str, path: Path, above: tuple[Path, ...]) -> Mapping[str, Field]:
    if base in family.names:
        return _read(family, family.path(base), base).fields
    other = path.parent / base
    if not other.is_file():
        raise UsageError(f"{path}: {_no_such(family, base, 'a file')}")
    return _read(family, other, other.stem, (*above, path.resolve())).fields


def _no_such(family: Family, name: str, otherwise: str) -> str:
    told = f"there is no {family.what} {name}; {', '.join(family.names)} or {otherwise} were expected"
    last, other = Path(name).name, _SERVERS if family is _HARDWARE else _HARDWARE
    return f"{told} ({last} is a {other.what})" if last in other.names else told


def _root_names(family: Family, path: Path) -> Mapping[str, object]:
    root = family.names[0]
    return {} if path == family.path(root) else _read(family, family.path(root), root).fields


def _field_of(path: Path, name: str, given: Any) -> Field:  # noqa: ANN401 - what TOML holds
    if not isinstance(given, list):
        return Field(name, given, Provenance.GIVEN, str(path))
    if len(given) != 3 or not isinstance(given[2], str) or given[1] not in list(Provenance):
        raise UsageError(
            f"{path}: {name} is {given!r}; a value, or [value, provenance, source] was expected, the "
            f"provenance one of {', '.join(Provenance)}"
        )
    return Field(name, given[0], Provenance(given[1]), given[2])


def _near(name: str, known: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), 2, 0.75)
    family = _SERVERS if "model.layers" in known else _HARDWARE
    return f"did you mean {' or '.join(close)}?" if close else f"`{family.shown_by}` lists them"


def write_profile(profile: Profile, path: Path) -> None:
    """Write a profile as a file that `read_profile` reads, every field with its provenance and source.

    Raises: UsageError if it cannot be written.
    """
    lines, table = [f"title = {_quoted(profile.title)}"], ""
    for field in sorted(profile.fields.values(), key=lambda field: field.name.partition(".")[0]):
        here, _, key = field.name.partition(".")
        if here != table:
            table = here
            lines += ["", f"[{table}]"]
        value = _quoted(field.value) if isinstance(field.value, str) else repr(field.value)
        lines.append(f"{key} = [{value}, {_quoted(field.provenance)}, {_quoted(field.source)}]")
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _quoted(text: str) -> str:
    """Return a text as TOML has it; JSON's strings are basic strings of TOML."""
    return json.dumps(text, ensure_ascii=False)
