# SPDX-License-Identifier: Apache-2.0
"""What an interface would have sent of a packet that the kernel has left to it: segments, with checksums.

Linux carries TCP and UDP as packets of up to 64 KiB that are split where they leave (or were joined where
they came in), and leaves checksums to the interface. A capture sees them before that; each packet then has a
struct virtio_net_hdr, which says what is still to be done.
Source: Linux, include/uapi/linux/virtio_net.h, Documentation/networking/segmentation-offloads.rst; RFC 1071.
"""

from __future__ import annotations

import struct

from nicemu.wire import ETHERTYPE_IPV4, PROTOCOL_UDP, UDP_HEADER_BYTES, internet_checksum

OFFLOAD_HEADER = struct.Struct("=BBHHHH")
"""struct virtio_net_hdr: flags, kind, headers' length (a guess), segment bytes, checksum start and place."""

_NEEDS_CHECKSUM = 1
_TCP4, _TCP6, _UDP, _ECN = 1, 4, 5, 0x80
_ETHERTYPE_IPV6, _VLAN_ETHERTYPES = 0x86DD, (0x8100, 0x88A8)
_ETHERTYPE_PLACE, _VLAN_TAG_BYTES = 12, 4
_IPV4_HEADER_BYTES, _IPV6_HEADER_BYTES = 20, 40
_TCP_HEADER_BYTES = 20
_DONT_FRAGMENT = 0x4000
_PROTOCOL_TCP = 6
_TCP_SEQUENCE_PLACE, _TCP_OFFSET_PLACE, _TCP_FLAGS_PLACE = 4, 12, 13
_TCP_ONLY_FIRST, _TCP_ONLY_LAST = 0x80, 0x09
"""CWR; PSH and FIN. Source: RFC 3168, "TCP Initialization" and following; RFC 9293, "Header Format"."""
_SCTP_CHECKSUM_PLACE = 8


def finished_frames(data: bytes, header: tuple[int, int, int, int, int, int]) -> list[bytes] | None:
    """Return the frames that an interface makes of a packet with the fields of its OFFLOAD_HEADER.

    None where that is not known here: fragments of UDP, tunnels, IPv6 extension headers. Identifications
    count up from the packet's, as in the kernel's own segmentation; but 0 where fragments are forbidden stays
    0, since it means nothing there, and RoCEv2's ICRC covers it. SCTP's checksum (a CRC) stays as it is.
    Source: RFC 6864, "IPv4 ID Used Only for Fragmentation".
    """
    flags, kind, _, segment_bytes, start, place = header
    needs_checksum = bool(flags & _NEEDS_CHECKSUM)
    if kind & ~_ECN:
        return _segments(data, kind & ~_ECN, segment_bytes, start) if needs_checksum else None
    if not needs_checksum or place == _SCTP_CHECKSUM_PLACE or start + place + 2 > len(data):
        return [data]
    checksum = internet_checksum(data[start:]) or 0xFFFF  # the field holds the sum of the pseudo-header
    return [data[: start + place] + checksum.to_bytes(2, "big") + data[start + place + 2 :]]


def _segments(data: bytes, kind: int, segment_bytes: int, transport: int) -> list[bytes] | None:
    protocol = {_TCP4: _PROTOCOL_TCP, _TCP6: _PROTOCOL_TCP, _UDP: PROTOCOL_UDP}.get(kind)
    ip = _ETHERTYPE_PLACE
    while int.from_bytes(data[ip : ip + 2], "big") in _VLAN_ETHERTYPES:
        ip += _VLAN_TAG_BYTES
    ethertype = int.from_bytes(data[ip : ip + 2], "big")
    ip += 2
    least = UDP_HEADER_BYTES if protocol == PROTOCOL_UDP else _TCP_HEADER_BYTES
    is_v4 = ethertype == ETHERTYPE_IPV4
    addressed = _IPV4_HEADER_BYTES if is_v4 else _IPV6_HEADER_BYTES
    if len(data) < max(transport + least, ip + addressed) or segment_bytes == 0:
        return None
    if is_v4:
        found, carried, addresses = ip + (data[ip] & 15) * 4, data[ip + 9], data[ip + 12 : ip + 20]
    elif ethertype == _ETHERTYPE_IPV6:
        found, carried, addresses = ip + _IPV6_HEADER_BYTES, data[ip + 6], data[ip + 8 : ip + 40]
    else:
        return None
    if (found, carried) != (transport, protocol):
        return None
    is_udp = protocol == PROTOCOL_UDP
    payload = transport + (UDP_HEADER_BYTES if is_udp else (data[transport + _TCP_OFFSET_PLACE] >> 4) * 4)
    frames: list[bytes] = []
    for at in range(payload, len(data), segment_bytes):
        piece = data[at : at + segment_bytes]
        headers = bytearray(data[:payload])
        length = payload - transport + len(piece)
        if is_v4:
            _finish_ipv4(headers, ip, transport, transport - ip + length, len(frames))
        else:
            struct.pack_into("!H", headers, ip + 4, length)
        if is_udp:
            struct.pack_into("!H", headers, transport + 4, length)
        else:
            _finish_tcp(headers, transport, at - payload, at == payload, at + segment_bytes >= len(data))
        place = transport + (6 if is_udp else 16)
        struct.pack_into("!H", headers, place, 0)
        pseudo_header = addresses + struct.pack("!II", length, carried)
        checksum = internet_checksum(pseudo_header + headers[transport:] + piece) or 0xFFFF
        struct.pack_into("!H", headers, place, checksum)
        frames.append(bytes(headers) + piece)
    return frames or None


def _finish_ipv4(headers: bytearray, ip: int, end: int, total_length: int, number: int) -> None:
    identification, fragment = struct.unpack_from("!HH", headers, ip + 4)
    if identification or not fragment & _DONT_FRAGMENT:
        identification = (identification + number) & 0xFFFF
    struct.pack_into("!HH", headers, ip + 2, total_length, identification)
    struct.pack_into("!H", headers, ip + 10, 0)
    struct.pack_into("!H", headers, ip + 10, internet_checksum(bytes(headers[ip:end])))


def _finish_tcp(headers: bytearray, tcp: int, behind: int, is_first: bool, is_last: bool) -> None:
    (sequence,) = struct.unpack_from("!I", headers, tcp + _TCP_SEQUENCE_PLACE)
    struct.pack_into("!I", headers, tcp + _TCP_SEQUENCE_PLACE, (sequence + behind) & 0xFFFFFFFF)
    if not is_first:
        headers[tcp + _TCP_FLAGS_PLACE] &= ~_TCP_ONLY_FIRST & 0xFF
    if not is_last:
        headers[tcp + _TCP_FLAGS_PLACE] &= ~_TCP_ONLY_LAST & 0xFF
