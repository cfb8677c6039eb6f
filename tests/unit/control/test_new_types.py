# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "User-defined types": what P4Info says of types that a program made with `type`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.control.messages import Message
from nicemu.control.p4info_difference import difference
from nicemu.errors import ControlError
from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import Engine, Exact, Optional, Program, TableEntry, ir, program_of_json, verify
from nicemu.programs import programs_root

SOURCE = """
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("", string) type bit<9> text_port_t;
@p4runtime_translation("nicemu/port", bit<32>) type bit<9> port_t;
@p4runtime_translation("nicemu/narrow", 4) type bit<16> narrow_t;
type bit<8> tag_t;
type tag_t inner_t;
@controller_header("packet_in") header in_t { narrow_t n; }
header byte_t { tag_t value; bit<8> x; }
struct headers_t { byte_t h; }
struct learn_t { port_t port; inner_t tag; }
struct metadata_t { text_port_t text; narrow_t narrow; port_t port; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    value_set<tag_t>(4) known;
    state start { b.extract(h.h); transition select(h.h.value) { known: accept; default: accept; } }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<port_t, port_t>(16) seen;
    counter<port_t>(16, CounterType.packets) counted;
    action send(text_port_t text, port_t port, tag_t tag) { s.egress_spec = (bit<9>) port; }
    table t {
        key = { m.text: exact; m.port: exact; h.h.value: exact; h.h.x: exact; }
        actions = { send; NoAction; }
    }
    apply {
        t.apply();
        digest<learn_t>(1, { m.port, (inner_t) h.h.value });
        counted.count(m.port);
        seen.write(m.port, m.port);
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { in_t i; apply { b.emit(i); b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_text(SOURCE).program


@pytest.fixture(scope="module")
def message() -> Message:
    return info_message(compile_text(SOURCE).p4info)


def test_fields_have_the_name_of_their_type_and_the_width_of_the_controller(message: Message) -> None:
    (table,) = message.tables
    fields = [(field.bitwidth, field.type_name.name) for field in table.match_fields]
    assert fields == [(0, "text_port_t"), (32, "port_t"), (8, "tag_t"), (8, "")]
    (send,) = [action for action in message.actions if action.preamble.alias == "send"]
    params = [(param.bitwidth, param.type_name.name) for param in send.params]
    assert params == [(0, "text_port_t"), (32, "port_t"), (8, "tag_t")]
    (header,) = message.controller_packet_metadata
    assert [(field.bitwidth, field.type_name.name) for field in header.metadata] == [(4, "narrow_t")]


def test_arrays_and_digests_have_the_name_of_a_type(message: Message) -> None:
    (register,), (counter,) = message.registers, message.counters
    assert register.type_spec.new_type.name == "port_t"
    assert (register.index_type_name.name, counter.index_type_name.name) == ("port_t", "port_t")
    members = message.type_info.structs["learn_t"].members
    assert [member.type_spec.new_type.name for member in members] == ["port_t", "inner_t"]


def test_a_new_type_is_translated_or_shows_the_type_that_it_comes_down_to(message: Message) -> None:
    types = message.type_info.new_types
    assert sorted(types) == ["inner_t", "narrow_t", "port_t", "tag_t", "text_port_t"]
    assert types["text_port_t"].translated_type.HasField("sdn_string")
    assert types["port_t"].translated_type.uri == "nicemu/port"
    assert types["port_t"].translated_type.sdn_bitwidth == 32
    assert types["narrow_t"].translated_type.sdn_bitwidth == 4
    assert types["inner_t"].original_type.bitstring.bit.bitwidth == 8


def test_a_program_belongs_to_its_own_message(program: Program, message: Message) -> None:
    own = compile_text(SOURCE).p4info
    given = p4info_of_message(message)
    assert difference(given, own) is None
    assert info_message(given) == message
    assert program_of_json(program.to_json()) == program


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (ir.NewType("port_t", ir.Bits(8)), "port_t is the name of a bit<9>"),
        (ir.NewType("port_t", ir.Bits(9, signed=True), True, "", 32), "where it is translated bit<N>"),
        (ir.NewType("port_t", ir.Named("learn_t")), "a number, where it is translated"),
        (ir.NewType("port_t", ir.Bits(9), True, "", -1), "has -1 bits"),
        (ir.NewType("other_t", ir.Bits(9)), "port_t is the name of a bit<9>, which the program"),
    ],
)
def test_a_program_whose_types_do_not_agree_is_refused(
    program: Program, new: ir.NewType, sentence: str
) -> None:
    others = [item for item in program.new_types if item.name != "port_t"]
    with pytest.raises(ControlError) as refused:
        verify(replace(program, new_types=(*others, new)))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("declaration", "sentence"),
    [
        ("@p4runtime_translation type bit<9> x_t;", "needs a URI and a type"),
        ("@p4runtime_translation(uri, 32) type bit<9> x_t;", "needs a URI and a type"),
        ('@p4runtime_translation("u") type bit<9> x_t;', "needs a URI and a type"),
        ('@p4runtime_translation("u", bool) type bit<9> x_t;', "needs a URI and a type"),
        ('@p4runtime_translation("u", 0) type bit<9> x_t;', "needs a URI and a type"),
        ('@p4runtime_translation("u", 32) type int<9> x_t;', "int<9> cannot be translated"),
        ('@p4runtime_translation("u", 32) type bool x_t;', "bool cannot be translated"),
        (
            '@p4runtime_translation("u", 32) @p4runtime_translation("u", 32) type bit<9> x_t;',
            "stands here twice",
        ),
    ],
)
def test_a_translation_that_means_nothing_is_refused(declaration: str, sentence: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_text(f"#include <core.p4>\n{declaration}\n")
    assert sentence in str(refused.value)


def test_a_v1model_of_the_program_may_make_its_ports_a_new_type(tmp_path: Path) -> None:
    shipped = (programs_root() / "p4" / "include" / "v1model.p4").read_text()
    named = shipped.replace(
        "typedef bit<9> PortId_t;", '@p4runtime_translation("", string) type bit<9> PortId_t;'
    )
    (tmp_path / "v1model.p4").write_text(named)
    key = "key = { m.text: exact;"
    changed = SOURCE.replace(key, f"{key} s.ingress_port: optional;").replace("= (bit<9>) port", "= 3")
    compiled = compile_text(changed, include_paths=[tmp_path])
    (table,) = info_message(compiled.p4info).tables
    assert [field.type_name.name for field in table.match_fields][:2] == ["text_port_t", "PortId_t"]
    engine = Engine()
    engine.load(program_of_json(compiled.program.to_json()))
    engine.insert(
        "t", TableEntry((Exact(0), Optional(None), Exact(0), Exact(5), Exact(6)), "send", (0, 0, 0), 1)
    )
    assert engine.process(b"\5\6", ingress_port=7).port == 3


def test_a_translation_of_what_is_no_new_type_has_no_effect() -> None:
    changed = SOURCE.replace("struct learn_t", '@p4runtime_translation("u", 32) struct learn_t')
    assert compile_text(changed).program == compile_text(SOURCE).program
