# SPDX-License-Identifier: Apache-2.0
"""Symbols: what names mean once they are resolved, and the scopes in which they mean it.

`calls` of what runs is how many calls in a row it comes to.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from nicemu.pipeline import ir

from . import syntax
from .annotations import given_name
from .diagnostics import Location
from .type_variables import same
from .types import (
    ExternSymbol,
    ExternType,
    Family,
    Type,
)

NO_ACTION = "NoAction"
"""What a table runs that matches nothing and has no default action of its own."""

THIS = "this"
"""What an object is called in its own methods; no other name is a keyword."""

WITHOUT_DIRECTION = "a parameter without direction"
"""The role of a parameter that is known at compile time wherever its block or function is called."""


@dataclass(slots=True, eq=False)
class Variable:
    """A parameter or local; `place` is its unique name in the IR. A packet has no place."""

    name: str
    type: Type
    place: str
    writable: bool = True
    role: str = "variable"


@dataclass(slots=True, eq=False)
class ConstantSymbol:
    """A compile-time constant; `made_by` is the checked expression of one that is no number.

    `given` says that it is a parameter, or made of one: another with each instance, or each call.
    """

    name: str
    type: Type
    value: Any
    made_by: syntax.Expression | None = None
    given: bool = False


@dataclass(slots=True, eq=False)
class TypeSymbol:
    """A name of a type."""

    name: str
    type: Type


@dataclass(slots=True, eq=False)
class FamilySymbol:
    """The name of a generic type."""

    name: str
    family: Family


@dataclass(slots=True, eq=False)
class ErrorList:
    """The name `error`, before a dot."""

    name: str = "error"


@dataclass(slots=True, eq=False)
class ParameterSymbol:
    """A parameter of an action, method or block."""

    name: str
    type: Type
    direction: str
    variable: Variable | None = None
    id: int = 0
    default: syntax.Expression | None = None
    is_optional: bool = False
    annotations: Sequence[syntax.Annotation] = ()

    def of_type(self, kind: Type) -> ParameterSymbol:
        """Return the same parameter of another type, for one call."""
        default, is_optional = self.default, self.is_optional
        return ParameterSymbol(self.name, kind, self.direction, default=default, is_optional=is_optional)


Fixed: TypeAlias = "tuple[int | str | Instance, ...]"
"""What the parameters of a function, parser or control are given that are no values at run time."""


@dataclass(slots=True, eq=False)
class Routine:
    """A function with a body, for one set of type arguments and of what only the compiler knows, by its full
    name. Parameters of the latter have no variable.
    """

    name: str
    declaration: syntax.FunctionDeclaration
    parameters: list[ParameterSymbol]
    returns: Type
    result: Variable | None = None
    variables: list[Variable] = field(default_factory=list)
    calls: int = 0


@dataclass(slots=True, eq=False)
class RoutineSymbol:
    """A function with a body, and what it is for the type arguments and other fixed ones that were met."""

    name: str
    declaration: syntax.FunctionDeclaration
    scope: Scope
    made: dict[tuple[tuple[Type, ...], Fixed], Routine] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ActionSymbol:
    """An action by its full name; `variables` are its own where it stands outside all blocks."""

    name: str
    declaration: syntax.ActionDeclaration
    parameters: list[ParameterSymbol] = field(default_factory=list)
    id: int = 0
    variables: list[Variable] = field(default_factory=list)
    calls: int = 0


@dataclass(slots=True, eq=False)
class TableSymbol:
    """A table by its full name.

    `actions` are those that it may run, `objects` its extern objects by the property that names them.
    """

    name: str
    declaration: syntax.TableDeclaration
    actions: dict[str, ActionSymbol] = field(default_factory=dict)
    id: int = 0
    objects: dict[str, Instance] = field(default_factory=dict)
    idle_timeout: bool = False
    smaller_wins: bool = False
    priority_delta: int = 1
    calls: int = 0


@dataclass(slots=True, eq=False)
class Instance:
    """An extern object by its full name; a parameter stands for the one that it is `bound` to.

    `constructor` is what its constructor takes, where the program itself declares it.
    """

    name: str
    type: ExternType
    arguments: tuple[ir.Given, ...] = ()
    id: int = 0
    bound: Instance | None = None
    at: Location | None = None
    annotations: Sequence[syntax.Annotation] = ()
    constructor: tuple[Type, ...] | None = None
    methods: dict[str, RoutineSymbol] = field(default_factory=dict)
    """Abstract methods, which it defines itself."""
    calls: list[syntax.Call] = field(default_factory=list)
    """Those of the architecture's methods; a parameter's are of the one that it is bound to."""

    @property
    def full_name(self) -> str:
        """The name of the object that is meant; "" for a parameter that stands for none."""
        return self.bound.full_name if self.bound is not None else self.name


@dataclass(slots=True, eq=False)
class ValueSetSymbol:
    """A value set by its full name; `fields` are what its members have, one for each key of a select."""

    name: str
    type: Type
    size: int
    fields: dict[str, tuple[Type, ir.MatchKind]]
    at: Location
    id: int = 0
    annotations: Sequence[syntax.Annotation] = ()


@dataclass(slots=True, eq=False)
class FunctionSymbol:
    """The functions of a name, which differ in the names of their parameters: without bodies, and with.

    `shapes` are these names, of each; `lengths` how many the routines have.
    """

    name: str
    scope: Scope
    externs: list[syntax.MethodDeclaration] = field(default_factory=list)
    routines: list[RoutineSymbol] = field(default_factory=list)
    shapes: set[frozenset[str]] = field(default_factory=set)
    lengths: set[int] = field(default_factory=set)

    def copy(self) -> FunctionSymbol:
        """Return the functions that there are now."""
        parts = list(self.externs), list(self.routines), set(self.shapes), set(self.lengths)
        return FunctionSymbol(self.name, self.scope, *parts)

    @property
    def declarations(self) -> list[syntax.MethodDeclaration | syntax.FunctionDeclaration]:
        """All of them."""
        return [*self.externs, *(routine.declaration for routine in self.routines)]


@dataclass(slots=True, eq=False)
class BlockSymbol:
    """A parser, a control, or the type of one; or an instance of one, then by its full name."""

    name: str
    declaration: syntax.BlockDeclaration
    parameters: list[ParameterSymbol]
    variables: list[Variable] = field(default_factory=list)
    actions: list[ActionSymbol] = field(default_factory=list)
    tables: list[TableSymbol] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    value_sets: list[ValueSetSymbol] = field(default_factory=list)
    blocks: dict[str, BlockSymbol] = field(default_factory=dict)
    """Instances inside, by full name."""
    constructor: list[ParameterSymbol] = field(default_factory=list)
    scope: Scope | None = None
    """The one around its declaration, as it was there."""
    used: bool = False
    unchecked: bool = False
    """Nobody has looked inside yet: without parameters for types it is checked as its first instance."""
    objects: dict[str, Instance] = field(default_factory=dict)
    """Parameters that are extern objects, by name."""
    copies: list[BlockSymbol] = field(default_factory=list)
    """The same instance applied to other objects, or to other `fixed` arguments."""
    copy: Callable[..., BlockSymbol] | None = None
    """Makes one of the `copies`, under a name of its own."""
    has_fixed_parameters: bool = False
    """It has parameters of type int or string, and is made where it is applied."""
    fixed: Fixed = ()
    """The arguments for these."""
    calls: int = 0
    applied: list[syntax.Call] = field(default_factory=list)
    """The calls of an instance."""
    by_type: dict[str, BlockSymbol] = field(default_factory=dict)
    """Instances inside that stand where their types are applied."""
    states: int = 0
    """How many states a parser comes to."""


@dataclass(slots=True, eq=False)
class BlockInstance:
    """The name of an instance of a parser or control; `is_new` if a constructor's argument makes it.

    What a constructor is given is called as the type of its parameter says: by the names and with the default
    values of `parameters`.
    """

    name: str
    block: BlockSymbol
    is_new: bool = False
    parameters: Sequence[ParameterSymbol] | None = None


@dataclass(slots=True, eq=False)
class PackageSymbol:
    """A package type; each parameter is a block type. A `typedef` may have given it type arguments."""

    name: str
    declaration: syntax.PackageDeclaration
    parameters: list[ParameterSymbol]
    arguments: Sequence[syntax.TypeRef] = ()


@dataclass(slots=True, eq=False)
class PackageInstance:
    """An object of a package, such as main."""

    name: str
    package: PackageSymbol


Symbol: TypeAlias = (
    Variable
    | ConstantSymbol
    | TypeSymbol
    | FamilySymbol
    | ErrorList
    | ActionSymbol
    | TableSymbol
    | Instance
    | FunctionSymbol
    | ValueSetSymbol
    | ExternSymbol
    | BlockSymbol
    | BlockInstance
    | PackageSymbol
    | PackageInstance
)


class CallKind(enum.Enum):
    """What is called."""

    STATIC_ASSERT = enum.auto()
    SIZE = enum.auto()
    """How long values of a type are: a constant."""
    IS_VALID = enum.auto()
    SET_VALID = enum.auto()
    SET_INVALID = enum.auto()
    MOVE_STACK = enum.auto()
    """push_front or pop_front."""
    TABLE = enum.auto()
    BLOCK = enum.auto()
    """A parser or control that the program makes of its own."""
    ACTION = enum.auto()
    ROUTINE = enum.auto()
    """A function of the program, or a method that an object defines."""
    EXTERN_FUNCTION = enum.auto()
    EXTERN_METHOD = enum.auto()
    PACKET = enum.auto()
    """What parsers and deparsers do: a method of packet_in or packet_out, or verify."""


@dataclass(frozen=True, slots=True)
class CallTarget:
    """What a call calls.

    `directions` are those of the parameters of an extern; `is_own` says that the program itself declares it.
    """

    kind: CallKind
    name: str
    subject: Any = None
    types: tuple[Type, ...] = ()
    directions: tuple[str, ...] = ()
    is_own: bool = False


RECENT_NAMES = 256
"""Names that each copy of a scope has for itself, at most; those before are shared by many copies."""


class Scope:
    """Names, and the scope around them."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Symbol] = {}
        self.is_settled = False
        """Whether these are the names that another scope had some time before, which its copies share."""
        self._settled: Scope | None = None
        self.grown: set[str] = set()
        """Functions that got further overloads since then."""

    def copy(self) -> Scope:
        """Return a scope with the names that this one has now; what is declared later is not in it."""
        before = len(self._settled.names) if self._settled is not None else 0
        if len(self.names) - before + len(self.grown) > RECENT_NAMES:
            self._settled, before = Scope(self.parent), len(self.names)
            self._settled.is_settled, self._settled.names = True, _as_now(self.names.items())
            self.grown.clear()
        made = Scope(self._settled or self.parent)
        made.names = _as_now(islice(reversed(self.names.items()), len(self.names) - before))
        made.names |= _as_now((name, self.names[name]) for name in self.grown)
        return made

    def find(self, name: str) -> Symbol | None:
        """Return what a name means here, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    @property
    def outermost(self) -> Scope:
        """The scope of what is declared outside all blocks."""
        scope = inner = self
        while scope.parent is not None:
            inner, scope = scope, scope.parent
        return inner if scope.is_settled else scope

    def meant(self, node: syntax.NameRef | syntax.TypeRef | syntax.ActionElement) -> Symbol | None:
        """Return what a name in the program means here, or None; a leading dot passes over inner scopes.

        In the default value of a parameter it means what it means there.
        """
        scope: Scope = self.outermost if node.absolute else node.scope or self
        return scope.find(node.name)

    def visible(self) -> set[str]:
        """Return all names that can be seen from here."""
        names: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            names.update(scope.names)
            scope = scope.parent
        return names


def _as_now(names: Iterable[tuple[str, Symbol]]) -> dict[str, Symbol]:
    return {name: symbol.copy() if isinstance(symbol, FunctionSymbol) else symbol for name, symbol in names}


def control_name(node: syntax.Declaration, block: str) -> str:
    """Return the control plane's name of an action, table or instance.

    @name overrides the last part, or all of it after a dot.
    """
    name = given_name(node.annotations) or node.name
    if name.startswith("."):
        return name[1:]
    return f"{block}.{name}" if block else name


def same_parameters(found: Sequence[ParameterSymbol], wanted: Sequence[ParameterSymbol]) -> bool:
    """Return whether parameters have the directions and types of others, as far as is known."""
    return len(found) == len(wanted) and all(
        has.direction == needs.direction and same(has.type, needs.type)
        for has, needs in zip(found, wanted, strict=True)
    )
