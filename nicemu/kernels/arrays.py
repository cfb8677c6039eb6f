# SPDX-License-Identifier: Apache-2.0
"""Elements of arrays that an index known at run time names.

An array is a struct whose fields are its elements (`ir.StructType.element`): what is done to the element at
an index is done to each field, where the index is its number. So a kernel keeps arrays in registers, and what
looks for the places that a program writes to finds fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nicemu.pipeline import Layouts, ir

MAX_NUMBERS = 4096
"""Most numbers of an array among which a kernel chooses."""
MAX_HELD_NUMBERS = 1 << 16
"""Most numbers that all variables hold which a kernel keeps; so many take seconds to compile."""


def array_element(target: ir.Expression) -> ir.Element | None:
    """Return the array's element on the way to an lvalue that is nearest to the variable; None if none is."""
    found = None
    while isinstance(target, ir.Member | ir.Element | ir.Slice | ir.StackPlace):
        if isinstance(target, ir.Element) and isinstance(target.base.type, ir.Named):
            found = target
        target = target.stack if isinstance(target, ir.StackPlace) else target.base
    return found


def with_field(target: ir.Expression, element: ir.Element, field: str) -> ir.Expression:
    """Return an lvalue with a field of the array in the place of an element on its way."""
    if target is element:
        return ir.Member(element.base, field, element.type)
    if isinstance(target, ir.StackPlace):
        return replace(target, stack=with_field(target.stack, element, field))
    assert isinstance(target, ir.Member | ir.Element | ir.Slice)
    return replace(target, base=with_field(target.base, element, field))


def numbered(layouts: Layouts, node: ir.Element) -> Iterator[tuple[int, str]]:
    """Yield the elements of an array, by number and name, that an index of its type can name."""
    assert isinstance(node.base.type, ir.Named)
    assert isinstance(node.index.type, ir.Bits)
    bits = node.index.type.width - node.index.type.signed
    for number, part in enumerate(layouts.fields(node.base.type)):
        if not number >> bits:
            yield number, part.name


def each_target(target: ir.Expression, structs: dict[str, ir.StructType]) -> list[ir.Expression]:
    """Return all lvalues that one may be, whatever its indices of arrays are."""
    element = array_element(target)
    if element is None:
        return [target]
    assert isinstance(element.base.type, ir.Named)
    fields = [part.name for part in structs[element.base.type.name].fields]
    return [each for field in fields for each in each_target(with_field(target, element, field), structs)]


def numbers_in(kind: ir.Type, layouts: Layouts) -> int:
    """Return how many numbers a type holds, those that say what is valid not counted."""
    if isinstance(kind, ir.Stack):
        return kind.size * numbers_in(ir.Named(kind.element), layouts)
    if not isinstance(kind, ir.Named):
        return 1
    return sum(numbers_in(part.type, layouts) for part in layouts.parts(kind))


def has_headers(kind: ir.Type, layouts: Layouts) -> bool:
    """Return whether headers are among what a type holds."""
    if not isinstance(kind, ir.Named):
        return isinstance(kind, ir.Stack)
    struct = layouts.structs.get(kind.name)
    return struct is None or any(has_headers(part.type, layouts) for part in struct.fields)
