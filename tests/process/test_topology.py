# SPDX-License-Identifier: Apache-2.0
"""Bringing a topology up and down: what refuses to start and why, who may touch it, what it records."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.utils import rdpcap

from nicemu.errors import NicemuError, UsageError
from nicemu.host import open_nic
from nicemu.run import Instance, create_namespace_file
from tests.process.live_nics import TOPOLOGY, LiveHost, eventually, live_nics, unique_name

pytestmark = pytest.mark.process

ONE_STORAGE_NIC = """
name = "one_storage_nic"

[nic.storage0]
p4 = "p4/kvserve.p4"
firmware = "firmware/kv_storage.py"

[[nic.storage0.namespace]]
nsid = 1
path = "storage0.nvme"
size = "1 MiB"
create = {create}
"""
SESSION = b"1" * 16


def runs_of(name: str) -> list[str]:
    """Processes whose command line names a topology's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"/{name}/" in command:
            found.append(command)
    return found


def refuse(tmp_path: Path, create: bool = False) -> str:
    """Try to start one storage NIC; return what it is refused with, after seeing that nothing is left."""
    topology = tmp_path / "topology.toml"
    topology.write_text(ONE_STORAGE_NIC.format(create=str(create).lower()))
    name = unique_name("refused")
    with pytest.raises(NicemuError) as refused:
        Instance.start(topology, data=tmp_path, name=name)
    assert eventually(lambda: runs_of(name) == [])
    return str(refused.value)


def test_a_namespace_file_that_is_missing_is_named(tmp_path: Path) -> None:
    message = refuse(tmp_path)
    assert str(tmp_path / "storage0.nvme") in message
    assert "does not exist; create it: with `create = true` in the topology file" in message


def test_a_namespace_file_that_is_too_small_is_refused_with_both_sizes(tmp_path: Path) -> None:
    create_namespace_file(tmp_path / "storage0.nvme", 4096)
    message = refuse(tmp_path, create=True)
    assert "has 4096 bytes, the namespace needs 1048576" in message


def test_a_namespace_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "storage0.nvme"
    if os.getuid() == 0:  # who may write every file: something that nobody can write blocks to
        path.mkdir()
    else:
        create_namespace_file(path, 1 << 20)
        path.chmod(0o400)
    message = refuse(tmp_path)
    assert str(path) in message
    assert "directory" in message or "cannot be opened for reading and writing" in message


def test_a_namespace_file_that_another_topology_uses_is_refused(tmp_path: Path) -> None:
    topology = tmp_path / "topology.toml"
    topology.write_text(ONE_STORAGE_NIC.format(create="true"))
    with live_nics("first", tmp_path, topology):
        message = refuse(tmp_path)
    assert "is in use by another namespace" in message


def test_a_program_or_script_with_an_error_keeps_the_topology_down(tmp_path: Path) -> None:
    (tmp_path / "broken.p4").write_text("#include <core.p4>\ncontrol {")
    text = ONE_STORAGE_NIC.format(create="true")
    topology = tmp_path / "topology.toml"
    topology.write_text(text.replace("p4/kvserve.p4", str(tmp_path / "broken.p4")))
    name = unique_name("broken")
    with pytest.raises(NicemuError, match=r"broken\.p4"):
        Instance.start(topology, data=tmp_path, name=name)
    assert eventually(lambda: runs_of(name) == [])


def test_a_running_topology_is_its_owners_alone_and_is_not_started_twice(tmp_path: Path) -> None:
    topology = tmp_path / "topology.toml"
    topology.write_text(ONE_STORAGE_NIC.format(create="true"))
    with live_nics("twice", tmp_path, topology) as instance:
        with pytest.raises(UsageError, match=r"is up already; stop it with `nicemu down`"):
            Instance.start(topology, data=tmp_path, name=instance.folder.name)
        assert instance.nics[0].socket.exists(), "the second start has taken the first one's folder away"
        for folder in (instance.folder, instance.folder.parent):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        sockets = [path for path in instance.folder.iterdir() if path.is_socket()]
        assert len(sockets) == 2  # control and P4Runtime
        assert {stat.S_IMODE(path.stat().st_mode) for path in sockets} == {0o600}
        with open_nic(instance.nics[0].socket) as nic:
            assert nic.counters("one")[0].read() == (0, 0)


def test_up_status_and_down_from_the_command_line(tmp_path: Path) -> None:
    topology = tmp_path / "topology.toml"
    name = unique_name("cli")
    topology.write_text(ONE_STORAGE_NIC.format(create="true").replace("one_storage_nic", name))
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}

    def nicemu(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "nicemu", *words]
        return subprocess.run(
            command, env=environment, check=False, capture_output=True, text=True, timeout=120
        )

    try:
        assert nicemu("up", str(topology)).returncode == 0
        second = nicemu("up", str(topology))
        assert second.returncode == 1
        assert f"topology {name} is up already" in second.stderr
        assert "Traceback" not in second.stderr
        told = json.loads(nicemu("status", "--json").stdout)
        assert [nic["nic"] for nic in told if nic["topology"] == name] == ["storage0"]
    finally:
        stopped = nicemu("down", str(topology))
    assert stopped.returncode == 0
    assert "stopped storage0" in stopped.stdout
    assert eventually(lambda: runs_of(name) == [])
    again = nicemu("down", str(topology))
    assert (again.returncode, again.stderr) == (1, f"Error: topology {name} is not up\n")


def test_captures_and_traces_say_what_happened(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    captures = tmp_path / "captures"
    with live_nics("recorded", tmp_path, TOPOLOGY, fabric="direct", pcap=captures, trace=trace) as instance:
        assert instance.fabric == "udp"
        assert instance.nics[0].name == "compute0"
        with LiveHost(instance) as host:
            _, data = host.leave(SESSION)
            assert host.fetch(SESSION) == data
    ports: Counter[int] = Counter()
    for path in captures.glob("*.pcap"):
        for packet in rdpcap(str(path)):
            assert IP in packet
            ports[packet[UDP].dport] += 1
    assert ports[4791] > 32, ports
    assert ports[19286] > 16, ports
    events = json.loads(trace.read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert sorted(names.values()) == ["compute0", "storage0", "storage1"]
    rows = {
        (names[event["pid"]], event["args"]["name"]) for event in events if event["name"] == "thread_name"
    }
    for nic in ("storage0", "storage1"):
        assert {(nic, block) for block in ("port", "pipeline", "firmware", "nvme", "rdma")} <= rows
    assert {("compute0", block) for block in ("port", "pipeline", "firmware", "trigger", "host")} <= rows
    assert all(event["ts"] >= 0 and event["dur"] > 0 for event in events if event["ph"] == "X")
    assert not list(tmp_path.glob("*.part"))


def test_a_runtime_folder_too_deep_for_sockets_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with pytest.raises(UsageError, match="107 are possible; set XDG_RUNTIME_DIR to a shorter path"):
        Instance.start("examples/two_storage_nodes.toml", data=tmp_path)
    assert not list((deep / "nicemu").iterdir())
