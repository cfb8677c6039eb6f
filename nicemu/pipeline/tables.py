# SPDX-License-Identifier: Apache-2.0
"""Tables: their entries, and which of them a packet's keys match.

Exact tables are one dict; a table with lpm keys is one dict a combination of prefix lengths, the one with the
longest of the first key first, of these the one with the longest of the second; only tables with a ternary,
range or optional key compare entry by entry, larger priority first.
Source: P4Runtime Specification 1.4, "TableEntry"; P4-16 1.2.5, "Match-Action Tables".
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

from nicemu.errors import ControlError, P4RuntimeCode

from . import ir
from .idle_rows import IdleRows
from .matches import Lpm, Match, distance_bits, match_of, matches, matches_text, width_of
from .profiles import ActionProfile
from .table_entry import Follower, Row, TableEntry
from .table_rules import TableRules

_Place: TypeAlias = tuple[Any, ...]
"""What no other entry of a table shares, as few objects as can be."""


class Table:
    """The entries of one table of the running program.

    `actions` maps the names of the actions that entries may use to the widths of their action data in bits;
    `default_actions` likewise for the default action; `profile` is where its entries' actions lie, if they
    do.
    """

    def __init__(
        self,
        spec: ir.Table,
        actions: dict[str, tuple[int, ...]],
        default_actions: dict[str, tuple[int, ...]],
        profile: ActionProfile | None = None,
    ) -> None:
        self.spec = spec
        self.profile = profile
        if profile is not None:
            profile.serve(actions)
        self.actions = actions
        self.default_actions = default_actions
        self.widths = tuple(width_of(key.expression.type) for key in spec.keys)
        own = spec.default_action
        self.default = Row(TableEntry((), own.action, own.parameters))
        self.hits = 0
        self.misses = 0
        self.rules = TableRules(spec, actions, default_actions, profile is not None)
        kinds = [key.match_kind for key in spec.keys]
        self.has_priority = any(kind.has_priority for kind in kinds)
        self._all_exact = all(kind is ir.MatchKind.EXACT for kind in kinds)
        self._lpm_keys = [place for place, kind in enumerate(kinds) if kind is ir.MatchKind.LPM]
        self._rows: dict[_Place, Row] = {}
        self._prefixes: dict[tuple[int, ...], dict[tuple[int, ...], Row]] = {}
        self._by_priority: list[Row] = []
        self._idle = IdleRows()
        self._last_number = 0
        self._ordered = True
        self._stale = False
        self._const: set[_Place] = set()
        self.follower: Follower | None = None
        self.rules.check_default(own.action, own.parameters)
        for entry in spec.entries:
            matches = tuple(
                match_of(keyset, key.match_kind, width)
                for keyset, key, width in zip(entry.keysets, spec.keys, self.widths, strict=True)
            )
            self._insert(TableEntry(matches, entry.call.action, entry.call.parameters, entry.priority))
            if entry.const or spec.const_entries:
                self._const.add(self._place(matches, entry.priority))

    # Control plane

    def insert(self, entry: TableEntry, now_ns: int = 0) -> Row:
        """Add an entry.

        Raises: ControlError: PERMISSION_DENIED for a table of const entries, INVALID_ARGUMENT or OUT_OF_RANGE
        for an illegal entry, ALREADY_EXISTS, RESOURCE_EXHAUSTED for a full table.
        """
        self._refuse_const()
        return self._insert(entry, now_ns)

    def insert_many(
        self, entries: Sequence[TableEntry], now_ns: int = 0, *, checked: bool = False
    ) -> list[ControlError | None]:
        """Add entries one after the other, each for itself; return what each was refused for, or None.

        `checked` says that each is a legal entry of this table, if there is room and no other like it.
        """
        outcomes: list[ControlError | None] = []
        taken = []
        checked = checked and not self.spec.const_entries
        for entry in entries:
            try:
                if not checked:
                    self._refuse_const()
                    self.rules.check(entry)
                taken.append(self._take(entry, now_ns))
                outcomes.append(None)
            except ControlError as error:
                outcomes.append(error)
        if self.follower is not None:
            self.follower.insert(taken)
        return outcomes

    def modify(self, entry: TableEntry) -> Row:
        """Give an existing entry another action or other action data; it keeps its hits. Raises:
        ControlError.
        """
        self._refuse_const()
        self.rules.check(entry)
        row = self._row_of(entry.matches, entry.priority)
        self._refuse_const_row(row)
        self._release(row.entry)
        try:
            self._use(entry)
        except ControlError:
            self._use(row.entry)
            raise
        row.entry, row.told_ns = entry, -1
        self._idle.watch(row)
        if self.follower is not None:
            self.follower.modify(row)
        return row

    def delete(self, matches: tuple[Match, ...], priority: int = 0) -> None:
        """Remove an entry. Raises: ControlError(NOT_FOUND) if there is none."""
        self._refuse_const()
        self.rules.check_matches(matches, priority)
        row = self._row_of(matches, priority)
        self._refuse_const_row(row)
        self._remove(row)

    def remember(self, matches: tuple[Match, ...], priority: int = 0) -> Callable[[], None]:
        """Return what puts an entry back as it is now, or takes it away again if there is none."""
        place = self._place(matches, priority)
        present = self._rows.get(place)
        if present is not None and self.follower is not None:
            self.follower.gather(present)
        kept = present.copy() if present is not None else None

        def put_back() -> None:
            self._stale = self._stale or self.has_priority
            row = self._rows.get(place)
            if row is not None:
                self._remove(row)
            if kept is not None:
                self._use(kept.entry)
                self._rows[place] = kept
                self._index(kept)
                self._ordered = False
                if self.follower is not None and not self._stale:
                    self.follower.insert([kept])

        return put_back

    def settle(self) -> None:
        """Have the follower hold what this table holds, after entries were put back: where priorities may be
        equal, their order counts, so it takes them all again.
        """
        if self._stale and self.follower is not None:
            self.follower.refill(self.rows())
        self._stale = False

    def _remove(self, row: Row) -> None:
        matches = row.entry.matches
        place = self._place(matches, row.entry.priority)
        del self._rows[place]
        if self.follower is not None and not self._stale:
            self.follower.delete(row)
        self._idle.forget(row)
        self._release(row.entry)
        if self.has_priority:
            del self._by_priority[bisect.bisect_left(self._by_priority, _order(row), key=_order)]
        elif self._lpm_keys:
            lengths = self._prefix_lens(matches)
            del self._prefixes[lengths][_values(matches)]
            if not self._prefixes[lengths]:
                del self._prefixes[lengths]

    def read(self) -> list[TableEntry]:
        """Return all entries in the order in which they were inserted."""
        return [row.entry for row in self.rows()]

    def rows(self) -> list[Row]:
        """Return all entries with their counts, in the order in which they were inserted."""
        if not self._ordered:
            self._rows = dict(sorted(self._rows.items(), key=lambda item: item[1].number))
            self._ordered = True
        rows = list(self._rows.values())
        for row in rows if self.follower is not None else ():
            self.follower.gather(row)  # type: ignore[union-attr]
        return rows

    def row(self, matches: tuple[Match, ...], priority: int = 0) -> Row:
        """Return the entry at `matches` with its hits. Raises: ControlError(NOT_FOUND)."""
        self.rules.check_matches(matches, priority)
        row = self._row_of(matches, priority)
        if self.follower is not None:
            self.follower.gather(row)
        return row

    def set_default(self, action: str, parameters: tuple[int, ...], note: Hashable = None) -> None:
        """Choose what a miss runs; `note` is the controller's, as an entry's is. Raises: ControlError."""
        if self.spec.const_default:
            raise ControlError(
                P4RuntimeCode.PERMISSION_DENIED,
                f"table {self.spec.name}: its default action is const in the program",
            )
        self.rules.check_default(action, parameters)
        self.default.entry = TableEntry((), action, parameters, note=note)
        if self.follower is not None:
            self.follower.set_default(self.default)

    @property
    def has_own_default(self) -> bool:
        """Whether a miss runs what the program says, and no controller has noted anything."""
        own = self.spec.default_action
        return self.default.entry == TableEntry((), own.action, own.parameters)

    def default_row(self) -> Row:
        """Return the default entry with what was counted for misses."""
        if self.follower is not None:
            self.follower.gather(self.default)
        return self.default

    def remember_default(self) -> Callable[[], None]:
        """Return what puts the default entry back as it is now."""
        kept = self.default_row().copy()

        def put_back() -> None:
            self.default = kept
            if self.follower is not None:
                self.follower.set_default(kept)

        return put_back

    def __len__(self) -> int:
        return len(self._rows)

    # Packets

    def lookup(self, values: tuple[int, ...], length_bytes: int = 0, now_ns: int = 0) -> Row | None:
        """Return the entry that matches the key `values`, or None, and count the hit or the miss of such a
        packet, which is the default entry's.
        """
        found = self._find(values)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        row = found or self.default
        row.hits += 1
        row.bytes += length_bytes
        row.last_hit_ns = now_ns
        return found

    def nearest(self, values: tuple[int, ...], count: int) -> list[tuple[TableEntry, tuple[int, ...]]]:
        """Return up to `count` entries that the key `values` miss least, each with the places of those keys.

        Fewest keys come first, then those whose values differ in the fewest bits.
        """

        def distance(entry: TableEntry) -> tuple[int, int]:
            bits = [*map(distance_bits, entry.matches, values, self.widths)]
            return len(bits) - bits.count(0), sum(bits)

        nearest = heapq.nsmallest(count, (row.entry for row in self._rows.values()), key=distance)
        return [
            (
                entry,
                tuple(
                    place
                    for place, (match, value, width) in enumerate(
                        zip(entry.matches, values, self.widths, strict=True)
                    )
                    if not matches(match, value, width)
                ),
            )
            for entry in nearest
        ]

    def idle(self, now_ns: int) -> list[TableEntry]:
        """Return the entries that no packet has matched for as long as their idle timeout, each again when it
        has passed once more.
        """
        gather = self.follower.gather if self.follower is not None else lambda _: None
        return [row.entry for row in self._idle.passed(now_ns, gather)]

    def _find(self, values: tuple[int, ...]) -> Row | None:
        if self.has_priority:
            for row in self._by_priority:
                if all(map(matches, row.entry.matches, values, self.widths)):
                    return row
            return None
        if not self._lpm_keys:
            return self._rows.get(values)
        for lengths, rows in self._prefixes.items():
            kept = list(values)
            for at, prefix_len in zip(self._lpm_keys, lengths, strict=True):
                shift = self.widths[at] - prefix_len
                kept[at] = values[at] >> shift << shift
            found = rows.get(tuple(kept))
            if found is not None:
                return found
        return None

    def _insert(self, entry: TableEntry, now_ns: int = 0) -> Row:
        self.rules.check(entry)
        row = self._take(entry, now_ns)
        if self.follower is not None:
            self.follower.insert([row])
        return row

    def _place(self, matches: tuple[Match, ...], priority: int) -> _Place:
        if self._all_exact:
            return _values(matches)
        if self._lpm_keys and not self.has_priority:
            return *_values(matches), *self._prefix_lens(matches)
        return matches, priority

    def _prefix_lens(self, matches: tuple[Match, ...]) -> tuple[int, ...]:
        return tuple([_prefix_len(matches[place]) for place in self._lpm_keys])

    def _take(self, entry: TableEntry, now_ns: int) -> Row:
        """Add a legal entry, of which the follower is still to be told."""
        place, rows = self._place(entry.matches, entry.priority), self._rows
        if len(rows) >= self.spec.size and place not in rows:
            raise ControlError(
                P4RuntimeCode.RESOURCE_EXHAUSTED,
                f"table {self.spec.name} is full: its size is {self.spec.size} entries; delete one, "
                "or give the table a larger `size` in the program",
            )
        row = Row(entry, 0, 0, now_ns, self._last_number + 1)
        if rows.setdefault(place, row) is not row:
            raise ControlError(
                P4RuntimeCode.ALREADY_EXISTS,
                f"table {self.spec.name} has an entry for {matches_text(entry.matches)} already; modify it",
            )
        if entry.choice is not None:
            try:
                self._use(entry)
            except ControlError:
                del rows[place]
                raise
        self._last_number += 1
        self._index(row)
        return row

    def _index(self, row: Row) -> None:
        entry = row.entry
        if entry.idle_timeout_ns:
            self._idle.watch(row)
        if self.has_priority:
            bisect.insort(self._by_priority, row, key=_order)
        elif self._lpm_keys:
            lengths = self._prefix_lens(entry.matches)
            if lengths not in self._prefixes:
                self._prefixes[lengths] = {}
                self._prefixes = dict(sorted(self._prefixes.items(), reverse=True))
            self._prefixes[lengths][_values(entry.matches)] = row

    def _use(self, entry: TableEntry) -> None:
        if self.profile is not None and entry.choice is not None:
            self.profile.use(entry.choice)

    def _release(self, entry: TableEntry) -> None:
        if self.profile is not None and entry.choice is not None:
            self.profile.release(entry.choice)

    def _row_of(self, matches: tuple[Match, ...], priority: int) -> Row:
        row = self._rows.get(self._place(matches, priority))
        if row is None:
            at = f" at priority {priority}" if self.has_priority else ""
            raise ControlError(
                P4RuntimeCode.NOT_FOUND,
                f"table {self.spec.name} has no entry for {matches_text(matches)}{at}",
            )
        return row

    def is_const(self, entry: TableEntry) -> bool:
        """Whether an entry is the program's own and stays as it is."""
        return bool(self._const) and self._place(entry.matches, entry.priority) in self._const

    def _refuse_const_row(self, row: Row) -> None:
        if self.is_const(row.entry):
            raise ControlError(
                P4RuntimeCode.PERMISSION_DENIED,
                f"table {self.spec.name}: its entry for {matches_text(row.entry.matches)} is const in the "
                "program",
            )

    def _refuse_const(self) -> None:
        if self.spec.const_entries:
            raise ControlError(
                P4RuntimeCode.PERMISSION_DENIED,
                f"table {self.spec.name}: its entries are const in the program",
            )


def _order(row: Row) -> tuple[int, int]:
    """Return what the rows of a table with priorities are sorted by."""
    return -row.entry.priority, row.number


def _values(matches: tuple[Match, ...]) -> tuple[int, ...]:
    """Return the values of matches that are all exact or lpm."""
    return tuple([match.value for match in matches])  # type: ignore[union-attr,misc]


def _prefix_len(match: Match) -> int:
    assert isinstance(match, Lpm)
    return match.prefix_len
