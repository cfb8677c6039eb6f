# SPDX-License-Identifier: Apache-2.0
"""Keys of tables and data of actions of one program, and those of the same names of another.

Entries know both by their places alone, which a change of the program may exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from nicemu.pipeline import ActionSet, Choice, Program, Row, Table, TableEntry, ir

from .refusals import illegal

Item = TypeVar("Item")


class Correspondence:
    """Gives entries and actions of a program the places that another has for them."""

    def __init__(self, old: Program, new: Program) -> None:
        self._old, self._new = _data_of(old), _data_of(new)

    def entry(self, table: ir.Table, taken: ir.Table, entry: TableEntry) -> TableEntry:
        """Return an entry of a table as the other program's table has it. Raises: ControlError."""
        keys, others = _keys(table), _keys(taken)
        matches = _arranged(f"an entry of table {table.name}, whose keys", keys, others, entry.matches)
        parameters = self.data(entry.action, entry.parameters)
        choice = None if entry.choice is None else self._choice(entry.choice)
        return entry._replace(matches=matches, parameters=parameters, choice=choice)

    def const_row(self, table: ir.Table, taken: Table, entry: TableEntry) -> Row | None:
        """Return the const entry that the other program's table has for the keys of one of a table."""
        keys, others = _keys(table), _keys(taken.spec)
        if sorted(keys) != sorted(others):
            return None
        matches = _arranged(table.name, keys, others, entry.matches)
        if not taken.is_const(entry._replace(matches=matches)):
            return None
        return taken.row(matches, entry.priority)

    def data(self, action: str, parameters: tuple[int, ...]) -> tuple[int, ...]:
        """Return the data of an action as the other program's action has them. Raises: ControlError."""
        if not parameters or action not in self._new:
            return parameters
        owner = f"the data of action {action}, whose names"
        return _arranged(owner, self._old[action], self._new[action], parameters)

    def call(self, call: ir.ActionCall) -> ir.ActionCall:
        """Return a member's action as the other program has it. Raises: ControlError."""
        return replace(call, parameters=self.data(call.action, call.parameters))

    def _choice(self, choice: Choice) -> Choice:
        if not isinstance(choice, ActionSet):
            return choice
        return replace(choice, actions=tuple((self.call(call), weight) for call, weight in choice.actions))


def _keys(table: ir.Table) -> list[str]:
    return [key.name for key in table.keys]


def _data_of(program: Program) -> dict[str, list[str]]:
    """Return the names of the data that controllers give each action."""
    return {
        action.name: [item.name for item in action.parameters if item.direction is ir.Direction.NONE]
        for action in program.actions
    }


def _arranged(
    owner: str, names: Sequence[str], others: Sequence[str], items: tuple[Item, ...]
) -> tuple[Item, ...]:
    """Return items, by their names, in the order of others. Raises: ControlError if these are different."""
    if names == others:
        return items
    if sorted(names) != sorted(others):
        raise illegal(
            f"{owner} are {', '.join(names)}, has no place where they are {', '.join(others) or 'none'}"
        )
    by_name = dict(zip(names, items, strict=True))
    return tuple(by_name[name] for name in others)
