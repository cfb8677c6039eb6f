# SPDX-License-Identifier: Apache-2.0
"""What the bits of a value do not say: which headers are valid, and how long each varbit is.

The numbers of a shape come in the order of the parts: 1 or 0 for a header, the place of the valid header of
a union from 1 on or 0 for none, the bits of a varbit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import ir
from .arithmetic import cast
from .matches import width_of
from .values import HeaderValue, Layouts, StackValue, UnionValue, Value, Varbits


def shape_of(layouts: Layouts, kind: ir.Type, value: Value) -> Iterator[int]:
    """Yield the shape of a value."""
    if isinstance(value, Varbits):
        yield value.length_bits
    elif isinstance(kind, ir.Stack):
        for element in value.elements:
            yield from shape_of(layouts, ir.Named(kind.element), element)
    elif isinstance(value, UnionValue):
        assert isinstance(kind, ir.Named)
        valid = [place for place, header in enumerate(value.headers.values(), 1) if header.valid]
        yield from valid[:1] or [0]
        for place in valid[:1]:
            part = layouts.unions[kind.name].fields[place - 1]
            yield from _parts_of(layouts, part.type, value.headers[part.name].fields)
    elif isinstance(value, HeaderValue):
        yield int(value.valid)
        yield from _parts_of(layouts, kind, value.fields)
    elif isinstance(kind, ir.Named):
        yield from _parts_of(layouts, kind, value)


def _parts_of(layouts: Layouts, kind: ir.Type, held: dict[str, Value]) -> Iterator[int]:
    assert isinstance(kind, ir.Named)
    for part in layouts.fields(kind):
        yield from shape_of(layouts, part.type, held[part.name])


def shaped(layouts: Layouts, kind: ir.Type, bits: Varbits, shape: Sequence[int]) -> Value:
    """Return the value of a type that has these bits, as `Layouts.packed` makes them, and this shape."""
    return _Reader(layouts, bits, iter(shape)).value(kind)


class _Reader:
    def __init__(self, layouts: Layouts, bits: Varbits, shape: Iterator[int]) -> None:
        self._layouts = layouts
        self._left_bits, self._number = bits
        self._shape = shape

    def value(self, kind: ir.Type) -> Value:
        """Return the next value."""
        layouts = self._layouts
        if isinstance(kind, ir.Varbit):
            length_bits = next(self._shape)
            return Varbits(length_bits, self._taken(length_bits))
        if isinstance(kind, ir.Stack):
            return StackValue([self.value(ir.Named(kind.element)) for _ in range(kind.size)])
        if not isinstance(kind, ir.Named):
            return cast(self._taken(width_of(kind)), kind)
        if kind.name in layouts.unions:
            union, place = layouts.zero(kind), next(self._shape)
            if place:
                part = layouts.unions[kind.name].fields[place - 1]
                union.headers[part.name] = HeaderValue(self._fields(part.type), True)
            return union
        if kind.name in layouts.headers:
            valid = bool(next(self._shape))
            return HeaderValue(self._fields(kind), valid)
        return self._fields(kind)

    def _fields(self, kind: ir.Type) -> dict[str, Value]:
        assert isinstance(kind, ir.Named)
        return {part.name: self.value(part.type) for part in self._layouts.fields(kind)}

    def _taken(self, count: int) -> int:
        self._left_bits -= count
        return self._number >> self._left_bits & ((1 << count) - 1)
