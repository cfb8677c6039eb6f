# SPDX-License-Identifier: Apache-2.0
"""The NIC's NVMe controller and the firmware's initiator for it, queues in NIC memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from nicemu.errors import NvmeStatus, ProtocolError, UsageError
from nicemu.nvme import (
    BlockIo,
    InitiatorState,
    IoOpcode,
    LocalRegisters,
    Namespace,
    NvmeController,
    NvmeInitiator,
    queue_memory_bytes,
)

from .config import NicConfig
from .memory import NicMemory

DEPTH = 32
_OPCODES = {"read": IoOpcode.READ, "write": IoOpcode.WRITE, "flush": IoOpcode.FLUSH}


class Storage:
    """Commands in, block I/O out, completions back; transfers name NIC memory, so they are peer-to-peer."""

    def __init__(self, config: NicConfig, memory: NicMemory, now: Callable[[], int]) -> None:
        self.namespaces = {entry.nsid: (entry.block_bytes, entry.block_count) for entry in config.namespaces}
        spaces = [
            Namespace(entry.nsid, entry.block_bytes, entry.block_count, entry.path)
            for entry in config.namespaces
        ]
        timings = config.timings
        self.controller = NvmeController(
            memory.space,
            spaces,
            read_cost=timings.nvme_read,
            write_cost=timings.nvme_write,
            serial=f"NICEMU{config.number:04d}",
        )
        queue_bytes = queue_memory_bytes(DEPTH)
        base = memory.allocate(queue_bytes)
        self._initiator = NvmeInitiator(
            LocalRegisters(self.controller, now), memory.space, base, queue_bytes, depth=DEPTH, name="nic"
        )
        self.outstanding = 0
        """Commands that have not completed: their buffers are in use."""
        self._waiting: deque[tuple[IoOpcode, int, int, int, int, Any]] = deque()
        self._initiator.start(now())
        for _ in range(64):
            if self._initiator.advance(now()) is InitiatorState.READY:
                break
        else:
            raise ProtocolError(f"{config.name}: the NVMe controller did not become ready")

    def submit(
        self, opcode: str, nsid: int, slba: int, block_count: int, address: int, cookie: object
    ) -> None:
        """Submit a command; it waits here while the queue is full.

        Raises: UsageError for a namespace that is not there or a length that no command can carry; one that
        has waited completes with INVALID_FIELD.
        """
        command = (_OPCODES[opcode], nsid, slba, block_count, address, cookie)
        if self._waiting or self._initiator.submit(*command) is None:
            self._waiting.append(command)
        self.outstanding += 1

    def complete(self, tag: int, status: NvmeStatus, now_ns: int) -> None:
        """Hear from the driver that an I/O is done."""
        self.controller.on_io_complete(tag, status, now_ns)

    def run(self, now_ns: int) -> tuple[list[BlockIo], list[tuple[Any, int]]]:
        """Return the I/O to perform, and (cookie, status) of what has completed."""
        self.controller.on_timer(now_ns)
        self.controller.take_interrupts()
        reaped = self._initiator.reap()
        while self._waiting:
            try:
                if self._initiator.submit(*self._waiting[0]) is None:
                    break
            except UsageError:  # nobody is left to raise to
                reaped.append((self._waiting[0][-1], NvmeStatus.INVALID_FIELD))
            self._waiting.popleft()
        self.outstanding -= len(reaped)
        return self.controller.take_io(), reaped

    def next_deadline_ns(self) -> int | None:
        """When a finished I/O may complete."""
        return self.controller.next_deadline_ns()
