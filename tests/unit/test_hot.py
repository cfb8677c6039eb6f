# SPDX-License-Identifier: Apache-2.0
"""One source run two ways, and where compiled code is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nicemu.hot import JIT, compiled_code, extend, functions, hot, interpreted
from nicemu.hot.compiled_code import cache_folder, sources_compiled

needs_jit = pytest.mark.skipif(not JIT, reason="NICEMU_JIT=0 turns the compiler off")
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

    monkeypatch.setattr(functions, "JIT", False)
    assert hot(plain) is plain
    assert interpreted(hot(plain)) is plain


def test_intrinsics_are_taught_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    taught: list[str] = []
    monkeypatch.setattr(functions, "_extensions", [])
    monkeypatch.setattr(functions, "_numba", None)
    extend(lambda: taught.append("atomics"))
    assert taught == []
    monkeypatch.setattr(functions, "_numba", SimpleNamespace())
    extend(lambda: taught.append("late"))
    assert taught == ["late"]


# Where compiled code is kept.


SOURCES = {
    "__init__.py": '__version__ = "1"',
    "errors.py": "class VerbsStatus: ...",
    "timing.py": "",
    "abi/__init__.py": "from .registers import (\n    RINGS as SLOTS,  # all\n)\nfrom .work import Sge",
    "hot/__init__.py": "from .functions import hot",
    "hot/functions.py": "",
    "abi/registers.py": "from nicemu.errors import VerbsStatus",
    "abi/work.py": "",
    "abi/layout.py": "",
    "pcie/compiled.py": "from numba import types",
    "pcie/backing.py": "import mmap",
    "trigger/state.py": "from nicemu.abi import SLOTS, layout",
    "trigger/counter.py": "from nicemu.hot import hot\nfrom .state import COUNTER\n\n\n@hot\ndef add(): ...",
    "trigger/unit.py": "from .counter import add",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one file of each sort."""
    folder = tmp_path / "nicemu"
    for name, text in SOURCES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(compiled_code, "PACKAGE", folder)
    return folder


def test_code_is_compiled_from_hot_functions_and_all_that_their_files_import(package: Path) -> None:
    """Status codes, layouts and atomics end up in compiled functions of other files."""
    names = {str(path.relative_to(package)) for path in sources_compiled(package)}
    assert names == {
        "abi/layout.py",
        "abi/registers.py",
        "errors.py",
        "hot/functions.py",
        "pcie/compiled.py",
        "trigger/counter.py",
        "trigger/state.py",
    }


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_code_compiled_from_other_sources_is_not_taken(package: Path, source: str) -> None:
    before = cache_folder()
    assert cache_folder() == before
    matters = package / source in sources_compiled(package)
    with (package / source).open("a") as text:
        text.write("\n# changed")
    assert (cache_folder() != before) is matters


def test_code_serves_every_place_where_the_sources_say_the_same(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cache_folder()
    os.utime(package / "errors.py", (0, 0))
    monkeypatch.setattr(compiled_code, "PACKAGE", package.rename(package.with_name("elsewhere")))
    assert cache_folder() == before


def test_compiled_code_lies_in_the_cache_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder().parent == Path("/somewhere/nicemu")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/someone"))
    assert cache_folder().parent == Path("/home/someone/.cache/nicemu")


@needs_jit
def test_hot_functions_are_kept_there_and_those_of_others_are_where_numba_keeps_them() -> None:
    import numba

    from nicemu.trigger.counter import add

    def plain(value: int) -> int:
        return value

    assert Path(add.stats.cache_path) == cache_folder() / "trigger"  # type: ignore[attr-defined]
    assert Path(_tripled.stats.cache_path).parent == cache_folder() / "elsewhere"  # type: ignore[attr-defined]
    theirs = numba.njit(cache=True)(plain)
    assert not Path(theirs.stats.cache_path).is_relative_to(cache_folder())


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what is compiled in this test."""
    monkeypatch.setattr(compiled_code, "own_cache_folder", lambda: tmp_path)
    return tmp_path


def tripled_anew() -> tuple[int, int]:
    """Return what a process that has compiled nothing gets, and how much of the code it did not compile."""
    fresh = hot(_tripled.py_func)  # type: ignore[attr-defined]
    return int(fresh(np.uint64(5))), sum(fresh.stats.cache_hits.values())


@needs_jit
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_damaged_file_of_code_is_one_that_is_not_there(kept: Path, kind: str, share: float) -> None:
    assert tripled_anew() == (15, 0)
    (file,) = kept.rglob(f"*.{kind}")
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    assert tripled_anew() == (15, 0)
    assert tripled_anew() == (15, 1), "it was kept again"


@needs_jit
def test_code_that_an_index_no_longer_tells_of_is_never_taken_for_another(kept: Path) -> None:
    assert tripled_anew() == (15, 0)
    (index,), (code,) = kept.rglob("*.nbi"), kept.rglob("*.nbc")
    stale = code.with_name(code.name.replace(".1.", ".2."))
    code.rename(stale)
    index.write_bytes(b"")
    assert tripled_anew() == (15, 0)
    assert not stale.exists()


@needs_jit
def test_code_is_compiled_where_nothing_can_be_kept(kept: Path) -> None:
    assert tripled_anew() == (15, 0)
    (index,) = kept.rglob("*.nbi")
    index.unlink()
    index.mkdir()
    assert tripled_anew() == (15, 0)


@needs_jit
def test_where_no_folder_can_be_written_code_is_made_anew_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere() -> Callable[[object], object]:
        def refuse(function: object) -> object:
            raise RuntimeError("no locator available")

        return refuse

    monkeypatch.setattr(functions, "kept_code", nowhere)
    compiled_code.warn_of_no_cache.cache_clear()
    with pytest.warns(RuntimeWarning, match="set XDG_CACHE_HOME to a folder that can be") as told:
        again, further = hot(_tripled.py_func), hot(_sum_of_tripled.py_func)  # type: ignore[attr-defined]
    assert len(told) == 1
    assert (again(np.uint64(2)), further(3)) == (6, 9)


@needs_jit
def test_where_no_folder_can_be_written_nothing_is_kept_beside_the_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be run when what it inlines has changed: numba knows one file of a function."""
    monkeypatch.setattr(compiled_code, "own_cache_folder", lambda: Path("/dev/null/nowhere"))
    compiled_code.warn_of_no_cache.cache_clear()
    before = set(Path(__file__).parent.rglob("*.nb[ic]"))
    with pytest.warns(RuntimeWarning, match="made anew each time"):
        again = hot(_tripled.py_func)  # type: ignore[attr-defined]
    assert again(np.uint64(2)) == 6
    assert set(Path(__file__).parent.rglob("*.nb[ic]")) == before


def test_sources_are_utf_8_whatever_the_locale_says() -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code = "from nicemu.hot import cache_folder; print(cache_folder().name)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | locale, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == compiled_code.cache_folder().name
