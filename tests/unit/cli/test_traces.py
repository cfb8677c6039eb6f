# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from nicemu.study import STUDIES

Cli = Callable[..., Result]
EXAMPLES = Path(__file__).parents[3] / "examples"
SAMPLE = str(EXAMPLES / "replay_sample.jsonl")


def test_the_replay_is_a_study_whose_command_takes_a_trace(nicemu: Cli) -> None:
    assert "replay" in STUDIES
    usage = nicemu("study", "replay", "--help").stdout
    assert "[TRACE]" in usage
    assert "--config FILE" in usage


def test_a_replay_tells_transfers_and_requests_side_by_side(nicemu: Cli) -> None:
    result = nicemu("study", "replay", SAMPLE)
    assert result.exit_code == 0, result.output
    lines = [line.strip() for line in result.stdout.splitlines()]
    for title in (
        "300 requests of replay_sample.jsonl, 8 GPUs: Llama-3.1-8B on an H100",
        "Where the time to first token goes, mean of all requests",
        "Transfers and requests, side by side",
        "Which part of the time things work",
    ):
        assert title in lines
    assert any(line.startswith("a fetch in the replay, mean") for line in lines)
    assert any(line.startswith("TTFT, mean") for line in lines)


def test_the_trace_in_front_stands_over_that_of_the_file_and_options_over_both(
    nicemu: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "ours.toml"
    path.write_text('trace = "nowhere.jsonl"\nways = ["none"]\nfirst = 50\n[set.node]\ngpus = 4\n')
    words = ("study", "replay", SAMPLE, "--config", str(path), "--json")
    told = json.loads(nicemu(*words, "--set", "first=20").stdout)
    assert told["settings"]["trace"] == SAMPLE
    assert told["ways"]["none"]["requests"] == 20
    assert told["settings"]["values"] == {"node.gpus": 4}
    assert list(told["ways"]) == ["none"]


def test_the_same_seed_gives_the_same_bytes(nicemu: Cli) -> None:
    words = ("study", "replay", "--set", "requests=100", "--json", "--seed")
    assert nicemu(*words, "3").stdout == nicemu(*words, "3").stdout != nicemu(*words, "4").stdout


def test_a_trace_is_made_and_told(nicemu: Cli, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    words = ("study", "trace", "--requests", "300", "--seed", "1")
    assert nicemu(*words, "--out", str(path)).exit_code == 0
    assert path.read_text() == nicemu(*words).stdout == Path(SAMPLE).read_text(encoding="utf-8")
    told = nicemu("study", "trace", str(path)).stdout
    assert f"{path}: 300 requests" in told
    found = json.loads(nicemu("study", "trace", str(path), "--json").stdout)
    assert (found["requests"], found["failed_requests"]) == (300, 0)
    assert found["lru"][0]["blocks"] is None
    rates = [item["token_hit_rate"] for item in found["lru"]]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("trace",), 2, "either a FILE or --requests was expected"),
        (("trace", SAMPLE, "--requests", "3"), 2, "either a FILE or --requests was expected"),
        (("trace", SAMPLE, "--out", "x"), 2, "--out is for --requests"),
        (("trace", "--requests", "3", "--json"), 2, "--json is for the statistics"),
        (("trace", "--requests", "3", "--out", "/nowhere/x"), 1, "/nowhere/x cannot be written"),
        (("trace", SAMPLE, "--format", "csv"), 1, "--format is 'csv'; one of auto, mooncake"),
        (("trace", __file__), 1, "begins no trace that is known"),
        (("replay", "/nowhere"), 2, "'/nowhere' does not exist"),
        (("replay", __file__), 1, "begins no trace that is known"),
        (("replay", "--set", "core=8"), 1, "there is no setting core; did you mean cores"),
        (("replay", SAMPLE, "--set", "format=burstgpt"), 1, "there is no column Timestamp"),
    ],
)
def test_what_cannot_be_is_a_sentence(nicemu: Cli, words: tuple[str, ...], code: int, told: str) -> None:
    result = nicemu("study", *words)
    assert (result.exit_code, told in result.stderr) == (code, True), result.stderr
