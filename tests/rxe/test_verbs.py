# SPDX-License-Identifier: Apache-2.0
"""What a transport over an RDMA device does beside what all transports promise."""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from nicemu.abi import Access, Opcode, WorkRequest
from nicemu.errors import ProtocolError, ResourceError, VerbsStatus
from nicemu.fabric import Pyverbs, VerbsTransport
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
