# SPDX-License-Identifier: Apache-2.0
"""The NVMe controller: registers and doorbells in, block I/O and interrupts out, completions in memory.

The driver calls in with the time and takes out effects: `take_io` what has to be read and written,
`take_interrupts` the vectors of completion queues with new entries. I/O starts at once; its completion is
posted when it is done and its modelled time has come.

Source: NVM Express Base Specification 2.0, "Controller Properties", "Controller Initialization", "Command
Processing".
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from nicemu.errors import NvmeCommandError, NvmeStatus, UsageError
from nicemu.pcie import PAGE_BYTES, AddressSpace
from nicemu.timing import AnyCost, Cost, Resource

from .admin import AdminCommands
from .command import Sqe
from .identify import controller_identity
from .io_command import check_io
from .log_page import IoTotals
from .namespace import BlockIo, BlockIoKind, Namespace
from .queue import SubmissionQueue
from .queue_table import ADMIN, QueueTable
from .registers import DOORBELL_BASE, VERSION_2_0, Capabilities, Configuration, Register, Status

DEFAULT_MDTS: Final = 9
"""2 MiB in pages of 4096 bytes."""

_NORMAL_SHUTDOWN: Final = 1


@dataclass(frozen=True, slots=True)
class _IoCommand:
    """Which command an I/O tag belongs to, and when it may complete."""

    sq_id: int
    cid: int
    target_ns: int
    kind: BlockIoKind
    length_bytes: int


class NvmeController:
    """One controller with namespaces over memory that may lie anywhere.

    `faults` counts, by name, what a host did that the specification forbids and that no command could report;
    the offending write is ignored. A completion queue that is full holds completions back until its head
    moves. `initiator` is the name under which `memory.traffic` counts the controller's own accesses.
    Raises: UsageError for two namespaces with one nsid, or parameters out of range.
    """

    def __init__(
        self,
        memory: AddressSpace,
        namespaces: Iterable[Namespace],
        *,
        read_cost: AnyCost = Cost(),  # noqa: B008 - a frozen value
        write_cost: AnyCost = Cost(),  # noqa: B008 - a frozen value
        io_queue_limit: int = 16,
        max_queue_entry_count: int = 1024,
        mdts: int = DEFAULT_MDTS,
        serial: str = "NICEMU0001",
        initiator: str = "nvme",
    ) -> None:
        self.namespaces: dict[int, Namespace] = {}
        for namespace in namespaces:
            if namespace.nsid in self.namespaces:
                raise UsageError(f"two namespaces have nsid {namespace.nsid}; each needs its own")
            self.namespaces[namespace.nsid] = namespace
        if not (1 <= io_queue_limit <= 1024 and 2 <= max_queue_entry_count <= 65536 and 1 <= mdts <= 16):
            raise UsageError(
                f"io_queue_limit {io_queue_limit}, max_queue_entry_count {max_queue_entry_count}, "
                f"mdts {mdts}; allowed are 1 to 1024, 2 to 65536 and 1 to 16"
            )
        self.max_transfer_bytes = PAGE_BYTES << mdts
        self.faults: Counter[str] = Counter()
        self._memory = memory
        self._initiator = initiator
        self._read = Resource(read_cost)
        self._write = Resource(write_cost)
        self._capabilities = Capabilities(max_queue_entry_count).encode()
        self._table = QueueTable(memory, max_queue_entry_count, io_queue_limit + 1, initiator)
        identity = controller_identity(serial, mdts, max(self.namespaces, default=0))
        self.totals = IoTotals()
        self._admin = AdminCommands(
            self._table,
            self.namespaces,
            memory,
            identity,
            io_queue_limit,
            self,
            initiator,
            self.totals,
            self.max_transfer_bytes,
        )
        self._registers = {Register.AQA: 0, Register.ASQ: 0, Register.ACQ: 0}
        self._cc = 0
        self._is_ready = self._is_fatal = False
        self._interrupt_mask = 0
        self._next_tag = 1
        self._waiting: dict[int, BlockIo] = {}
        self._performing: set[int] = set()
        self._commands: dict[int, _IoCommand] = {}
        self._due: list[tuple[int, int, int, NvmeStatus]] = []
        self._due_sequence = 0

    # Registers

    def read_register(self, offset: int) -> int:
        """Return the 32 bits of the register at `offset`; 0 where there is none."""
        if offset in (Register.CAP, Register.CAP + 4):
            return self._capabilities >> 8 * (offset - Register.CAP) & 0xFFFF_FFFF
        if offset == Register.VS:
            return VERSION_2_0
        if offset in (Register.INTMS, Register.INTMC):
            return self._interrupt_mask
        if offset == Register.CC:
            return self._cc
        if offset == Register.CSTS:
            return int(self._status())
        for register in (Register.ASQ, Register.ACQ):
            if offset == register + 4:
                return self._registers[register] >> 32
        return self._registers.get(offset, 0) & 0xFFFF_FFFF  # type: ignore[call-overload, no-any-return]

    def write_register(self, offset: int, value: int, now_ns: int) -> None:
        """Store 32 bits at `offset`; a doorbell makes the controller fetch and execute at once.

        Nothing that a host writes makes this raise: what is not allowed is counted in `faults` and ignored.
        """
        value &= 0xFFFF_FFFF
        if offset >= DOORBELL_BASE:
            self._ring(offset, value, now_ns)
        elif offset == Register.CC:
            self._configure(value, now_ns)
        elif offset == Register.INTMS:
            self._interrupt_mask |= value
        elif offset == Register.INTMC:
            self._interrupt_mask &= ~value
        elif offset == Register.AQA or offset & ~4 in (Register.ASQ, Register.ACQ):
            self._set_admin_register(offset, value)
        else:
            self.faults["register.not_writable"] += 1

    # Effects and time

    def take_io(self) -> list[BlockIo]:
        """Take the I/O to perform, in order; from here on it cannot be aborted."""
        ios = list(self._waiting.values())
        self._waiting.clear()
        self._performing.update(io.tag for io in ios)
        return ios

    def on_io_complete(self, tag: int, status: NvmeStatus, now_ns: int) -> None:
        """Hear that an I/O is done; its completion is posted now or when its target has come.

        Raises: UsageError for a tag that is not being performed.
        """
        if tag not in self._performing:
            raise UsageError(f"I/O tag {tag} is not being performed; each one taken completes once")
        self._performing.discard(tag)
        command = self._commands.get(tag)
        if command is not None:
            self._due_sequence += 1
            heapq.heappush(self._due, (command.target_ns, self._due_sequence, tag, status))
        self.on_timer(now_ns)
        self._finish_reset()

    def next_deadline_ns(self) -> int | None:
        """Return when `on_timer` wants to be called: the earliest target among finished I/O."""
        return self._due[0][0] if self._due else None

    def on_timer(self, now_ns: int) -> None:
        """Post the completions whose time has come, in order of their targets."""
        while self._due and self._due[0][0] <= now_ns:
            _, _, tag, status = heapq.heappop(self._due)
            command = self._commands.pop(tag)
            if status is NvmeStatus.SUCCESS:
                self.totals.count(command.kind, command.length_bytes)
            self._complete(command.sq_id, command.cid, status)

    def take_interrupts(self) -> list[int]:
        """Take the vectors to raise: of completion queues with new entries, unless masked."""
        return self._table.take_vectors(self._interrupt_mask)

    @property
    def outstanding_io_count(self) -> int:
        """I/O commands that are not done, or done before their time."""
        return len(self._commands)

    @property
    def held_completion_count(self) -> int:
        """Completions that wait for room in their queue."""
        return self._table.held_count

    def cancel_io(self, sq_id: int, cid: int | None, status: NvmeStatus) -> bool:
        """Complete a command whose I/O nobody has taken, all of the queue's if `cid` is None.

        True if there was one.
        """
        cancelled = [
            (tag, command)
            for tag in self._waiting
            if (command := self._commands.get(tag)) and command.sq_id == sq_id and cid in (None, command.cid)
        ]
        for tag, command in cancelled:
            del self._waiting[tag], self._commands[tag]
            self._table.complete(command.sq_id, command.cid, status)
        return bool(cancelled)

    # Doorbells and commands

    def _ring(self, offset: int, value: int, now_ns: int) -> None:
        if not self._is_running:
            self.faults["doorbell.not_ready"] += 1
            return
        place, misaligned = divmod(offset - DOORBELL_BASE, 4)
        queue_id, is_completion = divmod(place, 2)
        queue = (
            self._table.find_completion(queue_id) if is_completion else self._table.find_submission(queue_id)
        )
        if misaligned or queue is None:
            self.faults["doorbell.invalid_register"] += 1
        elif not queue.ring(value):
            self.faults["doorbell.invalid_value"] += 1
        elif isinstance(queue, SubmissionQueue):
            self._execute_all(queue, now_ns)
        else:
            self._post_held(queue_id)

    def _execute_all(self, sq: SubmissionQueue, now_ns: int) -> None:
        while self._is_running:
            try:
                sqe = sq.fetch()
            except UsageError:
                self._fail("queue.memory_gone")
                return
            if sqe is None:
                return
            if not self._table.begin(sq.sq_id, sqe.cid):
                self._complete(sq.sq_id, sqe.cid, NvmeStatus.COMMAND_ID_CONFLICT, ends_command=False)
                continue
            try:
                if sq.sq_id == ADMIN:
                    self._execute_admin(sqe)
                else:
                    self._execute_io(sq.sq_id, sqe, now_ns)
            except NvmeCommandError as error:
                self._complete(sq.sq_id, sqe.cid, error.status)
            except UsageError:
                self._fail("queue.memory_gone")

    def _execute_admin(self, sqe: Sqe) -> None:
        outcome = self._admin.execute(sqe)
        if outcome is None:
            self._admin.complete_deletions()
        else:
            self._complete(ADMIN, sqe.cid, *outcome)

    def _execute_io(self, sq_id: int, sqe: Sqe, now_ns: int) -> None:
        request = check_io(sqe, self.namespaces, self._memory, self.max_transfer_bytes, self._initiator)
        direction = self._read if request.kind is BlockIoKind.READ else self._write
        target_ns = direction.complete_at(request.length_bytes, now_ns)
        tag = self._new_tag()
        self._commands[tag] = _IoCommand(sq_id, sqe.cid, target_ns, request.kind, request.length_bytes)
        self._waiting[tag] = BlockIo(
            tag, request.kind, request.nsid, request.offset_bytes, request.segments, target_ns, request.fua
        )

    def _complete(
        self, sq_id: int, cid: int, status: int, result: int = 0, *, ends_command: bool = True
    ) -> None:
        try:
            self._table.complete(sq_id, cid, status, result, ends_command=ends_command)
            self._admin.complete_deletions()
        except UsageError:
            self._fail("queue.memory_gone")

    def _post_held(self, cq_id: int) -> None:
        try:
            self._table.post_held(cq_id)
            self._admin.complete_deletions()
        except UsageError:
            self._fail("queue.memory_gone")

    def _new_tag(self) -> int:
        self._next_tag += 1
        return self._next_tag - 1

    # Controller state

    @property
    def _is_running(self) -> bool:
        return self._is_ready and bool(self._cc & 1) and not self._is_fatal

    def _status(self) -> Status:
        status = Status(0)
        if self._is_ready:
            status |= Status.READY
        if self._is_fatal:
            status |= Status.FATAL
        if Configuration.decode(self._cc).shutdown:
            is_busy = self._waiting or self._performing
            status |= Status.SHUTDOWN_OCCURRING if is_busy else Status.SHUTDOWN_COMPLETE
        return status

    def _set_admin_register(self, offset: int, value: int) -> None:
        if self._cc & 1:
            self.faults["register.controller_enabled"] += 1
        elif offset == Register.AQA:
            self._registers[Register.AQA] = value
        else:
            register = Register(offset & ~4)
            shift = 32 if offset & 4 else 0
            self._registers[register] &= ~(0xFFFF_FFFF << shift)
            self._registers[register] |= value << shift

    def _configure(self, value: int, now_ns: int) -> None:
        was, wanted = Configuration.decode(self._cc), Configuration.decode(value)
        if wanted.enable and not was.enable and self._is_ready:
            self.faults["register.enabled_before_reset_was_done"] += 1
            return
        self._cc = value
        if was.enable and not wanted.enable:
            self._reset()
        elif wanted.enable and not was.enable:
            self._enable(wanted)
        if wanted.shutdown == _NORMAL_SHUTDOWN and not was.shutdown and self._is_running:
            self._flush_all(now_ns)

    def _enable(self, wanted: Configuration) -> None:
        self._admin.configuration = wanted
        aqa = self._registers[Register.AQA]
        try:
            if wanted.command_set or wanted.page_shift or wanted.arbitration:
                raise UsageError(
                    "only the NVM command set, pages of 4096 bytes and round robin are supported"
                )
            self._table.create_admin(
                self._registers[Register.ASQ],
                (aqa & 0xFFF) + 1,
                self._registers[Register.ACQ],
                (aqa >> 16 & 0xFFF) + 1,
            )
        except UsageError:
            self._fail("register.configuration")
            return
        self._is_ready = True

    def _reset(self) -> None:
        """Forget all commands; CSTS.RDY stays set until the last DMA in flight is over."""
        self._table.reset()
        self._admin.reset()
        self._commands.clear()
        self._waiting.clear()
        self._due.clear()
        self._is_fatal = False
        self._finish_reset()

    def _finish_reset(self) -> None:
        if not self._cc & 1 and not self._performing:
            self._is_ready = False

    def _flush_all(self, now_ns: int) -> None:
        """Have every namespace flushed before the shutdown is complete; these I/Os belong to no command."""
        for nsid in self.namespaces:
            tag = self._new_tag()
            self._waiting[tag] = BlockIo(tag, BlockIoKind.FLUSH, nsid, 0, (), now_ns)

    def _fail(self, fault: str) -> None:
        self.faults[fault] += 1
        self._is_fatal = True
