# SPDX-License-Identifier: Apache-2.0
"""What the P4-16 Language Specification says, a sentence a packet test: tests/conformance/stf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nicemu.stf import Status, find_tests, run_test

TESTS = find_tests(Path(__file__).parent / "stf")
NOT_YET = {
    "a_bit_string_may_have_no_bits": "refused: bit<0>",
    "a_control_may_be_an_argument_of_a_constructor": "refused: such a parameter cannot be applied",
    "a_key_may_apply_another_table": "refused: a table in a key",
    "a_packet_too_short_is_told_before_a_header_too_short": "HeaderTooShort is told first",
    "a_range_of_signed_numbers_may_stand_in_a_select": "refused",
    "a_range_whose_second_value_is_smaller_is_empty": "refused",
    "a_slice_of_a_constant_is_taken_at_compile_time": "refused: a slice of an int",
    "a_structure_by_name_may_give_its_fields_in_any_order": "they are evaluated in the order of the type",
    "an_error_may_be_a_key": "refused: error in a const entry",
    "an_extern_may_be_a_parameter_of_a_control": "refused: extern parameters of apply",
    "arguments_by_name_are_evaluated_as_they_are_written": "they are evaluated in the order of parameters",
    "last_index_of_an_empty_stack_does_not_reject": "StackOutOfBounds",
    "lists_are_compared_part_by_part": "refused: == of two lists",
    "next_of_a_full_stack_as_an_argument_rejects_the_packet": "the inner parser runs, and its header is lost",
    "sizes_are_known_at_compile_time": "refused: sizes of unions",
    "strings_are_joined_at_compile_time": "refused: ++ of strings",
}
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
