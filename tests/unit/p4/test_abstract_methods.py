# SPDX-License-Identifier: Apache-2.0
"""Objects define the abstract methods of their externs themselves.

Source: P4-16 Language Specification 1.2.5, "Abstract methods", "Instantiating objects with abstract methods".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, extern

EXTERN = """
extern Chooser<T> {
    Chooser(bit<8> n);
    abstract T choose(in T value);
    abstract void note(inout T value);
    T base(in T value);
}
const bit<16> STEP = 5;
bit<16> twice(in bit<16> x) { return x + x; }
"""
NOTE = "void note(inout bit<16> value) { value = twice(this.choose(value)); }"
CHOOSE = "bit<16> choose(in bit<16> value) { return value + STEP; }"


@extern("Chooser<T>(bit<8> n)")
class Chooser:
    def __init__(self, n: int) -> None:
        self.n = n

    @extern("T base(in T value)")
    def base(self, value: int) -> int:
        return value * self.n


def number(p4: SimpleNamespace, apply: str, members: str, top: str = "") -> int:
    """Return headers.tag.number behind a control that runs `apply` where it is 3, with a chooser c."""
    parts = f"Chooser<bit<16>>(10) c = {{ {members} }};"
    engine = Engine(externs=[Chooser])
    source = p4.source(apply, top=EXTERN + top, **({} if top else {"parts": parts}))
    engine.load(compile_text(source, "test.p4").program)
    frame = engine.process(bytes([1, 0, 3, 0]), 0).frame
    assert frame is not None
    return int.from_bytes(frame[1:3])


CHOSEN = "headers.tag.number = c.choose(headers.tag.number);"


@pytest.mark.parametrize(
    ("apply", "members", "result"),
    [
        (CHOSEN, CHOOSE + NOTE, 8),
        (CHOSEN, NOTE + CHOOSE, 8),
        ("c.note(headers.tag.number);", NOTE + CHOOSE, 16),
        (CHOSEN, "bit<16> choose(in bit<16> value) { return this.base(value); } " + NOTE, 30),
        ("headers.tag.number = c.choose(value = c.base(2));", CHOOSE + NOTE, 25),
    ],
)
def test_a_call_of_an_abstract_method_runs_what_the_object_defines(
    p4: SimpleNamespace, apply: str, members: str, result: int
) -> None:
    assert number(p4, apply, members) == result


def test_a_method_sees_what_its_object_s_declaration_sees(p4: SimpleNamespace) -> None:
    """p4c #5084: as p4c has it."""
    members = "bit<16> choose(in bit<16> value) { more = more + 1; return value + more + m.mark; } " + NOTE
    engine = Engine(externs=[Chooser])
    parts = f"bit<16> more; Chooser<bit<16>>(10) c = {{ {members} }};"
    apply = "m.mark = 100; more = 10; c.note(headers.tag.number); headers.inner.number = more;"
    apply += "headers.inner.setValid(); headers.inner.number = more;"
    engine.load(compile_text(p4.source(apply, top=EXTERN, parts=parts), "test.p4").program)
    frame = engine.process(bytes([1, 0, 3, 0]), 0).frame
    assert frame == bytes([1, 0, 228, 0, 0, 0, 11, 0])


def test_what_a_method_stores_into_is_not_what_a_control_around_it_was_given(p4: SimpleNamespace) -> None:
    """Copy-in, copy-out: the control stores what it was given behind the method's."""
    members = "bit<16> choose(in bit<16> value) { headers.inner.number = 5; return value; } " + NOTE
    top = "control Q(inout headers_t g)(Chooser<bit<16>> by) { apply { g.tag.number = by.choose(2); } }"
    parts = f"Chooser<bit<16>>(10) c = {{ {members} }}; Q(c) q;"
    engine = Engine(externs=[Chooser])
    apply = "headers.inner.setValid(); headers.inner.number = 1; q.apply(headers);"
    engine.load(compile_text(p4.source(apply, top=EXTERN + top, parts=parts), "test.p4").program)
    frame = engine.process(bytes([1, 0, 3, 0]), 0).frame
    assert frame == bytes([1, 0, 2, 0, 0, 0, 1, 0])


def test_a_parameter_of_another_name_is_a_warning(p4: SimpleNamespace) -> None:
    """p4-spec #1355 wants the extern's; p4c takes others."""
    member = CHOOSE.replace("value", "v")
    compiled = p4.compile(top=EXTERN, parts=f"Chooser<bit<16>>(10) c = {{ {member} {NOTE} }};")
    assert [item.message for item in compiled.diagnostics] == ["the extern calls this parameter value"]


def test_two_objects_of_one_extern_have_methods_of_their_own(p4: SimpleNamespace) -> None:
    one = f"Chooser<bit<16>>(1) one = {{ {CHOOSE} {NOTE} }};"
    other = CHOOSE.replace("STEP", "2 * STEP")
    top = f"{one} Chooser<bit<16>>(2) two = {{ {other} {NOTE} }};"
    assert number(p4, "headers.tag.number = two.choose(one.choose(headers.tag.number));", "", top) == 18


def test_an_object_may_have_objects_of_its_own(p4: SimpleNamespace) -> None:
    members = f"Chooser<bit<16>>(7) inner = {{ {CHOOSE} {NOTE} }}; "
    members += "bit<16> choose(in bit<16> value) { return inner.base(value); }" + NOTE
    assert number(p4, CHOSEN, members) == 21


def test_a_control_that_is_instantiated_twice_has_two_objects(p4: SimpleNamespace) -> None:
    top = "control Q(inout bit<16> x)(bit<16> by) { Chooser<bit<16>>(3) c = { "
    top += CHOOSE + NOTE + " }; apply { x = c.choose(x) + by; } }"
    engine = Engine(externs=[Chooser])
    apply = "one.apply(headers.tag.number); two.apply(headers.tag.number);"
    source = p4.source(apply, top=EXTERN + top, parts="Q(100) one; Q(200) two;")
    engine.load(compile_text(source, "test.p4").program)
    frame = engine.process(bytes([1, 0, 3, 0]), 0).frame
    assert frame is not None
    assert int.from_bytes(frame[1:3]) == 3 + 5 + 100 + 5 + 200


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (CHOOSE, "c lacks what its abstract methods do: note"),
        (CHOOSE + NOTE + CHOOSE, "c has two methods choose"),
        (CHOOSE + NOTE + "void base(in bit<16> value) { }", "base is no abstract method of extern Chooser"),
        (CHOOSE + NOTE + "bit<8> x = 1;", "an object has methods and objects of its own, no variables"),
        (
            NOTE + "bit<8> choose(in bit<16> value) { return 1; }",
            "choose is not as its extern has it: bit<16> choose(in bit<16> value)",
        ),
        (
            NOTE + "bit<16> choose(inout bit<16> value) { return 1; }",
            "choose is not as its extern has it: bit<16> choose(in bit<16> value)",
        ),
        (
            NOTE + "bit<16> choose() { return 1; }",
            "choose is not as its extern has it: bit<16> choose(in bit<16> value)",
        ),
        (
            NOTE + "bit<16> choose(in bit<16> value) { return this.choose(value); }",
            "C.c.this.choose calls itself; P4 has no recursion",
        ),
        (NOTE + "bit<16> choose(in bit<16> value) { return later; }", "unknown name later"),
        (
            NOTE + "bit<16> choose(in bit<16> value) { NoAction(); return 1; }",
            "an action cannot be called in a function",
        ),
        (NOTE + "bit<16> choose(in bit<16> value) { return this; }", "'this' stands for an object"),
        (NOTE + "bit<16> choose(in bit<16> value) { return this.chose(value); }", "has no method chose"),
        (NOTE + "bit<16> choose(in gone value) { return 1; }", "unknown type gone"),
        (NOTE + "bit<16> choose(in bit<16> value) { }", "choose can end without returning bit<16>"),
    ],
)
def test_what_does_not_fit_the_extern_is_refused_once(
    p4: SimpleNamespace, members: str, message: str
) -> None:
    told = p4.refusal(top=EXTERN, parts=f"Chooser<bit<16>>(10) c = {{ {members} }};")
    assert f"error: {message}" in told or message in told
    assert told.endswith("1 error")


def test_this_stands_nowhere_else(p4: SimpleNamespace) -> None:
    assert "'this' stands for an object in its own" in p4.refusal("this.choose(3);", top=EXTERN)
