# SPDX-License-Identifier: Apache-2.0
"""Tables of prefixes: the longest wins, and what is deleted leaves an empty trie behind.

Source: P4Runtime Specification 1.4, "Match Format", LPM.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from nicemu.errors import ResourceError, UsageError
from nicemu.hot import interpreted
from nicemu.lookup import LpmTable, find_lpm_batch, pack_keys, trie

NET, SUBNET, HOST = 0x0A000000, 0x0A0B0000, 0x0A0B0C0D


@pytest.fixture
def table(compiled: bool) -> Iterator[LpmTable]:
    """A table of 8 prefixes of 32 bits."""
    made = LpmTable(8, 32, 1, compiled=compiled)
    yield made
    made.close()


@pytest.fixture
def small_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie, "STRIDES", (4, 3, 2))


def prefix_of(key: int, length: int, width: int) -> int:
    return key >> width - length << width - length


def nodes_of(table: LpmTable) -> np.ndarray:
    """Return all nodes of the trie, as words."""
    memory = np.frombuffer(bytes(table._trie.view), np.uint64)
    levels = len(trie.strides_of(table.key_bits))
    taken = []
    for level in memory[: levels * 8].reshape(levels, 8).tolist():
        base, stride, _, _, prefixes, freed, fresh, freed_count = level
        first = (base - table._trie.address) // 8
        taken.append((max(1, fresh), freed_count, memory[first : first + (max(1, fresh) << stride)].any()))
        assert freed > prefixes
    return np.array(taken)


def test_the_longest_prefix_wins_in_whatever_order_they_came(table: LpmTable) -> None:
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
        prefixes = [(HOST, 32), (SUBNET, 16), (NET, 9), (HOST & 0xFFFFFF00, 24)]
        numbers = {place: table.insert(*prefixes[place], 0) for place in order}
        found = [table.find(key) for key in (HOST, HOST ^ 1, HOST ^ 0x100, NET, 0x0A800000)]
        assert found == [numbers[0], numbers[3], numbers[1], numbers[2], None]
        for number in numbers.values():
            table.delete(number)


def test_a_deleted_prefix_gives_way_to_the_next_shorter_one(table: LpmTable) -> None:
    lengths = [8, 14, 16, 17, 24, 25, 32]
    numbers = [table.insert(prefix_of(HOST, length, 32), length, 0) for length in lengths]
    for place in (6, 2, 3, 5, 4, 1, 0):
        table.delete(numbers[place])
        numbers[place] = -1
        longest = max(numbers)
        assert table.find(HOST) == (None if longest < 0 else longest)


def test_a_prefix_of_no_bits_matches_all(table: LpmTable) -> None:
    number = table.insert(0, 0, 0)
    assert [table.find(key) for key in (0, HOST, 0xFFFFFFFF)] == [number] * 3


def test_a_trie_that_has_no_prefix_is_empty(small_nodes: None, compiled: bool) -> None:
    table, rng = LpmTable(64, 40, compiled=compiled), random.Random(1)
    for _ in range(3):
        numbers = []
        for _ in range(64):
            length = rng.randrange(41)
            key = prefix_of(rng.choice((0, rng.getrandbits(40))), length, 40)
            try:
                numbers.append(table.insert(key, length, 0))
            except UsageError:
                continue
        assert nodes_of(table)[:, 2].any()
        rng.shuffle(numbers)
        for number in numbers:
            table.delete(number)
        fresh, freed, used = nodes_of(table).T
        assert not used.any()
        assert (fresh[1:] == freed[1:]).all()
    table.close()


def test_a_full_table_has_room_for_its_nodes_whatever_the_prefixes(small_nodes: None, compiled: bool) -> None:
    """Prefixes that share as little as they can: each has nodes of its own from the earliest level on."""
    table = LpmTable(32, 20, compiled=compiled)
    keys = [int(f"{place:05b}"[::-1], 2) << 15 | place for place in range(32)]
    numbers = [table.insert(key, 20, 0) for key in keys]
    assert [table.find(key) for key in keys] == numbers
    strides = trie.strides_of(20)
    depths = [sum(strides[:level]) for level in range(len(strides))]
    assert nodes_of(table)[:, 0].tolist() == [min(1 << depth, 32) for depth in depths]
    with pytest.raises(ResourceError, match="holds 32 of 32"):
        table.insert(0, 3, 0)
    table.close()


@pytest.mark.parametrize("width", [20, 64, 100, 128])
def test_many_go_in_at_once_and_a_batch_finds_them(small_nodes: None, compiled: bool, width: int) -> None:
    rng = random.Random(width)
    lengths = [rng.randrange(8, width + 1) for _ in range(50)]
    prefixes = sorted({(prefix_of(rng.getrandbits(width), length, width), length) for length in lengths})
    table = LpmTable(60, width, 1, compiled=compiled)
    count = len(prefixes)
    keys = pack_keys([key for key, _ in prefixes], table.limbs)
    lens = np.array([length for _, length in prefixes], np.uint64)
    rows = np.arange(count, dtype=np.uint64)
    numbers = table.insert_many(keys, lens, rows, rows.reshape(count, 1)).tolist()
    assert [table.entry(number).parameters for number in numbers] == [(row,) for row in range(count)]
    found = np.zeros((count, 2), np.uint64)
    run = find_lpm_batch if compiled else interpreted(find_lpm_batch)
    run(table.state, *map(np.uint64, [keys.ctypes.data, count, found.ctypes.data]))
    assert [table.number_at(int(entry)) for entry in found[:, 0]] == [table.find(key) for key, _ in prefixes]
    with pytest.raises(UsageError, match="has an entry already"):
        table.insert_many(keys[:1], lens[:1], rows[:1], rows[:1].reshape(1, 1))
    with pytest.raises(UsageError, match="behind their prefix length"):
        table.insert_many(keys[:1] | np.uint64(1), lens[:1] * np.uint64(0), rows[:1], rows[:1].reshape(1, 1))
    with pytest.raises(UsageError, match="prefix lengths of at most"):
        table.insert_many(keys[:1], lens[:1] + np.uint64(129), rows[:1], rows[:1].reshape(1, 1))
    assert len(table) == count
    table.close()


@pytest.mark.parametrize(("key", "length"), [(1, 31), (0, 33), (0, -1), (1 << 32, 32), (HOST, 0)])
def test_what_is_no_prefix_is_refused(table: LpmTable, key: int, length: int) -> None:
    with pytest.raises(UsageError, match=r"is no prefix|does not fit"):
        table.insert(key, length, 0)
    assert len(table) == 0


def test_a_prefix_has_one_entry(table: LpmTable) -> None:
    number = table.insert(NET, 8, 1)
    with pytest.raises(UsageError, match="0xa000000/8 has an entry already"):
        table.insert(NET, 8, 2)
    assert table.insert(NET, 9, 2) != number
    assert table.entry(number).action == 1


def test_a_key_that_is_too_wide_is_refused() -> None:
    with pytest.raises(UsageError, match="128 can be had"):
        LpmTable(8, 129)


@pytest.mark.parametrize(("width", "strides"), [(3, [3]), (32, [16, 8, 4, 4]), (29, [16, 8, 4, 1])])
def test_levels_take_the_key_s_bits(width: int, strides: list[int]) -> None:
    assert trie.strides_of(width) == strides
