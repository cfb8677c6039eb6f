# SPDX-License-Identifier: Apache-2.0
"""One mistake is one message, whatever stands behind it: no brace, semicolon "
"or name that it spoils is told, too."""

from __future__ import annotations

import re

import pytest

from nicemu.p4 import CompileError, compile_text

FRAME = """\
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<16> c; bit<32> d; }
struct headers_t { h_t h; }
struct metadata_t { }
TOP
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
    STATES
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    PARTS
    apply { APPLY }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


def messages(top: str = "", states: str = "", parts: str = "", apply: str = "") -> list[tuple[str, str]]:
    text = FRAME.replace("TOP", top).replace("STATES", states).replace("PARTS", parts)
    try:
        compile_text(text.replace("APPLY", apply), "a.p4")
    except CompileError as error:
        return re.findall(r"a\.p4:(\d+:\d+): error: (.*)", str(error))
    return []


MISTAKES: list[tuple[dict[str, str], str]] = [
    (
        {"apply": "if (h.h.a == 1) { h.h.b = 1; } } h.h.a = 2; h.h.b = 3; h.h.c = 4;"},
        "expected '}' to close control I (nothing follows its apply block), found 'h'",
    ),
    (
        {
            "states": "state x { b.advance(8); } b.advance(8); transition accept; } state y { "
            "transition accept; }"
        },
        "expected a state of parser P, found 'b'",
    ),
    (
        {
            "parts": "action a() { h.h.a = 1; } h.h.b = 2; } action c() { h.h.a = 1; } table t { "
            "actions = { a; c; } }",
            "apply": "t.apply();",
        },
        "expected a declaration in control I, found 'h'",
    ),
    (
        {"apply": "for (bit<8> i  0; i < 3; i += 1) { h.h.a = 1; } h.h.b = 2;"},
        "expected ';' after the first part of for, found '0'",
    ),
    (
        {"apply": "for (bit<8> i = 0 i < 3; i += 1) { h.h.a = 1; } h.h.b = 2;"},
        "expected ';' after the first part of for, found 'i'",
    ),
    (
        {"apply": "for (bit<8> i = 0; i < ; i += 1) { h.h.a = 1; } h.h.b = 2;"},
        "expected an expression, found ';'",
    ),
    (
        {"apply": "forr (bit<8> i = 0; i < 3; i += 1) { h.h.a = 1; } h.h.b = 2;"},
        "expected an expression, found 'bit'",
    ),
    (
        {"apply": "for (bit<8> i = 0; i < 3 i += 1) h.h.a = 1; h.h.b = 2;"},
        "expected ';' after the condition of for, found 'i'",
    ),
    (
        {"top": "control K(inout bit<8> v) { apply() { v = 1; } }"},
        "expected '{' to open the apply block of K, found '('",
    ),
    ({"states": "state x() { transition accept; }"}, "expected '{' to open state x, found '('"),
    ({"top": "typdef bit<8> T8; struct x_t { T8 a; }"}, "expected a declaration, found 'typdef'"),
    (
        {"top": "enumm bit<8> EE {A=1}", "apply": "h.h.a = (bit<8>) EE.A;"},
        "expected a declaration, found 'enumm'",
    ),
    ({"top": "stuct s_t { bit<8> a; }", "apply": "s_t x; x.a = 1;"}, "expected a declaration, found 'stuct'"),
    ({"top": "bit<8> K = 3;", "apply": "h.h.a = K + K;"}, "a variable cannot stand outside all blocks"),
    ({"top": "register<bit<8>> R;", "apply": "R.write(1,1);"}, "a variable cannot stand outside all blocks"),
    ({"apply": "register<bit<8>>(4) r; r.read(h.h.a, 0);"}, "an object cannot be declared inside a body"),
    (
        {
            "top": "parser Q(packet_in p) { state start { transition accept; } }",
            "parts": "Q() q;",
            "apply": "q.apply(h.h.a);",
        },
        "parser Q cannot stand in a control",
    ),
    (
        {"top": "control Q(inout bit<8> p) { apply {} } Q() q;", "apply": "q.apply(h.h.a);"},
        "a control cannot be instantiated outside all blocks",
    ),
    (
        {
            "top": "control Q2(inout bit<8> p) { apply {} } parser Q(packet_in p) { Q2() z; "
            "state start { z.apply(1); transition accept; } }"
        },
        "control Q2 cannot stand in a parser",
    ),
    (
        {
            "parts": "table t { key = { h.h.nope: exact; } actions = { NoAction; } const entries = { "
            "1: NoAction(); 2: NoAction(); } }",
            "apply": "t.apply();",
        },
        "header h_t has no field nope",
    ),
    (
        {
            "parts": "table t { key = { h.h.a: exact; } actions = { nope; NoAction; } }",
            "apply": "switch (t.apply().action_run) { nope: { } default: {} }",
        },
        "unknown action nope",
    ),
    (
        {"top": "struct q_t { bit<8> a; bit<8> a; }", "apply": "q_t q = {1,2}; h.h.a = q.a;"},
        "struct q_t has two fields a",
    ),
    ({"top": "enum nope_t EE { A=1 }", "apply": "EE e = EE.A; h.h.a = (bit<8>) e;"}, "unknown type nope_t"),
    ({"top": "type h_t T1;", "apply": "T1 x;"}, "a new type cannot be made of header h_t"),
    (
        {"top": "bit<8> f(in bit<8> a, out bit<8> b = 1) { b = 1; return a; }", "apply": "h.h.a = f(1);"},
        "out parameter b has a default value",
    ),
    (
        {
            "top": "void f(in register<bit<8>> r, in bit<8> x) { }",
            "parts": "register<bit<8>>(4) r;",
            "apply": "f(r, 1);",
        },
        "extern register<bit<8>> as a parameter has no direction",
    ),
    (
        {
            "top": "parser Q(packet_in p) { state start { transition accept; } } control "
            "K(packet_in p)(Q q) { apply { q.apply(p); } }"
        },
        "a parameter cannot be parser Q, which has a body",
    ),
    (
        {
            "top": "const tuple<bit<8>, bit<8>> KK = {1, 2};",
            "parts": "table t { key = { h.h.a: exact; h.h.b: exact; } actions = { NoAction; } const "
            "entries = { KK: NoAction(); } }",
            "apply": "t.apply();",
        },
        "1 keyset for 2 keys",
    ),
    ({"apply": "bool b2; random(b2, false, true);"}, "a number was expected here; this is bool"),
    (
        {
            "top": "bit<8> f(in bit<8> a) { return a; } bit<8> f(in bit<8> a, in bit<8> b = 1) { return b; }",
            "apply": "h.h.a = f(1);",
        },
        "there are 2 f that this call could mean",
    ),
    (
        {
            "parts": "action aa(varbit<8> v) { } table t { key = { h.h.a: exact; } actions = { aa; "
            "NoAction; } }",
            "apply": "t.apply();",
        },
        "not supported by nicemu yet: action aa has varbit<8> as action data; a table holds numbers",
    ),
    (
        {"top": "header big { " + "".join(f"bit<4096> f{n};" for n in range(20)) + " }"},
        "not supported by nicemu yet: a header of more than 9216 bytes: big has 10240",
    ),
]


@pytest.mark.parametrize(("parts", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_it_is_told_once(parts: dict[str, str], message: str) -> None:
    assert [told for _, told in messages(**parts)] == [message]


def test_a_surplus_brace_is_named_where_it_shows() -> None:
    text = FRAME.replace("APPLY", "if (h.h.a == 1) { } } h.h.b = 2;")
    text = text.replace("TOP", "").replace("STATES", "").replace("PARTS", "")
    with pytest.raises(CompileError, match="hint: a '}' before it may be one too many"):
        compile_text(text)


def test_a_string_grows_as_long_as_is_allowed_and_no_longer() -> None:
    doubled = "".join(f"const string S{n + 1} = S{n} ++ S{n};" for n in range(40))
    said = messages(top=f'const string S0 = "aa"; {doubled}')
    assert [told for _, told in said] == ["a string of more than 65536 characters"]


def test_macros_without_end_are_told_of_where_they_are_used() -> None:
    doubled = "".join(f"#define A{n + 1} A{n} A{n}\n" for n in range(20))
    ((at, told),) = messages(top=f"#define A0 bit<8> x;\n{doubled}struct s_t {{ A20 }}")
    assert told.startswith("the program expands to more than 500000 tokens")
    assert at == "27:14"


def test_functions_without_end_are_told_of() -> None:
    first = "bit<8> f0(int n, in bit<8> v) { return v + (bit<8>) n; }"
    both = "return f{0}(n * 2, v) + f{0}(n * 2 + 1, v);"
    more = (f"bit<8> f{n}(int n, in bit<8> v) {{ {both.format(n - 1)} }}" for n in range(1, 40))
    ((_, told),) = messages(top=first + "".join(more), apply="h.h.a = f39(1, h.h.a);")
    assert told.startswith("more than 2048 functions, one for each type and number")


def test_parsers_that_double_at_each_level_are_told_of() -> None:
    first = "parser P0(packet_in p, inout bit<8> v) { state start { v = v + 1; transition accept; } }"
    twice = "P{0}() q; state start {{ q.apply(p, v); q.apply(p, v); transition accept; }}"
    more = [f"parser P{n}(packet_in p, inout bit<8> v) {{ {twice.format(n - 1)} }}" for n in range(1, 40)]
    use = "state more { P39.apply(b, h.h.a); transition accept; }"
    told = [told for _, told in messages(top=first + "".join(more), states=use)]
    assert any("a parser that comes to more than 8192 states" in each for each in told)


def test_a_case_of_ranges_around_0_does_not_double_without_end() -> None:
    keys, ranges = ", ".join(["(int<8>) h.h.a"] * 21), ", ".join(["-1 .. 1"] * 21)
    state = f"state more {{ transition select({keys}) {{ ({ranges}): accept; }} }}"
    ((_, told),) = messages(states=state)
    assert "a case that is 2097152 cases, two for each range of signed numbers around 0" in told


def test_a_condition_that_the_compiler_asserts_is_no_value_that_is_missed() -> None:
    text = FRAME.replace("APPLY", 'static_assert(8w1 == 1, "one");')
    text = text.replace("TOP", "").replace("STATES", "").replace("PARTS", "")
    assert not compile_text(text).diagnostics


def test_a_type_parameter_is_no_block_of_the_same_name() -> None:
    said = messages(
        top="control T(inout bit<8> v) { apply { } } extern Box<S, T> { Box(); void f(in T x); }",
        parts="Box<bit<8>>() b;",
        apply="b.f(8w1);",
    )
    assert [told for _, told in said] == ["Box takes 2 type arguments; 1 is given"]


def test_what_another_architecture_has_is_not_to_be_included_beside_this_one() -> None:
    text = FRAME.replace("APPLY", "TriggerCounter() c;").replace("TOP", "").replace("STATES", "")
    with pytest.raises(CompileError, match=r"hint: TriggerCounter is of nicemu.p4; v1model.p4 has none"):
        compile_text(text.replace("PARTS", "TriggerCounter() t;"))
