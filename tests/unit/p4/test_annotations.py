# SPDX-License-Identifier: Apache-2.0
"""Which annotations one declaration may have.

Source: P4-16 Language Specification 1.2.5, "Annotations", "Control-plane API annotations", "Deprecated
annotation".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.p4 import CompileError, Severity, compile_text


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ('@name("a") @name("b")', "@name stands here twice"),
        ("@hidden @hidden", "@hidden stands here twice"),
        ("@x[1] @x[2]", "@x stands here twice"),
        ("@x[k = 4] @x[l = 5]", "@x stands here twice"),
        ("@x(1) @x[2]", "@x stands here with square brackets and without"),
        ("@x[2] @y @x", "@x stands here with square brackets and without"),
        ("@x[k = 4, k = 5]", "@x has the key k twice"),
        ("@x[k = 4, 5]", "@x has values with a key and values without"),
        ("@x[1 2]", "expected ']' to close @x, found '2'"),
        ("@x[k = ]", "expected an expression, found ']'"),
        ("@x[,]", "expected an expression, found ','"),
        ("@x[(1, 2)]", "expected ')' to close '(', found ','"),
        ("@x[k = { 1 }]", "a value of @x is a string, a number or a bool"),
        ("@x[8w1]", "a value of @x is a string, a number or a bool"),
        ("@x[1, 2 + 3s1]", "a value of @x is a string, a number or a bool"),
        ("@x[k = error.NoError]", "a value of @x is a string, a number or a bool"),
        ("@x[(bit<8>) 1]", "a value of @x is a string, a number or a bool"),
        ("@hidden(1)", "@hidden has no body"),
        ("@hidden[]", "@hidden has no body"),
        ("@atomic(5)", "@atomic has no body"),
        ("@pure(5)", "@pure has no body"),
        ('@noSideEffects("x")', "@noSideEffects has no body"),
        ("@likely[x = 1]", "@likely has no body"),
        ("@unlikely(5)", "@unlikely has no body"),
        ("@5", "expected the name of an annotation, found '5'"),
        ("@name", "@name needs a name in quotes"),
        ('@name("a", "b")', "@name needs a name in quotes"),
        ('@name("")', "@name needs a name in quotes"),
        ('@name(".")', "@name needs a name in quotes"),
        ("@deprecated", "@deprecated needs a message in quotes"),
        ("@noWarn(5)", "@noWarn needs the name of a warning in quotes"),
        ("@pragma name 5\n", "@name needs a name in quotes"),
        ("@pragma hidden 1\n", "@hidden has no body"),
        ("@pragma\n", "expected the name of an annotation, found 'action'"),
        ("@pragma 5\n", "expected the name of an annotation, found '5'"),
        ("@pragma field_list 1\n", "a list of fields in a pragma"),
    ],
)
def test_annotations_that_do_not_go_together_are_refused(
    p4: SimpleNamespace, annotations: str, message: str
) -> None:
    assert f": error: {message}" in p4.refusal(parts=f"{annotations} action a() {{ }}")


@pytest.mark.parametrize(
    "annotations",
    [
        "@x(1) @x(2)",
        '@name("b") @x[]',
        '@x[short = "a", long = "b",]',
        '@x[1, "hello", true, 1 == 2, 5 + 6]',
        '@x[-1, !(8w1 == 2), (int) 8w3, "a" ++ "b", true ? 1 : 2]',
        "@x[k = (1 + 2) * 3, l = 3]",
        '@hidden() @noWarn("unused") @deprecated("use b" ++ " instead")',
        '@name("b" ++ ("c" ++ "d"))',
        "@x(k = 4, 5)",
        "@x([) @y(] { ( } ))",
    ],
)
def test_annotations_that_go_together_are_taken(p4: SimpleNamespace, annotations: str) -> None:
    p4.compile(parts=f"{annotations} action a() {{ }}")


def test_a_mark_in_a_list_of_actions_has_no_body(p4: SimpleNamespace) -> None:
    told = p4.refusal(parts="table t { actions = { @tableonly(1) NoAction; } }")
    assert ": error: @tableonly has no body" in told


def test_a_match_kind_is_named(p4: SimpleNamespace) -> None:
    assert ": error: @match needs one match kind" in p4.refusal(types="struct q_t { @match bit<8> x; }")
    two = "struct q_t { @match(ternary, exact) bit<8> x; }"
    assert ": error: @match needs one match kind" in p4.refusal(types=two)


def test_a_name_stands_in_parentheses(p4: SimpleNamespace) -> None:
    """p4c #5726."""
    told = p4.refusal(parts='@name["c"] action a() { }')
    assert ": error: @name has its text in parentheses" in told


def test_an_annotation_of_one_declaration_does_not_concern_another(p4: SimpleNamespace) -> None:
    p4.compile(parts='@x[1] @name("c") action a() { } @x(1) @name("d") action b() { }')


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ("1, 2", {1, 2}),
        ("List.A, List.B", {1, 2}),
        ("THIRD", {3}),
        ("0x2", {2}),
        ("8w1", {1}),
        ("List.A + 1,", {2}),
    ],
)
def test_field_lists_are_named_by_what_is_known_at_compile_time(body: str, numbers: set[int]) -> None:
    program = compile_text(FIELDS.replace("BODY", body)).program
    assert {item.index for item in program.field_lists} == numbers


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "@field_list needs numbers of field lists, 0 to 255"),
        ("300", "@field_list needs numbers of field lists, 0 to 255"),
        ('"a"', "a field list is string; a number was expected"),
        ("List.C", "enum List has no member C"),
        ("nothing", "unknown name nothing"),
    ],
)
def test_what_is_no_field_list_is_refused(body: str, message: str) -> None:
    with pytest.raises(CompileError, match=rf"program.p4:\d+:\d+: error: {message}"):
        compile_text(FIELDS.replace("BODY", body))


FIELDS = """
#include <core.p4>
#include <v1model.p4>
enum bit<8> List { A = 1, B = 2 }
const bit<8> THIRD = 3;
struct headers_t { }
struct metadata_t { @field_list(BODY) bit<8> kept; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { resubmit_preserving_field_list(List.A); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.mark.parametrize(
    ("top", "parts", "apply", "told"),
    [
        (
            '@deprecated("write" ++ " m.mark") bit<16> f(in bit<16> x) { return x; }',
            "",
            "m.mark = f(1);",
            ["this f is deprecated: write m.mark"],
        ),
        ('@deprecated("none") const bit<16> K = 1;', "", "m.mark = K;", ["K is deprecated: none"]),
        (
            '@deprecated("bits") typedef bit<16> t;',
            "action a(t v) { }",
            "t w = 1; a(w);",
            ["t is deprecated: bits"] * 2,
        ),
        (
            '@deprecated("old") extern void f(); extern void f(in bit<8> x);',
            "",
            "f(1); f();",
            ["this f is deprecated: old"],
        ),
        ('@deprecated("none") typedef bit<16> t;', "", "", []),
        (
            "",
            '@nmae("x") table t { actions = { @defaultOnly NoAction; } }',
            "t.apply();",
            [
                "@nmae is not known, and ignored",
                "@defaultOnly is not known, and ignored",
            ],
        ),
        ("", "@mine @pipeline table t { actions = { NoAction; } }", "t.apply();", []),
    ],
)
def test_what_is_deprecated_and_annotations_that_are_misspelt_are_told_where_they_stand(
    p4: SimpleNamespace, top: str, parts: str, apply: str, told: list[str]
) -> None:
    compiled = p4.compile(apply, top=top, parts=parts)
    assert [item.message for item in compiled.diagnostics] == told
    assert all(item.severity is Severity.WARNING for item in compiled.diagnostics)


def test_what_is_deprecated_and_wrong_is_an_error_alone(p4: SimpleNamespace) -> None:
    assert p4.refusal(top='@deprecated("x") bit<8> v;').count("error:") == 1


def test_a_translation_of_a_typedef_is_told_to_have_no_effect(p4: SimpleNamespace) -> None:
    compiled = p4.compile(top='@p4runtime_translation("u", 32) typedef bit<9> n_t;')
    (warning,) = compiled.diagnostics
    assert "@p4runtime_translation has no effect on a typedef" in warning.render()


@pytest.mark.parametrize("number", ["7", "0x7", "32w7", "0d7", "007", "0b1_11"])
def test_an_id_is_a_number_however_it_is_written(p4: SimpleNamespace, number: str) -> None:
    compiled = p4.compile("t.apply();", parts=f"@id({number}) table t {{ actions = {{ NoAction; }} }}")
    assert compiled.p4info.tables[0].id & 0xFFFFFF == 7


def test_a_pragma_is_the_annotation_of_its_name_whose_body_is_the_rest_of_its_line(
    p4: SimpleNamespace,
) -> None:
    parts = """@pragma name "renamed"
    @pragma stage 3 \\
        (0x10
    action a() { }
    @pragma hidden
    table t { key = { m.mark: exact; } actions = { @pragma tableonly
        a; NoAction; } }
    @pragma name "shown"
    @description("second")
    table u { key = { m.mark: exact; } actions = { NoAction; } }"""
    info = p4.compile("t.apply(); u.apply();", parts=parts).p4info
    assert [table.name for table in info.tables] == ["C.shown"]
    (renamed,) = [action for action in info.actions if action.name == "C.renamed"]
    assert [(item.name, item.body) for item in renamed.annotations] == [("stage", "3 ( 0x10")]
