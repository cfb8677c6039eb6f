# SPDX-License-Identifier: Apache-2.0
"""Packets that become several, or come again, through a compiled v1model program on one core.

The program parses Ethernet and IPv4, looks the destination up in 1,024 entries, takes one off the time to
live and updates the checksum; 64-byte packets in memory. Each is forwarded as it is, cloned at the end of
ingress or egress, replicated for a group of three, resubmitted or recirculated once. `packets` come in,
batch by batch; beside it the same packets one after the other, which the interpreter's traffic manager takes
from block to block of compiled code (`apart`), and by the interpreter alone (`interpreted`). CPU time of the
process, medians over rounds; sides alternate. Prints `name value unit` lines.
Run: python benchmarks/copies.py [--json]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from nicemu.kernels import PACKET, TO_PORT, CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import CloneSession, Exact, Replica, TableEntry
from nicemu.programs import load_module

reports = load_module(Path(__file__).with_name("rig") / "report.py")

ENTRIES: Final = 1 << 10
PACKETS: Final = 1 << 12
BATCHES: Final = 64
FEW: Final = 1 << 8
ROUNDS: Final = 9
SLOT_BYTES: Final = 256

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
struct metadata_t { @field_list(1) bit<8> turns; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.ethernet);
        transition select(h.ethernet.ethertype) { 0x0800: ip; _: accept; }
    }
    state ip { b.extract(h.ip); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action forward(bit<9> port, bit<48> next) { s.egress_spec = port; h.ethernet.destination = next; }
    action drop() { mark_to_drop(s); }
    table routes {
        key = { h.ip.destination: exact; } actions = { forward; drop; } default_action = drop; size = 1024;
    }
    apply { routes.apply(); h.ip.ttl = h.ip.ttl - 1; INGRESS }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { EGRESS } }
control C(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(h.ip.isValid(), {
            h.ip.version, h.ip.ihl, h.ip.tos, h.ip.total_length, h.ip.identification, h.ip.flags, h.ip.offset,
            h.ip.ttl, h.ip.protocol, h.ip.source, h.ip.destination }, h.ip.checksum, HashAlgorithm.csum16);
    }
}
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
WAYS: Final = {
    "forwarded": ("", "", 1),
    "cloned": ("clone(CloneType.I2E, 1);", "", 2),
    "cloned_behind_egress": ("", "if (s.instance_type == 0) { clone(CloneType.E2E, 1); }", 2),
    "replicated": ("s.mcast_grp = 1;", "", 3),
    "resubmitted": ("if (m.turns == 0) { m.turns = 1; resubmit_preserving_field_list(1); }", "", 1),
    "recirculated": ("", "if (m.turns == 0) { m.turns = 1; recirculate_preserving_field_list(1); }", 1),
}


class Side:
    """One program, and packets for it. What leaves of a packet is counted."""

    def __init__(self, ingress: str, egress: str) -> None:
        self.engine = CompiledEngine()
        self.engine.load(compile_text(PROGRAM.replace("INGRESS", ingress).replace("EGRESS", egress)).program)
        if self.engine.kernel is None:
            raise SystemExit(f"not compiled: {self.engine.interpreted_because}")
        self.engine.objects.clone_sessions[1] = CloneSession((Replica(9),))
        self.engine.objects.multicast_groups[1] = tuple(Replica(port) for port in (1, 2, 3))
        self._room = np.zeros((PACKETS + 1) * SLOT_BYTES, np.uint8)
        frames = self._room[SLOT_BYTES:].reshape(PACKETS, SLOT_BYTES)
        frames[:, 12:14], frames[:, 14], frames[:, 22] = (8, 0), 0x45, 64
        chosen = np.random.default_rng(1).integers(0, ENTRIES, PACKETS).astype(">u4")
        frames[:, 30:34] = chosen.view(np.uint8).reshape(PACKETS, 4)
        for entry in range(ENTRIES):
            self.engine.insert("routes", TableEntry((Exact(entry),), "forward", (entry % 8, entry)))
        self._packets = np.zeros(PACKETS, PACKET)
        at = np.arange(PACKETS, dtype=np.uint64) * np.uint64(SLOT_BYTES)
        self._packets["address"] = np.uint64(frames.ctypes.data) + at
        self._packets["length"] = 64
        self._frames = [bytes(frames[number, :64]) for number in range(FEW)]

    def together(self) -> int:
        """Take all packets, batch by batch; return how many have left of one."""
        for _ in range(BATCHES):
            taken, records, told = self.engine.process_batch(self._packets)
            assert taken == PACKETS
            assert not told
        return int((records["verdict"] == TO_PORT).sum())

    def apart(self, trace: bool = False) -> int:
        """Take some packets one after the other, likewise."""
        verdicts = [self.engine.process(frame, 0, trace=trace) for frame in self._frames]
        return sum(1 + len(verdict.copies) for verdict in verdicts)


def rate(take: Callable[[], int], packets: int, each: int, times: int = 1) -> float:
    """Return millions of packets a second of CPU time, of as many that are taken so many times."""
    begun = time.process_time()
    left = take()
    seconds = time.process_time() - begun
    if left != packets * each:
        raise SystemExit(f"{left} packets have left, not {packets * each}")
    return times * packets / seconds / 1e6


def measure(report: Any, name: str, ingress: str, egress: str, each: int) -> None:  # noqa: ANN401
    """Add the rates of one way."""
    side = Side(ingress, egress)
    found: dict[str, list[float]] = {"": [], "_apart": []}
    for number in range(ROUNDS + 1):
        some = rate(side.together, PACKETS, each, BATCHES), rate(side.apart, FEW, each)
        for rates, one in zip(found.values(), some, strict=True):
            rates += [one] if number else []
    for end, rates in found.items():
        report.add_rounds(f"{name}{end}", rates, "Mpps")
    report.add(f"{name}_interpreted", rate(lambda: side.apart(trace=True), FEW, each), "Mpps")
    report.add(f"{name}_gain", median(found[""]) / median(found["_apart"]), "ratio")


def main() -> None:
    """Measure and print."""
    report = reports.Report("copies")
    for name, (ingress, egress, each) in WAYS.items():
        measure(report, name, ingress, egress, each)
    report.write()


if __name__ == "__main__":
    main()
