# SPDX-License-Identifier: Apache-2.0
"""What a capture makes of packets that the kernel has not finished; scapy is the second opinion."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet

from nicemu.fabric.ports.segment_offload import OFFLOAD_HEADER, finished_frames
from nicemu.wire import internet_checksum

TCP4, UDP_FRAGMENTS, TCP6, UDP_SEGMENTS, ECN = 1, 3, 4, 5, 0x80
NEEDS_CHECKSUM = 1
PAYLOAD = random.Random(1).randbytes(2500)
LINK = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
V4, V6 = IP(src="10.0.0.1", dst="10.0.0.2", id=0xFFFF, flags="DF"), IPv6(src="fd00::1", dst="fd00::2")
DATAGRAM, STREAM = UDP(sport=1000, dport=4791), TCP(sport=1, dport=2, seq=0xFFFFFF00, flags="CPFA")


def unfinished(packet: Packet) -> tuple[bytes, int]:
    """Return a packet whose checksum is left to the interface, and where its TCP or UDP begins."""
    data = bytearray(bytes(packet))
    start = len(data) - len(bytes(packet[UDP if UDP in packet else TCP]))
    place = start + (6 if UDP in packet else 16)
    checked = packet[IPv6] if IPv6 in packet else packet[IP]
    wide = IPv6 in packet
    at = len(data) - len(bytes(checked)) + (8 if wide else 12)
    addresses = bytes(data[at : at + (32 if wide else 8)])
    pseudo_header = addresses + struct.pack("!II", len(data) - start, 17 if UDP in packet else 6)
    data[place : place + 2] = (0xFFFF ^ internet_checksum(pseudo_header)).to_bytes(2, "big")
    return bytes(data), start


def finished(packet: Packet, kind: int = 0, segment_bytes: int = 0) -> list[bytes] | None:
    data, start = unfinished(packet)
    place = 6 if UDP in packet else 16
    return finished_frames(data, (NEEDS_CHECKSUM, kind, 0, segment_bytes, start, place))


@pytest.mark.parametrize("ip", [V4, V6])
@pytest.mark.parametrize("layer", [DATAGRAM, STREAM])
@pytest.mark.parametrize("link", [LINK, LINK / Dot1Q(vlan=5)])
def test_a_checksum_that_is_left_to_the_interface_is_computed(
    link: Packet, ip: Packet, layer: Packet
) -> None:
    packet = link / ip / layer / PAYLOAD
    assert finished(packet) == [bytes(packet)]


@pytest.mark.parametrize("link", [LINK, LINK / Dot1Q(vlan=5)])
@pytest.mark.parametrize("ip", [V4, V6])
def test_datagrams_are_split_by_their_length_the_last_one_is_shorter(link: Packet, ip: Packet) -> None:
    wanted = []
    for number, at in enumerate((0, 1000, 2000)):
        one = link / ip.copy() / DATAGRAM / PAYLOAD[at : at + 1000]
        if IP in one:
            one[IP].id = (0xFFFF + number) & 0xFFFF
        wanted.append(bytes(one))
    assert finished(link / ip / DATAGRAM / PAYLOAD, UDP_SEGMENTS, 1000) == wanted


def test_an_identification_of_zero_stays_where_fragments_are_forbidden() -> None:
    packet = LINK / IP(src="10.0.0.1", dst="10.0.0.2", id=0, flags="DF") / DATAGRAM / PAYLOAD
    assert [Ether(one)[IP].id for one in finished(packet, UDP_SEGMENTS, 1000) or ()] == [0, 0, 0]
    packet[IP].flags = 0
    assert [Ether(one)[IP].id for one in finished(packet, UDP_SEGMENTS, 1000) or ()] == [0, 1, 2]


@pytest.mark.parametrize(("ip", "kind"), [(V4, TCP4), (V4, TCP4 | ECN), (V6, TCP6)])
def test_segments_of_tcp_count_on_and_only_the_last_one_pushes_and_ends(ip: Packet, kind: int) -> None:
    wanted = []
    for number, (at, flags) in enumerate(((0, "CA"), (1200, "A"), (2400, "PFA"))):
        layer = TCP(sport=1, dport=2, seq=(0xFFFFFF00 + at) & 0xFFFFFFFF, flags=flags)
        one = LINK / ip.copy() / layer / PAYLOAD[at : at + 1200]
        if IP in one:
            one[IP].id = (0xFFFF + number) & 0xFFFF
        wanted.append(bytes(one))
    assert finished(LINK / ip / STREAM / PAYLOAD, kind, 1200) == wanted


def test_what_is_finished_stays_as_it_is() -> None:
    data = bytes(LINK / V4 / DATAGRAM / PAYLOAD)
    assert finished_frames(data, OFFLOAD_HEADER.unpack(bytes(OFFLOAD_HEADER.size))) == [data]
    sctp = 8
    assert finished_frames(data, (NEEDS_CHECKSUM, 0, 0, 0, 34, sctp)) == [data]
    assert finished_frames(data, (NEEDS_CHECKSUM, 0, 0, 0, len(data), 6)) == [data]


def test_what_cannot_be_split_here_is_not() -> None:
    packet = LINK / V4 / DATAGRAM / PAYLOAD
    assert finished(packet, UDP_FRAGMENTS, 1000) is None
    assert finished(packet, TCP4, 1000) is None, "it is UDP"
    assert finished(packet, UDP_SEGMENTS, 0) is None
    assert finished(LINK / V4 / DATAGRAM, UDP_SEGMENTS, 1000) is None, "there is nothing to split"
    inner = bytes(LINK / V4 / UDP(dport=4789)) + bytes(8) + bytes(LINK / V4 / STREAM / PAYLOAD)
    assert finished_frames(inner, (NEEDS_CHECKSUM, TCP4, 0, 1000, 34 + 8 + 8 + 34, 16)) is None, "a tunnel"
    data, start = unfinished(packet)
    assert finished_frames(data, (0, UDP_SEGMENTS, 0, 1000, start, 6)) is None
    assert finished_frames(data[: start + 4], (NEEDS_CHECKSUM, UDP_SEGMENTS, 0, 1000, start, 6)) is None
    other = data[:12] + b"\x12\x34" + data[14:]
    assert finished_frames(other, (NEEDS_CHECKSUM, UDP_SEGMENTS, 0, 1000, start, 6)) is None


@given(
    st.sampled_from([b"", b"\x08\0", b"\x86\xdd", b"\x81\0\0\5\x08\0"]),
    st.binary(max_size=60),
    st.sampled_from([0, TCP4, TCP6, UDP_SEGMENTS, TCP4 | ECN]),
    st.integers(0, 70),
    st.integers(0, 70),
    st.integers(0, 20),
)
def test_nothing_that_a_sender_makes_up_is_more_than_no_frame(
    ethertype: bytes, rest: bytes, kind: int, segment_bytes: int, start: int, place: int
) -> None:
    data = bytes(12) + ethertype + rest
    frames = finished_frames(data, (NEEDS_CHECKSUM, kind, 0, segment_bytes, start, place))
    assert frames is None or frames
