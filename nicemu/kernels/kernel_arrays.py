# SPDX-License-Identifier: Apache-2.0
"""Counters and registers whose places lie in memory that kernels read and write.

They are seen as mappings, as the interpreter's are, so that both work on the same numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from nicemu.lookup import Memory
from nicemu.pipeline import Count, CounterArray, RegisterArray, ir, width_of

_WORD = (1 << 64) - 1


class _Places(MutableMapping[int, Any]):
    """The places of an array by index, each some 64-bit words; those that are all zero are not in it."""

    def __init__(self, memory: Memory, size: int, words: int) -> None:
        self._memory, self._size, self._words = memory, size, words

    def words(self, index: int) -> Any:  # noqa: ANN401
        """Return the words of a place, to read and to write."""
        if not 0 <= index < self._size:
            raise KeyError(index)
        return (ctypes.c_uint64 * self._words).from_address(self._memory.address + 8 * self._words * index)

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and 0 <= index < self._size and any(self.words(index))

    def __delitem__(self, index: int) -> None:
        self.words(index)[:] = [0] * self._words

    def __iter__(self) -> Iterator[int]:
        with self._memory.view as view:
            cells = np.frombuffer(view, np.uint64, self._size * self._words).reshape(self._size, self._words)
            used = np.flatnonzero(cells.any(axis=1)).tolist()
            del cells
        return iter(used)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Numbers(_Places):
    """Numbers of a type."""

    def __init__(self, memory: Memory, size: int, kind: ir.Type) -> None:
        super().__init__(memory, size, -(-width_of(kind) // 64))
        self._kind = kind

    def __getitem__(self, index: int) -> int:
        if index not in self:
            raise KeyError(index)
        number = sum(int(word) << 64 * place for place, word in enumerate(self.words(index)))
        width = width_of(self._kind)
        if isinstance(self._kind, ir.Bits) and self._kind.signed and number >> (width - 1):
            number -= 1 << width
        return number

    def __setitem__(self, index: int, value: int) -> None:
        number = int(value) & (1 << width_of(self._kind)) - 1
        self.words(index)[:] = [number >> 64 * place & _WORD for place in range(self._words)]


class _Counts(_Places):
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

    def __init__(self, name: str, size: int, kind: ir.Type) -> None:
        self.memory = Memory(max(8 * size * -(-width_of(kind) // 64), 8))
        super().__init__(name, size, kind, _Numbers(self.memory, size, kind))  # type: ignore[arg-type]


class KernelCounters(CounterArray):
    """A counter array in memory."""

    def __init__(self, name: str, size: int) -> None:
        self.memory = Memory(max(16 * size, 16))
        super().__init__(name, size, _Counts(self.memory, size))  # type: ignore[arg-type]

    def count(self, index: int, length_bytes: int) -> None:
        """Count a packet at an index."""
        if 0 <= index < self.size:
            before = self.counts.get(index, Count())
            self.counts[index] = Count(before.packets + 1, before.bytes + length_bytes)
