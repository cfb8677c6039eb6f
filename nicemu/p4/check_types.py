# SPDX-License-Identifier: Apache-2.0
"""Resolves names and types, and checks the declarations of types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from nicemu.pipeline import ARCHITECTURES, Architecture, ir

from . import syntax
from .diagnostics import Location, Reporter, did_you_mean
from .symbols import (
    BlockSymbol,
    ErrorList,
    FamilySymbol,
    ParameterSymbol,
    Scope,
    Symbol,
    TypeSymbol,
)
from .types import (
    INTEGER,
    NOTHING,
    TEXT,
    UNKNOWN,
    BlockType,
    CompositeType,
    EnumType,
    ExternSymbol,
    ExternType,
    Family,
    NewType,
    P4ListType,
    StackType,
    Type,
    TypeVariable,
    UnknownType,
    VarbitType,
    fixed_bits,
    is_flat,
    scalar_of,
)

MAX_NAME_CHARACTERS = 200
"""Longest list of type arguments that a type's name shows in messages."""


@dataclass(slots=True)
class Declared:
    """What the whole program declares, in order."""

    composites: list[CompositeType] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    match_kinds: list[str] = field(default_factory=list)


class TypeChecker:
    """Scopes, type references and type declarations; expressions come in the subclass."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.declared = Declared()
        self.scope = Scope()
        self.scope.names["error"] = ErrorList()
        self.tuples = Family("tuple", 0, _tuple_of)
        self._records: dict[tuple[str, ...], Family] = {}
        self.architecture: Architecture = next(iter(ARCHITECTURES.values()))

    # Scopes

    def inner_scope(self) -> _InnerScope:
        """Names declared inside are forgotten at the end."""
        return _InnerScope(self)

    def declare(self, name: str, symbol: Symbol, at: Location) -> None:
        """Give a name its meaning in the present scope; twice is an error."""
        if name in self.scope.names:
            self.reporter.error(at, f"{name} is declared twice in the same scope", "choose another name")
        self.scope.names[name] = symbol

    def find(self, name: str, at: Location, what: str = "name") -> Symbol | None:
        """Return what a name means; report it if it means nothing."""
        symbol = self.scope.find(name)
        if symbol is None:
            self.reporter.error(at, f"unknown {what} {name}", did_you_mean(name, self.scope.visible()))
        return symbol

    # Type references

    def constant_integer(self, node: syntax.Expression, what: str) -> int | None:
        """Return the value of a compile-time integer, or report; the subclass that knows expressions does
        it.
        """
        raise NotImplementedError

    def resolve(self, ref: syntax.TypeRef) -> Type:
        """Return the type that a reference means; UNKNOWN if it was reported."""
        kind = self._element(ref)
        if ref.stack is None:
            return kind
        size = self.constant_integer(ref.stack, "the size of a stack")
        if size is None or kind == UNKNOWN:
            return UNKNOWN
        if not isinstance(kind, CompositeType) or kind.kind not in ("header", "header_union"):
            self.reporter.error(ref.at, f"a stack of {kind}; headers or header unions were expected")
            return UNKNOWN
        if not 0 < size <= ir.MAX_STACK_SIZE:
            self.reporter.error(
                ref.stack.at, f"a stack of {_short(size)}; 1 to {ir.MAX_STACK_SIZE} headers were expected"
            )
            return UNKNOWN
        return StackType(kind, size)

    def returned(self, ref: syntax.TypeRef | None) -> Type:
        """Return the type of what a function or method returns; a constructor has none."""
        if ref is None or (ref.name == "void" and ref.stack is None):
            return NOTHING
        return self.resolve(ref)

    def _element(self, ref: syntax.TypeRef) -> Type:
        match ref.name:
            case "bit" | "int":
                return self._bits(ref)
            case "bool":
                return ir.BOOL
            case "error":
                return ir.ERROR
            case "string":
                return TEXT
            case "void":
                self.reporter.error(ref.at, "void is the type of no value", "functions alone return it")
                return UNKNOWN
            case "varbit":
                return self._varbit(ref)
            case "tuple":
                items = tuple(self.resolve(argument) for argument in ref.arguments)
                for argument, item in zip(ref.arguments, items, strict=True):
                    if item != UNKNOWN and not is_storable(item):
                        self.reporter.error(argument.at, f"a tuple cannot hold {item}")
                        return UNKNOWN
                return UNKNOWN if UNKNOWN in items else self._small_enough(self.tuples.of(items), ref.at)
            case "list":
                return self._list(ref)
            case "match_kind" | "_":
                self.reporter.unsupported(ref.at, f"type {ref.name}")
                return UNKNOWN
        symbol = self.find(ref.name, ref.at, "type")
        if symbol is None:
            return UNKNOWN
        arguments = tuple(self.resolve(argument) for argument in ref.arguments)
        if isinstance(symbol, TypeSymbol) and not arguments:
            return symbol.type
        if isinstance(symbol, FamilySymbol):
            self._count(ref, symbol.family.parameters)
            if len(arguments) != symbol.family.parameters or UNKNOWN in arguments:
                return UNKNOWN
            return self._small_enough(symbol.family.of(arguments), ref.at)
        if isinstance(symbol, ExternSymbol):
            self._count(ref, len(symbol.declaration.type_parameters))
            return ExternType(symbol, arguments)
        if isinstance(symbol, BlockSymbol):
            self._count(ref, len(symbol.declaration.type_parameters))
            return BlockType(symbol, arguments)
        if isinstance(symbol, TypeSymbol):
            self.reporter.error(ref.at, f"{ref.name} takes no type arguments", "remove <...>")
            return symbol.type
        self.reporter.error(ref.at, f"{ref.name} is no type")
        return UNKNOWN

    def _count(self, ref: syntax.TypeRef, wanted: int) -> None:
        if len(ref.arguments) != wanted:
            given = len(ref.arguments)
            self.reporter.error(ref.at, f"{ref.name} takes {wanted} type arguments; {given} are given")

    def _bits(self, ref: syntax.TypeRef) -> Type:
        if ref.width is None:
            return ir.Bits(1) if ref.name == "bit" else INTEGER
        width = self.constant_integer(ref.width, "a width")
        if width is None:
            return UNKNOWN
        least = int(ref.name == "int")
        if not least <= width <= ir.MAX_WIDTH_BITS:
            what = f"a width of {least} to {ir.MAX_WIDTH_BITS} was expected"
            self.reporter.error(ref.width.at, f"{ref.name}<{_short(width)}>: {what}")
            return UNKNOWN
        return _bits_of(width, ref.name == "int")

    def _small_enough(self, kind: CompositeType, at: Location) -> Type:
        """Return a type; UNKNOWN where it is larger than the engine takes, before it is walked through."""
        if kind.size <= ir.MAX_VALUES:
            return kind
        self.reporter.error(at, f"{kind} holds {_short(kind.size)} values; {ir.MAX_VALUES} are allowed")
        return UNKNOWN

    def _list(self, ref: syntax.TypeRef) -> Type:
        self._count(ref, 1)
        element = self.resolve(ref.arguments[0]) if len(ref.arguments) == 1 else UNKNOWN
        if element == UNKNOWN:
            return UNKNOWN
        if (
            not is_storable(element)
            and not isinstance(element, P4ListType)
            and element not in (INTEGER, TEXT)
        ):
            self.reporter.error(ref.at, f"a list cannot hold {element}")
            return UNKNOWN
        return P4ListType(element)

    def _varbit(self, ref: syntax.TypeRef) -> Type:
        width = self.constant_integer(ref.width, "a width") if ref.width is not None else 0
        if width is None:
            return UNKNOWN
        if not 0 < width <= ir.MAX_VARBIT_BITS:
            self.reporter.error(
                ref.at, f"varbit<{_short(width)}>: a width of 1 to {ir.MAX_VARBIT_BITS} was expected"
            )
            return UNKNOWN
        return VarbitType(width)

    # Declarations

    def type_declaration(self, node: syntax.Declaration) -> bool:
        """Check a declaration of types; return False if it is none."""
        match node:
            case syntax.TypeAliasDeclaration():
                kind = self.resolve(node.type_ref)
                if node.distinct and kind != UNKNOWN:
                    if scalar_of(kind) is None:
                        self.reporter.error(node.type_ref.at, f"a new type cannot be made of {kind}")
                    kind = NewType(node.name, kind)
                self.declare(node.name, TypeSymbol(node.name, kind), node.at)
            case syntax.StructDeclaration():
                self._struct(node)
            case syntax.EnumDeclaration():
                self._enum(node)
            case syntax.ExternDeclaration():
                self._check_methods(node)
                self.declare(node.name, ExternSymbol(node.name, node, self.scope), node.at)
            case _:
                return False
        return True

    def _check_methods(self, node: syntax.ExternDeclaration) -> None:
        """Check that methods of one name have parameters of different names or number."""
        seen: set[tuple[str, frozenset[str]]] = set()
        for method in node.methods:
            known = method.name, frozenset(item.name for item in method.parameters)
            if known in seen:
                what = f"extern {node.name} has {method.name} with these parameters twice"
                self.reporter.error(method.at, what)
            seen.add(known)

    def _struct(self, node: syntax.StructDeclaration) -> None:
        if not node.type_parameters:
            made = CompositeType(
                node.name,
                node.kind,
                self._fields(node),
                field_lists=_field_lists(node),
                match_kinds=self._match_kinds(node),
                controller=self._controller(node),
            )
            if self._small_enough(made, node.at) == UNKNOWN:
                self.declare(node.name, TypeSymbol(node.name, UNKNOWN), node.at)
                return
            self._check_layout(node, made)
            self.declare(node.name, TypeSymbol(node.name, made), node.at)
            self.declared.composites.append(made)
            return
        outside = self.scope

        def specialised(arguments: tuple[Type, ...]) -> CompositeType:
            inside, self.scope = self.scope, Scope(outside)
            for name, kind in zip(node.type_parameters, arguments, strict=True):
                self.scope.names[name] = TypeSymbol(name, kind)
            made = CompositeType(_specialised_name(node.name, arguments), node.kind, self._fields(node))
            if made.size <= ir.MAX_VALUES:
                self._check_layout(node, made)
            self.scope = inside
            return made

        with self.inner_scope():
            self.declare_type_variables(node.type_parameters, node.at)
        family = Family(node.name, len(node.type_parameters), specialised)
        family.of(tuple(TypeVariable(name) for name in node.type_parameters))
        self.declare(node.name, FamilySymbol(node.name, family), node.at)

    def _match_kinds(self, node: syntax.StructDeclaration) -> dict[str, str]:
        found: dict[str, str] = {}
        for part in node.fields:
            for annotation in part.annotations:
                if annotation.name == "match" and annotation.tokens:
                    kind = annotation.tokens[0]
                    if kind in [item.value for item in ir.MatchKind]:
                        found[part.name] = kind
                    else:
                        self.reporter.error(annotation.at, f"unknown match kind {kind}")
        return found

    def _fields(self, node: syntax.StructDeclaration) -> dict[str, Type]:
        fields: dict[str, Type] = {}
        for part in node.fields:
            kind = self.resolve(part.type_ref)
            if part.name in fields:
                self.reporter.error(part.at, f"{node.kind} {node.name} has two fields {part.name}")
            hint = ""
            match node.kind:
                case "header":
                    fits = is_flat(kind) or isinstance(kind, VarbitType)
                    hint = "bit<N>, int<N>, varbit<N>, bool, an enum with a type, or a struct of such"
                case "header_union":
                    fits = isinstance(kind, CompositeType) and kind.header
                case _:
                    fits = is_storable(kind)
            if not fits and not isinstance(kind, TypeVariable | UnknownType):
                named = node.kind.replace("_", " ")
                self.reporter.error(part.at, f"a {named} field cannot be {kind}", hint)
                kind = UNKNOWN
            fields[part.name] = kind
        return fields

    def _check_layout(self, node: syntax.StructDeclaration, made: CompositeType) -> None:
        """Check that a header is whole bytes and has one varbit at most."""
        parts = made.fields.values()
        if not made.header or any(isinstance(part, TypeVariable | UnknownType) for part in parts):
            return
        varbits = [part for part in parts if isinstance(part, VarbitType)]
        if len(varbits) > 1:
            self.reporter.error(node.at, f"header {made.name} has {len(varbits)} varbits; one was expected")
        width_bits = fixed_bits(made)
        if width_bits is not None and width_bits % 8 and not varbits:
            self.reporter.error(
                node.at,
                f"header {made.name} is {width_bits} bits long; a multiple of 8 was expected",
                f"add a field of bit<{8 - width_bits % 8}>",
            )

    def _enum(self, node: syntax.EnumDeclaration) -> None:
        if node.kind in ("error", "match_kind"):
            listed = self.declared.errors if node.kind == "error" else self.declared.match_kinds
            for member in node.members:
                if member.name in listed:
                    self.reporter.error(member.at, f"{node.kind} {member.name} is declared twice")
                else:
                    listed.append(member.name)
            return
        underlying = self.resolve(node.underlying) if node.underlying else None
        if underlying is not None and not isinstance(underlying, ir.Bits):
            if underlying != UNKNOWN:
                self.reporter.error(node.at, f"enum {node.name} cannot be represented as {underlying}")
            underlying = None
        members: dict[str, int] = {}
        for position, member in enumerate(node.members):
            if member.name in members:
                self.reporter.error(member.at, f"enum {node.name} has two members {member.name}")
            members[member.name] = self._member_value(node, member, underlying, position)
        self.declare(node.name, TypeSymbol(node.name, EnumType(node.name, members, underlying)), node.at)

    def _member_value(
        self,
        node: syntax.EnumDeclaration,
        member: syntax.EnumMember,
        underlying: ir.Bits | None,
        position: int,
    ) -> int:
        if node.underlying is None:
            if member.value is not None:
                self.reporter.error(
                    member.at, f"enum {node.name} has no representation", f"write enum bit<N> {node.name}"
                )
            return position
        if member.value is None:
            self.reporter.error(
                member.at, f"member {member.name} needs a value", f"write {member.name} = ..."
            )
            return 0
        value = self.constant_integer(member.value, "the value of a member") or 0
        if underlying is not None and not _fits(value, underlying):
            self.reporter.error(member.value.at, f"{_short(value)} does not fit {underlying}")
            return 0
        return value

    def _controller(self, node: syntax.StructDeclaration) -> str:
        """Return what @controller_header says, "" without it."""
        for annotation in node.annotations:
            if annotation.name != "controller_header":
                continue
            name = "".join(annotation.tokens).strip('"')
            if name not in ir.CONTROLLER_HEADERS or node.kind != "header":
                allowed = " or ".join(f'"{item}"' for item in ir.CONTROLLER_HEADERS)
                self.reporter.error(annotation.at, f"@controller_header needs a header, and {allowed}")
                return ""
            flat = all(scalar_of(kind) is not None for kind in self._fields(node).values())
            if not flat:
                self.reporter.error(annotation.at, f"a header for {name} holds numbers only")
                return ""
            if any(made.controller == name for made in self.declared.composites):
                self.reporter.error(annotation.at, f"two headers are the controller's {name}")
                return ""
            return name
        return ""

    def parameters_of(self, nodes: Sequence[syntax.ParameterDeclaration]) -> list[ParameterSymbol]:
        """Return the parameters of an action, method or block, their types resolved."""
        found: list[ParameterSymbol] = []
        for node in nodes:
            if any(other.name == node.name for other in found):
                self.reporter.error(node.at, f"two parameters are called {node.name}")
            kind = self.resolve(node.type_ref)
            if node.default is not None and node.direction in ("out", "inout"):
                self.reporter.error(node.at, f"{node.direction} parameter {node.name} has a default value")
            found.append(ParameterSymbol(node.name, kind, node.direction, default=node.default))
        return found

    def declare_type_variables(self, names: Sequence[str], at: Location | None = None) -> None:
        """Declare type parameters in the present scope; what is declared at `at` has each of them once."""
        for place, name in enumerate(names):
            if at is not None and name in names[:place]:
                self.reporter.error(at, f"two type parameters are called {name}")
            self.scope.names[name] = TypeSymbol(name, TypeVariable(name))


@cache
def _bits_of(width: int, signed: bool) -> ir.Bits:
    """Return the one object for a type, so that comparing types seldom compares their parts."""
    return ir.Bits(width, signed)


class _InnerScope:
    """A scope for a `with`."""

    __slots__ = ("_checker",)

    def __init__(self, checker: TypeChecker) -> None:
        self._checker = checker

    def __enter__(self) -> None:
        self._checker.scope = Scope(self._checker.scope)

    def __exit__(self, *_: object) -> None:
        outer = self._checker.scope.parent
        assert outer is not None
        self._checker.scope = outer


def _field_lists(node: syntax.StructDeclaration) -> dict[str, tuple[int, ...]]:
    return {
        part.name: tuple(int(token, 0) for token in annotation.tokens if token.isdecimal())
        for part in node.fields
        for annotation in part.annotations
        if annotation.name == "field_list"
    }


def is_storable(kind: Type) -> bool:
    """Return whether a variable can hold values of a type."""
    storable = CompositeType | StackType | VarbitType | TypeVariable
    return scalar_of(kind) is not None or isinstance(kind, storable)


def _specialised_name(family: str, arguments: Sequence[Type]) -> str:
    given = ", ".join(getattr(kind, "name", str(kind)) for kind in arguments)
    return f"{family}<{given if len(given) <= MAX_NAME_CHARACTERS else '...'}>"


def _tuple_of(items: tuple[Type, ...]) -> CompositeType:
    fields = {f"f{place}": item for place, item in enumerate(items)}
    return CompositeType(_specialised_name("tuple", items), "tuple", fields)


def _fits(value: int, kind: ir.Bits) -> bool:
    low = -(1 << (kind.width - 1)) if kind.signed else 0
    return low <= value < low + (1 << kind.width)


def _short(value: int) -> str:
    text = hex(value) if abs(value) >= 1 << 64 else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
