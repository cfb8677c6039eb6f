# SPDX-License-Identifier: Apache-2.0
"""Faults of firmware tasks, and the guard around every step: nothing a script does stops the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from nicemu.errors import ResourceError, UsageError
from nicemu.firmware import FirmwareOverrun, FirmwareTimeout, Signal
from nicemu.firmware import core as core_module

if TYPE_CHECKING:
    from tests.unit.firmware.conftest import Core


async def nothing() -> None:
    return


async def wait_for(signal: Signal, log: list[Any] | None = None) -> None:
    value = await signal
    if log is not None:
        log.append(value)


# Faults.


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ValueError("wrong"), "firmware.ValueError"),
        (KeyError("x"), "firmware.KeyError"),
        (UsageError("no"), "firmware.UsageError"),
        (ResourceError("full"), "firmware.ResourceError"),
        (FirmwareTimeout("own"), "firmware.timeout"),
        (FirmwareOverrun("loop"), "firmware.overrun"),
        (SystemExit(3), "firmware.SystemExit"),
        (GeneratorExit(), "firmware.GeneratorExit"),
        (RecursionError("deep"), "firmware.RecursionError"),
    ],
)
def test_a_task_that_raises_ends_and_its_fault_is_counted_by_name(
    core: Core, error: BaseException, name: str
) -> None:
    log: list[Any] = []

    async def fail() -> None:
        raise error

    other = Signal()
    other.set("goes on")
    task = core.spawn("bad", fail())
    core.spawn("good", wait_for(other, log))
    core.run()
    assert core.ended == [("bad", name), ("good", "")]
    assert log == ["goes on"]
    assert task.error is error
    assert core.scheduler.faults == {name: 1}


class Foreign:
    def __await__(self) -> Generator[str, None, None]:
        yield "something else"


def test_awaiting_anything_but_a_signal_is_a_fault(core: Core) -> None:
    log: list[str] = []

    async def wrong() -> None:
        try:
            await Foreign()
        finally:
            log.append("closed")

    task = core.spawn("wrong", wrong())
    core.run()
    assert core.ended == [("wrong", "firmware.bad_await")]
    assert str(task.error) == "firmware cannot await a str"
    assert log == ["closed"]


def test_what_a_task_does_while_it_is_closed_does_not_reach_the_scheduler(core: Core) -> None:
    async def clings() -> None:
        try:
            await Foreign()
        finally:
            await Signal()

    async def breaks() -> None:
        try:
            await Foreign()
        finally:
            raise ValueError("in finally")

    core.spawn("clings", clings())
    core.spawn("breaks", breaks())
    core.run()
    assert core.ended == [("clings", "firmware.bad_await"), ("breaks", "firmware.bad_await")]


def test_too_many_tasks_are_refused_and_the_refused_coroutine_is_closed(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_module, "MAX_TASKS", 2)
    core.spawn("a", wait_for(Signal()))
    core.spawn("b", wait_for(Signal()))
    refused: Any = nothing()
    with pytest.raises(ResourceError, match="2 firmware tasks run already; c was not started"):
        core.spawn("c", refused)
    assert refused.cr_frame is None
    core.scheduler.cancel_all()


# The guard.


def test_every_step_runs_inside_the_guard(make_core: Callable[..., Core]) -> None:
    log: list[str] = []

    @contextmanager
    def guard() -> Iterator[None]:
        log.append("in")
        yield
        log.append("out")

    core = make_core(guard)
    signal = Signal()

    async def two_steps() -> None:
        log.append("first")
        await signal
        log.append("second")

    core.spawn("task", two_steps())
    core.run()
    signal.set()
    core.run()
    # The step that returned left the guard by StopIteration, as any exception would.
    assert log == ["in", "first", "out", "in", "second"]


def test_a_step_that_overruns_ends_its_task_and_a_script_cannot_swallow_it(
    make_core: Callable[..., Core],
) -> None:
    budget = [0]

    @contextmanager
    def guard() -> Iterator[None]:
        budget[0] = 100
        yield

    def work() -> None:
        budget[0] -= 1
        if budget[0] < 0:
            raise FirmwareOverrun("100 units used up")

    async def endless() -> None:
        while True:
            try:
                work()
            except Exception:
                pytest.fail("a script must not see it")

    core, log = make_core(guard), list[Any]()
    core.spawn("endless", endless())
    signal = Signal()
    signal.set("alive")
    core.spawn("other", wait_for(signal, log))
    core.run()
    assert core.ended == [("endless", "firmware.overrun"), ("other", "")]
    assert log == ["alive"]


def test_an_overrun_that_shows_after_the_step_closes_the_coroutine(make_core: Callable[..., Core]) -> None:
    late = [True]

    @contextmanager
    def guard() -> Iterator[None]:
        yield
        if late[0]:
            late[0] = False
            raise FirmwareOverrun("too long")

    core = make_core(guard)
    signal = Signal()
    waiting: Any = wait_for(signal)
    core.spawn("task", waiting)
    core.run()
    assert core.ended == [("task", "firmware.overrun")]
    signal.set()
    assert core.run() == 0
    assert waiting.cr_frame is None
