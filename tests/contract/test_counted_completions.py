# SPDX-License-Identifier: Apache-2.0
"""NVMe completions that feed a trigger counter: our controller and QEMU's, to a peer over both transports.

The message of a completion counts; what waits for the counter fires. Source: NVM Express over PCIe Transport
Specification 1.0, "Interrupts"; fi_trigger(3).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nicemu.errors import NicemuError, NvmeStatus, ResourceError, UsageError
from nicemu.fabric import QemuFabric, QemuNamespace, qemu_missing
from nicemu.firmware import Buffer, CompletionError, CountedQueue, NicCounter
from nicemu.firmware import Nic as FirmwareNic
from nicemu.host import Nic, Peer
from nicemu.nic import NamespaceConfig, NicConfig, SmartNic
from nicemu.pcie import Backing, store_u64
from nicemu.run import Simulation

BLOCK, BLOCKS, MEMORY = 4096, 256, 16 << 20
LIMIT_S = 10.0
LIMIT_NS = 10_000_000_000
LENDER = """
from nicemu.firmware import Connection, Nic, on_connect

@on_connect
def lend(nic: Nic, connection: Connection) -> dict[str, int]:
    page = nic.allocate(4096, remote=True)
    return {"address": page.address, "rkey": page.key}
"""


@dataclass
class World:
    """A host at compute0, whose memory storage0 may write; what lies on storage0's namespace."""

    simulation: Simulation
    blocks: Backing
    host: Nic
    peer: Peer
    fabric: QemuFabric | None

    @property
    def device(self) -> SmartNic:
        """The NIC with the controller."""
        return self.simulation.nics["storage0"]

    @property
    def nic(self) -> FirmwareNic:
        """The same, as its firmware sees it."""
        return self.device.nic

    @property
    def remote_qp(self) -> int:
        """The firmware's queue pair with the host."""
        qp = self.simulation.nics["compute0"].queue_pairs.remote_numbers[self.peer.qp_num]
        assert qp is not None
        return qp

    def until(self, is_true: Callable[[], bool]) -> None:
        """Step the world until something is so; a controller outside works beside it, in real time."""
        assert self.simulation.run_until(is_true, LIMIT_NS)

    def run(self, work: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run firmware to its end; return what it raised or returned."""
        ended: list[Any] = []

        async def task() -> None:
            try:
                ended.append(await work)
            except NicemuError as error:
                ended.append(error)

        self.nic.spawn("task", task())
        self.until(lambda: bool(ended))
        return ended

    def counted(self) -> tuple[NicCounter, CountedQueue, Buffer]:
        """Return a counter, a queue pair whose completions count there, and a block of NIC memory."""
        counter = self.nic.allocate_counter()
        return counter, self.nic.count_completions(counter), self.nic.allocate(BLOCK)

    def fill(self, slba: int, seed: int) -> bytes:
        """Put a block onto the namespace; return it."""
        content = np.random.default_rng(seed).bytes(BLOCK)
        self.blocks.view[slba * BLOCK : (slba + 1) * BLOCK] = content
        return content


@pytest.fixture(params=["direct", "port"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["nicemu", pytest.param("qemu", marks=pytest.mark.p2p)])
def world(request: pytest.FixtureRequest, transport: str, tmp_path: Path) -> Iterator[World]:
    (tmp_path / "lender.py").write_text(LENDER)
    spaces = (NamespaceConfig(1, BLOCKS),)
    configs = [
        NicConfig("compute0", "127.0.1.1", 1, MEMORY, transport=transport),
        NicConfig("storage0", "127.0.1.2", 2, MEMORY, namespaces=spaces, transport=transport),
    ]
    with ExitStack() as stack:
        fabric = None
        if request.param == "qemu":
            if missing := qemu_missing():
                pytest.skip(missing)
            fabric = stack.enter_context(QemuFabric([QemuNamespace(1, BLOCKS)], {"nic": MEMORY}))
        controllers = {} if fabric is None else {"storage0": fabric.nvme}
        simulation = Simulation(configs, controllers=controllers)
        for config in configs:
            simulation.load_firmware(config.name, tmp_path / "lender.py")
        blocks = simulation.disks["storage0"]._blocks if fabric is None else fabric.blocks[1]
        host = stack.enter_context(Nic(simulation.open_nic("compute0")))
        yield World(simulation, blocks, host, host.connect("storage0"), fabric)


def test_each_completion_counts_one_also_of_several_commands_at_once(world: World) -> None:
    counter, reads, buffer = world.counted()
    for number in range(5):
        world.nic.spawn(f"read {number}", reads.nvme_read(1, number, 1, buffer.address))
    world.until(lambda: counter.success == 5)
    assert world.run(reads.nvme_flush(1)) == [None]
    world.until(lambda: counter.success == 6)
    world.simulation.run_until_idle()
    assert counter.value == counter.success == 6


def test_a_completion_fires_the_write_of_the_bytes_that_it_has_brought(world: World) -> None:
    landing = world.host.allocate((3, BLOCK))
    target = world.host.register(landing)
    counter, reads, buffer = world.counted()
    sent = world.nic.allocate_counter()
    for number in range(3):
        content = world.fill(40 + number, number)
        place = target.address + number * BLOCK
        world.nic.arm_write(
            counter, number + 1, world.remote_qp, buffer, 0, BLOCK, place, target.key, then=sent
        )
        world.simulation.run_until_idle()
        assert not landing.array[number].any()
        world.nic.spawn("read", reads.nvme_read(1, 40 + number, 1, buffer.address))
        world.until(lambda number=number: sent.value == number + 1)  # type: ignore[misc]
        assert landing.array[number].tobytes() == content
    assert sent.success == 3


def test_the_datapath_alone_fires_it_once_the_controller_has_completed(world: World) -> None:
    """The firmware's task stays where it is; nobody has looked at the completion queue entry."""
    landing = world.host.allocate((BLOCK,))
    target = world.host.register(landing)
    counter, reads, buffer = world.counted()
    content = world.fill(7, 7)
    world.nic.arm_write(counter, 1, world.remote_qp, buffer, 0, BLOCK, target.address, target.key)
    world.simulation.run_until_idle()
    device, storage = world.device, world.device.storage
    assert storage is not None
    ended: list[object] = []
    storage.submit("read", 1, 7, 1, buffer.address, ended, reads._number)
    if storage.controller is not None:
        (io,) = storage.controller.take_io()
        world.simulation.disks["storage0"].submit(io)
        ((tag, status),) = world.simulation.disks["storage0"].take_completions()
        storage.controller.on_io_complete(tag, status, 1 << 62)
        storage._own_messages.send(storage.controller.take_interrupts())
    steps = device.scheduler.steps
    deadline = time.monotonic() + LIMIT_S
    while not device._poll(device.arena, 256, 0):
        assert time.monotonic() < deadline
    assert counter.success == 1
    assert (device.scheduler.steps, storage.outstanding) == (steps, 1)
    if world.device.config.transport == "direct":
        assert landing.array.tobytes() == content
    _, reaped = storage.run(1 << 62)
    assert reaped == [(ended, NvmeStatus.SUCCESS)]


def test_commands_of_other_queue_pairs_do_not_count(world: World) -> None:
    counter, reads, buffer = world.counted()
    other, writes, _ = world.counted()
    assert world.run(world.nic.nvme_read(1, 0, 1, buffer.address)) == [None]
    assert world.run(writes.nvme_write(1, 0, 1, buffer.address)) == [None]
    assert world.run(reads.nvme_read(1, 0, 1, buffer.address)) == [None]
    world.until(lambda: (counter.value, other.value) == (1, 1))


def test_a_command_that_the_controller_fails_counts_too(world: World) -> None:
    counter, reads, buffer = world.counted()
    (error,) = world.run(reads.nvme_read(1, BLOCKS, 1, buffer.address))
    assert isinstance(error, CompletionError)
    assert error.status is NvmeStatus.LBA_OUT_OF_RANGE
    world.until(lambda: counter.success == 1)


def test_a_command_that_the_controller_never_gets_counts_nothing_and_stops_nobody(world: World) -> None:
    counter, reads, buffer = world.counted()
    for nsid, nlb, address in ((9, 1, buffer.address), (1, 0, buffer.address), (1, 1, 0x7777_0000_0000)):
        (error,) = world.run(reads.nvme_read(nsid, 0, nlb, address))
        assert isinstance(error, NicemuError)
        assert counter.value == 0
    assert world.run(reads.nvme_read(1, 0, 1, buffer.address)) == [None]
    world.until(lambda: counter.success == 1)


def test_a_queue_pair_that_was_given_back_counts_for_the_next(world: World) -> None:
    counter, reads, buffer = world.counted()
    world.run(reads.nvme_read(1, 0, 1, buffer.address))
    world.until(lambda: counter.success == 1)
    reads.close()
    (error,) = world.run(reads.nvme_read(1, 0, 1, buffer.address))
    assert "does not count for its caller" in str(error)
    other, again, _ = world.counted()
    for _ in range(2):
        world.run(again.nvme_read(1, 0, 1, buffer.address))
    world.until(lambda: other.success == 2)
    assert counter.success == 1


def test_one_given_back_while_a_command_is_under_way_counts_no_more_and_nothing_later(world: World) -> None:
    counter, reads, buffer = world.counted()
    ended: list[object] = []
    assert world.device.storage is not None
    for number in range(3):
        world.device.storage.submit("read", 1, number, 1, buffer.address, _Signal(ended), reads._number)
    before = counter.value
    reads.close()
    world.until(lambda: len(ended) == 3)
    assert ended == [NvmeStatus.SUCCESS] * 3
    assert counter.value == before
    others = [world.counted() for _ in range(4)]
    for other, queue, page in others:
        world.run(queue.nvme_read(1, 0, 1, page.address))
        world.until(lambda other=other: other.success == 1)  # type: ignore[misc]
    assert counter.value == before


class _Signal:
    """What a command's end is told to."""

    def __init__(self, ended: list[object]) -> None:
        self._ended = ended

    def set(self, status: object) -> None:
        self._ended.append(status)


def test_there_are_as_many_as_the_controller_grants_and_a_counter_s_end_gives_its_own_back(
    world: World,
) -> None:
    counters = [world.counted()[0] for _ in range(4)]
    spare = world.nic.allocate_counter()
    with pytest.raises(ResourceError, match="4 NVMe queue pairs whose completions can count, and all are in"):
        world.nic.count_completions(spare)
    world.nic.free_counter(counters[2])
    reads = world.nic.count_completions(spare)
    page = world.nic.allocate(BLOCK)
    world.run(reads.nvme_read(1, 0, 1, page.address))
    world.until(lambda: spare.success == 1)


def test_other_firmware_finds_all_of_them_free(world: World, tmp_path: Path) -> None:
    for _ in range(4):
        world.counted()
    world.simulation.load_firmware("storage0", tmp_path / "lender.py")
    for _ in range(4):
        world.counted()


def test_the_count_goes_on_behind_the_32_bits_of_a_message(world: World) -> None:
    counter, reads, buffer = world.counted()
    interrupt = world.device.interrupts._open[reads._number]
    word = world.device.arena.followed[interrupt.place]
    interrupt._count = word.seen = 0xFFFF_FFFE
    store_u64(int(word.address), 0xFFFF_FFFE)
    for _ in range(3):
        world.run(reads.nvme_read(1, 0, 1, buffer.address))
    world.until(lambda: counter.success == 3)
    assert world.device.statistics()["flags.backwards"] == 0


@pytest.mark.parametrize("world", ["nicemu"], indirect=True)
def test_a_host_program_reads_and_sends_on_by_the_completion_alone(world: World) -> None:
    with Nic(world.simulation.open_nic("storage0")) as nic:
        peer = nic.connect("compute0")
        content, span = world.fill(3, 3), nic.register(nic.allocate((BLOCK,)))
        target = peer.span(peer.private_data["address"], BLOCK, peer.private_data["rkey"])
        go, read, done = nic.counters("go", "read", "done")
        reads = read.count_completions()
        with nic.program("send on") as program:
            program.when(go >= 1).nvme_read(span, nsid=1, slba=3, queue=reads)
            program.when(read >= 1).write(span, target, then=done)
        program.arm()
        go.add()
        done.wait(1)
        assert world.simulation.nics["compute0"].nic.read(target.address, BLOCK) == content
        assert read.read() == (1, 0)


@pytest.mark.parametrize("world", ["qemu"], indirect=True)
@pytest.mark.p2p
def test_memory_of_a_host_that_the_controller_does_not_reach_counts_nothing(world: World) -> None:
    with Nic(world.simulation.open_nic("storage0")) as nic:
        span = nic.register(nic.allocate((BLOCK,)))
        go, read, done = nic.counters("go", "read", "done")
        with nic.program("unreachable") as program:
            program.when(go >= 1).nvme_read(span, nsid=1, slba=3, queue=read.count_completions(), then=done)
        program.arm()
        go.add()
        world.until(lambda: done.errors == 1)
        assert read.read() == (0, 0)


def test_one_that_a_host_gave_back_is_refused_when_a_step_is_written(world: World) -> None:
    """Its number may be another counter's by then."""
    with Nic(world.simulation.open_nic("storage0")) as nic:
        span = nic.register(nic.allocate((BLOCK,)))
        go, first, second = nic.counters("go", "first", "second")
        old = first.count_completions()
        old.close()
        second.count_completions()
        with (
            nic.program("stale") as program,
            pytest.raises(UsageError, match=r"this queue pair was given back \(EINVAL\)"),
        ):
            program.when(go >= 1).nvme_read(span, nsid=1, slba=0, queue=old)
        assert (first.read(), second.read()) == ((0, 0), (0, 0))


def test_a_queue_pair_of_another_is_refused(world: World) -> None:
    _, reads, _ = world.counted()
    with Nic(world.simulation.open_nic("storage0")) as nic:
        span = nic.register(nic.allocate((BLOCK,)))
        go, done = nic.counters("go", "done")
        with nic.program("theirs") as program:
            program.when(go >= 1).nvme_read(span, nsid=1, slba=0, queue=reads._number, then=done)
        program.arm()
        go.add()
        world.until(lambda: done.errors == 1)
        with pytest.raises(UsageError, match=r"does not count for its caller \(EINVAL\)"):
            nic.connection.request("completions_stop", queue=reads._number)


def test_a_counter_that_a_queue_pair_feeds_is_closed_by_force_or_after_it(world: World) -> None:
    with Nic(world.simulation.open_nic("storage0")) as nic:
        counter, other = nic.counters("counter", "other")
        queue, theirs = counter.count_completions(), other.count_completions()
        said = (
            rf"is fed by NVMe queue pair {queue.__index__()} \(EBUSY\); "
            r"close what counter.count_completions\(\) returned first, or close the counter with force=True"
        )
        with pytest.raises(UsageError, match=said):
            counter.close()
        span = nic.register(nic.allocate((BLOCK,)))
        word = counter.follow(span[:8])
        said = rf"is fed by 1 word of memory and NVMe queue pair {queue.__index__()} \(EBUSY\)"
        with pytest.raises(UsageError, match=said):
            counter.close()
        queue.close()
        with pytest.raises(
            UsageError, match=r"fed by 1 word of memory \(EBUSY\); close what counter.follow\(\)"
        ):
            counter.close()
        word.close()
        counter.close()
        other.close(force=True)
        assert theirs.closed
    assert not world.device.interrupts._open


def test_a_process_that_leaves_gives_its_own_back(world: World) -> None:
    for _ in range(5):
        with Nic(world.simulation.open_nic("storage0")) as nic:
            (counter,) = nic.counters("counter")
            queue = counter.count_completions()
            place = world.device.interrupts._open[int(queue.__index__())].place
            with pytest.raises(UsageError, match="follows NVMe completions"):
                nic.connection.request("counter_unfollow", place=place)
            with pytest.raises(UsageError, match="EBUSY"):
                counter.close()
            queue.close()
            queue.close()
            counter.count_completions()
    assert not world.device.interrupts._open


def test_without_a_namespace_nothing_completes() -> None:
    device = SmartNic(NicConfig("a", "127.0.1.1"), compiled=False)
    counter = device.nic.allocate_counter()
    with pytest.raises(UsageError, match="a has no NVMe namespace"):
        device.nic.count_completions(counter)


@pytest.mark.parametrize("world", ["qemu"], indirect=True)
@pytest.mark.p2p
def test_commands_of_a_controller_that_is_lost_end_and_count_nothing(world: World) -> None:
    assert world.fabric is not None
    counter, reads, buffer = world.counted()
    world.fabric._process.kill()
    ended: list[object] = []
    assert world.device.storage is not None
    for number in range(3):
        world.device.storage.submit("read", 1, number, 1, buffer.address, _Signal(ended), reads._number)
    world.until(lambda: len(ended) == 3)
    assert ended == [NvmeStatus.INTERNAL_ERROR] * 3
    assert (counter.value, world.device.storage.outstanding) == (0, 0)


@pytest.mark.parametrize("world", ["qemu"], indirect=True)
@pytest.mark.p2p
def test_what_counted_at_a_controller_that_is_lost_can_be_given_back(world: World) -> None:
    assert world.fabric is not None
    counter, reads, _ = world.counted()
    world.counted()
    with Nic(world.simulation.open_nic("storage0")) as nic:
        (theirs,) = nic.counters("theirs")
        theirs.count_completions()
        world.fabric._process.kill()
        world.fabric._process.wait()
        reads.close()
        world.nic.free_counter(counter)
    assert not [one for one in world.device.interrupts._open.values() if one.owner]
