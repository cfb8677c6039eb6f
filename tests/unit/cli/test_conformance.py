# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result as Ran

from nicemu.cli import conformance
from nicemu.testing import CASES, Case, Result, Verdict

Cli = Callable[..., Ran]
HAS_TO_COMPILE = conformance._has_to_compile
RULES = ("--rule", "R24", "--rule", "R37")


@pytest.fixture(autouse=True)
def tried(monkeypatch: pytest.MonkeyPatch) -> dict[str, Verdict]:
    """What comes of benches; by default everything holds, and libfabric is absent. Nothing is tried."""
    outcomes = {"interpreted": Verdict.HOLDS, "compiled": Verdict.HOLDS, "libfabric": Verdict.ABSENT}

    def try_case(case: Case, bench: str) -> Result:
        return Result(case, bench, outcomes[bench], "" if outcomes[bench] is Verdict.HOLDS else "no luck")

    monkeypatch.setattr("nicemu.testing.try_case", try_case)
    monkeypatch.setattr("nicemu.cli.conformance._has_to_compile", lambda: False)
    return outcomes


def test_the_table_has_a_row_a_rule_and_a_column_a_bench_that_is_here(nicemu: Cli) -> None:
    ran = nicemu("conformance")
    assert ran.exit_code == 0, ran.output
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["rule", "what", "it", "says", "interpreted", "compiled"]
    assert sum(line.startswith("R") for line in lines) == 42
    assert lines[-1] == "libfabric is absent: no luck"


def test_rules_and_benches_can_be_chosen(nicemu: Cli) -> None:
    ran = nicemu("conformance", *RULES, "--bench", "compiled")
    rows = [line for line in ran.stdout.splitlines() if line.startswith("R")]
    assert [row.split()[0] for row in rows] == ["R24", "R37"]
    assert "libfabric" not in ran.output
    assert "interpreted" not in ran.output


def test_while_it_works_it_says_on_stderr_which_bench_is_tried(nicemu: Cli) -> None:
    ran = nicemu("conformance", *RULES, "--bench", "interpreted", "--bench", "compiled")
    count = sum(not {"R24", "R37"}.isdisjoint(case.rules) for case in CASES.values())
    assert ran.stderr.splitlines() == [f"interpreted: {count} cases", f"compiled: {count} cases"]
    assert "cases" not in ran.stdout


@pytest.mark.parametrize(("bench", "told"), [("compiled", True), ("interpreted", False)])
def test_it_says_so_before_it_compiles(
    nicemu: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bench: str, told: bool
) -> None:
    monkeypatch.setattr("nicemu.cli.conformance._has_to_compile", HAS_TO_COMPILE)
    monkeypatch.setattr("nicemu.hot.JIT", True)
    monkeypatch.setattr("nicemu.hot.cache_folder", lambda: tmp_path)
    arguments = ("conformance", "--rule", "R24", "--bench", bench)
    assert ("compiling the datapath (the first time only" in nicemu(*arguments).stderr) is told
    (tmp_path / "nic").mkdir()
    (tmp_path / "nic" / "datapath.poll-210.py311.1.nbi").touch()
    assert "compiling" not in nicemu(*arguments).stderr


def test_a_rule_that_does_not_hold_is_told_with_its_reason(nicemu: Cli, tried: dict[str, Verdict]) -> None:
    tried["compiled"] = Verdict.FAILS
    ran = nicemu("conformance", *RULES)
    assert ran.exit_code == 1
    assert "NO, 0 of" in ran.output
    case = next(case for case in CASES.values() if "R37" in case.rules)
    assert f"  compiled, {' '.join(case.numbers)}: {case.sentence}. no luck" in ran.output


@pytest.mark.parametrize(
    ("verdict", "status", "cell"),
    [
        (Verdict.DEVIATES, 0, "deviates, 0 of"),
        (Verdict.WRONGLY_EXPECTED, 1, "NO, 0 of"),
        (Verdict.NOT_TRIED, 0, "not tried"),
    ],
)
def test_a_deviation_that_is_known_is_no_failure(
    nicemu: Cli, tried: dict[str, Verdict], verdict: Verdict, status: int, cell: str
) -> None:
    tried["libfabric"] = verdict
    ran = nicemu("conformance", *RULES)
    assert ran.exit_code == status
    assert cell in ran.output


def test_as_json_every_case_has_its_verdict(nicemu: Cli, tried: dict[str, Verdict]) -> None:
    tried["interpreted"] = Verdict.FAILS
    ran = nicemu("conformance", "--json", "--rule", "R31", "--bench", "interpreted")
    assert ran.exit_code == 1
    told = json.loads(ran.stdout)
    assert len(told["rules"]) == 42
    cases = [case for case in CASES.values() if "R31" in case.rules]
    assert [entry["case"] for entry in told["results"]] == [case.name for case in cases]
    assert {entry["verdict"] for entry in told["results"]} == {"fails"}
    assert told["results"][0]["numbers"] == list(cases[0].numbers)


@pytest.mark.parametrize(
    ("words", "says"),
    [(("--rule", "R43"), "there is no rule 'R43'"), (("--bench", "verbs"), "there is no bench 'verbs'")],
)
def test_what_there_is_not_is_wrong_usage(nicemu: Cli, words: tuple[str, ...], says: str) -> None:
    ran = nicemu("conformance", *words)
    assert ran.exit_code == 2
    assert says in ran.output
