# SPDX-License-Identifier: Apache-2.0
"""Resolves names and types, and checks the declarations of types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from nicemu.pipeline import ir

from . import syntax
from .diagnostics import Location, Reporter, did_you_mean
from .types import (
    INTEGER,
    NOTHING,
    TEXT,
    UNKNOWN,
    BlockSymbol,
    BlockType,
    CompositeType,
    EnumType,
    ErrorList,
    ExternSymbol,
    ExternType,
    ParameterSymbol,
    Scope,
    Symbol,
    Type,
    TypeSymbol,
    TypeVariable,
)


@dataclass(slots=True)
class Declared:
    """What the whole program declares, in order."""

    headers: list[CompositeType] = field(default_factory=list)
    structs: list[CompositeType] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    match_kinds: list[str] = field(default_factory=list)


class TypeChecker:
    """Scopes, type references and type declarations; expressions come in the subclass."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.declared = Declared()
        self.scope = Scope()
        self.scope.names["error"] = ErrorList()

    # Scopes

    @contextmanager
    def inner_scope(self) -> Iterator[Scope]:
        """Names declared inside are forgotten at the end."""
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            yield self.scope
        finally:
            self.scope = outer

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
        if ref.stack is not None:
            self.reporter.unsupported(ref.at, "header stacks")
            return UNKNOWN
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
                return NOTHING
            case "varbit" | "tuple" | "list" | "match_kind" | "_":
                self.reporter.unsupported(ref.at, f"type {ref.name}")
                return UNKNOWN
        symbol = self.find(ref.name, ref.at, "type")
        if symbol is None:
            return UNKNOWN
        arguments = tuple(self.resolve(argument) for argument in ref.arguments)
        if isinstance(symbol, TypeSymbol) and not arguments:
            return symbol.type
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
        if not 0 < width <= ir.MAX_WIDTH_BITS:
            self.reporter.error(
                ref.width.at, f"{ref.name}<{_short(width)}>: a width of 1 to {ir.MAX_WIDTH_BITS} was expected"
            )
            return UNKNOWN
        return ir.Bits(width, ref.name == "int")

    # Declarations

    def type_declaration(self, node: syntax.Declaration) -> bool:
        """Check a declaration of types; return False if it is none."""
        match node:
            case syntax.TypeAliasDeclaration():
                if node.distinct:
                    self.reporter.unsupported(node.at, "'type' (a new type)", "use typedef")
                self.declare(node.name, TypeSymbol(node.name, self.resolve(node.type_ref)), node.at)
            case syntax.StructDeclaration():
                self._struct(node)
            case syntax.EnumDeclaration():
                self._enum(node)
            case syntax.ExternDeclaration():
                self.declare(node.name, ExternSymbol(node.name, node, self.scope), node.at)
            case _:
                return False
        return True

    def _struct(self, node: syntax.StructDeclaration) -> None:
        if node.kind == "header_union":
            self.reporter.unsupported(node.at, "header unions")
        if node.type_parameters:
            self.reporter.unsupported(node.at, f"{node.kind}s with type parameters")
            self.declare(node.name, TypeSymbol(node.name, UNKNOWN), node.at)
            return
        header = node.kind == "header"
        fields: dict[str, Type] = {}
        width_bits = 0
        for part in node.fields:
            kind = self.resolve(part.type_ref)
            if part.name in fields:
                self.reporter.error(part.at, f"{node.kind} {node.name} has two fields {part.name}")
            width = _field_bits(kind)
            width_bits += width or 0
            if header and width is None and kind != UNKNOWN:
                self.reporter.error(
                    part.at, f"a header field cannot be {kind}", "bit<N>, int<N>, bool or an enum with a type"
                )
                kind = UNKNOWN
            elif not header and not isinstance(
                kind, ir.Bits | ir.Bool | ir.ErrorCode | EnumType | CompositeType
            ):
                if kind != UNKNOWN:
                    self.reporter.error(part.at, f"a struct field cannot be {kind}")
                kind = UNKNOWN
            fields[part.name] = kind
        if header and width_bits % 8 and UNKNOWN not in fields.values():
            self.reporter.error(
                node.at,
                f"header {node.name} is {width_bits} bits long; a multiple of 8 was expected",
                f"add a field of bit<{8 - width_bits % 8}>",
            )
        made = CompositeType(node.name, header, fields)
        self.declare(node.name, TypeSymbol(node.name, made), node.at)
        (self.declared.headers if header else self.declared.structs).append(made)

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

    def parameters_of(self, nodes: Sequence[syntax.ParameterDeclaration]) -> list[ParameterSymbol]:
        """Return the parameters of an action, method or block, their types resolved."""
        found: list[ParameterSymbol] = []
        for node in nodes:
            if any(other.name == node.name for other in found):
                self.reporter.error(node.at, f"two parameters are called {node.name}")
            if node.default is not None:
                self.reporter.unsupported(node.at, "default values of parameters")
            found.append(ParameterSymbol(node.name, self.resolve(node.type_ref), node.direction))
        return found

    def declare_type_variables(self, names: Sequence[str]) -> None:
        """Declare type parameters in the present scope."""
        for name in names:
            self.scope.names[name] = TypeSymbol(name, TypeVariable(name))


def _field_bits(kind: Type) -> int | None:
    """Return the bits that a type takes in a header, None if it cannot stand there."""
    if isinstance(kind, EnumType):
        kind = kind.underlying or UNKNOWN
    if isinstance(kind, ir.Bits):
        return kind.width
    return 1 if isinstance(kind, ir.Bool) else None


def _fits(value: int, kind: ir.Bits) -> bool:
    low = -(1 << (kind.width - 1)) if kind.signed else 0
    return low <= value < low + (1 << kind.width)


def _short(value: int) -> str:
    text = hex(value) if abs(value) >= 1 << 64 else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
