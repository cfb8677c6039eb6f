# SPDX-License-Identifier: Apache-2.0
"""The members of a program's value sets as kernels look them up, kept equal to the engine's."""

from __future__ import annotations

from collections.abc import Sequence

from nicemu.pipeline import Match, Program, TableEntry, ValueSet, ir

from .kernel_tables import KernelTable
from .table_keys import table_of


class KernelValueSet:
    """One value set: a table in memory that says of a value whether it has an entry."""

    def __init__(self, program: Program, spec: ir.ValueSet) -> None:
        self._table = KernelTable(program, table_of(spec))
        self._held: dict[tuple[Match, ...], int] = {}
        self._last_priority = 0

    @property
    def state(self) -> int:
        """The address that lookups are given."""
        return self._table.state

    def follow(self, members: ValueSet) -> None:
        """Hold what a value set of the engine holds, from now on."""
        self.replace(members.members)
        members.follower = self.replace

    def replace(self, members: Sequence[tuple[Match, ...]]) -> None:
        """Hold these members alone; one that was held before is there all the time."""
        wanted = dict.fromkeys(members)
        for gone in [member for member in self._held if member not in wanted]:
            self._table.forget(self._held.pop(gone))
        for member in wanted:
            if member not in self._held:
                self._last_priority += 1  # every member has one of its own, so that none hides another
                self._held[member] = self._table.hold(TableEntry(member, "", (), self._last_priority))

    def close(self) -> None:
        """Give the memory back."""
        self._table.close()
