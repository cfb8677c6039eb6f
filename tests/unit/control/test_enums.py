# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "enum, serializable enum and error": what P4Info says of them, and their data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nicemu.control.data_message import fill_data, value_of_data
from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.control.messages import INSERT, MODIFY, Message, messages
from nicemu.control.object_client import _parsed
from nicemu.control.schema import Schema
from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.p4 import compile_text
from nicemu.pipeline import Program, ir, p4info_of, program_of_json, verify
from tests.unit.control.conftest import Controller

SOURCE = """
#include <core.p4>
#include <v1model.p4>
enum Colour { RED, GREEN, BLUE }
enum bit<8> Kind { GET = 1, PUT = 0x20 }
enum int<4> Sign { LESS = -1, MORE = 1 }
enum bit<4> Unused { NONE = 0 }
error { TooOdd }
header byte_t { Kind kind; }
struct headers_t { byte_t h; }
struct pair_t { Colour colour; Kind kind; error fault; }
struct learn_t { Colour colour; Kind kind; error fault; Sign sign; }
struct metadata_t { Colour colour; Sign sign; Unused unused; error fault; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<Colour>(4) colours;
    register<Kind>(4) kinds;
    register<error>(4) faults;
    register<pair_t>(4) pairs;
    action act(Kind kind) { h.h.kind = kind; }
    table t { key = { h.h.kind: exact; } actions = { act; NoAction; } }
    apply {
        t.apply();
        m.colour = Colour.BLUE;
        m.fault = error.TooOdd;
        colours.write(0, m.colour);
        kinds.write(0, h.h.kind);
        faults.write(0, m.fault);
        pairs.write(0, { m.colour, h.h.kind, m.fault });
        digest<learn_t>(1, { m.colour, h.h.kind, m.fault, Sign.LESS });
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_text(SOURCE).program


@pytest.fixture
def controller(program: Program) -> Controller:
    return Controller(program)


def test_enums_and_errors_that_data_have_stand_in_the_type_info(program: Program) -> None:
    message = info_message(p4info_of(program))
    info = message.type_info
    assert [item.name for item in info.enums["Colour"].members] == ["RED", "GREEN", "BLUE"]
    kinds = info.serializable_enums["Kind"]
    assert kinds.underlying_type.bitwidth == 8
    assert [(item.name, item.value) for item in kinds.members] == [("GET", b"\1"), ("PUT", b"\x20")]
    assert [item.value for item in info.serializable_enums["Sign"].members] == [b"\x0f", b"\1"]
    assert sorted([*info.enums, *info.serializable_enums]) == ["Colour", "Kind", "Sign"]
    assert list(info.error.members)[-1] == "TooOdd"
    specs = [register.type_spec for register in message.registers]
    forms = [spec.WhichOneof("type_spec") for spec in specs]
    assert forms == ["enum", "error", "serializable_enum", "struct"]
    assert (specs[0].enum.name, specs[2].serializable_enum.name) == ("Colour", "Kind")
    members = info.structs["pair_t"].members
    assert [member.type_spec.WhichOneof("type_spec") for member in members] == [
        "enum",
        "serializable_enum",
        "error",
    ]
    assert info_message(p4info_of_message(message)) == message
    assert program_of_json(program.to_json()) == program


def test_an_enum_among_the_keys_is_listed_and_is_a_number_there(program: Program) -> None:
    (table,) = info_message(p4info_of(program)).tables
    assert (table.match_fields[0].bitwidth, table.match_fields[0].type_name.name) == (8, "")


def read(controller: Controller, name: str, index: int = 0) -> Message:
    register = {"register_id": controller.id("register", name), "index": {"index": index}}
    return controller.read("register_entry", register)[0].data


def test_members_and_errors_are_read_by_name_and_serializable_ones_as_numbers(controller: Controller) -> None:
    digest = {"digest_id": controller.id("digest", "learn_t"), "config": {"max_list_size": 1}}
    assert controller.write(INSERT, "digest_entry", digest) is None
    controller.engine.process(b"\x20rest", 1)
    assert read(controller, "colours").enum == "BLUE"
    assert read(controller, "colours", 1).enum == "RED"
    assert read(controller, "kinds").enum_value == b"\x20"
    assert read(controller, "faults").error == "TooOdd"
    members = read(controller, "pairs").struct.members
    assert [members[0].enum, members[1].enum_value, members[2].error] == ["BLUE", b"\x20", "TooOdd"]
    controller.report()
    (message,) = controller.received()
    members = message.digest.data[0].struct.members
    assert [members[0].enum, members[1].enum_value, members[2].error] == ["BLUE", b"\x20", "TooOdd"]
    assert members[3].enum_value == b"\x0f"


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("colours", {"enum": "GREEN"}, 1),
        ("kinds", {"enum_value": b"\x77"}, 0x77),
        ("faults", {"error": "NoMatch"}, 2),
        (
            "pairs",
            {"struct": {"members": [{"enum": "RED"}, {"enum_value": b"\1"}, {"error": "NoError"}]}},
            {"colour": 0, "kind": 1, "fault": 0},
        ),
    ],
)
def test_what_is_written_is_held_and_read(
    controller: Controller, name: str, data: dict[str, object], value: object
) -> None:
    register = {"register_id": controller.id("register", name), "index": {"index": 1}}
    assert controller.write(MODIFY, "register_entry", {**register, "data": data}) is None
    assert controller.engine.objects.register(name).values == {1: value}
    assert read(controller, name, 1) == messages().P4Data(**data)


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("colours", {"enum": "PINK"}, P4RuntimeCode.INVALID_ARGUMENT),
        ("colours", {"bitstring": b"\1"}, P4RuntimeCode.INVALID_ARGUMENT),
        ("kinds", {"enum": "GET"}, P4RuntimeCode.INVALID_ARGUMENT),
        ("kinds", {"enum_value": b"\1\0"}, P4RuntimeCode.OUT_OF_RANGE),
        ("faults", {"error": "Nothing"}, P4RuntimeCode.INVALID_ARGUMENT),
    ],
)
def test_what_is_no_member_is_refused(
    controller: Controller, name: str, data: dict[str, object], code: P4RuntimeCode
) -> None:
    register = {"register_id": controller.id("register", name), "index": {"index": 1}, "data": data}
    error = controller.write(MODIFY, "register_entry", register)
    assert error is not None
    assert error.code is code


def test_a_client_names_members_or_gives_their_numbers(program: Program) -> None:
    schema = Schema(p4info_of_message(info_message(p4info_of(program))))
    assert [_parsed(value, ir.Named("Colour"), schema, "x") for value in ("GREEN", 2, "2")] == [1, 2, 2]
    assert _parsed("PUT", ir.Named("Kind"), schema, "x") == 0x20
    assert _parsed("TooOdd", ir.ERROR, schema, "x") == schema.p4info.errors.index("TooOdd")


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (ir.Named("Colour"), "PINK", "x is Colour, which has no 'PINK'; it has RED, GREEN, BLUE"),
        (ir.Named("Colour"), 7, "x is Colour, of which 7 is no member; it has RED, GREEN, BLUE"),
        (ir.ERROR, "Foo", "x is error, which has no 'Foo'; it has NoError, PacketTooShort"),
    ],
)
def test_a_client_is_told_what_members_there_are(
    program: Program, kind: ir.Type, value: int | str, sentence: str
) -> None:
    schema = Schema(p4info_of_message(info_message(p4info_of(program))))
    with pytest.raises(UsageError) as refused:
        _parsed(value, kind, schema, "x")
    assert str(refused.value).startswith(sentence)


def test_members_with_a_sign_stay_apart_on_the_way_to_a_server_and_back() -> None:
    """P4Info's SerializableEnum has a width alone, so values go as bit<W>."""
    text = SOURCE.replace("LESS = -1, MORE = 1", "LESS = -1, MORE = 7, LEAST = -8")
    p4info = p4info_of(compile_text(text).program)
    client, server = Schema(p4info_of_message(info_message(p4info))), Schema(p4info)
    for name, number in (("LESS", -1), ("MORE", 7), ("LEAST", -8)):
        given = _parsed(name, ir.Named("Sign"), client, "x")
        assert _parsed(number, ir.Named("Sign"), client, "x") == given
        data = messages().P4Data()
        fill_data(data, given, ir.Named("Sign"), client.layouts)
        assert value_of_data(data, ir.Named("Sign"), server.layouts, "x") == number
        fill_data(data, number, ir.Named("Sign"), server.layouts)
        assert value_of_data(data, ir.Named("Sign"), client.layouts, "x") == given


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (ir.EnumType("Kind", ir.Bits(8), (ir.EnumMember("A", 256),), True), "Kind.A is 256"),
        (
            ir.EnumType("Kind", ir.Bits(8), (ir.EnumMember("A", 1), ir.EnumMember("A", 2))),
            "A stands there twice",
        ),
        (ir.EnumType("Kind", ir.BOOL, ()), "Kind is of bool"),
        (ir.EnumType("Kind", ir.Bits(9), ()), "Kind is the name of a bit<8>"),
    ],
)
def test_a_program_whose_enums_mean_nothing_is_refused(
    program: Program, kind: ir.EnumType, sentence: str
) -> None:
    others = [item for item in program.enums if item.name != "Kind"]
    with pytest.raises(ControlError) as refused:
        verify(replace(program, enums=(*others, kind)))
    assert sentence in str(refused.value)
