# SPDX-License-Identifier: Apache-2.0
"""How wide keys and action data of tables are, in bits, where the code generator and lookups must agree."""

from __future__ import annotations

from nicemu.pipeline import Program, ir, width_of

WORD_BITS = 64


def key_bits(table: ir.Table) -> int:
    """Return the bits of a table's key."""
    return sum(width_of(key.expression.type) for key in table.keys)


def parameters_of(action: ir.Action) -> list[ir.Parameter]:
    """Return the action data of an action."""
    return [item for item in action.parameters if item.direction is ir.Direction.NONE]


def data_bits(action: ir.Action) -> int:
    """Return the bits of an action's data. They lie one behind the other, the first in the lowest bits."""
    return sum(width_of(item.type) for item in parameters_of(action))


def table_of(spec: ir.ValueSet) -> ir.Table:
    """Return a value set as a table whose entries are its members, without actions."""
    keys = tuple(ir.Key(part.name, ir.Zero(part.type), part.match_kind) for part in spec.fields)
    return ir.Table(spec.name, keys, (), ir.ActionCall(""), max(spec.size, 1))


def data_words(program: Program, table: ir.Table) -> int:
    """Return how many words the longest action data of a table take."""
    actions = {action.name: action for action in program.actions}
    return max((-(-data_bits(actions[ref.action]) // WORD_BITS) for ref in table.actions), default=0)


def meter_word(program: Program, table: ir.Table) -> int:
    """Return which word of a table's entries holds the address of a meter: the one behind all action data."""
    return max(data_words(program, table), bool(table.profile))


def entry_words(program: Program, table: ir.Table) -> int:
    """Return how many words the entries of a table have behind their keys."""
    return meter_word(program, table) + bool(table.meter)


def without_bits(program: Program) -> str:
    """Return the name of a table or value set with a key of type bit<0>, which no lookup takes, or ""."""
    looked_up = (*program.tables, *map(table_of, program.value_sets))
    return next(
        (item.name for item in looked_up if 0 in [width_of(key.expression.type) for key in item.keys]), ""
    )
