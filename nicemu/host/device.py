# SPDX-License-Identifier: Apache-2.0
"""A NIC as a host program sees it: memory, counters, programs of deferred work, peers, packets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from nicemu.abi import (
    ARMED,
    Capabilities,
    CommandCode,
    CommandStatus,
    Connection,
    DeferredWork,
    EventLog,
    FiringOrder,
    Limits,
    Opcode,
    RemoteSpan,
    SharedMemory,
    Span,
    TargetCounter,
    TriggerTableFull,
    Unsupported,
    WorkCompletion,
    WorkRequest,
    check_counter,
    local_piece,
    local_pieces,
    pack_program,
    pack_work,
    registers,
    seconds,
    shown,
    text,
    whole,
    yes_or_no,
)
from nicemu.errors import ResourceError, UsageError, counted
from nicemu.pcie import load_u32, load_u64, store_u32, store_u64

from .closed_connection import ClosedConnection
from .command_ring import CommandRing
from .completion import CompletionQueue
from .counter import Counter
from .forking import stay_behind
from .memory import Memory, allocate
from .one_at_a_time import one_at_a_time
from .peer import Packet, Peer
from .program import ArmableProgram
from .recording import LoggedConnection
from .refusal import Refusal


class Nic:
    """One NIC, over a connection. Use it as a context manager; closing it cancels its work.

    Any thread may count, arm, cancel, post and wait; packets and completions are for one thread each.
    """

    def __init__(self, connection: Connection) -> None:
        self.log: EventLog | None = getattr(connection, "log", None)
        self.connection = connection if self.log is None else LoggedConnection(connection, self.log)
        self.closed = False
        self._said = f"{connection.nic_name} was closed; open it again"
        self.lock = threading.RLock()
        bar = connection.bar.address
        if load_u64(bar + registers.IDENTITY) != registers.MAGIC:
            raise UsageError(f"{connection.nic_name}: the shared memory is no nicemu BAR")
        self.opened = load_u64(bar + registers.OPENED)
        if self.log is not None:
            owner = load_u32(bar + registers.IDENTITY + 12)
            self.log.add_here("open", nic=connection.nic_name, owner=owner, opened=self.opened)
        self._ring = CommandRing(self.connection, self.log, self.opened)
        self._received = load_u64(self._host_word(registers.WORD_RECEIVE))
        self._transmitted = 0
        staging = connection.bar.view[registers.STAGING : registers.STAGING + registers.STAGING_COUNT * 128]
        self._staging = np.frombuffer(staging, ARMED)
        self.completions = CompletionQueue(self.connection)
        self._programs: tuple[Memory, Span] | None = None
        self._events: dict[str, int] = {}
        self._windows: list[int] = []
        self._counters: dict[int, Counter] = {}
        self._memory: dict[int, Memory] = {}  # by key
        self._queue_pairs: set[int] = set()
        self._disconnected: set[int] = set()
        told = connection.request("limits")
        limits = dict(told["limits"])
        self.limits = Limits(**{**limits, "order": FiringOrder(limits["order"])})
        self._refusal = Refusal(
            connection.nic_name,
            told["transport"],
            self.limits,
            self._counters,
            self._queue_pairs,
            self._events.values(),
            self._disconnected,
        )
        self.capabilities = Capabilities(
            self._refusal.operations, self.limits.single_cancel, order=self.limits.order
        )
        stay_behind(self)

    @property
    def name(self) -> str:
        """What the NIC is called."""
        return self.connection.nic_name

    def __enter__(self) -> Nic:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back: armed work is cancelled, keys and queue pairs are gone. Twice is once."""
        if self.closed:
            return
        self.connection.close()
        self._leave()

    def _leave(self) -> None:
        self.closed = True
        self._staging = np.empty(0, ARMED)
        self.completions.close(self._said)
        self.connection = ClosedConnection(self.connection.nic_name, self._said)
        self._memory.clear()

    def forked(self) -> None:
        """This process was forked from that which opened the NIC, and is none that the NIC knows."""
        self.lock = threading.RLock()
        if not self.closed:
            whose = "was opened by the process that this one was forked from"
            self._said = f"{self.name} {whose}; open the NIC again in this process"
            self._leave()

    def _host_word(self, word: int) -> int:
        return self.connection.bar.address + registers.HOST_WORDS + word * registers.WORD_STRIDE

    # Memory

    def allocate(self, shape: int | tuple[int, ...], dtype: object = np.uint8, kind: str = "gpu") -> Memory:
        """Return zeroed memory that the NIC can reach; `kind` "gpu" stands for GPU memory, "host" for the
        host's.
        """
        return allocate(self.connection, self.log, shape, dtype, kind)

    def register(self, memory: Memory, counter: Counter | None = None) -> Span:
        """Register all of `memory`; `counter` counts remote writes that arrive in it."""
        if not isinstance(memory, Memory):
            raise UsageError(
                f"{shown(memory)} is no memory that can be registered (EINVAL); nic.allocate(shape, dtype) "
                "returns some"
            )
        reply = self.connection.request(
            "register",
            address=memory.address,
            length_bytes=memory.length_bytes,
            counter=None if counter is None else check_counter(counter, self).index,
        )
        self._memory[int(reply["key"])] = memory
        return Span(memory.address, memory.length_bytes, int(reply["key"]))

    def mapped(self, span: Span) -> tuple[SharedMemory, int] | None:
        """Return the memory of a span as it is mapped here, and where there (bytes); None for another's."""
        memory = self._memory.get(span.key)
        return None if memory is None else (memory.shared, span.address - memory.address)

    def deregister(self, span: Span, force: bool = False) -> None:
        """Take a key back. Raises: UsageError (EBUSY) if armed work uses it, unless forced."""
        key = local_piece(span).lkey
        self.connection.request("deregister", key=key, force=yes_or_no(force, "force"))
        self._memory.pop(key, None)
        for counter in list(self._counters.values()):
            counter.forget_key(key)

    # Counters and programs

    def counters(self, *names: str, remote: bool = False, counts_bytes: bool = False) -> list[Counter]:
        """Allocate counters, all or none; `remote` ones may be bumped by immediates of connected peers.

        `counts_bytes`: a success counts the bytes that were moved, an error still 1.
        Source: fi_cntr(3), FI_CNTR_EVENTS_BYTES.
        """
        kind = {
            "remote": yes_or_no(remote, "remote"),
            "counts_bytes": yes_or_no(counts_bytes, "counts_bytes"),
        }
        made: list[Counter] = []
        try:
            for name in [text(name, "a counter's name") for name in names]:
                number = int(self.connection.request("counter_open", name=name, **kind)["counter"])
                self._counters[number] = Counter(self, number, name)
                made.append(self._counters[number])
        except BaseException:
            for counter in made:
                counter.close()
            raise
        return made

    def forget_counter(self, number: int) -> None:
        """A counter of this process was closed."""
        self._counters.pop(number, None)

    def event(self, name: str) -> int:
        """Return the number of a firmware event, for `Step.event`: what `@on_trigger(name)` handles."""
        if text(name, "an event's name") not in self._events:
            self._events[name] = int(self.connection.request("event_open", name=name)["event"])
        return self._events[name]

    @property
    def slots_free(self) -> int:
        """Trigger slots that this process can still take; others may be quicker."""
        return int(self.connection.request("limits")["slots_free"])

    @contextmanager
    def program(self, name: str) -> Iterator[ArmableProgram]:
        """Write a program; arm it afterwards with `program.arm()`."""
        yield ArmableProgram(text(name, "a program's name"), self)

    @one_at_a_time
    def arm(self, work: list[DeferredWork]) -> list[tuple[int, int]]:
        """Arm a list of deferred work, all or nothing; return the handles for `cancel`."""
        self.check_open()
        self._refusal.check_deferred(work)
        if not work:
            return []
        if len(work) > self.limits.host_slots:
            raise TriggerTableFull(
                f"{counted(len(work), 'operation')}; {self.limits.profile} has "
                f"{counted(self.limits.host_slots, 'trigger slot')} (ENOSPC); arm a window of them"
            )
        records = pack_program(work)
        self._refusal.check_named(records)
        if len(work) <= registers.STAGING_COUNT:
            self._staging[: len(work)] = records
            status, _ = self._command(CommandCode.ARM, 0, len(work))
            armed = self._staging[: len(work)]
        else:
            memory, span = self._program_memory(len(work))
            armed = memory.array.view(ARMED)[: len(work)]
            armed[:] = records
            status, _ = self._command(CommandCode.ARM_PROGRAM, span.address, len(work), span.key)
        self._refusal.check_armed(status, work)
        self._tell_armed(armed["sequence"].tolist(), work)
        return list(zip(armed["owner"].tolist(), armed["sequence"].tolist(), strict=True))

    def _program_memory(self, count: int) -> tuple[Memory, Span]:
        """Return registered memory for `count` records; it is kept and grows."""
        if self._programs is None or self._programs[1].length_bytes < count * ARMED.itemsize:
            if self._programs is not None:
                self.deregister(self._programs[1])
            memory = self.allocate((1 << (count - 1).bit_length(), ARMED.itemsize), np.uint8, "host")
            self._programs = memory, self.register(memory)
        memory, span = self._programs
        return Memory(memory.array.reshape(-1), memory.address, memory.shared), span

    @one_at_a_time
    def arm_window(self, work: list[DeferredWork], size: int) -> int:
        """Arm a window of `work`; return its number, for `cancel_window`. See `ArmableProgram.window`."""
        self.check_open()
        self._refusal.check_deferred(work)
        size = whole(size, "the size of a window", least=1)
        records = pack_program(work)
        self._refusal.check_named(records)
        memory, span = self._program_memory(len(work))
        memory.array.view(ARMED)[: len(work)] = records
        reply = self.connection.request(
            "window_open", address=span.address, key=span.key, count=len(work), size=size
        )
        self._windows.append(int(reply["window"]))
        if self.log is not None:
            self.log.add_here("window", nic=self.connection.nic_name, window=self._windows[-1])
        return self._windows[-1]

    def cancel_window(self, window: int) -> int:
        """Cancel what of a window's program has not fired; return how many operations."""
        number = whole(window, "the number of a window")
        cancelled = int(self.connection.request("window_close", window=number)["cancelled"])
        if number in self._windows:
            self._windows.remove(number)
        return cancelled

    @one_at_a_time
    def post_receive(self, local: Span, qp_num: int, wr_id: int = 0) -> None:
        """Post a receive: the next message on that queue pair lands in `local`, with a completion.

        Raises: ResourceError (ENOSPC) if the receive queue is full.
        """
        self.check_open()
        work = WorkRequest(Opcode.RECV, (local_piece(local),), wr_id=whole(wr_id, "wr_id"))
        qp_num = whole(qp_num, "qp_num")
        self._staging[0] = np.zeros((), ARMED)
        pack_work(self._staging[0], work, qp_num)
        self._staging[0]["completion"] = -1
        if self.log is not None:
            piece = [local.address, local.length_bytes, local.key]
            self.log.add_here("receive", nic=self.connection.nic_name, qp=qp_num, piece=piece)
        self.command(
            CommandCode.POST_RECEIVE, 0, 1, what=f"a receive of {self._refusal.about_queue_pair(qp_num)}"
        )

    @one_at_a_time
    def post(self, qp_num: int, *work: WorkRequest) -> None:
        """Post work requests to a queue pair, to be carried out in order as soon as possible."""
        self.check_open()
        if len(work) > registers.STAGING_COUNT:
            raise TriggerTableFull(
                f"{counted(len(work), 'request')}; at most {registers.STAGING_COUNT} at once (ENOSPC)"
            )
        qp_num = whole(qp_num, "qp_num")
        self._refusal.check_posted(work)
        for position, request in enumerate(work):
            self._staging[position] = np.zeros((), ARMED)
            pack_work(self._staging[position], request, qp_num)
            self._staging[position]["completion"] = -1
        status, _ = self._command(CommandCode.POST, 0, len(work))
        self._refusal.check(status, f"work for {self._refusal.about_queue_pair(qp_num)} was refused")
        self._tell_armed(self._staging["sequence"][: len(work)].tolist(), [])

    def write(self, local: Span | tuple[Span, ...], remote: RemoteSpan, signaled: bool = False) -> None:
        """RDMA write now. Raises: UsageError (EINVAL) as `Step.write`, if the lengths differ too."""
        sges = local_pieces(local, remote)
        signaled = yes_or_no(signaled, "signaled")
        work = WorkRequest(Opcode.RDMA_WRITE, sges, remote.address, remote.rkey, signaled=signaled)
        self.post(remote.qp_num, work)

    def cancel(self, handle: tuple[int, int]) -> bool:
        """Cancel one armed operation: True if it will never fire.

        Raises: Unsupported where only whole counters can be cancelled (`limits.single_cancel`), UsageError
        for what is no handle.
        """
        if not isinstance(handle, tuple) or len(handle) != 2:
            raise UsageError(f"{shown(handle)} is no handle (EINVAL); nic.arm(...) returns some")
        slot, sequence = (whole(number, "each number of a handle") for number in handle)
        status, value = self._command(CommandCode.CANCEL, slot, sequence)
        if status is CommandStatus.NOT_SUPPORTED:
            cure = "" if self.limits.domain_flush else "nic.cancel_counter(counter), or "
            said = f"{self.limits.profile} cancels no single operation; cancel {cure}all with nic.flush()"
            raise Unsupported("R37", said)
        return status is CommandStatus.OK and value == 1

    def cancel_counter(self, counter: TargetCounter) -> int:
        """Cancel all that waits for a counter, also what windows would arm; return how many.

        Where the NIC cancels all work of a process at once (`limits.domain_flush`), it cancels that.
        Raises: UsageError for a counter of another NIC.
        """
        number = check_counter(counter, self).index
        if self.limits.domain_flush:
            return self.flush()
        count = 0
        if self._windows:
            count = int(self.connection.request("window_cancel", counter=number)["cancelled"])
        what = f"cancelling at counter {counter.name}"
        return count + self.command(CommandCode.CANCEL_COUNTER, number, what=what)

    def flush(self) -> int:
        """Cancel all armed work of this process, also what windows would arm; return how many."""
        waiting = sum(self.cancel_window(window) for window in list(self._windows))
        return waiting + self.command(CommandCode.FLUSH)

    def take_completions(self) -> list[WorkCompletion]:
        """Return the completion-queue entries that have come in."""
        return self.completions.poll(registers.COMPLETION_COUNT)

    def _tell_armed(self, sequences: list[int], work: list[DeferredWork]) -> None:
        """Put down what the command before this has armed or posted."""
        if self.log is None:
            return
        pieces = [
            [[sge.address, sge.length, sge.lkey] for sge in item.work.sges] if item.work else []
            for item in work
        ]
        triggers = [item.trigger for item in work]
        self.log.add_here("armed", **self._ring.told(), sequences=sequences, pieces=pieces, triggers=triggers)

    # Commands

    def command(self, code: CommandCode, *words: int, what: str = "") -> int:
        """Give the NIC a command and return its value; `what` is a person's word for it.

        Raises: UsageError or ResourceError as the NIC's status says.
        """
        status, value = self._command(code, *words)
        self._refusal.check(status, f"{what or f'{code.name}{words}'} was refused")
        return value

    def check_open(self) -> None:
        """Raise UsageError if this NIC was closed: its memory is not there any more."""
        if self.closed:
            raise UsageError(self._said)

    @one_at_a_time
    def _command(self, code: CommandCode, *words: int) -> tuple[CommandStatus, int]:
        self.check_open()
        return self._ring.give(code, *words)

    # Peers, packets, landing slots

    def connect(self, peer: str, **private_data: int) -> Peer:
        """Connect a queue pair to a peer NIC's firmware; `private_data` is what its `@on_connect` reads."""
        words = {name: whole(word, name, -(1 << 63)) for name, word in private_data.items()}
        reply = self.connection.request("connect", peer=text(peer, "a peer's name"), private_data=words)
        self._queue_pairs.add(int(reply["qp_num"]))
        return Peer(peer, int(reply["number"]), int(reply["qp_num"]), dict(reply["private_data"]))

    def disconnect(self, peer: Peer, force: bool = False) -> None:
        """Give a queue pair back; the peer's firmware hears of it.

        Raises: UsageError (EBUSY) while armed work names it; `force` cancels that work.
        """
        if not isinstance(peer, Peer):
            raise UsageError(f"{shown(peer)} is no Peer (EINVAL); nic.connect(name) returns one")
        self.connection.request("disconnect", qp_num=peer.qp_num, force=yes_or_no(force, "force"))
        self._queue_pairs.discard(peer.qp_num)
        self._disconnected.add(peer.qp_num)

    def connected_peers(self) -> list[str]:
        """Return the peers that this process has a working queue pair to; one that was lost is missing."""
        return list(self.connection.request("peers")["connected"])

    def listen(self) -> None:
        """Receive the packets that the match-action program sends to the host."""
        self.connection.request("listen")

    def receive(self, timeout_s: float = 5.0) -> Packet | None:
        """Return the next packet; None if none comes in time."""
        timeout_s = seconds(timeout_s)
        bar = self.connection.bar
        place = registers.RECEIVE_RING + self._received % registers.PACKET_COUNT * registers.PACKET_BYTES
        entry = bar.address + place
        expected = self._received + 1
        if not self.connection.wait(lambda: load_u64(entry + 56) == expected, timeout_s):
            return None
        length, info_count = load_u64(entry) & 0xFFFFFFFF, load_u64(entry) >> 32
        info = tuple(load_u64(entry + 8 + 8 * position) for position in range(min(info_count, 6)))
        start = place + registers.PACKET_HEADER_BYTES
        frame = bytes(bar.view[start : start + length])
        self._received = expected
        store_u64(self._host_word(registers.WORD_RECEIVE), expected)
        if self.log is not None:
            self.log.add_here("packet", nic=self.connection.nic_name)
        return Packet(frame, info)

    def transmit(self, frame: bytes) -> None:
        """Send a frame through the NIC's port.

        Raises: UsageError if it is too long, ResourceError if the ring stays full.
        """
        room = registers.PACKET_BYTES - registers.PACKET_HEADER_BYTES
        if not isinstance(frame, (bytes, bytearray, memoryview)):
            raise UsageError(f"a frame is bytes, not {shown(frame)} (EINVAL)")
        if not 14 <= len(frame) <= room:
            raise UsageError(
                f"a frame of {counted(len(frame), 'byte')}; the transmit ring takes 14 to {room}"
            )
        bar = self.connection.bar
        head = bar.address + registers.NIC_WORDS + registers.WORD_TRANSMIT * registers.WORD_STRIDE
        full = registers.PACKET_COUNT
        if not self.connection.wait(lambda: self._transmitted - load_u64(head) < full, 1.0, (0, 0)):
            raise ResourceError("the transmit ring is full")
        place = registers.TRANSMIT_RING + self._transmitted % registers.PACKET_COUNT * registers.PACKET_BYTES
        start = place + registers.PACKET_HEADER_BYTES
        bar.view[start : start + len(frame)] = frame
        self._transmitted += 1
        if self.log is not None:
            self.log.add_here("request", nic=self.connection.nic_name, operation="transmit", operands={})
        store_u32(bar.address + place, len(frame))
        store_u64(bar.address + place + 56, self._transmitted)
        cell = registers.DOORBELLS + 8 * registers.TRANSMIT_DOORBELL
        store_u64(bar.address + cell, self._transmitted)
        self.connection.notify()

    def post_landing(self, index: int, span: Span) -> Span:
        """Put a landing slot on the NIC's free ring, under a fresh key; return the span with that key."""
        local_piece(span)
        reply = self.connection.request(
            "landing_post",
            index=whole(index, "index"),
            address=span.address,
            length_bytes=span.length_bytes,
            key=span.key,
        )
        return Span(span.address, span.length_bytes, int(reply["key"]))

    def withdraw_landing(self, index: int) -> int | None:
        """Take a landing slot off the free ring and return the key that it has now; None if the NIC is using
        it.
        """
        key: int | None = self.connection.request("landing_withdraw", index=whole(index, "index"))["key"]
        return key
