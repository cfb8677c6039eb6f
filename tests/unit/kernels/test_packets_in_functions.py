# SPDX-License-Identifier: Apache-2.0
"""Functions that take from packets, actions that emit, and parsers in parsers: the same on both engines."""

from __future__ import annotations

import random

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine

TEXT = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
header v_t { varbit<64> v; }
struct headers_t { h_t h; h_t g; h_t k; v_t v; }
struct metadata_t { }
bit<8> peek(packet_in p) { return p.lookahead<bit<8>>(); }
bool take(packet_in p, out h_t h) {
    p.extract(h);
    if (h.a == 9) { p.advance(8); return true; }
    return false;
}
void rest(packet_in p, out v_t v, in bit<32> n) { p.extract(v, n * 8); }
void both(packet_out p, in h_t x, in h_t y) {
    if (x.a == 1) { p.emit(x); return; }
    p.emit(y);
    p.emit(x);
}
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        bool nine = take(p, h.h);
        transition select(nine, peek(p)) {
            (true, _): more;
            (_, 0x55): more;
            (_, 0x77): varied;
            default: accept;
        }
    }
    state more { bool nine = take(p, h.g); transition accept; }
    state varied {
        bit<8> n = peek(p);
        p.advance(8);
        rest(p, h.v, (bit<32>) peek(p) & 15);
        transition accept;
    }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = 1; h.k = { h.h.a + 1, 7 }; }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out p, in headers_t h) {
    action one(in h_t x) { p.emit(x); }
    action two(bit<8> n) { h_t z; z.setValid(); z = { n, n }; p.emit(z); p.emit(h.h); }
    action none() { }
    table t {
        key = { h.h.b: exact; }
        actions = { one(h.h); two; @defaultonly none; }
        default_action = none();
        const entries = { 1: one(h.h); 2: two(0xee); }
    }
    apply { one(h.k); t.apply(); both(p, h.h, h.g); p.emit(h.v); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
LEAVES = {
    "05 00 aabb": "0607 0500 aabb",  # nothing of the table
    "05 01 aabb": "0607 0501 0501 aabb",  # one(h.h)
    "05 02 aabb": "0607 eeee 0502 0502 aabb",  # two(0xee)
    "01 00 aabb": "0207 0100 aabb",  # `both` returns early
    "05 00 5566 cc": "0607 5566 0500 cc",  # h.g as well
    "09 00 ff 5566 cc": "0a07 5566 0900 cc",  # a byte is stepped over
    "05 00 7702 02 03 04": "0607 0500 0202 03 04",  # two bytes of a varbit
}


@pytest.fixture(scope="module")
def engines() -> list[Engine | CompiledEngine]:
    made: list[Engine | CompiledEngine] = [Engine()]
    if JIT:
        made.append(CompiledEngine(optimised=False))
    for engine in made:
        engine.load(compile_text(TEXT).program)
    assert all(engine.kernel is not None for engine in made if isinstance(engine, CompiledEngine))
    return made


@pytest.mark.parametrize(("comes", "leaves"), LEAVES.items())
def test_a_packet_passes_through_functions_and_actions(
    engines: list[Engine | CompiledEngine], comes: str, leaves: str
) -> None:
    for engine in engines:
        found = engine.process(bytes.fromhex(comes), 0, now_ns=0)
        assert found.frame.hex() == leaves.replace(" ", ""), type(engine)


def test_what_a_function_that_fails_took_is_not_copied_out(
    engines: list[Engine | CompiledEngine],
) -> None:
    """The header of `take` is there, but the byte to step over is not: the parser ends at once."""
    for engine in engines:
        assert engine.process(b"\x09\x00", 0, now_ns=0).frame == bytes.fromhex("0107"), type(engine)


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
def test_any_packet_leaves_both_engines_alike(engines: list[Engine | CompiledEngine]) -> None:
    """Most end in a function, for they are short."""
    plain, fast = engines
    chance = random.Random(11)
    for number in range(600):
        some = chance.choice([b"\x09", b"\x01", b"\x05", b"\x77", b""]) + chance.choice(
            [b"\x00", b"\x01", b"\x02"]
        )
        frame = some + chance.choice([b"\x77", b"\x55", b""]) + chance.randbytes(chance.randrange(12))
        assert fast.process(frame, 1, now_ns=number) == plain.process(frame, 1, now_ns=number), frame.hex()


INSIDE = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t o; h_t i; h_t x; h_t[2] s; }
struct metadata_t { bit<8> n; }
parser One(packet_in p, out h_t h, inout bit<8> n) {
    state start {
        p.extract(h);
        n = n + 1;
        transition select(h.a) { 9: reject; 8: more; default: accept; }
    }
    state more { p.advance(16); transition accept; }
}
parser Two(packet_in p, out h_t a, out h_t b, inout metadata_t m)(bit<8> k) {
    One() one;
    state start { one.apply(p, a, m.n); transition select(a.b) { k: second; default: accept; } }
    state second { one.apply(p, b, m.n); transition accept; }
}
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    Two(1) two;
    One() own;
    state start {
        two.apply(p, h.o, h.i, m);
        own.apply(p, h.x, m.n);
        h_t t;
        own.apply(p, t, m.n);
        h.s[1] = t;
        own.apply(p, h.s[0], m.n);
        transition accept;
    }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = (bit<9>) m.n; }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.mark.parametrize(
    ("comes", "port", "leaves"),
    [
        ("0101 0202 0303 0404 0505 77", 5, "0101 0202 0303 0505 0404 77"),
        ("0102 0303", 2, "0102 0303"),  # the third one finds nothing
        ("0101 0909 0303", 2, "0101 0909 0303"),  # One rejects in Two: what it has taken is there
        ("0102 0303 0404 0909 55", 4, "0102 0303 0404 55"),  # an element of a stack is copied: it stays
    ],
)
def test_what_a_parser_that_rejects_has_taken_stays(comes: str, port: int, leaves: str) -> None:
    program = compile_text(INSIDE).program
    for engine in (Engine(), *([CompiledEngine(optimised=False)] if JIT else [])):
        engine.load(program)
        found = engine.process(bytes.fromhex(comes), 0)
        assert (found.port, found.frame.hex()) == (port, leaves.replace(" ", "")), type(engine)
