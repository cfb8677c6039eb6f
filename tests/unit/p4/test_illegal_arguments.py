# SPDX-License-Identifier: Apache-2.0
"""A parameter without direction is given what is known at compile time; what comes out has the type exactly.

Source: P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out",
"Method invocations and function calls".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

FUNCTION = "bit<16> f(bit<16> x, in bit<16> y) { return x + y; }"
NESTED = "control R(inout metadata_t m)(bit<16> n) { Q() q; apply { q.apply(n, m); } }"
CONTROL = "control Q(bit<16> x, inout metadata_t m) { apply { m.mark = x; } }"
PARSER = "parser Q(packet_in p, bit<16> x) { state start { transition accept; } }"
NUMBER = "bit<16> f(int n) { return (bit<16>) n; }"
KIND = "enum bit<16> Kind { A = 1 } void f(inout bit<16> x) { } void g(inout Kind x) { }"

ILLEGAL: list[tuple[dict[str, str], str]] = [
    ({"top": FUNCTION, "apply": "m.mark = f(m.mark, 1);"}, "argument x must be known at compile time"),
    (
        {"top": FUNCTION, "parts": "action a(bit<16> n) { m.mark = f(n, 1); }"},
        "argument x must be known at compile time",
    ),
    (
        {"top": FUNCTION, "apply": "m.mark = f(y = 1, x = m.mark);"},
        "argument x must be known at compile time",
    ),
    (
        {"top": CONTROL, "parts": "Q() q;", "apply": "q.apply(m.mark, m);"},
        "argument x must be known at compile time",
    ),
    ({"top": CONTROL, "apply": "Q.apply(m.mark, m);"}, "argument x must be known at compile time"),
    (
        {"top": f"{FUNCTION} bit<16> h(bit<16> x, in bit<16> y) {{ return f(x + y, 1); }}"},
        "argument x must be known at compile time",
    ),
    (
        {"top": PARSER, "states": "Q() q; state start { q.apply(packet, m.mark); transition accept; }"},
        "argument x must be known at compile time",
    ),
    ({"top": KIND, "apply": "Kind k = Kind.A; f(k);"}, "argument x is enum Kind; bit<16> was expected"),
    ({"top": KIND, "apply": "g(m.mark);"}, "argument x is bit<16>; enum Kind was expected"),
    ({"top": KIND, "apply": "g(Kind.A);"}, "g writes to something that is no variable"),
    ({"top": NUMBER, "apply": "m.mark = f(m.mark);"}, "argument n must be known at compile time"),
    ({"top": "void f(in int n) { }"}, "int as a parameter has no direction"),
    ({"top": 'void f(out string s) { s = ""; }'}, "string as a parameter has no direction"),
    ({"top": "void f(int n) { n = 2; }"}, "this stores into n, which is read-only (a constant)"),
    ({"top": "void f(int n) { bit<(n)> x; }"}, "a width must be known where it is written"),
    ({"top": "void f(int n) { f(n - 1); }"}, "f calls itself; P4 has no recursion"),
    ({"top": "action a(int n) { }"}, "a parameter of an action cannot be int"),
    ({"top": "control Q(in int n) { apply { } }"}, "int as a parameter has no direction"),
    ({"top": "control Q(int n) { apply { n = 2; } }"}, "this stores into n, which is read-only (a constant)"),
    ({"top": "control Q(int n) { apply { bit<(n)> x; } }"}, "a width must be known where it is written"),
    (
        {"top": "control Q(int n) { apply { } }", "parts": "Q() q;", "apply": "q.apply(m.mark);"},
        "argument n must be known at compile time",
    ),
    (
        {"top": "control Q(int n) { apply { } }", "parts": "Q() q;", "apply": "q.apply();"},
        "control q takes 1 argument; 0 are given",
    ),
    ({"top": "control Q(int n) { apply { bit<8> x = nothing; } }"}, "unknown name nothing"),
    (
        {"top": "control Q(int n) { apply { m = n + 1; } }", "parts": "Q() q;", "apply": 'q.apply("s");'},
        "argument n is string; int was expected",
    ),
    (
        {"top": "control Q(string n) { apply { } }", "parts": "Q() q;", "apply": "q.apply(5);"},
        "argument n is int; string was expected",
    ),
    (
        {"top": "void f(TriggerCounter c) { }", "apply": "f(m.mark);"},
        "argument c is bit<16>; extern TriggerCounter was expected",
    ),
]


@pytest.mark.parametrize(("parts", "message"), ILLEGAL)
def test_an_illegal_argument_is_refused_at_its_place(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    assert f": error: {message}" in p4.refusal(**parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"top": f"{FUNCTION} const bit<16> K = 2;", "apply": "m.mark = f(K + 1, m.mark);"},
        {"top": f"{FUNCTION} bit<16> h(bit<16> x) {{ return f(x, x); }}", "apply": "m.mark = h(3);"},
        {
            "top": f"{FUNCTION} bit<16> h(bit<16> x, bool b) {{ return f(b ? x + 1 : 8w0 ++ x[7:0], 1); }}",
            "apply": "m.mark = h(3, true);",
        },
        {
            "top": f"{CONTROL} {NESTED.replace('(n,', '(n * 2,')}",
            "parts": "R(3) r;",
            "apply": "r.apply(m);",
        },
        {
            "top": f"{CONTROL} {NESTED}",
            "parts": "R(3) r;",
            "apply": "r.apply(m);",
        },
        {"top": PARSER, "states": "Q() q; state start { q.apply(packet, 1); transition accept; }"},
        {"parts": "action a(bit<16> x) { m.mark = x; }", "apply": "a(m.mark);"},
        {"top": f"{KIND} void h(in bit<16> x) {{ }}", "apply": "Kind k = Kind.A; g(k); h(k); f(m.mark);"},
    ],
)
def test_a_legal_argument_is_taken(p4: SimpleNamespace, parts: dict[str, str]) -> None:
    p4.compile(**parts)
