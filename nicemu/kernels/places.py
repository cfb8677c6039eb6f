# SPDX-License-Identifier: Apache-2.0
"""Where a program's variables lie in a kernel: one LLVM stack slot for every number that they hold.

LLVM turns slots into registers. The elements of a header stack share slots that are arrays. A value that is
no number is a tree of numbers: `Composite`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from llvmlite import ir as llvm

from nicemu.pipeline import Layouts, ir, width_of

from .paths import elements_path, part_path, stack_elements

BIT, WORD, INDEX = llvm.IntType(1), llvm.IntType(64), llvm.IntType(32)
NO_BITS = ir.Bits(0)
VALID, NEXT = "/valid", "/next"
"""Names of what a header and a header stack hold beside their fields and elements."""
LENGTH, NUMBER = "/length", "/number"
"""Names of what a varbit holds: how many bits it has, and those as a number."""

Number: TypeAlias = Any
"""An LLVM value: iN for bit<N> and int<N>, i1 for bool and bit<0>, i32 for error."""


@dataclass(slots=True)
class Composite:
    """A header, union, struct or tuple: its parts by name, a header's `VALID` among them.

    A stack's are its elements, by their number as text, and `NEXT`.
    """

    type: ir.Type
    parts: dict[str, Value] = field(default_factory=dict)


Value: TypeAlias = Any
"""A `Number` or a `Composite`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A variable or a part of one; `index` is the element of the stack that it lies in, i32."""

    path: str
    type: ir.Type
    index: Number = None

    def part(self, name: str, kind: ir.Type) -> Place:
        """Return the place of a field or flag."""
        return replace(self, path=part_path(self.path, name), type=kind)


def number_type(kind: ir.Type) -> llvm.IntType:
    """Return the LLVM type of a scalar; LLVM has no i0, and a bit<0> is an i1 that is always 0."""
    return llvm.IntType(max(width_of(kind), 1))


class Places:
    """The slots of a function, made on demand in its entry block."""

    def __init__(self, layouts: Layouts, entry: llvm.IRBuilder) -> None:
        self.layouts = layouts
        self._entry = entry
        self._slots: dict[str, tuple[Any, bool]] = {}
        self._sizes: dict[str, int] = {}

    def fields(self, kind: ir.Type) -> tuple[ir.Field, ...]:
        """Return the fields of a header, union or struct."""
        assert isinstance(kind, ir.Named)
        return self.layouts.parts(kind)

    def is_header(self, kind: ir.Type) -> bool:
        """Return whether a type is a header."""
        return isinstance(kind, ir.Named) and kind.name in self.layouts.headers

    def is_union(self, kind: ir.Type) -> bool:
        """Return whether a type is a header union."""
        return isinstance(kind, ir.Named) and kind.name in self.layouts.unions

    def parts(self, kind: ir.Type) -> Iterator[tuple[str, ir.Type]]:
        """Yield the names and types of what a composite type holds; a stack's elements are not among it."""
        if isinstance(kind, ir.Stack):
            yield NEXT, ir.Bits(32)
            return
        if isinstance(kind, ir.Varbit):
            yield LENGTH, ir.Bits(32)
            yield NUMBER, ir.Bits(kind.width)
            return
        if self.is_header(kind):
            yield VALID, ir.BOOL
        for part in self.fields(kind):
            yield part.name, part.type

    # Numbers

    def slot(self, place: Place, builder: llvm.IRBuilder) -> Any:  # noqa: ANN401
        """Return the address of a number."""
        size = self._stack_size(place.path) if place.index is not None else 0
        found = self._slots.get(place.path)
        if found is None:
            kind = number_type(place.type)
            made = self._entry.alloca(llvm.ArrayType(kind, size) if size else kind)
            found = self._slots[place.path] = (made, bool(size))
        address, is_array = found
        assert is_array == bool(size), place.path
        return builder.gep(address, [INDEX(0), place.index], inbounds=True) if is_array else address

    def element(self, stack: Place, index: Number) -> Place:
        """Return the place of an element; `index` must be inside."""
        assert isinstance(stack.type, ir.Stack)
        path = elements_path(stack.path)
        self._sizes[path] = stack.type.size
        return Place(path, ir.Named(stack.type.element), index)

    def _stack_size(self, path: str) -> int:
        return self._sizes[stack_elements(path)]

    # Values

    def load(self, place: Place, builder: llvm.IRBuilder) -> Value:
        """Return what a place holds."""
        if not isinstance(place.type, ir.Named | ir.Stack | ir.Varbit):
            return builder.load(self.slot(place, builder))
        value = Composite(place.type)
        for name, kind in self.parts(place.type):
            value.parts[name] = self.load(place.part(name, kind), builder)
        if isinstance(place.type, ir.Stack):
            for number in range(place.type.size):
                value.parts[str(number)] = self.load(self.element(place, INDEX(number)), builder)
        return value

    def store(self, place: Place, value: Value, builder: llvm.IRBuilder) -> None:
        """Store a value of the place's type."""
        if not isinstance(value, Composite):
            builder.store(value, self.slot(place, builder))
            return
        for name, kind in self.parts(place.type):
            self.store(place.part(name, kind), value.parts[name], builder)
        if isinstance(place.type, ir.Stack):
            for number in range(place.type.size):
                self.store(self.element(place, INDEX(number)), value.parts[str(number)], builder)

    def zero(self, kind: ir.Type) -> Value:
        """Return the zero of a type."""
        if not isinstance(kind, ir.Named | ir.Stack | ir.Varbit):
            return number_type(kind)(0)
        value = Composite(kind, {name: self.zero(part) for name, part in self.parts(kind)})
        if isinstance(kind, ir.Stack):
            for number in range(kind.size):
                value.parts[str(number)] = self.zero(ir.Named(kind.element))
        return value


def selected(builder: llvm.IRBuilder, condition: Number, yes: Value, no: Value) -> Value:
    """Return one of two values that are both computed."""
    if not isinstance(yes, Composite):
        return builder.select(condition, yes, no)
    parts = {name: selected(builder, condition, part, no.parts[name]) for name, part in yes.parts.items()}
    return Composite(yes.type, parts)
