# SPDX-License-Identifier: Apache-2.0
"""Entries whose action lies in an action profile, in a kernel: which of several actions a packet runs.

Such an entry holds the address of a cell, and that holds the address of a list of actions with their weights,
which is replaced as a whole. `KernelChoices` makes them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nicemu.pipeline import ir

from .packed_bits import PackedBits
from .places import WORD, Number
from .table_keys import data_words

LIST_WORDS = 2
"""Words of a list before its actions: the weight of all, and whether the packet's hash chooses."""
END, HEAD, DATA = range(3)
"""Words of an action in a list: the weight of all up to it; then as in an entry its head, and its data."""


class Ways(NamedTuple):
    """Blocks to go on at: looking up again, and where an entry has no action."""

    again: Any
    nothing: Any


class Choosing(PackedBits):
    """Chooses actions."""

    def selected(self, table: ir.Table) -> Number:
        """Return the hash of a table's selector keys, i64."""
        raise NotImplementedError

    def still(self, record: Number, head: Number) -> Number:
        """Return whether an entry is what it was when its head was read, as i1."""
        raise NotImplementedError

    def picked(
        self, table: ir.Table, record: Number, data: Number, head: Number, ways: Ways
    ) -> tuple[Number, Number]:
        """Return the head and the address of the data (i64) of the action that a packet runs.

        They are those that are given, unless the entry at `record` leaves the choice to its profile.
        """
        builder = self.builder
        direct, choosing, joined = builder.block, self.block("choosing"), self.block("chosen")
        number = builder.lshr(head, WORD(32))
        is_choice = builder.icmp_unsigned("==", number, WORD(len(self.program.actions)))
        builder.cbranch(is_choice, choosing, joined)
        builder.position_at_end(choosing)
        cell, same = builder.load(self.at(data, 0)), self.block("same")
        builder.fence("acquire")
        builder.cbranch(self.still(record, head), same, ways.again)
        builder.position_at_end(same)
        listed = builder.load(self.at(cell, 0))
        first = self.address(listed, 8 * LIST_WORDS)
        total = builder.load(self.at(listed, 0))
        is_empty = builder.icmp_unsigned("==", total, WORD(0))
        place = self.choose(
            builder.icmp_unsigned("!=", builder.load(self.at(listed, 8)), WORD(0)),
            lambda: builder.urem(self.selected(table), builder.select(is_empty, WORD(1), total)),
            lambda: WORD(0),
            ir.Bits(64),
        )
        search, found, further = self.block("search"), self.block("found"), self.block("further")
        builder.cbranch(is_empty, ways.nothing, search)
        before = builder.block
        builder.position_at_end(search)
        at = builder.phi(WORD)
        at.add_incoming(first, before)
        is_it = builder.icmp_unsigned("<", place, builder.load(self.at(at, 8 * END)))
        builder.cbranch(is_it, found, further)
        builder.position_at_end(further)
        at.add_incoming(self.address(at, 8 * (DATA + data_words(self.program, table))), further)
        builder.branch(search)
        builder.position_at_end(found)
        chosen = builder.load(self.at(at, 8 * HEAD)), self.address(at, 8 * DATA)
        builder.branch(joined)
        builder.position_at_end(joined)
        results = []
        for given, instead in zip((head, data), chosen, strict=True):
            result = builder.phi(WORD)
            result.add_incoming(given, direct)
            result.add_incoming(instead, found)
            results.append(result)
        return results[0], results[1]
