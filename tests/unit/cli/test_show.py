# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys

import pytest

from nicemu.cli.show import print_json, print_table
from nicemu.errors import UsageError


def test_a_row_is_one_line_where_the_output_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "found"), [("a", "x" * 500), ("b", None)])
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0].split(), *(line.split() for line in lines[2:])] == [
        ["name", "found"],
        ["a", "x" * 500],
        ["b", "-"],
    ]


def test_numbers_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "bytes"), [("a", 1_234_567), ("b", 8)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].endswith("1,234,567")
    assert lines[3].endswith("        8")


def test_what_looks_like_markup_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name",), [("[bold]x[/bold]",)])
    assert "[bold]x[/bold]" in capsys.readouterr().out


def test_json_keeps_numbers_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"bytes": 1_234_567})
    assert capsys.readouterr().out == '{\n  "bytes": 1234567\n}\n'


def test_json_that_goes_nowhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has None for a standard stream that the shell has closed (>&-)."""
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(UsageError, match="the stream is closed"):
        print_json({})
