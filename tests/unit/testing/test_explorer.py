# SPDX-License-Identifier: Apache-2.0
"""Finding a failing schedule, and making it short."""

from __future__ import annotations

from nicemu.nic import Footprint, Step, Use
from nicemu.testing.choices import Schedule, parse_choices
from nicemu.testing.explorer import Exploration, explore, report

PLACES = 12


def last_of(schedule: Schedule, places: int = PLACES) -> list[int]:
    """Twelve places with three options each, all in conflict; what was chosen."""
    chosen = []
    for place in range(places):
        options = [Step((place, number), f"place {place}: {number}") for number in range(3)]
        chosen.append(schedule.choose(options))
        touched = Footprint()
        touched.use(Use.WRITE, "everything")
        schedule.took(touched)
    return chosen


def test_a_failure_is_made_as_short_as_it_goes() -> None:
    exploration = explore(lambda schedule: last_of(schedule)[2] == 0, 400, depth=0, reduction=False)
    failure = exploration.failure
    assert failure is not None
    assert failure.choices in ((0, 0, 1), (1,), (0, 1))  # dropping what comes before moves it, as here
    assert last_of(Schedule(failure.choices))[2] != 0


def test_a_failure_that_was_drawn_names_its_seed() -> None:
    exploration = explore(lambda schedule: sum(last_of(schedule)) < 8, 400, depth=0, seed=50, reduction=False)
    failure = exploration.failure
    assert failure is not None
    assert failure.seed is not None
    assert failure.seed >= 50
    assert sum(last_of(Schedule(failure.choices))) == 8


def test_the_same_seeds_find_the_same_failure() -> None:
    def found() -> Exploration:
        return explore(lambda schedule: sum(last_of(schedule)) < 8, 400, depth=0, reduction=False)

    assert found() == found()


def test_a_report_says_how_to_see_it_again_and_what_happened() -> None:
    exploration = explore(lambda schedule: last_of(schedule)[1] != 2, 400, depth=0, reduction=False)
    text = report(exploration, "test_mine.py::test_it")
    assert exploration.failure is not None
    (line,) = [line for line in text.splitlines() if line.startswith("again: ")]
    choices = line.rsplit("--replay ", 1)[1]
    assert parse_choices(choices) == exploration.failure.choices
    assert "'test_mine.py::test_it'" in line
    assert "* place 1: 2" in text


def test_a_test_without_a_choice_is_run_once() -> None:
    exploration = explore(lambda schedule: not last_of(schedule, places=0), 100)
    assert exploration.schedules == 1
    assert exploration.sentence() == "1 schedule: every order that matters"


def test_what_fails_by_itself_has_no_choices() -> None:
    exploration = explore(lambda schedule: False, 100)
    assert exploration.failure is not None
    assert (exploration.schedules, exploration.failure.choices) == (1, ())
