# SPDX-License-Identifier: Apache-2.0
"""What the P4-16 Language Specification says, a sentence a packet test: tests/conformance/stf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nicemu.stf import Status, find_tests, run_test

TESTS = find_tests(Path(__file__).parent / "stf")
NOT_YET: dict[str, str] = {}
"""Sentences that do not hold yet, and what happens instead."""


def _marked(program: Path, script: Path) -> Any:  # noqa: ANN401 - pytest names no type for it
    reason = NOT_YET.get(program.stem)
    marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
    return pytest.param(program, script, id=program.stem, marks=marks)


@pytest.mark.parametrize(("program", "script"), [_marked(*test) for test in TESTS])
def test_the_language_is_as_specified(program: Path, script: Path) -> None:
    outcome = run_test(program, script)
    told = [message.render() for message in outcome.messages]
    told += [failure.render() for failure in (outcome.report.failures if outcome.report else ())]
    assert outcome.status is Status.PASSED, "\n".join(told)


def test_what_does_not_hold_yet_is_a_test() -> None:
    assert NOT_YET.keys() <= {program.stem for program, _ in TESTS}
