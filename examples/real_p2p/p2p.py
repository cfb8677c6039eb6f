# SPDX-License-Identifier: Apache-2.0
"""NVMe to NIC memory, peer to peer, by a controller that nicemu did not write: QEMU's, on a PCIe fabric.

Chunks lie on a namespace. The controller moves them into a BAR that stands for NIC memory, where its queues
and PRP lists lie, too; no host buffer is touched. Every byte is checked, then three things are measured. They
are figures of QEMU's model: what they tell is that the path works and where its time goes, not how fast a
disk is.
Run: python examples/real_p2p/p2p.py [--json]
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from nicemu.errors import NicemuError
from nicemu.fabric import NIC_BAR, QemuFabric, QemuNamespace
from nicemu.nvme import InitiatorState, IoOpcode, NvmeInitiator, queue_memory_bytes
from nicemu.pcie import load_u32

BLOCK_BYTES, BLOCKS_A_CHUNK, CHUNKS, DEPTH = 4096, 64, 64, 8
CHUNK_BYTES = BLOCK_BYTES * BLOCKS_A_CHUNK
DATA = NIC_BAR + (16 << 20)
WORD = NIC_BAR + (15 << 20)
VECTOR = 1
PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk that has landed: its number, its bus address in NIC memory, and the memory itself."""

    number: int
    address: int
    data: memoryview


class Disk:
    """The fabric's controller, brought up, with `DEPTH` places for chunks in NIC memory."""

    def __init__(self, fabric: QemuFabric) -> None:
        self.fabric = fabric
        self.nvme = NvmeInitiator(
            fabric.nvme, fabric.memory, NIC_BAR, queue_memory_bytes(DEPTH), depth=DEPTH, name="nic"
        )
        self.nvme.start(time.monotonic_ns())
        while self.nvme.advance(time.monotonic_ns()) is not InitiatorState.READY:
            fabric.check()

    def submit(self, opcode: IoOpcode, slba: int, blocks: int, address: int, cookie: object = None) -> None:
        """Submit a command. Raises: NicemuError if the queue is full."""
        if self.nvme.submit(opcode, 1, slba, blocks, address, cookie) is None:
            raise NicemuError(f"{DEPTH} commands are under way already")

    def reap(self) -> list[object]:
        """Wait for completions and return their cookies. Raises: NicemuError for one that failed."""
        end = time.monotonic() + PATIENCE_S
        while not (done := self.nvme.reap()):
            if time.monotonic() > end:
                raise NicemuError(f"no completion within {PATIENCE_S} s")
        if failed := [status for _, status in done if status]:
            raise NicemuError(f"a command ended with NVMe status {failed[0]:#x}")
        return [cookie for cookie, _ in done]


def fill(fabric: QemuFabric) -> list[int]:
    """Put chunks onto the namespace, each different; return the CRC-32 of each."""
    checksums = []
    for number in range(CHUNKS):
        data = b"".join((number << 32 | place).to_bytes(8, "little") for place in range(CHUNK_BYTES // 8))
        fabric.blocks[1].view[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES] = data
        checksums.append(zlib.crc32(data))
    return checksums


def fetch(disk: Disk, numbers: range) -> Iterator[Chunk]:
    """Yield chunks as they land in NIC memory, `DEPTH` reads at a time.

    A chunk stays where it is until the next one is asked for: what sends it on (RDMA out of `address`) goes
    between.
    """
    waiting, free = list(reversed(numbers)), list(range(DEPTH))
    while waiting or len(free) < DEPTH:
        while waiting and free:
            number, place = waiting.pop(), free.pop()
            address = DATA + place * CHUNK_BYTES
            disk.submit(IoOpcode.READ, number * BLOCKS_A_CHUNK, BLOCKS_A_CHUNK, address, (number, place))
        for cookie in disk.reap():
            number, place = cookie  # type: ignore[misc]
            address = DATA + place * CHUNK_BYTES
            yield Chunk(number, address, disk.fabric.memory.view(address, CHUNK_BYTES))
            free.append(place)


def measure(disk: Disk, checksums: list[int]) -> dict[str, tuple[float, str]]:
    """Check every chunk, then measure. Raises: NicemuError if a byte is wrong."""
    wrong = [
        one.number for one in fetch(disk, range(CHUNKS)) if zlib.crc32(one.data) != checksums[one.number]
    ]
    if wrong:
        raise NicemuError(f"chunks {wrong} did not come as they were")
    started = time.perf_counter()
    for _ in range(4):
        for _ in fetch(disk, range(CHUNKS)):
            pass
    large_s = time.perf_counter() - started
    small_ns = [_small_read(disk, number) for number in range(500)]
    message_ns = [_message(disk, number) for number in range(1, 201)]
    return {
        "chunks_checked": (CHUNKS, "chunks"),
        "read_4KiB_QD1": (BLOCK_BYTES * len(small_ns) / sum(small_ns) * 1e3, "MB/s"),
        "read_4KiB_QD1_median": (median(small_ns) / 1e3, "us"),
        "read_256KiB_QD8": (4 * CHUNKS * CHUNK_BYTES / large_s / 1e6, "MB/s"),
        "doorbell_to_message_median": (median(message_ns) / 1e3, "us"),
    }


def _small_read(disk: Disk, number: int) -> int:
    started = time.perf_counter_ns()
    disk.submit(IoOpcode.READ, number, 1, DATA)
    disk.reap()
    return time.perf_counter_ns() - started


def _message(disk: Disk, number: int) -> int:
    """Return the time from the doorbell to the MSI-X word in NIC memory, and a little for the entry."""
    word = disk.fabric.bars["nic"].address + WORD - NIC_BAR
    disk.fabric.nvme.set_message(VECTOR, WORD, number)
    end = time.monotonic() + PATIENCE_S
    started = time.perf_counter_ns()
    disk.submit(IoOpcode.READ, number, 1, DATA)
    while load_u32(word) != number:
        if time.monotonic() > end:
            raise NicemuError(f"no message within {PATIENCE_S} s")
    taken_ns = time.perf_counter_ns() - started
    disk.reap()
    return taken_ns


def main(arguments: list[str]) -> None:
    """Print `name value unit` lines, or with --json one object."""
    with QemuFabric([QemuNamespace(1, CHUNKS * BLOCKS_A_CHUNK)], {"nic": 64 << 20}) as fabric:
        checksums = fill(fabric)
        figures = measure(Disk(fabric), checksums)
    if "--json" in arguments:
        print(json.dumps({name: {"value": value, "unit": unit} for name, (value, unit) in figures.items()}))
    else:
        for name, (value, unit) in figures.items():
            print(f"{name} {value:.1f} {unit}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NicemuError as error:
        raise SystemExit(f"p2p: {error}") from error
