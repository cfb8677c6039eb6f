# SPDX-License-Identifier: Apache-2.0
"""Types: what a name of a type means once it is resolved.

Scalars are the IR's own types (`ir.Bits`, `ir.BOOL`, `ir.ERROR`); the rest exists only while compiling.
Source: P4-16 Language Specification 1.2.5, "P4 data types".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from nicemu.pipeline import ir

from . import syntax

if TYPE_CHECKING:
    from .symbols import BlockSymbol, Scope, TableSymbol


class IntegerType:
    """The type of a number without a width: any integer, at compile time only."""

    def __str__(self) -> str:
        return "int"


class TextType:
    """The type of a string."""

    def __str__(self) -> str:
        return "string"


class NoType:
    """The type of a call that returns nothing."""

    def __str__(self) -> str:
        return "void"


class MatchKindType:
    """The type of `exact` and its like, which are compared at compile time."""

    def __str__(self) -> str:
        return "match_kind"


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
    """A header, header_union, struct, tuple or array, with its fields in order.

    `family` and `arguments` say which generic type it is a specialisation of. The fields of a tuple are f0,
    f1, and so on; those of an array its elements, 0, 1, and so on.
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
    field_ids: Mapping[str, int] = field(default_factory=dict)
    """The numbers of fields, by @id."""
    field_names: Mapping[str, str] = field(default_factory=dict)
    """What controllers call fields, by @name."""
    field_notes: Mapping[str, tuple[ir.Annotation, ...]] = field(default_factory=dict)
    """What else stands before fields."""
    notes: tuple[ir.Annotation, ...] = ()
    """What stands before the type."""
    size: int = field(init=False)
    """Numbers that a value holds; types whose fields double at each level are refused by it."""
    depth: int = field(init=False)
    """Levels of types, one for a type of scalars alone."""

    def __post_init__(self) -> None:
        self.size = 1 + sum(map(size_of, self.fields.values()))
        self.depth = 1 + max(map(depth_of, self.fields.values()), default=0)

    @property
    def header(self) -> bool:
        """Whether this is a header, not a union of such."""
        return self.kind == "header"

    def __str__(self) -> str:
        return self.name if self.kind in ("tuple", "array") else f"{self.kind} {self.name}"


@dataclass(slots=True, eq=False)
class Family:
    """All specialisations of a generic struct, header or header union; all tuples, all arrays."""

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
    """A header stack; all other arrays are `CompositeType`s."""

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
    """A type of its own, made with `type`, with the values of `underlying`.

    `translation` is what @p4runtime_translation says: a URI, and the bits that controllers see, 0 for text.
    """

    name: str
    underlying: Type
    translation: tuple[str, int] | None = None
    notes: tuple[ir.Annotation, ...] = ()
    scalar: ir.Bits | ir.Bool = field(init=False)
    """What the values are, below all new types."""

    def __post_init__(self) -> None:
        kind = self.underlying.scalar if isinstance(self.underlying, NewType) else self.underlying
        assert isinstance(kind, ir.Bits | ir.Bool)
        self.scalar = kind

    def __str__(self) -> str:
        return self.name


class InvalidType:
    """The type of {#}, before a header is found for it."""

    def __str__(self) -> str:
        return "{#}"


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
    | MatchKindType
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

INTEGER = IntegerType()
TEXT = TextType()
NOTHING = NoType()
MATCH_KIND = MatchKindType()
INVALID = InvalidType()
DEFAULT = DefaultType()
UNKNOWN = UnknownType()


def is_header_or_union(kind: Type) -> TypeGuard[CompositeType]:
    """Return whether a type is a header or a header union: what header stacks are of."""
    return isinstance(kind, CompositeType) and kind.kind in ("header", "header_union")


def elements_of(kind: Type) -> tuple[Type, int] | None:
    """Return the type of the elements of an array or header stack, and how many it has; None for others."""
    if isinstance(kind, StackType):
        return kind.element, kind.size
    if isinstance(kind, CompositeType) and kind.kind == "array":
        return kind.fields["0"], len(kind.fields)
    return None


def size_of(kind: Type) -> int:
    """Return how many numbers a value of a type holds."""
    if isinstance(kind, StackType):
        return kind.size * kind.element.size
    return kind.size if isinstance(kind, CompositeType) else 1


def depth_of(kind: Type) -> int:
    """Return how many types deep a type is, 0 for a scalar."""
    match kind:
        case CompositeType():
            return kind.depth
        case StackType(element, _):
            return element.depth
        case P4ListType(element):
            return 1 + depth_of(element)
        case ExternType(_, arguments) | BlockType(_, arguments):
            return 1 + max(map(depth_of, arguments), default=0)
    return 0
