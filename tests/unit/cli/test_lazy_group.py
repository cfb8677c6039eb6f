# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nicemu.cli.lazy_group import LazyCommand, LazyGroup

MODULE = """
import click
from nicemu.errors import ResourceError

@click.command()
@click.option("--how")
def work(how):
    if how == "full":
        raise ResourceError("16 trigger slots are armed, which is all there are; wait or cancel some")
    if how == "denied":
        raise PermissionError(13, "Permission denied", "/somewhere/trace.json")
    if how == "nameless":
        raise OSError(5, "Input/output error")
    if how == "interrupted":
        raise KeyboardInterrupt
    if how == "broken":
        raise ZeroDivisionError
    click.echo("done")
"""


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LazyGroup:
    (tmp_path / "lazy_group_work.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lazy_group_work", raising=False)
    return LazyGroup("tool", lazy={"work": LazyCommand("lazy_group_work:work", "Do the work.")})


def test_help_shows_a_command_without_importing_it(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["--help"])
    assert "work  Do the work." in result.output
    assert "lazy_group_work" not in sys.modules


def test_the_nearest_command_is_named_for_one_that_is_none(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["wrok"])
    assert result.exit_code == 2
    assert "No such command 'wrok'. Did you mean work?" in result.output


def test_a_command_is_imported_when_it_runs(group: LazyGroup) -> None:
    assert CliRunner().invoke(group, ["work"]).output == "done\n"
    assert "lazy_group_work" in sys.modules


def test_an_error_of_nicemu_is_its_message_on_stderr_and_status_1(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["work", "--how", "full"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "Error: 16 trigger slots are armed, which is all there are; wait or cancel some\n"


def test_a_file_that_cannot_be_used_is_named_and_status_1(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["work", "--how", "denied"])
    assert (result.exit_code, result.stderr) == (1, "Error: /somewhere/trace.json: Permission denied\n")


@pytest.mark.parametrize(("how", "kind"), [("broken", ZeroDivisionError), ("nameless", OSError)])
def test_a_fault_of_the_program_keeps_its_traceback(
    group: LazyGroup, how: str, kind: type[Exception]
) -> None:
    assert isinstance(CliRunner().invoke(group, ["work", "--how", how]).exception, kind)


def test_what_ctrl_c_ends_has_status_130_and_no_traceback(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["work", "--how", "interrupted"])
    assert (result.exit_code, result.output) == (130, "\n")


def test_ctrl_c_while_a_command_is_imported_is_no_other(group: LazyGroup, tmp_path: Path) -> None:
    (tmp_path / "lazy_group_work.py").write_text("raise KeyboardInterrupt")
    result = CliRunner().invoke(group, ["work"])
    assert (result.exit_code, result.output) == (130, "\n")
