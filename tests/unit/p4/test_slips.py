# SPDX-License-Identifier: Apache-2.0
"""What people new to P4 write, and what is one slip: one error each, with what mends it."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from nicemu.p4 import CompileError, compile_text
from nicemu.programs import programs_root

LONG = "header_union none_t { } header long_t { bit<16> a; varbit<16> b; }"
WITH_SIZE = "control Q(inout bit<16> x)(bit<16> n) { apply { x = n; } }"
SIDES = "enum Side { LEFT, RIGHT } enum int<8> kind_t { ONE = 1 }"
FILL = "action fill(out bit<16> x, bit<16> n) { x = n; }"
PARTS = FILL + " table t { key = { %s } actions = { %s } %s }"


def one(told: str, message: str, hint: str) -> None:
    assert f": error: {message}" in told
    assert told.endswith("\n1 error")
    if hint:
        assert f"    hint: {hint}" in told


@pytest.mark.parametrize(
    ("apply", "message", "hint"),
    [
        ("while (m.flag) { m.flag = false; }", "P4 has no while", "write for (; condition; ) {...}"),
        ("for (;;) { break; }", "the condition of for is missing", "write true where break ends the loop"),
        ("transition accept;", "transition ends a state of a parser, and stands nowhere else", ""),
        ("m.mark = (flow_t) m.mark;", "unknown type flow_t", "a value behind parentheses is cast to"),
        ("m.mark = (m) 5;", "m is no type", "a value behind parentheses is cast to the type in them"),
        ("bit<8> f(in bit<8> x) { return x; }", "function f stands inside a block", "write it outside"),
        ("tag_t t(5);", "the arguments of an object stand behind its type", "write type(...) t;"),
        ("5 = m.mark;", "this stores into something that is no variable", ""),
        ("m.flag = tag.isValid();", "unknown name tag", ""),
        ("uint8 x = 1;", "unknown type uint8", "write bit<8>"),
        ("s32 x = 1;", "unknown type s32", "write int<32>"),
        ("m.flag = LEFT == RIGHT;", "unknown name LEFT", "write Side.LEFT"),
        ("if (parse(m.mark) == 1) { }", "unknown", ""),
        ("string s;", "a variable cannot be string", "make it const"),
        ("Q q;", "control Q is no value", "write Q(...) q;"),
        ("Q.apply(m.mark);", "Q is applied by its name, and has parameters", "declare Q(...) name;"),
        ("tuple<bit<16>> t = { a = 1 };", "tuple<bit<16>> has no names for its values", "remove them"),
        ("switch (m.flag) { true: { } 1: { } }", "the subject of switch is bool", "write if"),
        ("m.mark = m.mark ? 1 : 2;", "the condition of ?: is bit<16>", "compare it with 0"),
        ("m.mark = m.mark << -8s1;", "shifts by a number below 0", ""),
        ("if (m.flag) { } elseif (m.flag) { }", "P4 has no elseif", "write else if (condition) {...}"),
        ("switch (m.mark) { case 1: { } }", "P4 has no case", "write the value alone"),
        ("m.mark++;", "expected '=' or a call, found '++'", "write += 1"),
        ("m.mark--;", "expected '=' or a call, found '-'", "write -= 1"),
        ("if (m.flag and m.flag) { }", "expected ')' after the condition, found 'and'", "write &&"),
        ("if (not m.flag) { }", "expected ')' after the condition, found 'm'", "write !"),
        ("m.mark = _;", "'_' is no value", ""),
        ("uint8_t x;", "unknown type uint8_t", "write bit<8>"),
        ("apply t;", "unknown type apply", "write name.apply();"),
        ("m->mark = 1;", "expected '=' or a call, found '-'", "write . for ->"),
        ("for (bit<8> _ in 0 .. 3) { }", "expected the name of the variable, found '_'", "'_' is no name"),
        ("bits<8> x;", "unknown type bits", "did you mean bit?"),
        ("kind_t k = m.mark;", "the value of k is bit<16>", "cast it: (kind_t)(int<8>)(bit<8>)..."),
        ("Side s = headers.tag.kind;", "the value of s is bit<8>", "name a member: Side.LEFT"),
        ("headers.tag.small = m.mark;", "the value is bit<16>", "cast it: (int<8>)(bit<8>)..."),
        ("tag_t[2] s; s.kind = 1;", "tag_t[2] has no kind", "say of which header: [0].kind"),
        ("randm(m.mark, 0, 5);", "unknown action or function randm", "did you mean random?"),
        (
            "headers[0] = 5;",
            "struct headers_t has no elements; an array, header stack or tuple was expected",
            "",
        ),
    ],
)
def test_in_the_body_of_a_control(p4: SimpleNamespace, apply: str, message: str, hint: str) -> None:
    told = p4.refusal(apply, top=WITH_SIZE, types=SIDES)
    if message == "unknown name LEFT":
        assert "hint: write Side.LEFT" in told
        assert "hint: write Side.RIGHT" in told
        return
    one(told, message, hint)


@pytest.mark.parametrize(
    ("parts", "message", "hint"),
    [
        (PARTS % ('"a": exact;', "fill(m.mark);", ""), "a key is string; a number was expected", ""),
        (PARTS % ("no.apply().hit: exact;", "NoAction;", ""), "unknown name no", ""),
        (
            PARTS % ("m.mark: exact;", "go;", "default_action = go; entries = { 1: go; 2: go; }"),
            "unknown action go",
            "",
        ),
        (
            PARTS % ("m.mark: exact;", "fill(m.mark);", "default_action = fill(5);"),
            "the arguments that the list of actions gives fill are missing",
            "write them here, too",
        ),
        (
            PARTS % ("m.mark: exact;", "fill(m.mark);", "default_action = fill(m.mark);"),
            "the action data of fill are missing: n",
            "write them here, too",
        ),
        (
            "table t { key = { m.mark: exact; } action = { NoAction; } }",
            "unknown table property action",
            "did you mean actions?",
        ),
        ("bit<8> f(in bit<8> x) { return x; }", "function f stands inside a block", "write it outside all"),
        ("Q(k = 3) q;", "Q has no parameter k", "there is n"),
    ],
)
def test_among_the_declarations_of_a_control(
    p4: SimpleNamespace, parts: str, message: str, hint: str
) -> None:
    apply = "t.apply();" if "table t" in parts else ""
    one(p4.refusal(apply, parts=parts, top=WITH_SIZE), message, hint)


@pytest.mark.parametrize(
    ("parts", "place"),
    [("TriggerCounter(5) count;", "14:1"), ("Q() q;", "14:1"), ("Q<bit<8>>(5) q;", "14:1")],
)
def test_a_wrong_constructor_is_pointed_at(p4: SimpleNamespace, parts: str, place: str) -> None:
    told = p4.refusal(parts=f"\n{parts}", top=WITH_SIZE)
    assert re.search(rf"test\.p4:{place}: error: \w+ takes \d", told)
    assert "is not used" not in told
    assert told.endswith("\n1 error")


@pytest.mark.parametrize(
    ("top", "message", "hint"),
    [
        ("enum Side<T> { LEFT }", "enum Side has type parameters", "an enum has none"),
        ("enum bool Side { LEFT = true }", "enum Side cannot be represented as bool", ""),
        ("enum side_t Side { LEFT = 1 }", "unknown type side_t", ""),
        ("bit<8> f(in bit<8> x) { exit; }", "exit cannot stand in a function", ""),
        ("const bool b = { p = 8w1 } == { p = 8w1 };", "nothing tells of what struct the sides of ==", ""),
        (
            "value_set<bit<8>>(4) v;",
            "expected a declaration, found 'value_set'",
            "value sets stand in parsers",
        ),
        ("TriggerCounter c;", "a variable cannot stand outside all blocks", "write TriggerCounter(...) c;"),
        (
            "typedef bit<8> four_t[4];",
            "expected ';' after the type",
            "sizes stand before the name: TYPE[SIZE] four_t;",
        ),
        ("const error e = NoMatch;", "unknown name NoMatch", "write error.NoMatch"),
        ("@foo( const bit<8> k = 1;", "'(' is never closed", ""),
    ],
)
def test_outside_all_blocks(p4: SimpleNamespace, top: str, message: str, hint: str) -> None:
    one(p4.refusal(top=top), message, hint)


@pytest.mark.parametrize(
    ("state", "message", "hint"),
    [
        ("packet.extract(5);", "extract writes to something that is no variable", ""),
        ("packet.extract({ 1, 2 });", "extract writes to something that is no variable", ""),
        ("packet.lookahead(headers.tag);", "lookahead takes 0 arguments; 1 is given", ""),
        ("m.mark = packet.lookahead<none_t>().a;", "lookahead of header_union none_t", ""),
        ("m.mark = packet.lookahead<long_t>().a;", "lookahead of header long_t, which has no fixed", ""),
        ("extract(headers.tag);", "unknown action or function extract", "extract is a method of packet_in"),
        ("m.mark = (bit<16>) headers.st.nextIndex;", "tag_t[2] has no nextIndex", "write lastIndex + 1"),
        ("verify(m.flag, NoMatch);", "unknown name NoMatch", "write error.NoMatch"),
        ("if (m.flag) { transition accept; }", "transition ends a state of a parser, and stands", ""),
    ],
)
def test_in_a_state(p4: SimpleNamespace, state: str, message: str, hint: str) -> None:
    states = f"state start {{ packet.extract(headers.tag); {state} transition accept; }}"
    told = p4.refusal(states=states, types=LONG, members="tag_t[2] st;")
    one(told, message, hint)


PROGRAM = """
#include <core.p4>
#include <v1model.p4>
struct headers_t { }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { } }
"""


BOTH = "tuple<bit<16>, bool> both = { 1, true };"


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (
            "m.flag = both == pair;",
            "the right side of == is struct pair_t; tuple<bit<16>, bool> was expected",
        ),
        (
            "m.flag = pair == both;",
            "the right side of == is tuple<bit<16>, bool>; struct pair_t was expected",
        ),
        ("fill(both);", "argument x is tuple<bit<16>, bool>; struct pair_t was expected"),
        ("pair = both;", "the value is tuple<bit<16>, bool>; struct pair_t was expected"),
        ("pair_t other = both;", "the value of other is tuple<bit<16>, bool>; struct pair_t was expected"),
        ("take(both);", "argument x is tuple<bit<16>, bool>; struct pair_t was expected"),
        ("both = pair;", "the value is struct pair_t; tuple<bit<16>, bool> was expected"),
        ("pair = m.flag ? both : pair;", "the second value of ?: is struct pair_t; tuple<bit<16>, bool>"),
    ],
)
def test_a_tuple_is_no_struct(p4: SimpleNamespace, apply: str, message: str) -> None:
    top = """struct pair_t { bit<16> a; bool b; } struct other_t { bit<8> a; bool b; }
    void fill(inout pair_t x) { } void take(in pair_t x) { }
"""
    assert f": error: {message}" in p4.refusal(f"pair_t pair; {BOTH} {apply}", top=top)


@pytest.mark.parametrize(
    ("main", "messages"),
    [
        ("V1Switch(P(), V(), I(), I(), C(), D()) main;", []),
        ("V1Switch<headers_t, _>(P(), V(), I(), I(), C(), D()) main;", []),
        (
            "V1Switch<metadata_t, headers_t>(P(), V(), I(), I(), C(), D()) main;",
            [
                "12:10: error: H of V1Switch is struct metadata_t here, and struct headers_t in its blocks",
                "12:22: error: M of V1Switch is struct headers_t here, and struct metadata_t in its blocks",
            ],
        ),
        (
            "V1Switch(P(), V(), I(), I(), D(), C()) main;",
            [
                "12:30: error: D is no ComputeChecksum: all its parameters differ",
                "12:35: error: C is no Deparser: all its parameters differ",
            ],
        ),
        (
            "V1Switch(I(), V(), P(), I(), C(), D()) main;",
            [
                "12:10: error: I is a control; a parser was expected",
                "12:20: error: P is a parser; a control was expected",
            ],
        ),
        (
            "V1Switch(P(), I(), V(), I(), C(), D()) main;",
            [
                "12:15: error: I has 3 parameters; VerifyChecksum has 2",
                "12:20: error: V has 2 parameters; Ingress has 3",
            ],
        ),
    ],
)
def test_in_main(main: str, messages: list[str]) -> None:
    told = ""
    try:
        compile_text(PROGRAM.strip() + "\n" + main, "a.p4")
    except CompileError as error:
        told = str(error)
    assert re.findall(r"a\.p4:(\d+:\d+: error: .*)", told) == messages


SIX = "(P(), V(), I(), I(), C(), D()) main;"


@pytest.mark.parametrize(
    ("alias", "messages"),
    [
        ("typedef V1Switch<headers_t, metadata_t> Switch;", []),
        ("typedef V1Switch<_, metadata_t> S; typedef S Switch;", []),
        (
            "typedef V1Switch<headers_t, headers_t> Switch;",
            ["12:29: error: M of V1Switch is struct headers_t here, and struct metadata_t in its blocks"],
        ),
        ("typedef V1Switch Switch;", ["12:9: error: V1Switch takes 2 type arguments; 0 are given"]),
        (
            "typedef V1Switch<_, _> S; typedef S<_, _> Switch;",
            ["12:35: error: S takes 0 type arguments; 2 are given"],
        ),
    ],
)
def test_in_another_name_of_a_package(alias: str, messages: list[str]) -> None:
    told = ""
    try:
        compile_text(f"{PROGRAM.strip()}\n{alias}\nSwitch{SIX}", "a.p4")
    except CompileError as error:
        told = str(error)
    assert re.findall(r"a\.p4:(\d+:\d+: error: .*)", told) == messages


def test_a_generic_function_is_not_made_for_arguments_that_it_cannot_have(p4: SimpleNamespace) -> None:
    told = p4.refusal('f("x");', top="T f<T>(in T x) { return x; }")
    one(told, "argument x is string; a value that there is at run time was expected", "")


def test_a_parser_applied_in_a_control_is_not_told_to_give_its_packet_a_direction(
    p4: SimpleNamespace,
) -> None:
    told = p4.refusal("P.apply(headers, m);")
    assert "a parser cannot be applied in a control" in told
    assert "must be known at compile time" not in told


def test_a_packet_that_has_a_direction_is_told_once(p4: SimpleNamespace) -> None:
    with pytest.raises(CompileError) as caught:
        compile_text(p4.source().replace("packet_in packet", "inout packet_in packet"))
    one(str(caught.value), "extern packet_in as a parameter has no direction", "an object is no value")


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        ("f(x = 1, x = 2)", "argument x is given twice", ""),
        ("g(m.mark)", "argument n must be known at compile time", "give n a width and a direction"),
    ],
)
def test_in_the_arguments_of_a_call(p4: SimpleNamespace, call: str, message: str, hint: str) -> None:
    top = "bit<16> f(in bit<16> x, in bit<16> y) { return x; } bit<16> g(int n) { return n; }"
    one(p4.refusal(f"m.mark = {call};", top=top), message, hint)


@pytest.mark.parametrize(
    "apply",
    [
        "m.mark = same<word_t>(m.mark, m.mark);",
        "m.mark = same<word_t>(m.mark);",
        "none<word_t>(m.mark);",
        "both<word_t, bit<16>>(m.mark, m.mark);",
        "both<bit<16>, word_t>(m.mark, m.mark);",
    ],
)
def test_in_the_type_arguments_of_a_call(p4: SimpleNamespace, apply: str) -> None:
    """A struct that is declared further down is not there yet."""
    top = "T same<T>(in T x, in T y) { return x; } T same<T>(in T x) { return x; } void none<T>(in T x) { }"
    one(p4.refusal(apply, top=top + "void both<S, T>(in S x, in T y) { }"), "unknown type word_t", "")


def test_what_is_compared_is_no_type_argument(p4: SimpleNamespace) -> None:
    top = "bit<16> one(in bool x, in bool y) { return x && y ? 16w1 : 16w0; }"
    p4.compile("bit<16> a = 1; bit<16> b = 2; m.mark = one(m.mark < a, b > (m.mark));", top=top)


@pytest.mark.parametrize(
    ("top", "parts", "messages"),
    [
        (
            "extern void probe(in bit<8> v = true);",
            "",
            ["the default value of v is bool; bit<8> was expected"],
        ),
        ("extern Probe { Probe(bit<8> v = far); }", "", ["unknown name far"]),
        ("extern Probe { Probe(); void at(in bit<8> v = far); }", "", ["unknown name far"]),
        ("package Other(bit<8> x = far);", "", ["unknown name far"]),
        ("control Q()(bit<8> n = far) { apply { } }", "Q(5) q;", ["unknown name far"]),
        ("parser Q(packet_in p)(bit<8> n = 8w1 ++ 1w1) { state start { transition accept; } }", "", None),
        ("control Q()(bit<8> n = 300) { apply { } }", "", []),
        ("const bit<8> NEAR = 7; control Q()(bit<8> n = NEAR) { apply { } }", "Q() q;", []),
    ],
)
def test_in_default_values_that_no_call_uses(
    p4: SimpleNamespace, top: str, parts: str, messages: list[str] | None
) -> None:
    """Source: P4-16 Language Specification 1.2.5, "Default parameter values"."""
    if messages == []:
        p4.compile(top=top, parts=parts)
        return
    told = re.findall(r": error: (.*)", p4.refusal(top=top, parts=parts))
    assert told == (messages or ["the default value of n is bit<9>; bit<8> was expected"])


@pytest.mark.parametrize(
    ("apply", "hint"),
    [
        ("m.mark = metadata.mark;", "did you mean m, which is metadata_t?"),
        ("m.mark = header.tag.number;", ""),
        ("m.flag = headers.tag.valid();", "did you mean isValid?"),
    ],
)
def test_the_value_is_named_that_has_the_type_nearest_to_a_name(
    p4: SimpleNamespace, apply: str, hint: str
) -> None:
    told = p4.refusal(apply)
    assert not hint or f"hint: {hint}" in told
    assert "headers_t?" not in told


def test_a_type_that_is_declared_again_is_told_alone(p4: SimpleNamespace) -> None:
    told = p4.refusal("nic.ingress_port = 1;", types="struct nic_metadata_t { bit<8> x; }")
    one(told, "nic_metadata_t is declared twice in the same scope", "choose another name")


def test_a_stack_of_too_many_elements_is_legal_and_not_taken(p4: SimpleNamespace) -> None:
    told = p4.refusal(members="tag_t[2000] many;")
    one(told, "not supported by nicemu yet: an array of 2000, more than 1024 elements", "")


@pytest.mark.parametrize(
    ("top", "message", "hint"),
    [
        (
            "struct a_t { Late l; } enum Late { A }",
            "unknown type Late",
            "it is declared further down, at test.p4",
        ),
        (
            "void a() { late(); } void late() { }",
            "unknown action or function late",
            "it is declared further down",
        ),
        ("const bit<8> A = LATE; const bit<8> LATE = 1;", "unknown name LATE", "it is declared further down"),
        ("struct a_t { a_t a; }", "unknown type a_t", "a_t is being declared here, and cannot name itself"),
        (
            "control Q() { Q() q; apply { } }",
            "unknown type Q",
            "Q is being declared here, and cannot name itself",
        ),
        (
            "control Q() { action a() { a(); } apply { a(); } }",
            "unknown action or function a",
            "a is being declared here, and cannot name itself",
        ),
        (
            "control Q() { action a() { b(); } action b() { } apply { a(); } }",
            "unknown action or function b",
            "it is declared further down",
        ),
        (
            "control Q() { L() l; apply { } } control L() { apply { } }",
            "unknown type L",
            "it is declared further",
        ),
        ("typedef Z Z;", "unknown type Z", "Z is being declared here, and cannot name itself"),
        (
            "header_type a_t { fields { a : 8; } }",
            "expected a declaration",
            "this looks like P4-14; write P4-16",
        ),
        ("#ifdef 3\n#endif", "#ifdef needs a name, found '3'", ""),
        ("struct a_t { @name(3) bit<8> a; }", "@name needs a name in quotes", 'write @name("...")'),
        ("@name(A) const bit<8> B = 1;", "unknown name A", ""),
        ("@own[a = A] const bit<8> B = 1;", "unknown name A", ""),
    ],
)
def test_a_slip_outside_the_blocks_is_told_with_what_mends_it(
    p4: SimpleNamespace, top: str, message: str, hint: str
) -> None:
    told = p4.refusal(top=top)
    assert f": error: {message}" in told
    assert hint in told


@pytest.mark.parametrize(
    ("parts", "apply", "top"),
    [
        ("Q() q; bit<8> inside = 1;", "q.apply();", "control Q() { bit<8> x; apply { x = inside; } }"),
        ("bit<8> inside = 1;", "m.flag = .inside == 1;", ""),
        ("action inside() { }", "f();", "void f() { inside(); }"),
    ],
)
def test_what_another_block_declares_is_not_called_a_later_declaration(
    p4: SimpleNamespace, parts: str, apply: str, top: str
) -> None:
    told = p4.refusal(apply, parts=parts, top=top)
    assert "unknown" in told
    assert "declared" not in told


def test_errors_and_match_kinds_count_wherever_they_are_declared(p4: SimpleNamespace) -> None:
    top = """void f(inout error e) { e = error.Late; } const error SOON = error.Soon; error { Late, Soon }
    action a(out bool b) { b = SOON == error.Soon; }"""
    assert p4.compile("a(m.flag);", top=top)
    assert "error Late is declared twice" in p4.refusal(top=top + " error { Late }")


def test_a_core_of_before_may_lack_errors(p4: SimpleNamespace) -> None:
    folder = programs_root() / "p4" / "include"
    core, nic = ((folder / name).read_text(encoding="utf-8") for name in ("core.p4", "nicemu.p4"))
    lacking = core.replace("ParserTimeout,", "ParserTimeout ").replace("ParserInvalidArgument ", "")
    assert lacking.count("ParserInvalidArgument") == core.count("ParserInvalidArgument") - 1
    text = p4.source("m.flag = true;").replace("#include <core.p4>", lacking)
    text = text.replace("#include <nicemu.p4>", nic.replace("#include <core.p4>", ""))
    assert compile_text(text).program.errors == compile_text(p4.source()).program.errors
    none = text.replace("action NoAction() {", "action Nothing() {")
    assert none != text
    none = none.replace(
        "apply {\nm.flag", "table t { key = { m.mark: exact; } actions = { } } apply { t.apply(); m.flag"
    )
    assert "error: table t has no default action, and there is no NoAction" in p4_refusal(none)
    assert "error NoError of core.p4 is not declared" in p4_refusal(text.replace("error {", "enum e_t {", 1))


def p4_refusal(text: str) -> str:
    with pytest.raises(CompileError) as caught:
        compile_text(text)
    return str(caught.value)
