# SPDX-License-Identifier: Apache-2.0
"""The programs of perftest, unmodified, with a NIC of ours as their server."""

from __future__ import annotations

import signal
import time

import pytest

from nicemu.errors import ProtocolError
from nicemu.fabric import RoceEndpoint
from nicemu.testing import PeerServer, PerftestClient, PerftestServer
from nicemu.testing.peers.application import Totals
from nicemu.testing.peers.perftest import LATENCY_BYTES

from .conftest import Machine
from .programs import serve_while
from .world import OUR_IP, PEER_IP

pytestmark = [pytest.mark.interop, pytest.mark.slow]
TURNS = 5
UNEVEN_CLOCK = "Correlation coefficient"


def run(machine: Machine, nic: RoceEndpoint, program: str, options: str) -> Totals:
    """Run a program in the guest against a server of ours; return what the server saw.

    Before it reports, perftest measures how fast the processor's cycles are, and fails where that is not even
    (`Correlation coefficient`), as it happens on an emulated one: then it has its turn again.
    """
    for _ in range(TURNS):
        words = options.split()
        size_bytes = int(words[words.index("-s") + 1]) if "-s" in words else LATENCY_BYTES
        perftest = PerftestServer(nic, program, size_bytes=size_bytes)
        (result,) = serve_while(
            PeerServer(nic, [perftest]), machine.guest, f"{program} -R {options} {OUR_IP}"
        )
        nic.cm.stop_listening(perftest.port)
        if not (result.status and UNEVEN_CLOCK in result.errors):
            break
    assert result.status == 0, result.output + result.errors
    return perftest.totals


@pytest.mark.parametrize(
    ("program", "options", "operations", "moved_bytes"),
    [
        ("ib_write_bw", "-n 100 -s 4096", 100, 409_600),
        ("ib_write_bw", "-n 5 -s 1048576", 5, 5_242_880),
        ("ib_write_bw", "-n 20 -s 3000 -q 3", 60, 180_000),
        ("ib_read_bw", "-n 100 -s 5000", 100, 500_000),
        ("ib_send_bw", "-n 100 -s 5000", 100, 500_000),
        ("ib_atomic_bw", "-n 100", 100, 800),
        ("ib_atomic_bw", "-n 100 -A CMP_AND_SWAP", 100, 800),
        ("ib_send_lat", "-n 50 -s 300", 50, 15_000),
        ("ib_read_lat", "-n 50 -s 300", 50, 15_000),
        ("ib_write_lat", "-n 300", 300, 600),
        ("ib_write_lat", "-n 50 -s 9000", 50, 450_000),
        ("ib_atomic_lat", "-n 50", 50, 400),
    ],
)
def test_a_program_of_perftest_runs_against_our_nic(
    machine: Machine, nic: RoceEndpoint, program: str, options: str, operations: int, moved_bytes: int
) -> None:
    totals = run(machine, nic, program, options)
    assert totals.problems == []
    assert totals.clients == 1
    assert totals.operations == operations
    assert totals.moved_bytes == moved_bytes


def test_one_program_after_the_other_is_served(machine: Machine, nic: RoceEndpoint) -> None:
    for program in ("ib_write_bw", "ib_read_bw"):
        totals = run(machine, nic, program, "-n 10")
        assert totals.moved_bytes == 10 * 65_536


@pytest.mark.parametrize(
    ("program", "size"), [("ib_write_bw", 5000), ("ib_read_bw", 5000), ("ib_atomic_bw", 8)]
)
def test_our_nic_is_the_client_of_a_program_of_perftest(
    machine: Machine, nic: RoceEndpoint, program: str, size: int
) -> None:
    options = "" if program == "ib_atomic_bw" else f"-s {size}"
    process = machine.guest.start(f"{program} -R -n 100 {options} -F")
    try:
        assert connected(nic, program).run(100, size) > 0
        result = process.wait(20.0)
    finally:
        process.signal(signal.SIGKILL)
    assert result.status == 0, result.output + result.errors
    (row,) = [line for line in result.output.splitlines() if line.split()[:2] == [str(size), "100"]]
    assert float(row.split()[3]) >= 0  # what our client has reported


def connected(nic: RoceEndpoint, program: str) -> PerftestClient:
    """Connect to a server that says nothing that we could wait for when it begins to listen."""
    end = time.monotonic() + 30.0
    while True:
        try:
            return PerftestClient(nic, PEER_IP, program, limit_s=20.0)
        except ProtocolError as refused:
            if "INVALID_SERVICE_ID" not in str(refused) or time.monotonic() > end:
                raise
