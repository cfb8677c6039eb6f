# SPDX-License-Identifier: Apache-2.0
"""Which casts there are, and which types a new name or a value set may have.

Source: P4-16 Language Specification 1.2.5, "Casts", "Type nesting rules", "Select expressions".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

TYPES = """
enum Plain { A, B }
enum bit<8> Small { A = 1 }
enum bit<16> Wide { A = 1 }
type bit<16> first_t;
type bit<16> second_t;
type first_t third_t;
"""

ILLEGAL: list[tuple[dict[str, str], str]] = [
    ({"apply": "m.mark = (bit<16>) ((int) m.mark + 1);"}, "bit<16> cannot be cast to int"),
    ({"top": "const int K = (int) true;"}, "bool cannot be cast to int"),
    ({"top": "const int K = (int) Plain.A;"}, "enum Plain cannot be cast to int"),
    ({"apply": "Small s = (Small) m.mark;"}, "bit<16> cannot be cast to enum Small"),
    ({"apply": "Small s = (Small) headers.tag.small;"}, "int<8> cannot be cast to enum Small"),
    ({"apply": "Small s = (Small) Wide.A;"}, "enum Wide cannot be cast to enum Small"),
    ({"apply": "first_t f = (first_t) (second_t) m.mark;"}, "second_t cannot be cast to first_t"),
    ({"types": "type error own_t;"}, "a new type cannot be made of error"),
    ({"types": "enum E { A } type E own_t;"}, "a new type cannot be made of enum E"),
    ({"types": "enum bit<8> E { A = 1 } type E own_t;"}, "a new type cannot be made of enum E"),
    ({"types": "typedef string own_t; struct s_t { own_t x; }"}, "a struct field cannot be string"),
    ({"types": "typedef string own_t;", "apply": "own_t x;"}, "a variable cannot be string"),
    ({"types": "type string own_t;"}, "a new type cannot be made of string"),
    *(
        ({"states": f"value_set<{kind}>(4) v; state start {{ transition accept; }}"}, "a value set of ")
        for kind in ("error", "tag_t")
    ),
]


@pytest.mark.parametrize(("parts", "message"), ILLEGAL)
def test_an_illegal_program_is_refused_at_its_place(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    parts = {**parts, "types": TYPES + parts.get("types", "")}
    assert f": error: {message}" in p4.refusal(**parts)


@pytest.mark.parametrize(
    "parts",
    [
        {
            "top": "const int K = (int) 8w5 + (int) -8s5 + (int) Small.A + (int) (int) 2;"
            "const bool HOLDS = static_assert(K == 3);",
            "apply": "m.mark = K;",
        },
        {"apply": "Small s = (Small) headers.tag.kind; s = (Small) s; m.mark = (bit<16>) s;"},
        {"types": "enum bit<8> Other { A = 1 }", "apply": "Small s = (Small) Other.A;"},
        {"apply": "first_t f = (first_t) m.mark; third_t t = (third_t) f; f = (first_t) t; f = (first_t) f;"},
        {"types": "typedef error own_t; typedef bool answer_t; type answer_t new_t;"},
        {"states": "value_set<Small>(4) v; value_set<tuple<bool>>(4) w; state start { transition accept; }"},
    ],
)
def test_a_legal_program_is_taken(p4: SimpleNamespace, parts: dict[str, str]) -> None:
    p4.compile(**{**parts, "types": TYPES + parts.get("types", "")})
