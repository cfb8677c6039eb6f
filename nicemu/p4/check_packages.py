# SPDX-License-Identifier: Apache-2.0
"""Checks what is instantiated outside all blocks: extern objects, and the package of the architecture.

Source: P4-16 Language Specification 1.2.5, "Instantiations", "Architecture description".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nicemu.pipeline import ARCHITECTURES

from . import syntax
from .check_blocks import constructed
from .check_tables import TableChecker
from .diagnostics import Location, Reporter
from .symbols import BlockSymbol, Instance, PackageInstance, PackageSymbol, ParameterSymbol
from .type_sizes import scalar_of
from .type_variables import same, substituted, unify
from .types import (
    INTEGER,
    TEXT,
    UNKNOWN,
    BlockType,
    CompositeType,
    ExternSymbol,
    ExternType,
    P4ListType,
    StackType,
    Type,
    TypeVariable,
    UnknownType,
)

_VALUES = (syntax.Number, syntax.BoolLiteral, syntax.CastOp, syntax.UnaryOp, syntax.BinaryOp)
"""What is no object, and no type."""


class PackageChecker(TableChecker):
    """Objects outside all blocks; the blocks of main are kept, the parser first."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._main: list[BlockSymbol] = []
        self._metadata: set[CompositeType] = set()
        """Those that were held against the architecture's."""

    def global_instance(self, node: syntax.Instantiation) -> None:
        """Check what is instantiated outside all blocks, and declare it."""
        symbol = self.find(node.type_ref, "package or extern")
        if symbol is None:
            return
        if isinstance(symbol, BlockSymbol):
            kind = symbol.declaration.kind
            self.reporter.error(
                node.at,
                f"a {kind} cannot be instantiated outside all blocks",
                f"write {symbol.name}(...) in main",
            )
            self.declare_unknown(node)
            return
        if isinstance(symbol, ExternSymbol):
            self.instance(node)
            return
        if not isinstance(symbol, PackageSymbol):
            self.reporter.error(node.at, f"{node.type_ref.name} cannot be instantiated")
            return
        if node.members:
            self.reporter.error(node.at, f"{symbol.name} has no abstract methods", "remove what is in braces")
        self.declare(node.name, PackageInstance(node.name, symbol), node.at)
        is_known = symbol.name == self.architecture.package
        if node.name != "main":
            what = f"package {node.name} is not used: main is the program"
            self.reporter.warning(node.at, what, f"call {node.name} main, if it is the program")
        elif not is_known:
            packages = ", ".join(item.package for item in ARCHITECTURES.values())
            self.reporter.unsupported(node.at, f"package {symbol.name}", f"there is {packages}")
        parameters = self.arrange(node, symbol.parameters, symbol.name)
        needed = sum(not parameter.is_optional for parameter in symbol.parameters)
        if len(node.arguments) != len(parameters) or not needed <= len(parameters) <= len(symbol.parameters):
            given = len(node.arguments)
            wanted = needed if given < needed else len(symbol.parameters)
            noun = "block" if is_known else "argument"
            self.reporter.miscounted(node.at, symbol.name, noun, wanted, given)
        elif node.name == "main" and is_known:
            self._program(node, symbol, parameters)
        else:
            given_types = self._type_arguments(node, symbol)
            bindings: dict[str, Type] = {}
            for argument, parameter in zip(node.arguments, parameters, strict=False):
                if isinstance(parameter.type, BlockType):
                    self._argument(argument, parameter, bindings, given_types)
                else:
                    self._unused_argument(argument, parameter, given_types, bindings)
            self._agree(node, symbol, given_types, bindings)

    def _unused_argument(
        self,
        node: syntax.Expression,
        parameter: ParameterSymbol,
        given_types: Mapping[str, Type],
        bindings: dict[str, Type],
    ) -> None:
        """Check an argument of a package that is not the program as far as it says what it is."""
        kind, what = substituted(parameter.type, given_types), f"argument {parameter.name}"
        ref = constructed(node) if isinstance(node, syntax.Call) else None
        is_value = scalar_of(kind) is not None or isinstance(kind, CompositeType | StackType | P4ListType)
        if is_value or kind in (INTEGER, TEXT):
            self.constant(node, kind, what)
        elif isinstance(kind, ExternType):
            self._object_of(node, kind, bindings, what)
        elif isinstance(kind, TypeVariable) and isinstance(node, _VALUES):
            found_type = self.expression(node)
            if bindings.get(kind.name, INTEGER) is INTEGER:
                bindings[kind.name] = found_type
            elif not same(bindings[kind.name], found_type) and found_type not in (INTEGER, UNKNOWN):
                known = bindings[kind.name]
                self.reporter.error(node.at, f"{what} is {found_type}; {known} was expected")
        elif ref is not None:
            found = self.find(ref, "parser, control or extern")
            if isinstance(kind, BlockType) and found is not None:
                wanted = kind.symbol.declaration.kind
                has = found.declaration.kind if isinstance(found, BlockSymbol) else "not a block"
                if has != wanted:
                    self.reporter.error(node.at, f"{what} is {has}; a {wanted} was expected")
        elif isinstance(node, syntax.NameRef):
            found = self.find(node, "object")
            if isinstance(kind, BlockType) and isinstance(found, BlockSymbol):
                self.reporter.error(
                    node.at, f"{node.name} is a type, and no object of it", f"write {node.name}()"
                )

    def _object_of(
        self, node: syntax.Expression, kind: ExternType, bindings: dict[str, Type], what: str
    ) -> None:
        """Check that an argument is an extern object of a type, or makes one."""
        ref = constructed(node) if isinstance(node, syntax.Call) else None
        found = self.find(node, "object") if isinstance(node, syntax.NameRef) else None
        made: object = found.type if isinstance(found, Instance) else None
        if ref is not None:
            made = self.instantiated(ref)
            if isinstance(made, ExternType) and isinstance(node, syntax.Call):
                made, _, _ = self._constructor(node, made)
        if made is UNKNOWN or (isinstance(node, syntax.NameRef) and found is None):
            return  # already reported
        if not isinstance(made, ExternType) or not unify(kind, made, bindings):
            shown = made if isinstance(made, ExternType) else "no object"
            self.reporter.error(node.at, f"{what} is {shown}; {kind} was expected")

    def _program(
        self, node: syntax.Instantiation, symbol: PackageSymbol, parameters: Sequence[ParameterSymbol]
    ) -> None:
        """Check the blocks of main."""
        given_types = self._type_arguments(node, symbol)
        bindings: dict[str, Type] = {}
        self._main = []
        roles = ("parser", *(role.name for role in self.architecture.roles))
        for argument, parameter in zip(node.arguments, parameters, strict=False):
            place = symbol.parameters.index(parameter)
            self.role = roles[place] if place < len(roles) else ""
            block = self._argument(argument, parameter, bindings, given_types)
            if block is not None:
                self._main.append(block)
        self.role = ""
        self._agree(node, symbol, given_types, bindings)

    def _agree(
        self,
        node: syntax.Instantiation,
        symbol: PackageSymbol,
        given_types: Mapping[str, Type],
        bindings: Mapping[str, Type],
    ) -> None:
        """Report type arguments that are others than those of the blocks."""
        for ref, (variable, told) in zip(
            node.type_ref.arguments or symbol.arguments, given_types.items(), strict=False
        ):
            found = bindings.get(variable, told)
            if not same(found, told):
                what = f"{variable} of {symbol.name} is {told} here, and {found} in its blocks"
                self.reporter.error(ref.at, what)

    def _type_arguments(self, node: syntax.Instantiation, symbol: PackageSymbol) -> dict[str, Type]:
        """Return the types that a package is given for its type parameters, as far as it is."""
        names = symbol.declaration.type_parameters
        given = node.type_ref.arguments or symbol.arguments
        if given and len(given) != len(names):
            self.reporter.miscounted(node.at, symbol.name, "type argument", len(names), len(given))
            return {}
        pairs = zip(names, given, strict=False)
        return {name: UNKNOWN if ref.name == "_" else self.resolve(ref) for name, ref in pairs}

    def _argument(
        self,
        node: syntax.Expression,
        parameter: ParameterSymbol,
        bindings: dict[str, Type],
        given_types: Mapping[str, Type],
    ) -> BlockSymbol | None:
        ref = constructed(node) if isinstance(node, syntax.Call) else node
        if not isinstance(ref, syntax.NameRef | syntax.TypeRef):
            self.reporter.error(node.at, f"{parameter.name} must be a block", "write Name()")
            return None
        name, block = ref.name, self.find(ref, "parser or control")
        if block is None:
            return None
        if not isinstance(block, BlockSymbol) or block.declaration.is_type:
            self.reporter.error(node.at, f"{name} is no parser or control with a body")
            return None
        if isinstance(node, syntax.NameRef):
            self.reporter.error(node.at, f"{name} is a type, and no object of it", f"write {name}()")
            return None
        if isinstance(node, syntax.Call):
            refs = node.constructed.arguments if node.constructed else node.type_arguments
            types = [self.resolve(ref) for ref in refs]
            like = _wanted_types(parameter.type, {**given_types, **bindings})
            again = any(one.declaration is block.declaration for one in self._main)
            own = parameter.name if again else block.name
            made = self.block_of(node, block, types, own, top=True, like=like)
            if made is None:
                return None
            block = made
        block.used = True
        if isinstance(parameter.type, BlockType):
            self._fits(node.at, block, parameter.type, bindings)
        return block

    def _fits(self, at: Location, block: BlockSymbol, wanted: BlockType, bindings: dict[str, Type]) -> None:
        """Check that a block has the parameters of its type."""
        kind = wanted.symbol.declaration
        if block.declaration.kind != kind.kind:
            self.reporter.error(at, f"{block.name} is a {block.declaration.kind}; a {kind.kind} was expected")
            return
        behind = wanted.symbol.parameters[len(block.parameters) :]
        may_be_left_out = all(item.is_optional or item.default is not None for item in behind)  # p4c #5685
        if len(block.parameters) > len(wanted.symbol.parameters) or not may_be_left_out:
            self.reporter.error(
                at,
                f"{block.name} has {len(block.parameters)} parameters; {kind.name} has "
                f"{len(wanted.symbol.parameters)}",
                _signature(wanted.symbol),
            )
            return
        renamed = dict(zip(kind.type_parameters, wanted.arguments, strict=False))
        faults: list[tuple[Location, str]] = []
        before = dict(bindings)
        for found, pattern, written in zip(
            block.parameters, wanted.symbol.parameters, block.declaration.parameters, strict=False
        ):
            expected = substituted(pattern.type, renamed)
            if found.direction != pattern.direction and not self.reporter.has_error_at(written.at):
                direction, other = (item.direction or "without direction" for item in (found, pattern))
                what = f"parameter {found.name} is '{direction}'; {kind.name} has '{other}'"
                faults.append((written.at, what))
            if not unify(expected, found.type, bindings):
                known = substituted(expected, bindings)
                faults.append((written.at, f"parameter {found.name} is {found.type}; {known} was expected"))
            elif isinstance(expected, CompositeType) and self.role:
                self._check_metadata(written.at, expected)
            elif self.role and not isinstance(found.type, CompositeType | ExternType | UnknownType):
                faults.append((written.at, f"parameter {found.name} is {found.type}; a struct was expected"))
        if len({place for place, _ in faults}) == len(block.parameters) > 1:
            bindings.clear()  # another block was meant
            bindings.update(before)
            faults = [(at, f"{block.declaration.name} is no {kind.name}: all its parameters differ")]
        for place, what in faults:
            self.reporter.error(place, what, _signature(wanted.symbol))

    def _check_metadata(self, at: Location, found: CompositeType) -> None:
        """Check that the metadata of the architecture is what the engine knows.

        A program's own copy of the declarations may lack fields of it, and have further ones.
        """
        metadata, hint = self.architecture.metadata, f"#include <{self.architecture.include}>"
        wanted = {part.name: part.type for part in metadata.fields}
        known = {name: scalar_of(kind) for name, kind in found.fields.items() if name in wanted}
        if found in self._metadata:
            return
        self._metadata.add(found)
        if not known or found.name != metadata.name:
            what = f"{found} is not the architecture's, which is struct {metadata.name}"
            self.reporter.error(at, what, hint)
            return
        for name, kind in known.items():
            if kind != wanted[name]:
                what = (
                    f"field {name} of {found} is {found.fields[name]}; the architecture's is {wanted[name]}"
                )
                self.reporter.error(at, what, hint)


def _wanted_types(kind: Type, bindings: dict[str, Type]) -> list[Type]:
    """Return the types of the parameters that a block of a type has, UNKNOWN for what nothing tells yet."""
    if not isinstance(kind, BlockType):
        return []
    renamed = dict(zip(kind.symbol.declaration.type_parameters, kind.arguments, strict=False))
    found = [substituted(substituted(item.type, renamed), bindings) for item in kind.symbol.parameters]
    return [UNKNOWN if isinstance(item, TypeVariable) else item for item in found]


def _signature(block: BlockSymbol) -> str:
    given = ", ".join(
        f"{item.direction} {getattr(item.type, 'name', item.type)} {item.name}".strip()
        for item in block.parameters
    )
    return f"{block.name}({given.replace('extern ', '')})"
