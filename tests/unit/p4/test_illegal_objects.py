# SPDX-License-Identifier: Apache-2.0
"""Programs that instantiate, call or declare what P4-16 does not let them are refused, each at its place.

Source: P4-16 Language Specification 1.2.5, "Instantiations", "Function declarations", "Parameterization".
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from nicemu.p4 import CompileError

ILLEGAL: list[tuple[dict[str, str], str]] = [
    (
        {
            "parts": '@name("x") action a() {} @name("x") action b() {} table t { key = { '
            "m.mark: exact; } actions = { a; b; } }"
        },
        "two actions are called C.x",
    ),
    (
        {
            "parts": "@id(5) action a() {} @id(5) action b() {} table t { key = { m.mark: "
            "exact; } actions = { a; b; } }"
        },
        "two actions have the number 5",
    ),
    (
        {
            "parts": "@id(5) table t { actions = { NoAction; } } @id(0x02000005) table u { actions = { "
            "NoAction; } }"
        },
        "two tables have the number 5",
    ),
    (
        {"parts": "@id(0x01000005) table t { actions = { NoAction; } }"},
        "an @id of 0x1000005; 1 to 0xffffff was expected",
    ),
    (
        {
            "parts": "table t { key = { m.mark: exact @id(2); m.flag: exact @id(2); } actions = { "
            "NoAction; } }"
        },
        "two keys of table t have the number 2",
    ),
    (
        {"parts": "action a(@id(1) bit<8> x, @id(1) bit<8> y) {}"},
        "two parameters of action a have the number 1",
    ),
    (
        {
            "top": "@id(5) action b() {}",
            "parts": "@id(5) action a() {} table t { key = { m.mark: exact; } actions = { a; b; } }",
        },
        "two actions have the number 5",
    ),
    (
        {
            "parts": '@name("x") table t { actions = { NoAction; } } @name("x") table u { '
            "actions = { NoAction; } }"
        },
        "two tables are called C.x",
    ),
    ({"parts": "action a() {}", "apply": "a<bit<8>>();"}, "a takes no type arguments"),
    (
        {"parts": "table t { actions = { NoAction; } }", "apply": "t.apply<bit<8>>();"},
        "apply takes no type arguments",
    ),
    ({"apply": "m.flag = headers.tag.isValid<bit<8>>();"}, "isValid takes no type arguments"),
    (
        {"top": "control Q() { apply {} }", "parts": "Q() q;", "apply": "q.apply<bit<8>>();"},
        "apply takes no type arguments",
    ),
    (
        {"top": "const bit<8> K = 1;", "apply": "K = 2;"},
        "this stores into K, which is read-only (a constant)",
    ),
    (
        {"parts": "action a(in bit<8> x) { x = 1; }"},
        "this stores into x, which is read-only (an in parameter)",
    ),
    (
        {"top": "control Q(inout bit<16> x)(bit<16> n) { apply { n = 1; } }"},
        "this stores into n, which is read-only (a constant)",
    ),
    ({"apply": "m.mark[headers.tag.kind:0] = 1;"}, "the high bit of a slice must be known at compile time"),
    (
        {"top": "const bit<16> K = 1;", "parts": "action a(out bit<16> x) { x = 1; }", "apply": "a(K);"},
        "action a writes to K, which is read-only (a constant)",
    ),
    (
        {
            "parts": "table t { actions = { NoAction; } }",
            "apply": "switch (t.apply().action_run) { NoAction: {} NoAction: {} }",
        },
        "switch has two cases NoAction",
    ),
    ({"apply": "switch (m.mark) { 1: {} 1: {} }"}, "switch has two cases for this value"),
    (
        {"apply": "switch (m.mark) { headers.tag.number: {} }"},
        "a label of switch must be known at compile time",
    ),
    ({"top": "control Q() { Q() q; apply { q.apply(); } }"}, "unknown type Q"),
    (
        {"top": "bit<8> f(in bit<8> x) { return f(x); }", "apply": "headers.tag.kind = f(1);"},
        "f calls itself; P4 has no recursion",
    ),
    ({"top": "bit<8> f() { return g(); } bit<8> g() { return f(); }"}, "unknown action or function g"),
    ({"top": "void f(in bit<8> x) { } void f(in bool x) { }"}, "f is declared twice in the same scope"),
    ({"top": "extern void f(in bit<8> x); extern void f(in bool x);"}, "f is declared twice in the same"),
    (
        {"top": "void f(in bit<8> x) { } void f(in bool y) { }", "apply": "f(3);"},
        "there are 2 f that this call could mean",
    ),
    (
        {"top": "void f(in bit<8> x) { } void f(in bool y) { }", "apply": "f(z = 3);"},
        "f has no parameter z",
    ),
    (
        {
            "top": "control Q()(TriggerCounter c) { apply { } }",
            "parts": 'Q(FirmwareEvent<metadata_t>("x")) q;',
        },
        "argument c is extern FirmwareEvent<struct metadata_t>; extern TriggerCounter was expected",
    ),
    (
        {"top": "control Q()(bit<8> n) { apply { } }", "parts": "Q(TriggerCounter()) q;"},
        "TriggerCounter is constructed here",
    ),
    ({"top": "bit<8> f() { return 1; } bit<8> f() { return 1; }"}, "f is declared twice in the same scope"),
    ({"apply": "bit<8> x; bit<8> x;"}, "x is declared twice in the same scope"),
    ({"parts": "action a(bit<8> x, bit<8> x) {}"}, "two parameters are called x"),
    ({"top": "control Q(inout bit<8> x)(bit<8> n, bit<8> n) { apply { } }"}, "two parameters are called n"),
    ({"top": "control Q(inout bit<8> x)(bit<8> x) { apply { } }"}, "x is declared twice in the same scope"),
    ({"top": "control Q() { apply {} } control Q() { apply {} }"}, "Q is declared twice in the same scope"),
    ({"top": "extern X { void f(); }", "parts": "X() x;"}, "extern X has no constructor"),
    ({"top": "extern X { void X(); }"}, "the constructor of X returns nothing"),
    ({"top": "bit<8> f() { TriggerCounter() t; return 1; }"}, "an object cannot be declared inside a body"),
    ({"apply": "TriggerCounter t;"}, "extern TriggerCounter is an object, not a value"),
    (
        {"parts": "TriggerCounter() t;", "top": "T f<T>(in T x) { return x; }", "apply": "f(t);"},
        "argument x is extern TriggerCounter, an object and no value",
    ),
    (
        {"parts": "TriggerCounter() t;", "apply": "m.flag = { t } == { t };"},
        "extern TriggerCounter is an object and no value",
    ),
    (
        {"top": "control Q(TriggerCounter c) { apply { } }", "parts": "Q() q;", "apply": "q.apply(5);"},
        "argument c is int; extern TriggerCounter was expected",
    ),
    (
        {
            "top": "control Q(TriggerCounter c) { TriggerCounter() own; apply { own.add(1, 1); } }",
            "parts": "TriggerCounter() t; TriggerCounter() u; Q() q;",
            "apply": "q.apply(t); q.apply(u);",
        },
        "not supported by nicemu yet: C.q applied to other objects than before",
    ),
    (
        {
            "top": "control S(inout bit<16> x); control R(inout bit<8> x) { apply { } }"
            " control Q()(S s) { apply { } }",
            "parts": "Q(R()) q;",
        },
        "R has other parameters than control S",
    ),
    (
        {
            "top": "control S(inout bit<8> x); control Q()(S s) { apply { } }"
            " parser R(inout bit<8> x) { state start { transition accept; } }",
            "parts": "Q(R()) q;",
        },
        "R is a parser; control S was expected",
    ),
    (
        {"top": "control S(inout bit<16> x); control Q()(S s) { apply { } }", "parts": "Q(5) q;"},
        "a control S was expected here",
    ),
    (
        {"parts": "TriggerCounter() t; TriggerCounter() u;", "apply": "t = u;"},
        "this stores into something that is no variable",
    ),
    (
        {"parts": "TriggerCounter() t; TriggerCounter() u;", "apply": "m.flag = t == u;"},
        "== does not apply to extern TriggerCounter",
    ),
    ({"parts": "TriggerCounter() t;", "apply": "t.foo();"}, "extern TriggerCounter has no method foo"),
    ({"parts": "TriggerCounter(3) t;"}, "TriggerCounter takes 0 arguments; 1 is given"),
    ({"parts": "FirmwareEvent<event_t>(m.mark) t;"}, "argument name is bit<16>; string was expected"),
    ({"apply": "TriggerCounter();"}, "expected the name of the instance, found ';'"),
    ({"parts": "packet_in() x;"}, "extern packet_in has no constructor"),
    ({"top": "control Q() { apply {} }", "apply": "Q q;"}, "control Q is no value"),
    (
        {"top": "control Q(inout bit<8> x) { apply {} }", "parts": "Q() q;", "apply": "q.apply();"},
        "control q takes 1 argument; 0 are given",
    ),
    (
        {"top": "control Q(inout bit<8> x)(bit<8> n) { apply {} }", "parts": "Q() q;"},
        "Q takes 1 argument; 0 are given",
    ),
    (
        {"top": "control Q(inout bit<8> x)(bit<8> n) { apply {} }", "parts": "bit<8> k; Q(k) q;"},
        "argument n must be known at compile time",
    ),
    (
        {"top": "control Q(inout bit<8> x)(in bit<8> y) { apply {} }"},
        "a parameter of a constructor cannot be in",
    ),
    (
        {"top": "control Q(bit<8> x) { apply { x = 1; } }"},
        "this stores into x, which is read-only (a parameter without direction)",
    ),
    ({"top": "const int K = 5 / 0;"}, "division by zero"),
    ({"top": "const int K = 5 / -2;"}, "/ of a number below 0"),
    ({"top": "const int K = -5 % 2;"}, "% of a number below 0"),
    ({"apply": "m.mark = (TriggerCounter) 1;"}, "int cannot be cast to extern TriggerCounter"),
    ({"apply": "packet_in p;"}, "extern packet_in is an object, not a value"),
    (
        {"top": "const bit<8> K = 1;", "apply": "K += 1;"},
        "this stores into K, which is read-only (a constant)",
    ),
    ({"top": "const bit<8> K;"}, "expected '=' before the value of a constant, found ';'"),
    ({"parts": "bit<8> x; const bit<8> K = x;"}, "constant K must be known at compile time"),
    ({"top": "bit<8> f() { return 1; } const bit<8> K = f();"}, "constant K must be known at compile time"),
    ({"top": "bit<8> x;"}, "a variable cannot stand outside all blocks"),
    ({"top": "bit<8> x = 1;"}, "a variable cannot stand outside all blocks"),
    ({"top": "if (true) { }"}, "expected a declaration, found 'if'"),
    ({"top": "bit<8> f() { }"}, "function f can end without returning bit<8>"),
    ({"top": "bit<8> f(in bool b) { if (b) { return 1; } }"}, "function f can end without returning bit<8>"),
    ({"top": "bit<8> f() { return; }"}, "bit<8> is to be returned here"),
    ({"apply": "m.mark = f();"}, "unknown action or function f"),
    (
        {"top": "bit<16> f(in bit<16> x) { return x; }", "apply": "m.mark = f();"},
        "f takes 1 argument; 0 are given",
    ),
    (
        {"top": "bit<16> f(in bit<16> x) { return x; }", "apply": "m.mark = f(1, 2);"},
        "f takes 1 argument; 2 are given",
    ),
    (
        {"top": "bit<16> f(in bit<16> x) { return x; }", "apply": "m.mark = f(y = 1);"},
        "f has no parameter y",
    ),
    (
        {"top": "bit<16> f(in bit<16> x, in bit<16> y) { return x; }", "apply": "m.mark = f(x = 1, 2);"},
        "either all or none of the arguments have names",
    ),
    (
        {"top": "bit<16> f(in bit<16> x, in bit<16> y) { return x; }", "apply": "m.mark = f(x = 1, x = 2);"},
        "argument x is given twice",
    ),
    ({"top": "void f() { exit; }"}, "exit cannot stand in a function"),
    (
        {"top": "T f<T>(in T x, in T y) { return x; }", "apply": "m.mark = f(m.mark, headers.tag.kind);"},
        "argument y is bit<8>; bit<16> was expected",
    ),
    (
        {"top": "T f<T>(in T x) { return x + 1; }", "apply": "m.flag = f(m.flag);"},
        "+ does not apply to T and int",
    ),
    (
        {"top": "bit<8> f(in TriggerCounter x) { return 1; }"},
        "extern TriggerCounter as a parameter has no direction",
    ),
    (
        {"top": "bit<8> f(bit<8> x) { x = 1; return x; }"},
        "this stores into x, which is read-only (a parameter without direction)",
    ),
    ({"parts": "bit<8> f() { return 1; }"}, "function f stands inside a block"),
    (
        {"top": "bit<8> f() { return 1; return true; }"},
        "the value that is returned is bool; bit<8> was expected",
    ),
    ({"parts": "action a(bit<8> x, in bit<8> y) {}"}, "a parameter with a direction follows action data"),
    ({"parts": "action a(in out bit<8> x) {}"}, "expected the name of a type, found 'out'"),
    ({"apply": "return 1;"}, "nothing here returns a value"),
    (
        {"top": "parser Q(in packet_in p) { state start { transition accept; } }"},
        "extern packet_in as a parameter has no direction",
    ),
    (
        {"top": "control Q(inout packet_out p) { apply { } }"},
        "extern packet_out as a parameter has no direction",
    ),
    ({"apply": "bit<16> x; m.mark = .x;"}, "unknown name .x"),
    ({"parts": "control Q() { apply {} }"}, "expected a declaration in control C, found 'control'"),
    ({"apply": "m.mark = C;"}, "unknown name C"),
    (
        {"parts": "TriggerCounter() t;", "apply": "m.mark = t;"},
        "the value is extern TriggerCounter; bit<16> was expected",
    ),
    (
        {"top": "control Q(inout bit<8> x)(bit<8> n) { apply {} }", "parts": "Q(k = 3) q;"},
        "Q has no parameter k",
    ),
    (
        {"top": "control Q(inout bit<8> x)(bit<8> n) { apply {} }", "parts": "Q(n = 3, n = 4) q;"},
        "argument n is given twice",
    ),
    ({"parts": "TriggerCounter() t = { void f() { } };"}, "extern TriggerCounter has no abstract methods"),
    (
        {"top": "control Q() { apply { } }", "parts": "Q() q = { void f() { } };"},
        "control Q has no abstract methods",
    ),
    (
        {"parts": "TriggerCounter t = ...;"},
        "extern TriggerCounter",
    ),
    (
        {"top": "const TriggerCounter k = ...;"},
        "constant k is '...', and extern TriggerCounter has no default value",
    ),
    ({"top": "const match_kind k = ...;"}, "constant k is '...', and match_kind has no default value"),
    (
        {"top": "control Z()(TriggerCounter c) { apply { c.add(1, 1); } }", "parts": "Z(...) z;"},
        "argument c is '...', and extern TriggerCounter has no default value",
    ),
    ({"parts": "TriggerCounter() t; TriggerCounter() t;"}, "t is declared twice in the same scope"),
    (
        {"top": "bit<8> f() { return 1; }", "parts": "f() t;"},
        "f is no type",
    ),
    ({"top": "control Q(inout bit<8> x) { apply { bit<8> x; } }"}, "x hides an inout parameter"),
    (
        {"top": "control Q(inout bit<8> x) { apply { if (x == 1) { bool x; } } }"},
        "x hides an inout parameter",
    ),
    (
        {"top": "control Q(in bit<8> x) { action a() { const bool x = true; } apply { } }"},
        "x hides an in param",
    ),
    ({"top": "void f(in bit<8> x) { { bit<8> x; } }"}, "x hides an in parameter"),
    ({"parts": "action a(bit<8> x) { bit<8> x; }"}, "x hides action data"),
    ({"parts": "action a(out bit<8> x) { bit<8> x; }"}, "x hides an out parameter"),
    ({"states": "state start { bit<8> m; transition accept; }"}, "m hides an inout parameter"),
    ({"parts": "action a() {}", "apply": "bit<8> a; a();"}, "a cannot be called"),
    ({"top": "const bit<8> K = 9w1;"}, "constant K is bit<9>; bit<8> was expected"),
    ({"top": "const bit<8> K = K;"}, "unknown name K"),
    ({"top": "const bit<8> K = L; const bit<8> L = 1;"}, "unknown name L"),
    ({"top": "const bit<8> K = (bit<8>) true;"}, "bool cannot be cast to bit<8>"),
    ({"top": "const bit<8> K = 8w5 / 8w0;"}, "division by zero"),
    ({"top": "const int K = 1 << -1;"}, "shifts by a number below 0, or too large"),
    ({"top": "const bit<8> K = 8w5[8:1];"}, "[8:1] of bit<8>; bits 7 down to 0 were expected"),
    ({"top": "const bit<8> K = 5 ? 1 : 2;"}, "the condition of ?: is int; bool was expected"),
    (
        {
            "types": "struct i_t { bit<8> a; bit<8> b; }",
            "top": "const i_t K = { 1, 2 };",
            "apply": "K.a = 1;",
        },
        "this stores into K, which is read-only (a constant)",
    ),
    (
        {"top": "control Q()(TriggerCounter c) { apply { } }", "parts": "Q(5) q;"},
        "argument c is int; extern TriggerCounter was expected",
    ),
    ({"top": "control Q()(TriggerCounter c) { apply { } }", "parts": "Q(foo) q;"}, "unknown name foo"),
    (
        {
            "top": "control Q()(TriggerCounter c) { apply { } }",
            "parts": 'FirmwareEvent<event_t>("x") e; Q(e) q;',
        },
        "argument c is extern FirmwareEvent<struct event_t>; extern TriggerCounter was expected",
    ),
]


@pytest.mark.parametrize(("parts", "message"), ILLEGAL)
def test_an_illegal_program_is_refused_at_its_place(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    told = p4.refusal(**parts)
    assert f": error: {message}" in told
    assert "what this program asks of the engine" not in told


@pytest.mark.parametrize(
    "call",
    [
        "hash(s.mcast_grp, HashAlgorithm.crc16, true, { s.mcast_grp }, 8w3);",
        "bool red; colour.execute_meter(0, red);",
    ],
)
def test_an_extern_that_takes_a_number_takes_nothing_else(p4: SimpleNamespace, call: str) -> None:
    meter = "meter(5, MeterType.bytes) colour; register"
    text = MIRROR.replace("register", meter).replace("seen.write(1, 1);", call)
    with pytest.raises(CompileError, match=r"program.p4:\d+:\d+: error: a number was expected here"):
        p4.compile_text(text)


def test_an_array_that_is_too_large_is_refused_where_it_is_declared(p4: SimpleNamespace) -> None:
    text = MIRROR.replace("(16)", "(0xffffffff)")
    with pytest.raises(CompileError, match=r"program.p4:\d+:\d+: error: this register has 4294967295 places"):
        p4.compile_text(text)


CHECKSUM = "%s_checksum(true, { 8w1, 8w2 }, m.sum, HashAlgorithm.csum16);"


@pytest.mark.parametrize("block", "VIEC")
@pytest.mark.parametrize(("name", "home"), [("verify", "V"), ("update", "C")])
def test_a_checksum_is_verified_and_computed_in_the_block_for_it(
    p4: SimpleNamespace, name: str, home: str, block: str
) -> None:
    text = MIRROR.replace("struct metadata_t { }", "struct metadata_t { bit<16> sum; }")
    before, after = text.split(f"control {block}(")
    text = f"{before}control {block}({after.replace('apply {', 'apply { ' + CHECKSUM % name, 1)}"
    if block == home:
        p4.compile_text(text)
        return
    roles = {"V": "verify", "I": "ingress", "E": "egress", "C": "compute"}
    with pytest.raises(CompileError) as caught:
        p4.compile_text(text)
    assert f"{name}_checksum is called in {roles[block]}; it stands only in {roles[home]}" in str(
        caught.value
    )


def test_a_checksum_in_a_control_that_ingress_applies_is_refused(p4: SimpleNamespace) -> None:
    text = MIRROR.replace("struct metadata_t { }", "struct metadata_t { bit<16> sum; }")
    inner = f"control Q(inout metadata_t m) {{ apply {{ {CHECKSUM % 'update'} }} }} control I("
    text = text.replace("control I(", inner).replace("register<", "Q() q; register<")
    text = text.replace("seen.write(1, 1);", "seen.write(1, 1); q.apply(m);")
    with pytest.raises(
        CompileError, match="update_checksum is called in ingress; it stands only in compute"
    ) as told:
        p4.compile_text(text)
    assert "hint: that is block 5 of V1Switch(...)" in str(told.value)


def test_dropping_is_not_called_drop(p4: SimpleNamespace) -> None:
    with pytest.raises(CompileError, match="unknown action or function drop") as told:
        p4.compile_text(MIRROR.replace("seen.write(1, 1);", "drop();"))
    assert "hint: write mark_to_drop(...), with the standard metadata" in str(told.value)


def test_a_size_that_is_no_constant_is_told_as_such_whatever_its_type(p4: SimpleNamespace) -> None:
    text = MIRROR.replace("struct metadata_t { }", "struct metadata_t { bit<16> sum; }")
    i = text.index("register<")
    with pytest.raises(CompileError, match="argument size must be known at compile time") as told:
        p4.compile_text(f"{text[:i]}register<bit<8>>(m.sum) more; {text[i:]}")
    assert "hint: cast" not in str(told.value)


def test_a_meter_gives_its_colour_as_a_number(p4: SimpleNamespace) -> None:
    text = MIRROR.replace("register<", "direct_meter<bool>(MeterType.bytes) colour; register<")
    with pytest.raises(
        CompileError, match=r"program.p4:\d+:\d+: error: .* carries bool; bit<N> or int<N> was"
    ):
        p4.compile_text(text)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            "action a() { rate.read(mine); } table t { actions = { a; } }",
            "I.rate is the meter of no table, and read",
        ),
        (
            "table t { actions = { NoAction; } meters = rate; }",
            "nothing reads I.rate, the meter of table I.t",
        ),
        (
            "action a() { rate.read(mine); } action b() { rate.read(other); } "
            "table t { actions = { a; b; } meters = rate; }",
            "I.rate is read into another field before",
        ),
        ("action a() { rate.read(mine); } table t { actions = { a; } meters = rate; }", ""),
    ],
)
def test_a_direct_meter_of_v1model_is_a_table_s_and_read_into_one_field(
    p4: SimpleNamespace, parts: str, message: str
) -> None:
    """p4c #1829: BMv2 has no other."""
    declared = f"direct_meter<bit<8>>(MeterType.bytes) rate; bit<8> mine; bit<8> other; {parts} register<"
    text = MIRROR.replace("register<", declared).replace("seen.write", "t.apply(); seen.write")
    if not message:
        p4.compile_text(text)
        return
    with pytest.raises(CompileError, match=message):
        p4.compile_text(text)


@pytest.mark.parametrize(
    ("keys", "fits"),
    [
        ("h.a: selector; h.b: selector;", True),
        ("h.b: selector;", False),
        ("h.b: selector; h.a: selector;", False),
        ("", False),
    ],
)
def test_tables_that_share_a_selector_select_by_the_same_keys(
    p4: SimpleNamespace, keys: str, fits: bool
) -> None:
    """BMv2 has the selector's keys with the selector, and not with the tables."""
    table = "table %s { key = { h.a: exact; %s } actions = { NoAction; } implementation = ways; }"
    tables = table % ("one", "h.a: selector; h.b: selector;") + table % ("two", keys)
    declared = f"action_selector(HashAlgorithm.crc16, 8, 8) ways; {tables} register<"
    text = MIRROR.replace("register<", declared).replace("seen.write", "one.apply(); two.apply(); seen.write")
    text = text.replace("struct headers_t { }", "struct headers_t { bit<8> a; bit<8> b; }")
    if fits:
        p4.compile_text(text)
        return
    with pytest.raises(CompileError, match=r"I\.ways selects by other keys in another table"):
        p4.compile_text(text)


OTHER = """
control C8(in bit<8> x) { apply { } }
control C16(in bit<16> x) { apply { } }
control Empty() { apply { } }
control Of<T>(in T x);
package Pair<T>(Of<T> one, Of<T> two);
"""


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ("Pair(C8(), C8()) pair;", ""),
        ("Pair<bit<8>>(C8(), C8()) pair;", ""),
        ("Pair(C8(), C16()) pair;", "parameter x is bit<16>; bit<8> was expected"),
        ("Pair<bit<16>>(C8(), C8()) pair;", "T of Pair is bit<16> here, and bit<8> in its blocks"),
        ("Pair(C8(), Empty()) pair;", "Empty has 0 parameters; Of has 1"),
        ("control May(in bit<8> x = 7); package Has(May may); Has(Empty()) has;", ""),
        ("Pair(C8(), 5) pair;", "two must be a block"),
        ("Pair<lost_t>(C8(), C8()) pair;", "unknown type lost_t"),
    ],
)
def test_a_package_that_is_not_the_program_is_checked_too(
    p4: SimpleNamespace, instance: str, message: str
) -> None:
    text = MIRROR.replace("struct headers_t", OTHER + "struct headers_t").replace(
        "V1Switch(", f"{instance} V1Switch("
    )
    if not message:
        p4.compile_text(text)
        return
    with pytest.raises(CompileError, match=re.escape(message)):
        p4.compile_text(text)


@pytest.mark.parametrize("kind", ["bit<8>", "bool", "error", "varbit<8>"])
@pytest.mark.parametrize("name", ["headers_t h", "metadata_t m"])
def test_the_headers_and_the_metadata_of_the_program_are_structs(
    p4: SimpleNamespace, name: str, kind: str
) -> None:
    place = name.split()[1]
    with pytest.raises(CompileError, match=f"parameter {place} is {kind}; a struct was expected"):
        p4.compile_text(MIRROR.replace(name, f"{kind} {place}"))


def test_a_register_that_says_not_what_it_carries_is_refused(p4: SimpleNamespace) -> None:
    with pytest.raises(CompileError, match="cannot tell what type T of register is"):
        p4.compile_text(MIRROR.replace("register<bit<8>>(16)", "register(16)"))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("counter(packet = true)", "counter has no parameter packet"),
        ("counter(size = 4)", "argument type of counter is missing"),
        ("register<bit<8>>(foo = 4)", "register has no parameter foo"),
        (
            "action_selector(algorithm = HashAlgorithm.crc16, size = 4)",
            "argument outputWidth of action_selector is missing",
        ),
        ("meter()", "meter takes 2 arguments; 0 are given"),
    ],
)
def test_an_object_is_made_with_all_its_arguments(p4: SimpleNamespace, made: str, message: str) -> None:
    with pytest.raises(CompileError) as told:
        p4.compile_text(MIRROR.replace("register<bit<8>>(16) seen;", f"register<bit<8>>(16) seen; {made} o;"))
    assert f"error: {message}" in str(told.value)
    assert str(told.value).endswith("\n1 error")


MIRROR = """
#include <core.p4>
#include <v1model.p4>
struct headers_t { }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<8>>(16) seen;
    apply { seen.write(1, 1); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def chain(count: int, body: str) -> str:
    """Return controls C0 to C<count>, each with a `body` that may do something with the one before."""
    first = "control C0(inout bit<16> x) { apply { x = x + 1; } }"
    return first + "".join(
        f"control C{number}(inout bit<16> x) {{ {body.replace('BEFORE', f'C{number - 1}')} }}"
        for number in range(1, count + 1)
    )


@pytest.mark.parametrize(
    ("count", "body", "sentence"),
    [
        (90, "apply { BEFORE.apply(x); }", "more than 64 blocks deep"),
        (300, "BEFORE() b; apply { b.apply(x); }", "more than 64 blocks deep"),
        (18, "BEFORE() a; BEFORE() b; apply { a.apply(x); b.apply(x); }", "more than 16384 instances"),
    ],
)
def test_blocks_in_one_another_are_finite(p4: SimpleNamespace, count: int, body: str, sentence: str) -> None:
    told = p4.refusal(top=chain(count, body), parts=f"C{count}() c;", apply="c.apply(m.mark);")
    assert f"error: {sentence}" in told
