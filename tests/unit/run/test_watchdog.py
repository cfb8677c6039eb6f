# SPDX-License-Identifier: Apache-2.0
"""A step of a firmware script has a budget of time that it runs, whatever else the machine does."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from nicemu.firmware import FirmwareOverrun
from nicemu.run.running import ANSWER_TIMEOUT_S
from nicemu.run.watchdog import LOAD_BUDGET_S, LONGEST_LOAD_S, Watchdog

BUDGET_S, LONGEST_S = 50.0, 500.0
"""So long that the timer itself never rings in these tests."""


class Clocks:
    """What the watchdog reads: how long the thread has run, and the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran_s = self.now_s = 100.0
        monkeypatch.setattr(time, "thread_time", lambda: self.ran_s)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def ring(self, ran_s: float, took_s: float) -> None:
        self.ran_s, self.now_s = 100.0 + ran_s, 100.0 + took_s
        signal.raise_signal(signal.SIGALRM)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    before = signal.getsignal(signal.SIGALRM)
    yield Watchdog(BUDGET_S, LONGEST_S)
    signal.signal(signal.SIGALRM, before)


def test_a_step_that_has_run_for_its_budget_is_interrupted(watchdog: Watchdog, clocks: Clocks) -> None:
    with pytest.raises(FirmwareOverrun, match=r"it did not return within 50\.0 s"), watchdog.step():
        clocks.ring(BUDGET_S, BUDGET_S)


def test_a_step_that_others_keep_from_running_goes_on(watchdog: Watchdog, clocks: Clocks) -> None:
    with watchdog.step():
        clocks.ring(BUDGET_S / 4, BUDGET_S)
        clocks.ring(BUDGET_S / 2, 2 * BUDGET_S)


def test_a_step_that_waits_is_interrupted_in_the_end(watchdog: Watchdog, clocks: Clocks) -> None:
    with pytest.raises(FirmwareOverrun, match=r"it did not return within 500\.0 s"), watchdog.step():
        clocks.ring(0, LONGEST_S)


def test_the_top_level_of_a_script_is_interrupted_before_its_clients_give_up(
    watchdog: Watchdog, clocks: Clocks
) -> None:
    assert LONGEST_LOAD_S < ANSWER_TIMEOUT_S
    for ran_s, took_s in ((LOAD_BUDGET_S, LOAD_BUDGET_S), (0, LONGEST_LOAD_S)):
        clocks.ran_s = clocks.now_s = 100.0
        with pytest.raises(FirmwareOverrun), watchdog.load():
            clocks.ring(ran_s, took_s)


def test_a_step_that_goes_on_after_an_overrun_is_interrupted_again(
    watchdog: Watchdog, clocks: Clocks
) -> None:
    with watchdog.step():
        for _ in range(3):
            with pytest.raises(FirmwareOverrun):
                clocks.ring(BUDGET_S, BUDGET_S)


def test_each_step_has_its_whole_budget_and_what_is_outside_none(watchdog: Watchdog, clocks: Clocks) -> None:
    with watchdog.step():
        clocks.ring(BUDGET_S / 2, BUDGET_S)
    clocks.ring(9 * BUDGET_S, 99 * BUDGET_S)
    with watchdog.step():
        clocks.ring(9.5 * BUDGET_S, 100 * BUDGET_S)
