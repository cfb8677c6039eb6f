# SPDX-License-Identifier: Apache-2.0
"""What every port must do, whatever carries its frames."""

from __future__ import annotations

import os
import random
import select
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nicemu.clock import VirtualClock
from nicemu.errors import UsageError
from nicemu.fabric import (
    MAX_FRAME_BYTES,
    AnsweringPort,
    DatagramPort,
    FaultPort,
    FaultRates,
    FinishedPacketPort,
    PacketPort,
    PcapPort,
    Port,
    RequestUdpPort,
    RoceUdpPort,
    SharedMemoryPort,
    SwitchModel,
    SwitchPort,
    TapPort,
    UdpPeer,
    XdpPort,
    loopback_pair,
    mac_of_host,
)
from nicemu.fabric.ports.port import ListPort
from nicemu.wire import (
    ETHERNET_HEADER_BYTES,
    ROCE_OVERHEAD_BYTES,
    Ethernet,
    FrameBatch,
    RcOpcode,
    RoceFramer,
    encode_udp_frame,
    parse_ipv4,
)
from tests.network_namespace import in_network_namespace, quiet_tap, until_up, veth_pair

MAC_A, MAC_B = b"\x02\0\0\0\0\1", b"\x02\0\0\0\0\2"
HOST = "127.0.0.1"
FRAMER = RoceFramer(MAC_A, MAC_B, parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2"))


def roce_frame(payload: bytes) -> bytes:
    """Any bytes would do for most ports; all carry this."""
    return FRAMER.frame(RcOpcode.SEND_ONLY, 1, 2, payload=[payload])


class InBatches:
    """A port of which only the face for batches is used, behind the face for lists."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._going, self._coming = FrameBatch(1 << 20, 701), FrameBatch(MAX_FRAME_BYTES * 20, 128)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the port
        return getattr(self._port, name)

    def send(self, frames: list[bytes]) -> int:
        """Send them as one batch, which begins with a frame that is not meant."""
        held = self._going.fill([b"before", *frames])
        assert held == len(frames) + 1
        return self._port.send_batch(self._going, 1)

    def receive(self, limit: int = 64) -> list[bytes]:
        """Receive a batch; the one before must be gone."""
        self._coming.fill([b"left over"])
        count = self._port.receive_batch(self._coming, limit)
        frames = self._coming.frames()
        assert len(frames) == count <= limit
        return frames


@dataclass
class Link:
    """Two joined ports, and how to make a frame of a payload that travels from a to b."""

    a: Port
    b: Port
    frame: Callable[[bytes], bytes] = roce_frame

    def arrivals(self, count: int, limit: int = 64) -> list[bytes]:
        """What b receives, until `count` frames are there."""
        frames: list[bytes] = []
        while len(frames) < count:
            came = self.b.receive(limit)
            frames += came
            descriptor = self.b.fileno()
            if not came and (descriptor is None or not select.select([descriptor], [], [], 1)[0]):
                break
        return frames


def loopback(_: Path) -> Link:
    return Link(*loopback_pair(256))


def shared_memory(_: Path) -> Link:
    a = SharedMemoryPort.create(1 << 15)
    return Link(a, SharedMemoryPort.attach(os.dup(a.memory_fd)))


def shared_memory_backwards(_: Path) -> Link:
    b = SharedMemoryPort.create(1 << 15)
    return Link(SharedMemoryPort.attach(os.dup(b.memory_fd)), b)


def roce_udp(_: Path) -> Link:
    a, b = RoceUdpPort(MAC_A, "10.0.0.1", HOST, 0), RoceUdpPort(MAC_B, "10.0.0.2", HOST, 0)
    a.add_peer(UdpPeer(MAC_B, "10.0.0.2", HOST, b.udp_port))
    b.add_peer(UdpPeer(MAC_A, "10.0.0.1", HOST, a.udp_port))
    return Link(a, b)


def request_udp(_: Path) -> Link:
    a, b = RequestUdpPort(MAC_A, HOST), RequestUdpPort(MAC_B, HOST)
    host = parse_ipv4(HOST)

    def frame(payload: bytes) -> bytes:
        ethernet = Ethernet(MAC_B, mac_of_host(host))
        payload += bytes(ROCE_OVERHEAD_BYTES - 42 + -len(payload) % 4)
        return encode_udp_frame(ethernet, host, host, a.udp_port, b.udp_port, payload)

    return Link(a, b, frame)


def fault(_: Path) -> Link:
    a, b = loopback_pair(256)
    return Link(FaultPort(a, random.Random(1), FaultRates()), FaultPort(b, random.Random(2), FaultRates()))


def pcap(path: Path) -> Link:
    a, b = loopback_pair(256)
    return Link(PcapPort(a, path / "a.pcap", VirtualClock()), PcapPort(b, path / "b.pcap", VirtualClock()))


def datagram(_: Path) -> Link:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return Link(DatagramPort(a, 1 << 16), DatagramPort(b, 1 << 16))


def answering(_: Path) -> Link:
    a, b = loopback_pair(256)
    return Link(AnsweringPort(a, MAC_A, "10.0.0.1"), AnsweringPort(b, MAC_B, "10.0.0.2"))


class InTime(ListPort):
    """A port of a switch model, for those who know no virtual time: it passes when they look."""

    def __init__(self, model: SwitchModel, port: SwitchPort) -> None:
        self._model, self._port = model, port
        self.close, self.fileno = port.close, port.fileno
        self.drops, self.address = port.drops, port.address

    def send(self, frames: list[bytes]) -> int:
        """Send."""
        return self._port.send(frames)

    def receive(self, limit: int = 64) -> list[bytes]:
        """Let a second pass, and receive."""
        self._model.advance(self._model.now_ns + 1_000_000_000)
        return self._port.receive(limit)


def switch(_: Path) -> Link:
    model = SwitchModel(random.Random(1))
    return Link(InTime(model, model.join(MAC_A)), InTime(model, model.join(MAC_B)))


def packet(_: Path) -> Link:
    def make() -> Link:
        until_up("here", "there")
        return Link(PacketPort("here"), PacketPort("there"))

    return in_network_namespace(veth_pair(), make)


def finished_packet(_: Path) -> Link:
    def make() -> Link:
        until_up("here", "there")
        return Link(FinishedPacketPort("here"), FinishedPacketPort("there"))

    return in_network_namespace(veth_pair(), make)


def xdp_to_packet(_: Path) -> Link:
    def make() -> Link:
        until_up("here", "there")
        try:
            return Link(XdpPort("here"), PacketPort("there"))
        except UsageError as error:
            pytest.skip(str(error))

    return in_network_namespace(veth_pair(), make)


def packet_to_xdp(path: Path) -> Link:
    link = xdp_to_packet(path)
    return Link(link.b, link.a)


def packet_to_tap(_: Path) -> Link:
    """What is sent on a TAP interface comes out of its device."""

    def make() -> Link:
        device = TapPort("cable", MAX_FRAME_BYTES - ETHERNET_HEADER_BYTES)
        until_up("cable")
        return Link(PacketPort("cable"), device)

    return in_network_namespace(quiet_tap("cable"), make)


def tap_to_packet(path: Path) -> Link:
    link = packet_to_tap(path)
    return Link(link.b, link.a)


BOUNDED = [loopback, shared_memory, shared_memory_backwards, fault, pcap, datagram, answering, switch]
"""Ports that say when they are full; a socket's buffer drops what does not fit."""


@pytest.fixture(
    params=[
        *BOUNDED,
        packet,
        finished_packet,
        xdp_to_packet,
        packet_to_xdp,
        packet_to_tap,
        tap_to_packet,
        roce_udp,
        request_udp,
    ],
    ids=lambda make: make.__name__,
)
def link(request: pytest.FixtureRequest, tmp_path: Path, face: str) -> Iterator[Link]:
    made: Link = request.param(tmp_path)
    if face == "batches":
        made.a, made.b = InBatches(made.a), InBatches(made.b)
    yield made
    made.a.close()
    made.b.close()


@pytest.fixture(params=["lists", "batches"])
def face(request: pytest.FixtureRequest) -> str:
    """Which of a port's two faces is used."""
    return str(request.param)


def test_frames_arrive_whole_and_in_order(link: Link) -> None:
    frames = [link.frame(bytes([i]) * (i * 37)) for i in range(40)]
    assert link.a.send(frames) == 40
    assert link.arrivals(40) == frames
    assert link.b.receive() == []


def test_nothing_sent_means_nothing_received(link: Link) -> None:
    assert link.a.send([]) == 0
    assert link.a.receive() == []
    assert link.b.receive() == []


def test_frames_do_not_come_back_to_their_sender(link: Link) -> None:
    link.a.send([link.frame(b"x")])
    assert link.a.receive() == []


def test_receive_takes_no_more_than_its_limit_and_keeps_the_rest(link: Link) -> None:
    frames = [link.frame(bytes([i])) for i in range(7)]
    link.a.send(frames)
    first = link.arrivals(1, limit=1)
    assert first == frames[:1]
    assert len(link.b.receive(3)) <= 3
    assert link.b.receive(0) == []


def test_the_longest_frame_arrives(link: Link) -> None:
    frame = link.frame(bytes(range(256)) * 35 + bytes(MAX_FRAME_BYTES - ROCE_OVERHEAD_BYTES - 256 * 35 - 2))
    assert MAX_FRAME_BYTES - 4 < len(frame) <= MAX_FRAME_BYTES
    assert link.a.send([frame]) == 1
    assert link.arrivals(1) == [frame]


@pytest.mark.parametrize("length", [0, 13, MAX_FRAME_BYTES + 1])
def test_what_is_no_frame_is_refused_and_nothing_is_sent(link: Link, length: int) -> None:
    with pytest.raises(UsageError, match=f"a frame of {length} bytes"):
        link.a.send([link.frame(b"good"), bytes(length)])
    assert link.b.receive() == []


@pytest.mark.parametrize("link", BOUNDED, indirect=True, ids=lambda make: make.__name__)
def test_a_full_port_says_how_many_frames_it_took_and_takes_the_rest_later(link: Link) -> None:
    frames = [link.frame(i.to_bytes(2, "big") * 100) for i in range(700)]
    arrived: list[bytes] = []
    offered = 0
    refused = 0
    while offered < len(frames):
        accepted = link.a.send(frames[offered:])
        offered += accepted
        refused += offered < len(frames)
        arrived += link.b.receive(50)
    for _ in range(len(frames)):
        link.a.receive()  # as a driver does all the time
        arrived += link.b.receive()
    assert refused > 0
    assert arrived == frames


def test_many_frames_of_every_length_pass_through(link: Link) -> None:
    rng = random.Random(5)
    for _ in range(60):
        frames = [link.frame(rng.randbytes(rng.randrange(1500))) for _ in range(rng.randrange(1, 12))]
        assert link.a.send(frames) == len(frames)
        assert link.arrivals(len(frames)) == frames


def test_a_port_says_where_it_is_and_what_it_dropped(link: Link) -> None:
    assert link.a.address
    assert link.a.address != link.b.address
    assert not link.a.drops
    assert link.a.fileno() is None or link.a.fileno() != link.b.fileno()


def test_a_closed_port_is_refused_and_closing_twice_does_nothing(link: Link) -> None:
    frame = link.frame(b"x")
    link.a.close()
    link.a.close()
    with pytest.raises(UsageError, match="is closed"):
        link.a.send([frame])
    with pytest.raises(UsageError, match="is closed"):
        link.a.receive()


def test_a_batch_may_be_smaller_than_what_has_arrived_and_the_rest_is_kept(link: Link) -> None:
    frames = [link.frame(bytes([i]) * 500) for i in range(30)]
    assert link.a.send(frames) == 30
    batch, arrived = FrameBatch(MAX_FRAME_BYTES + 64, 4), list[bytes]()
    for _ in range(100):
        count = link.b.receive_batch(batch)
        arrived += batch.frames()
        assert count == batch.count <= 4
        if len(arrived) == 30:
            break
    assert arrived == frames


def test_lists_and_batches_come_to_the_same(link: Link) -> None:
    frames = [link.frame(bytes([i]) * (i * 53)) for i in range(20)]
    batch = FrameBatch()
    assert batch.fill(frames) == 20
    assert link.a.send_batch(batch) == 20
    assert link.arrivals(20) == frames
    assert link.a.send(frames) == 20
    arrived: list[bytes] = []
    for _ in range(100):
        link.b.receive_batch(batch, 6)
        arrived += batch.frames()
        if len(arrived) == 20:
            break
    assert arrived == frames
