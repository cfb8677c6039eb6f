# SPDX-License-Identifier: Apache-2.0
"""An engine that a controller may change while packets pass, one of them at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from nicemu.pipeline import Engine, Match, Program, TableEntry, TableInfo


class SharedEngine:
    """The PipelineTarget on an engine whose owner holds `lock` while it processes packets."""

    def __init__(self, engine: Engine, lock: threading.Lock) -> None:
        self._engine, self._lock = engine, lock

    @property
    def program(self) -> Program | None:
        """The running program."""
        with self._lock:
            return self._engine.program

    def load(self, program: Program) -> None:
        """Run another program. Raises: ControlError, and the old one goes on."""
        with self._lock:
            self._engine.load(program)

    def tables(self) -> list[TableInfo]:
        """Return every table."""
        with self._lock:
            return self._engine.tables()

    def insert(self, table: str, entry: TableEntry) -> None:
        """Add an entry. Raises: ControlError."""
        with self._lock:
            self._engine.insert(table, entry)

    def modify(self, table: str, entry: TableEntry) -> None:
        """Change an entry. Raises: ControlError."""
        with self._lock:
            self._engine.modify(table, entry)

    def delete(self, table: str, matches: tuple[Match, ...], priority: int = 0) -> None:
        """Remove an entry. Raises: ControlError."""
        with self._lock:
            self._engine.delete(table, matches, priority)

    def read(self, table: str) -> list[TableEntry]:
        """Return the entries of a table. Raises: ControlError."""
        with self._lock:
            return self._engine.read(table)

    def hits(self, table: str, matches: tuple[Match, ...], priority: int = 0) -> int:
        """Return how many packets an entry has matched. Raises: ControlError."""
        with self._lock:
            return self._engine.hits(table, matches, priority)

    def set_default(self, table: str, action: str, params: Iterable[int] = ()) -> None:
        """Choose the action of a miss. Raises: ControlError."""
        with self._lock:
            self._engine.set_default(table, action, params)
