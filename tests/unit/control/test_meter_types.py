# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "Meter & DirectMeter", "MeterEntry & DirectMeterEntry": meters of one rate, and of two."""

from __future__ import annotations

import pytest

from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.p4 import compile_text
from nicemu.pipeline import Program, p4info_of
from tests.unit.control.conftest import INSERT, MODIFY, Controller

SOURCE = """
#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> value; }
struct headers_t { byte_t h; }
struct metadata_t { bit<2> colour; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    meter(4, MeterType.packets) plain;
    @two_rate_three_color meter(4, MeterType.bytes) two_rates;
    @single_rate_three_color meter(4, MeterType.packets) one_rate;
    @single_rate_two_color direct_meter<bit<2>>(MeterType.packets) of_entry;
    action note() { of_entry.read(m.colour); }
    table t { key = { h.h.value: exact; } actions = { note; NoAction; } meters = of_entry; }
    apply {
        one_rate.execute_meter((bit<32>) 0, m.colour);
        h.h.value = (bit<8>) m.colour;
        t.apply();
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
INVALID = P4RuntimeCode.INVALID_ARGUMENT
TWO_RATES = {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4}
ONE_RATE = {"cir": 1, "cburst": 2, "pir": 1, "pburst": 2}


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_text(SOURCE).program


@pytest.fixture
def controller(program: Program) -> Controller:
    return Controller(program)


def code(error: ControlError | None) -> P4RuntimeCode | None:
    return error.code if error else None


def test_p4info_says_of_which_type_a_meter_is(program: Program) -> None:
    info = info_message(p4info_of(program))
    types = {meter.preamble.alias: meter.spec.type for meter in (*info.meters, *info.direct_meters)}
    assert types == {"plain": 0, "two_rates": 0, "one_rate": 1, "of_entry": 2}
    assert info_message(p4info_of_message(info)) == info


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("plain", [TWO_RATES, ONE_RATE], [ONE_RATE | {"eburst": 1}]),
        ("one_rate", [ONE_RATE, ONE_RATE | {"eburst": 7}], [TWO_RATES, ONE_RATE | {"eburst": -1}]),
    ],
)
def test_a_meter_takes_rates_of_its_type(
    controller: Controller, name: str, taken: list[dict[str, int]], refused: list[dict[str, int]]
) -> None:
    place = {"meter_id": controller.id("meter", name), "index": {"index": 1}}
    for config in taken:
        assert controller.write(MODIFY, "meter_entry", place | {"config": config}) is None
        (found,) = controller.read("meter_entry", place)
        assert {field.name: value for field, value in found.config.ListFields()} == config
    for config in refused:
        assert code(controller.write(MODIFY, "meter_entry", place | {"config": config})) is INVALID


def test_a_direct_meter_takes_rates_of_its_type(controller: Controller) -> None:
    match = [{"field_id": 1, "exact": {"value": b"\1"}}]
    entry = {"table_id": controller.id("table", "t"), "match": match}
    action = {"action": {"action": controller.action("note")}}
    for config in (TWO_RATES, ONE_RATE | {"eburst": 1}):
        written = entry | action | {"meter_config": config}
        assert code(controller.write(INSERT, "table_entry", written)) is INVALID
    assert controller.write(INSERT, "table_entry", entry | action | {"meter_config": ONE_RATE}) is None
    update = {"table_entry": entry, "config": TWO_RATES}
    assert code(controller.write(MODIFY, "direct_meter_entry", update)) is INVALID


def test_a_meter_of_one_rate_marks_by_its_excess_burst(controller: Controller) -> None:
    config = {"cir": 0, "cburst": 2, "pir": 0, "pburst": 2, "eburst": 1}
    place = {"meter_id": controller.id("meter", "one_rate"), "index": {"index": 0}}
    assert controller.write(MODIFY, "meter_entry", place | {"config": config}) is None
    assert [controller.frame(9).frame[0] for _ in range(4)] == [0, 0, 1, 2]
