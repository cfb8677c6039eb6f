# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nicemu.errors import UsageError
from nicemu.nic import Step
from nicemu.testing.choices import RandomSchedule, Schedule, format_choices, parse_choices, trimmed

OPTIONS = [Step(("a",), "one"), Step(("b",), "two"), Step(("c",), "three")]


@pytest.mark.parametrize(
    ("choices", "text"), [((), "0"), ((0, 0), "0"), ((0, 2, 1), "0.2.1"), ((1, 0, 0), "1")]
)
def test_a_choice_list_is_written_without_the_zeros_at_its_end(choices: tuple[int, ...], text: str) -> None:
    assert format_choices(choices) == text
    assert trimmed(parse_choices(text)) == trimmed(choices)


@pytest.mark.parametrize("text", ["0.x", "-1", "1..2", "٣"])
def test_what_is_no_choice_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"numbers with dots"):
        parse_choices(text)


def test_a_place_with_one_option_takes_no_number_of_the_list() -> None:
    schedule = Schedule((2, 1))
    assert [schedule.choose(OPTIONS[:1]), schedule.choose(OPTIONS), schedule.choose(OPTIONS)] == [0, 2, 1]
    assert schedule.choices == [2, 1]


def test_behind_its_end_and_where_it_does_not_fit_a_list_is_zero() -> None:
    schedule = Schedule((7,))
    assert [schedule.choose(OPTIONS), schedule.choose(OPTIONS)] == [0, 0]


def test_a_story_marks_what_the_stepper_would_not_have_done() -> None:
    schedule = Schedule((0, 1))
    schedule.choose(OPTIONS)
    schedule.choose(OPTIONS)
    assert schedule.story() == ["   1   one", "   2 * two"]


def test_the_same_seed_draws_the_same_schedule() -> None:
    def drawn(seed: int) -> list[int]:
        schedule = RandomSchedule(seed)
        for _ in range(50):
            schedule.choose(OPTIONS)
        return schedule.choices

    assert drawn(3) == drawn(3)
    assert len({tuple(drawn(seed)) for seed in range(20)}) > 10
