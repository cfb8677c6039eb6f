# SPDX-License-Identifier: Apache-2.0
"""Finding and stopping NIC processes: by what they hold, not by numbers that others may have by now."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.run import RunningNic, find_nic, known_nics, running_nics, take_down
from nicemu.run.folders import ATTACHED, claim, hold_settings, lock_of, runtime_root
from nicemu.run.running import _open_process, _signal
from nicemu.run.state import NicState, TopologyState

TOPOLOGY = "examples/two_storage_nodes.toml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a topology in which compute0 and storage0 have come up."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = runtime_root() / "two_storage_nodes"
    folder.mkdir()
    names = ("compute0", "storage0")
    nics = tuple(NicState(name, 1 << 30, "127.9.9.1", "p4", "firmware") for name in names)
    TopologyState(folder.name, "direct", str(tmp_path), None, None, nics).write(folder)
    for name in names:
        (folder / f"{name}.json").touch()
    return folder


@pytest.fixture
def compute0(folder: Path) -> Iterator[None]:
    """Hold compute0's settings, as its process does."""
    held = hold_settings(folder / "compute0.json")
    yield
    os.close(held)


def test_a_nic_that_has_ended_while_another_runs_is_known_with_what_to_do(
    folder: Path, compute0: None
) -> None:
    assert [(nic.name, bool(nic.ended)) for nic in known_nics()] == [("compute0", False), ("storage0", True)]
    assert [nic.name for nic in running_nics()] == ["compute0"]
    with pytest.raises(UsageError, match=r"storage0 has ended, see .*storage0.log; `nicemu up`"):
        find_nic("storage0")
    assert find_nic(None).name == "compute0"


def test_nics_that_have_all_ended_are_known_as_long_as_nobody_has_taken_them_down(folder: Path) -> None:
    assert [(nic.name, bool(nic.ended)) for nic in known_nics()] == [("compute0", True), ("storage0", True)]
    assert running_nics() == []
    with pytest.raises(
        UsageError, match=r"no NIC is up: compute0 has ended, see .*log; .*; storage0 has ended"
    ):
        find_nic(None)


def test_nics_that_have_ended_with_the_program_that_ran_them_are_not_known(folder: Path) -> None:
    (folder / ATTACHED).touch()
    assert known_nics() == []


def test_down_says_what_had_ended_and_removes_what_it_has_left(folder: Path) -> None:
    assert take_down(Path(TOPOLOGY)) == ([], ["compute0", "storage0"])
    assert not folder.exists()
    assert not lock_of(folder).exists()
    with pytest.raises(UsageError, match="no topology is up"):
        take_down(None)


@pytest.mark.parametrize("by", ["two_storage_nodes", TOPOLOGY, Path(TOPOLOGY)])
def test_a_topology_that_is_up_is_found_by_its_name_and_by_its_file(
    folder: Path, compute0: None, by: str | Path
) -> None:
    other = folder.with_name("other")
    other.mkdir()
    TopologyState(other.name, "direct", "", None, None, (NicState("a", 1 << 30, "", "", ""),)).write(other)
    (other / "a.json").touch()
    held = hold_settings(other / "a.json")
    assert {nic.topology for nic in known_nics()} == {"two_storage_nodes", "other"}
    assert {nic.topology for nic in known_nics(by)} == {"two_storage_nodes"}
    os.close(held)
    assert take_down("other") == ([], ["a"])
    assert not other.exists()
    assert folder.exists()


def test_what_is_neither_the_name_of_a_topology_that_is_up_nor_a_file_is_told_with_those_that_are(
    folder: Path,
) -> None:
    for look in (known_nics, take_down):
        with pytest.raises(UsageError, match=r"no topology x is up \(two_storage_nodes\), and no file x"):
            look("x")


def test_down_leaves_alone_what_is_being_started_and_says_so(folder: Path) -> None:
    lock = claim(folder)
    assert lock is not None
    with pytest.raises(UsageError, match="is not up: a program runs it and will stop it, or it is being"):
        take_down(Path(TOPOLOGY))
    assert folder.exists()
    os.close(lock)


@pytest.mark.parametrize("is_nic", [False, True])
def test_a_process_that_has_a_nic_s_number_by_now_gets_no_signal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_nic: bool
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda process, number: sent.append(number))
    words = ["sh", "-c", "read line", str(folder / ("storage0.json" if is_nic else "storage1.json"))]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        while b"sh" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            os.sched_yield()  # it is about to be what its arguments say
        nic = RunningNic("storage0", "t", process.pid, folder / "storage0.sock", "", "", "", "")
        with ExitStack() as opened:
            _signal(_open_process(nic, opened), signal.SIGKILL)
    assert sent == ([signal.SIGKILL] if is_nic else [])
