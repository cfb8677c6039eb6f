# SPDX-License-Identifier: Apache-2.0
import random
import select
import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from nicemu.abi import Access, Opcode, Sge, WorkRequest, registers
from nicemu.errors import UsageError, VerbsStatus
from nicemu.fabric import RequestUdpPort, RoceUdpPort, UdpPeer, mac_of_host
from nicemu.pcie import Backing
from nicemu.rdma import MemoryRegion, MemoryRegionTable, RdmaState, new_state
from nicemu.rdma.roce import QpState, RoceEngine
from nicemu.wire import (
    Ethernet,
    Ipv4,
    RcOpcode,
    RoceFramer,
    Udp,
    UdpFrame,
    decode_roce_frame,
    encode_udp_frame,
    parse_ipv4,
    verify_udp_checksum,
)

HOST = "127.0.0.1"
LOCAL = parse_ipv4(HOST)
MAC_A, MAC_B = b"\x02\0\0\0\0\1", b"\x02\0\0\0\0\2"
IP_A, IP_B = parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2")


def arrived(port: RoceUdpPort | RequestUdpPort) -> list[bytes]:
    descriptor = port.fileno()
    assert descriptor is not None
    return port.receive() if select.select([descriptor], [], [], 1)[0] else []


@pytest.fixture
def roce_pair() -> Iterator[tuple[RoceUdpPort, RoceUdpPort]]:
    a, b = RoceUdpPort(MAC_A, "10.0.0.1", HOST, 0), RoceUdpPort(MAC_B, "10.0.0.2", HOST, 0)
    a.add_peer(UdpPeer(MAC_B, "10.0.0.2", HOST, b.udp_port))
    b.add_peer(UdpPeer(MAC_A, "10.0.0.1", HOST, a.udp_port))
    yield a, b
    a.close()
    b.close()


@pytest.fixture
def request_port() -> Iterator[RequestUdpPort]:
    port = RequestUdpPort(MAC_A, HOST)
    yield port
    port.close()


@pytest.fixture
def user() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind((HOST, 0))
        opened.settimeout(1)
        yield opened


def test_the_icrc_fits_on_the_other_side(roce_pair: tuple[RoceUdpPort, RoceUdpPort]) -> None:
    a, b = roce_pair
    frame = RoceFramer(MAC_A, MAC_B, IP_A, IP_B).frame(RcOpcode.SEND_ONLY, 1, 2, payload=[b"data"])
    a.send([frame])
    (received,) = arrived(b)
    assert received == frame
    assert bytes(decode_roce_frame(received).payload) == b"data"


def test_only_bth_to_icrc_travels_as_udp_payload(user: socket.socket) -> None:
    port = RoceUdpPort(MAC_A, "10.0.0.1", HOST, 0, [UdpPeer(MAC_B, "10.0.0.2", *user.getsockname())])
    frame = RoceFramer(MAC_A, MAC_B, IP_A, IP_B).frame(RcOpcode.SEND_ONLY, 1, 2, payload=[b"data"])
    port.send([frame])
    assert user.recvfrom(2000) == (frame[42:], (HOST, port.udp_port))
    port.close()


def test_frames_whose_headers_could_not_be_rebuilt_are_dropped_by_name(
    roce_pair: tuple[RoceUdpPort, RoceUdpPort],
) -> None:
    a, b = roce_pair
    ethernet = Ethernet(MAC_B, MAC_A).encode()

    def frame(ip: Ipv4, udp: Udp) -> bytes:
        return ethernet + ip.encode() + udp.encode() + bytes(16)

    udp = Udp(4791, 4791, 24)
    a.send(
        [
            frame(Ipv4(IP_A, IP_B, 44, identification=1), udp),
            frame(Ipv4(IP_A, IP_B, 44, dont_fragment=False), udp),
            frame(Ipv4(IP_B, IP_B, 44), udp),
            frame(Ipv4(IP_A, IP_B, 44), Udp(0xC000, 4791, 24)),
            frame(Ipv4(IP_A, IP_B, 44), Udp(4791, 4791, 24, checksum=5)),
            frame(Ipv4(IP_A, IP_A, 44), udp),
            bytes(60),
        ]
    )
    assert dict(a.drops) == {"udp.not_canonical": 5, "udp.unknown_destination": 1, "ethernet.ethertype": 1}
    assert b.receive() == []


def test_a_stranger_is_not_heard(roce_pair: tuple[RoceUdpPort, RoceUdpPort], user: socket.socket) -> None:
    user.sendto(bytes(20), (HOST, roce_pair[1].udp_port))
    assert arrived(roce_pair[1]) == []
    assert dict(roce_pair[1].drops) == {"udp.unknown_sender": 1}


def test_a_port_that_is_taken_is_refused(request_port: RequestUdpPort) -> None:
    with pytest.raises(UsageError, match="cannot be opened"):
        RequestUdpPort(MAC_A, HOST, request_port.udp_port)
    with pytest.raises(UsageError, match=r"0\.0\.0\.0"):
        RequestUdpPort(MAC_A, "0.0.0.0")


def test_a_request_frame_says_who_sent_it_and_the_reply_goes_back_there(
    request_port: RequestUdpPort, user: socket.socket
) -> None:
    user.sendto(b"question", (HOST, request_port.udp_port))
    (frame,) = arrived(request_port)
    parts = UdpFrame.decode(frame)
    verify_udp_checksum(parts)
    assert bytes(parts.payload) == b"question"
    assert (parts.ip.source, parts.udp.source_port) == (LOCAL, user.getsockname()[1])
    assert parts.ethernet == Ethernet(MAC_A, mac_of_host(LOCAL))
    reply = encode_udp_frame(
        Ethernet(parts.ethernet.source, MAC_A),
        parts.ip.destination,
        parts.ip.source,
        parts.udp.destination_port,
        parts.udp.source_port,
        b"answer",
    )
    assert request_port.send([reply]) == 1
    assert user.recvfrom(100) == (b"answer", (HOST, request_port.udp_port))


def test_a_request_port_speaks_only_for_itself(request_port: RequestUdpPort) -> None:
    ethernet = Ethernet(MAC_B, MAC_A)
    good = encode_udp_frame(ethernet, LOCAL, LOCAL, request_port.udp_port, 9, b"hello")
    request_port.send(
        [
            encode_udp_frame(ethernet, IP_A, LOCAL, request_port.udp_port, 9, b""),
            encode_udp_frame(ethernet, LOCAL, LOCAL, request_port.udp_port ^ 1, 9, b""),
            good[:-1] + b"?",
        ]
    )
    assert dict(request_port.drops) == {"udp.source": 2, "udp.checksum": 1}


def test_a_datagram_that_no_frame_holds_is_dropped(request_port: RequestUdpPort, user: socket.socket) -> None:
    user.sendto(bytes(9216 - 42 + 1), (HOST, request_port.udp_port))
    assert arrived(request_port) == []
    assert dict(request_port.drops) == {"udp.too_long": 1}


def registered(content: bytes) -> tuple[RdmaState, Backing, MemoryRegion, Backing]:
    """Return memory at address 0 as an engine finds it, that memory, its region, and the table it is in."""
    public, memory = Backing.anonymous(registers.PUBLIC_BYTES), Backing.anonymous(len(content))
    memory.view[:] = content
    state = new_state(public.address)
    state.backings[0] = memory.address
    rights = Access.LOCAL_WRITE | Access.REMOTE_WRITE
    region = MemoryRegionTable(public.address, random.Random(1)).register(1, 0, len(content), rights, 0, 0)
    return state, memory, region, public


def test_two_roce_engines_talk_over_udp_sockets(roce_pair: tuple[RoceUdpPort, RoceUdpPort]) -> None:
    data = random.Random(1).randbytes(50_000)
    ends = registered(data), registered(bytes(50_000))
    engines = [
        RoceEngine(state, mac, ip, random.Random(2), Counter())
        for (state, *_), mac, ip in zip(ends, (MAC_A, MAC_B), ("10.0.0.1", "10.0.0.2"), strict=True)
    ]
    for engine in engines:
        engine.create_qp(5, 1, path_mtu=4096)
    for engine, other in (engines, engines[::-1]):
        engine.modify(5, QpState.INIT)
        engine.modify(5, QpState.RTR, remote=other.local(5))
        engine.modify(5, QpState.RTS)
    work = WorkRequest(Opcode.RDMA_WRITE, (Sge(0, 50_000, ends[0][2].lkey),), 0, ends[1][2].rkey)
    engines[0].post_send(5, work, 0, 0)
    completions = []
    for _ in range(100):
        for engine, port in zip(engines, roce_pair, strict=True):
            for frame in port.receive():
                engine.on_frame(frame, 0)
            frames = engine.take_frames()
            assert port.send(frames) == len(frames)
        completions += engines[0].take_completions()
        if completions:
            break
    assert [completion.status for completion in completions] == [VerbsStatus.SUCCESS]
    assert ends[1][1].view == data
    assert not engines[1].drops
