# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nicemu.cli import main
from nicemu.cli.explore import explore

TEST = """
def test_order(nic, stream, host_stream, virtual_time):
    order = []
    stream.submit(lambda: order.append(1))
    host_stream.submit(lambda: order.append(2))
    virtual_time.run_until_idle()
    assert order == [1, 2]
"""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 1, "choices: 1 (found as 1)"),
        (["--replay", "1"], 1, "replayed 1"),
        (["--replay", "0"], 0, "1 passed"),
        (["--schedules", "1"], 0, "1 schedule"),
    ],
)
def test_a_test_is_explored_and_replayed(tmp_path: Path, arguments: list[str], code: int, told: str) -> None:
    (tmp_path / "test_mine.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "nicemu", "explore", "test_mine.py::test_order", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stdout
    assert "Warning" not in done.stdout + done.stderr


def test_without_pytest_the_cure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nicemu.cli.explore.find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["explore", "test_mine.py"])
    assert result.exit_code == 1
    assert "pip install pytest" in result.output


@pytest.mark.parametrize("arguments", [[], ["t.py", "--schedules", "0"], ["t.py", "--depth", "-1"]])
def test_a_call_that_makes_no_sense_is_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(explore, arguments).exit_code == 2
