# SPDX-License-Identifier: Apache-2.0
"""The NIC's NVMe controller, its own or one outside, and the firmware's initiator for it, queues in NIC
memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from nicemu.errors import NvmeStatus, ProtocolError, UsageError
from nicemu.nvme import (
    FIRST_QUEUE,
    BlockIo,
    InitiatorState,
    IoOpcode,
    LocalRegisters,
    Messages,
    MessageTable,
    Namespace,
    NvmeController,
    NvmeInitiator,
    NvmeRegisters,
    OutsideController,
    queue_memory_bytes,
)

from .config import NicConfig
from .memory import NicMemory

if TYPE_CHECKING:
    from .device import SmartNic

DEPTH = 32
SINGLE_QUEUES = 4
"""Queue pairs for one command at a time, asked of a controller: their completions can count."""
_VECTORS = 1 + 1 + SINGLE_QUEUES
POLL_NS = 10_000
"""How often a controller outside is looked at while commands are under way, and a gate that is shut."""
OWN_ROUNDS, OUTSIDE_ROUNDS = 64, 200_000
"""Looks at a controller until it must be ready; one outside works beside this process."""
_OPCODES = {"read": IoOpcode.READ, "write": IoOpcode.WRITE, "flush": IoOpcode.FLUSH}


_Command = tuple[IoOpcode, int, int, int, int, Any]


class Gate(Protocol):
    """Lets the commands of a queue pair through one by one, and hears of each."""

    @property
    def is_open(self) -> bool:
        """Whether the next command may go."""
        ...

    def expect(self) -> None:
        """A command goes now."""
        ...

    def withdraw(self) -> None:
        """It did not go."""
        ...


class Storage:
    """Commands in, block I/O out, completions back; transfers name NIC memory, so they are peer-to-peer.

    With a controller `outside` there is no block I/O to hand out: it moves the data by itself, and what it
    has completed is looked for every `POLL_NS` while commands are under way. Should it be lost, everything
    completes with INTERNAL_ERROR from there on, and `on_lost` is told why. `gates`, by queue pair, say when
    a command may go; `messages` are the controller's interrupts, one for each queue pair.
    Raises: UsageError if the namespaces of the controller outside are not those of the configuration;
    ProtocolError if a controller does not become ready.
    """

    def __init__(
        self,
        config: NicConfig,
        memory: NicMemory,
        now: Callable[[], int],
        outside: OutsideController | None = None,
        on_lost: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.namespaces = {entry.nsid: (entry.block_bytes, entry.block_count) for entry in config.namespaces}
        self.controller: NvmeController | None = None
        self._outside = outside
        self._on_lost = on_lost
        self.messages: Messages
        self._own_messages = MessageTable(memory.space, _VECTORS)
        registers: NvmeRegisters
        if outside is None:
            self.controller = _own_controller(config, memory)
            registers, self.messages = LocalRegisters(self.controller, now), self._own_messages
        else:
            registers, self.messages = outside.registers, outside
        queue_bytes = queue_memory_bytes(DEPTH, single_queues=SINGLE_QUEUES)
        base = memory.allocate(queue_bytes)
        self._initiator = NvmeInitiator(
            registers,
            memory.space,
            base,
            queue_bytes,
            depth=DEPTH,
            name="nic",
            reach=None if outside is None else outside.reach,
            single_queues=SINGLE_QUEUES,
        )
        self.gates: dict[int, Gate] = {}
        self.outstanding = 0
        """Commands that have not completed: their buffers are in use."""
        self._now = now
        self._waiting: dict[int, deque[_Command]] = {}
        self._bring_up(config)

    @classmethod
    def of(cls, device: SmartNic, outside: OutsideController | None) -> Storage:
        """Return the storage of a NIC; the loss of its controller is counted there, and in its fault log."""

        def lost(reason: str) -> None:
            device.drops["nvme.controller_lost"] += 1
            device.fault_log.append(f"nvme: {reason}")

        return cls(device.config, device.memory, lambda: device.now_ns, outside, lost)

    def _bring_up(self, config: NicConfig) -> None:
        self._initiator.start(self._now())
        for _ in range(OWN_ROUNDS if self._outside is None else OUTSIDE_ROUNDS):
            if self._outside is not None:
                self._outside.check()
            if self._initiator.advance(self._now()) is InitiatorState.READY:
                break
        else:
            raise ProtocolError(f"{config.name}: the NVMe controller did not become ready")
        found = {
            nsid: (space.block_bytes, space.block_count) for nsid, space in self._initiator.namespaces.items()
        }
        if found != self.namespaces:
            raise UsageError(
                f"{config.name} is to have the namespaces {self.namespaces} (nsid: block bytes, blocks); its "
                f"controller has {found}"
            )

    @property
    def single_queues(self) -> tuple[int, ...]:
        """Queue pairs for one command at a time."""
        return self._initiator.single_queues

    def is_idle(self, queue: int) -> bool:
        """Whether nothing waits for a queue pair, and nothing is under way there."""
        return queue not in self._waiting and self._initiator.is_idle(queue)

    def submit(
        self,
        opcode: str,
        nsid: int,
        slba: int,
        block_count: int,
        address: int,
        cookie: object,
        queue: int = FIRST_QUEUE,
    ) -> None:
        """Submit a command to a queue pair; it waits here while that is full, or its gate shut.

        Raises: UsageError for a namespace that is not there or a length that no command can carry; one that
        has waited completes with INVALID_FIELD.
        """
        command = (_OPCODES[opcode], nsid, slba, block_count, address, cookie)
        if queue in self._waiting or not self._post(command, queue):
            self._waiting.setdefault(queue, deque()).append(command)
        self.outstanding += 1

    def _post(self, command: _Command, queue: int) -> bool:
        """Submit a command if it can go now; to a controller that is lost, none can."""
        if self._is_lost:
            return False
        gate = self.gates.get(queue)
        try:
            if gate is not None and not self._passes(gate, queue):
                return False
        except ProtocolError as error:
            self._lose(str(error))
            return False
        try:
            return self._initiator.submit(*command, queue=queue) is not None
        except ProtocolError as error:
            self._lose(str(error))
            return True  # it has been put down as outstanding before the doorbell was rung
        finally:
            if gate is not None and self._initiator.is_idle(queue):
                gate.withdraw()

    def _passes(self, gate: Gate, queue: int) -> bool:
        if not gate.is_open or not self._initiator.is_idle(queue):
            return False
        gate.expect()
        return True

    def complete(self, tag: int, status: NvmeStatus, now_ns: int) -> None:
        """Hear from the driver that an I/O is done."""
        if self.controller is not None:
            self.controller.on_io_complete(tag, status, now_ns)

    def run(self, now_ns: int) -> tuple[list[BlockIo], list[tuple[Any, int]]]:
        """Return the I/O to perform, and (cookie, status) of what has completed."""
        ios: list[BlockIo] = []
        if self.controller is not None:
            self.controller.on_timer(now_ns)
            self._own_messages.send(self.controller.take_interrupts())
        reaped = self._reap()
        for queue in list(self._waiting):
            reaped += self._post_waiting(queue)
        if self._is_lost:
            reaped += self._initiator.reap()
            for waiting in self._waiting.values():
                reaped += [(command[-1], NvmeStatus.INTERNAL_ERROR) for command in waiting]
            self._waiting.clear()
        self.outstanding -= len(reaped)
        if self.controller is not None:
            ios = self.controller.take_io()
        return ios, reaped

    def _post_waiting(self, queue: int) -> list[tuple[Any, int]]:
        """Submit what waits for a queue pair, as far as it can go; return what cannot be expressed."""
        refused: list[tuple[Any, int]] = []
        waiting = self._waiting[queue]
        while waiting:
            try:
                if not self._post(waiting[0], queue):
                    return refused
            except UsageError:  # nobody is left to raise to
                refused.append((waiting[0][-1], NvmeStatus.INVALID_FIELD))
            waiting.popleft()
        del self._waiting[queue]
        return refused

    def _reap(self) -> list[tuple[Any, int]]:
        try:
            reaped = self._initiator.reap()
            if self._outside is not None and self.outstanding and not reaped and not self._is_lost:
                self._outside.check()
        except ProtocolError as error:
            self._lose(str(error))
            reaped = self._initiator.reap()
        return reaped

    @property
    def _is_lost(self) -> bool:
        return self._initiator.state is InitiatorState.FAILED

    def _lose(self, reason: str) -> None:
        self._initiator.abandon()
        self._on_lost(reason)

    def next_deadline_ns(self) -> int | None:
        """When a finished I/O may complete, or a controller outside or a gate is to be looked at again."""
        looks = self._outside is not None and bool(self.outstanding)
        looks = looks or any(queue in self.gates for queue in self._waiting)
        deadlines = [self._now() + POLL_NS] if looks else []
        if self.controller is not None and (done := self.controller.next_deadline_ns()) is not None:
            deadlines.append(done)
        return min(deadlines, default=None)


def _own_controller(config: NicConfig, memory: NicMemory) -> NvmeController:
    timings = config.timings
    return NvmeController(
        memory.space,
        [
            Namespace(entry.nsid, entry.block_bytes, entry.block_count, entry.path)
            for entry in config.namespaces
        ],
        read_cost=timings.nvme_read,
        write_cost=timings.nvme_write,
        serial=f"NICEMU{config.number:04d}",
    )
