# SPDX-License-Identifier: Apache-2.0
"""Tables with priorities: who wins, what is refused, and what the list of tuples says.

Source: P4Runtime Specification 1.4, "Match Format" and "TableEntry".
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nicemu.errors import ResourceError, UsageError
from nicemu.lookup import TernaryTable, ternary
from nicemu.lookup.entries import KIND
from nicemu.pcie import load_u64

ANY = (0, 0)


@pytest.fixture
def table(compiled: bool) -> Iterator[TernaryTable]:
    """A table of 6 entries, keys of 16 bits."""
    made = TernaryTable(6, 16, compiled=compiled)
    yield made
    made.close()


@pytest.fixture
def ports(compiled: bool) -> Iterator[TernaryTable]:
    """A table of 6 entries whose key is 8 bits under a mask and a range of 16 bits."""
    made = TernaryTable(6, 24, ranges=[(0, 16)], compiled=compiled)
    yield made
    made.close()


def published(table: TernaryTable) -> list[tuple[int, int]]:
    """Return best priority and mask of the tuples, in the order in which lookups take them."""
    at = load_u64(table.state + KIND)
    words = [load_u64(at + 8 + 8 * place) for place in range(3 * load_u64(at))]
    return list(zip(words[::3], words[2::3], strict=True))


def test_the_larger_priority_wins_under_whatever_mask(table: TernaryTable) -> None:
    fallback = table.insert(0, 0, 1, 0)
    byte = table.insert(0xAB00, 0xFF00, 5, 0)
    exact = table.insert(0xABCD, 0xFFFF, 3, 0)
    assert [table.find(key) for key in (0xABCD, 0xAB00, 0x00CD)] == [byte, byte, fallback]
    table.delete(byte)
    assert [table.find(key) for key in (0xABCD, 0xAB00)] == [exact, fallback]


def test_of_equal_priority_who_came_first_wins(table: TernaryTable) -> None:
    first = table.insert(0xAB00, 0xFF00, 5, 0)
    second = table.insert(0x00CD, 0x00FF, 5, 0)
    assert table.find(0xABCD) == first
    table.modify(first, 1)
    assert table.find(0xABCD) == first
    table.delete(first)
    assert table.find(0xABCD) == second
    assert table.insert(0xAB00, 0xFF00, 5, 0) != second
    assert table.find(0xABCD) == second


def test_the_same_match_may_stand_at_several_priorities(table: TernaryTable) -> None:
    low, high, middle = (table.insert(1, 1, priority, 0) for priority in (1, 9, 5))
    for number in (high, middle, low):
        assert table.find(3) == number
        table.delete(number)
    assert table.find(3) is None


def test_a_range_includes_both_its_ends(ports: TernaryTable) -> None:
    number = ports.insert(0x06 << 16, 0xFF << 16, 1, 0, bounds=[(1023, 1026)])
    found = [ports.find(0x06 << 16 | port) for port in (1022, 1023, 1024, 1026, 1027)]
    assert found == [None, number, number, number, None]
    assert ports.find(0x07 << 16 | 1024) is None


def test_ranges_that_overlap_go_by_priority(ports: TernaryTable) -> None:
    wide = ports.insert(0, 0, 1, 0, bounds=[(0, 0xFFFF)])
    low = ports.insert(0, 0, 5, 0, bounds=[(0, 0x8000)])
    high = ports.insert(0, 0, 5, 0, bounds=[(0x7FFF, 0xFFFF)])
    assert [ports.find(port) for port in (0, 0x7FFF, 0x8000, 0x8001)] == [low, low, low, high]
    ports.delete(low)
    assert [ports.find(port) for port in (0, 0x7FFF)] == [wide, high]


def test_a_range_may_lie_across_limbs(compiled: bool) -> None:
    table = TernaryTable(2, 200, ranges=[(40, 100)], compiled=compiled)
    low, high = (1 << 90) - 1, 1 << 91
    number = table.insert(7, 0xFF, 1, 0, bounds=[(low, high)])
    found = [table.find(value << 40 | 7) for value in (low - 1, low, 1 << 90, high, high + 1)]
    assert found == [None, number, number, number, None]
    table.close()


def test_tuples_are_listed_by_what_is_best_in_them_now(table: TernaryTable) -> None:
    numbers = [table.insert(*entry, 0) for entry in ((1, 1, 3), (2, 2, 5), (0, 1, 7), (1, 1, 7))]
    assert published(table) == [(7, 1), (5, 2)]
    table.delete(numbers[2])
    assert published(table) == [(7, 1), (5, 2)]
    table.delete(numbers[3])
    assert published(table) == [(5, 2), (3, 1)]
    table.delete(numbers[0])
    table.delete(numbers[1])
    assert published(table) == []
    table.insert(1, 1, 4, 0)
    assert published(table) == [(4, 1)]


def test_what_is_refused_changes_nothing(table: TernaryTable) -> None:
    number = table.insert(1, 1, 4, 0)
    for value, mask, priority, words in (
        (1, 1, 4, "has an entry of priority 4"),
        (1, 1, 0, "priority 0 was given"),
        (2, 1, 4, "no value and mask"),
        (1 << 16, 1 << 16, 4, "no value and mask"),
    ):
        with pytest.raises(UsageError, match=words):
            table.insert(value, mask, priority, 0)
    with pytest.raises(UsageError, match="1 ranges were given; 0 are expected"):
        table.insert(2, 2, 9, 0, bounds=[ANY])
    with pytest.raises(UsageError, match="actions"):
        table.insert(2, 2, 9, -1)
    assert (len(table), table.find(3), published(table)) == (1, number, [(4, 1)])


@pytest.mark.parametrize(("mask", "bounds"), [(0, (2, 1)), (0, (0, 1 << 16)), (0, (-1, 1)), (1, (0, 1))])
def test_a_range_that_cannot_be_is_refused(ports: TernaryTable, mask: int, bounds: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="a range of"):
        ports.insert(0, mask, 1, 0, bounds=[bounds])


@pytest.mark.parametrize("field", [(0, 25), (24, 1), (-1, 3), (3, 0)])
def test_a_range_outside_the_key_is_refused(field: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="do not lie in a key of 24 bits"):
        TernaryTable(6, 24, ranges=[field])


def test_a_full_table_refuses_before_it_lists_anything(table: TernaryTable) -> None:
    for priority in range(1, 7):
        table.insert(1, 1, priority, 0)
    with pytest.raises(ResourceError, match="holds 6 of 6"):
        table.insert(2, 2, 9, 0)
    assert published(table) == [(6, 1)]


def test_many_masks_share_tuples_until_chains_are_long(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ternary, "OWN_TUPLES", 1)
    monkeypatch.setattr(ternary, "LONG_CHAIN", 2)
    table = TernaryTable(8, 16, compiled=compiled)
    masks = [0xFF00, 0xF000, 0xFE00, 0xFF80, 0xC000, 0x8000, 0xFFF0]
    numbers = [table.insert(0x1000 & mask, mask, place + 1, 0) for place, mask in enumerate(masks)]
    own, whole_bytes, nothing = (1, 0xFF00), (7, 0xFF00), (3, 0x0000)
    assert published(table) == [whole_bytes, (6, 0x8000), (5, 0xC000), nothing, own]
    for number in reversed(numbers):
        assert table.find(0x1000) == number
        table.delete(number)
    assert published(table) == []
    table.close()


def test_an_entry_is_refused_twice_wherever_the_first_one_is(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ternary, "OWN_TUPLES", 0)
    monkeypatch.setattr(ternary, "LONG_CHAIN", 1)
    table = TernaryTable(8, 16, compiled=compiled)
    for priority in range(1, 5):
        table.insert(0x1000, 0xF000, priority, 0)
    before = published(table)
    for priority in range(1, 5):
        with pytest.raises(UsageError, match=f"priority {priority}; modify it"):
            table.insert(0x1000, 0xF000, priority, 0)
    assert published(table) == before
    table.close()


def test_every_entry_may_have_a_mask_of_its_own(compiled: bool) -> None:
    table = TernaryTable(64, 64, compiled=compiled)
    numbers = [table.insert(1 << place, 1 << place, place + 1, 0) for place in range(64)]
    own = ternary.OWN_TUPLES
    assert len(published(table)) == own + 1 + (64 - own - ternary.LONG_CHAIN), "no group of bits is whole"
    for place in reversed(range(64)):
        assert table.find((1 << 64) - 1) == numbers[place]
        table.delete(numbers[place])
    table.close()
