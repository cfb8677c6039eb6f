# SPDX-License-Identifier: Apache-2.0
"""NVMe controllers to hold against each other, each with the memory that it and its host reach."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from nicemu.fabric import NIC_BAR, QemuFabric, QemuNamespace, QemuNvme
from nicemu.nvme import (
    LocalRegisters,
    Namespace,
    NvmeController,
    NvmeRegisters,
)
from nicemu.pcie import PAGE_BYTES, AddressSpace, Backing
from nicemu.run.block_io import BlockDevice, FileBlockIo, MemoryBlockIo, create_namespace_file

NIC = NIC_BAR
NIC_BYTES = 16 << 20
HOST = 0x80_0000_0000
HOST_BYTES = 1 << 20
BLOCKS = 1024
SMALL_NSID, SMALL_BLOCKS = 3, 64
"""A second namespace, of blocks of 512 bytes, where a rig has one."""
GUARD = 0xA5
MESSAGES = NIC + NIC_BYTES - PAGE_BYTES
"""Interrupt vector n stores a word at `MESSAGES + 8 * n`."""
MESSAGE_VECTORS = 5
LIMIT_S = 10.0
_GUARDS = bytes([GUARD]) * NIC_BYTES


class Rig(Protocol):
    """A controller with namespace 1 (of 4096-byte blocks, all zero) and memory NIC and HOST (all GUARD)."""

    name: str
    memory: AddressSpace
    registers: NvmeRegisters

    @property
    def counts_traffic(self) -> bool:
        """Whether `memory.traffic` counts the controller's own accesses."""
        ...

    def run(self) -> None:
        """Let the controller go on for a moment."""
        ...

    def take_messages(self) -> set[int]:
        """Take the interrupt vectors that have been raised, if any were."""
        ...


def until(is_true: Callable[[], bool], rig: Rig) -> None:
    """Let the controller go on until something is so."""
    deadline = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < deadline, f"{rig.name}: nothing came within {LIMIT_S} s"
        rig.run()


class NicemuRig:
    """Our controller, and a block device that does its I/O."""

    counts_traffic = True

    def __init__(self, name: str, memory: AddressSpace, devices: dict[int, BlockDevice]) -> None:
        self.name = name
        self.memory = memory
        self.devices = devices
        spaces = [Namespace(nsid, one.block_bytes, one.block_count) for nsid, one in devices.items()]
        self.controller = NvmeController(memory, spaces, io_queue_limit=4)
        self.registers: NvmeRegisters = LocalRegisters(self.controller, lambda: 0)

    def run(self) -> None:
        for io in self.controller.take_io():
            self.devices[io.nsid].submit(io)
        if self.controller.outstanding_io_count:
            select.select(list(self.devices.values()), [], [], 0.01)
        for device in self.devices.values():
            for tag, status in device.take_completions():
                self.controller.on_io_complete(tag, status, 0)

    def take_messages(self) -> set[int]:
        return set(self.controller.take_interrupts())


class QemuRig:
    """QEMU's controller on its PCIe fabric."""

    name = "qemu"
    counts_traffic = False

    def __init__(self, fabric: QemuFabric) -> None:
        self.memory = fabric.memory
        self.registers: NvmeRegisters = fabric.nvme
        for vector in range(MESSAGE_VECTORS):
            fabric.nvme.set_message(vector, MESSAGES + 8 * vector, 1)
        self.take_messages()

    def run(self) -> None:
        time.sleep(20e-6)

    def take_messages(self) -> set[int]:
        words = self.memory.view(MESSAGES, 8 * MESSAGE_VECTORS).cast("Q")
        raised = {vector for vector in range(MESSAGE_VECTORS) if words[vector] & 0xFFFF_FFFF == 1}
        for vector in range(MESSAGE_VECTORS):
            words[vector] = 0
        return raised


def _guard(memory: AddressSpace) -> None:
    for address, length_bytes in ((NIC, NIC_BYTES), (HOST, HOST_BYTES)):
        memory.view(address, length_bytes)[:] = _GUARDS[:length_bytes]


@contextmanager
def nicemu_rig(path: Path | None) -> Iterator[NicemuRig]:
    """Our controller over blocks in memory, or in a file below `path`."""
    memory = AddressSpace()
    memory.add(NIC, "nic", Backing.memfd("nic", NIC_BYTES))
    memory.add(HOST, "host", Backing.anonymous(HOST_BYTES))
    _guard(memory)
    devices: dict[int, BlockDevice] = {}
    name = "nicemu, blocks in memory"
    if path is None:
        devices[1] = MemoryBlockIo(PAGE_BYTES, BLOCKS, memory)
        devices[SMALL_NSID] = MemoryBlockIo(512, SMALL_BLOCKS, memory)
    else:
        name = "nicemu, blocks in a file"
        create_namespace_file(path / "namespace", BLOCKS * PAGE_BYTES)
        create_namespace_file(path / "small", SMALL_BLOCKS * 512)
        devices[1] = FileBlockIo(path / "namespace", PAGE_BYTES, BLOCKS, memory, 8)
        devices[SMALL_NSID] = FileBlockIo(path / "small", 512, SMALL_BLOCKS, memory, 8)
    yield NicemuRig(name, memory, devices)
    for device in devices.values():
        device.close()


def open_fabric() -> QemuFabric:
    """A fabric for rigs, one at a time."""
    spaces = [QemuNamespace(1, BLOCKS), QemuNamespace(SMALL_NSID, SMALL_BLOCKS, 512)]
    return QemuFabric(spaces, {"nic": NIC_BYTES, "host": HOST_BYTES}, queue_pairs=4)


@contextmanager
def qemu_rig(fabric: QemuFabric) -> Iterator[QemuRig]:
    """QEMU's controller, reset, over zeroed blocks."""
    nvme: QemuNvme = fabric.nvme
    nvme.write32(0x14, 0)
    for blocks in fabric.blocks.values():
        blocks.view[:] = bytes(len(blocks.view))
    _guard(fabric.memory)
    fabric.memory.traffic.clear()
    yield QemuRig(fabric)
    fabric.check()
