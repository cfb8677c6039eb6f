# SPDX-License-Identifier: Apache-2.0
"""The stepper: virtual time moves from event to event, and no further than it was asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nicemu.abi import Limits, registers
from nicemu.errors import NicemuError, UsageError
from nicemu.fabric import FaultRates
from nicemu.host import Nic
from nicemu.nic import NicConfig
from nicemu.pcie import load_u64
from nicemu.run import Simulation, SteppedStream
from nicemu.timing import Cost, Timings

SMALL = Limits(counter_count=16, slot_count=16)
CLIENT = bytes((127, 0, 1, 9))


def config(name: str = "a", ip: str = "127.0.1.1", timings: Timings | None = None) -> NicConfig:
    return NicConfig(name, ip, memory_bytes=1 << 20, limits=SMALL, timings=timings or Timings())


@pytest.fixture
def simulation() -> Simulation:
    return Simulation([config()])


def frame_to(ip: bytes, number: int = 0) -> bytes:
    return bytes(12) + b"\x08\x00" + bytes(16) + ip + bytes([number])


def test_events_happen_in_order_of_time_then_of_scheduling(simulation: Simulation) -> None:
    happened: list[tuple[str, int]] = []
    for when_ns, name in ((20, "late"), (10, "first"), (10, "second")):
        simulation.schedule(when_ns, lambda name=name: happened.append((name, simulation.clock.now_ns())))  # type: ignore[misc]
    simulation.run_until_idle()
    assert happened == [("first", 10), ("second", 10), ("late", 20)]


def test_waiting_moves_time_to_its_end_and_no_further(simulation: Simulation) -> None:
    happened: list[int] = []
    simulation.schedule(1000, lambda: happened.append(1))
    assert not simulation.run_until(lambda: bool(happened), 999)
    assert (simulation.clock.now_ns(), happened) == (999, [])
    assert simulation.run_until(lambda: bool(happened), 1)
    assert simulation.clock.now_ns() == 1000


def test_a_world_that_never_rests_is_noticed(simulation: Simulation) -> None:
    def again() -> None:
        simulation.schedule(simulation.clock.now_ns() + 10, again)

    again()
    with pytest.raises(NicemuError, match="still busy after 1000 ns"):
        simulation.run_until_idle(1000)


def test_frames_take_the_time_of_the_link_and_wait_for_each_other() -> None:
    simulation = Simulation([config(timings=Timings(link=Cost(100, 1.0)))])
    inbox = simulation.add_client(CLIENT)
    for number in range(2):
        simulation.nics["a"].send_frame(frame_to(CLIENT, number))
    arrivals = []
    while simulation.step():
        if inbox:
            arrivals.append((simulation.clock.now_ns(), inbox.popleft()[-1]))
    length = len(frame_to(CLIENT))
    assert arrivals == [(100 + length, 0), (100 + 2 * length, 1)]


def test_a_frame_that_was_held_back_does_not_change_sides() -> None:
    """Requests and RDMA frames have a port each, so that a reordered one goes on as what it is."""
    simulation = Simulation([config("a"), config("b", "127.0.1.2")], faults=FaultRates(reordering=1.0))
    here, there = simulation.nics["a"], simulation.nics["b"]
    taken: list[tuple[int, bool]] = []

    def observe(block: str, what: str, details: dict[str, Any]) -> None:
        if block == "port":
            taken.append((details["bytes"], details["roce"]))

    there.observe = observe
    request, rdma = frame_to(bytes((127, 0, 1, 2))), frame_to(bytes((127, 0, 1, 2))) + b"rdma"
    for frame, roce in ((rdma, True), (request, False), (request, False), (rdma, True)):
        here._send([frame], roce)
        simulation.run_until_idle()
    assert sorted(taken) == [(len(request), False)] * 2 + [(len(rdma), True)] * 2


def test_kernels_of_a_stream_cost_virtual_time(simulation: Simulation, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(
        "class Kernels:\n    def add(self, a, b):\n        return a + b\n\n"
        "def kernels(memory, **settings):\n    return Kernels()\n"
    )
    stream = SteppedStream(simulation, cost_ns=500)
    stream.load(tmp_path / "kernels.py", {})
    connection = simulation.open_nic("a")
    place = registers.DOORBELLS + 8 * 5
    stream.launch("add", a=1, b=2)
    stream.store(connection.bar, place, 7)
    stream.launch("add", a=3, b=4)
    assert load_u64(connection.bar.address + place) == 0, "the store overtook the kernel before it"
    assert stream.synchronize() == [3, 7]
    assert simulation.clock.now_ns() == 1000
    assert load_u64(connection.bar.address + place) == 7


def test_a_nic_that_is_not_there_is_named(simulation: Simulation) -> None:
    with pytest.raises(UsageError, match="there is no NIC 'b'; there are a"):
        simulation.open_nic("b")


def test_memory_of_a_connection_is_the_nics_too(simulation: Simulation) -> None:
    connection = simulation.open_nic("a")
    memory, address = connection.share(4096, "gpu")
    np.frombuffer(memory.view, np.uint8)[:] = 7
    assert simulation.nics["a"].memory.space.read(address, 4096, "test") == bytes([7]) * 4096


def test_a_host_that_has_closed_its_nic_keeps_its_memory_and_crashes_nothing() -> None:
    simulation = Simulation([NicConfig("compute0", "127.0.1.1", limits=SMALL)])
    nic = Nic(simulation.open_nic("compute0"))
    (counter,) = nic.counters("counter")
    memory = nic.allocate((64,))
    span = nic.register(memory)
    memory.array[:] = 7
    nic.close()
    for other in range(3):  # memory of others takes the place of what was unmapped
        Nic(simulation.open_nic("compute0")).allocate((1 << 20,)).array[:] = other
    assert (memory.array == 7).all()
    late: list[Callable[[], object]] = [
        nic.completions.poll,
        nic.completions.wait,
        nic.take_completions,
        nic.receive,
        nic.flush,
        nic.connected_peers,
        counter.read,
        counter.add,
        lambda: nic.connect("peer"),
        lambda: nic.allocate((8,)),
        lambda: nic.transmit(bytes(64)),
        lambda: nic.post_receive(span, 1),
        lambda: nic.slots_free,
        lambda: counter.trigger_after(simulation.stream()),
        lambda: counter.wait_on(simulation.stream(), 1),
        lambda: counter.follow(span[:8]),
    ]
    for call in late:
        with pytest.raises(UsageError, match="closed"):
            call()


def test_firmware_that_never_rests_is_loaded_when_its_start_has_ended(
    simulation: Simulation, tmp_path: Path
) -> None:
    script = tmp_path / "tick.py"
    script.write_text(
        """from nicemu.firmware import on_start

@on_start
async def start(nic):
    await nic.delay(500)
    nic.spawn("tick", tick(nic))

async def tick(nic):
    while True:
        await nic.delay(1_000)
        nic.count("ticks")
"""
    )
    simulation.load_firmware("a", script)
    assert simulation.clock.now_ns() == 500 + 10_000_000
    simulation.run_until(lambda: False, 10_000)
    assert simulation.nics["a"].statistics()["ticks"] == 10_000 + 10
