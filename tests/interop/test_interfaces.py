# SPDX-License-Identifier: Apache-2.0
"""A NIC of ours on an interface of this machine, and the kernel's rxe, unmodified, behind that interface.

The guest's link ends at one end of a veth pair, in a network namespace made for the test; the NIC is on the
other end, over AF_PACKET or AF_XDP, or behind a TAP interface.
"""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nicemu.fabric import Cable, PacketPort, Port, RoceEndpoint, TapPort, XdpPort
from nicemu.testing import PeerServer, PerftestServer, RpingServer
from tests.network_namespace import in_network_namespace, quiet_tap, until_up, veth_pair

from .conftest import Machine
from .programs import serve_while
from .test_perftest import UNEVEN_CLOCK
from .test_rdma_cm import connected
from .world import OUR_IP, PEER_IP

pytestmark = [pytest.mark.interop, pytest.mark.slow]
NAP_S = 0.001
TURNS = 5
Ends = tuple[Port, Port]


def on_veth(port: Callable[[str], Port]) -> Ends:
    """Return a port at one end of a veth pair, and one that the guest's cable ends at, at the other."""

    def make() -> Ends:
        until_up("here", "there")
        return port("here"), PacketPort("there")

    return in_network_namespace(veth_pair(), make)


def on_tap() -> Ends:
    """Return the port behind a TAP interface, and one on that interface."""

    def make() -> Ends:
        behind = TapPort("nic")
        until_up("nic")
        return behind, PacketPort("nic")

    return in_network_namespace(quiet_tap("nic"), make)


@contextmanager
def joined(guest: Port, interface: Port) -> Iterator[None]:
    """Carry frames between a guest's link and an interface."""
    cable, is_over = Cable(guest, interface), threading.Event()

    def carry() -> None:
        while not is_over.is_set():
            select.select(cable.filenos(), [], [], NAP_S if cable.waits else 10 * NAP_S)
            cable.receive()

    thread = threading.Thread(target=carry, name="cable")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.fixture(params=["packet", "xdp", "tap"])
def on_interface(machine: Machine, request: pytest.FixtureRequest) -> Iterator[tuple[RoceEndpoint, Port]]:
    """A NIC on an interface, behind which the guest is, and its port."""
    while machine.port.receive():
        pass
    kinds: dict[str, Callable[[], Ends]] = {
        "packet": lambda: on_veth(PacketPort),
        "xdp": lambda: on_veth(XdpPort),
        "tap": on_tap,
    }
    port, far = kinds[request.param]()
    try:
        with joined(machine.port, far), RoceEndpoint(port, OUR_IP) as nic:
            yield nic, port
    finally:
        far.close()


def test_rxe_behind_an_interface_finds_our_nic_connects_pings_and_disconnects(
    machine: Machine, on_interface: tuple[RoceEndpoint, Port]
) -> None:
    nic, port = on_interface
    rping = RpingServer(nic)
    machine.guest.run(f"ip neighbour flush to {OUR_IP}").checked()  # so that it asks
    (result,) = serve_while(
        PeerServer(nic, [rping]), machine.guest, f"rping -c -a {OUR_IP} -C 20 -V -S 20000"
    )
    assert result.status == 0, result.errors
    assert rping.totals.problems == []
    assert (rping.totals.clients, rping.totals.moved_bytes) == (1, 40 * 20_000)
    assert set(nic.drops) <= {"ethernet.ethertype"}, "IPv6, which the guest says to all"
    assert not port.drops


def test_our_nic_on_an_interface_finds_rxe_behind_it_connects_pings_and_disconnects(
    machine: Machine, on_interface: tuple[RoceEndpoint, Port]
) -> None:
    nic, _ = on_interface
    process = machine.guest.start(f"rping -s -a {PEER_IP} -v -S 5000")
    try:
        client = connected(nic)
        for length in (64, 5000):
            client.ping(length)
        client.close()
        result = process.wait(20.0)
    finally:
        process.signal(signal.SIGKILL)
    assert result.status == 0, result.errors
    assert result.output.count("server ping data: rdma-ping-") == 2


@pytest.mark.parametrize(
    ("program", "size", "count"),
    [("ib_write_bw", 1 << 20, 5), ("ib_read_bw", 60_000, 20), ("ib_send_bw", 5000, 50)],
)
def test_perftest_on_rxe_writes_reads_and_sends_through_an_interface(
    machine: Machine, on_interface: tuple[RoceEndpoint, Port], program: str, size: int, count: int
) -> None:
    nic, port = on_interface
    for _ in range(TURNS):
        perftest = PerftestServer(nic, program)
        command = f"{program} -R -n {count} -s {size} {OUR_IP}"
        (result,) = serve_while(PeerServer(nic, [perftest]), machine.guest, command)
        nic.cm.stop_listening(perftest.port)
        if not (result.status and UNEVEN_CLOCK in result.errors):
            break
    assert result.status == 0, result.output + result.errors
    assert perftest.totals.problems == []
    assert (perftest.totals.operations, perftest.totals.moved_bytes) == (count, count * size)
    assert not [reason for reason in port.drops if "length" in reason or "MSGSIZE" in reason]
