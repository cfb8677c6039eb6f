# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Cli = Callable[..., Result]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was handed to the two functions that a process of nicemu becomes."""
    calls: list[object] = []
    run, host = types.ModuleType("nicemu.run"), types.ModuleType("nicemu.host")
    run.__dict__.update(run_nic_process=calls.append, compile_everything=lambda: calls.append("compiled"))
    host.__dict__.update(run_stream_process=calls.append)
    monkeypatch.setitem(sys.modules, "nicemu.run", run)
    monkeypatch.setitem(sys.modules, "nicemu.host", host)
    return calls


def test_a_nic_process_is_given_its_config_file(nicemu: Cli, called: list[object], tmp_path: Path) -> None:
    config = tmp_path / "compute0.json"
    config.touch()
    assert nicemu("nic-process", str(config)).exit_code == 0
    assert called == [config]


def test_a_stream_process_is_given_its_descriptor(nicemu: Cli, called: list[object]) -> None:
    assert nicemu("stream-process", "7").exit_code == 0
    assert called == [7]


def test_the_datapath_is_compiled_by_a_process_of_its_own(nicemu: Cli, called: list[object]) -> None:
    assert nicemu("compile-datapath").exit_code == 0
    assert called == ["compiled"]


@pytest.mark.parametrize("words", [("nic-process", "nowhere.json"), ("stream-process", "-1")])
def test_a_wrong_call_is_wrong_usage(nicemu: Cli, called: list[object], words: tuple[str, ...]) -> None:
    assert nicemu(*words).exit_code == 2
    assert called == []
