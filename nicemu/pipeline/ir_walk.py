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


def nodes_of(root: object) -> Iterator[Any]:
    """Yield a node and all below it, types among them, in any order; `root` may be a tuple of nodes."""
    pending: list[Any] = [root]
    while pending:
        item = pending.pop()
        if item.__class__ is tuple:
            pending.extend(item)
            continue
        yield item
        for get in _parts(item.__class__):
            pending.append(get(item))


@functools.cache
def _parts(node_class: type) -> tuple[attrgetter[Any], ...]:
    """Return what gets the fields of a class of node that may hold nodes."""
    hints = typing.get_type_hints(node_class)
    return tuple(
        attrgetter(name)
        for name, hint in hints.items()
        if hint not in _WITHOUT_NODES and not (isinstance(hint, type) and issubclass(hint, enum.Enum))
    )
