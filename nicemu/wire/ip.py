# SPDX-License-Identifier: Apache-2.0
"""The IPv4 header without options, its checksum, and addresses as text.

Source: RFC 791, "Internet Header Format"; RFC 1071, "Computing the Internet Checksum".
"""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from nicemu.errors import UsageError

from .malformed import MalformedError

IPV4_HEADER_BYTES = 20
PROTOCOL_UDP = 17
DEFAULT_TTL = 64

_FIRST_GROUP = 224
"""First byte of the lowest multicast address; reserved ones and the broadcast address are above."""

_LAYOUT = struct.Struct("!BBHHHBBH4s4s")
_VERSION_AND_LENGTH = 0x45
_DONT_FRAGMENT = 0x4000
_MORE_FRAGMENTS_OR_OFFSET = 0x3FFF


@dataclass(frozen=True, slots=True)
class Ipv4:
    """An IPv4 header of 20 bytes. `total_length` counts the header; addresses are 4 bytes each.

    `type_of_service` is the byte that holds DSCP and ECN; `identification` numbers datagrams for reassembly.
    """

    source: bytes
    destination: bytes
    total_length: int
    protocol: int = PROTOCOL_UDP
    identification: int = 0
    dont_fragment: bool = True
    ttl: int = DEFAULT_TTL
    type_of_service: int = 0

    def encode(self) -> bytes:
        """Return the header's 20 bytes, with its checksum."""
        fields = (
            _VERSION_AND_LENGTH,
            self.type_of_service,
            self.total_length,
            self.identification,
            _DONT_FRAGMENT if self.dont_fragment else 0,
            self.ttl,
            self.protocol,
        )
        checksum = internet_checksum(_LAYOUT.pack(*fields, 0, self.source, self.destination))
        return _LAYOUT.pack(*fields, checksum, self.source, self.destination)

    @classmethod
    def decode(cls, packet: bytes | memoryview) -> Ipv4:
        """Read and check the header at the start of `packet`, whose end may be padded.

        Raises: MalformedError with the reason ip.too_short, ip.version, ip.options, ip.checksum,
        ip.fragment or ip.length.
        """
        if len(packet) < IPV4_HEADER_BYTES:
            raise MalformedError("ip.too_short", f"{len(packet)} bytes; a header has {IPV4_HEADER_BYTES}")
        first, tos, total, identification, fragment, ttl, protocol, _, source, destination = (
            _LAYOUT.unpack_from(packet)
        )
        if first >> 4 != 4:
            raise MalformedError("ip.version", f"version {first >> 4}; only IPv4 is read")
        if first != _VERSION_AND_LENGTH:
            raise MalformedError(
                "ip.options",
                f"header length {(first & 15) * 4} bytes; only {IPV4_HEADER_BYTES} (no options) is read",
            )
        if internet_checksum(packet[:IPV4_HEADER_BYTES]) != 0:
            raise MalformedError("ip.checksum", "the header's checksum is wrong")
        if fragment & _MORE_FRAGMENTS_OR_OFFSET:
            raise MalformedError(
                "ip.fragment", f"flags and offset {fragment:#06x}; fragments are not reassembled"
            )
        if not IPV4_HEADER_BYTES <= total <= len(packet):
            raise MalformedError(
                "ip.length", f"total length {total}; {IPV4_HEADER_BYTES} to {len(packet)} bytes are there"
            )
        dont_fragment = bool(fragment & _DONT_FRAGMENT)
        return cls(source, destination, total, protocol, identification, dont_fragment, ttl, tos)


def internet_checksum(data: bytes | memoryview) -> int:
    """Return the one's complement of the one's complement sum of `data` in 16-bit words.

    An odd last byte is filled up with zero. Over data that holds its own checksum the result is 0.
    """
    number = int.from_bytes(data, "big")
    if len(data) & 1:
        number <<= 8
    if number == 0:
        return 0xFFFF
    # 2**16 is 1 modulo 0xFFFF: the whole number's remainder is the sum of its words with end-around carry.
    return 0xFFFF - (number % 0xFFFF or 0xFFFF)


def parse_ipv4(text: str) -> bytes:
    """Return the 4 bytes of a dotted IPv4 address.

    Raises: UsageError if it is none.
    """
    try:
        if isinstance(text, str):  # the library reads numbers and bytes, too
            return ipaddress.IPv4Address(text).packed
    except ValueError:
        pass
    raise UsageError(f"{text!r} is no IPv4 address; write it as in 10.0.0.1")


def parse_host_ipv4(text: str) -> bytes:
    """Return the 4 bytes of a dotted IPv4 address that one host can have.

    Raises: UsageError if it is none.
    Source: RFC 1122, "Addressing: RFC 791 Section 3.2"; RFC 1112, "Host Group Addresses".
    """
    address = parse_ipv4(text)
    if not 0 < address[0] < _FIRST_GROUP:
        raise UsageError(
            f"{text} is no address of one host, but of none, of a group or of all; write one's own"
        )
    return address


def format_ipv4(address: bytes) -> str:
    """Return an IPv4 address as text."""
    return str(ipaddress.IPv4Address(address))
