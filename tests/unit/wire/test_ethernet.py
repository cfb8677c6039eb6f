# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import ProtocolError, UsageError
from nicemu.wire import Ethernet, MalformedError, format_mac, parse_mac

mac = st.binary(min_size=6, max_size=6)


@given(mac, mac, st.integers(0, 0xFFFF), st.binary(max_size=20))
def test_an_encoded_header_decodes_to_itself_whatever_follows(
    destination: bytes, source: bytes, ethertype: int, rest: bytes
) -> None:
    header = Ethernet(destination, source, ethertype)
    assert Ethernet.decode(header.encode() + rest) == header


def test_the_destination_comes_first() -> None:
    assert Ethernet(b"ddddd\x01", b"sssss\x02", 0x0800).encode() == b"ddddd\x01sssss\x02\x08\x00"


def test_thirteen_bytes_are_too_short() -> None:
    with pytest.raises(MalformedError) as caught:
        Ethernet.decode(bytes(13))
    assert caught.value.reason == "ethernet.too_short"
    assert isinstance(caught.value, ProtocolError)


@given(mac)
def test_a_mac_address_survives_text(address: bytes) -> None:
    assert parse_mac(format_mac(address)) == address


@pytest.mark.parametrize(
    "text", ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "02:00:00:00:00:zz", "0200:0:0:0:0:0"]
)
def test_what_is_no_mac_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="MAC address"):
        parse_mac(text)
