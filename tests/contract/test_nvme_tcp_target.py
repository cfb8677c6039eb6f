# SPDX-License-Identifier: Apache-2.0
"""The sockets of an NVMe/TCP target: who gets in, who is put out, and what it is not opened with.

Source: NVM Express TCP Transport Specification 1.0, "Connection Establishment"; Base Specification 2.0, "NVMe
Qualified Names".
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from nicemu.clock import VirtualClock
from nicemu.errors import ResourceError, UsageError
from nicemu.fabric import DEFAULT_SUBSYSTEM, NvmeTcpTarget
from tests.contract.nvme_rigs import NicemuRig, nicemu_rig
from tests.contract.nvme_tcp_host import HOST_NQN, IN_CAPSULE, RigController

ANY_PORT = ("127.0.0.1", 0)
IC_REQUEST = struct.pack("<BBBBI", 0, 0, 128, 0, 128) + bytes(120)
LIMIT_NS = 10_000_000_000
ROUNDS = 1000


def connect_capsule(host: bytes = HOST_NQN.encode()) -> bytes:
    """Connect of the admin queue, after the connection's request."""
    data = bytearray(1024)
    struct.pack_into("<H", data, 16, 0xFFFF)
    data[256 : 256 + len(DEFAULT_SUBSYSTEM)] = DEFAULT_SUBSYSTEM.encode()
    data[512 : 512 + len(host)] = host
    sqe = struct.pack("<BBHI16xQIxxxB6I", 0x7F, 0x40, 1, 1, 0, 1024, IN_CAPSULE, 0, 31, 0, 0, 0, 0)
    return struct.pack("<BBBBI", 4, 0, 72, 72, 72 + 1024) + sqe + data


class World:
    """A target and the sockets of its hosts."""

    def __init__(self, rig: NicemuRig) -> None:
        self.clock = VirtualClock()
        self.target = NvmeTcpTarget(RigController(rig), ANY_PORT, clock=self.clock)
        self.sockets: list[socket.socket] = []

    def open(self, said: bytes = b"") -> socket.socket:
        """Open a connection and say something; wait until the target has it."""
        one = socket.create_connection(("127.0.0.1", self.target.port))
        one.settimeout(5)
        one.sendall(said)
        self.sockets.append(one)
        address = one.getsockname()
        self.until(lambda: any(held.getpeername() == address for held in self.target._connections))
        return one

    def until(self, is_true: Callable[[], bool]) -> None:
        """Run the target until something is so."""
        for _ in range(ROUNDS):
            if is_true():
                return
            self.target.run()
        raise AssertionError(f"not so after {ROUNDS} rounds")

    def is_ended(self, one: socket.socket) -> bool:
        """Whether the target has closed a connection; what it said is read."""
        one.setblocking(False)
        try:
            while one.recv(65536):
                pass
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        return True

    def host(self) -> socket.socket:
        """A host that is connected as the admin queue."""
        one = self.open(IC_REQUEST + connect_capsule())
        self.until(lambda: 0 in self.target.association.connections)
        return one


@pytest.fixture
def world() -> Iterator[World]:
    with nicemu_rig(None) as rig:
        one = World(rig)
        with one.target:
            yield one
        for opened in one.sockets:
            opened.close()


def test_silent_connections_make_room_for_a_host_the_oldest_first(world: World) -> None:
    silent = [world.open() for _ in range(16)]
    host = world.host()
    assert world.is_ended(silent[0])
    assert not any(world.is_ended(one) for one in silent[1:])
    assert world.target.faults == {"made_room": 1}
    assert host.recv(128)[0] == 1


def test_a_connected_host_does_not_make_room(world: World) -> None:
    host = world.host()
    crowd = [world.open() for _ in range(40)]
    assert not world.is_ended(host)
    assert sum(world.is_ended(one) for one in crowd) == 25
    assert world.target.faults == {"made_room": 25}


def test_a_connection_that_is_no_queue_pair_in_time_ends_and_is_counted_by_what_it_lacked(
    world: World,
) -> None:
    silent, halfway, host = world.open(), world.open(IC_REQUEST), world.host()
    world.clock.advance_to(LIMIT_NS)
    world.target.run()
    assert not world.is_ended(silent)
    world.clock.advance_to(LIMIT_NS + 1)
    world.until(lambda: world.is_ended(silent) and world.is_ended(halfway))
    assert not world.is_ended(host)
    assert world.target.faults == {"no_ic_request": 1, "no_connect": 1}


def test_a_refused_connect_does_not_give_more_time(world: World) -> None:
    refused = world.open(IC_REQUEST + connect_capsule(host=b""))
    world.clock.advance_to(LIMIT_NS + 1)
    world.until(lambda: world.is_ended(refused))
    assert world.target.faults == {"no_connect": 1}


def test_a_host_that_is_over_and_does_not_read_its_last_words_holds_the_controller_no_longer(
    world: World,
) -> None:
    world.host()
    (state,) = world.target._connections.values()
    state.output += bytes(64 << 20)  # more than the sockets between them hold
    state.end("keep_alive")
    world.target.run()
    assert world.target._connections
    world.clock.advance_to(LIMIT_NS + 1)
    world.until(lambda: not world.target._connections)
    assert world.target.faults == {"keep_alive": 1}
    world.host()


@pytest.mark.parametrize("name", [b"", b"h" * 224, b"\xff\xfe", b"h" * 256])
def test_a_host_whose_name_is_none_is_refused_by_its_field(world: World, name: bytes) -> None:
    host = world.open(IC_REQUEST + connect_capsule(host=name))
    world.until(lambda: not any(state.output for state in world.target._connections.values()))
    answer = b""
    while len(answer) < 128 + 24:
        world.target.run()
        answer += host.recv(4096)
    result, status = struct.unpack_from("<Q6xH", answer, 128 + 8)
    assert (status >> 1 & 0x7FF, result) == (0x182, 1 << 16 | 512)


@pytest.mark.parametrize("port", [70000, -1, 65536])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    with (
        nicemu_rig(None) as rig,
        pytest.raises(UsageError, match=f"port {port} is none; take one of 1 to 65535"),
    ):
        NvmeTcpTarget(RigController(rig), ("127.0.0.1", port))


def test_an_address_that_is_no_name_of_a_host_is_told() -> None:
    with nicemu_rig(None) as rig, pytest.raises(ResourceError, match=r"no NVMe/TCP target at \.\.a:0"):
        NvmeTcpTarget(RigController(rig), ("..a", 0))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nqn.2014-08.org.nicemu:" + "x" * 201, "224 bytes of UTF-8, 223 at most"),
        ("nqn.2014-08.org.nicemu:" + "ü" * 101, "225 bytes of UTF-8"),
        ("", "form nqn"),
        ("nicemu", "form nqn"),
        ("nqn.2014-13.org.nicemu:nvme", "form nqn"),
        ("nqn.2014-08.org.nicemu", "form nqn"),
        ("nqn.2014-08.:nvme", "form nqn"),
        ("nqn.2014-08.org.nicemu:", "form nqn"),
        ("nqn.2014-08.org.nicemu:nv\0me", "cannot be printed"),
        ("nqn.2014-08.org.nicemu:nv\nme", "cannot be printed"),
        ("nqn.2014-08.org.nvmexpress.discovery", "discovery service"),
    ],
)
def test_a_name_that_is_none_of_a_subsystem_is_refused(name: str, said: str) -> None:
    with nicemu_rig(None) as rig, pytest.raises(UsageError, match=said):
        NvmeTcpTarget(RigController(rig), ANY_PORT, name)


@pytest.mark.parametrize(
    "name",
    [
        "nqn.2014-08.org.nicemu:" + "x" * 200,
        "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555",
        "nqn.2001-04.com.example-1:speicher größe",
    ],
)
def test_a_name_of_the_specification_is_taken(name: str) -> None:
    with nicemu_rig(None) as rig, NvmeTcpTarget(RigController(rig), ANY_PORT, name) as target:
        assert target.association.subsystem == name


def test_a_controller_has_one_target_until_that_is_closed() -> None:
    with nicemu_rig(None) as rig:
        with NvmeTcpTarget(RigController(rig), ANY_PORT):
            with pytest.raises(UsageError, match="served by an NVMe/TCP target already; close that"):
                NvmeTcpTarget(RigController(rig), ANY_PORT)
            with nicemu_rig(None) as other, NvmeTcpTarget(RigController(other), ANY_PORT):
                pass
        with NvmeTcpTarget(RigController(rig), ANY_PORT):
            pass


def test_a_closed_target_says_so_and_closes_again() -> None:
    with nicemu_rig(None) as rig:
        target = NvmeTcpTarget(RigController(rig), ANY_PORT)
        port = target.port
        target.close()
        target.close()
        with pytest.raises(UsageError, match=rf"target at 127\.0\.0\.1:{port} is closed; open another"):
            target.run()
