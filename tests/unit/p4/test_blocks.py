# SPDX-License-Identifier: Apache-2.0
"""P4-16, "Parameterization", "Invoking controls", "Invoking subparsers": blocks inside blocks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.p4 import CompileError
from nicemu.pipeline import CounterAdd, Engine, Exact, TableEntry

FRAME = bytes.fromhex("07123480")
ADD = "control Add(inout bit<16> x)(bit<16> n) { apply { x = x + n; } }"
COUNT = """control Count(inout bit<16> x) {
    TriggerCounter() hits;
    action set(bit<16> to) { x = to; hits.add(3, 1); }
    table t { key = { x: exact; } actions = { set; NoAction; } }
    apply { t.apply(); }
}"""


def number_after(p4: SimpleNamespace, apply: str, **parts: str) -> int:
    """Return headers.tag.number as it leaves the pipeline; it comes as 0x1234, kind as 7."""
    verdict = p4.run(FRAME, apply, **parts)
    assert not verdict.drop_reason
    return int.from_bytes(verdict.frame[1:3], "big")


@pytest.mark.parametrize(
    ("top", "parts", "apply", "expected"),
    [
        (
            ADD,
            "Add(2) two; Add(n = 3) three;",
            "two.apply(headers.tag.number); three.apply(headers.tag.number);",
            0x1239,
        ),
        ("control Set(out bit<16> x) { apply { x = x + 1; } }", "", "Set.apply(headers.tag.number);", 1),
        (
            "control Set<T>(inout T x) { T y = ...; apply { x = y; } }",
            "",
            "Set<bit<16>>.apply(headers.tag.number);",
            0,
        ),
        (
            "control Set<T>(inout T x) { T y = ...; apply { x = y; } }",
            "Set<bit<16>>() s;",
            "s.apply(headers.tag.number);",
            0,
        ),
        (
            "control Set<T>(inout T x, in T y) { apply { x = y; } }",
            "",
            "Set.apply(headers.tag.number, 16w9);",
            9,
        ),
        (
            "control T(inout bit<16> x) { apply { x = x + 1; } }"
            "control U(inout bit<16> x) { apply { x = 7; } }",
            "U() T;",
            "T.apply(headers.tag.number); .T.apply(headers.tag.number);",
            8,
        ),
        (
            "control T(inout bit<16> x) { apply { x = x + 1; } }"
            "control U(inout bit<16> x) { apply { x = 7; } }",
            '@name("T") U() u;',
            "u.apply(headers.tag.number); T.apply(headers.tag.number);",
            8,
        ),
        (
            "control T(inout bit<16> x) { apply { x = 7; } } typedef T U;",
            "",
            "U.apply(headers.tag.number);",
            7,
        ),
        (
            "bit<16> g(in bit<16> a) { return 1; } control T(inout bit<16> x) { apply { x = g(1); } }"
            "bit<16> g(in bit<16> b) { return 2; }",
            "T() t;",
            "t.apply(headers.tag.number);",
            1,
        ),
        (
            "control T(inout bit<16> x) { apply { x = x + 1; } }",
            'T() t; @name("t") action a() { headers.tag.number = 3; }',
            "a(); t.apply(headers.tag.number);",
            4,
        ),
        (
            "control Set(inout bit<16> x) { apply { x = 1; return; } }",
            "",
            "Set.apply(headers.tag.number);",
            1,
        ),
        (
            "control Out(inout bit<16> x) { apply { x = 5; exit; } }",
            "",
            "Out.apply(headers.tag.number); headers.tag.number = 6;",
            5,
        ),
        (
            "control Local(out bit<16> x) { bit<16> y = 3; apply { y = y + 1; x = y; } }",
            "Local() l;",
            "l.apply(headers.tag.number); l.apply(headers.tag.number);",
            4,
        ),
        (
            "control In(inout bit<16> x)(bool b) { apply { if (b) x = 1; else x = 2; } }"
            "control Mid(inout bit<16> x)(bool b) { In(b) inner; apply { inner.apply(x); } }",
            "Mid(false) m1;",
            "m1.apply(headers.tag.number);",
            2,
        ),
        (
            "control Sized(inout bit<16> x)(bit<32> n) { table t { actions = { NoAction; } size = n; }"
            " apply { t.apply(); x = 8; } }",
            "Sized(77) s;",
            "s.apply(headers.tag.number);",
            8,
        ),
    ],
)
def test_a_control_is_applied_inside_another(
    p4: SimpleNamespace, top: str, parts: str, apply: str, expected: int
) -> None:
    assert number_after(p4, apply, top=top, parts=parts) == expected


PLUS = "control Plus(inout bit<16> x, int n = 2) { apply { x = x + n; if (n > 3) { x[15:15] = 1; } } }"
TWICE = "control Twice(inout bit<16> x, int n) { Plus() p; apply { p.apply(x, n); p.apply(x, n + 1); } }"
THROUGH = "control Through(inout bit<16> x, int k)(S s) { apply { s.apply(x, k); } }"
GIVEN = "control S(inout bit<16> x, int n); control Given(inout bit<16> x)(S s) { apply { s.apply(x, 4); } }"
HOLDS = """control Holds(inout bit<16> x)(S s) { apply { s.apply(x, 1); } }
control Two(inout bit<16> x, int n)(S s) { Holds(s) h; apply { h.apply(x); x = x + n; } }"""


@pytest.mark.parametrize(
    ("parts", "apply", "expected"),
    [
        ("Plus() p;", "p.apply(headers.tag.number, 1);", 0x1235),
        ("Plus() p;", "p.apply(headers.tag.number);", 0x1236),
        ("Plus() p;", "p.apply(n = 4, x = headers.tag.number); p.apply(headers.tag.number, 1);", 0x9239),
        ("Plus() p;", "p.apply(headers.tag.number, 1); p.apply(headers.tag.number, 1);", 0x1236),
        ("", "Plus.apply(headers.tag.number, 3); Plus.apply(headers.tag.number, 4 - 3);", 0x1238),
        ("Twice() a;", "a.apply(headers.tag.number, 3); a.apply(headers.tag.number, 1);", 0x923E),
        ("Plus() p; Given(p) g;", "g.apply(headers.tag.number); p.apply(headers.tag.number, 1);", 0x9239),
        ("Given(Plus()) g; Plus() unused;", "g.apply(headers.tag.number);", 0x9238),
        ("Through(Plus()) t;", "t.apply(headers.tag.number, 1); t.apply(headers.tag.number, 2);", 0x1237),
        ("Two(Plus()) t;", "t.apply(headers.tag.number, 1); t.apply(headers.tag.number, 5);", 0x123C),
    ],
)
def test_a_parameter_of_type_int_is_the_number_that_each_call_gives(
    p4: SimpleNamespace, parts: str, apply: str, expected: int
) -> None:
    assert number_after(p4, apply, top=PLUS + TWICE + GIVEN + HOLDS + THROUGH, parts=parts) == expected


def test_a_parser_is_made_for_each_number_and_text_that_it_is_applied_with(p4: SimpleNamespace) -> None:
    top = """parser Inner(packet_in p, out tag_t tag, int wanted, string why) {
        state start { p.extract(tag); transition select(tag.kind) { wanted: more; _: accept; } }
        state more { tag.number = tag.number + wanted; transition accept; }
    }"""
    states = """Inner() inner;
    state start {
        inner.apply(packet, headers.tag, 7, "one");
        inner.apply(packet, headers.inner, 8, "two");
        transition accept;
    }"""
    verdict = p4.run(FRAME + bytes.fromhex("08000000"), top=top, states=states)
    assert verdict.frame.hex() == "07123b80" + "08000800"


def test_a_control_with_a_table_is_applied_with_one_number(p4: SimpleNamespace) -> None:
    top = """control T(inout bit<16> x, int n) {
        action set(bit<16> to) { x = to + n; }
        table t { key = { x: exact; } actions = { set; NoAction; } const entries = { 0x1234: set(n); } }
        apply { t.apply(); }
    }"""
    compiled = p4.compile("a.apply(headers.tag.number, 5);", top=top, parts="T() a;")
    assert [table.name for table in compiled.p4info.tables] == ["C.a.t"]
    assert number_after(p4, "a.apply(headers.tag.number, 5);", top=top, parts="T() a;") == 10
    twice = "a.apply(headers.tag.number, 5); a.apply(headers.tag.number, 5);"
    assert number_after(p4, twice, top=top, parts="T() a;") == 10
    refusal = p4.refusal("a.apply(m.mark, 5); a.apply(m.mark, 6);", top=top, parts="T() a;")
    assert "not supported by nicemu yet: C.a applied with other numbers or texts than before" in refusal


def test_a_control_with_a_number_is_given_one_with_a_table(p4: SimpleNamespace) -> None:
    top = (
        COUNT
        + """control S(inout bit<16> x);
        control Around(inout bit<16> x, int n)(S s) { apply { s.apply(x); x = x + n; } }"""
    )
    apply, parts = "a.apply(headers.tag.number, 5);", "Around(Count()) a;"
    assert [table.name for table in p4.compile(apply, top=top, parts=parts).p4info.tables] == ["C.a.s.t"]
    assert number_after(p4, apply, top=top, parts=parts) == 0x1239
    refusal = p4.refusal(apply + "a.apply(m.mark, 6);", top=top, parts=parts)
    assert "C.a applied with other numbers or texts than before" in refusal


def test_what_a_block_makes_of_its_number_is_wrong_where_that_number_makes_it_so(p4: SimpleNamespace) -> None:
    top = "control Shift(inout bit<16> x, int n) { apply { x = x << (n - 2); } }"
    assert number_after(p4, "s.apply(headers.tag.number, 2);", top=top, parts="Shift() s;") == 0x1234
    assert "error" in p4.refusal("s.apply(m.mark, 2); s.apply(m.mark, 1);", top=top, parts="Shift() s;")


def test_a_block_that_makes_ever_more_of_itself_by_its_numbers_is_refused(p4: SimpleNamespace) -> None:
    levels = "control L0(inout bit<16> x, int n) { apply { x = x + n; } }"
    for level in range(1, 16):
        below = f"L{level - 1}"
        levels += f"""control L{level}(inout bit<16> x, int n) {{ {below}() b;
            apply {{ b.apply(x, 2 * n); b.apply(x, 2 * n + 1); }} }}"""
    assert "instances of parsers and controls" in p4.refusal(
        "l.apply(m.mark, 1);", top=levels, parts="L15() l;"
    )


def test_what_a_block_applied_by_its_name_holds_cannot_be_called_as_another(p4: SimpleNamespace) -> None:
    top = COUNT + "control Other(inout bit<16> x) { apply { } }"
    message = "Count is applied by its name, and an instance here is called so"
    said = p4.refusal("Count.apply(headers.tag.number);", top=top, parts='@name("Count") Other() o;')
    assert message in said


@pytest.mark.parametrize(
    ("top", "right", "wrong"),
    [
        ("control S(inout bit<8> v)(int n) { apply { v = v << (#); } }", "n - 2", "-n - 2"),
        ("control S(inout bit<8> v)(bit<8> n) { apply { switch (v) { #: { } 1: { } } } }", "n", "1"),
        ("control S(inout bit<8> v)(int n) { apply { static_assert(#); } }", "n > 2", "n > n"),
        ("control S<T>(inout bit<8> v)(bit<8> n) { apply { v = v / (#); } }", "n - 1", "n - n"),
        ("bit<8> f(int n, in bit<8> x) { return x + 10 / (#); }", "n - 1", "n - n"),
        ("bit<8> f(int n, string s, in bit<8> x) { static_assert(#, s); return x; }", "n > 2", "n > n"),
    ],
)
def test_what_some_number_makes_wrong_is_legal_where_another_may_be_given(
    p4: SimpleNamespace, top: str, right: str, wrong: str
) -> None:
    p4.compile("", top=top.replace("#", right))
    assert p4.refusal("", top=top.replace("#", wrong))


def test_each_instance_has_tables_and_objects_of_its_own(p4: SimpleNamespace) -> None:
    compiled = p4.compile(
        "a.apply(headers.tag.number); b.apply(headers.tag.number);", top=COUNT, parts="Count() a; Count() b;"
    )
    assert [table.name for table in compiled.p4info.tables] == ["C.a.t", "C.b.t"]
    engine = Engine()
    engine.load(compiled.program)
    engine.insert("C.a.t", TableEntry((Exact(0x1234),), "C.a.set", (5,)))
    engine.insert("C.b.t", TableEntry((Exact(5),), "C.b.set", (6,)))
    verdict = engine.process(FRAME, 0)
    assert verdict.frame == bytes.fromhex("07000680")
    assert verdict.effects == (CounterAdd(3, 1), CounterAdd(3, 1))


@pytest.mark.parametrize(("given", "table"), [("left", "C.left.t"), (".left", "left.t")])
def test_a_name_annotation_names_an_instance_for_the_control_plane(
    p4: SimpleNamespace, given: str, table: str
) -> None:
    compiled = p4.compile("a.apply(headers.tag.number);", top=COUNT, parts=f'@name("{given}") Count() a;')
    assert [one.name for one in compiled.p4info.tables] == [table]


PARSERS = """parser Inner(packet_in p, out tag_t tag, inout bit<16> sum) {
    bit<16> one = 1;
    state start {
        p.extract(tag);
        one = one + 1;
        sum = sum + one;
        transition select(tag.kind) { 7: accept; 8: more; default: reject; }
    }
    state more { sum = sum + 100; transition accept; }
}"""


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("07000000" + "07000000", "0700000007000400"),
        ("08000000" + "08000000", "080000000800cc00"),
        ("08000000" + "07000000", "0800000007006800"),
        ("07000000" + "09000000", "parser.rejected"),
        ("07000000" + "0700", "parser.too_short"),
    ],
)
def test_a_parser_is_applied_inside_another(p4: SimpleNamespace, frame: str, expected: str) -> None:
    states = """Inner() inner;
    state start {
        inner.apply(packet, headers.tag, m.mark);
        { inner.apply(packet, headers.inner, m.mark); }
        transition done;
    }
    state done { transition accept; }"""
    verdict = p4.run(bytes.fromhex(frame), "headers.inner.number = m.mark;", top=PARSERS, states=states)
    assert (verdict.drop_reason or verdict.frame.hex()) == expected


def test_states_of_a_parser_inside_another_are_called_by_its_instance(p4: SimpleNamespace) -> None:
    states = """Inner() inner;
    state start { inner.apply(packet, headers.tag, m.mark); transition accept; }"""
    names = [state.name for state in p4.compile(top=PARSERS, states=states).program.parser.states]
    assert names == ["start", "start.0.inner.start", "start.0.inner.more", "start.0"]


def test_generic_parsers_and_constructor_arguments(p4: SimpleNamespace) -> None:
    top = """parser Any<T>(packet_in p, out T h)(bit<8> n) {
        state start { p.extract(h); transition select(n) { 1: accept; default: reject; } }
    }"""
    states = "Any<tag_t>(1) any; state start { any.apply(packet, headers.tag); transition accept; }"
    assert p4.run(FRAME, top=top, states=states).frame == FRAME
    states = "Any<tag_t>(2) any; state start { any.apply(packet, headers.tag); transition accept; }"
    assert p4.run(FRAME, top=top, states=states).drop_reason == "parser.rejected"


def test_the_blocks_of_main_may_take_constructor_arguments(p4: SimpleNamespace) -> None:
    text = p4.source("headers.tag.number = n;").replace(
        "inout nic_metadata_t nic) {\n\napply", "inout nic_metadata_t nic)(bit<16> n) {\n\napply"
    )
    assert "(bit<16> n)" in text
    engine = Engine()
    engine.load(p4.compile_text(text.replace("C()", "C(9)")).program)
    assert engine.process(FRAME, 0).frame == bytes.fromhex("07000980")


@pytest.mark.parametrize(
    ("top", "parts", "apply", "words"),
    [
        (ADD, "Add() a;", "", "Add takes 1 argument; 0 are given"),
        (ADD, "Add(m.mark) a;", "", "argument n must be known at compile time"),
        (ADD, "Add(true) a;", "", "argument n is bool; bit<16> was expected"),
        (ADD, "Add(2) a;", "a.apply();", "control a takes 1 argument; 0 are given"),
        (ADD, "Add(2) a;", "a.apply(3);", "writes to something that is no variable"),
        (ADD, "Add(2) a;", "a.run(m.mark);", "a control has no method run"),
        (
            ADD,
            "Add(2) a; action b() { a.apply(m.mark); }",
            "b();",
            "a control cannot be applied in an action",
        ),
        ("control Self(inout bit<16> x) { Self() s; apply { } }", "", "", "unknown type Self"),
        ("control G<T>(inout T x) { apply { } }", "G() g;", "", "G takes 1 type argument; 0 are given"),
        (
            "parser Q(packet_in p) { state start { transition accept; } }",
            "Q() q;",
            "",
            "cannot stand in a control",
        ),
        (
            "control Wide<T>(inout T x) { apply { x = 8w3; } }",
            "Wide<bit<16>>() w;",
            "w.apply(m.mark);",
            "the value is bit<8>; T was expected",
        ),
    ],
)
def test_a_wrong_instance_is_refused(
    p4: SimpleNamespace, top: str, parts: str, apply: str, words: str
) -> None:
    assert words in p4.refusal(apply, top=top, parts=parts)


def test_a_block_sees_nothing_that_is_declared_behind_it_wherever_its_instances_stand(
    p4: SimpleNamespace,
) -> None:
    top = "control Set(inout bit<16> x) { apply { x = LATER; } } const bit<16> LATER = 5;"
    assert "unknown name LATER" in p4.refusal("Set.apply(headers.tag.number);", top=top)


@pytest.mark.parametrize("apply", ["", "Set.apply(headers.tag.number);", "a.apply(m.mark); b.apply(m.mark);"])
def test_a_fault_in_a_block_is_told_once_however_many_instances_there_are(
    p4: SimpleNamespace, apply: str
) -> None:
    top = "control Set(inout bit<16> x) { apply { x = nothing; } }"
    parts = "Set() a; Set() b;" if "a.apply" in apply else ""
    assert p4.refusal(apply, parts=parts, top=top).count("unknown name nothing") == 1


def test_a_block_may_be_an_instance_inside_and_at_the_top(p4: SimpleNamespace) -> None:
    text = p4.source().replace("C(), D()", "W(), D()")
    wrapped = """control W(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
        C() inner; apply { inner.apply(h, m, nic); } }
        SmartNic("""
    assert p4.compile_text(text.replace("SmartNic(", wrapped))


def test_main_takes_objects_and_no_types(p4: SimpleNamespace) -> None:
    with pytest.raises(CompileError, match=r"C is a type, and no object of it"):
        p4.compile_text(p4.source().replace("C(), D()", "C, D()"))


STEP = "control S<T>(inout T x); control One(inout bit<16> x) { apply { x = x + 1; } }"
AROUND = "control Around(inout bit<16> x)(S<bit<16>> s) { apply { s.apply(x); s.apply(x); } }"


@pytest.mark.parametrize(
    ("parts", "apply", "expected"),
    [
        ("Around(One()) a;", "a.apply(headers.tag.number);", 0x1236),
        ("One() one; Around(one) a;", "a.apply(headers.tag.number); one.apply(headers.tag.number);", 0x1237),
        ("One() one; Around(s = one) a;", "a.apply(x = headers.tag.number);", 0x1236),
    ],
)
def test_a_constructor_takes_a_control_of_its_parameters_type(
    p4: SimpleNamespace, parts: str, apply: str, expected: int
) -> None:
    assert number_after(p4, apply, top=STEP + AROUND, parts=parts) == expected


@pytest.mark.parametrize("apply", ["q.apply(hits);", "Q.apply(hits);"])
def test_a_parameter_of_apply_stands_for_an_object_through_all_levels(
    p4: SimpleNamespace, apply: str
) -> None:
    top = """control R(TriggerCounter c) { apply { c.add(5, 2); } }
        control Q(TriggerCounter c) { R() r; apply { r.apply(c); } }"""
    parts = "TriggerCounter() hits;" + (" Q() q;" if apply[0] == "q" else "")
    verdict = p4.run(FRAME, apply, top=top, parts=parts)
    assert verdict.effects == (CounterAdd(5, 2),)


def test_a_control_inside_another_may_call_what_a_control_may(p4: SimpleNamespace) -> None:
    top = "control Drop() { apply { drop_packet(); } }"
    assert p4.run(FRAME, "Drop.apply();", top=top).drop_reason == "pipeline.dropped"
    assert "drop_packet" in p4.refusal("", top=top, emit="Drop.apply(); packet.emit(headers);")


@pytest.mark.parametrize(
    "top",
    [
        "enum bit<8> E { a = (bit<8>) Empty.apply() }",
        "const bit<8> LATER = (bit<8>) Empty.apply();",
        "void f() { Empty.apply(); }",
    ],
)
def test_a_block_is_applied_in_a_block_of_its_kind_and_nowhere_else(p4: SimpleNamespace, top: str) -> None:
    refusal = p4.refusal("", top=f"control Empty() {{ apply {{ }} }} {top}")
    assert "control Empty can only be applied in a control" in refusal
