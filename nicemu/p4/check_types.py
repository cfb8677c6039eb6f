# SPDX-License-Identifier: Apache-2.0
"""Checks the declarations of types: structs and their like, enums, externs, and the parameters of all.

Source: P4-16 Language Specification 1.2.5, "Derived types".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from nicemu.pipeline import Architecture, ir

from . import syntax
from .annotations import MATCH, TRANSLATION, given_name, kept, translation_of, unquoted
from .check_type_references import TypeReferenceChecker, specialised_name
from .diagnostics import Location
from .symbols import FamilySymbol, PackageSymbol, ParameterSymbol, Scope, TypeSymbol
from .syntax_copy import fresh
from .type_sizes import fixed_bits, is_flat, is_storable, scalar_of, width_of
from .types import (
    INTEGER,
    MATCH_KIND,
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
    Type,
    TypeVariable,
    UnknownType,
    VarbitType,
)


class TypeChecker(TypeReferenceChecker):
    """Declarations of types; expressions come in the subclass."""

    def type_declaration(self, node: syntax.Declaration) -> bool:
        """Check a declaration of types; return False if it is none."""
        match node:
            case syntax.TypeAliasDeclaration():
                if node.declared is not None:
                    self.type_declaration(node.declared)
                package = self.scope.meant(node.type_ref)
                is_plain = not node.distinct and not node.type_ref.sizes
                if isinstance(package, PackageSymbol) and is_plain:
                    self._alias_of_package(node, package)
                    return True
                kind = self.resolve(node.type_ref)
                for note in node.annotations if not node.distinct else ():
                    if note.name == TRANSLATION:
                        what = f"@{TRANSLATION} has no effect on a typedef"
                        self.reporter.warning(note.at, what, "write type in place of typedef")
                if kind is MATCH_KIND and not node.distinct:
                    self.reporter.error(node.type_ref.at, f"a type cannot be another name of {kind}")
                if node.distinct and not isinstance(kind, ir.Bits | ir.Bool | NewType | UnknownType):
                    hint = "bit<N>, int<N>, bool, or a new type of these"
                    self.reporter.error(node.type_ref.at, f"a new type cannot be made of {kind}", hint)
                    kind = UNKNOWN
                elif node.distinct and kind is not UNKNOWN:
                    kind = NewType(node.name, kind, self._translation(node, kind), _notes_of_type(node))
                self.declare(node.name, TypeSymbol(node.name, kind), node.at)
            case syntax.StructDeclaration():
                self._struct(node)
            case syntax.EnumDeclaration():
                if not node.is_open:
                    self._enum(node)
            case syntax.ExternDeclaration():
                self.declare(node.name, ExternSymbol(node.name, node, self.scope), node.at)
                self._check_methods(node)
            case _:
                return False
        return True

    def _alias_of_package(self, node: syntax.TypeAliasDeclaration, package: PackageSymbol) -> None:
        """Declare another name of a package, with the type arguments that it is given."""
        ref = node.type_ref
        wanted = 0 if package.arguments else len(package.declaration.type_parameters)
        if len(ref.arguments) != wanted:
            self.reporter.miscounted(ref.at, ref.name, "type argument", wanted, len(ref.arguments))
        arguments = package.arguments or ref.arguments
        made = PackageSymbol(package.name, package.declaration, package.parameters, arguments)
        self.declare(node.name, made, node.at)

    def _translation(self, node: syntax.TypeAliasDeclaration, kind: Type) -> tuple[str, int] | None:
        """Return what @p4runtime_translation says of a new type, None where it does not stand."""
        for annotation in node.annotations:
            if annotation.name != TRANSLATION:
                continue
            found = translation_of(annotation.tokens)
            if found is None:
                hint = f'write @{TRANSLATION}("uri", bit<32>), or string for bit<32>'
                self.reporter.error(annotation.at, f"@{TRANSLATION} needs a URI and a type", hint)
            scalar = scalar_of(kind)
            if scalar is not None and scalar != ir.Bits(width_of(kind)):
                self.reporter.error(annotation.at, f"{kind} cannot be translated", "bit<N> can be")
            return found
        return None

    def _check_methods(self, node: syntax.ExternDeclaration) -> None:
        """Check methods, and that those of one name have parameters of different names or number."""
        seen: set[tuple[str, frozenset[str]]] = set()
        with self.inner_scope():
            self.declare_type_variables(node.type_parameters, node.at)
            for method in node.methods:
                self.prototype(method)
                ref = method.returns
                if ref is not None and ref.name in ("int", "string") and ref.width is None:
                    what = (
                        f"method {method.name} cannot return {ref.name}, which is known at compile time alone"
                    )
                    self.reporter.error(ref.at, what)
        for method in node.methods:
            known = method.name, frozenset(item.name for item in method.parameters)
            if known in seen:
                what = f"extern {node.name} has {method.name} with these parameters twice"
                self.reporter.error(method.at, what)
            seen.add(known)
            if method.abstract and [item.name for item in node.methods].count(method.name) > 1:
                self.reporter.error(method.at, f"abstract method {method.name} cannot be overloaded")

    def prototype(self, node: syntax.MethodDeclaration) -> None:
        """Check what a method, constructor or function of the architecture takes and returns."""
        with self.inner_scope():
            self.declare_type_variables(node.type_parameters, node.at)
            self.signature_of = "an extern"
            parameters = self.parameters_of(node.parameters)
            returns = self.returned(node.returns)
            self.signature_of = ""
            self.check_defaults(node.parameters, parameters)
        if node.returns is None:
            self.undirected(node.parameters, "a constructor")
        for item, written in zip(parameters, node.parameters, strict=True):
            kind = item.type
            if isinstance(kind, BlockType):
                self.reporter.error(written.type_ref.at, f"a parameter of {node.name} cannot be {kind}")
            elif item.direction and isinstance(kind, ExternType):
                what = f"{kind} as a parameter has no direction"
                self.reporter.error(written.at, what, "an object is no value")
            elif item.direction and (isinstance(kind, P4ListType) or kind in (INTEGER, TEXT, MATCH_KIND)):
                what = f"{kind} as a parameter has no direction"
                self.reporter.error(written.at, what, "it is known at compile time alone")
        if node.returns is not None and isinstance(returns, ExternType | BlockType):
            self.reporter.error(node.returns.at, f"{node.name} cannot return {returns}")

    def undirected(self, nodes: Sequence[syntax.ParameterDeclaration], owner: str) -> None:
        """Check that parameters, which are known at compile time, have no direction."""
        for node in nodes:
            if node.direction:
                what = f"a parameter of {owner} cannot be {node.direction}"
                self.reporter.error(node.at, what, "remove the direction")

    def required(self, nodes: Sequence[syntax.ParameterDeclaration], owner: str) -> None:
        """Check that no parameter is @optional: what is written here, and not the architecture, uses it."""
        for node in nodes:
            if any(item.name == "optional" for item in node.annotations):
                self.reporter.error(node.at, f"a parameter of {owner} cannot be @optional")

    def _struct(self, node: syntax.StructDeclaration) -> None:
        if not node.type_parameters:
            made = self._composite(node, node.name)
            if self._small_enough(made, node.at) is UNKNOWN:
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
            made = self._composite(node, specialised_name(node.name, arguments))
            if made.size <= ir.MAX_VALUES:
                self._check_layout(node, made)
            self.scope = inside
            return made

        with self.inner_scope():
            self.declare_type_variables(node.type_parameters, node.at)
        family = Family(node.name, len(node.type_parameters), specialised)
        mark = self.reporter.mark()
        family.of(tuple(TypeVariable(name) for name in node.type_parameters))
        failed = self.reporter.has_failed_since(mark)  # it may name itself
        symbol = TypeSymbol(node.name, UNKNOWN) if failed else FamilySymbol(node.name, family)
        self.declare(node.name, symbol, node.at)

    def _composite(self, node: syntax.StructDeclaration, name: str) -> CompositeType:
        """Return the type that is declared, by its name, with what stands before it and its fields."""
        return CompositeType(
            name,
            node.kind,
            self._fields(node),
            field_lists=self._field_lists(node),
            match_kinds=self._match_kinds(node),
            controller=self._controller(node),
            field_ids=self._field_ids(node),
            field_names=self._field_names(node),
            field_notes={part.name: kept(part.annotations, (MATCH,)) for part in node.fields},
            notes=kept(node.annotations),
        )

    def _field_lists(self, node: syntax.StructDeclaration) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for part in node.fields:
            for annotation in part.annotations:
                if annotation.name != "field_list":
                    continue
                numbers = [self.constant_integer(item, "a field list") for item in annotation.values]
                if not numbers or any(number is not None and not 0 <= number < 256 for number in numbers):
                    self.reporter.error(annotation.at, "@field_list needs numbers of field lists, 0 to 255")
                known = (number for number in numbers if number is not None)
                found[part.name] = *found.get(part.name, ()), *known
        return found

    def _field_ids(self, node: syntax.StructDeclaration) -> dict[str, int]:
        numbers = {part.name: self.chosen_id(part) for part in node.fields}
        self.distinct(
            f"fields of {node.kind} {node.name}", ((part.at, numbers[part.name]) for part in node.fields)
        )
        return numbers

    def _field_names(self, node: syntax.StructDeclaration) -> dict[str, str]:
        """Return what @name says of fields; together with the names of the others they are distinct."""
        names = {part.name: given_name(part.annotations).removeprefix(".") for part in node.fields}
        seen: set[str] = set()
        for part in node.fields:
            shown = names[part.name] or part.name
            if shown in seen and any(names.values()):
                what = f"two fields of {node.kind} {node.name} are called {shown}"
                self.reporter.error(part.at, what, "give one another @name")
            seen.add(shown)
        return {name: shown for name, shown in names.items() if shown not in ("", name)}

    def _match_kinds(self, node: syntax.StructDeclaration) -> dict[str, str]:
        found: dict[str, str] = {}
        for part in node.fields:
            for annotation in part.annotations:
                if annotation.name == MATCH and annotation.tokens:
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
            name = part.name if part.name not in fields else f"{part.name} at {part.at}"  # for lists to fit
            fields[name] = kind
        return fields

    def _check_layout(self, node: syntax.StructDeclaration, made: CompositeType) -> None:
        """Check that a header has one varbit at most, and whole bytes if something has it."""
        parts = made.fields.values()
        if not made.header or any(isinstance(part, TypeVariable | UnknownType) for part in parts):
            return
        varbits = [part for part in parts if isinstance(part, VarbitType)]
        if len(varbits) > 1:
            self.reporter.unsupported(node.at, f"{len(varbits)} varbits in header {made.name}")
        width_bits = fixed_bits(made)
        if width_bits is not None and width_bits > 8 * ir.MAX_HEADER_BYTES:
            what = f"a header of more than {ir.MAX_HEADER_BYTES} bytes: {made.name} has {width_bits // 8}"
            self.reporter.unsupported(node.at, what)
        if width_bits is not None and width_bits % 8 and not varbits:
            what = f"header {made.name} is {width_bits} bits long; a multiple of 8 was expected"
            hint = f"add a field of bit<{8 - width_bits % 8}>"
            if node.type_parameters:  # made because something has it
                self.reporter.error(node.at, what, hint)
            else:
                self.declared.ragged[made.name] = node.at, what, hint

    def open_enum(self, node: syntax.EnumDeclaration) -> None:
        """Declare some of the errors or match kinds."""
        listed = self.declared.errors if node.kind == "error" else self.declared.match_kinds
        for member in node.members:
            if member.name in listed:
                self.reporter.error(member.at, f"{node.kind} {member.name} is declared twice")
            else:
                first = ir.CORE_ERRORS if node.kind == "error" else ()
                listed[member.name] = _number_in(listed, member.name, first)

    def _enum(self, node: syntax.EnumDeclaration) -> None:
        underlying = self.resolve(node.underlying) if node.underlying else None
        if underlying is not None and not isinstance(underlying, ir.Bits):
            if underlying is not UNKNOWN:
                self.reporter.error(node.at, f"enum {node.name} cannot be represented as {underlying}")
            underlying = ir.Bits(64) if underlying is UNKNOWN else None
        members: dict[str, int] = {}
        for position, member in zip(_numbers(node, self.architecture), node.members, strict=True):
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
            if member.value is not None and not self.reporter.has_error_at(node.at):
                what = f"enum {node.name} has no representation, and its members have no values"
                self.reporter.error(node.at, what, f"write enum bit<N> {node.name}")
            return position
        if member.value is None:
            self.reporter.error(
                member.at, f"member {member.name} needs a value", f"write {member.name} = ..."
            )
            return 0
        if underlying is None:  # already reported
            return position
        value = self.constant_integer(member.value, "the value of a member") or 0
        kind = member.value.type
        if isinstance(kind, EnumType):
            kind = kind.underlying
        if isinstance(kind, ir.Bits) and kind != underlying:
            self.reporter.error(member.value.at, f"the value is {kind}; {underlying} was expected")
        elif not _fits(value, underlying):
            self.reporter.error(member.value.at, f"{self.shown(value)} does not fit {underlying}")
            return 0
        return value

    def _controller(self, node: syntax.StructDeclaration) -> str:
        """Return what @controller_header says, "" without it."""
        for annotation in node.annotations:
            if annotation.name != "controller_header":
                continue
            name = unquoted("".join(annotation.tokens))
            if name not in ir.CONTROLLER_HEADERS or node.kind != "header":
                allowed = " or ".join(f'"{item}"' for item in ir.CONTROLLER_HEADERS)
                what = f"@controller_header means nothing here: it makes a header {allowed}"
                self.reporter.warning(annotation.at, what)
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
        names: set[str] = set()
        for node in nodes:
            if node.name in names:
                self.reporter.error(node.at, f"two parameters are called {node.name}")
            names.add(node.name)
            kind = self.resolve(node.type_ref)
            if isinstance(kind, BlockType) and not kind.symbol.declaration.is_type:
                hint = "write the type of such a block"
                self.reporter.error(node.at, f"a parameter cannot be {kind}, which has a body", hint)
                kind = UNKNOWN
            if node.default is not None and node.direction in ("out", "inout"):
                self.reporter.error(node.at, f"{node.direction} parameter {node.name} has a default value")
            if node.default is not None and node.is_optional:
                self.reporter.error(node.at, f"@optional parameter {node.name} has a default value")
            symbol = ParameterSymbol(node.name, kind, node.direction)
            symbol.is_optional = node.is_optional
            if node.default is not None and node.direction in ("out", "inout"):
                symbol.is_optional = True  # calls that give nothing for it are not to blame
            elif node.default is not None:  # what it names is meant here, not where a call stands
                symbol.default = fresh(node.default, self.scope.copy())
            found.append(symbol)
        return found

    def declare_type_variables(self, names: Sequence[str], at: Location | None = None) -> None:
        """Declare type parameters in the present scope; what is declared at `at` has each of them once."""
        seen: set[str] = set()
        for name in names:
            if at is not None and name in seen:
                self.reporter.error(at, f"two type parameters are called {name}")
            seen.add(name)
            self.scope.names[name] = TypeSymbol(name, TypeVariable(name))


def _notes_of_type(node: syntax.TypeAliasDeclaration) -> tuple[ir.Annotation, ...]:
    return kept(node.annotations, (TRANSLATION,))


def _fits(value: int, kind: ir.Bits) -> bool:
    low = -(1 << (kind.width - 1)) if kind.signed else 0
    return low <= value < low + (1 << kind.width)


def _number_in(listed: Mapping[str, int], name: str, first: Sequence[str]) -> int:
    """Return the number of one more name: those that are `first` have their places, wherever they stand."""
    if name in first:
        return first.index(name)
    return len(first) + len(listed) - sum(other in listed for other in first)


def _numbers(node: syntax.EnumDeclaration, architecture: Architecture) -> list[int]:
    """Return the numbers of the members of an enum without values: those that the engine has for an
    architecture's enum, whatever their order and further ones in a program's own copy of its declarations.
    """
    known = architecture.enums.get(node.name, ())
    further = count(len(known))
    return [known.index(item.name) if item.name in known else next(further) for item in node.members]
