# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled code, which processes share."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine, compiled, parts
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


def test_a_file_that_two_make_at_once_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, replace = tmp_path / "made" / "part.ll", os.replace

    def while_another_one_writes(partial: str, target: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        parts.keep(target, b"short")
        replace(partial, target)

    monkeypatch.setattr(os, "replace", while_another_one_writes)
    parts.keep(path, b"a longer text")
    assert parts.kept(path) == b"a longer text"
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    parts.keep(tmp_path / "part.ll", b"text")
    assert list(tmp_path.iterdir()) == []


def test_what_was_damaged_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "part.ll"
    parts.keep(path, b"text")
    whole = path.read_bytes()
    for damaged in (b"", b"text", whole[:-1], whole + b"!", bytes([whole[0] ^ 1]) + whole[1:]):
        path.write_bytes(damaged)
        assert parts.kept(path) is None
    path.write_bytes(whole)
    assert parts.kept(path) == b"text"


@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
def test_machine_code_that_was_damaged_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)
    program = compile_text(PROGRAM).program
    for _ in range(2):
        engine = CompiledEngine(optimised=False)
        engine.load(program)
        assert engine.process(b"\x01", ingress_port=0).frame == b"\x02"
        (path,) = tmp_path.glob("kernels/*.o")
        path.write_bytes(path.read_bytes()[:200])
