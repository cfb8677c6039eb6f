# SPDX-License-Identifier: Apache-2.0
"""`nicemu study overflow`, and what its options share with every study of its shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Cli = Callable[..., Result]
ALONE = ("study", "overflow", "--set", "figures=6")


def test_the_study_tells_each_figure_and_the_workload(nicemu: Cli) -> None:
    result = nicemu("study", "overflow", "--set", "policies=recompute,swap_pinned")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    for number in (2, 3, 4, 5):
        assert any(line.startswith(f"Figure {number}: ") for line in lines)
    assert any(
        line.split()[:5] == ["128", "8,192", "recompute", "53.15", "43.1"] and " 1.23 " in line
        for line in lines
    )
    assert "The workload, figure 6: 32 x 1,500 + 1,024 tokens, KV has 12 % of 40 GiB" in lines


def test_options_stand_over_a_file_and_are_lists_numbers_words_and_flags(nicemu: Cli, tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text('figures = [6]\nrequests = 4\npolicies = ["triggered"]\n[set.offload]\nfire_s = 2e-6\n')
    words = ("study", "overflow", str(path), "--set", "requests=8", "--set", "write_through=false", "--json")
    told = json.loads(nicemu(*words, "--set", "policies=triggered,recompute", "--seed", "3").stdout)
    assert told["seed"] == 3
    assert told["settings"]["requests"] == 8
    assert told["settings"]["write_through"] is False
    assert told["settings"]["values"] == {"offload.fire_s": 2e-6}
    assert [run["policy"] for run in told["workload"]["runs"]] == ["triggered", "recompute"]


def test_the_same_seed_gives_the_same_bytes(nicemu: Cli) -> None:
    words = (*ALONE, "--set", "length_sigma=0.3", "--set", "kv_percent=20", "--json", "--seed")
    assert nicemu(*words, "7").stdout == nicemu(*words, "7").stdout != nicemu(*words, "8").stdout


def test_plots_are_drawn_and_named(nicemu: Cli, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    result = nicemu(*ALONE, "--set", "policies=recompute", "--plot", str(tmp_path / "plots"))
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "plots" / "overflow_figure6.svg") in result.stdout


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("prompt_tokens=20000", "request 0 has 20,000 tokens of prompt and 1,024 of output, 1,314 blocks"),
        ("block_tokens=16384", "a block of 16,384 tokens has 8,589,934,592 bytes of KV"),
        ("model.kv_heads=6", "model.heads is 32 and model.kv_heads 6"),
        ("write_through=maybe", "write_through is 'maybe'; pass True or False"),
        ("kv_percents=3", "there is no setting kv_percents; did you mean"),
        ("offload.rate=3", "there is no field offload.rate"),
    ],
)
def test_what_cannot_be_is_a_sentence(nicemu: Cli, option: str, told: str) -> None:
    result = nicemu(*ALONE, "--set", option)
    assert (result.exit_code, told in result.stderr) == (1, True), result.stderr
    assert not result.stdout
