# SPDX-License-Identifier: Apache-2.0
"""The control channels of NICs that reach each other over a network; each NIC here is a device in this
process.
"""

from __future__ import annotations

import random
import selectors
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nicemu.firmware import Registry
from nicemu.nic import NicConfig, SmartNic
from nicemu.run.links import CONTROL_PORT, PATIENCE_NS, PeerLinks

KEY = b"k" * 32


class Node:
    """A NIC with its links; time stands until a test moves it."""

    def __init__(self, name: str, places: dict[str, str], key: bytes = KEY) -> None:
        self.now_ns = 0
        self.device = SmartNic(NicConfig(name, places[name], transport="port", memory_bytes=1 << 20))
        self.selector = selectors.DefaultSelector()
        self.links = PeerLinks(
            self.device,
            self._watch,
            lambda source: self.selector.unregister(source) and None,
            lambda: self.now_ns,
            None,
            lambda ip: None,
            places,
            Path("/nowhere"),
            key,
        )
        self.links.listen()

    def _watch(self, source: Any, action: Callable[[], None]) -> None:  # noqa: ANN401
        self.selector.register(source, selectors.EVENT_READ, action)

    def turn(self) -> None:
        for key, _ in self.selector.select(0.002):
            key.data()

    def close(self) -> None:
        self.links.close()
        self.selector.close()


@pytest.fixture
def places() -> dict[str, str]:
    subnet = f"127.{random.SystemRandom().randrange(16, 240)}.{random.SystemRandom().randrange(1, 255)}"
    return {"alpha": f"{subnet}.1", "beta": f"{subnet}.2"}


@pytest.fixture
def nodes(places: dict[str, str]) -> Iterator[tuple[Node, Node]]:
    pair = Node("alpha", places), Node("beta", places)
    yield pair
    for node in pair:
        node.close()


def turn_until(nodes: tuple[Node, ...], is_true: Callable[[], object], turns: int = 500) -> None:
    for _ in range(turns):
        if is_true():
            return
        for node in nodes:
            node.turn()
    raise AssertionError("it did not come true")


@pytest.mark.parametrize("first", [0, 1])
def test_two_nics_that_call_each_other_at_once_meet_once(nodes: tuple[Node, Node], first: int) -> None:
    told: dict[str, str | None] = {}
    order = nodes[first], nodes[1 - first]
    order[0].links.reach(order[1].device.config.name, lambda error: told.update(first=error))
    order[1].links.reach(order[0].device.config.name, lambda error: told.update(second=error))
    turn_until(nodes, lambda: len(told) == 2)
    assert told == {"first": None, "second": None}
    for _ in range(20):
        for node in nodes:
            node.turn()
    assert [len(node.links._links) for node in nodes] == [1, 1]
    assert all(node.links.next_deadline_ns() is None for node in nodes)
    heard: list[dict[str, Any]] = []
    nodes[0].links.offer("beta", {}, heard.append)  # and the one channel left works
    turn_until(nodes, lambda: heard)
    assert "takes no connections" in heard[0]["error"]


def test_whoever_waits_for_a_peer_is_told_when_nobody_listens(places: dict[str, str]) -> None:
    node = Node("alpha", places)
    told: list[str | None] = []
    node.links.reach("beta", told.append)
    turn_until((node,), lambda: told)
    node.close()
    assert told[0] is not None
    assert told[0].startswith("beta does not answer")


def test_a_peer_that_says_nothing_is_given_up_in_time(places: dict[str, str]) -> None:
    node = Node("alpha", places)
    told: list[str | None] = []
    with socket.create_server((places["beta"], CONTROL_PORT)):
        node.links.reach("beta", told.append)
        node.turn()
        assert node.links.next_deadline_ns() == PATIENCE_NS
        node.links.on_timer(PATIENCE_NS - 1)
        assert not told
        node.links.on_timer(PATIENCE_NS)
    node.close()
    assert told == [f"beta does not answer at {places['beta']}"]


def test_a_nic_with_another_key_is_not_let_in(places: dict[str, str]) -> None:
    nodes = Node("alpha", places), Node("beta", places, key=b"another" * 4)
    told: list[str | None] = []
    nodes[0].links.reach("beta", told.append)
    turn_until(nodes, lambda: told)
    assert told[0] is not None
    assert told[0].startswith("beta does not answer")
    assert "another key (key_file)" in told[0]
    assert nodes[1].device.drops["peer.stranger"] == 1
    assert not nodes[1].links._links
    for node in nodes:
        node.close()


def test_a_caller_from_an_address_that_the_topology_does_not_have_is_hung_up_on(
    nodes: tuple[Node, Node], places: dict[str, str]
) -> None:
    with socket.create_connection((places["beta"], CONTROL_PORT), source_address=("127.0.0.1", 0)) as link:
        turn_until(nodes, lambda: nodes[1].device.drops["peer.stranger"])
        assert link.recv(64) == b""


def test_a_stranger_that_never_proves_itself_is_hung_up_on_in_time(
    nodes: tuple[Node, Node], places: dict[str, str]
) -> None:
    source = (places["alpha"], 0)
    with socket.create_connection((places["beta"], CONTROL_PORT), source_address=source) as link:
        turn_until(nodes, lambda: nodes[1].links.next_deadline_ns() is not None)
        link.sendall(struct.pack("!I", 12) + b'{"op":"hello"}' + bytes(64))
        turn_until(nodes, lambda: nodes[1].device.drops["peer.stranger"])
    with socket.create_connection((places["beta"], CONTROL_PORT), source_address=source):
        turn_until(nodes, lambda: nodes[1].links.next_deadline_ns() is not None)
        nodes[1].links.on_timer(PATIENCE_NS)
    assert nodes[1].device.drops["peer.stranger"] == 2
    assert nodes[1].links.next_deadline_ns() is None


def test_a_peer_cannot_disconnect_what_is_not_its_own(nodes: tuple[Node, Node]) -> None:
    alpha, beta = nodes
    alpha.links.reach("beta", lambda error: None)
    turn_until(nodes, lambda: beta.links._links)
    third = beta.device.queue_pairs.peer("gamma", "127.0.0.9")
    qp = beta.device.queue_pairs.create(third, 1, 0, 0, -1)
    alpha.links.disconnect("beta", qp)
    for _ in range(5):
        beta.turn()
    assert beta.device.queue_pairs.numbers == {qp: "gamma"}


def offered(alpha: Node, beta: Node, heard: list[dict[str, Any]]) -> None:
    """Have alpha offer a queue pair to beta, whose firmware takes whatever is offered."""
    beta.device.load_firmware(Registry(connect=lambda nic, connection: {}), 0)
    alpha.links.reach("beta", lambda error: None)
    turn_until((alpha, beta), lambda: alpha.links._links and beta.links._links)
    _, offer = alpha.device.connections.begin(alpha.device.open_owner(), "beta", 0, {})
    alpha.links.offer("beta", offer, heard.append)


def test_a_peer_that_does_not_answer_an_offer_is_given_up_in_time(nodes: tuple[Node, Node]) -> None:
    heard: list[dict[str, Any]] = []
    offered(*nodes, heard)
    assert nodes[0].links.next_deadline_ns() == PATIENCE_NS
    nodes[0].links.on_timer(PATIENCE_NS - 1)
    assert heard == []
    nodes[0].links.on_timer(PATIENCE_NS)
    assert heard == [{"error": "beta does not answer"}]
    assert nodes[0].links.next_deadline_ns() is None


def test_an_answer_that_comes_too_late_has_its_queue_pair_given_back(nodes: tuple[Node, Node]) -> None:
    alpha, beta = nodes
    heard: list[dict[str, Any]] = []
    offered(alpha, beta, heard)
    alpha.links.on_timer(PATIENCE_NS)
    turn_until((beta,), lambda: beta.device.queue_pairs.numbers)
    turn_until(nodes, lambda: not beta.device.queue_pairs.numbers)
    assert len(heard) == 1


@pytest.mark.parametrize(
    "message",
    [
        {"op": "backing", "index": 1, "size": 4096},
        {"op": "disconnect", "qp_num": float("inf")},
        {"op": "offer", "id": 1, "offer": {"qp_num": 1, "psn": 1, "transport": "port"}},
    ],
    ids=["no descriptor", "no number", "no private data"],
)
def test_a_message_without_sense_from_a_peer_is_counted(
    nodes: tuple[Node, Node], message: dict[str, Any]
) -> None:
    alpha, beta = nodes
    offered(alpha, beta, [])
    alpha.links._tell("beta", message)
    turn_until((beta,), lambda: beta.device.drops["peer.bad_message"])
    assert beta.links._links, "the peer was hung up on"
