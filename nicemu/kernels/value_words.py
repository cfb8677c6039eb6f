# SPDX-License-Identifier: Apache-2.0
"""Values of any type as 64-bit words in memory, for kernels and for Python.

A number takes whole words, one at least, the lowest first, in two's complement. The parts of a composite
value lie in the order in which `Places.parts` names them, the elements of a stack behind its own part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llvmlite import ir as llvm

from nicemu.pipeline import HeaderValue, Layouts, StackValue, UnionValue, Varbits, ir, width_of
from nicemu.pipeline import Value as Held

from .deparsing import Deparsing
from .places import NEXT, Composite, Number, Value

_WORD = (1 << 64) - 1


def word_count(layouts: Layouts, kind: ir.Type) -> int:
    """Return how many words a value of a type takes."""
    if isinstance(kind, ir.Stack):
        return 1 + kind.size * word_count(layouts, ir.Named(kind.element))
    if isinstance(kind, ir.Varbit):
        return 1 + -(-kind.width // 64)
    if not isinstance(kind, ir.Named):
        return len(_places(width_of(kind)))
    flag = int(kind.name in layouts.headers)
    return flag + sum(word_count(layouts, part.type) for part in layouts.parts(kind))


def encoded(layouts: Layouts, kind: ir.Type, value: Held) -> list[int]:
    """Return the words of a value."""
    if isinstance(value, StackValue):
        assert isinstance(kind, ir.Stack)
        element = ir.Named(kind.element)
        words = [word for item in value.elements for word in encoded(layouts, element, item)]
        return [value.next_index, *words]
    if isinstance(value, Varbits):
        return [value.length_bits, *_split(value.number, width_bits_of(kind))]
    if not isinstance(kind, ir.Named):
        return _split(value, width_of(kind))
    words = []
    held = value
    if isinstance(value, HeaderValue):
        words, held = [int(value.valid)], value.fields
    elif isinstance(value, UnionValue):
        held = value.headers
    for part in layouts.parts(kind):
        words += encoded(layouts, part.type, held[part.name])
    return words


def decoded(layouts: Layouts, kind: ir.Type, words: Iterator[int]) -> Held:
    """Return the value that the next words are."""
    if isinstance(kind, ir.Stack):
        upcoming = next(words)
        element = ir.Named(kind.element)
        return StackValue([decoded(layouts, element, words) for _ in range(kind.size)], upcoming)
    if isinstance(kind, ir.Varbit):
        return Varbits(next(words), _joined(words, kind.width))
    if not isinstance(kind, ir.Named):
        width = width_of(kind)
        number = _joined(words, width)
        signed = isinstance(kind, ir.Bits) and kind.signed
        return number - (1 << width) if signed and number >> (width - 1) else number
    valid = bool(next(words)) if kind.name in layouts.headers else False
    held = {part.name: decoded(layouts, part.type, words) for part in layouts.parts(kind)}
    if kind.name in layouts.headers:
        return HeaderValue(held, valid)
    return UnionValue(held) if kind.name in layouts.unions else held


def width_bits_of(kind: ir.Type) -> int:
    """Return the bits of a number or varbit at most."""
    return kind.width if isinstance(kind, ir.Varbit) else width_of(kind)


def _split(number: int, width_bits: int) -> list[int]:
    return [
        number >> 64 * place & _WORD & (1 << width_bits - 64 * place) - 1 for place in _places(width_bits)
    ]


def _joined(words: Iterator[int], width_bits: int) -> int:
    return sum(int(next(words)) << 64 * place for place in _places(width_bits))


def _places(width_bits: int) -> range:
    return range(max(-(-width_bits // 64), 1))


class ValueWords(Deparsing):
    """Loads and stores values as words at addresses (i64)."""

    def load_value(self, kind: ir.Type, address: Number) -> Value:
        """Return the value at an address."""
        if not isinstance(kind, ir.Named | ir.Stack | ir.Varbit):
            return self.load_words(address, len(_places(width_of(kind))), kind)
        value = Composite(kind)
        for name, part in self._word_parts(kind):
            value.parts[name] = self.load_value(part, address)
            address = self.address(address, 8 * word_count(self.layouts, part))
        return value

    def store_value(self, kind: ir.Type, value: Value, address: Number) -> None:
        """Store a value at an address."""
        if not isinstance(value, Composite):
            self._store_words(address, value)
            return
        for name, part in self._word_parts(kind):
            self.store_value(part, value.parts[name], address)
            address = self.address(address, 8 * word_count(self.layouts, part))

    def _word_parts(self, kind: ir.Type) -> Sequence[tuple[str, ir.Type]]:
        parts = list(self.places.parts(kind))
        if isinstance(kind, ir.Stack):
            assert parts[0][0] == NEXT
            parts += [(str(number), ir.Named(kind.element)) for number in range(kind.size)]
        return parts

    def load_words(self, address: Number, count: int, kind: ir.Type) -> Number:
        """Return a number of a scalar type that lies in some words: as one, of which LLVM makes the words."""
        whole = llvm.IntType(64 * count)
        number = self.builder.load(self.builder.inttoptr(address, whole.as_pointer()), align=8)
        return self._truncated(number, width_of(kind))

    def _store_words(self, address: Number, number: Number) -> None:
        whole = llvm.IntType(64 * -(-number.type.width // 64))
        if number.type.width < whole.width:
            number = self.builder.zext(number, whole)
        self.builder.store(number, self.builder.inttoptr(address, whole.as_pointer()), align=8)
