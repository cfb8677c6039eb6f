# SPDX-License-Identifier: Apache-2.0
"""Frames that leave where they came, of which a kernel writes the bytes alone that a program changes."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.kernels.growth import may_grow
from nicemu.kernels.staying import stays_in_place
from nicemu.p4 import compile_text
from nicemu.pipeline import MAX_EMITTED_BYTES, Engine, Program

TEXT = """
#include <core.p4>
#include <v1model.p4>
header a_t { bit<8> kind; bit<4> x; bit<4> y; bit<16> z; }
struct pair_t { bit<4> left; bit<12> right; }
header p_t { bit<8> first; pair_t pair; }
header b_t { bit<16> kind; int<8> n; bit<40> wide; bit<8> last; }
header v_t { bit<8> length; bit<8> before; varbit<64> data; }
header_union u_t { a_t a; b_t b; }
struct inner_t { b_t b; a_t behind; }
struct headers_t { a_t a; inner_t inner; v_t v; a_t[2] s; u_t u; b_t tail; p_t p; }
struct metadata_t { bit<8> n; a_t apart; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.a);
        transition select(h.a.kind[1:0]) { 0: two; 1: varied; 2: END; _: accept; }
    }
    state two {
        b.extract(h.inner.b);
        verify(h.inner.b.kind[2:0] != 7, error.NoMatch);
        transition select(h.inner.b.kind[0:0]) { 0: varied; _: END; }
    }
    state varied { b.extract(h.v, (bit<32>) b.lookahead<bit<8>>()[2:0] * 8); transition END; }
    state more { PARSER transition accept; }
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


def program(
    ingress: str = "", parser: str = "", egress: str = "", deparser: str = "b.emit(h);", end: str = "accept"
) -> Program:
    text = TEXT.replace("INGRESS", ingress).replace("PARSER", parser).replace("END", end)
    return compile_text(text.replace("EGRESS", egress).replace("EMITS", deparser)).program


STAYS = {
    "as it came": {},
    "fields": {
        "ingress": "h.a.y = 3; h.inner.b.n = -1; h.v.before = h.a.kind;",
        "egress": "h.a.z = h.a.z + 1;",
    },
    "parts of fields": {"ingress": "h.a.z[11:6] = 6w9; h.inner.b.wide[20:20] = 1; h.a.x = h.a.y;"},
    "fields of invalid headers": {
        "ingress": "h.tail.last = 3; h.u.a.x = 1; h.s[1].z = 2; h.inner.behind.z = 9;"
    },
    "behind the others": {"parser": "b.extract(h.tail);", "end": "more", "ingress": "h.tail.last = 7;"},
    "in parts": {"deparser": "b.emit(h.a); b.emit(h.inner); b.emit(h.v);"},
    "structs in headers": {
        "parser": "b.extract(h.p);",
        "end": "more",
        "ingress": "h.p.pair = { 3, 4 }; if (h.a.kind > 99) { h.p.pair.left = 1; }",
    },
    "cut off": {"ingress": "truncate(5); h.a.z = 1;"},
    "dropped": {"ingress": "if (h.a.kind > 100) { mark_to_drop(s); } h.a.x = 0;"},
    "as out arguments": {"ingress": "h.a.x = 2; random(h.a.z, 0, 3); m.n = h.v.length;"},
}
MOVES = {
    "set invalid": {"ingress": "h.a.setInvalid();"},
    "set valid": {"ingress": "h.tail.setValid();"},
    "a header": {"ingress": "h.inner.behind = h.a;"},
    "stepped over": {"parser": "b.advance(8);", "end": "more"},
    "taken twice": {"parser": "b.extract(h.a);", "end": "more"},
    "taken in another order": {"parser": "b.extract(h.inner.behind); b.extract(h.inner.b);", "end": "more"},
    "taken and not emitted": {"parser": "b.extract(m.apart);", "end": "more"},
    "emitted in another order": {"deparser": "b.emit(h.inner); b.emit(h.a); b.emit(h.v);"},
    "emitted but for one": {"deparser": "b.emit(h.a); b.emit(h.v);"},
    "emitted if": {"deparser": "if (h.a.isValid()) { b.emit(h.a); }"},
    "of a stack": {"parser": "b.extract(h.s.next); b.extract(h.s.next);", "end": "more"},
    "of a union": {"parser": "b.extract(h.u.a);", "end": "more"},
    "taken if": {"parser": "if (h.a.x == 1) { b.extract(h.tail); }", "end": "more"},
    "in a circle": {"parser": "b.extract(h.tail);", "end": "two"},
    "a struct": {"egress": "h.inner = { { 1, 2, 3, 4 }, { 1, 2, 3, 4 } };"},
}


@pytest.mark.parametrize("parts", STAYS.values(), ids=STAYS)
def test_a_frame_whose_headers_stay_in_their_order_stays(parts: dict[str, str]) -> None:
    assert stays_in_place(program(**parts), MAX_EMITTED_BYTES)


@pytest.mark.parametrize("parts", MOVES.values(), ids=MOVES)
def test_any_other_frame_may_move(parts: dict[str, str]) -> None:
    assert not stays_in_place(program(**parts), 0)


def test_a_frame_of_which_more_may_be_emitted_than_is_allowed_may_be_dropped() -> None:
    assert not stays_in_place(program(), MAX_EMITTED_BYTES + 1)


NIC = """
#include <core.p4>
#include <nicemu.p4>
header h_t { bit<8> a; bit<16> b; }
struct headers_t { h_t h; }
struct metadata_t { }
parser P(packet_in packet, out headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    state start { packet.extract(h.h); transition accept; }
}
control C(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) { apply { h.h.b = h.h.b + 1; } }
control D(packet_out p, in headers_t h, in metadata_t m, in nic_metadata_t nic) { apply { EMITS } }
control H(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) { apply { } }
SmartNic(P(), C(), D(), H()) main;
"""


@pytest.mark.parametrize(("emits", "stays"), [("p.emit(h);", True), ("p.emit(h.h); p.emit(h);", False)])
def test_what_counts_is_the_deparser_and_not_the_control_behind_it(emits: str, stays: bool) -> None:
    loaded = compile_text(NIC.replace("EMITS", emits)).program
    assert stays_in_place(loaded, 6) is stays
    assert may_grow(loaded) is not stays


@pytest.mark.skipif(not JIT, reason="NICEMU_JIT is 0")
@pytest.mark.parametrize("parts", [*STAYS.values(), *MOVES.values()], ids=[*STAYS, *MOVES])
def test_what_a_kernel_writes_back_is_what_the_interpreter_emits(parts: dict[str, str]) -> None:
    loaded = program(**parts)
    fast, slow = CompiledEngine(seed=3, optimised=False), Engine(seed=3)
    fast.load(loaded)
    slow.load(loaded)
    assert fast.kernel is not None, fast.interpreted_because
    chance = np.random.default_rng(6)
    for length in chance.integers(0, 40, 200).tolist():
        frame = bytearray(chance.integers(0, 256, length, np.uint8).tobytes())
        with suppress(IndexError):
            frame[0] = frame[0] % 4 * 33
        verdict, expected = (engine.process(bytes(frame), 1) for engine in (fast, slow))
        assert (verdict.drop_reason, verdict.frame) == (expected.drop_reason, expected.frame)
