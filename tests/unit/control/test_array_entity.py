# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "CounterEntry", "MeterEntry", "RegisterEntry"."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from nicemu.control import array_entity
from nicemu.errors import ControlError, P4RuntimeCode

Controller: TypeAlias = Any
"""The class of that name in conftest.py."""
INSERT, MODIFY, DELETE = 1, 2, 3
INVALID, OUT_OF_RANGE = P4RuntimeCode.INVALID_ARGUMENT, P4RuntimeCode.OUT_OF_RANGE
RATES = {"cir": 100, "cburst": 10, "pir": 200, "pburst": 12}


def code(error: ControlError | None) -> P4RuntimeCode | None:
    return error.code if error else None


def entry(
    controller: Controller, noun: str, name: str, index: int | None = None, **rest: object
) -> dict[str, object]:
    place = {} if index is None else {"index": {"index": index}}
    return {f"{noun}_id": controller.id(noun, name), **place, **rest}


def counts(controller: Controller, index: int | None = None) -> list[tuple[int, int, int]]:
    found = controller.read("counter_entry", entry(controller, "counter", "flows", index))
    return [(item.index.index, item.data.packet_count, item.data.byte_count) for item in found]


def test_a_counter_is_read_at_an_index_or_everywhere(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    controller.frame(5)
    assert counts(controller, 5) == [(5, 1, 6)]
    assert counts(controller) == [(place, *((1, 6) if place == 5 else (0, 0))) for place in range(8)]
    assert len(controller.read("counter_entry", {})) == 8


def test_a_counter_is_written_at_an_index_or_everywhere(controller: Controller) -> None:
    one = entry(controller, "counter", "flows", 5, data={"packet_count": 7, "byte_count": 8})
    assert controller.write(MODIFY, "counter_entry", one) is None
    assert counts(controller, 5) == [(5, 7, 8)]
    every = entry(controller, "counter", "flows", data={"packet_count": 2})
    assert controller.write(MODIFY, "counter_entry", every) is None
    assert set(counts(controller)) == {(place, 2, 0) for place in range(8)}
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    controller.frame(5)
    assert counts(controller, 5) == [(5, 3, 6)]
    assert controller.write(MODIFY, "counter_entry", entry(controller, "counter", "flows", 5)) is None
    assert counts(controller, 5) == [(5, 3, 6)]


@pytest.mark.parametrize(("noun", "name"), [("counter", "flows"), ("meter", "rates"), ("register", "last")])
def test_places_are_only_modified_and_only_where_they_are(
    controller: Controller, noun: str, name: str
) -> None:
    form, data = f"{noun}_entry", {"data": {"bitstring": b"\1"}} if noun == "register" else {}

    def refused(kind: int, index: int) -> P4RuntimeCode | None:
        return code(controller.write(kind, form, entry(controller, noun, name, index, **data)))

    assert [refused(kind, 0) for kind in (INSERT, DELETE)] == [INVALID, INVALID]
    assert [refused(MODIFY, index) for index in (-1, 16, 0)] == [INVALID, OUT_OF_RANGE, None]
    assert code(controller.write(MODIFY, form, {f"{noun}_id": 5, **data})) is P4RuntimeCode.NOT_FOUND
    with pytest.raises(ControlError, match="set the id too"):
        controller.read(form, {"index": {"index": 1}})


def test_a_meter_is_configured_read_back_and_colours(controller: Controller) -> None:
    one = entry(controller, "meter", "rates", 5, config=RATES)
    assert controller.write(MODIFY, "meter_entry", one) is None
    found = controller.read("meter_entry", entry(controller, "meter", "rates"))
    assert [item.index.index for item in found if item.HasField("config")] == [5]
    assert (found[5].config.cir, found[5].config.pburst) == (100, 12)
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    marks = []
    for _ in range(3):
        controller.frame(5)
        (last,) = controller.read("register_entry", entry(controller, "register", "last", 5))
        marks.append(last.data.bitstring)
    assert marks == [b"\0", b"\1", b"\2"]


def test_all_meters_are_configured_at_once_and_reset(controller: Controller) -> None:
    controller.write(MODIFY, "meter_entry", entry(controller, "meter", "rates", config=RATES))
    assert all(item.HasField("config") for item in controller.read("meter_entry", {}))
    controller.write(MODIFY, "meter_entry", entry(controller, "meter", "rates"))
    assert not any(item.HasField("config") for item in controller.read("meter_entry", {}))


def test_a_meter_counts_what_it_has_marked_in_each_colour(controller: Controller) -> None:
    one = entry(controller, "meter", "rates", 5, counter_data={})

    def counted() -> list[int]:
        (found,) = controller.read("meter_entry", one)
        parts = (found.counter_data.green, found.counter_data.yellow, found.counter_data.red)
        assert [part.byte_count for part in parts] == [6 * part.packet_count for part in parts]
        return [part.packet_count for part in parts]

    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    controller.frame(5)
    assert counted() == [1, 0, 0], "what is not configured is green"
    controller.write(MODIFY, "meter_entry", entry(controller, "meter", "rates", 5, config=RATES))
    for _ in range(3):
        controller.frame(5)
    assert counted() == [2, 1, 1]
    (silent,) = controller.read("meter_entry", entry(controller, "meter", "rates", 5))
    assert not silent.HasField("counter_data")
    given = {"green": {"packet_count": 7, "byte_count": 42}}
    assert controller.write(MODIFY, "meter_entry", one | {"config": RATES, "counter_data": given}) is None
    assert counted() == [7, 0, 0]
    negative = one | {"counter_data": {"red": {"packet_count": -1}}}
    assert code(controller.write(MODIFY, "meter_entry", negative)) is INVALID
    everywhere = entry(controller, "meter", "rates", counter_data=given)
    assert code(controller.write(MODIFY, "meter_entry", everywhere)) is INVALID


def test_a_register_is_written_and_read(controller: Controller) -> None:
    one = entry(controller, "register", "last", 3, data={"bitstring": b"\x0a\xbc"})
    assert controller.write(MODIFY, "register_entry", one) is None
    every = entry(controller, "register", "last")
    values = [item.data.bitstring for item in controller.read("register_entry", every)]
    assert values == [b"\0"] * 3 + [b"\x0a\xbc"] + [b"\0"] * 12
    assert controller.write(MODIFY, "register_entry", every | {"data": {"bitstring": b"\7"}}) is None
    assert {item.data.bitstring for item in controller.read("register_entry", every)} == {b"\7"}


def test_a_register_of_structs_shows_what_packets_wrote(controller: Controller) -> None:
    controller.write(INSERT, "table_entry", controller.port(5, "send", 3))
    controller.frame(5)
    first, second = controller.read("register_entry", entry(controller, "register", "pairs"))[:2]
    assert [member.WhichOneof("data") for member in first.data.struct.members] == ["bitstring", "bool"]
    assert (first.data.struct.members[0].bitstring, first.data.struct.members[1].bool) == (b"\7", True)
    assert (second.data.struct.members[0].bitstring, second.data.struct.members[1].bool) == (b"\0", False)


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("last", {}, INVALID),
        ("last", {"bool": True}, INVALID),
        ("last", {"bitstring": b"\x10\0"}, OUT_OF_RANGE),
        ("last", {"bitstring": b""}, OUT_OF_RANGE),
        ("pairs", {"struct": {"members": [{"bitstring": b"\1"}]}}, INVALID),
        ("pairs", {"struct": {"members": [{"bitstring": b"\1"}, {"bitstring": b"\1"}]}}, INVALID),
        ("pairs", {"tuple": {"members": [{"bitstring": b"\1"}, {"bool": True}]}}, INVALID),
    ],
)
def test_data_of_another_form_is_refused(
    controller: Controller, name: str, data: dict[str, object], expected: P4RuntimeCode
) -> None:
    assert code(
        controller.write(MODIFY, "register_entry", entry(controller, "register", name, 0, data=data))
    ) is (expected)


def test_no_read_returns_more_places_than_a_server_can_send(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_entity, "MAX_PLACES_READ", 10)
    with pytest.raises(ControlError, match="have 20 places; 10 can be read at once") as refused:
        controller.read("register_entry", {})
    assert refused.value.code is P4RuntimeCode.RESOURCE_EXHAUSTED
    assert len(controller.read("counter_entry", {})) == 8
