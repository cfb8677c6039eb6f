# SPDX-License-Identifier: Apache-2.0
"""Copies of syntax trees, to be checked afresh: a generic block or function for one set of arguments."""

from __future__ import annotations

import dataclasses
import functools
from typing import TypeVar

from . import syntax
from .diagnostics import Location

Node = TypeVar("Node")

_FOUND = frozenset({"type", "value", "symbol"})
"""What the checker fills in."""


def fresh(node: Node) -> Node:
    """Return a copy of a tree without what a checker has found out about it; places are shared."""
    if isinstance(node, list):
        return [fresh(item) for item in node]  # type: ignore[return-value]
    kind: type = type(node)
    names, found = _fields(kind)
    if not names:
        return node
    made: Node = object.__new__(type(node))
    for name in found:
        setattr(made, name, None)
    for name in names:
        given = getattr(node, name)
        setattr(made, name, given if given.__class__ in _SHARED else fresh(given))
    return made


_SHARED = frozenset({str, int, bool, type(None), Location})


@functools.cache
def _fields(kind: type) -> tuple[list[str], list[str]]:
    """Return the fields of a kind of node, and those that the checker fills in; none for what is shared."""
    if kind.__module__ not in _MODULES:
        return [], []
    filled = _FOUND if issubclass(kind, syntax.Expression) else {"symbol"}
    names = [field.name for field in dataclasses.fields(kind)]
    return [name for name in names if name not in filled], [name for name in names if name in filled]


_MODULES = frozenset({syntax.__name__, syntax.Expression.__module__, syntax.Statement.__module__})
