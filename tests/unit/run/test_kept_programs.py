# SPDX-License-Identifier: Apache-2.0
"""A program is compiled again when anything that it was made of is not as it was, and only then."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nicemu.control import config_message
from nicemu.p4 import CompileError, compile_program
from nicemu.programs import find_program
from nicemu.run import LoadableProgram, kept_programs, loadable_program
from tests.unit.p4.conftest import source

Load = Callable[..., tuple[LoadableProgram, bool]]
WITH_INCLUDE = source("m.mark = MARK;").replace("header tag_t", '#include "mark.p4"\nheader tag_t', 1)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a program; return it, and whether it was compiled for that."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def loaded(path: Path, *includes: Path, **defines: str) -> tuple[LoadableProgram, bool]:
        compiled = []
        program = loadable_program(path, includes, defines, on_compile=lambda: compiled.append(path))
        return program, bool(compiled)

    return loaded


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that includes a file beside it."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mark.p4").write_text("const bit<16> MARK = 1;\n")
    path = tmp_path / "here" / "program.p4"
    path.write_text(WITH_INCLUDE)
    return path


def test_what_is_kept_is_what_the_compiler_made(load: Load) -> None:
    path = find_program("p4/kvmatch.p4")
    first, second = load(path), load(path)
    assert (first[1], second[1]) == (True, False)
    assert first[0] == second[0]
    compiled = compile_program(path)
    assert second[0].config == config_message(compiled.program.to_json(), compiled.p4info)
    assert (second[0].name, second[0].tables, second[0].actions) == ("kvmatch", 1, 2)


def test_a_program_is_another_with_other_macros(load: Load, tmp_path: Path) -> None:
    path = tmp_path / "marked.p4"
    path.write_text(source("m.mark = MARK;"))
    one, two = load(path, MARK="1")[0], load(path, MARK="2")[0]
    assert one.config != two.config
    assert load(path, MARK="1") == (one, False)


def test_a_change_of_the_program_or_of_a_file_that_it_includes_is_seen(load: Load, program: Path) -> None:
    first = load(program)[0].config
    program.with_name("mark.p4").write_text("const bit<16> MARK = 2;\n")
    changed, compiled = load(program)
    assert compiled
    assert changed.config != first
    program.write_text(WITH_INCLUDE + "// the end\n", encoding="utf-8")
    assert load(program)[1]
    assert not load(program)[1]


def test_a_file_that_comes_to_lie_where_an_include_is_sought_first_is_seen(
    load: Load, program: Path, tmp_path: Path
) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    near.mkdir()
    far.mkdir()
    program.with_name("mark.p4").rename(far / "mark.p4")
    first = load(program, near, far)[0].config
    (near / "mark.p4").write_text("const bit<16> MARK = 7;\n")
    second, compiled = load(program, near, far)
    assert compiled
    assert second.config != first


def test_other_include_folders_ask_for_another_program(load: Load, program: Path, tmp_path: Path) -> None:
    load(program)
    assert load(program, tmp_path)[1]
    assert not load(program)[1]


def test_another_compiler_compiles_again(load: Load, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(program)
    monkeypatch.setattr(kept_programs, "_compiler", lambda: "newer")
    assert load(program)[1]


@pytest.mark.parametrize("damage", [b"", b"\0", b"nothing like it" * 9])
def test_a_damaged_file_is_compiled_anew(load: Load, program: Path, tmp_path: Path, damage: bytes) -> None:
    expected = load(program)[0]
    (kept,) = (tmp_path / "cache" / "nicemu" / "programs").iterdir()
    kept.write_bytes(damage)
    assert load(program) == (expected, True)
    for place in range(0, len(kept.read_bytes()), 997):
        whole = kept.read_bytes()
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert kept_programs._kept(kept) is None
        kept.write_bytes(whole)
    assert load(program) == (expected, False)


def test_a_program_that_does_not_compile_is_not_kept(load: Load, program: Path) -> None:
    program.write_text("control C() { apply { x = 1; } }", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(CompileError, match="unknown name x"):
            load(program)


def test_warnings_are_told_each_time(load: Load, program: Path) -> None:
    program.write_text(source("m.mark = 70000;"), encoding="utf-8")
    assert "does not fit bit<16>" in load(program)[0].messages[0]
    again, compiled = load(program)
    assert "does not fit bit<16>" in again.messages[0]
    assert not compiled


def test_where_nothing_can_be_kept_everything_is_compiled(load: Load, program: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, where a folder was expected")
    assert load(program)[1]
    assert load(program)[1]


def test_what_brings_a_kept_program_to_a_nic_loads_neither_compiler_nor_numpy() -> None:
    script = """
import sys
from nicemu.control import load_pipeline
from nicemu.run import find_nic, loadable_program
print(sorted({"numba", "numpy", "nicemu.p4", "nicemu.bmv2", "nicemu.pipeline"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
