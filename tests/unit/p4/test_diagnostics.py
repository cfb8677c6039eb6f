# SPDX-License-Identifier: Apache-2.0
"""Messages carry file, line, column, the source line, a caret and a hint."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from nicemu.errors import ProtocolError
from nicemu.p4 import CompileError, Severity, compile_text
from nicemu.p4.diagnostics import (
    MAX_ERRORS,
    MOST_COMPARED,
    Diagnostic,
    Location,
    Reporter,
    SourceFile,
    did_you_mean,
)


def test_a_message_shows_the_place_with_a_caret_below() -> None:
    source = SourceFile("a.p4", ["first", "\tx = wrong + 1;"])
    shown = Diagnostic(Severity.ERROR, Location(source, 2, 6, 5), "unknown name wrong", "did you mean ring?")
    assert shown.render().splitlines() == [
        "a.p4:2:6: error: unknown name wrong",
        "    \tx = wrong + 1;",
        "    \t    ^~~~~",
        "    hint: did you mean ring?",
    ]
    assert (shown.file, shown.line, shown.column, shown.source_line) == ("a.p4", 2, 6, "\tx = wrong + 1;")


@pytest.mark.parametrize(
    ("column", "shown", "caret"),
    [
        (1, "0" + "." * 159 + "...", 0),
        (500, "..." + "." * 53 + "x" + "." * 106 + "...", 56),
        (1000, "..." + "." * 159 + "9", 162),
    ],
)
def test_of_a_long_line_what_is_around_the_place_is_shown(column: int, shown: str, caret: int) -> None:
    line = ["0", *"." * 998, "9"]
    line[499] = "x"
    message = Diagnostic(Severity.ERROR, Location(SourceFile("a.p4", ["".join(line)]), 1, column, 3), "wrong")
    assert message.render().splitlines()[1:] == [
        f"    {shown}",
        f"    {' ' * caret}^{'~~' if column < 999 else ''}",
    ]


def test_a_compile_error_holds_every_diagnostic_and_renders_them_all() -> None:
    with pytest.raises(CompileError) as caught:
        compile_text("const bit<8> a = b;\nconst bit<8> c = d;", "two.p4")
    assert isinstance(caught.value, ProtocolError)
    assert [(item.line, item.column) for item in caught.value.diagnostics] == [(1, 18), (2, 18), (2, 20)]
    assert "two.p4:1:18: error: unknown name b" in str(caught.value)
    assert str(caught.value).endswith("3 errors")


def test_an_error_in_an_include_names_the_included_file(tmp_path: Path) -> None:
    (tmp_path / "part.p4").write_text("\nconst bit<8> a = b;\n")
    with pytest.raises(CompileError, match=r"part\.p4:2:18: error: unknown name b"):
        compile_text("#include <part.p4>", include_paths=[tmp_path])


def test_the_compiler_stops_after_fifty_errors() -> None:
    with pytest.raises(CompileError) as caught:
        compile_text("\n".join(f"const bit<8> a{place} = b{place};" for place in range(200)))
    assert len(caught.value.diagnostics) == MAX_ERRORS


@pytest.mark.parametrize(
    ("wrong", "known", "hint"),
    [
        ("hedaer", ["header", "struct"], "did you mean header?"),
        ("x", ["header", "struct"], "there is header, struct"),
        ("x", [], ""),
        ("x", [f"name{place}" for place in range(9)], ""),
    ],
)
def test_a_hint_names_the_nearest_word_or_the_few_there_are(wrong: str, known: list[str], hint: str) -> None:
    assert did_you_mean(wrong, known) == hint


@pytest.mark.parametrize(
    ("parts", "root"),
    [
        (
            "table t { key = { m.mark: exact } actions = { NoAction; } }",
            "expected ';' after a key",
        ),
        (
            "table t { key = { m.mark: exact; } actions = { NoAction } }",
            "expected ';' after an action",
        ),
        (
            "action out() { m.mark = 1; } table t { actions = { NoAction; } }",
            "expected the name of the action",
        ),
        (
            "table t { key = { } actions = { NoAction; } entries = { 1: NoAction(); } }",
            "a table without keys has no entries",
        ),
        (
            "table t { actions = { @tableonly NoAction; } }",
            "table t has no default action, and NoAction is @tableonly",
        ),
        (
            "table t { actions = { NoAction; } } table t { actions = { NoAction; } }",
            "t is declared twice in the same scope",
        ),
        (
            "action f(inout bit<8> x) { x = 1; } action g() { f(m.mark); } table t { actions = { g; } }",
            "hint: nothing is cast on its way out: give it a variable of bit<8>",
        ),
        (
            "TriggerCounter(5) c; action g() { c.add(1, 1); } table t { actions = { g; } }",
            "TriggerCounter takes 0 arguments; 1 is given",
        ),
    ],
)
def test_one_slip_is_told_once(p4: SimpleNamespace, parts: str, root: str) -> None:
    told = p4.refusal(parts=parts, apply="t.apply();")
    assert root in told
    assert told.endswith("\n1 error")


STATES = "state start {{ packet.extract(headers.tag); {} }} state one {{ transition accept; }}"
SELECT = "transition select(headers.tag.kind) {{ {} default: accept; }}"


@pytest.mark.parametrize(
    ("state", "root"),
    [
        (SELECT.format("1 one;"), "expected ':' after a case of select, found 'one'"),
        (SELECT.format("1: one"), "expected ';' after a case of select, found 'default'"),
        (SELECT.format("1: ;"), "expected the name of the next state, found ';'"),
        (
            SELECT.format("1: one;") + " transition one;",
            "expected '}' to close state start (nothing may follow its transition), found 'transition'",
        ),
        ("transition one", "expected ';' after the transition, found '}'"),
        ("transition one; {", "expected '}' to close state start"),
        ("m.mark = 1; if (m.flag) {", "expected '}' to close state start, found 'state'"),
    ],
)
def test_one_slip_in_a_state_is_told_once(p4: SimpleNamespace, state: str, root: str) -> None:
    told = p4.refusal(states=STATES.format(state))
    assert root in told
    assert told.endswith("\n1 error")


@pytest.mark.parametrize(
    ("apply", "root"),
    [
        ("switch (m.mark) { 1 { m.flag = true; } default: { } }", "expected ':' after the label of a case"),
        ("switch (m.mark) { 1: m.flag = true; default: { } }", "expected ':' after the label of a case"),
        ("switch (m.mark) { case 1: { } default: { } }", "P4 has no case"),
        ("if (m.flag) { m.mark = 1;", "expected '}' to close control C, found 'control'"),
        (
            "if (m.flag) { if (m.flag) { m.mark = 1;",
            "expected '}' to close the apply block of C, found 'control'",
        ),
        ("m.mark = 1; } m.mark = 2;", "expected '}' to close control C (nothing follows its apply block)"),
        ("bit<8 x = 1; m.flag = x == 1;", "expected '>' after the width of bit"),
        ("action a() { }", "expected '}' to close the apply block of C, found 'action'"),
        ("tag_t[2] s; s.kind = 1;", "tag_t[2] has no kind"),
        (
            "tuple<bit<16>, bool> t = { 1, true }; m.mark = t[false];",
            "a constant from 0 to 1 was expected here",
        ),
        ("if (m.mark = 1) { }", "expected ')' after the condition, found '='"),
    ],
)
def test_one_slip_in_a_control_is_told_once(p4: SimpleNamespace, apply: str, root: str) -> None:
    told = p4.refusal(apply)
    assert root in told
    assert told.endswith("\n1 error")


def test_a_brace_that_is_missing_in_an_action_is_told_where_the_next_part_begins(p4: SimpleNamespace) -> None:
    told = p4.refusal(
        parts="action a() { if (m.flag) { m.mark = 1; }\ntable t { actions = { a; } }", apply="t.apply();"
    )
    assert ": error: expected '}' to close action a, found 'table'\n    table t" in told
    assert told.endswith("\n1 error")


WHOLE = """#include <core.p4>
#include <v1model.p4>
header pair_t { bit<8> left; bit<8> right; }
struct headers_t { pair_t pair; }
struct metadata_t { bit<8> mark; }
parser P(packet_in packet, out headers_t headers, inout metadata_t m, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.pair);
        transition select(headers.pair.left, headers.pair.right) {
            (1, 2 .. 9): more;
            default: accept;
        }
    }
    state more {
        m.mark = 1;
        transition accept;
    }
}
control V(inout headers_t headers, inout metadata_t m) { apply { } }
control I(inout headers_t headers, inout metadata_t m, inout standard_metadata_t standard) {
    counter(16, CounterType.packets) hits;
    action set(bit<8> value) {
        if (value > 3) {
            headers.pair = { value, m.mark };
        } else {
            hits.count((bit<32>) value);
        }
    }
    table pairs {
        key = { headers.pair.left: exact; headers.pair.right: ternary; }
        actions = { set; NoAction; }
        default_action = NoAction();
        const entries = { (1, 2 &&& 3): set(4); }
    }
    apply {
        switch (pairs.apply().action_run) {
            set: { m.mark = m.mark + 1; }
            default: { }
        }
        standard.egress_spec = 1;
    }
}
control E(inout headers_t headers, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out packet, in headers_t headers) { apply { packet.emit(headers); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
TOKEN = re.compile(r"#[^\n]*|\w+|&&&|\.\.|\S")
PUNCTUATION = [found for found in TOKEN.finditer(WHOLE) if not found[0][0].isalnum() and found[0][0] != "#"]


def without(lost: re.Match[str]) -> list[Diagnostic]:
    """Return the errors of WHOLE without a symbol."""
    with pytest.raises(CompileError) as caught:
        compile_text(WHOLE[: lost.start()] + WHOLE[lost.end() :], "whole.p4")
    return [item for item in caught.value.diagnostics if item.severity is Severity.ERROR]


def test_a_lost_symbol_is_told_where_it_was_or_behind_and_nearly_always_once() -> None:
    counts = []
    for lost in PUNCTUATION:
        errors = without(lost)
        assert errors[0].line >= WHOLE.count("\n", 0, lost.start()) + 1
        counts.append(len(errors))
    assert max(counts) <= 3
    assert counts.count(1) >= 0.95 * len(PUNCTUATION)


def test_several_slips_are_told_in_one_run(p4: SimpleNamespace) -> None:
    told = p4.refusal("m.mark = 1 m.flag = true; m.mark = (2;", types="struct s_t { bit<8> a }")
    assert told.count(": error: expected") == 3


@pytest.mark.parametrize(
    ("apply", "hint"),
    [
        ("headers.tag.setvalid();", "did you mean setValid?"),
        ("if (headers.tag.isValid) { }", "call it: isValid()"),
        ("m.mark = headers.tag.kind + m.mark;", "cast it: (bit<16>)..."),
        ("m.mark = m.mark + headers.tag.kind;", "cast it: (bit<16>)..."),
        ("if (m.mark = 1) { }", "compare with =="),
        ("m.mark == 1;", "assign with ="),
    ],
)
def test_a_frequent_slip_has_the_hint_that_mends_it(p4: SimpleNamespace, apply: str, hint: str) -> None:
    assert f"hint: {hint}" in p4.refusal(apply)


@pytest.mark.parametrize(
    ("top", "parts", "apply", "root"),
    [
        (
            "bit<16> f(in bit<16> x, in bit<16> y) { return x; }",
            "",
            "bit<8> v = f(m.flag);",
            "f takes 2 arguments; 1 is given",
        ),
        (
            "extern void f(out bit<16> result, in bit<16> index);",
            "",
            "bit<16> v = f(0);",
            "f takes 2 arguments; 1 is given",
        ),
        (
            "control Q(inout bit<16> x)(bit<8> n) { apply { } }",
            "Q() q;",
            "q.apply(m.mark);",
            "Q takes 1 argument; 0 are given",
        ),
    ],
)
def test_too_few_arguments_are_one_error(
    p4: SimpleNamespace, top: str, parts: str, apply: str, root: str
) -> None:
    told = p4.refusal(apply, parts=parts, top=top)
    assert root in told
    assert told.endswith("\n1 error")


@pytest.mark.parametrize("part", ["list<bit<8> z;", "pair_t<5 any thing goes here + * ;", ".tag_t[ z;"])
def test_a_type_that_was_only_tried_and_is_no_type_is_told(p4: SimpleNamespace, part: str) -> None:
    """What nobody tells would be left out of the program."""
    types = "struct pair_t<T> { T left; T right; }"
    for place in ({"parts": part}, {"apply": part}, {"states": f"{part} {STATES.format('')}"}, {"top": part}):
        told = p4.refusal(**{"types": types, **place})
        assert ": error: expected" in told
        assert told.endswith("\n1 error")


@pytest.mark.parametrize(
    "apply",
    [
        "pair_t<5>(3).read(m.mark, 1);",
        "for (pair_t<5> i in m.mark) { }",
        "m.flag = m.mark < tag_t[;",
        "m.flag = m.mark < tag_t<5> (3);",
    ],
)
def test_type_arguments_that_were_only_tried_and_are_none_are_told(p4: SimpleNamespace, apply: str) -> None:
    told = p4.refusal(apply, types="struct pair_t<T> { T left; T right; }")
    assert ": error: expected" in told
    assert told.endswith("\n1 error")


def test_the_arguments_of_a_macro_are_closed(p4: SimpleNamespace) -> None:
    told = p4.refusal(top="#define F(a) a\nconst bit<8> K = F(1;")
    assert ":9:18: error: the arguments of macro F are never closed" in told
    assert told.endswith("\n1 error")


@pytest.mark.parametrize(
    ("right", "wrong", "error", "hint"),
    [
        ("counter(16", "countr(16", "unknown type countr", "did you mean counter?"),
        ("#include <v1model.p4>\n", "", "unknown type counter", "#include <v1model.p4>"),
        ("standard_metadata_t s)", "metadata s)", "unknown type metadata", "did you mean metadata_t?"),
        ("pairs.apply().action_run", "pairs.apply()", "the subject of switch is the result of apply()", ""),
        ("(1, 2 &&& 3): set(4)", "1: set(4)", "1 keyset for 2 keys", ""),
        ("standard_metadata_t s)", "standard_metadata_t m)", "two parameters are called m", ""),
    ],
)
def test_a_wrong_word_is_one_error(right: str, wrong: str, error: str, hint: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_text(WHOLE.replace(right, wrong), "whole.p4")
    (told,) = [item for item in caught.value.diagnostics if item.severity is Severity.ERROR]
    assert told.message.startswith(error)
    assert told.hint.startswith(hint)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("standard_metadata_t", "struct s_t { standard_metadata_t s; }"),
        ("HashAlgorithm", "const HashAlgorithm H = HashAlgorithm.crc32;"),
    ],
)
def test_what_v1model_declares_has_the_hint_to_include_it(name: str, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_text(f"#include <core.p4>\n{text}", "one.p4")
    first = caught.value.diagnostics[0]
    assert (first.message, first.hint) == (f"unknown type {name}", "#include <v1model.p4>")


@pytest.mark.parametrize(
    ("types", "apply", "root", "hint"),
    [
        ("enum E { A = 1, B = 2 }", "", "enum E has no representation", "write enum bit<N> E"),
        (
            "",
            "m.mark = headers.tag.setValid();",
            "the value is void",
            "it returns nothing: call it as a statement",
        ),
    ],
)
def test_a_wrong_value_is_one_error_with_what_mends_it(
    p4: SimpleNamespace, types: str, apply: str, root: str, hint: str
) -> None:
    told = p4.refusal(apply, types=types)
    assert f": error: {root}" in told
    assert told.endswith(f"    hint: {hint}\n1 error")


def test_a_message_with_a_long_name_is_cut(p4: SimpleNamespace) -> None:
    name = "a" * 100_000
    assert len(p4.refusal(f"{name} = 1;")) < 10_000


def test_no_like_name_is_sought_among_thousands() -> None:
    known = [f"name{number}" for number in range(MOST_COMPARED + 1)]
    assert did_you_mean("nane7", known) == ""
    assert did_you_mean("NAME7", known) == "did you mean name7?"
    assert did_you_mean("nane7", known[:100]) == "did you mean name7?"


def test_errors_that_are_taken_back_are_none() -> None:
    reporter, at = Reporter(), Location(SourceFile("t.p4", ()), 1, 1)
    reporter.warning(at, "odd")
    mark = reporter.mark()
    reporter.error(at, "wrong")
    assert reporter.failed
    assert reporter.has_error_at(at)
    found = reporter.take_back(mark)
    assert not reporter.failed
    assert not reporter.has_error_at(at)
    reporter.replay(found)
    assert reporter.failed


def test_what_only_parsers_know_of_a_stack_is_hinted_at_there_alone(p4: SimpleNamespace) -> None:
    assert "did you mean last?" not in p4.refusal("tag_t[2] s; m.mark = s.lasst.number;")
    states = "state start { m.mark = headers.st.lasst.number; transition accept; }"
    assert "did you mean last?" in p4.refusal(states=states, members="tag_t[2] st;")
