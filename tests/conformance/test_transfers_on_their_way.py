# SPDX-License-Identifier: Apache-2.0
"""What becomes of transfers that have left and not landed, when something is taken from under them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import NicemuError, UsageError
from nicemu.host import Counter, Nic
from nicemu.model import Operation, read_profile, timings_of
from nicemu.nic import NicConfig, SmartNic
from nicemu.run import Simulation
from nicemu.testing.choices import Schedule
from tests.conformance.modelled_world import LENDER, MEMORY, Compute, computes

PHYSICAL = read_profile("physical")
World = tuple[Simulation, Compute]
DEFERRED = """
from nicemu.firmware import Arrival, Connection, Nic, on_arrival, on_connect

pages = {}

@on_connect
def lend(nic: Nic, connection: Connection) -> dict[str, int]:
    page = nic.allocate(1 << 17, remote=True)
    nic.write(page.address, (5).to_bytes(8, "little"))
    pages[connection.qp_num] = page, connection.private_data["address"], connection.private_data["rkey"]
    return {"address": page.address + (1 << 16), "rkey": page.key}

@on_arrival
async def write_back(nic: Nic, arrival: Arrival) -> None:
    page, address, rkey = pages[arrival.qp_num]
    go, done = nic.allocate_counter(), nic.allocate_counter()
    nic.arm_write(go, 1, arrival.qp_num, page, 0, 8, address, rkey, None, done)
    for number in range(1, 8):
        nic.arm_write(done, number, arrival.qp_num, page, 8, 32768, address + 8, rkey, None, done)
    go.add(1)
    await done.reaches(8)
"""
"""Firmware that answers with a flag, and with eight writes behind it that nobody hears of."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with computes(PHYSICAL, tmp_path, 1, 4096) as (simulation, (host,)):
        yield simulation, host


def device_of(world: World) -> SmartNic:
    return world[0].nics["compute0"]


def in_flight(world: World) -> int:
    """Fired operations that some counter of the compute NIC waits for."""
    return int(device_of(world).unit.state.counters["in_flight"].sum())


def send_without_receive(world: World, names: tuple[str, str]) -> dict[str, Counter]:
    """Let a message land at a peer that has no receive posted, and wait there; return its counters."""
    simulation, host = world
    counters = dict(zip(names, host.nic.counters(*names), strict=True))
    with host.nic.program("a message") as program:
        program.when(counters["trigger"] >= 1).send(host.local, host.far.qp_num, then=counters["sent"])
    program.arm()
    counters["trigger"].add()
    simulation.run_until(lambda: False, 1_000_000)
    assert device_of(world).unit.slots_in_use == 1
    return counters


@pytest.mark.parametrize("names", [("trigger", "sent"), ("sent", "trigger")])
def test_a_host_goes_while_its_message_waits_for_a_receive(world: World, names: tuple[str, str]) -> None:
    send_without_receive(world, names)
    world[1].nic.close()
    world[0].run_until_idle()
    assert device_of(world).unit.slots_in_use == 0
    assert in_flight(world) == 0


def test_a_transfer_counts_as_fired_once(world: World) -> None:
    simulation, host = world
    host.arm(Operation.STORE, 3)
    host.go.add()
    simulation.run_until_idle()
    assert device_of(world).statistics()["fired"] == 3


def test_a_window_has_no_more_slots_than_its_size_while_transfers_are_on_their_way(world: World) -> None:
    simulation, host = world
    with host.nic.program("forty writes") as program:
        for number in range(40):
            program.when(host.go >= number + 1).write(host.local, host.far, then=host.done)
    program.window(4)
    used = []
    for _ in range(40):
        host.go.add()
        used.append(device_of(world).unit.slots_in_use)
        simulation.run_until(lambda: False, 100)
    simulation.run_until_idle()
    assert max(used) == 4
    assert host.done.read() == (40, 0)
    assert device_of(world).unit.slots_in_use == 0


@pytest.mark.parametrize("which", ["go", "done"])
def test_a_counter_of_transfers_on_their_way_is_not_closed(world: World, which: str) -> None:
    host = world[1]
    host.arm(Operation.STORE, 3)
    host.go.add()
    with pytest.raises(UsageError, match=r"\(EBUSY\); wait for the completions"):
        (host.go if which == "go" else host.done).close(force=True)
    world[0].run_until_idle()
    assert host.done.read() == (3, 0)


def test_force_disconnects_a_queue_pair_with_transfers_on_their_way(world: World) -> None:
    simulation, host = world
    host.arm(Operation.STORE, 3)
    host.go.add()
    with pytest.raises(UsageError, match=r"named by 3 armed operations \(EBUSY\)"):
        host.nic.connection.request("disconnect", qp_num=host.far.qp_num, force=False)
    host.nic.connection.request("disconnect", qp_num=host.far.qp_num, force=True)
    simulation.run_until_idle()
    assert host.done.read() == (0, 0)
    assert (device_of(world).unit.slots_in_use, in_flight(world)) == (0, 0)
    assert device_of(world).statistics()["writes"] == 0


def test_a_posted_message_that_waits_for_a_receive_goes_with_its_queue_pair(world: World) -> None:
    simulation, host = world
    piece = Sge(host.local.address, host.local.length_bytes, host.local.key)
    host.nic.post(host.far.qp_num, WorkRequest(Opcode.SEND, (piece,)))
    simulation.run_until(lambda: False, 1_000_000)
    assert device_of(world).unit.slots_in_use == 1
    host.nic.connection.request("disconnect", qp_num=host.far.qp_num, force=True)
    assert device_of(world).unit.slots_in_use == 0


def test_a_deferred_message_that_waits_for_a_receive_goes_with_its_counter_alone(world: World) -> None:
    counters = send_without_receive(world, ("trigger", "sent"))
    with pytest.raises(UsageError, match="close the counters of what is due by force"):
        world[1].nic.connection.request("disconnect", qp_num=world[1].far.qp_num, force=True)
    counters["trigger"].close(force=True)
    assert (device_of(world).unit.slots_in_use, in_flight(world)) == (0, 0)
    counters["sent"].close()
    world[1].nic.connection.request("disconnect", qp_num=world[1].far.qp_num, force=True)


def test_no_byte_moves_under_a_key_that_was_taken_back(world: World) -> None:
    simulation, host = world
    host.arm(Operation.STORE, 3)
    host.go.add()
    host.nic.connection.request("deregister", key=host.local.key, force=True)
    simulation.run_until_idle()
    assert host.done.read() == (0, 3)
    assert (device_of(world).unit.slots_in_use, in_flight(world)) == (0, 0)
    assert device_of(world).statistics()["writes"] == 0


def test_a_chooser_takes_over_what_is_on_its_way(world: World) -> None:
    simulation, host = world
    host.arm(Operation.STORE, 3)
    host.go.add()
    simulation.step_by(Schedule())
    assert simulation.run_until(lambda: host.done.read() == (3, 0), 1_000_000)
    assert (device_of(world).unit.slots_in_use, in_flight(world)) == (0, 0)
    simulation.step_by(None)


def test_a_limit_holds_also_for_transfers_that_run_ahead(world: World) -> None:
    simulation, host = world
    host.arm(Operation.STORE, 10)
    host.go.add()
    with pytest.raises(NicemuError, match="still busy after 1000 ns"):
        simulation.run_until_idle(1000)


@pytest.mark.parametrize("waits", [True, False])
def test_a_flag_in_memory_is_seen_when_it_lands(tmp_path: Path, waits: bool) -> None:
    """Also where the NIC that writes it, and does not tell, could go on by itself."""
    timings = timings_of(PHYSICAL)
    configs = [
        NicConfig(name, f"127.0.1.{number}", number, MEMORY, timings=timings)
        for number, name in enumerate(("here", "there"), start=1)
    ]
    simulation = Simulation(configs)
    script = tmp_path / "deferred.py"
    script.write_text(DEFERRED)
    simulation.load_firmware("there", script)
    with Nic(simulation.open_nic("here")) as nic:
        local = nic.register(nic.allocate((1 << 16,)))
        peer = nic.connect("there", address=local.address, rkey=local.key)
        far = peer.span(peer.private_data["address"], 4096, peer.private_data["rkey"])
        go, flag, done = nic.counters("go", "flag", "done")
        flag.follow(local[:8])
        with nic.program("ask, and answer the flag") as program:
            program.when(go >= 1).write(local[:4096], far, imm_data=0)
            program.when(flag >= 5).write(local[:4096], far, then=done)
        program.arm()
        begin_ns = simulation.clock.now_ns()
        go.add()
        if waits:
            simulation.run_until(lambda: False, 1_000_000)
        simulation.run_until_idle()
        assert done.read() == (1, 0)
        answered_ns = int(simulation.nics["here"].arena.pacing.last.max()) - begin_ns
        behind_ns = int(simulation.nics["there"].arena.pacing.last.max()) - begin_ns
        assert answered_ns < behind_ns / 2


def test_a_log_for_races_loses_nothing_of_transfers_that_could_run_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nicemu.nic.notes.NOTE_COUNT", 32)
    monkeypatch.setattr("nicemu.nic.notes._COUNT", np.uint64(32))
    configs = [
        NicConfig(name, f"127.0.1.{number}", number, MEMORY, timings=timings_of(PHYSICAL))
        for number, name in enumerate(("here", "there"), start=1)
    ]
    simulation = Simulation(configs, check_races=True)
    script = tmp_path / "lender.py"
    script.write_text(LENDER)
    simulation.load_firmware("there", script)
    with Nic(simulation.open_nic("here")) as nic:
        local = nic.register(nic.allocate((8,)))
        peer = nic.connect("there", bytes=8)
        far = peer.span(peer.private_data["address"], 8, peer.private_data["rkey"])
        (done,) = nic.counters("done")
        with nic.program("a chain") as program:
            for threshold in range(1, 51):
                program.when(done >= threshold).write(local, far, then=done)
        program.arm()
        done.add()
        simulation.run_until_idle()
        assert done.read() == (51, 0)
    assert int(simulation.nics["here"].arena.link[0].notes_lost) == 0
