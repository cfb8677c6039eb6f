# SPDX-License-Identifier: Apache-2.0
"""The client of `ib_write_bw -R`, `ib_read_bw -R` and `ib_atomic_bw -R`, for the servers of perftest.

Source: perftest(1); what perftest 4.5 was captured to send between two machines.
"""

from __future__ import annotations

import struct
import time

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import NicemuError, ProtocolError, UsageError
from nicemu.fabric import RegisteredRegion, RoceEndpoint
from nicemu.wire import parse_ipv4

from .application import PD
from .client import Asked, Client
from .perftest import PERFTEST_PORT, Destination

PERFTEST_CLIENTS = {
    "ib_write_bw": Opcode.RDMA_WRITE,
    "ib_read_bw": Opcode.RDMA_READ,
    "ib_atomic_bw": Opcode.FETCH_ADD,
}
"""Programs whose client we can be, and what each does."""
VERSION = b"6.06"
"""What perftest 4.5 calls itself; later ones talk to it as it talks."""
_PATH_MTU_CODES = {256: b"1", 512: b"2", 1024: b"3", 2048: b"4", 4096: b"5"}
_CYCLE_BUFFER_BYTES, _CACHE_LINE_BYTES = 4096, 64
_NOTES_BYTES = 256
_HEARD = 128
_AT_ONCE = 64
_MIB = 1 << 20


class PerftestClient:
    """Runs a program against a server that was started with the same `size_bytes` and `-R`."""

    def __init__(
        self,
        endpoint: RoceEndpoint,
        ip: str,
        program: str = "ib_write_bw",
        port: int = PERFTEST_PORT,
        *,
        path_mtu: int = 1024,
        limit_s: float = 20.0,
    ) -> None:
        """Connect, and say who we are.

        Raises: UsageError for a program that we cannot be; ResourceError if nobody answers in time;
        ProtocolError if the server refuses.
        """
        if program not in PERFTEST_CLIENTS:
            raise UsageError(
                f"{program!r} is none whose client we are; they are {', '.join(PERFTEST_CLIENTS)}"
            )
        self._opcode = PERFTEST_CLIENTS[program]
        self._endpoint, self._port, self._path_mtu = endpoint, port, path_mtu
        self._client = Client(endpoint, ip, limit_s)
        self._notes = endpoint.memory.register(_NOTES_BYTES, pd=PD)
        try:
            self._talk = self._client.connect(port, path_mtu=path_mtu, first=self._receive)
            self._say(VERSION.ljust(16, b"\0"))
            for number in (_CYCLE_BUFFER_BYTES, _CACHE_LINE_BYTES):
                self._say(struct.pack("!I", number))
            self._say(_PATH_MTU_CODES[path_mtu].ljust(2, b"\0"))
        except NicemuError:
            endpoint.memory.deregister(self._notes)
            raise

    def run(self, iterations: int, size_bytes: int) -> float:
        """Do the work and report it to the server, which ends then; return the seconds that the work took.

        Raises: ProtocolError if work fails or the server leaves; ResourceError if nothing comes in time.
        """
        if self._opcode is Opcode.FETCH_ADD:
            size_bytes = 8
        memory = self._endpoint.memory.register(max(size_bytes, _CYCLE_BUFFER_BYTES), pd=PD)
        try:
            return self._report(memory, iterations, size_bytes)
        finally:
            self._endpoint.memory.deregister(memory)
            self._endpoint.memory.deregister(self._notes)

    def _report(self, memory: RegisteredRegion, iterations: int, size_bytes: int) -> float:
        self._say(Destination().encode())
        work = self._client.connect(self._port, path_mtu=self._path_mtu, is_patient=True)
        self._say(Destination().encode())
        mine = Destination(
            out_reads=1,
            qp_num=work.qp_num,
            rkey=memory.key,
            address=memory.address,
            gid=bytes(10) + b"\xff\xff" + parse_ipv4(self._endpoint.ip),
            gid_index=1,
        ).encode()
        there = Destination.decode(self._say(mine))
        for _ in range(2):  # the server is ready to receive, and to begin
            self._say(mine)
        begun = time.monotonic()
        self._work(work, there, memory, iterations, size_bytes)
        took_s = time.monotonic() - begun
        self._say(mine)
        rate = iterations / took_s
        for number in (size_bytes, iterations):
            self._say(struct.pack("!Q", number))
        for figure in (rate * size_bytes / _MIB, rate * size_bytes / _MIB, rate / 1e6):
            self._say(struct.pack("!d", figure))
        self._say(mine)
        for asked in (work, self._talk):
            self._client.disconnect(asked)
        return took_s

    def _work(
        self, work: Asked, there: Destination, memory: RegisteredRegion, iterations: int, size_bytes: int
    ) -> None:
        piece = (Sge(memory.address, size_bytes, memory.key),)
        request = WorkRequest(self._opcode, piece, there.address, there.rkey, compare_add=1)
        posted = 0
        while posted < iterations:
            while posted < iterations and posted - len(work.completions) < _AT_ONCE:
                self._endpoint.engine.post_send(work.qp_num, request, posted, time.monotonic_ns())
                posted += 1
            self._until(work, len(work.completions) + 1)
        self._until(work, iterations)

    def _until(self, work: Asked, completed: int) -> None:
        self._client.wait(lambda: len(work.completions) >= completed, "work to complete")

    def _say(self, message: bytes) -> bytes:
        """Send a message and return the server's, of the same length."""
        talk, notes = self._talk, self._notes
        notes.view[: len(message)] = message
        request = WorkRequest(Opcode.SEND, (Sge(notes.address, len(message), notes.key),))
        self._endpoint.engine.post_send(talk.qp_num, request, 0, time.monotonic_ns())
        self._client.wait(lambda: bool(talk.sends) or talk.is_gone, "the server to answer")
        if not talk.sends:
            raise ProtocolError("the server has disconnected")
        length = talk.sends.pop().byte_len
        if length != len(message):
            raise ProtocolError(
                f"the server answers {len(message)} bytes with {length}; was it started so, too?"
            )
        heard = bytes(notes.view[_HEARD : _HEARD + length])
        self._receive(talk.qp_num)
        return heard

    def _receive(self, qp_num: int) -> None:
        piece = Sge(self._notes.address + _HEARD, _HEARD, self._notes.key)
        self._endpoint.engine.post_receive(qp_num, 0, (piece,))
