# SPDX-License-Identifier: Apache-2.0
"""The coroutine scheduler of the NIC's cores: a ready list, timers, and one-shot signals.

A firmware coroutine waits for `Signal` objects alone. The scheduler has no clock: `run` is told the time and
steps every task that is ready. A task that raises, or outlives its deadline, ends; its fault is counted by
name, and the scheduler goes on. A deadline arrives as FirmwareTimeout at the `await`; a task that catches it
may clean up, but ends at its next
`await`. `on_end` hears of every task that ends, with the fault's name or "".
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from nicemu.errors import NicemuError, ResourceError

MAX_TASKS = 4096

Result = TypeVar("Result")


class FirmwareTimeout(NicemuError):  # noqa: N818 - as TimeoutError, in the words of firmware
    """What a task waited for did not happen in time."""


class FirmwareOverrun(BaseException):
    """A step of firmware did not return within its budget. Not an Exception, so that a script cannot swallow
    it.
    """


class HookError(NicemuError):
    """A plain function of a script failed; `fault` is the name that is counted."""

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class Signal:
    """Something that happens once, with a value; `await signal` returns the value.

    `abandoned` says that the task that waited for it no longer does.
    """

    __slots__ = ("_waiters", "abandoned", "done", "timeout_ns", "value")

    def __init__(self, timeout_ns: int | None = None) -> None:
        self.done = False
        self.abandoned = False
        self.value: Any = None
        self.timeout_ns = timeout_ns
        self._waiters: list[Callable[[], None]] = []

    def set(self, value: object = None) -> None:
        """Let it happen; later calls change nothing."""
        if self.done:
            return
        self.done, self.value = True, value
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def when_done(self, waiter: Callable[[], None]) -> None:
        """Call `waiter` when it happens (at once, if it has); several are called in the order of asking."""
        if self.done:
            waiter()
        else:
            self._waiters.append(waiter)

    def __await__(self) -> Generator[Signal, None, Any]:
        if not self.done:
            yield self
        return self.value


@dataclass(eq=False, slots=True)
class Task:
    """A running coroutine. `event` is what started it, for whoever handles its fault."""

    name: str
    coroutine: Coroutine[Signal, None, None]
    event: Any = None
    deadline_ns: int | None = None
    finished: bool = False
    expired: bool = False
    waiting: Signal | None = None
    error: BaseException | None = field(default=None, repr=False)


class Scheduler:
    """Runs firmware coroutines. `guard` brackets each step, and may raise FirmwareOverrun into one.

    `step_ns`: what a step, from one `await` to the next, takes the one core; it does what it does at its end.
    """

    def __init__(
        self,
        on_end: Callable[[Task, str], None],
        guard: Callable[[], AbstractContextManager[object]] = nullcontext,
        step_ns: int = 0,
    ) -> None:
        self._step_ns = step_ns
        self._step_ends_ns: int | None = None
        self.faults: Counter[str] = Counter()
        self.steps = 0
        self.guard = guard
        self._on_end = on_end
        self._ready: deque[tuple[Task, BaseException | None]] = deque()
        self._timers: list[tuple[int, int, Task, Signal | None]] = []
        self._sequence = 0
        self.tasks: dict[Task, None] = {}
        self.current: Task | None = None

    def spawn(
        self,
        name: str,
        coroutine: Coroutine[Signal, None, None],
        now_ns: int,
        event: object = None,
        timeout_ns: int | None = None,
    ) -> Task:
        """Start a task; it first runs in the next `run`. After `timeout_ns` it is ended with FirmwareTimeout.

        Raises: ResourceError if too many tasks run.
        """
        if len(self.tasks) >= MAX_TASKS:
            coroutine.close()
            raise ResourceError(f"{MAX_TASKS} firmware tasks run already; {name} was not started")
        task = Task(name, coroutine, event, None if timeout_ns is None else now_ns + timeout_ns)
        self.tasks[task] = None
        if task.deadline_ns is not None:
            self._push_timer(task.deadline_ns, task, None)
        self._ready.append((task, None))
        return task

    def _push_timer(self, when_ns: int, task: Task, signal: Signal | None) -> None:
        self._sequence += 1
        heapq.heappush(self._timers, (when_ns, self._sequence, task, signal))

    def next_deadline_ns(self) -> int | None:
        """Return when `run` wants to be called at the latest; None: only after an event."""
        while self._timers and self._is_stale(self._timers[0]):
            heapq.heappop(self._timers)
        timer_ns = self._timers[0][0] if self._timers else None
        if self._step_ends_ns is None or not self._ready:
            return timer_ns
        return self._step_ends_ns if timer_ns is None else min(timer_ns, self._step_ends_ns)

    @staticmethod
    def _is_stale(timer: tuple[int, int, Task, Signal | None]) -> bool:
        _, _, task, signal = timer
        return task.finished or (signal is not None and (signal.done or task.waiting is not signal))

    @property
    def starting(self) -> bool:
        """Whether the script's `@on_start` coroutine still runs."""
        return any(task.name == "start" for task in self.tasks)

    @property
    def has_ready(self) -> bool:
        """Whether a task can run now."""
        return bool(self._ready)

    def run(self, now_ns: int) -> int:
        """Expire timers up to `now_ns`, then step ready tasks until none is ready; return the steps taken."""
        self.expire(now_ns)
        steps = 0
        while self._ready and (not self._step_ns or self._has_ended(now_ns)):
            steps += self.step(0, now_ns)
        return steps

    def _has_ended(self, now_ns: int) -> bool:
        """Whether the core is through the step that comes next, which it begins when it looks for one."""
        if self._step_ends_ns is None:
            self._step_ends_ns = now_ns + self._step_ns
        if self._step_ends_ns > now_ns:
            return False
        self._step_ends_ns = None
        return True

    @property
    def ready(self) -> list[Task]:
        """The tasks that can run now, in the order in which `run` would."""
        return [task for task, _ in self._ready]

    def step(self, position: int, now_ns: int) -> int:
        """Step one of `ready`; return 1, or 0 if that task has ended meanwhile."""
        task, error = self._ready[position]
        del self._ready[position]
        if task.finished:
            return 0
        self._step(task, error, now_ns)
        self.steps += 1
        return 1

    def expire(self, now_ns: int) -> None:
        """Let timers up to `now_ns` make their tasks ready."""
        while self._timers and self._timers[0][0] <= now_ns:
            timer = heapq.heappop(self._timers)
            if self._is_stale(timer):
                continue
            _, _, task, signal = timer
            if signal is None:
                task.expired = True
                self._ready.append((task, FirmwareTimeout(f"{task.name} took longer than it may")))
            else:
                self._ready.append((task, FirmwareTimeout(f"{task.name} waited longer than it said")))
            if task.waiting is not None:
                task.waiting.abandoned = True
            task.waiting = None

    def call(self, name: str, function: Callable[[], Result]) -> Result:
        """Run a plain function of the script within the budget of one step, and return its result.

        Raises: NicemuError as the function raises it, which is its way to refuse; HookError for anything
        else, which is counted.
        """
        try:
            with self.guard():
                return function()
        except NicemuError:
            raise
        except FirmwareOverrun as overrun:
            fault, error = "firmware.overrun", f"{overrun}"
        except (Exception, SystemExit) as raised:
            fault, error = f"firmware.{type(raised).__name__}", f"{type(raised).__name__}: {raised}"
        self.faults[fault] += 1
        raise HookError(fault, f"@{name} failed: {error}")

    @contextmanager
    def bracketed(self) -> Iterator[None]:
        """Bracket a function of the script that no task runs. Raises: TimeoutError if it does not return."""
        try:
            with self.guard():
                yield
        except FirmwareOverrun as overrun:
            raise TimeoutError(str(overrun)) from overrun

    def _step(self, task: Task, error: BaseException | None, now_ns: int) -> None:
        self.current = task
        try:
            with self.guard():
                signal = task.coroutine.send(None) if error is None else task.coroutine.throw(error)
        except StopIteration:
            self._finish(task)
        except FirmwareOverrun as overrun:
            self._fault(task, "firmware.overrun", overrun)
        except FirmwareTimeout as timeout:
            self._fault(task, "firmware.timeout", timeout)
        except (Exception, SystemExit, GeneratorExit) as fault:
            self._fault(task, f"firmware.{type(fault).__name__}", fault)
        else:
            if not isinstance(signal, Signal):
                awaited = type(signal).__name__
                self._fault(task, "firmware.bad_await", TypeError(f"firmware cannot await a {awaited}"))
                return
            if task.expired and isinstance(error, FirmwareTimeout):
                self._fault(task, "firmware.timeout", error)
                return
            task.waiting = signal
            if signal.timeout_ns is not None:
                self._push_timer(now_ns + signal.timeout_ns, task, signal)
            signal.when_done(lambda: self._resume(task, signal))
        finally:
            self.current = None

    def _resume(self, task: Task, signal: Signal) -> None:
        if task.waiting is signal:
            task.waiting = None
            self._ready.append((task, None))

    def _finish(self, task: Task, fault: str = "") -> None:
        task.finished = True
        if task.waiting is not None:
            task.waiting.abandoned = True
        self.tasks.pop(task, None)
        self._on_end(task, fault)

    def _fault(self, task: Task, name: str, error: BaseException) -> None:
        task.error = error
        self.faults[name] += 1
        self._close(task)
        self._finish(task, name)

    def _close(self, task: Task) -> None:
        """Run what a coroutine has in its `finally` clauses; what that raises, or awaits, is of no
        interest.
        """
        try:
            with self.guard():
                task.coroutine.close()
        except (Exception, FirmwareOverrun, SystemExit):
            return

    def cancel_all(self) -> None:
        """End every task without counting a fault, as when other firmware is loaded."""
        while self.tasks:
            self.current = next(iter(self.tasks))
            self._close(self.current)
            self._finish(self.current)
        self.current = self._step_ends_ns = None
        self._ready.clear()
        self._timers.clear()


def place_of(error: BaseException | None) -> str:
    """Return the line of a script that an error came from, in brackets; "" if it came from elsewhere."""
    frame = error.__traceback__ if error is not None else None
    package = str(Path(__file__).resolve().parent.parent)
    place = ""
    while frame is not None:
        if not frame.tb_frame.f_code.co_filename.startswith(package):
            place = f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})"
        frame = frame.tb_next
    return place
