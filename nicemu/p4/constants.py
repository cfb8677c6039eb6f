# SPDX-License-Identifier: Apache-2.0
"""What is known at compile time: what constants are made of, and whether two are equal.

Source: P4-16 Language Specification 1.2.5, "Compile-time known and local compile-time known values".
"""

from __future__ import annotations

from nicemu.pipeline import ir

from . import syntax
from .diagnostics import Location
from .symbols import WITHOUT_DIRECTION, ConstantSymbol
from .type_sizes import scalar_of
from .types import CompositeType, EnumType, P4ListType, StackType, Type, is_header_or_union


def is_constant(node: syntax.Expression) -> bool:
    """Return whether a checked expression is known at compile time: a number, or made of such."""
    if node.value is not None:
        return True
    match node:  # what most nodes are stands first
        case syntax.NameRef():
            return getattr(node.symbol, "made_by", None) is not None
        case syntax.MemberRef() | syntax.IndexRef():
            return is_constant(node.base) and literal_of(node) is not None
        case syntax.ListValue():
            return all(map(is_constant, node.items))
        case syntax.DefaultValue() | syntax.InvalidHeader():
            return True
        case syntax.CastOp():
            return is_constant(node.operand)
        case syntax.ConditionalOp():
            return is_constant(node.condition) and is_constant(node.yes) and is_constant(node.no)
    return False


def is_given(node: syntax.Expression) -> bool:
    """Return whether a checked constant is a parameter of a constructor, or made of one."""
    if isinstance(node, syntax.NameRef):
        return getattr(node.symbol, "given", False) is True
    return any(map(is_given, _operands(node)))


def is_known_at_calls(node: syntax.Expression) -> bool:
    """Return whether a checked expression is known wherever the function or block around it is called: made
    of constants and of parameters without direction.
    """
    if is_constant(node):
        return True
    if isinstance(node, syntax.NameRef):
        return getattr(node.symbol, "role", "") == WITHOUT_DIRECTION
    operands = _operands(node)
    return bool(operands) and all(map(is_known_at_calls, operands))


def _operands(node: syntax.Expression) -> list[syntax.Expression]:
    """Return what an expression computes with; nothing of a name, a number or a call."""
    match node:
        case syntax.MemberRef():
            return [node.base]
        case syntax.SliceRef():
            return [node.base, node.low]
        case syntax.IndexRef():
            return [node.base, node.index]
        case syntax.UnaryOp() | syntax.CastOp():
            return [node.operand]
        case syntax.BinaryOp():
            return [node.left, node.right]
        case syntax.ConditionalOp():
            return [node.condition, node.yes, node.no]
        case syntax.ListValue():
            return node.items
    return []


def items_of(node: syntax.Expression) -> list[syntax.Expression]:
    """Return the elements of a checked list; none of one that a constructor's parameter stands for."""
    made = literal_of(node)
    return made.items if isinstance(made, syntax.ListValue) else []


def literal_of(node: syntax.Expression) -> syntax.Expression | None:
    """Return the number, list, `...` or {#} that a checked constant comes down to; None if it is none."""
    if node.value is not None:
        return node
    match node:
        case syntax.ListValue() | syntax.DefaultValue() | syntax.InvalidHeader():
            return node
        case syntax.NameRef(symbol=ConstantSymbol(made_by=syntax.Expression() as made_by)):
            return literal_of(made_by)
        case syntax.CastOp():
            return literal_of(node.operand)
        case syntax.ConditionalOp() if node.condition.value is not None:
            return literal_of(node.yes if node.condition.value else node.no)
        case syntax.MemberRef():
            return part_of(node.base, node.name)
        case syntax.IndexRef() if isinstance(node.index.value, int):
            return part_of(node.base, node.index.value)
    return None


def given_by(node: syntax.Expression) -> ir.Given | None:
    """Return a checked constant as an extern's constructor is given it: a number, a text, or the parts of a
    struct, tuple or list; None if it is another, or not known.
    """
    made = literal_of(node)
    if made is None or made.value is not None:
        return None if made is None else made.value
    parts: list[syntax.Expression | None]
    if isinstance(made.type, P4ListType):
        parts = [*items_of(made)]
    else:
        parts = [part_of(made, place) for place in range(_count(made))]
    given: list[ir.Given] = []
    for part in parts:
        value = given_by(part) if part is not None else None
        if value is None:
            return None
        given.append(value)
    return tuple(given)


def are_equal(left: syntax.Expression, right: syntax.Expression) -> bool:
    """Return whether two constants of one type are equal."""
    one, other = literal_of(left), literal_of(right)
    if one is None or other is None or one.value is not None or other.value is not None:
        return one is not None and other is not None and bool(one.value == other.value)
    kind = one.type
    if is_header_or_union(kind):
        valid = isinstance(one, syntax.ListValue), isinstance(other, syntax.ListValue)
        if not all(valid):
            return valid[0] == valid[1]
    return all(
        here is not None and there is not None and are_equal(here, there)
        for here, there in ((part_of(one, place), part_of(other, place)) for place in range(_count(one)))
    )


def some_constant(kind: Type, at: Location) -> syntax.Expression:
    """Return some constant of a type, whose numbers are not 0."""
    if isinstance(kind, StackType):
        items = [some_constant(kind.element, at) for _ in range(kind.size)]
        return syntax.ListValue(at=at, type=kind, items=items)
    if isinstance(kind, CompositeType) and kind.kind != "header_union":
        items = [some_constant(part, at) for part in kind.fields.values()]
        return syntax.ListValue(at=at, type=kind, items=items)
    if scalar_of(kind) is None:
        return syntax.DefaultValue(at=at, type=kind)
    return syntax.Number(at=at, type=kind, number=1, value=some_number(kind))


def some_number(kind: Type, wanted: int = 1) -> int:
    """Return some number of a type, that which is `wanted` if it has it; the least one of an enum's."""
    if isinstance(kind, EnumType):
        return min(kind.members.values(), default=0)
    scalar = scalar_of(kind)
    if not isinstance(scalar, ir.Bits):
        return wanted if scalar is None else min(wanted, 1)
    return min(wanted, (1 << scalar.width - scalar.signed) - 1)


def _count(node: syntax.Expression) -> int:
    """Return how many fields or elements a composite has."""
    if isinstance(node.type, CompositeType):
        return len(node.type.fields)
    return node.type.size if isinstance(node.type, StackType) else 0


def part_of(base: syntax.Expression, which: str | int) -> syntax.Expression | None:
    """Return what a field of a constant, or an element by its place, is made of; None if it is not known, or
    not there.
    """
    made = literal_of(base)
    if made is None:
        return None
    if isinstance(made.type, CompositeType):
        names = list(made.type.fields)
        place = which if isinstance(which, int) else names.index(which) if which in names else -1
        if not 0 <= place < len(names):
            return None
        kind = made.type.fields[names[place]]
    elif isinstance(made.type, StackType) and isinstance(which, int) and 0 <= which < made.type.size:
        names, place, kind = [], which, made.type.element
    else:
        return None
    if isinstance(made, syntax.DefaultValue):
        value = None if scalar_of(kind) is None else 0
        return syntax.DefaultValue(at=made.at, type=kind, value=value)
    if not isinstance(made, syntax.ListValue):
        return None
    return literal_of(made.items[made.names.index(names[place]) if made.names else place])
