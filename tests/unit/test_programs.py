# SPDX-License-Identifier: Apache-2.0
"""Programs are files: found as given, else among the shipped ones; a Python program is a module."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nicemu import programs
from nicemu.errors import UsageError
from nicemu.programs import find_program, load_module, programs_root


def test_a_checkout_holds_its_programs_beside_the_package() -> None:
    assert (programs_root() / "nicemu" / "programs.py").samefile(programs.__file__)


def test_an_install_holds_its_programs_inside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "nicemu"
    (package / "_programs" / "p4").mkdir(parents=True)
    monkeypatch.setattr(programs, "__file__", str(package / "programs.py"))
    assert programs_root() == package / "_programs"
    shipped = package / "_programs" / "p4" / "shipped.p4"
    shipped.write_text("")
    assert find_program("p4/shipped.p4") == shipped


def test_a_file_is_found_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.p4").write_text("")
    assert find_program(tmp_path / "mine.p4") == tmp_path / "mine.p4"
    monkeypatch.chdir(tmp_path)
    assert find_program("mine.p4") == tmp_path / "mine.p4"


def test_a_file_here_goes_before_a_shipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "p4").mkdir(parents=True)
    (tmp_path / "root" / "nicemu").mkdir(parents=True)
    (tmp_path / "root" / "p4").mkdir()
    monkeypatch.setattr(programs, "__file__", str(tmp_path / "root" / "nicemu" / "programs.py"))
    monkeypatch.chdir(tmp_path / "here")
    shipped, here = tmp_path / "root" / "p4" / "a.p4", tmp_path / "here" / "p4" / "a.p4"
    shipped.write_text("")
    assert find_program("p4/a.p4") == shipped
    here.write_text("")
    assert find_program("p4/a.p4") == here


def test_a_file_that_is_nowhere_is_refused_and_both_places_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"no file p4/none\.p4 here.*shipped programs \(.*/p4/none\.p4\)"):
        find_program("p4/none.p4")
    with pytest.raises(UsageError, match="no file"):
        find_program(tmp_path)


def test_a_python_program_runs_once_as_a_module_of_its_own(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "program.py").write_text(f"name = {folder!r}\nruns = []\n")
    one, two = (load_module(tmp_path / folder / "program.py") for folder in ("one", "two"))
    assert (one.name, two.name) == ("one", "two")
    assert load_module(tmp_path / "one" / "program.py") is one


def test_a_python_program_that_fails_can_be_mended_and_loaded(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("1 / 0\n")
    before = set(sys.modules)
    with pytest.raises(ZeroDivisionError):
        load_module(program)
    assert set(sys.modules) == before
    program.write_text("value = 12345\n")
    assert load_module(program).value == 12345


def test_what_is_no_python_file_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no Python file"):
        load_module(tmp_path / "program.p4")
