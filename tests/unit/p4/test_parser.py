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
        ("(t) -a", "(t - a)"),
        ("(a) - b", "(a - b)"),
        ("a < b > (c)", "((a < b) > c)"),
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
        ("bit<8> f(in bit<8> x) { return x; }", "functions"),
        ("control C() { apply { for (bit<8> i in 0..3) { } } }", "'for'"),
        ("parser P() { value_set<bit<8>>(4) v; }", "value sets"),
        ("const bit<8> x = " + "(" * 200 + "1" + ")" * 200 + ";", "nesting deeper than 64 levels"),
        ("const bit<8> x = " + "1 + " * 200 + "1;", "deeper than 48 operators"),
        ("control C() { apply { a(x = 1); } }", "arguments by name"),
    ],
)
def test_what_is_not_taken_is_refused_by_name(text: str, construct: str) -> None:
    _, messages = parse(text)
    assert "not supported by nicemu yet: " in messages[0]
    assert construct in messages[0]


def test_annotations_may_hold_anything(p4: SimpleNamespace) -> None:
    p4.compile(parts="@doc(it's (a) $ [thing]) @x[a=1] action a() { }")


def test_an_empty_file_is_told_what_it_lacks() -> None:
    with pytest.raises(CompileError, match="the program has no main"):
        compile_text("")
