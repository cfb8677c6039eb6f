# SPDX-License-Identifier: Apache-2.0
"""Packets in groups, whose first lookups begin together: what becomes of each is the interpreter's answer.

The keys depend on what the packets before have written, so that lookups begin with keys that are not theirs.
"""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest

from nicemu.kernels import DROPPED, TO_PORT, CompiledEngine, Slots, drop_reason
from nicemu.p4 import compile_text
from nicemu.pipeline import Disposition, Engine, Exact, Lpm, TableEntry

PROGRAM = compile_text("""
#include <core.p4>
#include <v1model.p4>
header kind_t { bit<8> kind; bit<8> a; bit<8> b; bit<8> result; }
struct headers_t { kind_t h; }
struct metadata_t { bit<8> key; }
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<8>>(1) last;
    action go(bit<8> number) { h.h.result = number; s.egress_spec = 1; }
    action drop() { mark_to_drop(s); }
    table exact_ { key = { m.key: exact; } actions = { go; drop; } default_action = drop; }
    table prefix { key = { m.key: lpm; } actions = { go; drop; } default_action = drop; }
    table second { key = { h.h.result: exact; } actions = { go; NoAction; } }
    table masked { key = { m.key: ternary; } actions = { go; drop; } default_action = drop; }
    apply {
        last.read(m.key, 0);
        m.key = m.key + h.h.a;
        last.write(0, h.h.b);
        if (h.h.kind == 0) { exact_.apply(); }
        else if (h.h.kind == 1) { prefix.apply(); second.apply(); }
        else if (h.h.kind == 2) { masked.apply(); exact_.apply(); }
        else { second.apply(); }
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
""").program


def filled(engine: Engine) -> Engine:
    chance = random.Random(5)
    for key in chance.sample(range(256), 120):
        engine.insert("exact_", TableEntry((Exact(key),), "go", (key ^ 0x55,)))
    for number in range(40):
        engine.insert("second", TableEntry((Exact(6 * number),), "go", (number,)))
    for length in (0, 3, 5, 8):
        for stem in chance.sample(range(1 << length), min(1 << length, 4)):
            key = stem << 8 - length
            engine.insert("prefix", TableEntry((Lpm(key, length),), "go", (key + length,)))
    return engine


@pytest.mark.parametrize("optimised", [False, True])
def test_groups_of_packets_do_what_they_do_one_by_one(optimised: bool) -> None:
    engine, plain = CompiledEngine(optimised=optimised), Engine()
    for item in (engine, plain):
        item.load(PROGRAM)
        filled(item)
    kernel = engine.kernel
    assert kernel is not None, engine.interpreted_because
    chance = random.Random(9)
    frames = [
        bytes([chance.randrange(4), *chance.choices(range(8), k=2), chance.randrange(30)])[
            : chance.choice((4, 4, 4, 3))
        ]
        for _ in range(1000)
    ]
    memory = np.frombuffer(b"".join(frames), np.uint8)
    lengths = np.array([len(frame) for frame in frames], np.uint64)
    offsets, zeros = np.cumsum(lengths) - lengths, np.zeros(len(frames), np.uint64)
    slots = Slots(kernel.headroom_bytes)
    packets = slots.fill(memory.ctypes.data, offsets, lengths, zeros, zeros, 0)
    assert len(packets) == len(frames)
    taken, _, told = engine.process_batch(packets)
    assert (taken, told) == (len(frames), [])
    for frame, packet in zip(frames, packets, strict=True):
        wanted = plain.process(frame, 0)
        if wanted.disposition is Disposition.DROP:
            reason = drop_reason(PROGRAM, int(packet["reason"]))
            assert (packet["verdict"], reason) == (DROPPED, wanted.drop_reason)
        else:
            assert packet["verdict"] == TO_PORT
            start = int(packet["address"]) + int(packet["out_offset"])
            assert ctypes.string_at(start, int(packet["out_length"])) == wanted.frame
    for compiled, interpreted in zip(engine.tables(), plain.tables(), strict=True):
        assert (compiled.name, compiled.hits, compiled.misses) == (
            interpreted.name,
            interpreted.hits,
            interpreted.misses,
        )
    slots.close()
