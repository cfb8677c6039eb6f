# SPDX-License-Identifier: Apache-2.0
"""The RDMA IP CM Service: IP addresses and ports for connections that InfiniBand's CM makes (rdma_cm(7)).

A port of a port space is a service ID, and a REQ's private data begins with the IP addresses of both ends.
Source: InfiniBand Architecture Specification Volume 1, Annex A11 "RDMA IP CM Service".
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from nicemu.errors import UsageError

from .malformed import MalformedError

IP_CM_HEADER_BYTES = 36

_LAYOUT = struct.Struct("!BBH16s16s")
_PREFIX = 0x01 << 24
_PREFIX_MASK = 0xFFFF_FFFF_FF00_0000


class PortSpace(enum.IntEnum):
    """The IP protocol whose ports a service stands for."""

    TCP = 6
    UDP = 17


def service_id(port: int, space: PortSpace = PortSpace.TCP) -> int:
    """Return the 64-bit service ID of a port.

    Raises: UsageError if it is no port.
    """
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 1 << 16:
        raise UsageError(f"{port!r} is no port; ports are 1 to 65535")
    return _PREFIX | space << 16 | port


def port_of_service(identifier: int) -> tuple[int, int] | None:
    """Return the IP protocol number and the port that a service ID stands for; None if for no port."""
    if identifier & _PREFIX_MASK != _PREFIX:
        return None
    return identifier >> 16 & 0xFF, identifier & 0xFFFF


@dataclass(frozen=True, slots=True)
class IpCmHeader:
    """What stands in front of a REQ's private data: the port it comes from, and IPv4 addresses (4 bytes)."""

    source_port: int
    source_ip: bytes
    destination_ip: bytes

    def encode(self) -> bytes:
        """Return the header's 36 bytes."""
        return _LAYOUT.pack(
            0, 4 << 4, self.source_port, bytes(12) + self.source_ip, bytes(12) + self.destination_ip
        )

    @classmethod
    def decode(cls, data: bytes | memoryview) -> IpCmHeader:
        """Read the header at the start of `data`.

        Raises: MalformedError with the reason ip_cm.too_short, ip_cm.version or ip_cm.ip_version.
        """
        if len(data) < IP_CM_HEADER_BYTES:
            raise MalformedError("ip_cm.too_short", f"{len(data)} bytes; a header has {IP_CM_HEADER_BYTES}")
        version, ip_version, port, source, destination = _LAYOUT.unpack_from(data)
        if version != 0:
            raise MalformedError("ip_cm.version", f"{version >> 4}.{version & 15}; only 0.0 is read")
        if ip_version >> 4 != 4:
            raise MalformedError("ip_cm.ip_version", f"IP version {ip_version >> 4}; only IPv4 is read")
        return cls(port, source[12:], destination[12:])
