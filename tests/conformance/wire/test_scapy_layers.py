# SPDX-License-Identifier: Apache-2.0
"""scapy as second opinion: the same packets, built and read by both."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from nicemu.wire import (
    Aeth,
    AtomicAckEth,
    AtomicEth,
    Ethernet,
    Ipv4,
    RcOpcode,
    Reth,
    RoceFramer,
    UdpFrame,
    decode_roce_frame,
    encode_immediate,
    encode_udp_frame,
    parse_ipv4,
    verify_udp_checksum,
)
from nicemu.wire.scapy_layers import KV, RETH, AtomicAckETH, AtomicETH, ImmDt

u16, u24, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (16, 24, 32, 64))
payloads = st.binary(max_size=64)
A, B = "10.1.2.3", "10.4.5.6"
MAC_A, MAC_B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
FRAMER = RoceFramer(
    bytes.fromhex("02000000000a"),
    bytes.fromhex("02000000000b"),
    parse_ipv4(A),
    parse_ipv4(B),
    source_port=0xC123,
)


def by_scapy(layers: object, payload: bytes = b"", **bth: int) -> bytes:
    packet: Any = Ether(src=MAC_A, dst=MAC_B) / IP(src=A, dst=B, id=0, flags="DF")
    fields: dict[str, Any] = {"migreq": 1, "padcount": -len(payload) % 4, **bth}
    packet = packet / UDP(sport=0xC123, chksum=0) / BTH(**fields)
    if layers is not None:
        packet = packet / layers
    return bytes(packet / Raw(payload + bytes(-len(payload) % 4)))


@given(u24, u24, st.booleans(), u64, u32, u32, u32, payloads)
@settings(max_examples=30)
def test_scapy_builds_the_same_write_with_immediate_to_the_last_byte_of_the_icrc(
    qp: int, psn: int, ack: bool, address: int, rkey: int, length: int, imm: int, payload: bytes
) -> None:
    opcode = RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE
    extension = Reth(address, rkey, length).encode() + encode_immediate(imm)
    frame = FRAMER.frame(opcode, qp, psn, ack_request=ack, extension=extension, payload=[payload])
    layers = RETH(address=address, rkey=rkey, dma_length=length) / ImmDt(imm_data=imm)
    assert frame == by_scapy(layers, payload, opcode=opcode, dqpn=qp, psn=psn, ackreq=ack)


@given(u24, u24, u64, u32, u64, u64)
@settings(max_examples=30)
def test_scapy_builds_the_same_atomic(
    qp: int, psn: int, address: int, rkey: int, swap_add: int, compare: int
) -> None:
    extension = AtomicEth(address, rkey, swap_add, compare).encode()
    frame = FRAMER.frame(RcOpcode.COMPARE_SWAP, qp, psn, extension=extension)
    layers = AtomicETH(address=address, rkey=rkey, swap_add=swap_add, compare=compare)
    assert frame == by_scapy(layers, opcode=RcOpcode.COMPARE_SWAP, dqpn=qp, psn=psn)


@given(st.integers(0, 255), u24, u64)
@settings(max_examples=30)
def test_scapy_reads_our_responses(syndrome: int, msn: int, original: int) -> None:
    aeth = Aeth(syndrome, msn)
    ack = Ether(FRAMER.frame(RcOpcode.ACKNOWLEDGE, 1, 2, extension=aeth.encode()))
    assert (ack[AETH].syndrome, ack[AETH].msn) == (syndrome, msn)
    extension = aeth.encode() + AtomicAckEth(original).encode()
    atomic = Ether(FRAMER.frame(RcOpcode.ATOMIC_ACKNOWLEDGE, 1, 2, extension=extension))
    assert atomic[AtomicAckETH].original_value == original
    read = Ether(
        FRAMER.frame(RcOpcode.RDMA_READ_RESPONSE_ONLY, 1, 2, extension=aeth.encode(), payload=[b"abcd"])
    )
    assert (read[AETH].msn, read[Raw].load) == (msn, b"abcd")


@pytest.mark.parametrize("opcode", list(RcOpcode))
def test_scapy_names_every_opcode_as_we_do(opcode: RcOpcode) -> None:
    assert BTH(opcode=int(opcode)).sprintf("%BTH.opcode%") == f"RC_{opcode.name}"


@given(u64, u32, u32, u32, payloads)
@settings(max_examples=30)
def test_scapy_reads_our_headers_field_by_field(
    address: int, rkey: int, length: int, imm: int, payload: bytes
) -> None:
    extension = Reth(address, rkey, length).encode() + encode_immediate(imm)
    opcode = RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE
    packet = Ether(FRAMER.frame(opcode, 77, 88, extension=extension, payload=[payload]))
    assert (packet[RETH].address, packet[RETH].rkey, packet[RETH].dma_length) == (address, rkey, length)
    assert packet[ImmDt].imm_data == imm
    assert (packet[BTH].dqpn, packet[BTH].psn) == (77, 88)


@given(st.integers(0, 255), st.integers(0, 255), u16, payloads)
@settings(max_examples=30)
def test_we_read_what_scapy_builds_with_any_tos_ttl_and_identification(
    tos: int, ttl: int, ident: int, payload: bytes
) -> None:
    ip = IP(src=A, dst=B, tos=tos, ttl=ttl, id=ident)
    bth = BTH(opcode=RcOpcode.SEND_ONLY, dqpn=5, psn=6, padcount=-len(payload) % 4)
    frame = bytes(Ether() / ip / UDP(sport=0xC000, chksum=0) / bth / Raw(payload + bytes(-len(payload) % 4)))
    packet = decode_roce_frame(frame)
    assert (bytes(packet.payload), packet.ip.type_of_service, packet.ip.ttl) == (payload, tos, ttl)
    assert (packet.ip.identification, packet.bth.migration_request) == (ident, False)


@given(st.integers(20, 1500), u16, st.booleans(), st.integers(0, 255), st.integers(0, 255))
@settings(max_examples=30)
def test_scapy_computes_the_same_ip_checksum(length: int, ident: int, df: bool, ttl: int, tos: int) -> None:
    ours = Ipv4(parse_ipv4(A), parse_ipv4(B), length, 17, ident, df, ttl, tos).encode()
    flags = "DF" if df else 0
    assert ours == bytes(IP(src=A, dst=B, len=length, id=ident, flags=flags, ttl=ttl, tos=tos, proto=17))


@given(u16, u16, payloads)
@settings(max_examples=30)
def test_scapy_computes_the_same_udp_checksum(source: int, destination: int, payload: bytes) -> None:
    ethernet = Ethernet(bytes.fromhex("02000000000b"), bytes.fromhex("02000000000a"))
    ours = encode_udp_frame(ethernet, parse_ipv4(A), parse_ipv4(B), source, destination, payload)
    ip = IP(src=A, dst=B, id=0, flags="DF")
    udp = UDP(sport=source, dport=destination)
    theirs = bytes(Ether(src=MAC_A, dst=MAC_B) / ip / udp / Raw(payload))
    assert ours == theirs
    verify_udp_checksum(UdpFrame.decode(theirs))


def test_the_kv_layer_is_the_header_that_the_kv_room_writes() -> None:
    protocol = pytest.importorskip("nicemu.kv.protocol")
    request = protocol.Request(0x1122334455667788, bytes(range(16)), b"what was the answer?")
    crafted = KV(kind=1, request_id=0x1122334455667788, session=bytes(range(16))) / Raw(
        b"what was the answer?"
    )
    assert bytes(crafted) == request.encode()
    frame = Ether() / IP() / UDP(sport=5, dport=protocol.KV_PORT) / Raw(request.encode())
    read = Ether(bytes(frame))
    assert (read[KV].request_id, read[KV].body_bytes, read[KV].session) == (
        0x1122334455667788,
        20,
        bytes(range(16)),
    )
