# SPDX-License-Identifier: Apache-2.0
"""P4-16, "Extern types": externs that a program declares itself, and Python does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import ControlError, UsageError
from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import (
    Disposition,
    Engine,
    HeaderValue,
    OwnExterns,
    Program,
    Varbits,
    Verdict,
    extern,
    externs_in,
    ir,
    program_of_json,
    read_externs,
    trace_lines,
)

SOURCE = """
#include <core.p4>
#include <v1model.p4>
{outside}
header pair_t {{ bit<8> a; bit<8> b; }}
struct both_t {{ bit<8> x; bool y; error e; }}
struct headers_t {{ pair_t h; }}
struct metadata_t {{ }}
bit<8> up(inout bit<8> x) {{ x = x + 1; return x; }}
parser P(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    state start {{ packet.extract(h.h); {parsed} transition accept; }}
}}
control Sums(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    {parts}
    apply {{ s.egress_spec = 1; {apply} }}
}}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out packet, in headers_t h) {{ apply {{ packet.emit(h); }} }}
V1Switch(P(), Sums(), I(), E(), Sums(), D()) main;
"""


def program(outside: str, apply: str, parts: str = "", parsed: str = "") -> Program:
    """Return a program as it comes over a wire."""
    text = SOURCE.format(outside=outside, apply=apply, parts=parts, parsed=parsed)
    return program_of_json(compile_text(text).program.to_json())


def after(
    declared: str, apply: str, does: Callable[..., Any], frame: bytes = b"\x04\x08", parts: str = ""
) -> Verdict:
    """Return what becomes of a packet in a program with one extern, which `does` does."""
    engine = Engine(externs=[extern(declared)(does)])
    engine.load(program(f"extern {declared};", apply, parts))
    return engine.process(frame, 0, trace=True)


@pytest.mark.parametrize(
    ("declared", "apply", "does", "leaves"),
    [
        ("bit<8> f(in bit<8> x, in bit<8> y)", "h.h.a = f(h.h.a, h.h.b);", lambda x, y: y - x, "0408"),
        ("int<8> f(in int<8> x)", "h.h.a = (bit<8>) f(-3);", lambda x: x - 1, "fc08"),
        ("void f(out bit<8> x)", "f(h.h.a);", lambda: 7, "0708"),
        ("void f(inout bit<8> x)", "f(h.h.b);", lambda x: x + 1, "0409"),
        ("bit<8> f(out bit<8> x, in bit<8> y)", "h.h.a = f(h.h.b, 3);", lambda y: (y, y + 1), "0304"),
        ("void f(inout bit<8> x, out bit<8> y)", "f(h.h.b, h.h.a);", lambda x: (1, x), "0801"),
        ("bool f(in bool x)", "if (f(h.h.a == 4)) { h.h.a = 0; }", lambda x: x is True, "0008"),
        (
            "error f(in error x)",
            "if (f(error.NoMatch) == error.NoError) { h.h.a = 0; }",
            lambda x: {"NoMatch": "NoError"}[x],
            "0008",
        ),
        ("T f<T>(in T x)", "h.h.a = (bit<8>) f(16w258); h.h.b = f(8w9);", lambda x: x + 1, "030a"),
        ("bit<8> f(bit<8> x)", "h.h.a = f(3);", lambda x: x * 2, "0608"),
        ("bit<8> f(string x)", 'h.h.a = f("abc");', lambda x: len(x), "0308"),
        (
            "bit<8> f(in bit<8> x, in bit<8> y)",
            "h.h.a = f(y = up(h.h.b), x = h.h.b);",
            lambda x, y: x - y,
            "0009",
        ),
        (
            "bit<8> f(bit<8> n, in bit<8> x, out bit<8> y)",
            "h.h.a = f(y = h.h.b, x = up(h.h.b), n = 2);",
            lambda n, x: (x * n, x),
            "1209",
        ),
        ("void f(inout bit<8> x)", "f(h.h.a[7:0]);", lambda x: 255 - x, "fb08"),
    ],
)
def test_arguments_are_copied_in_and_results_out(
    declared: str, apply: str, does: Callable[..., Any], leaves: str
) -> None:
    assert after(declared, apply, does).frame.hex() == leaves


def test_a_struct_is_a_dict_and_a_header_has_fields() -> None:
    seen: list[Any] = []

    @extern("void look(in both_t s, inout pair_t h)")
    def look(both: dict[str, Any], header: HeaderValue) -> HeaderValue:
        seen.append((dict(both), dict(header.fields), header.valid))
        both["x"] = header.fields["a"] = 99  # of copies
        return HeaderValue({"a": 1, "b": header.fields["b"]}, valid=True)

    declared = "struct both_t; extern void look(in both_t s, inout pair_t h);".removeprefix("struct both_t; ")
    text = SOURCE.format(
        outside="",
        parts="",
        parsed="",
        apply="both_t v = { 5, true, error.NoMatch }; look(v, h.h); h.h.b = v.x;",
    ).replace("struct headers_t", f"{declared} struct headers_t")
    engine = Engine(externs=[look])
    engine.load(compile_text(text).program)
    assert engine.process(b"\x04\x08", 0).frame == b"\x01\x05"
    assert seen == [({"x": 5, "y": True, "e": "NoMatch"}, {"a": 4, "b": 8}, True)]


WINDOW = """extern Window<T> {
    Window(bit<32> size); Window(); void put(in bit<8> place, in T value); T get(in bit<8> place);
    bit<8> get();
}"""


@extern("Window<T>(bit<32> size)")
class Window:
    """Places with numbers."""

    def __init__(self, size: int) -> None:
        if not size:
            raise ValueError("no place")
        self.values = [0] * size

    @extern("void put(in bit<8> place, in T value)")
    def put(self, place: int, value: int) -> None:
        """Write one."""
        self.values[place] = value

    @extern("T get(in bit<8> place)")
    def get(self, place: int) -> int:
        """Read one."""
        return self.values[place]

    @extern("bit<8> get()")
    def size(self) -> int:
        """Count them."""
        return len(self.values)


def test_an_object_keeps_what_it_holds_from_packet_to_packet_and_apart_from_others() -> None:
    puts = "one.put(0, one.get(0) + 1); two.put(0, two.get(0) + 256);"
    gets = "h.h.a = one.get(0); h.h.b = two.get(0)[15:8];"
    engine = Engine(externs=[Window])
    engine.load(program(WINDOW, puts + gets, "Window<bit<8>>(4) one; Window<bit<16>>(2) two;"))
    frames = [engine.process(b"\0\0", 0).frame for _ in range(3)]
    assert frames == [b"\1\1", b"\2\2", b"\3\3"]
    assert engine.objects.states["I.two"].values == [768, 0]


def test_methods_of_one_name_differ_in_how_many_arguments_they_take() -> None:
    engine = Engine(externs=[Window])
    engine.load(program(WINDOW, "h.h.a = one.get(); h.h.b = one.get(0);", "Window<bit<8>>(4) one;"))
    assert engine.process(b"\x09\x09", 0).frame == b"\4\0"


def test_externs_are_called_in_parsers_actions_and_functions_too() -> None:
    engine = Engine(externs=[extern("bit<8> next(in bit<8> x)")(lambda x: x + 1)])
    engine.load(
        program(
            "extern bit<8> next(in bit<8> x); bit<8> twice(in bit<8> x) { return next(next(x)); }",
            "a(); h.h.b = twice(h.h.b);",
            "action a() { h.h.a = next(h.h.a); }",
            "h.h.a = next(h.h.a);",
        )
    )
    assert engine.process(b"\x01\x01", 0).frame == b"\x03\x03"


@pytest.mark.parametrize(
    ("declared", "does", "reason"),
    [
        ("bit<8> f()", lambda: 1 // 0, "extern.ZeroDivisionError"),
        ("bit<8> f()", lambda: sys.exit(1), "extern.SystemExit"),
        ("bit<8> f()", lambda: 256, "extern.ValueError"),
        ("bit<8> f()", lambda: -1, "extern.ValueError"),
        ("bit<8> f()", lambda: None, "extern.TypeError"),
        ("bit<8> f()", lambda: (1, 2), "extern.TypeError"),
        ("bit<8> f()", lambda: "1", "extern.TypeError"),
        ("int<8> f()", lambda: 128, "extern.ValueError"),
        ("bool f()", lambda: 2, "extern.ValueError"),
        ("error f()", lambda: "Nonsense", "extern.ValueError"),
        ("void f(out bit<8> x)", lambda: (1, 2), "extern.TypeError"),
        ("varbit<8> f()", lambda: Varbits(16, 1), "extern.TypeError"),
        ("varbit<8> f()", lambda: Varbits(2, 4), "extern.TypeError"),
    ],
)
def test_a_packet_whose_extern_fails_is_dropped_and_others_go_on(
    declared: str, does: Callable[..., Any], reason: str
) -> None:
    kind = declared.split()[0]
    call = "f(h.h.a);" if "(out" in declared else f"{kind} r = f(); h.h.b = 1;"
    engine = Engine(externs=[extern(declared)(does)])
    engine.load(program(f"extern {declared};", f"if (h.h.a == 4) {{ {call} }}"))
    verdict = engine.process(b"\x04\x08", 0, trace=True)
    assert (verdict.disposition, verdict.drop_reason, verdict.frame) == (
        Disposition.DROP,
        reason,
        b"\x04\x08",
    )
    assert engine.drops == {reason: 1}
    assert engine.process(b"\x05\x08", 0).frame == b"\x05\x08"


@pytest.mark.parametrize(
    "parsed", ["h.h.a = f();", "packet.advance((bit<32>) f());", "verify(f() == 1, error.NoMatch);"]
)
def test_a_packet_whose_extern_fails_in_the_parser_is_dropped_too(parsed: str) -> None:
    engine = Engine(externs=[extern("bit<8> f()")(lambda: 256)])
    engine.load(program("extern bit<8> f();", "", parsed=parsed))
    for trace in (False, True):
        verdict = engine.process(b"\x04\x08", 0, trace=trace)
        assert (verdict.disposition, verdict.drop_reason) == (Disposition.DROP, "extern.ValueError")


def test_an_exception_that_cannot_say_what_it_is_is_one_all_the_same() -> None:
    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError

    def does() -> int:
        raise Mute

    assert after("bit<8> f()", "h.h.a = f();", does).drop_reason == "extern.Mute"


def test_a_constructor_is_given_numbers_bools_and_strings() -> None:
    given: list[object] = []

    @extern("Box(bit<8> n, bool b, string s)")
    class Box:
        def __init__(self, *arguments: object) -> None:
            given.extend(arguments)

        @extern("void see()")
        def see(self) -> None:
            pass

    outside = "extern Box { Box(bit<8> n, bool b, string s); void see(); }"
    Engine(externs=[Box]).load(program(outside, "b.see();", 'Box(3, true, "x") b;'))
    assert given == [3, True, "x"]
    assert given[1] is True


def test_a_decorator_without_its_declaration_says_what_it_needs() -> None:
    with pytest.raises(UsageError, match="@extern needs a declaration"):
        extern(lambda: 1)  # type: ignore[arg-type]


def test_a_trace_tells_why_an_extern_failed() -> None:
    lines = "\n".join(trace_lines(after("bit<8> f()", "h.h.a = f();", lambda: 256).trace))
    assert "256 is no bit<8>: 0 to 255" in lines


def test_packets_that_call_what_nothing_does_are_dropped_and_the_engine_says_so() -> None:
    engine = Engine()
    apply = "if (h.h.a == 4) { h.h.a = f(); } else if (h.h.a == 3) { w.put(0, 1); }"
    engine.load(program(f"extern bit<8> f(); {WINDOW}", apply, "Window<bit<8>>(1) w;"))
    assert engine.missing_externs == ["Window", "f"]
    assert engine.process(b"\x05\x08", 0).frame == b"\x05\x08"
    assert engine.process(b"\x03\x08", 0).drop_reason == "extern.missing"
    assert engine.process(b"\x04\x08", 0).drop_reason == "extern.missing"


def test_what_is_made_and_never_called_is_missed_by_nobody() -> None:
    engine = Engine()
    engine.load(program(WINDOW, "h.h.a = 7;", "Window<bit<8>>(1) w;"))
    assert engine.missing_externs == []
    assert engine.process(b"\x05\x08", 0).frame == b"\x07\x08"


@pytest.mark.parametrize(
    "other",
    [
        "bit<9> f(in bit<8> x)",
        "bit<8> f(inout bit<8> x)",
        "bit<8> f()",
        "void f(in bit<8> x)",
        "T f<T>(in T x, in T y)",
    ],
)
def test_a_program_that_declares_an_extern_in_another_way_is_refused(other: str) -> None:
    engine = Engine(externs=[extern(other)(lambda x: x)])
    engine.load(program("", ""))
    with pytest.raises(
        ControlError, match=r"extern f: the program declares bit<8> f\(in bit<8>\); in Python"
    ):
        engine.load(program("extern bit<8> f(in bit<8> x);", "h.h.a = f(h.h.a);"))
    assert engine.program == program("", "")


def test_a_type_variable_is_one_type_in_a_call() -> None:
    same = extern("void f<T>(in T x, in T y)")(lambda x, y: None)
    engine = Engine(externs=[same])
    with pytest.raises(ControlError, match="declares void f"):
        engine.load(program("extern void f<A, B>(in A x, in B y);", "f(h.h.a, 16w1);"))
    engine.load(program("extern void f<A, B>(in A x, in B y);", "f(h.h.a, 8w1);"))


def test_an_object_that_cannot_be_made_refuses_the_program() -> None:
    engine = Engine(externs=[Window])
    with pytest.raises(ControlError, match=r"extern object I\.w cannot be made: ValueError: no place"):
        engine.load(program(WINDOW, "", "Window<bit<8>>(0) w;"))


def test_others_can_do_the_same_from_now_on() -> None:
    engine = Engine(externs=[extern("bit<8> f()")(lambda: 1)])
    engine.load(
        program(f"extern bit<8> f(); {WINDOW}", "h.h.a = f(); h.h.b = w.get();", "Window<bit<8>>(3) w;")
    )
    assert engine.process(b"\0\0", 0).drop_reason == "extern.missing"
    engine.use_externs(OwnExterns((Window, extern("bit<8> f()")(lambda: 2))))
    assert engine.process(b"\0\0", 0).frame == b"\2\3"
    with pytest.raises(ControlError, match="in Python it is bit<7> f"):
        engine.use_externs(OwnExterns((extern("bit<7> f()")(lambda: 2),)))
    assert engine.process(b"\0\0", 0).frame == b"\2\3"
    staged = engine.staged(program("extern bit<8> f();", "h.h.a = f();"))
    assert staged.process(b"\0\0", 0).frame == b"\2\0"


@pytest.mark.parametrize(
    "text", ["f", "bit<8> f", "f(bit<8>)", "f(in x)", "bit<8> f(in bit<8> a b,)", "", "1 f()"]
)
def test_what_declares_no_extern_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="declares no extern"):
        extern(text)


def test_a_file_may_import_modules_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_externs.py").write_text(
        "from nicemu.pipeline import extern\n@extern('bit<8> f()')\ndef f(): return 7\n"
    )
    (tmp_path / "first.py").write_text("from beside_the_externs import f\ng = f\n")
    (tmp_path / "second.py").write_text("from beside_the_externs import f\n")
    engine = Engine(externs=read_externs([tmp_path / "first.py", tmp_path / "second.py"]))
    engine.load(program("extern bit<8> f();", "h.h.a = f();"))
    assert engine.process(bytes(8), 1).frame[0] == 7


def test_two_that_do_the_same_are_refused() -> None:
    declared = "bit<8> f()"
    engine = Engine(externs=[extern(declared)(lambda: 1), extern(declared)(lambda: 2)])
    with pytest.raises(ControlError, match="in Python there are 2 that do it; one was expected"):
        engine.load(program("extern bit<8> f();", "h.h.a = f();"))


def test_externs_of_a_file_are_found(tmp_path: Path) -> None:
    good, empty, wrong = tmp_path / "good.py", tmp_path / "empty.py", tmp_path / "wrong.py"
    good.write_text("from nicemu.pipeline import extern\n@extern('void f()')\ndef f(): pass\n")
    empty.write_text("x = 1\n")
    wrong.write_text("1 / 0\n")
    assert [thing.__name__ for thing in read_externs([good])] == ["f"]
    with pytest.raises(UsageError, match="has no function or class with @extern"):
        read_externs([good, empty])
    with pytest.raises(UsageError, match=r"wrong\.py:1: ZeroDivisionError"):
        read_externs([wrong])
    for text, said in (("x = 1\nx =\n", "2: SyntaxError"), ("import sys\nsys.exit(3)\n", "2: SystemExit: 3")):
        wrong.write_text(text)
        with pytest.raises(UsageError, match=rf"wrong\.py:{said}"):
            read_externs([wrong])
    assert externs_in({"x": 1, "Window": Window, "w": Window(1)}) == [Window]


def test_a_program_over_a_wire_cannot_declare_nonsense() -> None:
    good = program("extern bit<8> f(in bit<8> x);", "h.h.a = f(h.h.a);")
    (declared,) = good.extern_signatures
    for wrong, words in (
        ((declared, declared), "f"),
        ((replace(declared, results=(ir.BOOL, ir.BOOL)),), "more than one value"),
        ((replace(declared, parameters=()),), "f takes 0; 1 are given"),
        ((replace(declared, results=()),), "returns nothing"),
        ((replace(declared, results=(ir.Named("nothing_t"),)),), "nothing_t"),
        ((replace(declared, name="mark_to_drop"), declared), "v1model has it already"),
        ((replace(declared, owner="register"), declared), "v1model has it already"),
        ((), "f is unknown"),
    ):
        with pytest.raises(ControlError, match=words):
            Engine().load(replace(good, extern_signatures=wrong))


@extern("Given<T>(T value)")
class Given:
    def __init__(self, value: object) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("both_t", "{ 1, true, error.NoMatch }", {"x": 1, "y": True, "e": "NoMatch"}),
        ("both_t", "{ y = true, ... }", {"x": 0, "y": True, "e": "NoError"}),
        ("tuple<bit<8>, int<8>>", "{ 1, -2 }", {"f0": 1, "f1": -2}),
        ("list<tuple<bit<8>, bit<16>>>", "ROWS", [{"f0": 1, "f1": 2}, {"f0": 3, "f1": 4}]),
        ("list<list<bit<8>>>", "{ { 1 }, { 2, 3 } }", [[1], [2, 3]]),
        ("bit<8>[3]", "{ 1, 2, 3 }", [1, 2, 3]),
    ],
)
def test_a_constructor_is_given_structs_tuples_and_lists(kind: str, given: str, value: object) -> None:
    """ "Lists": what externs have constructors take."""
    engine = Engine(externs=[Given])
    rows = "const list<tuple<bit<8>, bit<16>>> ROWS = { { 1, 2 }, { 3, 4 } };"
    outside = f"extern Given<T> {{ Given(T value); }} {rows}"
    engine.load(program(outside, "", f"Given<{kind}>({given}) made;"))
    assert engine.objects.states["I.made"].value == value


def test_a_constructor_is_given_what_its_block_is_made_with() -> None:
    engine = Engine(externs=[Given])
    kind = "tuple<bit<8>, bool>"
    block = f"control Part()({kind} b) {{ Given<{kind}>(b) made; apply {{ }} }}"
    parts = "Part({ 1, true }) one; Part({ 2, false }) two;"
    engine.load(program(f"extern Given<T> {{ Given(T value); }} {block}", "one.apply(); two.apply();", parts))
    found = [engine.objects.states[f"I.{name}.made"].value["f0"] for name in ("one", "two")]
    assert found == [1, 2]


def test_an_array_is_a_list() -> None:
    extern("void f(in bit<8>[2][3] grid, in pair<bit<8>[2]> both)")

    @extern("void turn(inout bit<8>[2] row)")
    def turn(row: list[int]) -> list[int]:
        return row[::-1]

    outside = "extern void turn(inout bit<8>[2] row);"
    apply = "bit<8>[2] row = { h.h.a, h.h.b }; turn(row); h.h.a = row[0]; h.h.b = row[1];"
    engine = Engine(externs=[turn])
    engine.load(program(outside, apply))
    assert engine.process(b"\1\2", 0).frame == b"\2\1"
    engine = Engine(externs=[extern("void turn(inout bit<8>[2] row)")(lambda row: row[:1])])
    engine.load(program(outside, apply))
    assert engine.process(b"\1\2", 0).drop_reason == "extern.TypeError"


def test_int_is_any_number() -> None:
    given: list[int] = []
    take = extern("void take(int number)")(lambda number: given.append(number))
    outside = "extern Big { Big(int n); } extern void take(int number);"

    @extern("Big(int n)")
    class Big:
        def __init__(self, number: int) -> None:
            given.append(number)

    engine = Engine(externs=[Big, take])
    engine.load(program(outside, "take(-3);", "Big(1 << 70) big;"))
    engine.process(b"\0\0", 0)
    assert [number for number in given if number] == [1 << 70, -3]


def test_a_type_variable_stands_for_a_type_within_another() -> None:
    declared = "extern Pair<A, B> { Pair(tuple<A, B> both, list<A> more); }"

    @extern("Pair<A, B>(tuple<A, B> both, list<A> more)")
    class Pair:
        def __init__(self, both: dict[str, int], more: list[int]) -> None:
            self.sum = sum(both.values()) + sum(more)

    engine = Engine(externs=[Pair])
    engine.load(program(declared, "", "Pair<bit<8>, bit<16>>({ 1, 2 }, { 3, 4 }) pair;"))
    assert engine.objects.states["I.pair"].sum == 10

    @extern("Pair<A, B>(tuple<A, B> both, list<B> more)")
    class Other(Pair):
        pass

    with pytest.raises(ControlError, match=r"declares Pair\(in tuple<bit<8>,bit<16>>, in list<bit<8>>\)"):
        Engine(externs=[Other]).load(program(declared, "", "Pair<bit<8>, bit<16>>({ 1, 2 }, { 3, 4 }) pair;"))


@pytest.mark.parametrize("wrong", [(1,), ((1, 2),), ((1, 256, 0),), ((1, "2", 0),), (("1", 1, 99),), ("x",)])
def test_what_a_constructor_is_given_over_a_wire_is_checked(wrong: tuple[ir.Given, ...]) -> None:
    made = program(
        "extern Given<T> { Given(T value); }", "", "Given<both_t>({ 1, true, error.NoError }) made;"
    )
    given = replace(made, externs=tuple(replace(item, arguments=wrong) for item in made.externs))
    with pytest.raises(ControlError, match=r"I\.made"):
        Engine(externs=[Given]).load(given)
    with pytest.raises(ControlError, match=r"I\.made"):
        Engine().load(given)


def test_arguments_of_constructors_nest_only_so_deep() -> None:
    made = program("extern Given<T> { Given(T value); }", "", "Given<bit<8>>(77) made;").to_json()
    assert made.count("77") == 1
    with pytest.raises(ControlError, match="lies deeper than"):
        program_of_json(made.replace("77", "[" * 400 + "77" + "]" * 400))


@pytest.mark.parametrize("wrong", [((77,),), ((77, (1,)),), ((),)])
def test_what_an_architecture_constructs_takes_no_list(wrong: tuple[ir.Given, ...]) -> None:
    made = program("", "made.write(0, 1);", "register<bit<8>>(77) made;")
    externs = tuple(replace(item, arguments=wrong) for item in made.externs)
    with pytest.raises(ControlError, match=r"I\.made"):
        Engine().load(replace(made, externs=externs))


def test_an_array_that_a_constructor_takes_is_a_list() -> None:
    @extern("Weights(bit<8>[2] of)")
    class Weights:
        def __init__(self, of: list[int]) -> None:
            self.of = of

    engine = Engine(externs=[Weights])
    engine.load(program("extern Weights { Weights(bit<8>[2] of); }", "", "Weights({ 1, 2 }) made;"))
    assert engine.objects.states["I.made"].of == [1, 2]


@pytest.mark.parametrize("kind", ["int", "string", "list<bit<8>>"])
def test_no_variable_is_of_a_type_that_only_constructors_take(kind: str) -> None:
    made = program("", "")
    text = made.to_json().replace('"variables": [', f'"variables": [{{"name": "v", "type": "{kind}"}},', 1)
    text = text.replace('"variables":[', f'"variables":[{{"name":"v","type":"{kind}"}},', 1)
    with pytest.raises(ControlError, match=f"is {kind}, which no value has"):
        program_of_json(text)


@pytest.mark.parametrize(
    ("outside", "apply", "parts", "words"),
    [
        ("extern bit<8> f(in bit<8> x);", "h.h.a = f(16w1);", "", "bit<16>"),
        ("extern bit<8> f(bit<8> x);", "h.h.a = f(h.h.a);", "", "argument x must be known at compile time"),
        ("extern void f(out bit<8> x);", "f(3);", "", "3"),
        ("extern void f(in bit<8> x);", "f();", "", "f takes 1 argument"),
        (WINDOW, "", "Window<bit<8>>(h.h.a) w;", "argument size"),
        (WINDOW, "w.take();", "Window<bit<8>>(1) w;", "has no method take"),
        ("extern Box { Box(pair_t[2] x); }", "", "Box({{1, 2}, {3, 4}}) b;", "nicemu yet: pair_t"),
        ("extern Box { Box(tuple<bit<8>> x); }", "", "Box({h.h.a}) b;", "must be known at compile time"),
        ("extern Box { Box(list<bit<8>> x); }", "", "Box({true}) b;", "bool"),
        ("extern string f();", "f();", "", "not supported by nicemu yet: string as the result of f"),
        ("extern int f();", "f();", "", "not supported by nicemu yet: int as the result of f"),
        (
            "extern list<bit<8>> f();",
            "f();",
            "",
            "not supported by nicemu yet: list<bit<8>> as the result of f",
        ),
        ("extern void f(int n);", "f(h.h.a);", "", "argument n must be known at compile time"),
        ("extern X { X(); abstract void f(); }", "", "X() x;", "x lacks what its abstract methods do: f"),
    ],
)
def test_a_call_that_does_not_fit_the_declaration_is_refused(
    outside: str, apply: str, parts: str, words: str
) -> None:
    with pytest.raises(CompileError, match=words):
        program(outside, apply, parts)
