# SPDX-License-Identifier: Apache-2.0
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.wire import (
    CNP_OPCODE,
    ETHERNET_HEADER_BYTES,
    ROCE_OVERHEAD_BYTES,
    Aeth,
    AtomicAckEth,
    AtomicEth,
    Deth,
    MalformedError,
    RcOpcode,
    Reth,
    RoceFramer,
    UdOpcode,
    decode_roce_frame,
    encode_immediate,
    icrc,
    parse_ipv4,
)

FRAMER = RoceFramer(b"\x02" * 6, b"\x04" * 6, parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2"))
RETH = Reth(0x1000, 7, 100)


def reseal(frame: bytes) -> bytes:
    """Give a tampered frame an ICRC that fits."""
    return frame[:-4] + icrc(frame[14:34], frame[34:42], [frame[42:-4]])


def refusal(frame: bytes) -> str:
    with pytest.raises(MalformedError) as caught:
        decode_roce_frame(frame)
    return caught.value.reason


@given(st.lists(st.binary(max_size=40), max_size=3), st.integers(0, 2**24 - 1), st.booleans())
def test_a_frame_decodes_to_its_parts(pieces: list[bytes], psn: int, ack_request: bool) -> None:
    opcode = RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE
    extension = RETH.encode() + encode_immediate(0xDEADBEEF)
    frame = FRAMER.frame(opcode, 0x123456, psn, ack_request=ack_request, extension=extension, payload=pieces)
    packet = decode_roce_frame(frame)
    assert (packet.bth.opcode, packet.bth.destination_qp, packet.bth.psn) == (opcode, 0x123456, psn)
    assert packet.bth.ack_request is ack_request
    assert (packet.reth, packet.imm_data) == (RETH, 0xDEADBEEF)
    assert packet.payload == b"".join(pieces)
    assert len(frame) == ROCE_OVERHEAD_BYTES + 20 + len(packet.payload) + packet.bth.pad_count
    assert len(frame[42:]) % 4 == 0


def test_each_opcode_carries_its_extended_headers() -> None:
    aeth, atomic, original = Aeth.ack(9), AtomicEth(0x10, 7, 1, 2), AtomicAckEth(5)

    def decoded(opcode: RcOpcode, extension: bytes) -> tuple[object, ...]:
        packet = decode_roce_frame(FRAMER.frame(opcode, 1, 2, extension=extension))
        return packet.reth, packet.aeth, packet.atomic, packet.atomic_ack, packet.imm_data

    assert decoded(RcOpcode.RDMA_READ_REQUEST, RETH.encode()) == (RETH, None, None, None, None)
    assert decoded(RcOpcode.ACKNOWLEDGE, aeth.encode()) == (None, aeth, None, None, None)
    assert decoded(RcOpcode.ATOMIC_ACKNOWLEDGE, aeth.encode() + original.encode()) == (
        None,
        aeth,
        None,
        original,
        None,
    )
    assert decoded(RcOpcode.FETCH_ADD, atomic.encode()) == (None, None, atomic, None, None)
    assert decoded(RcOpcode.SEND_LAST_WITH_IMMEDIATE, b"\0\0\0\5") == (None, None, None, None, 5)
    assert decoded(RcOpcode.SEND_MIDDLE, b"") == (None, None, None, None, None)


def test_a_datagram_carries_its_q_key_and_who_sent_it() -> None:
    deth = Deth(0x11223344, 0x123456)
    extension = deth.encode() + encode_immediate(7)
    frame = FRAMER.frame(UdOpcode.SEND_ONLY_WITH_IMMEDIATE, 1, 2, extension=extension, payload=[b"data"])
    packet = decode_roce_frame(frame)
    assert (packet.deth, packet.imm_data, bytes(packet.payload)) == (deth, 7, b"data")
    assert frame[54:62] == bytes.fromhex("11223344 00123456")
    short = FRAMER.frame(UdOpcode.SEND_ONLY_WITH_IMMEDIATE, 1, 2, extension=bytes(8))
    assert refusal(short) == "immediate.too_short"
    assert refusal(FRAMER.frame(UdOpcode.SEND_ONLY, 1, 2, extension=bytes(4))) == "deth.too_short"


def test_a_congestion_notification_has_16_reserved_bytes() -> None:
    assert not decode_roce_frame(FRAMER.frame(CNP_OPCODE, 1, 0, extension=bytes(16))).payload
    assert refusal(FRAMER.frame(CNP_OPCODE, 1, 0, extension=bytes(12))) == "cnp.too_short"


@pytest.mark.parametrize("place", [15, 22, 24, 25, 40, 41, 46])
def test_fields_that_routers_change_are_outside_the_icrc(place: int) -> None:
    frame = FRAMER.frame(RcOpcode.SEND_ONLY, 1, 2, payload=[b"data"])
    changed = bytearray(frame)
    changed[place] ^= 0xC0
    assert reseal(bytes(changed))[-4:] == frame[-4:]


def test_the_icrc_is_the_ethernet_crc_over_ones_and_the_masked_packet() -> None:
    frame = bytearray(FRAMER.frame(RcOpcode.SEND_ONLY, 1, 2, payload=[b"data"]))
    wire_icrc = bytes(frame[-4:])
    for place in (15, 22, 24, 25, 40, 41, 46):
        frame[place] = 0xFF
    masked = bytes(8 * [0xFF]) + bytes(frame[ETHERNET_HEADER_BYTES:-4])
    assert wire_icrc == struct.pack("<I", zlib.crc32(masked))


@given(st.integers(0, 1000), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_was_outside_the_packet_s_meaning(place: int, flip: int) -> None:
    frame = bytearray(FRAMER.frame(RcOpcode.SEND_ONLY, 1, 2, payload=[b"some payload"]))
    place %= len(frame)
    frame[place] ^= flip
    outside_icrc = place < 14 or place in (40, 41, 46)
    if outside_icrc and not 12 <= place < 14:
        assert bytes(decode_roce_frame(bytes(frame)).payload) == b"some payload"
    else:
        with pytest.raises(MalformedError):
            decode_roce_frame(bytes(frame))


@given(st.binary(max_size=120))
def test_noise_is_refused_by_name_and_never_raises_anything_else(noise: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_roce_frame(noise)


def test_each_refusal_has_its_name() -> None:
    good = FRAMER.frame(RcOpcode.RDMA_WRITE_ONLY, 1, 2, extension=RETH.encode())
    assert refusal(good[:36] + b"\0\x07" + good[38:]) == "udp.port"
    assert refusal(good[:-1] + bytes([good[-1] ^ 1])) == "rocev2.icrc"
    assert refusal(reseal(good[:42] + b"\x24" + good[43:])) == "bth.opcode"
    assert refusal(reseal(good[:43] + b"\x41" + good[44:])) == "bth.version"
    assert refusal(reseal(good[:43] + b"\x50" + good[44:])) == "rocev2.pad"
    assert refusal(FRAMER.frame(RcOpcode.RDMA_WRITE_FIRST, 1, 2)) == "reth.too_short"
    assert refusal(FRAMER.frame(RcOpcode.ACKNOWLEDGE, 1, 2)) == "aeth.too_short"
    assert refusal(FRAMER.frame(RcOpcode.FETCH_ADD, 1, 2)) == "atomic_eth.too_short"
    assert refusal(FRAMER.frame(RcOpcode.SEND_ONLY_WITH_IMMEDIATE, 1, 2)) == "immediate.too_short"


def test_many_lengths_do_not_confuse_the_kept_headers() -> None:
    data = bytes(range(256)) * 2
    for length in [*range(0, 400), *range(0, 400, 7)]:
        frame = FRAMER.frame(RcOpcode.SEND_ONLY, 1, 2, payload=[data[:length]])
        assert decode_roce_frame(frame).payload == data[:length]
