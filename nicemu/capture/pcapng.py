# SPDX-License-Identifier: Apache-2.0
"""Capture files that Wireshark reads: blocks of the format pcapng, written as frames pass.

Source: IETF draft-ietf-opsawg-pcapng, "PCAP Next Generation (pcapng) Capture File Format": "Section Header
Block", "Interface Description Block", "Enhanced Packet Block", "Interface Statistics Block", "Options".
"""

from __future__ import annotations

import struct

from nicemu import __version__

from .whole_records import Sink

LINKTYPE_ETHERNET = 1
_SECTION_HEADER, _INTERFACE, _STATISTICS, PACKET_BLOCK = 0x0A0D0D0A, 1, 5, 6
_MAGIC = 0x1A2B3C4D
_UNKNOWN_LENGTH = -1
_APPLICATION, _NAME, _RESOLUTION, _FLAGS, _RECEIVED, _DROPPED = 4, 2, 9, 2, 4, 5
"""Codes of options; each belongs to one kind of block."""
_NANOSECONDS = 9
_INBOUND, _OUTBOUND = 1, 2
OUTBOUND_OPTIONS = struct.pack("=HHIHH", _FLAGS, 4, _OUTBOUND, 0, 0)
"""The options of a packet block whose frame left."""


class PcapngWriter:
    """Writes one section to a binary file, which stays the caller's; each call writes whole blocks."""

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._interfaces = 0
        self.bytes_written = 0
        options = _option(_APPLICATION, f"nicemu {__version__}".encode())
        self._block(_SECTION_HEADER, struct.pack("=IHHq", _MAGIC, 1, 0, _UNKNOWN_LENGTH), options)

    def add_interface(self, name: str, snap_bytes: int = 0) -> int:
        """Describe an interface and return its number; `snap_bytes` of a frame are kept, 0: all."""
        body = struct.pack("=HHI", LINKTYPE_ETHERNET, 0, snap_bytes)
        options = _option(_NAME, name.encode()) + _option(_RESOLUTION, bytes([_NANOSECONDS]))
        self._block(_INTERFACE, body, options)
        self._interfaces += 1
        return self._interfaces - 1

    def write(
        self, interface: int, time_ns: int, data: bytes, original_bytes: int, *, outbound: bool
    ) -> None:
        """Write a frame; the time is since 1970, `original_bytes` its length before anything was cut."""
        body = struct.pack("=IIIII", interface, *_halves(time_ns), len(data), original_bytes) + _padded(data)
        flags = struct.pack("=I", _OUTBOUND if outbound else _INBOUND)
        self._block(PACKET_BLOCK, body, _option(_FLAGS, flags))

    def write_statistics(self, interface: int, time_ns: int, received: int, dropped: int) -> None:
        """Write how many frames an interface has seen in all, and how many of them could not be kept."""
        body = struct.pack("=III", interface, *_halves(time_ns))
        counts = _option(_RECEIVED, struct.pack("=Q", received)) + _option(
            _DROPPED, struct.pack("=Q", dropped)
        )
        self._block(_STATISTICS, body, counts)

    def _block(self, kind: int, body: bytes, options: bytes) -> None:
        if options:
            options += _option(0, b"")
        length = 12 + len(body) + len(options)
        self._file.write(struct.pack("=II", kind, length) + body + options + struct.pack("=I", length))
        self.bytes_written += length


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("=HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _halves(time_ns: int) -> tuple[int, int]:
    return time_ns >> 32, time_ns & 0xFFFFFFFF
