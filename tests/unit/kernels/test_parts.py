# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled code, which processes share."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nicemu.kernels import parts


def test_a_file_that_two_make_at_once_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, replace = tmp_path / "made" / "part.ll", os.replace

    def while_another_one_writes(partial: str, target: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        parts.keep(target, b"short")
        replace(partial, target)

    monkeypatch.setattr(os, "replace", while_another_one_writes)
    parts.keep(path, b"a longer text")
    assert path.read_bytes() == b"a longer text"
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    parts.keep(tmp_path / "part.ll", b"text")
    assert list(tmp_path.iterdir()) == []
