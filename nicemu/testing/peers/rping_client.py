# SPDX-License-Identifier: Apache-2.0
"""The client of rping: it names a ping, and then where the pong goes, and compares the two.

Source: rping(1), "THEORY OF OPERATION"; what rping of rdma-core 44 was captured to send.
"""

from __future__ import annotations

import time

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import NicemuError, ProtocolError
from nicemu.fabric import RoceEndpoint

from .application import PD
from .client import Client
from .rping import PLACE, RPING_PORT, ping_text

_NOTES_BYTES = 2 * PLACE.size


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
        self._client = Client(endpoint, ip, limit_s)
        self._endpoint = endpoint
        self._pings = 0
        self._notes = endpoint.memory.register(_NOTES_BYTES, pd=PD)
        try:
            self._asked = self._client.connect(
                port, path_mtu=path_mtu, outstanding_reads=1, first=self._receive
            )
        except NicemuError:
            endpoint.memory.deregister(self._notes)
            raise

    def ping(self, length_bytes: int = 64) -> float:
        """Ping once; return how many seconds that took. The server must have room for as many bytes.

        Raises: ProtocolError if the pong is not the ping, or the server disconnects; ResourceError if nothing
        comes in time.
        """
        memory, asked = self._endpoint.memory, self._asked
        text = ping_text(self._pings, length_bytes)
        ping, pong = memory.register(length_bytes, pd=PD), memory.register(length_bytes, pd=PD)
        try:
            ping.view[:] = text
            begun = time.monotonic()
            for region in (ping, pong):
                self._name(region.address, region.key, length_bytes)
                self._client.wait(lambda: bool(asked.sends) or asked.is_gone, "the server to go on")
                if not asked.sends:
                    raise ProtocolError(f"the server has disconnected before pong {self._pings}")
                asked.sends.pop()
                self._receive(asked.qp_num)
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
        self._client.disconnect(self._asked)
        self._endpoint.memory.deregister(self._notes)

    def _name(self, address: int, key: int, length: int) -> None:
        PLACE.pack_into(self._notes.view, 0, address, key, length)
        work = WorkRequest(Opcode.SEND, (Sge(self._notes.address, PLACE.size, self._notes.key),))
        self._endpoint.engine.post_send(self._asked.qp_num, work, 0, time.monotonic_ns())

    def _receive(self, qp_num: int) -> None:
        piece = Sge(self._notes.address + PLACE.size, PLACE.size, self._notes.key)
        self._endpoint.engine.post_receive(qp_num, 0, (piece,))
