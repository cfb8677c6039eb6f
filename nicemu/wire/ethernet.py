# SPDX-License-Identifier: Apache-2.0
"""The Ethernet II header.

Source: IEEE 802.3, "MAC frame and packet specifications" (type interpretation of the length/type field).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from nicemu.errors import UsageError

from .malformed import MalformedError

ETHERNET_HEADER_BYTES = 14
ETHERTYPE_IPV4 = 0x0800
BROADCAST_MAC = b"\xff" * 6

_LAYOUT = struct.Struct("!6s6sH")


@dataclass(frozen=True, slots=True)
class Ethernet:
    """The 14 bytes in front of a frame: two MAC addresses of 6 bytes each, and what follows."""

    destination: bytes
    source: bytes
    ethertype: int = ETHERTYPE_IPV4

    def encode(self) -> bytes:
        """Return the header's 14 bytes."""
        return _LAYOUT.pack(self.destination, self.source, self.ethertype)

    @classmethod
    def decode(cls, frame: bytes | memoryview) -> Ethernet:
        """Read the header at the start of `frame`.

        Raises: MalformedError("ethernet.too_short").
        """
        if len(frame) < ETHERNET_HEADER_BYTES:
            raise MalformedError(
                "ethernet.too_short", f"{len(frame)} bytes; an Ethernet header has {ETHERNET_HEADER_BYTES}"
            )
        return cls(*_LAYOUT.unpack_from(frame))


def parse_mac(text: str) -> bytes:
    """Return the 6 bytes of a MAC address written as `02:00:00:00:00:01`.

    Raises: UsageError if it is not written so.
    """
    parts = text.split(":")
    try:
        address = bytes(int(part, 16) for part in parts if 1 <= len(part) <= 2)
    except ValueError:
        address = b""
    if len(address) != 6 or len(parts) != 6:
        raise UsageError(f"{text!r} is no MAC address; write six hexadecimal bytes, as in 02:00:00:00:00:01")
    return address


def check_mac(address: object, *, is_own: bool = False) -> None:
    """Raise UsageError unless `address` is 6 bytes; a NIC's own is no group's (its first byte is even)."""
    if not isinstance(address, bytes):
        raise UsageError(f"{address!r} is no MAC address; pass 6 bytes, as of parse_mac('02:00:00:00:00:01')")
    if len(address) != 6:
        raise UsageError(f"a MAC address has 6 bytes, {format_mac(address)!r} has {len(address)}")
    if is_own and address[0] & 1:
        raise UsageError(
            f"{format_mac(address)} is a group's address; a NIC has one whose first byte is even"
        )


def format_mac(address: bytes) -> str:
    """Return a MAC address as text."""
    return address.hex(":")
