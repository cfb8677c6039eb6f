# SPDX-License-Identifier: Apache-2.0
"""A program does the same to every packet whether it comes as P4-16 or as the JSON that p4c makes of it."""

from __future__ import annotations

import functools

from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.utils import checksum as scapy_checksum

from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, Exact, Lpm, Program, TableEntry
from tests.unit.bmv2.program_json import load
from tests.unit.bmv2.router_json import ROUTER_P4, router_json


@functools.cache
def programs() -> tuple[Program, Program]:
    """Return the program from its text, and from its JSON."""
    return compile_text(ROUTER_P4, "router.p4").program, load(router_json(), "router.json").program


PORTS = st.sampled_from((0, 1, 5, 510, 511))
CALLS = st.one_of(
    st.tuples(st.just("forward"), st.tuples(st.integers(0, 0xFFFF), PORTS)),
    st.tuples(st.just("forward"), st.tuples(st.integers(0, 0xFFFF), PORTS)),
    st.tuples(st.sampled_from(("drop", "NoAction")), st.just(())),
)
PREFIXES = st.tuples(st.sampled_from((0x0100, 0x0200, 0x0300, 0x0102)), st.sampled_from((0, 6, 8, 16)))
KNOWN = st.dictionaries(
    st.tuples(st.sampled_from((0, 1, 2)), st.integers(0, 1)), st.sampled_from(("pop", "NoAction")), max_size=6
)


@st.composite
def packets(draw: st.DrawFn) -> bytes:
    """Return packets of which most are whole, with a right checksum."""
    kind = draw(st.sampled_from((0x08, 0x08, 0x41, 0x40, 0x50)))
    packet = draw(st.sampled_from((b"\1\2\3\4", b"\0\0\xff\xff"))) + bytes([kind])
    if kind >> 4 == 4:
        labels = draw(st.lists(st.sampled_from((0, 1, 2)), min_size=1, max_size=4))
        packet += bytes(label << 1 | (place == len(labels) - 1) for place, label in enumerate(labels))
    rare = draw(st.integers(0, 11))
    head = bytes([0x63 if rare == 0 else 0x43, 1 if rare == 1 else 64])
    source = draw(st.sampled_from((b"\0\5", b"\0\x0a", b"\x80\0", b"\1\0")))
    target = draw(st.sampled_from((b"\1\2", b"\2\2", b"\3\2", b"\0\0", b"\2\7")))
    sum_ = 0x1234 if rare == 2 else scapy_checksum(head + source + target)
    packet += head + sum_.to_bytes(2, "big") + source + target + b"rest"
    return packet[: draw(st.integers(5, len(packet)))] if rare == 3 else packet


Routes = dict[tuple[int, int], tuple[str, tuple[int, ...]]]
Known = dict[tuple[int, int], str]


def filled(program: Program, routes: Routes, known: Known) -> Engine:
    engine = Engine(seed=3)
    engine.load(program)
    for (value, length), (called, data) in routes.items():
        kept = value & (0xFFFF ^ 0xFFFF >> length)
        match = (Lpm(kept, length),)
        if not any(entry.matches == match for entry in engine.read("route")):
            engine.insert("route", TableEntry(match, called, data))
    for (label, second), called in known.items():
        engine.insert("known", TableEntry((Exact(label), Exact(second)), called))
    return engine


@settings(max_examples=100, deadline=None)
@given(
    routes=st.dictionaries(PREFIXES, CALLS, max_size=6),
    known=KNOWN,
    arrivals=st.lists(packets(), min_size=6, max_size=12),
)
def test_both_ways_into_the_engine_do_the_same_to_every_packet(
    routes: Routes, known: Known, arrivals: list[bytes]
) -> None:
    text, document = (filled(program, routes, known) for program in programs())
    for place, packet in enumerate(arrivals):
        wanted = text.process(packet, place, now_ns=1000 * place)
        assert document.process(packet, place, now_ns=1000 * place) == wanted
    assert document.objects.register("seen").values == text.objects.register("seen").values


def test_both_ways_show_the_control_plane_the_same() -> None:
    text, document = (Engine(), Engine())
    for engine, program in zip((text, document), programs(), strict=True):
        engine.load(program)
    assert document.p4info == text.p4info
