# SPDX-License-Identifier: Apache-2.0
"""Headers that a socket does not carry, as hot functions: checked and taken off a frame, and put on again.

Source: RFC 768; RFC 791; InfiniBand Architecture Specification Volume 1, Annex A17 "RoCEv2", "ICRC".
"""

from __future__ import annotations

from nicemu.hot import Int, hot

from .ethernet import ETHERNET_HEADER_BYTES, ETHERTYPE_IPV4
from .ip import IPV4_HEADER_BYTES
from .packed import load_be16, load_be32, load_be64, store_be16, store_be32, store_be64
from .raw_frame import FRAME_REFUSALS, check_ip
from .rocev2 import ROCEV2_PORT
from .udp import UDP_HEADER_BYTES

CANONICAL_REFUSALS = (*FRAME_REFUSALS, "udp.not_canonical")
"""Why `check_canonical` refuses, by the number that it returns."""
HEADERS_BYTES = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + UDP_HEADER_BYTES
UDP_LENGTH_PLACE = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + 4
"""Where the length of a frame's UDP datagram stands."""

_TOO_SHORT, _ETHERTYPE = (
    FRAME_REFUSALS.index("ethernet.too_short"),
    FRAME_REFUSALS.index("ethernet.ethertype"),
)
_NOT_CANONICAL = len(FRAME_REFUSALS)
_BOTH_PORTS = ROCEV2_PORT << 16 | ROCEV2_PORT
_DONT_FRAGMENT = 0x4000
_SUM_PLACE = 44


@hot
def check_canonical(frame: Int, length: Int, own_address: Int) -> Int:
    """Return 0 if a frame has just the headers that its receiver will put on again, else why not.

    `own_address` is the IP address that it must come from. The number is one of CANONICAL_REFUSALS.
    """
    if length < ETHERNET_HEADER_BYTES:
        return _TOO_SHORT
    if load_be16(frame + 12) != ETHERTYPE_IPV4:
        return _ETHERTYPE
    packet = frame + ETHERNET_HEADER_BYTES
    refused = check_ip(packet, length - ETHERNET_HEADER_BYTES)
    if refused != 0:
        return refused
    datagram = packet + IPV4_HEADER_BYTES
    if load_be32(packet + 12) != own_address or load_be32(packet + 4) != _DONT_FRAGMENT:
        return _NOT_CANONICAL
    if load_be32(datagram) != _BOTH_PORTS or load_be16(datagram + 6) != 0:
        return _NOT_CANONICAL
    return 0


@hot
def put_headers(target: Int, template: Int, payload_length: Int) -> None:
    """Put the headers of a path at `target`, which `make_template` has made a template of."""
    for place in range(0, 40, 8):
        store_be64(target + place, load_be64(template + place))
    length = payload_length + UDP_HEADER_BYTES
    total = length + IPV4_HEADER_BYTES
    store_be16(target + ETHERNET_HEADER_BYTES + 2, total)
    words = (load_be32(template + _SUM_PLACE) + total) % 0xFFFF
    store_be16(target + ETHERNET_HEADER_BYTES + 10, 0xFFFF - (words if words != 0 else 0xFFFF))
    store_be32(target + UDP_LENGTH_PLACE, length << 16)
