# SPDX-License-Identifier: Apache-2.0
"""ibv_reg_mr(3): what a key covers, and every way to be refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nicemu.abi import Access, registers
from nicemu.errors import ResourceError, UsageError
from nicemu.hot import interpreted
from nicemu.pcie import Backing, store_u32, store_u64
from nicemu.rdma import MAX_BACKINGS, MemoryRegionTable, check_region, raw_address
from nicemu.rdma.memory_region import BAD_ACCESS, BAD_BOUNDS, BAD_DOMAIN, BAD_KEY, arrival_counter

TOP = 1 << 64
EVERY_RIGHT = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
Check = Callable[..., int]


@pytest.fixture
def memory() -> Iterator[Backing]:
    backing = Backing.anonymous(registers.PUBLIC_BYTES)
    yield backing
    backing.close()


@pytest.fixture
def table(memory: Backing) -> MemoryRegionTable:
    return MemoryRegionTable(memory.address, random.Random(1))


@pytest.fixture(params=[False, True], ids=["interpreted", "compiled"])
def compiled(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def check(table: MemoryRegionTable, compiled: bool) -> Check:
    """check_region over the table, with plain numbers."""
    function = check_region if compiled else interpreted(check_region)

    def run(key: int, pd: int, address: int, length: int, access: int = 0) -> int:
        numbers = np.uint32(key), np.uint32(pd), np.uint64(address), np.uint64(length), np.uint32(access)
        return int(function(np.uint64(table.address), *numbers))

    return run


# What a key covers.


def test_a_key_covers_its_range_for_its_domain_with_its_rights(
    table: MemoryRegionTable, check: Check
) -> None:
    region = table.register(7, 0x1000, 64, Access.REMOTE_WRITE, 0, 0)
    assert check(region.key, 7, 0x1000, 64, Access.REMOTE_WRITE) == region.key & 0xFFF
    assert (region.lkey, region.rkey) == (region.key, region.key)


def test_local_reads_need_no_right(table: MemoryRegionTable, check: Check) -> None:
    region = table.register(7, 0x1000, 64, Access(0), 0, 0)
    assert check(region.key, 7, 0x1000, 64) >= 0


@pytest.mark.parametrize("granted", range(16))
def test_each_right_is_needed_and_enough(table: MemoryRegionTable, check: Check, granted: int) -> None:
    region = table.register(7, 0x1000, 64, Access(granted), 0, 0)
    for needed in range(16):
        allowed = granted & needed == needed
        assert (check(region.key, 7, 0x1000, 1, needed) >= 0) is allowed
        assert allowed or check(region.key, 7, 0x1000, 1, needed) == BAD_ACCESS


def test_a_key_of_another_domain_is_refused(table: MemoryRegionTable, check: Check) -> None:
    region = table.register(7, 0x1000, 64, EVERY_RIGHT, 0, 0)
    assert check(region.key, 8, 0x1000, 1) == BAD_DOMAIN
    assert check(region.key, 0, 0x1000, 1) == BAD_DOMAIN


def test_a_key_that_was_never_given_out_is_refused(table: MemoryRegionTable, check: Check) -> None:
    region = table.register(0, 0, 1 << 32, EVERY_RIGHT, 0, 0)
    unknown = [0, 1, region.key ^ 1, region.key ^ 1 << 12, region.key ^ 1 << 31, 0xFFFFFFFF]
    unknown += [region.key & ~0xFFF | registers.MAX_REGIONS, region.key & ~0xFFF | 0xFFF]
    for key in unknown:
        assert check(key, 0, 0, 0) == BAD_KEY


def test_the_range_that_a_key_covers_is_exact_also_where_addresses_wrap(
    table: MemoryRegionTable, check: Check
) -> None:
    """Every start and length near the region's ends, and lengths whose sum with the address wraps."""
    for iova in (0, 5, (1 << 63) - 2, TOP - 4):
        for covered in (1, 3, 4):
            region = table.register(1, iova, covered, EVERY_RIGHT, 0, 0)
            addresses = {(iova + offset) % TOP for offset in range(-3, 7)} | {0, TOP - 1}
            for address in addresses:
                for length in (0, 1, 2, 3, 4, 5, TOP - 1, TOP - 3, TOP - iova, 1 << 63):
                    if length >= TOP:
                        continue
                    inside = iova <= address and address + length <= iova + covered
                    verdict = check(region.key, 1, address, length)
                    expected = region.key & 0xFFF if inside else BAD_BOUNDS
                    assert verdict == expected, (iova, covered, address, length)
            table.deregister(region.key)


@pytest.mark.parametrize("index", [registers.MAX_REGIONS, 0xFFF])
def test_what_lies_behind_the_table_is_no_entry(memory: Backing, check: Check, index: int) -> None:
    """Queue pairs and receives follow in the same memory, and peers may write some of it."""
    key = 5 << 12 | index
    entry = memory.address + index * registers.REGION_BYTES
    store_u32(entry, key)
    store_u64(entry + 24, TOP - 1)
    assert check(key, 0, 0, 1) == BAD_KEY


# Registering.


@pytest.mark.parametrize(
    ("iova", "length"), [(0, 0), (0, -1), (-1, 1), (TOP - 4, 5), (TOP, 1), (1, TOP), (TOP - 1, 2)]
)
def test_what_is_not_a_range_of_addresses_cannot_be_registered(
    table: MemoryRegionTable, memory: Backing, iova: int, length: int
) -> None:
    with pytest.raises(UsageError, match=r"is not a range of addresses|is a whole number from 0"):
        table.register(1, iova, length, EVERY_RIGHT, 0, 0)
    assert bytes(memory.view) == bytes(registers.PUBLIC_BYTES)


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (0, "pd", -1),
        (0, "pd", 1 << 32),
        (1, "iova", "0"),
        (2, "length_bytes", 8.0),
        (3, "access", 16),
        (4, "backing", 256),
        (5, "offset_bytes", -1),
        (6, "counter", (1 << 32) - 1),
    ],
)
def test_a_value_that_has_no_room_in_an_entry_cannot_be_registered(
    table: MemoryRegionTable, memory: Backing, place: int, name: str, value: object
) -> None:
    right: list[Any] = [1, 0, 8, EVERY_RIGHT, 0, 0, None]
    right[place] = value
    with pytest.raises(UsageError, match=f"{name} is "):
        table.register(*right)
    assert bytes(memory.view) == bytes(registers.PUBLIC_BYTES)
    assert not table.regions


@pytest.mark.parametrize("seed", range(3))
def test_a_key_that_was_given_back_names_nothing_also_when_its_entry_is_used_again(
    memory: Backing, seed: int, check: Check
) -> None:
    """The entry is the same, the key is not, even where the random tag repeats."""

    class Repeats(random.Random):
        def randrange(self, *bounds: int) -> int:  # type: ignore[override]
            return (1, 2, (1 << 20) - 1)[seed]

    table = MemoryRegionTable(memory.address, Repeats())
    old = table.register(1, 0x1000, 64, EVERY_RIGHT, 0, 0)
    assert table.deregister(old.key) == old
    assert check(old.key, 1, 0x1000, 64) == BAD_KEY
    new = table.register(1, 0x1000, 64, EVERY_RIGHT, 0, 0)
    assert new.key & 0xFFF == old.key & 0xFFF
    assert check(old.key, 1, 0x1000, 64) == BAD_KEY
    assert check(new.key, 1, 0x1000, 64) >= 0
    assert 0 < new.key < 1 << 32


def test_a_key_can_be_given_back_once(table: MemoryRegionTable) -> None:
    region = table.register(1, 0x1000, 64, EVERY_RIGHT, 0, 0)
    table.deregister(region.key)
    with pytest.raises(UsageError, match=f"key {region.key:#x} is not registered"):
        table.deregister(region.key)


def test_a_new_registration_takes_nothing_from_the_one_before(table: MemoryRegionTable, check: Check) -> None:
    old = table.register(1, 0x1000, 64, EVERY_RIGHT, 3, 0x500, counter=9)
    table.deregister(old.key)
    new = table.register(2, 0x8000, 16, Access.REMOTE_READ, 4, 0)
    assert check(new.key, 2, 0x8000, 16, Access.REMOTE_READ) >= 0
    assert check(new.key, 2, 0x8000, 16, Access.REMOTE_WRITE) == BAD_ACCESS
    assert check(new.key, 1, 0x8000, 16) == BAD_DOMAIN
    assert check(new.key, 2, 0x1000, 16) == BAD_BOUNDS
    assert new.key not in table.counters
    assert old.key not in table.counters


def test_regions_run_out_and_come_back(table: MemoryRegionTable, check: Check) -> None:
    regions = [table.register(1, 0x1000, 64, EVERY_RIGHT, 0, 0) for _ in range(registers.MAX_REGIONS)]
    assert len({region.key & 0xFFF for region in regions}) == registers.MAX_REGIONS
    assert all(check(region.key, 1, 0x1000, 64) >= 0 for region in regions)
    with pytest.raises(ResourceError, match=r"all 1024 memory regions are in use \(ENOSPC\)"):
        table.register(1, 0x1000, 64, EVERY_RIGHT, 0, 0)
    table.deregister(regions[500].key)
    assert table.register(1, 0x1000, 64, EVERY_RIGHT, 0, 0).key & 0xFFF == 500


# Where it lies, and who counts.


def test_a_checked_address_lies_at_its_offset_in_its_backing(
    table: MemoryRegionTable, compiled: bool
) -> None:
    where = raw_address if compiled else interpreted(raw_address)
    backings = np.zeros(MAX_BACKINGS, np.uint64)
    backings[255] = 0x7000_0000_0000
    region = table.register(1, 0x10_0000, 0x1000, EVERY_RIGHT, 255, 0x2000)
    index = np.int64(region.key & 0xFFF)
    for address, raw in [(0x10_0000, 0x7000_0000_2000), (0x10_0FFF, 0x7000_0000_2FFF)]:
        assert int(where(np.uint64(table.address), index, np.uint64(address), backings)) == raw
    backings[255] = 0
    assert int(where(np.uint64(table.address), index, np.uint64(0x10_0000), backings)) == 0


def test_a_region_at_the_end_of_the_address_range_has_an_address_too(
    table: MemoryRegionTable, compiled: bool
) -> None:
    where = raw_address if compiled else interpreted(raw_address)
    backings = np.zeros(MAX_BACKINGS, np.uint64)
    backings[0] = 0x1000
    region = table.register(1, TOP - 8, 8, EVERY_RIGHT, 0, 0x10)
    index = np.int64(region.key & 0xFFF)
    assert int(where(np.uint64(table.address), index, np.uint64(TOP - 1), backings)) == 0x1017


@pytest.mark.parametrize("counter", [None, 0, 5, 2047])
def test_a_region_may_name_the_counter_of_its_arrivals(
    table: MemoryRegionTable, compiled: bool, counter: int | None
) -> None:
    counts = arrival_counter if compiled else interpreted(arrival_counter)
    region = table.register(1, 0x1000, 64, EVERY_RIGHT, 0, 0, counter)
    index = np.int64(region.key & 0xFFF)
    assert int(counts(np.uint64(table.address), index)) == (-1 if counter is None else counter)
    assert table.counters.get(region.key) == counter


# Refusals in words.


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (BAD_KEY, "key {key} is not registered"),
        (BAD_DOMAIN, "key {key} belongs to protection domain 7, not 8"),
        (BAD_ACCESS, "key {key} does not grant that access (it has <Access.LOCAL_WRITE: 1>)"),
        (BAD_BOUNDS, "key {key} covers [0x1000, 0x1040); 64 bytes at 0x1001 lie outside it"),
    ],
)
def test_a_refusal_says_what_was_found_and_what_is_allowed(
    table: MemoryRegionTable, refusal: int, sentence: str
) -> None:
    region = table.register(7, 0x1000, 64, Access.LOCAL_WRITE, 0, 0)
    said = table.explain(refusal, region.key, 8, 0x1001, 64)
    assert said == sentence.format(key=hex(region.key))


def test_a_key_that_is_gone_by_now_is_said_to_be_unknown(table: MemoryRegionTable) -> None:
    assert table.explain(BAD_BOUNDS, 0x5005, 1, 0, 1) == "key 0x5005 is not registered"
