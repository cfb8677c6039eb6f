# SPDX-License-Identifier: Apache-2.0
"""Table entries: what the control plane may put into a table, and which entry a packet's keys match.

Exact tables are one dict; a table with an lpm key is one dict a prefix length, longest first; only tables
with a ternary, range or optional key compare entry by entry, larger priority first.
Source: P4Runtime Specification 1.4, "TableEntry" and "Match Format"; P4-16 1.2.5, "Match-Action Tables".
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nicemu.errors import ControlError, P4RuntimeCode

from . import ir
from .meters import Meter
from .profiles import ActionProfile, Choice


@dataclass(frozen=True, slots=True)
class Exact:
    """Matches one value."""

    value: int


@dataclass(frozen=True, slots=True)
class Lpm:
    """Matches the first `prefix_len` bits of `value`; the other bits must be 0."""

    value: int
    prefix_len: int


@dataclass(frozen=True, slots=True)
class Ternary:
    """Matches the bits of `value` that `mask` selects; the other bits must be 0."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Range:
    """Matches `low` up to and including `high`."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Optional:
    """Matches one value, or any where it is None."""

    value: int | None


Match: TypeAlias = Exact | Lpm | Ternary | Range | Optional
MATCH_CLASS = {
    ir.MatchKind.EXACT: Exact,
    ir.MatchKind.LPM: Lpm,
    ir.MatchKind.TERNARY: Ternary,
    ir.MatchKind.RANGE: Range,
    ir.MatchKind.OPTIONAL: Optional,
}


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry: a match for every key in order, an action and its data.

    `priority` is 0 in exact and lpm tables, and above 0 in tables with a ternary, range or optional key,
    where the larger wins. In a table with an action profile `choice` stands for the action, which is "" then.
    `idle_timeout_ns` 0 lets the entry stay without packets.
    """

    matches: tuple[Match, ...]
    action: str
    parameters: tuple[int, ...] = ()
    priority: int = 0
    choice: Choice | None = None
    idle_timeout_ns: int = 0


_Place: TypeAlias = tuple[tuple[Match, ...], int]


@dataclass(slots=True, eq=False)
class Row:
    """An entry in its table, with the packets and bytes that matched it, and when one last did."""

    entry: TableEntry
    hits: int = 0
    bytes: int = 0
    last_hit_ns: int = 0
    meter: Meter = field(default_factory=Meter)


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
            profile.actions |= actions
        self.actions = actions
        self.default_actions = default_actions
        self.widths = tuple(width_of(key.expression.type) for key in spec.keys)
        self.default = spec.default_action
        self.hits = 0
        self.misses = 0
        kinds = [key.match_kind for key in spec.keys]
        self.has_priority = any(kind.has_priority for kind in kinds)
        self._lpm_key = kinds.index(ir.MatchKind.LPM) if ir.MatchKind.LPM in kinds else None
        self._rows: dict[_Place, Row] = {}
        self._exact: dict[tuple[int, ...], Row] = {}
        self._prefixes: dict[int, dict[tuple[int, ...], Row]] = {}
        self._by_priority: list[Row] = []
        self._check_call(self.default.action, self.default.parameters, default_actions)
        for entry in spec.entries:
            matches = tuple(
                _of_keyset(keyset, key.match_kind, width)
                for keyset, key, width in zip(entry.keysets, spec.keys, self.widths, strict=True)
            )
            self._insert(TableEntry(matches, entry.call.action, entry.call.parameters, entry.priority))

    # Control plane

    def insert(self, entry: TableEntry) -> None:
        """Add an entry.

        Raises: ControlError: PERMISSION_DENIED for a table of const entries, INVALID_ARGUMENT or OUT_OF_RANGE
        for an illegal entry, ALREADY_EXISTS, RESOURCE_EXHAUSTED for a full table.
        """
        self._refuse_const()
        self._insert(entry)

    def modify(self, entry: TableEntry) -> None:
        """Give an existing entry another action or other action data; it keeps its hits. Raises:
        ControlError.
        """
        self._refuse_const()
        self._check(entry)
        row = self._row_of(entry.matches, entry.priority)
        self._use(entry)
        self._release(row.entry)
        row.entry = entry

    def delete(self, matches: tuple[Match, ...], priority: int = 0) -> None:
        """Remove an entry. Raises: ControlError(NOT_FOUND) if there is none."""
        self._refuse_const()
        self._check_matches(matches, priority)
        row = self._row_of(matches, priority)
        del self._rows[matches, priority]
        self._release(row.entry)
        if self.has_priority:
            self._by_priority.remove(row)
        elif self._lpm_key is None:
            del self._exact[_values(matches)]
        else:
            prefix_len = _prefix_len(matches[self._lpm_key])
            del self._prefixes[prefix_len][_values(matches)]
            if not self._prefixes[prefix_len]:
                del self._prefixes[prefix_len]

    def read(self) -> list[TableEntry]:
        """Return all entries in the order in which they were inserted."""
        return [row.entry for row in self._rows.values()]

    def row(self, matches: tuple[Match, ...], priority: int = 0) -> Row:
        """Return the entry at `matches` with its hits. Raises: ControlError(NOT_FOUND)."""
        self._check_matches(matches, priority)
        return self._row_of(matches, priority)

    def set_default(self, action: str, parameters: tuple[int, ...]) -> None:
        """Choose what a miss runs. Raises: ControlError."""
        if self.spec.const_default:
            raise ControlError(
                P4RuntimeCode.PERMISSION_DENIED,
                f"table {self.spec.name}: its default action is const in the program",
            )
        self._check_call(action, parameters, self.default_actions)
        self.default = ir.ActionCall(action, parameters)

    def __len__(self) -> int:
        return len(self._rows)

    # Packets

    def lookup(self, values: tuple[int, ...], length_bytes: int = 0, now_ns: int = 0) -> Row | None:
        """Return the entry that matches the key `values`, and count the hit or the miss of such a packet."""
        row = self._find(values)
        if row is None:
            self.misses += 1
        else:
            self.hits += 1
            row.hits += 1
            row.bytes += length_bytes
            row.last_hit_ns = now_ns
        return row

    def nearest(self, values: tuple[int, ...], count: int) -> list[tuple[TableEntry, tuple[int, ...]]]:
        """Return up to `count` entries that the key `values` miss least, each with the places of those keys.

        Fewest keys come first, then those whose values differ in the fewest bits.
        """

        def distance(entry: TableEntry) -> tuple[int, int]:
            bits = [*map(_distance_bits, entry.matches, values, self.widths)]
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
        """Return the entries that no packet has matched for as long as their idle timeout."""
        return [
            row.entry
            for row in self._rows.values()
            if row.entry.idle_timeout_ns and now_ns - row.last_hit_ns >= row.entry.idle_timeout_ns
        ]

    def _find(self, values: tuple[int, ...]) -> Row | None:
        if self.has_priority:
            for row in self._by_priority:
                if all(map(matches, row.entry.matches, values, self.widths)):
                    return row
            return None
        at = self._lpm_key
        if at is None:
            return self._exact.get(values)
        for prefix_len, rows in self._prefixes.items():
            shift = self.widths[at] - prefix_len
            found = rows.get((*values[:at], values[at] >> shift << shift, *values[at + 1 :]))
            if found is not None:
                return found
        return None

    def _insert(self, entry: TableEntry) -> None:
        self._check(entry)
        place = (entry.matches, entry.priority)
        if place in self._rows:
            raise ControlError(
                P4RuntimeCode.ALREADY_EXISTS,
                f"table {self.spec.name} has an entry for {shown(entry.matches)} already; modify it",
            )
        if len(self._rows) >= self.spec.size:
            raise ControlError(
                P4RuntimeCode.RESOURCE_EXHAUSTED,
                f"table {self.spec.name} is full: its size is {self.spec.size} entries; delete one, "
                "or give the table a larger `size` in the program",
            )
        self._use(entry)
        row = self._rows[place] = Row(entry)
        if self.has_priority:
            bisect.insort(self._by_priority, row, key=lambda other: -other.entry.priority)
        elif self._lpm_key is None:
            self._exact[_values(entry.matches)] = row
        else:
            prefix_len = _prefix_len(entry.matches[self._lpm_key])
            if prefix_len not in self._prefixes:
                self._prefixes[prefix_len] = {}
                self._prefixes = dict(sorted(self._prefixes.items(), reverse=True))
            self._prefixes[prefix_len][_values(entry.matches)] = row

    def _use(self, entry: TableEntry) -> None:
        if self.profile is not None and entry.choice is not None:
            self.profile.use(entry.choice)

    def _release(self, entry: TableEntry) -> None:
        if self.profile is not None and entry.choice is not None:
            self.profile.release(entry.choice)

    def _row_of(self, matches: tuple[Match, ...], priority: int) -> Row:
        row = self._rows.get((matches, priority))
        if row is None:
            at = f" at priority {priority}" if self.has_priority else ""
            raise ControlError(
                P4RuntimeCode.NOT_FOUND, f"table {self.spec.name} has no entry for {shown(matches)}{at}"
            )
        return row

    def _refuse_const(self) -> None:
        if self.spec.const_entries:
            raise ControlError(
                P4RuntimeCode.PERMISSION_DENIED,
                f"table {self.spec.name}: its entries are const in the program",
            )

    def _check(self, entry: TableEntry) -> None:
        self._check_matches(entry.matches, entry.priority)
        if entry.idle_timeout_ns and not self.spec.idle_timeout:
            raise self._illegal("an idle timeout given; the program does not set support_timeout")
        if (self.profile is None) is not (entry.choice is None):
            wanted = "an action" if self.profile is None else "a member, group or set of its action profile"
            raise self._illegal(f"its entries need {wanted}")
        if entry.choice is None:
            self._check_call(entry.action, entry.parameters, self.actions)

    def _check_matches(self, matches: tuple[Match, ...], priority: int) -> None:
        keys = self.spec.keys
        if len(matches) != len(keys):
            raise self._illegal(f"{len(matches)} matches given; it has {len(keys)} keys ({_named(keys)})")
        for match, key, width in zip(matches, keys, self.widths, strict=True):
            if type(match) is not MATCH_CLASS[key.match_kind]:
                raise self._illegal(
                    f"key {key.name} is {key.match_kind.value}; a {type(match).__name__} match was given"
                )
            self._check_range(match, key.name, width)
        if self.has_priority and priority <= 0:
            raise self._illegal(
                f"priority {priority} given; ternary, range and optional keys need one above 0, larger wins"
            )
        if not self.has_priority and priority != 0:
            raise self._illegal(f"priority {priority} given; exact and lpm keys take none (0)")

    def _check_range(self, match: Match, key: str, width: int) -> None:
        check_match(f"table {self.spec.name}", match, key, width)

    def _check_call(
        self, action: str, parameters: Sequence[int], allowed: dict[str, tuple[int, ...]]
    ) -> None:
        if action not in allowed:
            raise self._illegal(
                f"action {action} is not one that may stand here: {', '.join(allowed) or 'none'}"
            )
        widths = allowed[action]
        if len(parameters) != len(widths):
            raise self._illegal(f"action {action} takes {len(widths)} parameters; {len(parameters)} given")
        for position, (number, width) in enumerate(zip(parameters, widths, strict=True), start=1):
            if not 0 <= number < 1 << width:
                raise ControlError(
                    P4RuntimeCode.OUT_OF_RANGE,
                    f"table {self.spec.name}: parameter {position} of action {action} is bit<{width}>; "
                    f"{number:#x} does not fit",
                )

    def _illegal(self, sentence: str) -> ControlError:
        return _illegal(f"table {self.spec.name}", sentence)


def check_match(owner: str, match: Match, key: str, width: int) -> None:
    """Raise ControlError unless a match is one of a key of `width` bits; `owner` is who has the key."""
    largest = (1 << width) - 1
    match match:
        case Exact(value) | Lpm(value, _):
            numbers = [value]
        case Ternary(value, mask):
            numbers = [value, mask]
        case Range(low, high):
            numbers = [low, high]
        case Optional(wanted):
            numbers = [] if wanted is None else [wanted]
    for number in numbers:
        if not 0 <= number <= largest:
            raise ControlError(
                P4RuntimeCode.OUT_OF_RANGE,
                f"{owner}: key {key} is bit<{width}>; {number:#x} does not fit",
            )
    match match:
        case Lpm(_, prefix_len) if not 0 <= prefix_len <= width:
            raise _illegal(owner, f"key {key}: prefix length {prefix_len} given; 0 to {width} was expected")
        case Lpm(value, prefix_len) if value & ((1 << (width - prefix_len)) - 1):
            raise _illegal(owner, f"key {key}: {value:#x} has bits set behind its prefix of {prefix_len}")
        case Ternary(value, mask) if value & ~mask:
            raise _illegal(owner, f"key {key}: {value:#x} has bits set outside its mask {mask:#x}")
        case Range(low, high) if low > high:
            raise _illegal(owner, f"key {key}: the range {low:#x}..{high:#x} is empty")


def _illegal(owner: str, sentence: str) -> ControlError:
    return ControlError(P4RuntimeCode.INVALID_ARGUMENT, f"{owner}: {sentence}")


def matches(match: Match, value: int, width: int) -> bool:
    """Return whether `match` accepts `value`, a key of `width` bits."""
    match match:
        case Exact(wanted):
            return value == wanted
        case Lpm(wanted, prefix_len):
            return value >> (width - prefix_len) == wanted >> (width - prefix_len)
        case Ternary(wanted, mask):
            return value & mask == wanted
        case Range(low, high):
            return low <= value <= high
        case Optional(maybe):
            return maybe is None or value == maybe


def _distance_bits(match: Match, value: int, width: int) -> int:
    """Return how many bits of a key's value would have to change for `match`, about so many for a range."""
    match match:
        case Exact(wanted):
            return (value ^ wanted).bit_count()
        case Lpm(wanted, prefix_len):
            return ((value ^ wanted) >> (width - prefix_len)).bit_count()
        case Ternary(wanted, mask):
            return ((value ^ wanted) & mask).bit_count()
        case Range(low, high):
            return max(low - value, value - high, 0).bit_length()
        case Optional(maybe):
            return 0 if maybe is None else (value ^ maybe).bit_count()


def width_of(scalar: ir.Type) -> int:
    """Return the width in bits of a scalar as a key or action parameter: 1 for bool, 32 for error."""
    if isinstance(scalar, ir.Bits):
        return scalar.width
    return 1 if isinstance(scalar, ir.Bool) else 32


def shown(matches: tuple[Match, ...]) -> str:
    """Return matches as people write them: 0x1, 0x0a000000/8, 0x1&&&0xff, 0x1..0x7, *."""
    texts = []
    for match in matches:
        match match:
            case Exact(value):
                texts.append(f"{value:#x}")
            case Lpm(value, prefix_len):
                texts.append(f"{value:#x}/{prefix_len}")
            case Ternary(value, mask):
                texts.append(f"{value:#x}&&&{mask:#x}")
            case Range(low, high):
                texts.append(f"{low:#x}..{high:#x}")
            case Optional(maybe):
                texts.append("*" if maybe is None else f"{maybe:#x}")
    return ", ".join(texts)


def _of_keyset(keyset: ir.Keyset, kind: ir.MatchKind, width: int) -> Match:
    """Return the match that an entry written in the program means; `verify` has refused what cannot be
    meant.
    """
    ones = (1 << width) - 1
    match keyset:
        case ir.KeyAny():
            value, mask, low, high = 0, 0, 0, ones
        case ir.KeyMask(value, mask):
            low = high = value
        case ir.KeyRange(low, high):
            value, mask = low, ones
        case ir.KeyInSet():
            raise AssertionError("verify lets no value set stand in a table")
    if kind is ir.MatchKind.LPM:
        return Lpm(value & mask, mask.bit_count())
    if kind is ir.MatchKind.TERNARY:
        return Ternary(value & mask, mask)
    if kind is ir.MatchKind.OPTIONAL:
        return Optional(value if mask else None)
    return Range(low, high) if kind is ir.MatchKind.RANGE else Exact(value)


def _values(matches: tuple[Match, ...]) -> tuple[int, ...]:
    return tuple(match.value for match in matches if isinstance(match, Exact | Lpm))


def _prefix_len(match: Match) -> int:
    assert isinstance(match, Lpm)
    return match.prefix_len


def _named(keys: tuple[ir.Key, ...]) -> str:
    return ", ".join(f"{key.name} {key.match_kind.value}" for key in keys)
