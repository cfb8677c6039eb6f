# SPDX-License-Identifier: Apache-2.0
"""The peers of rping and perftest, tried by clients of our own: what the kernel's see is in tests/interop."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.cm import CmAddress, CmEventKind, CmState, Connection
from nicemu.cm.endpoint import gid_of
from nicemu.errors import ProtocolError, UsageError
from nicemu.fabric import RoceEndpoint, loopback_pair
from nicemu.rdma import ArrivalKind
from nicemu.testing.peers.application import PeerServer
from nicemu.testing.peers.perftest import PERFTEST_PORT, Destination, PerftestServer
from nicemu.testing.peers.perftest_client import PerftestClient
from nicemu.testing.peers.rping import PLACE, RPING_PORT, RpingServer, ping_text
from nicemu.testing.peers.rping_client import RpingClient
from nicemu.wire import (
    IpCmHeader,
    RejectReason,
    Req,
    RoceFramer,
    encode_gsi_frame,
    parse_ipv4,
    service_id,
)

PD = 1
SERVER, CLIENT = "10.7.0.1", "10.7.0.2"


@dataclass
class Bench:
    """A NIC that serves, and one for a client; `step` moves both once."""

    serving: RoceEndpoint
    asking: RoceEndpoint
    server: PeerServer

    def settle(self) -> None:
        while any([self.server.step(), self.asking.move()]):
            pass

    def connect(self, port: int) -> Connection:
        peer = CmAddress(self.serving.mac, SERVER)
        connection = self.asking.cm.connect(peer, port, PD, time.monotonic_ns())
        self.settle()
        (event,) = self.asking.take_events()
        assert event.kind is CmEventKind.ESTABLISHED
        return connection

    def post(self, connection: Connection, work: WorkRequest) -> None:
        assert connection.qp_num is not None
        assert self.asking.engine.post_send(connection.qp_num, work, 0, time.monotonic_ns())
        self.settle()

    def end(self, connection: Connection) -> None:
        self.asking.cm.disconnect(connection, time.monotonic_ns())
        self.settle()


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def nics() -> Iterator[tuple[RoceEndpoint, RoceEndpoint]]:
    ports = loopback_pair()
    with (
        RoceEndpoint(ports[0], SERVER, seed=1, compiled=False) as serving,
        RoceEndpoint(ports[1], CLIENT, seed=2, compiled=False) as asking,
    ):
        yield serving, asking


def test_a_ping_is_what_rping_sends() -> None:
    captured = b"rdma-ping-2: CDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrst\0"
    assert ping_text(2, 64) == captured
    assert ping_text(58, 64)[:20] == b"rdma-ping-58: ABCDEF"
    assert len(ping_text(0, 5000)) == 5000


def test_a_client_of_ours_pings_a_server_of_ours(
    nics: tuple[RoceEndpoint, RoceEndpoint], lines: list[str]
) -> None:
    serving, asking = nics
    application = RpingServer(serving, report=lines.append)
    server = PeerServer(serving, [application])
    over = threading.Event()
    thread = threading.Thread(target=server.run, args=(over.is_set,))
    thread.start()
    try:
        client = RpingClient(asking, SERVER)
        for length in (64, 64, 3000):
            assert client.ping(length) > 0
        client.close()
        with pytest.raises(
            ProtocolError, match=r"port 9 of 10\.7\.0\.1 makes no connection: INVALID_SERVICE_ID"
        ):
            RpingClient(asking, SERVER, 9)
    finally:
        over.set()
        thread.join()
    assert application.totals.operations == 6
    assert application.totals.moved_bytes == 2 * (64 + 64 + 3000)
    assert application.totals.problems == []
    assert lines == ["10.7.0.2 rping: 6 operations, 6,256 bytes"]


def test_a_peer_that_asks_without_end_keeps_nobody_from_being_served(
    nics: tuple[RoceEndpoint, RoceEndpoint],
) -> None:
    """It confirms nothing; what it is accepted with is the server's memory, of which there is little."""
    serving, asking = nics
    del serving.memory._free[4:]
    bench = Bench(serving, asking, PeerServer(serving, [RpingServer(serving)]))
    flooder = CmAddress(bytes([2, 0, 0, 0, 0, 9]), "10.7.0.9")
    framer = RoceFramer(flooder.mac, serving.mac, parse_ipv4(flooder.ip), parse_ipv4(SERVER))
    header = IpCmHeader(0x8000, parse_ipv4(flooder.ip), parse_ipv4(SERVER)).encode()
    for number in range(1, 9):
        asked = Req(
            local_communication_id=number,
            service_id=service_id(RPING_PORT),
            local_qpn=number,
            starting_psn=0,
            path_mtu=3,
            local_gid=gid_of(flooder.ip),
            remote_gid=gid_of(SERVER),
            private_data=header,
        )
        serving.cm.take_in([encode_gsi_frame(framer, number, asked.encode(number))], time.monotonic_ns())
        bench.server.step()
    assert len(serving.cm.connections()) == 4
    assert not serving.drops
    while asking.move():
        pass
    asking.take_events()
    connection = bench.connect(RPING_PORT)
    assert connection.state is CmState.ESTABLISHED
    assert serving.drops["cm.made_room"] == 1


def test_a_server_that_disconnects_is_not_waited_for(nics: tuple[RoceEndpoint, RoceEndpoint]) -> None:
    serving, asking = nics
    server = PeerServer(serving, [RpingServer(serving)])
    over = threading.Event()
    thread = threading.Thread(target=server.run, args=(over.is_set,))
    thread.start()
    try:
        client = RpingClient(asking, SERVER)
        client._pings = 1  # which the server reads, and takes as a problem
        client.ping(64)
        for connection in asking.cm.connections():
            asking.cm.disconnect(connection, time.monotonic_ns())
        with pytest.raises(ProtocolError, match="the server has disconnected before pong 2"):
            client.ping(64)
    finally:
        over.set()
        thread.join()


def rping_bench(nics: tuple[RoceEndpoint, RoceEndpoint]) -> tuple[Bench, RpingServer]:
    application = RpingServer(nics[0])
    return Bench(*nics, PeerServer(nics[0], [application])), application


def test_a_ping_that_is_not_rpings_is_a_problem(nics: tuple[RoceEndpoint, RoceEndpoint]) -> None:
    bench, application = rping_bench(nics)
    connection = bench.connect(RPING_PORT)
    region = bench.asking.memory.register(4096, pd=PD)
    region.view[:64] = b"x" * 64
    PLACE.pack_into(region.view, 100, region.address, region.key, 64)
    bench.asking.engine.post_receive(connection.qp_num or 0, 0, (Sge(region.address + 200, 64, region.key),))
    bench.post(connection, WorkRequest(Opcode.SEND, (Sge(region.address + 100, PLACE.size, region.key),)))
    assert application.totals.problems == [f"ping 0 reads {b'x' * 40!r}"]


@pytest.mark.parametrize(
    ("note", "problem"),
    [
        (b"short", "rping sent 5 bytes; 16 name a place"),
        (PLACE.pack(0, 0, 1 << 20), "a ping of 1048576 bytes; 65536 are the most"),
    ],
)
def test_a_note_that_names_no_place_is_a_problem(
    nics: tuple[RoceEndpoint, RoceEndpoint], note: bytes, problem: str
) -> None:
    bench, application = rping_bench(nics)
    connection = bench.connect(RPING_PORT)
    region = bench.asking.memory.register(64, pd=PD)
    region.view[: len(note)] = note
    bench.post(connection, WorkRequest(Opcode.SEND, (Sge(region.address, len(note), region.key),)))
    assert application.totals.problems == [problem]


def test_a_key_that_the_client_does_not_have_ends_its_connection(
    nics: tuple[RoceEndpoint, RoceEndpoint],
) -> None:
    bench, application = rping_bench(nics)
    connection = bench.connect(RPING_PORT)
    region = bench.asking.memory.register(64, pd=PD)
    PLACE.pack_into(region.view, 0, region.address, region.key ^ 0x1000, 64)
    bench.post(connection, WorkRequest(Opcode.SEND, (Sge(region.address, PLACE.size, region.key),)))
    (problem,) = application.totals.problems
    assert problem.endswith("RDMA_READ ended with REM_ACCESS_ERR")
    assert [event.kind for event in bench.asking.take_events()] == [CmEventKind.DISCONNECTED]


def test_a_request_that_is_taken_back_at_once_is_not_accepted(
    nics: tuple[RoceEndpoint, RoceEndpoint],
) -> None:
    bench, application = rping_bench(nics)
    peer = CmAddress(bench.serving.mac, SERVER)
    connection = bench.asking.cm.connect(peer, RPING_PORT, PD, time.monotonic_ns())
    connection._refuse(RejectReason.TIMEOUT)
    bench.settle()
    assert application.totals.problems == []
    assert not bench.serving.cm.connections()


def test_clients_that_there_is_no_room_for_are_rejected(nics: tuple[RoceEndpoint, RoceEndpoint]) -> None:
    serving, asking = nics
    server = PeerServer(serving, [PerftestServer(serving)])
    for _ in range(255):  # so that there is one region left, and two are needed
        serving.memory.register(1)
    asking.cm.connect(serving.address, PERFTEST_PORT, PD, time.monotonic_ns())
    while any([server.step(), asking.move()]):
        pass
    (event,) = asking.take_events()
    assert (event.kind, event.reason) == (CmEventKind.REJECTED, RejectReason.NO_RESOURCES)
    serving.memory.register(1)  # it was given back


class Scripted:
    """Says over a connection what perftest was captured to say."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.talk = bench.connect(PERFTEST_PORT)
        self.notes = bench.asking.memory.register(256, pd=PD)
        self.memory = bench.asking.memory.register(8192, pd=PD)

    def say(self, message: bytes) -> bytes:
        """Return what the server answers."""
        region = self.notes
        region.view[: len(message)] = message
        answer = Sge(region.address + 128, 128, region.key)
        self.bench.asking.engine.post_receive(self.talk.qp_num or 0, 0, (answer,))
        self.bench.post(self.talk, WorkRequest(Opcode.SEND, (Sge(region.address, len(message), region.key),)))
        arrived = self.bench.asking.take_arrivals()
        (arrival,) = [one for one in arrived if one.kind is ArrivalKind.SEND]
        return bytes(region.view[128 : 128 + arrival.byte_len])

    def begin(self) -> tuple[Connection, Destination]:
        """Talk until the test begins; return the connection to work with, and what the server has."""
        for message in (b"6.06".ljust(16, b"\0"), b"\0\0\x10\0", b"\0\0\0\x40", b"5\0"):
            assert self.say(message) == message
        assert self.say(bytes(56)) == bytes(56)
        work = self.bench.connect(PERFTEST_PORT)
        assert self.say(bytes(56)) == bytes(56)
        mine = Destination(1, work.qp_num or 0, 0x123, self.memory.key, self.memory.address)
        theirs = Destination.decode(self.say(mine.encode()))
        assert theirs.qp_num == (work.remote.qp_num if work.remote else 0)
        assert theirs.gid[-4:] == b"\x0a\7\0\1"
        return work, theirs

    def end(self, work: Connection) -> None:
        """Exchange results and disconnect."""
        for number in (1000, 20):
            assert self.say(struct.pack("!Q", number)) == struct.pack("!Q", number)
        self.bench.end(work)
        self.bench.end(self.talk)


def perftest(
    nics: tuple[RoceEndpoint, RoceEndpoint], program: str, lines: list[str], size_bytes: int = 2
) -> Scripted:
    server = PerftestServer(nics[0], program, report=lines.append, size_bytes=size_bytes)
    return Scripted(Bench(*nics, PeerServer(nics[0], [server])))


@pytest.mark.parametrize("opcode", [Opcode.RDMA_WRITE, Opcode.RDMA_READ, Opcode.FETCH_ADD, Opcode.SEND])
def test_what_a_client_of_perftest_does_is_counted(
    nics: tuple[RoceEndpoint, RoceEndpoint], lines: list[str], opcode: Opcode
) -> None:
    client = perftest(nics, "ib_send_bw", lines)
    work, theirs = client.begin()
    length = 8 if opcode is Opcode.FETCH_ADD else 1000
    for _ in range(20):
        piece = Sge(client.memory.address, length, client.memory.key)
        rkey, address = theirs.rkey, theirs.address
        client.bench.post(work, WorkRequest(opcode, (piece,), address, rkey, compare_add=1))
    client.end(work)
    assert lines == [f"10.7.0.2 ib_send_bw: 20 operations, {20 * length:,} bytes"]
    assert nics[1].take_arrivals() == []


def test_latency_of_sends_is_that_of_a_ping_pong(
    nics: tuple[RoceEndpoint, RoceEndpoint], lines: list[str]
) -> None:
    client = perftest(nics, "ib_send_lat", lines)
    work, _ = client.begin()
    memory = client.memory
    for number in range(3):
        memory.view[:10] = b"ping %05d" % number
        there = Sge(memory.address + 4096, 10, memory.key)
        client.bench.asking.engine.post_receive(work.qp_num or 0, 0, (there,))
        client.bench.post(work, WorkRequest(Opcode.SEND, (Sge(memory.address, 10, memory.key),)))
        assert bytes(memory.view[4096:4106]) == b"ping %05d" % number
        assert [arrival.byte_len for arrival in nics[1].take_arrivals()] == [10]
    client.end(work)
    assert lines == ["10.7.0.2 ib_send_lat: 3 operations, 30 bytes"]


@pytest.mark.parametrize("size", [1, 2, 3000])
def test_latency_of_writes_is_that_of_a_ping_pong_which_the_server_begins(
    nics: tuple[RoceEndpoint, RoceEndpoint], lines: list[str], size: int
) -> None:
    client = perftest(nics, "ib_write_lat", lines, size)
    work, theirs = client.begin()
    memory = client.memory
    for number in range(1, 300):
        assert memory.view[size - 1] == number & 0xFF
        assert not any(memory.view[size : size + 64])
        memory.view[4096 + size - 1] = number & 0xFF
        piece = Sge(memory.address + 4096, size, memory.key)
        client.bench.post(work, WorkRequest(Opcode.RDMA_WRITE, (piece,), theirs.address, theirs.rkey))
    client.end(work)
    assert lines == [f"10.7.0.2 ib_write_lat: 299 operations, {299 * size:,} bytes"]


@pytest.mark.parametrize("size", [0, -1, (8 << 20) + 1])
def test_a_size_that_no_message_has_is_refused(nics: tuple[RoceEndpoint, RoceEndpoint], size: int) -> None:
    with pytest.raises(UsageError, match="messages have 1 to 8388608 bytes, not"):
        PerftestServer(nics[0], "ib_write_lat", size_bytes=size)


def test_the_next_client_is_served_as_the_first_was(
    nics: tuple[RoceEndpoint, RoceEndpoint], lines: list[str]
) -> None:
    client = perftest(nics, "ib_read_lat", lines)
    for _ in range(2):
        work, _ = client.begin()
        client.end(work)
        client.bench.asking.take_events()
        client.talk = client.bench.connect(PERFTEST_PORT)
    assert len(lines) == 2


def ask(bench: Bench) -> tuple[Connection, CmEventKind, int]:
    """Ask for a connection as another client would; return how the server answers."""
    connection = bench.asking.cm.connect(bench.serving.address, PERFTEST_PORT, PD, time.monotonic_ns())
    bench.settle()
    (event,) = bench.asking.take_events()
    return connection, event.kind, event.reason


def test_another_client_from_the_address_of_one_that_is_under_way_is_rejected(
    nics: tuple[RoceEndpoint, RoceEndpoint], lines: list[str]
) -> None:
    application = PerftestServer(nics[0], "ib_write_bw", report=lines.append)
    client = Scripted(Bench(*nics, PeerServer(nics[0], [application])))
    refused = (CmEventKind.REJECTED, RejectReason.CONSUMER)
    assert ask(client.bench)[1:] == refused
    work, theirs = client.begin()
    piece = Sge(client.memory.address, 1000, client.memory.key)
    client.bench.post(work, WorkRequest(Opcode.RDMA_WRITE, (piece,), theirs.address, theirs.rkey))
    assert ask(client.bench)[1:] == refused
    client.end(work)
    assert lines == ["10.7.0.2 ib_write_bw: 1 operations, 1,000 bytes"]
    assert (
        application.totals.problems
        == ["10.7.0.2 asked again while its ib_write_bw is under way: it is refused"] * 2
    )
    client.bench.asking.take_events()
    assert ask(client.bench)[1] is CmEventKind.ESTABLISHED


def test_another_client_that_comes_while_queue_pairs_are_connected_is_refused_when_it_talks(
    nics: tuple[RoceEndpoint, RoceEndpoint], lines: list[str]
) -> None:
    application = PerftestServer(nics[0], "ib_write_bw", report=lines.append)
    client = Scripted(Bench(*nics, PeerServer(nics[0], [application])))
    assert client.say(bytes(56)) == bytes(56)
    other, kind, _ = ask(client.bench)
    assert kind is CmEventKind.ESTABLISHED
    work, _ = client.begin()
    piece = Sge(client.memory.address, 16, client.memory.key)
    client.bench.post(other, WorkRequest(Opcode.SEND, (piece,)))
    assert [(one.kind, one.connection) for one in nics[1].take_events()] == [
        (CmEventKind.DISCONNECTED, other)
    ]
    client.end(work)
    assert lines == ["10.7.0.2 ib_write_bw: 0 operations, 0 bytes"]
    assert len(application.totals.problems) == 1


def test_a_client_may_have_several_queue_pairs(
    nics: tuple[RoceEndpoint, RoceEndpoint], lines: list[str]
) -> None:
    client = perftest(nics, "ib_write_bw", lines)
    assert client.say(bytes(56)) == bytes(56)
    first = client.bench.connect(PERFTEST_PORT)
    second, _ = client.begin()
    mine = Destination(1, first.qp_num or 0, 0x124, client.memory.key, client.memory.address)
    theirs = Destination.decode(client.say(mine.encode()))
    piece = Sge(client.memory.address, 1000, client.memory.key)
    for work in (first, second):
        client.bench.post(work, WorkRequest(Opcode.RDMA_WRITE, (piece,), theirs.address, theirs.rkey))
    client.bench.end(first)
    client.end(second)
    assert lines == ["10.7.0.2 ib_write_bw: 2 operations, 2,000 bytes"]


@pytest.mark.parametrize(
    ("program", "moved_bytes"),
    [("ib_write_bw", 100 * 3000), ("ib_read_bw", 100 * 3000), ("ib_atomic_bw", 800)],
)
def test_a_client_of_ours_works_against_a_server_of_ours(
    nics: tuple[RoceEndpoint, RoceEndpoint], program: str, moved_bytes: int
) -> None:
    serving, asking = nics
    application = PerftestServer(serving, program)
    server = PeerServer(serving, [application])
    over = threading.Event()
    thread = threading.Thread(target=server.run, args=(over.is_set,))
    thread.start()
    try:
        assert PerftestClient(asking, SERVER, program).run(100, 3000) > 0
    finally:
        over.set()
        thread.join()
    assert (application.totals.operations, application.totals.moved_bytes) == (100, moved_bytes)
    assert application.totals.problems == []


def test_a_client_that_is_refused_gives_its_memory_back(nics: tuple[RoceEndpoint, RoceEndpoint]) -> None:
    """So that it may try again, as often as it takes until somebody listens."""
    serving, asking = nics
    server = PeerServer(serving, [RpingServer(serving)])
    free = len(asking.memory._free)
    over = threading.Event()
    thread = threading.Thread(target=server.run, args=(over.is_set,))
    thread.start()
    try:
        for client in (PerftestClient, RpingClient):
            with pytest.raises(ProtocolError, match="INVALID_SERVICE_ID"):
                client(asking, SERVER, port=9)
    finally:
        over.set()
        thread.join()
    assert len(asking.memory._free) == free


def test_a_program_whose_client_we_are_not_is_refused_in_words(
    nics: tuple[RoceEndpoint, RoceEndpoint],
) -> None:
    with pytest.raises(UsageError, match="'ib_send_bw' is none whose client we are; they are ib_write_bw"):
        PerftestClient(nics[0], CLIENT, "ib_send_bw")


def test_a_program_that_is_not_served_is_refused_in_words(nics: tuple[RoceEndpoint, RoceEndpoint]) -> None:
    with pytest.raises(UsageError, match="'ib_foo' is no program that is served; they are ib_write_bw"):
        PerftestServer(nics[0], "ib_foo")
