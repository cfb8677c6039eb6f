# SPDX-License-Identifier: Apache-2.0
"""A type depends on what is known where it is written, and not on a constructor's parameter.

Source: P4-16 Language Specification 1.2.5, "Compile-time known and local compile-time known values".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.pipeline import ir

CONTROL = "control Q(inout headers_t h, inout metadata_t m)(bit<8> n) {{ {parts} apply {{ {apply} }} }}"
KNOWN = "must be known where it is written"


def _parts(apply: str = "", parts: str = "", argument: str = "2") -> dict[str, str]:
    top = CONTROL.format(parts=parts, apply=apply)
    return {
        "members": "tag_t[4] st;",
        "top": top,
        "parts": f"Q({argument}) q;",
        "apply": "q.apply(headers, m);",
    }


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (_parts("bit<(n)> x;"), f"a width {KNOWN}"),
        (_parts("int<(n + 1)> x;"), f"a width {KNOWN}"),
        (_parts("varbit<(n == 2 ? 8w8 : 16)> x;"), f"a width {KNOWN}"),
        (_parts("tag_t[n] st;"), f"the size of an array {KNOWN}"),
        (_parts("m.mark[n:0] = 1;"), f"the high bit of a slice {KNOWN}"),
        (_parts("m.mark[3:n] = 1;"), f"the low bit of a slice {KNOWN}"),
        (_parts("bit<(k)> x;", "const bit<8> k = n;"), f"a width {KNOWN}"),
        (
            _parts("tuple<bit<8>, bit<8>, bit<8>> t = { 1, 2, 3 }; h.tag.kind = t[n];"),
            "a constant from 0 to 2 was expected here",
        ),
    ],
)
def test_a_parameter_of_a_constructor_makes_no_type(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    assert f": error: {message}" in p4.refusal(**parts)


@pytest.mark.parametrize(
    "parts",
    [
        _parts("h.st[n].kind = n; h.st.push_front(n); switch (h.tag.kind) { n: { } }"),
        _parts("t.apply();", "table t { actions = { NoAction; } size = n; }"),
        _parts("bit<(K + 1)> x = 1; m.mark[K:0] = 1;", "const bit<8> K = 3;"),
        _parts("bit<(h.st.size)> x = 1;"),
        _parts("static_assert(n > 1); h.st[n - 2].kind = 1; h.st.push_front(n - 1);"),
        _parts("switch (h.tag.kind) { n: { } 1: { } }"),
        _parts("t.apply();", "table t { actions = { NoAction; } size = (int) n - 2; }"),
        _parts(
            "t.apply();",
            "table t { key = { m.mark: exact; } actions = { NoAction; }"
            " const entries = { (bit<16>) n: NoAction; 1: NoAction; } }",
        ),
    ],
)
def test_it_may_stand_where_a_value_that_the_compiler_knows_is_enough(
    p4: SimpleNamespace, parts: dict[str, str]
) -> None:
    p4.compile(**parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (_parts("static_assert(n > 2);"), "static_assert does not hold"),
        (_parts("h.st[n].kind = 1;", argument="4"), "tag_t[4] has no element 4"),
        (_parts("switch (h.tag.kind) { n: { } 2: { } }"), "switch has two cases for this value"),
    ],
)
def test_a_block_is_checked_with_the_arguments_of_its_constructor(
    p4: SimpleNamespace, parts: dict[str, str], message: str
) -> None:
    assert f": error: {message}" in p4.refusal(**parts)


def test_an_int_takes_a_number_with_a_width_with_a_warning(p4: SimpleNamespace) -> None:
    """P4 has no such conversion; p4c does it, and programs rely on it."""
    compiled = p4.compile("m.mark = SOME + 1;", top="const int SOME = 4w9;")
    (told,) = compiled.diagnostics
    assert "constant SOME is bit<4>, which P4 makes no int by itself" in told.render()
    (statement,) = compiled.program.control("control").body
    assert statement.value == ir.Constant(10, ir.Bits(16))
