# SPDX-License-Identifier: Apache-2.0
"""The changes of a batch, made each for itself or all together.

Source: P4Runtime Specification 1.4, "Batch Atomicity".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Engine, TableEntry

from .changes import Change, Outcomes, Undo
from .entry_changes import NONE_GIVEN, InsertEntries, InsertEntry
from .refusals import guarded, refusal


def apply_each(engine: Engine, changes: Sequence[Change | InsertEntries | ControlError]) -> Outcomes:
    """Make every change that can be made; a part that was refused already keeps its error.

    Entries that one table is to take one after the other are given to it together.
    """
    outcomes: Outcomes = []
    for kind, some in groupby(changes, _kind_of):
        entries: list[TableEntry] = []
        for change in some:
            if isinstance(change, ControlError):
                outcomes.append(change)
            elif isinstance(change, InsertEntries):
                entries += change.entries
            elif kind is not None and isinstance(change, InsertEntry):
                entries.append(change.entry)
            else:
                outcomes.append(guarded(change.apply, engine))
        if kind is not None:
            outcomes += _insert(engine, *kind, entries)
    return outcomes


def _kind_of(change: Change | InsertEntries | ControlError) -> tuple[str, bool] | None:
    """Return the table that a change inserts entries into and nothing else, and whether they are checked."""
    if type(change) is InsertEntries:
        return change.table, True
    if type(change) is InsertEntry and change.resources is NONE_GIVEN:
        return change.table, False
    return None


def _insert(engine: Engine, table: str, checked: bool, entries: Sequence[TableEntry]) -> Outcomes:
    try:
        refused = engine.table(table).insert_many(entries, engine.now_ns, checked=checked)
    except Exception as error:
        return [refusal(error)] * len(entries)
    return [error and refusal(error) for error in refused]


def apply_all(engine: Engine, changes: Sequence[Change | ControlError]) -> Outcomes:
    """Make all changes, or none: what was made before one that fails is taken back."""
    outcomes: Outcomes = [change if isinstance(change, ControlError) else None for change in changes]
    undos: list[Undo] = []
    if not any(outcomes):
        for place, change in enumerate(changes):
            assert not isinstance(change, ControlError)
            try:
                undo = change.remember(engine)
            except Exception as error:
                outcomes[place] = refusal(error)
                break
            outcomes[place] = guarded(change.apply, engine)
            if outcomes[place] is not None:
                break
            undos.append(undo)
    failed = next((place for place, error in enumerate(outcomes) if error is not None), None)
    if failed is None:
        return outcomes
    for undo in reversed(undos):
        undo()
    if undos:
        engine.settle()
    aborted = ControlError(P4RuntimeCode.ABORTED, f"not done, as update {failed} of the batch failed")
    return [error or aborted for error in outcomes]
