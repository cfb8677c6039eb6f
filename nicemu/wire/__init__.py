# SPDX-License-Identifier: Apache-2.0
"""Bytes to typed headers and back, and nothing else: Ethernet, IPv4, UDP, RoCEv2.

Decoders raise MalformedError, a ProtocolError whose `reason` a caller counts drops by. Codecs are written
with `struct`; `scapy_layers` (imported by itself) has the same headers for crafting by hand.
Specifications: IEEE 802.3, RFC 791, RFC 768, InfiniBand Architecture Specification Volume 1 with its
Annex A17 (RoCEv2).
"""

from .ethernet import (
    BROADCAST_MAC,
    ETHERNET_HEADER_BYTES,
    ETHERTYPE_IPV4,
    Ethernet,
    format_mac,
    parse_mac,
)
from .ip import IPV4_HEADER_BYTES, PROTOCOL_UDP, Ipv4, format_ipv4, internet_checksum, parse_ipv4
from .malformed import MalformedError
from .roce_frame import ROCE_OVERHEAD_BYTES, RoceFramer, RocePacket, decode_roce_frame, icrc
from .rocev2 import (
    ICRC_BYTES,
    PSN_BITS,
    PSN_MASK,
    RNR_TIMER_NS,
    ROCEV2_PORT,
    Aeth,
    AtomicAckEth,
    AtomicEth,
    Bth,
    NakCode,
    RcOpcode,
    Reth,
    SyndromeKind,
    decode_immediate,
    encode_immediate,
    rnr_timer_code,
)
from .udp import UDP_HEADER_BYTES, Udp, UdpFrame, encode_udp_frame, udp_checksum, verify_udp_checksum

__all__ = [
    "BROADCAST_MAC",
    "ETHERNET_HEADER_BYTES",
    "ETHERTYPE_IPV4",
    "ICRC_BYTES",
    "IPV4_HEADER_BYTES",
    "PROTOCOL_UDP",
    "PSN_BITS",
    "PSN_MASK",
    "RNR_TIMER_NS",
    "ROCEV2_PORT",
    "ROCE_OVERHEAD_BYTES",
    "UDP_HEADER_BYTES",
    "Aeth",
    "AtomicAckEth",
    "AtomicEth",
    "Bth",
    "Ethernet",
    "Ipv4",
    "MalformedError",
    "NakCode",
    "RcOpcode",
    "Reth",
    "RoceFramer",
    "RocePacket",
    "SyndromeKind",
    "Udp",
    "UdpFrame",
    "decode_immediate",
    "decode_roce_frame",
    "encode_immediate",
    "encode_udp_frame",
    "format_ipv4",
    "format_mac",
    "icrc",
    "internet_checksum",
    "parse_ipv4",
    "parse_mac",
    "rnr_timer_code",
    "udp_checksum",
    "verify_udp_checksum",
]
