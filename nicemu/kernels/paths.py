# SPDX-License-Identifier: Apache-2.0
"""Paths of variables, of what lies in them, and of a kernel's own numbers, as text.

Slashes and brackets keep them apart from names, which have none (`nicemu.pipeline.verify`) but may have dots:
one variable may be called as another and a field of it, with a dot between. Of a stack, all elements have one
path.
"""

from __future__ import annotations

_ELEMENTS = "[]"


def part_path(path: str, name: str) -> str:
    """Return the path of a field, or of another part, of what has a path."""
    return f"{path}/{name}"


def elements_path(stack: str) -> str:
    """Return the path of the elements of a stack."""
    return stack + _ELEMENTS


def stack_elements(path: str) -> str:
    """Return the path of the elements in which something lies."""
    return path[: path.index(_ELEMENTS) + len(_ELEMENTS)]


def own_path(name: str) -> str:
    """Return the path of a number that the kernel needs itself."""
    return f"/{name}"
