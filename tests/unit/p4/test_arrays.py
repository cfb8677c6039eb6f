# SPDX-License-Identifier: Apache-2.0
"""The draft behind P4-16 1.2.5, "Array types": arrays of anything, compiled and run by both engines.

Source: p4-spec pull request 1360.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nicemu.control import p4info_text
from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine

TYPES = """
struct point_t { bit<8> x; bit<16> y; }
header cells_t { bit<8> at; bit<8> value; bit<8>[4] cells; }
header seen_t { bit<8>[4] row; bit<16> more; }
"""
ARRAYS: dict[str, str] = {
    "types": TYPES,
    "members": "cells_t cells; seen_t seen;",
    "states": "state start { packet.extract(headers.cells); transition accept; }",
    "emit": "packet.emit(headers.cells); packet.emit(headers.seen);",
}


def cells(p4: SimpleNamespace, apply: str, frame: str = "020901020304", **parts: Any) -> str:  # noqa: ANN401
    """Return what leaves, the same from both engines, in hexadecimal; of the header `seen` its bytes alone,
    where that leaves, too.
    """
    given = ARRAYS | parts
    given["types"] = TYPES + parts.get("types", "")
    program = compile_text(p4.source(apply, **given), "test.p4").program
    found = []
    for make in (Engine, CompiledEngine) if JIT else (Engine,):
        engine = make()
        engine.load(program)
        if isinstance(engine, CompiledEngine):
            assert engine.interpreted_because == ""
        verdict = engine.process(bytes.fromhex(frame), 1)
        assert verdict.frame is not None, verdict.drop_reason
        found.append(verdict.frame.hex())
    assert found[0] == found[1]
    return found[0][12:] or found[0]


def test_a_header_has_an_array(p4: SimpleNamespace) -> None:
    assert cells(p4, "headers.cells.cells[1] = headers.cells.cells[3];") == "020901040304"


def test_an_index_is_known_at_run_time(p4: SimpleNamespace) -> None:
    apply = "headers.cells.cells[headers.cells.at] = headers.cells.cells[headers.cells.at + 1];"
    assert cells(p4, apply) == "020901020404"


@pytest.mark.parametrize("at", ["04", "ff"])
def test_outside_there_are_zeros_that_keep_nothing(p4: SimpleNamespace, at: str) -> None:
    apply = """headers.cells.cells[headers.cells.at] = 0x77;
    headers.cells.value = headers.cells.cells[headers.cells.at];"""
    assert cells(p4, apply, f"{at}0901020304") == f"{at}0001020304"


def test_a_signed_index_below_0_is_outside(p4: SimpleNamespace) -> None:
    apply = """int<8> at = -1;
    headers.cells.cells[at] = 0x77;
    headers.cells.value = headers.cells.cells[at];"""
    assert cells(p4, apply) == "020001020304"


@pytest.mark.parametrize("index", ["headers.cells.at[0:0]", "headers.cells.at[1:1]"])
def test_an_index_of_one_bit_names_two_elements(p4: SimpleNamespace, index: str) -> None:
    apply = f"headers.cells.cells[{index}] = 0x77;"
    expected = {"0": "020977020304", "1": "020901770304"}
    assert cells(p4, apply) == expected[index[-2]]


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("bit<8>[4] row = { 1, 2, 3, 4 };", "01020304"),
        ("bit<8> row[4] = { 1, 2, 3, 4 };", "01020304"),
        ("bit<8>[4] row = { 5, ... };", "05000000"),
        ("bit<8>[4] row = headers.cells.cells;", "01020304"),
        ("bit<8>[4] row = (bit<8>[4]) { 9, 8, 7, 6 };", "09080706"),
        ("const bit<8>[4] row = { 1, 2, 3, 4 };", "01020304"),
        ("bit<8>[4] row; row[2] = 7;", "00000700"),
    ],
)
def test_a_variable_is_an_array(p4: SimpleNamespace, declared: str, expected: str) -> None:
    assert cells(p4, f"{declared} headers.seen.setValid(); headers.seen.row = row;") == expected + "0000"


def test_a_constant_is_indexed_at_run_time(p4: SimpleNamespace) -> None:
    top = "const bit<8>[3] PRIMES = { 2, 3, 5 };"
    assert cells(p4, "headers.cells.value = PRIMES[headers.cells.at];", top=top) == "020501020304"


def test_an_element_of_a_constant_is_known_when_compiled(p4: SimpleNamespace) -> None:
    top = "const bit<8>[3] PRIMES = { 2, 3, 5 };"
    apply = "headers.cells.value = (bit<8>) headers.cells.cells[0][PRIMES[1]:PRIMES[0]];"
    assert cells(p4, apply, "02090c020304", top=top) == "02030c020304"


def test_arrays_are_in_arrays(p4: SimpleNamespace) -> None:
    apply = """bit<8>[2][3] grid;
    bit<8> same[3][2];
    same[2] = grid[2];
    grid[headers.cells.at][headers.cells.at - 1] = 7;
    grid[1] = { 3, 4 };
    headers.seen.setValid();
    headers.seen.row = { grid[2][1], grid[2][0], grid[1][0], grid[1][1] };"""
    assert cells(p4, apply) == "070003040000"


def test_an_array_is_in_a_stack(p4: SimpleNamespace) -> None:
    apply = """cells_t[2] stack;
    stack[1] = headers.cells;
    stack[headers.cells.at - 1].cells[headers.cells.at] += 5;
    headers.seen.setValid();
    headers.seen.row = stack[1].cells;"""
    assert cells(p4, apply) == "010208040000"


def test_elements_are_structs(p4: SimpleNamespace) -> None:
    apply = """point_t[3] points = { { 1, 2 }, { 3, 4 }, { 5, 6 } };
    points[headers.cells.at].y[7:4] = 0xa;
    points[0] = points[headers.cells.at];
    headers.seen.setValid();
    headers.seen.row = { points[0].x, points[0].y[7:0], points[1].x, points[2].y[7:0] };"""
    assert cells(p4, apply) == "05a603a60000"


def test_a_call_stores_into_the_element_that_was_meant_when_it_began(p4: SimpleNamespace) -> None:
    top = "void go(inout bit<8> at, inout bit<8> cell) { at = at + 1; cell = 0x77; }"
    apply = "go(headers.cells.at, headers.cells.cells[headers.cells.at]);"
    assert cells(p4, apply, top=top) == "030901027704"


NEXT = "bit<8> next(inout bit<8> at) { at = at + 1; return at; }"


@pytest.mark.parametrize(
    ("declared", "read"),
    [
        ("bit<8>[3][3] grid; grid[1][2] = 0x12; grid[2][1] = 0x21;", "grid"),
        ("pair_t[3] grid; grid[1].row[2] = 0x12; grid[2].row[1] = 0x21;", "grid"),
        ("cells_t[3] grid; grid[1].cells[2] = 0x12; grid[2].cells[1] = 0x21;", "grid"),
    ],
)
def test_indices_are_evaluated_from_left_to_right(p4: SimpleNamespace, declared: str, read: str) -> None:
    part = {"bit<8>": "", "pair_t": ".row", "cells_": ".cells"}[declared[:6]]
    at = "next(headers.cells.at)"
    apply = f"{declared} headers.cells.at = 0; headers.cells.value = {read}[{at}]{part}[{at}];"
    types = "struct pair_t { bit<8>[3] row; }"
    assert cells(p4, apply, top=NEXT, types=types) == "021201020304"


def test_a_call_in_an_index_changes_the_array_before_it_is_read(p4: SimpleNamespace) -> None:
    top = "bit<8> change(inout bit<8>[4][2] grid) { grid[1][2] = 0x55; return 2; }"
    apply = """bit<8>[4][2] grid;
    headers.cells.value = grid[headers.cells.at - 1][change(grid)];"""
    assert cells(p4, apply, top=top) == "025501020304"


def test_a_key_in_a_header_that_is_not_valid_is_0(p4: SimpleNamespace) -> None:
    parts = """action set(bit<8> to) { headers.cells.value = to; }
    table t {
        key = { headers.seen.row[2]: exact; }
        actions = { set; }
        const entries = { 0: set(1); 7: set(2); }
    }
    table u {
        key = { headers.seen.row[headers.cells.at]: exact @name("at"); }
        actions = { set; }
        const entries = { 0: set(0x10); 7: set(0x20); }
    }"""
    gone = "headers.seen.setValid(); headers.seen.row = { 7, 7, 7, 7 }; headers.seen.setInvalid();"
    assert cells(p4, f"{gone} t.apply();", parts=parts) == "020101020304"
    assert cells(p4, f"{gone} u.apply();", parts=parts) == "021001020304"


@pytest.mark.parametrize("element", ["headers.seen.row[1]", "headers.seen.row[headers.cells.at]"])
def test_what_is_in_a_header_that_is_not_valid_is_not_hashed(p4: SimpleNamespace, element: str) -> None:
    gone = "headers.seen.setValid(); headers.seen.row = { 7, 7, 7, 7 }; headers.seen.setInvalid();"
    hashed = f"hash(m.mark, HashAlgorithm.crc16, 16w0, {{ {element} }}, 32w65536);"
    assert cells(p4, f"{gone} {hashed} headers.cells.value = m.mark[7:0];") == "020001020304"


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
def test_a_kernel_chooses_among_some_thousand_numbers_and_leaves_more_to_the_interpreter(
    p4: SimpleNamespace,
) -> None:
    apply = "bit<8>[%s] row; row[m.mark] = 1; headers.cells.value = row[m.mark + 1];"
    reasons = []
    for size in ("64][64", "128][64"):
        grid = apply.replace("[m.mark]", "[m.mark][m.mark]").replace("[m.mark + 1]", "[0][m.mark + 1]")
        engine = CompiledEngine()
        engine.load(p4.compile(grid % size, **ARRAYS).program)
        reasons.append(engine.interpreted_because)
    assert reasons == ["", "an index known at run time is of an array of more than 4096 numbers"]


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
def test_a_kernel_keeps_no_more_than_some_ten_thousand_numbers(p4: SimpleNamespace) -> None:
    engine = CompiledEngine()
    engine.load(p4.compile("bit<8>[300][300] grid; grid[1][2] = 3;", **ARRAYS).program)
    assert engine.interpreted_because == "its variables hold more than 65536 numbers"


def test_what_stands_in_an_index_is_done_once(p4: SimpleNamespace) -> None:
    assert cells(p4, "headers.cells.cells[next(headers.cells.at)] += 3;", top=NEXT) == "030901020307"


def test_functions_take_arrays(p4: SimpleNamespace) -> None:
    top = """bit<8> sum(in bit<8>[4] row) {
        bit<8> all = 0;
        for (bit<8> one in row) { all = all + one; }
        return all;
    }
    T last<T>(in T[4] row) { return row[3]; }
    void clear(inout bit<8>[4] row, bit<8> by) { row[1] = by; }"""
    apply = """headers.seen.setValid();
    headers.seen.row = { sum(headers.cells.cells), last(headers.cells.cells), 0, 0 };
    clear(headers.seen.row, 9);"""
    assert cells(p4, apply, top=top) == "0a0900000000"


def test_arrays_are_compared(p4: SimpleNamespace) -> None:
    apply = """bit<8>[4] row = { 1, 2, 3, 4 };
    headers.cells.at = row == headers.cells.cells ? 8w1 : 0;
    row[3] = 5;
    headers.cells.value = row == { 1, 2, 3, 5 } && row != headers.cells.cells ? 8w1 : 0;"""
    assert cells(p4, apply) == "010101020304"


def test_a_table_has_an_element_as_a_key(p4: SimpleNamespace) -> None:
    parts = """action set(bit<8> to) { headers.cells.value = to; }
    table t { key = { headers.cells.cells[2]: exact; } actions = { set; }
        const entries = { 3: set(0x33); } }"""
    assert cells(p4, "t.apply();", parts=parts) == "023301020304"
    compiled = p4.compile("t.apply();", parts=parts, **ARRAYS)
    assert [key.name for key in compiled.p4info.tables[0].keys] == ["headers.cells.cells[2]"]


def test_a_size_is_computed(p4: SimpleNamespace) -> None:
    apply = "bit<8>[N * 2] row; row[N] = 7; headers.cells.value = row[2];"
    assert cells(p4, apply, top="const int N = 2;") == "020701020304"


def test_metadata_has_arrays_of_structs_with_headers(p4: SimpleNamespace) -> None:
    """An index that is known needs nothing; one that is not, the interpreter."""
    types = "struct one_t { cells_t cells; }"
    fixed = (
        "one_t[2] all; all[1].cells = headers.cells; all[1].cells.value = 5; headers.cells = all[1].cells;"
    )
    assert cells(p4, fixed, types=types) == "020501020304"
    moving = fixed.replace("all[1]", "all[headers.cells.at - 1]", 1)
    program = p4.compile(moving, **ARRAYS | {"types": TYPES + types}).program
    engine = CompiledEngine()
    engine.load(program)
    assert not JIT or "array with headers" in engine.interpreted_because
    assert engine.process(bytes.fromhex("020901020304"), 1).frame == bytes.fromhex("020501020304")


@pytest.mark.parametrize(
    ("apply", "words"),
    [
        ("bit<8>[4] row; row[4] = 1;", "bit<8>[4] has no element 4"),
        ("bit<8>[0] row;", "an array of 0; 1 to 1024 elements were expected"),
        ("bit<8>[2000] row;", "an array of 2000"),
        ("bit<8>[headers.cells.at] row;", "must be known at compile time"),
        ("int[4] row;", "an array cannot hold int"),
        ("bit<8>[2] row = { 1, 2, 3 };", "has 3 values; bit<8>[2] has 2 elements"),
        ("bit<8>[2] row = { 1, true };", "an element is bool"),
        ("bit<8>[2] row = { a = 1, b = 2 };", "bit<8>[2] has no names for its values"),
        ("bit<8>[2] row; bit<8>[3] other = row;", "is bit<8>[2]; bit<8>[3] was expected"),
        ("bit<8>[2] row; row.push_front(1);", "push_front"),
        ("bit<8>[2] row; headers.cells.at = row.next;", "bit<8>[2] has no field next"),
        ("bit<8>[2] row; headers.cells.at = row[true];", "the index is bool; a number was expected"),
        ("bit<8>[2] row; headers.cells.at = row;", "is bit<8>[2]; bit<8> was expected"),
        ("bit<8>[2] row; for (bit<16> one in row) { }", "one is bit<16>; bit<8> was expected"),
        ("headers.cells.cells.value = 1;", "has no field value"),
    ],
)
def test_what_arrays_do_not_do_is_refused(p4: SimpleNamespace, apply: str, words: str) -> None:
    assert words in p4.refusal(apply, **ARRAYS)


def test_an_array_is_no_key_and_nothing_to_select(p4: SimpleNamespace) -> None:
    parts = "table t { key = { headers.cells.cells: exact; } actions = { NoAction; } }"
    assert "bit<8>[4]" in p4.refusal("t.apply();", parts=parts, **ARRAYS)
    states = (
        "state start { packet.extract(headers.cells); transition select(headers.cells.cells) { _: accept; } }"
    )
    assert "bit<8>[4]" in p4.refusal("", **ARRAYS | {"states": states})


def test_a_register_holds_no_array(p4: SimpleNamespace) -> None:
    told = p4.refusal(parts="register<bit<8>[4]>(4) rows;")
    assert "not supported by nicemu yet: extern register<bit<8>[4]> carries bit<8>[4]" in told


def test_p4info_has_no_name_for_an_array(p4: SimpleNamespace) -> None:
    text = """#include <core.p4>
#include <v1model.p4>
struct headers_t { }
struct metadata_t { bit<8>[2] row; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { digest(1, { m.row, s.ingress_port }); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
    found = p4info_text(p4.compile_text(text).p4info)
    assert "array" not in found
    assert found.count("tuple {") == 2


def test_a_stack_in_an_array_is_extracted_into_and_its_index_evaluated_once(p4: SimpleNamespace) -> None:
    engine = Engine()
    states = """state start {
        packet.extract(headers.rows[up(m.mark)].tags.next);
        packet.extract(headers.rows[up(m.mark)].tags.next);
        packet.extract(headers.rows[m.mark - 1].tags.next);
        transition accept;
    }"""
    top = "bit<16> up(inout bit<16> x) { x = x + 1; return x - 1; }"
    parts = {
        "types": "struct row_t { tag_t[3] tags; }",
        "members": "row_t[2] rows;",
        "emit": "packet.emit(headers.rows[1].tags); packet.emit(headers.rows[0].tags);",
    }
    engine.load(
        p4.compile("headers.rows[0].tags[0].number = m.mark;", states=states, top=top, **parts).program
    )
    for trace in (False, True):
        verdict = engine.process(bytes.fromhex("01000001 02000002 03000003"), 1, trace=trace)
        assert verdict.frame is not None, verdict.drop_reason
        assert verdict.frame.hex(" ", 4) == "02000002 03000003 01000201"
