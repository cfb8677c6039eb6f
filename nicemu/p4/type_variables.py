# SPDX-License-Identifier: Apache-2.0
"""Puts types in the place of type variables, and finds out which they stand for.

Source: P4-16 Language Specification 1.2.5, "Parameterization".
"""

from __future__ import annotations

from collections.abc import Mapping

from .types import (
    INTEGER,
    UNKNOWN,
    BlockType,
    CompositeType,
    ExternType,
    ListType,
    P4ListType,
    StackType,
    Type,
    TypeVariable,
    elements_of,
    is_header_or_union,
)


def substituted(kind: Type, bindings: Mapping[str, Type]) -> Type:
    """Return `kind` with its type variables replaced."""
    if isinstance(kind, TypeVariable):
        return bindings.get(kind.name, kind)
    if isinstance(kind, ExternType) and kind.arguments:
        return ExternType(kind.symbol, tuple(substituted(item, bindings) for item in kind.arguments))
    if isinstance(kind, CompositeType) and kind.family is not None:
        given = tuple(substituted(item, bindings) for item in kind.arguments)
        if kind.kind == "array" and is_header_or_union(given[0]):
            return StackType(given[0], len(given))
        return kind.family.of(given)
    if isinstance(kind, StackType):
        element = substituted(kind.element, bindings)
        assert isinstance(element, CompositeType)
        return StackType(element, kind.size)
    if isinstance(kind, P4ListType):
        return P4ListType(substituted(kind.element, bindings))
    if isinstance(kind, BlockType) and kind.arguments:
        return BlockType(kind.symbol, tuple(substituted(item, bindings) for item in kind.arguments))
    return kind


def variables_in(kind: Type) -> set[str]:
    """Return the names of the type variables in a type."""
    match kind:
        case TypeVariable(name):
            return {name}
        case ExternType() | CompositeType() | BlockType():
            return set().union(*map(variables_in, kind.arguments))
        case StackType() | P4ListType():
            return variables_in(kind.element)
    return set()


def unify(pattern: Type, actual: Type, bindings: dict[str, Type]) -> bool:
    """Bind the type variables of `pattern` so that it equals `actual`; return whether it can."""
    if isinstance(pattern, TypeVariable):
        if pattern.name in bindings:
            return same(bindings[pattern.name], actual)
        bindings[pattern.name] = actual
        return True
    if isinstance(actual, StackType) and (of := elements_of(pattern)) is not None:
        return of[1] == actual.size and unify(of[0], actual.element, bindings)
    if (
        isinstance(pattern, CompositeType)
        and isinstance(actual, CompositeType)
        and pattern.family is not None
    ):
        return (
            pattern.family is actual.family
            and len(pattern.arguments) == len(actual.arguments)
            and all(
                unify(left, right, bindings)
                for left, right in zip(pattern.arguments, actual.arguments, strict=True)
            )
        )
    if isinstance(pattern, CompositeType) and isinstance(actual, ListType):
        return _unify_list(pattern, actual, bindings)
    if isinstance(pattern, P4ListType) and isinstance(actual, P4ListType):
        return unify(pattern.element, actual.element, bindings)
    if isinstance(pattern, ExternType) and isinstance(actual, ExternType):
        return (
            pattern.symbol is actual.symbol
            and len(pattern.arguments) == len(actual.arguments)
            and all(
                unify(left, right, bindings)
                for left, right in zip(pattern.arguments, actual.arguments, strict=True)
            )
        )
    return same(pattern, actual)


def _unify_list(pattern: CompositeType, actual: ListType, bindings: dict[str, Type]) -> bool:
    """Bind the type variables in fields for which a list has values whose types are known."""
    given = zip(actual.names or pattern.fields, actual.items, strict=False)
    return all(
        unify(pattern.fields[name], item, bindings)
        for name, item in given
        if name in pattern.fields and item is not INTEGER and not _is_open(pattern.fields[name], item)
    )


def _is_open(pattern: Type, actual: Type) -> bool:
    return isinstance(pattern, TypeVariable) and isinstance(actual, ListType)


def same(left: Type, right: Type) -> bool:
    """Return whether two types are the same, as far as is known."""
    return left is right or left is UNKNOWN or right is UNKNOWN or left == right
