# SPDX-License-Identifier: Apache-2.0
"""What a new program takes over is what its packets meet, interpreted or compiled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nicemu.control.pipeline_state import take_over
from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, MeterConfig

SOURCE = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> seen; bit<8> colour; }
struct headers_t { h_t h; }
struct m_t { bit<8> colour; }
parser P(packet_in b, out headers_t h, inout m_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout m_t m) { apply { } }
control I(inout headers_t h, inout m_t m, inout standard_metadata_t s) {
    register<bit<8>>(16) seen;
    counter(16, CounterType.packets) counted;
    meter(16, MeterType.packets) rates;
    apply {
        seen.read(h.h.seen, 1);
        seen.write(1, h.h.seen + 1);
        counted.count(1);
        rates.execute_meter((bit<32>) 1, h.h.colour);
        s.egress_spec = 1;
    }
}
control E(inout headers_t h, inout m_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout m_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
PROGRAM = compile_text(SOURCE).program
RED = 2
ENGINES = [Engine, pytest.param(CompiledEngine, marks=pytest.mark.skipif(not JIT, reason="NICEMU_JIT is 0"))]


@pytest.mark.parametrize("kind", ENGINES)
def test_packets_go_on_with_registers_counters_and_meters_that_were_kept(kind: Callable[[], Engine]) -> None:
    engine = kind()
    engine.load(PROGRAM)
    engine.objects.meter("rates").configure(1, MeterConfig(1, 1, 1, 1), 0)
    assert [engine.process(bytes(2), 1).frame[0] for _ in range(3)] == [0, 1, 2]
    staged = engine.staged(PROGRAM)
    take_over(engine, staged)
    engine.adopt(staged)
    assert [tuple(engine.process(bytes(2), 1).frame) for _ in range(2)] == [(3, RED), (4, RED)]
    assert engine.objects.counter("counted").counts[1].packets == 5
    engine.objects.register("seen").write(1, 99)
    assert engine.process(bytes(2), 1).frame[0] == 99


@pytest.mark.parametrize("kind", ENGINES)
def test_what_all_places_were_given_is_kept_too(kind: Callable[[], Engine]) -> None:
    engine = kind()
    engine.load(PROGRAM)
    engine.objects.register("seen").fill(7)
    staged = engine.staged(PROGRAM)
    take_over(engine, staged)
    engine.adopt(staged)
    assert engine.process(bytes(2), 1).frame[0] == 7
    assert engine.objects.register("seen").read(2, 0) == 7


@pytest.mark.skipif(not JIT, reason="NICEMU_JIT is 0")
def test_a_kernel_goes_on_with_what_was_interpreted() -> None:
    engine, compiled = Engine(), CompiledEngine()
    engine.load(PROGRAM)
    engine.objects.meter("rates").configure(1, MeterConfig(1, 1, 1, 1), 0)
    for _ in range(3):
        engine.process(bytes(2), 1)
    compiled.adopt(engine)
    assert compiled.kernel is not None
    assert tuple(compiled.process(bytes(2), 1).frame) == (3, RED)
    assert compiled.objects.counter("counted").counts[1].packets == 4
