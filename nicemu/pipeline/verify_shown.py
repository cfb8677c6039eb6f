# SPDX-License-Identifier: Apache-2.0
"""What a program tells controllers of itself: numbers, annotations, and what @pkginfo says, each such that a
P4Info has room for it.

Source: P4Runtime Specification 1.4, "ID Allocation for P4Info Objects", "Structured Annotations", "PkgInfo
Message".
"""

from __future__ import annotations

from collections.abc import Iterator

from . import ir
from .ir_walk import nodes_of
from .p4info import PACKAGE_FACTS, PLATFORM_PROPERTIES
from .verify_expressions import Faults

_MAX_ID = (1 << 32) - 1
_MAX_PROPERTY = (1 << 31) - 1


def check_shown(program: ir.Program, faults: Faults) -> None:
    """Refuse what no P4Info can say."""
    for name, number in _ids(program):
        if not 0 <= number <= _MAX_ID:
            faults.raise_(name, f"has the id {number:#x}; 32 bits are allowed")
    for item in nodes_of(program, ir.AnnotationValue):
        if isinstance(item.value, int) and not -(1 << 63) <= item.value < 1 << 63:
            faults.raise_("annotations", f"hold {item.value:#x}; 64 bits are allowed")
    for fact in program.package:
        number = int(fact.body) if fact.body.isascii() and fact.body.isdigit() and len(fact.body) < 11 else -1
        is_property = fact.name in PLATFORM_PROPERTIES and 0 <= number <= _MAX_PROPERTY
        if fact.name not in PACKAGE_FACTS and not is_property:
            faults.raise_("package", f"says {fact.name} = {fact.body[:40]}, which is unknown")


def _ids(program: ir.Program) -> Iterator[tuple[str, int]]:
    for header in program.headers:
        yield from ((f"{header.name}.{part.name}", part.id) for part in header.fields)
    for action in program.actions:
        yield action.name, action.id
        yield from ((f"{action.name}.{item.name}", item.id) for item in action.parameters)
    for table in program.tables:
        yield table.name, table.id
        yield from ((f"{table.name}.{key.name}", key.id) for key in table.keys)
    for value_set in program.value_sets:
        yield value_set.name, value_set.id
        yield from ((f"{value_set.name}.{part.name}", part.id) for part in value_set.fields)
    yield from ((instance.name, instance.id) for instance in program.externs)
