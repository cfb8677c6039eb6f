# SPDX-License-Identifier: Apache-2.0
"""Which parameters of controls and parsers inside others need no place of their own.

A call copies its arguments in and out. Where a control is always given the same variable, and while it runs
nothing else leads there, nobody can tell the copy from the variable: then the parameter is the variable.
Programs give all their headers and metadata to each of their controls, so most copies would be of these. The
states of a parser are made anew for each call. Where it ends in an error, what it has taken stays, as where
p4c puts it into the one that applies it.
Source: P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from . import syntax
from .symbols import BlockSymbol, CallKind, CallTarget, ParameterSymbol, Variable
from .types import CompositeType, ExternType

_Path: TypeAlias = tuple[str, ...]
"""The place of a variable, and the names of the structs' fields that lead from there."""

_STORED = ("out", "inout")
_CALLED = (
    CallKind.SIZE,
    CallKind.IS_VALID,
    CallKind.ROUTINE,
    CallKind.EXTERN_FUNCTION,
    CallKind.EXTERN_METHOD,
    CallKind.PACKET,
)
"""Calls that have a value, and change no variable but what they are given as `out` or `inout`."""


def shared_parameters(block: BlockSymbol, calls: Sequence[syntax.Call]) -> dict[str, syntax.Expression]:
    """Return the arguments that parameters of a block are in all of some calls, by the places of these."""
    shared: dict[str, syntax.Expression] = {}
    if not calls:
        return shared
    stored: list[syntax.Expression] = []
    for call in calls:
        targets = _stored_by(call.arguments)
        if targets is None:
            return shared
        stored += targets
    paths = [[_path(argument) for argument in call.arguments] for call in calls]
    roots = [{_root(call.arguments[place]) for call in calls} for place in range(len(block.parameters))]
    for place, parameter in enumerate(block.parameters):
        if parameter.variable is None or isinstance(parameter.type, ExternType):
            continue
        ways = {each[place] for each in paths}
        if ways == {()} or len(ways) > 1 or any(_leads_to(target, paths[0][place]) for target in stored):
            continue
        if _is_alone(place, paths[0], roots, block.parameters):
            shared[parameter.variable.place] = calls[0].arguments[place]
    return shared


def _stored_by(arguments: Sequence[syntax.Expression]) -> list[syntax.Expression] | None:
    """Return what evaluating arguments stores into, None where that may be anything."""
    stored: list[syntax.Expression] = []
    pending = list(arguments)
    while pending:
        node = pending.pop()
        if node.value is not None or isinstance(node.type, ExternType):
            continue
        match node:
            case syntax.NameRef() | syntax.AnySet() | syntax.DefaultValue() | syntax.InvalidHeader():
                pass
            case syntax.MemberRef() | syntax.SliceRef():
                pending.append(node.base)
            case syntax.IndexRef():
                pending += (node.base, node.index)
            case syntax.UnaryOp() | syntax.CastOp():
                pending.append(node.operand)
            case syntax.BinaryOp():
                pending += (node.left, node.right)
            case syntax.ConditionalOp():
                pending += (node.condition, node.yes, node.no)
            case syntax.ListValue():
                pending += node.items
            case syntax.Call(symbol=CallTarget(kind=kind)) if kind in _CALLED:
                given = zip(node.arguments, _directions(node.symbol), strict=False)
                stored += [argument for argument, direction in given if direction in _STORED]
                pending += node.arguments
                if isinstance(node.callee, syntax.MemberRef):
                    pending.append(node.callee.base)
            case _:
                return None
    return stored


def _directions(target: CallTarget) -> Sequence[str]:
    if target.kind is CallKind.ROUTINE:
        return [parameter.direction for parameter in target.subject.parameters]
    return target.directions


def _leads_to(target: syntax.Expression, path: _Path) -> bool:
    """Return whether what is stored into is a part of what a path leads to, or the other way round."""
    way = _path(target)
    return path[: len(way)] == way[: len(path)] if way else _root(target) == path[0]


def _path(node: syntax.Expression) -> _Path:
    """Return the way to a place that is there whatever happens, () for what is none.

    A field of a header is none, for the header may be invalid; and a header of a union is not, because
    copying it back says which of them is valid.
    """
    fields: list[str] = []
    while isinstance(node, syntax.MemberRef):
        if not isinstance(node.base.type, CompositeType) or node.base.type.kind != "struct":
            return ()
        fields.append(node.name)
        node = node.base
    if not isinstance(node, syntax.NameRef) or not isinstance(node.symbol, Variable):
        return ()
    return (node.symbol.place, *reversed(fields))


def _root(node: syntax.Expression) -> str:
    """Return the place of the variable that an argument is a part of, "" for what is none."""
    while isinstance(node, syntax.MemberRef | syntax.SliceRef | syntax.IndexRef):
        node = node.base
    symbol = node.symbol if isinstance(node, syntax.NameRef) else None
    return symbol.place if isinstance(symbol, Variable) else ""


def _is_alone(
    place: int, paths: Sequence[_Path], roots: Sequence[set[str]], parameters: Sequence[ParameterSymbol]
) -> bool:
    """Return whether no other argument leads to what one leads to, but where both are only read.

    What is no path is copied: it is in the way where it is stored into a part of the same variable.
    """
    path, is_stored = paths[place], parameters[place].direction in _STORED
    for at, (other, parameter) in enumerate(zip(paths, parameters, strict=True)):
        if at == place:
            continue
        stored = parameter.direction in _STORED
        if not other and stored and path[0] in roots[at]:
            return False
        if other and (is_stored or stored) and path[: len(other)] == other[: len(path)]:
            return False
    return True
