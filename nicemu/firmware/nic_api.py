# SPDX-License-Identifier: Apache-2.0
"""The `nic` object that a firmware script receives: memory, counters, RDMA, NVMe, frames, tables, the
host.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import ResourceError, UsageError, VerbsStatus

from .card import Buffer, Card, CompletionError, LandingSlot
from .core import FirmwareTimeout, Signal
from .counted_queue import CountedQueue, run_nvme
from .events import Event


class NicCounter:
    """A trigger counter that firmware allocated."""

    __slots__ = ("_card", "index")

    def __init__(self, card: Card, index: int) -> None:
        self._card = card
        self.index = index

    @property
    def success(self) -> int:
        """The success value now."""
        return self._card.counter_value(self.index)[0]

    @property
    def value(self) -> int:
        """Success plus errors now: what thresholds are compared with."""
        return sum(self._card.counter_value(self.index))

    def add(self, success: int = 0, errors: int = 0) -> None:
        """Count."""
        self._card.counter_add(self.index, success, errors)

    async def reaches(self, threshold: int, timeout_ns: int | None = None) -> None:
        """Wait until success plus errors is at least `threshold`.

        Raises: FirmwareTimeout after `timeout_ns`.
        """
        if threshold <= 0:
            return
        signal = Signal(timeout_ns)
        self._card.arm_signal(self.index, threshold, signal)
        await signal


class Mailbox:
    """A queue between firmware tasks, first come first served; `put` never waits."""

    def __init__(self, depth: int) -> None:
        self._items: deque[Any] = deque()
        self._depth = depth
        self._waiters: deque[Signal] = deque()

    def put(self, item: object) -> None:
        """Append an item, or give it to the first task that waits.

        Raises: ResourceError if the mailbox is full.
        """
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.abandoned:
                waiter.set(item)
                return
        if len(self._items) >= self._depth:
            raise ResourceError(f"the mailbox holds {self._depth} items already")
        self._items.append(item)

    async def get(self) -> Any:  # noqa: ANN401
        """Return the first item, waiting for one."""
        if self._items:
            return self._items.popleft()
        signal = Signal()
        self._waiters.append(signal)
        return await signal

    async def get_all(self) -> list[Any]:
        """Return everything that is there, waiting for the first item."""
        items = [await self.get(), *self._items]
        self._items.clear()
        return items


def _write(
    buffer: Buffer, offset_bytes: int, length_bytes: int, remote_address: int, rkey: int, imm_data: int | None
) -> WorkRequest:
    opcode = Opcode.RDMA_WRITE if imm_data is None else Opcode.RDMA_WRITE_WITH_IMM
    sges = (Sge(buffer.address + offset_bytes, length_bytes, buffer.key),) if length_bytes else ()
    return WorkRequest(opcode, sges, remote_address, rkey, imm_data or 0)


class _Namespaces(dict[int, tuple[int, int]]):
    """Namespaces by nsid; one that is not there is missed in words."""

    def __missing__(self, nsid: int) -> tuple[int, int]:
        there = f"only {', '.join(map(str, sorted(self)))}" if self else "nor any other"
        raise UsageError(
            f"this NIC has no NVMe namespace {nsid}, {there}; give it one in the topology: "
            f"[[nic.NAME.namespace]] with nsid = {nsid}"
        )


class Nic:
    """The NIC as its firmware sees it."""

    def __init__(self, card: Card) -> None:
        self._card = card

    @property
    def now_ns(self) -> int:
        """The NIC's time in nanoseconds."""
        return self._card.now_ns()

    def routes(self, pd: int) -> dict[int, tuple[str, int]]:
        """Connected peers of a protection domain: NIC number to its name and the number by which it knows
        us.
        """
        return self._card.routes(pd)

    @property
    def namespaces(self) -> dict[int, tuple[int, int]]:
        """NVMe namespaces: nsid to (block size in bytes, number of blocks).

        Raises: UsageError where one is looked up that the NIC does not have.
        """
        return _Namespaces(self._card.namespaces())

    def spawn(
        self, name: str, coroutine: Coroutine[Signal, None, None], *things: LandingSlot | NicCounter
    ) -> None:
        """Start a task of its own, without a deadline.

        A counter or landing slot among `things` is the new task's: it does not go back when this task ends.
        """
        held = (thing if isinstance(thing, LandingSlot) else thing.index for thing in things)
        self._card.spawn(name, coroutine, *held)

    async def delay(self, duration_ns: int) -> None:
        """Wait for some time."""
        end_ns = self.now_ns + max(0, duration_ns)
        try:
            await Signal(timeout_ns=max(0, duration_ns))
        except FirmwareTimeout:
            if self.now_ns < end_ns:  # not this wait is over, but the task's time
                raise

    def count(self, name: str) -> None:
        """Add 1 to a named statistic of this NIC."""
        self._card.count(name)

    # Memory

    def allocate(self, length_bytes: int, remote: bool = False, atomic: bool = False) -> Buffer:
        """Return zeroed NIC memory, page-aligned; `remote` lets connected peers read and write it, `atomic`
        lets them change words of it in one step.
        """
        return self._card.allocate_memory(length_bytes, remote, atomic)

    def renew_key(self, buffer: Buffer) -> Buffer:
        """Return the same memory, zeroed, under a new key; the old key names nothing any more."""
        return self._card.renew_key(buffer)

    def read(self, address: int, length_bytes: int) -> bytes:
        """Copy bytes from a bus address."""
        return self._card.read_memory(address, length_bytes)

    def write(self, address: int, data: bytes) -> None:
        """Store bytes at a bus address."""
        self._card.write_memory(address, data)

    def checksum(self, address: int, length_bytes: int) -> int:
        """Return the CRC-32 (as in Ethernet) of memory."""
        return zlib.crc32(self._card.memory_view(address, length_bytes))

    # Counters

    def allocate_counter(self, pd: int = 0) -> NicCounter:
        """Return a counter at zero that immediates of peers in protection domain `pd` may bump."""
        return NicCounter(self._card, self._card.allocate_counter(pd))

    def free_counter(self, counter: NicCounter) -> None:
        """Give a counter back; what is armed on it is cancelled."""
        self._card.free_counter(counter.index)

    # RDMA

    def post_receive(
        self,
        qp_num: int,
        buffer: Buffer,
        offset_bytes: int,
        length_bytes: int,
        wr_id: int = 0,
        tag: int | None = None,
        ignore: int = 0,
    ) -> None:
        """Post a receive: the peer's next message lands there, and `@on_arrival` hears of it with `wr_id`.

        With a `tag` it takes only a message with that tag, but for the bits of `ignore` (64 bits each).
        Receives beyond what the receive queue holds (64, and 64 tagged ones) wait for their turn.
        Raises: UsageError for a queue pair that is not the firmware's, or a piece outside the buffer.
        """
        if not 0 <= offset_bytes <= offset_bytes + length_bytes <= buffer.length_bytes:
            raise UsageError(f"bytes {offset_bytes} to {offset_bytes + length_bytes} are not in the buffer")
        sge = Sge(buffer.address + offset_bytes, length_bytes, buffer.key)
        work = WorkRequest(Opcode.RECV, (sge,), wr_id=wr_id)
        if tag is not None:
            work = replace(work, opcode=Opcode.TAGGED_RECV, tag=tag, ignore=ignore)
        self._card.post_work(qp_num, work, None)

    async def rdma_send(
        self, qp_num: int, buffer: Buffer, offset_bytes: int, length_bytes: int, tag: int | None = None
    ) -> None:
        """Send a message to a peer, with a tag or without, and wait until it has landed in a receive.

        Raises: CompletionError with the VerbsStatus.
        """
        sge = Sge(buffer.address + offset_bytes, length_bytes, buffer.key)
        signal = Signal()
        work = WorkRequest(Opcode.SEND, (sge,))
        if tag is not None:
            work = replace(work, opcode=Opcode.TAGGED_SEND, tag=tag)
        self._card.post_work(qp_num, work, signal)
        status = VerbsStatus(await signal)
        if status is not VerbsStatus.SUCCESS:
            raise CompletionError(status, "RDMA send")

    async def rdma_write(
        self,
        qp_num: int,
        buffer: Buffer,
        offset_bytes: int,
        length_bytes: int,
        remote_address: int,
        rkey: int,
        imm_data: int | None = None,
    ) -> None:
        """Write from NIC memory to a peer's region, and wait until it has arrived.

        Raises: CompletionError with the VerbsStatus.
        """
        opcode = Opcode.RDMA_WRITE if imm_data is None else Opcode.RDMA_WRITE_WITH_IMM
        sges = (Sge(buffer.address + offset_bytes, length_bytes, buffer.key),) if length_bytes else ()
        work = WorkRequest(opcode, sges, remote_address, rkey, imm_data or 0, signaled=True)
        signal = Signal()
        self._card.post_work(qp_num, work, signal)
        status = VerbsStatus(await signal)
        if status is not VerbsStatus.SUCCESS:
            raise CompletionError(status, f"{opcode.name} of {length_bytes} bytes on queue pair {qp_num}")

    def post_write(
        self,
        qp_num: int,
        buffer: Buffer,
        offset_bytes: int,
        length_bytes: int,
        remote_address: int,
        rkey: int,
    ) -> None:
        """Write without waiting; the queue pair keeps the order, and an error shows in what follows."""
        sges = (Sge(buffer.address + offset_bytes, length_bytes, buffer.key),)
        self._card.post_work(qp_num, WorkRequest(Opcode.RDMA_WRITE, sges, remote_address, rkey), None)

    def arm_write(
        self,
        counter: NicCounter,
        threshold: int,
        qp_num: int,
        buffer: Buffer,
        offset_bytes: int,
        length_bytes: int,
        remote_address: int,
        rkey: int,
        imm_data: int | None = None,
        then: NicCounter | None = None,
    ) -> None:
        """Arm a write that fires once, when `counter` (success plus errors) reaches `threshold`.

        The bytes are read when it fires. `then` counts its end: 1 success or 1 error. It takes a trigger slot
        until then; freeing `counter` cancels it.
        Raises: UsageError for a queue pair or counter that is not the firmware's.
        """
        work = _write(buffer, offset_bytes, length_bytes, remote_address, rkey, imm_data)
        completion = None if then is None else then.index
        self._card.arm_work(counter.index, threshold, qp_num, work, completion)

    def prepare_write(
        self,
        name: str,
        qp_num: int,
        buffer: Buffer,
        offset_bytes: int,
        length_bytes: int,
        remote_address: int,
        rkey: int,
        imm_data: int | None = None,
        then: NicCounter | None = None,
    ) -> None:
        """Prepare a write that the match-action program arms, once or often: `DeferredWork("name")` in P4.

        The program says which counter it waits for, and how long. `then` counts its end. What was prepared
        under that name before makes room.
        Raises: UsageError for a queue pair or counter that is not the firmware's.
        """
        work = _write(buffer, offset_bytes, length_bytes, remote_address, rkey, imm_data)
        self._card.prepare_work(name, qp_num, work, None if then is None else then.index)

    # NVMe

    def count_completions(self, counter: NicCounter) -> CountedQueue:
        """Return a queue pair of the NVMe controller whose completions count at `counter`, by themselves.

        The controller's interrupt, a message into NIC memory, counts; what is armed on the counter fires
        without the firmware. It goes back when the counter does.
        Raises: UsageError if the NIC has no namespace, ResourceError if all such queue pairs are in use.
        """
        return CountedQueue(self._card, self._card.count_completions(counter.index))

    async def nvme_read(self, nsid: int, slba: int, nlb: int, address: int) -> None:
        """Read `nlb` blocks (a count, not zero-based) into memory, peer-to-peer if that is NIC memory.

        Raises: CompletionError with the NvmeStatus.
        """
        await run_nvme(self._card, "read", nsid, slba, nlb, address)

    async def nvme_write(self, nsid: int, slba: int, nlb: int, address: int) -> None:
        """Write `nlb` blocks from memory; durable only after `nvme_flush`."""
        await run_nvme(self._card, "write", nsid, slba, nlb, address)

    async def nvme_flush(self, nsid: int) -> None:
        """Make all completed writes durable."""
        await run_nvme(self._card, "flush", nsid, 0, 0, 0)

    # Frames, tables, the host

    def send(self, peer: str, payload: bytes) -> None:
        """Send a message of the KV request protocol to a peer NIC, as one UDP datagram (it may be lost)."""
        self._card.send_message(peer, payload)

    def reply(self, address: int, udp_port: int, payload: bytes) -> None:
        """Send a UDP datagram to an IPv4 address and port, as a packet's source was given to an event."""
        self._card.send_datagram(address, udp_port, payload)

    def table_insert(
        self, table: str, keys: tuple[int, ...], action: str, parameters: tuple[int, ...]
    ) -> None:
        """Insert an exact entry, or replace the one with these keys."""
        self._card.table_insert(table, keys, action, parameters)

    def table_delete(self, table: str, keys: tuple[int, ...]) -> None:
        """Delete an exact entry, if it is there."""
        self._card.table_delete(table, keys)

    def take_landing_slot(self) -> LandingSlot | None:
        """Take a landing slot that the host has provided; None: there is none."""
        return self._card.take_landing_slot()

    def return_landing_slot(self, slot: LandingSlot, rotate_key: bool = True) -> None:
        """Give a landing slot back unused. With `rotate_key` nobody who learnt its key can write there any
        more.
        """
        self._card.return_landing_slot(slot, rotate_key)

    def complete(self, event: Event, slot: LandingSlot, *info: int) -> None:
        """Pass the event's packet on to the host: its session has landed in `slot`, which is the host's now.

        `info`: up to four numbers about what was done. A slot that the host cannot be told of goes back.
        """
        if self._card.deliver(event, (1, slot.index, *info)):
            self._card.keep_landing_slot(slot)
        else:
            self._card.return_landing_slot(slot, True)

    def transmit(self, event: Event) -> None:
        """Pass the event's packet on to the network, as it was held."""
        self._card.transmit(event)

    def miss(self, event: Event) -> None:
        """Pass the event's packet on to the host as if no table had matched."""
        self._card.deliver(event, (0,))
