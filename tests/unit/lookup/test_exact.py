# SPDX-License-Identifier: Apache-2.0
"""Exact tables: an entry for each key, alone and in bulk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nicemu.errors import ResourceError, UsageError
from nicemu.hot import interpreted
from nicemu.lookup import BATCH, ExactTable, find_batch, pack_keys
from nicemu.pcie import load_u64

RNG = np.random.default_rng(5)


@pytest.fixture(params=[1, 7, 64, 65, 128, 129, 320], ids=lambda bits: f"{bits}-bit")
def key_bits(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def table(compiled: bool) -> Iterator[ExactTable]:
    """A table of 200 entries, keys of 128 bits, a word of parameters."""
    made = ExactTable(200, 128, 1, compiled=compiled)
    yield made
    made.close()


def looked_up(table: ExactTable, keys: list[int]) -> list[int | None]:
    """Return the numbers of entries that a batch finds; the guard behind it stays."""
    packed = pack_keys(keys, table.limbs)
    found = np.full((len(keys) + 1, 2), 77, np.uint64)
    run = find_batch if table._compiled else interpreted(find_batch)
    run(table.state, np.uint64(packed.ctypes.data), np.uint64(len(keys)), np.uint64(found.ctypes.data))
    assert found[-1].tolist() == [77, 77]
    heads = [int(load_u64(int(entry))) if entry else 0 for entry in found[:-1, 0]]
    assert heads == found[:-1, 1].tolist()
    return [table.number_at(int(entry)) for entry in found[:-1, 0]]


def test_a_key_finds_its_entry_and_no_other(compiled: bool, key_bits: int) -> None:
    table = ExactTable(8, key_bits, compiled=compiled)
    keys = sorted({0, 1, (1 << key_bits) - 1, 1 << key_bits - 1})
    numbers = [table.insert(key, 0) for key in keys]
    others = [key ^ 1 << place for key in keys for place in range(0, key_bits, 9)]
    expected = [numbers[keys.index(key)] if key in keys else None for key in keys + others]
    assert [table.find(key) for key in keys + others] == expected
    assert looked_up(table, keys + others) == expected
    table.close()


def test_a_key_has_one_entry(table: ExactTable) -> None:
    number = table.insert(5, 1, (1,))
    with pytest.raises(UsageError, match="the key 0x5 has an entry already"):
        table.insert(5, 2, (2,))
    assert (len(table), table.find(5), table.entry(number).action) == (1, number, 1)


@pytest.mark.parametrize("count", [0, 1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH])
def test_a_batch_finds_what_single_lookups_find(table: ExactTable, count: int) -> None:
    for key in range(0, 3 * BATCH, 2):
        table.insert(key << 60, 1)
    keys = [place << 60 for place in range(count)]
    assert looked_up(table, keys) == [table.find(key) for key in keys]


def test_many_go_in_at_once(table: ExactTable) -> None:
    keys = [number << 61 for number in range(100)]
    parameters = np.arange(100, dtype=np.uint64).reshape(100, 1)
    actions = np.arange(100, dtype=np.uint64) % np.uint64(3)
    numbers = table.insert_many(pack_keys(keys, 2), actions, parameters, now_ns=9)
    assert looked_up(table, keys) == numbers.tolist()
    entry = table.entry(int(numbers[50]))
    assert (entry.key, entry.action, entry.parameters, entry.hit_ns) == (50 << 61, 2, (50,), 9)


def test_of_many_all_go_in_or_none(table: ExactTable) -> None:
    table.insert(7, 1)
    zeros, none = np.zeros(300, np.uint64), np.zeros((300, 1), np.uint64)
    with pytest.raises(UsageError, match="the key 0x7 has an entry already"):
        table.insert_many(pack_keys([5, 6, 7, 8], 2), zeros[:4], none[:4])
    with pytest.raises(UsageError, match="the key 0x5 has an entry already"):
        table.insert_many(pack_keys([5, 6, 5], 2), zeros[:3], none[:3])
    with pytest.raises(ResourceError, match="holds 1 of 200 entries and takes no 200 more"):
        table.insert_many(pack_keys(list(range(10, 210)), 2), zeros[:200], none[:200])
    with pytest.raises(UsageError, match="actions"):
        table.insert_many(pack_keys([5], 2), zeros[:1] + np.uint64(0xFFFFFFFF), none[:1])
    with pytest.raises(UsageError, match="rows of 2 limbs"):
        table.insert_many(pack_keys([5], 1), zeros[:1], none[:1])
    with pytest.raises(UsageError, match="shapes"):
        table.insert_many(pack_keys([5], 2), zeros[:2], none[:1])
    assert (len(table), table.numbers()) == (1, [0])
    assert table.find(5) is None


def test_keys_of_many_that_do_not_fit_are_refused(compiled: bool) -> None:
    table = ExactTable(4, 70, compiled=compiled)
    table.insert_many(pack_keys([(1 << 70) - 1], 2), np.zeros(1, np.uint64), np.zeros((1, 0), np.uint64))
    with pytest.raises(UsageError, match="70 bits"):
        table.insert_many(pack_keys([1 << 70], 2), np.zeros(1, np.uint64), np.zeros((1, 0), np.uint64))
    table.close()


def test_a_table_filled_to_its_size_finds_all(compiled: bool) -> None:
    size = 4096 if compiled else 256
    table = ExactTable(size, 64, compiled=compiled)
    keys = RNG.permutation(np.arange(size, dtype=np.uint64)).reshape(size, 1)
    numbers = table.insert_many(keys, np.zeros(size, np.uint64), np.zeros((size, 0), np.uint64))
    assert looked_up(table, keys[:, 0].tolist()) == numbers.tolist()
    for number in numbers[::2]:
        table.delete(int(number))
    left = [number if place % 2 else None for place, number in enumerate(numbers.tolist())]
    assert looked_up(table, keys[:, 0].tolist()) == left
    table.close()
