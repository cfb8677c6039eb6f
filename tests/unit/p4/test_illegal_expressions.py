# SPDX-License-Identifier: Apache-2.0
"""Expressions and statements that P4-16 does not allow are refused, each at its place.

Source: P4-16 Language Specification 1.2.5, "Expressions", "Statements".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

ILLEGAL: list[tuple[dict[str, str], str]] = [
    (
        {
            "members": "tag_t[2] st;",
            "states": "state start { packet.extract(headers.st.next); headers.st.last = "
            "headers.tag; transition accept; }",
        },
        "this stores into last of a stack, which is read-only",
    ),
    (
        {"members": "tag_t[2] st;", "states": "state start { headers.st.lastIndex = 1; transition accept; }"},
        "this stores into lastIndex of a stack, which is read-only",
    ),
    ({"apply": "headers.tag.isValid() = true;"}, "this stores into something that is no variable"),
    *(
        ({"types": "enum bit<8> S { X = 1 }", "members": "tag_t[2] st;", "top": top, "apply": apply}, message)
        for top, apply, message in (
            ("", "S local = S.X; local[1:0] = 1;", "this stores into bits of enum S"),
            ("struct s_t { S s; }", "s_t local; local.s[1:0] = 1;", "this stores into bits of enum S"),
            ("", "S[2] local; local[1][1:0] = 1;", "this stores into bits of enum S"),
            ("void f(out bit<2> v) { }", "S local = S.X; f(local[1:0]);", "f writes to bits of enum S"),
        )
    ),
    *(
        ({"apply": f"m.flag = {lists};"}, "== compares lists of different shapes")
        for lists in (
            "{ 1 } == { { 1, 2 } }",
            "{ { 1, 2 }, 3 } == { 1, { 2, 3 } }",
            "{ 1, 2 } == { 1 }",
        )
    ),
    *(
        ({"apply": f"m.flag = {lists};"}, "nothing tells of what struct the sides of == are")
        for lists in (
            "{ x = 8w1 } == { x = 8w1 }",
            "{ x = 1 } == { 1 }",
            "{ { x = 8w1 }, 1 } == { { x = 8w1 }, 1 }",
            "{ x = 1, y = 2 } == { x = 1, z = 2 }",
            "{ x = 1, x = 2 } == { x = 1, x = 2 }",
        )
    ),
    (
        {"top": "bool are_one<T>(in T a, in T b) { return a == b; }"},
        "== does not apply to T",
    ),
    ({"apply": "m.flag = exact < lpm;"}, "< does not apply to match_kind and match_kind"),
    ({"apply": "m.flag = exact == 1;"}, "the right side of == is int; match_kind was expected"),
    ({"apply": "m.flag = (m.flag ? exact : lpm) == lpm;"}, "?: does not apply to match_kind"),
    ({"apply": "5 = 6;"}, "this stores into something that is no variable"),
    ({"top": "const int BIG = (int) ... (1 << 70) >> 68;"}, "this cannot be called"),
    ({"apply": "m.mark + 1 = 6;"}, "expected '=' or a call, found '+'"),
    ({"parts": "action a(bit<8> x) { x = 1; }"}, "this stores into x, which is read-only (action data)"),
    ({"apply": "m.mark[0:3] = 1;"}, "[0:3] of bit<16>; bits 15 down to 0 were expected"),
    ({"apply": "m.mark[3:-1] = 1;"}, "[3:-1] of bit<16>; bits 15 down to 0 were expected"),
    (
        {"apply": "m.mark = (bit<16>) headers.tag.kind[1+:8];"},
        "[8:1] of bit<8>; bits 7 down to 0 were expected",
    ),
    ({"apply": "m.mark = m.mark[m.mark+:17];"}, "a slice of 17 bits of bit<16>"),
    (
        {"members": "tag_t[2] st;", "apply": "m.mark = (bit<16>) headers.st.lastIndex;"},
        "lastIndex of a stack stands only in parsers",
    ),
    (
        {"apply": "m.mark = m.mark[2+:m.mark];"},
        "the width of a slice must be known at compile time",
    ),
    (
        {"apply": "m.mark = m.mark[headers.tag.small+:16];"},
        "the low bit of a slice is int<8>; bit<N> was expected",
    ),
    (
        {"parts": "action a(out bit<8> x) { x = 1; }", "apply": "a(m.mark[m.mark+:8]);"},
        "not supported by nicemu yet: a slice from a low bit that is known at run time here",
    ),
    (
        {"apply": "m.mark = (bit<16>) headers.tag.kind[8:0];"},
        "[8:0] of bit<8>; bits 7 down to 0 were expected",
    ),
    ({"apply": "m.flag = m.flag[0:0] == 1;"}, "a slice of bool; bit<N> or int<N> was expected"),
    (
        {"parts": "action a(out bit<8> x) { x = 1; }", "apply": "a(3);"},
        "action a writes to something that is no variable",
    ),
    (
        {"parts": "action a(out bit<16> x) { x = 1; }", "apply": "a(m.mark + 1);"},
        "action a writes to something that is no variable",
    ),
    (
        {"parts": "action a(inout bit<16> x) { x = 1; }", "apply": "a((bit<16>) m.mark);"},
        "action a writes to something that is no variable",
    ),
    (
        {"parts": "action a(inout bit<8> x) { x = 1; }", "apply": "a(m.mark);"},
        "argument x is bit<16>; bit<8> was expected",
    ),
    ({"parts": "action a(in bit<8> x) { }", "apply": "a(_);"}, "'_' stands for out parameters; x is none"),
    ({"parts": "action a(inout bit<8> x) { }", "apply": "a(_);"}, "'_' stands for out parameters; x is none"),
    ({"apply": "m.mark = _;"}, "'_' is no value"),
    (
        {
            "parts": "table t { actions = { NoAction; } }",
            "apply": "switch (t.apply().action_run) { foo: {} }",
        },
        "foo is no action of table t",
    ),
    ({"apply": "switch (m.mark) { 3: {} 3: {} }"}, "switch has two cases for this value"),
    *(
        ({"apply": apply}, f"{what} is '...', which stands only where a value is stored")
        for apply, what in (
            ("switch (m.mark) { ...: {} }", "a label of switch"),
            ("m.flag = m.mark == ...;", "a side of =="),
            ("m.flag = ... != headers.tag;", "a side of !="),
            ("for (bit<8> i in ... .. 3) { }", "the lower bound"),
            ("for (bit<8> i in 3 .. ...) { }", "the upper bound"),
        )
    ),
    (
        {
            "parts": "table t { key = { m.mark: exact; } actions = { NoAction; }"
            " const entries = { ...: NoAction(); } }"
        },
        "a keyset is '...', which stands only where a value is stored",
    ),
    ({"apply": "m.mark = m.mark + true;"}, "+ does not apply to bit<16> and bool"),
    (
        {"apply": "m.mark = m.mark + headers.tag.kind;"},
        "+ of bit<16> and bit<8>; both sides must have one type",
    ),
    ({"apply": "m.mark = m.mark + (int<16>) 1;"}, "+ of bit<16> and int<16>; both sides must have one type"),
    ({"apply": "m.flag = ~m.flag;"}, "~ does not apply to bool"),
    ({"apply": "m.flag = -m.flag;"}, "- does not apply to bool"),
    ({"apply": "m.flag = +m.flag;"}, "+ does not apply to bool"),
    ({"apply": "m.flag = m.flag < true;"}, "< does not apply to bool and bool"),
    ({"apply": "headers.tag = { #};"}, "there is space inside {#}"),
    ({"apply": "headers.tag = {# };"}, "there is space inside {#}"),
    ({"apply": "headers.tag = {#\n};"}, "there is space inside {#}"),
    ({"apply": "m.mark = m.mark / -1;"}, "/ of a number below 0"),
    ({"apply": "m.mark = m.mark % (3 - 4);"}, "% of a number below 0"),
    ({"apply": "m.mark = m.mark << true;"}, "shifts by bool; bit<N> was expected"),
    ({"apply": "m.mark = m.mark << -1;"}, "shifts by a number below 0, or too large"),
    ({"apply": "m.mark = m.mark << -8s1;"}, "shifts by a number below 0"),
    ({"apply": "m.mark = m.mark << headers.tag.small;"}, "shifts by int<8>; bit<N> was expected"),
    ({"apply": "m.flag = m.flag << 1;"}, "<< does not apply to bool"),
    ({"apply": "m.mark = m.mark / 0;"}, "division by zero"),
    ({"apply": "m.mark = m.mark % 0;"}, "division by zero"),
    ({"apply": "m.flag = m.flag |+| true;"}, "|+| does not apply to bool and bool"),
    ({"apply": "m.mark = m.flag ++ m.mark;"}, "++ does not apply to bool and bit<16>"),
    ({"apply": "m.mark = m.mark ? 1 : 2;"}, "the condition of ?: is bit<16>; bool was expected"),
    (
        {"apply": "m.mark = (bit<16>) headers.tag.small;"},
        "a cast from int<8> to bit<16> changes width and sign",
    ),
    ({"apply": "m.mark = foo;"}, "unknown name foo"),
    ({"apply": "m.foo = 1;"}, "struct metadata_t has no field foo"),
    ({"apply": "headers.tag.foo();"}, "header tag_t has no method foo"),
    ({"apply": "m.flag = headers.tag.isValid;"}, "header tag_t has no field isValid"),
    ({"apply": "m.mark();"}, "struct metadata_t has no method mark"),
    ({"apply": "5();"}, "this cannot be called"),
    ({"apply": "m.mark = x; bit<16> x;"}, "unknown name x"),
    ({"apply": "bit<16> x = x;"}, "unknown name x"),
    ({"apply": "{ bit<16> x; } m.mark = x;"}, "unknown name x"),
    ({"apply": "if (m.mark) { }"}, "the condition of if is bit<16>; bool was expected"),
    ({"apply": "if (m.mark = 1) { }"}, "expected ')' after the condition, found '='"),
    ({"apply": "if (m.flag) bit<8> x;"}, "a declaration cannot be the body of if"),
    ({"apply": "else { }"}, "expected an expression, found 'else'"),
    ({"apply": "m.flag += true;"}, "+ does not apply to bool and bool"),
    ({"apply": "m.mark++;"}, "expected '=' or a call, found '++'"),
    ({"apply": "break;"}, "there is no loop around this"),
    ({"apply": "continue;"}, "there is no loop around this"),
    ({"apply": "switch (m.mark) { 1: { break; } }"}, "there is no loop around this"),
    ({"apply": "for (bit<8> i = 0; i; i = i + 1) { }"}, "the condition of for is bit<8>; bool was expected"),
    ({"apply": "for (bit<8> i in 1 .. 2) { } m.mark = (bit<16>) i;"}, "unknown name i"),
    ({"apply": "for (bool i in 1 .. 2) { }"}, "i is bool; bit<N> or int<N> was expected"),
    ({"apply": "m.mark = headers.tag.minSizeInBits(1);"}, "minSizeInBits() takes no arguments"),
    ({"apply": "m.mark = headers_t.minSizeInBits(1);"}, "minSizeInBits() takes no arguments"),
    (
        {"types": "enum Plain { A }", "apply": "m.mark = Plain.minSizeInBits();"},
        "enum Plain has no method minSizeInBits",
    ),
    ({"apply": "m.mark = { m.mark, m.mark }[2];"}, "a constant from 0 to 1 was expected here"),
    ({"apply": "m.mark = { m.mark, m.mark }[m.mark];"}, "a constant from 0 to 1 was expected here"),
    ({"apply": "m.mark = { m.mark, 1 }[1];"}, "this number has no width, and nothing gives it one"),
    ({"apply": "m.mark = { m.mark, ... }[0];"}, "'...' cannot stand in a list without a type"),
    ({"apply": "m.mark = { a = m.mark }[0];"}, "struct {a} has no elements"),
    ({"apply": "m.flag = headers_t.isValid();"}, "headers_t is no value"),
    ({"parts": '@id("x") action a() {}'}, "@id needs a number above 0, 32 bits at most"),
    ({"parts": "@foo( action a() {}"}, "'(' is never closed"),
    ({"apply": "m.mark = 1"}, "expected ';' after the assignment, found '}'"),
    ({"apply": "{ m.mark = 1;"}, "expected '}' to close control C, found 'control'"),
    ({"apply": "m.mark = 1; } }"}, "expected a declaration, found '}'"),
    ({"apply": "m.mark = 0xg;"}, "expected a number, found '0xg'"),
    ({"apply": "m.mark = 8w;"}, "expected a number, found '8w'"),
    ({"apply": "m.mark = 0w1;"}, "the value is bit<0>; bit<16> was expected"),
    ({"apply": "m.mark = 0s1;"}, "a number of 0 bits; 1 to 4096 were expected"),
    ({"apply": "m.mark = _1;"}, "unknown name _1"),
    ({"apply": "m.mark = 12abc;"}, "expected a number, found '12abc'"),
    ({"apply": "m.mark = 0b12;"}, "expected ';' after the assignment, found '2'"),
    ({"apply": "m.mark = 0o8;"}, "expected a number, found '0o8'"),
    ({"apply": "m.mark = 1.5;"}, "expected the name of a member after '.', found '5'"),
    ({"apply": "m.mark = -8w1w2;"}, "expected a number, found '8w1w2'"),
    ({"apply": "/* foo"}, "this comment is never closed"),
    ({"apply": "m.mark = 'a';"}, "expected an expression, found '''"),
    ({"apply": "bit<8> ä;"}, "expected the name of the variable, found 'ä'"),
    ({"apply": "bit<8> a$b;"}, "expected ';' after the declaration of a, found '$'"),
    ({"apply": "m.mark = 1 \\ 2;"}, "expected ';' after the assignment, found '\\'"),
    ({"apply": "if (m.flag) { } else { } else { }"}, "expected an expression, found 'else'"),
    ({"apply": "m.mark = ();"}, "expected an expression, found ')'"),
    ({"apply": "m.mark = (1, 2);"}, "expected ')' to close '(', found ','"),
    ({"apply": "m.mark = m.mark = 1;"}, "expected ';' after the assignment, found '='"),
    (
        {"top": "metadata_t f() { metadata_t x; return x; }", "apply": "f().mark = 1;"},
        "this stores into something that is no variable",
    ),
    ({"apply": "m.mark = this;"}, "'this' stands for an object in its own abstract methods"),
    ({"apply": "m.mark = .foo;"}, "unknown name .foo"),
    (
        {"top": "extern X { X(); abstract void f(); }", "parts": "X() x = { };"},
        "x lacks what its abstract methods do: f",
    ),
    (
        {
            "top": "extern X { X(); abstract void f(); } control Q()(X x) { apply { x.f(); } }",
            "parts": "Q(X()) q;",
        },
        "an object of X lacks what its abstract methods do",
    ),
    (
        {"top": "extern X { X(); abstract void f(); void g(); } package L(X x); L(X()) l;"},
        "an object of X lacks what its abstract methods do",
    ),
    ({"apply": "m.flag = m.flag + m.flag;"}, "+ does not apply to bool and bool"),
    ({"apply": "m.flag = m.flag ^ m.flag;"}, "^ does not apply to bool and bool"),
    ({"apply": "m.flag = m.flag & m.flag;"}, "& does not apply to bool and bool"),
    ({"apply": "m.mark = m.mark &&& 3;"}, "expected ';' after the assignment, found '&&&'"),
    ({"apply": "m.mark = 1 .. 3;"}, "expected ';' after the assignment, found '..'"),
    (
        {
            "top": "control R(inout metadata_t x) { apply { } } control Q(in metadata_t x) { "
            "R() r; apply { r.apply(x); } }"
        },
        "control r writes to x, which is read-only (an in parameter)",
    ),
    ({"parts": "@foo[)] action a() {}"}, "expected ']' before this ')', found ']'"),
    ({"top": '#include "nowhere.p4"\n'}, "cannot read nowhere.p4"),
    ({"top": "#endif\n"}, "#endif without #if"),
    ({"top": "#if 1\n"}, "this #if has no #endif"),
    ({"top": "#defin A\n"}, "unknown directive #defin"),
    ({"top": "#define F(a, b) a\nconst bit<8> K = F(1);\n"}, "macro F takes 2 arguments; 1 is given"),
]


@pytest.mark.parametrize(("parts", "message"), ILLEGAL)
def test_an_illegal_program_is_refused_at_its_place(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    told = p4.refusal(**parts)
    assert f": error: {message}" in told
    assert "what this program asks of the engine" not in told
