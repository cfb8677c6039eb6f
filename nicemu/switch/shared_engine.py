# SPDX-License-Identifier: Apache-2.0
"""An engine that a controller may change while packets pass, one of them at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from nicemu.pipeline import Engine, Listener, Program

Result = TypeVar("Result")


class SharedEngine:
    """The PipelineTarget on an engine whose owner holds `lock` while it processes packets."""

    def __init__(self, engine: Engine, lock: threading.Lock) -> None:
        self._engine, self._lock = engine, lock

    @property
    def program(self) -> Program | None:
        """The running program."""
        with self._lock:
            return self._engine.program

    def run(self, work: Callable[[Engine], Result]) -> Result:
        """Return what `work` makes of the engine, between two packets."""
        with self._lock:
            return self._engine.run(work)

    def staged(self, program: Program) -> Engine:
        """Return an engine of this one's kind that runs a program; packets pass meanwhile."""
        return self._engine.staged(program)

    def listen(self, listener: Listener | None) -> None:
        """Tell `listener` from now on what goes to the controller."""
        with self._lock:
            self._engine.listen(listener)

    def inject(self, frame: bytes) -> None:
        """Take a frame from the controller; it leaves by no interface."""
        with self._lock:
            self._engine.inject(frame)
