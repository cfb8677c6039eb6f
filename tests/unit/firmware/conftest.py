# SPDX-License-Identifier: Apache-2.0
"""A scheduler whose time the test moves, and a list of what ended."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from nicemu.firmware import Scheduler, Task


class Core:
    """One NIC core: `run(now_ns)`, and what each task's end was called."""

    def __init__(self, guard: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        self.now = 0
        self.ended: list[tuple[str, str]] = []
        self.scheduler = Scheduler(self._end, guard)

    def _end(self, task: Task, fault: str) -> None:
        self.ended.append((task.name, fault))

    def spawn(
        self,
        name: str,
        coroutine: Coroutine[Any, Any, None],
        timeout_ns: int | None = None,
        event: object = None,
    ) -> Task:
        return self.scheduler.spawn(name, coroutine, self.now, event, timeout_ns)

    def run(self, now_ns: int | None = None) -> int:
        self.now = self.now if now_ns is None else now_ns
        return self.scheduler.run(self.now)


@pytest.fixture
def make_core() -> Callable[..., Core]:
    return Core


@pytest.fixture
def core() -> Core:
    return Core()
