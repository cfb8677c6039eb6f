# SPDX-License-Identifier: Apache-2.0
"""A NIC as a host program sees it: memory, counters, programs of deferred work, peers, packets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
    Severity,
    SharedMemory,
    Span,
    TargetCounter,
    TriggerTableFull,
    Unsupported,
    WorkCompletion,
    WorkRequest,
    check_program,
    pack_program,
    pack_work,
    registers,
)
from nicemu.errors import NicemuError, ResourceError, UsageError
from nicemu.pcie import load_u32, load_u64, store_u32, store_u64

from .completion import CompletionQueue
from .counter import Counter
from .one_at_a_time import one_at_a_time
from .peer import Packet, Peer
from .program import ArmableProgram
from .recording import LoggedConnection


@dataclass(eq=False, slots=True)
class Memory:
    """Memory that the NIC maps: a NumPy array and its bus address.

    Work with `array`, or ask `view` for it where races are to be found: then the access can be seen.
    """

    array: np.ndarray[Any, Any]
    address: int
    shared: SharedMemory
    nic_name: str = ""
    log: EventLog | None = None

    @property
    def length_bytes(self) -> int:
        """Bytes of the array."""
        return int(self.array.nbytes)

    def view(self, mode: str, span: Span | None = None) -> np.ndarray[Any, Any]:
        """Return the array, or the bytes of `span`, and declare that they are read ("r") or written ("w").

        Ask again for every access: what is done later with an array that was asked for before is not seen.
        """
        if mode not in ("r", "w", "rw"):
            raise UsageError(f'a view is asked for to read, "r", to write, "w", or both, "rw"; not {mode!r}')
        first, length = 0, self.length_bytes
        if span is not None:
            first, length = span.address - self.address, span.length_bytes
            if first < 0 or first + length > self.length_bytes:
                raise UsageError("the span does not lie in this memory")
        if self.log is not None:
            self.log.add_here(
                "access", nic=self.nic_name, mode=mode, address=self.address + first, length_bytes=length
            )
        if span is None:
            return self.array
        return self.array.reshape(-1).view(np.uint8)[first : first + length]


class ClosedConnection:
    """What a closed NIC has instead of a connection: whatever is asked of it is refused."""

    log = None

    def __init__(self, nic_name: str) -> None:
        self.nic_name = nic_name

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        raise UsageError(f"{self.nic_name} was closed; open it again")


class Nic:
    """One NIC, over a connection. Use it as a context manager; closing it cancels its work.

    Any thread may count, arm, cancel, post and wait; packets and completions are for one thread each.
    """

    def __init__(self, connection: Connection) -> None:
        self.log: EventLog | None = getattr(connection, "log", None)
        self.connection = connection if self.log is None else LoggedConnection(connection, self.log)
        self.closed = False
        self.lock = threading.RLock()
        bar = connection.bar.address
        if load_u64(bar + registers.IDENTITY) != registers.MAGIC:
            raise UsageError(f"{connection.nic_name}: the shared memory is no nicemu BAR")
        self.opened = load_u64(bar + registers.OPENED)
        if self.log is not None:
            owner = load_u32(bar + registers.IDENTITY + 12)
            self.log.add_here("open", nic=connection.nic_name, owner=owner, opened=self.opened)
        self._commands = 0
        self._responses = 0
        self._received = load_u64(self._host_word(registers.WORD_RECEIVE))
        self._transmitted = 0
        staging = connection.bar.view[registers.STAGING : registers.STAGING + registers.STAGING_COUNT * 128]
        self._staging = np.frombuffer(staging, ARMED)
        self.completions = CompletionQueue(self.connection)
        self._programs: tuple[Memory, Span] | None = None
        self._events: dict[str, int] = {}
        self._windows: list[int] = []
        told = dict(connection.request("limits")["limits"])
        self.limits = Limits(**{**told, "order": FiringOrder(told["order"])})
        self.capabilities = self._what_it_can_do()

    def __enter__(self) -> Nic:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back: armed work is cancelled, keys and queue pairs are gone. Twice is once."""
        if self.closed:
            return
        self.closed = True
        self._staging = np.empty(0, ARMED)
        self.completions.close()
        self.connection.close()
        self.connection = ClosedConnection(self.connection.nic_name)

    def _host_word(self, word: int) -> int:
        return self.connection.bar.address + registers.HOST_WORDS + word * registers.WORD_STRIDE

    # Memory

    def allocate(self, shape: tuple[int, ...], dtype: object = np.uint8, kind: str = "gpu") -> Memory:
        """Return zeroed memory that the NIC can reach; `kind` "gpu" stands for GPU memory, "host" for the
        host's.
        """
        element = np.dtype(dtype)  # type: ignore[call-overload]
        length_bytes = int(np.prod(shape)) * element.itemsize
        shared, address = self.connection.share(length_bytes, kind)
        array = np.frombuffer(shared.view, element, count=int(np.prod(shape))).reshape(shape)
        return Memory(array, address, shared, self.connection.nic_name, self.log)

    def register(self, memory: Memory, counter: Counter | None = None) -> Span:
        """Register all of `memory`; `counter` counts remote writes that arrive in it."""
        reply = self.connection.request(
            "register",
            address=memory.address,
            length_bytes=memory.length_bytes,
            counter=None if counter is None else counter.index,
        )
        return Span(memory.address, memory.length_bytes, int(reply["key"]))

    def deregister(self, span: Span, force: bool = False) -> None:
        """Take a key back. Raises: UsageError (EBUSY) if armed work uses it, unless forced."""
        self.connection.request("deregister", key=span.key, force=force)

    # Counters and programs

    def counters(self, *names: str, remote: bool = False, counts_bytes: bool = False) -> list[Counter]:
        """Allocate counters; `remote` ones may be bumped by immediates of connected peers.

        `counts_bytes`: a success counts the bytes that were moved, an error still 1.
        Source: fi_cntr(3), FI_CNTR_EVENTS_BYTES.
        """
        made = []
        for name in names:
            reply = self.connection.request(
                "counter_open", name=name, remote=remote, counts_bytes=counts_bytes
            )
            made.append(Counter(self, int(reply["counter"]), name))
        return made

    def event(self, name: str) -> int:
        """Return the number of a firmware event, for `Step.event`: what `@on_trigger(name)` handles."""
        if name not in self._events:
            self._events[name] = int(self.connection.request("event_open", name=name)["event"])
        return self._events[name]

    @property
    def slots_free(self) -> int:
        """Trigger slots that this process can still take; others may be quicker."""
        return int(self.connection.request("limits")["slots_free"])

    @contextmanager
    def program(self, name: str) -> Iterator[ArmableProgram]:
        """Write a program; arm it afterwards with `program.arm()`."""
        yield ArmableProgram(name, self)

    @one_at_a_time
    def arm(self, work: list[DeferredWork]) -> list[tuple[int, int]]:
        """Arm a list of deferred work, all or nothing; return the handles for `cancel`."""
        if not work:
            return []
        self._check_operations(work)
        if len(work) > self.limits.host_slots:
            raise TriggerTableFull(
                f"{len(work)} operations; {self.limits.profile} has {self.limits.host_slots} trigger slots "
                "(ENOSPC); arm a window of them"
            )
        records = pack_program(work)
        if len(work) <= registers.STAGING_COUNT:
            self._staging[: len(work)] = records
            status, _ = self._command(CommandCode.ARM, 0, len(work))
            armed = self._staging[: len(work)]
        else:
            memory, span = self._program_memory(len(work))
            armed = memory.array.view(ARMED)[: len(work)]
            armed[:] = records
            status, _ = self._command(CommandCode.ARM_PROGRAM, span.address, len(work), span.key)
        self._check(status, self._why_not_armed(work, status))
        self._tell_armed(armed["sequence"].tolist(), work)
        return list(zip(armed["owner"].tolist(), armed["sequence"].tolist(), strict=True))

    def _why_not_armed(self, work: list[DeferredWork], status: CommandStatus) -> str:
        """Say which operation the NIC will not have taken, as far as it can be told from here."""
        count = f"{len(work)} operation{'s' if len(work) != 1 else ''} cannot be armed; nothing was"
        if status in (CommandStatus.OK, CommandStatus.NO_SPACE):
            return count
        errors = [one for one in check_program(work, self.limits) if one.severity is Severity.ERROR]
        return f"{count} ({errors[0]})" if errors else count

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
        self._check_operations(work)
        memory, span = self._program_memory(len(work))
        memory.array.view(ARMED)[: len(work)] = pack_program(work)
        reply = self.connection.request(
            "window_open", address=span.address, key=span.key, count=len(work), size=size
        )
        self._windows.append(int(reply["window"]))
        if self.log is not None:
            self.log.add_here("window", nic=self.connection.nic_name, window=self._windows[-1])
        return self._windows[-1]

    def cancel_window(self, window: int) -> int:
        """Cancel what of a window's program has not fired; return how many operations."""
        return int(self.connection.request("window_close", window=window)["cancelled"])

    @one_at_a_time
    def post_receive(self, local: Span, qp_num: int, wr_id: int = 0) -> None:
        """Post a receive: the next message on that queue pair lands in `local`, with a completion.

        Raises: ResourceError (ENOSPC) if the receive queue is full.
        """
        self.check_open()
        work = WorkRequest(Opcode.RECV, (local.sge(),), wr_id=wr_id)
        self._staging[0] = np.zeros((), ARMED)
        pack_work(self._staging[0], work, qp_num)
        self._staging[0]["completion"] = -1
        if self.log is not None:
            piece = [local.address, local.length_bytes, local.key]
            self.log.add_here("receive", nic=self.connection.nic_name, qp=qp_num, piece=piece)
        self.command(CommandCode.POST_RECEIVE, 0, 1)

    @one_at_a_time
    def post(self, qp_num: int, *work: WorkRequest) -> None:
        """Post work requests to a queue pair, to be carried out in order as soon as possible."""
        if len(work) > registers.STAGING_COUNT:
            raise TriggerTableFull(
                f"{len(work)} requests; at most {registers.STAGING_COUNT} at once (ENOSPC)"
            )
        for position, request in enumerate(work):
            self._staging[position] = np.zeros((), ARMED)
            pack_work(self._staging[position], request, qp_num)
            self._staging[position]["completion"] = -1
        status, _ = self._command(CommandCode.POST, 0, len(work))
        self._check(status, f"work for queue pair {qp_num} was refused")
        self._tell_armed(self._staging["sequence"][: len(work)].tolist(), [])

    def write(self, local: Span | tuple[Span, ...], remote: RemoteSpan, signaled: bool = False) -> None:
        """RDMA write now."""
        spans = (local,) if isinstance(local, Span) else local
        sges = tuple(span.sge() for span in spans)
        work = WorkRequest(Opcode.RDMA_WRITE, sges, remote.address, remote.rkey, signaled=signaled)
        self.post(remote.qp_num, work)

    def cancel(self, handle: tuple[int, int]) -> bool:
        """Cancel one armed operation: True if it will never fire.

        Raises: Unsupported where only whole counters can be cancelled (`limits.single_cancel`).
        """
        status, value = self._command(CommandCode.CANCEL, *handle)
        if status is CommandStatus.NOT_SUPPORTED:
            raise Unsupported("R37", f"{self.limits.profile} cancels no single operation; flush instead")
        return status is CommandStatus.OK and value == 1

    def cancel_counter(self, counter: TargetCounter) -> int:
        """Cancel all that waits for a counter; return how many.

        Raises: UsageError for a counter of another NIC.
        """
        if getattr(counter, "target", self) is not self:
            raise UsageError(f"counter {counter.name} is another NIC's (EINVAL)")
        return self.command(CommandCode.CANCEL_COUNTER, counter.index)

    def flush(self) -> int:
        """Cancel all armed work of this process, also what windows would arm; return how many."""
        waiting = sum(self.cancel_window(window) for window in self._windows)
        self._windows.clear()
        return waiting + self.command(CommandCode.FLUSH)

    def take_completions(self) -> list[WorkCompletion]:
        """Return the completion-queue entries that have come in."""
        return self.completions.poll(registers.COMPLETION_COUNT)

    def _what_it_can_do(self) -> Capabilities:
        limits = self.limits
        operations = frozenset(Opcode)
        if limits.profile != "unlimited":
            operations -= {Opcode.NVME_READ, Opcode.NVME_WRITE, Opcode.FIRMWARE_EVENT}
        return Capabilities(operations, limits.single_cancel, order=limits.order)

    def _check_operations(self, work: list[DeferredWork]) -> None:
        """Raise Unsupported for what this NIC, or the one whose limits it has, does not know."""
        unknown = {item.opcode for item in work} - self.capabilities.operations
        if unknown:
            names = ", ".join(sorted(Opcode(opcode).name for opcode in unknown))
            raise Unsupported("R15", f"{names}: not supported by {self.limits.profile}; nothing was armed")

    def _tell_armed(self, sequences: list[int], work: list[DeferredWork]) -> None:
        """Put down what the command before this has armed or posted."""
        if self.log is None:
            return
        pieces = [
            [[sge.address, sge.length, sge.lkey] for sge in item.work.sges] if item.work else []
            for item in work
        ]
        told = {"nic": self.connection.nic_name, "opened": self.opened, "number": self._commands}
        triggers = [item.trigger for item in work]
        self.log.add_here("armed", **told, sequences=sequences, pieces=pieces, triggers=triggers)

    # Commands

    def command(self, code: CommandCode, *words: int) -> int:
        """Give the NIC a command and return its value.

        Raises: UsageError or ResourceError as the NIC's status says.
        """
        status, value = self._command(code, *words)
        self._check(status, f"{code.name}{words} was refused")
        return value

    @staticmethod
    def _check(status: CommandStatus, what: str) -> None:
        if status is CommandStatus.NO_SPACE:
            raise TriggerTableFull(f"{what}: no space (ENOSPC)")
        if status is not CommandStatus.OK:
            raise UsageError(f"{what}: {status.name.lower().replace('_', ' ')} (errno {status.value})")

    def check_open(self) -> None:
        """Raise UsageError if this NIC was closed: its memory is not there any more."""
        if self.closed:
            raise UsageError(f"{self.connection.nic_name} was closed; open it again")

    @one_at_a_time
    def _command(self, code: CommandCode, *words: int) -> tuple[CommandStatus, int]:
        self.check_open()
        bar = self.connection.bar.address
        entry = bar + registers.COMMANDS + self._commands % registers.COMMAND_COUNT * 64
        tag = self._commands & 0xFFFFFFFF
        store_u64(entry, int(code) | tag << 32)
        for position in range(6):
            store_u64(entry + 8 + 8 * position, words[position] if position < len(words) else 0)
        self._commands += 1
        if self.log is not None:
            told = {"nic": self.connection.nic_name, "opened": self.opened, "number": self._commands}
            self.log.add_here("command", **told, code=code.name, words=list(words))
        store_u64(entry + 56, self._commands)
        self.connection.notify()
        response = bar + registers.RESPONSES + self._responses % registers.RESPONSE_COUNT * 64
        expected = self._responses + 1
        if not self.connection.wait(lambda: load_u64(response + 56) == expected, 10.0, (0, 0)):
            raise NicemuError(f"{self.connection.nic_name} did not answer a {code.name} command in 10 s")
        head, value = load_u64(response), load_u64(response + 8)
        self._responses = expected
        store_u64(self._host_word(registers.WORD_RESPONSES), expected)
        return CommandStatus(head >> 32), value

    # Peers, packets, landing slots

    def connect(self, peer: str, **private_data: int) -> Peer:
        """Connect a queue pair to a peer NIC's firmware; `private_data` is what its `@on_connect` reads."""
        reply = self.connection.request("connect", peer=peer, private_data=private_data)
        return Peer(peer, int(reply["number"]), int(reply["qp_num"]), dict(reply["private_data"]))

    def disconnect(self, peer: Peer, force: bool = False) -> None:
        """Give a queue pair back; the peer's firmware hears of it.

        Raises: UsageError (EBUSY) while armed work names it; `force` cancels that work.
        """
        self.connection.request("disconnect", qp_num=peer.qp_num, force=force)

    def connected_peers(self) -> list[str]:
        """Return the peers that this process has a working queue pair to; one that was lost is missing."""
        return list(self.connection.request("peers")["connected"])

    def listen(self) -> None:
        """Receive the packets that the match-action program sends to the host."""
        self.connection.request("listen")

    def receive(self, timeout_s: float = 5.0) -> Packet | None:
        """Return the next packet; None if none comes in time."""
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
        if not 14 <= len(frame) <= room:
            raise UsageError(f"a frame of {len(frame)} bytes; the transmit ring takes 14 to {room}")
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
        reply = self.connection.request(
            "landing_post",
            index=index,
            address=span.address,
            length_bytes=span.length_bytes,
            key=span.key,
        )
        return Span(span.address, span.length_bytes, int(reply["key"]))

    def withdraw_landing(self, index: int) -> int | None:
        """Take a landing slot off the free ring and return the key that it has now; None if the NIC is using
        it.
        """
        key: int | None = self.connection.request("landing_withdraw", index=index)["key"]
        return key
