# SPDX-License-Identifier: Apache-2.0
"""What every NVMe controller does for an initiator, with its queues, lists and data in NIC memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import NvmeStatus
from nicemu.nvme import (
    InitiatorState,
    IoOpcode,
    NvmeInitiator,
    queue_memory_bytes,
)
from nicemu.pcie import PAGE_BYTES as PAGE
from tests.contract.nvme_rigs import BLOCKS, GUARD, HOST, NIC, Rig, nicemu_rig, qemu_rig, until

DEPTH = 8
DATA = NIC + (4 << 20)
OK = NvmeStatus.SUCCESS


class Driven:
    """An initiator in front of a controller."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.memory = rig.memory
        self.initiator = NvmeInitiator(
            rig.registers, rig.memory, NIC, queue_memory_bytes(DEPTH), depth=DEPTH, name="nic"
        )

    def start(self) -> None:
        self.initiator.start(0)
        until(lambda: self.initiator.advance(0) is InitiatorState.READY, self.rig)

    def reap(self, count: int) -> dict[Any, int]:
        """Wait for `count` completions."""
        found: dict[Any, int] = {}

        def take() -> bool:
            for cookie, status in self.initiator.reap():
                assert cookie not in found
                found[cookie] = status
            return len(found) == count

        until(take, self.rig)
        return found

    def do(self, opcode: IoOpcode, slba: int = 0, block_count: int = 0, buffer: int = 0) -> int:
        assert self.initiator.submit(opcode, 1, slba, block_count, buffer, "one") is not None
        return self.reap(1)["one"]


@pytest.fixture(params=["blocks in memory", "blocks in a file", pytest.param("qemu", marks=pytest.mark.p2p)])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driven]:
    with ExitStack() as stack:
        made: Rig
        if request.param == "qemu":
            made = stack.enter_context(qemu_rig(request.getfixturevalue("fabric")))
        else:
            made = stack.enter_context(nicemu_rig(tmp_path if request.param == "blocks in a file" else None))
        driven = Driven(made)
        driven.start()
        yield driven


def test_the_namespace_has_the_size_of_its_blocks(rig: Driven) -> None:
    assert rig.initiator.namespaces[1].block_bytes == PAGE
    assert rig.initiator.namespaces[1].block_count == BLOCKS


@pytest.mark.parametrize("offset", [0, 4, 512, PAGE - 4])
@pytest.mark.parametrize("block_count", [1, 2, 3, 256, 512])
def test_what_is_written_is_read_again_and_guard_bytes_survive(
    rig: Driven, offset: int, block_count: int
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


def test_neighbouring_blocks_are_left_alone(rig: Driven) -> None:
    rig.memory.write(DATA, b"n" * PAGE)
    assert rig.do(IoOpcode.WRITE, 5, 1, DATA) == OK
    assert rig.do(IoOpcode.READ, 4, 3, DATA) == OK
    assert rig.memory.read(DATA, 3 * PAGE) == bytes(PAGE) + b"n" * PAGE + bytes(PAGE)


def test_commands_at_full_depth_each_move_their_own_data(rig: Driven) -> None:
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


def test_the_queues_wrap_many_times(rig: Driven) -> None:
    for round_number in range(10 * DEPTH):
        assert rig.do(IoOpcode.READ, round_number, 1, DATA) == OK


@pytest.mark.parametrize("opcode", [IoOpcode.READ, IoOpcode.WRITE])
def test_blocks_behind_the_end_are_refused_and_nothing_moves(rig: Driven, opcode: IoOpcode) -> None:
    assert rig.do(opcode, BLOCKS - 1, 2, DATA) == NvmeStatus.LBA_OUT_OF_RANGE
    assert set(rig.memory.view(DATA, 2 * PAGE)) == {GUARD}
    assert rig.do(IoOpcode.READ, BLOCKS - 1, 1, DATA) == OK
    assert set(rig.memory.view(DATA, PAGE)) == {0}


def test_memory_that_nobody_has_is_an_error_and_not_a_crash(rig: Driven) -> None:
    assert rig.do(IoOpcode.READ, 0, 1, 0x7000_0000_0000) == NvmeStatus.DATA_TRANSFER_ERROR
    assert rig.do(IoOpcode.READ, 0, 1, DATA) == OK


def test_a_transfer_never_touches_host_memory(rig: Driven) -> None:
    rig.memory.traffic.clear()
    length_bytes = 256 * PAGE
    assert rig.do(IoOpcode.WRITE, 0, 256, DATA) == OK
    assert rig.do(IoOpcode.FLUSH) == OK
    assert rig.do(IoOpcode.READ, 256, 256, DATA + length_bytes) == OK
    assert {kind for _, kind in rig.memory.traffic} == {"nic"}
    assert set(rig.memory.view(HOST, 1 << 20)) == {GUARD}
    lists = 2 * 255 * 8
    if rig.rig.counts_traffic:
        assert rig.memory.traffic["nvme", "nic"] == 2 * length_bytes + lists + 3 * (64 + 16)
    assert rig.memory.traffic["nic", "nic"] == lists + 3 * (64 + 16)


def test_a_buffer_in_host_memory_is_seen_as_such(rig: Driven) -> None:
    rig.memory.traffic.clear()
    assert rig.do(IoOpcode.READ, 0, 4, HOST) == OK
    assert set(rig.memory.view(HOST, 4 * PAGE)) == {0}
    if rig.rig.counts_traffic:
        assert rig.memory.traffic["nvme", "host"] == 4 * PAGE


def test_a_stopped_controller_comes_up_again_with_its_blocks(rig: Driven) -> None:
    rig.memory.write(DATA, b"kept" * 1024)
    assert rig.do(IoOpcode.WRITE, 3, 1, DATA) == OK
    rig.initiator.stop(0)
    until(lambda: rig.initiator.advance(0) is InitiatorState.STOPPED, rig.rig)
    rig.start()
    assert rig.do(IoOpcode.READ, 3, 1, DATA + PAGE) == OK
    assert rig.memory.read(DATA + PAGE, PAGE) == b"kept" * 1024
