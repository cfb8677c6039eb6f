# SPDX-License-Identifier: Apache-2.0
"""Whole RoCEv2 frames: Ethernet, IPv4, UDP, BTH, extended headers, payload, pad and invariant CRC.

Source: InfiniBand Architecture Specification Volume 1, Annex A17 "RoCEv2", "RoCEv2 packet format" and "ICRC".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from .ethernet import ETHERNET_HEADER_BYTES, Ethernet
from .ip import IPV4_HEADER_BYTES, Ipv4
from .malformed import MalformedError
from .rocev2 import (
    AETH_BYTES,
    ATOMIC_ACK_ETH_BYTES,
    ATOMIC_ETH_BYTES,
    BTH_BYTES,
    CNP_BYTES,
    CNP_OPCODE,
    DEFAULT_PARTITION_KEY,
    DETH_BYTES,
    ICRC_BYTES,
    IMMEDIATE_BYTES,
    READ_OPCODES,
    RETH_BYTES,
    ROCEV2_PORT,
    WITH_AETH,
    WITH_ATOMIC_ETH,
    WITH_DETH,
    WITH_IMMEDIATE,
    WITH_RETH,
    Aeth,
    AtomicAckEth,
    AtomicEth,
    Bth,
    Deth,
    RcOpcode,
    Reth,
    decode_immediate,
)
from .udp import UDP_HEADER_BYTES, Udp, UdpFrame

ROCE_OVERHEAD_BYTES = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + UDP_HEADER_BYTES + BTH_BYTES + ICRC_BYTES
"""Bytes of a frame without extended headers and payload."""

_LRH_STAND_IN = b"\xff" * 8
_BTH = struct.Struct("!BBHII")
_ICRC = struct.Struct("<I")
_SETTLED = 0x40
_BECN = 1 << 30
_PADS = (b"", b"\0", b"\0\0", b"\0\0\0")
_CACHED_LENGTHS = 64


@dataclass(frozen=True, slots=True)
class RocePacket:
    """A RoCEv2 packet, taken apart; `payload` (without pad) views the frame."""

    ip: Ipv4
    udp: Udp
    bth: Bth
    payload: memoryview
    reth: Reth | None = None
    aeth: Aeth | None = None
    atomic: AtomicEth | None = None
    atomic_ack: AtomicAckEth | None = None
    imm_data: int | None = None
    deth: Deth | None = None


def icrc(
    ip_header: bytes | memoryview, udp_header: bytes | memoryview, rest: Sequence[bytes | memoryview]
) -> bytes:
    """Return the 4 bytes of the invariant CRC, as they go on the wire.

    `rest` is everything from the BTH (12 bytes at least in its first part) to the pad. Fields that change on
    the way count as ones: the whole local route header, TOS, TTL, both checksums, the BTH's congestion byte.
    """
    masked = bytearray(_LRH_STAND_IN)
    masked += ip_header
    masked += udp_header
    masked += rest[0][:BTH_BYTES]
    masked[9] = masked[16] = masked[18] = masked[19] = 0xFF
    masked[34] = masked[35] = masked[40] = 0xFF
    crc = zlib.crc32(masked)
    crc = zlib.crc32(rest[0][BTH_BYTES:], crc)
    for part in rest[1:]:
        crc = zlib.crc32(part, crc)
    return _ICRC.pack(crc)


def decode_roce_frame(frame: bytes | memoryview) -> RocePacket:
    """Take a frame apart and check every length and the ICRC.

    Raises: MalformedError with the reason of the header that is wrong, or udp.port, bth.opcode, rocev2.pad,
    rocev2.icrc.
    """
    outer = UdpFrame.decode(frame)
    if outer.udp.destination_port != ROCEV2_PORT:
        raise MalformedError("udp.port", f"{outer.udp.destination_port}; RoCEv2 is port {ROCEV2_PORT}")
    body = outer.payload
    if len(body) < BTH_BYTES + ICRC_BYTES:
        raise MalformedError(
            "bth.too_short", f"{len(body)} bytes; BTH and ICRC have {BTH_BYTES + ICRC_BYTES}"
        )
    covered = body[:-ICRC_BYTES]
    headers = memoryview(frame)[ETHERNET_HEADER_BYTES:]
    udp_end = IPV4_HEADER_BYTES + UDP_HEADER_BYTES
    if icrc(headers[:IPV4_HEADER_BYTES], headers[IPV4_HEADER_BYTES:udp_end], [covered]) != body[-ICRC_BYTES:]:
        raise MalformedError("rocev2.icrc", "the invariant CRC does not fit the packet")
    return _decode_covered(outer, covered)


def _decode_covered(outer: UdpFrame, covered: memoryview) -> RocePacket:
    bth = Bth.decode(covered)
    if bth.opcode not in READ_OPCODES:
        raise MalformedError(
            "bth.opcode", f"{bth.opcode:#04x}; reliable connections, datagrams and CNPs are read"
        )
    rest = covered[BTH_BYTES:]
    reth = aeth = atomic = atomic_ack = imm_data = deth = None
    if bth.opcode in WITH_RETH:
        reth = Reth.decode(rest)
        rest = rest[RETH_BYTES:]
    elif bth.opcode in WITH_AETH:
        aeth = Aeth.decode(rest)
        rest = rest[AETH_BYTES:]
        if bth.opcode == RcOpcode.ATOMIC_ACKNOWLEDGE:
            atomic_ack = AtomicAckEth.decode(rest)
            rest = rest[ATOMIC_ACK_ETH_BYTES:]
    elif bth.opcode in WITH_ATOMIC_ETH:
        atomic = AtomicEth.decode(rest)
        rest = rest[ATOMIC_ETH_BYTES:]
    elif bth.opcode in WITH_DETH:
        deth = Deth.decode(rest)
        rest = rest[DETH_BYTES:]
    elif bth.opcode == CNP_OPCODE:
        if len(rest) < CNP_BYTES:
            raise MalformedError("cnp.too_short", f"{len(rest)} bytes; {CNP_BYTES} reserved ones are needed")
        rest = rest[CNP_BYTES:]
    if bth.opcode in WITH_IMMEDIATE:
        imm_data = decode_immediate(rest)
        rest = rest[IMMEDIATE_BYTES:]
    if bth.pad_count > len(rest):
        raise MalformedError("rocev2.pad", f"{bth.pad_count} bytes of pad in a payload of {len(rest)}")
    payload = rest[: len(rest) - bth.pad_count]
    return RocePacket(outer.ip, outer.udp, bth, payload, reth, aeth, atomic, atomic_ack, imm_data, deth)


class RoceFramer:
    """Assembles frames on one path, from one NIC to another.

    The IP header has DF set and identification 0, which is what a UDP socket with path MTU discovery sends:
    a UDP port can rebuild it and the ICRC still fits. Headers that depend only on the length are kept.
    """

    def __init__(
        self,
        source_mac: bytes,
        destination_mac: bytes,
        source_ip: bytes,
        destination_ip: bytes,
        source_port: int = ROCEV2_PORT,
        type_of_service: int = 0,
    ) -> None:
        self._ethernet = Ethernet(destination_mac, source_mac).encode()
        self._source_ip = source_ip
        self._destination_ip = destination_ip
        self._source_port = source_port
        self._type_of_service = type_of_service
        self._by_length: dict[int, tuple[bytes, int]] = {}

    def frame(
        self,
        opcode: int,
        destination_qp: int,
        psn: int,
        *,
        ack_request: bool = False,
        extension: bytes = b"",
        payload: Sequence[bytes | memoryview] = (),
    ) -> bytes:
        """Return a frame; `extension` holds the encoded extended headers, `payload` its pieces in order."""
        payload_bytes = 0
        for piece in payload:
            payload_bytes += len(piece)
        pad_count = -payload_bytes & 3
        length = len(extension) + payload_bytes + pad_count
        try:
            head, crc = self._by_length[length]
        except KeyError:
            head, crc = self._head_of(length)
        flags = _SETTLED | pad_count << 4
        last_word = ack_request << 31 | psn
        masked = _BTH.pack(opcode, flags, DEFAULT_PARTITION_KEY, 0xFF000000 | destination_qp, last_word)
        bth = _BTH.pack(opcode, flags, DEFAULT_PARTITION_KEY, destination_qp, last_word)
        pad = _PADS[pad_count]
        crc = zlib.crc32(extension, zlib.crc32(masked, crc))
        for piece in payload:
            crc = zlib.crc32(piece, crc)
        crc = zlib.crc32(pad, crc)
        return b"".join((head, bth, extension, *payload, pad, _ICRC.pack(crc)))

    def cnp(self, destination_qp: int) -> bytes:
        """Return a congestion notification packet."""
        head, crc = self._head_of(CNP_BYTES)
        masked = _BTH.pack(CNP_OPCODE, 0, DEFAULT_PARTITION_KEY, 0xFF000000 | destination_qp, 0)
        bth = _BTH.pack(CNP_OPCODE, 0, DEFAULT_PARTITION_KEY, _BECN | destination_qp, 0)
        crc = zlib.crc32(bytes(CNP_BYTES), zlib.crc32(masked, crc))
        return b"".join((head, bth, bytes(CNP_BYTES), _ICRC.pack(crc)))

    def _head_of(self, length: int) -> tuple[bytes, int]:
        udp_length = UDP_HEADER_BYTES + BTH_BYTES + length + ICRC_BYTES
        ip = Ipv4(
            self._source_ip,
            self._destination_ip,
            IPV4_HEADER_BYTES + udp_length,
            type_of_service=self._type_of_service,
        ).encode()
        udp = Udp(self._source_port, ROCEV2_PORT, udp_length).encode()
        masked = bytearray(_LRH_STAND_IN + ip + udp)
        masked[9] = masked[16] = masked[18] = masked[19] = 0xFF
        masked[34] = masked[35] = 0xFF
        if len(self._by_length) >= _CACHED_LENGTHS:
            self._by_length.clear()
        entry = (self._ethernet + ip + udp, zlib.crc32(masked))
        self._by_length[length] = entry
        return entry
