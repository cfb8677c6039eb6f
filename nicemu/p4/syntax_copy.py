# SPDX-License-Identifier: Apache-2.0
"""Copies of syntax trees, to be checked afresh: a generic block or function for one set of arguments."""

from __future__ import annotations

import dataclasses
import functools
from typing import TypeVar

from . import syntax

Node = TypeVar("Node")

_FOUND = frozenset({"type", "value", "symbol"})
"""What the checker fills in."""


def fresh(node: Node) -> Node:
    """Return a copy of a tree without what a checker has found out about it; places are shared."""
    if isinstance(node, list):
        return [fresh(item) for item in node]  # type: ignore[return-value]
    kind: type = type(node)
    names = _fields(kind)
    if not names:
        return node
    made: Node = object.__new__(type(node))
    for name, is_found in names:
        given = getattr(node, name)
        if is_found:
            given = None
        elif given.__class__ not in _PLAIN:
            given = fresh(given)
        setattr(made, name, given)
    return made


_PLAIN = frozenset({str, int, bool, type(None)})


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a kind of node, and whether the checker fills them in; none for what is shared."""
    if kind.__module__ not in _MODULES:
        return ()
    of_expression = issubclass(kind, syntax.Expression)
    return tuple(
        (
            field.name,
            field.name == "symbol" or (of_expression and field.name in _FOUND),
        )
        for field in dataclasses.fields(kind)
    )


_MODULES = frozenset({syntax.__name__, syntax.Expression.__module__, syntax.Statement.__module__})
