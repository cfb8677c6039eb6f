# SPDX-License-Identifier: Apache-2.0
"""The client of rping: it names a ping, and then where the pong goes, and compares the two.

Source: rping(1), "THEORY OF OPERATION"; what rping of rdma-core 44 was captured to send.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.cm import CmEvent, CmEventKind
from nicemu.errors import ProtocolError, ResourceError
from nicemu.fabric import RoceEndpoint
from nicemu.rdma import Arrival
from nicemu.wire import RejectReason

from .application import PD
from .rping import PLACE, RPING_PORT, ping_text

_NAP_S = 0.01
_NOTES = 4096


class RpingClient:
    """Pings a server of rping from a NIC, one ping at a time. `limit_s` is for each step."""

    def __init__(
        self,
        endpoint: RoceEndpoint,
        ip: str,
        port: int = RPING_PORT,
        *,
        path_mtu: int = 1024,
        limit_s: float = 10.0,
    ) -> None:
        """Connect.

        Raises: ResourceError if nobody answers in time; ProtocolError if the server refuses.
        """
        self._endpoint = endpoint
        self._limit_s = limit_s
        self._arrivals: list[Arrival] = []
        self._events: list[CmEvent] = []
        self._pings = 0
        peer = endpoint.resolve(ip, limit_s)
        now_ns = time.monotonic_ns()
        self._connection = endpoint.cm.connect(peer, port, PD, now_ns, path_mtu=path_mtu, outstanding_reads=1)
        self._notes = endpoint.memory.register(_NOTES, pd=PD)
        self._receive()
        self._await(lambda: bool(self._events), f"{ip} to answer")
        event = self._events.pop(0)
        if event.kind is not CmEventKind.ESTABLISHED:
            self._give_back()
            names = {int(reason): reason.name for reason in RejectReason}
            why = names.get(event.reason, f"reason {event.reason}") if event.reason else event.kind.value
            raise ProtocolError(f"port {port} of {ip} makes no connection: {why}")

    def ping(self, length_bytes: int = 64) -> float:
        """Ping once; return how many seconds that took. The server must have room for as many bytes.

        Raises: ProtocolError if the pong is not the ping, or the server disconnects; ResourceError if nothing
        comes in time.
        """
        memory = self._endpoint.memory
        text = ping_text(self._pings, length_bytes)
        ping, pong = memory.register(length_bytes, pd=PD), memory.register(length_bytes, pd=PD)
        try:
            ping.view[:] = text
            begun = time.monotonic()
            for region in (ping, pong):
                self._name(region.address, region.key, length_bytes)
                self._await(lambda: bool(self._arrivals or self._events), "the server to go on")
                if not self._arrivals:
                    raise ProtocolError(f"the server has disconnected before pong {self._pings}")
                self._arrivals.pop(0)
                self._receive()
            took_s = time.monotonic() - begun
            if bytes(pong.view) != text:
                raise ProtocolError(
                    f"pong {self._pings} reads {bytes(pong.view[:40])!r}, not as the ping did"
                )
        finally:
            memory.deregister(ping)
            memory.deregister(pong)
        self._pings += 1
        return took_s

    def close(self) -> None:
        """Disconnect, and wait until the server has agreed."""
        self._endpoint.cm.disconnect(self._connection, time.monotonic_ns())
        self._await(lambda: bool(self._events), "the server to disconnect")
        self._give_back()

    def _give_back(self) -> None:
        assert self._connection.qp_num is not None
        self._endpoint.engine.destroy_qp(self._connection.qp_num)
        self._endpoint.memory.deregister(self._notes)

    def _name(self, address: int, key: int, length: int) -> None:
        assert self._connection.qp_num is not None
        PLACE.pack_into(self._notes.view, 0, address, key, length)
        piece = Sge(self._notes.address, PLACE.size, self._notes.key)
        now_ns = time.monotonic_ns()
        self._endpoint.engine.post_send(
            self._connection.qp_num, WorkRequest(Opcode.SEND, (piece,)), 0, now_ns
        )

    def _receive(self) -> None:
        assert self._connection.qp_num is not None
        piece = Sge(self._notes.address + PLACE.size, PLACE.size, self._notes.key)
        self._endpoint.engine.post_receive(self._connection.qp_num, 0, (piece,))

    def _await(self, is_so: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + self._limit_s
        while not is_so():
            if time.monotonic() > end:
                raise ResourceError(f"waited {self._limit_s} s for {what}")
            self._endpoint.move(_NAP_S)
            ours = self._connection.qp_num
            sends = [one for one in self._endpoint.take_arrivals() if one.qp_num == ours and not one.rkey]
            self._arrivals += sends
            self._events += [
                one for one in self._endpoint.take_events() if one.connection is self._connection
            ]
            self._endpoint.take_completions()
