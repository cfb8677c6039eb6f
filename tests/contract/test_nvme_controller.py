# SPDX-License-Identifier: Apache-2.0
"""What every NVMe controller does for an initiator, with its queues, lists and data in NIC memory."""

import random
import select
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import NvmeStatus
from nicemu.nvme import (
    InitiatorState,
    IoOpcode,
    LocalRegisters,
    Namespace,
    NvmeController,
    NvmeInitiator,
    queue_memory_bytes,
)
from nicemu.pcie import AddressSpace, Backing
from nicemu.run.block_io import BlockDevice, FileBlockIo, MemoryBlockIo, create_namespace_file

PAGE = 4096
BLOCKS = 1024
DEPTH = 8
HOST = 0x1000_0000
NIC = 0x8000_0000
NIC_BYTES = 16 << 20
DATA = NIC + (4 << 20)
GUARD = 0xA5
OK = NvmeStatus.SUCCESS


class Rig:
    """An initiator, the memory that both sides reach, and `pump`: let the controller do what it can."""

    def __init__(self, memory: AddressSpace, initiator: NvmeInitiator, pump: Callable[[], None]) -> None:
        self.memory = memory
        self.initiator = initiator
        self.pump = pump

    def reap(self, count: int) -> dict[Any, int]:
        """Wait for `count` completions."""
        found: dict[Any, int] = {}
        for _ in range(10_000):
            for cookie, status in self.initiator.reap():
                assert cookie not in found
                found[cookie] = status
            if len(found) == count:
                return found
            self.pump()
        raise AssertionError(f"{len(found)} of {count} commands completed")

    def do(self, opcode: IoOpcode, slba: int = 0, block_count: int = 0, buffer: int = 0) -> int:
        assert self.initiator.submit(opcode, 1, slba, block_count, buffer, "one") is not None
        return self.reap(1)["one"]


def nicemu_pump(controller: NvmeController, device: BlockDevice) -> Callable[[], None]:
    def pump() -> None:
        for io in controller.take_io():
            device.submit(io)
        if controller.outstanding_io_count:
            select.select([device], [], [], 0.01)
        for tag, status in device.take_completions():
            controller.on_io_complete(tag, status, 0)

    return pump


@pytest.fixture(params=["blocks in memory", "blocks in a file"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    memory = AddressSpace()
    memory.add(HOST, "host", Backing.anonymous(1 << 20))
    nic = memory.add(NIC, "nic", Backing.memfd("nic", NIC_BYTES))
    nic.backing.view[:] = bytes([GUARD]) * NIC_BYTES
    device: BlockDevice
    if request.param == "blocks in memory":
        device = MemoryBlockIo(PAGE, BLOCKS, memory)
    else:
        create_namespace_file(tmp_path / "namespace", BLOCKS * PAGE)
        device = FileBlockIo(tmp_path / "namespace", PAGE, BLOCKS, memory, DEPTH)
    controller = NvmeController(memory, [Namespace(1, PAGE, BLOCKS)])
    registers = LocalRegisters(controller, lambda: 0)
    initiator = NvmeInitiator(registers, memory, NIC, queue_memory_bytes(DEPTH), depth=DEPTH, name="nic")
    initiator.start(0)
    assert initiator.advance(0) is InitiatorState.READY
    yield Rig(memory, initiator, nicemu_pump(controller, device))
    device.close()


def test_the_namespace_has_the_size_of_its_blocks(rig: Rig) -> None:
    assert rig.initiator.namespaces[1].block_bytes == PAGE
    assert rig.initiator.namespaces[1].block_count == BLOCKS


@pytest.mark.parametrize("offset", [0, 4, 512, PAGE - 4])
@pytest.mark.parametrize("block_count", [1, 2, 3, 256, 512])
def test_what_is_written_is_read_again_and_guard_bytes_survive(
    rig: Rig, offset: int, block_count: int
) -> None:
    length_bytes = block_count * PAGE
    source, target = DATA + offset, DATA + (4 << 20) + offset
    data = random.Random(block_count).randbytes(length_bytes)
    rig.memory.write(source, data)
    assert rig.do(IoOpcode.WRITE, 17, block_count, source) == OK
    assert rig.do(IoOpcode.FLUSH) == OK
    assert rig.do(IoOpcode.READ, 17, block_count, target) == OK
    assert rig.memory.read(target, length_bytes) == data
    assert rig.memory.read(source, length_bytes) == data
    free = (
        rig.memory.view(DATA - 64, 64),
        rig.memory.view(source + length_bytes, target - source - length_bytes),
    )
    assert {guard for view in free for guard in set(view)} == {GUARD}
    assert set(rig.memory.view(target + length_bytes, 4096)) == {GUARD}


def test_neighbouring_blocks_are_left_alone(rig: Rig) -> None:
    rig.memory.write(DATA, b"n" * PAGE)
    assert rig.do(IoOpcode.WRITE, 5, 1, DATA) == OK
    assert rig.do(IoOpcode.READ, 4, 3, DATA) == OK
    assert rig.memory.read(DATA, 3 * PAGE) == bytes(PAGE) + b"n" * PAGE + bytes(PAGE)


def test_commands_at_full_depth_each_move_their_own_data(rig: Rig) -> None:
    order = random.Random(7)
    for _ in range(4):
        places = order.sample(range(64), DEPTH)
        for place in places:
            rig.memory.write(DATA + place * PAGE, bytes([place + 1]) * PAGE)
            assert rig.initiator.submit(IoOpcode.WRITE, 1, place, 1, DATA + place * PAGE, place) is not None
        assert rig.initiator.submit(IoOpcode.WRITE, 1, 0, 1, DATA) is None
        assert rig.reap(DEPTH) == dict.fromkeys(places, OK)
        for place in places:
            target = DATA + (100 + place) * PAGE
            assert rig.initiator.submit(IoOpcode.READ, 1, place, 1, target, place) is not None
        assert rig.reap(DEPTH) == dict.fromkeys(places, OK)
        for place in places:
            assert set(rig.memory.view(DATA + (100 + place) * PAGE, PAGE)) == {place + 1}


def test_the_queues_wrap_many_times(rig: Rig) -> None:
    for round_number in range(10 * DEPTH):
        assert rig.do(IoOpcode.READ, round_number, 1, DATA) == OK


@pytest.mark.parametrize("opcode", [IoOpcode.READ, IoOpcode.WRITE])
def test_blocks_behind_the_end_are_refused_and_nothing_moves(rig: Rig, opcode: IoOpcode) -> None:
    assert rig.do(opcode, BLOCKS - 1, 2, DATA) == NvmeStatus.LBA_OUT_OF_RANGE
    assert set(rig.memory.view(DATA, 2 * PAGE)) == {GUARD}
    assert rig.do(IoOpcode.READ, BLOCKS - 1, 1, DATA) == OK
    assert set(rig.memory.view(DATA, PAGE)) == {0}


def test_memory_that_nobody_has_is_an_error_and_not_a_crash(rig: Rig) -> None:
    assert rig.do(IoOpcode.READ, 0, 1, 0x7000_0000_0000) == NvmeStatus.DATA_TRANSFER_ERROR
    assert rig.do(IoOpcode.READ, 0, 1, DATA) == OK


def test_a_transfer_never_touches_host_memory(rig: Rig) -> None:
    rig.memory.traffic.clear()
    length_bytes = 256 * PAGE
    assert rig.do(IoOpcode.WRITE, 0, 256, DATA) == OK
    assert rig.do(IoOpcode.FLUSH) == OK
    assert rig.do(IoOpcode.READ, 256, 256, DATA + length_bytes) == OK
    assert {kind for _, kind in rig.memory.traffic} == {"nic"}
    lists = 2 * 255 * 8
    assert rig.memory.traffic["nvme", "nic"] == 2 * length_bytes + lists + 3 * (64 + 16)
    assert rig.memory.traffic["nic", "nic"] == lists + 3 * (64 + 16)


def test_a_buffer_in_host_memory_is_seen_as_such(rig: Rig) -> None:
    rig.memory.traffic.clear()
    assert rig.do(IoOpcode.READ, 0, 4, HOST) == OK
    assert rig.memory.traffic["nvme", "host"] == 4 * PAGE


def test_a_stopped_controller_comes_up_again_with_its_blocks(rig: Rig) -> None:
    rig.memory.write(DATA, b"kept" * 1024)
    assert rig.do(IoOpcode.WRITE, 3, 1, DATA) == OK
    rig.initiator.stop(0)
    for _ in range(1000):
        if rig.initiator.advance(0) is InitiatorState.STOPPED:
            break
        rig.pump()
    rig.initiator.start(0)
    assert rig.initiator.advance(0) is InitiatorState.READY
    assert rig.do(IoOpcode.READ, 3, 1, DATA + PAGE) == OK
    assert rig.memory.read(DATA + PAGE, PAGE) == b"kept" * 1024
