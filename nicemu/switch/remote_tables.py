# SPDX-License-Identifier: Apache-2.0
"""A file of tables put into a program that runs somewhere else: what differs is written by P4Runtime.

The file is put into an engine here first, which runs the same program and holds the same entries. So a fault
in it is told with its place, before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from nicemu.control import ObjectClient, P4RuntimeClient, ProgramReader, Texts, Update, ir_reader
from nicemu.errors import ControlError, UsageError
from nicemu.pipeline import (
    ActionProfile,
    CounterArray,
    Engine,
    MeterArray,
    MeterConfig,
    Table,
    TableEntry,
    TableStatus,
    plain,
)

from .mirror import action_profiles, mirror, shown_tables, whole_mirror
from .state_file import writing_state
from .table_file import Put, put_file

_Held: TypeAlias = dict[object, tuple[TableEntry, MeterConfig | None]]
"""Entries of a table with their meters, by matches and priority."""
_Default: TypeAlias = tuple[str, tuple[int, ...], MeterConfig | None, Hashable]
_Profiles: TypeAlias = dict[str, tuple[dict[int, Any], dict[int, Any]]]
"""The members and groups of action profiles, by their names."""


@dataclass(frozen=True, slots=True)
class Applied:
    """How many entries were added, changed and deleted, and how much else was written."""

    inserted: int = 0
    modified: int = 0
    deleted: int = 0
    others: int = 0


def apply_tables(
    client: P4RuntimeClient,
    path: Path,
    tell: Callable[[int], None] = lambda entries: None,
    reader: ProgramReader | None = None,
) -> Applied:
    """Have the program that a client controls hold what a file says; return what that changed.

    Entries that the file does not name stay, but for those of tables that it calls complete; so do counts.
    `reader` makes the program of what the server has of it, and of its P4Info.
    Raises: UsageError with the place of a fault, or where nothing can be made of the program, and nothing
    was written; ControlError for what the server refuses, as another client may have changed what it holds,
    or loaded another program: what was written before stays.
    """
    texts = Texts()
    engine = mirror(client, reader or ir_reader, texts)
    tables = engine.tables()
    before = {table.name: _entries(engine, table) for table in tables}
    defaults = {table.name: _default(engine, table) for table in tables}
    profiles = _profiles(engine)
    put = put_file(engine, path, tell, replacing=True, texts=texts)
    shown = {table.name for table in shown_tables(client, engine)}
    for table in engine.tables():
        if table.name not in shown and (before[table.name], defaults[table.name]) != (
            _entries(engine, table),
            _default(engine, table),
        ):
            raise UsageError(f"{path}: table {table.name} is @hidden, and no controller can change it")
    if 0 in put.sessions:
        raise UsageError(f"{path}: clone session 0 is none of P4Runtime's, which begin with 1")
    updates = [
        update
        for table in engine.tables()
        for update in (
            *_changes(engine.table(table.name), table, before[table.name], _entries(engine, table)),
            *_default_change(table, defaults[table.name], _default(engine, table)),
        )
    ]
    updates.sort(key=lambda update: update.kind != "delete")  # which makes room
    try:
        client.check(updates)
    except ControlError as error:
        raise UsageError(f"{path}: {error}") from error
    try:
        others = _write_profiles(client.objects, engine, profiles)
        if updates:
            client.write(updates)
        others += _write_objects(client.objects, engine, put)
    except ControlError as error:
        rest = f"what was written stays; apply {path} again for the rest"
        raise ControlError(error.code, f"{error}; {rest}") from error
    kinds = [update.kind for update in updates]
    return Applied(kinds.count("insert"), kinds.count("modify"), kinds.count("delete"), others)


def save_tables(client: P4RuntimeClient, path: Path, reader: ProgramReader | None = None) -> int:
    """Write what the program that a client reads holds to a file that `apply_tables` takes; return how many
    entries that are. The file, "-" for the standard output, is written whole or not at all.

    Colours of meters are not in it. Raises: as `apply_tables`; UsageError if the file cannot be written.
    """
    texts = Texts()
    with writing_state(path, texts) as write:
        engine = whole_mirror(client, reader or ir_reader, texts)
        write(engine)
    return sum(table.entry_count for table in engine.tables())


def _entries(engine: Engine, table: TableStatus) -> _Held:
    rows = engine.table(table.name).rows()
    return {(row.entry.matches, row.entry.priority): (row.entry, row.meter_config) for row in rows}


def _default(engine: Engine, table: TableStatus) -> _Default:
    row = engine.table(table.name).default_row()
    return row.entry.action, row.entry.parameters, row.meter_config, row.entry.note


def _profiles(engine: Engine) -> _Profiles:
    return {item.name: (dict(item.members), _groups(item)) for item in action_profiles(engine)}


def _groups(profile: ActionProfile) -> dict[int, Any]:
    return {group: (members, profile.max_sizes.get(group, 0)) for group, members in profile.groups.items()}


def _changes(held: Table, table: TableStatus, before: _Held, after: _Held) -> Iterator[Update]:
    """Yield what makes the entries of a table others; of const ones, their meters."""
    names = [key.name for key in table.keys]
    parameters = {action.name: [item.name for item in action.params] for action in table.actions}

    def update(kind: str, entry: TableEntry, meter: MeterConfig | None) -> Update:
        keys = dict(zip(names, entry.matches, strict=True))
        given = dict(zip(parameters.get(entry.action, ()), entry.parameters, strict=True))
        return Update(
            kind,
            table.name,
            keys,
            None if held.is_const(entry) else entry.action or None,
            {} if held.is_const(entry) else given,
            entry.priority,
            choice=entry.choice,
            idle_timeout_ns=entry.idle_timeout_ns,
            meter=meter,
            note=entry.note,
        )

    for place, (entry, _) in before.items():
        if place not in after:
            yield update("delete", entry, None)
    for place, (entry, meter) in after.items():
        if before.get(place) != (entry, meter):
            yield update("modify" if place in before else "insert", entry, meter)


def _default_change(table: TableStatus, before: _Default, after: _Default) -> Iterator[Update]:
    if before[:3] != after[:3]:
        action, values, meter, _ = after
        parameters = next(item.params for item in table.actions if item.name == action)
        given = {item.name: value for item, value in zip(parameters, values, strict=True)}
        yield Update("modify", table.name, {}, action, given, default=True, meter=meter, note=before[3])


def _write_profiles(objects: ObjectClient, engine: Engine, before: _Profiles) -> int:
    """Write the members and groups that are others than before; return how many those are."""
    actions = {action.name: action for table in engine.tables() for action in table.actions}
    written = 0
    for profile in action_profiles(engine):
        members, groups = before[profile.name]
        for number, call in profile.members.items():
            if members.get(number) != call:
                parameters = [item.name for item in actions[call.action].params]
                given = dict(zip(parameters, call.parameters, strict=True))
                objects.set_member(profile.name, number, call.action, given)
                written += 1
        for group, held in _groups(profile).items():
            if groups.get(group) != held:
                objects.set_group(profile.name, group, *held)
                written += 1
    return written


def _write_objects(objects: ObjectClient, engine: Engine, put: Put) -> int:
    """Write what is neither a table's nor a profile's; return how many writes that took."""
    known = engine.objects
    for name, index in put.places:
        match known.states[name]:
            case CounterArray() as counter:
                objects.write_counter(name, index, counter.counts[index].packets, counter.counts[index].bytes)
            case MeterArray() as meter:
                objects.write_meter(name, index, meter.meters[index].config)
            case register:
                objects.write_register(name, index, plain(register.values[index]))
    for name in put.value_sets:
        objects.set_value_set(name, known.value_set(name).members)
    for group in put.groups:
        objects.set_multicast_group(group, known.multicast_groups[group])
    for session in put.sessions:
        objects.set_clone_session(session, known.clone_sessions[session])
    return len(put.places) + len(put.value_sets) + len(put.groups) + len(put.sessions)
