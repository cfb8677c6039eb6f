# SPDX-License-Identifier: Apache-2.0
"""The server of the programs of perftest, for clients that connect by rdma_cm: `ib_write_bw -R` and its kin.

A client connects twice. Over the first connection it talks: it SENDs a message, and waits for one of the same
length. Most of them are numbers (its version, cache line, path MTU, results) that are right again when they
come back; one of 56 bytes says where memory is, and gets our own. The other connections, one a queue pair of
the test, carry the work itself. With `-z` instead of `-R` there is only the first, and queue pairs are
connected by the numbers in those messages.
Source: perftest(1); what perftest 4.5 was captured to send between two machines.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.cm import Connection
from nicemu.errors import ResourceError, UsageError
from nicemu.fabric import RegisteredRegion, RoceEndpoint
from nicemu.rdma import Arrival, ArrivalKind, Completion
from nicemu.wire import parse_ipv4

from .application import PD, Application, Totals

PERFTEST_PORT = 18515
BUFFER_BYTES = 1 << 23
"""As much as the largest message of perftest's `-a`."""
PERFTEST_PROGRAMS = (
    "ib_write_bw",
    "ib_write_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
    "ib_send_bw",
    "ib_send_lat",
)
"""Programs that are served."""
LATENCY_BYTES = 2
"""What programs for latencies send if nothing else is said."""
_ANSWERS_SENDS = "ib_send_lat"
_WRITES_FIRST = "ib_write_lat"
RECEIVES = 512
_MESSAGE_BYTES = 64
_MESSAGES = 8
_DESTINATION = struct.Struct("!IIIII4xQ16sII")
_IPV4_GID_INDEX = 1


@dataclass(frozen=True, slots=True)
class Destination:
    """What one side says of a queue pair: READs at a time, its number, first PSN, and a buffer for it."""

    out_reads: int = 0
    qp_num: int = 0
    psn: int = 0
    rkey: int = 0
    address: int = 0
    gid: bytes = bytes(16)
    gid_index: int = 0

    def encode(self) -> bytes:
        """Return the message's 56 bytes."""
        return _DESTINATION.pack(
            0, self.out_reads, self.qp_num, self.psn, self.rkey, self.address, self.gid, 0, self.gid_index
        )

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Destination:
        """Read a message of 56 bytes."""
        _, out_reads, qp_num, psn, rkey, address, gid, _, gid_index = _DESTINATION.unpack(data)
        return cls(out_reads, qp_num & 0xFFFFFF, psn & 0xFFFFFF, rkey, address, gid, gid_index)


@dataclass
class _Pair:
    """A queue pair of the test: the client's that it is connected to, and how often we have written there."""

    connection: Connection
    theirs: int
    there: Destination | None = None
    writes: int = 0


@dataclass
class _Client:
    """One run of a program: the connection it talks over, its queue pairs, and our memory for it."""

    talk: Connection
    messages: RegisteredRegion
    buffer: RegisteredRegion
    has_named: bool = False
    """Whether it has named queue pairs, or told with a message of zeros that it connects them now."""
    totals: Totals = field(default_factory=Totals)
    pairs: dict[int, _Pair] = field(default_factory=dict)
    """By the numbers of our queue pairs of the test."""

    @property
    def is_connecting(self) -> bool:
        """Whether a connection may be a queue pair of the test: until there has been work on one."""
        return self.has_named and not self.totals.operations


class PerftestServer(Application):
    """Serves clients of one program, one at a time from each address; another one is rejected, a problem.

    Which client a connection belongs to is not said: queue pairs of the test are those that are connected
    between the first message about them and the first work on them.

    What a client's program is cannot be seen from here: `program` says it, and with it what is answered.
    `size_bytes` is that of ib_write_lat's messages, its client's -s: there the server writes first, and each
    side when the other has written, until the client has had enough.
    """

    def __init__(
        self,
        endpoint: RoceEndpoint,
        program: str = "ib_write_bw",
        port: int = PERFTEST_PORT,
        report: Callable[[str], object] | None = None,
        size_bytes: int = LATENCY_BYTES,
    ) -> None:
        if not 0 < size_bytes <= BUFFER_BYTES:
            raise UsageError(f"messages have 1 to {BUFFER_BYTES} bytes, not {size_bytes}")
        if program not in PERFTEST_PROGRAMS:
            raise UsageError(
                f"{program!r} is no program that is served; they are {', '.join(PERFTEST_PROGRAMS)}"
            )
        super().__init__(endpoint, port, report)
        self._program = program
        self._size_bytes = size_bytes
        self._clients: dict[str, _Client] = {}

    def on_request(self, connection: Connection) -> None:
        """Accept it: a client's first connection is to talk over, the others are to work with."""
        client = self._clients.get(connection.peer.ip)
        now_ns = time.monotonic_ns()
        if client is None:
            messages, buffer = self._register()
            client = _Client(connection, messages, buffer)
            self._endpoint.cm.accept(connection, PD, now_ns)
            self._clients[connection.peer.ip] = client
            for number in range(_MESSAGES):
                self.post_receive(connection, client.messages, _MESSAGE_BYTES, number * _MESSAGE_BYTES)
            return
        if not client.is_connecting:
            self._endpoint.cm.reject(connection)
            self._refused(connection)
            return
        assert connection.remote is not None
        qp_num = self._endpoint.cm.accept(connection, PD, now_ns, receive_queue_depth=RECEIVES)
        client.pairs[qp_num] = _Pair(connection, connection.remote.qp_num)
        for _ in range(RECEIVES):
            self.post_receive(connection, client.buffer, BUFFER_BYTES)

    def on_arrival(self, connection: Connection, arrival: Arrival) -> None:
        """Answer a message, or count what was done and answer it as the program does."""
        client = self._clients.get(connection.peer.ip)
        if client is None:
            return
        if connection is client.talk:
            if arrival.kind is ArrivalKind.SEND:
                self._on_message(client, arrival)
            return
        pair = client.pairs.get(arrival.qp_num)
        if pair is None:
            return
        if pair.there is None:  # nobody has named this queue pair: another client talks over it
            del client.pairs[arrival.qp_num]
            self._endpoint.cm.disconnect(connection, time.monotonic_ns())
            self._refused(connection)
            return
        self.count(client.totals, arrival.byte_len)
        if self._program == _WRITES_FIRST:
            self._write_back(client, pair)
        if arrival.kind is ArrivalKind.SEND:
            self.post_receive(connection, client.buffer, BUFFER_BYTES)
            if self._program == _ANSWERS_SENDS:
                piece = Sge(client.buffer.address, arrival.byte_len, client.buffer.key)
                self.post(connection, WorkRequest(Opcode.SEND, (piece,)))

    def on_completion(self, connection: Connection, completion: Completion) -> None:
        """Nothing waits for it."""

    def on_disconnect(self, connection: Connection) -> None:
        """Forget the client when it talks no more."""
        client = self._clients.get(connection.peer.ip)
        if client is None or client.talk is not connection:
            return
        del self._clients[connection.peer.ip]
        self.is_through(connection, client.totals, self._program)
        for region in (client.messages, client.buffer):
            self._endpoint.memory.deregister(region)

    def _refused(self, connection: Connection) -> None:
        """Note that another client came from the address of one that is under way."""
        ip = connection.peer.ip
        self.totals.problems.append(f"{ip} asked again while its {self._program} is under way: it is refused")

    def _register(self) -> tuple[RegisteredRegion, RegisteredRegion]:
        """Return memory to talk and to work with, both or none."""
        memory = self._endpoint.memory
        messages = memory.register(4096, pd=PD)
        try:
            return messages, memory.register(BUFFER_BYTES, pd=PD)
        except ResourceError:
            memory.deregister(messages)
            raise

    def _on_message(self, client: _Client, arrival: Arrival) -> None:
        place = arrival.wr_id
        heard = bytes(client.messages.view[place : place + arrival.byte_len])
        self.post_receive(client.talk, client.messages, _MESSAGE_BYTES, place)
        said = self._about(client, Destination.decode(heard)) if len(heard) == _DESTINATION.size else heard
        answer_place = place + _MESSAGES * _MESSAGE_BYTES
        client.messages.view[answer_place : answer_place + len(said)] = said
        piece = Sge(client.messages.address + answer_place, len(said), client.messages.key)
        self.post(client.talk, WorkRequest(Opcode.SEND, (piece,)))
        for pair in client.pairs.values():
            if self._program == _WRITES_FIRST and pair.there is not None and not pair.writes:
                self._write_back(client, pair)

    def _write_back(self, client: _Client, pair: _Pair) -> None:
        """Write a message whose last byte is how many we have written: the client waits for that."""
        assert pair.there is not None
        pair.writes += 1
        client.buffer.view[self._size_bytes - 1] = pair.writes & 0xFF
        piece = Sge(client.buffer.address, self._size_bytes, client.buffer.key)
        there = pair.there
        self.post(pair.connection, WorkRequest(Opcode.RDMA_WRITE, (piece,), there.address, there.rkey))

    def _about(self, client: _Client, there: Destination) -> bytes:
        """Return what the client has to know of our queue pair that is connected to its one."""
        client.has_named = True
        qp_num = next((ours for ours, pair in client.pairs.items() if pair.theirs == there.qp_num), 0)
        if not qp_num:
            return Destination().encode()  # it is not connected yet, and this keeps both in step
        client.pairs[qp_num].there = there
        here = Destination(
            qp_num=qp_num,
            psn=self._endpoint.engine.local(qp_num).psn,
            rkey=client.buffer.key,
            address=client.buffer.address,
            gid=bytes(10) + b"\xff\xff" + parse_ipv4(self._endpoint.ip),
            gid_index=_IPV4_GID_INDEX,
        )
        return replace(here, out_reads=there.out_reads).encode()
