# SPDX-License-Identifier: Apache-2.0
"""However early lookups begin, and however many packets there are, each packet gets what it gets alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from nicemu.errors import UsageError
from nicemu.hot import JIT
from nicemu.kernels import DROPPED, PACKET, TO_PORT, CompiledEngine, many_packets
from nicemu.p4 import compile_text
from nicemu.pipeline import Exact, Lpm, Match, TableEntry

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

SOURCE = """
#include <core.p4>
#include <nicemu.p4>
header h_t { bit<8> kind; bit<WIDTH> key; }
struct headers_t { h_t h; }
struct m_t { }
parser P(packet_in packet, out headers_t h, inout m_t m, inout nic_metadata_t nic) {
    state start {
        packet.extract(h.h);
        transition select(h.h.kind) { 0: accept; default: reject; }
    }
}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) {
    action go(bit<16> port) { send_to_port(port); }
    action stop() { drop_packet(); }
    table t { key = { h.h.key: MATCH; } actions = { go; stop; } default_action = stop; size = 2048; }
    apply { t.apply(); }
}
control D(packet_out packet, in headers_t h, in m_t m, in nic_metadata_t nic) { apply { packet.emit(h); } }
SmartNic(P(), C(), D()) main;
"""
COUNTS = (
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    15,
    16,
    17,
    31,
    32,
    47,
    48,
    49,
    79,
    80,
    81,
    103,
    104,
    105,
    127,
    128,
    130,
    1000,
)
SLOT = 32


def prefix_of(value: int, width: int, length: int) -> int:
    """Return a value with zeros behind its first bits."""
    return value >> width - length << width - length


def entries_for(kind: str, width: int, chance: random.Random) -> dict[tuple[int, int], int]:
    """Return ports by values and prefix lengths, many of them within others."""
    entries: dict[tuple[int, int], int] = {}
    while len(entries) < 300:
        length = width if kind == "exact" else chance.randrange(4, width + 1)
        base = chance.choice(list(entries))[0] if entries and chance.random() < 0.7 else 0
        value = base ^ chance.getrandbits(width) >> chance.randrange(width)
        entries[prefix_of(value, width, length), length] = len(entries)
    return entries


@pytest.mark.parametrize("near_bytes", [0, 1 << 40], ids=["far", "near"])
@pytest.mark.parametrize(("kind", "width"), [("exact", 64), ("lpm", 32), ("lpm", 128)])
def test_many_packets_get_what_each_gets_alone(
    monkeypatch: pytest.MonkeyPatch, near_bytes: int, kind: str, width: int
) -> None:
    monkeypatch.setattr(many_packets, "_NEAR_BYTES", near_bytes)
    engine, chance = CompiledEngine(), random.Random(width)
    engine.load(compile_text(SOURCE.replace("WIDTH", str(width)).replace("MATCH", kind)).program)
    kernel = engine.kernel
    assert kernel is not None, engine.interpreted_because
    entries = entries_for(kind, width, chance)
    for (value, length), number in entries.items():
        match: Match = Exact(value) if kind == "exact" else Lpm(value, length)
        engine.insert("t", TableEntry((match,), "go", (number,)))

    def outcome(key: int, is_kept: bool) -> tuple[int, int]:
        """Return the verdict, and the port of the longest prefix."""
        for length in range(width, -1, -1) if is_kept else ():
            port = entries.get((prefix_of(key, width, length), length))
            if port is not None:
                return TO_PORT, port
        return DROPPED, 0

    for count in COUNTS:
        room, packets = np.zeros((count, SLOT), np.uint8), np.zeros(count, PACKET)
        expected = []
        for number in range(count):
            value, length = chance.choice(list(entries))
            key = value ^ chance.choice((0, chance.getrandbits(width) >> min(length, width - 1)))
            is_kept = chance.random() < 0.9
            frame = bytes([not is_kept]) + key.to_bytes(width // 8, "big")
            room[number, : len(frame)] = np.frombuffer(frame, np.uint8)
            packets[number]["length"] = len(frame)
            expected.append(outcome(key, is_kept))
        packets["address"] = room.ctypes.data + SLOT * np.arange(count, dtype=np.uint64)
        for ahead in (True, False):
            packets["verdict"] = 9
            assert kernel.run(packets, fetch_ahead=ahead) == count
            ports = np.where(packets["verdict"] == TO_PORT, packets["out_port"], 0)
            assert list(zip(packets["verdict"], ports, strict=True)) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(4, np.dtype([*PACKET.descr, ("more", "u8")])),
        np.zeros(8, PACKET)[::2],
        np.zeros(512, np.uint8),
    ],
    ids=["others", "apart", "bytes"],
)
def test_what_are_no_records_one_behind_the_other_is_refused_before_a_kernel_reads_it(
    wrong: np.ndarray[Any, Any],
) -> None:
    engine = CompiledEngine()
    engine.load(compile_text(SOURCE.replace("WIDTH", "64").replace("MATCH", "exact")).program)
    assert engine.kernel is not None
    with pytest.raises(UsageError, match="must be an array of PACKET, one behind the other"):
        engine.kernel.run(wrong)
