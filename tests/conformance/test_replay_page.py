# SPDX-License-Identifier: Apache-2.0
"""docs/replay.md is true: its commands run, its file is read, its figures are the study's."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nicemu.cli import main
from nicemu.study import STUDIES, Result, read_settings, settings_with, statistics_of, synthetic_trace

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (nicemu .*)$", PAGE, re.MULTILINE)
REPLAY = STUDIES["replay"]


@cache
def found(changed: str = "", requests: int = 12_000, ways: str = "none,cpu,triggered") -> Result:
    name, _, value = changed.partition("=")
    given: dict[str, object] = {"requests": requests, "ways": ways.split(",")}
    if name:
        given[name] = int(value) if value.isdigit() else value
    return REPLAY.run(settings_with(REPLAY.standard, given), 1, lambda done, what: None)


def rows_under(text: str) -> list[list[str]]:
    """Return the cells of the first table below some words, without its head."""
    table = PAGE.split(text, 1)[1].split("\n|---", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[1:]]


def as_told(value: float, told: str) -> str:
    """Return a value with as many digits behind the point as the page has."""
    number = told.split()[0]
    return f"{value:,.{len(number.partition('.')[2])}f}"


@pytest.mark.parametrize("command", [item for item in COMMANDS if item != "nicemu study replay"])
def test_a_command_on_the_page_runs(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(main, command.split()[1:])
    assert result.exit_code == 0, result.output


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) == 4


def test_the_file_on_the_page_and_the_example_are_settings(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "ours.toml").write_text(text)
    ours: Any = read_settings(REPLAY.standard, tmp_path / "ours.toml")
    assert (ours.cores, ours.ways, ours.values) == (4, ("cpu", "triggered"), {"link.s_per_byte": 2e-11})
    assert (ROOT / ours.trace).is_file()
    example: Any = read_settings(REPLAY.standard, ROOT / "examples" / "replay.toml")
    assert example.least_blocks == 2


@pytest.mark.slow
def test_where_the_time_goes_is_the_study_s() -> None:
    data: Any = found().as_data()
    rows = rows_under("12,000 requests of the synthetic trace")
    assert len(rows) == 3
    for way, ttft, *parts, rate, nics in rows:
        of = data["ways"][way.strip("`")]
        assert f"{as_told(of['ttft_s']['mean'], ttft)} s" == ttft
        for name, told in zip(("fetch", "wait", "prefill"), parts, strict=True):
            assert f"{as_told(of['breakdown_mean_s'][name], told)} s" == told
        if rate != "-":
            assert f"{as_told(100 * of['token_hit_rate'], rate)} %" == rate
            use = [100 * of["use"][f"NIC, link {way}"]["mean"] for way in ("in", "out")]
            assert f"{use[0]:.1f}, {use[1]:.1f} %" == nics
    cores = data["ways"]["cpu"]["host_core_s"]
    assert f"{round(cores['compute'] + cores['storage'], -1):,.0f} s of core time" in PAGE


def test_both_ways_side_by_side_are_the_study_s() -> None:
    data: Any = found().as_data()
    sides = {item["what"]: item for item in data["side_by_side"]}
    rows = rows_under("The same offload, transfers and requests")
    assert len(rows) == 7
    for what, cpu, triggered, speedup in rows:
        assert f"{as_told(1e3 * sides[what]['cpu_s'], cpu)} ms" == cpu
        assert f"{as_told(1e3 * sides[what]['triggered_s'], triggered)} ms" == triggered
        assert as_told(sides[what]["cpu_over_triggered"], speedup) == speedup


def test_what_hosts_are_saved_and_what_arming_would_cost_them_is_the_study_s() -> None:
    data: Any = found().as_data()
    led, fired = data["ways"]["cpu"], data["ways"]["triggered"]
    core_s = sum(led["host_core_s"].values())
    messages = (fired["fetched_bytes"] + fired["stored_bytes"]) / data["message_bytes"]
    assert f"the host: {core_s:,.0f} s of core time in an hour, {core_s / led['span_s']:.1f} cores" in PAGE
    assert f"each of the {messages / 1e6:.1f} million messages above would be {messages / 1e6:.0f} s" in PAGE
    assert f"beside the {core_s:,.0f} s" in PAGE


@pytest.mark.slow
@pytest.mark.parametrize("row", rows_under("The difference depends on what CPUs"), ids=lambda row: row[0])
def test_what_makes_a_difference_is_the_study_s(row: list[str]) -> None:
    changed, fetch, ttft = row
    told = found("" if changed == "nothing" else changed.strip("`"), 3000, "cpu,triggered").headline()
    assert as_told(told["fetch_cpu_over_triggered"], fetch) == fetch
    assert as_told(told["ttft_cpu_over_triggered"], ttft) == ttft


def test_the_synthetic_trace_s_statistics_are_the_generator_s() -> None:
    counted = statistics_of(synthetic_trace(12_031, 1), (0, 18_279, 3_650))
    inputs = counted.inputs
    values = [
        inputs.mean(),
        inputs.quantile(0.5),
        inputs.quantile(0.99),
        counted.outputs.mean(),
        counted.span_s,
        counted.arrival_times,
        counted.blocks,
        counted.distinct_blocks,
        100 * counted.partial_last_blocks / counted.requests,
        *(100 * rate for _, rate in counted.hits),
    ]
    rows = rows_under("trace FILE` tells it:")
    assert [came_out for _, _, came_out in rows] == [
        as_told(value, row[2]) for value, row in zip(values, rows, strict=True)
    ]


def test_the_page_has_every_setting_with_its_standard() -> None:
    rows = {name.strip("`"): standard for name, standard, *_ in rows_under("| Setting | Standard")}
    fields = [field for field in dataclasses.fields(REPLAY.standard) if field.name != "values"]
    assert list(rows) == [field.name for field in fields]
    for field in fields:
        value = getattr(REPLAY.standard, field.name)
        told = rows[field.name].replace("`", "")
        value = int(value) if isinstance(value, float) and field.name == "store_bytes" else value
        assert told == (", ".join(value) if isinstance(value, tuple) else str(value) or "none")
        assert field.name in REPLAY.about


@pytest.mark.parametrize(
    ("drawn", "value"),
    [
        ("median 4,650 tokens, sigma 1.21", (4650.0, 1.21)),
        ("median 1,020 tokens, sigma 1.58", (1020.0, 1.58)),
        ("median 160 s, sigma 0.88", (160.0, 0.88)),
        ("with 0.38", (0.38,)),
        ("mean 343 tokens", (343.0,)),
        ("126,000 tokens", (126_000,)),
    ],
)
def test_what_conversations_are_drawn_from_is_the_generator_s(drawn: str, value: tuple[float, ...]) -> None:
    from nicemu.study import CONVERSATIONS

    assert drawn in PAGE
    assert set(value) <= set(dataclasses.astuple(CONVERSATIONS))
