# SPDX-License-Identifier: Apache-2.0
"""Varbits in kernels: extracted, kept, compared, summed and emitted with the bits that they have."""

from __future__ import annotations

import random

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine

from .v1_programs import both, same_state

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

OPEN = "varbit<320>"


def agree(engines: tuple[Engine, CompiledEngine], packets: int = 120) -> set[str]:
    """Send packets whose varbits have all lengths; return what became of them."""
    chance, seen = random.Random(3), set()
    for number in range(packets):
        frame = bytes((0, chance.randrange(60))) + chance.randbytes(chance.choice((10, 11, 30, 51, 52, 90)))
        expected, found = (engine.process(frame, 0) for engine in engines)
        assert found == expected, f"packet {number}: {frame.hex()}"
        seen.add(f"{found.drop_reason}{found.frame == frame}")
    same_state(engines)
    return seen


@pytest.mark.parametrize("header", ["bit<8> a; varbit<320> v;", "varbit<320> v; bit<8> b;", "varbit<320> v;"])
def test_a_varbit_leaves_as_it_came(header: str) -> None:
    engines = both(
        types=f"header open_t {{ {header} }}",
        headers="open_t o;",
        parser="b.extract(h.o, (bit<32>) h.h.value << 3);",
        ingress="if (s.parser_error != error.NoError) { s.egress_spec = 511; } else { h.h.long = 0; }",
        egress="h.h.sum = (bit<16>) s.packet_length;",
    )
    assert agree(engines) == {"pipeline.droppedTrue", "False"}


def test_fields_around_a_varbit_may_begin_within_bytes() -> None:
    engines = both(
        types="header open_t { bit<3> a; varbit<69> v; int<9> b; bit<4> c; }",
        headers="open_t o; open_t p;",
        parser="b.extract(h.o, (bit<32>) h.h.value);",
        ingress="""h.h.long = (bit<64>) (bit<9>) h.o.b; h.o.a = h.o.a + 1; h.o.c = h.o.c ^ 5;
                   if (h.h.value > 20) { h.p = h.o; h.p.b = -3; }
                   if (h.o == h.p) { h.h.sum = 1; }
                   if (h.o.v == h.p.v) { h.h.kind = 2; h.p.setValid(); h.p.v = h.o.v; }""",
    )
    agree(engines, 200)


def test_sums_and_digests_take_the_bits_that_a_varbit_has() -> None:
    engines = both(
        types="header open_t { bit<4> a; varbit<332> v; bit<4> b; }",
        headers="open_t o; either_t either;",
        parser="b.extract(h.o, (bit<32>) h.h.value << 3);",
        ingress="""digest(1, { h.h.value, h.o.v, m.x });
                   if (h.h.value[0:0] == 1) { h.either.more.setValid(); h.either.more.a = 0x123456; }
                   hash(m.x, HashAlgorithm.crc32, 8w0, { h.o.v, 3w5, h.either, h.o.b, h.either }, 8w255);
                   h.h.kind = m.x;""",
        compute="""update_checksum(true, { h.h.kind, h.o.a, h.o.v, h.o.b }, h.h.sum, HashAlgorithm.csum16);
                   update_checksum_with_payload(true, { h.o.v }, h.h.long, HashAlgorithm.crc32);""",
    )
    agree(engines)


def test_a_varbit_that_is_too_wide_for_a_kernel_is_interpreted() -> None:
    source = """
    #include <core.p4>
    #include <nicemu.p4>
    header open_t { varbit<8192> v; }
    struct headers_t { open_t o; }
    struct m_t { }
    parser P(packet_in packet, out headers_t h, inout m_t m, inout nic_metadata_t nic) {
        state start { packet.extract(h.o, packet.length() << 3); transition accept; }
    }
    control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) { apply { } }
    control D(packet_out b, in headers_t h, in m_t m, in nic_metadata_t nic) { apply { b.emit(h); } }
    SmartNic(P(), C(), D()) main;
    """
    engine = CompiledEngine(optimised=False)
    engine.load(compile_text(source).program)
    assert engine.interpreted_because == "a varbit has more than 4096 bits"
    assert engine.process(b"frame", 0).frame == b"frame"
