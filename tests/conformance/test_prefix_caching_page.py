# SPDX-License-Identifier: Apache-2.0
"""docs/prefix-caching.md is true: commands and files run, settings and figures are the studies'."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from nicemu.cache import POLICIES
from nicemu.cli import main
from nicemu.model import Provenance
from nicemu.study import STUDIES, Settings, read_settings, settings_data
from nicemu.study.caching.analytics import AnalyticsResult, AnalyticsSettings
from nicemu.study.caching.chat import ChatResult, ChatSettings
from nicemu.study.caching.chat_run import ChatRow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "prefix-caching.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (nicemu .*)$", PAGE, re.MULTILINE)
SEEDS = (1, 2, 3)


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


def line(start: str) -> str:
    (found,) = re.findall(rf"^\| {re.escape(start)}.*$", PAGE, re.MULTILINE)
    return str(found)


@cache
def row(policy: str, chatters: int, seed: int) -> ChatRow:
    settings = replace(ChatSettings(), policies=(policy,), chatters=(chatters,))
    result = STUDIES["chat"].run(settings, seed, lambda done, what: None)
    assert isinstance(result, ChatResult)
    return result.rows[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_the_page_runs(command: str) -> None:
    result = CliRunner().invoke(main, command.split()[1:])
    assert result.exit_code == 0, result.output


def test_the_page_has_a_command_of_each_study_and_every_policy() -> None:
    assert {command.split()[2] for command in COMMANDS} == {"chat", "analytics"}
    assert all(f"| `{name}` |" in PAGE for name in POLICIES)


def test_the_example_on_the_page_is_the_file() -> None:
    assert tomllib.loads(block("toml")) == tomllib.loads((ROOT / "examples" / "chat.toml").read_text())


@pytest.mark.parametrize("name", ["chat", "analytics"])
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    words = ["study", name, str(ROOT / "examples" / f"{name}.toml"), "--json"]
    quick = {"chat": "conversations=20", "analytics": "rows=20"}[name]
    result = CliRunner().invoke(main, [*words, "--set", quick])
    assert result.exit_code == 0, result.output
    assert read_settings(STUDIES[name].standard, ROOT / "examples" / f"{name}.toml")


def test_the_snippet_runs() -> None:
    exec(compile(block("python"), "docs/prefix-caching.md", "exec", dont_inherit=True), {})


@pytest.mark.parametrize("standard", [ChatSettings(), AnalyticsSettings()], ids=["chat", "analytics"])
def test_every_setting_has_its_value_and_provenance(standard: Settings) -> None:
    section = PAGE.split(
        f"## nicemu study {'chat' if isinstance(standard, ChatSettings) else 'analytics'}\n"
    )[1]
    for name, value in settings_data(standard).items():
        if name in ("values", "policies", "prefixes"):
            continue
        (found,) = re.findall(rf"^\| `{name}` \|.*$", section.split("\n## ")[0], re.MULTILINE)
        _, _, _, told, provenance, _, _ = (cell.strip().strip("`") for cell in found.split("|"))
        assert told == (", ".join(f"{item:g}" for item in value) if isinstance(value, list) else str(value))
        assert provenance in list(Provenance)


def figures(start: str) -> list[float]:
    """Return the numbers of our column of a row of the table of figures, up to a remark."""
    ours = line(start).split("|")[-2].split(":")[0]
    return [float(number) for number in re.findall(r"[-+]?\d+\.\d+", ours)]


@pytest.mark.slow
def test_the_figures_of_8_chatters_are_the_study_s() -> None:
    lru = [row("lru", 8, seed) for seed in SEEDS]
    none = [row("none", 8, seed) for seed in SEEDS]
    assert figures("tokens hit") == [round(100 * item.hit_rate, 1) for item in lru]
    assert figures("requests with 75 %") == [round(100 * item.above[0.75], 1) for item in lru]
    assert figures("requests with nothing") == [round(100 * item.none_cached, 1) for item in lru]
    for name, start in (("first_byte_s", "first byte, 8"), ("messages_per_s", "messages/s, 8")):
        pairs = zip(lru, none, strict=True)
        assert figures(start) == [round(100 * getattr(a, name) / getattr(b, name) - 100, 1) for a, b in pairs]


@pytest.mark.slow
def test_the_figures_of_one_chatter_and_of_32_are_the_study_s() -> None:
    ours = line("one serial chatter").split("|")[-2]
    told = [float(number) for number in re.findall(r"\d+\.\d\d", ours)]
    assert told == [
        round(row(policy, 1, seed).end_to_end_s, 2) for seed in SEEDS for policy in ("none", "lru")
    ]
    gains = [row("lru", 32, seed).messages_per_s / row("none", 32, seed).messages_per_s for seed in SEEDS]
    assert figures("messages/s, 32") == [round(100 * gain - 100, 1) for gain in gains]


def test_the_figures_of_the_analytics_job_are_the_study_s() -> None:
    settings = AnalyticsSettings(prefixes=(16,), batches=(1,))
    result = STUDIES["analytics"].run(settings, 1, lambda done, what: None)
    assert isinstance(result, AnalyticsResult)
    assert result.poster is not None
    assert f"gains from {result.gains_from} tokens on" in PAGE
    assert f"{result.poster.rows} rows behind {result.poster.prefix} tokens have" in PAGE
    assert f"{result.poster.cached_s:.1f} and {result.poster.baseline_s:.1f} s, under" in PAGE


@pytest.mark.slow
def test_the_figures_of_tiers_that_are_too_small_are_the_study_s() -> None:
    settings = read_settings(ChatSettings(), ROOT / "examples" / "chat.toml")
    found: dict[str, list[float]] = {"hint": [], "lru": [], "lfu": []}
    for seed in SEEDS:
        result = STUDIES["chat"].run(replace(settings, policies=tuple(found)), seed, lambda done, what: None)
        assert isinstance(result, ChatResult)
        for item in result.rows:
            found[item.policy].append(round(100 * item.hit_rate, 1))
    assert figures("10 GiB of GPU") == found["hint"]
    assert figures("the same: `lru`") == found["lru"]
    assert figures("the same: `lfu`") == found["lfu"]
