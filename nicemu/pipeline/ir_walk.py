# SPDX-License-Identifier: Apache-2.0
"""Every node of a piece of the IR, for whoever looks for a few of them."""

from __future__ import annotations

import enum
import functools
import typing
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

_WITHOUT_NODES = (str, int, bool, tuple[str, ...], tuple[int, ...], tuple[int | str, ...])
_Getters: typing.TypeAlias = "dict[type, attrgetter[Any] | None]"


def nodes_of(root: object, *wanted: type) -> Iterator[Any]:
    """Yield a node and all below it, types among them, in any order; `root` may be a tuple of nodes.

    With classes that are `wanted`, only nodes of these: what cannot hold one is not looked into.
    """
    getters = _getters_for(wanted)
    pending: list[Any] = [root]
    while pending:
        item = pending.pop()
        kind = item.__class__
        if kind is tuple:
            pending.extend(item)
            continue
        if not wanted or kind in wanted:
            yield item
        if kind not in getters:
            getters[kind] = _parts(kind, wanted)
        get = getters[kind]
        if get is not None:
            pending.append(get(item))


@functools.cache
def _getters_for(wanted: tuple[type, ...]) -> _Getters:
    """Return where it is remembered what gets the fields of a node, for one choice of classes."""
    return {}


def _parts(node_class: type, wanted: tuple[type, ...]) -> attrgetter[Any] | None:
    """Return what gets the fields of a class of node that may hold nodes, or nodes that are wanted; several
    as a tuple, None if there are none.
    """
    names = [
        name
        for name, held in _held(node_class).items()
        if not wanted or any(not _below(kind).isdisjoint(wanted) for kind in held)
    ]
    return attrgetter(*names) if names else None


@functools.cache
def _below(node_class: type) -> frozenset[type]:
    """Return a class of node, and all classes of nodes that may stand below it."""
    found: set[type] = set()
    pending = [node_class]
    while pending:
        kind = pending.pop()
        if kind not in found:
            found.add(kind)
            for held in _held(kind).values():
                pending += held
    return frozenset(found)


@functools.cache
def _held(node_class: type) -> dict[str, list[type]]:
    """Return the fields of a class of node that may hold nodes, each with the classes that it may hold."""
    return {
        name: _classes_in(hint)
        for name, hint in typing.get_type_hints(node_class).items()
        if hint not in _WITHOUT_NODES and not (isinstance(hint, type) and issubclass(hint, enum.Enum))
    }


def _classes_in(hint: Any) -> list[type]:  # noqa: ANN401 - whatever annotates a field
    """Return the classes that an annotation names."""
    named = typing.get_args(hint)
    if not named:
        return [hint] if isinstance(hint, type) else []
    return [kind for part in named for kind in _classes_in(part)]
