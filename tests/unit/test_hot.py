# SPDX-License-Identifier: Apache-2.0
"""One source run two ways, and where compiled code is kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nicemu import hot as hot_module
from nicemu.hot import cache_folder, extend, hot, interpreted

needs_jit = pytest.mark.skipif(not hot_module.JIT, reason="NICEMU_JIT=0 turns the compiler off")
STEP = np.uint64(3)


@hot
def _tripled(value: np.uint64) -> np.uint64:
    return value * STEP


@hot
def _sum_of_tripled(count: int, first: int = 1) -> np.uint64:
    total = np.uint64(0)
    for value in range(first, count):
        total += _tripled(np.uint64(value))
    return total


@hot
def _factorial(value: int) -> int:
    return 1 if value <= 1 else value * _factorial(value - 1)


@needs_jit
def test_a_hot_function_gives_the_same_both_ways() -> None:
    plain = interpreted(_sum_of_tripled)
    assert int(_sum_of_tripled(100)) == int(plain(100)) == 3 * 4950
    assert int(_sum_of_tripled(100, 99)) == int(plain(100, 99)) == 297


@needs_jit
def test_interpreted_source_calls_interpreted_source_only() -> None:
    plain = interpreted(_sum_of_tripled)
    assert not hasattr(plain, "py_func")
    assert not hasattr(plain.__globals__["_tripled"], "py_func")
    assert hasattr(_tripled, "py_func")


@needs_jit
def test_a_hot_function_that_calls_itself_is_interpreted_all_the_way() -> None:
    plain = interpreted(_factorial)
    assert plain.__globals__["_factorial"] is plain
    assert plain(20) == 2432902008176640000


def test_a_function_that_is_not_hot_is_its_own_interpreted_twin() -> None:
    def plain(value: int) -> int:
        return value

    assert interpreted(plain) is plain


def test_without_the_compiler_a_hot_function_is_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(value: int) -> int:
        return value + 1

    monkeypatch.setattr(hot_module, "JIT", False)
    assert hot(plain) is plain
    assert interpreted(hot(plain)) is plain


def test_intrinsics_are_taught_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    taught: list[str] = []
    monkeypatch.setattr(hot_module, "_extensions", [])
    monkeypatch.setattr(hot_module, "_numba", None)
    extend(lambda: taught.append("atomics"))
    assert taught == []
    monkeypatch.setattr(hot_module, "_numba", SimpleNamespace())
    extend(lambda: taught.append("late"))
    assert taught == ["late"]


# Where compiled code is kept.


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one file of each sort."""
    folder = tmp_path / "nicemu"
    sources = {
        "hot.py": "",
        "errors.py": "",
        "timing.py": "",
        "abi/work.py": "",
        "pcie/atomics.py": "",
        "trigger/counter.py": "from nicemu.hot import hot",
        "trigger/state.py": "COUNTER = np.dtype([])",
        "trigger/__init__.py": '"""Counters."""',
        "rdma/responder.py": '"""Plain Python."""',
        "nic/datapath.py": "from nicemu.hot import hot",
    }
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(hot_module, "__file__", str(folder / "hot.py"))
    return folder


@pytest.mark.parametrize(
    ("source", "matters"),
    [
        ("hot.py", True),
        ("errors.py", True),
        ("abi/work.py", True),
        ("pcie/atomics.py", True),
        ("trigger/counter.py", True),
        ("trigger/state.py", True),
        ("nic/datapath.py", True),
        ("trigger/__init__.py", False),
        ("rdma/responder.py", False),
        ("timing.py", False),
    ],
)
def test_code_compiled_from_other_sources_is_not_taken(package: Path, source: str, matters: bool) -> None:
    """Status codes, layouts and atomics end up in compiled functions of other files."""
    before = cache_folder()
    assert cache_folder() == before
    with (package / source).open("a") as text:
        text.write("\n# changed")
    assert (cache_folder() != before) is matters


def test_compiled_code_lies_in_the_cache_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder().parent == Path("/somewhere/nicemu")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/someone"))
    assert cache_folder().parent == Path("/home/someone/.cache/nicemu")


@needs_jit
def test_a_compiler_that_was_imported_before_uses_the_same_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    monkeypatch.setattr(hot_module, "_numba", None)
    monkeypatch.setattr(hot_module, "_extensions", [])
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    assert hot_module._compiler() is numba
    assert cache_folder() == Path(numba.config.CACHE_DIR)
