# SPDX-License-Identifier: Apache-2.0
"""`SmartNic` with a control for what the host sends: interpreted and compiled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import (
    HOST_PORT,
    CounterAdd,
    Disposition,
    Engine,
    Exact,
    Program,
    TableEntry,
    program_of_json,
)

SOURCE = """
#include <core.p4>
#include <nicemu.p4>
header byte_t {{ bit<8> kind; bit<16> port; }}
struct headers_t {{ byte_t h; }}
struct metadata_t {{ }}
parser P(packet_in b, out headers_t h, inout metadata_t m, inout nic_metadata_t nic) {{
    state start {{ b.extract(h.h); transition accept; }}
}}
control In(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) {{
    TriggerCounter() seen;
    action mark() {{ h.h.kind = 0xaa; }}
    table t {{ key = {{ h.h.kind: exact; }} actions = {{ mark; NoAction; }} }}
    apply {{ t.apply(); seen.add(1, 1); h.h.port = nic.ingress_port; }}
}}
control Out(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) {{
    TriggerCounter() sent;
    action stop() {{ drop_packet(); }}
    action keep() {{ send_to_host(); }}
    table t {{ key = {{ h.h.kind: exact; }} actions = {{ stop; keep; NoAction; }} }}
    apply {{
        sent.add(2, 1);
        h.h.port = nic.ingress_port;
        t.apply();
        if (h.h.kind == 9) {{ exit; }}
        h.h.kind = 7;
    }}
}}
control D(packet_out b, in headers_t h, in metadata_t m, in nic_metadata_t nic) {{ apply {{ b.emit(h); }} }}
SmartNic({blocks}) main;
"""
BOTH = "P(), In(), D(), Out()"


def program(blocks: str = BOTH) -> Program:
    return program_of_json(compile_text(SOURCE.format(blocks=blocks)).program.to_json())


def compiled() -> Engine:
    return CompiledEngine(optimised=False)


COMPILED = pytest.param(compiled, marks=pytest.mark.skipif(not JIT, reason="kernels need the compiler"))


@pytest.fixture(params=[pytest.param(Engine, id="interpreted"), COMPILED])
def engine(request: pytest.FixtureRequest) -> Engine:
    make: Callable[[], Engine] = request.param
    made = make()
    made.load(program())
    assert getattr(made, "interpreted_because", "") == ""
    made.insert("In.t", TableEntry((Exact(1),), "mark", ()))
    made.insert("Out.t", TableEntry((Exact(2),), "stop", ()))
    made.insert("Out.t", TableEntry((Exact(3),), "keep", ()))
    return made


def test_what_comes_from_the_network_goes_to_the_host(engine: Engine) -> None:
    verdict = engine.process(b"\x01\0\0rest", 0)
    assert (verdict.disposition, verdict.frame) == (Disposition.HOST, b"\xaa\0\0rest")
    assert verdict.effects == (CounterAdd(1, 1),)


def test_what_the_host_sends_goes_to_the_network(engine: Engine) -> None:
    verdict = engine.process(b"\x01\0\0rest", HOST_PORT)
    assert (verdict.disposition, verdict.port, verdict.frame) == (Disposition.PORT, 0, b"\x07\x01\xferest")
    assert verdict.effects == (CounterAdd(2, 1),)


def test_the_control_of_what_the_host_sends_decides(engine: Engine) -> None:
    assert engine.process(b"\x02\0\0", HOST_PORT).drop_reason == "pipeline.dropped"
    kept = engine.process(b"\x03\0\0", HOST_PORT)
    assert (kept.disposition, kept.frame) == (Disposition.HOST, b"\x07\x01\xfe")
    assert engine.process(b"\x09\0\0", HOST_PORT).frame == b"\x09\x01\xfe"
    assert engine.process(b"\x09", HOST_PORT).drop_reason == "parser.too_short"
    assert engine.takes_host_frames


def test_without_one_they_pass_no_program_and_a_controllers_go_to_the_host() -> None:
    engine = Engine()
    engine.load(program("P(), In(), D()"))
    assert not engine.takes_host_frames
    verdict = engine.process(b"\x01\0\0", HOST_PORT)
    assert (verdict.disposition, verdict.frame) == (Disposition.HOST, b"\x01\x01\xfe")


def test_a_control_that_is_left_out_can_be_by_name() -> None:
    by_name = "deparse = D(), parse = P(), process = In()"
    assert [item.role for item in program(by_name).controls] == ["control", "deparser"]
    assert [item.role for item in program(f"{by_name}, host_to_net = Out()").controls][2] == "host_to_net"


@pytest.mark.parametrize("blocks", ["P(), In()", f"{BOTH}, Out()", "parse = P(), deparse = D()"])
def test_others_cannot_be_left_out(blocks: str) -> None:
    with pytest.raises(CompileError, match="SmartNic"):
        program(blocks)
