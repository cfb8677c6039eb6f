# SPDX-License-Identifier: Apache-2.0
"""P4Info: what a controller may know of a program, with the same numeric ids that p4c gives.

An id is prefix << 24 | 24 bits of Jenkins's one-at-a-time hash of the fully qualified name; a number already
taken is followed by the next free one, over names in sorted order; @id chooses the lower bits itself.
Source: P4Runtime Specification 1.4, "ID Allocation for P4Info Objects"; p4lang/p4c, control-plane ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from nicemu.errors import ControlError, P4RuntimeCode

from . import ir
from .tables import width_of

ACTION_PREFIX = 0x01
TABLE_PREFIX = 0x02


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """One match field; `width` is in bits, `match_kind` one of exact, lpm, ternary, range."""

    name: str
    id: int
    width: int
    match_kind: str


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """One parameter of an action; `width` is in bits."""

    name: str
    id: int
    width: int


@dataclass(frozen=True, slots=True)
class ActionInfo:
    """An action and its action data."""

    name: str
    alias: str
    id: int
    params: tuple[ParameterInfo, ...]


@dataclass(frozen=True, slots=True)
class ActionRefInfo:
    """An action of a table: `scope` is "both", "table_only" or "default_only"."""

    name: str
    id: int
    scope: str = "both"


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table as the controller sees it."""

    name: str
    alias: str
    id: int
    size: int
    keys: tuple[KeyInfo, ...]
    actions: tuple[ActionRefInfo, ...]
    const_entries: bool = False
    const_default_action_id: int = 0


@dataclass(frozen=True, slots=True)
class P4Info:
    """The tables and actions of a program, by name in sorted order."""

    program: str
    architecture: str
    tables: tuple[TableDescription, ...]
    actions: tuple[ActionInfo, ...]

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the description as JSON text."""
        return json.dumps(asdict(self), indent=indent)

    @staticmethod
    def from_json(text: str | bytes) -> P4Info:
        """Return the description in `text`. Raises: ControlError(INVALID_ARGUMENT)."""
        try:
            document = json.loads(text)
            return P4Info(
                _word(document["program"]),
                _word(document["architecture"]),
                tuple(_table_of(table) for table in document["tables"]),
                tuple(_action_of(action) for action in document["actions"]),
            )
        except (ValueError, RecursionError) as error:
            raise ControlError(
                P4RuntimeCode.INVALID_ARGUMENT, f"P4Info is not JSON as expected: {error}"
            ) from None
        except (KeyError, TypeError) as error:
            raise ControlError(P4RuntimeCode.INVALID_ARGUMENT, f"P4Info lacks or misplaces {error}") from None

    def table(self, table_id: int) -> TableDescription:
        """Return the table with an id. Raises: ControlError(NOT_FOUND)."""
        for table in self.tables:
            if table.id == table_id:
                return table
        raise ControlError(
            P4RuntimeCode.NOT_FOUND, f"program {self.program} has no table with id {table_id:#010x}"
        )

    def action(self, action_id: int) -> ActionInfo:
        """Return the action with an id. Raises: ControlError(NOT_FOUND)."""
        for action in self.actions:
            if action.id == action_id:
                return action
        raise ControlError(
            P4RuntimeCode.NOT_FOUND, f"program {self.program} has no action with id {action_id:#010x}"
        )


def p4info_of(program: ir.Program) -> P4Info:
    """Return the P4Info of a program; equal programs give equal ids."""
    action_ids = allocate_ids(ACTION_PREFIX, {action.name: action.id for action in program.actions})
    table_ids = allocate_ids(TABLE_PREFIX, {table.name: table.id for table in program.tables})
    aliases = aliases_of([*action_ids, *table_ids])
    actions = tuple(
        ActionInfo(action.name, aliases[action.name], action_ids[action.name], _parameters_of(action))
        for action in sorted(program.actions, key=lambda item: item.name)
    )
    tables = tuple(
        TableDescription(
            table.name,
            aliases[table.name],
            table_ids[table.name],
            table.size,
            tuple(
                KeyInfo(key.name, key.id or place, width_of(key.expression.type), key.match_kind.value)
                for place, key in enumerate(table.keys, start=1)
            ),
            tuple(ActionRefInfo(ref.action, action_ids[ref.action], _scope_of(ref)) for ref in table.actions),
            table.const_entries,
            action_ids[table.default_action.action] if table.const_default else 0,
        )
        for table in sorted(program.tables, key=lambda item: item.name)
    )
    return P4Info(program.name, program.architecture, tables, actions)


def allocate_ids(prefix: int, chosen: dict[str, int]) -> dict[str, int]:
    """Return an id for each name; `chosen` maps names to the id that the program wants, or 0."""
    ids = {name: prefix << 24 | number & 0xFFFFFF for name, number in chosen.items() if number}
    taken = set(ids.values())
    for name in sorted(chosen):
        if name in ids:
            continue
        suffix = one_at_a_time(name.encode()) & 0xFFFFFF
        while prefix << 24 | suffix in taken or suffix == 0:
            suffix = (suffix + 1) & 0xFFFFFF
        ids[name] = prefix << 24 | suffix
        taken.add(ids[name])
    return ids


def one_at_a_time(data: bytes) -> int:
    """Return Bob Jenkins's one-at-a-time hash, 32 bits. Source: Dr. Dobb's Journal, September 1997."""
    value = 0
    for byte in data:
        value = value + byte & 0xFFFFFFFF
        value = value + (value << 10) & 0xFFFFFFFF
        value ^= value >> 6
    value = value + (value << 3) & 0xFFFFFFFF
    value ^= value >> 11
    return value + (value << 15) & 0xFFFFFFFF


def aliases_of(names: Iterable[str]) -> dict[str, str]:
    """Return for each dotted name its shortest suffix that no other name ends in."""
    everything = sorted(names)
    counts: dict[str, int] = {}
    for name in everything:
        for suffix in _suffixes(name):
            counts[suffix] = counts.get(suffix, 0) + 1
    return {
        name: next((suffix for suffix in _suffixes(name) if counts[suffix] == 1), name) for name in everything
    }


def _suffixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]


def _parameters_of(action: ir.Action) -> tuple[ParameterInfo, ...]:
    data = [item for item in action.parameters if item.direction is ir.Direction.NONE]
    return tuple(
        ParameterInfo(item.name, item.id or place, width_of(item.type))
        for place, item in enumerate(data, start=1)
    )


def _scope_of(ref: ir.ActionRef) -> str:
    return "default_only" if ref.default_only else "table_only" if ref.table_only else "both"


def _table_of(document: Any) -> TableDescription:  # noqa: ANN401
    return TableDescription(
        _word(document["name"]),
        _word(document["alias"]),
        _number(document["id"]),
        _number(document["size"]),
        tuple(
            KeyInfo(_word(key["name"]), _number(key["id"]), _number(key["width"]), _word(key["match_kind"]))
            for key in document["keys"]
        ),
        tuple(
            ActionRefInfo(_word(ref["name"]), _number(ref["id"]), _word(ref["scope"]))
            for ref in document["actions"]
        ),
        bool(document["const_entries"]),
        _number(document["const_default_action_id"]),
    )


def _action_of(document: Any) -> ActionInfo:  # noqa: ANN401
    params = tuple(
        ParameterInfo(_word(item["name"]), _number(item["id"]), _number(item["width"]))
        for item in document["params"]
    )
    return ActionInfo(_word(document["name"]), _word(document["alias"]), _number(document["id"]), params)


def _word(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, str):
        raise TypeError(f"{value!r}, where text was expected")
    return value


def _number(value: Any) -> int:  # noqa: ANN401
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r}, where a number was expected")
    return value
