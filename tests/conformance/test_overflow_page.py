# SPDX-License-Identifier: Apache-2.0
"""docs/overflow.md is true: its commands run, its files are read, its figures are those of the model."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from nicemu.cli import main
from nicemu.study import read_settings
from nicemu.study.overflow.figures import Case
from nicemu.study.overflow.published import BY_BLOCK_TOKENS, BY_EVICTED_TOKENS, TOTALS
from nicemu.study.overflow.runs import Run
from nicemu.study.overflow.settings import OverflowSettings
from nicemu.study.overflow.study import Overflow, OverflowResult

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "overflow.md").read_text(encoding="utf-8")
PROSE = " ".join(PAGE.split())
COMMANDS = re.findall(r"^\$ (nicemu .*)$", PAGE, re.MULTILINE)


def study(**given: object) -> OverflowResult:
    settings = dataclasses.replace(OverflowSettings(), **given)  # type: ignore[arg-type]
    return Overflow().run(settings, 1, lambda done, what: None)


@cache
def result() -> OverflowResult:
    """Return the study as it stands, run when a test first asks."""
    return study()


def rows_below(heading: str, place: int = 0) -> list[list[str]]:
    """Return the cells of a table below a heading, without its head."""
    section = re.split(rf"^##+ {re.escape(heading)}.*$", PAGE, maxsplit=1, flags=re.MULTILINE)[1]
    section = re.split(r"^##+ ", section, maxsplit=1, flags=re.MULTILINE)[0]
    table = re.findall(r"^\|.*\n\|[-|]+\|\n((?:\|.*\n)+)", section, re.MULTILINE)[place]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]


def told(text: str, value: float) -> bool:
    """Whether a text is a value, with as many digits as it has."""
    return f"{value:.{len(text.partition('.')[2])}f}" == text


def run_of(runs: list[Run], policy: str) -> Run:
    (found,) = [run for run in runs if run.policy == policy]
    return found


def cases(number: int) -> dict[int, Case]:
    (figure,) = [figure for figure in result().served if figure.number == number]
    return {int(case.labels[0]): case for case in figure.cases}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_the_page_runs(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(main, command.split()[1:])
    assert result.exit_code == 0, result.output


def test_the_files_are_read(tmp_path: Path) -> None:
    assert len(COMMANDS) == 4
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "ours.toml").write_text(text)
    for path in (tmp_path / "ours.toml", ROOT / "examples" / "overflow.toml"):
        settings = read_settings(OverflowSettings(), path)
        assert settings.values == {"offload.nic_bytes_per_s": 5e10}
        assert Overflow().run(settings, 1, lambda done, what: None).headline()


def test_every_setting_is_there_with_its_default() -> None:
    rows = {row[0].strip("`"): row[1].replace("`", "") for row in rows_below("A workload of one's own")}
    wanted = {}
    for item in dataclasses.fields(OverflowSettings):
        if item.name != "values":
            value = item.default
            values = value if isinstance(value, tuple) else (value,)
            wanted[item.name] = ", ".join(
                str(each).lower()
                if isinstance(each, bool)
                else each
                if isinstance(each, str)
                else f"{each:g}"
                for each in values
            )
    assert rows == wanted


@pytest.mark.parametrize(
    ("number", "heading", "published"),
    [(2, "Figure 2", BY_BLOCK_TOKENS), (3, "Figure 3", BY_EVICTED_TOKENS)],
)
def test_evictions_are_the_model_s_and_the_published(
    number: int, heading: str, published: dict[str, dict[int, float]]
) -> None:
    (figure,) = [figure for figure in result().evictions if figure.number == number]
    rows = rows_below(heading)
    assert [int(row[0]) for row in rows] == list(figure.points)
    for row in rows:
        at = int(row[0])
        for cell, (policy, measured) in zip(row[1:], published.items(), strict=True):
            ours, theirs = cell.split(" / ")
            (item,) = [item for item in figure.points[at] if item.policy == policy]
            assert told(ours, item.gpu_s), (at, policy)
            assert told(theirs, measured[at]), (at, policy)


def test_overheads_by_length_are_the_model_s() -> None:
    rows = rows_below("Figure 4")
    assert [int(row[0]) for row in rows] == list(cases(4))
    for row in rows:
        runs = list(cases(4)[int(row[0])].runs)
        recompute = run_of(runs, "recompute").overhead
        assert told(row[1], recompute.attributed_s)
        assert told(row[2], recompute.marginal_s)
        assert told(row[3], run_of(runs, "swap_pinned").overhead.attributed_s)
        assert told(row[4].removesuffix(" us"), 1e6 * run_of(runs, "triggered").overhead.attributed_s)


def test_totals_are_the_model_s_and_the_published() -> None:
    totals = result().totals
    assert totals is not None
    rows = rows_below("Figure 4", 1)
    assert [tuple(map(int, row[0].split(" x "))) for row in rows] == list(TOTALS)
    for row, case in zip(rows, totals.cases, strict=True):
        for policy, cell, ratio in (("recompute", row[1], row[2]), ("swap_pinned", row[3], row[4])):
            ours, theirs = cell.split(" / ")
            found = run_of(list(case.runs), policy).overhead.attributed_s
            assert told(ours, found)
            assert told(theirs, case.published[policy])
            assert told(ratio, found / case.published[policy])


def test_overheads_by_memory_are_the_model_s() -> None:
    rows = rows_below("Figure 5")
    assert [int(row[0]) for row in rows] == list(cases(5))
    for row in rows:
        runs = list(cases(5)[int(row[0])].runs)
        assert told(row[1], run_of(runs, "recompute").overhead.attributed_s)
        assert told(row[2], run_of(runs, "swap_pinned").overhead.attributed_s)
    assert "at 12 % recompute costs 2.80 s" in PROSE
    assert told("2.80", run_of(list(result().workload.runs), "recompute").overhead.attributed_s)


def test_the_workload_s_figures_are_the_model_s() -> None:
    makespans, prefills, preemptions = rows_below("Figure 6")
    for place, policy in enumerate(("recompute", "swap_pinned", "triggered"), start=1):
        run = run_of(list(result().workload.runs), policy)
        assert told(makespans[place], run.makespan_s)
        assert (int(prefills[place]), int(preemptions[place])) == (run.prefills, run.overhead.preemptions)


def test_attributed_and_marginal_overhead_differ_as_told() -> None:
    totals = result().totals
    assert totals is not None
    found = [*result().served[0].cases, *result().served[1].cases, *totals.cases]
    overheads = [run_of(list(case.runs), "recompute").overhead for case in found]
    swaps = [run_of(list(case.runs), "swap_pinned").overhead.marginal_s for case in found]
    (most,) = re.findall(r"the first is up to ([\d.]+) times the second", PROSE)
    assert told(most, max(item.attributed_s / item.marginal_s for item in overheads if item.marginal_s))
    ratios = [item.marginal_s / swap for item, swap in zip(overheads, swaps, strict=True) if swap]
    ends = re.findall(r"recompute costs ([\d.]+) to ([\d.]+) times what a", PROSE)
    assert [told(*pair) for pair in zip(ends[0], (min(ratios), max(ratios)), strict=True)] == [True, True]


def test_without_lookahead_the_ratios_are_as_told() -> None:
    found = study(figures=(4, 5), policies=("recompute", "swap_pinned"), lookahead_tokens=0)
    assert found.totals is not None
    ratios = [
        run.overhead.attributed_s / case.published[run.policy]
        for case in found.totals.cases
        for run in case.runs
    ]
    least, most = re.findall(r"ratios to the 22 totals are ([\d.]+) to ([\d.]+)", PROSE)[0]
    assert told(least, min(ratios))
    assert told(most, max(ratios))
    (cost,) = re.findall(r"costs ([\d.]+) s instead of 3\.84", PROSE)
    assert told(cost, found.served[1].cases[0].runs[0].overhead.attributed_s)
