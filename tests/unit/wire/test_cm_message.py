# SPDX-License-Identifier: Apache-2.0
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.wire import (
    GSI_Q_KEY,
    GSI_QP,
    MAD_BYTES,
    CmMessage,
    Drep,
    Dreq,
    IpCmHeader,
    Mad,
    MalformedError,
    Mra,
    PortSpace,
    Rej,
    RejectReason,
    Rep,
    Req,
    Rtu,
    UdFrame,
    decode_cm_message,
    is_for_gsi,
    parse_ipv4,
    port_of_service,
    service_id,
)

MESSAGES: tuple[type[CmMessage], ...] = (Req, Mra, Rej, Rep, Rtu, Dreq, Drep)
GUEST, OTHER = "10.7.0.2", "10.7.0.1"

# What Linux 6.1 sent over rxe when one ib_write_bw -R connected to another, as it was captured.
REQ_FRAME = (
    bytes.fromhex(
        "02000a07000102000a070002080045000134719340004011b4150a0700020a070001d87212b7012000006400"
        "ffff00000001800000038001000000000001010702030000000000000004a17fc191001000000000000091c1"
        "7fa100000000000000000106485300000afffe07000200000000000000000000120000000000000000a0dda0"
        "74a7ffff57f0ffffffff00000000000000000000ffff0a07000200000000000000000000ffff0a07000161b9"
        "7000004000980000000000000000000000000000000000000000000000000000000000000000000000000000"
        "0000000000000040b43c0000000000000000000000000a0700020000000000000000000000000a070001"
    )
    + bytes(56)
    + bytes.fromhex("8348ed0a")
)
REP_FRAME = (
    bytes.fromhex(
        "02000a07000202000a070001080045000134ea48400040113b600a0700010a070002d87212b7012000006400"
        "ffff00000001800000028001000000000001010702030000000000000004a17fc1910013000000000000890c"
        "e6e691c17fa1000000000000120000000000ceb7c200000078e000000afffe070001"
    )
    + bytes(196)
    + bytes.fromhex("7521068f")
)


def gid(ip: str) -> int:
    return 0xFFFF << 32 | int.from_bytes(parse_ipv4(ip), "big")


@st.composite
def messages(draw: st.DrawFn) -> CmMessage:
    kind = draw(st.sampled_from(MESSAGES))
    values: dict[str, Any] = {
        name: draw(st.integers(0, (1 << bits) - 1)) for name, (_, bits) in kind.LAYOUT.items()
    }
    room = MAD_BYTES - 24 - kind.PRIVATE_PLACE
    return kind(private_data=draw(st.binary(min_size=room, max_size=room)), **values)


@given(messages(), st.integers(0, 2**64 - 1))
def test_every_message_decodes_to_itself_in_a_mad_of_256_bytes(message: CmMessage, transaction: int) -> None:
    encoded = message.encode(transaction)
    assert len(encoded) == MAD_BYTES
    assert decode_cm_message(encoded) == (transaction, message)


@pytest.mark.parametrize("kind", MESSAGES)
def test_fields_of_a_message_do_not_overlap_and_each_is_in_its_layout(kind: type[CmMessage]) -> None:
    taken = 0
    for shift, bits in kind.LAYOUT.values():
        mask = (1 << bits) - 1 << shift
        assert not taken & mask
        taken |= mask
    private = (1 << (MAD_BYTES - 24 - kind.PRIVATE_PLACE) * 8) - 1
    assert not taken & private
    assert {field.name for field in fields(kind)} == {*kind.LAYOUT, "private_data"}


@pytest.mark.parametrize(
    ("kind", "room"), [(Req, 92), (Mra, 222), (Rej, 148), (Rep, 196), (Rtu, 224), (Dreq, 220), (Drep, 224)]
)
def test_private_data_has_the_room_that_the_specification_gives_it(kind: type[CmMessage], room: int) -> None:
    assert room == MAD_BYTES - 24 - kind.PRIVATE_PLACE


def test_a_req_that_linux_sent_reads_as_it_was_meant() -> None:
    assert is_for_gsi(REQ_FRAME)
    frame = UdFrame.decode(REQ_FRAME)
    assert (frame.deth.q_key, frame.deth.source_qp, frame.bth.destination_qp) == (GSI_Q_KEY, GSI_QP, GSI_QP)
    transaction, req = decode_cm_message(frame.payload)
    assert isinstance(req, Req)
    assert transaction == 0x4A17FC191
    assert req.local_communication_id == 0x91C17FA1
    assert port_of_service(req.service_id) == (PortSpace.TCP, 18515)
    assert (req.local_qpn, req.starting_psn, req.partition_key) == (0x12, 0xDDA074, 0xFFFF)
    assert (req.path_mtu, req.retry_count, req.rnr_retry_count, req.max_cm_retries) == (5, 7, 7, 15)
    assert (req.remote_cm_response_timeout, req.local_cm_response_timeout) == (20, 20)
    assert (req.transport_service_type, req.local_ack_timeout, req.hop_limit) == (0, 19, 64)
    assert (req.local_gid, req.remote_gid) == (gid(GUEST), gid(OTHER))
    header = IpCmHeader.decode(req.private_data)
    assert header == IpCmHeader(0xB43C, parse_ipv4(GUEST), parse_ipv4(OTHER))
    assert req.encode(transaction) == bytes(frame.payload)


def test_a_rep_that_linux_sent_reads_as_it_was_meant() -> None:
    transaction, rep = decode_cm_message(UdFrame.decode(REP_FRAME).payload)
    assert isinstance(rep, Rep)
    assert (rep.local_communication_id, rep.remote_communication_id) == (0x890CE6E6, 0x91C17FA1)
    assert (rep.local_qpn, rep.starting_psn) == (0x12, 0xCEB7C2)
    assert (rep.target_ack_delay, rep.rnr_retry_count, rep.srq) == (15, 7, 0)
    assert rep.local_ca_guid == 0x0AFFFE070001
    assert rep.encode(transaction) == bytes(UdFrame.decode(REP_FRAME).payload)


def test_a_value_that_does_not_fit_its_field_is_refused_with_its_name() -> None:
    with pytest.raises(UsageError, match="local_communication_id of a Rtu is 0x100000000; it has 32 bits"):
        Rtu(local_communication_id=1 << 32, remote_communication_id=0).encode(0)
    with pytest.raises(UsageError, match="225 bytes of private data; a Drep has room for 224"):
        Drep(local_communication_id=0, remote_communication_id=0, private_data=bytes(225)).encode(0)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (Mad(7, 2, 3, 0, 0x10, base_version=2), "mad.base_version"),
        (Mad(3, 2, 3, 0, 0x10), "mad.class"),
        (Mad(7, 1, 3, 0, 0x10), "mad.class_version"),
        (Mad(7, 2, 1, 0, 0x10), "mad.method"),
        (Mad(7, 2, 3, 0, 0x01), "cm.attribute"),
    ],
)
def test_a_mad_that_is_none_of_ours_is_refused_by_name(header: Mad, reason: str) -> None:
    with pytest.raises(MalformedError) as refused:
        decode_cm_message(header.encode() + bytes(232))
    assert refused.value.reason == reason


@given(st.binary(max_size=300) | st.binary(min_size=256, max_size=256))
def test_hostile_bytes_are_a_message_or_refused_and_never_another_error(data: bytes) -> None:
    try:
        transaction, message = decode_cm_message(data)
    except MalformedError:
        return
    assert message.encode(transaction)[:24] == data[:24]


@given(st.integers(0, 255), st.binary(min_size=MAD_BYTES - 24, max_size=MAD_BYTES - 24))
def test_every_body_of_a_known_attribute_is_a_message(number: int, body: bytes) -> None:
    attribute = 0x10 + number % len(MESSAGES)
    _, message = decode_cm_message(Mad(7, 2, 3, 0, attribute).encode() + body)
    again = message.encode(0)
    assert decode_cm_message(again) == (0, message)


@given(st.integers(1, 0xFFFF), st.sampled_from(PortSpace))
def test_a_port_is_a_service_and_the_service_that_port(port: int, space: PortSpace) -> None:
    assert port_of_service(service_id(port, space)) == (space, port)


def test_services_that_stand_for_no_port_are_told_apart() -> None:
    assert service_id(18515) == 0x0000_0000_0106_4853
    assert port_of_service(0x1000_0000_0106_4853) is None
    with pytest.raises(UsageError, match="70000 is no port"):
        service_id(70000)


@given(st.integers(0, 0xFFFF), st.binary(min_size=4, max_size=4), st.binary(min_size=4, max_size=4))
def test_the_header_of_rdma_cm_decodes_to_itself(port: int, source: bytes, destination: bytes) -> None:
    header = IpCmHeader(port, source, destination)
    assert IpCmHeader.decode(header.encode() + b"private") == header


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bytes(35), "ip_cm.too_short"),
        (b"\x10\x40" + bytes(34), "ip_cm.version"),
        (b"\x00\x60" + bytes(34), "ip_cm.ip_version"),
    ],
)
def test_a_header_of_rdma_cm_that_is_none_is_refused_by_name(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedError) as refused:
        IpCmHeader.decode(data)
    assert refused.value.reason == reason


def test_reasons_have_the_numbers_of_the_specification() -> None:
    assert (RejectReason.INVALID_SERVICE_ID, RejectReason.STALE_CONNECTION, RejectReason.CONSUMER) == (
        8,
        10,
        28,
    )
