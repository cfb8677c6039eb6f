# SPDX-License-Identifier: Apache-2.0
"""The seam between P4Runtime and a NIC: what the server asks of the pipeline it controls.

`nicemu.pipeline.Engine` satisfies it. Where the engine belongs to another thread, the NIC gives the server an
object of the same methods that hands the work over and waits: the server calls from several threads of its
own, one call at a time for one target. A call must come back in bounded time, whatever the NIC does: stopping
the server waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from nicemu.pipeline import Engine, Listener, Program

Result = TypeVar("Result")


class PipelineTarget(Protocol):
    """One pipeline, and the way to it."""

    @property
    def program(self) -> Program | None:
        """The program that runs, the same object until the next load; None before the first."""

    def run(self, work: Callable[[Engine], Result]) -> Result:
        """Return what `work` makes of the engine, or raise what it raises. No frame comes in between."""

    def staged(self, program: Program) -> Engine:
        """Return an engine that runs a program, which the target's engine can adopt. Raises: ControlError.

        The target goes on meanwhile, however long it takes.
        """

    def listen(self, listener: Listener | None) -> None:
        """Tell `listener` from now on what goes to the controller. It must return at once."""

    def inject(self, frame: bytes) -> None:
        """Take a frame from the controller into the program, and do with it what that says."""
