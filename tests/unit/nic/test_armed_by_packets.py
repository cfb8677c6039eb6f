# SPDX-License-Identifier: Apache-2.0
"""`DeferredWork.arm` in P4: packets arm what the NIC's firmware has prepared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nicemu.errors import UsageError
from nicemu.host import Nic, Span
from nicemu.p4 import compile_text
from tests.unit.nic.conftest import LIMITS, Bench, request_frame

PROGRAM = """
#include <core.p4>
#include <nicemu.p4>
header byte_t {{ bit<8> value; }}
struct headers_t {{ }}
struct metadata_t {{ }}
parser P(packet_in b, out headers_t h, inout metadata_t m, inout nic_metadata_t nic) {{
    state start {{ transition accept; }}
}}
control C(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) {{
    DeferredWork("answer") answer;
    TriggerCounter() counters;
    apply {{ {apply} drop_packet(); }}
}}
control D(packet_out b, in headers_t h, in metadata_t m, in nic_metadata_t nic) {{ apply {{ }} }}
SmartNic(P(), C(), D()) main;
"""
FIRMWARE = """
from nicemu.firmware import Connection, Nic, on_connect

@on_connect
def lend(nic: Nic, connection: Connection) -> dict[str, int]:
    page = nic.allocate(4096)
    nic.write(page.address, (7).to_bytes(8, "little"))
    go, done = nic.allocate_counter(), nic.allocate_counter()
    given = connection.private_data
    nic.prepare_write("answer", connection.qp_num, page, 0, 8, given["address"], given["rkey"], None, done)
    return {"go": go.index, "done": done.index}
"""


class Armed:
    """A host at "here" whose memory NIC "there" writes to when packets there say so."""

    def __init__(self, bench: Bench, firmware: str = FIRMWARE) -> None:
        self.bench = bench
        bench.flash("there", firmware)
        self.memory = bench.nic.allocate((64,), np.uint8)
        span: Span = bench.nic.register(self.memory)
        self.peer = bench.nic.connect("there", address=span.address, rkey=span.key)
        self.go, self.done = (self.peer.private_data[name] for name in ("go", "done"))

    def runs(self, apply: str) -> None:
        """Have NIC "there" run a program; GO stands for the number of a counter of its firmware."""
        text = PROGRAM.format(apply=apply.replace("GO", str(self.go)))
        self.bench.there.pipeline.load(compile_text(text).program)

    def arrive(self, count: int = 1) -> None:
        """Let packets arrive at "there", and everything come to rest."""
        simulation = self.bench.simulation
        self.bench.there.on_frames([request_frame()] * count, simulation.clock.now_ns())
        simulation.run_until_idle()

    @property
    def ended(self) -> tuple[int, int]:
        """How many writes have landed, and how many have failed."""
        return self.bench.there.unit.read(self.done)

    @property
    def drops(self) -> dict[str, int]:
        """What was counted at "there"."""
        return self.bench.drops("there")


@pytest.fixture
def armed(bench: Bench) -> Armed:
    return Armed(bench)


def test_what_a_packet_arms_fires_when_the_counter_is_there(armed: Armed) -> None:
    armed.runs("answer.arm(GO, 3); counters.add(GO, 1);")
    armed.arrive()
    armed.arrive()
    assert armed.ended == (0, 0)
    assert armed.memory.array[:8].tobytes() == bytes(8)
    armed.arrive()
    assert armed.ended == (3, 0)
    assert armed.memory.array[:8].tobytes() == bytes([7, *bytes(7)])
    assert armed.drops == {"pipeline.dropped": 3}


def test_a_packet_arms_first_and_counts_then(armed: Armed) -> None:
    armed.runs("counters.add(GO, 1); answer.arm(GO, 1);")
    armed.arrive()
    assert armed.ended == (1, 0)


def test_what_nobody_has_prepared_is_counted_and_the_frame_goes_on(armed: Armed) -> None:
    script = "from nicemu.firmware import Nic, on_start\n@on_start\nasync def begin(nic: Nic): pass\n"
    armed.bench.flash("there", script)
    armed.runs("answer.arm(GO, 1);")
    armed.arrive()
    assert armed.drops == {"pipeline.no_prepared_work": 1, "pipeline.dropped": 1}


def test_new_firmware_finds_the_trigger_slots_and_counters_that_the_old_one_took(armed: Armed) -> None:
    armed.runs("answer.arm(GO, 1000000);")
    armed.arrive(LIMITS.slot_count // 2)
    assert armed.bench.there.unit.slots_in_use
    armed.bench.flash("there", FIRMWARE)
    unit = armed.bench.there.unit
    assert unit.slots_in_use == 0
    assert not unit.state.counters[armed.go].remote
    for _ in range(LIMITS.counter_count // 2):
        Armed(armed.bench)


def test_a_counter_that_there_is_not_arms_nothing(armed: Armed) -> None:
    armed.runs("answer.arm(0xffffffff, 1); answer.arm(100, 1);")
    armed.arrive()
    assert armed.drops == {"pipeline.counter_not_allocated": 2, "pipeline.dropped": 1}
    assert armed.bench.there.unit.slots_in_use == 0


def test_packets_take_no_more_trigger_slots_than_there_are_and_stop_nobody(armed: Armed) -> None:
    armed.runs("answer.arm(GO, 1000000);")
    armed.arrive(2 * LIMITS.slot_count)
    free = armed.bench.there.unit.free_slots(0)
    assert armed.drops["pipeline.no_trigger_slot"] >= LIMITS.slot_count
    assert free < 2
    armed.runs("counters.add(GO, 1000000);")
    armed.arrive()
    assert armed.ended == (2 * LIMITS.slot_count - armed.drops["pipeline.no_trigger_slot"], 0)
    assert armed.bench.there.unit.slots_in_use == 0


def test_new_firmware_takes_back_what_was_prepared(armed: Armed) -> None:
    armed.runs("answer.arm(GO, 5);")
    armed.bench.flash("there", FIRMWARE)
    armed.arrive()
    assert armed.drops["pipeline.no_prepared_work"] == 1


def test_nothing_is_armed_on_a_counter_of_a_process(armed: Armed) -> None:
    nic = Nic(armed.bench.simulation.open_nic("there"))
    (counter,) = nic.counters("mine")
    armed.runs(f"answer.arm({counter.index}, 0);")
    armed.arrive()
    assert armed.bench.there.unit.slots_in_use == 0
    assert armed.ended == (0, 0)


def test_what_is_prepared_again_takes_the_place_of_what_was(armed: Armed) -> None:
    twice = FIRMWARE.replace(
        "    return {",
        """    nic.write(page.address + 8, (9).to_bytes(8, "little"))
    nic.prepare_write("answer", connection.qp_num, page, 8, 8, given["address"], given["rkey"], None, done)
    return {""",
    )
    second = Armed(armed.bench, twice)
    second.runs("answer.arm(GO, 1); counters.add(GO, 1);")
    second.arrive()
    assert second.ended == (1, 0)
    assert second.memory.array[:8].tobytes() == bytes([9, *bytes(7)])


def test_a_peer_that_goes_takes_the_queue_pair_of_what_was_prepared(armed: Armed) -> None:
    armed.runs("answer.arm(GO, 1);")
    armed.bench.nic.close()
    armed.bench.simulation.run_until_idle()
    armed.arrive()
    assert armed.bench.there.unit.slots_in_use == 0


def test_only_queue_pairs_and_counters_of_the_firmware_can_be_prepared(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="queue pair 99 is not one of the firmware"):
        bench.here.nic.prepare_write("x", 99, bench.here.nic.allocate(4096), 0, 8, 0, 0)
