# SPDX-License-Identifier: Apache-2.0
import random
from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.cm import ENDS, CmAddress, CmEndpoint, CmEventKind, CmState, QpOffer
from nicemu.cm.endpoint import MAX_CONNECTIONS, gid_of
from nicemu.errors import ResourceError, UsageError
from nicemu.wire import (
    Drep,
    Dreq,
    Mra,
    Rej,
    RejectReason,
    Rep,
    Req,
    Rtu,
    decode_cm_message,
)

from .network import ADDRESSES, LATENCY_NS, LOST, OFFERS, SERVICE, Fate, Network

KINDS = (Req, Mra, Rej, Rep, Rtu, Dreq, Drep)


def req(**changed: int) -> Req:
    values = {
        "local_communication_id": 5,
        "service_id": SERVICE,
        "local_qpn": 0x11,
        "starting_psn": 0,
        "path_mtu": 3,
        "local_gid": gid_of(ADDRESSES[0].ip),
        "remote_gid": gid_of(ADDRESSES[1].ip),
    }
    return Req(**values | changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"service_id": SERVICE + 1}, RejectReason.INVALID_SERVICE_ID),
        ({"remote_gid": gid_of("10.7.0.9")}, RejectReason.INVALID_GID),
        ({"local_gid": gid_of("10.7.0.9")}, RejectReason.INVALID_GID),
        ({"transport_service_type": 1}, RejectReason.INVALID_TRANSPORT_TYPE),
        ({"path_mtu": 0}, RejectReason.INVALID_PATH_MTU),
        ({"path_mtu": 6}, RejectReason.INVALID_PATH_MTU),
    ],
)
def test_a_request_that_cannot_be_met_is_rejected_with_its_reason(
    changed: dict[str, int], reason: RejectReason
) -> None:
    network = Network()
    network.inject(1, req(**changed))
    ((_, rej),) = network.sent
    assert isinstance(rej, Rej)
    assert rej.reason == reason
    assert rej.remote_communication_id == 5
    assert network.events == ([], [])
    assert network.drops[1] == {f"cm.refused.{reason.name.lower()}": 1}


def test_nobody_is_connected_to_a_service_that_is_listened_to_no_more() -> None:
    network = Network()
    network.managers[1].stop_listening(SERVICE)
    network.connect()
    network.run()
    assert network.kinds(0) == [CmEventKind.REJECTED]
    assert network.events[0][0].reason == RejectReason.INVALID_SERVICE_ID


def test_more_requests_than_the_backlog_are_refused_and_those_answered_make_room() -> None:
    network = Network(accepts=None)
    network.managers[1].stop_listening(SERVICE)
    network.managers[1].listen(SERVICE, 2)
    for number in range(3):
        network.inject(1, req(local_communication_id=number + 1, local_qpn=number + 1))
    assert network.messages(1) == ["Rej"]
    assert network.drops[1] == {"cm.refused.no_resources": 1}
    network.passive[0].accept(OFFERS[1], network.now_ns)
    network.settle()
    network.inject(1, req(local_communication_id=3, local_qpn=3))
    assert len(network.passive) == 3


class Flood:
    """A manager that listens, and peers that ask without end; nothing passes but what they send."""

    def __init__(self, backlog: int = 128) -> None:
        self.drops: Counter[str] = Counter()
        self.manager = CmEndpoint(ADDRESSES[1].ip, 1, random.Random(1), self.drops)
        self.manager.listen(SERVICE, backlog)
        self.numbers = count(1)

    def ask(self, peer: int, times: int = 1, *, accepts: bool = False) -> list[RejectReason]:
        """Have a peer ask; return why it was refused, each time that it was."""
        source, reasons = CmAddress(bytes([2, 0, 0, 0, 0, peer]), f"10.7.0.{peer}"), []
        for _ in range(times):
            number = next(self.numbers)
            gid = gid_of(source.ip)
            asked = req(local_communication_id=number, local_qpn=number, local_gid=gid)
            self.manager.on_mad(source, asked.encode(0), 0)
            for event in self.manager.take_events():
                if event.kind is CmEventKind.CONNECT_REQUEST and accepts:
                    event.connection.accept(QpOffer(number, 0), 0)
            for to, mad in self.manager.take_mads():
                _, message = decode_cm_message(mad)
                if isinstance(message, Rej) and message.remote_communication_id == number:
                    assert to == source
                    reasons.append(RejectReason(message.reason))
        return reasons

    def shares(self) -> Counter[str]:
        """Return how many half-open connections each peer has."""
        return Counter(connection.peer.ip for connection in self.manager.connections())


def test_a_peer_that_floods_a_service_with_requests_is_refused_and_others_are_not() -> None:
    flood = Flood()
    assert flood.ask(9, 3000) == [RejectReason.NO_RESOURCES] * (3000 - 128)
    assert flood.drops == {"cm.refused.no_resources": 3000 - 128}
    assert flood.ask(3) == flood.ask(4) == []
    assert flood.shares() == {"10.7.0.9": 126, "10.7.0.3": 1, "10.7.0.4": 1}
    assert flood.drops["cm.made_room"] == 2
    assert flood.ask(9) == [RejectReason.NO_RESOURCES]


def test_a_peer_that_floods_an_application_that_accepts_leaves_room_for_others() -> None:
    flood = Flood()
    assert set(flood.ask(9, MAX_CONNECTIONS + 5, accepts=True)) == {RejectReason.NO_RESOURCES}
    assert flood.ask(3, accepts=True) == []
    assert flood.shares()["10.7.0.3"] == 1
    flood.manager.connect(ADDRESSES[0], SERVICE, OFFERS[1], 0)  # we ourselves find room too
    assert flood.drops["cm.made_room"] == 2
    assert len(flood.manager.connections()) == MAX_CONNECTIONS


def test_peers_that_want_more_than_there_is_share_it_and_take_nothing_from_who_has_less() -> None:
    flood = Flood(backlog=12)
    assert flood.ask(3, 2) == []
    for _ in range(40):
        flood.ask(8)
        flood.ask(9)
    shares = flood.shares()
    assert shares == {"10.7.0.3": 2, "10.7.0.8": 5, "10.7.0.9": 5}
    made_room = flood.drops["cm.made_room"]
    assert flood.ask(8, 20) == flood.ask(9, 20) == [RejectReason.NO_RESOURCES] * 20
    assert flood.drops["cm.made_room"] == made_room


def test_who_makes_room_is_the_oldest_and_both_sides_hear_of_it() -> None:
    network = Network(accepts=None)
    network.managers[1].stop_listening(SERVICE)
    network.managers[1].listen(SERVICE, 3)
    for number in (1, 2, 3):
        network.inject(1, req(local_communication_id=number, local_qpn=number))
    other = CmAddress(b"\2\0\0\0\0\3", "10.7.0.3")
    asked = req(local_communication_id=1, local_qpn=1, local_gid=gid_of(other.ip)).encode(0)
    network.managers[1].on_mad(other, asked, network.now_ns)
    ended, begun = network.managers[1].take_events()
    assert (ended.kind, ended.connection) == (CmEventKind.UNREACHABLE, network.passive[0])
    assert ended.reason == RejectReason.NO_RESOURCES
    assert (begun.kind, begun.connection.peer) == (CmEventKind.CONNECT_REQUEST, other)
    ((to, mad),) = network.managers[1].take_mads()
    _, rej = decode_cm_message(mad)
    assert to == ADDRESSES[0]
    assert isinstance(rej, Rej)
    assert (rej.reason, rej.remote_communication_id) == (RejectReason.NO_RESOURCES, 1)


def test_who_asks_with_values_that_do_not_fit_takes_no_place_of_others() -> None:
    flood = Flood()
    flood.ask(9, MAX_CONNECTIONS, accepts=True)
    wrong: Any
    for wrong, words in (
        ({"private_data": bytes(93)}, "has room for 92"),
        ({"private_data": "hello"}, "pass bytes"),
        ({"retry_count": None}, "retry_count of a Req is None; it has 3 bits"),
        ({"now_ns": "now"}, "now_ns is 'now'"),
        ({"peer": "10.7.0.1"}, "peer is"),
        ({"offer": 5}, r"offer is 5; pass QpOffer\("),
    ):
        right = {"peer": ADDRESSES[0], "service_id": SERVICE, "offer": OFFERS[1], "now_ns": 0}
        with pytest.raises(UsageError, match=words):
            flood.manager.connect(**right | wrong)
    assert flood.shares() == {"10.7.0.9": MAX_CONNECTIONS}
    assert not flood.drops


def test_a_queue_pair_that_is_connected_already_makes_the_old_connection_stale() -> None:
    network = Network()
    network.connect()
    network.run()
    (old,) = network.passive
    network.inject(1, req(local_qpn=OFFERS[0].qp_num))
    assert isinstance(network.sent[-1][1], Rej)
    assert network.sent[-1][1].reason == RejectReason.STALE_CONNECTION
    assert old.state is CmState.DREQ_SENT
    network.run()
    network.inject(1, req(local_qpn=OFFERS[0].qp_num))
    assert len(network.passive) == 2


def test_a_number_that_a_peer_used_for_a_closed_connection_may_ask_again() -> None:
    network = Network(accepts=False)
    for times in (1, 2):
        network.inject(1, req())
        assert len(network.passive) == times
    assert network.messages(1) == ["Rej", "Rej"]
    assert not network.drops[1]


def test_a_connection_hears_only_its_peer() -> None:
    network = Network()
    active = network.connect()
    network.run()
    (passive,) = network.passive
    dreq = Dreq(
        local_communication_id=passive.local_id,
        remote_communication_id=active.local_id,
        remote_qpn=OFFERS[0].qp_num,
    )
    network.inject(0, dreq, source=CmAddress(b"\2\0\0\0\0\3", "10.7.0.3"))
    assert active.state is CmState.ESTABLISHED
    assert network.drops[0] == {"cm.source": 1}
    wrong = Dreq(
        local_communication_id=passive.local_id ^ 1,
        remote_communication_id=active.local_id,
        remote_qpn=OFFERS[0].qp_num,
    )
    network.inject(0, wrong)
    assert active.state is CmState.ESTABLISHED
    assert network.drops[0] == {"cm.source": 1, "cm.communication_id": 1}
    network.inject(0, dreq)
    assert network.kinds(0)[-1] is CmEventKind.DISCONNECTED


def test_there_is_an_end_to_the_connections_that_are_kept() -> None:
    endpoint = CmEndpoint(ADDRESSES[0].ip, 1, random.Random(1), Counter())
    for _ in range(MAX_CONNECTIONS):
        endpoint.connect(ADDRESSES[1], SERVICE, OFFERS[0], 0)
    with pytest.raises(ResourceError, match="1024 connections are kept already"):
        endpoint.connect(ADDRESSES[1], SERVICE, OFFERS[0], 0)


@given(st.lists(st.binary(max_size=300) | st.binary(min_size=232, max_size=232), max_size=20))
def test_hostile_bytes_raise_nothing_and_are_counted(datas: list[bytes]) -> None:
    network = Network()
    network.connect()
    network.run()
    for number, data in enumerate(datas):
        head = bytes([1, 7, 2, 3]) + bytes(12) + bytes([0, 0x10 + number % 7]) + bytes(6)
        for whole in (data, head + data):
            network.managers[1].on_mad(ADDRESSES[0], whole, network.now_ns)
            network.settle()
    network.run()
    assert all(name.split(".")[0] in ("mad", "cm") for name in network.drops[1])
    for connection in network.managers[1].connections():
        assert connection.state is CmState.ESTABLISHED


@st.composite
def guesses(draw: st.DrawFn) -> tuple[int, dict[str, int]]:
    kind = draw(st.integers(0, len(KINDS) - 1))
    edges = {name: st.sampled_from([0, 1, (1 << bits) - 1]) for name, (_, bits) in KINDS[kind].LAYOUT.items()}
    return kind, {name: draw(values) for name, values in edges.items()}


@given(st.lists(guesses(), max_size=12), st.integers(0, 4))
def test_messages_of_a_peer_that_knows_the_numbers_raise_nothing_and_leave_nothing_for_ever(
    messages: list[tuple[int, dict[str, int]]], when: int
) -> None:
    """A peer may end its own connection, or take our patience; it gets no more."""
    network = Network()
    active = network.connect()
    network.run(when * LATENCY_NS)
    for kind, fields in messages:
        ids = {"remote_communication_id": active.local_id, "service_id": SERVICE}
        ids["local_communication_id"] = active.remote_id
        fields |= {name: value for name, value in ids.items() if name in fields}
        network.inject(0, KINDS[kind](**fields))  # type: ignore[arg-type]
    network.run()
    network.run(network.now_ns + 10**13)
    for connection in network.managers[0].connections():
        assert connection.state is CmState.ESTABLISHED


fates = st.builds(
    Fate,
    st.lists(st.sampled_from([LATENCY_NS, 30_000_000, 1_200_000_000, 5_000_000_000]), max_size=3).map(tuple),
)
FEW = 12
"""As many MADs meet a fate; fewer than a message is sent again."""


@given(st.lists(fates, max_size=FEW), st.sampled_from([True, False]), st.sampled_from([True, False]))
def test_whatever_is_lost_late_or_twice_both_sides_end_up_connected_or_both_refused(
    met: list[Fate], accepts: bool, confirms: bool
) -> None:
    network = Network(met, accepts=accepts, confirms=confirms)
    active = network.connect()
    network.run()
    told = network.kinds(0), network.kinds(1)
    if accepts and confirms:
        assert told == (
            [CmEventKind.CONNECT_RESPONSE, CmEventKind.ESTABLISHED],
            [CmEventKind.CONNECT_REQUEST, CmEventKind.ESTABLISHED],
        )
        assert active.state is network.passive[0].state is CmState.ESTABLISHED
    else:
        assert CmEventKind.ESTABLISHED not in told[0] + told[1]
        assert not network.managers[0].connections()
        assert not network.managers[1].connections()


@given(
    st.lists(fates | st.just(LOST), max_size=60),
    st.lists(st.sampled_from([0, 1]), min_size=1, max_size=2),
    st.integers(0, 40),
)
def test_a_connection_that_is_half_open_ends_when_it_is_used(
    met: list[Fate], users: list[int], when_s: int
) -> None:
    """Even where every retry was lost: who disconnects is through with it, and so is the other side."""
    network = Network(met)
    network.connect()
    network.run(when_s * 10**9)
    for side in users:
        for connection in network.managers[side].connections():
            if connection.state is CmState.ESTABLISHED:
                connection.disconnect(network.now_ns)
        network.settle()
    network.run()
    for side, manager in enumerate(network.managers):
        for connection in manager.connections():
            assert connection.state is CmState.ESTABLISHED  # never any other state for ever
            connection.disconnect(network.now_ns)
        network.settle()
        network.run()
        assert not manager.connections()
        told = network.kinds(side)
        begun = {id(event.connection) for event in network.events[side]}
        assert sum(kind in ENDS for kind in told) == len(begun)  # each is heard of once more, and no more
