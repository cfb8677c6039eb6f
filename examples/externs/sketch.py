# SPDX-License-Identifier: Apache-2.0
"""What the externs of sketch.p4 do."""

from __future__ import annotations

from typing import Any, TypeVar
from zlib import crc32

from nicemu.pipeline import extern

Value = TypeVar("Value")


@extern("CountMinSketch<K>(bit<32> rows, bit<32> columns)")
class CountMinSketch:
    """Counts in `rows` rows of `columns` places; a key has one place in each, maybe together with others."""

    def __init__(self, rows: int, columns: int) -> None:
        if not rows or not columns:
            raise ValueError(f"{rows} rows of {columns} columns")
        self._rows = [[0] * columns for _ in range(rows)]

    @extern("bit<32> add(in K key)")
    def add(self, key: dict[str, Any]) -> int:
        """Count a key, a struct; return the least of its counts."""
        text = repr(sorted(key.items())).encode()
        counts = []
        for number, row in enumerate(self._rows):
            place = crc32(text, number) % len(row)
            row[place] += 1
            counts.append(row[place])
        return min(counts)


@extern("void swap<T>(inout T left, inout T right)")
def swap(left: Value, right: Value) -> tuple[Value, Value]:
    """Return two values the other way round."""
    return right, left
