# SPDX-License-Identifier: Apache-2.0
"""The conformance suite of triggered operations (`nicemu.testing`), on every bench that is here."""

from __future__ import annotations

import re

import pytest

from nicemu.testing import (
    BENCHES,
    CASE_COUNT,
    CASES,
    ELSEWHERE,
    OURS,
    RULES,
    Case,
    Verdict,
    deviations,
    try_case,
)


def _tried(bench: str, case: Case) -> object:
    return pytest.param(bench, case, id=f"{bench}: {case.sentence}")


@pytest.mark.parametrize(
    ("bench", "case"),
    [_tried(bench, case) for case in CASES.values() for bench in BENCHES if bench in OURS or not case.inside],
)
def test_the_rule_holds(bench: str, case: Case) -> None:
    result = try_case(case, bench)
    if result.verdict in (Verdict.ABSENT, Verdict.NOT_TRIED):
        pytest.skip(f"{bench}: {result.reason}")
    if result.verdict is Verdict.DEVIATES:
        pytest.xfail(result.reason)
    assert result.verdict is Verdict.HOLDS, result.reason


def test_every_rule_has_a_case() -> None:
    tried = {rule for case in CASES.values() for rule in case.rules}
    assert tried == set(RULES) == {f"R{number}" for number in range(1, 43)}


def test_every_case_of_the_list_is_tried_or_accounted_for() -> None:
    tried = {number for case in CASES.values() for number in case.numbers if number.startswith("C")}
    assert tried | set(ELSEWHERE) == {f"C{number}" for number in range(1, CASE_COUNT + 1)}
    assert tried & set(ELSEWHERE) == set()


def test_every_case_says_something_of_its_own() -> None:
    sentences = [case.sentence for case in CASES.values()]
    assert len(set(sentences)) == len(sentences)
    for case in CASES.values():
        assert case.function.__doc__, case.name
        assert case.rules, case.name
        assert all(re.fullmatch(r"[RC]\d+", number) for number in case.numbers), case.name


@pytest.mark.parametrize("bench", OURS)
def test_nothing_is_excused_in_our_own_engine(bench: str) -> None:
    assert deviations(bench) == {}


@pytest.mark.parametrize("bench", sorted(BENCHES))
def test_what_is_excused_is_a_case(bench: str) -> None:
    assert set(deviations(bench)) <= set(CASES)
