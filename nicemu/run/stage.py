# SPDX-License-Identifier: Apache-2.0
"""The simulations that are made in a context, and the chooser that steps them: how a test runner, which
makes none itself, gets at those of a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from nicemu.nic import Footprint, Step

    from .simulation import Simulation


class Chooser(Protocol):
    """Says what happens next."""

    def choose(self, options: Sequence[Step]) -> int:
        """Return the number of the step that is taken; 0 is what the stepper does without a chooser.

        Asked also where there is one option alone.
        """
        ...

    def took(self, touched: Footprint) -> None:
        """Hear what the step that was chosen last touched."""
        ...


@dataclass(eq=False, slots=True)
class Stage:
    """Simulations in the order in which they were made; `chooser` steps those that are made from now on."""

    simulations: list[Simulation] = field(default_factory=list)
    chooser: Chooser | None = None

    def step_by(self, chooser: Chooser | None) -> None:
        """Let `chooser` step all of them, also those that are not made yet; None: nobody."""
        self.chooser = chooser
        for simulation in self.simulations:
            simulation.step_by(chooser)


_stage: ContextVar[Stage | None] = ContextVar("stage that simulations are made on", default=None)


@contextmanager
def on_stage(stage: Stage) -> Iterator[Stage]:
    """Have simulations that are made in this context stand on `stage`."""
    token = _stage.set(stage)
    try:
        yield stage
    finally:
        _stage.reset(token)


def enter_stage(simulation: Simulation) -> Chooser | None:
    """Put a new simulation on the stage of this context; return the chooser that steps it."""
    stage = _stage.get()
    if stage is None:
        return None
    stage.simulations.append(simulation)
    return stage.chooser
