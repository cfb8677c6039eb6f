# SPDX-License-Identifier: Apache-2.0
"""Lookups taken apart end in what a lookup in one piece finds, whatever has changed since they began."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nicemu.hot import interpreted
from nicemu.lookup import (
    NOTE_WORDS,
    ExactTable,
    LpmTable,
    begin_exact,
    begin_lpm,
    end_exact,
    end_lpm,
    find,
    find_lpm,
    hash_of,
    index_of,
    pack_keys,
    step_exact,
    step_lpm,
)

u64 = np.uint64
Function = Callable[..., Any]
COUNT = 40


class Lookups:
    """Keys, their notes, and the functions of one kind of table."""

    def __init__(self, compiled: bool, limbs: int, functions: tuple[Function, ...]) -> None:
        chosen = (item if compiled else interpreted(item) for item in functions)
        self._begin, self._step, self._end, self._find, self._hash, self._index = chosen
        self._limbs = u64(limbs)
        self._notes = np.zeros((COUNT, NOTE_WORDS), np.uint64)
        self.known = 0
        """How many notes have said what their keys find."""

    def _note(self, place: int) -> np.uint64:
        return u64(self._notes.ctypes.data + place * NOTE_WORDS * 8)

    def begin(self, state: np.uint64, keys: list[int]) -> None:
        """Begin to look up keys, and take all of them as far as there are steps."""
        packed = pack_keys(keys, int(self._limbs))
        for place in range(len(keys)):
            key = u64(packed.ctypes.data + place * packed.strides[0])
            assert self._begin(state, key, self._limbs, self._note(place)) == 1
        while any([self._step(state, self._limbs, self._note(place)) for place in range(len(keys))]):
            pass

    def ended(self, state: np.uint64, keys: list[int]) -> list[tuple[int, int]]:
        """Return entries and heads of keys, which may be others than those that have begun.

        Where a note does not say what its key finds, it is looked up in one piece.
        """
        packed, found = pack_keys(keys, int(self._limbs)), []
        for place in range(len(keys)):
            key = u64(packed.ctypes.data + place * packed.strides[0])
            known, entry, head = self._end(state, key, self._limbs, self._note(place))
            found.append((int(entry), int(head)) if known else self.whole(state, keys[place : place + 1])[0])
            self.known += int(known)
        return found

    def whole(self, state: np.uint64, keys: list[int]) -> list[tuple[int, int]]:
        """Return what lookups in one piece find."""
        packed, found = pack_keys(keys, int(self._limbs)), []
        for place in range(len(keys)):
            key = u64(packed.ctypes.data + place * packed.strides[0])
            if self._find.__name__ == "find_lpm":
                entry, head = self._find(state, key, self._limbs)
            else:
                digest, index = u64(self._hash(key, self._limbs)), tuple(map(u64, self._index(state)))
                entry, head = self._find(index, key, self._limbs, digest)
            found.append((int(entry), int(head)))
        return found


def exact(compiled: bool, limbs: int) -> Lookups:
    return Lookups(compiled, limbs, (begin_exact, step_exact, end_exact, find, hash_of, index_of))


def lpm(compiled: bool, limbs: int) -> Lookups:
    return Lookups(compiled, limbs, (begin_lpm, step_lpm, end_lpm, find_lpm, hash_of, index_of))


@pytest.mark.parametrize("key_bits", [16, 64, 128, 200])
def test_exact_lookups_end_in_what_is_there_then(compiled: bool, key_bits: int) -> None:
    chance = random.Random(key_bits)
    table = ExactTable(64, key_bits, 1, compiled=compiled)
    lookups = exact(compiled, table.limbs)
    known = [chance.getrandbits(key_bits) for _ in range(50)]
    numbers: dict[int, int] = {}
    for turn in range(20):
        keys = [chance.choice(known) for _ in range(COUNT)]
        lookups.begin(table.state, keys)
        assert lookups.ended(table.state, keys) == lookups.whole(table.state, keys)
        for key in chance.sample(known, turn % 5):
            if key in numbers:
                table.delete(numbers.pop(key))
            else:
                numbers[key] = table.insert(key, 1, (turn,))
        others = keys if turn % 2 else [chance.choice(known) for _ in range(COUNT)]
        assert lookups.ended(table.state, others) == lookups.whole(table.state, others)
        assert [entry != 0 for entry, _ in lookups.whole(table.state, others)] == [
            key in numbers for key in others
        ]
    assert lookups.known > COUNT
    table.close()


@pytest.mark.parametrize("key_bits", [12, 32, 64, 128])
def test_prefix_lookups_end_in_what_is_there_then(compiled: bool, key_bits: int) -> None:
    chance = random.Random(key_bits)
    table = LpmTable(64, key_bits, 1, compiled=compiled)
    lookups = lpm(compiled, table.limbs)
    stems = [chance.getrandbits(key_bits) for _ in range(4)]
    numbers: dict[tuple[int, int], int] = {}

    def near() -> int:
        return chance.choice(stems) ^ chance.getrandbits(chance.randrange(1, key_bits + 1))

    for turn in range(20):
        keys = [near() for _ in range(COUNT)]
        lookups.begin(table.state, keys)
        assert lookups.ended(table.state, keys) == lookups.whole(table.state, keys)
        for _ in range(turn % 5):
            length = chance.randrange(key_bits + 1)
            prefix = near() >> key_bits - length << key_bits - length, length
            if prefix in numbers or len(numbers) == 64:
                table.delete(numbers.pop(prefix if prefix in numbers else chance.choice(list(numbers))))
            else:
                numbers[prefix] = table.insert(*prefix, 1, (turn,))
        others = keys if turn % 2 else [near() for _ in range(COUNT)]
        assert lookups.ended(table.state, others) == lookups.whole(table.state, others)
    assert any(entry for entry, _ in lookups.whole(table.state, keys))
    assert lookups.known > COUNT
    table.close()
