# SPDX-License-Identifier: Apache-2.0
"""docs/sweeps.md is true: its command runs, and it has every option and every study."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from nicemu.cli import main
from nicemu.cli.sweep import sweep
from nicemu.study import STUDIES

PAGE = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "told"),
    list(
        zip(
            re.findall(r"^\$ (nicemu .*)$", PAGE, re.MULTILINE),
            ("overflow, 4 points", "hpe, 6 points"),
            strict=True,
        )
    ),
)
def test_a_command_on_the_page_runs(command: str, told: str) -> None:
    result = CliRunner().invoke(main, command.split()[1:])
    assert result.exit_code == 0, result.output
    assert told in result.output


def test_the_page_has_every_option_and_every_study() -> None:
    options = [name for item in sweep.params for name in item.opts if name.startswith("--")]
    assert all(f"`{name}" in PAGE for name in options if name != "--jobs" and name != "--address")
    assert "`--jobs N`" in PAGE
    assert "`--address ADDRESS`" in PAGE
    assert all(f"`{name}`" in PAGE for name in STUDIES)
