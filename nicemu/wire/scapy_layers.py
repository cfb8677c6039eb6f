# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 - scapy wants `fields_desc` to be a list
"""RoCEv2's extended headers and the KV request header as scapy layers, to craft and read packets by hand.

Importing this file binds the layers to scapy's own BTH, AETH and UDP. scapy never runs on the packet path,
and only this file of the package imports it; the door `nicemu.wire` does not.
Source: InfiniBand Architecture Specification Volume 1, "Transport Layer"; the table in nicemu/kv/protocol.py.
"""

from __future__ import annotations

from scapy.contrib.roce import AETH, BTH
from scapy.fields import (
    IntField,
    LongField,
    ShortField,
    XByteField,
    XIntField,
    XLongField,
    XShortField,
    XStrFixedLenField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from .rocev2 import WITH_AETH, WITH_ATOMIC_ETH, WITH_RETH, RcOpcode

KV_PORT = 0x4B56
"""UDP port of KV requests, the letters KV."""


class RETH(Packet):
    """RDMA Extended Transport Header."""

    name = "RETH"
    fields_desc = [XLongField("address", 0), XIntField("rkey", 0), IntField("dma_length", 0)]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """An immediate follows in the one opcode that has both."""
        if getattr(self.underlayer, "opcode", None) == RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE:
            return ImmDt
        chosen: type[Packet] = super().guess_payload_class(payload)
        return chosen


class AtomicETH(Packet):
    """Atomic Extended Transport Header."""

    name = "AtomicETH"
    fields_desc = [
        XLongField("address", 0),
        XIntField("rkey", 0),
        LongField("swap_add", 0),
        LongField("compare", 0),
    ]


class AtomicAckETH(Packet):
    """Atomic ACK Extended Transport Header."""

    name = "AtomicAckETH"
    fields_desc = [LongField("original_value", 0)]


class AtomicAETH(AETH):
    """AETH of an ATOMIC_ACKNOWLEDGE, which the original value follows."""

    name = "AtomicAETH"

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """The original value."""
        return AtomicAckETH


class ImmDt(Packet):
    """Immediate data."""

    name = "ImmDt"
    fields_desc = [XIntField("imm_data", 0)]


class KV(Packet):
    """Header of a KV request or its answer; the body follows."""

    name = "KV"
    fields_desc = [
        XShortField("magic", 0x4B56),
        XByteField("version", 1),
        XByteField("kind", 1),
        ShortField("body_bytes", None),
        XShortField("flags", 0),
        XLongField("request_id", 0),
        XStrFixedLenField("session", b"\0" * 16, 16),
    ]

    def post_build(self, header: bytes, body: bytes) -> bytes:
        """Fill in the length of the body where none was given."""
        if self.body_bytes is None:
            header = header[:4] + len(body).to_bytes(2, "big") + header[6:]
        return header + body


for _opcode in WITH_RETH:
    bind_layers(BTH, RETH, opcode=int(_opcode))
for _opcode in WITH_ATOMIC_ETH:
    bind_layers(BTH, AtomicETH, opcode=int(_opcode))
for _opcode in WITH_AETH - {RcOpcode.ACKNOWLEDGE, RcOpcode.ATOMIC_ACKNOWLEDGE}:
    bind_layers(BTH, AETH, opcode=int(_opcode))
bind_layers(BTH, AtomicAETH, opcode=int(RcOpcode.ATOMIC_ACKNOWLEDGE))
for _opcode in (
    RcOpcode.SEND_LAST_WITH_IMMEDIATE,
    RcOpcode.SEND_ONLY_WITH_IMMEDIATE,
    RcOpcode.RDMA_WRITE_LAST_WITH_IMMEDIATE,
):
    bind_layers(BTH, ImmDt, opcode=int(_opcode))
bind_layers(UDP, KV, dport=KV_PORT)
bind_layers(UDP, KV, sport=KV_PORT)
