# SPDX-License-Identifier: Apache-2.0
"""What the interoperability tests share: one guest for all of them, and in each test a new engine of ours.

They skip with the reason where no guest can be started; under NICEMU_INTEROP=required they fail instead.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import pytest

from nicemu.errors import ResourceError
from nicemu.fabric import (
    DatagramPort,
    Guest,
    GuestLink,
    GuestProcess,
    RoceEndpoint,
    install_command,
    missing_packages,
)

from .world import OUR_IP, PEER_IP, Cable, Connection, World, start_peer, warm_up

GUEST_LIFE_S = 900.0


@dataclass(frozen=True)
class Machine:
    """A guest, its peer, our end of the cable, and the queue pair numbers that are not used yet."""

    guest: Guest
    peer: GuestProcess
    port: DatagramPort
    numbers: Iterator[int]


def _give_up(reason: str) -> None:
    if os.environ.get("NICEMU_INTEROP") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """A guest with rxe at the other end of a datagram link."""
    needed = [one for one in missing_packages() if one.boots or one.name == "python3-pyverbs"]
    if needed:
        names = ", ".join(one.name for one in needed)
        _give_up(f"no interoperability tests without {names}; {install_command(needed)}")
    warm_up()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    port = DatagramPort(ours)
    with theirs:
        link = GuestLink(theirs, f"{PEER_IP}/24")
        try:
            guest = Guest(links=[link], say=print, time_limit_s=GUEST_LIFE_S, memory_mib=1024).__enter__()
        except ResourceError as error:
            _give_up(str(error))
        try:
            yield Machine(guest, start_peer(guest), port, count(0x11))
        finally:
            guest.close()
            port.close()


@pytest.fixture
def nic(machine: Machine) -> Iterator[RoceEndpoint]:
    """A new NIC of ours at this end of the cable, with rdma_cm."""
    while machine.port.receive():
        pass
    endpoint = RoceEndpoint(machine.port, OUR_IP)
    yield endpoint
    endpoint.memory.close()  # the port stays open, for the next test


@pytest.fixture
def world(machine: Machine) -> Iterator[World]:
    """A new engine of ours at this end of the cable."""
    while machine.port.receive():
        pass  # what queue pairs of the test before still said
    world = World(Cable(machine.port), machine.peer, machine.numbers, seed=1)
    yield world
    world.memory.close()


@pytest.fixture
def connect(world: World) -> Iterator[Callable[..., Connection]]:
    """Make connections; they are closed after the test, and nothing was written beside a region."""
    made: list[Connection] = []

    def connected(*operands: int, **named: object) -> Connection:
        made.append(Connection(world, *operands, **named))  # type: ignore[arg-type]
        return made[-1]

    yield connected
    world.cable.leaving = world.cable.arriving = lambda frame: [frame]
    for one in made:
        one.close()
    assert world.memory.guards_hold()
