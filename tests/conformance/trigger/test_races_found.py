# SPDX-License-Identifier: Apache-2.0
"""Programs with one planted race each, as a new user would write them, and the same programs put right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nicemu.host import Memory, Nic, Peer
from nicemu.nic import NicConfig
from nicemu.run import Simulation
from nicemu.testing import Race, RaceKind, RaceReport, check_races

FIRMWARE = """
from nicemu.firmware import Arrival, Connection, Nic, on_arrival, on_connect

buffers = {}

@on_connect
def grant(nic: Nic, connection: Connection) -> dict[str, int]:
    buffer = buffers[connection.qp_num] = nic.allocate(8192, remote=True, atomic=True)
    return {"address": buffer.address, "rkey": buffer.key}

@on_arrival
async def answer(nic: Nic, arrival: Arrival) -> None:
    "Write the first 64 bytes back to where the message says."
    buffer = buffers[arrival.qp_num]
    address = int.from_bytes(nic.read(buffer.address, 8), "little")
    rkey = int.from_bytes(nic.read(buffer.address + 8, 8), "little")
    await nic.rdma_write(arrival.qp_num, buffer, 0, 64, address, rkey, None)
"""


@dataclass
class World:
    """A process at NIC "here", connected to memory of NIC "there"."""

    simulation: Simulation
    nic: Nic
    peer: Peer

    def remote(self, first: int = 0, length: int = 4096):  # type: ignore[no-untyped-def] # noqa: ANN201
        """Memory of the peer."""
        data = self.peer.private_data
        return self.peer.span(data["address"] + first, length, data["rkey"])


@pytest.fixture(params=["interpreted", "compiled"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    configs = [NicConfig("here", "127.0.1.1", 1, 1 << 20), NicConfig("there", "127.0.1.2", 2, 1 << 20)]
    simulation = Simulation(configs, compiled=request.param == "compiled", check_races=True)
    script = tmp_path / "there.py"
    script.write_text(FIRMWARE)
    simulation.load_firmware("there", script)
    with Nic(simulation.open_nic("here")) as nic:
        yield World(simulation, nic, nic.connect("there"))


def fill(memory: Memory) -> Callable[[], None]:
    def kernel() -> None:
        memory.array[:] = 7

    return kernel


def check(world: World, right: bool, kind: RaceKind) -> Race | None:
    """Say that the report of a program that is right is empty, and of another one has one race of a kind."""
    report = check_races(world.simulation)
    assert report.is_whole
    if right:
        assert report.races == [], str(report)
        return None
    assert [race.kind for race in report.races] == [kind], str(report)
    race = report.races[0]
    places = [access.place for access in race.accesses if "firmware" not in access.what]
    assert all(Path(__file__).name in place for place in places), str(report)
    return race


RIGHT = pytest.mark.parametrize("right", [False, True], ids=["wrong", "right"])


@RIGHT
def test_a_kernel_that_nothing_orders_before_the_count_is_found(world: World, right: bool) -> None:
    nic, stream = world.nic, world.simulation.stream()
    memory = nic.allocate((4096,))
    local = nic.register(memory)
    produced, delivered = nic.counters("produced", "delivered")
    with nic.program("swap out") as program:
        program.when(produced >= 1).write(local, world.remote(), then=delivered)
    program.arm()
    stream.submit(fill(memory), writes=[local])
    if right:
        produced.trigger_after(stream)
    else:
        produced.add()  # the kernel may still run
    delivered.wait(1)
    race = check(world, right, RaceKind.SOURCE_NOT_READY)
    if race is not None:
        assert [access.what for access in race.accesses] == [
            "the write of `kernel` in stream 0",
            'step 1 of program "swap out" (rdma write) reads here',
        ]
        assert "`produced.add()`" in race.fired_by[0].what
        assert "`produced.trigger_after(stream)`" in race.cure
        assert race.length_bytes == 4096


@RIGHT
def test_a_source_that_is_overwritten_after_the_doorbell_is_found(world: World, right: bool) -> None:
    nic, stream = world.nic, world.simulation.stream()
    memory = nic.allocate((4096,))
    local = nic.register(memory)
    produced, delivered = nic.counters("produced", "delivered")
    with nic.program("swap out") as program:
        program.when(produced >= 1).write(local, world.remote(), then=delivered)
    program.arm()
    stream.submit(fill(memory), writes=[local])
    produced.trigger_after(stream)
    if right:
        delivered.wait(1)
    else:
        stream.synchronize()  # the kernel is done, the write perhaps not
    memory.view("w", local[0:64])[:] = 9
    race = check(world, right, RaceKind.SOURCE_OVERWRITTEN)
    if race is not None:
        assert race.length_bytes == 64
        assert "`delivered.wait(1)`" in race.cure
        assert "`produced` in stream 0" in race.fired_by[0].what


@RIGHT
def test_a_next_kernel_that_overwrites_the_source_is_found(world: World, right: bool) -> None:
    nic, stream = world.nic, world.simulation.stream()
    memory = nic.allocate((4096,))
    local = nic.register(memory)
    produced, delivered = nic.counters("produced", "delivered")
    with nic.program("swap out") as program:
        for step in (1, 2):
            program.when(produced >= step).write(local, world.remote(), then=delivered)
    program.arm()
    for step in (1, 2):
        if right and step > 1:
            delivered.wait_on(stream, step - 1)
        stream.submit(fill(memory), writes=[local])
        produced.trigger_after(stream)
    delivered.wait(2)
    race = check(world, right, RaceKind.SOURCE_OVERWRITTEN)
    if race is not None:
        assert "`delivered.wait_on(stream, 1)`" in race.cure


@RIGHT
def test_a_landing_buffer_that_is_read_before_its_counter_was_observed_is_found(
    world: World, right: bool
) -> None:
    nic = world.nic
    memory = nic.allocate((4096,))
    local = nic.register(memory)
    go, landed = nic.counters("go", "landed")
    with nic.program("fetch") as program:
        program.when(go >= 1).read(local, world.remote(), then=landed)
    program.arm()
    go.add()
    if right:
        landed.wait(1)
    assert memory.view("r").sum() == 0
    race = check(world, right, RaceKind.LANDING_NOT_OBSERVED)
    if race is not None:
        assert "`landed.wait(1)`" in race.cure


@RIGHT
def test_one_of_two_ends_that_share_a_counter_tells_of_neither(world: World, right: bool) -> None:
    nic = world.nic
    local = nic.register(memory := nic.allocate((8192,)))
    other = nic.connect("there")
    data = other.private_data
    go, done = nic.counters("go", "done")
    with nic.program("two fetches") as program:
        program.when(go >= 1).read(local[0:4096], world.remote(), then=done)
        program.when(go >= 1).read(
            local[4096:8192], other.span(data["address"], 4096, data["rkey"]), then=done
        )
    program.arm()
    go.add()
    done.wait(2 if right else 1)  # either may end first: they are on different queue pairs
    memory.view("r", local[0:4096])
    race = check(world, right, RaceKind.LANDING_NOT_OBSERVED)
    if race is not None:
        assert "`done.wait(2)`" in race.cure
        assert "others count at `done` in no order with it" in race.cure


@RIGHT
def test_a_landing_buffer_that_is_reused_while_a_kernel_reads_it_is_found(world: World, right: bool) -> None:
    nic, stream = world.nic, world.simulation.stream()
    memory = nic.allocate((4096,))
    local = nic.register(memory)
    go, landed = nic.counters("go", "landed")
    with nic.program("fetch") as program:
        for step in (1, 2):
            program.when(go >= step).read(local, world.remote(), then=landed)
    program.arm()
    go.add()
    landed.wait_on(stream, 1)
    stream.submit(lambda: memory.array.sum(), reads=[local])
    if right:
        go.trigger_after(stream)
    else:
        go.add()  # the second block lands while the kernel reads the first
    landed.wait(2)
    race = check(world, right, RaceKind.LANDING_REUSED)
    if race is not None:
        assert "`go.trigger_after(stream)`" in race.cure


@RIGHT
def test_landing_memory_that_a_peer_writes_is_found(world: World, right: bool) -> None:
    nic = world.nic
    (landed,) = nic.counters("landed")
    request, memory = nic.allocate((16,)), nic.allocate((64,))
    source, landing = nic.register(request), nic.register(memory, landed)
    request.view("w").view("u8")[:] = landing.address, landing.key
    (asked,) = nic.counters("asked")
    with nic.program("ask") as program:
        program.when(asked >= 1).write(source, world.remote(0, 16), imm_data=0)
    program.arm()
    asked.add()
    if right:
        landed.wait(1)
    memory.view("r").sum()
    race = check(world, right, RaceKind.LANDING_NOT_OBSERVED)
    if race is not None:
        assert "`landed.wait(1)`" in race.cure


@RIGHT
def test_two_operations_that_land_on_overlapping_bytes_are_found(world: World, right: bool) -> None:
    nic = world.nic
    other = nic.connect("there")
    memory = nic.allocate((8192,))
    local = nic.register(memory)
    go, landed = nic.counters("go", "landed")
    data = other.private_data
    second = local[4096:8192] if right else local[4032:8128]
    with nic.program("fetch") as program:
        program.when(go >= 1).read(local[0:4096], world.remote(), then=landed)
        program.when(go >= 1).read(second, other.span(data["address"], 4096, data["rkey"]), then=landed)
    program.arm()
    go.add()
    landed.wait(2)
    memory.view("r")
    race = check(world, right, RaceKind.OVERLAPPING_OPERATIONS)
    if race is not None:
        assert race.length_bytes == 64
        assert [access.what for access in race.accesses] == [
            'step 1 of program "fetch" (rdma read) writes here',
            'step 2 of program "fetch" (rdma read) writes here',
        ]


@RIGHT
def test_operations_that_wait_for_each_other_may_share_bytes(world: World, right: bool) -> None:
    nic = world.nic
    other = nic.connect("there")
    memory = nic.allocate((4096,))
    local = nic.register(memory)
    go, landed = nic.counters("go", "landed")
    data = other.private_data
    with nic.program("fetch") as program:
        program.when(go >= 1).read(local, world.remote(), then=landed)
        condition = landed >= 1 if right else go >= 2
        program.when(condition).read(local, other.span(data["address"], 4096, data["rkey"]), then=landed)
    program.arm()
    go.add()
    go.add()
    landed.wait(2)
    check(world, right, RaceKind.OVERLAPPING_OPERATIONS)


@RIGHT
@pytest.mark.parametrize("fires", [False, True])
def test_memory_that_is_deregistered_under_armed_work_is_found(
    world: World, right: bool, fires: bool
) -> None:
    nic = world.nic
    memory = nic.allocate((4096,))
    local = nic.register(memory)
    produced, delivered = nic.counters("produced", "delivered")
    with nic.program("swap out") as program:
        program.when(produced >= 1).write(local, world.remote(), then=delivered)
    program.arm()
    if right and fires:
        produced.add()
        delivered.wait(1)
    elif right:
        program.cancel()
    nic.deregister(local, force=True)
    if fires:
        produced.add()
    race = check(world, right, RaceKind.DEREGISTERED)
    if race is not None:
        assert race.accesses[0].what == "nic.deregister()"
        assert race.accesses[1].what.startswith('step 1 of program "swap out"')
        assert "`program.cancel()`" in race.cure


@RIGHT
def test_a_host_that_reads_what_a_kernel_writes_without_a_synchronize_is_found(
    world: World, right: bool
) -> None:
    stream = world.simulation.stream()
    memory = world.nic.allocate((4096,))
    local = world.nic.register(memory)
    stream.submit(fill(memory), writes=[local])
    if right:
        stream.synchronize()
    memory.view("r")
    check(world, right, RaceKind.STREAM_NOT_SYNCHRONIZED)


def test_a_report_says_what_was_not_seen(world: World) -> None:
    stream = world.simulation.stream()
    stream.submit(lambda: None)
    stream.synchronize()
    report: RaceReport = check_races(world.simulation)
    text = str(report)
    assert "no races found" in text
    assert "what was not declared was not looked at" in text
    assert "work in streams that did not say what it touches: 1" in text
    assert report.as_data()["undeclared_stream_work"] == 1


def test_without_check_races_nothing_is_noted() -> None:
    simulation = Simulation([NicConfig("here", "127.0.1.1", 1, 1 << 20)])
    with Nic(simulation.open_nic("here")) as nic:
        (counter,) = nic.counters("counter")
        counter.add()
        assert simulation.logs == []
        assert simulation.nics["here"].arena.link[0].note_tail == 0
