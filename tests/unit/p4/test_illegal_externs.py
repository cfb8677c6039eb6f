# SPDX-License-Identifier: Apache-2.0
"""Externs, packages and constructors are declared with what may stand there, used or not.

Source: P4-16 Language Specification 1.2.5, "Extern types", "Strings", "Arbitrary-precision integers",
"Optional parameters", "Package types", "Restrictions on compile time and run time calls".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

ILLEGAL = [
    ("extern void f(in nothing x);", "unknown type nothing"),
    ("extern X { X(); void f(in nothing x); }", "unknown type nothing"),
    ("extern X { X(); nothing f(); }", "unknown type nothing"),
    ("extern X { Y(in bit<8> x); }", "Y is not called as its extern, X, and returns nothing"),
    ("extern X { X(); void f(void x); }", "void is the type of no value"),
    ("extern X { X(list<void> x); }", "void is the type of no value"),
    ("extern X { X(list<packet_in> x); }", "a list cannot hold extern packet_in"),
    ("extern X<T, T> { X(); }", "two type parameters are called T"),
    ("extern X { X(); void f<T, T>(); }", "two type parameters are called T"),
    ("extern X { X(); void f(in bit<8> x, in bit<8> x); }", "two parameters are called x"),
    ("extern X { X(); void f(in string x); }", "string as a parameter has no direction"),
    ("extern void f(inout string x);", "string as a parameter has no direction"),
    ("extern void f(in int x);", "int as a parameter has no direction"),
    ("extern void f(in list<bit<8>> x);", "list<bit<8>> as a parameter has no direction"),
    ("extern void f(in TriggerCounter x);", "extern TriggerCounter as a parameter has no direction"),
    ("extern TriggerCounter f();", "f cannot return extern TriggerCounter"),
    ("control S(); extern S f();", "f cannot return control S"),
    ("control S(); extern void f(S x);", "a parameter of f cannot be control S"),
    ("parser S(packet_in p); extern X { X(S x); }", "a parameter of X cannot be parser S"),
    ("package S(); extern X { X(S x); }", "S is a package"),
    ("extern X { X(in bit<8> x); }", "a parameter of a constructor cannot be in"),
    ("extern X { bit<8> X(); }", "the constructor of X returns nothing"),
    ("extern X { X(); abstract void f(); void f(in bit<8> x); }", "abstract method f cannot be overloaded"),
    ("extern X { abstract X(); }", "the constructor of X cannot be abstract"),
    ("extern X { X(); int f(); }", "method f cannot return int, which is known at compile time alone"),
    ("extern X { X(); string f(); }", "method f cannot return string, which is known at compile time alone"),
    (
        "control Q() { apply { } } control R()(Q q) { apply { } }",
        "a parameter cannot be control Q, which has a",
    ),
    ("control Q() { apply { } } package R(Q q);", "a parameter cannot be control Q, which has a body"),
    ("extern abstract void f();", "a function of the architecture cannot be abstract"),
    ("package S(in bit<8> x);", "a parameter of a package cannot be in"),
    (
        "parser S(packet_in p); control Q()(S s) { apply { } }",
        "a parser cannot be a parameter of the constructor of a control",
    ),
    (
        "control S(); parser Q(packet_in p)(S s) { state start { transition accept; } }",
        "a control cannot be a parameter of the constructor of a parser",
    ),
    ("extern void f(@optional in bit<8> x = 1);", "@optional parameter x has a default value"),
    ("void f(@optional in bit<8> x) { }", "a parameter of function f cannot be @optional"),
    ("action a(@optional in bit<8> x) { }", "a parameter of action a cannot be @optional"),
    ("control Q(@optional in bit<8> x) { apply { } }", "a parameter of control Q cannot be @optional"),
]

LEGAL = """
struct pair_t { bit<8> a; string_t b; }
extern X<T> {
    X(list<pair_t> entries, string name, int size, X<T> other, TriggerCounter counter);
    void method<U>(in T value, inout U result, bit<8> known, int number, @optional in bit<8> more);
    void method(in bit<16> other_value = 3);
    abstract bool ready(in T value);
    T last();
}
extern bit<8> size_of<T>(in T value, string name, packet_in packet);
control Stage(inout bit<8> value);
parser Part(packet_in packet);
package Two(Part part, Stage first, @optional Stage second, TriggerCounter counter, bit<8> number);
"""


@pytest.mark.parametrize(("top", "message"), ILLEGAL)
def test_an_illegal_declaration_is_refused_at_its_place(p4: SimpleNamespace, top: str, message: str) -> None:
    assert f": error: {message}" in p4.refusal(top=top)


def test_legal_declarations_are_taken(p4: SimpleNamespace) -> None:
    p4.compile(top=f"typedef bit<8> string_t; {LEGAL}")


@pytest.mark.parametrize(
    "top",
    [
        "extern Crc<T> { Crc(T x); } extern Hash { Hash(Crc<_> x); void f(tuple<_> x); }",
        "extern Crc<T> { Crc(T x); } extern void f(Crc<_> x); control S<T>(Crc<_> x);",
        "control S<T, U>(in T x, in U y); package Pipe<T, U>(S<T, U> s); package Chip<T>(Pipe<T, _> x);",
    ],
)
def test_what_the_architecture_declares_may_leave_types_open(p4: SimpleNamespace, top: str) -> None:
    p4.compile(top=top)


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ("extern Crc<T> { Crc(T x); } control S(Crc<_> x) { apply { } }", "'_' stands only for a type"),
        ("package Pipe<T>(); package Chip(Pipe<_, _> x);", "Pipe takes 1 type argument; 2 are given"),
        ("package Pipe(); control S(Pipe x);", "Pipe is a package"),
    ],
)
def test_a_type_is_left_open_only_there(p4: SimpleNamespace, top: str, message: str) -> None:
    assert f": error: {message}" in p4.refusal(top=top)
