# SPDX-License-Identifier: Apache-2.0
"""Statements that P4-16 does not allow where they stand are refused, and those that it does allow are taken.

Source: P4-16 Language Specification 1.2.5, "Statements", "Parser states", "Operations on fixed-width signed
integers".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

FOR = "for (bit<8> i = 0; i < 3; i += 1) { m.mark = m.mark + 1; }"
EACH = "for (bit<8> i in 0 .. 3) { m.mark = m.mark + 1; }"


def _state(body: str) -> dict[str, str]:
    return {"states": f"state start {{ {body} transition accept; }}"}


ILLEGAL: list[tuple[dict[str, str], str]] = [
    (_state(FOR), "for cannot stand in a parser"),
    (_state(EACH), "for cannot stand in a parser"),
    (_state(f"{{ {FOR} }}"), "for cannot stand in a parser"),
    (
        {
            "top": f"parser Q(inout metadata_t m) {{ state start {{ {FOR} transition accept; }} }}",
            "states": "state start { if (m.flag) { Q.apply(m); } transition accept; }",
        },
        "for cannot stand in a parser",
    ),
    (_state("if (m.flag) { switch (m.mark) { 1: { } } }"), "switch cannot stand in a parser"),
    (_state("if (m.flag) { return; }"), "return cannot stand in a parser"),
    (
        {"states": "bit<8> t; state start { transition t; } state t { transition accept; }"},
        "t is declared twice in the same scope",
    ),
    ({"apply": "switch (m.mark) { default: { } 1: { } }"}, "default is not the last case of switch"),
    ({"apply": "switch (m.mark) { 1: default: 2: { } }"}, "default is not the last case of switch"),
    (
        {
            "parts": "table t { actions = { NoAction; } }",
            "apply": "switch (t.apply().action_run) { default: { } NoAction: { } }",
        },
        "default is not the last case of switch",
    ),
    ({"types": "enum bit<8> E { A = 1 }", "apply": "E e = E.A; e += 1;"}, "+= does not apply to enum E"),
    ({"types": "enum bit<8> E { A = 1 }", "apply": "E e = E.A; e <<= 0;"}, "<<= does not apply to enum E"),
    ({"top": "const int<8> K = 8s7 / 8s0;"}, "division by zero"),
    (
        {
            "parts": "action a() { } table t { actions = { a; } default_action = a; }",
            "apply": "switch (t.apply().action_run) { NoAction: { } }",
        },
        "NoAction is no action of table t",
    ),
    ({"apply": "for (; m.flag; bit<8> i = 1) { }"}, "a declaration cannot stand behind the condition of for"),
    *(
        ({"apply": f"@likely {statement}"}, "annotations stand before blocks, for and declarations")
        for statement in ("m.mark = 1;", ";", "if (m.flag) { }", "return;", "exit;", "drop_packet();")
    ),
    ({"apply": "switch (m.flag) { true: { } }"}, "the subject of switch is bool"),
    ({"apply": "switch (headers.tag.isValid()) { true: { } default: { } }"}, "the subject of switch is bool"),
]


@pytest.mark.parametrize(("parts", "message"), ILLEGAL)
def test_an_illegal_program_is_refused_at_its_place(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    assert f": error: {message}" in p4.refusal(**parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"states": "state start { transition select(m.mark) { 1: start; } }"},
        {"states": "state start { transition more; } state more { }"},
        {"top": "parser Q() { state start { transition start; } }"},
        _state(f"if (m.flag) {FOR}"),
        _state(f"if (m.flag) {{ }} else {{ {EACH} }}"),
        {"parts": "action a() { switch (m.mark) { 1: { m.flag = true; } default: { } } }"},
        {"top": "bit<8> f(in bit<8> x) { switch (x) { 1: { return 2; } default: { return 3; } } }"},
        {
            "top": f"void f(inout metadata_t m) {{ {FOR} }}",
            "states": "state start { f(m); transition accept; }",
        },
        {"apply": "m.mark = m.mark / 2 + m.mark % 3;"},
        {"apply": "@a { } @a for (bit<8> i in 1 .. 2) { } @a const bit<8> K = 1; @a bit<8> v = K;"},
        {"top": "const int K = 7 / 2;"},
    ],
)
def test_a_legal_program_is_taken(p4: SimpleNamespace, parts: dict[str, str]) -> None:
    p4.compile(**parts)
