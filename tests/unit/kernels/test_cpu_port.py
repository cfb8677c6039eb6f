# SPDX-License-Identifier: Apache-2.0
"""A program may call the port of host and controller by another number than 510, as simple_switch_grpc's
`--cpu-port` has it.
"""

from __future__ import annotations

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Disposition, Engine, PacketIn, Replica, Report

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
@controller_header("packet_in") header in_t {{ bit<16> port; }}
@controller_header("packet_out") header out_t {{ bit<16> port; }}
header pair_t {{ bit<8> to; bit<8> b; }}
struct headers_t {{ in_t towards; out_t back; pair_t h; }}
struct metadata_t {{ }}
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    state start {{ transition select(s.ingress_port) {{ 255: from_controller; default: pair; }} }}
    state from_controller {{ b.extract(h.back); transition pair; }}
    state pair {{ b.extract(h.h); transition accept; }}
}}
control Sums(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    apply {{
        if (h.back.isValid()) {{ s.egress_spec = (bit<9>) h.back.port; h.back.setInvalid(); }}
        else {{ s.egress_spec = (bit<9>) h.h.to; {more} }}
    }}
}}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    apply {{ if (s.egress_port == 255) {{ h.towards = {{ (bit<16>) s.ingress_port }}; }} }}
}}
control D(packet_out b, in headers_t h) {{ apply {{ b.emit(h); }} }}
V1Switch(P(), Sums(), I(), E(), Sums(), D()) main;
"""


def engine_of(kind: str, more: str = "") -> Engine:
    """Return an engine that runs the program, whose CPU port is 255."""
    if kind == "kernel" and not JIT:
        pytest.skip("kernels need the compiler, which NICEMU_JIT=0 turns off")
    engine = CompiledEngine(optimised=False, cpu_port=255) if kind == "kernel" else Engine(cpu_port=255)
    engine.load(compile_text(PROGRAM.format(more=more)).program)
    assert not getattr(engine, "interpreted_because", "")
    return engine


def reports_of(engine: Engine) -> list[Report]:
    """Return where what goes to the controller is put."""
    found: list[Report] = []

    def take(report: Report) -> bool:
        found.append(report)
        return True

    engine.listen(take)
    return found


@pytest.mark.parametrize("kind", ["interpreter", "kernel"])
def test_what_leaves_by_the_cpu_port_goes_to_the_host(kind: str) -> None:
    engine = engine_of(kind, more="if (h.h.b == 1) { s.mcast_grp = 1; }")
    engine.objects.multicast_groups[1] = (Replica(7, 0), Replica(255, 0))
    verdicts = [engine.process(bytes(frame), 3) for frame in ((255, 0), (254, 0), (0, 1))]
    assert [(item.disposition, item.port) for item in verdicts] == [
        (Disposition.CONTROLLER, 510),
        (Disposition.PORT, 254),
        (Disposition.PORT, 7),
    ]
    reports = reports_of(engine)
    for frame in ((255, 0), (254, 0), (0, 1)):
        engine.process(bytes(frame), 3)
    assert reports == [PacketIn(b"\0\3\xff\0"), PacketIn(b"\0\3\0\1")]


@pytest.mark.parametrize("kind", ["interpreter", "kernel"])
def test_what_the_controller_sends_comes_in_by_the_cpu_port(kind: str) -> None:
    engine = engine_of(kind)
    reports = reports_of(engine)
    engine.inject(b"\0\xff\x09\x01")
    assert reports == [PacketIn(b"\0\xff\x09\x01")]


@pytest.mark.parametrize("kind", ["interpreter", "kernel"])
def test_an_engine_that_is_staged_has_the_same_cpu_port(kind: str) -> None:
    engine = engine_of(kind)
    assert engine.program is not None
    engine.adopt(engine.staged(engine.program))
    assert engine.process(b"\xff\0", 0).disposition is Disposition.CONTROLLER
