# SPDX-License-Identifier: Apache-2.0
"""The host's side of NVMe: brings a controller up, submits commands, reaps completions.

It knows the controller only by its registers (`NvmeRegisters`), so it drives nicemu's controller and any
other alike.

Source: NVM Express Base Specification 2.0, "Controller Initialization", "Controller Shutdown", "Command
Submission and Completion Mechanism".
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from nicemu.errors import NvmeStatus, ProtocolError, UsageError
from nicemu.pcie import PAGE_BYTES, AddressSpace

from .command import AdminOpcode, Cqe, Feature, IdentifyCns, IoOpcode, Sqe
from .identify import IDENTIFY_BYTES, ControllerIdentity, NamespaceIdentity, decode_namespace_list
from .io_queue import IoQueue, Outstanding
from .prp import build_prp, list_page_count
from .queue import CompletionConsumer, SubmissionProducer
from .queue_memory import QueueMemory, queue_memory_bytes
from .register_port import NvmeRegisters
from .registers import Capabilities, Configuration, Register, Status, doorbell_offset

_ADMIN_ENTRY_COUNT: Final = 16
FIRST_QUEUE: Final = 1
"""The I/O queue pair of `depth` commands."""
_SINGLE_ENTRY_COUNT: Final = 2
_CONTIGUOUS: Final = 1
_INTERRUPTS: Final = 2
_MAX_BLOCKS_PER_COMMAND: Final = 65536


class InitiatorState(enum.Enum):
    """How far the controller has been brought up."""

    STOPPED = "stopped"
    RESETTING = "resetting"
    ENABLING = "enabling"
    CONFIGURING = "configuring"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"


TRANSITIONS: Final = {
    InitiatorState.STOPPED: {InitiatorState.RESETTING},
    InitiatorState.RESETTING: {InitiatorState.ENABLING, InitiatorState.FAILED},
    InitiatorState.ENABLING: {InitiatorState.CONFIGURING, InitiatorState.STOPPING, InitiatorState.FAILED},
    InitiatorState.CONFIGURING: {InitiatorState.READY, InitiatorState.STOPPING, InitiatorState.FAILED},
    InitiatorState.READY: {InitiatorState.STOPPING, InitiatorState.FAILED},
    InitiatorState.STOPPING: {InitiatorState.STOPPED, InitiatorState.FAILED},
    InitiatorState.FAILED: {InitiatorState.RESETTING, InitiatorState.STOPPING},
}


class NvmeInitiator:
    """I/O queue pairs of a controller, with admin queues, PRP list pages and an Identify page beside them.

    All of that lies in the `queue_bytes` bytes at `queue_base` (`queue_memory_bytes` tells how many are
    needed); data buffers may lie anywhere that the controller reaches. `depth` commands can be outstanding on
    queue pair 1. Behind it are as many of `single_queues` more as the controller grants, for one command at a
    time; queue pair n has interrupt vector n.
    `name` is the initiator under which `memory.traffic` counts accesses. `faults` counts completions that
    make no sense. After `start`, call `advance` until the state is READY.
    `reach` is the memory that the controller reaches, `memory` unless it is given. A command whose buffer is
    not in it completes with DATA_TRANSFER_ERROR and is never posted: a controller need not notice.
    Raises: UsageError if the queue memory is too small, not mapped, or does not start on a page.
    """

    def __init__(
        self,
        registers: NvmeRegisters,
        memory: AddressSpace,
        queue_base: int,
        queue_bytes: int,
        *,
        depth: int = 32,
        max_transfer_bytes: int = 2 << 20,
        name: str = "nvme-host",
        reach: AddressSpace | None = None,
        single_queues: int = 0,
    ) -> None:
        self._place = QueueMemory.lay_out(queue_base, queue_bytes, depth, max_transfer_bytes, single_queues)
        self._reach = memory if reach is None else reach
        for space in (memory, self._reach):
            space.find(queue_base, queue_memory_bytes(depth, max_transfer_bytes, single_queues))
        self.state = InitiatorState.STOPPED
        self.namespaces: dict[int, NamespaceIdentity] = {}
        self.identity: ControllerIdentity | None = None
        self.max_transfer_bytes = self._pool_transfer_bytes = max_transfer_bytes
        self.faults: Counter[str] = Counter()
        self._registers = registers
        self._memory = memory
        self._name = name
        self._depth = depth
        self._list_pages = list(self._place.list_pages)
        self._queues: dict[int, IoQueue] = {}
        self._ended: list[tuple[Any, int]] = []
        self._steps: deque[tuple[Sqe, Callable[[Cqe], None]]] = deque()
        self._deadline_ns = 0
        self._capabilities = Capabilities(max_queue_entry_count=2)

    # Bringing up and down

    def start(self, now_ns: int) -> None:
        """Reset the controller and begin to bring it up.

        Raises: UsageError unless STOPPED or FAILED; ProtocolError if the controller cannot use pages of 4096
        bytes.
        """
        self._enter(InitiatorState.RESETTING)
        self._capabilities = Capabilities.decode(self._registers.read64(Register.CAP))
        if self._capabilities.min_page_shift:
            self._fail(
                f"the controller's smallest page is {PAGE_BYTES << self._capabilities.min_page_shift} bytes"
            )
        self._set_deadline(now_ns)
        self._disable()

    def stop(self, now_ns: int) -> None:
        """Reset the controller; commands outstanding come out of `reap` as ABORTED_BY_REQUEST once it is
        STOPPED.

        Raises: UsageError if it is STOPPED already or just being reset.
        """
        self._enter(InitiatorState.STOPPING)
        self._set_deadline(now_ns)
        self._disable()

    def abandon(self) -> None:
        """The controller is gone for good, and moves nothing any more: the state is FAILED.

        Commands outstanding come out of `reap` as INTERNAL_ERROR.
        """
        self.state = InitiatorState.FAILED
        self._flush_outstanding(NvmeStatus.INTERNAL_ERROR)

    def advance(self, now_ns: int) -> InitiatorState:
        """Do all that can be done now towards READY (or STOPPED), and return the state.

        Raises: ProtocolError (and the state is FAILED) if the controller reports a fatal status, refuses an
        admin command, or is not ready in the time that it names in CAP.TO.
        """
        while self._advance_once(now_ns):
            pass
        return self.state

    def _advance_once(self, now_ns: int) -> bool:
        state = self.state
        if state in (InitiatorState.STOPPED, InitiatorState.FAILED):
            return False
        status = Status(self._registers.read32(Register.CSTS))
        is_reset = state in (InitiatorState.RESETTING, InitiatorState.STOPPING)
        if not is_reset and status & Status.FATAL:
            self._fail("the controller reports a fatal status (CSTS.CFS)")
        if state is InitiatorState.READY:
            return False
        if is_reset and not status & Status.READY:
            self._flush_outstanding(NvmeStatus.ABORTED_BY_REQUEST)
            if state is InitiatorState.STOPPING:
                self._enter(InitiatorState.STOPPED)
            else:
                self._enable(now_ns)
            return True
        if state is InitiatorState.ENABLING and status & Status.READY:
            self._enter(InitiatorState.CONFIGURING)
            self._set_deadline(now_ns)
            self._plan_configuration()
            self._next_step()
            return True
        if state is InitiatorState.CONFIGURING and (cqe := self._admin_cq.poll()):
            self._finish_step(cqe)
            return True
        if now_ns >= self._deadline_ns:
            self._fail(
                f"nothing came of {state.value} within {self._capabilities.ready_timeout_ms} ms (CAP.TO)"
            )
        return False

    def _enable(self, now_ns: int) -> None:
        count = _ADMIN_ENTRY_COUNT
        self._admin_sq = SubmissionProducer(self._memory, self._place.admin_sq_address, count, self._name)
        self._admin_cq = CompletionConsumer(self._memory, self._place.admin_cq_address, count, self._name)
        self._registers.write32(Register.AQA, count - 1 << 16 | count - 1)
        self._registers.write64(Register.ASQ, self._place.admin_sq_address)
        self._registers.write64(Register.ACQ, self._place.admin_cq_address)
        self._enter(InitiatorState.ENABLING)
        self._set_deadline(now_ns)
        self._registers.write32(Register.CC, Configuration(enable=True).encode())

    def _plan_configuration(self) -> None:
        self._queues.clear()
        self.namespaces.clear()
        self._steps.clear()
        wanted = len(self._place.single_queues)
        queues = Sqe(AdminOpcode.SET_FEATURES, cdw10=Feature.NUMBER_OF_QUEUES, cdw11=wanted << 16 | wanted)
        self._steps.append((self._identify(IdentifyCns.CONTROLLER, 0), self._take_controller))
        self._steps.append((queues, self._take_queue_count))

    def _take_queue_count(self, cqe: Cqe) -> None:
        granted = min(cqe.result & 0xFFFF, cqe.result >> 16)
        limit = self._capabilities.max_queue_entry_count
        rings = [(self._place.sq_address, self._place.cq_address), *self._place.single_queues[:granted]]
        for number, addresses in enumerate(rings, FIRST_QUEUE):
            entry_count = min(self._depth + 1, limit) if number == FIRST_QUEUE else _SINGLE_ENTRY_COUNT
            queue = IoQueue(number, self._memory, addresses, entry_count, self._name)
            self._queues[number] = queue
            self._steps += self._creations(queue)
        self._steps.append((self._identify(IdentifyCns.ACTIVE_NAMESPACES, 0), self._take_active))

    def _creations(self, queue: IoQueue) -> list[tuple[Sqe, Callable[[Cqe], None]]]:
        cdw10 = (queue.entry_count - 1) << 16 | queue.number
        ids = queue.number << 16
        completion = Sqe(
            AdminOpcode.CREATE_IO_CQ,
            prp1=queue.cq_address,
            cdw10=cdw10,
            cdw11=ids | _INTERRUPTS | _CONTIGUOUS,
        )
        submission = Sqe(
            AdminOpcode.CREATE_IO_SQ, prp1=queue.sq_address, cdw10=cdw10, cdw11=ids | _CONTIGUOUS
        )
        return [(completion, _ignore), (submission, _ignore)]

    def _next_step(self) -> None:
        if not self._steps:
            self._enter(InitiatorState.READY)
            return
        self._ring(0, self._admin_sq.post(self._steps[0][0]), is_completion=False)

    def _finish_step(self, cqe: Cqe) -> None:
        sqe, take = self._steps.popleft()
        self._admin_sq.learn_head(cqe.sq_head)
        self._ring(0, self._admin_cq.head, is_completion=True)
        if cqe.status != NvmeStatus.SUCCESS:
            self._fail(
                f"the controller refused {AdminOpcode(sqe.opcode).name}: {describe_status(cqe.status)}"
            )
        take(cqe)
        self._next_step()

    def _identify(self, cns: IdentifyCns, nsid: int) -> Sqe:
        return Sqe(AdminOpcode.IDENTIFY, nsid=nsid, prp1=self._place.identify_address, cdw10=cns)

    def _identify_data(self) -> bytes:
        return self._memory.read(self._place.identify_address, IDENTIFY_BYTES, self._name)

    def _take_controller(self, cqe: Cqe) -> None:
        self.identity = ControllerIdentity.decode(self._identify_data())
        limit = PAGE_BYTES << self.identity.mdts if self.identity.mdts else self._pool_transfer_bytes
        self.max_transfer_bytes = min(self._pool_transfer_bytes, limit)

    def _take_active(self, cqe: Cqe) -> None:
        for nsid in decode_namespace_list(self._identify_data()):
            self._steps.append((self._identify(IdentifyCns.NAMESPACE, nsid), self._namespace_taker(nsid)))

    def _namespace_taker(self, nsid: int) -> Callable[[Cqe], None]:
        def take(cqe: Cqe) -> None:
            self.namespaces[nsid] = NamespaceIdentity.decode(self._identify_data())

        return take

    # Commands

    @property
    def outstanding_count(self) -> int:
        """Commands submitted and not reaped."""
        return sum(len(queue.outstanding) for queue in self._queues.values()) + len(self._ended)

    @property
    def single_queues(self) -> tuple[int, ...]:
        """Numbers of the queue pairs for one command at a time that the controller has granted."""
        return tuple(number for number in self._queues if number != FIRST_QUEUE)

    def is_idle(self, queue: int) -> bool:
        """Whether nothing is outstanding on a queue pair."""
        return not self._queues[queue].outstanding

    def submit(
        self,
        opcode: IoOpcode,
        nsid: int,
        slba: int = 0,
        block_count: int = 0,
        buffer: int = 0,
        cookie: Any = None,  # noqa: ANN401 - the caller's own
        *,
        fua: bool = False,
        queue: int = FIRST_QUEUE,
    ) -> int | None:
        """Submit a command to a queue pair and return its cid; None, and nothing is submitted, while it is
        full.

        READ and WRITE move `block_count` (the specification's nlb + 1) blocks from `slba` on, to or from the
        contiguous `buffer` (a bus address); FLUSH needs neither. `cookie` comes back from `reap`.
        Raises: UsageError unless READY, for an unknown nsid or queue pair, and for a length that no command
        can carry.
        """
        if self.state is not InitiatorState.READY:
            raise UsageError(f"the initiator is {self.state.value}; call start and advance until it is ready")
        namespace = self.namespaces.get(nsid)
        if namespace is None:
            raise UsageError(f"nsid {nsid} is not active; active are {sorted(self.namespaces)}")
        pair = self._queues.get(queue)
        if pair is None:
            raise UsageError(f"there is no I/O queue pair {queue}; there are {sorted(self._queues)}")
        if opcode is IoOpcode.FLUSH:
            return self._post(pair, Sqe(opcode, pair.cids[0], nsid), (), cookie) if pair.cids else None
        length_bytes = block_count * namespace.block_bytes
        if not 0 < length_bytes <= self.max_transfer_bytes or block_count > _MAX_BLOCKS_PER_COMMAND:
            raise UsageError(
                f"{block_count} blocks of {namespace.block_bytes} bytes; a command carries 1 block to "
                f"{self.max_transfer_bytes} bytes"
            )
        if not pair.cids or len(self._list_pages) < list_page_count(buffer, length_bytes):
            return None
        if not self._reaches(buffer, length_bytes):
            self._ended.append((cookie, NvmeStatus.DATA_TRANSFER_ERROR))
            return pair.cids[0]
        prp = build_prp(buffer, length_bytes, self._memory, self._list_pages.pop, initiator=self._name)
        sqe = Sqe(
            opcode,
            pair.cids[0],
            nsid,
            prp.prp1,
            prp.prp2,
            cdw10=slba & 0xFFFF_FFFF,
            cdw11=slba >> 32,
            cdw12=fua << 30 | block_count - 1,
        )
        return self._post(pair, sqe, prp.list_pages, cookie)

    def reap(self) -> list[tuple[Any, int]]:
        """Take all completions there are, as (cookie, status).

        A status is an `NvmeStatus` or `AdminStatus` where it has a name, else a plain number.
        """
        reaped, self._ended = self._ended, []
        if self.state is not InitiatorState.READY:
            return reaped
        for queue in self._queues.values():
            completed, moved = queue.take_completed(self.faults)
            for ended, status in completed:
                self._list_pages.extend(ended.list_pages)
                reaped.append((ended.cookie, status))
            if moved:
                self._ring(queue.number, queue.cq.head, is_completion=True)
        return reaped

    def _reaches(self, buffer: int, length_bytes: int) -> bool:
        """Whether the controller reaches a buffer, which may run from one window into the next."""
        address, end = buffer, buffer + length_bytes
        try:
            while address < end:
                address = self._reach.find(address, 1).end
        except UsageError:
            return False
        return True

    def _post(
        self,
        pair: IoQueue,
        sqe: Sqe,
        list_pages: tuple[int, ...],
        cookie: Any,  # noqa: ANN401
    ) -> int:
        cid = pair.cids.popleft()
        pair.outstanding[cid] = Outstanding(cookie, list_pages)
        self._ring(pair.number, pair.sq.post(sqe), is_completion=False)
        return cid

    # Registers and state

    def _ring(self, queue_id: int, value: int, *, is_completion: bool) -> None:
        stride = self._capabilities.doorbell_stride
        self._registers.write32(doorbell_offset(queue_id, is_completion=is_completion, stride=stride), value)

    def _disable(self) -> None:
        self._registers.write32(Register.CC, Configuration(enable=False).encode())

    def _set_deadline(self, now_ns: int) -> None:
        self._deadline_ns = now_ns + max(self._capabilities.ready_timeout_ms, 500) * 1_000_000

    def _flush_outstanding(self, status: NvmeStatus) -> None:
        for queue in self._queues.values():
            for ended in queue.outstanding.values():
                self._list_pages.extend(ended.list_pages)
                self._ended.append((ended.cookie, status))
            queue.outstanding.clear()

    def _enter(self, state: InitiatorState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise UsageError(f"the initiator is {self.state.value} and cannot become {state.value}")
        self.state = state

    def _fail(self, message: str) -> None:
        self._enter(InitiatorState.FAILED)
        raise ProtocolError(f"NVMe controller: {message}")


def describe_status(status: int) -> str:
    """Return a status by name, or by number where it has none."""
    return status.name if isinstance(status, enum.IntEnum) else f"status {status:#05x}"


def _ignore(cqe: Cqe) -> None:
    """Take nothing from a completion."""
