# SPDX-License-Identifier: Apache-2.0
"""P4-16, "Function declarations", "Calling convention", loops and `switch` over values: compiled and run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

FRAME = bytes.fromhex("07123480")


def number_after(p4: SimpleNamespace, apply: str, **parts: str) -> int:
    """Return headers.tag.number as it leaves the pipeline; it comes as 0x1234, kind as 7."""
    verdict = p4.run(FRAME, apply, **parts)
    assert not verdict.drop_reason
    return int.from_bytes(verdict.frame[1:3], "big")


@pytest.mark.parametrize(
    ("top", "expression", "expected"),
    [
        ("bit<16> twice(in bit<16> x) { return x + x; }", "twice(3)", 6),
        ("bit<16> twice(in bit<16> x) { return x + x; }", "twice(twice(3)) + twice(1)", 14),
        (
            "bit<16> f(in bit<16> x) { if (x > 2) { return 1; } return 2; }",
            "f(3) ++ 16w0 == 65536 ? 16w5 : 6",
            5,
        ),
        ("bit<16> f(in bit<16> x) { if (x > 2) return 1; else return 2; }", "f(1)", 2),
        ("T same<T>(in T x) { return x; }", "same(16w9)", 9),
        (
            "bit<16> g(in bit<16> a) { return 1; } bit<16> f<T>(in T x) { return g(1); }"
            "bit<16> g(in bit<16> b) { return 2; }",
            "f(16w9)",
            1,
        ),
        ("typedef bit<16> t; t f(in bit<16> state) { return (t) state; }", "f(9)", 9),
        (
            "bit<16> f(in bit<16> type) { switch (type) { 1: { return 4; } } return (bit<16>) type; }",
            "f(9)",
            9,
        ),
        (
            "const bit<16> state = 1;"
            "bit<16> f(in bit<16> x) { switch (x) { state: { return 4; } } return 2; }",
            "f(1)",
            4,
        ),
        ("T same<T>(in T x) { T y = x; return y; }", "(same<bit<16>>(2)) + (bit<16>) same(8w3)", 5),
        ("bit<16> f(in bit<16> a, in bit<16> b = 4) { return a - b; }", "f(5)", 1),
        ("bit<16> f(in bit<16> a, in bit<16> b = 4) { return a - b; }", "f(b = 2, a = 9)", 7),
        ("bit<16> g(in bit<16> x) { return x + 1; } bit<16> f(in bit<16> x) { return g(g(x)); }", "f(1)", 3),
        ("pair_t f() { return { 3, 4 }; } ", "f().b", 4),
        ("T f<T>(in T x) { return x; } U g<U>(in U x) { U y = f(x); return f<U>(y); }", "g(16w9)", 9),
        ("T f<T>(in two_t<T> x) { return x.a; } T g<T>(in two_t<T> x) { return f(x); }", "g({ 16w3, 4 })", 3),
        ("T f<T>(in two_t<T> x) { return x.a; }", "f({ 16w3, 4 })", 3),
        ("T f<T>(in two_t<T> x) { return x.a; }", "f({ b = 4, a = 16w3 })", 3),
        ("T f<T>(in tuple<bool, two_t<T>> x) { return x[1].a; }", "f({ true, { 16w3, 4 } })", 3),
        ("tag_t f(in tag_t t) { tag_t u = t; u.number = 8; return u; }", "f(headers.tag).number", 8),
    ],
)
def test_a_function_returns_a_value(p4: SimpleNamespace, top: str, expression: str, expected: int) -> None:
    types = "struct pair_t { bit<16> a; bit<16> b; } struct two_t<T> { T a; bit<16> b; }"
    assert number_after(p4, f"headers.tag.number = {expression};", top=top, types=types) == expected


@pytest.mark.parametrize(
    ("top", "apply", "expected"),
    [
        ("void set(out bit<16> x) { x = 5; }", "set(headers.tag.number);", 5),
        ("void f(out bit<16> x) { x = x + 1; }", "f(headers.tag.number);", 1),
        (
            "bit<16> next(inout bit<16> x) { x = x + 1; return x; }",
            "bit<16> n = 0; headers.tag.number = (next(n) << 8) | next(n);",
            0x0102,
        ),
        (
            "bit<16> next(inout bit<16> x) { x = x + 1; return x; }",
            "bit<16> n = 0; bool b = false && next(n) == 1; b = true || next(n) == 1; headers.tag.number"
            " = n;",
            0,
        ),
        (
            "bit<16> next(inout bit<16> x) { x = x + 1; return x; }",
            "bit<16> n = 3; headers.tag.number = n + next(n) + n;",
            11,
        ),
        (
            "void f(inout bit<16> a, inout bit<16> b) { a = 1; b = 2; }",
            "f(m.mark, m.mark); headers.tag.number = m.mark;",
            2,
        ),
        (
            "void f(out bit<16> a, in bit<16> b) { a = 0; a = b; }",
            "f(headers.tag.number, headers.tag.number);",
            0x1234,
        ),
        ("void f(out bit<16> a, out bit<8> b) { a = 7; b = 1; }", "f(headers.tag.number, _);", 7),
        ("void f(inout headers_t h) { h.tag.number = 2; return; h.tag.number = 3; }", "f(headers);", 2),
    ],
)
def test_arguments_are_copied_in_and_out_from_left_to_right(
    p4: SimpleNamespace, top: str, apply: str, expected: int
) -> None:
    assert number_after(p4, apply, top=top) == expected


TOP = """const bit<16> K = 7;
enum bit<16> En { A = 7 }
typedef bit<16> word_t;
bit<16> f(in bit<16> a = K) { return a; }
bit<16> e(in bit<16> a = (bit<16>) En.A) { return a; }
bit<16> c(in bit<16> a = (word_t) 16w7) { return a; }
bit<16> g<T>(in T x, in bit<16> a = K) { return a; }
bit<16> inner() { bit<16> K = 1; return f(); }
control Z(out bit<16> o, in bit<16> a = K)(bit<16> v = K) { apply { o = v + a; } }
"""


@pytest.mark.parametrize(
    ("apply", "expected"),
    [
        ("bit<16> K = headers.tag.number; headers.tag.number = f() + K - K;", 7),
        ("const bit<16> K = 2; headers.tag.number = f() + K - K;", 7),
        ("bool K = true; headers.tag.number = f(); if (!K) headers.tag.number = 0;", 7),
        ("bit<8> En = 1; headers.tag.number = e() + (bit<16>) (En - En);", 7),
        ("bit<8> word_t = 1; headers.tag.number = c() + (bit<16>) (word_t - word_t);", 7),
        ("bit<16> K = 3; headers.tag.number = g(8w1) + K - K;", 7),
        ("headers.tag.number = inner();", 7),
        ("bit<16> K = 3; z.apply(headers.tag.number); headers.tag.number = headers.tag.number + K - K;", 14),
        ("bit<16> N = 3; a(headers.tag.number); headers.tag.number = headers.tag.number + N - N;", 9),
    ],
)
def test_a_default_value_means_what_it_means_where_it_is_written(
    p4: SimpleNamespace, apply: str, expected: int
) -> None:
    """Source: P4-16 Language Specification 1.2.5, "Name resolution"."""
    parts = "const bit<16> N = 9; Z() z; action a(out bit<16> x, in bit<16> y = N) { x = y; }"
    assert number_after(p4, apply, top=TOP, parts=parts) == expected


def test_functions_are_called_in_parsers_keys_and_actions(p4: SimpleNamespace) -> None:
    states = """state start { packet.extract(headers.tag); m.mark = add(headers.tag.number, 1);
        transition select(add(m.mark, 1)) { 0x1236: accept; default: reject; } }"""
    parts = """action a(bit<16> n) { headers.tag.number = add(m.mark, n); }
        table t { key = { add(m.mark, 1): exact @name("k"); } actions = { a; }
        const entries = { 0x1236: a(n = 2); } }"""
    top = "bit<16> add(in bit<16> a, in bit<16> b) { return a + b; }"
    assert number_after(p4, "t.apply();", states=states, parts=parts, top=top) == 0x1237


@pytest.mark.parametrize(
    ("apply", "expected"),
    [
        ("bit<16> s = 0; for (bit<16> i = 1; i <= 4; i += 1) { s += i; } headers.tag.number = s;", 10),
        ("bit<16> s = 0; for (bit<16> i in 1 .. 4) s += i; headers.tag.number = s;", 10),
        (
            "bit<16> s = 0; for (@a bit<8> i = 0, @b bit<16> j = 3; i < 2; i += 1) s += j; m.mark = s; "
            "headers.tag.number = s;",
            6,
        ),
        ("bit<16> s = 0; for (bit<8> i in 250 .. 255) { s += 1; } headers.tag.number = s;", 6),
        ("bit<16> s = 0; for (bit<8> i in 9 .. 3) { s += 1; } headers.tag.number = s;", 0),
        ("bit<16> s = 0; for (int<8> i in -2 .. 2) { s += 1; } headers.tag.number = s;", 5),
        (
            "bit<16> s = 0; for (bit<16> i in 1 .. 9) { if (i == 3) break; s += i; } headers.tag.number = s;",
            3,
        ),
        (
            "bit<16> s = 0; for (bit<16> i = 0; i < 4; i += 1) { if (i == 1) { continue; } s += i; }"
            " headers.tag.number = s;",
            5,
        ),
        (
            "bit<16> s = 0; for (bit<16> i in 1 .. 3) { for (bit<16> j in 1 .. 3) { if (j > i) break; s"
            " += 1; } }"
            " headers.tag.number = s;",
            6,
        ),
        ("headers.tag.number = 1; for (bit<16> i in 1 .. 3) { headers.tag.number = i; return; }", 1),
        (
            "bit<16> n = 3; bit<16> s = 0; for (bit<16> i in 1 .. n) { n = 9; s += 1; }"
            " headers.tag.number = s;",
            3,
        ),
    ],
)
def test_loops_turn_as_often_as_they_say(p4: SimpleNamespace, apply: str, expected: int) -> None:
    assert number_after(p4, apply) == expected


ARMS = 300
"""More than there may be ifs in one another."""


@pytest.mark.parametrize("number", [0, 15, 16, 17, 299, 300, 4660])
def test_of_many_arms_of_an_if_the_first_whose_condition_holds_is_done(
    p4: SimpleNamespace, number: int
) -> None:
    arms = " else ".join(f"if (v == {arm} || v == {arm + 1}) v = v ^ {1000 + arm};" for arm in range(ARMS))
    apply = f"bit<16> v = {number}; {arms} else v = 7; headers.tag.number = v;"
    expected = number ^ (1000 + max(number - 1, 0)) if number <= ARMS else 7
    assert number_after(p4, apply) == expected


def test_every_arm_of_an_if_may_leave_the_loop_around_it(p4: SimpleNamespace) -> None:
    arms = " else ".join(f"if (i == {arm * 3}) {{ break; }}" for arm in range(1, 40))
    apply = f"bit<16> n = 0; for (bit<16> i in 100 .. 200) {{ {arms} else {{ continue; }} }}"
    counted = apply.replace("{ break; }", "{ n = i; break; }") + " headers.tag.number = n;"
    assert number_after(p4, counted) == 102


def test_a_loop_over_a_stack_sees_copies_of_its_headers(p4: SimpleNamespace) -> None:
    apply = """tag_t[3] stack; stack[1].setValid(); stack[1].number = 5; bit<16> s = 0;
    for (tag_t t in stack) { if (t.isValid()) { s += t.number; stack[2] = t; } } headers.tag.number = s;"""
    assert number_after(p4, apply) == 5


def test_a_loop_without_end_drops_the_packet(p4: SimpleNamespace) -> None:
    verdict = p4.run(FRAME, "for (; true; ) { headers.tag.number += 1; }")
    assert verdict.drop_reason == "pipeline.too_many_turns"


def test_calls_without_end_in_sight_drop_the_packet(p4: SimpleNamespace) -> None:
    """Twenty functions that call one another twice are a million calls."""
    top = "void f0(inout bit<16> x) { x = x + 1; }" + "".join(
        f"void f{n}(inout bit<16> x) {{ f{n - 1}(x); f{n - 1}(x); }}" for n in range(1, 21)
    )
    assert p4.run(FRAME, "f20(m.mark);", top=top).drop_reason == "pipeline.too_many_turns"


@pytest.mark.parametrize(
    ("apply", "expected"),
    [
        ("switch (headers.tag.kind) { 6: { headers.tag.number = 1; } 7: { headers.tag.number = 2; } }", 2),
        (
            "switch (headers.tag.kind) { 6: 7: { headers.tag.number = 1; } default: { headers.tag.number"
            " = 3; } }",
            1,
        ),
        ("switch (headers.tag.kind) { 1: { } default: { headers.tag.number = 3; } }", 3),
        ("switch (headers.tag.kind) { 1: { headers.tag.number = 3; } }", 0x1234),
        ("switch ((Serial) headers.tag.kind) { Serial.A: { } 7: { headers.tag.number = 4; } }", 4),
        ("switch (Kind.B) { Kind.A: { } Kind.B: { headers.tag.number = 4; } }", 4),
    ],
)
def test_switch_runs_the_case_of_the_value(p4: SimpleNamespace, apply: str, expected: int) -> None:
    assert number_after(p4, apply, top="enum Kind { A, B } enum bit<8> Serial { A = 6 }") == expected


@pytest.mark.parametrize(
    ("top", "apply", "words"),
    [
        ("bit<8> f() { }", "", "function f can end without returning bit<8>"),
        ("bit<8> f(in bit<8> x) { if (x == 1) { return 1; } }", "", "can end without returning bit<8>"),
        ("bit<8> f() { return; }", "", "bit<8> is to be returned here"),
        ("void f() { return 1; }", "", "nothing here returns a value"),
        ("bit<8> f() { return 16w1; }", "", "the value that is returned is bit<16>; bit<8> was expected"),
        ("bit<8> f(in bit<8> x) { return f(x); }", "bit<8> y = f(1);", "calls itself"),
        ("void f() { exit; }", "", "exit cannot stand in a function"),
        ("void f(in bit<8> x) { x = 1; }", "", "read-only (an in parameter)"),
        ("void f(out bit<8> x = 3) { x = 1; }", "", "out parameter x has a default value"),
        ("void f(in bit<8> x) { }", "f();", "f takes 1 argument; 0 are given"),
        ("void f(in bit<8> x) { }", "f(y = 1);", "f has no parameter y"),
        ("void f(in bit<8> x) { }", "f(x = 1, x = 2);", "argument x is given twice"),
        ("void f(in bit<8> x, in bit<8> y) { }", "f(y = 2);", "argument x of f is missing"),
        ("void f(in bit<8> x) { }", "f(_);", "'_' stands for out parameters; x is none"),
        ("void f(out bit<8> x) { x = 1; }", "f(3);", "f writes to something that is no variable"),
        ("T f<T>() { T x; return x; }", "bit<8> y = f();", "cannot tell what type f returns"),
        ("void f() { }", "bit<8> y = f();", "the value of y is void; bit<8> was expected"),
        ("", "break;", "there is no loop around this"),
        ("", "for (bit<8> i in 1 .. 3) { } m.mark = (bit<16>) i;", "unknown name i"),
        ("", "for (bool i in false .. true) { }", "i is bool; bit<N> or int<N> was expected"),
        ("const bit<8> K = 1;", "for (K in 1 .. 3) { }", "K is no variable; for stores into it"),
        ("bit<8> f(int n) { for (n in 1 .. 3) { } return 1; }", "", "n is no variable; for stores into it"),
        ("bit<8> f(in bit<8> n) { for (n in 1 .. 3) { } return 1; }", "", "n, which is read-only"),
        (
            "",
            "for (bit<8> i in m.mark) { }",
            "for goes through ranges, lists, arrays and header stacks; this is bit<16>",
        ),
        ("", "for (bit<8> i = 0; i; i += 1) { }", "the condition of for is bit<8>"),
        ("", "switch (m.mark) { m.mark: { } }", "a label of switch must be known at compile time"),
    ],
)
def test_a_wrong_function_or_loop_is_refused(p4: SimpleNamespace, top: str, apply: str, words: str) -> None:
    assert words in p4.refusal(apply, top=top)


@pytest.mark.parametrize(
    "parts",
    [
        {"top": "const bool OK = static_assert(1 + 1 == 2);"},
        {"top": 'const bit<8> K = 5; const bool OK = static_assert(K > 3, "K is too small");'},
        {"apply": 'static_assert(true, "never");'},
    ],
)
def test_a_static_assertion_that_holds_does_nothing(p4: SimpleNamespace, parts: dict[str, str]) -> None:
    assert p4.compile(**parts).program.controls == p4.compile().program.controls


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"top": 'const bit<8> K = 5; const bool OK = static_assert(K > 7, "K is too small");'},
            "static_assert does not hold: K is too small",
        ),
        ({"apply": "static_assert(false);"}, "static_assert does not hold"),
        ({"apply": "static_assert(m.flag);"}, "what static_assert checks must be known at compile time"),
        ({"apply": "static_assert(3);"}, "argument check is int; bool was expected"),
    ],
)
def test_a_static_assertion_that_does_not_hold_is_an_error(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    assert f": error: {message}" in p4.refusal(**parts)


def test_a_header_may_have_a_generic_struct_of_its_type_parameter(p4: SimpleNamespace) -> None:
    top = """struct pair_t<T> { T left; bit<8> right; }
        header wide_t<T> { pair_t<T> pair; }"""
    apply = """wide_t<bit<24>> wide = { { 0x010203, 4 } };
        headers.tag.number = wide.pair.left[15:0] + (bit<16>) wide.minSizeInBits();"""
    assert p4.run(bytes([1, 0, 0, 0]), apply, top=top).frame[1:3] == (0x0203 + 32).to_bytes(2, "big")
    apply = "wide_t<tag_t> wide;"
    assert "error: in wide_t<tag_t> a header field cannot be struct pair_t<tag_t>" in p4.refusal(
        apply=apply, top=top
    )


def test_a_type_parameter_of_a_function_is_not_its_namesake_of_a_method(p4: SimpleNamespace) -> None:
    """An object's type argument is the function's U, and the method has a U of its own."""
    top = """extern Cell<T> { Cell(); U pick<U>(in T mine, in U other); }
        bit<8> of<U>(Cell<U> cell, in U mine) { return cell.pick(mine, 8w1); }"""
    parts = {"parts": "Cell<bit<16>>() cell;", "apply": "headers.tag.kind = of(cell, 16w3);"}
    assert p4.compile_text(p4.source(top=top, **parts)).program
    wrong = top.replace("8w1", "mine")
    assert "the value that is returned is bit<16>; bit<8> was expected" in p4.refusal(top=wrong, **parts)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("second({#}, headers.tag).number", 7),
        ("second(headers.tag, {#}).isValid() ? 16w1 : 2", 2),
        ("second(..., headers.tag).number", 7),
        ("second({ 1, 2, 3 }, headers.tag).number", 7),
        ("second(headers.tag, { 1, 2, 3 }).number", 2),
        ("second({ 1, m.mark }, { m.mark, 5 + m.mark })[1]", 5),
        ("second({ 1, { 2 } }, { m.mark, { 4 + m.mark } })[1][0]", 4),
        ("second(1, 16w9)", 9),
    ],
)
def test_the_argument_that_has_a_type_tells_it_wherever_it_stands(
    p4: SimpleNamespace, expression: str, expected: int
) -> None:
    top = "T second<T>(in T first, in T other) { return other; }"
    apply = f"headers.tag.number = 7; headers.tag.number = {expression};"
    assert number_after(p4, apply, top=top) == expected


def test_generic_code_knows_the_sizes_of_what_it_is_called_with(p4: SimpleNamespace) -> None:
    top = """struct pair_t<T> { T left; bit<8> right; }
        bit<16> bits<T>(in T x) { return (bit<16>) x.minSizeInBits(); }
        bit<16> bytes<T>(in pair_t<T> x) {
            return (bit<16>) (x.left.maxSizeInBytes() + x.minSizeInBytes() / x.left.minSizeInBytes());
        }"""
    apply = """pair_t<bit<24>> p = { 1, 2 };
        headers.tag.number = bits(headers.tag) + bits(headers.tag.kind) * 100 + bytes(p) * 1000;"""
    frame = p4.run(bytes([1, 0, 0, 0]), apply, top=top).frame
    assert int.from_bytes(frame[1:3]) == 32 + 800 + 4000


NAMED = """void put(out bit<16> x, in bit<8> a) { x = (bit<16>) a + 1; }
void put(out bit<16> x, in bit<16> b) { x = b + 2; }
void any<T>(in T z, out bit<16> x) { put(b = 300, x = x); }
control Named(inout bit<16> x) { apply { put(b = 300, x = x); } }"""


@pytest.mark.parametrize(
    ("parts", "apply"),
    [
        ("Named() one; Named() two;", "one.apply(m.mark); two.apply(headers.tag.number);"),
        ("", "any(8w1, headers.tag.number);"),
        ("", "any(8w1, m.mark); any(16w1, headers.tag.number);"),
    ],
)
def test_arguments_by_name_are_that_wherever_a_body_is_checked_again(
    p4: SimpleNamespace, parts: str, apply: str
) -> None:
    assert number_after(p4, apply, parts=parts, top=NAMED) == 302
