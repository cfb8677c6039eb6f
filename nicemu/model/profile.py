# SPDX-License-Identifier: Apache-2.0
"""What hardware and software cost, as data: every field with where its value comes from.

A profile is a TOML file: tables of fields, a field being `[value, provenance, source]`, or a value alone,
which is the user's own. `based_on` names the profile whose fields stand where a file says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeAlias

from nicemu.arguments import check_number, check_whole, read_toml
from nicemu.errors import UsageError

Value: TypeAlias = float | int | str
PROFILES: Final = ("seed", "physical")
"""The profiles that come with nicemu."""
_FOLDER = Path(__file__).with_name("profiles")
_MOST_BYTES, _MOST_COUNT = 1 << 50, 1 << 20


class Provenance(StrEnum):
    """Where a value comes from."""

    PRINTED = "printed"
    CORRECTED = "corrected"
    FITTED = "fitted"
    ASSUMED = "assumed"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class Field:
    """One value with its unit, provenance and source. `choices` are the values of a text."""

    name: str
    value: Value
    provenance: Provenance
    source: str

    @property
    def unit(self) -> str:
        """The unit, which ends the name: s, bytes, s/byte, …; "" for counts and choices."""
        return next((unit for ending, unit in _UNITS.items() if self.name.endswith(ending)), "")


_UNITS = {
    "bytes_per_s_per_byte": "bytes/s per byte",
    "_per_byte": "s/byte",
    "bytes_per_s": "bytes/s",
    "_bytes": "bytes",
    "_s": "s",
}
_WAYS = ("store_and_forward", "pipelined")
STAGES: Final = ("memory", "alu", "serial")
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "transfer.triggered": _WAYS,
    "transfer.cpu": _WAYS,
    "transfer.cpu_shares": ("none", "link", "all"),
    "transfer.completion": ("nic", "remote_memory", "durable"),
    "nvme.reading": ("fixed_and_rate", "latency_alone"),
}
"""The fields that are one of some words."""
_WHOLE: Final = {
    "cpu.copies": 16,
    "nic.trigger_slots": _MOST_COUNT,
    "node.gpus": _MOST_COUNT,
    "node.nics": _MOST_COUNT,
    "software.chunk_bytes": _MOST_BYTES,
    "transfer.packet_bytes": _MOST_BYTES,
    "nvme.largest_measured_bytes": _MOST_BYTES,
}
"""The fields that are whole numbers, with their largest value."""
_AT_LEAST_ONE: Final = {"node.gpus", "node.nics", "transfer.packet_bytes", "nvme.largest_measured_bytes"}
_RATES: Final = {"nvme.write_bytes_per_s", "nvme.read_bytes_per_s"}


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
        return _stages_in(self.text("nic.stages"))

    def having(self, values: Mapping[str, Value], source: str = "") -> Profile:
        """Return the profile with other values in some fields, which are given. Raises: UsageError."""
        fields = dict(self.fields)
        for name, value in values.items():
            if name not in fields:
                raise UsageError(f"{self.name}: there is no field {name}; {_near(name, fields)}")
            fields[name] = _checked(self.name, Field(name, value, Provenance.GIVEN, source))
        return replace(self, fields=fields)


def read_profile(name: str | Path) -> Profile:
    """Return a profile that comes with nicemu, by its name, or that of a file.

    Raises: UsageError where there is none, or something in it is wrong: with the file and the field.
    """
    if str(name) in PROFILES:
        return _read(_FOLDER / f"{name}.toml", str(name))
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"there is no profile {name}; {', '.join(PROFILES)} or a TOML file were expected")
    return _read(path, path.stem)


def _read(path: Path, name: str, above: tuple[Path, ...] = ()) -> Profile:
    if path.resolve() in above:
        raise UsageError(f"{path}: it is based on itself")
    document = read_toml(path)
    base = document.pop("based_on", None)
    title = document.pop("title", "")
    if not isinstance(title, str) or not (base is None or isinstance(base, str)):
        raise UsageError(f"{path}: title and based_on are texts")
    fields = dict(_base_of(base, path, above)) if base is not None else {}
    known = fields or _seed_names(path)
    for table, entries in document.items():
        if not isinstance(entries, dict):
            raise UsageError(f"{path}: {table} is {entries!r}; a table of fields was expected")
        for key, given in entries.items():
            field = f"{table}.{key}"
            if field not in known and path.parent != _FOLDER:
                raise UsageError(f"{path}: there is no field {field}; {_near(field, known)}")
            fields[field] = _checked(str(path), _field_of(path, field, given))
    missing = [field for field in known if field not in fields]
    if missing:
        raise UsageError(f'{path} lacks {", ".join(missing)}; give them, or based_on = "seed"')
    return Profile(name, title, fields)


def _base_of(base: str, path: Path, above: tuple[Path, ...]) -> Mapping[str, Field]:
    if base in PROFILES:
        return _read(_FOLDER / f"{base}.toml", base).fields
    other = path.parent / base
    if not other.is_file():
        raise UsageError(f"{path}: there is no profile {base}; {', '.join(PROFILES)} or a file were expected")
    return _read(other, other.stem, (*above, path.resolve())).fields


def _seed_names(path: Path) -> Mapping[str, object]:
    return {} if path == _FOLDER / "seed.toml" else _read(_FOLDER / "seed.toml", "seed").fields


def _field_of(path: Path, name: str, given: Any) -> Field:  # noqa: ANN401 - what TOML holds
    if not isinstance(given, list):
        return Field(name, given, Provenance.GIVEN, str(path))
    if len(given) != 3 or not isinstance(given[2], str) or given[1] not in list(Provenance):
        raise UsageError(
            f"{path}: {name} is {given!r}; a value, or [value, provenance, source] was expected, the "
            f"provenance one of {', '.join(Provenance)}"
        )
    return Field(name, given[0], Provenance(given[1]), given[2])


def _checked(where: str, field: Field) -> Field:
    """Return a field whose value is possible. Raises: UsageError."""
    name, value = field.name, field.value
    told = f"{where}: {name}"
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise UsageError(f"{told} is {value!r}; one of {', '.join(CHOICES[name])} was expected")
        return field
    if name == "nic.stages":
        stages = _stages_in(value) if isinstance(value, str) else ()
        if not stages or not set(stages) <= set(STAGES) or len(set(stages)) < len(stages):
            raise UsageError(f"{told} is {value!r}; some of {', '.join(STAGES)} were expected")
        return field
    if name in _WHOLE:
        return replace(field, value=check_whole(told, value, int(name in _AT_LEAST_ONE), _WHOLE[name]))
    return replace(field, value=check_number(told, value, 0, more_than=name in _RATES))


def _stages_in(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _near(name: str, known: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), 2, 0.75)
    return f"did you mean {' or '.join(close)}?" if close else "`nicemu model show` lists them"
