# SPDX-License-Identifier: Apache-2.0
"""PacketReplicationEngineEntry, which is a multicast group or a clone session: updates and reads.

Source: P4Runtime Specification 1.4, "PacketReplicationEngineEntry".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import HOST_PORT, MAX_ALL_REPLICAS, CloneSession, Engine, Replica

from .byte_string import decode_bytes, encode_bytes
from .changes import Change, Query, Undo
from .messages import DELETE, INSERT, Message, messages
from .refusals import illegal
from .schema import Schema
from .table_entity import MAX_METADATA_BYTES

MAX_GROUP = MAX_INSTANCE = 0xFFFF
"""Largest multicast group and egress_rid: bit<16> in v1model."""
MAX_REPLICAS = 4096
"""Copies that one packet may become."""

PLATFORM_LIMITS = {
    "multicast_group_table_size": MAX_GROUP,
    "multicast_group_table_total_replicas": MAX_ALL_REPLICAS - MAX_GROUP,
    "multicast_group_table_max_replicas_per_entry": MAX_REPLICAS,
}
"""What a program may need of multicast groups."""


@dataclass(frozen=True, slots=True)
class WrittenReplica(Replica):
    """A replica with what only its writer is told again: whether its port came as a number, in the deprecated
    field egress_port, and the backups for a port that is down, as here none ever is.
    """

    numbered: bool = False
    backups: tuple[Replica, ...] = ()

    @property
    def places(self) -> int:
        """Backups take places, too."""
        return 1 + len(self.backups)


@dataclass(slots=True)
class ChangeMulticastGroup:
    """Make a multicast group, replace or remove it."""

    update_type: int
    group: int
    replicas: tuple[Replica, ...] = ()
    note: bytes = b""

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        groups, notes = engine.objects.multicast_groups, engine.objects.group_notes
        _check_presence(self.update_type, self.group in groups, f"multicast group {self.group}")
        engine.objects.hold_group(self.group, None if self.update_type == DELETE else self.replicas)
        notes.pop(self.group, None)
        if self.note:
            notes[self.group] = self.note

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        groups, notes = engine.objects.multicast_groups, engine.objects.group_notes
        present, note = groups.get(self.group), notes.get(self.group)

        def put_back() -> None:
            engine.objects.hold_group(self.group, present)
            notes.pop(self.group, None)
            if note is not None:
                notes[self.group] = note

        return put_back


@dataclass(slots=True)
class ChangeSession:
    """Make a clone session, replace or remove it."""

    update_type: int
    number: int
    session: CloneSession

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        sessions = engine.objects.clone_sessions
        _check_presence(self.update_type, self.number in sessions, f"clone session {self.number}")
        engine.objects.hold_session(self.number, None if self.update_type == DELETE else self.session)

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        present = engine.objects.clone_sessions.get(self.number)
        return lambda: engine.objects.hold_session(self.number, present)


def replication_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of a PacketReplicationEngineEntry means. Raises: ControlError."""
    form = message.WhichOneof("type")
    if form == "multicast_group_entry":
        entry = message.multicast_group_entry
        number, what = entry.multicast_group_id, f"multicast group {entry.multicast_group_id}"
        if not 0 < number <= MAX_GROUP:
            raise illegal(f"{what} found; 1 to {MAX_GROUP} was expected")
        if update_type == DELETE:
            return ChangeMulticastGroup(update_type, number)
        if len(entry.metadata) > MAX_METADATA_BYTES:
            raise illegal(
                f"{what}: metadata has {len(entry.metadata)} bytes; {MAX_METADATA_BYTES} are allowed"
            )
        return ChangeMulticastGroup(update_type, number, _replicas(entry.replicas, what), entry.metadata)
    if form == "clone_session_entry":
        entry = message.clone_session_entry
        number, what = entry.session_id, f"clone session {entry.session_id}"
        if number == 0:
            raise illegal(f"{what} found; a number above 0 was expected")
        if update_type == DELETE:
            return ChangeSession(update_type, number, CloneSession(()))
        if entry.packet_length_bytes < 0:
            raise illegal(
                f"{what}: packet_length_bytes is {entry.packet_length_bytes}; 0 leaves packets whole"
            )
        replicas = _replicas(entry.replicas, what)
        session = CloneSession(replicas, entry.packet_length_bytes, entry.class_of_service)
        return ChangeSession(update_type, number, session)
    raise illegal("the packet_replication_engine_entry is empty; a group or a session was expected")


def replication_query(message: Message, schema: Schema) -> Query:
    """Return the query that a PacketReplicationEngineEntry in a ReadRequest means. Raises: ControlError."""
    form = message.WhichOneof("type")
    if form == "multicast_group_entry":
        wanted = message.multicast_group_entry.multicast_group_id
        return Query(
            lambda engine: [
                (number, replicas, engine.objects.group_notes.get(number, b""))
                for number, replicas in engine.objects.multicast_groups.items()
                if wanted in (0, number)
            ],
            _group_messages,
            lambda seen: sum(1 + len(replicas) for _, replicas, _ in seen),
        )
    if form == "clone_session_entry":
        chosen = message.clone_session_entry.session_id
        return Query(
            lambda engine: [item for item in engine.objects.clone_sessions.items() if chosen in (0, item[0])],
            _session_messages,
            lambda seen: sum(1 + len(session.replicas) for _, session in seen),
        )
    raise illegal("the packet_replication_engine_entry is empty; a group or a session was expected")


def _group_messages(seen: list[tuple[int, tuple[Replica, ...], bytes]]) -> Iterator[Message]:
    for number, replicas, note in seen:
        entity = messages().Entity()
        entry = entity.packet_replication_engine_entry.multicast_group_entry
        entry.multicast_group_id, entry.metadata = number, note
        _fill_replicas(entry.replicas, replicas)
        yield entity


def _session_messages(seen: list[tuple[int, CloneSession]]) -> Iterator[Message]:
    for number, session in seen:
        entity = messages().Entity()
        entry = entity.packet_replication_engine_entry.clone_session_entry
        entry.session_id, entry.packet_length_bytes = number, session.truncate_bytes
        entry.class_of_service = session.class_of_service
        _fill_replicas(entry.replicas, session.replicas)
        yield entity


def _replicas(given: Sequence[Message], what: str) -> tuple[Replica, ...]:
    count = len(given) + sum(len(item.backup_replicas) for item in given)
    if count > MAX_REPLICAS:
        raise ControlError(
            P4RuntimeCode.RESOURCE_EXHAUSTED, f"{what} has {count} replicas; {MAX_REPLICAS} are allowed"
        )
    found: list[Replica] = []
    for item in given:
        numbered = item.WhichOneof("port_kind") == "egress_port"
        port = item.egress_port if numbered else decode_bytes(item.port, 32, f"{what}: port")
        backups = tuple(
            _checked(Replica(decode_bytes(backup.port, 32, f"{what}: port"), backup.instance), what)
            for backup in item.backup_replicas
        )
        if numbered or backups:
            found.append(_checked(WrittenReplica(port, item.instance, numbered, backups), what))
        else:
            found.append(_checked(Replica(port, item.instance), what))
    _check_distinct(found, what)
    return tuple(found)


def _check_distinct(replicas: Sequence[Replica], what: str) -> None:
    """Refuse two replicas or backups of one port and instance, and a backup on its replica's port."""
    pairs = [(item.port, item.rid) for item in replicas]
    for item in replicas:
        backups = item.backups if isinstance(item, WrittenReplica) else ()
        if any(backup.port == item.port for backup in backups):
            raise illegal(f"{what}: a replica to port {item.port} has a backup on the same port")
        pairs += [(backup.port, backup.rid) for backup in backups]
    if len(set(pairs)) != len(pairs):
        raise illegal(f"{what} names a port and instance twice")


def _checked(replica: Replica, what: str) -> Replica:
    """Return a replica that a packet may become. Raises: ControlError(INVALID_ARGUMENT)."""
    if replica.port > HOST_PORT or replica.rid > MAX_INSTANCE:
        raise illegal(
            f"{what}: port {replica.port}, instance {replica.rid} found; a port up to {HOST_PORT} and an "
            f"instance up to {MAX_INSTANCE} were expected"
        )
    return replica


def _fill_replicas(given: Message, replicas: Sequence[Replica]) -> None:
    for replica in replicas:
        item = given.add(instance=replica.rid)
        if isinstance(replica, WrittenReplica):
            for backup in replica.backups:
                item.backup_replicas.add(port=encode_bytes(backup.port), instance=backup.rid)
        if isinstance(replica, WrittenReplica) and replica.numbered:
            item.egress_port = replica.port
        else:
            item.port = encode_bytes(replica.port)


def _check_presence(update_type: int, present: bool, what: str) -> None:
    if update_type == INSERT and present:
        raise ControlError(P4RuntimeCode.ALREADY_EXISTS, f"{what} is there already; modify it")
    if update_type != INSERT and not present:
        raise ControlError(P4RuntimeCode.NOT_FOUND, f"there is no {what}")
