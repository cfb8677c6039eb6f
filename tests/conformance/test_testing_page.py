# SPDX-License-Identifier: Apache-2.0
"""What docs/testing.md shows is run as its reader would: as test files of another project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nicemu.testing.plugin
from tests.unit.testing.inner_pytest import run_inner

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
TESTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", TESTS[:2], ids=["ten lines", "marker"])
def test_a_test_of_the_page_passes(pytester: pytest.Pytester, text: str) -> None:
    run_inner(pytester, text).assert_outcomes(passed=1)


def test_the_flag_of_the_page_passes_plainly_and_fails_as_the_page_says(pytester: pytest.Pytester) -> None:
    run_inner(pytester, TESTS[2].replace("@pytest.mark.explore(schedules=200)\n", "")).assert_outcomes(
        passed=1
    )
    result = run_inner(pytester, TESTS[2])
    result.assert_outcomes(failed=1)
    shown = PAGE.split("    failed after", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    told = result.stdout.str().splitlines()
    assert [line for line in shown if line[4:] not in told] == []


def test_every_fixture_and_marker_argument_is_on_the_page() -> None:
    assert [name for name in nicemu.testing.plugin.FIXTURES if f"`{name}`" not in PAGE] == []
    arguments = re.findall(r"(\w+)=", " ".join(nicemu.testing.plugin._MARKERS))
    assert [name for name in arguments if f"`{name}" not in PAGE] == []
