# SPDX-License-Identifier: Apache-2.0
"""Lookups while another thread changes the table: an entry is seen whole or not at all."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nicemu.hot import JIT, Int, hot
from nicemu.lookup import (
    MISS,
    ExactTable,
    LpmTable,
    TernaryTable,
    action_of,
    find,
    find_lpm,
    find_lpm_batch,
    find_ternary,
    hash_of,
    index_of,
    pack_keys,
    ternary,
    unchanged,
)
from nicemu.pcie import load_u64, store_u64

Words = np.ndarray[Any, np.dtype[np.uint64]]
KEYS, STAYING = 16, 8
"""Keys that are looked up; so many of them are never deleted."""
CHANGES = 40_000 if JIT else 2_000
MIX = 0x5BD1E995_5BD1E995
SEEN, MISSED, CHANGED, WRONG = range(4)
ZERO, ONE, EIGHT, FOUND, ROW, LOWER = (np.uint64(value) for value in (0, 1, 8, 16, 32, 0xFFFF))


@hot
def count(report: Int, place: Int, column: Int) -> None:
    cell = report + np.uint64(place) * ROW + np.uint64(column) * EIGHT
    store_u64(cell, load_u64(cell) + ONE)


@hot
def judge(entry: Int, head: Int, key: Int, parameters_at: Int, mix: Int) -> Int:
    """Return MISSED, or of the entry that was found whether it has CHANGED, or its parts belong together."""
    if entry == MISS:
        return MISSED
    first = load_u64(entry + parameters_at)
    last = load_u64(entry + parameters_at + EIGHT * EIGHT)
    if not unchanged(entry, head):
        return CHANGED
    return SEEN if first ^ last == load_u64(key) ^ mix and first & LOWER == action_of(head) else WRONG


@hot
def read_exact(state: Int, keys: Int, parameters_at: Int, mix: Int, stop: Int, report: Int) -> None:
    """Look keys of 64 bits up until told to stop, and then once more."""
    index = index_of(state)
    told = ZERO
    while told == ZERO:
        told = load_u64(stop)
        for place in range(KEYS):
            key = keys + np.uint64(place) * EIGHT
            found = CHANGED
            while found == CHANGED:
                entry, head = find(index, key, ONE, hash_of(key, ONE))
                found = judge(entry, head, key, parameters_at, mix)
                count(report, place, found)


@hot
def read_ternary(state: Int, keys: Int, parameters_at: Int, mix: Int, stop: Int, report: Int) -> None:
    """As `read_exact`, in a table with priorities."""
    told = ZERO
    while told == ZERO:
        told = load_u64(stop)
        for place in range(KEYS):
            key = keys + np.uint64(place) * EIGHT
            found = CHANGED
            while found == CHANGED:
                entry, head = find_ternary(state, key, ONE)
                found = judge(entry, head, key, parameters_at, mix)
                count(report, place, found)


@hot
def read_lpm(state: Int, keys: Int, parameters_at: Int, mix: Int, stop: Int, report: Int) -> None:
    """As `read_exact`, in a table of prefixes."""
    told = ZERO
    while told == ZERO:
        told = load_u64(stop)
        for place in range(KEYS):
            key = keys + np.uint64(place) * EIGHT
            found = CHANGED
            while found == CHANGED:
                entry, head = find_lpm(state, key, ONE)
                found = judge(entry, head, key, parameters_at, mix)
                count(report, place, found)


@hot
def read_lpm_batch(state: Int, keys: Int, parameters_at: Int, mix: Int, stop: Int, report: Int) -> None:
    """As `read_lpm`, all keys at once; what is found lies behind the report."""
    found = report + np.uint64(KEYS) * ROW
    told = ZERO
    while told == ZERO:
        told = load_u64(stop)
        find_lpm_batch(state, keys, np.uint64(KEYS), found)
        for place in range(KEYS):
            entry = load_u64(found + np.uint64(place) * FOUND)
            head = load_u64(found + np.uint64(place) * FOUND + EIGHT)
            key = keys + np.uint64(place) * EIGHT
            count(report, place, judge(entry, head, key, parameters_at, mix))


class Reading:
    """A thread that looks keys up while the block of a `with` statement runs."""

    def __init__(self, function: Callable[..., None], *operands: int) -> None:
        self._memory = np.zeros((2 * KEYS, 4), np.uint64)
        self.report = self._memory[:KEYS]
        self._stop = np.zeros(1, np.uint64)
        given = *operands, self._stop.ctypes.data, self.report.ctypes.data
        words = [np.uint64(operand) for operand in given]
        self._stop[0] = 1
        function(*words)  # compiles, and returns
        self._stop[0] = 0
        self.report[:] = 0
        self._thread = threading.Thread(target=function, args=words)

    def __enter__(self) -> Words:
        self._thread.start()
        return self.report

    def __exit__(self, *unused: object) -> None:
        self._stop[0] = 1
        self._thread.join()


def parameters_for(key: int, value: int) -> tuple[int, ...]:
    return (value, *(0,) * 7, value ^ key ^ MIX)


def test_an_exact_entry_is_seen_whole_or_not_at_all() -> None:
    """The first parameter and the last, two lines behind, belong together, and the action to them."""
    table = ExactTable(KEYS, 64, 9)
    rng = random.Random(3)
    numbers: dict[int, int] = {}

    def insert(key: int) -> None:
        value = rng.getrandbits(64)
        numbers[key] = table.insert(key, value & 0xFFFF, parameters_for(key, value))

    for key in range(KEYS):
        insert(key)
    keys = pack_keys(range(KEYS), 1)
    operands = (int(table.state), keys.ctypes.data, table.parameters_at, MIX)
    with Reading(read_exact, *operands) as report:
        for _ in range(CHANGES):
            key = rng.randrange(KEYS)
            if key < STAYING:
                value = rng.getrandbits(64)
                table.modify(numbers[key], value & 0xFFFF, parameters_for(key, value))
            elif key in numbers:
                table.delete(numbers.pop(key))
            else:
                insert(key)
    assert not report[:, WRONG].any()
    assert not report[:STAYING, MISSED].any()
    assert report[:STAYING, SEEN].all()
    table.close()


@pytest.mark.parametrize("own_tuples", [ternary.OWN_TUPLES, 0], ids=["tuples of their own", "shared tuples"])
def test_a_key_that_some_entry_always_matches_is_never_missed(
    own_tuples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two entries a key, under different masks and of either priority, come and go, never both at once."""
    monkeypatch.setattr(ternary, "OWN_TUPLES", own_tuples)
    table = TernaryTable(2 * KEYS, 64, 9, [(8, 8)])
    rng = random.Random(4)
    numbers: dict[tuple[int, int], int] = {}

    def insert(key: int, side: int) -> None:
        value, mask = rng.getrandbits(64), (0xFF, 0xFF_00FF)[side]
        bounds = [((0, 0), (0, rng.randrange(4)))[rng.randrange(2)]]
        parameters = parameters_for(key, value)
        numbers[key, side] = table.insert(key, mask, rng.randrange(1, 4), value & 0xFFFF, parameters, bounds)

    for key in range(KEYS):
        insert(key, 0)
    packed = pack_keys(range(KEYS), 1)
    operands = (int(table.state), packed.ctypes.data, table.parameters_at, MIX)
    with Reading(read_ternary, *operands) as report:
        for _ in range(CHANGES // 4):
            key = rng.randrange(KEYS)
            side = int((key, 1) in numbers)
            insert(key, 1 - side)
            table.delete(numbers.pop((key, side)))
    assert not report[:, [MISSED, WRONG]].any()
    assert report[:, SEEN].all()
    table.close()


@pytest.mark.parametrize("read", [read_lpm, read_lpm_batch], ids=["one by one", "in batches"])
def test_an_address_that_some_prefix_always_covers_is_never_missed(read: Callable[..., None]) -> None:
    """Two prefixes a key, in two levels of the trie, come and go, never both at once."""
    table = LpmTable(2 * KEYS, 64, 9)
    rng = random.Random(5)
    numbers: dict[tuple[int, int], int] = {}
    keys = [place << 50 for place in range(KEYS)]

    def insert(place: int, side: int) -> None:
        value, length = rng.getrandbits(64), (14, rng.choice((23, 26, 30)))[side]
        parameters = parameters_for(keys[place], value)
        numbers[place, side] = table.insert(keys[place], length, value & 0xFFFF, parameters)

    for place in range(KEYS):
        insert(place, 0)
    packed = pack_keys(keys, 1)
    operands = (int(table.state), packed.ctypes.data, table.parameters_at, MIX)
    with Reading(read, *operands) as report:
        for _ in range(CHANGES // 4):
            place = rng.randrange(KEYS)
            side = int((place, 1) in numbers)
            insert(place, 1 - side)
            table.delete(numbers.pop((place, side)))
    assert not report[:, [MISSED, WRONG]].any()
    assert report[:, SEEN].all()
    table.close()
