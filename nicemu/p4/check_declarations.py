# SPDX-License-Identifier: Apache-2.0
"""Checks the variables, constants and instances of a block.

Source: P4-16 Language Specification 1.2.5, "Constants and variable declarations", "Instantiations".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nicemu.errors import ControlError
from nicemu.pipeline import PREFIXES, Kind, ir

from . import syntax
from .check_calls import CallChecker
from .check_type_references import UNINFERRED
from .constants import given_by, is_constant, is_given
from .symbols import (
    ActionSymbol,
    BlockInstance,
    BlockSymbol,
    ConstantSymbol,
    Instance,
    ParameterSymbol,
    Routine,
    Scope,
    TypeSymbol,
    Variable,
    control_name,
)
from .type_sizes import has_lacking, is_storable, parameter_fault, scalar_of
from .type_variables import same
from .types import (
    INTEGER,
    TEXT,
    UNKNOWN,
    BlockType,
    CompositeType,
    ExternType,
    P4ListType,
    StackType,
    Type,
    TypeVariable,
    UnknownType,
)


class DeclarationChecker(CallChecker):
    """Local declarations; each variable gets a place that no other has."""

    routine_body: Routine | None = None
    outside: ActionSymbol | None = None
    """The action outside all blocks that is being checked."""
    owner = ""
    """The object whose own methods and objects are being checked."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._places: dict[str, int] = {}
        """The places that variables have, and up to which number further ones of that name go."""
        self.instances: list[Instance] = []

    def value_parameters(
        self, nodes: Sequence[syntax.ParameterDeclaration], owner: str
    ) -> list[ParameterSymbol]:
        """Return the parameters of an action, function, parser or control, which are values at run time."""
        found = self.parameters_of(nodes)
        for item, node in zip(found, nodes, strict=True):
            fault, hint = parameter_fault(item.type, item.direction, owner)
            if fault:
                self.reporter.error(node.at if hint else node.type_ref.at, fault, hint)
                item.type = UNKNOWN
        self.check_defaults(nodes, found)
        return found

    def variable(self, node: syntax.VariableDeclaration) -> None:
        """Check a variable or constant, and declare it."""
        kind = self.resolve(node.type_ref)
        if node.constant:
            assert node.initial is not None
            value = self.constant(node.initial, kind, f"constant {node.name}")
            made_by = None
            if value is None:
                composite = isinstance(node.initial.type, CompositeType | StackType | P4ListType)
                made_by = node.initial if composite and is_constant(node.initial) else None
            known = kind if value is not None or made_by is not None else UNKNOWN
            symbol = ConstantSymbol(node.name, known, value, made_by, is_given(node.initial))
            self.declare(node.name, symbol, node.at)
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
            elif isinstance(kind, BlockType):
                name = kind.symbol.name
                self.reporter.error(node.at, f"{kind} is no value", f"write {name}(...) {node.name};")
            elif kind is not UNKNOWN:
                hint = "give it a width: bit<8>" if kind is INTEGER else "make it const"
                self.reporter.error(node.at, f"a variable cannot be {kind}", hint)
            kind = UNKNOWN
        node.symbol = self.place_of(node.name, kind, True, "variable")
        self.declare(node.name, node.symbol, node.at)

    def declare_unknown(self, node: syntax.Declaration) -> None:
        """Declare a name whose fault was reported, so that its uses are no further ones."""
        self.declare(node.name, ConstantSymbol(node.name, UNKNOWN, None), node.at)

    def place_of(self, name: str, kind: Type, writable: bool, role: str, prefix: str = "") -> Variable:
        """Make a variable of the present block with a place that no other has."""
        owner = self.routine_body or self.block or self.outside
        start = prefix or (owner.name if owner else "program")
        first = place = f"{start}.{name}"
        while place in self._places:
            self._places[first] += 1
            place = f"{first}_{self._places[first]}"
        self._places[place] = 1
        variable = Variable(name, kind, place, writable, role)
        if owner is not None and not isinstance(kind, ExternType):
            owner.variables.append(variable)
        return variable

    def instance(self, node: syntax.Instantiation) -> None:
        """Check an extern object, parser or control, and declare it."""
        kind = self.instantiated(node.type_ref)
        if node.members and not isinstance(kind, ExternType | UnknownType):
            self.reporter.error(node.at, f"{kind} has no abstract methods", "remove what is in braces")
        if isinstance(kind, BlockType):
            self._block_instance(node, kind)
            return
        if not isinstance(kind, ExternType):
            if kind is not UNKNOWN:
                hint = "externs, parsers, controls and packages can be"
                self.reporter.error(node.at, f"{kind} cannot be instantiated", hint)
            self.declare_unknown(node)
            return
        made = self.object_of(node, kind, self.full_name(node))
        self.members(node, made)
        self.declare(node.name, made, node.at)

    def members(self, node: syntax.Instantiation, made: Instance) -> None:
        """Check the methods that an object defines itself; the subclass that knows functions does it."""
        raise NotImplementedError

    def evaluate_annotations(self, annotations: Sequence[syntax.Annotation]) -> None:
        """Compute what stands in a @name, where that is no string in quotes, and in square brackets."""
        for annotation in annotations:
            if annotation.value is not None:
                name = self.constant(annotation.value, TEXT, "@name")
                annotation.tokens = [f'"{name}"'] if name is not None else []
            for value in annotation.values if annotation.structured else ():
                self._check_annotation_value(value, f"a value of @{annotation.name}")

    def _check_annotation_value(self, value: syntax.Expression, what: str) -> None:
        """Check a value in the square brackets of an annotation."""
        found = self.expression(value)
        is_number = isinstance(found, ir.Bits) or same(found, INTEGER)
        if found is UNKNOWN:
            return
        if not (is_number or isinstance(found, ir.Bool) or found is TEXT):
            self.reporter.error(value.at, f"{what} is {found}; a string, a number or a bool was expected")
        elif value.value is None:
            self.reporter.error(value.at, f"{what} must be known at compile time")
        elif is_number and not -(1 << 63) <= value.value < 1 << 63:
            hint = "write it as a string"
            self.reporter.error(value.at, f"{what} is {self.shown(value.value)}; 64 bits are allowed", hint)

    def full_name(self, node: syntax.Declaration) -> str:
        """Return the control plane's name of what is declared in the present block, or outside of all."""
        self.evaluate_annotations(node.annotations)
        return control_name(node, self.owner or (self.block.name if self.block else ""))

    def object_of(self, node: syntax.Instantiation | syntax.Call, kind: ExternType, name: str) -> Instance:
        """Return the extern object that a declaration or constructor makes, known by its full name."""
        prefix = PREFIXES.get(kind.symbol.name, 0)
        number = self.chosen_id(node, prefix) if isinstance(node, syntax.Instantiation) else 0
        notes = node.annotations if isinstance(node, syntax.Instantiation) else ()
        kind, arguments, constructor = self._constructor(node, kind)
        made = Instance(name, kind, arguments, number, None, node.at, notes, constructor)
        (self.block.instances if self.block is not None else self.instances).append(made)
        return made

    def _block_instance(self, node: syntax.Instantiation, kind: BlockType) -> None:
        assert isinstance(self.block, BlockSymbol)
        name = self.full_name(node)
        wanted = self.block.declaration.kind
        if kind.symbol.declaration.kind != wanted:
            self.reporter.error(node.at, f"{kind} cannot stand in a {wanted}")
            self.declare_unknown(node)
            return
        made = self.block_of(node, kind.symbol, kind.arguments, name)
        if made is None:
            self.declare_unknown(node)
        else:
            if name in self.block.blocks and node.name not in self.scope.names:
                self.reporter.error(node.at, f"two {wanted}s are called {name}", "give one another @name")
            self.block.blocks[name] = made
            self.declare(node.name, BlockInstance(name, made), node.at)

    def _constructor(
        self, node: syntax.Instantiation | syntax.Call, kind: ExternType
    ) -> tuple[ExternType, tuple[ir.Given, ...], tuple[Type, ...] | None]:
        """Check the arguments of an extern object's constructor; return its type, and their values.

        And their types, if the architecture does not have this extern.
        """
        declaration = kind.symbol.declaration
        constructors = [item for item in declaration.methods if item.name == declaration.name]
        if not constructors:
            what = f"extern {declaration.name} has no constructor: the architecture makes its objects"
            self.reporter.error(node.at, what)
            return _with_inferred(kind, {}), (), None
        if isinstance(node, syntax.Call) and any(item.abstract for item in declaration.methods):
            what = f"an object of {declaration.name} lacks what its abstract methods do"
            hint = f"declare {declaration.name}(...) name = {{ ... }}; and give that"
            self.reporter.error(node.at, what, hint)
        known = self.architecture.objects.get(declaration.name)
        type_arguments: dict[str, Type] = dict.fromkeys(
            declaration.type_parameters, UNKNOWN
        )  # where too few are given
        type_arguments |= dict(zip(declaration.type_parameters, kind.arguments, strict=False))
        outer = self.scope
        self.scope = Scope(kind.symbol.scope)
        for name, argument_type in type_arguments.items():
            open_type = TypeVariable(name) if argument_type == UNINFERRED else argument_type
            self.scope.names[name] = TypeSymbol(name, open_type)
        parameters = self.parameters_of(self.overload(constructors, node).parameters)
        self.scope = outer
        at = node.type_ref.at if isinstance(node, syntax.Instantiation) else node.at
        mark = self.reporter.mark()
        parameters = self.arrange(node, parameters, declaration.name)
        if self.reporter.mark() != mark:
            return _with_inferred(kind, {}), (), None
        if len(node.arguments) != len(parameters):
            wanted, given = len(parameters), len(node.arguments)
            hint = f"its parameters: {', '.join(item.name for item in parameters)}" if parameters else ""
            self.reporter.miscounted(at, declaration.name, "argument", wanted, given, hint)
            return _with_inferred(kind, {}), (), None
        if UNINFERRED in kind.arguments:
            left = [name for name, argument_type in type_arguments.items() if argument_type == UNINFERRED]
            inferred: dict[str, Type] = {}
            self.infer(node, declaration.name, left, parameters, inferred)
            kind = _with_inferred(kind, inferred)
        if known is None:
            own = [self._own_argument(*given) for given in zip(node.arguments, parameters, strict=True)]
            types = tuple(parameter.type for parameter in parameters)
            return kind, tuple(value for value in own if value is not None), types
        for argument_type, carried in zip(
            kind.arguments, known.carried(len(kind.arguments)) or (), strict=False
        ):
            if not _can_carry(argument_type, carried):
                what = f"{kind} carries {argument_type}; {carried.value} was expected"
                is_legal = carried is not Kind.NUMBER and isinstance(argument_type, CompositeType)
                (self.reporter.unsupported if is_legal else self.reporter.error)(at, what)
        values = [
            self.constant(argument, parameter.type, f"argument {parameter.name}")
            for argument, parameter in zip(node.arguments, parameters, strict=True)
        ]
        if None not in values and known.carried(len(kind.arguments)) is not None:
            shape = ir.ExternInstance(
                f"this {declaration.name}", declaration.name, tuple(values), (ir.BOOL,) * len(kind.arguments)
            )
            try:
                known.make(shape)
            except ControlError as error:  # such as an array that is too large
                self.reporter.error(at, str(error))
        return kind, tuple(value for value in values if value is not None), None

    def _own_argument(self, node: syntax.Expression, parameter: ParameterSymbol) -> ir.Given | None:
        """Return what the constructor of an extern of the program's own is given."""
        if not _can_be_given(parameter.type) or has_lacking(parameter.type, self.architecture.metadata):
            what = f"{parameter.type} as an argument of a constructor that the architecture does not have"
            self.reporter.unsupported(node.at, what)
            return None
        self.constant(node, parameter.type, f"argument {parameter.name}")
        return given_by(node)


def _with_inferred(kind: ExternType, inferred: Mapping[str, Type]) -> ExternType:
    """Return the type of an extern object with what its constructor tells for what was UNINFERRED."""
    pairs = zip(kind.symbol.declaration.type_parameters, kind.arguments, strict=False)
    return ExternType(
        kind.symbol,
        tuple(inferred.get(name, UNKNOWN) if item == UNINFERRED else item for name, item in pairs),
    )


def _can_be_given(kind: Type) -> bool:
    """Return whether a constructor in Python takes values of a type."""
    if isinstance(kind, P4ListType):
        return _can_be_given(kind.element)
    if isinstance(kind, CompositeType):
        return kind.kind in ("struct", "tuple", "array") and all(map(_can_be_given, kind.fields.values()))
    return scalar_of(kind) is not None or kind in (TEXT, INTEGER, UNKNOWN)


def _can_carry(kind: Type, carried: Kind) -> bool:
    if isinstance(kind, CompositeType) and not kind.header and kind.kind != "array":
        parts = kind.fields.values()
        return carried in (Kind.RECORD, Kind.FLAT) and all(
            scalar_of(part) or part is UNKNOWN for part in parts
        )
    if kind is UNKNOWN or isinstance(kind, TypeVariable):
        return True
    if carried is Kind.NUMBER:
        return isinstance(scalar_of(kind), ir.Bits)
    return scalar_of(kind) is not None and carried is not Kind.RECORD
