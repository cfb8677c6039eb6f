# SPDX-License-Identifier: Apache-2.0
"""Counters and registers whose places lie in memory that kernels read and write.

They are seen as mappings, as the interpreter's are, so that both work on the same numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import numpy as np

from nicemu.lookup import Memory
from nicemu.pipeline import Count, CounterArray, Layouts, RegisterArray, Value, ir

from .value_words import decoded, encoded, word_count


class Places(MutableMapping[int, Any]):
    """The places of an array by index, each some 64-bit words; those that are all zero are not in it.

    Once it was filled with something else, all of them are.
    """

    def __init__(self, memory: Memory, size: int, words: int) -> None:
        self._memory, self._size, self._words = memory, size, words
        self.is_filled = False

    def words(self, index: int) -> Any:  # noqa: ANN401
        """Return the words of a place, to read and to write."""
        if not 0 <= index < self._size:
            raise KeyError(index)
        return (ctypes.c_uint64 * self._words).from_address(self._memory.address + 8 * self._words * index)

    def fill(self, words: Sequence[int]) -> None:
        """Have all places hold the same."""
        self.is_filled = any(words)
        with self._memory.view as view:
            cells = self._cells(view)
            if self.is_filled:
                cells[:] = np.array(words, np.uint64)
            else:
                cells[np.flatnonzero(cells.any(axis=1))] = 0  # leaves alone what was never touched
            del cells

    def _cells(self, view: memoryview) -> Any:  # noqa: ANN401
        return np.frombuffer(view, np.uint64, self._size * self._words).reshape(self._size, self._words)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int) or not 0 <= index < self._size:
            return False
        return self.is_filled or any(self.words(index))

    def __delitem__(self, index: int) -> None:
        self.words(index)[:] = [0] * self._words

    def __iter__(self) -> Iterator[int]:
        if self.is_filled:
            return iter(range(self._size))
        with self._memory.view as view:
            cells = self._cells(view)
            used = np.flatnonzero(cells.any(axis=1)).tolist()
            del cells
        return iter(used)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        """Have all places hold zeros."""
        self.fill([0] * self._words)


class _Values(Places):
    """Values of a type."""

    def __init__(self, memory: Memory, size: int, kind: ir.Type, layouts: Layouts) -> None:
        super().__init__(memory, size, word_count(layouts, kind))
        self._kind, self._layouts = kind, layouts

    def fill_with(self, value: Value) -> None:
        """Have all places hold a value, zeros where it is None."""
        self.fill([0] * self._words if value is None else encoded(self._layouts, self._kind, value))

    def __getitem__(self, index: int) -> Value:
        if index not in self:
            raise KeyError(index)
        return decoded(self._layouts, self._kind, iter(self.words(index)))

    def __setitem__(self, index: int, value: Value) -> None:
        self.words(index)[:] = encoded(self._layouts, self._kind, value)


class _Counts(Places):
    """Packets and bytes."""

    def __init__(self, memory: Memory, size: int) -> None:
        super().__init__(memory, size, 2)

    def __getitem__(self, index: int) -> Count:
        if index not in self:
            raise KeyError(index)
        packets, length_bytes = self.words(index)
        return Count(packets, length_bytes)

    def __setitem__(self, index: int, value: Count) -> None:
        self.words(index)[:] = [value.packets, value.bytes]


class KernelRegisters(RegisterArray):
    """A register array in memory."""

    def __init__(self, name: str, size: int, kind: ir.Type, layouts: Layouts) -> None:
        words = word_count(layouts, kind)
        self.memory = Memory(max(8 * size * words, 8))
        self._kept: _Values = _Values(self.memory, size, kind, layouts)
        super().__init__(name, size, kind, self._kept)  # type: ignore[arg-type]

    @property
    def others(self) -> Value:
        """What all places were given that have no value of their own, None for their zero."""
        return self._others

    @others.setter
    def others(self, value: Value) -> None:
        self._others = value
        if value is not None or self._kept.is_filled:
            self._kept.fill_with(value)


class KernelCounters(CounterArray):
    """A counter array in memory."""

    def __init__(self, name: str, size: int) -> None:
        self.memory = Memory(max(16 * size, 16))
        self._kept = _Counts(self.memory, size)
        super().__init__(name, size, self._kept)  # type: ignore[arg-type]

    @property
    def others(self) -> Count:
        """What all places were given that have no count of their own."""
        return self._others

    @others.setter
    def others(self, count: Count) -> None:
        self._others = count
        if count.packets or count.bytes:
            self._kept.fill([count.packets, count.bytes])

    def count(self, index: int, length_bytes: int) -> None:
        """Count a packet at an index."""
        if 0 <= index < self.size:
            before = self.counts.get(index, Count())
            self.counts[index] = Count(before.packets + 1, before.bytes + length_bytes)
