# SPDX-License-Identifier: Apache-2.0
"""P4-16, "P4 data types": stacks, unions, varbits, tuples, new and generic types, compiled and run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

PAIR = "struct pair_t { bit<16> a; bit<16> b; }"
STACK = {
    "types": "header label_t { bit<7> label; bit<1> bottom; }",
    "members": "label_t[3] labels;",
    "emit": "packet.emit(headers.labels);",
    "states": """state start {
        packet.extract(headers.labels.next);
        transition select(headers.labels.last.bottom) { 0: start; 1: accept; }
    }""",
}
UNION = {
    "types": "header v4_t { bit<8> a; } header v6_t { bit<16> b; } header_union ip_t { v4_t v4; v6_t v6; }",
    "members": "ip_t ip;",
    "emit": "packet.emit(headers.ip);",
    "states": """state start {
        transition select(packet.lookahead<bit<8>>()) { 4: v4; 6: v6; default: accept; }
    }
    state v4 { packet.extract(headers.ip.v4); transition accept; }
    state v6 { packet.extract(headers.ip.v6); transition accept; }""",
}
VARBIT = {
    "types": "header options_t { bit<8> words; varbit<64> options; }",
    "members": "options_t options; options_t spare;",
    "emit": "packet.emit(headers.options); packet.emit(headers.spare);",
    "states": """state start {
        packet.extract(headers.options, (bit<32>) packet.lookahead<bit<8>>() * 8);
        transition accept;
    }""",
}


def out(p4: SimpleNamespace, frame: str, apply: str = "", **parts: Any) -> str:  # noqa: ANN401
    """Return the frame that leaves, in hexadecimal, or why it was dropped."""
    verdict = p4.run(bytes.fromhex(frame), apply, **parts)
    return str(verdict.drop_reason or verdict.frame.hex())


# Header stacks


def test_a_parser_fills_a_stack_with_next_and_the_deparser_emits_it(p4: SimpleNamespace) -> None:
    assert out(p4, "020405ff", **STACK) == "020405ff"


def test_a_full_stack_has_no_next(p4: SimpleNamespace) -> None:
    assert out(p4, "02020202", **STACK) == "parser.stack_out_of_bounds"


def test_an_empty_stack_has_no_last(p4: SimpleNamespace) -> None:
    states = "state start { m.mark = (bit<16>) headers.labels.last.label; transition accept; }"
    assert out(p4, "02", **(STACK | {"states": states})) == "parser.stack_out_of_bounds"


def test_last_index_counts_from_zero(p4: SimpleNamespace) -> None:
    states = STACK["states"].replace("1: accept", "1: count") + (
        "state count { headers.labels[0].label = (bit<7>) headers.labels.lastIndex; transition accept; }"
    )
    assert out(p4, "020405", **(STACK | {"states": states})) == "040405"


@pytest.mark.parametrize(
    ("apply", "expected"),
    [
        ("headers.labels.push_front(1);", "0204"),
        ("headers.labels.pop_front(1);", "0405"),
        ("headers.labels.pop_front(2);", "05"),
        ("headers.labels.pop_front(9);", ""),
        ("headers.labels.push_front(1); headers.labels[0] = { 0x7f, 1 };", "ff0204"),
        ("headers.labels[1].setInvalid();", "0205"),
        ("headers.labels[0] = headers.labels[2];", "050405"),
        ("bit<8> i = 1; headers.labels[i].label = 0x40;", "028005"),
        ("bit<8> i = 200; headers.labels[i].label = 0x40;", "020405"),
        ("bit<8> i = 200; headers.labels[0].label = headers.labels[i].label;", "000405"),
        ("label_t[3] copy = headers.labels; headers.labels[0].label = 0; headers.labels = copy;", "020405"),
        ("headers.labels = { {1, 0}, {2, 0}, {#} };", "0204"),
        ("headers.labels = { {1, 0}, ... };", "02"),
        ("if (headers.labels.size == 3) { headers.labels.pop_front(1); }", "0405"),
    ],
)
def test_a_control_moves_indexes_and_assigns_stacks(p4: SimpleNamespace, apply: str, expected: str) -> None:
    assert out(p4, "020405", apply, **STACK) == expected


def test_an_out_argument_keeps_the_index_that_it_was_called_with(p4: SimpleNamespace) -> None:
    """Though the index is copied out before it."""
    parts = "action set(inout bit<8> i, out bit<7> label) { label = 0x7f; i = 2; }"
    apply = "bit<8> i = 0; set(i, headers.labels[i].label); headers.labels[i].label = 0x40;"
    assert out(p4, "020405", apply, parts=parts, **STACK) == "fe0481"


@pytest.mark.parametrize(
    ("apply", "words"),
    [
        ("headers.labels[3].label = 1;", "label_t[3] has no element 3"),
        ("headers.labels.next.label = 1;", "next of a stack stands only in parsers"),
        ("headers.labels.push_front(m.mark);", "must be known at compile time"),
        ("headers.labels.shift(1);", "has no method shift"),
        ("headers.labels.first.label = 1;", "has no first"),
        ("headers.labels[m.flag].label = 1;", "the index is bool"),
        ("headers.labels = { {1, 0} };", "has 1 values; label_t[3] has 3 headers"),
    ],
)
def test_a_wrong_use_of_a_stack_is_refused(p4: SimpleNamespace, apply: str, words: str) -> None:
    assert words in p4.refusal(apply, **STACK)


# Header unions


@pytest.mark.parametrize(("frame", "expected"), [("04ff", "04ff"), ("0601ff", "0601ff"), ("07", "07")])
def test_a_union_holds_what_was_extracted(p4: SimpleNamespace, frame: str, expected: str) -> None:
    assert out(p4, frame, **UNION) == expected


@pytest.mark.parametrize(
    ("apply", "expected"),
    [
        ("headers.ip.v6.setValid(); headers.ip.v6.b = 0x0a0b;", "0a0b"),
        ("headers.ip.v6 = { 0x0c0d };", "0c0d"),
        ("headers.ip.v4.setInvalid();", ""),
        ("headers.ip.v6 = {#};", ""),
        ("if (headers.ip.isValid()) { headers.ip.v4.a = 9; }", "09"),
        ("headers.ip = {#}; if (!headers.ip.isValid()) { headers.ip.v4 = { 8 }; }", "08"),
        ("ip_t other; other.v6 = { 0x0102 }; headers.ip = other;", "0102"),
        ("ip_t other = headers.ip; headers.ip.v4.a = 7; if (headers.ip != other) headers.ip = other;", "04"),
    ],
)
def test_one_header_of_a_union_is_valid_at_most(p4: SimpleNamespace, apply: str, expected: str) -> None:
    assert out(p4, "04", apply, **UNION) == expected


def test_extracting_a_header_of_a_stacks_next_union_steps_on(p4: SimpleNamespace) -> None:
    parts = {
        "types": UNION["types"],
        "members": "ip_t[2] ips;",
        "emit": "packet.emit(headers.ips);",
        "states": """state start {
            packet.extract(headers.ips.next.v4);
            packet.extract(headers.ips.next.v6);
            transition accept;
        }""",
    }
    assert p4.run(bytes.fromhex("01 0203 ff"), **parts).frame.hex() == "010203ff"


def test_a_stack_may_hold_unions(p4: SimpleNamespace) -> None:
    parts = UNION | {"members": "ip_t[2] ips;", "emit": "packet.emit(headers.ips);"}
    parts["states"] = """state start { packet.extract(headers.ips.next.v4); transition more; }
    state more { packet.extract(headers.ips[1].v6); transition accept; }"""
    assert out(p4, "040102ff", "headers.ips[0].v6 = { 0x0909 };", **parts) == "09090102ff"


# varbit


def test_a_varbit_is_as_long_as_was_extracted(p4: SimpleNamespace) -> None:
    assert out(p4, "03aabbccff", **VARBIT) == "03aabbccff"
    assert out(p4, "00ff", **VARBIT) == "00ff"


@pytest.mark.parametrize(
    ("frame", "reason"), [("09" + "aa" * 9, "parser.header_too_short"), ("03aabb", "parser.too_short")]
)
def test_a_varbit_that_does_not_fit_is_rejected(p4: SimpleNamespace, frame: str, reason: str) -> None:
    assert out(p4, frame, **VARBIT) == reason


def test_a_varbit_that_is_no_whole_bytes_is_rejected(p4: SimpleNamespace) -> None:
    states = "state start { packet.extract(headers.options, 5); transition accept; }"
    assert out(p4, "03aabb", **(VARBIT | {"states": states})) == "parser.parser_invalid_argument"


def test_varbits_are_assigned_and_compared(p4: SimpleNamespace) -> None:
    apply = """headers.spare.setValid(); headers.spare.words = 7;
    if (headers.spare.options != headers.options.options) headers.spare.options = headers.options.options;"""
    assert out(p4, "02aabb", apply, **VARBIT) == "02aabb07aabb"


def test_extract_needs_a_length_where_there_is_a_varbit_and_none_elsewhere(p4: SimpleNamespace) -> None:
    states = "state start { packet.extract(headers.options); transition accept; }"
    assert "header options_t has a varbit" in p4.refusal(**(VARBIT | {"states": states}))
    assert "header tag_t has no varbit" in p4.refusal(
        states="state start { packet.extract(headers.tag, 8); transition accept; }"
    )


# Tuples, new types, generic types, defaults


@pytest.mark.parametrize(
    ("apply", "top", "expected"),
    [
        ("tuple<bit<16>, bool> t = { 5, true }; headers.tag.number = t[0];", "", 5),
        ("tuple<bit<16>, bool> t; t = { 6, true }; if (t[1]) headers.tag.number = t[0];", "", 6),
        ("tuple<bit<16>> t = { 7 }; t = { t[0] + 1 }; headers.tag.number = t[0];", "", 8),
        ("tuple<bit<16>> t = { 7 }; if (t == { 7 }) headers.tag.number = 9;", "", 9),
        (
            "tuple<bit<16>> t = { 7 }; if ({ { 7 } } == { t } && { t } != { { 8 } }) headers.tag.number = 9;",
            "",
            9,
        ),
        ("port_t p = (port_t) 16w3; headers.tag.number = (bit<16>) p;", "type bit<16> port_t;", 3),
        (
            "port_t p = (port_t) 16w3; if (p == (port_t) 16w3) headers.tag.number = 4;",
            "type bit<16> port_t;",
            4,
        ),
        ("port_t p = 3; p = 4; headers.tag.number = (bit<16>) p;", "type bit<16> port_t;", 4),
        ("low_t p = -1; headers.tag.number = (bit<16>) (int<16>) p;", "type int<16> low_t;", 0xFFFF),
        ("headers.tag.number = (bit<16>) K;", "type bit<16> port_t; type port_t id_t; const id_t K = 7;", 7),
        (
            "pair_t<port_t> p = { 1, 2 }; headers.tag.number = (bit<16>) p.b;",
            "type bit<16> port_t; struct pair_t<T> { T a; T b; }",
            2,
        ),
        (
            "headers.tag.number = wide(9);",
            "type bit<16> port_t; bit<16> wide(in port_t p) { return (bit<16>) p; }",
            9,
        ),
        ("pair_t<bit<16>> p = { 1, 2 }; headers.tag.number = p.b;", "struct pair_t<T> { T a; T b; }", 2),
        (
            "pair_t<pair_t<bit<16>>> p = { {1, 2}, {3, 4} }; headers.tag.number = p.b.a;",
            "struct pair_t<T> { T a; T b; }",
            3,
        ),
        (
            "pair_t p = { b = 3, ... }; headers.tag.number = p.a + p.b;",
            "struct pair_t { bit<16> a; bit<16> b; }",
            3,
        ),
        ("pair_t p = ...; headers.tag.number = p.a;", PAIR, 0),
        ("headers.tag.number = Q.a + Q.b;", PAIR + " const pair_t Q = { 5, 6 };", 11),
        ("pair_t p = Q; headers.tag.number = p.b;", PAIR + " const pair_t Q = (pair_t) { b = 6, ... };", 6),
        ("bit<16> x = T[1]; headers.tag.number = x;", "const tuple<bit<16>, bit<16>> T = { 5, 9 };", 9),
        ("headers.tag.number[Q.a:0] = 1;", PAIR + " const pair_t Q = { 15, 6 };", 1),
        ("headers.tag = T;", "const tag_t T = { 1, 0x77, 2 };", 0x77),
        ("headers.tag.number = (bit<16>) headers.tag.minSizeInBits();", "", 32),
        ("headers.tag.number = (bit<16>) headers.tag.maxSizeInBytes();", "", 4),
        ("tag_t t = m.flag ? headers.inner : headers.tag; headers.tag.number = t.number + 1;", "", 0x1235),
    ],
)
def test_values_of_composed_types(p4: SimpleNamespace, apply: str, top: str, expected: int) -> None:
    assert out(p4, "07123480", apply, top=top)[2:6] == f"{expected:04x}"


@pytest.mark.parametrize(
    ("first", "doubled"),
    [
        ("typedef tuple<bit<8>, bit<8>> t0;", "typedef tuple<t{0}, t{0}> t{1};"),
        ("struct t0 {{ bit<8> a; }}", "struct t{1} {{ t{0} a; t{0} b; }}"),
        ("struct pair<T> {{ T a; T b; }} typedef pair<bit<8>> t0;", "typedef pair<t{0}> t{1};"),
    ],
)
def test_types_that_double_at_each_level_are_refused_at_once(
    p4: SimpleNamespace, first: str, doubled: str
) -> None:
    top = first.format() + "\n".join(doubled.format(n, n + 1) for n in range(60))
    assert "values; 262144 are allowed" in p4.refusal(top=top)


def test_a_struct_may_stand_in_a_header(p4: SimpleNamespace) -> None:
    parts = {
        "types": "struct inner_t { bit<4> a; bit<4> b; } header outer_t { inner_t inner; bit<8> c; }",
        "members": "outer_t outer;",
        "states": "state start { packet.extract(headers.outer); transition accept; }",
        "emit": "packet.emit(headers.outer);",
    }
    apply = "bit<4> a = headers.outer.inner.a; headers.outer.inner.a = headers.outer.inner.b; "
    assert out(p4, "12ab", apply + "headers.outer.inner.b = a;", **parts) == "21ab"


def test_lookahead_reads_a_struct(p4: SimpleNamespace) -> None:
    states = """state start { inner_t i = packet.lookahead<inner_t>(); m.mark = (bit<16>) i.b;
        packet.extract(headers.tag); transition accept; }"""
    apply = "headers.tag.number = m.mark;"
    assert (
        out(p4, "1a000000", apply, states=states, types="struct inner_t { bit<4> a; bit<4> b; }")
        == "1a000a00"
    )


def test_the_length_of_the_packet_is_known_to_the_parser(p4: SimpleNamespace) -> None:
    states = (
        "state start { packet.extract(headers.tag); m.mark = (bit<16>) packet.length(); transition accept; }"
    )
    assert out(p4, "07123480aabb", "headers.tag.number = m.mark;", states=states) == "07000680aabb"


@pytest.mark.parametrize(
    ("apply", "top", "words"),
    [
        ("tuple<bit<16>> t; t[m.mark] = 1;", "", "a constant from 0 to 0 was expected"),
        ("tuple<bit<16>> t = { a = 1 };", "", "has no names for its values"),
        (
            "port_t p = (port_t) 16w3; p = p + p;",
            "type bit<16> port_t;",
            "+ does not apply to port_t and port_t",
        ),
        ("port_t p; p = 16w3;", "type bit<16> port_t;", "the value is bit<16>; port_t was expected"),
        ("bit<8> b = {#};", "", "the value of b is {#}; bit<8> was expected"),
        ("m = {#};", "", "the value is {#}; struct metadata_t was expected"),
        ("headers.tag = { 1, 2, 3, 4 };", "", "has 4 values"),
        ("bit<8> x = headers.tag.number[3];", "", "has no elements"),
    ],
)
def test_a_wrong_use_of_a_composed_type_is_refused(
    p4: SimpleNamespace, apply: str, top: str, words: str
) -> None:
    assert words in p4.refusal(apply, top=top)


def test_a_header_union_without_headers_has_no_size(p4: SimpleNamespace) -> None:
    apply = "m.mark = (bit<16>) headers.u.maxSizeInBits();"
    assert p4.compile(apply, types="header_union u_t { }", members="u_t u;")


def test_what_is_measured_is_not_evaluated(p4: SimpleNamespace) -> None:
    apply = "headers.labels[0].label = (bit<7>) headers.labels[200].maxSizeInBits();"
    assert out(p4, "020405", apply, **STACK) == "100405"


@pytest.mark.parametrize(
    "parts",
    [
        {"apply": "switch (m.mark) { (bit<16>) ...: { m.mark = 7; } }"},
        {"apply": "m.mark = K == 0 ? 16w7 : 1;", "top": "const bit<8> K = ...;"},
    ],
)
def test_the_default_value_of_a_number_is_0_where_a_constant_must_be(
    p4: SimpleNamespace, parts: dict[str, str]
) -> None:
    changed = {**parts, "apply": parts["apply"] + " headers.tag.number = m.mark;"}
    assert out(p4, "07123480", **changed)[2:6] == "0007"


CHAINS = {
    "struct": ("", "struct t{n} {{ t{m} x; }}", "t{m} x;"),
    "tuple": ("", "typedef tuple<t{m}> t{n};", "t{m} x;"),
    "generic": ("struct s_t<T> { T x; }", "typedef s_t<t{m}> t{n};", "t{m} x;"),
    "list": ("", "typedef list<t{m}> t{n};", ""),
    "extern": ("extern e_t<T> { e_t(); void f(in T x); }", "typedef e_t<t{m}> t{n};", ""),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_types_hold_one_another_64_deep_at_most(p4: SimpleNamespace, kind: str) -> None:
    first, further, local = CHAINS[kind]

    def chain(depth: int) -> dict[str, str]:
        levels = [further.format(m=at, n=at + 1) for at in range(depth)]
        return {"types": "\n".join([first, "typedef bit<8> t0;", *levels]), "parts": local.format(m=depth)}

    p4.compile(**chain(64))
    assert "is 65 types deep; 64 are allowed" in p4.refusal(**chain(65))


def test_a_chain_of_a_thousand_new_types_is_a_type(p4: SimpleNamespace) -> None:
    chain = "type bit<8> t0; " + " ".join(f"type t{at} t{at + 1};" for at in range(1000))
    p4.compile(types=chain, parts="t1000 x;")


@pytest.mark.parametrize("kind", ["struct", "header", "header_union"])
@pytest.mark.parametrize("field", ["s_t<T> x;", "tuple<s_t<T>> x;", "s_t<bit<8>>[2] x;"])
def test_a_generic_type_cannot_hold_itself(p4: SimpleNamespace, kind: str, field: str) -> None:
    told = p4.refusal(types=f"{kind} s_t<T> {{ {field} }}", parts="s_t<bit<8>> y;")
    assert "unknown type s_t" in told
    assert told.endswith("1 error")


def test_a_header_may_have_structs_deeper_than_16_in_it(p4: SimpleNamespace) -> None:
    chain = "struct s0 { bit<8> x; } " + " ".join(f"struct s{at + 1} {{ s{at} x; }}" for at in range(40))
    source = p4.source(types=f"{chain} header deep_t {{ s40 x; }}", members="deep_t deep;")
    p4.compile_text(source)


def test_generic_types_are_made_4096_times_at_most(p4: SimpleNamespace) -> None:
    kinds = [f"{sign}<{width}>" for sign in ("bit", "int") for width in range(1, 2050)]
    made = [f"typedef s_t<{kind}> t{at};" for at, kind in enumerate(kinds)]
    generic = "struct s_t<T> { T x; }"
    p4.compile(types="\n".join([generic, *made[:4096]]))
    told = p4.refusal(types="\n".join([generic, *made[:4097]]))
    assert "more than 4096 types that are made of generic ones" in told
