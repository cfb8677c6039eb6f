# SPDX-License-Identifier: Apache-2.0
"""Batches over UDP: whatever messages the kernel carries, each frame is one datagram."""

from __future__ import annotations

import random
import select
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nicemu.fabric import MAX_FRAME_BYTES, RoceUdpPort, UdpPeer
from nicemu.wire import FrameBatch, RcOpcode, RoceFramer, parse_ipv4
from tests.network_namespace import in_network_namespace

HOST = "127.0.0.1"
UDP_SEGMENT = 103


def mac(number: int) -> bytes:
    return bytes([2, 0, 0, 0, 0, number])


def frames_to(number: int, lengths: list[int]) -> list[bytes]:
    framer = RoceFramer(mac(1), mac(number), parse_ipv4("10.0.0.1"), parse_ipv4(f"10.0.0.{number}"))
    return [
        framer.frame(RcOpcode.SEND_ONLY, 1, place, payload=[random.Random(place).randbytes(length)])
        for place, length in enumerate(lengths)
    ]


def arrivals(port: RoceUdpPort, count: int, capacity: int = 16) -> list[bytes]:
    batch, frames = FrameBatch(MAX_FRAME_BYTES * capacity, capacity), list[bytes]()
    descriptor = port.fileno()
    assert descriptor is not None
    while len(frames) < count:
        if port.receive_batch(batch) == 0 and not select.select([descriptor], [], [], 1)[0]:
            break
        frames += batch.frames()
        batch.count = 0
    return frames


@pytest.fixture
def ports() -> Iterator[dict[int, RoceUdpPort]]:
    """Port 1, and its peers 2 to 4."""
    made = {number: RoceUdpPort(mac(number), f"10.0.0.{number}", HOST, 0) for number in range(1, 5)}
    for number in range(2, 5):
        made[1].add_peer(UdpPeer(mac(number), f"10.0.0.{number}", HOST, made[number].udp_port))
        made[number].add_peer(UdpPeer(mac(1), "10.0.0.1", HOST, made[1].udp_port))
    yield made
    for port in made.values():
        port.close()


@given(st.lists(st.tuples(st.integers(2, 4), st.sampled_from([0, 4, 256, 1024, 1024, 4096])), max_size=60))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_peer_gets_its_frames_in_order(
    ports: dict[int, RoceUdpPort], meant: list[tuple[int, int]]
) -> None:
    frames = [frames_to(number, [length])[0] for number, length in meant]
    batch = FrameBatch()
    batch.fill(frames)
    assert ports[1].send_batch(batch) == len(frames)
    for number in range(2, 5):
        own = [frame for frame, (to, _) in zip(frames, meant, strict=True) if to == number]
        assert arrivals(ports[number], len(own)) == own
        assert not ports[number].drops
    assert not ports[1].drops


@given(st.lists(st.tuples(st.sampled_from([0, 20, 600, 1024, 2048, 4096]), st.integers(1, 40)), max_size=6))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_arrive_whether_their_length_was_expected_or_not(
    ports: dict[int, RoceUdpPort], rows: list[tuple[int, int]]
) -> None:
    frames = frames_to(2, [length for length, count in rows for _ in range(count)])
    batch = FrameBatch(2 << 20, 300)
    batch.fill(frames)
    assert ports[1].send_batch(batch) == len(frames)
    assert arrivals(ports[2], len(frames), 80) == frames
    assert not ports[2].drops


def test_a_socket_that_knows_nothing_of_segments_sees_single_datagrams(ports: dict[int, RoceUdpPort]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.bind((HOST, 0))
        plain.settimeout(1)
        ports[1].add_peer(UdpPeer(mac(9), "10.0.0.9", HOST, plain.getsockname()[1]))
        frames = frames_to(9, [1024] * 40 + [100])
        batch = FrameBatch()
        batch.fill(frames)
        assert ports[1].send_batch(batch) == 41
        assert [plain.recv(1 << 16) for _ in range(41)] == [frame[42:] for frame in frames]


def test_frames_that_are_no_good_are_counted_once_and_the_others_go(ports: dict[int, RoceUdpPort]) -> None:
    good = frames_to(2, [512] * 6)
    foreign = RoceFramer(mac(7), mac(2), parse_ipv4("10.0.0.7"), parse_ipv4("10.0.0.2"))
    frames = [
        *good[:3],
        foreign.frame(RcOpcode.SEND_ONLY, 1, 0),
        frames_to(8, [10])[0],
        b"\0" * 60,
        *good[3:],
    ]
    batch = FrameBatch()
    batch.fill(frames)
    assert ports[1].send_batch(batch) == len(frames)
    assert arrivals(ports[2], 6) == good
    assert ports[1].drops == {
        "udp.not_canonical": 1,
        "udp.unknown_destination": 1,
        "ethernet.ethertype": 1,
    }


def test_what_strangers_send_is_counted_by_the_datagram(ports: dict[int, RoceUdpPort]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        control = [(socket.IPPROTO_UDP, UDP_SEGMENT, (100).to_bytes(2, "little"))]
        stranger.sendmsg([bytes(950)], control, 0, (HOST, ports[2].udp_port))
        assert arrivals(ports[2], 1) == []
    assert ports[2].drops == {"udp.unknown_sender": 10}


def test_datagrams_that_no_frame_holds_are_counted(ports: dict[int, RoceUdpPort]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as known:
        known.bind((HOST, 0))
        ports[2].add_peer(UdpPeer(mac(5), "10.0.0.5", HOST, known.getsockname()[1]))
        known.sendto(bytes(MAX_FRAME_BYTES), (HOST, ports[2].udp_port))
        known.sendto(bytes(60), (HOST, ports[2].udp_port))
        assert [frame[42:] for frame in arrivals(ports[2], 1)] == [bytes(60)]
    assert ports[2].drops == {"udp.too_long": 1}


def test_where_a_row_of_datagrams_is_too_long_for_the_interface_each_goes_alone() -> None:
    def make() -> tuple[RoceUdpPort, RoceUdpPort]:
        return RoceUdpPort(mac(1), "10.0.0.1", HOST, 0), RoceUdpPort(mac(2), "10.0.0.2", HOST, 0)

    near, far = in_network_namespace(["link set lo up", "link set lo mtu 3000"], make)
    near.add_peer(UdpPeer(mac(2), "10.0.0.2", HOST, far.udp_port))
    far.add_peer(UdpPeer(mac(1), "10.0.0.1", HOST, near.udp_port))
    frames = frames_to(2, [4096, 4096, 1024, 1024])
    batch = FrameBatch()
    batch.fill(frames)
    assert near.send_batch(batch) == 4
    assert arrivals(far, 2) == frames[2:]
    assert near.drops == {"udp.refused": 2}
    near.close()
    far.close()
