# SPDX-License-Identifier: Apache-2.0
"""One device of the server: its clients' arbitration, its pipeline config, reads and writes of its entities.

No gRPC in here: messages in, messages out, ControlError for what is refused.
Source: P4Runtime Specification 1.4, "Write RPC", "Read RPC", "P4 Entity Messages".
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

from nicemu.errors import ControlError, NicemuError, P4RuntimeCode
from nicemu.pipeline import Program, TableEntry

from .arbitration import Arbitration, Notice
from .entry_message import call_of_message, entry_message, fill_action, matches_of_message
from .messages import Message, messages
from .pipeline_config import Metadata, PipelineConfig, ProgramReader
from .schema import Schema, TableSchema
from .stream import Session, arbitration_message, election_id_of
from .target import PipelineTarget

MAX_METADATA_BYTES = 256
"""Longest `metadata` that one entry keeps."""
_INSERT, _MODIFY, _DELETE = 1, 2, 3

Outcomes = list[ControlError | None]
"""What became of each part of a batch; None is success."""


class Device:
    """One target under P4Runtime. One call at a time reaches the target, from whichever thread."""

    def __init__(
        self, device_id: int, target: PipelineTarget, reader: ProgramReader = Program.from_json
    ) -> None:
        self.device_id = device_id
        self._config = PipelineConfig(target, reader)
        self._arbitration = Arbitration(device_id)
        self._lock = threading.RLock()

    # Arbitration

    def announce(self, session: Session, update: Message) -> None:
        """Take a MasterArbitrationUpdate and tell all whom it concerns. Raises: ControlError."""
        if update.role.HasField("config"):
            raise ControlError(
                P4RuntimeCode.INVALID_ARGUMENT,
                "role.config is set; here every role has access to the full pipeline, so leave it unset",
            )
        if len(update.role.name) > 100:
            raise ControlError(
                P4RuntimeCode.INVALID_ARGUMENT,
                f"the role's name has {len(update.role.name)} characters; 100 are allowed",
            )
        with self._lock:
            if session.closed:
                return
            session.device_id = self.device_id
            self._tell(self._arbitration.announce(session, update.role.name, election_id_of(update)))

    def leave(self, session: Session) -> None:
        """Forget a session whose stream has ended, if this device knows it, and take nothing more from it."""
        with self._lock:
            session.closed = True
            self._tell(self._arbitration.leave(session))

    def _tell(self, notices: list[Notice]) -> None:
        for notice in notices:
            assert isinstance(notice.session, Session)
            notice.session.send(arbitration_message(self.device_id, notice))

    # Pipeline config

    def set_config(self, request: Message) -> None:
        """Answer SetForwardingPipelineConfig. Raises: ControlError, and the old program goes on."""
        with self._lock:
            self._arbitration.require_primary(request.role, election_id_of(request))
            self._config.set(request)

    def get_config(self, request: Message) -> Message:
        """Answer GetForwardingPipelineConfig. Raises: ControlError."""
        with self._lock:
            return self._config.get(request.response_type)

    # Write

    def write(self, request: Message) -> Outcomes:
        """Apply the updates of a WriteRequest, each for itself, and return what became of them.

        Raises: ControlError for the request as a whole; then no update was tried.
        """
        with self._lock:
            self._arbitration.require_primary(request.role, election_id_of(request))
            if request.atomicity != 0:
                raise ControlError(
                    P4RuntimeCode.UNIMPLEMENTED,
                    f"atomicity {request.atomicity} is not implemented; CONTINUE_ON_ERROR (0) is",
                )
            schema = self._config.schema()
            return [_outcome(self._update, update, schema) for update in request.updates]

    def _update(self, update: Message, schema: Schema) -> None:
        if update.type not in (_INSERT, _MODIFY, _DELETE):
            raise _illegal(f"update type is {update.type}; INSERT (1), MODIFY (2) or DELETE (3) was expected")
        message = _table_entry_of(update.entity)
        table = schema.table_of_id(message.table_id)
        if message.is_default_action:
            self._update_default(update.type, message, table)
            return
        matches = matches_of_message(message, table)
        place = (table.name, matches, message.priority)
        if update.type == _DELETE:
            if message.is_const:
                raise _illegal(f"table {table.name}: is_const is for the program to say; leave it out")
            self._config.target.delete(table.name, matches, message.priority)
            self._config.metadata.pop(place, None)
            return
        _refuse_unsupported(message, table)
        if update.type == _INSERT and not table.keys:
            raise _illegal(f"table {table.name} has no keys: it has a default action, and no entries")
        if update.type == _MODIFY and not message.HasField("action"):
            self._entry_at(table, matches, message.priority)
        else:
            action, parameters = call_of_message(message.action, table, default=False)
            entry = TableEntry(matches, action, parameters, message.priority)
            if update.type == _INSERT:
                self._config.target.insert(table.name, entry)
            else:
                self._config.target.modify(table.name, entry)
        self._config.metadata.pop(place, None)
        if message.controller_metadata or message.metadata:
            self._config.metadata[place] = Metadata(message.controller_metadata, message.metadata)

    def _update_default(self, update_type: int, message: Message, table: TableSchema) -> None:
        if update_type != _MODIFY:
            raise _illegal(
                f"table {table.name}: the default entry is always there; MODIFY it, do not INSERT or DELETE"
            )
        if message.match or message.priority:
            raise _illegal(f"table {table.name}: the default entry has neither match nor priority")
        _refuse_unsupported(message, table)
        if message.HasField("action"):
            action, parameters = call_of_message(message.action, table, default=True)
        else:
            specs = {spec.name: spec for spec in self._config.program().tables}
            initial = specs[table.name].default_action
            action, parameters = initial.action, initial.parameters
        self._config.target.set_default(table.name, action, parameters)

    def _entry_at(self, table: TableSchema, matches: tuple[object, ...], priority: int) -> TableEntry:
        for entry in self._config.target.read(table.name):
            if entry.matches == matches and entry.priority == priority:
                return entry
        raise ControlError(
            P4RuntimeCode.NOT_FOUND, f"table {table.name} has no entry of this match and priority"
        )

    # Read

    def read(self, request: Message) -> tuple[list[Message], Outcomes]:
        """Return the entities that a ReadRequest asks for, and what became of each part of it.

        Raises: ControlError for the request as a whole.
        """
        with self._lock:
            schema = self._config.schema()
            found: list[Message] = []

            def read_part(wanted: Message, schema: Schema) -> None:
                found.extend(list(self._read(wanted, schema)))

            return found, [_outcome(read_part, wanted, schema) for wanted in request.entities]

    def _read(self, wanted: Message, schema: Schema) -> Iterator[Message]:
        if wanted.WhichOneof("entity") == "direct_counter_entry":
            query = messages().TableEntry()
            query.CopyFrom(wanted.direct_counter_entry.table_entry)
            query.counter_data.SetInParent()
            query.ClearField("action")
            for message in self._read_table_entries(query, schema):
                entity = messages().Entity()
                counter = entity.direct_counter_entry
                counter.data.CopyFrom(message.counter_data)
                message.ClearField("counter_data")
                message.ClearField("action")
                counter.table_entry.CopyFrom(message)
                yield entity
            return
        for message in self._read_table_entries(_table_entry_of(wanted), schema):
            entity = messages().Entity()
            entity.table_entry.CopyFrom(message)
            yield entity

    def _read_table_entries(self, query: Message, schema: Schema) -> Iterator[Message]:
        if query.table_id == 0 and (query.match or query.HasField("action")):
            raise _illegal("the query names a match or an action but no table; set table_id too")
        tables = schema.tables if query.table_id == 0 else (schema.table_of_id(query.table_id),)
        if query.is_default_action:
            for table in tables:
                yield self._default_message(table)
            return
        for table in tables:
            matches = matches_of_message(query, table) if query.match else None
            action = (
                table.action_of_id(query.action.action.action_id).name if query.HasField("action") else None
            )
            for entry in self._config.target.read(table.name):
                stored = self._config.metadata.get((table.name, entry.matches, entry.priority), Metadata())
                if (
                    (matches is None or entry.matches == matches)
                    and (action is None or entry.action == action)
                    and query.priority in (0, entry.priority)
                    and query.controller_metadata in (0, stored.controller_metadata)
                    and query.metadata in (b"", stored.metadata)
                ):
                    yield self._entry_message(entry, table, stored, query.HasField("counter_data"))

    def _entry_message(
        self, entry: TableEntry, table: TableSchema, stored: Metadata, with_hits: bool
    ) -> Message:
        message = entry_message(entry, table)
        message.controller_metadata, message.metadata = stored.controller_metadata, stored.metadata
        message.is_const = table.description.const_entries
        if with_hits:
            message.counter_data.packet_count = self._config.target.hits(
                table.name, entry.matches, entry.priority
            )
        return message

    def _default_message(self, table: TableSchema) -> Message:
        info = next(info for info in self._config.target.tables() if info.name == table.name)
        message = messages().TableEntry(table_id=table.id, is_default_action=True)
        message.is_const = table.description.const_default_action_id != 0
        fill_action(message, info.default_action, info.default_parameters, table)
        return message


def _outcome(
    perform: Callable[[Message, Schema], None], part: Message, schema: Schema
) -> ControlError | None:
    try:
        perform(part, schema)
    except ControlError as error:
        return error
    except NicemuError as error:
        return ControlError(P4RuntimeCode.INVALID_ARGUMENT, str(error))
    except Exception:
        logging.getLogger(__name__).exception("fault while serving one part of a batch")
        return ControlError(P4RuntimeCode.INTERNAL, "the server failed; its log has the reason")
    return None


def _table_entry_of(entity: Message) -> Message:
    form = entity.WhichOneof("entity")
    if form is None:
        raise _illegal("the entity is empty; a table_entry was expected")
    if form != "table_entry":
        raise ControlError(
            P4RuntimeCode.UNIMPLEMENTED,
            f"{form} is not implemented; write and read table_entry, or read direct_counter_entry",
        )
    return entity.table_entry


def _refuse_unsupported(message: Message, table: TableSchema) -> None:
    for field in ("meter_config", "meter_counter_data", "counter_data", "time_since_last_hit"):
        if message.HasField(field):
            raise _illegal(f"table {table.name}: {field} cannot be written; leave it out")
    if message.idle_timeout_ns:
        raise _illegal(f"table {table.name} has no idle timeout; leave idle_timeout_ns out")
    if message.is_const:
        raise _illegal(f"table {table.name}: is_const is for the program to say; leave it out")
    if len(message.metadata) > MAX_METADATA_BYTES:
        raise _illegal(
            f"table {table.name}: metadata has {len(message.metadata)} bytes; "
            f"{MAX_METADATA_BYTES} are allowed"
        )


def _illegal(sentence: str) -> ControlError:
    return ControlError(P4RuntimeCode.INVALID_ARGUMENT, sentence)
