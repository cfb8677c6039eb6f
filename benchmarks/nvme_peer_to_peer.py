# SPDX-License-Identifier: Apache-2.0
"""Reads of 1 MiB at depth 8 into NIC memory: nicemu's NVMe path against plain direct I/O.

Both sides read the same file in the same order, in alternation, with as many threads. Plain direct I/O is
this file's own: threads that call preadv(2) on an O_DIRECT descriptor. Prints `name value unit` lines; the
goal is a ratio of at least 0.9.
Run: python benchmarks/nvme_peer_to_peer.py [directory of the test file] [--json]
"""

from __future__ import annotations

import mmap
import os
import select
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Final

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
from nicemu.programs import load_module
from nicemu.run import FileBlockIo, create_namespace_file

reports = load_module(Path(__file__).with_name("rig") / "report.py")

FILE_BYTES: Final = 256 << 20
READ_BYTES: Final = 1 << 20
BLOCK_BYTES: Final = 4096
DEPTH: Final = 8
ROUNDS: Final = 10
GOAL: Final = 0.9
NIC: Final = 0x8000_0000
QUEUES: Final = NIC + DEPTH * READ_BYTES


class NicemuReader:
    """The whole path, from submission queue to completion queue, all of it in NIC memory."""

    def __init__(self, path: Path) -> None:
        queue_bytes = queue_memory_bytes(DEPTH)
        self.memory = AddressSpace()
        self.memory.add(NIC, "nic", Backing.memfd("nic", DEPTH * READ_BYTES + queue_bytes))
        block_count = FILE_BYTES // BLOCK_BYTES
        self._device = FileBlockIo(path, BLOCK_BYTES, block_count, self.memory, DEPTH)
        self.direct = self._device.direct
        self._controller = NvmeController(self.memory, [Namespace(1, BLOCK_BYTES, block_count, str(path))])
        registers = LocalRegisters(self._controller, time.monotonic_ns)
        self._initiator = NvmeInitiator(registers, self.memory, QUEUES, queue_bytes, depth=DEPTH)
        self._initiator.start(time.monotonic_ns())
        if self._initiator.advance(time.monotonic_ns()) is not InitiatorState.READY:
            raise SystemExit("the controller did not come up")

    def read_all(self) -> float:
        """Read the file once; return the seconds."""
        started = time.perf_counter()
        blocks_per_read = READ_BYTES // BLOCK_BYTES
        free = [NIC + place * READ_BYTES for place in range(DEPTH)]
        slba = outstanding = 0
        while slba < FILE_BYTES // BLOCK_BYTES or outstanding:
            while free and slba < FILE_BYTES // BLOCK_BYTES:
                buffer = free.pop()
                self._initiator.submit(IoOpcode.READ, 1, slba, blocks_per_read, buffer, buffer)
                slba += blocks_per_read
                outstanding += 1
            for io in self._controller.take_io():
                self._device.submit(io)
            select.select([self._device], [], [])
            for tag, io_status in self._device.take_completions():
                self._controller.on_io_complete(tag, io_status, time.monotonic_ns())
            for buffer, status in self._initiator.reap():
                if status != NvmeStatus.SUCCESS:
                    raise SystemExit(f"a read ended with status {status:#x}")
                free.append(buffer)
                outstanding -= 1
        return time.perf_counter() - started

    def close(self) -> None:
        """Stop the threads."""
        self._device.close()


class PlainReader:
    """Threads that read the next piece of the file until there is none."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self._buffers = [mmap.mmap(-1, READ_BYTES) for _ in range(DEPTH)]

    def read_all(self) -> float:
        """Read the file once; return the seconds."""
        offsets = iter(range(0, FILE_BYTES, READ_BYTES))
        failures: list[BaseException] = []

        def work(buffer: mmap.mmap) -> None:
            try:
                for offset in offsets:
                    if os.preadv(self._fd, [buffer], offset) != READ_BYTES:
                        raise OSError(f"a short read at {offset}")
            except BaseException as error:
                failures.append(error)

        started = time.perf_counter()
        threads = [threading.Thread(target=work, args=(buffer,)) for buffer in self._buffers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
        if failures:
            raise failures[0]
        return seconds

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def fill(path: Path) -> None:
    """Store data in every block, so that reads have to fetch it."""
    piece = os.urandom(READ_BYTES)
    with path.open("r+b") as file:
        for _ in range(FILE_BYTES // READ_BYTES):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def main(directory: Path) -> None:
    """Measure and print."""
    report = reports.Report("nvme_peer_to_peer")
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        path = Path(scratch) / "namespace"
        create_namespace_file(path, FILE_BYTES)
        fill(path)
        nicemu, plain = NicemuReader(path), PlainReader(path)
        readers: dict[str, NicemuReader | PlainReader] = {"nicemu": nicemu, "plain": plain}
        try:
            if not nicemu.direct:
                raise SystemExit(f"the file system of {directory} has no O_DIRECT; name another directory")
            nicemu.read_all(), plain.read_all()
            nicemu.memory.traffic.clear()
            rates: dict[str, list[float]] = {"nicemu": [], "plain": []}
            for round_number in range(ROUNDS):
                order = ("nicemu", "plain") if round_number % 2 else ("plain", "nicemu")
                for name in order:
                    rates[name].append(FILE_BYTES / readers[name].read_all() / 1e6)
            other = sum(count for (_, kind), count in nicemu.memory.traffic.items() if kind != "nic")
        finally:
            nicemu.close()
            plain.close()
    ratios = [mine / theirs for mine, theirs in zip(rates["nicemu"], rates["plain"], strict=True)]
    report.add_rounds("read", rates["nicemu"], "MB/s")
    report.add_rounds("plain_direct_read", rates["plain"], "MB/s")
    report.add_goal("ratio", median(ratios), "ratio", GOAL)
    report.add("ratio_lowest", min(ratios), "ratio")
    report.add("ratio_highest", max(ratios), "ratio")
    report.add("bytes_through_host_memory", other, "bytes")
    report.write()


if __name__ == "__main__":
    named = reports.operands()
    main(Path(named[0] if named else tempfile.gettempdir()))
