# SPDX-License-Identifier: Apache-2.0
"""Whether what leaves of a packet may be longer than what came.

It is not where headers are valid only because the parser has taken them out of the packet, and each is
emitted at most once: the bytes of each stood in the packet, apart from those of the others.
"""

from __future__ import annotations

from nicemu.pipeline import Program, ir, nodes_of

from .deparsing import emits_alone
from .writes import targets_in


def may_grow(program: Program) -> bool:
    """Return whether a frame may need bytes before its first one to leave; False where it surely does not."""
    body = program.control("deparser").body
    if not emits_alone(body) or _overlap([node.value for node in body if isinstance(node, ir.Emit)]):
        return True
    if any(isinstance(node, ir.SetValid) and node.valid for node in nodes_of(program, ir.SetValid)):
        return True
    return changes_headers(program, values_alone=True)


def changes_headers(program: Program, *, values_alone: bool = False) -> bool:
    """Return whether anything but the parser's taking stores whole headers, or varbits in them.

    `values_alone` as in `targets_in`.
    """
    with_bytes = {header.name for header in program.headers} | {union.name for union in program.unions}
    changed = True
    while changed:
        holders = {
            struct.name
            for struct in program.structs
            if any(_named(field.type) & with_bytes for field in struct.fields)
        }
        changed = not holders <= with_bytes
        with_bytes |= holders
    return any(
        isinstance(target.type, ir.Varbit) or _named(target.type) & with_bytes
        for target in targets_in(program, values_alone=values_alone)
    )


def _named(kind: ir.Type) -> set[str]:
    if isinstance(kind, ir.Named):
        return {kind.name}
    return {kind.element} if isinstance(kind, ir.Stack) else set()


def _overlap(values: list[ir.Expression]) -> bool:
    """Return whether a header may be in two of some values, or one of these is no variable or part of one."""
    paths: list[tuple[str, ...]] = []
    for value in values:
        names: list[str] = []
        while isinstance(value, ir.Member):
            names.insert(0, value.field)
            value = value.base
        if not isinstance(value, ir.Name):
            return True
        paths.append((value.name, *names))
    return any(
        one[: len(other)] == other
        for number, one in enumerate(paths)
        for place, other in enumerate(paths)
        if number != place
    )
