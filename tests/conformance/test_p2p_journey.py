# SPDX-License-Identifier: Apache-2.0
"""The storage firmware on a controller that is not ours: QEMU's, between its disk and NIC memory in a BAR."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.fabric import QemuFabric, QemuNamespace, qemu_missing
from nicemu.host import Nic
from nicemu.nic import NamespaceConfig, NicConfig, SmartNic
from nicemu.programs import find_program, load_module
from nicemu.run import Simulation
from tests.conformance import stepped_world
from tests.conformance.stepped_world import STORAGE, World

pytestmark = pytest.mark.p2p

BLOCK = 4096
BLOCKS = 1024
MEMORY_BYTES = 16 << 20


@pytest.fixture
def fabrics() -> Iterator[dict[str, QemuFabric]]:
    """A fabric for each storage NIC, its blocks in memory."""
    if missing := qemu_missing():
        pytest.skip(missing)
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(QemuFabric([QemuNamespace(1, BLOCKS)], {"nic": MEMORY_BYTES}))
            for name in STORAGE
        }


@pytest.fixture
def world(fabrics: dict[str, QemuFabric], monkeypatch: pytest.MonkeyPatch) -> World:
    """The world of the stepped journey, with other controllers in its storage NICs."""

    def simulate(configs: list[NicConfig], **options: Any) -> Simulation:  # noqa: ANN401
        controllers = {name: fabric.nvme for name, fabric in fabrics.items()}
        return Simulation(configs, controllers=controllers, **options)

    monkeypatch.setattr(stepped_world, "Simulation", simulate)
    return World("direct")


def blocks_of(world: World, fabrics: dict[str, QemuFabric]) -> bytes:
    return b"".join(bytes(fabric.blocks[1].view) for fabric in fabrics.values())


def test_sessions_leave_and_come_back_through_a_controller_that_is_not_ours(
    world: World, fabrics: dict[str, QemuFabric]
) -> None:
    kept = [world.leave(bytes([number]) * 16, 20 + number) for number in range(3)]
    assert world.counted_on_storage("nvme.controller_lost") == 0
    world.resume.offer()
    for number in (2, 0, 1):
        slot = world.fetch(bytes([number]) * 16)
        assert slot is not None
        assert world.bytes_of(slot) == kept[number].data
        world.resume.drop(slot)
        world.poison(slot)
        world.resume.offer()
    on_disk = blocks_of(world, fabrics)
    assert on_disk.count(kept[0].data[:512]) == 1
    lines = [line.split(" ", 4)[1:4] for line in world.simulation.trace]
    assert ["storage0", "nvme", "completed"] in lines
    assert not [line for line in lines if line[1:] in (["nvme", "read"], ["nvme", "write"])]


def test_nic_memory_is_the_bar_and_peers_reach_it_there(world: World, fabrics: dict[str, QemuFabric]) -> None:
    for name, fabric in fabrics.items():
        memory = world.simulation.nics[name].memory
        assert memory.own.window.backing is fabric.bars["nic"]
        assert memory.space.view(memory.own.window.bus_address, 1).obj is fabric.bars["nic"].view.obj


def test_a_chunk_whose_bytes_changed_on_the_disk_is_not_served(
    world: World, fabrics: dict[str, QemuFabric]
) -> None:
    kept = world.leave(b"s" * 16, 32)
    world.resume.offer()
    for fabric in fabrics.values():
        view = fabric.blocks[1].view
        place = bytes(view).find(kept.data[:512])
        if place >= 0:
            view[place] ^= 1
    assert world.fetch(b"s" * 16) is None


def test_memory_outside_the_fabric_is_refused_before_the_controller_hears_of_it(world: World) -> None:
    with Nic(world.simulation.open_nic(STORAGE[0])) as nic:
        span = nic.register(nic.allocate((BLOCK,)))
        go, done = nic.counters("go", "done")
        with nic.program("host memory") as program:
            program.when(go >= 1).nvme_read(span, nsid=1, slba=0, then=done)
        program.arm()
        go.add()
        world.simulation.run_until_idle()
        assert done.read() == (0, 1)


def test_a_controller_that_is_lost_leaves_errors_and_no_command_waits(
    world: World, fabrics: dict[str, QemuFabric]
) -> None:
    world.leave(b"a" * 16, 32)
    world.resume.offer()
    for fabric in fabrics.values():
        fabric._process.kill()
    assert world.fetch(b"a" * 16) is None
    world.simulation.run_until_idle()
    lost = [nic for nic in world.simulation.nics.values() if nic.drops["nvme.controller_lost"]]
    assert lost
    for nic in lost:
        assert nic.storage is not None
        assert nic.drops["nvme.controller_lost"] == 1
        assert nic.storage.outstanding == 0
        assert "QEMU is lost" in nic.fault_log[0]


def test_the_example_moves_checked_chunks_and_measures(capsys: pytest.CaptureFixture[str]) -> None:
    if missing := qemu_missing():
        pytest.skip(missing)
    load_module(find_program("examples/real_p2p/p2p.py")).main(["--json"])
    figures = json.loads(capsys.readouterr().out)
    assert figures.pop("chunks_checked") == {"value": 64, "unit": "chunks"}
    assert all(figure["value"] > 0 for figure in figures.values())
    assert {figure["unit"] for figure in figures.values()} == {"MB/s", "us"}


@pytest.mark.parametrize(
    ("memory_bytes", "block_count", "message"),
    [
        (8 << 20, BLOCKS, "the BAR of NIC memory has 16777216 bytes"),
        (MEMORY_BYTES, BLOCKS + 1, "is to have the namespaces"),
    ],
)
def test_a_nic_that_is_not_what_the_fabric_has_is_refused(
    fabrics: dict[str, QemuFabric], memory_bytes: int, block_count: int, message: str
) -> None:
    spaces = (NamespaceConfig(1, block_count),)
    config = NicConfig("storage0", "127.0.1.2", 1, memory_bytes, namespaces=spaces)
    with pytest.raises(UsageError, match=message):
        SmartNic(config, compiled=False, controller=fabrics["storage0"].nvme)
