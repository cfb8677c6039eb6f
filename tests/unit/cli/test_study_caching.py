# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Cli = Callable[..., Result]
QUICK = ("--set", "conversations=20", "--set", "chatters=4")


def test_both_studies_are_listed_with_a_sentence(nicemu: Cli) -> None:
    told = nicemu("study", "--help").stdout
    assert "Compare eviction policies for prefix caching" in told
    assert "Ask what caching one long instruction gains" in told


def test_chat_prints_a_row_a_policy_and_the_conditions(nicemu: Cli) -> None:
    result = nicemu("study", "chat", *QUICK)
    assert result.exit_code == 0, result.output
    rows = [line.split()[2] for line in result.stdout.splitlines() if line.strip().startswith("0.0 ")]
    assert rows == 2 * ["none", "lru", "lfu", "hint", "pin", "triggered"]
    assert "GPU 26.73 GiB, CPU 32 GiB, NVMe 200 GiB" in result.stdout


def test_json_is_the_same_bytes_by_seed_and_has_the_settings(nicemu: Cli) -> None:
    words = ("study", "chat", *QUICK, "--set", "policies=hint,triggered", "--json")
    one, again, other = (nicemu(*words, "--seed", seed).stdout for seed in ("1", "1", "2"))
    assert one == again != other
    told = json.loads(one)
    assert told["settings"]["policies"] == ["hint", "triggered"]
    assert {row["policy"] for row in told["rows"]} == {"hint", "triggered"}
    assert all(0 <= row["requests_from_75_percent"] <= row["hit_rate"] + 1 for row in told["rows"])


def test_analytics_says_where_it_gains(nicemu: Cli) -> None:
    words = ("--set", "rows=50", "--set", "batches=1", "--set", "prefixes=16,256")
    result = nicemu("study", "analytics", *words)
    assert result.exit_code == 0, result.output
    assert "a serial client gains from" in result.stdout
    told = json.loads(nicemu("study", "analytics", *words, "--json").stdout)
    assert [row["prefix"] for row in told["rows"]] == [16, 256]


def test_plots_are_drawn_and_named(nicemu: Cli, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    words = (*QUICK, "--set", "policies=lru", "--plot", str(tmp_path))
    result = nicemu("study", "chat", *words)
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "chat_speed.png") in result.stdout
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("chatters = []", "chat.toml: chatters is empty"),
        ('policies = ["arc"]', r"policies[0] is 'arc'; one of none, lru"),
        ("[set.tier]\ncpu_bytes = -1", "tier.cpu_bytes is -1"),
        ("[set.tier]\ncpu_byte = 1", "there is no field tier.cpu_byte; did you mean tier.cpu_bytes"),
    ],
)
def test_a_file_that_cannot_be_is_a_sentence(nicemu: Cli, tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "chat.toml"
    path.write_text(text)
    result = nicemu("study", "chat", str(path), "--plot", str(tmp_path / "plots"))
    assert (result.exit_code, told in result.stderr) == (1, True), result.stderr
    assert not (tmp_path / "plots").exists()
