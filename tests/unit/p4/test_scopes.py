# SPDX-License-Identifier: Apache-2.0
"""A copy of a scope has what was declared before it, and nothing that comes later.

Source: P4-16 Language Specification 1.2.5, "Name resolution".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.p4.symbols import RECENT_NAMES, FunctionSymbol, Scope, TypeSymbol
from nicemu.p4.types import UNKNOWN

MANY = 3 * RECENT_NAMES


@given(st.lists(st.sampled_from(["declare", "overload", "copy"]), max_size=40), st.integers(0, RECENT_NAMES))
def test_a_copy_stays_as_the_scope_was(steps: list[str], before: int) -> None:
    outer = Scope()
    outer.names["outer"] = TypeSymbol("outer", UNKNOWN)
    scope = Scope(outer)
    for number in range(before):
        scope.names[f"first{number}"] = TypeSymbol("", UNKNOWN)
    scope.names["f"] = function = FunctionSymbol("f", scope)
    copies: list[tuple[Scope, set[str], int]] = []
    for place, step in enumerate(steps):
        if step == "declare":
            for number in range(RECENT_NAMES // 8):
                scope.names[f"name{place}.{number}"] = TypeSymbol("", UNKNOWN)
        elif step == "overload":
            function.externs.append(SimpleNamespace())  # type: ignore[arg-type]
            scope.grown.add("f")
        else:
            copies.append((scope.copy(), set(scope.names), len(function.externs)))
    for copy, names, overloads in copies:
        assert copy.visible() == names | {"outer"}
        assert all(copy.find(name) is scope.names[name] for name in names - {"f"})
        found = copy.find("f")
        assert isinstance(found, FunctionSymbol)
        assert len(found.externs) == overloads
        assert copy.outermost is outer


@pytest.mark.parametrize("count", [1, MANY])
def test_a_copy_of_the_outermost_scope_is_outermost(count: int) -> None:
    scope = Scope()
    for number in range(count):
        scope.names[f"name{number}"] = TypeSymbol("", UNKNOWN)
    scope.copy()
    scope.names["last"] = TypeSymbol("last", UNKNOWN)
    inner = Scope(scope.copy())
    scope.names["later"] = TypeSymbol("later", UNKNOWN)
    assert inner.outermost.find("name0") is scope.names["name0"]
    assert inner.outermost.find("last") is scope.names["last"]
    assert inner.outermost.find("later") is None


def test_what_a_block_names_is_what_was_declared_before_it(p4: SimpleNamespace) -> None:
    many = "\n".join(f"const bit<16> K{number} = {number};" for number in range(MANY))
    top = f"{many} bit<16> f(in bit<16> x) {{ return 1; }}"
    top += "control Q(inout bit<16> x) { apply { x = f(x) + .K0; } }"
    top += "bit<16> f(in bit<16> x, in bit<16> y) { return 2; } const bit<16> LATER = 7;"
    p4.compile("q.apply(headers.tag.number);", top=top, parts="Q() q;")
    for wrong, told in (("f(x, x)", "f takes 1 argument; 2 are given"), ("LATER", "unknown name LATER")):
        assert told in p4.refusal(
            "q.apply(headers.tag.number);", top=top.replace("f(x) + .K0", wrong), parts="Q() q;"
        )


def test_a_block_names_a_function_that_got_an_overload_long_after_it_was_declared(
    p4: SimpleNamespace,
) -> None:
    many = "\n".join(f"const bit<16> K{number} = {number};" for number in range(MANY))
    top = f"bit<16> f(in bit<16> x) {{ return 1; }} {many} control R() {{ apply {{ }} }}"
    top += "bit<16> f(in bit<16> x, in bit<16> y) { return 2; }"
    top += "control Q(inout bit<16> x) { apply { x = f(x) + f(x, x); } }"
    p4.compile("q.apply(headers.tag.number);", top=top, parts="Q() q;")
