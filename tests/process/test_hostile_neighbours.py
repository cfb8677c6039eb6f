# SPDX-License-Identifier: Apache-2.0
"""A NIC process serves everybody: what one process, packet or program does wrong costs the others nothing."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from nicemu.errors import NicemuError, UsageError
from nicemu.host import open_nic
from nicemu.p4 import compile_text
from nicemu.run import Instance, RunningNic, ask, take_down
from tests.process.live_nics import eventually, live_nics, statistics

pytestmark = pytest.mark.process

SHORT_FRAMES = """
#include <core.p4>
#include <nicemu.p4>
header ethernet_t { bit<48> destination; bit<48> source; bit<16> ethertype; }
header ipv4_t { bit<160> all; }
header udp_t { bit<64> all; }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; }
struct metadata_t {}
parser P(packet_in packet, out headers_t headers, inout metadata_t metadata, inout nic_metadata_t nic) {
    state start {
        packet.extract(headers.ethernet);
        packet.extract(headers.ipv4);
        packet.extract(headers.udp);
        transition accept;
    }
}
control C(inout headers_t headers, inout metadata_t metadata, inout nic_metadata_t nic) {
    apply { send_to_port(0); }
}
control D(packet_out packet, in headers_t headers, in metadata_t metadata, in nic_metadata_t nic) { apply {} }
SmartNic(P(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with live_nics("hostile", tmp_path_factory.mktemp("data")) as started:
        yield started


@pytest.fixture
def nic(instance: Instance) -> RunningNic:
    return instance.nics[0]


def _link(nic: RunningNic) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(5.0)
    link.connect(str(nic.socket))
    return link


@pytest.mark.parametrize(
    "message",
    [
        b"[" * 100_000,
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"op": "hello"}',
        b'{"op": "open"}',
        b'{"op": "share", "length_bytes": 4096, "kind": "gpu"}',
        b'{"op": "wake", "counter": 1, "threshold": Infinity}',
        b'{"op": "connect", "peer": "storage0", "private_data": null}',
        b'{"op": "flash", "path": 7}',
    ],
)
def test_no_message_ends_a_nic(nic: RunningNic, message: bytes) -> None:
    with _link(nic) as link:
        link.send(message)
        link.recv(1 << 18)
    assert ask(nic, "describe")["nic"] == "compute0"


def test_a_share_without_a_descriptor_is_refused_after_open(nic: RunningNic) -> None:
    with _link(nic) as link:
        link.send(json.dumps({"op": "open"}).encode())
        _, fds, _, _ = socket.recv_fds(link, 1 << 18, 8)
        for fd in fds:
            os.close(fd)
        link.send(json.dumps({"op": "share", "length_bytes": 4096, "kind": "gpu"}).encode())
        assert "error" in json.loads(link.recv(1 << 18))


def test_a_client_that_does_not_read_holds_nobody_up(nic: RunningNic) -> None:
    with _link(nic) as link:
        link.setblocking(False)
        for _ in range(2000):
            try:
                link.send(b'{"op": "describe"}')
            except OSError:
                break
        assert ask(nic, "describe")["nic"] == "compute0"


def test_an_answer_belongs_to_its_own_request(instance: Instance) -> None:
    """A request that timed out is answered late; the next request does not take that answer for its own."""
    storage = next(nic for nic in instance.nics if nic.name == "storage1")
    with open_nic(instance.nics[0].socket) as nic:
        connection: Any = nic.connection
        connection._socket.settimeout(0.3)
        os.kill(storage.pid, signal.SIGSTOP)
        try:
            with pytest.raises(NicemuError, match="does not answer"):
                nic.connect("storage1", slot_count=1, slot_bytes=4096)
        finally:
            os.kill(storage.pid, signal.SIGCONT)
        connection._socket.settimeout(20.0)
        (counter,) = nic.counters("after")
        counter.add(3)
        counter.wait(3)
        assert counter.read() == (3, 0)


def test_connections_whose_asker_has_gone_leave_no_queue_pair_at_the_peer(instance: Instance) -> None:
    compute, storage = instance.nics[0], instance.nics[2]
    message = {"op": "connect", "peer": "storage1", "private_data": {"slot_count": 1, "slot_bytes": 4096}}
    with open_nic(compute.socket) as opened:
        opened.connect("storage1", slot_count=1, slot_bytes=4096)

        def pairs_of(nic: RunningNic, peer: str) -> int:
            return len(ask(nic, "describe")["peers"][peer])

        os.kill(storage.pid, signal.SIGSTOP)
        try:
            for _ in range(20):
                with _link(compute) as link:
                    link.send(b'{"op": "open"}')
                    for fd in socket.recv_fds(link, 1 << 18, 8)[1]:
                        os.close(fd)
                    link.send(json.dumps(message).encode())
                    assert eventually(lambda: pairs_of(compute, "storage1") == 2)
                assert eventually(lambda: pairs_of(compute, "storage1") == 1)
        finally:
            os.kill(storage.pid, signal.SIGCONT)
        with open_nic(compute.socket) as later:  # its offer is answered after all of theirs
            later.connect("storage1", slot_count=1, slot_bytes=4096)
            assert eventually(lambda: pairs_of(storage, "compute0") == 2)
    assert eventually(lambda: pairs_of(storage, "compute0") == 0)


def test_a_frame_too_short_for_a_port_is_a_counted_drop(nic: RunningNic, tmp_path: Path) -> None:
    from nicemu.control import P4RuntimeClient

    with P4RuntimeClient(nic.p4runtime) as client:
        before = client.program_json()
        client.load(compile_text(SHORT_FRAMES, "short.p4").program.to_json())
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as user:
                user.sendto(b"hello", (nic.ip, 19286))
            assert eventually(lambda: statistics(nic).get("port.frame_length", 0) == 1)
        finally:
            client.load(before)


def test_a_host_cannot_transmit_what_no_port_carries(nic: RunningNic) -> None:
    with open_nic(nic.socket) as opened:
        for frame in (b"", b"abc", bytes(3000)):
            with pytest.raises(UsageError, match="the transmit ring takes"):
                opened.transmit(frame)


def test_counts_and_thresholds_are_unsigned_numbers(nic: RunningNic) -> None:
    with open_nic(nic.socket) as opened:
        (counter,) = opened.counters("numbers")
        for refused in (-1, 1 << 64, 1.5):
            with pytest.raises(UsageError):
                counter.add(refused)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            counter.wait(math.inf)  # type: ignore[arg-type]
        with opened.program("p") as program, pytest.raises(UsageError):
            program.when(counter >= 1.9).add(counter)  # type: ignore[operator]
        assert counter.read() == (0, 0)


def test_a_wait_on_a_counter_with_errors_wakes_when_the_successes_come(nic: RunningNic) -> None:
    with open_nic(nic.socket) as opened:
        counter, other = opened.counters("errors", "other")
        counter.add(1, errors=5)
        with opened.program("p") as program:
            program.when(other >= 1).add(counter, 1)
        program.arm()
        other.add(1)
        counter.wait(2, timeout_s=5.0)
        assert counter.read() == (2, 5)


def test_a_closed_nic_is_refused_with_a_sentence(nic: RunningNic) -> None:
    opened = open_nic(nic.socket)
    opened.close()
    opened.close()
    with pytest.raises(UsageError, match="closed"):
        opened.counters("late")


def test_down_leaves_alone_what_a_program_runs_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a runtime folder of its own, so that it cannot take down what somebody has up."""
    with TemporaryDirectory(prefix="nicemu-test-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        with live_nics("down", tmp_path / "data") as started:
            with pytest.raises(UsageError, match="no topology is up"):
                take_down(None)
            assert ask(started.nics[0], "describe")["nic"] == "compute0"
