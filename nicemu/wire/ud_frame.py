# SPDX-License-Identifier: Apache-2.0
"""Unreliable datagrams on RoCEv2: whole frames with a DETH, as management datagrams travel.

Source: InfiniBand Architecture Specification Volume 1, "Datagram Extended Transport Header (DETH)",
"Unreliable Datagram" and "Well-known QPs and Q_Keys"; Annex A17 "RoCEv2".
"""

from __future__ import annotations

from dataclasses import dataclass

from .ethernet import ETHERNET_HEADER_BYTES
from .ip import IPV4_HEADER_BYTES
from .malformed import MalformedError
from .roce_frame import RoceFramer, icrc
from .rocev2 import BTH_BYTES, DETH_BYTES, ICRC_BYTES, PSN_MASK, ROCEV2_PORT, Bth, Deth, UdOpcode
from .udp import UDP_HEADER_BYTES, UdpFrame

SMI_QP, GSI_QP = 0, 1
"""The queue pairs of the subnet management and general services interfaces, the same on every NIC."""
GSI_Q_KEY = 0x8001_0000
"""The Q_Key of every GSI queue pair."""

_ROCEV2_PORT = ROCEV2_PORT.to_bytes(2, "big")
_BTH_PLACE = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + UDP_HEADER_BYTES
_QP = slice(_BTH_PLACE + 5, _BTH_PLACE + 8)
_GSI = GSI_QP.to_bytes(3, "big")


@dataclass(frozen=True, slots=True)
class UdFrame:
    """A UD SEND ONLY, taken apart; `payload` (without pad) views the frame that was decoded."""

    outer: UdpFrame
    bth: Bth
    deth: Deth
    payload: memoryview

    @classmethod
    def decode(cls, frame: bytes | memoryview) -> UdFrame:
        """Take a frame apart and check every length and the ICRC.

        Raises: MalformedError with the reason of the header that is wrong, or udp.port, bth.opcode,
        rocev2.pad, rocev2.icrc.
        """
        outer = UdpFrame.decode(frame)
        if outer.udp.destination_port != ROCEV2_PORT:
            raise MalformedError("udp.port", f"{outer.udp.destination_port}; RoCEv2 is port {ROCEV2_PORT}")
        if len(outer.payload) < BTH_BYTES + ICRC_BYTES:
            raise MalformedError("bth.too_short", f"{len(outer.payload)} bytes; BTH and ICRC have 16")
        covered, told = outer.payload[:-ICRC_BYTES], outer.payload[-ICRC_BYTES:]
        headers = memoryview(frame)[ETHERNET_HEADER_BYTES:]
        ip, udp = headers[:IPV4_HEADER_BYTES], headers[IPV4_HEADER_BYTES:][:UDP_HEADER_BYTES]
        if icrc(ip, udp, [covered]) != told:
            raise MalformedError("rocev2.icrc", "the invariant CRC does not fit the packet")
        bth = Bth.decode(covered)
        if bth.opcode != UdOpcode.SEND_ONLY:
            raise MalformedError("bth.opcode", f"{bth.opcode:#04x}; only UD SEND ONLY (0x64) is read")
        deth = Deth.decode(covered[BTH_BYTES:])
        rest = covered[BTH_BYTES + DETH_BYTES :]
        if bth.pad_count > len(rest):
            raise MalformedError("rocev2.pad", f"{bth.pad_count} bytes of pad in a payload of {len(rest)}")
        return cls(outer, bth, deth, rest[: len(rest) - bth.pad_count])


def is_for_gsi(frame: bytes | memoryview) -> bool:
    """Return whether a frame claims to be RoCEv2 over IPv4 for queue pair 1; no more of it is checked."""
    return (
        len(frame) >= _BTH_PLACE + BTH_BYTES
        and frame[12:14] == b"\x08\x00"
        and frame[14:15] == b"\x45"
        and frame[23:24] == b"\x11"
        and frame[36:38] == _ROCEV2_PORT
        and frame[_QP] == _GSI
    )


def encode_gsi_frame(framer: RoceFramer, psn: int, payload: bytes) -> bytes:
    """Return a frame from our GSI queue pair to the peer's, on the path of `framer`."""
    deth = Deth(GSI_Q_KEY, GSI_QP).encode()
    return framer.frame(UdOpcode.SEND_ONLY, GSI_QP, psn & PSN_MASK, extension=deth, payload=[payload])
