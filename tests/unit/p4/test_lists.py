# SPDX-License-Identifier: Apache-2.0
"""Lists: of what, where, and how large.

Source: P4-16 Language Specification 1.2.5, "List types", "Operations on lists".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

FRAME = bytes.fromhex("01000200ff")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"members": "list<bit<8>> l;"}, "a struct field cannot be list<bit<8>>"),
        ({"apply": "list<bit<8>> l;"}, "a variable cannot be list<bit<8>>"),
        ({"top": "const tuple<list<bit<8>>> T = { { 1 } };"}, "a tuple cannot hold list<bit<8>>"),
        ({"top": "const list<TriggerCounter> L = { };"}, "a list cannot hold extern TriggerCounter"),
        ({"top": "const list<bit<8>, bit<8>> L = { };"}, "list takes 1 type argument; 2 are given"),
        ({"top": "const list<bit<8>> L = { true };"}, "an element is bool; bit<8> was expected"),
        ({"top": "const list<bit<8>> L = { 1, ... };"}, "constant L has names or '...'"),
        ({"apply": "const list<bit<16>> L = { m.mark };"}, "constant L must be known at compile time"),
        ({"apply": "for (bit<8> i in (list<bit<16>>) { 1 }) { }"}, "i is bit<8>; bit<16> was expected"),
        ({"apply": "for (int i in (list<int>) { 1 }) { }"}, "a variable cannot be int"),
        (
            {"apply": "for (bit<8> i in { 1, 2 }) { }"},
            "for goes through ranges, lists, arrays and header stacks",
        ),
        ({"top": "void f(list<bit<8>> l) { }"}, "a parameter of a function cannot be list<bit<8>>"),
        (
            {"top": "const list<bit<8>> L = { 1 };", "apply": "m.flag = L == L;"},
            "== does not apply to list<bit<8>>",
        ),
    ],
)
def test_an_illegal_list_is_refused_at_its_place(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    assert f": error: {message}" in p4.refusal(**parts)


@pytest.mark.parametrize(
    "top",
    [
        'const list<string> L = (list<string>) { "a", "b" };',
        'typedef string text_t; const text_t T = "a"; const list<text_t> L = (list<text_t>) { T };',
        "const list<int> L = (list<int>) { 1, 2 };",
        "const list<list<bit<8>>> L = (list<list<bit<8>>>) { { 1 }, { }, { 2, 3 } };",
        "const list<tuple<bit<8>, bool>> L = (list<tuple<bit<8>, bool>>) { { 1, true } };",
        "extern E<T> { E(list<T> data); void run(); }",
        "control Q()(list<int> l) { apply { } } control R() { Q((list<int>) { 1 }) q; apply { q.apply(); } }",
    ],
)
def test_a_list_may_be_written_wherever_it_is_known_at_compile_time(p4: SimpleNamespace, top: str) -> None:
    p4.compile(top=top)


def test_the_size_of_a_list_is_known_at_compile_time(p4: SimpleNamespace) -> None:
    top = "const list<bit<12>> L = (list<bit<12>>) { 1, 2, 3 };"
    verdict = p4.run(FRAME, "headers.tag.number = L.minSizeInBits() + L.maxSizeInBytes();", top=top)
    assert verdict.frame.hex() == "01002900ff"


def test_a_list_of_headers_is_visited(p4: SimpleNamespace) -> None:
    apply = """tag_t other = { 9, 8, 7 };
               for (tag_t tag in (list<tag_t>) { headers.tag, other, { 1, 2, 3 } }) {
                   headers.tag.number = headers.tag.number + tag.number;
               }"""
    assert p4.run(FRAME, apply).frame.hex() == "01000e00ff"
