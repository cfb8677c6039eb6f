# SPDX-License-Identifier: Apache-2.0
"""Value sets in kernels: what the control plane puts into them decides from the next packet on."""

from __future__ import annotations

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, Exact, Lpm, Match, Optional, Range, Ternary

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

SOURCE = """
#include <core.p4>
#include <nicemu.p4>
header tag_t {{ bit<8> kind; bit<16> value; }}
struct headers_t {{ tag_t tag; }}
struct m_t {{ bit<16> port; }}
struct pair_t {{ @match(exact) bit<8> kind; @match({kind}) bit<16> value; }}
parser P(packet_in packet, out headers_t h, inout m_t m, inout nic_metadata_t nic) {{
    value_set<pair_t>(4) pairs;
    value_set<bit<16>>(4) known;
    state start {{
        packet.extract(h.tag);
        transition select(h.tag.kind, h.tag.value) {{
            pairs: one;
            (7, known): two;
            default: accept;
        }}
    }}
    state one {{ m.port = 1; transition accept; }}
    state two {{ m.port = 2; transition accept; }}
}}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) {{ apply {{ send_to_port(m.port); }} }}
control D(packet_out b, in headers_t h, in m_t m, in nic_metadata_t nic) {{ apply {{ b.emit(h); }} }}
SmartNic(P(), C(), D()) main;
"""
VALUES = (0, 1, 5, 6, 0x1200, 0x12FF, 0x1300, 0xFFFF)


def loaded(kind: str) -> CompiledEngine:
    engine = CompiledEngine(optimised=False)
    engine.load(compile_text(SOURCE.format(kind=kind)).program)
    assert engine.interpreted_because == ""
    return engine


def ports(engine: Engine) -> dict[tuple[int, int], int]:
    frames = {(kind, value): bytes((kind, *value.to_bytes(2, "big"))) for kind in (3, 7) for value in VALUES}
    found = {key: engine.process(frame, 0) for key, frame in frames.items()}
    assert found == {key: Engine.process(engine, frame, 0) for key, frame in frames.items()}
    return {key: verdict.port for key, verdict in found.items() if verdict.port}


def test_a_value_set_is_empty_at_first_and_holds_what_it_was_given_last() -> None:
    engine = loaded("exact")
    known = engine.objects.value_set("known")
    assert ports(engine) == {}
    known.replace([(Exact(5),), (Exact(6),), (Exact(5),)])
    assert ports(engine) == {(7, 5): 2, (7, 6): 2}
    known.replace([(Exact(6),), (Exact(1),)])
    assert ports(engine) == {(7, 6): 2, (7, 1): 2}
    known.replace([])
    assert ports(engine) == {}


@pytest.mark.parametrize(
    ("kind", "matches"),
    [
        ("exact", [Exact(1), Exact(5)]),
        ("lpm", [Lpm(0x1200, 8), Lpm(0, 15)]),
        ("ternary", [Ternary(0x1200, 0xFF00), Ternary(1, 1)]),
        ("range", [Range(5, 0x1200), Range(0, 0), Range(0x1300, 0xFFFF)]),
        ("optional", [Optional(5)]),
        ("optional", [Optional(None)]),
    ],
)
def test_a_value_set_compares_each_field_as_its_match_kind_says(kind: str, matches: list[Match]) -> None:
    engine = loaded(kind)
    engine.objects.value_set("pairs").replace([(Exact(3), match) for match in matches])
    assert 0 < len(ports(engine)) <= len(VALUES)


def test_a_value_set_that_came_with_another_engines_program_is_looked_up() -> None:
    first, second = loaded("exact"), Engine()
    assert first.program is not None
    second.load(first.program)
    second.objects.value_set("known").replace([(Exact(6),)])
    first.adopt(second)
    assert ports(first) == {(7, 6): 2}
