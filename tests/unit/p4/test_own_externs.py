# SPDX-License-Identifier: Apache-2.0
"""What a program may leave out where it makes and calls externs that it declares itself.

Source: P4-16 Language Specification 1.2.5, "Extern types", "Instantiations", "Function calls", "Optional
parameter annotations".
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.errors import ControlError
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, extern

HELD = "extern Held<T> { Held(T value); T get(); }"
TWO = "extern Two<A, B> { Two(A first, B second); bit<16> sum(in A a, in B b); }"


@extern("Held<T>(T value)")
class Held:
    def __init__(self, value: int) -> None:
        self.value = value

    @extern("T get()")
    def get(self) -> int:
        return self.value


@extern("Two<A, B>(A first, B second)")
class Two:
    def __init__(self, first: int, second: int) -> None:
        self.total = first + second

    @extern("bit<16> sum(in A a, in B b)")
    def sum(self, a: int, b: int) -> int:
        return self.total + a + b


@extern("bit<16> scaled(in bit<16> value, in bit<16> offset)")
def scaled(value: int, offset: int) -> int:
    return value * 100 + offset


@extern("bit<16> scaled(in bit<16> value, in bit<16> factor, in bit<16> offset)")
def scaled_by(value: int, factor: int, offset: int) -> int:
    return value * factor + offset


@extern("Tally()")
class Tally:
    @extern("bit<16> seen()")
    def seen(self) -> int:
        return 11

    @extern("bit<16> seen(in bit<16> more)")
    def seen_more(self, more: int) -> int:
        return 11 + more


def number(p4: SimpleNamespace, apply: str, **parts: str) -> int:
    """Return headers.tag.number behind a control that runs `apply` where it is 3."""
    engine = Engine(externs=[Held, Two, scaled, scaled_by, Tally])
    engine.load(compile_text(p4.source(apply, **parts), "test.p4").program)
    frame = engine.process(bytes([1, 0, 3, 0]), 0).frame
    assert frame is not None
    return int.from_bytes(frame[1:3])


@pytest.mark.parametrize(
    ("made", "value"),
    [
        ("Held(16w7) held;", 7),
        ("Held<_>(16w7) held;", 7),
        ("Held(value = 16w7) held;", 7),
        ("Held<bit<16>>(7) held;", 7),
        ("Held((bit<16>) 7 + 1) held;", 8),
    ],
)
def test_a_constructor_s_arguments_tell_the_type_arguments(
    p4: SimpleNamespace, made: str, value: int
) -> None:
    assert number(p4, "headers.tag.number = held.get();", top=HELD, parts=made) == value


@pytest.mark.parametrize(
    "made", ["Two(16w1, 8w2) two;", "Two<_, bit<8>>(16w1, 2) two;", "Two<bit<16>, _>(1, 8w2) two;"]
)
def test_some_of_the_type_arguments_may_be_told(p4: SimpleNamespace, made: str) -> None:
    assert number(p4, "headers.tag.number = two.sum(20, 30);", top=TWO, parts=made) == 53


def test_an_object_made_for_a_constructor_has_its_type_told(p4: SimpleNamespace) -> None:
    inner = HELD + "control K(inout bit<16> x)(Held<bit<16>> held) { apply { x = held.get(); } }"
    assert number(p4, "k.apply(headers.tag.number);", top=inner, parts="K(Held(16w9)) k;") == 9


@pytest.mark.parametrize(
    ("top", "parts", "message"),
    [
        (HELD, "Held(7) held;", "argument value is a number without a width"),
        (HELD, "Held<bit<8>, bit<8>>(7) held;", "Held takes 1 type argument; 2 are given"),
        ("extern None<T> { None(); }", "None() none;", "cannot tell what type T of None is"),
        ("extern None<T> { None(); }", "None<_>() none;", "cannot tell what type T of None is"),
    ],
)
def test_a_type_argument_that_nothing_tells_is_one_error(
    p4: SimpleNamespace, top: str, parts: str, message: str
) -> None:
    told = p4.refusal(top=top, parts=parts)
    assert f": error: {message}" in told
    assert told.endswith("1 error")


SCALED = "extern bit<16> scaled(in bit<16> value, @optional in bit<16> factor, in bit<16> offset = 5);"


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("scaled(value = 2)", 205),
        ("scaled(value = 2, offset = 6, factor = 10)", 26),
        ("scaled(offset = 6, value = 2)", 206),
        ("scaled(value = 2, factor = 3)", 11),
    ],
)
def test_an_optional_argument_of_a_function_may_be_left_out(
    p4: SimpleNamespace, call: str, value: int
) -> None:
    assert number(p4, f"headers.tag.number = {call};", top=SCALED) == value


@pytest.mark.parametrize(("call", "value"), [("seen()", 11), ("seen(3)", 14), ("seen(more = 4)", 15)])
def test_optional_arguments_of_methods_and_constructors_may_be_left_out(
    p4: SimpleNamespace, call: str, value: int
) -> None:
    tally = "extern Tally { Tally(@optional bit<8> size); bit<16> seen(@optional in bit<16> more); }"
    assert number(p4, f"headers.tag.number = tally.{call};", top=tally, parts="Tally() tally;") == value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("scaled(factor = 3)", "argument value of scaled is missing"),
        ("scaled()", "scaled takes 2 arguments; 0 are given"),
        ("scaled(1, 2, 3, 4)", "scaled takes 3 arguments; 4 are given"),
        ("scaled(1)", "scaled has parameters with defaults, and @optional ones"),
        ("scaled(1, 2, 3)", "scaled has parameters with defaults, and @optional ones"),
        ("scaled(vlaue = 3)", "scaled has no parameter vlaue"),
    ],
)
def test_other_arguments_are_needed(p4: SimpleNamespace, call: str, message: str) -> None:
    told = p4.refusal(f"headers.tag.number = {call};", top=SCALED)
    assert f": error: {message}" in told
    assert told.endswith("1 error")


BODY = "bit<16> scaled(in bit<16> value) { return value + 1; }"
EXTERN = "extern bit<16> scaled(in bit<16> value, in bit<16> offset);"


@pytest.mark.parametrize("top", [BODY + EXTERN, EXTERN + BODY])
@pytest.mark.parametrize(
    ("call", "value"), [("scaled(3)", 4), ("scaled(3, 7)", 307), ("scaled(value = 3)", 4)]
)
def test_a_function_and_an_extern_one_may_have_one_name(
    p4: SimpleNamespace, top: str, call: str, value: int
) -> None:
    assert number(p4, f"headers.tag.number = {call};", top=top) == value


@pytest.mark.parametrize(
    "top", [EXTERN + "bit<16> scaled(in bit<16> offset, in bit<16> value) { return value; }", BODY + BODY]
)
def test_two_functions_whose_parameters_have_the_same_names_are_refused(
    p4: SimpleNamespace, top: str
) -> None:
    assert "scaled is declared twice in the same scope" in p4.refusal(top=top)


def test_a_struct_that_an_extern_returns_and_nothing_else_has_may_be_left_alone(p4: SimpleNamespace) -> None:
    p4.compile(
        "made(headers.tag.number);", top="struct pair_t { bit<8> a; } extern pair_t made(in bit<16> n);"
    )


SKIPPED = """extern bit<16> skipped(in bit<16> a, @optional in bit<8> b, in bit<16> c);
control Q(inout bit<16> x) { apply { x = skipped(c = 5, a = x); } }"""


@extern("bit<16> skipped(in bit<16> a, in bit<16> c)")
def skipped(a: int, c: int) -> int:
    return a * 10 + c


def test_a_parameter_is_skipped_by_name_in_each_instance_of_a_block(p4: SimpleNamespace) -> None:
    engine = Engine(externs=[skipped])
    text = p4.source("q.apply(m.mark); r.apply(headers.tag.number);", top=SKIPPED, parts="Q() q; Q() r;")
    engine.load(compile_text(text).program)
    assert engine.process(bytes([1, 0, 3, 0]), 0).frame == bytes([1, 0, 35, 0])


@extern("Pair(bit<16> a)")
class OfOne:
    def __init__(self, a: int) -> None:
        self.total = a

    @extern("bit<16> sum(in bit<16> more)")
    def sum(self, more: int) -> int:
        return self.total + more


@extern("Pair(pair_t b)")
class OfTwo:
    def __init__(self, b: dict[str, int]) -> None:
        self.total = b["left"] + b["right"]

    @extern("bit<16> sum(in bit<16> more)")
    def sum(self, more: int) -> int:
        return 100 * self.total + more


@pytest.mark.parametrize(
    ("declared", "parts"),
    [
        ("extern Pair { Pair(bit<16> a); Pair(pair_t b); }", "Pair(a = 7) x; Pair(b = { 1, 2 }) y;"),
        ("extern Pair { Pair(bit<16> a); Pair(pair_t b); }", "Pair(b = { 1, 2 }) y; Pair(a = 7) x;"),
        ("extern Pair<T> { Pair(T a); }", "Pair<bit<16>>(7) x; Pair<pair_t>({ 1, 2 }) y;"),
        ("extern Pair<T> { Pair(T a); }", "Pair<bit<16>>(256) x; Pair<bit<8>>(1) y;"),
    ],
)
def test_each_object_is_made_by_the_constructor_that_it_names(
    p4: SimpleNamespace, declared: str, parts: str
) -> None:
    types = "struct pair_t { bit<8> left; bit<8> right; }"
    program = compile_text(p4.source(top=declared, parts=parts, types=types)).program
    engine = Engine(externs=[] if "<T>" in declared else [OfOne, OfTwo])
    engine.load(program)
    if "<T>" not in declared:
        states = engine.objects.states
        assert [states[f"C.{name}"].total for name in "xy"] == [7, 3]


@extern("Pair(bool c)")
class OfTruth(OfTwo):
    def __init__(self, c: int) -> None:
        self.total = 7 if c else 8


@extern("Pair()")
class OfNothing:
    pass


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("Pair(a = 7)", 7 + 3),
        ("Pair(b = { 1, 2 })", 300 + 3),
        ("Pair(c = true)", 700 + 3),
        ("Pair()", "extern.missing"),
    ],
)
def test_a_method_is_that_of_the_class_that_has_made_the_object(
    p4: SimpleNamespace, made: str, expected: int | str
) -> None:
    declared = (
        "extern Pair { Pair(); Pair(bit<16> a); Pair(pair_t b); Pair(bool c); bit<16> sum(in bit<16> more); }"
    )
    engine = Engine(externs=[OfOne, OfTwo, OfTruth, OfNothing])
    apply = "headers.tag.number = x.sum(headers.tag.number);"
    types = "struct pair_t { bit<8> left; bit<8> right; }"
    text = p4.source(apply, top=declared, parts=f"{made} x;", types=types)
    engine.load(compile_text(text).program)
    verdict = engine.process(bytes([1, 0, 3, 0]), 0)
    assert verdict.frame is not None
    assert (verdict.drop_reason or int.from_bytes(verdict.frame[1:3])) == expected


def test_a_class_that_declares_a_method_otherwise_refuses_programs_that_make_its_objects(
    p4: SimpleNamespace,
) -> None:
    @extern("Pair()")
    class OfWide:
        @extern("bit<32> sum(in bit<32> more)")
        def sum(self, more: int) -> int:
            return more

    declared = "extern Pair { Pair(); Pair(bit<16> a); bit<16> sum(in bit<16> more); }"
    apply = "headers.tag.number = x.sum(headers.tag.number);"
    engine = Engine(externs=[OfOne, OfWide])
    engine.load(compile_text(p4.source(apply, top=declared, parts="Pair(a = 7) x;")).program)
    with pytest.raises(ControlError, match=r"extern Pair\.sum: .*; in Python it is bit<32> sum"):
        engine.load(compile_text(p4.source(apply, top=declared, parts="Pair() x;")).program)


def test_a_class_may_have_some_overloads_of_a_method_alone(p4: SimpleNamespace) -> None:
    @extern("Pair()")
    class OfBoth:
        @extern("bit<16> sum(in bit<16> p, in bit<16> q)")
        def sum(self, p: int, q: int) -> int:
            return p + q

    declared = """extern Pair { Pair(); Pair(bit<16> a); Pair(bool c); bit<16> sum(in bit<16> more);
        bit<16> sum(in bit<16> p, in bit<16> q); }"""
    number = "headers.tag.number"
    apply = f"{number} = y.sum({number}); {number} = x.sum({number}, 5);"
    engine = Engine(externs=[OfOne, OfBoth, OfTruth, OfNothing])
    with pytest.raises(ControlError, match=r"there are 2 that do it"):
        engine.load(compile_text(p4.source(apply, top=declared, parts="Pair() x; Pair(a = 7) y;")).program)
    engine = Engine(externs=[OfOne, OfBoth])
    engine.load(compile_text(p4.source(apply, top=declared, parts="Pair() x; Pair(a = 7) y;")).program)
    assert engine.missing_externs == []
    assert engine.process(bytes([1, 0, 3, 0]), 0).frame == bytes([1, 0, 3 + 7 + 5, 0])


def test_a_class_that_the_program_makes_nothing_of_misses_nothing(p4: SimpleNamespace) -> None:
    declared = "extern Pair { Pair(bit<16> a); Pair(bool c); bit<16> sum(in bit<16> more); }"
    apply = "headers.tag.number = y.sum(headers.tag.number);"

    @extern("Pair(bool c)")
    class OfBareTruth:
        pass

    engine = Engine(externs=[OfOne, OfBareTruth])
    engine.load(compile_text(p4.source(apply, top=declared, parts="Pair(a = 7) y;")).program)
    assert engine.missing_externs == []


def test_a_class_without_a_method_is_missed_by_its_name(p4: SimpleNamespace) -> None:
    declared = "extern Pair { Pair(); Pair(bit<16> a); bit<16> sum(in bit<16> more); }"
    apply = "headers.tag.number = x.sum(headers.tag.number);"
    engine = Engine(externs=[OfOne, OfNothing])
    engine.load(compile_text(p4.source(apply, top=declared, parts="Pair() x;")).program)
    assert engine.missing_externs == ["Pair.sum"]
