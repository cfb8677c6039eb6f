# SPDX-License-Identifier: Apache-2.0
"""What every block device does alike: in a file, and in memory."""

import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from nicemu.errors import NvmeStatus, UsageError
from nicemu.nvme import BlockIo, BlockIoKind, Segment
from nicemu.pcie import AddressSpace, Backing
from nicemu.run.block_io import BlockDevice, FileBlockIo, MemoryBlockIo, create_namespace_file

PAGE = 4096
BLOCKS = 64
BASE = 0x40_0000
WINDOW_BYTES = 64 * PAGE
GUARD = 0xA5
OK = NvmeStatus.SUCCESS


@pytest.fixture
def memory() -> AddressSpace:
    space = AddressSpace()
    space.add(BASE, "nic", Backing.anonymous(WINDOW_BYTES)).backing.view[:] = bytes([GUARD]) * WINDOW_BYTES
    return space


@pytest.fixture(params=["file", "memory"])
def device(request: pytest.FixtureRequest, memory: AddressSpace, tmp_path: Path) -> Iterator[BlockDevice]:
    found: BlockDevice
    if request.param == "file":
        create_namespace_file(tmp_path / "blocks", BLOCKS * PAGE)
        found = FileBlockIo(tmp_path / "blocks", PAGE, BLOCKS, memory, depth=2)
    else:
        found = MemoryBlockIo(PAGE, BLOCKS, memory)
    yield found
    found.close()


def perform(device: BlockDevice, *ios: BlockIo) -> dict[int, NvmeStatus]:
    for io in ios:
        device.submit(io)
    finished: dict[int, NvmeStatus] = {}
    while len(finished) < len(ios):
        assert select.select([device], [], [], 10)[0], "an I/O never completed"
        for tag, status in device.take_completions():
            assert tag not in finished
            finished[tag] = status
    return finished


def read(tag: int, offset_bytes: int, *segments: Segment) -> BlockIo:
    return BlockIo(tag, BlockIoKind.READ, 1, offset_bytes, segments, 0)


def write(tag: int, offset_bytes: int, *segments: Segment, fua: bool = False) -> BlockIo:
    return BlockIo(tag, BlockIoKind.WRITE, 1, offset_bytes, segments, 0, fua)


def pattern(seed: int, length_bytes: int) -> bytes:
    return bytes((seed + i * 7 + (i >> 8)) & 0xFF for i in range(length_bytes))


def test_a_new_device_reads_as_zeros(device: BlockDevice, memory: AddressSpace) -> None:
    assert perform(device, read(1, 0, (BASE + PAGE, PAGE))) == {1: OK}
    assert memory.read(BASE + PAGE, PAGE) == bytes(PAGE)


@pytest.mark.parametrize("fua", [False, True])
def test_what_is_written_is_read_again_and_guard_bytes_survive(
    device: BlockDevice, memory: AddressSpace, fua: bool
) -> None:
    data = pattern(3, 2 * PAGE)
    memory.write(BASE + 4 * PAGE, data)
    assert perform(device, write(1, 5 * PAGE, (BASE + 4 * PAGE, 2 * PAGE), fua=fua)) == {1: OK}
    assert memory.read(BASE + 4 * PAGE, 2 * PAGE) == data
    assert perform(device, read(2, 5 * PAGE, (BASE + 9 * PAGE, 2 * PAGE))) == {2: OK}
    view = memory.view(BASE, WINDOW_BYTES)
    assert view[9 * PAGE : 11 * PAGE] == data
    for start, end in ((0, 4), (6, 9), (11, 64)):
        assert set(view[start * PAGE : end * PAGE]) == {GUARD}
    assert perform(device, read(3, 4 * PAGE, (BASE, PAGE)), read(4, 7 * PAGE, (BASE + PAGE, PAGE))) == {
        3: OK,
        4: OK,
    }
    assert memory.read(BASE, 2 * PAGE) == bytes(2 * PAGE)


def test_segments_are_moved_in_order(device: BlockDevice, memory: AddressSpace) -> None:
    data = pattern(9, 3 * PAGE)
    memory.write(BASE, data)
    perform(device, write(1, 0, (BASE, 3 * PAGE)))
    places = (BASE + 30 * PAGE, PAGE), (BASE + 10 * PAGE, PAGE), (BASE + 20 * PAGE, PAGE)
    assert perform(device, read(2, 0, *places)) == {2: OK}
    assert b"".join(memory.read(*place) for place in places) == data


def test_memory_that_starts_on_no_sector_is_served_too(device: BlockDevice, memory: AddressSpace) -> None:
    data = pattern(5, PAGE)
    memory.write(BASE + 4, data)
    assert perform(device, write(1, PAGE, (BASE + 4, PAGE))) == {1: OK}
    target = BASE + 8 * PAGE + 12
    assert perform(device, read(2, PAGE, (target, 100), (target + PAGE, PAGE - 100))) == {2: OK}
    assert memory.read(target, 100) + memory.read(target + PAGE, PAGE - 100) == data
    assert memory.read(target - 1, 1) == memory.read(target + 100, 1) == bytes([GUARD])
    assert memory.read(target + 2 * PAGE - 100, 1) == bytes([GUARD])


def test_more_segments_than_one_system_call_takes(device: BlockDevice, memory: AddressSpace) -> None:
    data = pattern(1, 8 * PAGE)
    memory.write(BASE, data)
    assert perform(device, write(1, 0, *((BASE + i * 16, 16) for i in range(2048)))) == {1: OK}
    assert perform(device, read(2, 0, (BASE + 8 * PAGE, 8 * PAGE))) == {2: OK}
    assert memory.read(BASE + 8 * PAGE, 8 * PAGE) == data


def test_a_flush_completes(device: BlockDevice) -> None:
    assert perform(device, BlockIo(7, BlockIoKind.FLUSH, 1, 0, (), 0)) == {7: OK}


def test_many_at_once_complete_once_each(device: BlockDevice, memory: AddressSpace) -> None:
    for block in range(32):
        memory.write(BASE + block * PAGE, bytes([block]) * PAGE)
    writes = (write(block, block * PAGE, (BASE + block * PAGE, PAGE)) for block in range(32))
    assert perform(device, *writes) == dict.fromkeys(range(32), OK)
    reads = (read(block, block * PAGE, (BASE + (63 - block) * PAGE, PAGE)) for block in range(32))
    assert perform(device, *reads) == dict.fromkeys(range(32), OK)
    for block in range(32):
        assert set(memory.view(BASE + (63 - block) * PAGE, PAGE)) == {block}


@pytest.mark.parametrize("offset_bytes", [-PAGE, BLOCKS * PAGE, (BLOCKS - 1) * PAGE])
def test_an_io_out_of_bounds_is_refused_and_moves_nothing(
    device: BlockDevice, memory: AddressSpace, offset_bytes: int
) -> None:
    status = perform(
        device, read(1, offset_bytes, (BASE, 2 * PAGE)), write(2, offset_bytes, (BASE, 2 * PAGE))
    )
    assert status == dict.fromkeys((1, 2), NvmeStatus.LBA_OUT_OF_RANGE)
    assert set(memory.view(BASE, WINDOW_BYTES)) == {GUARD}


def test_memory_outside_every_window_is_refused_and_moves_nothing(
    device: BlockDevice, memory: AddressSpace
) -> None:
    beyond = (BASE + WINDOW_BYTES - PAGE, 2 * PAGE)
    assert perform(device, read(1, 0, (BASE, PAGE), beyond)) == {1: NvmeStatus.DATA_TRANSFER_ERROR}
    assert perform(device, write(2, 0, (BASE, PAGE), beyond)) == {2: NvmeStatus.DATA_TRANSFER_ERROR}
    assert set(memory.view(BASE, WINDOW_BYTES)) == {GUARD}
    assert perform(device, read(3, 0, (BASE, PAGE))) == {3: OK}
    assert memory.read(BASE, PAGE) == bytes(PAGE)


def test_traffic_is_counted_under_the_controllers_name(device: BlockDevice, memory: AddressSpace) -> None:
    perform(device, read(1, 0, (BASE, PAGE)), write(2, 0, (BASE, 2 * PAGE)))
    assert memory.traffic == {("nvme", "nic"): 3 * PAGE}


def test_the_descriptor_is_readable_only_while_completions_wait(device: BlockDevice) -> None:
    assert select.select([device], [], [], 0)[0] == []
    perform(device, BlockIo(1, BlockIoKind.FLUSH, 1, 0, (), 0))
    assert device.take_completions() == []


def test_close_drains_and_leaves_the_completions(device: BlockDevice, memory: AddressSpace) -> None:
    for block in range(16):
        device.submit(write(block, block * PAGE, (BASE + block * PAGE, PAGE)))
    device.close()
    assert sorted(device.take_completions()) == [(block, OK) for block in range(16)]
    device.close()
    with pytest.raises(UsageError, match="after close"):
        device.submit(read(1, 0, (BASE, PAGE)))
