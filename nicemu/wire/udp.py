# SPDX-License-Identifier: Apache-2.0
"""The UDP header, its checksum, and whole Ethernet/IPv4/UDP frames.

Source: RFC 768, "User Datagram Protocol".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .ethernet import ETHERNET_HEADER_BYTES, ETHERTYPE_IPV4, Ethernet
from .ip import IPV4_HEADER_BYTES, PROTOCOL_UDP, Ipv4, internet_checksum
from .malformed import MalformedError

UDP_HEADER_BYTES = 8

_LAYOUT = struct.Struct("!HHHH")
_PSEUDO_HEADER = struct.Struct("!4s4sBBH")


@dataclass(frozen=True, slots=True)
class Udp:
    """A UDP header. `length` counts its 8 bytes; a `checksum` of 0 means that there is none."""

    source_port: int
    destination_port: int
    length: int
    checksum: int = 0

    def encode(self) -> bytes:
        """Return the header's 8 bytes."""
        return _LAYOUT.pack(self.source_port, self.destination_port, self.length, self.checksum)

    @classmethod
    def decode(cls, datagram: bytes | memoryview) -> Udp:
        """Read the header at the start of `datagram`, which ends where the IP packet ends.

        Raises: MalformedError with the reason udp.too_short or udp.length.
        """
        if len(datagram) < UDP_HEADER_BYTES:
            raise MalformedError("udp.too_short", f"{len(datagram)} bytes; a header has {UDP_HEADER_BYTES}")
        header = cls(*_LAYOUT.unpack_from(datagram))
        if not UDP_HEADER_BYTES <= header.length <= len(datagram):
            raise MalformedError(
                "udp.length", f"length {header.length}; {UDP_HEADER_BYTES} to {len(datagram)} bytes are there"
            )
        return header


@dataclass(frozen=True, slots=True)
class UdpFrame:
    """An Ethernet/IPv4/UDP frame, taken apart; `payload` views the frame that was decoded."""

    ethernet: Ethernet
    ip: Ipv4
    udp: Udp
    payload: memoryview

    @classmethod
    def decode(cls, frame: bytes | memoryview) -> UdpFrame:
        """Read the three headers; bytes behind the IP packet (Ethernet padding) are ignored.

        The UDP checksum is not verified here (RoCEv2 has its own): see `verify_udp_checksum`.
        Raises: MalformedError with a reason of the three headers, ethernet.ethertype or ip.protocol.
        """
        view = memoryview(frame)
        ethernet = Ethernet.decode(view)
        if ethernet.ethertype != ETHERTYPE_IPV4:
            raise MalformedError(
                "ethernet.ethertype", f"{ethernet.ethertype:#06x}; only IPv4 (0x0800) is read"
            )
        packet = view[ETHERNET_HEADER_BYTES:]
        ip = Ipv4.decode(packet)
        if ip.protocol != PROTOCOL_UDP:
            raise MalformedError("ip.protocol", f"{ip.protocol}; only UDP (17) is read")
        datagram = packet[IPV4_HEADER_BYTES : ip.total_length]
        udp = Udp.decode(datagram)
        return cls(ethernet, ip, udp, datagram[UDP_HEADER_BYTES : udp.length])


def udp_checksum(ip: Ipv4, udp: Udp, payload: bytes | memoryview) -> int:
    """Return the checksum over pseudo-header, header and payload; never 0, which means that there is none."""
    pseudo_header = _PSEUDO_HEADER.pack(ip.source, ip.destination, 0, PROTOCOL_UDP, udp.length)
    header = _LAYOUT.pack(udp.source_port, udp.destination_port, udp.length, 0)
    return internet_checksum(b"".join((pseudo_header, header, payload))) or 0xFFFF


def verify_udp_checksum(frame: UdpFrame) -> None:
    """Check the UDP checksum of a frame that has one.

    Raises: MalformedError("udp.checksum").
    """
    if frame.udp.checksum and udp_checksum(frame.ip, frame.udp, frame.payload) != frame.udp.checksum:
        raise MalformedError("udp.checksum", f"{frame.udp.checksum:#06x} does not fit the datagram")


def encode_udp_frame(
    ethernet: Ethernet,
    source_ip: bytes,
    destination_ip: bytes,
    source_port: int,
    destination_port: int,
    payload: bytes | memoryview,
) -> bytes:
    """Return a whole frame, both checksums set."""
    length = UDP_HEADER_BYTES + len(payload)
    ip = Ipv4(source_ip, destination_ip, IPV4_HEADER_BYTES + length)
    bare = Udp(source_port, destination_port, length)
    udp = Udp(source_port, destination_port, length, udp_checksum(ip, bare, payload))
    return b"".join((ethernet.encode(), ip.encode(), udp.encode(), payload))
