# SPDX-License-Identifier: Apache-2.0
"""Protocol data units of NVMe over TCP: bytes to values and back. Digests are not offered.

Source: NVM Express TCP Transport Specification 1.0, "Transport Specific Content", "NVMe/TCP PDUs".
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Final

from nicemu.errors import ProtocolError

_COMMON: Final = struct.Struct("<BBBBI")
COMMON_BYTES: Final = _COMMON.size
MAX_DATA_BYTES: Final = 128 << 10
"""Of one PDU to the target (MAXH2CDATA), and of one command."""
CAPSULE_DATA_BYTES: Final = 8192
"""In-capsule data: what Connect needs, and small writes."""
IC_BYTES, TERMINATION_BYTES = 128, 24
_DIGESTS: Final = 0b11
LAST: Final = 1 << 2
"""Flag of a data PDU: the last of its transfer."""


class PduType(enum.IntEnum):
    """Which PDU it is. Source: "PDU Type"."""

    IC_REQUEST = 0x00
    IC_RESPONSE = 0x01
    HOST_TERMINATES = 0x02
    CONTROLLER_TERMINATES = 0x03
    COMMAND = 0x04
    RESPONSE = 0x05
    HOST_DATA = 0x06
    CONTROLLER_DATA = 0x07
    READY_TO_TRANSFER = 0x09


class FatalStatus(enum.IntEnum):
    """Why a connection is terminated. Source: "Fatal Error Status"."""

    INVALID_FIELD = 0x01
    SEQUENCE_ERROR = 0x02
    HEADER_DIGEST = 0x03
    OUT_OF_RANGE = 0x04
    LIMIT_EXCEEDED = 0x05
    UNSUPPORTED = 0x06


class FatalError(ProtocolError):
    """The host broke the transport's rules: the connection ends with a termination PDU."""

    def __init__(self, status: FatalStatus, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.status, self.offset = status, offset


_HEADER_BYTES: Final = {
    PduType.IC_REQUEST: IC_BYTES,
    PduType.HOST_TERMINATES: TERMINATION_BYTES,
    PduType.COMMAND: 72,
    PduType.HOST_DATA: 24,
}
"""HLEN of what a host may send."""
_DATA_LIMIT: Final = {
    PduType.IC_REQUEST: 0,
    PduType.HOST_TERMINATES: 128,
    PduType.COMMAND: CAPSULE_DATA_BYTES,
    PduType.HOST_DATA: MAX_DATA_BYTES,
}


@dataclass(frozen=True, slots=True)
class Pdu:
    """A PDU: `header` is what follows the common header, up to HLEN."""

    kind: PduType
    flags: int
    header: bytes
    data: bytes = b""

    def encode(self, alignment_bytes: int = 4) -> bytes:
        """Return its bytes; data begin at a multiple of `alignment_bytes`, zeros fill what is between."""
        hlen = COMMON_BYTES + len(self.header)
        padded = -(-hlen // alignment_bytes) * alignment_bytes if self.data else hlen
        pdo = padded if self.data else 0
        common = _COMMON.pack(self.kind, self.flags, hlen, pdo, padded + len(self.data))
        return (common + self.header).ljust(padded, b"\0") + self.data


class PduReader:
    """Takes bytes off a host's connection as they come, and returns whole PDUs."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> list[Pdu]:
        """Return the PDUs that are whole now. Raises: FatalError for what no host may send."""
        self._received += data
        found = []
        while (pdu := self._take()) is not None:
            found.append(pdu)
        return found

    def _take(self) -> Pdu | None:
        if len(self._received) < COMMON_BYTES:
            return None
        number, flags, hlen, pdo, plen = _COMMON.unpack_from(self._received)
        kind = _checked(number, flags, hlen, pdo, plen)
        if len(self._received) < plen:
            return None
        header = bytes(self._received[COMMON_BYTES:hlen])
        data = bytes(self._received[pdo:plen]) if plen > hlen else b""
        del self._received[:plen]
        return Pdu(kind, flags, header, data)


def _checked(number: int, flags: int, hlen: int, pdo: int, plen: int) -> PduType:
    """Check a common header before the rest is waited for, so that nobody is made to buffer much."""
    if number not in _HEADER_BYTES:
        raise FatalError(FatalStatus.INVALID_FIELD, f"PDU type {number:#04x} comes from no host", 0)
    kind = PduType(number)
    if kind in (PduType.COMMAND, PduType.HOST_DATA) and flags & _DIGESTS:
        raise FatalError(FatalStatus.INVALID_FIELD, "digests were not agreed on", 1)
    if hlen != _HEADER_BYTES[kind]:
        raise FatalError(
            FatalStatus.INVALID_FIELD, f"HLEN {hlen} of {kind.name}; it is {_HEADER_BYTES[kind]}", 2
        )
    has_data = plen > hlen
    if plen < hlen or (has_data and not (hlen <= pdo <= plen and pdo % 4 == 0)):
        raise FatalError(FatalStatus.INVALID_FIELD, f"PDO {pdo} and PLEN {plen} of {kind.name}", 3)
    if plen - (pdo if has_data and kind is not PduType.HOST_TERMINATES else hlen) > _DATA_LIMIT[kind]:
        raise FatalError(FatalStatus.LIMIT_EXCEEDED, f"PLEN {plen} of {kind.name}", 4)
    return kind
