# SPDX-License-Identifier: Apache-2.0
"""What the P4-16 Language Specification says, a sentence a packet test: tests/conformance/stf."""

from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.hot import JIT
from nicemu.p4 import compile_program
from nicemu.pipeline import program_of_json
from nicemu.stf import Outcome, Status, find_tests, run_test

TESTS = find_tests(Path(__file__).parent / "stf")
EACH = pytest.mark.parametrize(("program", "script"), TESTS, ids=[program.stem for program, _ in TESTS])


def require_passed(outcome: Outcome) -> None:
    told = [message.render() for message in outcome.messages]
    told += [failure.render() for failure in (outcome.report.failures if outcome.report else ())]
    assert outcome.status is Status.PASSED, "\n".join(told)


@EACH
def test_the_language_is_as_specified(program: Path, script: Path) -> None:
    require_passed(run_test(program, script))


@EACH
def test_a_program_is_the_same_on_the_other_side_of_a_wire(program: Path, script: Path) -> None:
    compiled = compile_program(program).program
    assert program_of_json(compiled.to_json()) == compiled


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")
@EACH
def test_machine_code_is_as_specified(program: Path, script: Path) -> None:
    outcome = run_test(program, script, compiled=True)
    require_passed(outcome)
    assert outcome.report is not None
    assert outcome.report.interpreted_because == ""
