# SPDX-License-Identifier: Apache-2.0
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.l2 import Ether

from nicemu.wire import (
    GSI_Q_KEY,
    GSI_QP,
    Deth,
    MalformedError,
    RoceFramer,
    UdFrame,
    UdOpcode,
    encode_gsi_frame,
    is_for_gsi,
)

FRAMER = RoceFramer(b"\2\0\0\0\0\1", b"\2\0\0\0\0\2", b"\x0a\7\0\1", b"\x0a\7\0\2")


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**24 - 1), st.binary(max_size=4))
def test_a_deth_decodes_to_itself_and_is_refused_one_byte_short(q_key: int, qp: int, rest: bytes) -> None:
    encoded = Deth(q_key, qp).encode()
    assert Deth.decode(encoded + rest) == Deth(q_key, qp)
    with pytest.raises(MalformedError, match=r"deth\.too_short"):
        Deth.decode(encoded[:-1])


@given(st.integers(0, 2**30), st.binary(max_size=300))
def test_a_frame_for_the_gsi_says_who_sent_what(psn: int, payload: bytes) -> None:
    frame = encode_gsi_frame(FRAMER, psn, payload)
    assert is_for_gsi(frame)
    read = UdFrame.decode(frame)
    assert read.payload == payload
    assert read.deth == Deth(GSI_Q_KEY, GSI_QP)
    assert (read.bth.opcode, read.bth.destination_qp, read.bth.psn) == (
        UdOpcode.SEND_ONLY,
        GSI_QP,
        psn % 2**24,
    )


def test_scapy_reads_the_same_headers_and_makes_the_same_icrc() -> None:
    frame = encode_gsi_frame(FRAMER, 7, b"a mad")
    packet = Ether(frame)
    bth = packet[BTH]
    assert (bth.opcode, bth.dqpn, bth.psn, bth.padcount) == (UdOpcode.SEND_ONLY, GSI_QP, 7, 3)
    assert bytes(bth.payload)[:8] == Deth(GSI_Q_KEY, GSI_QP).encode()
    bth.icrc = None
    assert bytes(packet)[-4:] == frame[-4:]


def test_other_traffic_is_not_taken_for_the_gsi() -> None:
    assert not is_for_gsi(FRAMER.frame(0x0A, 0x11, 0, payload=[b"data"]))
    assert not is_for_gsi(b"")
    assert not is_for_gsi(bytes(64))
    assert not is_for_gsi(encode_gsi_frame(FRAMER, 0, b"")[:53])


@given(st.data())
def test_a_frame_with_one_bit_flipped_is_refused_or_reads_the_same(data: st.DataObject) -> None:
    frame = bytearray(encode_gsi_frame(FRAMER, 3, b"some payload"))
    sent = UdFrame.decode(bytes(frame))
    place = data.draw(st.integers(0, len(frame) - 1))
    frame[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        read = UdFrame.decode(bytes(frame))
    except MalformedError:
        return
    assert (read.deth, read.payload) == (sent.deth, sent.payload)  # only what may change on the way did


@given(st.binary(max_size=90), st.integers(0, 80))
def test_hostile_frames_are_refused_and_never_raise_anything_else(tail: bytes, kept: int) -> None:
    frame = encode_gsi_frame(FRAMER, 3, b"")[:kept] + tail
    is_for_gsi(frame)
    with suppress(MalformedError):
        UdFrame.decode(frame)
