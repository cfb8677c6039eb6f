# SPDX-License-Identifier: Apache-2.0
"""Frames that leave need no more room than those that came, where a program says so."""

from __future__ import annotations

import numpy as np
import pytest

from nicemu.hot import JIT
from nicemu.kernels import PACKET, TO_PORT, CompiledEngine
from nicemu.kernels.growth import may_grow
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, Program

TEXT = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<16> b; }
header v_t { bit<8> length; varbit<64> data; }
header_union u_t { h_t one; v_t other; }
struct inner_t { h_t x; }
struct headers_t { h_t h; h_t[3] s; v_t v; u_t u; inner_t inner; }
struct metadata_t { h_t kept; bit<8> n; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition select(h.h.a[1:0]) { 0: three; 1: varied; 2: twice; _: accept; }
    }
    state three { b.extract(h.s.next); b.extract(h.s.next); b.extract(h.inner.x); transition accept; }
    state varied { b.extract(h.v, (bit<32>) b.lookahead<bit<8>>()[2:0] * 8); transition accept; }
    state twice { b.extract(h.h); PARSER transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = 3; INGRESS }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { EGRESS } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { EMITS } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def program(ingress: str = "", parser: str = "", egress: str = "", deparser: str = "b.emit(h);") -> Program:
    text = TEXT.replace("INGRESS", ingress).replace("PARSER", parser)
    return compile_text(text.replace("EGRESS", egress).replace("EMITS", deparser)).program


KEEP = {
    "as it came": {},
    "fields": {"ingress": "h.h.a = 3; h.s[1].b = h.h.b; h.v.length = 0; m.n = h.inner.x.a;"},
    "invalid": {"ingress": "h.h.setInvalid(); h.s[0].setInvalid();", "egress": "h.v.setInvalid();"},
    "moved": {"ingress": "h.s.push_front(1); if (h.h.a > 9) { h.s.pop_front(2); }"},
    "indices": {"ingress": "h.s[h.h.a & 1].a = 1;"},
    "skipped": {"parser": "b.advance(8);"},
    "union": {"parser": "b.extract(h.u.one);", "ingress": "h.u.one.a = 9;"},
    "another order": {"deparser": "b.emit(h.s); b.emit(h.v); b.emit(h.inner); b.emit(h.h);"},
    "shorter": {"ingress": "truncate(4);", "deparser": "b.emit(h.s);"},
    "dropped": {"ingress": "if (h.h.a > 100) { mark_to_drop(s); }"},
    "loops": {"ingress": "for (bit<8> i in 8w0 .. 3) { h.h.a = h.h.a + i; }"},
}
GROW = {
    "set valid": {"ingress": "h.h.setValid();"},
    "a header": {"ingress": "h.s[0] = h.h;"},
    "a stack": {"egress": "h.s = h.s;"},
    "a struct": {"ingress": "h.inner = { { 1, 2 } };"},
    "all": {"ingress": "headers_t other = h; h = other;"},
    "from metadata": {"ingress": "h.h = m.kept;"},
    "looked ahead": {"parser": "h.inner.x = b.lookahead<h_t>();"},
    "varbit": {"ingress": "h.v.data = h.u.other.data;"},
    "emitted twice": {"deparser": "b.emit(h.h); b.emit(h.h);"},
    "emitted with what is in it": {"deparser": "b.emit(h); b.emit(h.s);"},
    "emitted if": {"deparser": "if (h.h.isValid()) { b.emit(h.h); }"},
}


@pytest.mark.parametrize("parts", KEEP.values(), ids=KEEP)
def test_a_frame_that_cannot_become_longer_needs_no_room(parts: dict[str, str]) -> None:
    assert not may_grow(program(**parts))


@pytest.mark.parametrize("parts", GROW.values(), ids=GROW)
def test_a_frame_that_may_become_longer_needs_room(parts: dict[str, str]) -> None:
    assert may_grow(program(**parts))


@pytest.mark.skipif(not JIT, reason="NICEMU_JIT is 0")
@pytest.mark.parametrize("parts", KEEP.values(), ids=KEEP)
def test_a_kernel_writes_to_no_byte_that_is_not_the_frames(parts: dict[str, str]) -> None:
    loaded = program(**parts)
    fast, slow = CompiledEngine(optimised=False), Engine()
    fast.load(loaded)
    slow.load(loaded)
    assert fast.kernel is not None
    assert fast.kernel.headroom_bytes == 0
    chance = np.random.default_rng(5)
    frames = [chance.integers(0, 256, int(length), np.uint8) for length in chance.integers(0, 40, 120)]
    lengths = np.array([len(frame) for frame in frames], np.uint64)
    starts = np.cumsum(lengths) - lengths  # one right behind the other, so that each guards two
    memory = np.concatenate([*frames, np.zeros(64, np.uint8)])
    packets = np.zeros(len(frames), PACKET)
    packets["address"] = starts + np.uint64(memory.ctypes.data)
    packets["length"], packets["port"] = lengths, 1
    for number, frame in enumerate(frames):
        before = memory.copy()
        fast.kernel.run(packets[number : number + 1])
        own = slice(int(starts[number]), int(starts[number]) + len(frame))
        changed = np.flatnonzero(memory != before)
        assert all(own.start <= place < own.stop for place in changed.tolist())
        verdict, packet = slow.process(frame.tobytes(), 1), packets[number]
        if packet["verdict"] == TO_PORT:
            first = own.start + int(packet["out_offset"])
            assert memory[first : first + int(packet["out_length"])].tobytes() == verdict.frame
            assert own.start <= first <= first + int(packet["out_length"]) <= own.stop
        else:
            assert verdict.drop_reason
