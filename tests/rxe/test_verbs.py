# SPDX-License-Identifier: Apache-2.0
"""What a transport over an RDMA device does beside what all transports promise."""

from __future__ import annotations

import random
import select
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from nicemu.abi import Access, AtomicOperation, Opcode, Sge, Unsupported, WorkRequest
from nicemu.errors import ProtocolError, ResourceError, VerbsStatus
from nicemu.fabric import Pyverbs, VerbsTransport
from nicemu.fabric.verbs import requests
from nicemu.rdma import MemoryRegion
from tests.contract.joined_nics import EXPLICIT, JoinedNics, some_bytes, work

pytestmark = pytest.mark.rxe

OK = VerbsStatus.SUCCESS
BURST = 700
"""More than the device's shared receives at once."""

Join = Callable[..., JoinedNics]


@pytest.fixture
def join(verbs: Pyverbs, device_name: str) -> Iterator[Join]:
    """Make two NICs of one process."""
    made: list[JoinedNics] = []
    opened: list[VerbsTransport] = []

    def make(**options: int) -> JoinedNics:
        outside = {name: VerbsTransport(device_name) for name in "ab"}
        opened.extend(outside.values())
        made.append(JoinedNics("verbs", outside, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for joined in made:
        joined.close()
    for transport in opened:
        transport.close()


def transport_of(joined: JoinedNics, name: str) -> VerbsTransport:
    """Return the transport of a NIC."""
    outside = joined.simulation.nics[name].outside
    assert outside is not None
    assert isinstance(outside.transport, VerbsTransport)
    return outside.transport


# Receives.


def test_a_write_with_immediate_consumes_a_receive_where_none_are_implicit(join: Join) -> None:
    joined = join(flags=EXPLICIT)
    here, there, inbox = joined.a.region(some_bytes(64)), joined.b.region(64), joined.b.region(64)
    for number in (1, 2):
        joined.b.host.post_receive(inbox.span, joined.b.qp, wr_id=number)
    (counter,) = joined.b.host.counters("arrived", remote=True)
    joined.post(
        work(Opcode.RDMA_WRITE_WITH_IMM, here, there, imm_data=counter.index),
        work(Opcode.SEND, here, length=8),
    )
    first, second = joined.ends(2, joined.b)
    assert (first.wr_id, first.imm_data, first.byte_len) == (1, counter.index, 64)
    assert (second.wr_id, second.imm_data, second.byte_len) == (2, None, 8)
    assert counter.success == 1
    assert (there.data, inbox.data) == (here.data, here.data[:8] + bytes(56))


def test_implicit_receives_leave_those_that_were_posted_to_sends(join: Join) -> None:
    joined = join()
    here = joined.a.region(some_bytes(64))
    inboxes = [joined.b.region(8) for _ in range(3)]
    for number, inbox in enumerate(inboxes):
        joined.b.host.post_receive(inbox.span, joined.b.qp, wr_id=number)
    (counter,) = joined.b.host.counters("arrived", remote=True)
    notice = work(Opcode.RDMA_WRITE_WITH_IMM, None, imm_data=counter.index)
    requests = [work(Opcode.SEND, here, at=56 - 8 * n, length=8) for n in range(3)]
    joined.post(*(one for request in requests for one in (notice, request, notice)))
    assert [one.wr_id for one in joined.ends(3, joined.b)] == [0, 1, 2]
    joined.until(lambda: counter.success == 6)
    assert [inbox.data for inbox in inboxes] == [here.data[56 - 8 * n :][:8] for n in range(3)]


def test_a_burst_of_immediates_longer_than_the_shared_receives_arrives_to_the_end(join: Join) -> None:
    joined = join()
    sender, receiver = transport_of(joined, "a"), transport_of(joined, "b")
    for number in range(BURST):
        notice = WorkRequest(Opcode.RDMA_WRITE_WITH_IMM, imm_data=number)
        sender.post_send(joined.a.qp, notice, number + 1)
    ended: list[tuple[int, VerbsStatus]] = []
    told: list[int | None] = []
    end = time.monotonic() + 30
    while len(ended) < BURST and time.monotonic() < end:
        for transport in (sender, receiver):
            transport.run()
        ended += [(one.context, one.status) for one in sender.take_completions()]
        told += [one.imm_data for one in receiver.take_arrivals()]
    assert ended == [(number + 1, OK) for number in range(BURST)]
    assert told == list(range(BURST))


def test_shared_receives_serve_the_others_when_one_queue_pair_of_the_domain_has_failed(join: Join) -> None:
    joined = join()
    here, there = joined.a.region(some_bytes(8)), joined.b.region(8)
    spoilt = joined.a.qp
    assert joined.do(work(Opcode.RDMA_WRITE, here, there, rkey=1)) is VerbsStatus.REM_ACCESS_ERR
    joined.join()
    assert joined.a.qp != spoilt
    (counter,) = joined.b.host.counters("arrived", remote=True)
    notice = work(Opcode.RDMA_WRITE_WITH_IMM, None, imm_data=counter.index)
    for _ in range(3):
        joined.post(*[notice] * 100)
        assert [one.status for one in joined.ends(100)] == [OK] * 100
    joined.until(lambda: counter.success == 300)


# Kinds of work.


@pytest.mark.parametrize(
    ("operation", "left"), [(AtomicOperation.SUM, 82), (AtomicOperation.COMPARE_SWAP, 7)]
)
def test_an_atomic_that_the_device_has_is_carried_out_there(
    join: Join, operation: AtomicOperation, left: int
) -> None:
    joined = join()
    here, there = joined.a.region(8), joined.b.region((41).to_bytes(8, "little"))
    request = work(Opcode.ATOMIC, here, there, compare_add=41, swap=7, operation=operation)
    assert joined.do(request) is OK
    assert (here.word(), there.word()) == (41, left)


@pytest.mark.parametrize("operation", sorted(set(AtomicOperation) - {0, 7}))
def test_an_atomic_that_no_device_has_is_refused_before_it_is_posted(
    join: Join, operation: AtomicOperation
) -> None:
    joined = join()
    here, there = joined.a.region(8), joined.b.region(8)
    with pytest.raises(Unsupported, match=f"RoCEv2 has no ATOMIC of .*{operation.name}"):
        joined.post(work(Opcode.ATOMIC, here, there, compare_add=1, operation=operation))
    with pytest.raises(Unsupported, match="without `old`"):
        joined.post(work(Opcode.ATOMIC, None, there, compare_add=1))
    joined.idle()
    assert (here.word(), there.word()) == (0, 0)


def test_gathers_of_more_shapes_than_are_kept_are_right(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is filled in again, or made anew, and says nothing of what it stood for before."""
    monkeypatch.setattr(requests, "MAX_KEPT", 2)
    joined = join()
    here, there = joined.a.region(some_bytes(4096)), joined.b.region(4096)
    rng, expected = random.Random(7), bytearray(4096)
    shapes = [[(rng.randrange(4000), rng.randrange(1, 90)) for _ in range(2)] for _ in range(5)]
    for number in range(40):
        pieces = rng.choice(shapes)[: rng.choice([1, 2])]
        data = b"".join(here.data[at : at + length] for at, length in pieces)
        to = rng.randrange(4096 - len(data))
        expected[to : to + len(data)] = data
        sges = tuple(Sge(here.span.address + at, length, here.span.key) for at, length in pieces)
        opcode = Opcode.RDMA_WRITE
        address = there.span.address + to
        assert joined.do(WorkRequest(opcode, sges, address, there.span.key, signaled=True)) is OK, number
    assert there.data == bytes(expected)
    assert joined.guards_hold


def test_receives_of_more_shapes_than_are_kept_take_what_was_sent(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MAX_KEPT", 2)
    joined = join()
    here, inbox = joined.a.region(some_bytes(64)), joined.b.region(64)
    for number in (0, 1, 2, 3, 0, 2, 1):
        joined.b.host.post_receive(inbox.span[number * 16 : (number + 1) * 16], joined.b.qp, wr_id=number)
        joined.post(work(Opcode.SEND, here, at=number * 16, length=16))
        assert joined.ends(1, joined.b)[0].wr_id == number
        assert joined.ends(1)[0].status is OK
    assert inbox.data == here.data


# Errors.


def test_the_peer_of_a_queue_pair_in_error_cannot_use_it_either(join: Join) -> None:
    joined = join()
    here, there = joined.a.region(some_bytes(8)), joined.b.region(8)
    assert joined.do(work(Opcode.RDMA_WRITE, here, there, rkey=1)) is VerbsStatus.REM_ACCESS_ERR
    assert joined.do(work(Opcode.RDMA_WRITE, there, here), by=joined.b) is VerbsStatus.WR_FLUSH_ERR
    assert here.data == some_bytes(8)


def test_receives_are_flushed_when_the_device_has_given_the_queue_pair_up(join: Join) -> None:
    joined = join(flags=EXPLICIT)
    here, there = joined.a.region(some_bytes(8)), joined.b.region(8)
    for number in (1, 2):
        joined.b.host.post_receive(there.span, joined.b.qp, wr_id=number)
    assert joined.do(work(Opcode.RDMA_WRITE, here, there, rkey=1)) is VerbsStatus.REM_ACCESS_ERR
    ends = joined.ends(2, joined.b)
    assert [(one.wr_id, one.status) for one in ends] == [(n, VerbsStatus.WR_FLUSH_ERR) for n in (1, 2)]


def test_a_peer_that_has_gone_ends_work_when_retries_are_used_up(join: Join) -> None:
    joined = join()
    here, there = joined.a.region(some_bytes(8)), joined.b.region(8)
    assert joined.do(work(Opcode.RDMA_WRITE, here, there)) is OK
    joined.b.device.connections.disconnect(joined.b.owner, joined.b.qp, True)
    assert joined.do(work(Opcode.RDMA_WRITE, here, there)) is VerbsStatus.RETRY_EXC_ERR


@pytest.mark.parametrize(
    "offer",
    [
        {},
        {"device": None},
        {"device": {"gid": "here", "lid": 0, "mtu": 4096, "lanes": [[1, 2], [3, 4]]}},
        {"device": {"gid": "::1", "lid": 0, "mtu": 4096, "lanes": [[1, 2]]}},
        {"device": {"gid": "::1", "lid": 0, "mtu": 4096, "lanes": [["a", 2], [3, 4]]}},
        {"device": {"gid": "::1", "lid": 0, "mtu": 0, "lanes": [[1, 2], [3, 4]]}},
        {"device": {"gid": "::1", "lid": 1 << 40, "mtu": 4096, "lanes": [[1 << 40, 2], [3, 4]]}},
    ],
)
def test_an_offer_without_sense_is_refused(join: Join, offer: dict[str, object]) -> None:
    joined = join()
    transport = transport_of(joined, "a")
    transport.create(200, joined.a.owner.pd, True)
    with pytest.raises(ProtocolError):
        transport.connect(200, offer)
    transport.destroy(200)


@pytest.mark.parametrize(
    "place", [7, {}, {"rkey": -1}, {"rkey": 1, "address": "2", "iova": 3, "ledger": None}]
)
def test_a_peer_that_says_nonsense_of_a_region_fails_its_queue_pair_alone(join: Join, place: object) -> None:
    joined = join()
    here, there = joined.a.region(some_bytes(8)), joined.b.region(8)
    joined.join()
    spoilt = joined.a.qp
    transport_of(joined, "a").learn(spoilt, there.span.key, place)
    assert joined.do(work(Opcode.RDMA_WRITE, here, there)) is VerbsStatus.WR_FLUSH_ERR
    joined.join()
    assert joined.do(work(Opcode.RDMA_WRITE, here, there)) is OK


# Memory.


def test_memory_that_the_device_cannot_pin_is_not_registered(verbs: Pyverbs, device_name: str) -> None:
    transport = VerbsTransport(device_name)
    with pytest.raises(ResourceError, match="does not register"):
        transport.register(MemoryRegion(0x123, 1, 0, 1 << 20, Access.LOCAL_WRITE, 0), 4096, False)
    transport.close()


def test_a_region_is_asked_for_once(join: Join) -> None:
    joined = join()
    here, there = joined.a.region(some_bytes(8)), joined.b.region(8)
    outside = joined.a.device.outside
    assert outside is not None
    asked: list[int] = []
    answer = outside.ask

    def ask(peer: str, key: int) -> None:
        asked.append(key)
        answer(peer, key)

    outside.ask = ask
    joined.post(*[work(Opcode.RDMA_WRITE, here, there)] * 5)
    assert [one.status for one in joined.ends(5)] == [OK] * 5
    assert asked == [there.span.key]


# Waiting.


@pytest.fixture
def own_link(verbs: Pyverbs) -> Iterator[str]:
    """A device on an interface that nobody else uses."""
    made = "modprobe dummy; ip link add nicemu0 type dummy && ip address add 10.99.7.1/24 dev nicemu0 && "
    made += "ip link set nicemu0 up && rdma link add rxe_events type rxe netdev nicemu0"
    path = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}
    finished = subprocess.run(["bash", "-c", made], env=path, capture_output=True, text=True, check=False)
    if finished.returncode:
        pytest.skip(f"no further device can be made here: {finished.stderr.strip()}")
    yield "rxe_events"
    subprocess.run(
        ["bash", "-c", "rdma link delete rxe_events; ip link delete nicemu0"], env=path, check=True
    )


def test_a_descriptor_tells_of_an_arrival_and_is_quiet_afterwards(join: Join) -> None:
    joined = join()
    sender, receiver = transport_of(joined, "a"), transport_of(joined, "b")
    poll = select.poll()
    for descriptor in receiver.descriptors:
        poll.register(descriptor, select.POLLIN)
    for number in range(3):
        receiver.run()
        assert receiver.prepare_sleep()
        assert poll.poll(0) == []
        sender.post_send(joined.a.qp, WorkRequest(Opcode.RDMA_WRITE_WITH_IMM, imm_data=number), 1)
        sender.run()
        assert poll.poll(20_000)
        receiver.run()
        assert [one.imm_data for one in receiver.take_arrivals()] == [number]


def test_an_unknown_device_is_refused_with_those_that_there_are(verbs: Pyverbs, device_name: str) -> None:
    with pytest.raises(ResourceError, match=f"'nobody'.*{device_name}"):
        VerbsTransport("nobody")


def test_events_of_the_device_are_counted_by_name(own_link: str) -> None:
    """ibv_get_async_event(3): the port of a device goes down with its interface, and comes back."""
    transport = VerbsTransport(own_link)
    seen: list[str] = []
    for state in ("down", "up"):
        subprocess.run(["/usr/sbin/ip", "link", "set", "nicemu0", state], check=True)
    assert transport.prepare_sleep()
    end = time.monotonic() + 20
    while not {"port_err", "port_active"} <= set(seen) and time.monotonic() < end:
        transport.prepare_sleep()
        transport.run()
        seen += transport.take_events()
    transport.close()
    assert {"port_err", "port_active"} <= set(seen)


def test_a_nic_counts_the_events_of_its_device_among_its_drops(own_link: str) -> None:
    outside = {name: VerbsTransport(own_link) for name in "ab"}
    joined = JoinedNics("verbs", outside)
    here, there = joined.a.region(some_bytes(8)), joined.b.region(8)
    subprocess.run(["/usr/sbin/ip", "link", "set", "nicemu0", "down"], check=True)
    subprocess.run(["/usr/sbin/ip", "link", "set", "nicemu0", "up"], check=True)
    end = time.monotonic() + 20
    while not joined.a.device.drops["verbs.port_active"] and time.monotonic() < end:
        assert joined.do(work(Opcode.RDMA_WRITE, here, there)) is OK
    assert joined.a.device.drops["verbs.port_err"] >= 1
    assert joined.a.device.drops["verbs.port_active"] >= 1
    joined.close()
    for transport in outside.values():
        transport.close()
