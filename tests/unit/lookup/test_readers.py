# SPDX-License-Identifier: Apache-2.0
"""Lookups while another thread changes the table: an entry is seen whole or not at all."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from nicemu.hot import JIT, Int, hot
from nicemu.lookup import MISS, ExactTable, action_of, find, hash_of, index_of, pack_keys, unchanged
from nicemu.pcie import load_u64, store_u64

Words = np.ndarray[Any, np.dtype[np.uint64]]
KEYS, STAYING = 16, 8
"""Keys that are looked up; so many of them are never deleted."""
CHANGES = 40_000 if JIT else 2_000
MIX = 0x5BD1E995_5BD1E995
SEEN, MISSED, CHANGED, WRONG = range(4)
ZERO, ONE, EIGHT, ROW, LOWER = (np.uint64(value) for value in (0, 1, 8, 32, 0xFFFF))


@hot
def count(report: Int, place: Int, column: Int) -> None:
    cell = report + np.uint64(place) * ROW + np.uint64(column) * EIGHT
    store_u64(cell, load_u64(cell) + ONE)


@hot
def read_until_told(state: Int, keys: Int, parameters_at: Int, mix: Int, stop: Int, report: Int) -> None:
    """Look keys of 64 bits up, take the entry's parameters, and see whether they belong together."""
    index = index_of(state)
    while load_u64(stop) == ZERO:
        for place in range(KEYS):
            key = keys + np.uint64(place) * EIGHT
            while True:
                entry, head = find(index, key, ONE, hash_of(key, ONE))
                if entry == MISS:
                    count(report, place, MISSED)
                    break
                first = load_u64(entry + parameters_at)
                last = load_u64(entry + parameters_at + EIGHT * EIGHT)
                if not unchanged(entry, head):
                    count(report, place, CHANGED)
                    continue
                belong = first ^ last == load_u64(key) ^ mix and first & LOWER == action_of(head)
                count(report, place, SEEN if belong else WRONG)
                break


class Reading:
    """A thread that looks keys up while the block of a `with` statement runs."""

    def __init__(self, function: Callable[..., None], *operands: int) -> None:
        self.report = np.zeros((KEYS, 4), np.uint64)
        self._stop = np.zeros(1, np.uint64)
        given = *operands, self._stop.ctypes.data, self.report.ctypes.data
        words = [np.uint64(operand) for operand in given]
        self._stop[0] = 1
        function(*words)  # compiles, and returns
        self._stop[0] = 0
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
    with Reading(read_until_told, *operands) as report:
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
    assert report[:, SEEN].all()
    table.close()
