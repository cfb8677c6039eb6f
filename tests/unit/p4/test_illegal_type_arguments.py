# SPDX-License-Identifier: Apache-2.0
"""A call whose type arguments nothing tells is refused, and so is a value that has no type where it stands.

Source: P4-16 Language Specification 1.2.5, "Method invocations and function calls", "Strings", "Initializing
with default values".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.p4 import CompileError

FUNCTIONS = """
bit<16> none<T>() { return 1; }
bit<16> one<T>(in T x) { return 1; }
bit<16> two<T, U>(in T x) { return 1; }
bit<16> given<T>(out T x) { return 1; }
struct box_t<T> { T x; }
bit<16> boxed<T>(out box_t<T> x) { return 1; }
void nothing() { }
"""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("none()", "cannot tell what type T of none is"),
        ("two(m.mark)", "cannot tell what type U of two is"),
        ("given(_)", "cannot tell what type T of given is"),
        ("boxed(_)", "cannot tell what type T of boxed is"),
        ("one(...)", "cannot tell what type T of one is"),
        ("one({#})", "cannot tell what type T of one is"),
        ("one(nothing())", "cannot tell what type T of one is"),
        ("one({ m.mark, ... })", "'...' cannot stand in a list without a type"),
        ("one({ m.mark, {#} })", "{#} cannot stand in a list without a type"),
        ('one({ m.mark, "a" })', "string cannot stand in a list without a type"),
        ("one({ nothing() })", "void cannot stand in a list without a type"),
    ],
)
def test_a_type_that_nothing_tells_is_asked_for(p4: SimpleNamespace, call: str, message: str) -> None:
    assert f": error: {message}" in p4.refusal(f"m.mark = {call};", top=FUNCTIONS)


@pytest.mark.parametrize(
    "call", ["none<bool>()", "two<bit<16>, bool>(m.mark)", "given<bit<8>>(_)", "one((metadata_t) ...)"]
)
def test_a_type_that_is_written_is_taken(p4: SimpleNamespace, call: str) -> None:
    p4.compile(f"m.mark = {call};", top=FUNCTIONS)


def test_a_list_with_default_values_is_not_compared_with_one_that_has_no_type(p4: SimpleNamespace) -> None:
    told = p4.refusal("m.flag = { m.mark, ... } == { m.mark, m.mark };")
    assert ": error: '...' cannot stand in a list without a type" in told


def test_what_is_not_extracted_into_anything_needs_a_type(p4: SimpleNamespace) -> None:
    told = p4.refusal(states="state start { packet.extract(_); transition accept; }")
    assert ": error: cannot tell what type T of extract is" in told
    p4.compile(states="state start { packet.extract<tag_t>(_); transition accept; }")


def test_constants_without_a_width_and_strings_have_default_values(p4: SimpleNamespace) -> None:
    top = "const int ZERO = ...; const string NONE = ...; const bool NEXT = static_assert(ZERO == 0, NONE);"
    p4.compile("m.mark = ZERO;", top=top)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("random(_, 0, 1);", "cannot tell what type T of random is|number without a width"),
        ("hash(_, HashAlgorithm.crc16, 8w0, { m.x }, 8w3);", "cannot tell what type O of hash is"),
        ("digest(1, ...);", "cannot tell what type T of digest is"),
        ('log_msg("{}", {#});', "cannot tell what type T of log_msg is"),
        ("hash(m.e, HashAlgorithm.crc16, 8w0, { m.x }, 8w3);", "a number was expected here; this is enum E"),
        ("random(m.x, E.A, E.B);", "a number was expected here; this is enum E"),
        ('log_msg("{}", "a");', "argument data is string; a value that there is at run time was expected"),
    ],
)
def test_an_extern_is_told_types_too(p4: SimpleNamespace, call: str, message: str) -> None:
    with pytest.raises(CompileError, match=rf"program.p4:\d+:\d+: error: .*({message})"):
        p4.compile_text(PROGRAM.replace("CALL", call))


PROGRAM = """
#include <core.p4>
#include <v1model.p4>
struct headers_t { }
enum E { A, B }
struct metadata_t { bit<8> x; E e; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { CALL } }
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
