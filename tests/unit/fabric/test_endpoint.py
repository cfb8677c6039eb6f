# SPDX-License-Identifier: Apache-2.0
"""Two NICs at the ends of one link, as small as they can be."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from nicemu.abi import Access, Opcode, Sge, WorkRequest
from nicemu.cm import CmEvent, CmEventKind, Connection
from nicemu.errors import ResourceError, UsageError, VerbsStatus
from nicemu.fabric import LoopbackPort, RegisteredMemory, RoceEndpoint, loopback_pair
from nicemu.pcie import Backing
from nicemu.rdma import ArrivalKind

PORT = 4420
PD = 1


@pytest.fixture
def nics() -> Iterator[tuple[RoceEndpoint, RoceEndpoint]]:
    ports = loopback_pair()
    with (
        RoceEndpoint(ports[0], "10.7.0.1", seed=1, compiled=False) as one,
        RoceEndpoint(ports[1], "10.7.0.2", seed=2, compiled=False) as other,
    ):
        yield one, other


def settle(*nics: RoceEndpoint) -> None:
    while any([nic.move() for nic in nics]):
        pass


def kinds(events: list[CmEvent]) -> list[CmEventKind]:
    return [event.kind for event in events]


def test_a_neighbour_is_found_by_arp_and_a_connection_to_it_carries_work(
    nics: tuple[RoceEndpoint, RoceEndpoint],
) -> None:
    asker, listener = nics
    listener.cm.listen(PORT)
    with pytest.raises(ResourceError):
        asker.resolve(listener.ip, limit_s=0.0)  # one thread: the question is asked, and not answered yet
    settle(listener, asker)
    peer = asker.resolve(listener.ip, limit_s=0.0)
    assert peer.mac == listener.mac
    active = asker.cm.connect(peer, PORT, PD, time.monotonic_ns())
    settle(*nics)
    (request,) = listener.take_events()
    region = listener.memory.register(4096, pd=PD)
    qp_num = listener.cm.accept(request.connection, PD, time.monotonic_ns())
    settle(*nics)
    assert kinds(asker.take_events()) == kinds(listener.take_events()) == [CmEventKind.ESTABLISHED]
    ours = asker.memory.register(4096, pd=PD)
    ours.view[:5] = b"bytes"
    piece = Sge(ours.address, 5, ours.key)
    work = WorkRequest(Opcode.RDMA_WRITE, (piece,), remote_address=region.address + 8, rkey=region.key)
    assert asker.engine.post_send(active.qp_num or 0, work, 0, time.monotonic_ns())
    settle(*nics)
    assert bytes(region.view[8:13]) == b"bytes"
    assert [done.status for done in asker.take_completions()] == [VerbsStatus.SUCCESS]
    ((arrival),) = listener.take_arrivals()
    assert (arrival.kind, arrival.qp_num) == (ArrivalKind.WRITE, qp_num)
    assert not listener.drops
    assert not asker.drops


def connect(nics: tuple[RoceEndpoint, RoceEndpoint]) -> tuple[Connection, Connection]:
    """Return the connection as the first NIC, which has asked, and the second have it."""
    asker, listener = nics
    listener.cm.listen(PORT)
    active = asker.cm.connect(listener.address, PORT, PD, time.monotonic_ns())
    settle(*nics)
    (request,) = listener.take_events()
    listener.cm.accept(request.connection, PD, time.monotonic_ns())
    settle(*nics)
    return active, request.connection


def test_an_ack_and_the_dreq_behind_it_are_taken_in_order(nics: tuple[RoceEndpoint, RoceEndpoint]) -> None:
    asker, listener = nics
    active, passive = connect(nics)
    region, ours = (nic.memory.register(4096, pd=PD) for nic in nics)
    asker.engine.post_receive(active.qp_num or 0, 1, (Sge(region.address, 64, region.key),))
    work = WorkRequest(Opcode.SEND, (Sge(ours.address, 5, ours.key),))
    assert listener.engine.post_send(passive.qp_num or 0, work, 0, time.monotonic_ns())
    listener.move()
    asker.move()  # the ACK leaves
    asker.cm.disconnect(active, time.monotonic_ns())
    asker.move()  # the DREQ leaves
    listener.move()
    (done,) = listener.take_completions()
    assert done.status is VerbsStatus.SUCCESS
    assert kinds(listener.take_events())[-1] is CmEventKind.DISCONNECTED
    assert not listener.drops


def test_who_is_not_there_is_not_found(nics: tuple[RoceEndpoint, RoceEndpoint]) -> None:
    with pytest.raises(ResourceError, match=r"nobody at .* has 10\.7\.0\.9"):
        nics[0].resolve("10.7.0.9", limit_s=0.0)


def test_arp_that_is_none_is_counted(nics: tuple[RoceEndpoint, RoceEndpoint]) -> None:
    one, _ = nics
    answer = b"\0\1\x08\0\6\4\0\2" + bytes(6) + b"\x0a\7\0\x09" + bytes(6) + b"\x0a\7\0\1"
    hostile = [answer[:7], b"\0\7" + answer[2:]]
    for body in hostile:
        one._is_arp(bytes(12) + b"\x08\x06" + body)
    assert one.drops == {"arp.too_short": 1, "arp.kind": 1}


def test_memory_that_was_given_back_has_no_key_and_its_place_is_used_again() -> None:

    memory = RegisteredMemory(random.Random(1))
    first = memory.register(100, Access.REMOTE_READ)
    memory.deregister(first)
    with pytest.raises(UsageError, match="is not registered"):
        memory.deregister(first)
    second = memory.register(100)
    assert second.address == first.address
    assert second.key != first.key
    assert bytes(second.view) == bytes(100)
    for _ in range(255):
        memory.register(1)
    with pytest.raises(ResourceError, match="256 regions are registered already"):
        memory.register(1)
    memory.close()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"port": None}, "port is None, which has no send"),
        ({"port": LoopbackPort}, "has no instance"),
        ({"ip": 5}, "no IPv4 address"),
        ({"ip": "10.7.0"}, "no IPv4 address"),
        ({"mac": b""}, "has 6 bytes"),
        ({"mac": "02:00:00:00:00:01"}, "no MAC address"),
        ({"mac": b"\x01" * 6}, "a group's address"),
        ({"seed": [1]}, r"seed is \[1\]"),
        ({"compiled": "no"}, "compiled is 'no'; pass True or False"),
    ],
)
def test_an_endpoint_at_no_port_or_address_is_refused(wrong: dict[str, Any], words: str) -> None:
    right: dict[str, Any] = {"port": loopback_pair()[0], "ip": "10.7.0.1", "compiled": False}
    with pytest.raises(UsageError, match=words):
        RoceEndpoint(**right | wrong)


def test_a_time_to_wait_is_one(nics: tuple[RoceEndpoint, RoceEndpoint]) -> None:
    wrong: Any
    for wrong in (None, "1", -0.5, float("nan")):
        with pytest.raises(UsageError, match="wait_s is "):
            nics[0].move(wrong)


def test_queue_pairs_of_management_are_not_an_application_s(nics: tuple[RoceEndpoint, RoceEndpoint]) -> None:
    for number in (0, 1):
        with pytest.raises(UsageError, match="reserved, for management"):
            nics[0].engine.create_qp(number, PD)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0,), "length_bytes"),
        (("4096",), "length_bytes"),
        (((1 << 32) + 1,), "length_bytes"),
        ((64, 16), "access"),
        ((64, None), "access"),
        ((64, Access.REMOTE_READ, -1), "pd"),
        ((64, Access.REMOTE_READ, 1 << 32), "pd"),
    ],
)
def test_memory_of_no_length_or_domain_is_refused_and_takes_no_place(
    arguments: tuple[Any, ...], name: str
) -> None:
    memory = RegisteredMemory(random.Random(1))
    with pytest.raises(UsageError, match=f"{name} is "):
        memory.register(*arguments)
    with pytest.raises(UsageError, match=r"region is 5; pass what register\(\) returned"):
        memory.deregister(5)  # type: ignore[arg-type]
    assert len([memory.register(64) for _ in range(256)]) == 256
    memory.close()


def test_memory_that_the_system_has_not_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = RegisteredMemory(random.Random(1))

    def none(length_bytes: int) -> Backing:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(Backing, "anonymous", none)
        with pytest.raises(ResourceError, match="no memory for 64 bytes: Cannot allocate memory"):
            memory.register(64)
    memory.register(64)
    memory.close()


def test_memory_of_a_closed_endpoint_is_refused_and_reached_by_nobody() -> None:
    ports = loopback_pair()
    with RoceEndpoint(ports[0], "10.7.0.1", compiled=False) as endpoint:
        region = endpoint.memory.register(64)
    with pytest.raises(UsageError, match="is not registered"):
        endpoint.memory.deregister(region)
    with pytest.raises(UsageError, match="this memory is closed"):
        endpoint.memory.register(64)
    ports[1].close()
