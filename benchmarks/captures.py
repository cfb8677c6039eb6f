# SPDX-License-Identifier: Apache-2.0
"""A compiled program from pcap to pcap: 64-byte packets, 131,072 entries, one core.

The program parses Ethernet and IPv4, looks the destination up, rewrites MAC address and time to live and
chooses a port. Files are ordinary ones, in the kernel's page cache, and once more in a file system in memory
(/dev/shm, where there is one). Beside each stand the same bytes read and written without being looked at, and
the kernel alone over packets that lie in memory already. The same packets go from pcapng to pcapng, too. CPU
time of the process, medians over rounds; sides alternate. Prints `name value unit` lines.
Run: python benchmarks/captures.py [--json]
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from nicemu.capture import PACKET_BLOCK, PcapngWriter
from nicemu.kernels import CompiledEngine, Slots
from nicemu.lookup import ExactTable
from nicemu.p4 import compile_text
from nicemu.programs import load_module
from nicemu.switch import switch_captures

reports = load_module(Path(__file__).with_name("rig") / "report.py")

ENTRIES: Final = 1 << 17
PACKETS: Final = 1 << 22
FRAME_BYTES: Final = 64
ROUNDS: Final = 7
GOAL_MPPS: Final = 20.0
COPY_BYTES: Final = 1 << 20

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> destination; bit<48> source; bit<16> ethertype; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> total_length;
    bit<16> identification; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> source; bit<32> destination;
}
struct headers_t { ethernet_t ethernet; ipv4_t ip; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.ethernet);
        transition select(h.ethernet.ethertype) { 0x0800: ip; _: accept; }
    }
    state ip { b.extract(h.ip); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action forward(bit<9> port, bit<48> to) {
        s.egress_spec = port;
        h.ethernet.destination = to;
        h.ip.ttl = h.ip.ttl - 1;
    }
    action drop() { mark_to_drop(s); }
    table routes {
        key = { h.ip.destination: exact; }
        actions = { forward; drop; }
        default_action = drop;
        size = SIZE;
    }
    apply { if (h.ip.isValid()) { routes.apply(); } else { drop(); } }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
RECORD = np.dtype(
    [("seconds", "<u4"), ("ns", "<u4"), ("length", "<u4"), ("original", "<u4"), ("frame", "u1", FRAME_BYTES)]
)

BLOCK = np.dtype(
    [(name, "<u4") for name in ("kind", "bytes", "interface", "high", "low", "length", "original")]
    + [("frame", "u1", FRAME_BYTES), ("bytes_again", "<u4")]
)


def filled_engine(addresses: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> CompiledEngine:
    """Return an engine whose table has an entry for each address."""
    engine = CompiledEngine()
    engine.load(compile_text(PROGRAM.replace("SIZE", str(ENTRIES))).program)
    assert engine.kernel is not None, engine.interpreted_because
    assert engine.program is not None
    table = engine.kernel.tables["I.routes"].table
    assert isinstance(table, ExactTable)
    action = [item.name for item in engine.program.actions].index("I.forward")
    data = (np.arange(ENTRIES, dtype=np.uint64) % 4 | 0x020000000000 << 9).reshape(-1, 1)
    table.insert_many(addresses.reshape(-1, 1), np.full(ENTRIES, action, np.uint64), data)
    return engine


def records(
    addresses: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return packets to random addresses, as records of a pcap file."""
    chance = np.random.default_rng(1)
    made = np.zeros(PACKETS, RECORD)
    made["seconds"], made["ns"] = 1_700_000_000, np.arange(PACKETS)
    made["length"] = made["original"] = FRAME_BYTES
    header = bytes.fromhex("020000000001 020000000002 0800 4500 0032 0001 0000 4011 0000 0a000001 00000000")
    made["frame"][:, : len(header)] = np.frombuffer(header, np.uint8)
    drawn = addresses[chance.integers(0, ENTRIES, PACKETS)].astype(">u4")
    made["frame"][:, 30:34] = drawn.view(np.uint8).reshape(PACKETS, 4)
    return made


def write_capture(path: Path, made: np.ndarray[tuple[int], np.dtype[np.void]]) -> None:
    """Write records as a pcap file, times in nanoseconds."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        file.write(made.tobytes())


def write_pcapng(path: Path, made: np.ndarray[tuple[int], np.dtype[np.void]]) -> None:
    """Write records as the packet blocks of a pcapng file, times in nanoseconds."""
    blocks = np.zeros(len(made), BLOCK)
    blocks["kind"], blocks["bytes"], blocks["bytes_again"] = PACKET_BLOCK, BLOCK.itemsize, BLOCK.itemsize
    for name in ("length", "original", "frame"):
        blocks[name] = made[name]
    blocks["low"] = made["ns"]
    with open(path, "wb") as file:
        PcapngWriter(file).add_interface("port 0")
        file.write(blocks.tobytes())


def switched(engine: CompiledEngine, source: Path, target: Path) -> None:
    """Run a file through the program into a new one."""
    summary = switch_captures(engine, {0: source}, {None: target})
    if summary.packets != PACKETS or summary.dropped:
        raise SystemExit(f"some packets went astray: {summary}")


def copy(source: Path, target: Path) -> None:
    """Read and write a file in pieces."""
    room = memoryview(bytearray(COPY_BYTES))
    with open(source, "rb", buffering=0) as given, open(target, "wb", buffering=0) as taken:
        while came := given.readinto(room):
            taken.write(room[:came])


def main() -> None:
    """Measure and print."""
    report = reports.Report("captures")
    chance = np.random.default_rng(7)
    addresses = np.unique(chance.integers(0, 1 << 32, 2 * ENTRIES, np.uint64))[:ENTRIES]
    engine, made = filled_engine(chance.permutation(addresses)), records(addresses)
    kernel = engine.kernel
    assert kernel is not None
    slots = Slots(kernel.headroom_bytes)
    offsets = np.arange(PACKETS, dtype=np.uint64) * np.uint64(RECORD.itemsize) + np.uint64(16)
    lengths, zeros = np.full(PACKETS, FRAME_BYTES, np.uint64), np.zeros(PACKETS, np.uint64)

    def in_memory() -> None:
        first = 0
        while first < PACKETS:
            packets = slots.fill(made.ctypes.data, offsets, lengths, zeros, zeros, first)
            kernel.run(packets)
            first += len(packets)

    places = {"pcap_to_pcap": Path(tempfile.gettempdir()), "pcap_to_pcap_in_shm": Path("/dev/shm")}
    with ExitStack() as folders:
        sides: dict[str, Callable[[], object]] = {"in_memory": in_memory}
        targets = []
        for name, place in places.items():
            if place.is_dir():
                folder = Path(folders.enter_context(tempfile.TemporaryDirectory(dir=place)))
                source, target = folder / "in.pcap", folder / "out.pcap"
                write_capture(source, made)
                targets.append(target)
                sides[name] = partial(switched, engine, source, target)
                sides[f"{name}_copy"] = partial(copy, source, target)
                if name == "pcap_to_pcap":
                    source, target = folder / "in.pcapng", folder / "out.pcapng"
                    write_pcapng(source, made)
                    targets.append(target)
                    sides["pcapng_to_pcapng"] = partial(switched, engine, source, target)
        os.sync()  # else the inputs go to disk while there is measured
        found = {name: [] for name in sides}
        for turn in range(ROUNDS + 1):
            for name, side in sides.items():
                for target in targets:
                    target.unlink(missing_ok=True)
                begun = time.process_time()
                side()
                if turn:
                    found[name].append(PACKETS / (time.process_time() - begun) / 1e6)
    for name, rates in found.items():
        report.add_rounds(name, rates, "Mpps")
    report.add_goal("pcap_to_pcap_rate", median(found["pcap_to_pcap"]), "Mpps", GOAL_MPPS)
    for name in places:
        if name in found:
            both = zip(found[name], found[f"{name}_copy"], strict=True)
            report.add(f"{name}_of_copy", median(ours / plain for ours, plain in both), "ratio")
    report.write()


if __name__ == "__main__":
    main()
