# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nicemu.cli import main

SMALL = ["--set", "figures=6", "--set", "requests=4", "--set", "output_tokens=64", "--jobs", "1"]
SWEEP = ["study", "sweep", "overflow", *SMALL]


def said(*words: str) -> str:
    result = CliRunner().invoke(main, [*SWEEP, *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_sweep_prints_a_table(tmp_path: Path) -> None:
    out = str(tmp_path / "sweep.jsonl")
    words = ["--vary", "kv_percent=5,20", "--metric", "triggered_makespan_s", "--out", out]
    assert "overflow, 2 points" in said(*words)
    assert "2 points were in" in said(*words)


def test_a_figure_that_there_is_none_of_is_told_behind_all_that_there_are() -> None:
    result = CliRunner().invoke(
        main, [*SWEEP, "--vary", "kv_percent=5,20", "--metric", "triggerd_makespan_s"]
    )
    assert result.exit_code == 1
    assert "triggered_makespan_s" in result.stdout.splitlines()[1]
    assert "there is no figure triggerd_makespan_s; there are recompute_makespan_s" in result.stderr


def test_as_json_it_is_the_same_each_time() -> None:
    words = ["--json", "--vary", "seed=1,2", "--vary", "kv_percent=20", "--set", "length_sigma=0.5"]
    data = json.loads(said(*words))
    assert [entry["point"] for entry in data["points"]] == [
        {"seed": 1, "kv_percent": 20},
        {"seed": 2, "kv_percent": 20},
    ]
    assert data["points"][0]["figures"] != data["points"][1]["figures"]
    assert json.loads(said(*words)) == data


def test_a_sweep_of_which_nothing_is_left_is_no_success() -> None:
    result = CliRunner().invoke(main, [*SWEEP, "--vary", "prompt_tokens=4194304,8388608"])
    assert result.exit_code != 0
    assert "overflow, 2 points" in result.output
    assert "refused every point" in f"{result.output} {result.exception}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["study", "sweep", "overflow"], "Missing option '--vary'"),
        (["study", "sweep", "overflow", "--vary", "kv_percent"], "NAME=VALUE"),
        ([*SWEEP, "--vary", "seed=1", "--vary", "seed=2"], "--vary seed is given 2 times"),
        (["study", "sweep", "weather", "--vary", "a=1"], "there is no study weather to sweep"),
        ([*SWEEP, "--vary", "seed=1", "--engine", "ray"], "--jobs is for --engine processes"),
        (
            ["study", "sweep", "overflow", "--vary", "seed=1", "--address", "x"],
            "--address is for --engine ray",
        ),
    ],
)
def test_what_makes_no_sweep_is_told(words: list[str], told: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code != 0
    assert told in f"{result.output} {result.exception}".replace("FIELD=VALUE", "NAME=VALUE")
