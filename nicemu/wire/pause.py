# SPDX-License-Identifier: Apache-2.0
"""Priority-based flow control: the MAC control frame that pauses some of the eight priorities of a link.

Source: IEEE 802.1Q, "Priority-based Flow Control"; IEEE 802.3, "MAC Control PAUSE operation" (annex 31D).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .ethernet import ETHERNET_HEADER_BYTES, Ethernet
from .malformed import MalformedError

ETHERTYPE_MAC_CONTROL = 0x8808
PAUSE_MAC = b"\x01\x80\xc2\x00\x00\x01"
"""The destination of MAC control frames, which no bridge forwards."""
PRIORITIES = 8
QUANTUM_BITS = 512
"""A quantum of pause is the time that so many bits take on the link."""
MOST_QUANTA = 0xFFFF
_PFC_OPCODE = 0x0101
_LAYOUT = struct.Struct("!HH8H")
_LEAST_FRAME_BYTES = 60


@dataclass(frozen=True, slots=True)
class PriorityPause:
    """How long priorities are paused: `quanta` by priority; 0 lets one go on, others stay as they are."""

    quanta: dict[int, int]

    def encode(self, source_mac: bytes) -> bytes:
        """Return a whole frame, of the least length that frames have: 60 bytes and a check sequence."""
        enabled = sum(1 << priority for priority in self.quanta)
        times = [self.quanta.get(priority, 0) for priority in range(PRIORITIES)]
        frame = Ethernet(PAUSE_MAC, source_mac, ETHERTYPE_MAC_CONTROL).encode()
        return (frame + _LAYOUT.pack(_PFC_OPCODE, enabled, *times)).ljust(_LEAST_FRAME_BYTES, b"\0")

    @classmethod
    def decode(cls, frame: bytes | memoryview) -> PriorityPause:
        """Read a whole frame.

        Raises: MalformedError with the reason pause.too_short, pause.ethertype or pause.opcode.
        """
        if len(frame) < ETHERNET_HEADER_BYTES + _LAYOUT.size:
            raise MalformedError("pause.too_short", f"{len(frame)} bytes; a frame that pauses has more")
        if int.from_bytes(frame[12:14], "big") != ETHERTYPE_MAC_CONTROL:
            raise MalformedError("pause.ethertype", "no MAC control frame")
        opcode, enabled, *times = _LAYOUT.unpack_from(frame, ETHERNET_HEADER_BYTES)
        if opcode != _PFC_OPCODE:
            raise MalformedError("pause.opcode", f"{opcode:#06x}; only {_PFC_OPCODE:#06x} is read")
        return cls({priority: times[priority] for priority in range(PRIORITIES) if enabled >> priority & 1})
