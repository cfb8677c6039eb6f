# SPDX-License-Identifier: Apache-2.0
"""Running a pytest test under many schedules: each with fixtures of its own, and one run that is reported."""

from __future__ import annotations

import os

import pytest
from _pytest.runner import runtestprotocol

from .choices import Schedule, parse_choices
from .explorer import Exploration, explore, report
from .told import EXPLORED, TOLD

REPLAY_VARIABLE = "NICEMU_REPLAY"
_SCHEDULE = pytest.StashKey[Schedule]()


class _NotRun(Exception):  # noqa: N818 - no error: the test was skipped, or a fixture failed
    """The test did not get to its call; there is nothing to explore."""


def schedule_of(item: pytest.Item) -> Schedule | None:
    """Return the schedule that a test is run under; None if it is run as it stands."""
    return item.stash.get(_SCHEDULE, None)


def run_explored(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test under the schedules that its marker and the options say, and report one run."""
    marker = item.get_closest_marker("explore")
    settings = {} if marker is None else dict(marker.kwargs)
    for name in ("schedules", "depth", "seed", "replay"):
        given = item.config.getoption(f"--nicemu-{name}")
        if given is not None:
            settings[name] = given
    settings.setdefault("replay", "")
    replay = os.environ.get(REPLAY_VARIABLE, "") or settings.pop("replay")
    settings.pop("replay", None)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    if replay:
        schedule = Schedule(parse_choices(replay))
        _run_reported(item, nextitem, schedule, f"replayed {replay}")
        if not schedule.was_followed:
            note = "has no such choices (any more): what was run is another order"
            item.config.stash[EXPLORED].append(f"{item.nodeid}: {replay} {note}")
    else:
        _explore(item, nextitem, settings)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _explore(item: pytest.Item, nextitem: pytest.Item | None, settings: dict[str, int]) -> None:
    def run(schedule: Schedule) -> bool:
        item.stash[_SCHEDULE] = schedule
        reports = runtestprotocol(item, log=False, nextitem=item.parent)  # type: ignore[arg-type]
        call = next((one for one in reports if one.when == "call"), None)
        if call is None or call.skipped or any(one.failed for one in reports if one.when != "call"):
            raise _NotRun
        return call.passed

    exploration: Exploration | None = None
    try:
        exploration = explore(run, **settings)  # type: ignore[arg-type]
    except _NotRun:
        _run_reported(item, nextitem, Schedule(), "")
        return
    failure = exploration.failure
    item.config.stash[EXPLORED].append(f"{item.nodeid}: {exploration.sentence()}")
    choices = () if failure is None else failure.choices
    _run_reported(item, nextitem, Schedule(choices), report(exploration, item.nodeid))


def _run_reported(item: pytest.Item, nextitem: pytest.Item | None, schedule: Schedule, told: str) -> None:
    item.stash[_SCHEDULE] = schedule
    item.stash[TOLD] = told
    runtestprotocol(item, nextitem=nextitem)
    del item.stash[_SCHEDULE]
