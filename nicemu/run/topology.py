# SPDX-License-Identifier: Apache-2.0
"""A topology file (TOML): which NICs there are, what they run, and what lies under their namespaces."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nicemu.errors import UsageError
from nicemu.programs import find_program

FABRICS = ("direct", "udp", "shm")
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_UNIT = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, slots=True)
class NamespaceEntry:
    """A namespace of a NIC: the file under it, relative to the topology's data folder unless absolute."""

    nsid: int
    path: str
    size_bytes: int
    create: bool


@dataclass(frozen=True, slots=True)
class NicEntry:
    """One NIC of a topology."""

    name: str
    p4: Path
    firmware: Path
    peers: tuple[str, ...]
    namespaces: tuple[NamespaceEntry, ...]
    memory_bytes: int
    spin_us: int
    nap_us: int


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology file, checked."""

    name: str
    path: Path
    fabric: str
    nics: tuple[NicEntry, ...]
    faults: dict[str, float]


def parse_size(value: object, where: str) -> int:
    """Return bytes for a number, or a text such as "64 MiB". Raises: UsageError."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise UsageError(f'{where} is {value!r}; write bytes, or a text such as "64 MiB"')
    return int(match[1]) * _UNIT[match[2]]


def load_topology(path: str | Path) -> Topology:
    """Read and check a topology file.

    Raises: UsageError that names the file and the key for anything wrong with it.
    """
    place = find_program(path)
    try:
        data = tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{place}: {error}") from error
    _only(data, {"name", "fabric", "nic", "faults"}, str(place))
    fabric = data.get("fabric", "direct")
    if fabric not in FABRICS:
        raise UsageError(f"{place}: fabric {fabric!r} is none of {', '.join(FABRICS)}")
    nics = data.get("nic")
    if not isinstance(nics, dict) or not nics:
        raise UsageError(f"{place}: there is no [nic.NAME] table")
    entries = tuple(_nic(name, table, f"{place}: nic.{name}", set(nics)) for name, table in nics.items())
    name = data.get("name", place.stem)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", name):
        raise UsageError(f"{place}: name {name!r} is no word of up to 40 letters, digits, _ . -")
    return Topology(name, place, fabric, entries, _faults(data.get("faults", {}), f"{place}: faults"))


def _faults(table: Any, where: str) -> dict[str, float]:  # noqa: ANN401 - TOML
    _only(table, {"loss", "duplication", "reordering", "corruption", "seed"}, where)
    for key, value in table.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (key != "seed" and not 0 <= value <= 1):
            raise UsageError(
                f"{where}.{key} is {value!r}; a rate is a number from 0 to 1, the seed any number"
            )
    return {key: float(value) for key, value in table.items()}


def _only(table: object, known: set[str], where: str) -> None:
    if not isinstance(table, dict):
        raise UsageError(f"{where} is no table")
    unknown = sorted(set(table) - known)
    if unknown:
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")


def _number(table: dict[str, Any], key: str, default: int, where: str) -> int:
    value = table.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(f"{where}.{key} is {value!r}; it must be a number of microseconds, 0 or more")
    return value


def _nic(name: str, table: Any, where: str, names: set[str]) -> NicEntry:  # noqa: ANN401 - TOML
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,39}", name):
        raise UsageError(f"{where}: a NIC's name is a word of up to 40 letters, digits, _ -")
    _only(table, {"p4", "firmware", "peers", "namespace", "memory", "spin_us", "nap_us"}, where)
    for key in ("p4", "firmware"):
        if not isinstance(table.get(key), str):
            raise UsageError(f"{where}.{key} must name a file")
    peers = table.get("peers", [])
    for peer in peers if isinstance(peers, list) else [peers]:
        if not isinstance(peer, str) or peer not in names or peer == name:
            raise UsageError(
                f"{where}.peers names {peer!r}; the other NICs are {', '.join(sorted(names - {name}))}"
            )
    spaces = table.get("namespace", [])
    if not isinstance(spaces, list):
        raise UsageError(f"{where}: write [[nic.{name}.namespace]]")
    return NicEntry(
        name,
        find_program(table["p4"]),
        find_program(table["firmware"]),
        tuple(peers),
        tuple(_namespace(space, f"{where}.namespace[{position}]") for position, space in enumerate(spaces)),
        parse_size(table.get("memory", "64 MiB"), f"{where}.memory"),
        _number(table, "spin_us", 50, where),
        _number(table, "nap_us", 200, where),
    )


def _namespace(table: Any, where: str) -> NamespaceEntry:  # noqa: ANN401 - TOML
    _only(table, {"nsid", "path", "size", "create"}, where)
    if not isinstance(table.get("path"), str) or not isinstance(table.get("nsid"), int):
        raise UsageError(f"{where} needs nsid (a number) and path (a file)")
    size_bytes = parse_size(table.get("size"), f"{where}.size")
    if size_bytes % 4096:
        raise UsageError(f"{where}.size is {size_bytes} bytes; it must be whole blocks of 4096")
    return NamespaceEntry(table["nsid"], table["path"], size_bytes, bool(table.get("create", False)))
