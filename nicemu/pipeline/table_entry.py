# SPDX-License-Identifier: Apache-2.0
"""Table entries: what a controller gives, and what becomes of it in a table and beside it.

Source: P4Runtime Specification 1.4, "TableEntry".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from .matches import Match
from .meters import UNCOUNTED, Colours, Meter, MeterConfig
from .profiles import Choice


class TableEntry(NamedTuple):
    """One entry: a match for every key in order, an action and its data.

    `priority` is 0 in exact and lpm tables, and above 0 in tables with a ternary, range or optional key,
    where the larger wins. In a table with an action profile `choice` stands for the action, which is "" then.
    `idle_timeout_ns` 0 lets the entry stay without packets. `note` is the controller's, whatever it is.
    """

    matches: tuple[Match, ...]
    action: str
    parameters: tuple[int, ...] = ()
    priority: int = 0
    choice: Choice | None = None
    idle_timeout_ns: int = 0
    note: Hashable = None


@dataclass(slots=True, eq=False)
class Row:
    """An entry in its table, with the packets and bytes that matched it, and when one last did.

    `number` says when it came, among all entries of its table, and is 0 for the default entry, which has the
    packets that matched none; `told_ns` is when the controller was last told that it is idle.
    """

    entry: TableEntry
    hits: int = 0
    bytes: int = 0
    last_hit_ns: int = 0
    number: int = 0
    told_ns: int = -1
    _meter: Meter | None = None

    @property
    def meter(self) -> Meter:
        """The entry's meter, made when it is first asked for: most entries have none."""
        if self._meter is None:
            self._meter = Meter()
        return self._meter

    @property
    def meter_config(self) -> MeterConfig | None:
        """How the entry's meter is configured."""
        return self._meter.config if self._meter is not None else None

    @property
    def colours(self) -> Colours:
        """What the entry's meter has marked."""
        return self._meter.colours if self._meter is not None else UNCOUNTED

    def copy(self) -> Row:
        """Return the same, whatever becomes of this one."""
        meter = replace(self._meter) if self._meter is not None else None
        return replace(self, _meter=meter)

    def resume(self, other: Row, has_meter: bool) -> None:
        """Go on with what another row has counted, and as its meter if there is to be one."""
        self.hits, self.bytes = other.hits, other.bytes
        self.last_hit_ns, self.told_ns = other.last_hit_ns, other.told_ns
        if has_meter and (other.meter_config is not None or other.colours != UNCOUNTED):
            self.meter.resume(other.meter)


class Follower(Protocol):
    """What holds a table's entries, too, and counts some of their packets: a kernel's table."""

    def insert(self, rows: Sequence[Row]) -> None:
        """Hold entries that the table has taken."""

    def modify(self, row: Row) -> None:
        """Take over an entry's action."""

    def delete(self, row: Row) -> None:
        """Hold an entry no longer."""

    def set_default(self, row: Row) -> None:
        """Take over the default entry."""

    def refill(self, rows: Sequence[Row]) -> None:
        """Hold these entries alone, in this order."""

    def gather(self, row: Row) -> None:
        """Give a row the packets that were counted for it here."""
