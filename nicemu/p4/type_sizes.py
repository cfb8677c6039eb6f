# SPDX-License-Identifier: Apache-2.0
"""How values of a type are represented, and how many bits they take.

Source: P4-16 Language Specification 1.2.5, "Header types", "Compile-time size determination".
"""

from __future__ import annotations

from nicemu.pipeline import ir

from .diagnostics import article
from .types import (
    INTEGER,
    TEXT,
    UNKNOWN,
    CompositeType,
    EnumType,
    ExternType,
    NewType,
    StackType,
    Type,
    TypeVariable,
    VarbitType,
)

_COMPILE_TIME = "it is known at compile time alone"

_SCALARS = (ir.Bits, ir.Bool, ir.ErrorCode)


def scalar_of(kind: Type) -> ir.Type | None:
    """Return how a type is represented in the IR if it is a scalar, else None."""
    if isinstance(kind, _SCALARS):
        return kind
    if isinstance(kind, EnumType):
        return kind.underlying or ir.Bits(32)
    return kind.scalar if isinstance(kind, NewType) else None


def width_of(kind: Type) -> int:
    """Return the bits in which a scalar is compared: 1 for bool, 32 for error."""
    scalar = scalar_of(kind)
    return scalar.width if isinstance(scalar, ir.Bits) else 1 if scalar == ir.BOOL else 32


def fixed_bits(kind: Type) -> int | None:
    """Return the bits that a type takes on the wire, a varbit counted as none; None if it cannot stand in a
    header.
    """
    match kind:
        case ir.Bits() | ir.Bool():
            return kind.width if isinstance(kind, ir.Bits) else 1
        case EnumType():
            return kind.underlying.width if kind.underlying else None
        case NewType():
            return fixed_bits(kind.scalar)
        case VarbitType():
            return 0
        case CompositeType(kind="struct" | "header" | "array"):
            parts = [fixed_bits(part) for part in kind.fields.values()]
            return None if None in parts else sum(part or 0 for part in parts)
    return None


def is_flat(kind: Type) -> bool:
    """Return whether a type is a fixed number of bits without headers: a scalar, a struct or array of such.

    A type variable may be one: generic types are checked again for each type that they are for.
    """
    if isinstance(kind, TypeVariable):
        return True
    if isinstance(kind, CompositeType):
        return kind.kind in ("struct", "array") and all(map(is_flat, kind.fields.values()))
    return fixed_bits(kind) is not None and not isinstance(kind, VarbitType)


def has_fixed_width(kind: Type) -> bool:
    """Return whether a type is a fixed number of bits: a scalar, a header, struct or tuple of such, or a
    stack of headers.
    """
    if isinstance(kind, StackType):
        return has_fixed_width(kind.element)
    if isinstance(kind, CompositeType):
        return kind.kind != "header_union" and all(map(has_fixed_width, kind.fields.values()))
    return fixed_bits(kind) is not None and not isinstance(kind, VarbitType)


def has_varbit(kind: Type) -> bool:
    """Return whether a varbit stands in a type."""
    if isinstance(kind, CompositeType):
        return any(map(has_varbit, kind.fields.values()))
    return isinstance(kind, VarbitType)


def size_range_bits(kind: Type) -> tuple[int, int] | None:
    """Return the fewest and the most bits that a value of a type takes; None if its type has no size.

    In generic code, which is checked again for each type that it is for, a type variable takes a byte.
    Source: P4-16 Language Specification 1.2.5, "Compile-time size determination".
    """
    match kind:
        case VarbitType(width):
            return 0, width
        case TypeVariable():
            return 8, 8
        case StackType(element, size):
            of_one = size_range_bits(element)
            return of_one and (size * of_one[0], size * of_one[1])
        case CompositeType():
            parts = [size_range_bits(part) for part in kind.fields.values()]
            known = [part for part in parts if part is not None]
            if len(known) != len(parts):
                return None
            lows, highs = [low for low, _ in known], [high for _, high in known]
            if kind.kind == "header_union":
                return max(lows, default=0), max(highs, default=0)
            return sum(lows), sum(highs)
    bits = fixed_bits(kind)
    return None if bits is None else (bits, bits)


def lacking(kind: Type, metadata: ir.StructType) -> tuple[ir.Field, ...]:
    """Return the fields of an architecture's metadata that a program's own declaration of it lacks: values of
    it have them all the same.
    """
    if not isinstance(kind, CompositeType) or kind.kind != "struct" or kind.name != metadata.name:
        return ()
    return tuple(part for part in metadata.fields if part.name not in kind.fields)


def has_lacking(kind: Type, metadata: ir.StructType) -> bool:
    """Return whether values of a type have fields that it lacks."""
    inside = kind.fields.values() if isinstance(kind, CompositeType) else ()
    return bool(lacking(kind, metadata)) or any(has_lacking(part, metadata) for part in inside)


def is_storable(kind: Type) -> bool:
    """Return whether a variable can hold values of a type."""
    storable = CompositeType | StackType | VarbitType | TypeVariable
    return scalar_of(kind) is not None or isinstance(kind, storable)


def parameter_fault(kind: Type, direction: str, owner: str) -> tuple[str, str]:
    """Return why a parameter of an action, function, parser or control cannot be of a type, and a hint."""
    if owner != "action" and isinstance(kind, ExternType):
        return (f"{kind} as a parameter has no direction", "an object is no value") if direction else ("", "")
    if owner != "action" and kind in (INTEGER, TEXT):
        return (f"{kind} as a parameter has no direction", _COMPILE_TIME) if direction else ("", "")
    if is_storable(kind) or kind is UNKNOWN:
        return "", ""
    return f"a parameter of {article(owner)} cannot be {kind}", ""
