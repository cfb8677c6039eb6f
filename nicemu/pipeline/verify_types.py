# SPDX-License-Identifier: Apache-2.0
"""Checks that the types of a program mean something: each holds what it may, and is no larger than the engine
takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from . import ir
from .matches import width_of
from .verify_expressions import Faults, is_scalar

Item = TypeVar("Item")
_NOT_IN_NAMES = re.compile(r"[/\[\]]")


def unique(items: Iterable[Item], name_of: Callable[[Item], str], faults: Faults) -> dict[str, Item]:
    """Return things by their names; two of one name are a fault."""
    named: dict[str, Item] = {}
    for item in items:
        name = name_of(item)
        if name in named:
            faults.raise_(name, "stands there twice")
        named[name] = item
    return named


def check_names(names: Iterable[str], faults: Faults) -> None:
    """Check the names of variables or fields: engines put others together with what these lack."""
    for name in names:
        if _NOT_IN_NAMES.search(name):
            faults.raise_("", f"has {name!r}, which is no name")


def check_types(program: ir.Program, sizes: dict[str, int], faults: Faults) -> None:
    """Check headers, unions and structs, of which `sizes` are known."""
    for name, size in sizes.items():
        if size > ir.MAX_VALUES:  # before anything walks through it
            faults.raise_(name, f"holds more than {ir.MAX_VALUES} values")
    layouts: tuple[ir.Layout, ...] = (*program.headers, *program.unions, *program.structs)
    for name, depth in _depths(program).items():
        if depth > ir.MAX_TYPE_DEPTH:
            faults.raise_(name, f"is more than {ir.MAX_TYPE_DEPTH} types deep")
    unique([layout.name for layout in layouts], str, faults)
    for layout in layouts:
        check_names(unique(layout.fields, lambda item: item.name, faults), faults)
        _check_array(layout, faults)
    structs = {struct.name: struct for struct in program.structs if struct.name in sizes}
    for header in program.headers:
        _check_header(header, structs, faults)
    for name in ir.CONTROLLER_HEADERS:
        if sum(header.controller == name for header in program.headers) > 1:
            faults.raise_(name, "is the controller's name of two headers")
    headers = {header.name for header in program.headers}
    for union in program.unions:
        for part in union.fields:
            if not isinstance(part.type, ir.Named) or part.type.name not in headers:
                faults.raise_(f"{union.name}.{part.name}", f"is a {part.type}; a header was expected")
    elements = headers | {union.name for union in program.unions}
    known = set(elements)
    for struct in program.structs:
        for part in struct.fields:
            place = f"{struct.name}.{part.name}"
            if isinstance(part.type, ir.Named) and part.type.name not in known:
                faults.raise_(place, f"is a {part.type}; a struct may name only types before it")
            if isinstance(part.type, ir.Stack) and (
                part.type.element not in elements or part.type.size > ir.MAX_STACK_SIZE
            ):
                faults.raise_(place, f"is {part.type}; a stack of headers was expected")
        known.add(struct.name)


def check_named(program: ir.Program, faults: Faults) -> None:
    """Check new types and enums, and that what has the name of one has its values."""
    named_types: list[ir.NewType | ir.EnumType] = [*program.new_types, *program.enums]
    known = unique(named_types, lambda item: item.name, faults)
    for listed in program.enums:
        unique(listed.members, lambda item: item.name, faults)
        kind = listed.type
        if not isinstance(kind, ir.Bits):
            faults.raise_(listed.name, f"is of {kind}; bit<N> or int<N> was expected")
        lowest = -(1 << kind.width - 1) if kind.signed else 0
        for member in listed.members:
            if not lowest <= member.value < lowest + (1 << kind.width):
                faults.raise_(f"{listed.name}.{member.name}", f"is {member.value}, which is no {kind}")
    for new in program.new_types:
        fits = isinstance(new.type, ir.Bits) and not new.type.signed
        if not is_scalar(new.type) or (new.translated and not fits):
            faults.raise_(
                new.name, f"is of {new.type}; a number, where it is translated bit<N>, was expected"
            )
        if not 0 <= new.controller_bits <= ir.MAX_WIDTH_BITS:
            faults.raise_(new.name, f"has {new.controller_bits} bits; up to {ir.MAX_WIDTH_BITS} are allowed")
    layouts: tuple[ir.Layout, ...] = (*program.headers, *program.structs)
    named = [(part.type_name, part.type) for layout in layouts for part in layout.fields]
    named += [(item.type_name, item.type) for action in program.actions for item in action.parameters]
    named += [(key.type_name, key.expression.type) for table in program.tables for key in table.keys]
    named += [(part.type_name, part.type) for item in program.value_sets for part in item.fields]
    for instance in program.externs:
        if len(instance.type_names) not in (0, len(instance.types)):
            faults.raise_(instance.name, f"names {len(instance.type_names)} types of {len(instance.types)}")
        named += zip(instance.type_names, instance.types, strict=False)
    for name, kind in named:
        if name and (name not in known or known[name].type != kind):
            faults.raise_(name, f"is the name of a {kind}, which the program does not have")


def sizes_of(program: ir.Program) -> dict[str, int]:
    """Return how many values each type holds. Structs name those before them; headers, structs of numbers."""
    sizes: dict[str, int] = {}
    for layout in _with_parts_before(program):
        parts = [size_of(part.type, sizes) for part in layout.fields]
        if all(parts):
            sizes[layout.name] = 1 + sum(parts)
    return sizes


def _depths(program: ir.Program) -> dict[str, int]:
    """Return how many types deep each type is, 1 for one of numbers alone."""
    depths: dict[str, int] = {}
    for layout in _with_parts_before(program):
        depths[layout.name] = 1 + max((_depth(part.type, depths) for part in layout.fields), default=0)
    return depths


def _depth(kind: ir.Type, depths: dict[str, int]) -> int:
    name = kind.element if isinstance(kind, ir.Stack) else kind.name if isinstance(kind, ir.Named) else ""
    return depths.get(name, 0)


def _with_parts_before(program: ir.Program) -> tuple[ir.Layout, ...]:
    """Return all layouts so that each stands once behind those that it may name."""
    return *program.structs, *program.headers, *program.unions, *program.structs


def size_of(kind: ir.Type, sizes: dict[str, int]) -> int:
    """Return how many values a type holds, 0 where that is not known yet."""
    if isinstance(kind, ir.Stack):
        return kind.size * sizes.get(kind.element, 0)
    return sizes.get(kind.name, 0) if isinstance(kind, ir.Named) else 1


def _check_header(header: ir.HeaderType, structs: dict[str, ir.StructType], faults: Faults) -> None:
    width_bits, varbits = 0, 0
    pending = list(header.fields)
    while pending:
        part = pending.pop()
        if isinstance(part.type, ir.Varbit):
            varbits += 1
        elif isinstance(part.type, ir.Bits | ir.Bool):
            width_bits += width_of(part.type)
        elif isinstance(part.type, ir.Named) and part.type.name in structs:
            pending += structs[part.type.name].fields
        else:
            faults.raise_(header.name, f"has a field of type {part.type}")
        if len(pending) > 8 * ir.MAX_HEADER_BYTES:
            faults.raise_(header.name, "has too many fields")
    if varbits > 1:
        faults.raise_(header.name, "has more than one varbit")
    if (width_bits % 8 and not varbits) or width_bits > 8 * ir.MAX_HEADER_BYTES:
        faults.raise_(
            header.name, f"is {width_bits} bits; whole bytes were expected, {ir.MAX_HEADER_BYTES} at most"
        )
    if header.controller:
        _check_controller(header, faults)


def _check_array(layout: ir.Layout, faults: Faults) -> None:
    """Check that where one field is called by a number, all are elements of an array."""
    if any(part.name[:1].isdigit() for part in layout.fields):
        names = [str(place) for place in range(len(layout.fields))]
        is_array = isinstance(layout, ir.StructType) and [part.name for part in layout.fields] == names
        if not is_array or len({part.type for part in layout.fields}) > 1:
            faults.raise_(layout.name, "has fields called by numbers, and is no array")


def _check_controller(header: ir.HeaderType, faults: Faults) -> None:
    if header.controller not in ir.CONTROLLER_HEADERS:
        expected = " or ".join(ir.CONTROLLER_HEADERS)
        faults.raise_(header.name, f"is the controller's {header.controller}; {expected} was expected")
    for part in header.fields:
        if not isinstance(part.type, ir.Bits | ir.Bool):
            faults.raise_(header.name, f"is a controller's and has a field of type {part.type}")
