# SPDX-License-Identifier: Apache-2.0
"""What the checker refuses, and how it says so. P4-16, "P4 data types", "Expressions", "Statements"."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from nicemu.p4 import CompileError, compile_program

TABLE = (
    "action a(bit<16> n) { m.mark = n; } "
    "table t { key = { headers.tag.kind: exact; } actions = { a; NoAction; } "
)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("m.mark = headers.tag.kind;", "the value is bit<8>; bit<16> was expected"),
        ("m.mark = headers.tag.kind + m.mark;", "+ of bit<8> and bit<16>; both sides must have one type"),
        ("m.mark = headers.tag.small;", "the value is int<8>; bit<16> was expected"),
        ("m.flag = m.mark;", "the value is bit<16>; bool was expected"),
        ("if (m.mark) { }", "the condition of if is bit<16>; bool was expected"),
        ("m.mark = !m.mark;", "! does not apply to bit<16>"),
        ("m.flag = m.flag + m.flag;", "+ does not apply to bool and bool"),
        ("m.mark = headers.tag.number[16:1];", "bits 15 down to 0 were expected"),
        ("m.mark = (bit<16>) headers.tag.small;", "changes width and sign"),
        ("m.mark = 1 / 0;", "division by zero"),
        ("m.mark = 1 << m.mark;", "shifts a number without a width"),
        ("m.mark = m.mark << -1;", "shifts by a number below 0"),
        ("m.mark = m.mark ++ 1;", "++ of a number without a width"),
        ("m.mark = m.flag ? 1 : 2;", "both values of ?: lack a width"),
        ("m.merk = 1;", "struct metadata_t has no field merk"),
        ("headrs.tag.kind = 1;", "did you mean headers?"),
        ("headers.tag = m;", "the value is struct metadata_t; header tag_t was expected"),
        ("headers.tag = { 1, 2 };", "has 2 values; header tag_t has 3 fields"),
        ("headers.tag = { kind = 1, number = 2, smal = 3 };", "did you mean small?"),
        ("headers.tag.isvalid();", "did you mean isValid?"),
        ("m.setValid();", "struct metadata_t has no method setValid"),
        ("headers.tag.isValid(1);", "isValid() takes no arguments"),
        ("undeclared();", "unknown action or function undeclared"),
        ("clone3(1, 5, m);", "v1model.p4 has clone_preserving_field_list now"),
        ("send_to_port();", "send_to_port takes 1 argument; 0 are given"),
        ("send_to_port(m.flag);", "argument port is bool; bit<16> was expected"),
        ("1 = m.mark;", "this stores into something that is no variable"),
        ("nic.ingress_port = error.NoMatch;", "the value is error; bit<16> was expected"),
        ("m.flag = error.NoMtch == error.NoMatch;", "did you mean NoMatch?"),
        ("bit<16> x = 1; bit<16> x = 2;", "x is declared twice"),
        ("int<0> x;", "a width of 1 to 4096 was expected"),
        ("int x = 1;", "a variable cannot be int"),
        ("TriggerCounter() c;", "an object cannot be declared inside a body"),
        ("TriggerCounter c;", "is an object, not a value"),
        ("const bit<8> x = m.mark[7:0];", "constant x must be known at compile time"),
        ("verify(true, error.NoMatch);", "verify can be called only in a parser; this is a control"),
        ("return 1;", "nothing here returns a value"),
        ('m.mark = "text";', "the value is string; bit<16> was expected"),
        ("m.mark = drop_packet();", "the value is void; bit<16> was expected"),
        ("m.flag = NoAction;", "NoAction is no value"),
    ],
)
def test_a_statement_that_cannot_be_is_refused(p4: SimpleNamespace, statement: str, words: str) -> None:
    assert words in p4.refusal(statement)


@pytest.mark.parametrize(
    ("parts", "apply", "words"),
    [
        (TABLE + "}", "t.aply();", "did you mean apply?"),
        (TABLE + "}", "t.apply(1);", "apply() of a table takes no arguments"),
        (TABLE + "}", "if (t.apply().hitt) { }", "did you mean hit?"),
        (
            TABLE + "}",
            "if (t.apply()) { }",
            "the condition of if is the result of apply(); bool was expected",
        ),
        (TABLE + "}", "switch (t.apply().action_run) { b: { } }", "b is no action of table t"),
        (TABLE + "}", "switch (t.apply().action_run) { a: { } a: { } }", "switch has two cases a"),
        (TABLE + "}", "switch (m.mark) { 1: { } 0x1: { } }", "switch has two cases for this value"),
        (TABLE + "default_action = a(); }", "", "action a takes 1 argument; 0 are given"),
        (TABLE + "default_action = a(m.mark); }", "", "action data must be known at compile time"),
        (TABLE + "default_action = b; }", "", "unknown action b"),
        (TABLE + "size = -1; }", "", "a size of -1; 0 to 16777216 was expected"),
        (
            TABLE + 'size = "1"; entries = { 1: a(1); } }',
            "",
            "the size of a table is string; a number was expected",
        ),
        (TABLE + "const entries = { 1 &&& 3: a(1); } }", "", "cannot stand in a key of match kind exact"),
        (TABLE + "const entries = { (1, 2): a(1); } }", "", "2 keysets for 1 key"),
        (
            "table t { key = { m.mark[7:0]: exact; m.mark[15:8]: exact; } actions = { NoAction; } "
            "entries = { _: NoAction(); } }",
            "",
            "not supported by nicemu yet: an entry that is 65536 entries",
        ),
        (TABLE + "meters = 1; }", "", "meters must be an object: direct_meter"),
        ("table t { key = { m.mark: fuzzy; } actions = { NoAction; } }", "", "unknown match kind fuzzy"),
        ("table t { key = { m.mark + 1: exact; } actions = { NoAction; } }", "", "this key needs a name"),
        (
            "table t { key = { m.mark: exact; m.mark: exact; } actions = { NoAction; } }",
            "",
            "two keys are called",
        ),
        (
            "table t { key = { "
            + "".join(f'm.mark: lpm @name("k{number}"); ' for number in range(5))
            + "} actions = { NoAction; } }",
            "",
            "table t has 5 lpm keys; 4 are allowed, beside keys of other kinds",
        ),
        ("table t { key = { m.mark: exact; } }", "", "table t has no actions"),
        ("action a(inout bit<16> x) { x = 1; }", "a(5);", "action a writes to something that is no variable"),
        ("action a(bit<16> x) { x = 1; }", "", "this stores into x, which is read-only (action data)"),
        ("action a(bit<16> x, in bit<8> y) { }", "", "a parameter with a direction follows action data"),
        ("action a() { a(); }", "", "unknown action or function a"),
        ("action a() { t.apply(); } " + TABLE + "}", "", "unknown name t"),
        ("FirmwareEvent<event_t>(5) e;", "", "argument name is int; string was expected"),
        ('FirmwareEvent<headers_t>("e") e;', "", "a struct of numbers was expected"),
        ('FirmwareEvent("e") e;', "", "cannot tell what type T of FirmwareEvent is"),
        ('FirmwareEvent<event_t>("e") e;', "e.post({ 1 });", "has 1 values; struct event_t has 2 fields"),
        ('FirmwareEvent<event_t>("e") e;', "e.past({ 1, 2 });", "did you mean post?"),
        ("TriggerCounter() c;", "c.add(1);", "add takes 2 arguments; 1 is given"),
        ("@id(0) table t { actions = { NoAction; } }", "", "@id needs a number above 0"),
    ],
)
def test_a_table_or_extern_that_cannot_be_is_refused(
    p4: SimpleNamespace, parts: str, apply: str, words: str
) -> None:
    assert words in p4.refusal(apply, parts=parts)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ("state begin { transition accept; }", "parser P has no state start"),
        ("state start { transition nowere; } state nowhere { transition accept; }", "did you mean nowhere?"),
        ("state start { transition accept; } state start { transition accept; }", "has two states start"),
        (
            "state start { transition select(m.mark) { 1, 2: accept; } }",
            "expected ':' after a case of select",
        ),
        ("state start { transition select(m.mark) { (1, 2): accept; } }", "2 keysets for 1 key"),
        ("state start { transition select(m) { default: accept; } }", "a number was expected"),
        ("state start { transition select(m.mark) { nic.ingress_port: accept; } }", "known at compile time"),
        ("state start { packet.extract(m); transition accept; }", "extract of struct metadata_t; a header"),
        (
            "state start { m.mark = packet.lookahead(); transition accept; }",
            "cannot tell what type lookahead",
        ),
        ("state start { packet.emit(headers); transition accept; }", "did you mean"),
        (
            "state start { drop_packet(); transition accept; }",
            "not supported by nicemu yet: drop_packet in a parser",
        ),
        ("state start { exit; transition accept; }", "exit cannot stand in a parser"),
    ],
)
def test_a_parser_that_cannot_be_is_refused(p4: SimpleNamespace, states: str, words: str) -> None:
    refusal = p4.refusal(states=states)
    assert words in refusal or (words == "did you mean" and "has no method emit" in refusal)


@pytest.mark.parametrize(
    ("top", "words"),
    [
        ("header h { bit<7> a; } struct s { h a; }", "header h is 7 bits long; a multiple of 8 was expected"),
        ("header h { headers_t a; }", "a header field cannot be struct headers_t"),
        ("header h { metadata_t a; } struct s { h a; }", "header h is 17 bits long"),
        ("header h { tag_t a; }", "a header field cannot be header tag_t"),
        ("header h { tuple<bit<8>> a; }", "a header field cannot be tuple<bit<8>>"),
        ("header h { bit<8> a; bit<8> a; }", "header h has two fields a"),
        ("struct s { packet_in p; }", "a struct field cannot be extern packet_in"),
        ("struct s { lost_t a; }", "unknown type lost_t"),
        ("struct s { packet_in[4] a; }", "an array cannot hold extern packet_in"),
        ("struct s { tag_t[0] a; }", "an array of 0; 1 to 1024 elements were expected"),
        ("header_union u { bit<8> a; }", "a header union field cannot be bit<8>"),
        ("header h { varbit<32> a; varbit<8> b; }", "not supported by nicemu yet: 2 varbits in header h"),
        ("struct s { varbit<70000> a; }", "varbit<70000>, of more than 65535 bits"),
        ("struct g<T> { T a; } struct s { g<bit<8>, bool> a; }", "g takes 1 type argument; 2 are given"),
        ("struct g<T> { T a; } struct s { g a; }", "g takes 1 type argument; 0 are given"),
        ("header g<T> { T a; } struct s { g<bit<7>> a; }", "header g<bit<7>> is 7 bits long"),
        ("enum bit<2> E { A = 5 }", "5 does not fit bit<2>"),
        ("enum bit<2> E { A }", "member A needs a value"),
        ("enum E { A, A }", "enum E has two members A"),
        ("error { NoMatch }", "error NoMatch is declared twice"),
        ("const bit<8> x = 1; const bit<8> x = 2;", "x is declared twice"),
        ("bit<8> x;", "a variable cannot stand outside all blocks"),
        ("type headers_t t;", "a new type cannot be made of struct headers_t"),
        ("type bool t; const t x = 1;", "constant x is int; t was expected"),
        ("parser Q(packet_in p, out headers_t h, inout metadata_t m) { state start { transition accept; } }"
         " SmartNic(Q(), C(), D()) main;", "Q has 3 parameters; NicParser has 4"),
        ("SmartNic(P()) main;", "SmartNic takes 3 blocks; 1 is given"),
    ],
)  # fmt: skip
def test_a_declaration_that_cannot_be_is_refused(p4: SimpleNamespace, top: str, words: str) -> None:
    assert words in p4.refusal(top=top)


def test_the_blocks_must_agree_on_headers_and_metadata(p4: SimpleNamespace) -> None:
    other = p4.source().replace(
        "inout headers_t headers, inout metadata_t m", "inout other_t headers, inout metadata_t m"
    )
    from nicemu.p4 import CompileError, compile_text

    with pytest.raises(
        CompileError, match="parameter headers is struct other_t; struct headers_t was expected"
    ):
        compile_text(other.replace("struct event_t", "struct other_t { tag_t tag; }\nstruct event_t"))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            {"states": "state start { packet.extract(headers.tag); }"},
            "state start has no transition: packets are rej",
        ),
        (
            {"states": "state start { transition accept; } state lost { transition accept; }"},
            "state lost is never",
        ),
        ({"apply": "exit; m.mark = 1;"}, "this is never reached"),
        ({"apply": "headers.tag.isValid();"}, "the value of this call is not used"),
        (
            {"states": "state start { transition select(m.mark) { default: accept; 1: reject; } }"},
            "this case is never reached",
        ),
        (
            {"states": "state start { transition select(m.mark) { 5 .. 4: reject; default: accept; } }"},
            "this range is empty: nothing matches it",
        ),
        ({"top": "control X(inout headers_t h) { apply { } }"}, "control X is not used"),
        (
            {"types": '@controller_header("other") header o_t { bit<8> a; }'},
            "@controller_header means nothing",
        ),
        (
            {"types": '@controller_header("packet_in") struct o_t { bit<8> a; }'},
            "@controller_header means noth",
        ),
        (
            {
                "parts": "table t { key = { m.mark: exact; } actions = { NoAction; } size = 1; entries = "
                "{ 1: NoAction(); 2: NoAction(); } }",
                "apply": "t.apply();",
            },
            "a size of 1, and 2 entries",
        ),
    ],
)
def test_what_is_legal_and_probably_not_meant_is_a_warning(
    p4: SimpleNamespace, parts: dict[str, str], words: str
) -> None:
    (warning,) = p4.compile(**parts).diagnostics
    assert f"warning: {words}" in warning.render()


def test_blocks_of_included_files_are_for_whoever_wants_them(p4: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "library.p4").write_text("control X(inout bit<8> x) { apply { } }\n")
    (tmp_path / "whole.p4").write_text(
        p4.source().replace("struct headers_t", '#include "library.p4"\nstruct headers_t')
    )
    assert compile_program(tmp_path / "whole.p4").diagnostics == ()


def test_a_selector_without_a_key_that_is_hashed_is_probably_not_meant(p4: SimpleNamespace) -> None:
    parts = """action_selector(HashAlgorithm.crc16, 8, 8) ways;
        table t { key = { m.mark: exact; %s } actions = { NoAction; } implementation = ways; }"""
    (warning,) = p4.compile("t.apply();", parts=parts % "").diagnostics
    assert (
        "an action selector and no selector key: a group has one member for all packets" in warning.render()
    )
    assert not p4.compile("t.apply();", parts=parts % "headers.tag.kind: selector;").diagnostics


def test_one_run_reports_every_error_once(p4: SimpleNamespace) -> None:
    refusal = p4.refusal("m.mark = lost + 1; m.flag = 1; nic = 2; m.mark = lost;")
    assert refusal.count("error:") == 4
    assert refusal.endswith("4 errors")


@pytest.mark.parametrize(
    ("apply", "parts", "words"),
    [
        ("m.mark = 0x10000;", "", "65536 does not fit bit<16>: it is cut"),
        ("m.mark = 8w256 ++ 8w1;", "", "256 does not fit bit<8>: it is cut"),
        ("", TABLE + "const entries = { 256: a(1); } }", "256 does not fit bit<8>: it is cut"),
    ],
)
def test_a_number_that_does_not_fit_is_cut_with_a_warning(
    p4: SimpleNamespace, apply: str, parts: str, words: str
) -> None:
    diagnostics = p4.compile(apply, parts=parts).diagnostics
    assert words in "".join(item.render() for item in diagnostics)


def test_a_header_that_is_no_whole_bytes_may_be_declared_where_nothing_has_one(p4: SimpleNamespace) -> None:
    program = p4.compile(types="header odd_t { bit<7> a; }").program
    assert "odd_t" not in {header.name for header in program.headers}
    assert "header odd_t is 7 bits" in p4.refusal("odd_t o;", types="header odd_t { bit<7> a; }")
    assert "header odd_t is 7 bits" in p4.refusal("nothing = 1;", types="header odd_t { bit<7> a; }")


def test_a_package_beside_main_is_told_and_is_no_part_of_the_program(p4: SimpleNamespace) -> None:
    text = p4.source("m.mark = 1;", top="package Spare(bit<8> size); Spare(3) spare;")
    other = text.replace(
        "SmartNic(P(), C(), D()) main;", "SmartNic(P(), C(), D()) other; SmartNic(P(), C(), D()) main;"
    )
    compiled = p4.compile_text(other, "test.p4")
    assert [item.message for item in compiled.diagnostics] == [
        "package spare is not used: main is the program",
        "package other is not used: main is the program",
    ]
    assert compiled.program == p4.compile("m.mark = 1;").program


def test_a_package_of_another_name_is_no_main(p4: SimpleNamespace) -> None:
    with pytest.raises(CompileError) as caught:
        p4.compile_text(p4.source().replace(") main;", ") other;"), "test.p4")
    told = str(caught.value)
    assert "error: the program has no main" in told
    assert "hint: call other main, if it is the program" in told
