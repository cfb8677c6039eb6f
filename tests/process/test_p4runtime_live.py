# SPDX-License-Identifier: Apache-2.0
"""P4Runtime on a NIC that runs: its pipeline belongs to a thread of its own, and frames come in between."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nicemu.control import P4RuntimeClient, ReceivedDigests, ReceivedIdle, ReceivedPacket, Update
from nicemu.errors import ControlError
from nicemu.p4 import compile_program
from nicemu.pipeline import DigestConfig
from nicemu.run import Instance, ask
from nicemu.run.late_engine import FRAMES_INTERPRETED
from tests.process.live_nics import live_nics, statistics

pytestmark = pytest.mark.process

TIMEOUT_S = 20.0
COMPILED_S = 90.0
SWITCH = Path(__file__).parents[1] / "unit" / "control" / "switch.p4"
ONE_NIC = """
[nic.compute0]
p4 = "p4/kvmatch.p4"
firmware = "firmware/kv_requestor.py"
memory = "2 MiB"
"""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """A topology of one NIC."""
    folder = tmp_path_factory.mktemp("nic")
    topology = folder / "one.toml"
    topology.write_text(ONE_NIC)
    with live_nics("p4runtime", folder, topology) as instance:
        yield instance


@pytest.fixture
def client(instance: Instance) -> Iterator[P4RuntimeClient]:
    """The primary of the NIC, which runs switch.p4."""
    (nic,) = instance.nics
    with P4RuntimeClient(nic.p4runtime, timeout_s=TIMEOUT_S) as client:
        client.load(compile_program(SWITCH).program.to_json())
        yield client


def test_a_packet_goes_through_the_nic_and_comes_back(client: P4RuntimeClient) -> None:
    client.send_packet(b"\0\1\5\0rest", {"egress_port": 510, "unused": 0})
    assert client.receive(TIMEOUT_S) == ReceivedPacket(b"\5\0rest", {"ingress_port": 0, "unused": 1})


def test_registers_of_a_running_nic_are_written_and_read(client: P4RuntimeClient) -> None:
    client.objects.write_register("last", 3, 7)
    assert [place.value for place in client.objects.read("last")][:4] == [0, 0, 0, 7]


def test_an_entry_of_a_running_nic_is_idle_after_its_timeout(client: P4RuntimeClient) -> None:
    before = time.monotonic()
    client.write([Update("insert", "port", {"flow": 5}, "drop", priority=1, idle_timeout_ns=50_000_000)])
    found = client.receive(TIMEOUT_S)
    assert isinstance(found, ReceivedIdle)
    assert time.monotonic() - before >= 0.05


def test_a_long_batch_fills_a_table_of_a_running_nic(client: P4RuntimeClient) -> None:
    client.objects.set_member("profile", 1, "send", {"port": 1})
    entries = [Update("insert", "way", {"flow": flow}, choice=None, action="send") for flow in range(2)]
    with pytest.raises(ControlError, match="2 of 2 updates failed"):
        client.write(entries)
    client.write([Update("insert", "port", {"flow": flow}, "drop", priority=1) for flow in range(16)])
    assert len(client.read("port", hits=True)) == 16


def test_what_nobody_takes_is_counted(client: P4RuntimeClient, instance: Instance) -> None:
    client.send_digests("learn_t", DigestConfig(max_list_size=1))
    client.send_packet(b"\0", {"egress_port": 510, "unused": 0})
    assert not isinstance(client.receive(0.2), ReceivedDigests)
    assert statistics(instance.nics[0])["pipeline.no_packet_in_header"] == 1


def test_a_program_that_meets_many_packets_is_compiled_and_goes_on_with_what_it_holds(
    client: P4RuntimeClient, instance: Instance
) -> None:
    (nic,) = instance.nics
    client.objects.write_register("last", 3, 7)
    deadline = time.monotonic() + COMPILED_S
    rounds = 0
    while because := ask(nic, "describe")["interpreted_because"]:
        assert time.monotonic() < deadline, because
        for _ in range(FRAMES_INTERPRETED // 2):
            client.send_packet(b"\0\1\5\0rest", {"egress_port": 510, "unused": 0})
            assert client.receive(TIMEOUT_S) == ReceivedPacket(b"\5\0rest", {"ingress_port": 0, "unused": 1})
        rounds += 1
    assert rounds >= 2
    client.send_packet(b"\0\1\5\0rest", {"egress_port": 510, "unused": 0})
    assert client.receive(TIMEOUT_S) == ReceivedPacket(b"\5\0rest", {"ingress_port": 0, "unused": 1})
    assert client.objects.read("last")[3].value == 7


def test_a_nic_is_found_at_the_address_that_its_topology_names_too(tmp_path: Path) -> None:
    """There are controllers that take no socket file. Whoever comes, it is one device with one primary."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (tmp_path / "one.toml").write_text(f'{ONE_NIC}p4runtime = "{address}"\n')
    with (
        live_nics("p4runtime-tcp", tmp_path, tmp_path / "one.toml") as instance,
        P4RuntimeClient(address, timeout_s=TIMEOUT_S, election_id=5) as primary,
    ):
        primary.load(compile_program(SWITCH).program.to_json())
        other = P4RuntimeClient(instance.nics[0].p4runtime, timeout_s=TIMEOUT_S, election_id=4)
        with pytest.raises(ControlError, match="4 is not the primary of device 1: 5 is the highest"), other:
            pass
        with P4RuntimeClient(instance.nics[0].p4runtime, timeout_s=TIMEOUT_S, election_id=6) as other:
            assert other.p4info().program == "switch"
