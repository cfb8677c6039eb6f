# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "P4Info Objects": what a program shows, under the names and ids that p4c gives."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import P4Info, Prefix, ir, p4info_of

SWITCH = """
#include <core.p4>
#include <v1model.p4>
@controller_header("packet_in") header packet_in_header_t { bit<9> ingress_port; bit<7> unused; }
@controller_header("packet_out") header packet_out_header_t { bit<9> egress_port; bit<7> unused; }
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct metadata_t { }
struct mac_learn_digest_t { bit<48> mac; bit<9> port; }
struct pair_t { bit<8> count; bool seen; }
parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t m) { apply { } }
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    @id(0x77) register<pair_t>(4) pairs;
    register<bit<12>>(16) last;
    counter(8, CounterType.bytes) flows;
    meter(9, MeterType.packets) rates;
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<2>>(MeterType.bytes) marks;
    action_selector(HashAlgorithm.crc16, 32, 16) ways;
    action_profile(4) profile;
    bit<2> colour;
    action learn() { marks.read(colour); digest<mac_learn_digest_t>(1, { 1, s.ingress_port }); }
    table t {
        key = { hdr.h.a: optional; } actions = { learn; NoAction; } counters = hits; meters = marks;
        support_timeout = true; const default_action = learn();
    }
    table u { key = { hdr.h.a: exact; hdr.h.b: selector; } actions = { NoAction; } implementation = ways; }
    table v { key = { hdr.h.a: exact; } actions = { NoAction; } implementation = profile; }
    apply { t.apply(); u.apply(); v.apply(); }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout metadata_t m) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def info() -> P4Info:
    return compile_text(SWITCH).p4info


def test_ids_chosen_by_the_program_and_scopes_are_kept(hand: SimpleNamespace) -> None:
    refs = (ir.ActionRef("C.send", table_only=True), ir.ActionRef("C.drop", default_only=True))
    info = p4info_of(hand.program(tables=(hand.table(actions=refs, id=0x77, const_default=True),)))
    table = info.tables[0]
    assert table.id == 0x02000077
    assert [ref.scope for ref in table.actions] == ["table_only", "default_only"]
    assert table.const_default_action_id == table.actions[1].id


def test_action_data_alone_is_shown_to_the_controller(hand: SimpleNamespace) -> None:
    program = hand.program()
    send = program.actions[0]
    bound = replace(send, parameters=(replace(send.parameters[0], direction=ir.Direction.IN),))
    actions = (bound, *program.actions[1:])
    assert p4info_of(replace(program, actions=actions)).actions[1].params == ()


def test_digests_and_headers_of_the_controller_have_the_ids_of_their_types(info: P4Info) -> None:
    """The three ids stand in P4Infos that p4c has made for types of these names."""
    assert [(item.name, item.id) for item in info.digests] == [("mac_learn_digest_t", 402184575)]
    assert [(item.name, item.id) for item in info.packet_metadata] == [
        ("packet_in", 81826293),
        ("packet_out", 76689799),
    ]
    assert [(part.id, part.width) for part in info.packet_metadata[0].metadata] == [(1, 9), (2, 7)]


def test_the_controllers_headers_are_kept_though_nothing_holds_them(info: P4Info) -> None:
    names = {header.name for header in compile_text(SWITCH).program.headers}
    assert names == {"h_t", "packet_in_header_t", "packet_out_header_t"}


def test_a_table_refers_to_what_belongs_to_it(info: P4Info) -> None:
    tables = {table.alias: table for table in info.tables}
    (hits,), (marks,) = info.direct_counters, info.direct_meters
    assert tables["t"].direct_resource_ids == (hits.id, marks.id)
    assert (hits.table_id, hits.unit, marks.table_id, marks.unit) == (
        tables["t"].id,
        "packets",
        tables["t"].id,
        "bytes",
    )
    assert tables["t"].idle_timeout
    assert tables["t"].keys[0].match_kind == "optional"
    assert tables["t"].const_default_action_id == next(
        item.id for item in info.actions if item.alias == "learn"
    )
    profiles = {profile.id: profile for profile in info.profiles}
    selector = profiles[tables["u"].implementation_id]
    assert (selector.with_selector, selector.size, selector.table_ids) == (True, 32, (tables["u"].id,))
    assert (profiles[tables["v"].implementation_id].with_selector, len(tables["u"].keys)) == (False, 1)


def test_arrays_show_their_sizes_units_and_types(info: P4Info) -> None:
    assert [(item.name, item.unit, item.size) for item in info.counters] == [("I.flows", "bytes", 8)]
    assert [(item.name, item.unit, item.size) for item in info.meters] == [("I.rates", "packets", 9)]
    last, pairs = info.registers
    assert (last.size, last.type, pairs.size, pairs.type) == (16, ir.Bits(12), 4, ir.Named("pair_t"))
    assert [layout.name for layout in info.types] == ["mac_learn_digest_t", "pair_t"]


def test_every_kind_has_ids_of_its_own_prefix(info: P4Info) -> None:
    assert info.registers[1].id == Prefix.REGISTER << 24 | 0x77
    kinds = {
        Prefix.COUNTER: info.counters,
        Prefix.METER: info.meters,
        Prefix.DIRECT_COUNTER: info.direct_counters,
        Prefix.DIRECT_METER: info.direct_meters,
        Prefix.ACTION_PROFILE: info.profiles,
    }
    for prefix, items in kinds.items():
        assert {item.id >> 24 for item in items} == {int(prefix)}


def test_tables_of_the_nics_architecture_count_without_a_declaration(hand: SimpleNamespace) -> None:
    info = p4info_of(hand.program())
    (counter,) = info.direct_counters
    assert (counter.name, counter.unit, counter.table_id) == ("C.forward", "both", info.tables[0].id)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ('@controller_header("packet_in") header x_t { bit<8> a; }', "two headers"),
        ('@controller_header("packet_in") header x_t { varbit<8> a; }', "holds numbers only"),
    ],
)
def test_a_controllers_header_must_be_one(wrong: str, sentence: str) -> None:
    text = SWITCH.replace("header h_t {", f"{wrong}\nheader h_t {{")
    if "two" not in sentence:
        text = text.replace(
            '@controller_header("packet_in") header packet_in_header_t', "header packet_in_header_t"
        )
    with pytest.raises(CompileError, match=sentence):
        compile_text(text)


def test_what_is_hidden_is_not_shown_to_the_controller() -> None:
    parts = """
        direct_counter(CounterType.packets) unseen;
        direct_meter<bit<2>>(MeterType.bytes) unmarked;
        direct_meter<bit<2>>(MeterType.bytes) of_no_table;
        @hidden action own() { unmarked.read(colour); }
        @hidden action both() { }
        @hidden table secret {
            key = { hdr.h.a: exact; } actions = { own; both; } counters = unseen; meters = unmarked;
        }
        table seen { key = { hdr.h.b: exact; } actions = { both; NoAction; } }
    """
    source = SWITCH.replace("table t {", parts + "table t {").replace(
        "t.apply()", "secret.apply(); seen.apply(); t.apply()"
    )
    shown = compile_text(source).p4info
    assert [table.alias for table in shown.tables] == ["seen", "t", "u", "v"]
    assert {action.alias for action in shown.actions} == {"NoAction", "both", "learn"}
    assert [item.alias for item in shown.direct_counters] == ["hits"]
    assert [item.alias for item in shown.direct_meters] == ["marks"]
    everything = p4info_of(compile_text(source).program, with_hidden=True)
    assert "secret" in [table.alias for table in everything.tables]


def test_the_names_that_fields_and_properties_are_given_are_shown() -> None:
    """The name of a property is all of it, without the control's, as p4c has it."""
    source = SWITCH.replace("bit<9> ingress_port", '@name("port") bit<9> ingress_port')
    source = source.replace("bit<48> mac", '@name("address") bit<48> mac')
    source = source.replace("counters = hits", '@name("seen") counters = direct_counter(CounterType.bytes)')
    info = compile_text(
        source.replace("implementation = profile", '@name(".p") implementation = action_profile(4)')
    ).p4info
    assert [part.name for part in info.packet_metadata[0].metadata] == ["port", "unused"]
    (learnt,) = [layout for layout in info.types if layout.name == "mac_learn_digest_t"]
    assert [part.name for part in learnt.fields] == ["address", "port"]
    assert [item.name for item in info.direct_counters] == ["seen"]
    assert "p" in [item.name for item in info.profiles]


def test_two_fields_cannot_be_shown_by_one_name() -> None:
    source = SWITCH.replace("bit<48> mac", '@name("port") bit<48> mac')
    with pytest.raises(CompileError, match="two fields of struct mac_learn_digest_t are called port"):
        compile_text(source)


def test_a_direct_counter_or_meter_of_no_table_is_told() -> None:
    source = SWITCH.replace("counters = hits;", "").replace("meters = marks;", "")
    compiled = compile_text(source.replace("marks.read(colour);", ""))
    assert [item.message for item in compiled.diagnostics] == [
        "I.hits is the counter of no table, and without effect",
        "I.marks is the meter of no table, and without effect",
    ]


def test_digests_of_types_without_a_name_are_told_apart() -> None:
    call = "digest(1, hdr.h.a); digest(1, 16w1); digest(1, hdr.h.a == 1);"
    info = compile_text(SWITCH.replace("t.apply();", f"{call} t.apply();")).p4info
    assert {item.name: item.type for item in info.digests} == {
        "digest.bit_16": ir.Bits(16),
        "digest.bit_8": ir.Bits(8),
        "digest.bool": ir.BOOL,
        "mac_learn_digest_t": ir.Named("mac_learn_digest_t"),
    }


def test_a_digest_may_hold_a_header_with_a_field_of_an_enum() -> None:
    source = SWITCH.replace(
        "header h_t {",
        "enum bit<8> Op { NOP = 0 } header op_t { Op op; } struct dig_t { op_t h; } header h_t {",
    )
    info = compile_text(source.replace("t.apply();", "dig_t d; digest(1, d); t.apply();")).p4info
    assert "dig_t" in [item.name for item in info.digests]
