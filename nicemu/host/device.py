# SPDX-License-Identifier: Apache-2.0
"""A NIC as a host program sees it: memory, counters, programs of deferred work, peers, packets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from nicemu.abi import (
    ARMED,
    CommandCode,
    CommandStatus,
    Condition,
    Connection,
    DeferredWork,
    Opcode,
    Program,
    RemoteSpan,
    SharedMemory,
    Span,
    WorkRequest,
    pack_deferred,
    pack_work,
    registers,
)
from nicemu.errors import NicemuError, ResourceError, UsageError
from nicemu.pcie import load_u64, store_u32, store_u64
from nicemu.wire import Ethernet, UdpFrame, encode_udp_frame

from .completion import CompletionQueue
from .stream import Stream


class CounterError(NicemuError):
    """A counter's error value changed while somebody waited for its success value."""

    def __init__(self, name: str, success: int, errors: int) -> None:
        super().__init__(f"counter {name}: {errors} errors, {success} successes")
        self.success = success
        self.errors = errors


class TriggerTableFull(ResourceError):  # noqa: N818 - the name the specification's readers know (ENOSPC)
    """There are not enough trigger slots; nothing was armed."""


@dataclass(eq=False, slots=True)
class Memory:
    """Memory that the NIC maps: a NumPy array and its bus address."""

    array: np.ndarray[Any, Any]
    address: int
    shared: SharedMemory

    @property
    def length_bytes(self) -> int:
        """Bytes of the array."""
        return int(self.array.nbytes)


class Counter:
    """A trigger counter. `counter >= n` is a condition for `Program.when`."""

    __hash__ = object.__hash__

    def __init__(self, nic: Nic, index: int, name: str) -> None:
        self._nic = nic
        self.index = index
        self.name = name
        self._entry = nic.connection.bar.address + registers.WRITE_BACK + index * registers.WRITE_BACK_BYTES
        self._cells: dict[int, tuple[Stream, int, int]] = {}

    def __ge__(self, threshold: int) -> Condition:
        return Condition(self.index, threshold)

    def read(self) -> tuple[int, int]:
        """Return (success, errors) as last published, both of one moment."""
        while True:
            version = load_u64(self._entry + 24)
            success, errors = load_u64(self._entry + 8), load_u64(self._entry + 16)
            if version % 2 == 0 and load_u64(self._entry + 24) == version:
                return success, errors

    @property
    def success(self) -> int:
        """The success value."""
        return self.read()[0]

    @property
    def errors(self) -> int:
        """The error value."""
        return self.read()[1]

    def add(self, success: int = 1, errors: int = 0) -> None:
        """Count from the host."""
        self._check(success, errors)
        self._nic.command(CommandCode.COUNTER_ADD, self.index, success, errors)

    def set(self, success: int | None = None, errors: int | None = None) -> None:
        """Replace the success value, the error value or both."""
        self._check(success or 0, errors or 0)
        which = (1 if success is not None else 0) | (2 if errors is not None else 0)
        self._nic.command(CommandCode.COUNTER_SET, self.index, success or 0, errors or 0, which)

    @staticmethod
    def _check(*values: int) -> None:
        for value in values:
            if not isinstance(value, int) or not 0 <= value < 1 << 64:
                raise UsageError(f"{value!r} is no unsigned 64-bit count (EINVAL); nothing was changed")

    def wait(self, threshold: int, timeout_s: float = 5.0) -> None:
        """Wait until the success value reaches `threshold`.

        Raises: CounterError if the error value changes first, TimeoutError after `timeout_s`.
        Source: fi_cntr(3), fi_cntr_wait.
        """
        errors_before = self.errors
        reached = False

        def is_over() -> bool:
            nonlocal reached
            success, errors = self.read()
            reached = success >= threshold
            return reached or errors != errors_before

        if not isinstance(threshold, int) or threshold < 0:
            raise UsageError(f"a threshold is a number of counts, 0 or more, not {threshold!r} (EINVAL)")
        # The NIC wakes at a sum of successes and errors; those errors that are there already count in it.
        over = self._nic.connection.wait(is_over, timeout_s, (self.index, threshold + errors_before))
        success, errors = self.read()
        if reached:
            return
        if over:
            raise CounterError(self.name, success, errors)
        raise TimeoutError(f"counter {self.name} is at {success} after {timeout_s} s, not at {threshold}")

    def trigger_after(self, stream: Stream, by: int = 1) -> None:
        """Count `by` when `stream` has finished what was put into it before.

        The stream stores an absolute total in a doorbell cell of its own, so two rings never become one.
        """
        if id(stream) not in self._cells:
            cell = self._nic.connection.request("doorbell_open", counter=self.index)["cell"]
            self._cells[id(stream)] = (stream, int(cell), 0)
        _, cell, total = self._cells[id(stream)]
        total += by
        self._cells[id(stream)] = (stream, cell, total)
        stream.store(self._nic.connection.bar, registers.DOORBELLS + 8 * cell, total)

    def close(self, force: bool = False) -> None:
        """Give the counter back.

        Raises: UsageError (EBUSY) if work is armed on it or aims at it, unless forced.
        """
        self._nic.connection.request("counter_close", counter=self.index, force=force)


@dataclass(frozen=True, slots=True)
class Peer:
    """A connected peer NIC: the local queue pair, and what its firmware granted."""

    name: str
    number: int
    qp_num: int
    private_data: dict[str, int]

    def span(self, address: int, length_bytes: int, rkey: int) -> RemoteSpan:
        """Name memory of the peer."""
        return RemoteSpan(self.qp_num, address, length_bytes, rkey)


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet from the NIC. `info`: what the NIC did for it, (0,) for nothing; see the firmware that did
    it.
    """

    frame: bytes
    info: tuple[int, ...]

    @property
    def payload(self) -> bytes:
        """The UDP payload. Raises: MalformedError for a packet that is not UDP over IPv4."""
        return bytes(UdpFrame.decode(self.frame).payload)

    def reply(self, payload: bytes) -> bytes:
        """Return the frame that carries `payload` back to where this packet came from."""
        parts = UdpFrame.decode(self.frame)
        ethernet = Ethernet(parts.ethernet.source, parts.ethernet.destination, parts.ethernet.ethertype)
        return encode_udp_frame(
            ethernet,
            parts.ip.destination,
            parts.ip.source,
            parts.udp.destination_port,
            parts.udp.source_port,
            payload,
        )


class ArmableProgram(Program):
    """A program that this NIC can arm."""

    def __init__(self, name: str, nic: Nic) -> None:
        super().__init__(name)
        self._nic = nic
        self.handles: list[tuple[int, int]] = []

    def arm(self) -> None:
        """Arm everything, or nothing.

        Raises: TriggerTableFull (ENOSPC), UsageError (EINVAL, EACCES) with nothing armed.
        """
        self.handles += self._nic.arm(self.work)

    def cancel(self) -> int:
        """Cancel what has not fired; return how many operations that were."""
        return sum(self._nic.cancel(handle) for handle in self.handles)


class Nic:
    """One NIC, over a connection. Use it as a context manager; closing it cancels its work."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        bar = connection.bar.address
        if load_u64(bar + registers.IDENTITY) != registers.MAGIC:
            raise UsageError(f"{connection.nic_name}: the shared memory is no nicemu BAR")
        self._commands = 0
        self._responses = 0
        self._received = load_u64(self._host_word(registers.WORD_RECEIVE))
        self._transmitted = 0
        staging = connection.bar.view[registers.STAGING : registers.STAGING + registers.STAGING_COUNT * 128]
        self._staging = np.frombuffer(staging, ARMED)
        self.completions = CompletionQueue(connection)

    def __enter__(self) -> Nic:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back: armed work is cancelled, keys and queue pairs are gone."""
        self._staging = np.empty(0, ARMED)
        self.connection.close()

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
        return Memory(array, address, shared)

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

    def counters(self, *names: str, remote: bool = False) -> list[Counter]:
        """Allocate counters; `remote` ones may be bumped by immediates of connected peers."""
        made = []
        for name in names:
            reply = self.connection.request("counter_open", name=name, remote=remote)
            made.append(Counter(self, int(reply["counter"]), name))
        return made

    @contextmanager
    def program(self, name: str) -> Iterator[ArmableProgram]:
        """Write a program; arm it afterwards with `program.arm()`."""
        yield ArmableProgram(name, self)

    def arm(self, work: list[DeferredWork]) -> list[tuple[int, int]]:
        """Arm a list of deferred work, all or nothing; return the handles for `cancel`."""
        if not work:
            return []
        if len(work) > registers.STAGING_COUNT:
            raise TriggerTableFull(
                f"{len(work)} operations; one program holds {registers.STAGING_COUNT} (ENOSPC)"
            )
        records = np.zeros(len(work), ARMED)
        for record, item in zip(records, work, strict=True):
            pack_deferred(record, item)
        self._staging[: len(work)] = records
        status, _ = self._command(CommandCode.ARM, 0, len(work))
        self._check(status, f"{len(work)} operations cannot be armed; nothing was")
        armed = self._staging[: len(work)]
        return [(int(record["owner"]), int(record["sequence"])) for record in armed]

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

    def write(self, local: Span | tuple[Span, ...], remote: RemoteSpan, signaled: bool = False) -> None:
        """RDMA write now."""
        spans = (local,) if isinstance(local, Span) else local
        sges = tuple(span.sge() for span in spans)
        work = WorkRequest(Opcode.RDMA_WRITE, sges, remote.address, remote.rkey, signaled=signaled)
        self.post(remote.qp_num, work)

    def cancel(self, handle: tuple[int, int]) -> bool:
        """Cancel one armed operation: True if it will never fire."""
        status, value = self._command(CommandCode.CANCEL, *handle)
        return status is CommandStatus.OK and value == 1

    def cancel_counter(self, counter: Counter) -> int:
        """Cancel all that waits for a counter; return how many."""
        return self.command(CommandCode.CANCEL_COUNTER, counter.index)

    def flush(self) -> int:
        """Cancel all armed work of this process; return how many."""
        return self.command(CommandCode.FLUSH)

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

    def _command(self, code: CommandCode, *words: int) -> tuple[CommandStatus, int]:
        bar = self.connection.bar.address
        entry = bar + registers.COMMANDS + self._commands % registers.COMMAND_COUNT * 64
        tag = self._commands & 0xFFFFFFFF
        store_u64(entry, int(code) | tag << 32)
        for position in range(6):
            store_u64(entry + 8 + 8 * position, words[position] if position < len(words) else 0)
        self._commands += 1
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
