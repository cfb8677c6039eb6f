# SPDX-License-Identifier: Apache-2.0
"""Entries in memory: what is kept of them, what is refused, and how a reader sees that one has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nicemu.errors import ResourceError, UsageError
from nicemu.hot import interpreted
from nicemu.lookup import ExactTable, action_of, count_packet, hash_of, limbs_of, pack_keys, unchanged
from nicemu.lookup import entries as records
from nicemu.pcie import load_u64

WIDE = (1 << 99) + 5


@pytest.fixture
def table(compiled: bool) -> Iterator[ExactTable]:
    """A table of 4 entries, keys of 100 bits, 2 words of parameters."""
    made = ExactTable(4, 100, 2, compiled=compiled)
    yield made
    made.close()


def record_of(table: ExactTable, number: int) -> np.uint64:
    return np.uint64(int(load_u64(table.state + records.ENTRIES)) + number * table.stride)


def test_an_entry_is_kept_whole(table: ExactTable) -> None:
    number = table.insert(WIDE, 7, (1, (1 << 64) - 1), now_ns=5)
    entry = table.entry(number)
    assert (entry.key, entry.action, entry.parameters) == (WIDE, 7, (1, (1 << 64) - 1))
    assert (entry.packets, entry.bytes, entry.hit_ns) == (0, 0, 5)


def test_a_record_is_whole_lines(compiled: bool) -> None:
    for key_bits, words, stride in ((128, 2, 64), (128, 3, 128), (64, 3, 64), (1, 0, 64), (512, 4, 128)):
        made = ExactTable(2, key_bits, words, compiled=compiled)
        made.insert(1, 1)
        made.insert(0, 1)
        assert made.stride == stride
        assert record_of(made, 0) % 64 == record_of(made, 1) % 64 == 0
        made.close()


def test_modifying_keeps_key_and_counters(table: ExactTable) -> None:
    number = table.insert(WIDE, 7, (1, 2), now_ns=5)
    table.set_counters(number, 3, 400)
    table.modify(number, 8, (9,))
    entry = table.entry(number)
    assert (entry.key, entry.action, entry.parameters) == (WIDE, 8, (9, 0))
    assert (entry.packets, entry.bytes, entry.hit_ns) == (3, 400, 5)


def test_a_packet_is_counted_with_its_bytes_and_its_time(table: ExactTable) -> None:
    number = table.insert(1, 0)
    count = interpreted(count_packet)
    for now_ns in (100, 200):
        count(record_of(table, number), np.uint64(64), np.uint64(now_ns))
    entry = table.entry(number)
    assert (entry.packets, entry.bytes, entry.hit_ns) == (2, 128, 200)


def test_idle_entries_are_those_not_hit_since(table: ExactTable) -> None:
    numbers = [table.insert(key, 0, now_ns=key) for key in (10, 20, 30)]
    assert table.idle(20) == numbers[:1]
    table.delete(numbers[0])
    assert table.idle(31) == numbers[1:] == table.numbers()


@pytest.mark.parametrize(
    "change",
    [
        lambda table, number: table.modify(number, 7, (1, 2)),
        lambda table, number: table.delete(number),
        lambda table, number: (table.delete(number), table.insert(WIDE, 7, (1, 2))),
    ],
    ids=["modified", "deleted", "replaced"],
)
def test_a_reader_sees_that_an_entry_has_changed(
    table: ExactTable, change: Callable[[ExactTable, int], object]
) -> None:
    number = table.insert(WIDE, 7, (1, 2))
    record = record_of(table, number)
    head = np.uint64(load_u64(record))
    same = interpreted(unchanged)
    assert same(record, head)
    assert interpreted(action_of)(head) == 7
    table.insert(1, 1)
    assert same(record, head)
    change(table, number)
    assert not same(record, head)


def test_an_entry_that_is_gone_has_no_number(table: ExactTable) -> None:
    number = table.insert(WIDE, 7)
    table.delete(number)
    for call in (table.entry, table.delete, lambda gone: table.modify(gone, 1)):
        for wrong in (number, 1, -1):
            with pytest.raises(UsageError, match=f"no entry {wrong}"):
                call(wrong)


def test_what_does_not_fit_is_refused_and_nothing_changes(table: ExactTable) -> None:
    number = table.insert(5, 1, (2,))
    for key, action, parameters, words in (
        (1 << 100, 1, (), "does not fit into 100 bits"),
        (-1, 1, (), "does not fit into 100 bits"),
        (1, 0xFFFFFFFF, (), "are actions"),
        (1, -1, (), "are actions"),
        (1, 1, (1, 2, 3), "no 2 words"),
        (1, 1, (1 << 64,), "no 2 words"),
    ):
        with pytest.raises(UsageError, match=words):
            table.insert(key, action, parameters)
    with pytest.raises(UsageError, match="no 2 words"):
        table.modify(number, 1, (-1,))
    assert len(table) == 1
    assert table.entry(number).parameters == (2, 0)


def test_a_full_table_refuses_and_a_deletion_makes_room(table: ExactTable) -> None:
    numbers = [table.insert(key, 1) for key in range(4)]
    with pytest.raises(ResourceError, match="holds 4 of 4 entries"):
        table.insert(9, 1)
    table.delete(numbers[2])
    assert table.insert(9, 1) == numbers[2]
    assert [table.find(key) for key in (0, 1, 2, 3, 9)] == [0, 1, None, 3, 2]


@pytest.mark.parametrize(
    ("size", "key_bits", "words"), [(0, 8, 0), ((1 << 24) + 1, 8, 0), (4, 0, 0), (4, 8, -1)]
)
def test_a_table_that_cannot_be_is_refused(size: int, key_bits: int, words: int) -> None:
    with pytest.raises(UsageError):
        ExactTable(size, key_bits, words)


def test_memory_that_the_kernel_will_not_reserve_is_a_resource() -> None:
    with pytest.raises(ResourceError, match="declare a smaller size"):
        ExactTable(1 << 24, 1 << 31, 0)


def test_limbs_are_the_most_significant_first() -> None:
    assert limbs_of(WIDE, 2) == [1 << 35, 5]
    assert pack_keys([WIDE, 1], 2).tolist() == [[1 << 35, 5], [0, 1]]
    assert pack_keys([], 2).shape == (0, 2)


def test_every_bit_of_a_key_changes_both_halves_of_its_hash() -> None:
    """Buckets come from the lower half, tags from the upper."""
    digest = interpreted(hash_of)
    for bits in (64, 128, 192):
        limbs = bits // 64
        base = 0x0123456789ABCDEF_FEDCBA9876543210_0F1E2D3C4B5A6978 >> 192 - bits
        keys = pack_keys([base, *(base ^ 1 << place for place in range(bits))], limbs)
        found = [int(digest(np.uint64(row.ctypes.data), np.uint64(limbs))) for row in keys]
        assert len(set(found)) == len({value >> 44 for value in found}) == bits + 1
        assert len({value & 0xFFFFF for value in found}) == bits + 1
