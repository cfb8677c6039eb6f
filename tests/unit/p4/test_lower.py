# SPDX-License-Identifier: Apache-2.0
"""What programs do once compiled: P4 in, frames through the interpreter, frames out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.pipeline import CounterAdd, Disposition, EventPosted, Exact, TableEntry, ir, program_of_json

FRAME = bytes.fromhex("07123480") + b"rest"


def number_after(p4: SimpleNamespace, apply: str, **parts: str) -> int:
    """Return headers.tag.number as it leaves the pipeline; it comes as 0x1234, kind as 7, small as -128."""
    return int.from_bytes(p4.run(FRAME, apply, **parts).frame[1:3], "big")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("headers.tag.number + 0xFFFF", 0x1233),
        ("headers.tag.number[7:0] ++ headers.tag.number[15:8]", 0x3412),
        ("headers.tag.number << 4 >> 8", 0x0023),
        ("~headers.tag.number & 0xFF0F | 1", 0xED0B),
        ("-headers.tag.number", 0xEDCC),
        ("headers.tag.number |-| 0x2000", 0),
        ("headers.tag.number |+| 0xF000", 0xFFFF),
        ("(bit<16>) headers.tag.kind * 3", 21),
        ("(bit<16>) (int<16>) headers.tag.small", 0xFF80),
        ("headers.tag.number / 16 % 16", 3),
        ("headers.tag.kind == 7 ? 16w1 : 2", 1),
        ("(headers.tag.small < 0 && headers.tag.kind >= 7) ? 16w1 : 2", 1),
        ("(bit<16>) (bit<1>) (headers.tag.isValid() && !headers.inner.isValid())", 1),
        ("16w0x_FF ^ 16w0b1111", 0xF0),
        ("LIMIT * 2 + (1 << 3)", 48),
    ],
)
def test_expressions_compute_at_the_width_of_their_type(
    p4: SimpleNamespace, expression: str, expected: int
) -> None:
    assert (
        number_after(p4, f"headers.tag.number = {expression};", top="const bit<16> LIMIT = 4 * 5;")
        == expected
    )


def test_locals_shadow_and_are_initialised_where_they_stand(p4: SimpleNamespace) -> None:
    apply = "bit<16> x = 1; { bit<16> x = 5; y = y + x; } y = y + x; bit<16> z; headers.tag.number = y + z;"
    assert number_after(p4, apply, parts="bit<16> y = 10;") == 16


def test_what_a_block_declares_may_hide_its_parameters(p4: SimpleNamespace) -> None:
    """P4c warns of it. Inside the parameter of an action hides what is outside, too."""
    top = (
        "control Q(inout bit<16> x) { bit<16> x = 5; action a(in bit<16> x) { m = x; } apply { a(x + 1); } }"
    )
    top = top.replace("control Q(", "control Q(out bit<16> m, ")
    assert number_after(p4, "Q.apply(headers.tag.number, m.mark);", top=top) == 6


def test_compound_assignment_and_a_slice_on_the_left(p4: SimpleNamespace) -> None:
    assert number_after(p4, "headers.tag.number += 1; headers.tag.number[15:8] = 0xAB;") == 0xAB35


def test_arguments_are_copied_in_and_out_in_order(p4: SimpleNamespace) -> None:
    parts = "action swap(inout bit<16> a, inout bit<16> b) { bit<16> t = a; a = b; b = t; }"
    assert number_after(p4, "m.mark = 9; swap(m.mark, headers.tag.number);", parts=parts) == 9


def test_exit_in_an_action_still_copies_out(p4: SimpleNamespace) -> None:
    parts = "action leave(out bit<16> a) { a = 5; exit; }"
    assert number_after(p4, "leave(headers.tag.number); headers.tag.number = 6;", parts=parts) == 5


TABLE = """
    action set(bit<16> value) { headers.tag.number = value; }
    action bump(inout bit<16> what, bit<16> by) { what = what + by; }
    table t { key = { headers.tag.kind: exact; } actions = { set; bump(headers.tag.number); NoAction; }
"""


def test_const_entries_match_and_the_default_action_takes_its_data(p4: SimpleNamespace) -> None:
    entries = (
        TABLE + "default_action = set(9); const entries = { 7: bump(headers.tag.number, 1); 8: set(2); } }"
    )
    assert number_after(p4, "t.apply();", parts=entries) == 0x1235
    assert number_after(p4, "headers.tag.kind = 1; t.apply();", parts=entries) == 9


def test_without_a_default_action_a_miss_does_nothing(p4: SimpleNamespace) -> None:
    parts = "action drop() { drop_packet(); } table t { key = { m.mark: exact; } actions = { drop; } }"
    program = p4.compile("t.apply();", parts=parts).program
    assert program.tables[0].default_action.action == "NoAction"
    assert p4.run(FRAME, "t.apply();", parts=parts).disposition is Disposition.HOST


def test_the_fields_of_a_tuple_are_stored_into_one_by_one(p4: SimpleNamespace) -> None:
    parts = "action set(out bit<16> x) { x = 0x100; }"
    apply = "tuple<bit<16>, tag_t> t = { 1, headers.tag }; set(t[0]); t[0][3:0] = 5; t[0] += 1;"
    apply += " t[1].number = t[0]; headers.tag = t[1];"
    assert number_after(p4, apply, parts=parts) == 0x106
    told = [item.message for item in p4.compile(apply, parts=parts).diagnostics]
    assert told == [
        "action set writes to a part of a tuple",
        *["this stores into a part of a tuple"] * 3,
    ]


def test_an_empty_slice_has_no_bits(p4: SimpleNamespace) -> None:
    apply = "bit<0> none = m.mark[3+:0]; headers.tag.number = none ++ 16w7 ++ headers.tag.number[16+:0];"
    assert number_after(p4, apply) == 7


def test_a_constant_may_be_a_match_kind(p4: SimpleNamespace) -> None:
    top = "const match_kind KIND = lpm; const bool IS_LPM = KIND == lpm && KIND != exact;"
    assert number_after(p4, "headers.tag.number = IS_LPM ? 16w3 : 4;", top=top) == 3


def test_a_constant_that_shifts_may_be_signed(p4: SimpleNamespace) -> None:
    assert number_after(p4, "headers.tag.number = 16w3 << 8s4 >> 5s1;") == 0x18


def test_hit_miss_and_action_run_say_what_a_table_did(p4: SimpleNamespace) -> None:
    parts = TABLE + "const entries = { 7: set(1); } }"
    hit = "if (t.apply().hit) { headers.tag.number += 1; }"
    assert number_after(p4, hit, parts=parts) == 2
    miss = """headers.tag.kind = 3;
        if (t.apply().miss) { headers.tag.number = 5; } else { headers.tag.number = 6; }"""
    assert number_after(p4, miss, parts=parts) == 5
    switch = "switch (t.apply().action_run) { bump: set: { headers.tag.number += 2; } default: { } }"
    assert number_after(p4, switch, parts=parts) == 3


def test_entries_of_a_ternary_table_are_tried_in_the_order_written(p4: SimpleNamespace) -> None:
    parts = """action set(bit<16> value) { headers.tag.number = value; }
        table t { key = { headers.tag.kind: ternary; headers.tag.isValid(): exact; } actions = { set;
        NoAction; }
        entries = { (0x1 &&& 0x1, true): set(1); (7, true): set(2); (_, true): set(3); } }"""
    assert number_after(p4, "t.apply();", parts=parts) == 1
    assert number_after(p4, "headers.tag.kind = 4; t.apply();", parts=parts) == 3


def test_externs_get_their_constructor_arguments_and_structs(p4: SimpleNamespace) -> None:
    parts = 'TriggerCounter() hits; FirmwareEvent<event_t>("seen") seen;'
    apply = "hits.add(3, 1); seen.post({ kind = 7, number = headers.tag.number }); hold_packet();"
    verdict = p4.run(FRAME, apply, parts=parts)
    assert verdict.disposition is Disposition.FIRMWARE
    assert verdict.effects == (CounterAdd(3, 1), EventPosted("seen", {"number": 0x1234, "kind": 7}))


def test_parser_states_select_look_ahead_and_advance(p4: SimpleNamespace) -> None:
    states = """
        bit<8> left = 2;
        state start { transition select(packet.lookahead<tag_t>().kind, packet.lookahead<bit<8>>()) {
            (0x04 &&& 0xFC, 5 .. 9): skip; default: reject; } }
        state skip { packet.advance(8); left = left - 1;
            transition select(left) { 0: read; default: skip; } }
        state read { packet.extract(headers.tag); transition accept; }"""
    assert p4.run(FRAME, "", states=states).frame == FRAME[2:]
    assert p4.run(b"\x01" + FRAME, "", states=states).drop_reason == "parser.rejected"


def test_verify_drops_under_the_name_of_its_error(p4: SimpleNamespace) -> None:
    states = "state start { packet.extract(headers.tag); verify(headers.tag.kind != 7, error.OddKind); }"
    verdict = p4.run(FRAME, "", states=states, top="error { OddKind }")
    assert verdict.drop_reason == "parser.odd_kind"


def test_a_deparser_may_choose_what_it_emits(p4: SimpleNamespace) -> None:
    emit = "if (m.flag) { packet.emit(headers.tag); } packet.emit(headers.inner);"
    apply = "headers.inner = { 1, 2, -1 }; m.flag = headers.tag.kind == 8;"
    assert p4.run(FRAME, apply, emit=emit).frame == bytes.fromhex("010002ff") + b"rest"


def test_enums_are_numbers_on_the_wire_and_names_in_the_program(p4: SimpleNamespace) -> None:
    top = "enum bit<8> Kind { SEVEN = 7, EIGHT = 8 } enum Plain { A, B }"
    apply = """Plain p = Plain.B; Kind k = (Kind) headers.tag.kind;
        if (k == Kind.SEVEN && p != Plain.A && headers.tag.kind == Kind.SEVEN) { headers.tag.kind =
        Kind.EIGHT; }"""
    assert p4.run(FRAME, apply, top=top).frame[0] == 8


def test_ids_and_names_chosen_by_annotation_reach_the_control_plane(p4: SimpleNamespace) -> None:
    parts = """@name("renamed") @id(0x42) action a(@id(9) @name("mark") bit<16> x) { m.mark = x; }
        @name(".top.t") table t { key = { headers.tag.kind: exact @name("kind") @id(5); } actions = { a; }
        }"""
    info = p4.compile("t.apply();", parts=parts).p4info
    (table,) = info.tables
    assert (table.name, table.keys[0].name, table.keys[0].id) == ("top.t", "kind", 5)
    assert [(item.name, item.id & 0xFFFFFF) for item in info.actions if item.name != "NoAction"] == [
        ("C.renamed", 0x42)
    ]
    assert [(item.name, item.id) for item in info.actions[0].params] == [("mark", 9)]


def test_two_parameters_of_an_action_need_two_names(p4: SimpleNamespace) -> None:
    told = p4.refusal(parts='action a(bit<8> x, @name("x") bit<8> y) { }')
    assert "error: two parameters of action a are called x" in told
    assert p4.refusal(parts="action a(bit<8> x, bit<8> x) { }").count("error:") == 1


def test_an_id_may_be_written_in_any_base_and_with_its_prefix(p4: SimpleNamespace) -> None:
    parts = "@id(0x02000042) table t { key = { headers.tag.kind: exact @id(0x7); } actions = { NoAction; } }"
    (table,) = p4.compile("t.apply();", parts=parts).p4info.tables
    assert (table.id, table.keys[0].id) == (0x02000042, 7)


def test_a_compiled_program_survives_the_way_to_the_nic(p4: SimpleNamespace) -> None:
    program = p4.compile("t.apply();", parts=TABLE + "size = 2; }").program
    from nicemu.pipeline import Engine

    engine = Engine()
    engine.load(program_of_json(program.to_json()))
    engine.insert("t", TableEntry((Exact(7),), "bump", (1,)))
    assert engine.process(FRAME, 0).frame[1:3] == b"\x12\x35"
    assert isinstance(program.control("control").body[0], ir.ApplyTable)


@pytest.mark.parametrize(
    ("expression", "number"),
    [("m.mark << 5000", 0), ("m.mark >> 16w40000", 0), ("(bit<16>) (-16s2 >> 99999)", 0xFFFF)],
)
def test_a_shift_by_more_than_there_are_bits_leaves_none(
    p4: SimpleNamespace, expression: str, number: int
) -> None:
    verdict = p4.run(b"\1\2\3\4", f"m.mark = 0xffff; headers.tag.number = {expression};")
    assert verdict.frame == bytes([1, number >> 8, number & 255, 4])


NAMED = """
bit<8> next(inout bit<8> v) { v = v + 1; return v; }
"""
LIST = """
bit<8> n = 0;
action a(in bit<8> x, in bit<8> y) { headers.tag.kind = x << 4 | y; }
table t { key = { m.mark: exact; } actions = { %s; } }
"""


def test_arguments_by_name_in_a_list_of_actions_stand_in_the_order_of_parameters_where_that_matters(
    p4: SimpleNamespace,
) -> None:
    told = p4.refusal("t.apply();", parts=LIST % "a(y = next(n), x = next(n))", types=NAMED)
    assert "not supported by nicemu yet: arguments by name in an order that matters" in told
    for given in ("x = next(n), y = next(n)", "y = n, x = n"):
        p4.compile("t.apply();", parts=LIST % f"a({given})", types=NAMED)


def test_errors_may_be_declared_before_those_of_core_p4(p4: SimpleNamespace) -> None:
    text = p4.source("headers.tag.number = (bit<16>) (bit<1>) (MINE == error.Mine);", top="error { Third }")
    program = p4.compile_text(f"error {{ Mine, Other }}\nconst error MINE = error.Mine;\n{text}").program
    assert program.errors[len(ir.CORE_ERRORS) :] == ("Mine", "Other", "Third")


def test_the_braces_behind_an_object_may_be_empty(p4: SimpleNamespace) -> None:
    parts = "TriggerCounter() hits = { };"
    assert p4.run(FRAME, "hits.add(5, 1);", parts=parts).effects == (CounterAdd(5, 1),)
