# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "TableEntry", "Direct Resources", "Idle-timeout"."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from nicemu.control.messages import messages
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Disposition

Controller: TypeAlias = Any
"""The class of that name in conftest.py."""
INSERT, MODIFY, DELETE = 1, 2, 3
ROLLBACK = 1
INVALID, NOT_FOUND = P4RuntimeCode.INVALID_ARGUMENT, P4RuntimeCode.NOT_FOUND
RATES = {"cir": 1, "cburst": 1, "pir": 2, "pburst": 1}


def code(error: ControlError | None) -> P4RuntimeCode | None:
    return error.code if error else None


def test_an_optional_match_is_a_value_or_left_out(controller: Controller) -> None:
    assert controller.write(INSERT, "table_entry", controller.port(5, "send", 3)) is None
    assert controller.write(INSERT, "table_entry", controller.port(None, "send", 4)) is None
    one, any_value = controller.read("table_entry", {})
    assert one.match[0].optional.value == b"\5"
    assert not any_value.match
    assert [controller.frame(flow).port for flow in (5, 6)] == [3, 4]


def test_counters_start_where_the_insert_says_and_are_told_when_asked_for(controller: Controller) -> None:
    counter = {"packet_count": 5, "byte_count": 100}
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3, counter_data=counter))
    controller.frame(5)
    (silent,) = controller.read("table_entry", {})
    assert not silent.HasField("counter_data")
    (told,) = controller.read("table_entry", {"counter_data": {}})
    assert (told.counter_data.packet_count, told.counter_data.byte_count) == (6, 106)


def test_modify_keeps_the_count_unless_it_says_otherwise(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    controller.frame(5)
    controller.write(MODIFY, "table_entry", controller.port(5, "send", 4))
    (kept,) = controller.read("table_entry", {"counter_data": {}})
    assert kept.counter_data.packet_count == 1
    controller.write(MODIFY, "table_entry", controller.port(5, "send", 4, counter_data={}))
    (reset,) = controller.read("table_entry", {"counter_data": {}})
    assert reset.counter_data.packet_count == 0


def test_a_direct_counter_is_read_and_written_by_its_entry(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    entry = controller.port(5, None)
    data = {"packet_count": 7, "byte_count": 9}
    assert controller.write(MODIFY, "direct_counter_entry", {"table_entry": entry, "data": data}) is None
    assert controller.write(MODIFY, "direct_counter_entry", {"table_entry": entry}) is None
    (found,) = controller.read("direct_counter_entry", {"table_entry": entry})
    assert (found.data.packet_count, found.data.byte_count) == (7, 9)
    assert found.table_entry.match == entry.match
    assert len(controller.read("direct_counter_entry", {})) == 1
    for kind in (INSERT, DELETE):
        assert code(controller.write(kind, "direct_counter_entry", {"table_entry": entry})) is INVALID
    absent = controller.port(6, None)
    assert code(controller.write(MODIFY, "direct_counter_entry", {"table_entry": absent})) is NOT_FOUND
    with pytest.raises(ControlError, match="no entry"):
        controller.read("direct_counter_entry", {"table_entry": absent})


def test_a_meter_configuration_is_reset_by_a_modify_without_it(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3, meter_config=RATES))
    (found,) = controller.read("table_entry", {"meter_config": {}})
    assert (found.meter_config.cir, found.meter_config.pir) == (1, 2)
    controller.write(MODIFY, "table_entry", controller.port(5, "send", 3))
    (found,) = controller.read("table_entry", {"meter_config": {}})
    assert not found.HasField("meter_config")


def test_a_direct_meter_is_read_and_written_by_its_entry(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    entry = controller.port(5, None)
    assert controller.write(MODIFY, "direct_meter_entry", {"table_entry": entry, "config": RATES}) is None
    (found,) = controller.read("direct_meter_entry", {})
    assert found.config.cir == 1
    assert controller.write(MODIFY, "direct_meter_entry", {"table_entry": entry}) is None
    (found,) = controller.read("direct_meter_entry", {"table_entry": entry})
    assert not found.HasField("config")
    table = controller.id("table", "way")
    with pytest.raises(ControlError, match="has no direct meter"):
        controller.read("direct_meter_entry", {"table_entry": {"table_id": table}})


def test_a_direct_meter_counts_what_it_has_marked_in_each_colour(controller: Controller) -> None:
    rates = {"cir": 0, "cburst": 1, "pir": 0, "pburst": 2}
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3, meter_config=rates))
    for _ in range(4):
        controller.frame(5)
    entry = controller.port(5, None)
    (found,) = controller.read("table_entry", {"meter_counter_data": {}})
    parts = (found.meter_counter_data.green, found.meter_counter_data.yellow, found.meter_counter_data.red)
    assert [(part.packet_count, part.byte_count) for part in parts] == [(1, 6), (1, 6), (2, 12)]
    (direct,) = controller.read("direct_meter_entry", {"table_entry": entry, "counter_data": {}})
    assert direct.counter_data == found.meter_counter_data
    (silent,) = controller.read("direct_meter_entry", {"table_entry": entry})
    assert not silent.HasField("counter_data")
    update = {"table_entry": entry, "config": rates, "counter_data": {"red": {}}}
    batch = [(MODIFY, "direct_meter_entry", update), (DELETE, "table_entry", controller.port(6, None))]
    assert all(controller.write_all(*batch, atomicity=1))
    (kept,) = controller.read("table_entry", {"meter_counter_data": {}})
    assert kept.meter_counter_data == found.meter_counter_data
    assert controller.write(MODIFY, "direct_meter_entry", update) is None
    (kept,) = controller.read("table_entry", {"meter_counter_data": {}})
    assert kept.meter_counter_data.red.packet_count == 0


def test_colours_are_set_to_zero_and_to_nothing_else(controller: Controller) -> None:
    one = {"yellow": {"packet_count": 1}}
    inserted = controller.port(5, "send", 3, meter_counter_data=one)
    assert code(controller.write(INSERT, "table_entry", inserted)) is INVALID
    fresh = controller.port(5, "send", 3, meter_config={"pir": 0}, meter_counter_data={"red": {}})
    assert controller.write(INSERT, "table_entry", fresh) is None
    controller.frame(5)
    (marked,) = controller.read("table_entry", {"meter_counter_data": {}})
    assert marked.meter_counter_data.red.packet_count == 1
    entry = controller.port(5, None)
    update = {"table_entry": entry, "config": {"pir": 0}, "counter_data": one}
    assert code(controller.write(MODIFY, "direct_meter_entry", update)) is INVALID
    assert code(controller.write(MODIFY, "table_entry", inserted)) is INVALID
    assert controller.write(MODIFY, "table_entry", fresh) is None
    (reset,) = controller.read("table_entry", {"meter_counter_data": {}})
    assert reset.meter_counter_data.red.packet_count == 0


@pytest.mark.parametrize("wrong", [{"cir": -1}, {"cir": 3, "pir": 2}, {"eburst": 1}])
def test_rates_that_mean_nothing_are_refused(controller: Controller, wrong: dict[str, int]) -> None:
    assert code(controller.write(INSERT, "table_entry", controller.port(5, meter_config=wrong))) is INVALID


def test_the_time_since_the_last_hit_is_told_when_asked_for(controller: Controller) -> None:
    controller.engine.tick(1_000)
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3, idle_timeout_ns=500))
    controller.engine.tick(1_300)
    (entry,) = controller.read("table_entry", {"time_since_last_hit": {}})
    assert (entry.time_since_last_hit.elapsed_ns, entry.idle_timeout_ns) == (300, 500)
    controller.frame(5, now_ns=1_400)
    (entry,) = controller.read("table_entry", {"time_since_last_hit": {}})
    assert entry.time_since_last_hit.elapsed_ns == 0
    (entry,) = controller.read("table_entry", {})
    assert not entry.HasField("time_since_last_hit")
    with pytest.raises(ControlError, match="has no idle timeout"):
        controller.read("table_entry", {"table_id": controller.id("table", "way"), "time_since_last_hit": {}})


def test_an_idle_entry_is_told_of_once_a_timeout_until_it_is_hit_again(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3, idle_timeout_ns=500))

    def told_at(now_ns: int) -> int:
        controller.engine.tick(now_ns)
        controller.report(now_ns * 1_000_000_000)
        return len(controller.received())

    assert [told_at(now_ns) for now_ns in (499, 500, 999, 1_000)] == [0, 1, 0, 1]
    controller.frame(5, now_ns=1_100)
    assert [told_at(now_ns) for now_ns in (1_500, 1_600, 1_700)] == [0, 1, 0]


def test_an_idle_timeout_notification_names_the_entry_with_its_metadata(controller: Controller) -> None:
    notes = {"idle_timeout_ns": 500, "controller_metadata": 3, "metadata": b"mine"}
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3, **notes))
    controller.engine.tick(600)
    controller.report(7)
    (message,) = controller.received()
    notification = message.idle_timeout_notification
    expected = controller.port(5, None, **notes)
    assert (notification.timestamp, list(notification.table_entry)) == (7, [expected])


def test_an_idle_timeout_below_zero_and_one_of_a_default_entry_are_refused(controller: Controller) -> None:
    assert code(controller.write(INSERT, "table_entry", controller.port(5, idle_timeout_ns=-1))) is INVALID
    default = {"table_id": controller.id("table", "port"), "is_default_action": True, "idle_timeout_ns": 5}
    assert code(controller.write(MODIFY, "table_entry", default)) is INVALID


def test_of_all_direct_counters_those_that_tables_declare_are_told(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    shared = {
        "table_id": controller.id("table", "shared"),
        "match": [{"field_id": 1, "exact": {"value": b"\1"}}],
    }
    member = {"action_profile_id": controller.id("action profile", "profile"), "member_id": 1}
    controller.write(INSERT, "action_profile_member", member | {"action": controller.action("send", 1)})
    entry = shared | {"action": {"action_profile_member_id": 1}}
    assert controller.write(INSERT, "table_entry", entry) is None
    found = controller.read("direct_counter_entry", {})
    assert [item.table_entry.table_id for item in found] == [controller.id("table", "port")]
    assert len(controller.read("direct_counter_entry", {"table_entry": shared})) == 1


def test_a_default_entry_is_read_by_is_default_action(controller: Controller) -> None:
    found = controller.read("table_entry", {"is_default_action": True})
    assert [entry.is_default_action for entry in found] == [True, True, True]
    assert controller.frame(9).disposition is Disposition.DROP


@pytest.mark.parametrize(
    "asked",
    [
        {"priority": 1},
        {"match": [{"field_id": 1, "optional": {"value": b"\1"}}]},
        {"idle_timeout_ns": 5},
        {"time_since_last_hit": {}},
    ],
)
def test_a_default_entry_is_not_asked_for_with_what_it_has_not(
    controller: Controller, asked: dict[str, object]
) -> None:
    default = {"table_id": controller.id("table", "port"), "is_default_action": True}
    with pytest.raises(ControlError, match="the default entry has n") as refused:
        controller.read("table_entry", default | asked)
    assert refused.value.code is INVALID


def test_an_idle_timeout_is_not_asked_for_where_there_is_none(controller: Controller) -> None:
    both: list[dict[str, Any]] = [{"idle_timeout_ns": 5}, {"time_since_last_hit": {}}]
    for asked in both:
        with pytest.raises(ControlError, match="has no idle timeout") as refused:
            controller.read("table_entry", {"table_id": controller.id("table", "way"), **asked})
        assert refused.value.code is INVALID


def test_a_deletion_looks_at_the_key_alone_and_at_is_const(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    constant = controller.port(5, None, is_const=True)
    assert code(controller.write(DELETE, "table_entry", constant)) is INVALID
    gone = controller.port(5, None, idle_timeout_ns=-1, metadata=bytes(999))
    gone.action.action.action_id = 9
    assert controller.write(DELETE, "table_entry", gone) is None


def test_a_default_entry_keeps_the_metadata_of_its_writer_until_it_is_reset(controller: Controller) -> None:
    default = {"table_id": controller.id("table", "port"), "is_default_action": True}
    notes = {"controller_metadata": 7, "metadata": b"ours"}
    chosen = {**default, "action": {"action": controller.action("send", 3)}}
    assert controller.write(MODIFY, "table_entry", {**chosen, **notes}) is None
    assert controller.read("table_entry", default) == [messages().TableEntry(**chosen, **notes)]
    failing = (DELETE, "table_entry", controller.port(1, None))
    controller.write_all((MODIFY, "table_entry", chosen), failing, atomicity=ROLLBACK)
    assert controller.read("table_entry", default)[0].metadata == b"ours"
    assert controller.write(MODIFY, "table_entry", default) is None
    (reset,) = controller.read("table_entry", default)
    assert (reset.controller_metadata, reset.metadata) == (0, b"")


def default_entry(controller: Controller, **rest: object) -> dict[str, object]:
    return {"table_id": controller.id("table", "port"), "is_default_action": True, **rest}


def test_the_default_entry_is_like_any_other_as_to_direct_resources(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    for flow in (5, 6, 7):
        controller.frame(flow)
    (told,) = controller.read("table_entry", default_entry(controller, counter_data={}))
    assert (told.counter_data.packet_count, told.counter_data.byte_count) == (2, 12)
    entry, data = default_entry(controller), {"packet_count": 7, "byte_count": 9}
    assert controller.write(MODIFY, "direct_counter_entry", {"table_entry": entry, "data": data}) is None
    controller.frame(8)
    (counted,) = controller.read("direct_counter_entry", {"table_entry": entry})
    assert counted.table_entry == messages().TableEntry(**entry)
    assert (counted.data.packet_count, counted.data.byte_count) == (8, 15)
    assert controller.write(MODIFY, "direct_meter_entry", {"table_entry": entry, "config": RATES}) is None
    (metered,) = controller.read("direct_meter_entry", {"table_entry": entry, "counter_data": {}})
    assert (metered.config.cir, metered.config.pir) == (1, 2)
    for _ in range(3):
        controller.frame(8)
    (metered,) = controller.read("direct_meter_entry", {"table_entry": entry, "counter_data": {}})
    colours = metered.counter_data
    assert (colours.green.packet_count, colours.red.packet_count) == (4, 2)


def test_direct_resources_of_default_entries_are_told_only_when_asked_for(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    for form in ("direct_counter_entry", "direct_meter_entry"):
        assert len(controller.read(form, {})) == 1
        (told,) = controller.read(form, {"table_entry": {"is_default_action": True}})
        assert told.table_entry.is_default_action


def test_a_default_entry_that_is_reset_loses_its_meter_and_keeps_its_count(controller: Controller) -> None:
    action = {"action": controller.action("send", 3)}
    counter = {"packet_count": 5, "byte_count": 100}
    chosen = default_entry(controller, action=action, meter_config=RATES, counter_data=counter)
    assert controller.write(MODIFY, "table_entry", chosen) is None
    assert controller.frame(1).port == 3
    asked = default_entry(controller, counter_data={}, meter_config={})
    (told,) = controller.read("table_entry", asked)
    assert (told.counter_data.packet_count, told.meter_config.cir) == (6, 1)
    before = controller.state()
    failing = (DELETE, "table_entry", controller.port(1, None))
    controller.write_all((MODIFY, "table_entry", default_entry(controller)), failing, atomicity=ROLLBACK)
    assert controller.state() == before
    assert controller.write(MODIFY, "table_entry", default_entry(controller)) is None
    (told,) = controller.read("table_entry", asked)
    assert (told.counter_data.packet_count, told.HasField("meter_config")) == (6, False)
    assert controller.frame(1).disposition is Disposition.DROP


@pytest.mark.parametrize("form", ["direct_counter_entry", "direct_meter_entry"])
def test_a_direct_resource_of_a_default_entry_is_modified_and_named_by_the_table_alone(
    controller: Controller, form: str
) -> None:
    entry = default_entry(controller)
    assert code(controller.write(DELETE, form, {"table_entry": entry})) is INVALID
    match = [{"field_id": 1, "optional": {"value": b"\1"}}]
    assert code(controller.write(MODIFY, form, {"table_entry": {**entry, "match": match}})) is INVALID


@pytest.mark.parametrize("is_default", [False, True])
def test_a_count_beyond_what_a_message_holds_is_told_as_the_largest(
    controller: Controller, is_default: bool
) -> None:
    most = (1 << 63) - 1
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    entry = default_entry(controller) if is_default else controller.port(5, None)
    data = {"packet_count": most, "byte_count": most}
    assert controller.write(MODIFY, "direct_counter_entry", {"table_entry": entry, "data": data}) is None
    controller.frame(6 if is_default else 5)
    (found,) = controller.read("direct_counter_entry", {"table_entry": entry})
    assert (found.data.packet_count, found.data.byte_count) == (most, most)
