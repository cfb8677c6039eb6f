# SPDX-License-Identifier: Apache-2.0
"""Copies of syntax trees, to be checked afresh: a generic block or function for one set of arguments.

And whether two trees say the same, or call something.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import TypeVar

from . import syntax
from .diagnostics import Location

Node = TypeVar("Node")

_FOUND = frozenset({"type", "value", "symbol", "written"})
"""What the checker fills in."""
_ARRANGED = frozenset({syntax.Call, syntax.Instantiation, syntax.ActionElement})
"""What has arguments that the checker puts in another order."""


def fresh(node: Node, scope: object = None) -> Node:
    """Return a copy of a tree without what a checker has found out about it; places are shared.

    Names mean in the copy what they mean in `scope`, if one is given, wherever it is checked.
    """
    if isinstance(node, list):
        return [fresh(item, scope) for item in node]  # type: ignore[return-value]
    kind: type = type(node)
    names, found = _fields(kind)
    if not names:
        return node
    made: Node = object.__new__(type(node))
    for name in found:
        setattr(made, name, None)
    for name in names:
        given = getattr(node, name)
        setattr(made, name, given if given.__class__ in _SHARED else fresh(given, scope))
    if kind in _ARRANGED:
        _write_again(node, made, scope)
    if scope is not None and isinstance(made, syntax.NameRef | syntax.TypeRef):
        made.scope = scope
    return made


def _write_again(node: Node, made: Node, scope: object) -> None:
    """Have a copy have the arguments as they stand in the program."""
    assert isinstance(node, syntax.Call | syntax.Instantiation | syntax.ActionElement)
    assert isinstance(made, syntax.Call | syntax.Instantiation | syntax.ActionElement)
    if node.written is not None:
        made.arguments, made.names = fresh(node.written[0], scope), node.written[1]


def same_text(left: object, right: object) -> bool:
    """Return whether two trees were written alike, wherever they stand and whatever a checker has found."""
    if left.__class__ is not right.__class__:
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_text, left, right))
    if isinstance(left, Location):
        return True
    kind: type = type(left)
    names, _ = _fields(kind)
    if not names:
        return left == right
    return all(same_text(getattr(left, name), getattr(right, name)) for name in names)


def meaning_in(
    tree: object,
) -> Iterator[syntax.NameRef | syntax.Call | syntax.VariableDeclaration | syntax.ForInStatement]:
    """Yield what means something in a tree, in one order for trees that were written alike: names, calls, and
    where variables are declared.
    """
    if isinstance(tree, syntax.NameRef | syntax.Call | syntax.VariableDeclaration | syntax.ForInStatement):
        yield tree
    kind: type = type(tree)
    for part in tree if isinstance(tree, list) else (getattr(tree, name) for name in _fields(kind)[0]):
        if part.__class__ not in _SHARED:
            yield from meaning_in(part)


def has_call(tree: object) -> bool:
    """Return whether something is called in a tree."""
    if isinstance(tree, syntax.Call):
        return True
    if isinstance(tree, list):
        return any(map(has_call, tree))
    kind: type = type(tree)
    return any(has_call(getattr(tree, name)) for name in _fields(kind)[0])


_SHARED = frozenset({str, int, bool, type(None), Location})


@functools.cache
def _fields(kind: type) -> tuple[list[str], list[str]]:
    """Return the fields of a kind of node, and those that the checker fills in; none for what is shared."""
    if kind.__module__ not in _MODULES:
        return [], []
    filled = _FOUND if issubclass(kind, syntax.Expression) else {"symbol", "written"}
    names = [field.name for field in dataclasses.fields(kind)]
    return [name for name in names if name not in filled], [name for name in names if name in filled]


_MODULES = frozenset({syntax.__name__, syntax.Expression.__module__, syntax.Statement.__module__})
