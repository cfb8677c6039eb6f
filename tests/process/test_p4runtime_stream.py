# SPDX-License-Identifier: Apache-2.0
"""Packets, digests and idle entries over real gRPC, to nicemu's own client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from nicemu.control import (
    IdleEntry,
    P4RuntimeClient,
    P4RuntimeServer,
    ReceivedDigests,
    ReceivedIdle,
    ReceivedPacket,
    Update,
    passing_role,
)
from nicemu.control.connection import Connection
from nicemu.control.messages import SERVICE, messages, serialize
from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.p4 import compile_program
from nicemu.pipeline import DigestConfig, Engine, Optional, Program

pytestmark = pytest.mark.process

TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def program() -> Program:
    path = Path(__file__).parents[1] / "unit" / "control" / "switch.p4"
    return compile_program(path).program


@pytest.fixture
def engine(program: Program) -> Engine:
    engine = Engine()
    engine.load(program)
    return engine


@pytest.fixture
def client(engine: Engine, tmp_path: Path) -> Iterator[P4RuntimeClient]:
    server = P4RuntimeServer({1: engine}, f"unix:{tmp_path}/nic.sock")
    with P4RuntimeClient(server.start()) as client:
        yield client
    server.stop()


def test_packets_come_with_their_metadata_and_go(client: P4RuntimeClient, engine: Engine) -> None:
    client.insert("port", {"flow": 5}, "punt", priority=1)
    engine.process(b"\5\0rest", 7)
    assert client.receive(TIMEOUT_S) == ReceivedPacket(b"\5\0rest", {"ingress_port": 7, "unused": 0})
    client.send_packet(bytes([0x03, 0x81, 5, 0]) + b"rest", {"egress_port": 510, "unused": 0})
    assert client.receive(TIMEOUT_S) == ReceivedPacket(b"\5\0rest", {"ingress_port": 7, "unused": 1})
    assert client.receive(0) is None


def test_a_packet_that_is_dropped_is_told_of(client: P4RuntimeClient) -> None:
    with pytest.raises(UsageError, match="egress_port, unused"):
        client.send_packet(b"rest", {"egress_port": 1})
    client.send_packet(bytes(10_000), {"egress_port": 1, "unused": 0})
    with pytest.raises(ControlError, match="9216 are allowed") as refused:
        client.receive(TIMEOUT_S)
    assert refused.value.code is P4RuntimeCode.INVALID_ARGUMENT


def test_digests_come_in_lists_and_again_once_acknowledged(client: P4RuntimeClient, engine: Engine) -> None:
    client.insert("port", {"flow": 5}, "learn", priority=1)
    client.send_digests("learn_t", DigestConfig(max_timeout_ns=1_000_000, ack_timeout_ns=10**12))
    engine.process(b"\5\0", 7)
    first = client.receive(TIMEOUT_S)
    assert isinstance(first, ReceivedDigests)
    assert (first.name, first.values) == ("learn_t", ({"flow": 5, "port": 7},))
    engine.process(b"\5\0", 7)
    engine.process(b"\5\0", 8)
    second = client.receive(TIMEOUT_S)
    assert isinstance(second, ReceivedDigests)
    assert second.values == ({"flow": 5, "port": 8},)
    client.acknowledge(first)
    client.send_packet(bytes(10_000), {"egress_port": 1, "unused": 0})
    with pytest.raises(ControlError):  # the answer to it says that the acknowledgement has been read
        client.receive(TIMEOUT_S)
    engine.process(b"\5\0", 7)
    third = client.receive(TIMEOUT_S)
    assert isinstance(third, ReceivedDigests)
    assert third.values == first.values
    client.send_digests("learn_t", None)


def test_idle_entries_are_told_of(client: P4RuntimeClient, engine: Engine) -> None:
    update = Update("insert", "port", {"flow": 5}, "drop", priority=1, idle_timeout_ns=1_000)
    client.write([update])
    engine.tick(1_000)
    assert client.receive(TIMEOUT_S) == ReceivedIdle((IdleEntry("I.port", (Optional(5),), 1),))


def test_who_is_primary_no_longer_is_told_and_may_be_again(engine: Engine, tmp_path: Path) -> None:
    with (
        P4RuntimeServer({1: engine}, f"unix:{tmp_path}/nic.sock"),
        P4RuntimeClient(f"unix:{tmp_path}/nic.sock", election_id=5) as client,
    ):
        with (
            P4RuntimeClient(f"unix:{tmp_path}/nic.sock", election_id=6),
            pytest.raises(ControlError, match="election id 5 is not the primary of device 1: 6 is"),
        ):
            client.receive(TIMEOUT_S)
        with pytest.raises(ControlError, match="6 is the highest that the server has seen"):
            client.receive(0)
        client.arbitrate(7)
        client.insert("port", {"flow": 5}, "punt", priority=1)
        engine.process(b"\5\0rest", 7)
        assert isinstance(client.receive(TIMEOUT_S), ReceivedPacket)


def test_a_client_with_a_role_of_its_own_takes_nobodys_place(engine: Engine, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/nic.sock"
    with P4RuntimeServer({1: engine}, address), P4RuntimeClient(address, election_id=5) as client:
        with P4RuntimeClient(address, role="tools") as other:
            other.insert("port", {"flow": 5}, "punt", priority=1)
        engine.process(b"\5\0rest", 7)
        assert isinstance(client.receive(TIMEOUT_S), ReceivedPacket)
        client.delete("port", {"flow": 5}, priority=1)


def test_a_batch_that_another_primary_cuts_short_tells_how_much_was_applied(
    client: P4RuntimeClient, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates = [Update("insert", "port", {"flow": n % 16}, "drop", priority=1) for n in range(2_500)]
    write_part = client._write_part
    parts: list[Sequence[Any]] = []
    with P4RuntimeClient(f"unix:{tmp_path}/nic.sock", at_once=False) as other:

        def cut_short(part: Sequence[Any]) -> None:
            if len(parts) == 1:
                other.arbitrate()
            parts.append(part)
            write_part(part)

        monkeypatch.setattr(client, "_write_part", cut_short)
        with pytest.raises(ControlError, match=r"is; 16 of 2500 updates were applied before") as refused:
            client.write(updates)
    assert refused.value.code is P4RuntimeCode.PERMISSION_DENIED
    assert len(engine.read("I.port")) == 16


def test_clients_with_passing_roles_write_at_the_same_time(
    client: P4RuntimeClient, engine: Engine, tmp_path: Path
) -> None:
    def write(start: int) -> None:
        for number in range(start, start + 4):
            with P4RuntimeClient(f"unix:{tmp_path}/nic.sock", role=passing_role()) as other:
                other.insert("port", {"flow": number}, "drop", priority=1)

    with ThreadPoolExecutor(4) as clients:
        list(clients.map(write, range(0, 16, 4)))
    client.delete("port", {"flow": 0}, priority=1)
    assert len(engine.read("I.port")) == 15


def test_a_stream_that_the_server_ends_is_told_of_from_then_on() -> None:
    def stream(requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        next(requests)
        yield serialize(messages().StreamMessageResponse(arbitration={"device_id": 1}))

    handler = grpc.stream_stream_rpc_method_handler(stream)
    server = grpc.server(
        ThreadPoolExecutor(1),
        handlers=[grpc.method_handlers_generic_handler(SERVICE, {"StreamChannel": handler})],
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    connection = Connection(f"127.0.0.1:{port}", TIMEOUT_S)
    connection.arbitrate(1, 5)
    for _ in range(2):
        with pytest.raises(ControlError, match="has ended the stream"):
            connection.receive(None)
    connection.close()
    server.stop(None).wait()
