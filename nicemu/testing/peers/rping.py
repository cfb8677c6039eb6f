# SPDX-License-Identifier: Apache-2.0
"""The server of rping: it READs a ping that the client names, and WRITEs the same bytes back as the pong.

A client says by a SEND of 16 bytes, big-endian, where its ping is: address, rkey, length; then, when the READ
has been answered with a SEND, where the pong is to go; that is answered with a SEND too, and so on.
Source: rping(1), "THEORY OF OPERATION"; what rping of rdma-core 44 was captured to send.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.cm import Connection
from nicemu.fabric import RegisteredRegion, RoceEndpoint
from nicemu.rdma import Arrival, ArrivalKind, Completion

from .application import PD, Application, Totals

RPING_PORT = 7174
MAX_PING_BYTES = 1 << 16
PLACE = struct.Struct("!QII")
_RECEIVES = 4
_PING, _GO = 0, MAX_PING_BYTES
_NOTES = _GO + 64


@dataclass
class _Client:
    """A client: where it keeps its pings, and how far it is."""

    region: RegisteredRegion
    wants_pong: bool = False
    pings: int = 0
    length: int = 0
    totals: Totals = field(default_factory=Totals)


class RpingServer(Application):
    """Serves any number of rping clients. Pings that are not the text that rping sends are problems."""

    def __init__(
        self,
        endpoint: RoceEndpoint,
        port: int = RPING_PORT,
        report: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(endpoint, port, report)
        self._clients: dict[int, _Client] = {}

    def on_request(self, connection: Connection) -> None:
        """Accept it."""
        region = self._endpoint.memory.register(MAX_PING_BYTES + 4096, pd=PD)
        qp_num = self._endpoint.cm.accept(connection, PD, time.monotonic_ns(), outstanding_reads=1)
        self._clients[qp_num] = _Client(region)
        for number in range(_RECEIVES):
            self.post_receive(connection, region, PLACE.size, _NOTES + number * PLACE.size)

    def on_arrival(self, connection: Connection, arrival: Arrival) -> None:
        """Read the ping that is named, or write the pong."""
        client = self._clients[arrival.qp_num]
        if arrival.kind is not ArrivalKind.SEND:
            return
        if arrival.byte_len != PLACE.size:
            self.totals.problems.append(f"rping sent {arrival.byte_len} bytes; {PLACE.size} name a place")
            return
        address, rkey, length = PLACE.unpack_from(client.region.view, arrival.wr_id)
        self.post_receive(connection, client.region, PLACE.size, arrival.wr_id)
        if length > MAX_PING_BYTES:
            self.totals.problems.append(f"a ping of {length} bytes; {MAX_PING_BYTES} are the most")
            return
        opcode = Opcode.RDMA_WRITE if client.wants_pong else Opcode.RDMA_READ
        piece = Sge(client.region.address + _PING, length, client.region.key)
        client.length = length
        self.post(connection, WorkRequest(opcode, (piece,), remote_address=address, rkey=rkey))

    def on_completion(self, connection: Connection, completion: Completion) -> None:
        """Tell the client to go on."""
        client = self._clients[completion.qp_num]
        if completion.opcode is Opcode.SEND:
            return
        if completion.opcode is Opcode.RDMA_READ:
            self._check(client)
        self.count(client.totals, client.length)
        client.wants_pong = completion.opcode is Opcode.RDMA_READ
        go = Sge(client.region.address + _GO, PLACE.size, client.region.key)
        self.post(connection, WorkRequest(Opcode.SEND, (go,)))

    def on_disconnect(self, connection: Connection) -> None:
        """Forget the client."""
        client = self._clients.pop(connection.qp_num or 0, None)
        if client is not None:
            self.is_through(connection, client.totals, "rping")
            self._endpoint.memory.deregister(client.region)

    def _check(self, client: _Client) -> None:
        """Compare a ping with what rping sends: its number, and letters that go on from one to the next."""
        data = bytes(client.region.view[_PING : _PING + client.length])
        if data != ping_text(client.pings, client.length):
            self.totals.problems.append(f"ping {client.pings} reads {data[:40]!r}")
        client.pings += 1


def ping_text(number: int, length: int) -> bytes:
    """Return a ping as rping makes it: `rdma-ping-N: `, characters from A to z again and again, a zero."""
    text = f"rdma-ping-{number}: ".encode()
    first, last = ord("A"), ord("z")
    start = number % (last - first + 1)
    letters = bytes(range(first, last + 1))
    rest = length - len(text) - 1
    return text + (letters * (rest // len(letters) + 2))[start : start + rest] + b"\0"
