# SPDX-License-Identifier: Apache-2.0
"""The coroutine scheduler: order, timers, deadlines and the end of everything."""

from __future__ import annotations

import gc
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from nicemu.firmware import FirmwareTimeout, Scheduler, Signal

if TYPE_CHECKING:
    from tests.unit.firmware.conftest import Core


async def nothing() -> None:
    return


async def wait_for(signal: Signal, log: list[Any] | None = None) -> None:
    value = await signal
    if log is not None:
        log.append(value)


# Signals.


def test_awaiting_a_signal_returns_its_value(core: Core) -> None:
    signal, log = Signal(), list[Any]()
    core.spawn("waiter", wait_for(signal, log))
    core.run()
    assert (log, core.ended) == ([], [])
    signal.set("value")
    assert log == []
    core.run()
    assert (log, core.ended) == (["value"], [("waiter", "")])


def test_a_signal_happens_once(core: Core) -> None:
    signal, log = Signal(), list[Any]()
    core.spawn("waiter", wait_for(signal, log))
    core.run()
    signal.set(1)
    signal.set(2)
    core.run()
    assert (signal.done, signal.value, log) == (True, 1, [1])


def test_a_signal_that_has_happened_is_not_waited_for(core: Core) -> None:
    signal, log = Signal(), list[Any]()
    signal.set("early")
    core.spawn("waiter", wait_for(signal, log))
    assert core.run() == 1
    assert log == ["early"]


def test_every_task_that_waits_for_a_signal_goes_on_in_the_order_of_waiting(core: Core) -> None:
    signal, log = Signal(), list[Any]()

    async def wait(name: str) -> None:
        await signal
        log.append(name)

    for name in "abc":
        core.spawn(name, wait(name))
    core.run()
    signal.set()
    core.run()
    assert log == ["a", "b", "c"]


def test_when_done_calls_at_once_what_comes_late() -> None:
    signal, log = Signal(), list[str]()
    signal.when_done(lambda: log.append("early"))
    signal.set()
    signal.when_done(lambda: log.append("late"))
    assert log == ["early", "late"]


# Order.


def test_tasks_first_run_in_the_order_of_spawning_and_not_before_run(core: Core) -> None:
    log: list[str] = []

    async def say(name: str) -> None:
        log.append(name)

    for name in "abc":
        core.spawn(name, say(name))
    assert (log, core.scheduler.has_ready) == ([], True)
    assert core.run() == 3
    assert (log, core.scheduler.has_ready, core.scheduler.steps) == (["a", "b", "c"], False, 3)


def test_tasks_go_on_in_the_order_in_which_their_signals_happened(core: Core) -> None:
    signals, log = [Signal() for _ in range(3)], list[Any]()
    for signal in signals:
        core.spawn("waiter", wait_for(signal, log))
    core.run()
    for position in (2, 0, 1):
        signals[position].set(position)
    core.run()
    assert log == [2, 0, 1]


def test_what_a_step_makes_ready_runs_in_the_same_run(core: Core) -> None:
    signal, log = Signal(), list[Any]()

    async def set_it() -> None:
        signal.set("now")

    core.spawn("waiter", wait_for(signal, log))
    core.spawn("setter", set_it())
    assert core.run() == 3
    assert log == ["now"]


def test_a_task_that_spawns_another_one_runs_on_first(core: Core) -> None:
    log: list[str] = []

    async def child() -> None:
        log.append("child")

    async def parent() -> None:
        core.spawn("child", child())
        log.append("parent")

    core.spawn("parent", parent())
    core.run()
    assert log == ["parent", "child"]
    assert core.ended == [("parent", ""), ("child", "")]


def test_the_task_that_runs_is_known_to_who_is_called_from_it(core: Core) -> None:
    seen: list[Any] = []

    async def look() -> None:
        seen.append(core.scheduler.current)

    task = core.spawn("looker", look())
    assert core.scheduler.current is None
    core.run()
    assert seen == [task]
    assert core.scheduler.current is None


# Timers.


def test_a_wait_that_says_how_long_ends_with_a_timeout(core: Core) -> None:
    log: list[Any] = []

    async def wait() -> None:
        try:
            await Signal(timeout_ns=100)
        except FirmwareTimeout as timeout:
            log.append(str(timeout))

    core.spawn("waiter", wait())
    core.run(1000)
    assert core.scheduler.next_deadline_ns() == 1100
    assert core.run(1099) == 0
    assert core.run(1100) == 1
    assert log == ["waiter waited longer than it said"]
    assert core.ended == [("waiter", "")]
    assert core.scheduler.next_deadline_ns() is None


def test_a_timer_of_a_wait_that_is_over_is_stale(core: Core) -> None:
    signal, log = Signal(timeout_ns=100), list[Any]()

    async def wait_twice() -> None:
        log.append(await signal)
        log.append(await Signal(timeout_ns=1000))

    core.spawn("waiter", wait_twice())
    core.run(0)
    signal.set("in time")
    core.run(50)
    assert core.scheduler.next_deadline_ns() == 1050
    core.run(200)
    assert (log, core.ended) == (["in time"], [])
    core.run(1050)
    assert core.ended == [("waiter", "firmware.timeout")]


def test_a_signal_that_happened_before_its_timer_is_looked_at_was_in_time(core: Core) -> None:
    signal, log = Signal(timeout_ns=100), list[Any]()
    core.spawn("waiter", wait_for(signal, log))
    core.run(0)
    signal.set("just")
    core.run(100)
    assert (log, core.ended) == (["just"], [("waiter", "")])


def test_a_signal_that_happens_after_the_timeout_does_nothing(core: Core) -> None:
    late, second, log = Signal(timeout_ns=10), Signal(), list[Any]()

    async def wait() -> None:
        try:
            await late
        except FirmwareTimeout:
            log.append(await second)

    core.spawn("waiter", wait())
    core.run(0)
    core.run(10)
    assert late.abandoned
    late.set("late")
    assert core.run(20) == 0
    second.set("second")
    core.run(30)
    assert log == ["second"]


def test_timers_expire_in_the_order_of_their_times_then_of_their_waits(core: Core) -> None:
    log: list[str] = []

    async def wait(name: str, duration_ns: int) -> None:
        try:
            await Signal(duration_ns)
        except FirmwareTimeout:
            log.append(name)

    for name, duration_ns in [("c", 30), ("a", 10), ("b", 20), ("a2", 10)]:
        core.spawn(name, wait(name, duration_ns))
    core.run(0)
    core.run(1000)
    assert log == ["a", "a2", "b", "c"]


# Deadlines.


def test_a_task_that_outlives_its_deadline_ends(core: Core) -> None:
    task = core.spawn("slow", wait_for(Signal()), timeout_ns=500, event="its event")
    core.run(0)
    assert core.scheduler.next_deadline_ns() == 500
    core.run(499)
    assert core.ended == []
    core.run(500)
    assert core.ended == [("slow", "firmware.timeout")]
    assert (str(task.error), task.event) == ("slow took longer than it may", "its event")
    assert core.scheduler.faults == {"firmware.timeout": 1}
    assert not core.scheduler.tasks


def test_the_deadline_of_a_task_that_ended_in_time_is_stale(core: Core) -> None:
    core.spawn("quick", nothing(), timeout_ns=500)
    core.run(0)
    assert core.scheduler.next_deadline_ns() is None
    assert core.run(1000) == 0
    assert core.ended == [("quick", "")]


def test_a_task_may_clean_up_at_its_deadline(core: Core) -> None:
    log: list[str] = []

    async def tidy() -> None:
        try:
            await Signal()
        finally:
            log.append("cleaned")

    core.spawn("tidy", tidy(), timeout_ns=10)
    core.run(0)
    core.run(10)
    assert (log, core.ended) == (["cleaned"], [("tidy", "firmware.timeout")])


def test_a_task_that_catches_its_deadline_ends_at_its_next_await(core: Core) -> None:
    log: list[str] = []

    async def stubborn() -> None:
        for attempt in range(10):
            try:
                await Signal()
            except FirmwareTimeout:
                log.append(f"attempt {attempt}")

    core.spawn("stubborn", stubborn(), timeout_ns=10)
    core.run(0)
    core.run(10)
    assert (log, core.ended) == (["attempt 0"], [("stubborn", "firmware.timeout")])
    assert core.run(1000) == 0


def test_a_wait_with_a_timeout_of_its_own_may_be_retried_until_the_deadline(core: Core) -> None:
    log: list[int] = []

    async def retry() -> None:
        while True:
            try:
                await Signal(timeout_ns=100)
            except FirmwareTimeout:
                log.append(core.now)

    core.spawn("retry", retry(), timeout_ns=350)
    core.run(0)
    while core.scheduler.tasks:
        deadline_ns = core.scheduler.next_deadline_ns()
        assert deadline_ns is not None
        core.run(deadline_ns)
    assert log == [100, 200, 300, 350]
    assert core.ended == [("retry", "firmware.timeout")]


# The end of everything.


def test_cancel_all_ends_every_task_in_the_order_of_spawning_without_a_fault(core: Core) -> None:
    log: list[str] = []

    async def wait(name: str) -> None:
        try:
            await Signal(timeout_ns=5)
        finally:
            log.append(f"{name}{'' if core.scheduler.current is None else core.scheduler.current.name}")

    names = [f"task {number}" for number in range(20)]
    for name in names:
        core.spawn(name, wait(name), timeout_ns=100)
    core.run(0)
    core.spawn("not yet run", nothing())
    core.scheduler.cancel_all()
    assert core.ended == [(name, "") for name in [*names, "not yet run"]]
    assert log == [name + name for name in names]
    assert not core.scheduler.faults
    assert not core.scheduler.tasks
    assert core.scheduler.next_deadline_ns() is None
    assert core.run(1000) == 0


def test_cancel_all_ends_what_is_spawned_while_it_runs_and_survives_what_it_closes(core: Core) -> None:
    async def respawns() -> None:
        try:
            await Signal()
        finally:
            core.spawn("late", nothing())
            raise ValueError("in finally")

    core.spawn("respawns", respawns())
    core.run()
    core.scheduler.cancel_all()
    assert core.ended == [("respawns", ""), ("late", "")]
    assert core.run() == 0


def test_a_signal_of_a_cancelled_task_may_happen_later(core: Core) -> None:
    signal = Signal()
    core.spawn("waiter", wait_for(signal))
    core.run()
    core.scheduler.cancel_all()
    assert signal.abandoned
    signal.set()
    assert core.run() == 0


def test_no_coroutine_is_left_without_having_been_awaited(core: Core) -> None:
    """Python would warn when it is collected, and warnings are errors here."""
    waiting: Coroutine[Any, Any, None] = wait_for(Signal())
    core.spawn("never run", waiting)
    core.scheduler.cancel_all()
    del waiting
    gc.collect()


# A core that takes its time.


def test_a_step_takes_the_core_its_time_and_does_what_it_does_at_its_end() -> None:
    core = Scheduler(lambda task, fault: None, step_ns=1000)
    log: list[str] = []

    async def say(word: str) -> None:
        log.append(word)
        signal = Signal()
        signal.set()
        await signal

    core.spawn("first", say("first"), 0)
    core.spawn("second", say("second"), 0)
    seen = []
    for now_ns in (0, 999, 1000, 1999, 2000):
        core.run(now_ns)
        seen.append((tuple(log), core.next_deadline_ns()))
    assert seen == [
        ((), 1000),
        ((), 1000),
        (("first",), 2000),
        (("first",), 2000),
        (("first", "second"), None),
    ]


def test_a_core_that_is_free_begins_when_there_is_work() -> None:
    core = Scheduler(lambda task, fault: None, step_ns=1000)
    core.spawn("early", nothing(), 0)
    core.run(0)
    core.run(1000)
    core.spawn("late", nothing(), 5000)
    core.run(5000)
    assert core.next_deadline_ns() == 6000
    assert core.run(6000) == 1
