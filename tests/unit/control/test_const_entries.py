# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "Preinitialized tables": entries of which some are const, and stay."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from nicemu.control.messages import Message, messages
from nicemu.control.stream import uint128
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.p4 import compile_text
from nicemu.pipeline import Program, program_of_json

Controller: TypeAlias = Any
"""The class of that name in conftest.py."""
INSERT, MODIFY, DELETE, RECONCILE = 1, 2, 3, 5
DENIED = P4RuntimeCode.PERMISSION_DENIED
TEXT = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> colour; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<8>>(MeterType.packets) rate;
    action send(bit<9> port) { rate.read(m.colour); hits.count(); s.egress_spec = port; }
    table t {
        key = { h.h.a: exact; }
        actions = { send; @defaultonly NoAction; }
        entries = { const 1: send(1); 2: send(2); }
        counters = hits;
        meters = rate;
    }
    apply { t.apply(); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_text(TEXT).program


@pytest.fixture
def preset(controller: Controller, program: Program) -> Controller:
    made: Controller = type(controller)(program_of_json(program.to_json()))
    return made


def entry(preset: Controller, value: int, port: int | None = None, **rest: object) -> Message:
    match = [{"field_id": 1, "exact": {"value": bytes([value])}}]
    action = {} if port is None else {"action": {"action": preset.action("send", port)}}
    return messages().TableEntry(table_id=preset.id("table", "t"), match=match, **action, **rest)


def code(error: ControlError | None) -> P4RuntimeCode | None:
    return error.code if error else None


def values(preset: Controller) -> list[tuple[int, bool]]:
    found = preset.read("table_entry", {})
    return [(item.match[0].exact.value[0], item.is_const) for item in found]


def reconcile(preset: Controller, program: Program) -> None:
    request = messages().SetForwardingPipelineConfigRequest(action=RECONCILE, election_id=uint128(9))
    request.config.p4_device_config = program.to_json().encode()
    preset.device.set_config(request)


def test_an_entry_that_is_const_is_neither_modified_nor_deleted(preset: Controller) -> None:
    assert code(preset.write(MODIFY, "table_entry", entry(preset, 1, 3))) is DENIED
    assert code(preset.write(MODIFY, "table_entry", entry(preset, 1, 1))) is DENIED
    assert code(preset.write(DELETE, "table_entry", entry(preset, 1))) is DENIED
    assert preset.engine.process(b"\1", 0).port == 1


def test_the_counter_of_an_entry_that_is_const_may_be_written(preset: Controller) -> None:
    assert preset.write(MODIFY, "table_entry", entry(preset, 1, counter_data={"packet_count": 4})) is None
    assert preset.engine.table("I.t").rows()[0].hits == 4


def test_entries_beside_one_that_is_const_come_and_go(preset: Controller) -> None:
    assert values(preset) == [(1, True), (2, False)]
    assert preset.write(MODIFY, "table_entry", entry(preset, 2, 3)) is None
    assert preset.write(DELETE, "table_entry", entry(preset, 2)) is None
    assert preset.write(INSERT, "table_entry", entry(preset, 7, 3)) is None
    assert values(preset) == [(1, True), (7, False)]


def test_an_entry_that_is_const_is_the_new_program_s_when_it_takes_over(
    preset: Controller, program: Program
) -> None:
    preset.write(DELETE, "table_entry", entry(preset, 2))
    preset.write(INSERT, "table_entry", entry(preset, 7, 3))
    reconcile(preset, program)
    assert values(preset) == [(1, True), (7, False)]


RATES = {"cir": 1, "cburst": 1, "pir": 1, "pburst": 1}


def test_an_entry_that_is_const_goes_on_counting_and_marking(preset: Controller, program: Program) -> None:
    changed = entry(preset, 1, counter_data={"packet_count": 40}, meter_config=RATES)
    assert preset.write(MODIFY, "table_entry", changed) is None
    for _ in range(3):
        preset.engine.process(b"\1", 0)
    reconcile(preset, program)
    preset.engine.process(b"\1", 0)
    (row, _) = preset.engine.table("I.t").rows()
    assert row.hits == 44
    assert [packets for packets, _ in row.colours] == [1, 0, 3]


def test_the_meter_of_an_entry_that_is_const_goes_with_it_unless_it_is_configured(
    preset: Controller,
) -> None:
    other = compile_text(TEXT.replace("const 1: send(1); ", "")).program
    reconcile(preset, other)
    assert values(preset) == [(2, False)]
    again = compile_text(TEXT).program
    reconcile(preset, again)
    assert preset.write(MODIFY, "table_entry", entry(preset, 1, meter_config=RATES)) is None
    before = preset.read("table_entry", {})
    with pytest.raises(ControlError, match=r"meter of a const entry of table I\.t, which is configured"):
        reconcile(preset, other)
    assert preset.read("table_entry", {}) == before
