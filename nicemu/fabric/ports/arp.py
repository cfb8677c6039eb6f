# SPDX-License-Identifier: Apache-2.0
"""What a NIC's address must answer on an Ethernet: ARP requests, and ICMP echo requests (ping).

Source: RFC 826, "An Ethernet Address Resolution Protocol"; RFC 792, "Echo or Echo Reply Message".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from nicemu.wire import (
    BROADCAST_MAC,
    ETHERNET_HEADER_BYTES,
    ETHERTYPE_IPV4,
    IPV4_HEADER_BYTES,
    Ethernet,
    Ipv4,
    MalformedError,
    internet_checksum,
)

ETHERTYPE_ARP = 0x0806
PROTOCOL_ICMP = 1
ECHO_REQUEST, ECHO_REPLY = 8, 0
REQUEST, REPLY = 1, 2
ARP_BYTES = 28

_ARP = struct.Struct("!HHBBH6s4s6s4s")
_ETHERNET_AND_IPV4 = (1, ETHERTYPE_IPV4, 6, 4)
_ICMP_HEADER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Arp:
    """An ARP message for IPv4 over Ethernet. MAC addresses have 6 bytes, IP addresses 4."""

    operation: int
    sender_mac: bytes
    sender_ip: bytes
    target_mac: bytes
    target_ip: bytes

    def encode(self) -> bytes:
        """Return the message's 28 bytes."""
        addresses = (self.sender_mac, self.sender_ip, self.target_mac, self.target_ip)
        return _ARP.pack(*_ETHERNET_AND_IPV4, self.operation, *addresses)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Arp:
        """Read the message at the start of `data`; Ethernet's padding behind it is ignored.

        Raises: MalformedError with the reason arp.too_short or arp.kind.
        """
        if len(data) < ARP_BYTES:
            raise MalformedError("arp.too_short", f"{len(data)} bytes; a message has {ARP_BYTES}")
        *kind, operation, sender_mac, sender_ip, target_mac, target_ip = _ARP.unpack_from(data)
        if tuple(kind) != _ETHERNET_AND_IPV4:
            raise MalformedError("arp.kind", f"{kind}; only IPv4 over Ethernet is read")
        return cls(operation, sender_mac, sender_ip, target_mac, target_ip)


def asking_frame(mac: bytes, ip: bytes, wanted_ip: bytes) -> bytes:
    """Return the frame in which a NIC with address `mac` and `ip` asks who has `wanted_ip`."""
    question = Arp(REQUEST, mac, ip, bytes(6), wanted_ip)
    return Ethernet(BROADCAST_MAC, mac, ETHERTYPE_ARP).encode() + question.encode()


def answer_for(frame: bytes, mac: bytes, ip: bytes) -> bytes | None:
    """Return what a NIC with address `mac` and `ip` answers to a frame, or None if it is for somebody else.

    Raises: MalformedError for an ARP message, or an ICMP message to `ip`, that is none.
    """
    ethertype = frame[12:14]
    if ethertype == b"\x08\x06":
        return _arp_reply(frame, mac, ip)
    if ethertype == b"\x08\x00" and frame[23:24] == b"\x01" and frame[:6] == mac and frame[30:34] == ip:
        return _echo_reply(frame)
    return None


def _arp_reply(frame: bytes, mac: bytes, ip: bytes) -> bytes | None:
    asked = Arp.decode(memoryview(frame)[ETHERNET_HEADER_BYTES:])
    if asked.operation != REQUEST or asked.target_ip != ip:
        return None
    reply = Arp(REPLY, mac, ip, asked.sender_mac, asked.sender_ip)
    return Ethernet(asked.sender_mac, mac, ETHERTYPE_ARP).encode() + reply.encode()


def _echo_reply(frame: bytes) -> bytes | None:
    ethernet = Ethernet.decode(frame)
    packet = frame[ETHERNET_HEADER_BYTES:]
    ip = Ipv4.decode(packet)
    message = bytearray(packet[IPV4_HEADER_BYTES : ip.total_length])
    if len(message) < _ICMP_HEADER_BYTES or internet_checksum(bytes(message)) != 0:
        raise MalformedError("icmp.checksum", f"{len(message)} bytes that are no ICMP message")
    if message[:2] != bytes([ECHO_REQUEST, 0]):
        return None
    message[0] = ECHO_REPLY
    message[2:4] = b"\0\0"
    message[2:4] = internet_checksum(bytes(message)).to_bytes(2, "big")
    back = replace(ip, source=ip.destination, destination=ip.source, identification=0)
    turned = Ethernet(ethernet.source, ethernet.destination, ETHERTYPE_IPV4)
    return turned.encode() + back.encode() + bytes(message)
