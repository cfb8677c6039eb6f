# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime client in the words of the program: tables, keys and actions by name, values as text.

Speaks to any P4Runtime server for everything but the program itself, whose form (IR as JSON) is nicemu's
own.
Source: P4Runtime Specification 1.4.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.pipeline import (
    DigestConfig,
    P4Info,
    Program,
    p4info_of,
    program_of_json,
)

from .client_entries import MatchValue, ReadEntry, Update, entry_read, matches_given, update_message
from .connection import BatchError, Connection, not_primary
from .device_config import program_in
from .entry_message import add_matches
from .info_message import info_message, p4info_of_message
from .messages import ConfigAction, ConfigPart, Message, UpdateType, messages, within_fields
from .object_client import ObjectClient
from .schema import Schema, TableSchema
from .stream import uint128
from .stream_client import Received, ReceivedDigests, acknowledgement, packet_out_message, received
from .texts import Texts

UPDATES_PER_REQUEST = 1_000
"""Updates that one Write request carries; longer batches are split."""

_CONFIG_ACTIONS = {
    "commit": ConfigAction.VERIFY_AND_COMMIT,
    "verify": ConfigAction.VERIFY,
    "save": ConfigAction.VERIFY_AND_SAVE,
    "reconcile": ConfigAction.RECONCILE_AND_COMMIT,
}


class P4RuntimeClient:
    """A client of one device, primary from `__enter__` on; use it in a `with` statement.

    The default election id is the wall time in nanoseconds: the newest tool becomes primary. Unless that is
    to be `at_once`, it is with the first change, packet or report that is asked for; until then it reads
    beside whoever is primary. With a `role` of its own, the name of one that has access to all, it takes
    nobody's place: each role has its primary, and packets, digests and idle entries go to all of them.
    The names it knows are those of the program at their first use; after another
    client's `load`, connect anew.
    """

    def __init__(
        self,
        address: str,
        device_id: int = 1,
        election_id: int | None = None,
        timeout_s: float = 10.0,
        *,
        at_once: bool = True,
        role: str = "",
    ) -> None:
        self._address = address
        self._device_id = device_id
        self._election_id = _chosen(election_id)
        self._timeout_s = timeout_s
        self._at_once, self._is_primary = at_once, False
        self._role = role
        self._connection: Connection | None = None
        self._schema: Schema | None = None

    def __enter__(self) -> P4RuntimeClient:
        self._connection = Connection(self._address, self._timeout_s)
        try:
            if self._at_once:
                self._primary()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def arbitrate(self, election_id: int | None = None) -> None:
        """Become the primary again, by default with the wall time as election id. Raises: ControlError."""
        self._election_id, self._is_primary = _chosen(election_id), False
        self._primary()

    def close(self) -> None:
        """End the stream and the connection; the NIC then has no primary until the next client comes."""
        if self._connection is not None:
            self._connection.close()
            self._connection, self._is_primary = None, False

    # Pipeline

    @within_fields
    def load(
        self,
        program_json: str | bytes,
        p4info: P4Info | None = None,
        how: str = "commit",
        cookie: int | None = None,
    ) -> None:
        """Have the NIC run a program. `how` is commit, verify (only), save, or reconcile (keep entries).

        Raises: ControlError, and the old program goes on.
        """
        if how not in _CONFIG_ACTIONS:
            raise UsageError(f"how={how!r} found; commit, verify, save or reconcile was expected")
        text = program_json.encode() if isinstance(program_json, str) else program_json
        request = self._config_request(_CONFIG_ACTIONS[how])
        request.config.p4_device_config = text
        request.config.p4info.CopyFrom(info_message(p4info or p4info_of(program_of_json(text))))
        if cookie is not None:
            request.config.cookie.cookie = cookie
        self._primary().call("SetForwardingPipelineConfig", request)
        self._schema = None

    def commit_saved(self) -> None:
        """Have the NIC run the program that `load(how="save")` brought. Raises: ControlError."""
        self._primary().call("SetForwardingPipelineConfig", self._config_request(ConfigAction.COMMIT))
        self._schema = None

    def p4info(self) -> P4Info:
        """Return what the running program shows.

        Raises: ControlError(FAILED_PRECONDITION) without a program.
        """
        return self._schema_now().p4info

    def program_json(self) -> str:
        """Return the running program's IR as JSON. Raises: ControlError."""
        return self.device_config().decode()

    def device_config(self) -> bytes:
        """Return what the running program was brought as: its IR, or whatever another server takes.

        Raises: ControlError.
        """
        return program_in(self._get_config(ConfigPart.DEVICE_CONFIG_AND_COOKIE).p4_device_config)

    def cookie(self) -> int | None:
        """Return the number that `load` gave the running program. Raises: ControlError."""
        config = self._get_config(ConfigPart.COOKIE_ONLY)
        return int(config.cookie.cookie) if config.HasField("cookie") else None

    def tables(self) -> list[TableSchema]:
        """Return the tables of the running program. Raises: ControlError."""
        return list(self._schema_now().tables)

    def api_version(self) -> str:
        """Return the version of P4Runtime that the server implements. Raises: ControlError."""
        return str(
            self._connected().call("Capabilities", messages().CapabilitiesRequest()).p4runtime_api_version
        )

    def speak_as(self, program: Program, texts: Texts) -> None:
        """Take and give the values that the running program has, in the place of those that controllers see.

        `texts` says which texts stand for which numbers, and learns those that are read.
        """
        self._schema = Schema(p4info_of(program), texts)

    # Entries

    @within_fields
    def insert(
        self,
        table: str,
        keys: Mapping[str, MatchValue],
        action: str,
        params: Mapping[str, int | str] | None = None,
        priority: int = 0,
    ) -> None:
        """Add an entry.

        A key that is left out matches everything; an exact key cannot be. Raises: ControlError.
        """
        self.write([Update("insert", table, keys, action, params or {}, priority)])

    @within_fields
    def modify(
        self,
        table: str,
        keys: Mapping[str, MatchValue],
        action: str,
        params: Mapping[str, int | str] | None = None,
        priority: int = 0,
    ) -> None:
        """Replace action and parameters of an entry. Raises: ControlError."""
        self.write([Update("modify", table, keys, action, params or {}, priority)])

    @within_fields
    def delete(self, table: str, keys: Mapping[str, MatchValue], priority: int = 0) -> None:
        """Remove an entry. Raises: ControlError."""
        self.write([Update("delete", table, keys, priority=priority)])

    @within_fields
    def set_default(
        self, table: str, action: str | None = None, params: Mapping[str, int | str] | None = None
    ) -> None:
        """Choose what a miss runs; without an action, what the program says. Raises: ControlError."""
        self.write([Update("modify", table, {}, action, params or {}, default=True)])

    @within_fields
    def write(self, updates: Sequence[Update]) -> None:
        """Apply the updates in order, in requests of up to UPDATES_PER_REQUEST; every one is tried.

        Raises: ControlError: that of the first update that failed, with the number of failures where it
        is not alone.
        """
        outcomes = self.try_write(updates)
        failed = [(index, error) for index, error in enumerate(outcomes) if error is not None]
        if not failed:
            return
        index, first = failed[0]
        if len(updates) == 1:
            raise first
        raise ControlError(
            first.code, f"{len(failed)} of {len(updates)} updates failed; update {index}: {first}"
        )

    @within_fields
    def check(self, updates: Sequence[Update]) -> None:
        """Refuse what the server would, of values that controllers have otherwise. Raises: ControlError."""
        for update in updates if self._schema_now().translator is not None else ():
            entity = update_message(update, self._schema_now()).entity
            self._give(entity)
            self._taken(entity)

    @within_fields
    def try_write(self, updates: Sequence[Update]) -> list[ControlError | None]:
        """Apply the updates and return the outcome of each, None for success.

        Raises: ControlError if an update names something that does not exist, and nothing was sent; or if
        a request as a whole is refused, with the number of updates that requests before it had applied.
        """
        encoded = [update_message(update, self._schema_now()) for update in updates]
        for message in encoded:
            self._give(message.entity)
        outcomes: list[ControlError | None] = []
        for start in range(0, len(encoded), UPDATES_PER_REQUEST):
            part = encoded[start : start + UPDATES_PER_REQUEST]
            try:
                self._write_part(part)
                outcomes.extend([None] * len(part))
            except ControlError as error:
                if isinstance(error, BatchError) and len(error.outcomes) == len(part):
                    outcomes.extend(error.outcomes)
                elif start:
                    applied = f"{outcomes.count(None)} of {len(encoded)} updates were applied before"
                    raise ControlError(error.code, f"{error}; {applied}") from error
                else:
                    raise
        return outcomes

    def read(self, table: str | None = None, *, hits: bool = False, meters: bool = False) -> list[ReadEntry]:
        """Return the entries of one table, or of all, without the default entries. Raises: ControlError."""
        return self._read_entries(table, hits=hits, meters=meters, default=False)

    def read_default(self, table: str, *, hits: bool = False, meters: bool = False) -> ReadEntry:
        """Return what a miss in `table` runs; its `hits` are the misses. Raises: ControlError."""
        return self._read_entries(table, hits=hits, meters=meters, default=True)[0]

    def read_one(self, table: str, keys: Mapping[str, MatchValue], priority: int = 0) -> ReadEntry | None:
        """Return the entry of these keys, with its meter, None if there is none. Raises: ControlError."""
        schema = self._schema_now().table(table)
        query = messages().Entity()
        query.table_entry.table_id, query.table_entry.priority = schema.id, priority
        matches = matches_given(keys, schema)
        add_matches(query.table_entry.match, matches, schema.keys)
        if schema.has_meter:
            query.table_entry.meter_config.SetInParent()
        self._give(query)
        for entity in self._read_all(query):  # all there are where nothing but * is asked for
            found = entry_read(entity.table_entry, self._schema_now())
            if (found.entry.matches, found.entry.priority) == (matches, priority):
                return found
        return None

    def _read_entries(self, table: str | None, *, hits: bool, meters: bool, default: bool) -> list[ReadEntry]:
        schema = self._schema_now()
        request = messages().ReadRequest(device_id=self._device_id)
        query = request.entities.add().table_entry
        query.table_id = schema.table(table).id if table is not None else 0
        query.is_default_action = default
        if hits:
            query.counter_data.SetInParent()
        if meters:
            query.meter_config.SetInParent()
        found = []
        for response in self._connected().call_for_stream("Read", request):
            found += [entry_read(self._taken(entity).table_entry, schema) for entity in response.entities]
        return found

    # Objects

    @property
    def objects(self) -> ObjectClient:
        """The counters, meters, registers and so on of the running program."""
        return ObjectClient(self._schema_now, self._write_one, self._read_all)

    @within_fields
    def send_digests(self, name: str, config: DigestConfig | None, *, change: bool = False) -> None:
        """Have digests of a name sent to this client, or `change` how, or with None stop that.

        Raises: ControlError.
        """
        kind = UpdateType.MODIFY if change else UpdateType.INSERT
        update = messages().Update(type=UpdateType.DELETE if config is None else kind)
        entry = update.entity.digest_entry
        entry.digest_id = self._schema_now().named("digest", name).id
        if config is not None:
            entry.config.max_timeout_ns, entry.config.max_list_size = (
                config.max_timeout_ns,
                config.max_list_size,
            )
            entry.config.ack_timeout_ns = config.ack_timeout_ns
        self._write_one(update)

    # Stream

    def receive(self, timeout_s: float | None = None) -> Received | None:
        """Return the next packet, list of digests or list of idle entries; None if none comes in time.

        Raises: ControlError if the stream has ended, for a packet that was sent and dropped, and with
        PERMISSION_DENIED where another client has become the primary: nothing comes any more until
        `arbitrate`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            message = self._primary().receive(left_s)
            if message is None:
                return None
            if message.WhichOneof("update") == "arbitration" and message.arbitration.status.code:
                self._is_primary = False
                raise not_primary(message.arbitration, self._election_id)
            found = received(message, self._schema_now())
            if found is not None:
                return found

    def send_packet(self, payload: bytes, metadata: Mapping[str, int | str] | None = None) -> None:
        """Send a packet into the program, with the fields of its packet_out header."""
        self._primary().send(packet_out_message(payload, metadata or {}, self._schema_now()))

    def acknowledge(self, digests: ReceivedDigests) -> None:
        """Say that a list of digests has been taken."""
        self._primary().send(acknowledgement(digests, self._schema_now()))

    # Requests

    def _give(self, entity: Message) -> None:
        """Have what is about to be sent have the values that controllers give."""
        if self._schema is not None and self._schema.translator is not None:
            self._schema.translator.outgoing(entity)

    def _taken(self, entity: Message) -> Message:
        """Return what has been read with the values that this client is to have."""
        if self._schema is None or self._schema.translator is None:
            return entity
        return self._schema.translator.incoming(entity, allot=True)

    def _write_one(self, update: Message) -> None:
        self._give(update.entity)
        self._write_part([update])

    def _write_part(self, updates: Sequence[Message]) -> None:
        request = messages().WriteRequest(device_id=self._device_id, role=self._role, updates=updates)
        request.election_id.CopyFrom(uint128(self._election_id))
        self._primary().call("Write", request)

    def _read_all(self, entity: Message) -> Iterator[Message]:
        request = messages().ReadRequest(device_id=self._device_id, entities=[entity])
        for response in self._connected().call_for_stream("Read", request):
            yield from map(self._taken, response.entities)

    def _config_request(self, action: ConfigAction) -> Message:
        request = messages().SetForwardingPipelineConfigRequest(
            device_id=self._device_id, role=self._role, action=action
        )
        request.election_id.CopyFrom(uint128(self._election_id))
        return request

    def _get_config(self, part: ConfigPart) -> Message:
        request = messages().GetForwardingPipelineConfigRequest(device_id=self._device_id, response_type=part)
        response = self._connected().call("GetForwardingPipelineConfig", request)
        if not response.HasField("config"):
            raise ControlError(
                P4RuntimeCode.FAILED_PRECONDITION, f"device {self._device_id} runs no program; load one first"
            )
        return response.config

    def _schema_now(self) -> Schema:
        if self._schema is None:
            self._schema = Schema(p4info_of_message(self._get_config(ConfigPart.P4INFO_AND_COOKIE).p4info))
        return self._schema

    def _primary(self) -> Connection:
        connection = self._connected()
        if not self._is_primary:
            connection.arbitrate(self._device_id, self._election_id, self._role)
            self._is_primary = True
        return connection

    def _connected(self) -> Connection:
        if self._connection is None:
            raise UsageError("the client is not connected; use it in a with statement")
        return self._connection


def _chosen(election_id: int | None) -> int:
    """Return an election id, by default the wall time. Raises: UsageError for what is none."""
    if election_id is None:
        return time.time_ns()
    if not 0 <= election_id < 1 << 128:
        raise UsageError(f"election id {election_id} found; 0 to 2**128 - 1 was expected")
    return election_id
