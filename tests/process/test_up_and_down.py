# SPDX-License-Identifier: Apache-2.0
"""Topologies in the background: NICs that ended are started again; `down` ends all, whatever fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest

from nicemu.errors import NicemuError, UsageError
from nicemu.run import Instance, RunningNic, ask, bring_up, known_nics, running, running_nics, take_down
from tests.process.live_nics import LAYOUT, TOPOLOGY, LiveHost, eventually, is_alive

pytestmark = pytest.mark.process

SESSION = b"1" * 16
ONE_NIC = """
[nic.storage0]
p4 = "p4/kvmatch.p4"
firmware = "firmware/kv_requestor.py"
memory = "2 MiB"
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Runtime and data folders of the test's own; afterwards nothing is up in them."""
    with TemporaryDirectory(prefix="nicemu-test-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        yield Path(folder) / "nicemu"
        with suppress(NicemuError):
            take_down(None)


def one_nic(tmp_path: Path, name: str) -> Path:
    path = tmp_path / f"{name}.toml"
    path.write_text(ONE_NIC)
    return path


def kill(nic: RunningNic) -> None:
    os.kill(nic.pid, signal.SIGKILL)
    assert eventually(lambda: nic.name not in {one.name for one in running_nics()})


def test_a_nic_that_was_killed_is_started_again_alone_and_serves_what_is_durable() -> None:
    compute, storage0, storage1 = bring_up(Path(TOPOLOGY))
    world: Any = SimpleNamespace(nics=[compute])
    with LiveHost(world) as host:
        _, data = host.leave(SESSION)
        kill(storage0)
        (ended,) = [nic for nic in known_nics() if nic.ended]
        assert ended.name == "storage0"
        with pytest.raises(UsageError, match=r"is up over direct; .* leave out --fabric"):
            bring_up(Path(TOPOLOGY), fabric="udp")
        (again,) = bring_up(Path(TOPOLOGY), only=["storage0"])
        assert (again.name, again.ip, again.ended) == ("storage0", storage0.ip, "")
        assert again.pid != storage0.pid
        assert {nic.pid for nic in running_nics()} == {compute.pid, again.pid, storage1.pid}
        for only in ([], ["storage1"]):
            with pytest.raises(UsageError, match="is up already"):
                bring_up(Path(TOPOLOGY), only=only)
        assert host.nic.connected_peers() == ["storage1"]
        host.nic.connect("storage0", slot_count=64, slot_bytes=LAYOUT.chunk_bytes)
        assert eventually(lambda: host.fetch(SESSION) == data), (
            "a NIC that is just up may be silent for a second"
        )


@pytest.mark.slow
def test_of_two_who_start_the_same_at_once_one_does_and_the_other_is_told() -> None:
    def start_twice() -> list[str]:
        command = [sys.executable, "-m", "nicemu", "up", TOPOLOGY]
        both = [subprocess.Popen(command, stdout=-3, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        told = {process.returncode: text for process in both for text in [process.communicate()[1]]}
        assert sorted(told) == [0, 1], told
        assert "topology two_storage_nodes is up already" in told[1]
        return [nic.name for nic in running_nics()]

    names = ["compute0", "storage0", "storage1"]
    assert start_twice() == names
    before = {nic.name: nic.pid for nic in running_nics()}
    for nic in running_nics()[1:]:
        kill(nic)
    assert sorted(start_twice()) == names
    after = {nic.name: nic.pid for nic in running_nics()}
    assert after["compute0"] == before["compute0"]


@pytest.mark.slow
def test_a_nic_that_cannot_be_started_again_costs_the_others_nothing(tmp_path: Path, root: Path) -> None:
    text = 'name = "two"\n' + ONE_NIC + ONE_NIC.replace("storage0", "storage1")
    text += (
        f'[[nic.storage1.namespace]]\nnsid = 1\npath = "{tmp_path}/b.nvme"\nsize = "1 MiB"\ncreate = true\n'
    )
    path = tmp_path / "two.toml"
    path.write_text(text)
    storage0, storage1 = bring_up(path)
    kill(storage1)
    (tmp_path / "b.nvme").unlink()
    path.write_text(text.replace("create = true", "create = false"))
    with pytest.raises(NicemuError, match=r"storage1 cannot start: .*b.nvme does not exist"):
        bring_up(path)
    assert [nic.pid for nic in running_nics()] == [storage0.pid]
    assert ask(storage0, "describe")["nic"] == "storage0"
    path.write_text(text)
    assert [nic.name for nic in bring_up(path)] == ["storage1"]
    assert take_down(path) == (["storage0", "storage1"], [])
    assert list(root.iterdir()) == []


def test_down_returns_when_the_processes_have_ended_those_that_hang_too(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = bring_up(one_nic(tmp_path, "first"))
    assert take_down(None) == (["storage0"], [])
    assert not is_alive(first.pid)
    monkeypatch.setattr(running, "STOP_ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(running, "STOP_TIMEOUT_S", 0.2)
    (second,) = bring_up(one_nic(tmp_path, "second"))
    os.kill(second.pid, signal.SIGSTOP)
    assert take_down(tmp_path / "second.toml") == (["storage0"], [])
    assert not is_alive(second.pid)
    assert list(root.iterdir()) == []
    with pytest.raises(UsageError, match="topology second is not up"):
        take_down(tmp_path / "second.toml")


def test_down_waits_for_the_processes_and_not_for_their_locks_alone_which_go_a_moment_before(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nic,) = bring_up(one_nic(tmp_path, "first"))
    monkeypatch.setattr(running, "is_held", lambda settings: False)
    assert take_down(None) == (["storage0"], [])
    assert not is_alive(nic.pid)


def test_what_fails_for_one_topology_does_not_keep_the_others_up(tmp_path: Path, root: Path) -> None:
    trace = tmp_path / "trace.json"
    (first,) = bring_up(one_nic(tmp_path, "first"), trace=trace)
    (second,) = bring_up(one_nic(tmp_path, "second"))
    trace.mkdir()
    with pytest.raises(
        NicemuError, match=r"stopped storage0, storage0, but first: the trace .* is not whole"
    ):
        take_down(None)
    assert not is_alive(first.pid)
    assert not is_alive(second.pid)
    assert list(root.iterdir()) == []


def test_an_instance_whose_trace_cannot_be_written_is_stopped_and_removed_all_the_same(
    tmp_path: Path, root: Path
) -> None:
    trace = tmp_path / "trace.json"
    instance = Instance.start(one_nic(tmp_path, "traced"), data=tmp_path, trace=trace)
    trace.mkdir()
    with pytest.raises(NicemuError, match=r"the trace .* is not whole: Is a directory"):
        instance.stop()
    assert not is_alive(instance.processes["storage0"].pid)
    assert list(root.iterdir()) == []
