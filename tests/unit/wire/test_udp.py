# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.wire import (
    Ethernet,
    Ipv4,
    MalformedError,
    Udp,
    UdpFrame,
    encode_udp_frame,
    parse_ipv4,
    verify_udp_checksum,
)

A, B = parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2")
ETHERNET = Ethernet(b"\x02" * 6, b"\x04" * 6)


def refusal(frame: bytes) -> str:
    with pytest.raises(MalformedError) as caught:
        verify_udp_checksum(UdpFrame.decode(frame))
    return caught.value.reason


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.binary(max_size=200), st.binary(max_size=20))
def test_a_frame_decodes_to_its_parts_and_padding_is_ignored(
    source: int, destination: int, payload: bytes, padding: bytes
) -> None:
    frame = UdpFrame.decode(encode_udp_frame(ETHERNET, A, B, source, destination, payload) + padding)
    verify_udp_checksum(frame)
    assert (frame.ethernet, frame.ip.source, frame.ip.destination) == (ETHERNET, A, B)
    assert (frame.udp.source_port, frame.udp.destination_port) == (source, destination)
    assert frame.payload == payload


def test_each_refusal_has_its_name() -> None:
    good = encode_udp_frame(ETHERNET, A, B, 7, 9, b"hello")
    assert refusal(good[:12] + b"\x86\xdd" + good[14:]) == "ethernet.ethertype"
    assert refusal(ETHERNET.encode() + Ipv4(A, B, 28, protocol=6).encode() + bytes(8)) == "ip.protocol"
    assert refusal(ETHERNET.encode() + Ipv4(A, B, 27).encode() + bytes(7)) == "udp.too_short"
    for length in (7, 9):
        bad = ETHERNET.encode() + Ipv4(A, B, 28).encode() + Udp(7, 9, length).encode()
        assert refusal(bad) == "udp.length"
    assert refusal(good[:-1] + b"?") == "udp.checksum"


def test_a_checksum_of_zero_is_not_verified() -> None:
    good = encode_udp_frame(ETHERNET, A, B, 7, 9, b"hello")
    verify_udp_checksum(UdpFrame.decode(good[:40] + b"\0\0" + b"other"))
