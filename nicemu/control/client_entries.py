# SPDX-License-Identifier: Apache-2.0
"""Entries as a client writes and reads them: changes to messages, and messages to entries.

Source: P4Runtime Specification 1.4, "TableEntry".
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from nicemu.errors import UsageError
from nicemu.pipeline import Choice, Match, MeterConfig, TableEntry

from .byte_string import encode_bytes
from .count_message import fill_meter, meter_of_message
from .entry_message import add_matches, call_of_message, fill_action, matches_of_message
from .messages import Message, UpdateType, messages
from .metadata import fill_note, note_of
from .schema import Schema, TableSchema, parameter_of
from .value_text import match_anything, parse_match, parse_value

MatchValue: TypeAlias = int | str | Match
_UPDATES = {"insert": UpdateType.INSERT, "modify": UpdateType.MODIFY, "delete": UpdateType.DELETE}


@dataclass(frozen=True, slots=True)
class Update:
    """One change of a table: `kind` is insert, modify or delete.

    `default` means the table's default entry, which can only be modified; without an action that resets it.
    In a table with an action profile `choice`, a member, group or set, stands for the action.
    """

    kind: str
    table: str
    keys: Mapping[str, MatchValue] = field(default_factory=dict)
    action: str | None = None
    params: Mapping[str, int | str] = field(default_factory=dict)
    priority: int = 0
    default: bool = False
    choice: Choice | None = None
    idle_timeout_ns: int = 0
    meter: MeterConfig | None = None
    """The rates of the entry's direct meter; without any it says green."""
    note: Hashable = None
    """What `entry.note` of a ReadEntry has, to be kept."""


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """One entry as the server has it; a table's default entry has no matches.

    `hits` and `hit_bytes` are None if not asked for, and `meter`, the rates of its direct meter, also where
    it has none.
    """

    table: str
    entry: TableEntry
    default: bool = False
    const: bool = False
    hits: int | None = None
    meter: MeterConfig | None = None
    hit_bytes: int | None = None


def update_message(update: Update, schema: Schema) -> Message:
    """Return the Update that a change means. Raises: UsageError; ControlError for unknown names."""
    if update.kind not in _UPDATES:
        raise UsageError(f"update kind {update.kind!r} found; {', '.join(_UPDATES)} was expected")
    table = schema.table(update.table)
    message = messages().Update(type=_UPDATES[update.kind])
    entry = message.entity.table_entry
    entry.table_id, entry.priority, entry.is_default_action = table.id, update.priority, update.default
    if not update.default:
        add_matches(entry.match, matches_given(update.keys, table), table.keys)
    entry.idle_timeout_ns = update.idle_timeout_ns
    fill_note(entry, update.note)
    if update.meter is not None:
        fill_meter(entry.meter_config, update.meter)
    if update.choice is not None:
        fill_action(entry.action, TableEntry((), "", choice=update.choice), table)
    elif update.action is not None:
        action = table.action(update.action)
        entry.action.action.action_id = action.id
        for name, value in update.params.items():
            parameter = parameter_of(action, name)
            number = parse_value(value, parameter.width, f"action {action.name}: parameter {parameter.name}")
            entry.action.action.params.add(param_id=parameter.id, value=encode_bytes(number))
    return message


def matches_given(keys: Mapping[str, MatchValue], table: TableSchema) -> tuple[Match, ...]:
    """Return the matches of keys that are given by name; what is left out matches everything.

    Raises: ControlError.
    """
    given: dict[int, Match] = {}
    for name, value in keys.items():
        key = table.key(name)
        given[key.id] = parse_match(value, key.match_kind, key.width, f"table {table.name}: key {key.name}")
    return tuple(
        given[key.id]
        if key.id in given
        else match_anything(key.match_kind, key.width, f"table {table.name}: key {key.name}")
        for key in table.keys
    )


def entry_read(message: Message, schema: Schema) -> ReadEntry:
    """Return what a TableEntry that was read says. Raises: ControlError."""
    table = schema.table_of_id(message.table_id)
    default = bool(message.is_default_action)
    matches = () if default else matches_of_message(message, table)
    action, parameters, choice = call_of_message(message.action, table, default=default)
    counted = message.counter_data if message.HasField("counter_data") else None
    hits, hit_bytes = (counted.packet_count, counted.byte_count) if counted is not None else (None, None)
    meter = None
    if message.HasField("meter_config"):
        meter = meter_of_message(message.meter_config, table.owner, table.meter_type)
    idle_timeout_ns, note = message.idle_timeout_ns, note_of(message)
    entry = TableEntry(matches, action, parameters, message.priority, choice, idle_timeout_ns, note)
    return ReadEntry(table.name, entry, default, bool(message.is_const), hits, meter, hit_bytes)
