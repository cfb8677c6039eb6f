# SPDX-License-Identifier: Apache-2.0
"""Checks the variables, constants and instances of a block.

Source: P4-16 Language Specification 1.2.5, "Constants and variable declarations", "Instantiations".
"""

from __future__ import annotations

from collections.abc import Iterable

from . import syntax
from .check_calls import CallChecker
from .check_conversions import is_constant
from .check_types import is_storable
from .diagnostics import did_you_mean
from .symbols import (
    BlockInstance,
    BlockSymbol,
    ConstantSymbol,
    Instance,
    Routine,
    Variable,
    control_name,
)
from .types import (
    UNKNOWN,
    BlockType,
    CompositeType,
    ExternType,
    StackType,
    Type,
    scalar_of,
)


class DeclarationChecker(CallChecker):
    """Local declarations; each variable gets a place that no other has."""

    routine_body: Routine | None = None

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._places: set[str] = set()

    def variable(self, node: syntax.VariableDeclaration) -> None:
        """Check a variable or constant, and declare it."""
        kind = self.resolve(node.type_ref)
        if node.constant:
            assert node.initial is not None
            value = self.constant(node.initial, kind, f"constant {node.name}")
            made_by = None
            if value is None:
                composite = isinstance(node.initial.type, CompositeType | StackType)
                made_by = node.initial if composite and is_constant(node.initial) else None
            known = kind if value is not None or made_by is not None else UNKNOWN
            self.declare(node.name, ConstantSymbol(node.name, known, value, made_by), node.at)
            return
        if node.initial is not None:
            self.expect(node.initial, kind, f"the value of {node.name}")
        if not is_storable(kind):
            if isinstance(kind, ExternType):
                self.reporter.error(
                    node.at,
                    f"{kind} is an object, not a value",
                    f"write {kind.symbol.name}(...) {node.name};",
                )
            elif kind != UNKNOWN:
                self.reporter.error(node.at, f"a variable cannot be {kind}", "give it a width: bit<8>")
            kind = UNKNOWN
        node.symbol = self.place_of(node.name, kind, True, "variable")
        self.declare(node.name, node.symbol, node.at)

    def place_of(self, name: str, kind: Type, writable: bool, role: str, prefix: str = "") -> Variable:
        """Make a variable of the present block with a place that no other has."""
        owner = self.routine_body or self.block
        start = prefix or (owner.name if owner else "program")
        place, number = f"{start}.{name}", 1
        while place in self._places:
            number += 1
            place = f"{start}.{name}_{number}"
        self._places.add(place)
        variable = Variable(name, kind, place, writable, role)
        if owner is not None and not isinstance(kind, ExternType):
            owner.variables.append(variable)
        return variable

    def instance(self, node: syntax.Instantiation) -> None:
        """Check an extern object, parser or control, and declare it."""
        kind = self.resolve(node.type_ref)
        if isinstance(kind, BlockType):
            self._block_instance(node, kind)
            return
        if node.names is not None:
            self.reporter.unsupported(node.at, "arguments by name", "give them in order")
        if node.members is not None:
            self.reporter.unsupported(node.at, "abstract methods")
        for argument in node.arguments:
            self.expression(argument)
        if not isinstance(kind, ExternType):
            if kind != UNKNOWN:
                self.reporter.unsupported(node.at, f"an instance of {kind} here")
            self.declare(node.name, ConstantSymbol(node.name, UNKNOWN, None), node.at)
            return
        name = f"{self.block.name}.{node.name}" if self.block else node.name
        self._check_constructor(node, kind)
        values = tuple(argument.value for argument in node.arguments)
        made = Instance(name, kind, tuple(value for value in values if value is not None))
        self.declare(node.name, made, node.at)
        if self.block is not None:
            self.block.instances.append(made)

    def _block_instance(self, node: syntax.Instantiation, kind: BlockType) -> None:
        assert isinstance(self.block, BlockSymbol)
        name = control_name(node, self.block.name)
        wanted = self.block.declaration.kind
        if kind.symbol.declaration.kind != wanted:
            self.reporter.error(node.at, f"{kind} cannot stand in a {wanted}")
            return
        made = self.block_of(node, kind.symbol, kind.arguments, name)
        if made is not None:
            self.block.blocks[name] = made
            self.declare(node.name, BlockInstance(name, made), node.at)

    def _check_constructor(self, node: syntax.Instantiation, kind: ExternType) -> None:
        declaration = kind.symbol.declaration
        known = self.architecture.objects.get(declaration.name)
        if known is None:
            hint = did_you_mean(declaration.name, self.architecture.objects)
            self.reporter.unsupported(node.type_ref.at, f"extern {declaration.name}", hint)
            return
        if len(node.arguments) != len(known.constructor):
            wanted = len(known.constructor)
            self.reporter.error(
                node.at, f"{declaration.name} takes {wanted} arguments; {len(node.arguments)} are given"
            )
        for argument, wanted_type in zip(node.arguments, known.constructor, strict=False):
            if argument.type != UNKNOWN and not isinstance(argument.value, wanted_type):
                wanted_name = "text in quotes" if wanted_type is str else "a number"
                self.reporter.error(
                    argument.at, f"the constructor was given {argument.type}; {wanted_name} expected"
                )
        for argument_type in kind.arguments:
            flat = isinstance(argument_type, CompositeType) and not argument_type.header
            parts: Iterable[Type] = (
                argument_type.fields.values() if isinstance(argument_type, CompositeType) else ()
            )
            if argument_type != UNKNOWN and not (
                flat and all(scalar_of(part) or part == UNKNOWN for part in parts)
            ):
                self.reporter.error(
                    node.type_ref.at, f"{kind} carries {argument_type}; a struct of numbers was expected"
                )
