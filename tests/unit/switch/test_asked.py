# SPDX-License-Identifier: Apache-2.0
"""A switch counts what a NIC's program asks of the firmware that a switch has not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from nicemu.capture import PcapngWriter, PcapWriter
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine
from nicemu.switch import Summary, switch_captures

PROGRAM = """
#include <core.p4>
#include <nicemu.p4>
header h_t { bit<8> what; bit<8> where; bit<48> much; }
struct headers_t { h_t h; }
struct m_t { }
struct seen_t { bit<48> much; bit<65> wide; bool known; }
parser P(packet_in packet, out headers_t h, inout m_t m, inout nic_metadata_t nic) {
    state start { packet.extract(h.h); transition accept; }
}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) {
    FirmwareEvent<seen_t>("seen") seen;
    FirmwareEvent<seen_t>("again") again;
    DeferredWork("fetch") fetch;
    TriggerCounter() counter;
    action ask() { again.post({ 1, 2, true }); fetch.arm(3, 7); }
    apply {
        if (h.h.what[0:0] == 1) { counter.add((bit<32>) h.h.where, (bit<64>) h.h.much); }
        if (h.h.what[1:1] == 1) { seen.post({ h.h.much, 5, false }); }
        if (h.h.what[2:2] == 1) { counter.add(h.h.much[31:0], 2); }
        if (h.h.what[3:3] == 1) { ask(); }
        if (h.h.what[4:4] == 1) { ask(); hold_packet(); }
        if (h.h.what[5:5] == 1) { drop_packet(); }
        if (h.h.what[6:6] == 1) { send_to_port(2); }
    }
}
control D(packet_out packet, in headers_t h, in m_t m, in nic_metadata_t nic) { apply { packet.emit(h); } }
SmartNic(P(), C(), D()) main;
"""


def capture(path: Path, frames: list[bytes]) -> Path:
    with open(path, "wb") as file:
        if path.suffix == ".pcap":
            pcap = PcapWriter(file)
            for number, frame in enumerate(frames):
                pcap.write(number, frame)
            return path
        pcapng = PcapngWriter(file)
        pcapng.add_interface("port 0")
        for number, frame in enumerate(frames):
            pcapng.write(0, number, frame, len(frame), outbound=False)
    return path


def counted(make: Callable[[], Engine], path: Path) -> Summary:
    engine = make()
    engine.load(compile_text(PROGRAM).program)
    assert getattr(engine, "interpreted_because", "") == ""
    return switch_captures(engine, {0: path}, {None: path.with_suffix(f".out{path.suffix}")})


@pytest.mark.parametrize("form", ["pcap", "pcapng"], ids=["in place", "in batches"])
def test_events_armed_work_and_counts_are_counted_alike_however_packets_pass(
    tmp_path: Path, form: str
) -> None:
    chance = random.Random(5)
    frames = [chance.randbytes(8) + bytes(60) for _ in range(5_000)]
    frames += [bytes([0x5F, where]) + much + bytes(9) for where, much in itertools.product(range(4), MUCH)]
    path = capture(tmp_path / f"in.{form}", frames)
    plain, fast = counted(Engine, path), counted(CompiledEngine, path)
    assert fast == plain
    ways = [frame[0] >> 3 & 1 for frame in frames], [frame[0] >> 4 & 1 for frame in frames]
    asked = sum(map(sum, ways))
    assert plain.asked.events == {"seen": sum(frame[0] >> 1 & 1 for frame in frames), "again": asked}
    assert plain.asked.armed == {"fetch": asked}
    assert plain.asked.trigger_counters.total() == sum(
        int.from_bytes(frame[2:8]) * (frame[0] & 1) + 2 * (frame[0] >> 2 & 1) for frame in frames
    )


MUCH = [(number).to_bytes(6) for number in (0, 1, 65_535, 65_536, (1 << 48) - 1)]
