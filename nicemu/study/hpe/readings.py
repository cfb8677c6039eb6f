# SPDX-License-Identifier: Apache-2.0
"""The HPE talk's 19x: KV led by CPUs against KV led by triggered NICs, under conditions that are told.

The talk gives no size for its 19x, nor what it counts. Four readings stand here side by side; each says what
it assumes, and a result is consistent with the talk under these conditions, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from nicemu.arguments import check_number, read_toml
from nicemu.errors import UsageError
from nicemu.model import (
    SOFTWARE,
    STAGES,
    Operation,
    Profile,
    Provenance,
    Value,
    Way,
    read_profile,
    software_s,
    speedup,
    transfer_s,
)
from nicemu.study.contract import size_of, size_text

SMALLEST_BYTES, LARGEST_BYTES = 1 << 10, 1 << 30
SIZES: Final = tuple(1 << power for power in range(10, 31, 2))
_FREE: Final[dict[str, Value]] = dict.fromkeys(SOFTWARE, 0.0)
_STEPS_AN_OCTAVE = 32


@dataclass(frozen=True, slots=True)
class Point:
    """A message of some size: how long it takes each way, and what a CPU's software would have to cost a
    message for the speed-up to be the target's; None where no cost, however small, makes it that little.
    """

    length_bytes: int
    cpu_s: float
    triggered_s: float
    software_for_target_s: float | None

    @property
    def speedup(self) -> float:
        """How many times longer the CPUs' way takes."""
        return self.cpu_s / self.triggered_s


@dataclass(frozen=True, slots=True)
class Interval:
    """Sizes, from the first to the last, at which something holds."""

    first_bytes: int
    last_bytes: int


@dataclass(frozen=True, slots=True)
class HpeRow:
    """One reading: its conditions in words, and the profile that is meant."""

    name: str
    title: str
    conditions: tuple[str, ...]
    profile: Profile

    def point(self, operation: Operation, length_bytes: int, target: float) -> Point:
        """Return what a message of a size takes."""
        cpu_s = transfer_s(self.profile, Way.CPU, operation, length_bytes)
        triggered_s = transfer_s(self.profile, Way.TRIGGERED, operation, length_bytes)
        needed_s = target * triggered_s - (cpu_s - software_s(self.profile))
        return Point(length_bytes, cpu_s, triggered_s, needed_s if needed_s >= 0 else None)


@dataclass(frozen=True, slots=True)
class HpeSettings:
    """What the study is about. `values` are fields that are set in every profile."""

    sizes: tuple[int, ...] = SIZES
    operations: tuple[Operation, ...] = tuple(Operation)
    target: float = 19.0
    tolerance: float = 0.5
    values: Mapping[str, Value] = field(default_factory=dict)


def hpe_rows(values: Mapping[str, Value] | None = None) -> list[HpeRow]:
    """Return the readings, with some fields set as the user says. Raises: UsageError."""
    physical = read_profile("physical")
    readings: list[tuple[str, str, Profile, dict[str, Value]]] = [
        ("1", "the tables alone", read_profile("seed"), {**_FREE, "transfer.triggered": "store_and_forward"}),
        ("2", "the tables and a CPU's software", read_profile("seed"), {}),
        (
            "5",
            "a node by the tables alone",
            read_profile("seed"),
            {**_FREE, "transfer.cpu_shares": "link", "nic.stages": "serial"},
        ),
        (
            "9",
            "hardware as it is, both ways pipelined",
            physical,
            {
                "transfer.cpu": "pipelined",
                "software.chunk_s": physical.number("software.copy_launch_s"),
            },
        ),
    ]
    rows = []
    for name, title, profile, fields in readings:
        meant = profile.having(fields, "the reading").having(values or {}, "the user")
        told = tuple(f"{field} = {value}, as given" for field, value in (values or {}).items())
        rows.append(HpeRow(name, title, (*conditions_of(meant), *told), meant))
    return rows


def conditions_of(profile: Profile) -> tuple[str, ...]:
    """Return in words what a comparison by a profile rests on."""
    shares, found = profile.text("transfer.cpu_shares"), [f"profile {profile.name}"]
    gpus = profile.whole("node.gpus")
    if shares == "none":
        found.append("one GPU")
    else:
        what = "one NIC and link" if shares == "link" else "CPUs, one NIC and link"
        found.append(
            f"{gpus} GPUs at once: the CPUs' way shares {what}, the triggered one has a NIC for each"
        )
    found += _software_conditions(profile)
    ways = {way: profile.text(f"transfer.{way}") == "pipelined" for way in Way}
    found.append(
        {
            (True, True): "both ways pipelined by packet",
            (False, False): "both ways store and forward",
            (False, True): "the CPU's way stores and forwards, the triggered one is pipelined",
            (True, False): "the CPU's way is pipelined, the triggered one stores and forwards",
        }[ways[Way.CPU], ways[Way.TRIGGERED]]
    )
    if profile.stages() != STAGES:
        found.append(f"of a NIC's stages {', '.join(profile.stages())} alone")
    found.append(
        {
            "nic": "complete at the far NIC, both ways",
            "remote_memory": "complete in remote memory, both ways",
            "durable": f"complete when durable, both ways: NVMe by {profile.text('nvme.reading')}",
        }[profile.text("transfer.completion")]
    )
    return tuple(found)


def _software_conditions(profile: Profile) -> list[str]:
    cost_us, chunk_us = 1e6 * software_s(profile), 1e6 * profile.number("software.chunk_s")
    if not cost_us and not chunk_us:
        return ["no cost of software"]
    told = f"{cost_us:.1f} us of software a message"
    if all(profile.fields[name].provenance is not Provenance.GIVEN for name in SOFTWARE):
        told += ", chosen so that row 2 comes out near 19 at 4 KiB"
    chunk_bytes = profile.whole("software.chunk_bytes")
    each = f"chunk of {size_text(chunk_bytes)}" if chunk_bytes else "message more"
    return [told, *([f"{chunk_us:.1f} us a {each}"] if chunk_us else [])]


def where_it_holds(row: HpeRow, operation: Operation, target: float, tolerance: float) -> list[Interval]:
    """Return the sizes from 1 KiB to 1 GiB at which the speed-up is the target's, exact to the byte."""

    def holds(length_bytes: int) -> bool:
        return abs(speedup(row.profile, operation, length_bytes) - target) <= tolerance

    octaves = (LARGEST_BYTES // SMALLEST_BYTES).bit_length() - 1
    grid = [
        round(SMALLEST_BYTES * 2 ** (step / _STEPS_AN_OCTAVE))
        for step in range(octaves * _STEPS_AN_OCTAVE + 1)
    ]
    found: list[Interval] = []
    first = grid[0] if holds(grid[0]) else None
    for before, here in pairwise(grid):
        if first is None and holds(here):
            first = _edge(before, here, holds)
        elif first is not None and not holds(here):
            found.append(Interval(first, _edge(before, here, lambda length: not holds(length)) - 1))
            first = None
    if first is not None:
        found.append(Interval(first, grid[-1]))
    return found


def _edge(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the first size that holds, where `low` does not and `high` does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


_KEYS = ("sizes", "operations", "target", "tolerance", "set")


def read_hpe_settings(path: Path) -> HpeSettings:
    """Return what a TOML file says. Raises: UsageError, with the file and the key."""
    document = read_toml(path)
    for key in document:
        if key not in _KEYS:
            raise UsageError(f"{path}: {key} is unknown; there may be {', '.join(_KEYS)}")
    standard = HpeSettings()
    return HpeSettings(
        _listed(path, document, "sizes", size_of) or standard.sizes,
        _listed(path, document, "operations", _operation) or standard.operations,
        check_number(f"{path}: target", document.get("target", standard.target), 0, more_than=True),
        check_number(f"{path}: tolerance", document.get("tolerance", standard.tolerance), 0),
        _fields(path, document.get("set", {})),
    )


def _listed(
    path: Path, document: Mapping[str, Any], key: str, read: Callable[[object], Any]
) -> tuple[Any, ...]:
    given = document.get(key)
    if given is None:
        return ()
    if not isinstance(given, list) or not given:
        raise UsageError(f"{path}: {key} is {given!r}; a list of one or more was expected")
    try:
        return tuple(read(item) for item in given)
    except UsageError as error:
        raise UsageError(f"{path}: {key}: {error}") from None


def _operation(text: object) -> Operation:
    if text not in list(Operation):
        raise UsageError(f"{text!r} is no operation; {' or '.join(Operation)} was expected")
    return Operation(str(text))


def _fields(path: Path, given: object) -> dict[str, Value]:
    """Return the fields of a table of tables, by their whole names."""
    if not isinstance(given, dict):
        raise UsageError(f"{path}: set is {given!r}; tables of fields were expected")
    found: dict[str, Value] = {}
    for table, entries in given.items():
        if not isinstance(entries, dict):
            raise UsageError(f"{path}: set.{table} is {entries!r}; a table of fields was expected")
        found |= {f"{table}.{key}": value for key, value in entries.items()}
    return found
