# SPDX-License-Identifier: Apache-2.0
"""Calls where few write them: in conditions of loops, keys of tables, arguments of their actions, and values
that are emitted. What they emit has room, and what they ask for happens, on both engines.
"""

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


class Bodies:
    """Statements at random whose every part may be a call with an effect, written for one block."""

    def __init__(self, seed: int, call: str, effects: tuple[str, ...]) -> None:
        self._chance, self._call, self._effects = random.Random(seed), call, effects
        self._names = 0
        self.parts: list[str] = []
        """What the block declares for them."""

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def value(self) -> str:
        """Return an expression of 8 bits."""
        return self._chance.choice(
            [
                f"{self._call}({self._chance.randrange(8)})",
                f"{self._call}(x)",
                f"({self._call}(1) > 2 && {self._call}(2) > 3 ? {self._call}(x) : x)",
                "x",
                "h.a.k",
            ]
        )

    def body(self, depth: int = 0) -> str:
        """Return statements."""
        count = self._chance.randrange(1, 3 - min(depth, 1))
        return " ".join(self._statement(depth) for _ in range(count))

    def _statement(self, depth: int) -> str:
        name, inner = self._name(), self.body(depth + 1) if depth < 2 else "x = x + 1;"
        kind = self._chance.randrange(7)
        if kind == 0:
            return f"if ({self.value()} > 3) {{ {inner} }}"
        if kind == 1:
            turns = f"bit<8> {name} = 0; {name} < ({self.value()} & 3); {name} = {name} + 1"
            return f"for ({turns}) {{ {inner} }}"
        if kind == 2:
            return f"switch ({self.value()}) {{ 3: {{ {inner} }} default: {{ x = x + 2; }} }}"
        if kind == 3:
            key = f'{self.value()}: exact @name("k");'
            self.parts.append(f"table {name} {{ key = {{ {key} }} actions = {{ NoAction; }} }}")
            return f"if ({name}.apply().hit) {{ {inner} }}"
        if kind == 4:
            run = f"{name}a({self.value()})"
            self.parts.append(f"action {name}a(in bit<8> y) {{ x = x + y; }}")
            self.parts.append(
                f"table {name} {{ key = {{ h.a.k: exact; }} actions = {{ {run}; }} default_action = {run}; }}"
            )
            return f"{name}.apply();"
        if kind == 5:
            return f"x = {self.value()} ^ {self.value()};"
        return self._chance.choice(self._effects).replace("VALUE", self.value())


FUNCTIONS = """
register<bit<8>>(8) seen;
bit<8> up(in bit<8> y) {
    bit<32> place = (bit<32>) (y & 7);
    bit<8> old;
    seen.read(old, place);
    seen.write(place, old + 1);
    return y + 1;
}
bit<8> round(in bit<8> y) { if (y > 1) { recirculate_preserving_field_list(0); } return up(y); }
bit<8> put(packet_out b, in headers_t h, in bit<8> y) { if (y[0:0] == 1) { b.emit(h.a); b.emit(h.a); }
    return y + 3; }
"""


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
@pytest.mark.parametrize("seed", range(24))
def test_calls_with_effects_at_random_are_the_same_on_both_engines(seed: int) -> None:
    ingress = Bodies(seed, "up", ("h.s[(bit<32>) (VALUE & 7)].z = VALUE;", "h.a.x[7:0] = VALUE;"))
    checksums = Bodies(seed + 100, "round", ("x = x + VALUE;",))
    deparser = Bodies(seed + 200, "PUT", ("b.emit(h.a);", "x = x + VALUE;"))
    bodies = [ingress.body(), checksums.body(), deparser.body()]
    text = TEXT.replace("FUNCTIONS", FUNCTIONS)
    text = text.replace("apply { m.rounds", "bit<8> x = 0; INGRESS_PARTS apply { x = h.a.k; m.rounds")
    ends = "if (m.rounds < 3) { " + bodies[1] + " }"  # else it would come for ever
    for name, part in {
        "INGRESS_PARTS": " ".join(ingress.parts),
        "INGRESS": f"h.s[0].setValid(); h.s[0].z = 7; h.s[1].setValid(); x = up(x); {bodies[0]}",
        "CHECKSUMS": f"bit<8> x = 1; {' '.join(checksums.parts)} apply {{ {ends} h.a.k = h.a.k + x; }}",
        "DEPARSER": f"bit<8> x = 1; {' '.join(deparser.parts)} apply {{ x = h.a.k; {bodies[2]} }}",
    }.items():
        text = text.replace(name, part)
    text = text.replace("PUT(", "put(b, h, ")
    plain, fast = Engine(), CompiledEngine(optimised=False)
    for engine in (plain, fast):
        engine.load(compile_text(text).program)
    assert fast.kernel is not None
    chance = random.Random(seed)
    for number in range(40):
        frame = bytes([chance.randrange(8)]) + chance.randbytes(8 + chance.randrange(12))
        assert fast.process(frame, 1, now_ns=number) == plain.process(frame, 1, now_ns=number), text
    held = [
        [engine.objects.register("seen").read(place, 0) for place in range(8)] for engine in (plain, fast)
    ]
    assert held[0] == held[1]
    assert any(held[0])
