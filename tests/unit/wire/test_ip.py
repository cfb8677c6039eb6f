# SPDX-License-Identifier: Apache-2.0
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.wire import Ipv4, MalformedError, format_ipv4, internet_checksum, parse_host_ipv4, parse_ipv4

A, B = parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2")
headers = st.builds(
    Ipv4,
    source=st.binary(min_size=4, max_size=4),
    destination=st.binary(min_size=4, max_size=4),
    total_length=st.integers(20, 60),
    protocol=st.integers(0, 255),
    identification=st.integers(0, 0xFFFF),
    dont_fragment=st.booleans(),
    ttl=st.integers(0, 255),
    type_of_service=st.integers(0, 255),
)


def sum_by_words(data: bytes) -> int:
    """The checksum as RFC 1071 describes it, word by word."""
    total = 0
    for (word,) in struct.iter_unpack("!H", data + bytes(len(data) & 1)):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def refusal(packet: bytes) -> str:
    with pytest.raises(MalformedError) as caught:
        Ipv4.decode(packet)
    return caught.value.reason


def with_checksum(packet: bytes) -> bytes:
    bare = packet[:10] + b"\0\0" + packet[12:]
    return packet[:10] + struct.pack("!H", internet_checksum(bare[:20])) + packet[12:]


@given(headers)
def test_an_encoded_header_decodes_to_itself(header: Ipv4) -> None:
    assert Ipv4.decode(header.encode() + bytes(40)) == header


@given(st.binary(max_size=300))
def test_the_checksum_is_the_sum_of_words_with_end_around_carry(data: bytes) -> None:
    assert internet_checksum(data) == sum_by_words(data)


@given(headers, st.integers(0, 19), st.integers(1, 255))
def test_no_flipped_byte_of_the_header_goes_unseen(header: Ipv4, place: int, flip: int) -> None:
    packet = bytearray(header.encode() + bytes(40))
    packet[place] ^= flip
    with pytest.raises(MalformedError):
        Ipv4.decode(bytes(packet))


def test_each_refusal_has_its_name() -> None:
    good = Ipv4(A, B, 20).encode()
    assert refusal(good[:19]) == "ip.too_short"
    assert refusal(with_checksum(b"\x65" + good[1:])) == "ip.version"
    assert refusal(with_checksum(b"\x46" + good[1:]) + bytes(4)) == "ip.options"
    assert refusal(good[:8] + b"\x01" + good[9:]) == "ip.checksum"
    assert refusal(with_checksum(good[:6] + b"\x20\x00" + good[8:])) == "ip.fragment"
    assert refusal(with_checksum(good[:6] + b"\x00\x01" + good[8:])) == "ip.fragment"
    assert refusal(Ipv4(A, B, 21).encode()) == "ip.length"
    assert refusal(Ipv4(A, B, 19).encode()) == "ip.length"


def test_addresses_survive_text_and_nonsense_is_refused() -> None:
    assert format_ipv4(parse_ipv4("192.168.7.254")) == "192.168.7.254"
    with pytest.raises(UsageError, match=r"no IPv4 address"):
        parse_ipv4("10.0.0")


@pytest.mark.parametrize(
    "address", ["0.0.0.0", "0.1.2.3", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"]
)
def test_an_address_of_none_of_a_group_or_of_all_is_not_a_host_s(address: str) -> None:
    with pytest.raises(UsageError, match=f"{address} is no address of one host"):
        parse_host_ipv4(address)


@pytest.mark.parametrize("address", ["1.0.0.1", "10.7.0.1", "127.0.0.1", "223.255.255.254"])
def test_an_address_of_a_host_is_its_bytes(address: str) -> None:
    assert parse_host_ipv4(address) == parse_ipv4(address)
