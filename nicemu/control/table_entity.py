# SPDX-License-Identifier: Apache-2.0
"""TableEntry, DirectCounterEntry and DirectMeterEntry: updates as changes, reads as queries.

Every entry counts packets and bytes, whether or not its table declares a direct counter; who asks for all
direct counters is told of those that are declared.
Source: P4Runtime Specification 1.4, "TableEntry", "Direct Resources", "Idle-timeout".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Colours, Engine, Match, MeterConfig, Row, TableEntry

from .changes import Change, Query
from .count_message import (
    count_of_message,
    fill_colours,
    fill_count,
    fill_meter,
    meter_of_message,
    reset_of_message,
)
from .entry_changes import (
    NONE_GIVEN,
    DeleteEntry,
    DirectResources,
    InsertEntry,
    ModifyEntry,
    SetCount,
    SetDefault,
    SetMeter,
)
from .entry_message import Call, call_of_message, entry_message, fill_action, matches_of_message
from .messages import DELETE, INSERT, MODIFY, Message, messages
from .metadata import Metadata, fill_note, note_of
from .refusals import illegal
from .schema import Schema, TableSchema

_DIRECT_RESOURCES = ("counter_data", "meter_config", "meter_counter_data")
MAX_METADATA_BYTES = 256
"""Longest `metadata` that one entry keeps."""


# Changes


def entry_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of a TableEntry means. Raises: ControlError."""
    table = schema.table_of_id(message.table_id)
    if message.is_const:
        raise illegal(f"{table.owner}: is_const is for the program to say; leave it out")
    if message.is_default_action:
        return _default_change(update_type, message, table)
    matches = matches_of_message(message, table)
    if update_type == DELETE:
        return DeleteEntry(table.name, matches, message.priority)
    _check(message, table)
    resources = _resources_of(message, table)
    call: Call = ("", (), None)
    has_action = update_type == INSERT or message.HasField("action")
    if has_action:
        if not table.keys:
            raise illegal(f"{table.owner} has no keys: it has a default action, and no entries")
        call = call_of_message(message.action, table, default=False)
    action, parameters, choice = call
    note = note_of(message)
    entry = TableEntry(matches, action, parameters, message.priority, choice, message.idle_timeout_ns, note)
    if update_type == INSERT:
        return InsertEntry(table.name, entry, resources)
    return ModifyEntry(table.name, matches, entry.priority, entry, has_action, resources)


def direct_counter_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of a DirectCounterEntry means. Raises: ControlError."""
    table, matches = _modified(update_type, message, schema, "direct_counter_entry")
    count = count_of_message(message.data, table.owner) if message.HasField("data") else None
    return SetCount(table.name, matches, message.table_entry.priority, count)


def direct_meter_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of a DirectMeterEntry means. Raises: ControlError."""
    table, matches = _modified(update_type, message, schema, "direct_meter_entry")
    _require_meter(table)
    meter = _meter_of(message, "config", table)
    colours = _colours_of(message, "counter_data", table)
    return SetMeter(table.name, matches, message.table_entry.priority, meter, colours)


def _resources_of(message: Message, table: TableSchema) -> DirectResources:
    """Return what a TableEntry says of its counter and meter."""
    if not any(map(message.HasField, _DIRECT_RESOURCES)):
        return NONE_GIVEN
    return DirectResources(
        count_of_message(message.counter_data, table.owner) if message.HasField("counter_data") else None,
        _meter_of(message, "meter_config", table),
        _colours_of(message, "meter_counter_data", table),
    )


def _meter_of(message: Message, field: str, table: TableSchema) -> MeterConfig | None:
    if not message.HasField(field):
        return None
    return meter_of_message(getattr(message, field), table.owner, table.meter_type)


def _colours_of(message: Message, field: str, table: TableSchema) -> Colours | None:
    return reset_of_message(getattr(message, field), table.owner) if message.HasField(field) else None


def _modified(
    update_type: int, message: Message, schema: Schema, noun: str
) -> tuple[TableSchema, tuple[Match, ...] | None]:
    """Return the table and the matches of the entry whose direct resource changes, None for the default."""
    if update_type != MODIFY:
        raise illegal(f"a {noun} is there as long as its table entry; MODIFY it, do not INSERT or DELETE")
    entry = message.table_entry
    table = schema.table_of_id(entry.table_id)
    if not entry.is_default_action:
        return table, matches_of_message(entry, table)
    _check_default(entry, table.owner)
    return table, None


def _default_change(update_type: int, message: Message, table: TableSchema) -> Change:
    if update_type != MODIFY:
        raise illegal(f"{table.owner}: the default entry is always there; MODIFY it, do not INSERT or DELETE")
    _check_default(message, table.owner)
    _check(message, table)
    resources = _resources_of(message, table)
    if not message.HasField("action"):
        return SetDefault(table.name, None, None, resources)
    call = call_of_message(message.action, table, default=True)[:2]
    return SetDefault(table.name, call, note_of(message), resources)


def _check_default(message: Message, owner: str) -> None:
    """Refuse what no default entry has."""
    if message.match or message.priority:
        raise illegal(f"{owner}: the default entry has neither match nor priority")
    if message.idle_timeout_ns or message.HasField("time_since_last_hit"):
        raise illegal(f"{owner}: the default entry has no idle timeout")


def _check(message: Message, table: TableSchema) -> None:
    """Refuse what an entry of this table cannot be given."""
    if message.HasField("meter_config") or message.HasField("meter_counter_data"):
        _require_meter(table)
    if message.HasField("time_since_last_hit"):
        raise illegal(f"{table.owner}: time_since_last_hit cannot be written; leave it out")
    if message.idle_timeout_ns and not table.info.idle_timeout:
        raise illegal(f"{table.owner} has no idle timeout; leave idle_timeout_ns out")
    if message.idle_timeout_ns < 0:
        raise illegal(f"{table.owner}: idle_timeout_ns is {message.idle_timeout_ns}; 0 or more was expected")
    if len(message.metadata) > MAX_METADATA_BYTES:
        raise illegal(
            f"{table.owner}: metadata has {len(message.metadata)} bytes; {MAX_METADATA_BYTES} are allowed"
        )


def _require_meter(table: TableSchema) -> None:
    if not table.has_meter:
        raise illegal(f"{table.owner} has no direct meter")


# Queries


class _SeenEntry(NamedTuple):
    """An entry as it was, with what was counted for it."""

    entry: TableEntry
    packets: int
    length_bytes: int
    idle_ns: int
    meter: MeterConfig | None
    colours: Colours
    is_const: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    """A table as it was; the default entry comes alone. `looked_at` says how many entries that took."""

    table: TableSchema
    entries: list[_SeenEntry]
    is_default: bool = False
    looked_at: int = 1


def entry_query(message: Message, schema: Schema) -> Query:
    """Return the query that a TableEntry in a ReadRequest means. Raises: ControlError."""

    def render(seen: list[_Seen]) -> Iterator[Message]:
        for entry in _entry_messages(seen, message):
            yield messages().Entity(table_entry=entry)

    return Query(_take(message, schema), render, _weigh)


def direct_counter_query(message: Message, schema: Schema) -> Query:
    """Return the query that a DirectCounterEntry in a ReadRequest means. Raises: ControlError."""
    return _direct_query("direct_counter_entry", message, schema)


def direct_meter_query(message: Message, schema: Schema) -> Query:
    """Return the query that a DirectMeterEntry in a ReadRequest means. Raises: ControlError."""
    if message.table_entry.table_id:
        _require_meter(schema.table_of_id(message.table_entry.table_id))
    return _direct_query("direct_meter_entry", message, schema)


def _direct_query(form: str, message: Message, schema: Schema) -> Query:
    wanted = messages().TableEntry()
    wanted.CopyFrom(message.table_entry)
    wanted.ClearField("action")
    counted = form == "direct_meter_entry" and message.HasField("counter_data")

    def render(seen: list[_Seen]) -> Iterator[Message]:
        for part in seen:
            if form == "direct_meter_entry" and not part.table.has_meter:
                continue
            if form == "direct_counter_entry" and not (part.table.has_counter or wanted.table_id):
                continue
            for row in part.entries:
                entity = messages().Entity()
                answer = getattr(entity, form)
                answer.table_entry.CopyFrom(_message_of(row.entry, part))
                answer.table_entry.ClearField("action")
                if form == "direct_counter_entry":
                    fill_count(answer.data, row.packets, row.length_bytes)
                elif row.meter is not None:
                    fill_meter(answer.config, row.meter)
                if counted:
                    fill_colours(answer.counter_data, row.colours)
                yield entity

    return Query(_take(wanted, schema, must_find=True), render, _weigh)


def _weigh(seen: list[_Seen]) -> int:
    return sum(part.looked_at for part in seen)


def _take(query: Message, schema: Schema, *, must_find: bool = False) -> Callable[[Engine], list[_Seen]]:
    """Return what takes the entries that a TableEntry asks for; `must_find` refuses a match without one."""
    if query.table_id == 0:
        for field in ("match", "action", "priority", "controller_metadata", "metadata"):
            if query.HasField(field) if field == "action" else getattr(query, field):
                raise illegal(f"the query has {field} and no table; set table_id too")
    tables = schema.tables if query.table_id == 0 else (schema.table_of_id(query.table_id),)
    asks_idle = query.HasField("time_since_last_hit") or query.idle_timeout_ns
    if query.is_default_action:
        _check_default(query, tables[0].owner if query.table_id else "the query")
    elif asks_idle and query.table_id and not tables[0].info.idle_timeout:
        raise illegal(f"{tables[0].owner} has no idle timeout; leave time_since_last_hit and its like out")
    matches = matches_of_message(query, tables[0]) if query.match else None
    chosen = query.action.action.action_id if query.action.HasField("action") else 0
    wanted = _Wanted(
        matches,
        query.priority,
        tables[0].action_of_id(chosen).name if chosen else None,
        Metadata(query.controller_metadata, query.metadata),
        query.is_default_action,
        matches is not None and (not tables[0].has_priority or query.priority != 0),
        must_find,
    )
    return lambda engine: [wanted.take(engine, table) for table in tables]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a TableEntry asks for; None, 0 and nothing are all there is.

    With `is_one`, matches and priority are those of one entry; `must_find` refuses matches that no entry has.
    """

    matches: tuple[Match, ...] | None
    priority: int
    action: str | None
    metadata: Metadata
    is_default: bool
    is_one: bool
    must_find: bool

    def take(self, engine: Engine, table: TableSchema) -> _Seen:
        """Return what there is in a table. Raises: ControlError where there must be something."""
        looked_at = self._rows(engine, table)
        rows = [row for row in looked_at if self._includes(row.entry)]
        if self.must_find and self.matches is not None and not rows:
            raise ControlError(P4RuntimeCode.NOT_FOUND, f"{table.owner} has no entry of this match")
        now_ns, is_const = engine.now_ns, engine.table(table.name).is_const
        default_is_const = table.info.const_default_action_id != 0
        entries = [
            _SeenEntry(
                row.entry,
                row.hits,
                row.bytes,
                max(now_ns - row.last_hit_ns, 0),
                row.meter_config,
                row.colours,
                default_is_const if self.is_default else is_const(row.entry),
            )
            for row in rows
        ]
        return _Seen(table, entries, self.is_default, 1 + len(looked_at))

    def _rows(self, engine: Engine, table: TableSchema) -> list[Row]:
        """Return the rows to look at: the one that is named, or all."""
        held = engine.table(table.name)
        if self.is_default:
            return [held.default_row()]
        if not self.is_one or self.matches is None:
            return held.rows()
        try:
            return [held.row(self.matches, self.priority)]
        except ControlError as error:
            if self.must_find or error.code is not P4RuntimeCode.NOT_FOUND:
                raise
            return []

    def _includes(self, entry: TableEntry) -> bool:
        note = entry.note if isinstance(entry.note, Metadata) else Metadata()
        return (
            (self.matches is None or entry.matches == self.matches)
            and (self.action is None or entry.action == self.action)
            and self.priority in (0, entry.priority)
            and self.metadata.controller_metadata in (0, note.controller_metadata)
            and self.metadata.metadata in (b"", note.metadata)
        )


def _message_of(entry: TableEntry, seen: _Seen) -> Message:
    """Return the message of an entry, without what was counted for it."""
    if not seen.is_default:
        return entry_message(entry, seen.table)
    message = messages().TableEntry(table_id=seen.table.id, is_default_action=True)
    fill_action(message.action, entry, seen.table)
    return message


def _entry_messages(seen: list[_Seen], query: Message) -> Iterator[Message]:
    asked = ("counter_data", "meter_config", "meter_counter_data", "time_since_last_hit")
    counter, meter, marked, hit = map(query.HasField, asked)
    for part in seen:
        table = part.table
        for row in part.entries:
            message = _message_of(row.entry, part)
            fill_note(message, row.entry.note)
            message.is_const = row.is_const
            if counter:
                fill_count(message.counter_data, row.packets, row.length_bytes)
            if meter and row.meter is not None:
                fill_meter(message.meter_config, row.meter)
            if marked and table.has_meter:
                fill_colours(message.meter_counter_data, row.colours)
            if hit and table.info.idle_timeout:
                message.time_since_last_hit.elapsed_ns = row.idle_ns
            yield message
