# SPDX-License-Identifier: Apache-2.0
"""A switch counts what a NIC's program asks of the firmware that a switch has not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nicemu.capture import PcapngWriter, PcapWriter
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine
from nicemu.switch import Summary, switch_captures
from nicemu.switch.batches import BatchForwarder, Frames

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


def counted(make: Callable[[], Engine], path: Path, text: str = PROGRAM) -> Summary:
    engine = make()
    engine.load(compile_text(text).program)
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


def test_what_was_asked_before_the_program_changed_is_kept_under_its_name() -> None:
    engine = CompiledEngine(optimised=False)
    forwarder = BatchForwarder(engine)
    for text in (PROGRAM, PROGRAM.replace('"seen"', '"other"')):
        engine.load(compile_text(text).program)
        memory = np.frombuffer(bytes([2]) + bytes(7), np.uint8)
        zero, length = np.zeros(1, np.uint64), np.full(1, 8, np.uint64)
        assert len(list(forwarder.run(Frames(memory.ctypes.data, zero, length, zero, zero)))) == 1
    forwarder.close()
    forwarder.close()
    assert forwarder.summary.asked.events == {"seen": 1, "other": 1}


def test_a_packet_that_asks_for_too_much_asks_for_nothing_on_either_engine(tmp_path: Path) -> None:
    often = "for (bit<16> i in 0 .. 300) { counter.add(1, 1); }"
    text = PROGRAM.replace("apply {\n", f"apply {{ {often}\n")
    path = capture(tmp_path / "in.pcap", [bytes(8), bytes(4)])
    plain, fast = (counted(make, path, text) for make in (Engine, CompiledEngine))
    assert fast == plain
    assert plain.dropped == {"pipeline.too_many_effects": 1, "parser.too_short": 1}
