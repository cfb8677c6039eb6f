# SPDX-License-Identifier: Apache-2.0
"""Advice on headers whose fields a program uses, and of which nothing makes one valid.

Source: P4-16 Language Specification 1.2.5, "Operations on headers": what a field of an invalid header holds
is not defined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nicemu.pipeline import Layouts, Program, ir, nodes_of

from . import syntax
from .diagnostics import Reporter

_CALLS = (ir.CallFunction, ir.CallMethod, ir.ExternValue)


def advise_of_validity(
    program: Program, declarations: Sequence[syntax.Declaration], reporter: Reporter
) -> None:
    """Warn of the headers of a program that are used, where none of their type is ever valid."""
    taken = {node.header.type for node in nodes_of(program, ir.Extract, ir.ExtractVarbit)}
    taken |= {node.header.type for node in nodes_of(program, ir.SetValid) if node.valid}
    left = {header.name for header in program.headers} - {kind.name for kind in taken}
    if not left:
        return
    left -= set(_stored(program))
    if not left:
        return
    owners = {node.base.type for node in nodes_of(program, ir.Member)}
    used = {kind.name for kind in owners if isinstance(kind, ir.Named)}
    for node in declarations:
        if isinstance(node, syntax.StructDeclaration) and node.name in left & used:
            what = f"fields of header {node.name} are used, and nothing makes one valid"
            hint = "call setValid(), or make it a struct: as a key, a field of an invalid header is 0"
            reporter.warning(node.at, what, hint)


def _stored(program: Program) -> Iterator[str]:
    """Yield the types of headers of which some may be valid because they are stored as a whole."""
    layouts = Layouts(program)
    kinds: list[ir.Type] = [node.target.type for node in nodes_of(program, ir.Assign)]
    kinds += [node.type for node in nodes_of(program, ir.Lookahead, ir.StructValue, ir.StackValue)]
    for call in nodes_of(program, *_CALLS):
        kinds += [argument.type for argument in call.arguments]
    seen: set[ir.Type] = set()
    while kinds:
        kind = kinds.pop()
        if kind in seen:
            continue
        seen.add(kind)
        if isinstance(kind, ir.Stack):
            kinds.append(ir.Named(kind.element))
        elif isinstance(kind, ir.Named):
            if kind.name in layouts.headers:
                yield kind.name
            else:
                kinds += [part.type for part in layouts.parts(kind)]
