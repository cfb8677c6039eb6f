# SPDX-License-Identifier: Apache-2.0
"""The hash index: what overflows a bucket is found, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest

from nicemu.hot import interpreted
from nicemu.lookup import ExactTable, hash_of, pack_keys
from nicemu.lookup.buckets import bucket_count, tag_mask
from nicemu.lookup.entries import release

SIZE = 64
"""Entries of a table with 8 buckets."""


def keys_at_home_in(bucket: int, wanted: int) -> list[int]:
    """Return keys whose first bucket is this one of eight."""
    digest = interpreted(hash_of)
    found: list[int] = []
    for key in count():
        packed = pack_keys([key], 1)
        if int(digest(np.uint64(packed.ctypes.data), np.uint64(1))) % 8 == bucket:
            found.append(key)
        if len(found) == wanted:
            return found
    raise AssertionError


HOME_KEYS = keys_at_home_in(7, 41)
"""Their buckets are the last one and, around the end, the first two."""


@pytest.fixture
def table(compiled: bool) -> Iterator[ExactTable]:
    made = ExactTable(SIZE, 64, compiled=compiled)
    yield made
    made.close()


def lines_of(table: ExactTable) -> np.ndarray:
    """Return the buckets as words: 15 slots and the overflow count."""
    start = -(-SIZE * 4 // 64) * 64 + 256 + table.stride
    return np.frombuffer(bytes(table._memory.view[start : start + 512]), np.uint32).reshape(8, 16)


def test_keys_that_overflow_are_found_around_the_end(table: ExactTable) -> None:
    numbers = [table.insert(key, 1) for key in HOME_KEYS[:40]]
    assert [table.find(key) for key in HOME_KEYS] == [*numbers, None]
    used, overflowed = (lines_of(table)[:, :15] != 0).sum(1), lines_of(table)[:, 15]
    assert used.tolist() == [15, 10, 0, 0, 0, 0, 0, 15]
    assert overflowed.tolist() == [10, 0, 0, 0, 0, 0, 0, 25]


@pytest.mark.parametrize("step", [1, -1, 7])
def test_what_is_deleted_leaves_nothing_behind(table: ExactTable, step: int) -> None:
    numbers = {key: table.insert(key, 1) for key in HOME_KEYS[:40]}
    order = [HOME_KEYS[place * step % 40] for place in range(40)]
    assert len(set(order)) == 40
    for gone, key in enumerate(order):
        table.delete(numbers[key])
        assert table.find(key) is None
        assert all(table.find(left) == numbers[left] for left in order[gone + 1 :: 5])
    assert not lines_of(table).any()


def test_a_key_that_comes_again_takes_the_first_free_slot(table: ExactTable) -> None:
    numbers = [table.insert(key, 1) for key in HOME_KEYS[:16]]
    table.delete(numbers[0])
    table.delete(numbers[15])
    table.insert(HOME_KEYS[15], 1)
    slots, overflowed = lines_of(table)[7, :15], lines_of(table)[7, 15]
    assert slots.all()
    assert overflowed == 0


@pytest.mark.parametrize("size", [1, 2, 8, 9, 1024, 1025, 1 << 20, 1 << 24])
def test_buckets_have_room_for_all_and_slots_for_every_number(size: int) -> None:
    assert 8 * bucket_count(size) >= size
    assert bucket_count(size) == 1 or 4 * bucket_count(size) < size
    assert tag_mask(size) & size - 1 == 0
    assert tag_mask(size) >> 24 == 0xFF


def test_an_entry_that_was_deleted_is_not_found_by_who_has_read_its_slot(table: ExactTable) -> None:
    """A reader between slot and record: the record is empty, and still has the key."""
    number = table.insert(HOME_KEYS[0], 1)
    interpreted(release)(table.state, np.uint64(number))
    assert lines_of(table).any()
    assert table.find(HOME_KEYS[0]) is None


def test_a_search_ends_where_some_key_has_passed_every_bucket(compiled: bool) -> None:
    """A key stays where it was put although its home has room again: so counts need not come to 0."""
    digest = interpreted(hash_of)
    homes: list[list[int]] = [[], []]
    for key in range(200):
        packed = pack_keys([key], 1)
        homes[int(digest(np.uint64(packed.ctypes.data), np.uint64(1))) % 2].append(key)
    table = ExactTable(16, 64, compiled=compiled)  # two buckets
    numbers = [table.insert(key, 1) for key in homes[0][:16]]
    for number in numbers[:15]:
        table.delete(number)
    others = [table.insert(key, 1) for key in homes[1][:15]]
    kept = dict(zip([homes[0][15], *homes[1][:15]], [numbers[15], *others], strict=True))
    assert [table.find(key) for key in range(200)] == [kept.get(key) for key in range(200)]
    table.close()
