# SPDX-License-Identifier: Apache-2.0
"""Kernels out of the cache."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine, compiled
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine

PROGRAM = """
#include <core.p4>
#include <nicemu.p4>
header h_t { bit<8> a; }
struct headers_t { h_t h; }
struct m_t { }
parser P(packet_in packet, out headers_t h, inout m_t m, inout nic_metadata_t nic) {
    state start { packet.extract(h.h); transition accept; }
}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) { apply { h.h.a = h.h.a + 1; } }
control D(packet_out packet, in headers_t h, in m_t m, in nic_metadata_t nic) { apply { packet.emit(h); } }
SmartNic(P(), C(), D()) main;
"""


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
def test_machine_code_that_was_damaged_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "own_cache_folder", lambda: tmp_path)
    program = compile_text(PROGRAM).program
    for _ in range(2):
        engine = CompiledEngine(optimised=False)
        engine.load(program)
        assert engine.process(b"\x01", ingress_port=0).frame == b"\x02"
        (path,) = tmp_path.glob("kernels/*.o")
        path.write_bytes(path.read_bytes()[:200])


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
def test_much_code_is_made_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "own_cache_folder", lambda: tmp_path)
    monkeypatch.setattr(compiled, "APART_FROM", 0)
    monkeypatch.setattr(compiled, "object_of", None)
    engine = CompiledEngine(optimised=False)
    engine.load(compile_text(PROGRAM).program)
    assert engine.interpreted_because == ""
    assert engine.process(b"\x01", ingress_port=0).frame == b"\x02"


def ending(monkeypatch: pytest.MonkeyPatch, status: int) -> list[int]:
    """Have each process that compiles end with a status; return the list of those that did."""
    ended: list[int] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        ended.append(status)
        return subprocess.CompletedProcess(command, status, b"half of a file")

    monkeypatch.setattr(compiled, "APART_FROM", 0)
    monkeypatch.setattr(subprocess, "run", run)
    return ended


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
@pytest.mark.parametrize(
    ("status", "because", "tries"),
    [
        (-signal.SIGABRT, "LLVM cannot make machine code of it", 1),
        (-signal.SIGKILL, "the process that compiles it has ended with status -9", 2),
        (1, "the process that compiles it has ended with status 1", 2),
    ],
)
def test_a_program_is_interpreted_where_that_process_ends_and_tried_again_unless_llvm_ended_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, because: str, tries: int
) -> None:
    monkeypatch.setattr(compiled, "own_cache_folder", lambda: tmp_path)
    ended = ending(monkeypatch, status)
    for _ in range(2):
        engine = CompiledEngine(optimised=False)
        engine.load(compile_text(PROGRAM).program)
        assert engine.interpreted_because == because
        assert engine.process(b"\x01", ingress_port=0).frame == b"\x02"
    assert ended == [status] * tries


SELECT = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<16> b; bit<8> c; }
struct headers_t { h_t h; }
struct m_t { bit<8> n; }
parser P(packet_in b, out headers_t h, inout m_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition select(h.h.a, h.h.b) { CASES } }
    state one { m.n = 1; transition accept; }
    state two { m.n = 2; transition accept; }
    state three { m.n = 3; transition accept; }
}
control V(inout headers_t h, inout m_t m) { apply { } }
control I(inout headers_t h, inout m_t m, inout standard_metadata_t s) { apply { h.h.c = m.n; } }
control E(inout headers_t h, inout m_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
@pytest.mark.parametrize(
    "cases",
    [
        "(1, 2): one; (1, 2): two; (2, 1): two; _: three;",
        "(1, 2): one; (1, _): two; (1, 3): three; (2, 1): one; _: accept;",
        "(0 &&& 0, 2): one; (3, 1 .. 2): two; (3, 2): three; (3, 3): one;",
        "(0x1ff &&& 0xff, 2): one; (1, 3): two; _: reject;",
    ],
)
def test_the_first_case_that_fits_is_taken(cases: str) -> None:
    program = compile_text(SELECT.replace("CASES", cases)).program
    fast, slow = CompiledEngine(optimised=False), Engine()
    fast.load(program)
    slow.load(program)
    assert fast.interpreted_because == ""
    for a in (0, 1, 2, 3, 255):
        for b in range(5):
            frame = bytes([a, 0, b, 9])
            assert fast.process(frame, 0).frame == slow.process(frame, 0).frame
