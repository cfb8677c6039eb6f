# SPDX-License-Identifier: Apache-2.0
"""Kernels out of the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine, compiled
from nicemu.p4 import compile_text

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
