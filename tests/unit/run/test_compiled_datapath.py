# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled code: what nothing was started with for 14 days goes when something new comes."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest

from nicemu import hot
from nicemu.errors import NicemuError
from nicemu.run import compile_datapath
from nicemu.run.compiled_datapath import UNUSED_S


class Compiling:
    """A process that compiles for as long as it is waited for `turns` times, and says `told` at its end."""

    turns, told, returncode = 0, "", 0

    def __init__(self, command: list[str], **options: object) -> None:
        """Begin."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def communicate(self, timeout: float) -> tuple[None, str]:
        """Wait once."""
        if type(self).turns:
            type(self).turns -= 1
            (hot.cache_folder() / "rdma").mkdir(parents=True, exist_ok=True)
            (hot.cache_folder() / "rdma" / f"f{type(self).turns}.nbi").touch()
            raise subprocess.TimeoutExpired([], timeout)
        return None, self.told

    def kill(self) -> None:
        """Stop it."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, which is filled by nothing more than a marker."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(hot, "JIT", True)
    monkeypatch.setattr(subprocess, "Popen", Compiling)
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


def test_it_is_told_how_far_compiling_is(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(Compiling, "turns", 2)
    compile_datapath(told.append)
    assert [text.partition(" in ")[0] for text in told[1:]] == [
        "  1 function compiled",
        "  2 functions compiled",
    ]


def test_what_does_not_compile_is_told_and_not_taken_for_whole(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Compiling, "returncode", 1)
    monkeypatch.setattr(Compiling, "told", "LLVM is at fault")
    with pytest.raises(NicemuError, match="does not compile: LLVM is at fault"):
        compile_datapath(lambda text: None)
    assert not (hot.cache_folder() / "complete").exists()


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
