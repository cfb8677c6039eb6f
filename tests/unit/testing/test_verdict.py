# SPDX-License-Identifier: Apache-2.0
"""What the suite makes of a case that holds, fails, deviates, or cannot be tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nicemu.abi import Limits, Unsupported
from nicemu.testing import Absent, Bench, Case, Verdict, try_case
from nicemu.testing.conformance import verdict


class _Bare:
    inside = None


def _case(function: Callable[[Bench], None], inside: bool = False) -> Case:
    return Case("tried", "It is tried", ("R1",), Limits(), inside, function)


def _holds(bench: Bench) -> None:
    pass


def _fails(bench: Bench) -> None:
    raise AssertionError("it came to 3")


def _cannot(bench: Bench) -> None:
    raise Unsupported("R37", "no cancel")


def _falls_over(bench: Bench) -> None:
    raise ZeroDivisionError("a fault of the bench")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Deviations that are known of the bench "bare"."""

    @contextmanager
    def bare(limits: Limits) -> Iterator[object]:
        yield _Bare()

    def absent(limits: Limits) -> object:
        raise Absent("no library")

    def narrow(limits: Limits) -> object:
        raise Unsupported("R2", "no such limits")

    excused: dict[str, str] = {}
    monkeypatch.setattr(verdict, "BENCHES", {"bare": bare, "absent": absent, "narrow": narrow})
    monkeypatch.setattr(verdict, "deviations", lambda name: excused)
    return excused


@pytest.mark.parametrize(
    ("function", "found", "reason"),
    [
        (_holds, Verdict.HOLDS, ""),
        (_fails, Verdict.FAILS, "AssertionError: it came to 3"),
        (_cannot, Verdict.FAILS, "Unsupported: no cancel [R37] (ENOSYS)"),
        (_falls_over, Verdict.FAILS, "ZeroDivisionError: a fault of the bench"),
    ],
)
def test_a_case_holds_or_fails_with_its_reason(
    known: dict[str, str], function: Callable[[Bench], None], found: Verdict, reason: str
) -> None:
    result = try_case(_case(function), "bare")
    assert (result.verdict, result.reason) == (found, reason)
    assert result.verdict.is_fault is (found is Verdict.FAILS)


def test_a_known_deviation_is_no_fault(known: dict[str, str]) -> None:
    known["tried"] = "it counts to 3"
    result = try_case(_case(_fails), "bare")
    assert (result.verdict, result.reason) == (Verdict.DEVIATES, "it counts to 3")
    assert not result.verdict.is_fault


def test_a_deviation_that_is_none_is_a_fault(known: dict[str, str]) -> None:
    known["tried"] = "it counts to 3"
    result = try_case(_case(_holds), "bare")
    assert (result.verdict, result.reason) == (Verdict.WRONGLY_EXPECTED, "it counts to 3")
    assert result.verdict.is_fault


@pytest.mark.parametrize(
    ("bench", "inside", "found", "reason"),
    [
        ("absent", False, Verdict.ABSENT, "no library"),
        ("narrow", False, Verdict.NOT_TRIED, "no such limits [R2] (ENOSYS)"),
        ("bare", True, Verdict.NOT_TRIED, "only a NIC of ours can be looked into"),
    ],
)
def test_what_cannot_be_tried_says_why(
    known: dict[str, str], bench: str, inside: bool, found: Verdict, reason: str
) -> None:
    result = try_case(_case(_fails, inside), bench)
    assert (result.verdict, result.reason) == (found, reason)
    assert not result.verdict.is_fault
