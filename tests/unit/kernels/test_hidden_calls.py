# SPDX-License-Identifier: Apache-2.0
"""Calls where few write them: in conditions of loops, keys of tables, arguments of their actions, and values
that are emitted. What they emit has room, and what they ask for happens, on both engines.
"""

from __future__ import annotations

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine

TEXT = """
#include <core.p4>
#include <v1model.p4>
header a_t { bit<8> k; bit<64> x; }
header b_t { bit<8> z; }
struct headers_t { a_t a; b_t[6] s; }
struct metadata_t { @field_list(0) bit<8> rounds; }
FUNCTIONS
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(h.a); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { m.rounds = m.rounds + 1; s.egress_spec = 2; INGRESS }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { CHECKSUMS }
control D(packet_out b, in headers_t h) { DEPARSER }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
TWICE = "bit<8> put(packet_out b, in headers_t h) { b.emit(h.a); b.emit(h.a); return h.a.k; }"
DEPARSERS = {
    "condition of a loop": (
        "bool put(packet_out b, in headers_t h, in bit<8> i) { b.emit(h.a); return i < h.a.k; }",
        "apply { for (bit<8> i = 0; put(b, h, i); i = i + 1) { } }",
        21,
    ),
    "key": (
        TWICE,
        'table t { key = { put(b, h): exact @name("k"); } actions = { NoAction; } } apply { t.apply(); }',
        2,
    ),
    "argument of an action": (
        TWICE,
        "bit<8> n; action go(in bit<8> z) { n = z; }"
        "table t { key = { h.a.k: exact; } actions = { go(put(b, h)); } default_action = go(put(b, h)); }"
        "apply { t.apply(); }",
        2,
    ),
    "emitted value": (
        "a_t made(packet_out b, in headers_t h) { b.emit(h.a); return h.a; }",
        "apply { b.emit(made(b, h)); }",
        2,
    ),
}
REQUEST = """
bit<8> again(in bit<8> rounds) {
    if (rounds < 3) { recirculate_preserving_field_list(0); }
    return rounds;
}
"""
CHECKSUMS = {
    "key": 'table t { key = { again(m.rounds): exact @name("k"); } actions = { NoAction; } }'
    " apply { t.apply(); }",
    "table with the name of an action": "action mark() { h.a.x = 3; }"
    " action go() { m.rounds = again(m.rounds); }"
    ' @name("mark") table t { key = { h.a.k: exact; } actions = { go; } default_action = go; }'
    " apply { t.apply(); mark(); }",
    "argument of an action": "action go(in bit<8> z) { } table t { key = { h.a.k: exact; }"
    " actions = { go(again(m.rounds)); } default_action = go(again(m.rounds)); } apply { t.apply(); }",
}
HEADER = "14 0001020304050607"


def engines_with(**parts: str) -> list[Engine | CompiledEngine]:
    text = TEXT
    for name in ("FUNCTIONS", "INGRESS", "CHECKSUMS", "DEPARSER"):
        text = text.replace(name, parts.get(name, "apply { b.emit(h.a); }" if name == "DEPARSER" else ""))
    made: list[Engine | CompiledEngine] = [Engine()]
    if JIT:
        made.append(CompiledEngine(optimised=False))
    for engine in made:
        engine.load(compile_text(text).program)
    assert all(engine.kernel is not None for engine in made if isinstance(engine, CompiledEngine))
    return made


@pytest.mark.parametrize("where", DEPARSERS)
def test_what_a_call_emits_has_room(where: str) -> None:
    functions, deparser, times = DEPARSERS[where]
    for engine in engines_with(FUNCTIONS=functions, CHECKSUMS="apply { }", DEPARSER=deparser):
        verdict = engine.process(bytes.fromhex(HEADER) + b"rest", 1)
        assert verdict.frame == bytes.fromhex(HEADER) * times + b"rest"


@pytest.mark.parametrize("where", CHECKSUMS)
def test_a_packet_comes_again_that_a_call_sends_round(where: str) -> None:
    ingress = "if (m.rounds == 3) { h.a.k = 3; }"
    for engine in engines_with(FUNCTIONS=REQUEST, INGRESS=ingress, CHECKSUMS=CHECKSUMS[where]):
        verdict = engine.process(bytes.fromhex(HEADER) + b"rest", 1)
        assert (verdict.port, verdict.frame[:1]) == (2, b"\3")


@pytest.mark.parametrize("width", [2, 3, 4, 8])
def test_a_negative_index_is_outside_of_a_stack(width: int) -> None:
    """Source: P4-16 Language Specification 1.2.5, "Operations on header stacks"."""
    valid = "".join(f"h.s[{place}].setValid(); h.s[{place}].z = {place} + 40;" for place in range(6))
    ingress = f"{valid} int<{width}> i = (int<{width}>) h.a.k[{width - 1}:0];"
    ingress += "h.a.x[7:0] = h.s[i].z; h.s[i].z = 99;"
    deparser = "apply { b.emit(h.a); b.emit(h.s); }"
    for engine in engines_with(INGRESS=ingress, CHECKSUMS="apply { }", DEPARSER=deparser):
        for number in range(1 << width):
            index = number - (number >> width - 1 << width)
            elements = [40, 41, 42, 43, 44, 45]
            seen = elements[index] if 0 <= index < 6 else 0
            if 0 <= index < 6:
                elements[index] = 99
            leaves = bytes([number, 0, 0, 0, 0, 0, 0, 0, seen, *elements])
            assert engine.process(bytes([number, *[0] * 8]), 1).frame == leaves
