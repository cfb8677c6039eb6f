# SPDX-License-Identifier: Apache-2.0
"""Parameters of controls that are what they are given, and those that must be copies of it.

Source: P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.pipeline import ir

FRAME = bytes.fromhex("07123480") + b"rest"
UNION = "header other_t { bit<8> a; } header_union any_t { tag_t one; other_t two; }"


def copied(p4: SimpleNamespace, apply: str, **parts: str) -> list[str]:
    """Return the names of the parameters that the one inner control has in the IR."""
    (control,) = [item for item in p4.compile(apply, **parts).program.functions if item.is_control]
    return [parameter.name for parameter in control.parameters]


def number_after(p4: SimpleNamespace, apply: str, **parts: str) -> int:
    """Return headers.tag.number as it leaves the pipeline; it comes as 0x1234, kind as 7."""
    return int.from_bytes(p4.run(FRAME, apply, **parts).frame[1:3], "big")


ONCE = "inner.apply(headers, m);"


def control(parameters: str, body: str, name: str = "Inner") -> str:
    return f"control {name}({parameters}) {{ apply {{ {body} }} }}"


def test_a_control_that_always_gets_the_same_variables_has_no_copies(p4: SimpleNamespace) -> None:
    top = control("inout headers_t h, inout metadata_t m", "h.tag.number = m.mark;")
    program = p4.compile(ONCE + ONCE, parts="Inner() inner;", top=top).program
    (inner,) = program.functions
    assert inner.parameters == ()
    assert inner.body == (
        ir.Assign(
            ir.Member(
                ir.Member(ir.Name("headers", ir.Named("headers_t")), "tag", ir.Named("tag_t")),
                "number",
                ir.Bits(16),
            ),
            ir.Member(ir.Name("metadata", ir.Named("metadata_t")), "mark", ir.Bits(16)),
        ),
    )
    assert not [variable for variable in program.variables if variable.name.startswith("C.inner")]


def test_a_control_in_a_control_has_the_variables_of_the_outermost(p4: SimpleNamespace) -> None:
    deep = control("inout tag_t t", "t.number = t.number + 1;", "Deep")
    top = deep + "control Inner(inout headers_t h, inout metadata_t m) { Deep() deep; apply {"
    top += "deep.apply(h.tag); deep.apply(h.tag); } }"
    program = p4.compile(ONCE, parts="Inner() inner;", top=top).program
    assert [item.parameters for item in program.functions] == [(), ()]
    assert number_after(p4, ONCE, parts="Inner() inner;", top=top) == 0x1236


def test_keys_and_bound_arguments_of_its_tables_are_the_variables_too(p4: SimpleNamespace) -> None:
    top = """control Inner(inout headers_t h, inout metadata_t m) {
        action copy(inout bit<16> to, in bit<8> from) { to = (bit<16>) from; }
        table t { key = { h.tag.kind: exact @name("kind"); } actions = { copy(h.tag.number, h.tag.kind); }
            const default_action = copy(h.tag.number, h.tag.kind); }
        apply { t.apply(); } }"""
    assert copied(p4, ONCE, parts="Inner() inner;", top=top) == []
    assert number_after(p4, ONCE, parts="Inner() inner;", top=top) == 7


@pytest.mark.parametrize(
    ("parameters", "calls", "expected"),
    [
        ("inout tag_t a", "inner.apply(headers.tag); inner.apply(headers.inner);", ["a"]),
        ("inout tag_t a, in bit<16> b", "inner.apply(headers.tag, m.mark);", []),
        ("inout tag_t a, in bit<16> b", "inner.apply(headers.tag, headers.tag.number);", ["b"]),
        ("inout headers_t a, in tag_t b", "inner.apply(headers, headers.tag);", ["a", "b"]),
        ("in headers_t a, in tag_t b", "inner.apply(headers, headers.tag);", []),
        ("in headers_t a, out tag_t b", "inner.apply(headers, headers.tag);", ["a", "b"]),
        ("inout tag_t a, in bit<16> b", "inner.apply(headers.tag, f(headers.tag));", ["a", "b"]),
        ("inout tag_t a, in bit<16> b", "inner.apply(headers.tag, f(headers.inner));", ["b"]),
        ("inout bit<16> a, in bit<16> b", "inner.apply(m.mark, f(headers.many[m.mark]));", ["b"]),
        ("inout tag_t[2] a, in bit<16> b", "inner.apply(headers.many, f(headers.many[0]));", ["a", "b"]),
        ("in bit<16> a, in bool b", "inner.apply(m.mark, headers.tag.isValid());", ["b"]),
        ("inout bit<16> a", "inner.apply(headers.tag.number);", ["a"]),
        ("inout bit<16> a", "inner.apply(m.mark);", []),
        ("inout other_t a", "inner.apply(headers.any.two);", ["a"]),
        ("inout any_t a", "inner.apply(headers.any);", []),
        ("inout tag_t a", "inner.apply(headers.many[0]);", ["a"]),
        ("inout tag_t a", "inner.apply(headers.many[m.mark]);", ["a"]),
        ("in event_t a", "inner.apply({ 1, 2 });", ["a"]),
        ("out bit<16> a, in bit<16> b", "inner.apply(_, m.mark);", ["a"]),
        ("inout bit<16> a, inout tag_t b", "inner.apply(headers.tag.number, headers.tag);", ["a", "b"]),
        ("inout tag_t a, inout headers_t b", "inner.apply(headers.many[0], headers);", ["a", "b"]),
        ("inout bit<4> a, inout bit<16> b", "inner.apply(m.mark[3:0], m.mark);", ["a", "b"]),
        ("in bit<16> a, inout tag_t b", "inner.apply(headers.tag.number, headers.tag);", ["a"]),
        (
            "inout tag_t a, in bit<16> b",
            "inner.apply(headers.tag, m.flag ? 16w1 : ~m.mark[7:0] ++ 8w0);",
            ["b"],
        ),
        ("inout tag_t a, in event_t b", "inner.apply(headers.tag, { f(headers.tag), 1 });", ["a", "b"]),
    ],
)
def test_a_parameter_is_its_argument_only_where_nobody_can_tell(
    p4: SimpleNamespace, parameters: str, calls: str, expected: list[str]
) -> None:
    top = control(parameters, "") + "bit<16> f(inout tag_t t) { t.number = 3; return 1; }"
    parts = {"types": UNION, "members": "any_t any; tag_t[2] many;"}
    assert copied(p4, calls, parts="Inner() inner;", top=top, **parts) == expected


@pytest.mark.parametrize(
    ("parameters", "body", "calls", "expected"),
    [
        # a copy that is read shows what the variable held before the call
        (
            "inout tag_t a, in bit<16> b",
            "a.number = 1; a.number = b + 1;",
            "(headers.tag, headers.tag.number)",
            0x1235,
        ),
        (
            "in headers_t a, inout tag_t b",
            "b.number = 1; b.number = a.tag.number + 1;",
            "(headers, headers.tag)",
            0x1235,
        ),
        # of two that are stored into one variable, the one further right is stored last
        (
            "inout bit<16> a, inout bit<16> b",
            "a = 1; b = 2; a = 3;",
            "(headers.tag.number, headers.tag.number)",
            2,
        ),
        (
            "inout bit<16> a, inout bit<16> b",
            "a = 1; b = 2; a = 3;",
            "(m.mark, m.mark); headers.tag.number = m.mark",
            2,
        ),
        # arguments are evaluated from left to right
        ("inout tag_t a, in bit<16> b", "a.number = a.number + b;", "(headers.tag, f(headers.tag))", 0x1235),
        # an out parameter begins with nothing
        ("out tag_t a", "a.setValid();", "(headers.tag)", 0),
        ("out bit<16> a", "a = a + 2;", "(m.mark); headers.tag.number = m.mark", 2),
        # what is left by return and exit is copied out as well
        ("inout tag_t a", "a.number = 9; if (a.kind == 7) { return; } a.number = 1;", "(headers.tag)", 9),
        ("inout tag_t a", "a.number = 9; exit;", "(headers.tag); headers.tag.number = 1", 9),
        # a field of a header that is not valid is a variable of its own inside
        ("inout bit<16> a", "a = 5; m = a;", "(headers.inner.number)", 0x1234),
    ],
)
def test_what_a_control_does_is_as_if_all_were_copied(
    p4: SimpleNamespace, parameters: str, body: str, calls: str, expected: int
) -> None:
    top = control(parameters, body.replace("m = a;", "")) + (
        "bit<16> f(inout tag_t t) { t.number = 3; return 1; }"
    )
    before = "m.mark = 7;"
    assert number_after(p4, f"{before} inner.apply{calls};", parts="Inner() inner;", top=top) == expected


def test_what_is_copied_out_behind_a_part_of_it_replaces_that(p4: SimpleNamespace) -> None:
    top = control("inout bit<16> a, inout tag_t b", "a = 0x55; b.kind = 1;")
    apply = "inner.apply(headers.tag.number, headers.tag);"
    assert number_after(p4, apply, parts="Inner() inner;", top=top) == 0x1234


@pytest.mark.parametrize("collection", ["1 .. 3", "(list<bit<16>>) { 7, 3 }"])
@pytest.mark.parametrize("place", ["m.mark", "x"])
def test_a_parameter_that_a_loop_runs_through_is_its_argument_too(
    p4: SimpleNamespace, collection: str, place: str
) -> None:
    top = control("inout bit<16> a", f"for (a in {collection}) {{ }}")
    apply = f"bit<16> x = 0; inner.apply({place}); headers.tag.number = {place};"
    assert number_after(p4, apply, parts="Inner() inner;", top=top) == 3


def test_a_header_of_a_union_comes_back_as_it_went(p4: SimpleNamespace) -> None:
    """It went invalid, so the whole union is invalid when it is back: the other header is gone."""
    apply = "headers.any.one.setValid(); inner.apply(headers.any.two);"
    apply += "headers.tag.number = headers.any.one.isValid() ? 16w1 : 2;"
    parts = {"types": UNION, "members": "any_t any;", "emit": "packet.emit(headers.tag);"}
    top = control("inout other_t a", "")
    assert number_after(p4, apply, parts="Inner() inner;", top=top, **parts) == 2


def test_two_instances_are_each_their_own_arguments(p4: SimpleNamespace) -> None:
    top = control("inout bit<16> a, in bit<16> b", "a = a + b;")
    apply = "m.mark = 5; one.apply(m.mark, headers.tag.number); bit<16> x = 2; two.apply(x, m.mark);"
    program = p4.compile(apply, parts="Inner() one; Inner() two;", top=top).program
    assert [[item.name for item in each.parameters] for each in program.functions] == [["b"], []]
    apply += "headers.tag.number = x;"
    assert number_after(p4, apply, parts="Inner() one; Inner() two;", top=top) == 0x1234 + 5 + 2
