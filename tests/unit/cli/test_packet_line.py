# SPDX-License-Identifier: Apache-2.0
import struct

import pytest

from nicemu.cli.packet_line import opcode_name, packet_line
from nicemu.wire import (
    Aeth,
    AtomicAckEth,
    AtomicEth,
    NakCode,
    RcOpcode,
    Rej,
    Req,
    Reth,
    RoceFramer,
    Rtu,
    encode_gsi_frame,
    encode_immediate,
    parse_ipv4,
    service_id,
)

FRAMER = RoceFramer(bytes(6), bytes(6), parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2"))
TIME_NS = 1_700_000_000_000_000_042
START = "22:13:20.000000042 10.0.0.1 > 10.0.0.2 "
RETH = Reth(0x7000, 0x41, 3000).encode()


@pytest.mark.parametrize(
    ("opcode", "extension", "payload", "said"),
    [
        (RcOpcode.SEND_ONLY, b"", b"abc", "SEND_ONLY qp 0x11 psn 0x64 len 3 icrc ok"),
        (
            RcOpcode.RDMA_WRITE_FIRST,
            RETH,
            bytes(1024),
            "RDMA_WRITE_FIRST qp 0x11 psn 0x64 len 1024 at 0x7000 rkey 0x41 of 3000 icrc ok",
        ),
        (
            RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE,
            RETH + encode_immediate(0xC0FFEE),
            b"",
            "RDMA_WRITE_ONLY_WITH_IMMEDIATE qp 0x11 psn 0x64 len 0 at 0x7000 rkey 0x41 of 3000 imm 0xc0ffee "
            "icrc ok",
        ),
        (
            RcOpcode.ACKNOWLEDGE,
            Aeth.ack(5).encode(),
            b"",
            "ACKNOWLEDGE qp 0x11 psn 0x64 len 0 ACK msn 5 icrc ok",
        ),
        (
            RcOpcode.ACKNOWLEDGE,
            Aeth.nak(NakCode.REMOTE_ACCESS_ERROR, 5).encode(),
            b"",
            "ACKNOWLEDGE qp 0x11 psn 0x64 len 0 NAK REMOTE_ACCESS_ERROR msn 5 icrc ok",
        ),
        (
            RcOpcode.ACKNOWLEDGE,
            Aeth.rnr_nak(12, 5).encode(),
            b"",
            "ACKNOWLEDGE qp 0x11 psn 0x64 len 0 RNR_NAK wait 0.64 ms msn 5 icrc ok",
        ),
        (
            RcOpcode.COMPARE_SWAP,
            AtomicEth(0x7008, 0x41, 7, 41).encode(),
            b"",
            "COMPARE_SWAP qp 0x11 psn 0x64 len 0 at 0x7008 rkey 0x41 by 0x7 if 0x29 icrc ok",
        ),
        (
            RcOpcode.ATOMIC_ACKNOWLEDGE,
            Aeth.ack(1).encode() + AtomicAckEth(41).encode(),
            b"",
            "ATOMIC_ACKNOWLEDGE qp 0x11 psn 0x64 len 0 ACK msn 1 was 0x29 icrc ok",
        ),
        (0x64, bytes(8), b"abcd", "UD_SEND_ONLY qp 0x11 psn 0x64 len 4 icrc ok"),
        (0x81, b"", bytes(16), "CNP qp 0x11 psn 0x64 len 16 icrc ok"),
    ],
)
def test_a_packet_is_told_in_one_line(opcode: int, extension: bytes, payload: bytes, said: str) -> None:
    frame = FRAMER.frame(opcode, 0x11, 0x64, extension=extension, payload=[payload])
    assert packet_line(frame, TIME_NS) == (START + said, True)


def test_an_acknowledgement_that_is_asked_for_and_congestion_are_told() -> None:
    frame = bytearray(FRAMER.frame(RcOpcode.SEND_ONLY, 1, 2, ack_request=True))
    frame[46] |= 0xC0  # the ICRC does not cover it
    line, is_right = packet_line(bytes(frame), TIME_NS) or ("", False)
    assert line.endswith("len 0 ack fecn becn icrc ok")
    assert is_right


def test_a_wrong_icrc_is_told() -> None:
    frame = FRAMER.frame(RcOpcode.SEND_ONLY, 1, 2, payload=[b"data"])
    spoiled = frame[:-5] + b"?" + frame[-4:]
    line, is_right = packet_line(spoiled, TIME_NS) or ("", True)
    assert line.endswith("icrc WRONG")
    assert not is_right


def test_other_frames_and_pieces_of_packets_are_no_packets() -> None:
    frame = FRAMER.frame(RcOpcode.RDMA_READ_REQUEST, 1, 2, extension=RETH)
    assert packet_line(frame[:36] + struct.pack("!H", 53) + frame[38:], TIME_NS) is None
    for length in range(len(frame)):
        assert packet_line(frame[:length], TIME_NS) is None


def test_an_extended_header_that_is_cut_short_is_said_to_be() -> None:
    frame = FRAMER.frame(RcOpcode.RDMA_READ_REQUEST, 1, 2, extension=RETH[:8])
    line, _ = packet_line(frame, TIME_NS) or ("", False)
    assert "cut short" in line


@pytest.mark.parametrize(
    ("opcode", "name"), [(0x2A, "UC_RDMA_WRITE_ONLY"), (0x2C, "opcode 0x2c"), (0x1F, "opcode 0x1f")]
)
def test_opcodes_of_other_transports_have_names(opcode: int, name: str) -> None:
    assert opcode_name(opcode) == name


@pytest.mark.parametrize(
    ("mad", "said"),
    [
        (
            Req(
                local_communication_id=0x5,
                service_id=service_id(7174),
                local_qpn=0x11,
                starting_psn=0,
                path_mtu=3,
                local_gid=0,
                remote_gid=0,
            ).encode(1),
            " REQ id 0x5 port 7174 for qp 0x11",
        ),
        (Rtu(local_communication_id=0x5, remote_communication_id=0x9).encode(1), " RTU id 0x5 to 0x9"),
        (
            Rej(local_communication_id=0x5, remote_communication_id=0x9, answered_message=0, reason=8).encode(
                1
            ),
            " REJ id 0x5 to 0x9 INVALID_SERVICE_ID",
        ),
        (bytes(256), ""),
    ],
)
def test_messages_of_connection_management_are_told(mad: bytes, said: str) -> None:
    line = packet_line(encode_gsi_frame(FRAMER, 0x64, mad), TIME_NS)
    assert line == (f"{START}UD_SEND_ONLY qp 0x1 psn 0x64 len 256{said} icrc ok", True)
