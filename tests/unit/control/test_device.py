# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from nicemu.control.device import Device
from nicemu.control.messages import Message, messages
from nicemu.control.schema import Schema
from nicemu.control.stream import Session, uint128
from nicemu.control.table_entity import MAX_METADATA_BYTES
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Engine, Exact, Lpm, Table, TableEntry

INSERT, MODIFY, DELETE = 1, 2, 3
NOT_FOUND, INVALID, DENIED = (
    P4RuntimeCode.NOT_FOUND,
    P4RuntimeCode.INVALID_ARGUMENT,
    P4RuntimeCode.PERMISSION_DENIED,
)
Change: TypeAlias = tuple[int, Message]


@pytest.fixture
def device(engine: Engine) -> Device:
    """A device whose primary has election id 9."""
    device = Device(1, engine)
    device.announce(
        Session(), messages().StreamMessageRequest(arbitration={"election_id": {"low": 9}}).arbitration
    )
    return device


@pytest.fixture
def entry(schema: Schema) -> Callable[..., Message]:
    """Return a function that makes a TableEntry message of table, matches, action and its port."""

    def make(
        table: str, *match: dict[str, object], action: str | None = "send", port: int = 3, **rest: object
    ) -> Message:
        found = schema.table(table)
        fields = [{"field_id": index, **field} for index, field in enumerate(match, start=1)]
        message = messages().TableEntry(table_id=found.id, match=fields, **rest)
        if action is not None:
            message.action.action.action_id = found.action(action).id
            if action == "send":
                message.action.action.params.add(param_id=1, value=bytes([port]))
        return message

    return make


def write(device: Device, *changes: Change, election_id: int = 9) -> list[P4RuntimeCode | None]:
    request = messages().WriteRequest(election_id=uint128(election_id))
    for kind, message in changes:
        request.updates.add(type=kind).entity.table_entry.CopyFrom(message)
    return [error.code if error else None for error in device.write(request)]


def refusal(device: Device, kind: int, message: Message) -> ControlError:
    request = messages().WriteRequest(election_id=uint128(9))
    request.updates.add(type=kind).entity.table_entry.CopyFrom(message)
    (error,) = device.write(request)
    assert error is not None
    return error


def read(device: Device, query: Message) -> list[Message]:
    request = messages().ReadRequest()
    request.entities.add().table_entry.CopyFrom(query)
    entities, outcomes = device.read(request)
    assert outcomes == [None]
    return [entity.table_entry for entity in entities]


def prefix(value: bytes, length: int) -> dict[str, object]:
    return {"lpm": {"value": value, "prefix_len": length}}


def exact(value: int) -> dict[str, object]:
    return {"exact": {"value": bytes([value])}}


def test_insert_modify_and_delete_change_the_pipeline(
    device: Device, engine: Engine, entry: Callable[..., Message]
) -> None:
    ten = prefix(b"\x0a\0\0\0", 8)
    assert write(device, (INSERT, entry("route", ten))) == [None]
    assert engine.read("R.route") == [TableEntry((Lpm(0x0A000000, 8),), "R.send", (3,))]
    assert write(device, (MODIFY, entry("route", ten, port=4))) == [None]
    assert engine.read("R.route") == [TableEntry((Lpm(0x0A000000, 8),), "R.send", (4,))]
    assert write(device, (DELETE, entry("route", ten, action=None))) == [None]
    assert engine.read("R.route") == []


def test_a_batch_is_tried_to_its_end_and_reports_in_order(
    device: Device, engine: Engine, entry: Callable[..., Message]
) -> None:
    one, two, three = (entry("session", exact(number), exact(6)) for number in (1, 2, 3))
    codes = write(
        device, (INSERT, one), (INSERT, one), (INSERT, two), (INSERT, three), (DELETE, three), (DELETE, one)
    )
    full, twice = P4RuntimeCode.RESOURCE_EXHAUSTED, P4RuntimeCode.ALREADY_EXISTS
    assert codes == [None, twice, None, full, NOT_FOUND, None]
    assert [item.matches for item in engine.read("R.session")] == [(Exact(2), Exact(6))]


def test_who_is_not_primary_may_not_write(
    device: Device, engine: Engine, entry: Callable[..., Message]
) -> None:
    with pytest.raises(ControlError, match="election id 8 is not the primary of the default role") as refused:
        write(device, (INSERT, entry("route")), election_id=8)
    assert refused.value.code is DENIED
    assert engine.read("R.route") == []


def test_an_atomicity_that_is_none_is_refused(device: Device) -> None:
    with pytest.raises(ControlError, match="atomicity 3") as refused:
        device.write(messages().WriteRequest(election_id=uint128(9), atomicity=3))
    assert refused.value.code is INVALID


def test_without_a_program_there_is_nothing_to_write_or_read() -> None:
    device = Device(1, Engine())
    device.announce(Session(), messages().StreamMessageRequest(arbitration={"election_id": {}}).arbitration)
    for attempt in (lambda: write(device, election_id=0), lambda: read(device, messages().TableEntry())):
        with pytest.raises(ControlError, match="SetForwardingPipelineConfig comes first") as refused:
            attempt()
        assert refused.value.code is P4RuntimeCode.FAILED_PRECONDITION


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"meter_config": {"cir": 1}}, "has no direct meter"),
        ({"time_since_last_hit": {}}, "time_since_last_hit cannot be written"),
        ({"counter_data": {"packet_count": -1}}, "a count is not negative"),
        ({"idle_timeout_ns": 5}, "has no idle timeout"),
        ({"is_const": True}, "is_const is for the program to say"),
        ({"metadata": bytes(MAX_METADATA_BYTES + 1)}, "257 bytes; 256 are allowed"),
        ({"priority": 5}, "priority 5"),
    ],
)
def test_what_a_table_does_not_have_cannot_be_written(
    device: Device, engine: Engine, entry: Callable[..., Message], fields: dict[str, object], sentence: str
) -> None:
    error = refusal(device, INSERT, entry("route", **fields))
    assert error.code is INVALID
    assert sentence in str(error)
    assert engine.read("R.route") == []


def test_ternary_entries_need_a_priority(device: Device, entry: Callable[..., Message]) -> None:
    assert write(device, (INSERT, entry("acl"))) == [INVALID]
    assert write(device, (INSERT, entry("acl", priority=1))) == [None]


def test_const_entries_stay(device: Device, engine: Engine, entry: Callable[..., Message]) -> None:
    before = engine.read("R.fixed")
    for kind in (INSERT, MODIFY, DELETE):
        assert write(device, (kind, entry("fixed", exact(6)))) == [DENIED]
    assert engine.read("R.fixed") == before


def test_of_a_const_entry_the_direct_resources_alone_are_written(
    engine: Engine, device: Device, entry: Callable[..., Message]
) -> None:
    before = engine.read("R.fixed")
    counted = entry("fixed", exact(6), action=None, counter_data={"packet_count": 7})
    assert write(device, (MODIFY, counted)) == [None]
    assert engine.table("R.fixed").rows()[0].hits == 7
    noted = entry("fixed", exact(6), action=None, metadata=b"note")
    absent = entry("fixed", exact(7), action=None, counter_data={})
    assert write(device, (MODIFY, noted), (MODIFY, absent)) == [DENIED, P4RuntimeCode.NOT_FOUND]
    assert engine.read("R.fixed") == before


def test_a_table_without_keys_has_only_its_default_entry(
    device: Device, entry: Callable[..., Message]
) -> None:
    assert "has no keys" in str(refusal(device, INSERT, entry("always")))
    assert write(device, (MODIFY, entry("always", is_default_action=True))) == [None]


def test_modify_without_an_action_only_asks_whether_the_entry_is_there(
    device: Device, engine: Engine, entry: Callable[..., Message]
) -> None:
    ten = prefix(b"\x0a\0\0\0", 8)
    assert write(device, (MODIFY, entry("route", ten, action=None))) == [NOT_FOUND]
    write(device, (INSERT, entry("route", ten)))
    assert write(device, (MODIFY, entry("route", ten, action=None))) == [None]
    assert engine.read("R.route")[0].action == "R.send"
    assert write(device, (INSERT, entry("route", action=None))) == [INVALID]


def test_the_default_entry_is_modified_and_reset(
    device: Device, engine: Engine, entry: Callable[..., Message]
) -> None:
    def default() -> tuple[str, tuple[int, ...]]:
        info = next(info for info in engine.tables() if info.name == "R.route")
        return info.default_action, info.default_parameters

    assert write(device, (MODIFY, entry("route", is_default_action=True))) == [None]
    assert default() == ("R.send", (3,))
    (shown,) = read(device, entry("route", action=None, is_default_action=True))
    assert shown == entry("route", is_default_action=True)
    assert write(device, (MODIFY, entry("route", action=None, is_default_action=True))) == [None]
    assert default() == ("R.drop", ())


def test_the_default_entry_is_neither_inserted_nor_deleted_nor_matched(
    device: Device, entry: Callable[..., Message]
) -> None:
    default = entry("route", is_default_action=True)
    assert write(device, (INSERT, default), (DELETE, default)) == [INVALID, INVALID]
    assert write(device, (MODIFY, entry("route", prefix(b"\1", 32), is_default_action=True))) == [INVALID]
    assert write(device, (MODIFY, entry("fixed", is_default_action=True))) == [DENIED]


def test_a_wildcard_read_returns_every_entry_as_it_was_written(
    device: Device, entry: Callable[..., Message]
) -> None:
    written = [
        entry("acl", priority=2),
        entry(
            "acl",
            {"ternary": {"value": b"\1", "mask": b"\1"}},
            {"range": {"low": b"\0", "high": b"\1"}},
            priority=2,
        ),
        entry("route", prefix(b"\x0a\0\0\0", 8), metadata=b"mine", controller_metadata=7),
        entry("session", exact(0), exact(6)),
    ]
    assert write(device, *[(INSERT, message) for message in written]) == [None] * 4
    found = read(device, messages().TableEntry())
    assert [message for message in found if not message.is_const] == written
    assert [message.action.action.params[0].value for message in found if message.is_const] == [b"\3"]


def test_a_read_is_narrowed_by_table_match_action_priority_and_metadata(
    device: Device, entry: Callable[..., Message]
) -> None:
    eight, nine = (
        entry("route", prefix(b"\x0a\0\0\0", 8)),
        entry("route", prefix(b"\x0a\0\0\0", 9), action="drop", metadata=b"x"),
    )
    high = entry("acl", priority=9)
    write(device, (INSERT, eight), (INSERT, nine), (INSERT, high), (INSERT, entry("acl", priority=8)))
    assert read(device, entry("route", action=None)) == [eight, nine]
    assert read(device, entry("route", prefix(b"\x0a\0\0\0", 9), action=None)) == [nine]
    assert read(device, entry("route", action="drop")) == [nine]
    assert read(device, entry("route", action=None, metadata=b"x")) == [nine]
    assert read(device, entry("route", action=None, controller_metadata=5)) == []
    assert read(device, entry("acl", action=None, priority=9)) == [high]
    assert read(device, entry("session", exact(1), exact(1), action=None)) == []


@pytest.mark.parametrize(
    "filters", [{"priority": 3}, {"metadata": b"x"}, {"controller_metadata": 1}, {"match": [{"field_id": 1}]}]
)
def test_a_read_of_all_tables_has_no_other_filter(device: Device, filters: dict[str, Any]) -> None:
    request = messages().ReadRequest()
    request.entities.add().table_entry.CopyFrom(messages().TableEntry(**filters))
    _, outcomes = device.read(request)
    assert [error.code for error in outcomes if error] == [INVALID]


def test_metadata_goes_with_its_entry(device: Device, entry: Callable[..., Message]) -> None:
    plain, marked = entry("route"), entry("route", metadata=b"x")
    write(device, (INSERT, marked), (DELETE, plain), (INSERT, plain))
    assert read(device, entry("route", action=None)) == [plain]
    write(device, (MODIFY, marked))
    assert read(device, entry("route", action=None)) == [marked]


def test_hits_are_told_when_asked_for(device: Device, engine: Engine, entry: Callable[..., Message]) -> None:
    write(device, (INSERT, entry("route", prefix(b"\x0a\0\0\0", 8))))
    frame = bytes([10, 0, 0, 1]) + bytes(4 + 1 + 2 + 6)
    for _ in range(3):
        engine.process(frame, 0)
    (message,) = read(device, entry("route", action=None, counter_data={}))
    assert message.counter_data.packet_count == 3
    (silent,) = read(device, entry("route", action=None))
    assert not silent.HasField("counter_data")
    request = messages().ReadRequest()
    request.entities.add().direct_counter_entry.table_entry.table_id = message.table_id
    (entity,), _ = device.read(request)
    assert entity.direct_counter_entry.data.packet_count == 3
    assert entity.direct_counter_entry.table_entry.match == message.match


def test_one_bad_part_of_a_read_does_not_hide_the_others(
    device: Device, entry: Callable[..., Message]
) -> None:
    request = messages().ReadRequest()
    request.entities.add().table_entry.table_id = 5
    request.entities.add().register_entry.register_id = 1
    request.entities.add()
    request.entities.add().table_entry.CopyFrom(entry("fixed", action=None))
    request.entities.add().table_entry.CopyFrom(messages().TableEntry(match=[{"field_id": 1}]))
    entities, outcomes = device.read(request)
    codes = [error.code if error else None for error in outcomes]
    assert codes == [NOT_FOUND, NOT_FOUND, INVALID, None, INVALID]
    assert len(list(entities)) == 1


def test_updates_without_type_entity_or_known_table_are_refused(device: Device) -> None:
    request = messages().WriteRequest(election_id=uint128(9))
    request.updates.add()
    request.updates.add(type=1)
    request.updates.add(type=1).entity.extern_entry.extern_id = 1
    request.updates.add(type=1).entity.table_entry.table_id = 5
    codes = [error.code if error else None for error in device.write(request)]
    assert codes == [INVALID, INVALID, P4RuntimeCode.UNIMPLEMENTED, NOT_FOUND]


class BrokenEngine(Engine):
    def table(self, name: str) -> Table:
        if name == "R.route":
            raise ZeroDivisionError
        return super().table(name)


def test_a_fault_of_the_target_is_an_internal_error_of_one_update(
    routing_engine_of: Callable[[Engine], Engine], entry: Callable[..., Message]
) -> None:
    device = Device(1, routing_engine_of(BrokenEngine()))
    device.announce(
        Session(), messages().StreamMessageRequest(arbitration={"election_id": {"low": 9}}).arbitration
    )
    assert write(device, (INSERT, entry("route")), (DELETE, entry("acl", priority=1))) == [
        P4RuntimeCode.INTERNAL,
        NOT_FOUND,
    ]


def test_a_role_with_a_config_is_refused(device: Device) -> None:
    update = messages().StreamMessageRequest(arbitration={"role": {"config": {"type_url": "x"}}}).arbitration
    with pytest.raises(ControlError, match=r"role\.config is set") as refused:
        device.announce(Session(), update)
    assert refused.value.code is INVALID


def test_a_session_that_has_left_is_heard_no_more(engine: Engine) -> None:
    device, session = Device(1, engine), Session()
    device.leave(session)
    device.announce(
        session, messages().StreamMessageRequest(arbitration={"election_id": {"low": 9}}).arbitration
    )
    with pytest.raises(ControlError, match="open a StreamChannel"):
        write(device)


def test_a_role_is_told_again_as_its_client_has_named_it(device: Device) -> None:
    roles: list[dict[str, object]] = [{"id": 5}, {"name": "5"}, {"name": "stats", "id": 7}]
    for election_id, role in enumerate(roles, start=1):
        session = Session()
        claim = {"role": role, "election_id": {"low": election_id}}
        update = messages().StreamMessageRequest(arbitration=claim).arbitration
        device.announce(session, update)
        session.finish()
        (told,) = session.outgoing()
        assert told.arbitration.role == update.role
