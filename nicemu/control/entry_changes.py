# SPDX-License-Identifier: Apache-2.0
"""Changes of a table's entries and of its default action.

Source: P4Runtime Specification 1.4, "TableEntry", "Direct Resources".
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from nicemu.pipeline import Colours, Count, Engine, Match, MeterConfig, Row, TableEntry

from .changes import Undo


@dataclass(frozen=True, slots=True)
class DirectResources:
    """What a TableEntry says of its direct counter and meter; without a count it keeps what it counted."""

    count: Count | None = None
    meter: MeterConfig | None = None
    colours: Colours | None = None

    def give(self, row: Row, now_ns: int) -> None:
        """Have an entry go on with this."""
        if self.count is not None:
            row.hits, row.bytes = self.count.packets, self.count.bytes
        if row.meter_config != self.meter:
            row.meter.configure(self.meter, now_ns)
        if self.colours is not None:
            row.meter.colours = self.colours


NONE_GIVEN = DirectResources()


@dataclass(slots=True)
class _OfEntry:
    """A change of one entry, or without `matches` of the default entry."""

    table: str
    matches: tuple[Match, ...] | None
    priority: int

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        table = engine.table(self.table)
        if self.matches is None:
            return table.remember_default()
        return table.remember(self.matches, self.priority)

    def row(self, engine: Engine) -> Row:
        table = engine.table(self.table)
        return table.default_row() if self.matches is None else table.row(self.matches, self.priority)


@dataclass(slots=True)
class InsertEntry:
    """Add an entry, with what its counter stands at and how its meter is configured."""

    table: str
    entry: TableEntry
    resources: DirectResources = NONE_GIVEN

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        self.resources.give(engine.table(self.table).insert(self.entry, engine.now_ns), engine.now_ns)

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        return engine.table(self.table).remember(self.entry.matches, self.entry.priority)


@dataclass(slots=True)
class InsertEntries:
    """Add legal entries to a table one after the other, each for itself: many updates at once."""

    table: str
    entries: list[TableEntry]


@dataclass(slots=True)
class ModifyEntry(_OfEntry):
    """Give an entry a new state; without `has_action` it keeps its action, without `count` its count."""

    entry: TableEntry
    has_action: bool
    resources: DirectResources = NONE_GIVEN

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        entry, table = self.entry, engine.table(self.table)
        if self.has_action:
            row = table.modify(entry)
        else:
            row = self.row(engine)
            old = row.entry
            entry = entry._replace(action=old.action, parameters=old.parameters, choice=old.choice)
            if entry != old:  # of a const entry the direct resources alone may be written
                row = table.modify(entry)
        self.resources.give(row, engine.now_ns)


@dataclass(slots=True)
class DeleteEntry:
    """Remove an entry."""

    table: str
    matches: tuple[Match, ...]
    priority: int

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        return engine.table(self.table).remember(self.matches, self.priority)

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        engine.table(self.table).delete(self.matches, self.priority)


@dataclass(slots=True)
class SetDefault:
    """Choose what a miss runs, and give the default entry a new state; None is what the program says."""

    table: str
    call: tuple[str, tuple[int, ...]] | None
    note: Hashable = None
    resources: DirectResources = NONE_GIVEN

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        table = engine.table(self.table)
        initial, entry = table.spec.default_action, table.default_row().entry
        wanted = *(self.call or (initial.action, initial.parameters)), self.note
        is_same = wanted == (entry.action, entry.parameters, entry.note)
        if not is_same or self.resources is NONE_GIVEN:  # of a const one direct resources alone are written
            table.set_default(*wanted)
        self.resources.give(table.default_row(), engine.now_ns)

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        return engine.table(self.table).remember_default()


@dataclass(slots=True)
class SetCount(_OfEntry):
    """Say what an entry's counter stands at; without a count only the entry must be there."""

    count: Count | None

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        row = self.row(engine)
        if self.count is not None:
            row.hits, row.bytes = self.count.packets, self.count.bytes


@dataclass(slots=True)
class SetMeter(_OfEntry):
    """Configure an entry's meter."""

    meter: MeterConfig | None
    colours: Colours | None = None

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        meter = self.row(engine).meter
        meter.configure(self.meter, engine.now_ns)
        if self.colours is not None:
            meter.colours = self.colours
