# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled code: what nothing was started with for 14 days goes when something new comes."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from nicemu import hot
from nicemu.run import compile_datapath
from nicemu.run.compiled_datapath import UNUSED_S


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, which is filled by nothing more than a marker."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(hot, "JIT", True)
    done = subprocess.CompletedProcess[str]([], 0, "", "")
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: done)
    (tmp_path / "nicemu").mkdir()
    return tmp_path / "nicemu"


def folder(cache: Path, name: str, age_s: float) -> Path:
    path = cache / name
    (path / "sub").mkdir(parents=True)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_what_was_not_used_for_long_is_removed_when_something_is_compiled(cache: Path) -> None:
    old = folder(cache, "0123456789abcdef", UNUSED_S + 60)
    recent = folder(cache, "fedcba9876543210", UNUSED_S - 60)
    foreign = folder(cache, "somebody else's", UNUSED_S + 60)
    compile_datapath(lambda text: None)
    assert not old.exists()
    assert recent.exists()
    assert foreign.exists()
    assert (hot.cache_folder() / "complete").exists()


def test_what_is_in_use_is_marked_as_used_and_never_removed(cache: Path) -> None:
    told: list[str] = []
    compile_datapath(told.append)
    os.utime(hot.cache_folder(), (0, 0))
    compile_datapath(told.append)
    assert len(told) == 1, "it was compiled twice"
    assert hot.cache_folder().stat().st_mtime > time.time() - 60
    os.utime(hot.cache_folder(), (0, 0))
    (hot.cache_folder() / "complete").unlink()
    os.utime(hot.cache_folder(), (0, 0))
    compile_datapath(told.append)
    assert (hot.cache_folder() / "complete").exists()
