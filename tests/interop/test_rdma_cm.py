# SPDX-License-Identifier: Apache-2.0
"""Our connection management and the kernel's, by rping, which both sides have."""

from __future__ import annotations

import time

import pytest

from nicemu.cm import CmState
from nicemu.errors import ProtocolError
from nicemu.fabric import RoceEndpoint
from nicemu.testing import PeerServer, RpingClient, RpingServer
from nicemu.wire import FrameBatch, Rep, UdFrame, decode_cm_message, is_for_gsi

from .conftest import Machine
from .programs import serve_while
from .world import OUR_IP, PEER_IP

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.mark.parametrize("options", ["", "-q", "-S 20000"], ids=["plain", "own queue pair", "20,000 bytes"])
def test_rping_connects_pings_and_disconnects(machine: Machine, nic: RoceEndpoint, options: str) -> None:
    rping = RpingServer(nic)
    server = PeerServer(nic, [rping])
    (result,) = serve_while(server, machine.guest, f"rping -c -a {OUR_IP} -C 20 -V {options}")
    assert result.status == 0, result.errors
    assert rping.totals.problems == []
    assert rping.totals.clients == 1
    assert rping.totals.operations == 40
    assert rping.totals.moved_bytes == 40 * (20_000 if "-S" in options else 64)


def test_several_clients_are_served_at_once(machine: Machine, nic: RoceEndpoint) -> None:
    rping = RpingServer(nic)
    commands = [f"rping -c -a {OUR_IP} -C 10 -V"] * 3
    results = serve_while(PeerServer(nic, [rping]), machine.guest, *commands)
    assert [result.status for result in results] == [0, 0, 0]
    assert rping.totals.problems == []
    assert (rping.totals.clients, rping.totals.operations) == (3, 60)


def test_a_port_that_nobody_listens_to_is_refused_at_once(machine: Machine, nic: RoceEndpoint) -> None:
    server = PeerServer(nic, [RpingServer(nic)])
    begun = time.monotonic()
    (result,) = serve_while(server, machine.guest, f"rping -c -a {OUR_IP} -p 999 -C 1")
    assert result.status != 0
    assert "RDMA_CM_EVENT_REJECTED, error 8" in result.errors  # invalid service ID
    assert time.monotonic() - begun < 10


def test_a_client_that_is_killed_leaves_no_connection(machine: Machine, nic: RoceEndpoint) -> None:
    rping = RpingServer(nic)
    server = PeerServer(nic, [rping])
    (result,) = serve_while(server, machine.guest, f"timeout -s KILL 2 rping -c -a {OUR_IP} -V")
    assert result.status == 137
    assert rping.totals.clients == 1
    assert rping.totals.operations > 0
    states = {connection.state for connection in nic.cm.connections()}
    assert states <= {CmState.TIMEWAIT}


def test_a_response_that_is_lost_is_sent_again(machine: Machine, nic: RoceEndpoint) -> None:
    lost: list[bytes] = []
    sends = machine.port.send_batch

    def send_batch(batch: FrameBatch, first: int = 0) -> int:
        kept: list[bytes] = []
        frames = batch.frames(first)
        for frame in frames:
            is_rep = is_for_gsi(frame) and isinstance(
                decode_cm_message(UdFrame.decode(frame).payload)[1], Rep
            )
            (lost if is_rep and not lost else kept).append(frame)
        remaining = FrameBatch()
        assert remaining.fill(kept) == len(kept)
        return sends(remaining) + len(frames) - len(kept)

    machine.port.send_batch = send_batch  # type: ignore[method-assign]
    try:
        rping = RpingServer(nic)
        server = PeerServer(nic, [rping])
        (result,) = serve_while(server, machine.guest, f"rping -c -a {OUR_IP} -C 2 -V")
    finally:
        del machine.port.send_batch
    assert len(lost) == 1
    assert result.status == 0, result.errors
    assert (rping.totals.operations, rping.totals.problems) == (4, [])


def test_we_connect_to_a_server_of_the_kernels_ping_and_disconnect(
    machine: Machine, nic: RoceEndpoint
) -> None:
    process = machine.guest.start(f"rping -s -a {PEER_IP} -v -S 5000")
    client = connected(nic)
    for length in (64, 64, 5000):
        client.ping(length)
    client.close()
    result = process.wait(20.0)
    assert result.status == 0, result.errors
    assert result.output.count("server ping data: rdma-ping-") == 3
    assert "server DISCONNECT EVENT" in result.errors


def connected(nic: RoceEndpoint) -> RpingClient:
    """Connect to a server that says nothing when it begins to listen."""
    end = time.monotonic() + 30.0
    while True:
        try:
            return RpingClient(nic, PEER_IP, limit_s=20.0)
        except ProtocolError as refused:
            if "INVALID_SERVICE_ID" not in str(refused) or time.monotonic() > end:
                raise


def test_the_kernel_refuses_us_where_nobody_listens(machine: Machine, nic: RoceEndpoint) -> None:
    with pytest.raises(
        ProtocolError, match=rf"port 999 of {PEER_IP} makes no connection: INVALID_SERVICE_ID"
    ):
        RpingClient(nic, PEER_IP, 999, limit_s=20.0)
