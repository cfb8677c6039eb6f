# SPDX-License-Identifier: Apache-2.0
"""Which numbers in headers a program may change, apart from the parser's taking them out of the packet."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from nicemu.pipeline import ARCHITECTURES, Program, ir, nodes_of

from .arrays import each_target
from .paths import part_path

EVERYTHING: Final[frozenset[tuple[str, ...]]] = frozenset({("*",)})
"""All of a header."""

_STORING = (
    ir.Assign,
    ir.Reset,
    ir.ForRange,
    ir.MoveStack,
    ir.CallAction,
    ir.CallRoutine,
    ir.Call,
    ir.ActionRef,
    ir.CallFunction,
    ir.CallMethod,
    ir.ExternValue,
)


def written_in(program: Program) -> dict[str, frozenset[tuple[str, ...]]]:
    """Return for each header that is written to, by its path, the paths of numbers in it."""
    found: dict[str, frozenset[tuple[str, ...]]] = {}
    headers = {header.name for header in program.headers}
    structs = {struct.name: struct for struct in program.structs}
    for target in targets_in(program):
        _note(target, headers, structs, found)
    return found


def targets_in(program: Program, *, values_alone: bool = False) -> list[ir.Expression]:
    """Return every lvalue that something other than a parser's extract stores into.

    `values_alone` leaves out what makes no header valid that there was not before: variables that get the
    zeros of their types, and stacks whose elements move.
    """
    kinds = {variable.name: variable.type for variable in program.variables}
    found: list[ir.Expression] = []
    architecture = ARCHITECTURES[program.architecture]
    called: dict[str, ir.Action | ir.Function] = {item.name: item for item in program.actions}
    called |= {item.name: item for item in program.functions}
    instances = {item.name: item for item in program.externs}

    def out_arguments(name: str, arguments: tuple[ir.Expression, ...]) -> None:
        directed = [
            item for item in called[name].parameters if len(called[name].parameters) == len(arguments)
        ]
        directed = directed or [
            item for item in called[name].parameters if item.direction is not ir.Direction.NONE
        ]
        for parameter, argument in zip(directed, arguments, strict=False):
            if parameter.direction in (ir.Direction.OUT, ir.Direction.INOUT):
                found.append(argument)

    def extern_arguments(instance: str, name: str, arguments: tuple[ir.Expression, ...]) -> None:
        functions = architecture.functions
        if instance:
            functions = architecture.objects[instances[instance].extern].methods
        takes = functions[name].signature(len(arguments)) or ()
        found.extend(given for given, argument in zip(arguments, takes, strict=True) if argument.is_written)

    for node in nodes_of(program, *_STORING):
        match node:
            case ir.Assign(target, _):
                found.append(target)
            case ir.Reset() | ir.MoveStack() if values_alone:
                pass
            case ir.Reset(variable) | ir.ForRange(variable, _, _, _):
                found.append(ir.Name(variable, kinds[variable]))
            case ir.MoveStack(stack, _, _):
                found.append(stack)
            case (
                ir.CallAction(name, arguments) | ir.CallRoutine(name, arguments) | ir.Call(name, arguments, _)
            ):
                out_arguments(name, arguments)
            case ir.ActionRef():
                out_arguments(node.action, node.arguments)
            case ir.CallFunction(name, arguments):
                extern_arguments("", name, arguments)
            case ir.CallMethod(instance, name, arguments) | ir.ExternValue(instance, name, arguments, _):
                extern_arguments(instance, name, arguments)
    structs = {struct.name: struct for struct in program.structs}
    return [each for target in found for each in each_target(target, structs)]


def _note(
    target: ir.Expression,
    headers: set[str],
    structs: Mapping[str, ir.StructType],
    found: dict[str, frozenset[tuple[str, ...]]],
) -> None:
    """Add what an lvalue writes to: a number in a header, a header, or all headers in a struct."""
    inside: list[str] = []
    node = target
    while isinstance(node, ir.Member | ir.Slice):
        if isinstance(node.type, ir.Named) and node.type.name in headers:
            break
        if isinstance(node, ir.Member):
            inside.insert(0, node.field)
        node = node.base
    if not isinstance(node.type, ir.Named):
        return  # no header, or an element of a stack, which counts as written anyway
    path = path_to(node)
    if node.type.name in headers:
        whole = not inside or isinstance(target.type, ir.Named)
        found[path] = EVERYTHING if whole else found.get(path, frozenset()) | {tuple(inside)}
        if whole or found[path] >= EVERYTHING:
            found[path] = EVERYTHING
        return
    full = reduce(part_path, inside, path)
    pending = [(full, target.type)]
    while pending:
        place, kind = pending.pop()
        if isinstance(kind, ir.Named) and kind.name in headers:
            found[place] = EVERYTHING
        elif isinstance(kind, ir.Named) and kind.name in structs:
            pending += [(part_path(place, part.name), part.type) for part in structs[kind.name].fields]


def path_to(node: ir.Expression) -> str:
    """Return the path of a variable or a member of one, nothing for anything else."""
    names: list[str] = []
    while isinstance(node, ir.Member):
        names.insert(0, node.field)
        node = node.base
    return reduce(part_path, names, node.name) if isinstance(node, ir.Name) else ""
