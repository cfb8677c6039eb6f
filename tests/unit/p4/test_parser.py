# SPDX-License-Identifier: Apache-2.0
"""P4-16, "P4 grammar": shapes of trees, and where the parser goes on after a fault."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.p4 import CompileError, compile_text, syntax
from nicemu.p4.diagnostics import Reporter
from nicemu.p4.parser import Parser
from nicemu.p4.preprocess import Preprocessor


def parse(text: str) -> tuple[list[syntax.Declaration], list[str]]:
    reporter = Reporter()
    parser = Parser(Preprocessor(reporter).preprocess(text, "t.p4", None), reporter)
    return parser.program(), [item.render() for item in reporter.diagnostics]


def shape(node: syntax.Expression | None) -> str:
    """Return an expression with all its parentheses."""
    match node:
        case syntax.Number():
            return str(node.number)
        case syntax.NameRef():
            return node.name
        case syntax.MemberRef():
            return f"{shape(node.base)}.{node.name}"
        case syntax.UnaryOp():
            return f"({node.op}{shape(node.operand)})"
        case syntax.BinaryOp():
            return f"({shape(node.left)} {node.op} {shape(node.right)})"
        case syntax.ConditionalOp():
            return f"({shape(node.condition)} ? {shape(node.yes)} : {shape(node.no)})"
        case syntax.CastOp():
            return f"({node.target.name}:{shape(node.operand)})"
        case syntax.SliceRef():
            return f"{shape(node.base)}[{shape(node.high)}:{shape(node.low)}]"
        case syntax.Call():
            types = f"<{','.join(ref.name for ref in node.type_arguments)}>" if node.type_arguments else ""
            return f"{shape(node.callee)}{types}({','.join(map(shape, node.arguments))})"
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a ++ b + c", "((a ++ b) + c)"),
        ("a << 2 >> 1", "((a << 2) >> 1)"),
        ("a & b == c", "((a & b) == c)"),
        ("a | b ^ c & d", "(a | (b ^ (c & d)))"),
        ("a < b == c > d", "((a < b) == (c > d))"),
        ("a && b || c && d", "((a && b) || (c && d))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("-a.b[3:0] + ~c", "((-a.b[3:0]) + (~c))"),
        ("(bit<8>) a + b", "((bit:a) + b)"),
        ("(t) a", "(t:a)"),
        ("(t) -a", "(t:(-a))"),
        ("(.t) a", "(t:a)"),
        ("(t) (a) + 1", "((t:a) + 1)"),
        ("f<t>(a)", "f<t>(a)"),
        ("(a) - b", "(a - b)"),
        ("a < (b) > (c)", "((a < b) > c)"),
        ("p.f<bit<8>>(a)", "p.f<bit>(a)"),
        ("p.f<t>() + 1", "(p.f<t>() + 1)"),
        ("a |+| b |-| c", "((a |+| b) |-| c)"),
    ],
)
def test_operators_bind_as_the_grammar_says(text: str, expected: str) -> None:
    (_, constant), messages = parse(f"typedef bit<8> t; const bit<8> x = {text};")
    assert messages == []
    assert isinstance(constant, syntax.VariableDeclaration)
    assert shape(constant.initial) == expected


def test_a_name_may_hide_a_type_in_an_inner_scope() -> None:
    """`(t) - (1)` subtracts where t is a parameter; `(t) (1)` casts where it is a type."""
    text = "typedef bit<8> t; action a(in bit<8> t) { x = (t) - (1); } const t y = (t) (1);"
    (_, action, constant), messages = parse(text)
    assert messages == []
    assert isinstance(action, syntax.ActionDeclaration)
    assignment = action.body.statements[0]
    assert isinstance(assignment, syntax.Assignment)
    assert shape(assignment.value) == "(t - 1)"
    assert isinstance(constant, syntax.VariableDeclaration)
    assert shape(constant.initial) == "(t:1)"


def test_after_a_fault_the_parser_goes_on_behind_the_statement() -> None:
    _, messages = parse(
        "action a() { x = ; y = 2; z 3; }\nconst bit<8> = 1;\nheader h { bit<8> a b; bit<8>; }"
    )
    places = [message.split(": error")[0] for message in messages]
    assert places == ["t.p4:1:18", "t.p4:1:29", "t.p4:2:14", "t.p4:3:20", "t.p4:3:30"]


def test_a_forgotten_semicolon_is_shown_where_it_belongs() -> None:
    _, (message,) = parse("header h {\n    bit<8> a\n}")
    assert message.startswith("t.p4:2:13: error: expected ';' after field a, found '}'")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("heade h { }", "did you mean header?"),
        ("control C() { }", "control C has no apply block"),
        ("control C() { apply { } apply { } }", "two apply blocks"),
        ("parser P() { state s { transition x; x = 1; } }", "nothing may follow its transition"),
        ("control C() { table t { kee = { } } apply { } }", "did you mean key?"),
        ("control C() { apply { if (a) bit<8> x; } }", "put it in { }"),
        ("const bit<8> x = (1 + ;", "expected an expression, found ';'"),
        ("const bit<8> x = f(1, );", "expected an expression, found ')'"),
        ("void f(in bit<8> a, ) { }", "expected the name of a type, found ')'"),
        ("@unfinished(a (b", "'(' is never closed"),
        ("const bit<8> x = 999999999w1;", "a number of 999999999 bits"),
    ],
)
def test_a_fault_says_what_was_expected(text: str, words: str) -> None:
    _, messages = parse(text)
    assert any(words in message for message in messages), messages


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("const bit<8> x = " + "(" * 200 + "1" + ")" * 200 + ";", "nesting deeper than 110 levels"),
        ("const bit<8> x = " + "1 |+| " * 200 + "1;", "deeper than 90 operators"),
    ],
)
def test_what_is_not_taken_is_refused_by_name(text: str, construct: str) -> None:
    _, messages = parse(text)
    assert "not supported by nicemu yet: " in messages[0]
    assert construct in messages[0]


@pytest.mark.parametrize(
    "text",
    [
        "bit<8> f(in bit<8> x) { return x; }",
        "T f<T>(in T x) { return x; }",
        "void f() { return; }",
        "struct s_t<T> { T a; } s_t<bit<8>> f(in s_t<bit<8>> x) { return x; }",
        "header_union u_t { a_t a; b_t b; }",
        "header h_t { varbit<(8 * 4)> v; bit<(2 + 6)> w; }",
        "struct s_t { tuple<bit<8>, bool> t; h_t[4] stack; list<bit<8>> l; }",
        "type bit<9> port_t; typedef list<tuple<bit<8>, port_t>> ports_t;",
        "extern E<T> { E(bit<32> n); abstract T f(in T x); void g<U>(in U u, @optional in bool b); }",
        "extern E { E(); abstract bit<8> f(in bit<8> x); }"
        " E() e = { bit<8> f(in bit<8> x) { return this.f(x); } E() inner; };",
        "extern void log<T>(string text, in T value = 3);",
        "control C(inout bit<8> x)(bit<8> n = 2, bool b) { apply { } }",
        "control C<T>(inout T x) { apply { } } control D(inout bit<8> x) { apply { C<bit<8>>.apply(x); } }",
        "control C() { apply { E.apply(); a.b.c.apply(x, _); f(to = x, from = 3); } }",
        "control C() { apply { for (bit<8> i = 0, bit<8> j = 2; i < 3; i += 1, j = 1) {"
        " break; continue; } } }",
        "control C() { apply { for (bit<8> i in 0 .. 3) x = i;"
        " for (i in stack) { } @unroll for (; x < 3;) { } } }",
        "control C() { apply { for (i = 0; i < 3; f(i)) { } } }",
        "control C() { apply { switch (x) { 1: 2: { } (bit<8>) 3: { } default: { } } } }",
        "control C() { apply { x = ...; y = {1, ...}; z = {a = 1, ...}; h = {#}; h = (h_t) {#}; } }",
        "#define NONE {#}\n#define OF(x) {#}\ncontrol C() { apply { h = NONE; h = OF(1); } }",
        "control C() { apply { (x) = 1; .y = 2; x[3:0] = 1; s[i].f = 2; x <<= 1; x >>= 1; x |+|= 1; ; } }",
        'control C() { @hidden @name("t") table t { key = { x + 1 : exact @name("k"); }'
        " actions = { .a; b(x); }"
        " implementation = action_profile(32); const"
        " largest_priority_wins = false; meters = m; } apply { } }",
        "control C() { table t { actions = { a; } const size = 4;"
        " entries = { const priority = 3 : (1, _) : a() @x; 2 &&& 3 : a;"
        " 1 .. 2 : b(); }"
        " } apply { } }",
        "extern Q { Q(bit<8> n); } parser P(packet_in p)(bit<8> n) { value_set<bit<8>>(4) v; Q(3) q;"
        " bit<8> x = 1;"
        " state start { q.apply(p); { x = 2; }"
        " transition select(x, y) { (1, v): accept; default: reject; } } }",
        "package S<T>(P<T> p, optional_t o = {}); error { A, B, } match_kind { exact, }",
        "enum bit<8> E { @x A = 1, B = 2, }",
        "@pragma unroll all of it\nconst bit<8> x = 1;",
        "action a(@optional in bit<8> key, bit<8> state) { bit<8> type = key; bit<8> apply = 1; list = 1; }",
        "const bool b = a < b && c > (d); const bit<8> c = x[7:0] ++ y >> 1;",
    ],
)
def test_what_the_grammar_knows_is_taken(text: str) -> None:
    declarations, messages = parse(text)
    assert messages == []
    assert declarations


def test_a_loop_over_a_range_keeps_its_parts() -> None:
    (control,), _ = parse("control C() { apply { for (bit<8> i in 1 .. n + 1) { x = i; } } }")
    assert isinstance(control, syntax.BlockDeclaration)
    assert control.body is not None
    (loop,) = control.body.statements
    assert isinstance(loop, syntax.ForInStatement)
    assert isinstance(loop.collection, syntax.RangeSet)
    assert (loop.name, shape(loop.collection.low), shape(loop.collection.high)) == ("i", "1", "(n + 1)")


def test_a_list_may_leave_the_rest_to_the_default() -> None:
    (constant,), _ = parse("const s_t s = { 1, 2, ... };")
    assert isinstance(constant, syntax.VariableDeclaration)
    assert isinstance(constant.initial, syntax.ListValue)
    assert constant.initial.rest
    assert len(constant.initial.items) == 2


@pytest.mark.parametrize("text", ["f(a = 1, 2)", "{ a = 1, 2 }"])
def test_names_are_given_for_all_or_none(text: str) -> None:
    _, (message,) = parse(f"const bit<8> x = {text};")
    assert "either all or none" in message


def test_annotations_may_hold_anything(p4: SimpleNamespace) -> None:
    p4.compile(parts="@doc(it's (a) $ [thing]) @x[a=1] action a() { }")


def test_an_empty_file_is_told_what_it_lacks() -> None:
    with pytest.raises(CompileError, match="the program has no main"):
        compile_text("")


@pytest.mark.parametrize("place", ["bit<8> x;; apply { }", "action f() { }; apply { }", "apply { };"])
def test_a_semicolon_alone_is_no_declaration_of_a_control(place: str) -> None:
    """Source: P4-16 Language Specification 1.2.5, appendix "P4 grammar": controlLocalDeclarations."""
    with pytest.raises(CompileError, match="a ';' alone in control C, where only declarations stand"):
        compile_text(f"control C() {{ {place} }}")
