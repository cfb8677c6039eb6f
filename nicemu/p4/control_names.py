# SPDX-License-Identifier: Apache-2.0
"""Checks what the control plane sees: all of it, told apart by name and number, and direct objects of tables.

Source: P4-16 Language Specification 1.2.5, "Control plane names", "Control-plane API annotations"; P4Runtime
Specification 1.4, "ID Allocation for P4Info Objects".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nicemu.pipeline import PREFIXES

from . import syntax
from .diagnostics import Reporter
from .symbols import ActionSymbol, BlockSymbol, Instance, TableSymbol, ValueSetSymbol, Variable
from .syntax_copy import meaning_in, same_text

_Seen = ActionSymbol | TableSymbol | ValueSetSymbol | Instance


def check_control_names(
    tops: Sequence[BlockSymbol],
    actions: Sequence[ActionSymbol],
    instances: Sequence[Instance],
    reporter: Reporter,
) -> None:
    """Report two of a kind with one name or one number, among what `tops` hold and what stands outside.

    Actions that are the same are one: p4c's translations of P4-14 have what was one action in each control.
    """
    names: dict[tuple[str, str], _Seen] = {}
    numbers: set[tuple[str, int]] = set()
    for symbol in (*actions, *instances, *_inside(tops)):
        noun, kind = _nouns(symbol)
        at = symbol.at if isinstance(symbol, ValueSetSymbol | Instance) else symbol.declaration.at
        if at is None:
            continue
        before = names.setdefault((noun, symbol.name), symbol)
        if before is not symbol:
            if _are_same(before, symbol):
                continue
            reporter.error(at, f"two {noun}s are called {symbol.name}", "give one another @name")
        if symbol.id and (kind, symbol.id) in numbers:
            reporter.error(at, f"two {kind}s have the number {symbol.id}", "give one another @id")
        numbers.add((kind, symbol.id))


def _are_same(one: _Seen, other: _Seen) -> bool:
    """Return whether two are actions that were written alike, and the names in them mean the same."""
    if not isinstance(one, ActionSymbol) or not isinstance(other, ActionSymbol):
        return False
    if not same_text(one.declaration, other.declaration):
        return False
    own = {
        left.variable: right.variable for left, right in zip(one.parameters, other.parameters, strict=True)
    }
    called: list[syntax.Expression | None] = []
    bodies = one.declaration.body, other.declaration.body
    for left, right in zip(*map(meaning_in, bodies), strict=True):
        meant, counterpart = left.symbol, right.symbol
        if isinstance(left, syntax.Call):  # whose callee alone need not say what it is
            if meant.subject is not counterpart.subject:
                return False
            called += [left.callee, getattr(left.callee, "base", None)]
        elif not isinstance(left, syntax.NameRef):
            own[meant] = counterpart
        elif isinstance(meant, Variable) and isinstance(counterpart, Variable):
            if own.get(meant) is not counterpart and meant.place != counterpart.place:
                return False
        elif meant is not counterpart or (meant is None and left not in called):
            return False
    return True


def check_attached(tops: Sequence[BlockSymbol], instances: Sequence[Instance], reporter: Reporter) -> None:
    """Warn of direct counters and meters that are no table's: they have no entries to count or to mark."""
    owners = _owners(tops)
    for symbol in _objects(tops, instances):
        direct, _, noun = symbol.type.symbol.name.partition("_")
        if direct == "direct" and symbol.at is not None and symbol.name not in owners:
            what = f"{symbol.name} is the {noun} of no table, and without effect"
            reporter.warning(symbol.at, what, f"write {noun}s = {symbol.name.rpartition('.')[2]}; in a table")


def check_direct_meters(
    tops: Sequence[BlockSymbol], instances: Sequence[Instance], reporter: Reporter
) -> None:
    """Report direct meters that BMv2 cannot have: a table's meter stores into one field, and must be read.

    Source: p4c #1829, #1837.
    """
    owners = _owners(tops)
    for symbol in _objects(tops, instances):
        if symbol.type.symbol.name != "direct_meter" or symbol.at is None:
            continue
        name, table = symbol.name.rpartition(".")[2], owners.get(symbol.name)
        targets = [call.arguments[0] for call in symbol.calls]
        if table is not None and not targets:
            what, hint = f"nothing reads {symbol.name}, the meter of table {table}", f"write {name}.read(...)"
            if symbol.name == table:
                what = f"nothing can read the meter of table {table}, which has no name"
                hint = "declare it before, by a name, and read it"
            reporter.error(symbol.at, what, f"{hint} in an action of the table")
        elif table is None and targets:
            what = f"{symbol.name} is the meter of no table, and read"
            reporter.error(targets[0].at, what, f"write meters = {name}; in a table")
        for target in targets[1:]:
            if not same_text(target, targets[0]):
                what = f"{symbol.name} is read into another field before"
                reporter.error(target.at, what, "a direct meter stores into one field")
                break


def _owners(tops: Sequence[BlockSymbol]) -> dict[str, str]:
    """Return the tables by the names of the objects that they have."""
    tables = [symbol for symbol in _inside(tops) if isinstance(symbol, TableSymbol)]
    return {item.full_name: table.name for table in tables for item in table.objects.values()}


def _objects(tops: Sequence[BlockSymbol], instances: Sequence[Instance]) -> Iterator[Instance]:
    """Yield all extern objects."""
    yield from instances
    yield from (symbol for symbol in _inside(tops) if isinstance(symbol, Instance))


def has_controlled(block: BlockSymbol) -> bool:
    """Return whether the control plane has something to do with a block, or with one inside it.

    An action that no table there lists is called by the program alone; @hidden tables are not shown to it.
    """
    tables = [table for table in block.tables if not _is_hidden(table)]
    own = (*tables, *block.value_sets, *block.instances)
    return bool(own) or any(map(has_controlled, (*block.blocks.values(), *block.copies)))


def _is_hidden(table: TableSymbol) -> bool:
    return any(item.name == "hidden" for item in table.declaration.annotations)


def _inside(tops: Sequence[BlockSymbol]) -> Iterator[_Seen]:
    pending = [*reversed(tops)]
    while pending:
        block = pending.pop()
        pending += block.blocks.values()
        yield from block.actions
        yield from block.tables
        yield from block.value_sets
        yield from block.instances


def _nouns(symbol: _Seen) -> tuple[str, str]:
    """Return what shares names with a symbol, and what shares numbers."""
    match symbol:
        case ActionSymbol():
            return "action", "action"
        case TableSymbol():
            return "table", "table"
        case ValueSetSymbol():
            return "value set", "value set"
    extern = symbol.type.symbol.name
    return "object", PREFIXES[extern].name.lower().replace("_", " ") if extern in PREFIXES else extern
