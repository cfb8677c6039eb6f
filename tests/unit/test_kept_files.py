# SPDX-License-Identifier: Apache-2.0
"""Files that save work, which processes share."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nicemu.kept_files import keep, kept


def test_a_file_that_two_make_at_once_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, replace = tmp_path / "made" / "file", os.replace

    def while_another_one_writes(partial: str, target: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        keep(target, b"short")
        replace(partial, target)

    monkeypatch.setattr(os, "replace", while_another_one_writes)
    keep(path, b"a longer text")
    assert kept(path) == b"a longer text"
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    keep(tmp_path / "file", b"text")
    assert list(tmp_path.iterdir()) == []


def test_what_was_damaged_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "file"
    keep(path, b"text")
    whole = path.read_bytes()
    for damaged in (b"", b"text", whole[:-1], whole + b"!", bytes([whole[0] ^ 1]) + whole[1:]):
        path.write_bytes(damaged)
        assert kept(path) is None
    path.write_bytes(whole)
    assert kept(path) == b"text"
