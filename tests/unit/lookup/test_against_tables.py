# SPDX-License-Identifier: Apache-2.0
"""Lookup tables and the pipeline's tables, given the same changes in the same order: the same entry wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.errors import NicemuError
from nicemu.hot import JIT, interpreted
from nicemu.lookup import (
    ExactTable,
    LpmTable,
    Table,
    TernaryTable,
    find_batch,
    find_lpm_batch,
    find_ternary_batch,
    pack_keys,
    ternary,
    trie,
)
from nicemu.pipeline import Exact, Lpm, Match, Optional, Range, TableEntry, Ternary, ir
from nicemu.pipeline import tables as pipeline

EXACT, LPM, TERNARY, RANGE, OPTIONAL = ir.MatchKind
SIZE = 12
ACTIONS: dict[str, tuple[int, ...]] = {f"a{number}": (64,) for number in range(4)}
AnyTable = TypeVar("AnyTable", bound=Table)
Fields: TypeAlias = tuple[tuple[ir.MatchKind, int], ...]
"""Match kind and width of each field."""

FEWER = settings(max_examples=settings().max_examples * 2 // 5)
"""For tests of many kinds of tables, whose interpreted form takes long."""
FORMS = [pytest.param(False, id="interpreted"), pytest.param(True, id="compiled")][: 2 if JIT else 1]
EXACT_FIELDS: tuple[Fields, ...] = (
    ((EXACT, 3),),
    ((EXACT, 64),),
    ((EXACT, 48), (EXACT, 16), (EXACT, 1)),
    ((EXACT, 32), (EXACT, 128), (EXACT, 9)),
)
PRIORITY_FIELDS: tuple[Fields, ...] = (
    ((TERNARY, 4),),
    ((RANGE, 4),),
    ((OPTIONAL, 3),),
    ((TERNARY, 64), (EXACT, 1)),
    ((RANGE, 16), (TERNARY, 8), (OPTIONAL, 40)),
    ((EXACT, 2), (RANGE, 100), (LPM, 32), (RANGE, 8)),
)
PREFIX_FIELDS: tuple[Fields, ...] = (
    ((LPM, 3),),
    ((EXACT, 2), (LPM, 32)),
    ((LPM, 128), (EXACT, 3), (EXACT, 16)),
)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of both tables; `pick` chooses among the entries that are there."""

    kind: str
    entry: TableEntry
    pick: int


@cache
def value_of(width: int) -> st.SearchStrategy[int]:
    """Return few values, so that changes meet each other, and those that differ in one bit."""
    top = width - 1
    return st.sampled_from(sorted({0, 1 << top, (1 << width) - 1, 1 << top // 2, 1, 1 << top // 2 | 1}))


@st.composite
def matches_of(draw: Callable[..., Any], fields: Fields) -> tuple[Match, ...]:
    return tuple(draw(MATCHES[kind](width)) for kind, width in fields)


def lpm_of(width: int) -> st.SearchStrategy[Match]:
    lengths = st.sampled_from(sorted({0, 1, 5, 6, width // 2, width - 1, width} & set(range(width + 1))))
    return st.builds(
        lambda value, length: Lpm(value & prefix_mask(length, width), length), value_of(width), lengths
    )


def ternary_of(width: int) -> st.SearchStrategy[Match]:
    return st.builds(lambda value, mask: Ternary(value & mask, mask), value_of(width), value_of(width))


def range_of(width: int) -> st.SearchStrategy[Match]:
    return st.builds(
        lambda one, other: Range(min(one, other), max(one, other)), value_of(width), value_of(width)
    )


def optional_of(width: int) -> st.SearchStrategy[Match]:
    return st.one_of(st.none(), value_of(width)).map(Optional)


def prefix_mask(length: int, width: int) -> int:
    return (1 << length) - 1 << width - length


MATCHES: dict[ir.MatchKind, Callable[[int], st.SearchStrategy[Match]]] = {
    EXACT: lambda width: value_of(width).map(Exact),
    LPM: lpm_of,
    TERNARY: ternary_of,
    RANGE: range_of,
    OPTIONAL: optional_of,
}


@cache
def changes_of(fields: Fields) -> st.SearchStrategy[list[Change]]:
    has_priority = any(kind.has_priority for kind, _ in fields)
    entry = st.builds(
        lambda *given: TableEntry(*given),  # of itself, a strategy would draw the other fields, too
        matches_of(fields),
        st.sampled_from(sorted(ACTIONS)),
        st.tuples(st.integers(0, (1 << 64) - 1)),
        st.integers(1, 4) if has_priority else st.just(0),
    )
    kinds = st.sampled_from(("insert", "insert", "insert", "modify", "delete"))
    return st.lists(st.builds(Change, kinds, entry, st.integers(0, SIZE - 1)), max_size=40)


@cache
def probes_of(fields: Fields) -> st.SearchStrategy[list[tuple[int, ...]]]:
    return st.lists(st.tuples(*(value_of(width) for _, width in fields)), max_size=20)


def number_of(values: tuple[int, ...], fields: Fields) -> int:
    """Return field values as one number, the first in the highest bits."""
    key = 0
    for value, (_, width) in zip(values, fields, strict=True):
        key = key << width | value
    return key


def value_in(match: Match) -> int:
    """Return a value that a match accepts."""
    if isinstance(match, Range):
        return match.low
    return match.value or 0


def mask_of(match: Match, width: int) -> int:
    """Return the bits that a match selects; those of a range are not selected but compared."""
    match match:
        case Lpm(_, length):
            return prefix_mask(length, width)
        case Ternary(_, mask):
            return mask
        case Range() | Optional(None):
            return 0
    return (1 << width) - 1


class Both(Generic[AnyTable]):
    """A table of the pipeline and a lookup table, which are told the same."""

    def __init__(self, fields: Fields, compiled: bool) -> None:
        keys = [
            ir.Key(f"k{place}", ir.Name("k", ir.Bits(width)), kind)
            for place, (kind, width) in enumerate(fields)
        ]
        references = tuple(ir.ActionRef(name) for name in ACTIONS)
        spec = ir.Table("t", tuple(keys), references, ir.ActionCall("a0", (0,)), SIZE)
        self.fields = fields
        self.compiled = compiled
        self.reference = pipeline.Table(spec, ACTIONS, ACTIONS)
        self.table = self.made(sum(width for _, width in fields))
        self._batch = self.find_batch if compiled else interpreted(self.find_batch)
        self.numbers: dict[tuple[tuple[Match, ...], int], int] = {}

    def made(self, key_bits: int) -> AnyTable:
        raise NotImplementedError

    def inserted(self, entry: TableEntry, action: int) -> int:
        raise NotImplementedError

    @property
    def find_batch(self) -> Callable[..., None]:
        raise NotImplementedError

    def apply(self, change: Change) -> None:
        """Do a change to both; what one refuses, the other refuses."""
        entry = change.entry
        place = (entry.matches, entry.priority)
        if change.kind == "insert":
            if place in self.numbers or len(self.numbers) == SIZE:
                for insert in (self.reference.insert, lambda entry: self.inserted(entry, 0)):
                    with pytest.raises(NicemuError, match=r"has an entry|is full|takes no"):
                        insert(entry)
                return
            self.reference.insert(entry)
            self.numbers[place] = self.inserted(entry, int(entry.action[1:]))
        elif self.numbers:
            place = sorted(self.numbers, key=repr)[change.pick % len(self.numbers)]
            if change.kind == "modify":
                self.reference.modify(TableEntry(place[0], entry.action, entry.parameters, place[1]))
                self.table.modify(self.numbers[place], int(entry.action[1:]), entry.parameters)
            else:
                self.reference.delete(*place)
                self.table.delete(self.numbers.pop(place))

    def check(self, probes: list[tuple[int, ...]]) -> None:
        """Compare who wins for keys, one by one and in a batch, and what they won."""
        winners = []
        for values in probes:
            row = self.reference.lookup(values)
            number = self.table.find(number_of(values, self.fields))
            winners.append(number)
            if row is None:
                assert number is None
            else:
                assert number == self.numbers[row.entry.matches, row.entry.priority]
                entry = self.table.entry(number)
                assert (f"a{entry.action}", entry.parameters) == (row.entry.action, row.entry.parameters)
        assert self.in_batch(probes) == winners
        assert len(self.table) == len(self.numbers)

    def in_batch(self, probes: list[tuple[int, ...]]) -> list[int | None]:
        keys = pack_keys([number_of(values, self.fields) for values in probes], self.table.limbs)
        found = np.zeros((len(probes), 2), np.uint64)
        self._batch(self.table.state, *map(np.uint64, (keys.ctypes.data, len(probes), found.ctypes.data)))
        return [self.table.number_at(int(entry)) for entry in found[:, 0]]


class BothExact(Both[ExactTable]):
    """With an exact table."""

    find_batch = staticmethod(find_batch)

    def made(self, key_bits: int) -> ExactTable:
        return ExactTable(SIZE, key_bits, 1, compiled=self.compiled)

    def inserted(self, entry: TableEntry, action: int) -> int:
        key = number_of(tuple(map(value_in, entry.matches)), self.fields)
        return self.table.insert(key, action, entry.parameters)


class BothTernary(Both[TernaryTable]):
    """With a table with priorities; those of prefixes beside exact fields are their lengths."""

    find_batch = staticmethod(find_ternary_batch)

    def made(self, key_bits: int) -> TernaryTable:
        ranges, offset = [], key_bits
        for kind, width in self.fields:
            offset -= width
            if kind is RANGE:
                ranges.append((offset, width))
        return TernaryTable(SIZE, key_bits, 1, ranges, compiled=self.compiled)

    def inserted(self, entry: TableEntry, action: int) -> int:
        fixed = [0 if isinstance(match, Range) else value_in(match) for match in entry.matches]
        masks = [mask_of(match, width) for match, (_, width) in zip(entry.matches, self.fields, strict=True)]
        bounds = [(match.low, match.high) for match in entry.matches if isinstance(match, Range)]
        lengths = [match.prefix_len + 1 for match in entry.matches if isinstance(match, Lpm)]
        return self.table.insert(
            number_of(tuple(fixed), self.fields),
            number_of(tuple(masks), self.fields),
            entry.priority or lengths[0],
            action,
            entry.parameters,
            bounds,
        )


class BothLpm(Both[LpmTable]):
    """With a table of prefixes."""

    find_batch = staticmethod(find_lpm_batch)

    def made(self, key_bits: int) -> LpmTable:
        return LpmTable(SIZE, key_bits, 1, compiled=self.compiled)

    def inserted(self, entry: TableEntry, action: int) -> int:
        (match,) = entry.matches
        assert isinstance(match, Lpm)
        return self.table.insert(match.value, match.prefix_len, action, entry.parameters)


def told_the_same(both: type[Both[Any]], fields: Fields, compiled: bool, data: st.DataObject) -> None:
    """Change both tables, looking up in between."""
    pair = both(fields, compiled)
    for change in data.draw(changes_of(fields)):
        pair.apply(change)
        pair.check([tuple(map(value_in, change.entry.matches))])
    pair.check(data.draw(probes_of(fields)))
    pair.table.close()


@pytest.mark.parametrize("compiled", FORMS)
@pytest.mark.parametrize("fields", EXACT_FIELDS, ids=str)
@given(data=st.data())
def test_exact_tables_agree(fields: Fields, compiled: bool, data: st.DataObject) -> None:
    told_the_same(BothExact, fields, compiled, data)


@pytest.mark.parametrize("compiled", FORMS)
@pytest.mark.parametrize("fields", PRIORITY_FIELDS + PREFIX_FIELDS, ids=str)
@FEWER
@given(data=st.data())
def test_tables_with_priorities_agree(fields: Fields, compiled: bool, data: st.DataObject) -> None:
    told_the_same(BothTernary, fields, compiled, data)


@pytest.mark.parametrize("compiled", FORMS)
@pytest.mark.parametrize("groups", [(64, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("fields", PRIORITY_FIELDS, ids=str)
@FEWER
@given(data=st.data())
def test_tables_whose_masks_share_tuples_agree(
    fields: Fields, groups: tuple[int, ...], compiled: bool, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ternary, "OWN_TUPLES", 1)
        patch.setattr(ternary, "LONG_CHAIN", 2)
        patch.setattr(ternary, "SHARED_GROUPS", groups)
        told_the_same(BothTernary, fields, compiled, data)


@pytest.mark.parametrize("compiled", FORMS)
@pytest.mark.parametrize("strides", [(4, 2, 1), (3, 3, 3)], ids=str)
@pytest.mark.parametrize("width", [3, 9, 64, 100, 128])
@FEWER
@given(data=st.data())
def test_tables_of_prefixes_agree(
    width: int, strides: tuple[int, ...], compiled: bool, data: st.DataObject
) -> None:
    """With small nodes, which have more to do with each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trie, "STRIDES", strides)
        told_the_same(BothLpm, ((LPM, width),), compiled, data)


@pytest.mark.skipif(not JIT, reason="NICEMU_JIT=0: a prefix of no bits is 65536 stores")
@pytest.mark.parametrize("width", [16, 32, 48, 128])
@given(data=st.data())
def test_tables_of_prefixes_agree_with_the_nodes_that_they_have(width: int, data: st.DataObject) -> None:
    told_the_same(BothLpm, ((LPM, width),), True, data)
