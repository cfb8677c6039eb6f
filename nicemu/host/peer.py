# SPDX-License-Identifier: Apache-2.0
"""What a NIC brings a host program together with: connected peers, and packets."""

from __future__ import annotations

from dataclasses import dataclass

from nicemu.abi import RemoteSpan
from nicemu.wire import Ethernet, UdpFrame, encode_udp_frame


@dataclass(frozen=True, slots=True)
class Peer:
    """A connected peer NIC: the local queue pair, and what its firmware granted."""

    name: str
    number: int
    qp_num: int
    private_data: dict[str, int]

    def span(self, address: int, length_bytes: int, rkey: int) -> RemoteSpan:
        """Name memory of the peer. Raises: UsageError (EINVAL) for what is no address, length or key."""
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
