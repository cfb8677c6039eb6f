# SPDX-License-Identifier: Apache-2.0
"""Types: what a name of a type means once it is resolved.

Scalars are the IR's own types (`ir.Bits`, `ir.BOOL`, `ir.ERROR`); the rest exists only while compiling.
Source: P4-16 Language Specification 1.2.5, "P4 data types".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from nicemu.pipeline import ir

from . import syntax

if TYPE_CHECKING:
    from .symbols import BlockSymbol, Scope, TableSymbol


@dataclass(frozen=True, slots=True)
class IntegerType:
    """The type of a number without a width: any integer, at compile time only."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True, slots=True)
class TextType:
    """The type of a string."""

    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True, slots=True)
class NoType:
    """The type of a call that returns nothing."""

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class UnknownType:
    """The type of what was reported already; it agrees with everything, so that nothing is reported twice."""

    def __str__(self) -> str:
        return "unknown"


@dataclass(frozen=True, slots=True)
class TypeVariable:
    """A type parameter, not bound yet."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True, eq=False)
class CompositeType:
    """A header, header_union, struct or tuple, with its fields in order.

    `family` and `arguments` say which generic type it is a specialisation of. The fields of a tuple are f0,
    f1, and so on.
    """

    name: str
    kind: str
    fields: Mapping[str, Type]
    family: Family | None = None
    arguments: tuple[Type, ...] = ()
    field_lists: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The field lists that fields are in, by @field_list."""
    match_kinds: Mapping[str, str] = field(default_factory=dict)
    """How fields are compared in a value set, by @match."""
    controller: str = ""
    """What @controller_header says of a header."""
    size: int = field(init=False)
    """Numbers that a value holds; types whose fields double at each level are refused by it."""

    def __post_init__(self) -> None:
        self.size = 1 + sum(map(size_of, self.fields.values()))

    @property
    def header(self) -> bool:
        """Whether this is a header, not a union of such."""
        return self.kind == "header"

    def __str__(self) -> str:
        return self.name if self.kind == "tuple" else f"{self.kind} {self.name}"


@dataclass(slots=True, eq=False)
class Family:
    """All specialisations of a generic struct, header or header union; all tuples."""

    name: str
    parameters: int
    make: Callable[[tuple[Type, ...]], CompositeType]
    made: dict[tuple[Type, ...], CompositeType] = field(default_factory=dict)

    def of(self, arguments: tuple[Type, ...]) -> CompositeType:
        """Return the one type for these arguments."""
        if arguments not in self.made:
            made = self.made[arguments] = self.make(arguments)
            made.family, made.arguments = self, arguments
        return self.made[arguments]


@dataclass(frozen=True, slots=True)
class StackType:
    """A header stack."""

    element: CompositeType
    size: int

    def __str__(self) -> str:
        return f"{self.element.name}[{self.size}]"


@dataclass(frozen=True, slots=True)
class P4ListType:
    """list<element>: any number of values of one type, which are known where the list is written."""

    element: Type

    def __str__(self) -> str:
        return f"list<{getattr(self.element, 'name', self.element)}>"


@dataclass(frozen=True, slots=True)
class VarbitType:
    """varbit<width>."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(slots=True, eq=False)
class NewType:
    """A type of its own, made with `type`, with the values of `underlying`."""

    name: str
    underlying: Type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class InvalidType:
    """The type of {#}, before a header is found for it."""

    def __str__(self) -> str:
        return "{#}"


@dataclass(frozen=True, slots=True)
class DefaultType:
    """The type of `...`, before any type is found for it."""

    def __str__(self) -> str:
        return "..."


@dataclass(slots=True, eq=False)
class EnumType:
    """An enum; `underlying` is its representation where it is serializable. Values are those of its
    members.
    """

    name: str
    members: Mapping[str, int]
    underlying: ir.Bits | None

    def __str__(self) -> str:
        return f"enum {self.name}"


@dataclass(slots=True, eq=False)
class ExternSymbol:
    """A declared extern object type."""

    name: str
    declaration: syntax.ExternDeclaration
    scope: Scope


@dataclass(frozen=True, slots=True)
class ExternType:
    """An extern object type with its type arguments."""

    symbol: ExternSymbol
    arguments: tuple[Type, ...] = ()

    def __str__(self) -> str:
        given = f"<{', '.join(map(str, self.arguments))}>" if self.arguments else ""
        return f"extern {self.symbol.name}{given}"


@dataclass(frozen=True, slots=True)
class ListType:
    """The type of {a, b}, before a struct is found for it."""

    items: tuple[Type, ...]
    names: tuple[str, ...] | None = None
    rest: bool = False

    def __str__(self) -> str:
        return f"a list of {len(self.items)} values"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What applying a table gives: hit, miss, action_run."""

    table: TableSymbol

    def __str__(self) -> str:
        return "the result of apply()"


@dataclass(frozen=True, slots=True)
class ActionRun:
    """The action that a table ran; only switch takes it."""

    table: TableSymbol

    def __str__(self) -> str:
        return "action_run"


@dataclass(frozen=True, slots=True)
class BlockType:
    """A parser or control type with its type arguments."""

    symbol: BlockSymbol
    arguments: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return f"{self.symbol.declaration.kind} {self.symbol.name}"


Type: TypeAlias = (
    ir.Bits
    | ir.Bool
    | ir.ErrorCode
    | IntegerType
    | TextType
    | NoType
    | UnknownType
    | TypeVariable
    | CompositeType
    | StackType
    | P4ListType
    | VarbitType
    | NewType
    | InvalidType
    | DefaultType
    | EnumType
    | ExternType
    | ListType
    | ApplyResult
    | ActionRun
    | BlockType
)

_SCALARS = (ir.Bits, ir.Bool, ir.ErrorCode)
INTEGER = IntegerType()
TEXT = TextType()
NOTHING = NoType()
INVALID = InvalidType()
DEFAULT = DefaultType()
UNKNOWN = UnknownType()


def scalar_of(kind: Type) -> ir.Type | None:
    """Return how a type is represented in the IR if it is a scalar, else None."""
    if isinstance(kind, _SCALARS):
        return kind
    if isinstance(kind, EnumType):
        return kind.underlying or ir.Bits(32)
    return scalar_of(kind.underlying) if isinstance(kind, NewType) else None


def width_of(kind: Type) -> int:
    """Return the bits in which a scalar is compared: 1 for bool, 32 for error."""
    scalar = scalar_of(kind)
    return scalar.width if isinstance(scalar, ir.Bits) else 1 if scalar == ir.BOOL else 32


def size_of(kind: Type) -> int:
    """Return how many numbers a value of a type holds."""
    if isinstance(kind, StackType):
        return kind.size * kind.element.size
    return kind.size if isinstance(kind, CompositeType) else 1


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
            return fixed_bits(kind.underlying)
        case VarbitType():
            return 0
        case CompositeType(kind="struct" | "header"):
            parts = [fixed_bits(part) for part in kind.fields.values()]
            return None if None in parts else sum(part or 0 for part in parts)
    return None


def is_flat(kind: Type) -> bool:
    """Return whether a type is a fixed number of bits without headers: a scalar, or a struct of such."""
    if isinstance(kind, CompositeType):
        return kind.kind == "struct" and all(map(is_flat, kind.fields.values()))
    return fixed_bits(kind) is not None and not isinstance(kind, VarbitType)


def varbit_bits(kind: Type) -> int:
    """Return the most bits that the varbits in a type take."""
    if isinstance(kind, VarbitType):
        return kind.width
    return sum(map(varbit_bits, kind.fields.values())) if isinstance(kind, CompositeType) else 0


def size_range_bits(kind: Type) -> tuple[int, int] | None:
    """Return the fewest and the most bits that a value of a type takes; None if its type has no size.

    Source: P4-16 Language Specification 1.2.5, "Compile-time size determination".
    """
    match kind:
        case VarbitType(width):
            return 0, width
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


def substituted(kind: Type, bindings: Mapping[str, Type]) -> Type:
    """Return `kind` with its type variables replaced."""
    if isinstance(kind, TypeVariable):
        return bindings.get(kind.name, kind)
    if isinstance(kind, ExternType) and kind.arguments:
        return ExternType(kind.symbol, tuple(substituted(item, bindings) for item in kind.arguments))
    if isinstance(kind, CompositeType) and kind.family is not None:
        return kind.family.of(tuple(substituted(item, bindings) for item in kind.arguments))
    if isinstance(kind, StackType):
        element = substituted(kind.element, bindings)
        assert isinstance(element, CompositeType)
        return StackType(element, kind.size)
    if isinstance(kind, P4ListType):
        return P4ListType(substituted(kind.element, bindings))
    if isinstance(kind, BlockType) and kind.arguments:
        return BlockType(kind.symbol, tuple(substituted(item, bindings) for item in kind.arguments))
    return kind


def unify(pattern: Type, actual: Type, bindings: dict[str, Type]) -> bool:
    """Bind the type variables of `pattern` so that it equals `actual`; return whether it can."""
    if isinstance(pattern, TypeVariable):
        if pattern.name in bindings:
            return same(bindings[pattern.name], actual)
        bindings[pattern.name] = actual
        return True
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
    if isinstance(pattern, StackType) and isinstance(actual, StackType):
        return pattern.size == actual.size and unify(pattern.element, actual.element, bindings)
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


def same(left: Type, right: Type) -> bool:
    """Return whether two types are the same, as far as is known."""
    return left == right or isinstance(left, UnknownType) or isinstance(right, UnknownType)
