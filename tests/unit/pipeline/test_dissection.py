# SPDX-License-Identifier: Apache-2.0
"""Fields of a frame that has left are found by the program's own parser and deparser, where they agree."""

from __future__ import annotations

from nicemu.p4 import compile_text
from nicemu.pipeline import Engine

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
struct inner_t {{ bit<4> low; int<4> high; }}
header fixed_t {{ bit<8> kind; inner_t inner; }}
header open_t {{ bit<8> length; varbit<32> data; }}
header_union either_t {{ fixed_t fixed; open_t open; }}
struct headers_t {{ fixed_t first; fixed_t[2] stack; either_t either; }}
struct metadata_t {{ }}
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    open_t o;
    state start {{ b.extract(h.first); transition select(h.first.kind) {{ 1: stack; 2: union; 3: reject; }} }}
    state stack {{ b.extract(h.stack.next); b.extract(h.stack.next); transition accept; }}
    state union {{
        bit<8> length = b.lookahead<bit<8>>();
        b.extract(h.either.open, (bit<32>) length);
        transition accept;
    }}
}}
control V(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ }} }}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ }} }}
control C(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control D(packet_out b, in headers_t h) {{ apply {{ {emit} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def fields(frame: str, emit: str = "b.emit(h);") -> list[tuple[str, int, int, int]]:
    engine = Engine()
    engine.load(compile_text(PROGRAM.format(emit=emit)).program)
    found = engine.dissect(bytes.fromhex(frame))
    return [(field.name, field.offset_bits, field.width_bits, field.number) for field in found]


FIRST = [("first.kind", 0, 8, 1), ("first.inner.low", 8, 4, 2), ("first.inner.high", 12, 4, 15)]


def test_fields_of_headers_and_of_stacks_stand_where_they_were_emitted() -> None:
    assert fields("012f 0735 0846 ff") == [
        *FIRST,
        ("stack[0].kind", 16, 8, 7),
        ("stack[0].inner.low", 24, 4, 3),
        ("stack[0].inner.high", 28, 4, 5),
        ("stack[1].kind", 32, 8, 8),
        ("stack[1].inner.low", 40, 4, 4),
        ("stack[1].inner.high", 44, 4, 6),
    ]


def test_a_varbit_in_a_union_is_as_wide_as_it_is() -> None:
    assert fields("022f 10abcd")[3:] == [
        ("either.open.length", 16, 8, 16),
        ("either.open.data", 24, 16, 0xABCD),
    ]


def test_what_the_parser_rejects_is_told_as_far_as_it_came() -> None:
    assert [name for name, *_ in fields("032f 99")] == ["first.kind", "first.inner.low", "first.inner.high"]
    assert fields("01") == []


def test_a_deparser_that_emits_parts_under_conditions_is_followed() -> None:
    emit = "if (h.first.kind == 1) { b.emit(h.first); b.emit(h.stack[0]); }"
    assert [name for name, *_ in fields("012f 0735 0846", emit)][::3] == ["first.kind", "stack[0].kind"]


def test_a_frame_that_begins_otherwise_than_it_is_emitted_has_no_fields() -> None:
    assert fields("012f 0735 0846", "b.emit(h.stack[1]); b.emit(h.first);") == []


def test_nothing_happens_when_a_frame_is_taken_apart() -> None:
    text = PROGRAM.format(emit="b.emit(h);").replace(
        "open_t o;", "open_t o; counter(4, CounterType.packets) seen;"
    )
    engine = Engine()
    engine.load(
        compile_text(text.replace("b.extract(h.first);", "b.extract(h.first); seen.count(1);")).program
    )
    assert engine.dissect(bytes.fromhex("012f"))[0].number == 1
    assert engine.objects.counter("seen").counts == {}
