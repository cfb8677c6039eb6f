# SPDX-License-Identifier: Apache-2.0
"""A program's objects by their names, over P4Runtime: counters, meters, registers, action profiles, value
sets, and the replication of packets.

Source: P4Runtime Specification 1.4, "P4 Entity Messages".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.pipeline import CloneSession, Match, MeterConfig, Replica, Value, ir, plain

from .byte_string import encode_bytes
from .count_message import fill_count, fill_meter, meter_of_message
from .data_message import fill_data, member_value, value_of_data, zero_of
from .entry_message import add_matches, fill_call, matches_of_fields, parameters_of_message
from .entry_text import call_json
from .messages import DELETE, INSERT, MODIFY, Message, messages, within_fields
from .schema import Schema, parameter_of
from .value_text import parse_match, parse_signed, parse_value

ARRAYS = ("counter", "meter", "register")

Number: TypeAlias = int | str
"""A number, or text that means one."""


@dataclass(frozen=True, slots=True)
class Place:
    """One place of an array: a counter's {packets, bytes}, a meter's configuration or None, a register's
    number or {field: number}.
    """

    name: str
    index: int
    value: Any


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object of the program, by its kind and full name; `size` is how much it holds, 0 for a digest."""

    kind: str
    name: str
    size: int = 0


class ObjectClient:
    """The objects of the program that a device runs. Every method raises ControlError for what is refused."""

    def __init__(
        self,
        schema: Callable[[], Schema],
        write: Callable[[Message], None],
        read: Callable[[Message], Iterator[Message]],
    ) -> None:
        self._schema = schema
        self._write_update = write
        self._read_entities = read

    def all(self) -> list[ObjectInfo]:
        """Return every object that a method here or an entry's action may name."""
        info = self._schema().p4info
        kinds = {
            "counter": info.counters,
            "meter": info.meters,
            "register": info.registers,
            "action profile": info.profiles,
            "value set": info.value_sets,
            "digest": info.digests,
        }
        return [
            ObjectInfo(kind, item.name, getattr(item, "size", 0))
            for kind, items in kinds.items()
            for item in items
        ]

    def find(self, name: str, kinds: Sequence[str] = ARRAYS) -> ObjectInfo:
        """Return the object of one of these kinds that has a name, or ends in it."""
        among = [item for item in self.all() if item.kind in kinds]
        found = [item for item in among if item.name == name]
        found = found or [item for item in among if item.name.endswith(f".{name}")]
        if not found and (bound := self._bound_to_table(name)):
            raise UsageError(bound)
        if len(found) != 1:
            have = ", ".join(item.name for item in found or among) or "none"
            count = "several" if found else "no"
            raise UsageError(f"the program has {count} {' or '.join(kinds)} {name}; it has {have}")
        return found[0]

    def _bound_to_table(self, name: str) -> str:
        """Return where to find a direct counter or meter of a name, "" where there is none."""
        info = self._schema().p4info
        for kind, items, shown in (
            ("counter", info.direct_counters, "`nicemu table list` shows"),
            ("meter", info.direct_meters, "`nicemu table list --json` shows, and `table apply` sets"),
        ):
            for item in items:
                if item.name == name or item.name.endswith(f".{name}"):
                    table = self._schema().table_of_id(item.table_id).name
                    return f"{item.name} is the direct {kind} of table {table}: {shown} it with the entries"
        return ""

    # Arrays

    @within_fields
    def read(self, name: str, index: int | None = None) -> list[Place]:
        """Return what a counter, meter or register holds, at an index or everywhere."""
        found = self.find(name)
        return [self._place(found, entry) for entry in self._entries(found, index)]

    @within_fields
    def register_values(self, name: str) -> dict[int, Value]:
        """Return what a register holds by index, as an engine has it; places that hold zeros are left out."""
        found, schema = self.find(name, ("register",)), self._schema()
        kind = schema.named("register", found.name).type
        zero = zero_of(kind, schema.layouts)
        values = ((entry.index.index, entry.data) for entry in self._entries(found, None))
        held = ((index, value_of_data(data, kind, schema.layouts, found.name)) for index, data in values)
        return {index: value for index, value in held if value != zero}

    @within_fields
    def meter_configs(self, name: str) -> dict[int, MeterConfig]:
        """Return how the meters of an array are configured, those that are, by index."""
        found = self.find(name, ("meter",))
        kind = self._schema().named("meter", found.name).type
        return {
            entry.index.index: meter_of_message(entry.config, found.name, kind)
            for entry in self._entries(found, None)
            if entry.HasField("config")
        }

    @within_fields
    def write_counter(self, name: str, index: int | None, packets: int = 0, length_bytes: int = 0) -> None:
        """Say what a counter stands at; without an index, all of an array."""
        for count in (packets, length_bytes):
            if not 0 <= count < 1 << 63:
                raise UsageError(f"a count of {count} found; 0 to 2**63 - 1 was expected")
        update, entry = self._array_update("counter", name, index)
        fill_count(entry.data, packets, length_bytes)
        self._write_update(update)

    @within_fields
    def write_meter(self, name: str, index: int | None, config: MeterConfig | None) -> None:
        """Configure a meter, or with None have it say green; without an index, all of an array."""
        update, entry = self._array_update("meter", name, index)
        if config is not None:
            fill_meter(entry.config, config)
        self._write_update(update)

    @within_fields
    def write_register(self, name: str, index: int | None, value: Number | Mapping[str, Number]) -> None:
        """Store a number, or the fields of a struct or header; without an index, everywhere."""
        update, entry = self._array_update("register", name, index)
        schema = self._schema()
        info = schema.named("register", name)
        fill_data(entry.data, _parsed(value, info.type, schema, info.name), info.type, schema.layouts)
        self._write_update(update)

    def _array_update(self, kind: str, name: str, index: int | None) -> tuple[Message, Message]:
        update = messages().Update(type=MODIFY)
        entry = getattr(update.entity, f"{kind}_entry")
        self._fill_place(entry, self.find(name, (kind,)), index)
        return update, entry

    def _entries(self, found: ObjectInfo, index: int | None) -> list[Message]:
        """Return what the server says of an array, at an index or everywhere."""
        form = f"{found.kind}_entry"
        query = messages().Entity()
        self._fill_place(getattr(query, form), found, index)
        return [getattr(entity, form) for entity in self._read_entities(query)]

    def _fill_place(self, entry: Message, found: ObjectInfo, index: int | None) -> None:
        setattr(entry, f"{found.kind}_id", self._schema().named(found.kind, found.name).id)
        if index is not None:
            entry.index.index = index

    def _place(self, found: ObjectInfo, entry: Message) -> Place:
        value: Any
        if found.kind == "counter":
            value = {"packets": entry.data.packet_count, "bytes": entry.data.byte_count}
        elif found.kind == "meter":
            rates = entry.config
            fields = {"cir": rates.cir, "cburst": rates.cburst, "pir": rates.pir, "pburst": rates.pburst}
            if rates.eburst:
                fields["eburst"] = rates.eburst
            value = fields if entry.HasField("config") else None
        else:
            schema = self._schema()
            kind = schema.named("register", found.name).type
            value = plain(value_of_data(entry.data, kind, schema.layouts, found.name))
        return Place(found.name, entry.index.index, value)

    # Action profiles

    def members(self, profile: str) -> dict[int, ir.ActionCall]:
        """Return the members of an action profile."""
        schema = self._schema()
        query = messages().Entity()
        query.action_profile_member.action_profile_id = schema.named("action profile", profile).id
        found = {}
        for entity in self._read_entities(query):
            member = entity.action_profile_member
            action = schema.action_of_id(member.action.action_id)
            call = ir.ActionCall(action.name, parameters_of_message(member.action, action))
            found[member.member_id] = call
        return found

    @within_fields
    def shown_members(self, profile: str) -> dict[int, dict[str, Any]]:
        """Return the members of an action profile as JSON has them: name, and parameters by their names."""
        schema = self._schema()
        calls = self.members(profile).items()
        return {number: call_json([schema.action_named(call.action)], call) for number, call in calls}

    @within_fields
    def set_member(
        self, profile: str, number: int, action: str, params: Mapping[str, Number] | None = None
    ) -> None:
        """Add a member, or give it another action."""
        schema = self._schema()
        update = messages().Update()
        member = update.entity.action_profile_member
        member.action_profile_id = schema.named("action profile", profile).id
        member.member_id = number
        chosen = schema.action(action)
        given = {parameter_of(chosen, name).name: value for name, value in (params or {}).items()}
        missing = [item.name for item in chosen.params if item.name not in given]
        if missing:
            raise UsageError(f"action {chosen.name}: no value for {', '.join(missing)}; write NAME=VALUE")
        values = [
            parse_value(given[item.name], item.width, f"action {chosen.name}: parameter {item.name}")
            for item in chosen.params
        ]
        fill_call(member.action, values, chosen)
        self._put(update)

    @within_fields
    def delete_member(self, profile: str, number: int) -> None:
        """Remove a member that nothing uses."""
        update = messages().Update(type=DELETE)
        member = update.entity.action_profile_member
        member.action_profile_id = self._schema().named("action profile", profile).id
        member.member_id = number
        self._write_update(update)

    def groups(self, profile: str) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return the groups of a selector, each as (member, weight)."""
        return {
            entry.group_id: tuple((item.member_id, item.weight) for item in entry.members)
            for entry in self._groups(profile)
        }

    def max_sizes(self, profile: str) -> dict[int, int]:
        """Return how large the groups of a selector may be, 0 where no limit was set."""
        return {entry.group_id: entry.max_size for entry in self._groups(profile)}

    def _groups(self, profile: str) -> list[Message]:
        query = messages().Entity()
        query.action_profile_group.action_profile_id = self._schema().named("action profile", profile).id
        return [entity.action_profile_group for entity in self._read_entities(query)]

    @within_fields
    def set_group(
        self, profile: str, number: int, members: Sequence[tuple[int, int]], max_size: int = 0
    ) -> None:
        """Make a group of (member, weight), or replace what it holds; `max_size` 0 sets no limit."""
        update = messages().Update()
        group = update.entity.action_profile_group
        group.action_profile_id = self._schema().named("action profile", profile).id
        group.group_id, group.max_size = number, max_size
        for member, weight in members:
            group.members.add(member_id=member, weight=weight)
        self._put(update)

    @within_fields
    def delete_group(self, profile: str, number: int) -> None:
        """Remove a group that no entry uses."""
        update = messages().Update(type=DELETE)
        group = update.entity.action_profile_group
        group.action_profile_id = self._schema().named("action profile", profile).id
        group.group_id = number
        self._write_update(update)

    # Value sets

    def value_set(self, name: str) -> list[tuple[Match, ...]]:
        """Return the members of a value set."""
        info = self._schema().named("value set", name)
        query = messages().Entity()
        query.value_set_entry.value_set_id = info.id
        keys = {key.id: (place, key) for place, key in enumerate(info.keys)}
        (entity,) = self._read_entities(query)
        members = entity.value_set_entry.members
        return [matches_of_fields(member.match, keys, f"value set {info.name}") for member in members]

    @within_fields
    def set_value_set(self, name: str, members: Sequence[Sequence[int | str | Match]]) -> None:
        """Give a value set its members, each with a match for every key, in order."""
        info = self._schema().named("value set", name)
        update = messages().Update(type=MODIFY)
        update.entity.value_set_entry.value_set_id = info.id
        for member in members:
            if len(member) != len(info.keys):
                raise UsageError(
                    f"value set {info.name} has {len(info.keys)} keys; {len(member)} values given"
                )
            found = [
                parse_match(value, key.match_kind, key.width, f"value set {info.name}: {key.name}")
                for value, key in zip(member, info.keys, strict=True)
            ]
            add_matches(update.entity.value_set_entry.members.add().match, found, info.keys)
        self._write_update(update)

    # Replication

    def multicast_groups(self) -> dict[int, tuple[Replica, ...]]:
        """Return the multicast groups."""
        query = messages().Entity()
        query.packet_replication_engine_entry.multicast_group_entry.SetInParent()
        entries = [
            entity.packet_replication_engine_entry.multicast_group_entry
            for entity in self._read_entities(query)
        ]
        return {entry.multicast_group_id: _replicas_of(entry.replicas) for entry in entries}

    @within_fields
    def set_multicast_group(self, number: int, replicas: Sequence[Replica]) -> None:
        """Make a multicast group, or replace its replicas."""
        update = messages().Update()
        entry = update.entity.packet_replication_engine_entry.multicast_group_entry
        entry.multicast_group_id = number
        _fill_replicas(entry.replicas, replicas)
        self._put(update)

    @within_fields
    def delete_multicast_group(self, number: int) -> None:
        """Remove a multicast group."""
        update = messages().Update(type=DELETE)
        update.entity.packet_replication_engine_entry.multicast_group_entry.multicast_group_id = number
        self._write_update(update)

    def clone_sessions(self) -> dict[int, CloneSession]:
        """Return the clone sessions."""
        query = messages().Entity()
        query.packet_replication_engine_entry.clone_session_entry.SetInParent()
        entries = [
            entity.packet_replication_engine_entry.clone_session_entry
            for entity in self._read_entities(query)
        ]
        return {
            entry.session_id: CloneSession(
                _replicas_of(entry.replicas), entry.packet_length_bytes, entry.class_of_service
            )
            for entry in entries
        }

    @within_fields
    def set_clone_session(self, number: int, session: CloneSession) -> None:
        """Make a clone session, or replace what it holds."""
        update = messages().Update()
        entry = update.entity.packet_replication_engine_entry.clone_session_entry
        entry.session_id, entry.packet_length_bytes = number, session.truncate_bytes
        entry.class_of_service = session.class_of_service
        _fill_replicas(entry.replicas, session.replicas)
        self._put(update)

    @within_fields
    def delete_clone_session(self, number: int) -> None:
        """Remove a clone session."""
        update = messages().Update(type=DELETE)
        update.entity.packet_replication_engine_entry.clone_session_entry.session_id = number
        self._write_update(update)

    def _put(self, update: Message) -> None:
        """Insert what an update holds, or modify it if it is there."""
        update.type = INSERT
        try:
            self._write_update(update)
        except ControlError as error:
            if error.code is not P4RuntimeCode.ALREADY_EXISTS:
                raise
            update.type = MODIFY
            self._write_update(update)


def _parsed(value: Number | Mapping[str, Number], kind: ir.Type, schema: Schema, what: str) -> Any:  # noqa: ANN401
    if isinstance(kind, ir.Bits | ir.Bool):
        if isinstance(value, Mapping):
            raise UsageError(f"{what} is {kind}; fields were given, a number was expected")
        if isinstance(kind, ir.Bits) and kind.signed:
            return parse_signed(value, kind.width, what)
        return parse_value(value, kind.width if isinstance(kind, ir.Bits) else 1, what, kind)
    if isinstance(kind, ir.String) and not isinstance(value, Mapping):
        return str(value)
    layout = schema.layouts.get("error" if kind == ir.ERROR else getattr(kind, "name", ""))
    if isinstance(layout, ir.EnumType):
        if not isinstance(value, Mapping):
            return _parsed_member(value, layout, what)
        layout = None
    if layout is None or not isinstance(value, Mapping):
        raise UsageError(f"{what} is {kind}; its fields were expected, as NAME=VALUE")
    parts = {part.name: part.type for part in layout.fields}
    unknown = [name for name in value if name not in parts]
    if unknown:
        raise UsageError(f"{what} has no field {unknown[0]}; it has {', '.join(parts)}")
    made = zero_of(kind, schema.layouts)
    fields = made if isinstance(made, dict) else made.fields
    for name, given in value.items():
        fields[name] = _parsed(given, parts[name], schema, f"{what}.{name}")
    if not isinstance(made, dict):
        made.valid = True
    return made


def _parsed_member(value: Number, listed: ir.EnumType, what: str) -> int:
    """Return the value of a member by its name, or a number that is one, in serializable enums any.

    Raises: UsageError for what is no member; ControlError for a number that does not fit.
    """
    names = [one.name for one in listed.members]
    if value in names:
        return member_value(str(value), listed, what)
    assert isinstance(listed.type, ir.Bits)
    if isinstance(value, str) and not value.strip().lstrip("-")[:1].isdigit():
        raise UsageError(f"{what} is {listed.name}, which has no {value!r}; it has {', '.join(names)}")
    if listed.type.signed:
        return parse_signed(value, listed.type.width, what)
    number = parse_value(str(value), listed.type.width, what)  # P4Info does not say whether it has a sign
    if not listed.serializable and number not in [one.value for one in listed.members]:
        raise UsageError(
            f"{what} is {listed.name}, of which {number} is no member; it has {', '.join(names)}"
        )
    return number


def _fill_replicas(given: Message, replicas: Sequence[Replica]) -> None:
    for replica in replicas:
        given.add(port=encode_bytes(replica.port), instance=replica.rid)


def _replicas_of(given: Sequence[Message]) -> tuple[Replica, ...]:
    return tuple(
        Replica(
            item.egress_port
            if item.WhichOneof("port_kind") == "egress_port"
            else int.from_bytes(item.port, "big"),
            item.instance,
        )
        for item in given
    )
