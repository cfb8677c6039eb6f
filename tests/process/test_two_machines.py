# SPDX-License-Identifier: Apache-2.0
"""A topology whose NICs have addresses of their own, started in two parts as on two machines.

The parts share nothing but the topology file, the key and the network: each has runtime and data folders of
its own.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from nicemu.errors import NicemuError, UsageError
from nicemu.host import open_nic
from nicemu.run import Instance

from .live_nics import LiveHost, eventually, live_nics, statistics, unique_name

pytestmark = pytest.mark.process

NICS = """
[nic.compute0]
p4 = "p4/kvmatch.p4"
firmware = "firmware/kv_requestor.py"
peers = ["storage0", "storage1"]
address = "{subnet}.1"
"""
STORAGE = """
[nic.storage{number}]
p4 = "p4/kvserve.p4"
firmware = "firmware/kv_storage.py"
address = "{subnet}.{host}"

[[nic.storage{number}.namespace]]
nsid = 1
path = "storage{number}.nvme"
size = "64 MiB"
create = true
"""


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    numbers = random.SystemRandom()
    subnet = f"127.{numbers.randrange(16, 240)}.{numbers.randrange(1, 255)}"
    text = 'fabric = "udp"\nkey_file = "cluster.key"\n' + NICS.format(subnet=subnet)
    text += "".join(STORAGE.format(number=number, host=number + 2, subnet=subnet) for number in (0, 1))
    path = tmp_path / "two_machines.toml"
    path.write_text(text)
    write_key(tmp_path / "cluster.key", b"0123456789abcdef0123456789abcdef")
    return path


def write_key(path: Path, key: bytes) -> None:
    path.write_bytes(key)
    path.chmod(0o600)


@pytest.fixture
def machines(tmp_path: Path, topology: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        yield stack


def start(stack: ExitStack, monkeypatch: pytest.MonkeyPatch, topology: Path, *names: str) -> Instance:
    """Start a machine's NICs, with a runtime folder of their own."""
    data = topology.parent / names[0]
    data.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", stack.enter_context(TemporaryDirectory(prefix="nicemu-test-")))
    return stack.enter_context(live_nics(names[0], data, topology, only=names))


@pytest.mark.slow
def test_a_session_leaves_to_another_machine_and_comes_back(
    machines: ExitStack, topology: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = start(machines, monkeypatch, topology, "storage0", "storage1")
    compute = start(machines, monkeypatch, topology, "compute0")
    assert [nic.name for nic in storage.nics] == ["storage0", "storage1"]
    with LiveHost(compute) as host:
        session = b"\x11" * 16
        _, data = host.leave(session)
        assert host.fetch(session) == data
    assert all(statistics(nic)["dma.nvme.nic_bytes"] > 0 for nic in storage.nics)


@pytest.mark.slow
def test_the_demo_holds_with_storage_nics_on_another_machine(
    machines: ExitStack, topology: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = start(machines, monkeypatch, topology, "storage0", "storage1")
    monkeypatch.setenv("XDG_RUNTIME_DIR", machines.enter_context(TemporaryDirectory(prefix="nicemu-test-")))
    command = [sys.executable, "-m", "nicemu", "demo", "--topology", str(topology), "--nic", "compute0"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=300, check=False)
    report = json.loads(done.stdout or "{}")
    # a host's processor time is told apart from the work of others where the machine is its own
    held = {claim: is_so for claim, is_so in report["held"].items() if "at most 1 ms" not in claim}
    assert len(held) >= 12, done.stderr
    assert all(held.values()), held
    assert all(statistics(nic)["dma.nvme.nic_bytes"] > 0 for nic in storage.nics)


@pytest.mark.slow
def test_a_machine_with_another_key_is_refused_and_may_try_again(
    machines: ExitStack, topology: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = start(machines, monkeypatch, topology, "storage0", "storage1")
    write_key(topology.parent / "cluster.key", b"fedcba9876543210fedcba9876543210")
    compute = start(machines, monkeypatch, topology, "compute0")
    with (
        open_nic(compute.nics[0].socket) as nic,
        pytest.raises(NicemuError, match="storage0 does not answer"),
    ):
        nic.connect("storage0", slot_count=1, slot_bytes=4096)
    assert eventually(lambda: statistics(storage.nics[0]).get("peer.stranger", 0) == 1)
    assert "peer.lost" not in statistics(storage.nics[0])


def test_a_part_of_a_topology_without_addresses_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="NICs that run apart need an address each"):
        Instance.start(
            "examples/two_storage_nodes.toml", data=tmp_path, name=unique_name("apart"), only=["compute0"]
        )
