# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 frames at raw addresses: what `roce_frame` describes in plain Python, as hot functions.

A frame is checked where it lies, and made where it will be sent from: its headers out of a template, then
extended headers and payload, then pad and ICRC. Tests hold both descriptions equal, refusal for refusal.
Source: InfiniBand Architecture Specification Volume 1, Annex A17 "RoCEv2", "RoCEv2 packet format" and "ICRC".
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Int, hot

from .crc import crc32, icrc32
from .ethernet import ETHERNET_HEADER_BYTES, ETHERTYPE_IPV4, Ethernet
from .ip import IPV4_HEADER_BYTES, PROTOCOL_UDP, Ipv4
from .packed import load_be16, load_be32, load_be64, load_u8, store_be16, store_be32, store_be64, store_u8
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
    RcOpcode,
)
from .udp import UDP_HEADER_BYTES, Udp

FRAME_REFUSALS = (
    "",
    "ethernet.too_short",
    "ethernet.ethertype",
    "ip.too_short",
    "ip.version",
    "ip.options",
    "ip.checksum",
    "ip.fragment",
    "ip.length",
    "ip.protocol",
    "udp.too_short",
    "udp.length",
    "udp.port",
    "bth.too_short",
    "rocev2.icrc",
    "bth.version",
    "bth.opcode",
    "reth.too_short",
    "aeth.too_short",
    "atomic_eth.too_short",
    "atomic_ack_eth.too_short",
    "immediate.too_short",
    "deth.too_short",
    "cnp.too_short",
    "rocev2.pad",
)
"""Why `check_frame` refuses, by the number that it returns."""

IP_PLACE = ETHERNET_HEADER_BYTES
UDP_PLACE = IP_PLACE + IPV4_HEADER_BYTES
BTH_PLACE = UDP_PLACE + UDP_HEADER_BYTES
EXTENSION_PLACE = BTH_PLACE + BTH_BYTES
"""Where headers begin in a frame."""
IP_SOURCE_PLACE, IP_DESTINATION_PLACE = IP_PLACE + 12, IP_PLACE + 16
PARTITION_KEY_PLACE, QUEUE_PAIR_PLACE, PSN_PLACE = BTH_PLACE + 2, BTH_PLACE + 4, BTH_PLACE + 8
ACK_REQUEST = 1 << 31
"""The bit beside the PSN."""
TEMPLATE_BYTES = 48

_NUMBER = {name: number for number, name in enumerate(FRAME_REFUSALS)}
_TOO_SHORT, _ETHERTYPE = _NUMBER["ethernet.too_short"], _NUMBER["ethernet.ethertype"]
_IP_TOO_SHORT, _VERSION, _OPTIONS = _NUMBER["ip.too_short"], _NUMBER["ip.version"], _NUMBER["ip.options"]
_CHECKSUM, _FRAGMENT, _IP_LENGTH = _NUMBER["ip.checksum"], _NUMBER["ip.fragment"], _NUMBER["ip.length"]
_PROTOCOL, _UDP_TOO_SHORT = _NUMBER["ip.protocol"], _NUMBER["udp.too_short"]
_UDP_LENGTH, _PORT, _BTH_TOO_SHORT = _NUMBER["udp.length"], _NUMBER["udp.port"], _NUMBER["bth.too_short"]
_ICRC, _BTH_VERSION, _OPCODE = _NUMBER["rocev2.icrc"], _NUMBER["bth.version"], _NUMBER["bth.opcode"]
_PAD = _NUMBER["rocev2.pad"]
_SUM_PLACE = 44
_SETTLED = 0x40
_MORE_FRAGMENTS_OR_OFFSET = 0x3FFF


def _of_opcodes() -> list[tuple[int, int, int, int]]:
    """Return, for each opcode, the bytes of its first and of all extended headers, and the refusals of a
    packet without.
    """
    rows = []
    for opcode in range(256):
        headers: list[tuple[int, str]] = []
        if opcode in WITH_RETH:
            headers.append((RETH_BYTES, "reth.too_short"))
        if opcode in WITH_AETH:
            headers.append((AETH_BYTES, "aeth.too_short"))
        if opcode in WITH_ATOMIC_ETH:
            headers.append((ATOMIC_ETH_BYTES, "atomic_eth.too_short"))
        if opcode == RcOpcode.ATOMIC_ACKNOWLEDGE:
            headers.append((ATOMIC_ACK_ETH_BYTES, "atomic_ack_eth.too_short"))
        if opcode in WITH_DETH:
            headers.append((DETH_BYTES, "deth.too_short"))
        if opcode == CNP_OPCODE:
            headers.append((CNP_BYTES, "cnp.too_short"))
        if opcode in WITH_IMMEDIATE:
            headers.append((IMMEDIATE_BYTES, "immediate.too_short"))
        padded = [*headers, (0, ""), (0, "")][:2]
        (first, refusal), (second, other) = padded
        rows.append((first, first + second, _NUMBER[refusal], _NUMBER[other]))
    return rows


_FIRST_BYTES, _ALL_BYTES, _FIRST_REFUSAL, _SECOND_REFUSAL = (
    np.array(column, np.int64) for column in zip(*_of_opcodes(), strict=True)
)
_IS_READ = np.zeros(256, np.int64)
_IS_READ[list(READ_OPCODES)] = 1


def make_template(
    source_mac: bytes,
    destination_mac: bytes,
    source_ip: bytes,
    destination_ip: bytes,
    type_of_service: int = 0,
) -> bytes:
    """Return what `begin_frame` makes the headers of one path from.

    As RoceFramer has it: DF set, identification 0, no UDP checksum.
    """
    ethernet = Ethernet(destination_mac, source_mac).encode()
    bare = bytearray(Ipv4(source_ip, destination_ip, 0, type_of_service=type_of_service).encode())
    bare[10:12] = b"\0\0"
    words = sum(int.from_bytes(bare[place : place + 2], "big") for place in range(0, IPV4_HEADER_BYTES, 2))
    udp = Udp(ROCEV2_PORT, ROCEV2_PORT, 0).encode()
    return (ethernet + bare + udp).ljust(_SUM_PLACE, b"\0") + words.to_bytes(4, "big")


@hot
def extension_bytes(opcode: Int) -> Int:
    """Return how long the extended headers of a packet are."""
    return _ALL_BYTES[opcode]


@hot
def payload_bytes(frame: Int, opcode: Int) -> Int:
    """Return the length of a checked frame's payload, without pad."""
    pad = load_u8(frame + BTH_PLACE + 1) >> 4 & 3
    return (
        load_be16(frame + UDP_PLACE + 4)
        - (UDP_HEADER_BYTES + BTH_BYTES + ICRC_BYTES)
        - _ALL_BYTES[opcode]
        - pad
    )


@hot
def check_ip(packet: Int, length: Int) -> Int:
    """As `check_frame`, of an IPv4 packet, down to the length of its UDP datagram."""
    if length < IPV4_HEADER_BYTES:
        return _IP_TOO_SHORT
    first = load_u8(packet)
    if first >> 4 != 4:
        return _VERSION
    if first != 0x45:
        return _OPTIONS
    words = 0
    for place in range(0, IPV4_HEADER_BYTES, 4):
        words += load_be32(packet + place)
    if words % 0xFFFF != 0:
        return _CHECKSUM
    if load_be16(packet + 6) & _MORE_FRAGMENTS_OR_OFFSET != 0:
        return _FRAGMENT
    total = load_be16(packet + 2)
    if total < IPV4_HEADER_BYTES or total > length:
        return _IP_LENGTH
    if load_u8(packet + 9) != PROTOCOL_UDP:
        return _PROTOCOL
    if total < IPV4_HEADER_BYTES + UDP_HEADER_BYTES:
        return _UDP_TOO_SHORT
    datagram = load_be16(packet + IPV4_HEADER_BYTES + 4)
    if datagram < UDP_HEADER_BYTES or datagram > total - IPV4_HEADER_BYTES:
        return _UDP_LENGTH
    return 0


@hot
def check_frame(frame: Int, length: Int) -> Int:
    """Return 0 if `length` bytes are a frame that engines read, or a number of FRAME_REFUSALS.

    The ICRC is checked too, and that pad and extended headers are there.
    """
    if length < ETHERNET_HEADER_BYTES:
        return _TOO_SHORT
    if load_be16(frame + 12) != ETHERTYPE_IPV4:
        return _ETHERTYPE
    refused = check_ip(frame + IP_PLACE, length - IP_PLACE)
    if refused != 0:
        return refused
    if load_be16(frame + UDP_PLACE + 2) != ROCEV2_PORT:
        return _PORT
    rest = load_be16(frame + UDP_PLACE + 4) - (UDP_HEADER_BYTES + BTH_BYTES + ICRC_BYTES)
    if rest < 0:
        return _BTH_TOO_SHORT
    crc = icrc32(frame, rest)
    if store_order(crc) != load_be32(frame + EXTENSION_PLACE + rest):
        return _ICRC
    flags = load_u8(frame + BTH_PLACE + 1)
    if flags & 0x0F != 0:
        return _BTH_VERSION
    opcode = load_u8(frame + BTH_PLACE)
    if _IS_READ[opcode] == 0:
        return _OPCODE
    if rest < _FIRST_BYTES[opcode]:
        return _FIRST_REFUSAL[opcode]
    if rest < _ALL_BYTES[opcode]:
        return _SECOND_REFUSAL[opcode]
    if flags >> 4 & 3 > rest - _ALL_BYTES[opcode]:
        return _PAD
    return 0


@hot
def store_order(crc: Int) -> Int:
    """Return a CRC as the big-endian number that its bytes on the wire make: it goes low byte first."""
    return (crc & 0xFF) << 24 | (crc & 0xFF00) << 8 | crc >> 8 & 0xFF00 | crc >> 24


@hot
def begin_frame(
    target: Int, template: Int, opcode: Int, destination_qp: Int, psn_word: Int, payload_length: Int
) -> Int:
    """Make a frame's headers up to the BTH at `target`; return where the payload will begin.

    `psn_word` is the 24-bit PSN, with ACK_REQUEST where an answer is asked for.
    """
    for place in range(0, 40, 8):
        store_be64(target + place, load_be64(template + place))
    pad = -payload_length & 3
    length = BTH_BYTES + _ALL_BYTES[opcode] + payload_length + pad + ICRC_BYTES + UDP_HEADER_BYTES
    total = length + IPV4_HEADER_BYTES
    store_be16(target + IP_PLACE + 2, total)
    words = (load_be32(template + _SUM_PLACE) + total) % 0xFFFF
    store_be16(target + IP_PLACE + 10, 0xFFFF - (words if words != 0 else 0xFFFF))
    store_be32(target + UDP_PLACE + 4, length << 16)
    store_u8(target + BTH_PLACE, opcode)
    store_u8(target + BTH_PLACE + 1, _SETTLED | pad << 4)
    store_be16(target + PARTITION_KEY_PLACE, DEFAULT_PARTITION_KEY)
    store_be32(target + QUEUE_PAIR_PLACE, destination_qp)
    store_be32(target + PSN_PLACE, psn_word)
    return target + EXTENSION_PLACE + _ALL_BYTES[opcode]


@hot
def headers_crc(target: Int, opcode: Int) -> Int:
    """Return the CRC of a frame's headers, extended ones too, for its payload to continue."""
    return icrc32(target, _ALL_BYTES[opcode])


@hot
def end_frame(target: Int, end: Int, crc: Int, payload_length: Int) -> Int:
    """Put pad and ICRC behind a payload that ends at `end`; return the length of the frame."""
    pad = -payload_length & 3
    for place in range(pad):
        store_u8(end + place, 0)
    if pad != 0:
        crc = crc32(crc, end, pad)
    store_be32(end + pad, store_order(crc))
    return end + pad + ICRC_BYTES - target
