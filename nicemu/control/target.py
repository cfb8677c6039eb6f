# SPDX-License-Identifier: Apache-2.0
"""The seam between P4Runtime and a NIC: what the server asks of the pipeline it controls.

`nicemu.pipeline.Engine` satisfies it. Where the engine belongs to another thread, the NIC gives the
server an object of the same methods that hands each call over and waits: the server calls from several
threads of its own, one call at a time for one target. A call must come back in bounded time, whatever the
NIC does: stopping the server waits for it. Everything refused is a ControlError with its code, and then
nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from nicemu.pipeline import Match, Program, TableEntry, TableInfo


class PipelineTarget(Protocol):
    """One pipeline: the program it runs, and the entries of its tables.

    Tables and actions go by their full names.
    """

    @property
    def program(self) -> Program | None:
        """The program that runs, the same object until the next load; None before the first."""

    def load(self, program: Program) -> None:
        """Run `program` from now on, with the entries and default actions that it declares itself.

        Raises: ControlError, and the old program goes on.
        """

    def tables(self) -> Sequence[TableInfo]:
        """Return every table's description, with its present default action and counts."""

    def insert(self, table: str, entry: TableEntry) -> None:
        """Add an entry. Raises: ControlError, as ALREADY_EXISTS or RESOURCE_EXHAUSTED."""

    def modify(self, table: str, entry: TableEntry) -> None:
        """Replace action and action data of an entry. Raises: ControlError, as NOT_FOUND."""

    def delete(self, table: str, matches: tuple[Match, ...], priority: int = 0) -> None:
        """Remove an entry. Raises: ControlError, as NOT_FOUND."""

    def read(self, table: str) -> Sequence[TableEntry]:
        """Return the table's entries."""

    def hits(self, table: str, matches: tuple[Match, ...], priority: int = 0) -> int:
        """Return how many packets an entry has matched. Raises: ControlError(NOT_FOUND)."""

    def set_default(self, table: str, action: str, params: Iterable[int] = ()) -> None:
        """Choose what a miss runs. Raises: ControlError, as PERMISSION_DENIED for a const default action."""
