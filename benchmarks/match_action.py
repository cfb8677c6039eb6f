# SPDX-License-Identifier: Apache-2.0
"""Whole programs compiled to kernels, packets in memory: parse, look up, count, rewrite, on one core.

The program parses Ethernet, IPv4, UDP and a KV request, looks a 128-bit session up in an exact table, counts,
and rewrites addresses and time to live. Beside it stands C of the same layout, compiled in the same run by
the system's `cc` where there is one: the same packets and the very same table, with and without fetching
memory ahead; the faster one counts. `_lines_alone` is C that knows before which lines of memory each packet
needs, reads and writes them, and does nothing else: what caches and memory allow. `64k_close` is `64k` with
frames that lie behind one another, in fewer lines. `exact_growth` is how many times as long a packet takes
with 1 M entries as with 1 k; its goal is what that is for C, fetching ahead. Further programs match 10 k
entries under 32 masks, and 1 M prefixes with addresses that are drawn anew before each turn of the ring,
outside of what is measured.
Thread CPU time, medians over rounds; sides alternate. The interpreter's rate stands there for comparison.
Prints `name value unit` lines.
Run: python benchmarks/match_action.py [--json]
"""

from __future__ import annotations

import ctypes
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from nicemu.errors import ControlError
from nicemu.kernels import PACKET, TO_PORT, CompiledEngine
from nicemu.lookup import ExactTable
from nicemu.p4 import compile_text
from nicemu.pipeline import Lpm, TableEntry, Ternary
from nicemu.programs import load_module

reports = load_module(Path(__file__).with_name("rig") / "report.py")

ROUNDS: Final = 11
PACKETS_A_ROUND: Final = 1 << 20
SLOT_BYTES: Final = 128
SIZES: Final = {
    "1k": (1 << 10, 1 << 14, SLOT_BYTES),
    "64k": (1 << 16, 1 << 14, SLOT_BYTES),
    "64k_close": (1 << 16, 1 << 14, 80),
    "1m": (1_000_000, 1 << 20, SLOT_BYTES),
}
"""Entries of the table, packets of the ring, and how far apart they lie; close, as in a capture in memory."""
GOALS: Final = {"64k": 100.0, "1m": 20.0}
C_SHARE_GOAL: Final = 0.6
TERNARY_GOAL, LPM_GOAL = 5.0, 30.0
LPM_RINGS: Final = {"lpm_1m": 1 << 14, "lpm_1m_48_mib_ring": 1 << 18}
"""Packets of the ring, 192 bytes each with their records."""
MACS = (0x020000000011, 0x020000000012)

PARSER = """
#include <core.p4>
#include <nicemu.p4>
#include <kv.p4>
struct headers_t { ethernet_t eth; ipv4_t ip; udp_t udp; kv_t kv; }
struct metadata_t { bit<8> unused; }
parser P(packet_in packet, out headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    state start {
        packet.extract(h.eth);
        transition select(h.eth.ethertype) { ETHERTYPE_IPV4: ip; _: accept; }
    }
    state ip {
        packet.extract(h.ip);
        transition select(h.ip.protocol) { PROTOCOL_UDP: udp; _: accept; }
    }
    state udp {
        packet.extract(h.udp);
        transition select(h.udp.destination_port) { KV_PORT: kv; _: accept; }
    }
    state kv { packet.extract(h.kv); transition accept; }
}
control D(packet_out p, in headers_t h, in metadata_t m, in nic_metadata_t nic) { apply { p.emit(h); } }
"""
CONTROL = """
control C(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    action forward(bit<16> port, bit<48> destination, bit<48> source) {
        h.eth.destination = destination;
        h.eth.source = source;
        h.ip.time_to_live = h.ip.time_to_live - 1;
        send_to_port(port);
    }
    action drop() { drop_packet(); }
    table t { key = { KEY } actions = { forward; drop; } default_action = drop; size = SIZE; }
    apply { if (h.kv.isValid()) { t.apply(); } }
}
SmartNic(P(), C(), D()) main;
"""


def engine_of(key: str, size: int) -> CompiledEngine:
    """Return an engine with the program for a key and a table's size."""
    engine = CompiledEngine()
    engine.load(compile_text(PARSER + CONTROL.replace("KEY", key).replace("SIZE", str(size))).program)
    if engine.kernel is None:
        raise SystemExit(f"not compiled: {engine.interpreted_because}")
    return engine


class Ring:
    """Packets in slots of memory, of which the first is aligned to 64 bytes, and their records."""

    def __init__(
        self,
        sources: list[int] | np.ndarray[Any, Any],
        sessions: np.ndarray[Any, Any],
        slot_bytes: int = SLOT_BYTES,
    ) -> None:
        count = len(sessions)
        self._room = np.zeros(count * slot_bytes + 64, np.uint8)
        start = -self._room.ctypes.data % 64
        frames = self._room[start : start + count * slot_bytes].reshape(count, slot_bytes)
        frame = bytes.fromhex(
            "020000000001 020000000002 0800 4500003c000100004011000001020304 0a010101 4b564b5600280000"
        )
        frame += struct.pack(">HBBHHQ", 0x4B56, 1, 1, 0, 0, 7) + bytes(16)
        frames[:, : len(frame)] = np.frombuffer(frame, np.uint8)
        frames[:, 26:30] = np.asarray(sources, np.uint32).astype(">u4").view(np.uint8).reshape(count, 4)
        frames[:, 58:74] = sessions.astype(">u8").view(np.uint8).reshape(count, 16)
        self.packets = np.zeros(count, PACKET)
        at = np.arange(count, dtype=np.uint64) * np.uint64(slot_bytes)
        self.packets["address"] = np.uint64(self._room.ctypes.data + start) + at
        self.packets["length"] = len(frame)
        self.first = bytes(frames[0, : len(frame)])
        self._frames = frames

    def send_from(self, sources: np.ndarray[Any, Any]) -> None:
        """Give all frames other IPv4 sources."""
        self._frames[:, 26:30] = sources.astype(">u4").view(np.uint8).reshape(len(sources), 4)

    def destinations(self) -> np.ndarray[Any, Any]:
        """Return the Ethernet destination of each frame as it is now."""
        octets = np.zeros((len(self._frames), 8), np.uint8)
        octets[:, 2:] = self._frames[:, :6]
        return octets.view(">u8")[:, 0]


def in_c(folder: Path) -> ctypes.CDLL | None:
    """Return the C side, or None where the system has no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source, library = Path(__file__).with_name("rig") / "pipeline.c", folder / "pipeline.so"
    subprocess.run(
        [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", str(library), str(source)], check=True
    )
    c_side = ctypes.CDLL(str(library))
    for function, words in ((c_side.run, 4), (c_side.lines_of, 4), (c_side.touch, 3)):
        function.argtypes, function.restype = [ctypes.c_uint64] * words, None
    return c_side


def rates(
    sides: dict[str, Callable[[], object]], packets: int, before: Callable[[], object] = lambda: None
) -> dict[str, list[float]]:
    """Return millions of packets a second of CPU time, by side and round; `before` a turn is not in it."""
    turns = max(PACKETS_A_ROUND // packets, 1)
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(ROUNDS + 1):
        for name, side in sides.items():
            seconds = 0.0
            for _ in range(turns):
                before()
                begun = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
                side()
                seconds += time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) - begun
            if number:
                found[name].append(turns * packets / seconds / 1e6)
    return found


def measure_exact(
    report: Any,  # noqa: ANN401
    name: str,
    entries: int,
    count: int,
    slot_bytes: int,
    c_side: ctypes.CDLL | None,
) -> dict[str, float]:
    """Add the rates of one size, and what they are of C's and of the memory's; return the rates by side."""
    engine = engine_of("h.kv.session: exact;", entries)
    kernel = engine.kernel
    assert kernel is not None
    table = kernel.tables["C.t"].table
    assert isinstance(table, ExactTable)
    chance = np.random.default_rng(1)
    keys = chance.integers(0, 1 << 63, (entries, 2), np.uint64)
    data = np.zeros((entries, 2), np.uint64)
    data[:, 0] = np.arange(entries) % 4 | MACS[0] << 16
    data[:, 1] = MACS[1]
    assert engine.program is not None
    number = [action.name for action in engine.program.actions].index("C.forward")
    table.insert_many(keys, np.full(entries, number, np.uint64), data)
    ring = Ring(np.zeros(count, np.uint32), keys[chance.integers(0, entries, count)], slot_bytes)
    sides: dict[str, Callable[[], object]] = {"": lambda: kernel.run(ring.packets)}
    if c_side is not None:
        places = kernel.context.ctypes.data, ring.packets.ctypes.data, count
        sides["_in_c"] = lambda: c_side.run(*places, 1)
        sides["_in_c_without_fetching"] = lambda: c_side.run(*places, 0)
    for call in sides.values():
        ring.packets["verdict"] = 9
        call()
        if not (ring.packets["verdict"] == TO_PORT).all():
            raise SystemExit(f"exact_{name}: some packets went astray")
    if c_side is not None:
        lines = np.zeros((count, 2), np.uint64)
        c_side.lines_of(*places, lines.ctypes.data)
        sides["_lines_alone"] = lambda: c_side.touch(lines.ctypes.data, *places[1:])
    found = rates(sides, count)
    for side, samples in found.items():
        report.add_rounds(f"exact_{name}{side}", samples, "Mpps")
    if name in GOALS:
        report.add_goal(f"exact_{name}_rate", median(found[""]), "Mpps", GOALS[name])
    if c_side is not None:
        faster = max(found["_in_c"], found["_in_c_without_fetching"], key=median)
        ratio = median(ours / c for ours, c in zip(found[""], faster, strict=True))
        report.add_goal(f"exact_{name}_of_c", ratio, "ratio", C_SHARE_GOAL)
        alone = median(ours / lines for ours, lines in zip(found[""], found["_lines_alone"], strict=True))
        report.add(f"exact_{name}_of_lines_alone", alone, "ratio")
    if name == "1k":
        begun = time.perf_counter()
        for _ in range(200):
            engine.process(ring.first, 0, trace=True)
        report.add("interpreted", 200 / (time.perf_counter() - begun) / 1e6, "Mpps")
    return {side: median(samples) for side, samples in found.items()}


def add_growth(report: Any, few: dict[str, float], many: dict[str, float]) -> None:  # noqa: ANN401
    """Add what a packet takes with many entries for what it takes with few, ours and C's."""
    growth = {side: few[side] / many[side] for side in few}
    if "_in_c" in growth:
        report.add_goal("exact_growth", growth[""], "ratio", growth["_in_c"], at_most=True)
    else:
        report.add("exact_growth", growth[""], "ratio")


def measure_ternary(report: Any) -> None:  # noqa: ANN401
    """Add the rate with 10 k entries under 32 masks."""
    engine, chance = engine_of("h.kv.session: ternary;", 10_000), random.Random(3)
    masks = [((1 << 128) - 1) ^ ((1 << 3 * n) - 1) << 20 for n in range(32)]
    sessions = []
    for entry in range(10_000):
        session, place = chance.getrandbits(128), entry % 32
        mask = masks[place]
        with suppress(ControlError):
            call = (entry % 4, *MACS)
            engine.insert(
                "t", TableEntry((Ternary(session & mask, mask),), "forward", call, 1 + 100 * (32 - place))
            )
            sessions.append(session)
    drawn = [chance.choice(sessions) for _ in range(1 << 14)]
    add_rate(report, "ternary_10k_32_masks", engine, np.zeros(len(drawn)), halves(drawn), TERNARY_GOAL)


def measure_lpm(report: Any) -> None:  # noqa: ANN401
    """Add the rates with 1 M IPv4 prefixes: a ring of 16 k packets, of other addresses in each turn, and one
    that is larger than caches.
    """
    engine, chance = engine_of("h.ip.source: lpm;", 1_000_000), random.Random(5)
    drawn: dict[tuple[int, int], None] = {}
    while len(drawn) < 1_000_000:
        length = chance.choices((16, 20, 22, 24, 28, 32), (4, 10, 16, 60, 5, 5))[0]
        drawn[chance.getrandbits(length) << 32 - length, length] = None
    for value, length in drawn:
        engine.insert("t", TableEntry((Lpm(value, length),), "forward", (1, *MACS)))
    known, numbers = np.array([value for value, _ in drawn], np.uint32), np.random.default_rng(5)
    kernel = engine.kernel
    assert kernel is not None
    for name, count in LPM_RINGS.items():
        ring = Ring(numbers.choice(known, count), np.zeros((count, 2), np.uint64))
        kernel.run(ring.packets)
        if not (ring.packets["verdict"] == TO_PORT).all():
            raise SystemExit(f"{name}: some packets went astray")
        draw = partial(lambda ring: ring.send_from(numbers.choice(known, len(ring.packets))), ring)
        work = partial(kernel.run, ring.packets)
        report.add_rounds(f"{name}_rounds", rounds := rates({"": work}, count, draw)[""], "Mpps")
        report.add_goal(name, median(rounds), "Mpps", LPM_GOAL)


def add_rate(
    report: Any,  # noqa: ANN401
    name: str,
    engine: CompiledEngine,
    sources: Any,  # noqa: ANN401
    sessions: np.ndarray[Any, Any],
    goal: float,
) -> None:
    """Add the rate of a program over a ring."""
    kernel, ring = engine.kernel, Ring(sources, sessions)
    assert kernel is not None
    kernel.run(ring.packets)
    if not (ring.packets["verdict"] == TO_PORT).all():
        raise SystemExit(f"{name}: some packets went astray")
    samples = rates({name: lambda: kernel.run(ring.packets)}, len(ring.packets))[name]
    report.add_goal(name, median(samples), "Mpps", goal)


def halves(numbers: list[int]) -> np.ndarray[Any, Any]:
    """Return 128-bit numbers as two words each, the upper one first."""
    return np.array([[number >> 64, number & (1 << 64) - 1] for number in numbers], np.uint64)


def main() -> None:
    """Measure and print."""
    report = reports.Report("match_action")
    with tempfile.TemporaryDirectory() as folder:
        c_side = in_c(Path(folder))
        if c_side is None:
            print("there is no C compiler (cc): nothing stands beside the figures", file=sys.stderr)
        found = {name: measure_exact(report, name, *size, c_side) for name, size in SIZES.items()}
    add_growth(report, found["1k"], found["1m"])
    measure_ternary(report)
    measure_lpm(report)
    report.write()


if __name__ == "__main__":
    main()
