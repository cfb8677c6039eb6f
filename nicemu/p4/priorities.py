# SPDX-License-Identifier: Apache-2.0
"""The priorities of the entries that a program writes into a table.

Source: P4-16 Language Specification 1.2.5, "Entry priorities".
"""

from __future__ import annotations

from itertools import pairwise

from nicemu.pipeline import ir, literal_value

from . import syntax
from .annotations import unquoted
from .diagnostics import Reporter
from .symbols import TableSymbol

MAX_PRIORITY = (1 << 31) - 1


_PRIORITISED = frozenset(kind.value for kind in ir.MatchKind if kind.has_priority)


def has_priority(table: syntax.TableDeclaration) -> bool:
    """Return whether the entries of a table have priorities."""
    return any(key.match_kind in _PRIORITISED for key in table.keys)


def priorities_of(table: TableSymbol) -> list[int]:
    """Return the priorities of a table's entries, larger ones winning."""
    annotated = _annotated(table)
    if any(annotated):  # as BMv2 has it: the least number wins, an entry's place where it has none
        numbers = [number or place for place, number in enumerate(annotated, start=1)]
        return [max(numbers) + 1 - number for number in numbers]
    found = _numbers(table)
    return [max(found) + 1 - item for item in found] if table.smaller_wins else found


def check_priorities(table: TableSymbol, reporter: Reporter) -> None:
    """Report entries that would come by a priority out of range; warn of equal ones, and of others' order.

    What is written as `priority =` with an entry is in range already.
    """
    entries = table.declaration.entries or []
    for note in (note for entry in entries for note in entry.annotations if note.name == "priority"):
        if _number(note) is None:
            reporter.error(note.at, f"@priority takes a number from 1 to {MAX_PRIORITY}")
            return
    if any(_annotated(table)) or table.declaration.const_entries:
        return
    numbers = _numbers(table)
    least = 0 if table.smaller_wins else 1
    for entry, number in zip(entries, numbers, strict=True):
        if not least <= number <= MAX_PRIORITY:
            what = f"this entry comes by a priority of {number}; {least} to {MAX_PRIORITY} was expected"
            reporter.error(entry.at, what, "write priority = ...: before it, or another priority_delta")
            return
    silent = {
        unquoted(text)
        for note in table.declaration.entry_annotations
        if note.name == "noWarn"
        for text in note.tokens
    }
    seen: set[int] = set()
    for entry, number in zip(entries, numbers, strict=True):
        if number in seen and "duplicate_priorities" not in silent:
            what = f"a second entry has priority {number}; P4 does not say which of them wins"
            reporter.warning(entry.at, what, 'write @noWarn("duplicate_priorities") before entries')
        seen.add(number)
    for (_, before), (entry, number) in pairwise(zip(entries, numbers, strict=True)):
        wins = number < before if table.smaller_wins else number > before
        if wins and "entries_out_of_priority_order" not in silent:
            what = f"this entry has priority {number} and wins over the one before, of {before}"
            reporter.warning(entry.at, what, 'write @noWarn("entries_out_of_priority_order") before entries')


def _numbers(table: TableSymbol) -> list[int]:
    """Return the priorities as the table's own property `largest_priority_wins` has them."""
    entries = table.declaration.entries or []
    step = table.priority_delta if table.smaller_wins else -table.priority_delta
    priority = (1 if table.smaller_wins else 1 + table.priority_delta * (len(entries) - 1)) - step
    found = []
    for entry in entries:
        priority = entry.priority.value if entry.priority is not None else priority + step
        found.append(priority)
    return found


def _annotated(table: TableSymbol) -> list[int]:
    """Return the number in each entry's @priority, 0 where there is none."""
    return [
        next((_number(note) or 0 for note in entry.annotations if note.name == "priority"), 0)
        for entry in table.declaration.entries or []
    ]


def _number(note: syntax.Annotation) -> int | None:
    """Return the number in a @priority, None for what is no priority."""
    return literal_value("".join(note.tokens)) or None
