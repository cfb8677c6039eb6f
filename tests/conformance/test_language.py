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
    "a_checksum_covers_the_list_of_its_data_and_lists_in_it": "the compiler breaks at the inner list",
    "a_compound_assignment_evaluates_its_target_once": "it is evaluated twice",
    "a_constant_may_be_computed_from_booleans": "refused: && in a constant",
    "a_control_may_be_an_argument_of_a_constructor": "refused: such a parameter cannot be applied",
    "a_deparser_may_hand_its_packet_to_another_control": "the compiler breaks at packet_out as a parameter",
    "a_key_may_apply_another_table": "refused: a table in a key",
    "a_key_may_be_an_element_of_a_stack": "refused: only with @name",
    "a_last_label_without_a_block_does_nothing": "refused",
    "a_number_that_is_too_large_is_cut_with_a_warning": "refused: it does not fit",
    "a_packet_too_short_is_told_before_a_header_too_short": "HeaderTooShort is told first",
    "a_range_of_signed_numbers_may_stand_in_a_select": "refused",
    "a_range_whose_second_value_is_smaller_is_empty": "refused",
    "a_signed_literal_may_write_its_sign_bit": "refused: it does not fit",
    "a_slice_of_a_constant_is_taken_at_compile_time": "refused: a slice of an int",
    "a_stack_of_unions_holds_a_different_header_in_each_element": "next of a stack of unions stays there",
    "a_structure_by_name_may_give_its_fields_in_any_order": "they are evaluated in the order of the type",
    "an_error_may_be_a_key": "refused: error in a const entry",
    "an_extern_may_be_a_parameter_of_a_control": "refused: extern parameters of apply",
    "an_extern_writes_where_its_argument_was_before_the_later_ones": "its place is found behind them",
    "an_index_with_a_side_effect_in_a_target_is_evaluated_once": "twice where it has a slice",
    "an_index_with_a_side_effect_in_an_argument_is_evaluated_once": "twice where it is inout",
    "an_index_with_a_side_effect_in_an_extraction_is_evaluated_once": "twice",
    "arguments_by_name_are_evaluated_as_they_are_written": "they are evaluated in the order of parameters",
    "exit_ends_a_deparser_with_what_it_has_emitted": "refused: exit in a deparser",
    "headers_in_a_struct_of_a_lookahead_are_valid": "the engine breaks at the packet",
    "last_index_of_an_empty_stack_does_not_reject": "StackOutOfBounds",
    "lists_are_compared_part_by_part": "refused: == of two lists",
    "next_of_a_full_stack_as_an_argument_rejects_the_packet": "the inner parser runs, and its header is lost",
    "sizes_are_known_at_compile_time": "refused: sizes of unions",
    "strings_are_joined_at_compile_time": "refused: ++ of strings",
    "the_left_index_is_evaluated_before_the_right_one": "behind it",
    "the_target_of_an_assignment_is_found_before_its_value": "an index is evaluated after the value",
    "zero_and_one_may_be_cast_to_bool": "refused: int to bool",
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
