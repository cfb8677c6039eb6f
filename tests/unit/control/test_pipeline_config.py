# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from nicemu.control.info_message import info_message
from nicemu.control.messages import Message, messages
from nicemu.control.pipeline_config import PipelineConfig
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, Exact, Lpm, Program, TableEntry, p4info_of, program_of_json

VERIFY, SAVE, COMMIT_NEW, COMMIT, RECONCILE = 1, 2, 3, 4, 5
ALL, COOKIE, P4INFO, DEVICE_CONFIG = 0, 1, 2, 3
ROUTE = TableEntry((Lpm(0x0A000000, 8),), "R.send", (3,))


def request(action: int, program: Program | None = None, cookie: int | None = None) -> Message:
    message = messages().SetForwardingPipelineConfigRequest(action=action)
    if program is not None:
        message.config.p4_device_config = program.to_json().encode()
        message.config.p4info.CopyFrom(info_message(p4info_of(program)))
    if cookie is not None:
        message.config.cookie.cookie = cookie
    return message


def code_of_refusal(config: PipelineConfig, message: Message) -> P4RuntimeCode:
    with pytest.raises(ControlError) as refused:
        config.set(message)
    return refused.value.code


def test_verify_changes_nothing(engine: Engine, routing: Program, wider_routing: Program) -> None:
    PipelineConfig(engine).set(request(VERIFY, wider_routing))
    assert engine.program is routing


def test_verify_and_commit_runs_the_program_without_the_old_entries(
    engine: Engine, wider_routing: Program
) -> None:
    engine.insert("R.route", ROUTE)
    config = PipelineConfig(engine)
    config.set(request(COMMIT_NEW, wider_routing))
    assert engine.program == wider_routing
    assert engine.read("R.route") == []


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"{}", b"[" * 100_000, b'{"name": 5}'])
@pytest.mark.parametrize("action", [VERIFY, SAVE, COMMIT_NEW, RECONCILE])
def test_a_program_at_fault_leaves_the_old_one_and_its_entries(
    engine: Engine, routing: Program, action: int, text: bytes
) -> None:
    engine.insert("R.route", ROUTE)
    config = PipelineConfig(engine)
    message = messages().SetForwardingPipelineConfigRequest(action=action, config={"p4_device_config": text})
    assert code_of_refusal(config, message) is P4RuntimeCode.INVALID_ARGUMENT
    assert engine.program is routing
    assert engine.read("R.route") == [ROUTE]
    assert config.target is engine


def test_a_p4info_of_another_program_is_refused(engine: Engine, routing: Program) -> None:
    message = request(COMMIT_NEW, routing)
    message.config.p4info.tables[0].preamble.id = 33554433
    with pytest.raises(ControlError, match=r"does not belong to this program: table R\.acl has id 33554433"):
        PipelineConfig(engine).set(message)


def test_what_a_config_holds_is_the_readers_business(engine: Engine, wider_routing: Program) -> None:
    config = PipelineConfig(
        engine, lambda text, p4info: wider_routing if text == b"wider" else program_of_json(text)
    )
    given = {"p4_device_config": b"wider"}
    config.set(messages().SetForwardingPipelineConfigRequest(action=COMMIT_NEW, config=given))
    assert engine.program == wider_routing
    assert config.get(DEVICE_CONFIG).config.p4_device_config == b"wider"


def test_an_action_that_is_none_is_refused(engine: Engine, routing: Program) -> None:
    for action in (0, 6, -1):
        with pytest.raises(ControlError, match="VERIFY_AND_SAVE"):
            PipelineConfig(engine).set(request(action, routing))


def test_commit_needs_something_saved_and_no_config(engine: Engine, routing: Program) -> None:
    config = PipelineConfig(engine)
    assert code_of_refusal(config, request(COMMIT)) is P4RuntimeCode.NOT_FOUND
    assert code_of_refusal(config, request(COMMIT, routing)) is P4RuntimeCode.INVALID_ARGUMENT


def test_what_is_written_between_save_and_commit_comes_into_force_with_commit(
    engine: Engine, routing: Program, wider_routing: Program
) -> None:
    engine.insert("R.session", TableEntry((Exact(1), Exact(1)), "R.send", (1,)))
    config = PipelineConfig(engine)
    config.set(request(SAVE, wider_routing, cookie=5))
    config.target.run(lambda staged: staged.insert("R.route", ROUTE))
    config.target.run(lambda staged: staged.set_default("R.acl", "R.send", (7,)))
    assert engine.program is routing
    assert engine.read("R.route") == []
    assert config.program() == wider_routing
    config.set(request(COMMIT))
    assert engine.program == wider_routing
    assert engine.read("R.route") == [ROUTE]
    assert engine.read("R.session") == []
    assert {info.name: info.default_parameters for info in engine.tables()}["R.acl"] == (7,)
    assert config.target is engine
    assert config.get(COOKIE).config.cookie.cookie == 5
    assert code_of_refusal(config, request(COMMIT)) is P4RuntimeCode.NOT_FOUND


def test_reconcile_and_commit_keeps_the_entries(engine: Engine, wider_routing: Program) -> None:
    engine.insert("R.route", ROUTE)
    engine.set_default("R.route", "R.send", (5,))
    PipelineConfig(engine).set(request(RECONCILE, wider_routing))
    assert engine.program == wider_routing
    assert engine.read("R.route") == [ROUTE]
    assert {info.name: info.default_parameters for info in engine.tables()}["R.route"] == (5,)


def test_reconcile_is_refused_where_an_entry_does_not_fit(engine: Engine, routing: Program) -> None:
    for number in (1, 2):
        engine.insert("R.session", TableEntry((Exact(number), Exact(6)), "R.send", (1,)))
    tables = tuple(replace(item, size=1) if item.name == "R.session" else item for item in routing.tables)
    smaller = replace(routing, tables=tables)
    with pytest.raises(
        ControlError, match=r"does not fit the new program: table R\.session is full"
    ) as refused:
        PipelineConfig(engine).set(request(RECONCILE, smaller))
    assert refused.value.code is P4RuntimeCode.INVALID_ARGUMENT
    assert engine.program is routing
    assert len(engine.read("R.session")) == 2


def test_reconcile_may_drop_a_table_that_is_empty_but_no_other(engine: Engine, routing: Program) -> None:
    kept = tuple(item for item in routing.tables if item.name != "R.route")
    body = tuple(item for item in routing.controls[0].body if getattr(item, "table", "") != "R.route")
    without = replace(
        routing, tables=kept, controls=(replace(routing.control("control"), body=body), routing.controls[1])
    )
    PipelineConfig(engine).set(request(RECONCILE, without))
    assert engine.program == without
    engine.load(routing)
    engine.insert("R.route", ROUTE)
    assert (
        code_of_refusal(PipelineConfig(engine), request(RECONCILE, without)) is P4RuntimeCode.INVALID_ARGUMENT
    )


def test_without_a_program_get_returns_no_config() -> None:
    assert not PipelineConfig(Engine()).get(ALL).HasField("config")


def test_get_returns_what_was_asked_for_as_it_was_set(routing: Program) -> None:
    config = PipelineConfig(Engine())
    given = request(COMMIT_NEW, routing, cookie=0)
    given.config.p4_device_config = routing.to_json(indent=1).encode()
    config.set(given)
    assert config.get(ALL).config == given.config
    assert not config.get(COOKIE).config.HasField("p4info")
    assert config.get(COOKIE).config.HasField("cookie")
    assert config.get(P4INFO).config.p4info == given.config.p4info
    assert config.get(P4INFO).config.p4_device_config == b""
    assert config.get(DEVICE_CONFIG).config.p4_device_config == given.config.p4_device_config
    with pytest.raises(ControlError, match="response_type is 4"):
        config.get(4)


@pytest.mark.parametrize("head", [b"\x08\x01\x1a", b"\x1a", b"\x12"])
def test_a_program_may_be_wrapped_as_old_controllers_for_bmv2_do(routing: Program, head: bytes) -> None:
    """As p4.tmp.P4DeviceConfig: with `reassign`, or `device_data` alone as field 3 or, later, 2."""
    config = PipelineConfig(Engine())
    given = request(COMMIT_NEW, routing)
    text = given.config.p4_device_config
    length = bytes([len(text) & 0x7F | 0x80, len(text) >> 7 & 0x7F | 0x80, len(text) >> 14])
    given.config.p4_device_config = head + length + text
    config.set(given)
    assert config.target.program == routing
    assert config.get(ALL).config == given.config


@pytest.mark.parametrize("spoilt", [b"\x08\x01", b"\x1a\x7f{}", b"\x12\x00", b"\x1a\x02[]", b"\x08"])
def test_what_is_wrapped_in_part_is_refused(routing: Program, spoilt: bytes) -> None:
    config = PipelineConfig(Engine())
    given = request(COMMIT_NEW, routing)
    given.config.p4_device_config = spoilt
    with pytest.raises(ControlError, match="program IR"):
        config.set(given)


def test_a_program_that_came_another_way_is_described_without_cookie(
    engine: Engine, routing: Program
) -> None:
    config = PipelineConfig(engine)
    config.set(request(COMMIT_NEW, routing, cookie=5))
    engine.load(routing)
    found = config.get(ALL).config
    assert not found.HasField("cookie")
    assert program_of_json(found.p4_device_config) == routing
    assert found.p4info == info_message(p4info_of(routing))


def test_a_config_without_p4info_gets_the_program_s_own(routing: Program) -> None:
    config = PipelineConfig(Engine())
    message = request(COMMIT_NEW, routing)
    message.config.ClearField("p4info")
    config.set(message)
    assert config.get(P4INFO).config.p4info == info_message(p4info_of(routing))


@pytest.mark.parametrize(
    ("needed", "fits"),
    [
        ({"multicast_group_table_size": 1000, "multicast_group_table_max_replicas_per_entry": 64}, True),
        ({"multicast_group_table_size": 1 << 16}, False),
        ({"multicast_group_table_max_replicas_per_entry": 4097}, False),
        ({"multicast_group_table_total_replicas": 1 << 20}, False),
        ({"multicast_group_table_total_replicas": -1}, False),
    ],
)
def test_a_program_that_needs_more_than_the_switch_has_is_refused(
    engine: Engine, wider_routing: Program, needed: dict[str, int], fits: bool
) -> None:
    message = request(VERIFY, wider_routing)
    properties = message.config.p4info.pkg_info.platform_properties
    for name, number in needed.items():
        setattr(properties, name, number)
    config = PipelineConfig(engine)
    if fits:
        config.set(message)
    else:
        assert code_of_refusal(config, message) is P4RuntimeCode.INVALID_ARGUMENT


NO_WIDTH = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; varbit<0> v; }
struct headers_t { h_t h; }
struct metadata_t { bit<0> none; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h, 0); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def test_a_program_with_values_of_no_width_is_taken_as_it_was_sent(engine: Engine) -> None:
    program = compile_text(NO_WIDTH).program
    PipelineConfig(engine).set(request(COMMIT_NEW, program))
    assert engine.program == program
