# SPDX-License-Identifier: Apache-2.0
"""Parsers and deparsers that P4-16 does not allow are refused, each at its place.

Source: P4-16 Language Specification 1.2.5, "Packet parsing", "Packet construction (deparsing)".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

ILLEGAL: list[tuple[dict[str, str], str]] = [
    (
        {"emit": "headers.tag.kind = 1; packet.emit(headers);"},
        "this stores into headers, which is read-only (an in parameter)",
    ),
    (
        {"emit": "headers.tag.setValid(); packet.emit(headers);"},
        "setValid changes headers, which is read-only (an in parameter)",
    ),
    (
        {"states": "state start { switch (headers.tag.kind) { 1: { } } transition accept; }"},
        "switch cannot stand in a parser",
    ),
    ({"states": "state begin { transition accept; }"}, "parser P has no state start"),
    ({"states": "state start { transition nowhere; }"}, "unknown state nowhere"),
    (
        {"states": "state start { transition select(headers.tag.kind) { 1: nowhere; default: accept; } }"},
        "unknown state nowhere",
    ),
    (
        {"states": "state start { transition accept; } state start { transition accept; }"},
        "parser P has two states start",
    ),
    (
        {"states": "state start { transition accept; } state accept { transition reject; }"},
        "every parser has a state accept",
    ),
    (
        {"states": "state start { transition accept; } state reject { transition accept; }"},
        "every parser has a state reject",
    ),
    (
        {"states": "state start { transition accept; transition reject; }"},
        "expected '}' to close state start",
    ),
    (
        {"states": "state start { transition select(headers.tag.kind, headers.tag.number) { 1: accept; } }"},
        "1 keyset for 2 keys",
    ),
    (
        {"states": "state start { transition select(headers.tag.kind) { true: accept; } }"},
        "a keyset is bool; bit<8> was expected",
    ),
    (
        {"states": "state start { transition select(headers.tag) { _: accept; } }"},
        "a key of select is header tag_t; a number was expected",
    ),
    (
        {"states": "state start { transition select({ headers.tag.kind, headers.tag }) { _: accept; } }"},
        "a key of select holds header tag_t; only numbers were expected",
    ),
    (
        {"states": "state start { transition select({ headers.tag.kind, 8w1 }) { { 1, 2, 3 }: accept; } }"},
        "a keyset has 3 values; tuple<bit<8>, bit<8>> has 2 fields",
    ),
    (
        {
            "states": "tuple<bit<8>, bit<8>> t; state start "
            "{ t = { 1, 2 }; transition select(t) { { t[0], 2 }: accept; } }"
        },
        "a keyset must be known at compile time",
    ),
    (
        {
            "states": "state start { transition select({ headers.tag.kind, 8w1 }) "
            "{ { 1, 2 } &&& { 3, 4 }: accept; } }"
        },
        "a mask or range over tuple<bit<8>, bit<8>>; a list was expected",
    ),
    (
        {"states": "state start { transition select(headers.tag.kind) { headers.tag.small: accept; } }"},
        "a keyset must be known at compile time",
    ),
    (
        {"states": "state start { transition select(5) { 5: accept; } }"},
        "a key of select is a number without a width",
    ),
    ({"states": "state start { return; }"}, "return cannot stand in a parser"),
    ({"states": "state start { exit; transition accept; }"}, "exit cannot stand in a parser"),
    (
        {"states": "state start { packet.extract(headers.tag.kind); transition accept; }"},
        "extract of bit<8>; a header was expected",
    ),
    (
        {"states": "state start { packet.extract(headers); transition accept; }"},
        "extract of struct headers_t; a header was expected",
    ),
    (
        {"states": "state start { packet.extract(5); transition accept; }"},
        "extract writes to something that is no variable",
    ),
    ({"apply": "packet.extract(headers.tag);"}, "unknown name packet"),
    (
        {"states": "state start { packet.extract(headers.tag, 8); transition accept; }"},
        "header tag_t has no varbit; extract has 2 arguments",
    ),
    (
        {
            "types": "header v_t { varbit<8> v; }",
            "members": "v_t v;",
            "states": "state start { packet.extract(headers.v); transition accept; }",
        },
        "header v_t has a varbit; extract has 1 argument",
    ),
    (
        {
            "types": "header v_t { varbit<8> v; }",
            "members": "v_t v;",
            "states": "state start { v_t v = packet.lookahead<v_t>(); transition accept; }",
        },
        "lookahead of header v_t, which has no fixed width",
    ),
    (
        {"states": "state start { packet.lookahead(); transition accept; }"},
        "cannot tell what type lookahead returns",
    ),
    (
        {"states": "state start { packet.advance(true); transition accept; }"},
        "argument sizeInBits is bool; bit<32> was expected",
    ),
    ({"apply": "verify(true, error.NoError);"}, "verify can be called only in a parser; this is a control"),
    (
        {"states": "state start { verify(1, error.NoError); transition accept; }"},
        "argument check is int; bool was expected",
    ),
    (
        {"states": "state start { verify(true, 1); transition accept; }"},
        "argument toSignal is int; error was expected",
    ),
    ({"states": "state start { verify(true, error.Foo); transition accept; }"}, "unknown error Foo"),
    ({"top": "error { NoError }"}, "error NoError is declared twice"),
    ({"parts": "state s { transition accept; }"}, "expected a declaration in control C, found 'state'"),
    (
        {"top": "parser Q(packet_in p) { Q() q; state start { q.apply(p); transition accept; } }"},
        "unknown type Q",
    ),
    ({"types": "header a_t { error t; }"}, "a header field cannot be error"),
    ({"types": "header a_t { match_kind t; }"}, "a header field cannot be match_kind"),
    ({"types": "parser Q(packet_in p); struct s_t { Q t; }"}, "a struct field cannot be parser Q"),
    ({"types": "struct s_t { match_kind t; }"}, "a struct field cannot be match_kind"),
    (
        {"top": "parser Q(packet_in p, packet_in p) { state start { transition accept; } }"},
        "two parameters are called p",
    ),
    (
        {"states": "state start { TriggerCounter() t; transition accept; }"},
        "an object cannot be declared inside a body",
    ),
    (
        {"top": "parser Q(packet_in p) { state start { transition accept; } } Q() q;"},
        "a parser cannot be instantiated outside all blocks",
    ),
    (
        {"apply": "m.flag = {8w1, 8w2} == {8w1};"},
        "== compares lists of different shapes",
    ),
    ({"apply": "m.mark = (bit<16>) error.NoError;"}, "error cannot be cast to bit<16>"),
    ({"apply": "error e = (error) 1;"}, "int cannot be cast to error"),
    ({"apply": "error e = error.NoError + error.NoError;"}, "+ does not apply to error and error"),
    ({"apply": "m.flag = error.NoError < error.NoMatch;"}, "< does not apply to error and error"),
    ({"apply": "error e = 0;"}, "the value of e is int; error was expected"),
    ({"apply": "error e = NoError;"}, "unknown name NoError"),
    ({"apply": "match_kind x;"}, "a variable cannot be match_kind"),
    ({"top": "typedef match_kind k_t;"}, "a type cannot be another name of match_kind"),
    ({"top": "type match_kind k_t;"}, "a new type cannot be made of match_kind"),
    ({"top": "extern void f(in match_kind k);"}, "match_kind as a parameter has no direction"),
    ({"top": "void f(in match_kind k) { }"}, "a parameter of a function cannot be match_kind"),
    ({"top": "const match_kind K = 5;"}, "constant K is int; match_kind was expected"),
    ({"apply": "m.mark = m.mark[17+:0] ++ m.mark;"}, "[17+:0] of bit<16>"),
    ({"apply": "m.mark[3+:0] = 0;"}, "not supported by nicemu yet: an empty slice to store into"),
    ({"apply": "m.mark = exact;"}, "the value is match_kind; bit<16> was expected"),
    ({"apply": "m.mark + 1;"}, "expected '=' or a call, found '+'"),
    ({"apply": "m.mark;"}, "expected '=' or a call, found ';'"),
    ({"top": "x = 1;"}, "expected a declaration, found 'x'"),
    ({"top": "state s { transition accept; }"}, "expected a declaration, found 'state'"),
    (
        {"emit": "packet.emit(headers.tag.kind);"},
        "emit of bit<8>; a header, or a struct, tuple or array of headers, was expected",
    ),
    (
        {"emit": "packet.emit(m);"},
        "emit of struct metadata_t; a header, or a struct, tuple or array of headers, was expected",
    ),
    ({"apply": "packet.emit(headers);"}, "unknown name packet"),
    ({"emit": "packet.emit(5);"}, "argument hdr is a number without a width"),
    (
        {"top": "void f() { verify(true, error.NoError); }"},
        "verify can be called only in a parser; this is a function",
    ),
    (
        {"states": "state start { transition select(headers.tag.kind) { 1 &&& true: accept; } }"},
        "a keyset is bool; bit<8> was expected",
    ),
    (
        {"states": "state start { transition select(m.flag) { true .. false: accept; } }"},
        "a mask or range over bool; bit<N> or int<N> was expected",
    ),
    (
        {
            "types": "enum E { A, B }",
            "states": "state start { E e = E.A; transition select(e) { E.A &&& E.B: accept; } }",
        },
        "a mask or range over enum E; bit<N> or int<N> was expected",
    ),
    (
        {
            "states": "state start { transition select(headers.tag.kind, headers.tag.number) "
            "{ 1, 2: accept; } }"
        },
        "expected ':' after a case of select, found ','",
    ),
    (
        {"states": "state start { transition select(headers.tag.kind) { 1: accept } }"},
        "expected ';' after a case of select, found '}'",
    ),
    ({"states": "state start { start(); transition accept; }"}, "unknown action or function start"),
    ({"states": "state start { m.mark = start; transition accept; }"}, "unknown name start"),
    (
        {
            "types": "header v_t { varbit<8> v; }",
            "members": "v_t[2] st;",
            "states": "state start { v_t[2] x = packet.lookahead<v_t[2]>(); transition accept; }",
        },
        "lookahead of v_t[2]; numbers, headers, structs, tuples or arrays were expected",
    ),
    (
        {"states": "state start { int x = packet.lookahead<int>(); transition accept; }"},
        "a variable cannot be int",
    ),
    (
        {"states": "state start { packet.lookahead<void>(); transition accept; }"},
        "void is the type of no value",
    ),
    (
        {"states": "state start { bit<8> x = packet.lookahead<bit<8>>(3); transition accept; }"},
        "lookahead takes 0 arguments; 1 is given",
    ),
    ({"emit": "bit<8> x = packet.lookahead<bit<8>>();"}, "extern packet_out has no method lookahead"),
    (
        {
            "members": "tag_t[2] st;",
            "states": "state start { packet.extract(headers.st.last); transition accept; }",
        },
        "extract writes to last of a stack, which is read-only",
    ),
    (
        {
            "members": "tag_t[2] st;",
            "states": "state start { packet.extract(headers.st); transition accept; }",
        },
        "extract of tag_t[2]; a header was expected",
    ),
    (
        {
            "types": "header_union u_t { tag_t t; }",
            "members": "u_t u;",
            "states": "state start { packet.extract(headers.u); transition accept; }",
        },
        "extract of header_union u_t; a header was expected",
    ),
    (
        {
            "top": "parser Q(packet_in p, in headers_t h) { state start { p.extract(h.tag); "
            "transition accept; } }"
        },
        "extract writes to h, which is read-only (an in parameter)",
    ),
    (
        {"states": "state start { packet.extract({1,2,3}); transition accept; }"},
        "extract writes to something that is no variable",
    ),
    (
        {"states": "state start { packet.extract<metadata_t>(headers.tag); transition accept; }"},
        "argument hdr is header tag_t; struct metadata_t was expected",
    ),
    (
        {
            "types": "header v_t { varbit<8> v; }",
            "members": "v_t v;",
            "states": "state start { packet.extract(headers.v, 8s8); transition accept; }",
        },
        "argument variableFieldSizeInBits is int<8>; bit<32> was expected",
    ),
    (
        {"emit": "packet.emit(packet);"},
        "argument hdr is extern packet_out, an object and no value",
    ),
    (
        {"emit": "packet.emit(error.NoError);"},
        "emit of error; a header, or a struct, tuple or array of headers, was expected",
    ),
    (
        {"emit": "packet.emit({8w1});"},
        "emit of tuple<bit<8>>; a header, or a struct, tuple or array of headers, was expected",
    ),
    ({"emit": "bit<32> x = packet.length();"}, "extern packet_out has no method length"),
    ({"top": "match_kind { exact }"}, "match_kind exact is declared twice"),
    ({"top": "match_kind { foo = 1 }"}, "expected ',' or '}' behind a member of match_kind, found '='"),
    ({"top": "error { Foo = 1 }"}, "expected ',' or '}' behind a member of error, found '='"),
    ({"top": "error { Foo, Foo }"}, "error Foo is declared twice"),
    ({"top": "typedef error e_t; ", "apply": "m.mark = e_t.NoError;"}, "e_t is no value"),
    (
        {"states": "state start { error e = error.NoError; transition select(e) { 1: accept; } }"},
        "a keyset is int; error was expected",
    ),
    ({"states": "bit<8> x; state start { transition x; }"}, "unknown state x"),
    (
        {
            "members": "tag_t[2] st;",
            "states": "state start { headers.st.push_front(1); transition accept; }",
        },
        "push_front cannot be called in a parser",
    ),
    ({"states": "state start { transition start; }"}, "parser P never reaches accept or reject"),
    (
        {
            "states": "state start { transition select(m.mark, m.mark) { (1, 2): start; _: next; } }"
            "state next { transition start; } state left { transition accept; }"
        },
        "parser P never reaches accept or reject",
    ),
    ({"states": "state start { transition accept; } bit<8> x;"}, "a declaration behind a state"),
    ({"apply": "bit<8> _;"}, "expected the name of the variable, found '_'"),
    (
        {
            "top": "parser Q(packet_in p)(bit<8> n) { state start { transition accept; } }",
            "states": 'Q("a") q; state start { q.apply(packet); transition accept; }',
        },
        "argument n is string; bit<8> was expected",
    ),
    (
        {
            "top": "parser Q(packet_in p) { state start { transition accept; } }",
            "states": "Q() q; state start { q.apply(headers); transition accept; }",
        },
        "argument p is struct headers_t; extern packet_in was expected",
    ),
    (
        {
            "top": "parser Q(packet_in p, out bit<8> x) { state start { transition accept; } }",
            "states": "Q() q; state start { q.apply(packet, 5); transition accept; }",
        },
        "parser q writes to something that is no variable",
    ),
    (
        {"states": "state start { if (m.mark) { } transition accept; }"},
        "the condition of if is bit<16>; bool was expected",
    ),
    ({"states": "state start { "}, "expected '}' to close parser P, found 'control'"),
    (
        {"states": "state start { transition select headers.tag.kind { _: accept; } }"},
        "expected '(' after select, found 'headers'",
    ),
    ({"states": "state start { transition 5; }"}, "expected the name of the next state, found '5'"),
    ({"top": "#error stop\n"}, "#error stop"),
]


@pytest.mark.parametrize(("parts", "message"), ILLEGAL)
def test_an_illegal_program_is_refused_at_its_place(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    told = p4.refusal(**parts)
    assert f": error: {message}" in told
    assert "what this program asks of the engine" not in told
