# SPDX-License-Identifier: Apache-2.0
"""Folders of topologies and demos: what somebody holds stays, what nobody holds any more is removed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from nicemu.run import ScratchFolder
from nicemu.run.folders import (
    ATTACHED,
    STATE,
    claim,
    discard,
    held_in,
    hold_settings,
    lock_of,
    remove_abandoned,
    runtime_root,
)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runtime and temporary folders of the test's own."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    return runtime_root()


def folder_with(root: Path, *names: str) -> Path:
    folder = root / "topology"
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    lock_of(folder).touch()
    return folder


def test_a_topology_is_held_by_one_alone(root: Path) -> None:
    lock = claim(root / "topology")
    assert lock is not None
    assert claim(root / "topology") is None
    discard(root / "topology", lock)
    assert list(root.iterdir()) == []
    again = claim(root / "topology")
    assert again is not None
    os.close(again)


def test_a_nic_runs_as_long_as_its_process_holds_its_settings(root: Path) -> None:
    folder = folder_with(root, "a.json", "b.json")
    held = hold_settings(folder / "a.json")
    copy = os.dup(held)  # as the process inherits it
    os.close(held)
    assert held_in(folder) == {"a"}
    os.close(copy)
    assert held_in(folder) == set()


@pytest.mark.parametrize("names", [(ATTACHED,), (ATTACHED, STATE), ()])
def test_what_a_program_that_was_killed_has_left_is_removed(root: Path, names: tuple[str, ...]) -> None:
    folder_with(root, *names)
    (root / "alone.lock").touch()
    remove_abandoned()
    assert list(root.iterdir()) == []


def test_what_somebody_holds_is_not_removed(root: Path) -> None:
    folder = folder_with(root, ATTACHED, "a.json")
    lock = claim(folder)
    assert lock is not None
    remove_abandoned()
    assert folder.exists()
    os.close(lock)
    nic = hold_settings(folder / "a.json")
    remove_abandoned()
    assert folder.exists()
    os.close(nic)
    remove_abandoned()
    assert not folder.exists()


def test_what_came_up_in_the_background_keeps_its_logs(root: Path) -> None:
    folder = folder_with(root, STATE, "a.log")
    remove_abandoned()
    assert (folder / "a.log").exists()


def test_a_demo_s_data_is_removed_when_nobody_holds_it_any_more(tmp_path: Path) -> None:
    scratch = ScratchFolder()
    (scratch.path / "storage0.nvme").write_bytes(b"data")
    remove_abandoned()
    assert scratch.path.parent == tmp_path / "tmp"
    assert (scratch.path / "storage0.nvme").exists()
    assert scratch._held is not None
    os.close(scratch._held)  # as the kernel does when the demo is killed
    remove_abandoned()
    assert not scratch.path.exists()


def test_a_demo_that_ends_removes_its_data() -> None:
    scratch = ScratchFolder()
    (scratch.path / "storage0.nvme").write_bytes(b"data")
    scratch.remove()
    scratch.remove()
    assert not scratch.path.exists()


def test_a_link_with_a_demo_s_name_leads_to_nothing_that_is_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    link = tmp_path / "tmp" / "nicemu-demo-link"
    link.symlink_to(tmp_path / "mine")
    remove_abandoned()
    assert (tmp_path / "mine" / "file").exists()
