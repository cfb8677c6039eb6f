# SPDX-License-Identifier: Apache-2.0
"""Checks a whole program: names, types, widths, and what the target supports.

Everything is reported that can be; what was reported once has the type UNKNOWN and is not reported again.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from nicemu.pipeline import ARCHITECTURES, MAX_TABLE_SIZE, Architecture, Prefix, ir

from . import syntax
from .annotations import deprecation, given_name, package_info
from .check_blocks import Given, called_as
from .check_calls import PACKET_PLACES
from .check_names import Declared
from .check_packages import PackageChecker
from .constants import some_constant, some_number
from .control_names import check_attached, check_control_names, check_direct_meters
from .diagnostics import Location, Reporter, SourceFile
from .symbols import (
    WITHOUT_DIRECTION,
    ActionSymbol,
    BlockInstance,
    BlockSymbol,
    ConstantSymbol,
    Fixed,
    FunctionSymbol,
    Instance,
    PackageSymbol,
    ParameterSymbol,
    Scope,
    TableSymbol,
    TypeSymbol,
    ValueSetSymbol,
)
from .syntax_copy import fresh
from .type_sizes import scalar_of
from .type_variables import substituted
from .types import (
    INTEGER,
    TEXT,
    UNKNOWN,
    BlockType,
    CompositeType,
    EnumType,
    ExternSymbol,
    ExternType,
    NewType,
    StackType,
    Type,
    VarbitType,
)


@dataclass(slots=True)
class Checked:
    """A program that may be lowered: its blocks, the parser first, and what it declares."""

    architecture: Architecture
    declared: Declared
    parser: BlockSymbol
    controls: list[BlockSymbol]
    actions: list[ActionSymbol]
    instances: list[Instance]
    annotations: Sequence[syntax.Annotation]
    """What stands before main."""
    package: tuple[ir.Annotation, ...]


class Checker(PackageChecker):
    """Checks declarations in their order."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._actions: list[ActionSymbol] = []
        self._blocks: list[BlockSymbol] = []

    def program(self, declarations: Sequence[syntax.Declaration], end: Location) -> Checked | None:
        """Check all declarations; return what is to be lowered, None where that cannot be said."""
        for node in declarations:
            if isinstance(node, syntax.EnumDeclaration) and node.is_open:
                self.open_enum(node)  # its members count wherever they are declared
            else:
                self.declared_at.setdefault(node.name, node.at)
        self.architecture = self._architecture_of(declarations)
        for node in declarations:
            self._outermost(node)
        for block in self._blocks:
            if block.unchecked:
                self._for_itself(block)
        annotations = self._check_main(declarations, end)
        package = package_info(annotations, self.reporter)
        self._warn_of_unused(end.source)
        roles = self.architecture.roles
        needed = 1 + sum(not role.is_optional for role in roles)
        if not needed <= len(self._main) <= 1 + len(roles):
            return None
        self._check_core(end)
        if not self.reporter.failed:
            check_control_names(self._main, self._actions, self.instances, self.reporter)
            check_attached(self._main, self.instances, self.reporter)
            if self.architecture.name == "v1model":
                check_direct_meters(self._main, self.instances, self.reporter)
        return Checked(
            self.architecture,
            self.declared,
            self._main[0],
            self._main[1:],
            self._actions,
            self.instances,
            annotations,
            package,
        )

    def _outermost(self, node: syntax.Declaration) -> None:
        """Check what is declared outside of all blocks."""
        self.evaluate_annotations(node.annotations)
        self.declaring = node.at if node.name != "main" else None  # there, blocks are checked
        self._declaration(node)
        said, symbol = deprecation(node.annotations), self.scope.names.get(node.name)
        if said and symbol is not None and not isinstance(symbol, FunctionSymbol):
            self.deprecated[symbol] = said

    def _check_main(
        self, declarations: Sequence[syntax.Declaration], end: Location
    ) -> list[syntax.Annotation]:
        """Report a program without a main that is a package; return what stands before main."""
        called = [node for node in declarations if node.name == "main"]
        mains = [node for node in called if isinstance(node, syntax.Instantiation)]
        if not called:
            packages = " or ".join(f"{item.package}(...) main;" for item in ARCHITECTURES.values())
            self.reporter.error(end, "the program has no main", f"end it with {packages}")
        elif not mains or not (self._main or self.reporter.failed):
            what = "main is no instance of a package"
            self.reporter.error((mains or called)[0].at, what, "call this otherwise")
        annotations = [note for node in mains for note in node.annotations]
        self.evaluate_annotations(annotations)
        return annotations

    def _warn_of_unused(self, source: SourceFile) -> None:
        """Warn of the blocks of the program's own file that main does not reach; a fault may be why it does
        not. Those of files that it includes are for whoever wants them.
        """
        for block in self._blocks:
            is_own = block.declaration.at.source is source
            if is_own and not block.used and self._main and not self.reporter.failed:
                kind = block.declaration.kind
                self.reporter.warning(block.declaration.at, f"{kind} {block.name} is not used")

    def _architecture_of(self, declarations: Sequence[syntax.Declaration]) -> Architecture:
        """Return the architecture whose package main is; where that is none, one whose package there is."""
        made = [node.type_ref.name for node in declarations if isinstance(node, syntax.Instantiation)]
        for names in (made, self.declared_at):
            for known in ARCHITECTURES.values():
                if known.package in names:
                    return known
        return self.architecture

    def _check_core(self, end: Location) -> None:
        """Check that the included declarations are those that the engine knows."""
        for name, members in self.architecture.enums.items():
            found = self.scope.find(name)
            if found is None:  # a copy of the architecture that lacks it has nothing that takes it
                continue
            kind = found.type if isinstance(found, TypeSymbol) else None
            is_known = isinstance(kind, EnumType) and kind.underlying is None
            if not isinstance(kind, EnumType) or not is_known or not {*kind.members} & {*members}:
                hint = f"#include <{self.architecture.include}>"
                self.reporter.error(end, f"enum {name} is not the architecture's", hint)
        missing = [name for name in ir.CORE_ERRORS if name not in self.declared.errors]
        if len(missing) == len(ir.CORE_ERRORS):
            self.reporter.error(end, f"error {missing[0]} of core.p4 is not declared", "#include <core.p4>")
        for name in missing:  # an older core.p4 lacks some
            self.declared.errors[name] = ir.CORE_ERRORS.index(name)

    def _declaration(self, node: syntax.Declaration) -> None:
        if self.type_declaration(node):
            return
        match node:
            case syntax.VariableDeclaration() if node.constant:
                self.variable(node)
            case syntax.VariableDeclaration():
                hint = "make it const"
                if isinstance(self.scope.meant(node.type_ref), PackageSymbol | ExternSymbol):
                    hint = f"write {node.type_ref.name}(...) {node.name};"
                self.reporter.error(node.at, "a variable cannot stand outside all blocks", hint)
                self.declare_unknown(node)
            case syntax.MethodDeclaration():
                self._function(node)
            case syntax.FunctionDeclaration():
                self.function(node)
            case syntax.ActionDeclaration():
                self._actions.append(self._action(node))
            case syntax.BlockDeclaration():
                self._block(node)
            case syntax.PackageDeclaration():
                with self.inner_scope():
                    self.declare_type_variables(node.type_parameters, node.at)
                    self.signature_of = "a package"
                    parameters = self.parameters_of(node.parameters)
                    self.undirected(node.parameters, "a package")
                    self.signature_of = ""
                    self.check_defaults(node.parameters, parameters)
                self.declare(node.name, PackageSymbol(node.name, node, parameters), node.at)
            case syntax.Instantiation():
                self.global_instance(node)

    def _function(self, node: syntax.MethodDeclaration) -> None:
        self.prototype(node)
        self.functions_of(node).externs.append(node)

    # Actions and blocks

    def _action(self, node: syntax.ActionDeclaration) -> ActionSymbol:
        name = self.full_name(node)
        symbol = ActionSymbol(
            name, node, self.value_parameters(node.parameters, "action"), self.chosen_id(node, Prefix.ACTION)
        )
        self.required(node.parameters, f"action {node.name}")
        directionless = False
        self.outside = symbol
        with self.inner_scope():
            for parameter, written in zip(symbol.parameters, node.parameters, strict=True):
                writable = parameter.direction in ("out", "inout")
                role = f"an {parameter.direction} parameter" if parameter.direction else "action data"
                if not parameter.direction and isinstance(
                    parameter.type, CompositeType | StackType | VarbitType
                ):
                    parameter.direction = "in"  # of a direct call; a table cannot hold it
                prefix = f"{self.block.name}.{node.name}" if self.block else node.name
                parameter.variable = self.place_of(parameter.name, parameter.type, writable, role, prefix)
                parameter.id = self.chosen_id(written)
                self.evaluate_annotations(written.annotations)
                parameter.annotations = written.annotations
                self.declare(parameter.name, parameter.variable, written.at)
                if directionless and written.direction:
                    self.reporter.error(written.at, "a parameter with a direction follows action data")
                directionless = directionless or not written.direction
            shown = [given_name(item.annotations).removeprefix(".") or item.name for item in node.parameters]
            for place, written in enumerate(node.parameters):
                if shown[place] in shown[:place] and not self.reporter.has_error_at(written.at):
                    what = f"two parameters of action {node.name} are called {shown[place]}"
                    self.reporter.error(written.at, what, "give one another @name")
            numbered = zip(node.parameters, symbol.parameters, strict=True)
            self.distinct(f"parameters of action {node.name}", ((it.at, known.id) for it, known in numbered))
            before = self.begin_calls()
            self.body(node.body.statements, "action")
            self.end_calls(symbol, before)
        self.outside = None
        self.declare(node.name, symbol, node.at)
        if self.block is not None:
            self.block.actions.append(symbol)
        return symbol

    def _block(self, node: syntax.BlockDeclaration) -> None:
        with self.inner_scope():
            self.declare_type_variables(node.type_parameters, node.at)
            self.signature_of = "a block's type" if node.is_type else ""
            symbol = BlockSymbol(node.name, node, self.value_parameters(node.parameters, node.kind))
            self.signature_of = ""
            symbol.constructor = self.parameters_of(node.constructor_parameters)
            self.undirected(node.constructor_parameters, "a constructor")
            self.check_defaults(node.constructor_parameters, symbol.constructor)
            for item in symbol.constructor:
                kind = item.type.symbol.declaration.kind if isinstance(item.type, BlockType) else node.kind
                if kind != node.kind:
                    what = f"a {kind} cannot be a parameter of the constructor of a {node.kind}"
                    self.reporter.error(node.at, what)
                    item.type = UNKNOWN
        symbol.scope = self.scope.copy()
        if not node.is_type:
            self.required([*node.parameters, *node.constructor_parameters], f"{node.kind} {node.name}")
            self._blocks.append(symbol)
            symbol.unchecked = True
            if node.type_parameters:
                self._for_itself(symbol)
        self.declare(node.name, symbol, node.at)

    def _for_itself(self, symbol: BlockSymbol) -> None:
        """Check a block of which there is no instance, or for any types.

        What is wrong for one number that a constructor may be given need not be for another.
        """
        mark = self.reporter.mark()
        self._for_number(symbol, 1)
        given = (*symbol.constructor, *(item for item in symbol.parameters if item.type is INTEGER))
        if any(item.type is INTEGER or scalar_of(item.type) is not None for item in given):
            self.unless_for_others(mark, lambda number: self._for_number(_like(symbol), number))
        symbol.unchecked = False

    def _for_number(self, symbol: BlockSymbol, number: int) -> None:
        """Check a block whose constructor is given some number, as are its parameters of type int."""
        node, outer = symbol.declaration, self.scope
        self.scope = Scope(symbol.scope)
        self.declare_type_variables(node.type_parameters)
        for item, written in zip(symbol.constructor, node.constructor_parameters, strict=True):
            self.declare(item.name, _stand_in(item, written.at, number), written.at)
        self.block = symbol
        self.reporter.runs = False  # its instances do, and are checked again
        kinds = [item.type for item in symbol.parameters]
        fixed = tuple("" if kind is TEXT else number for kind in kinds if kind in (INTEGER, TEXT))
        self._block_body(symbol, not node.type_parameters, fixed)
        self.reporter.runs = True
        self.scope, self.block = outer, None

    def instantiate(
        self,
        symbol: BlockSymbol,
        types: Sequence[Type],
        arguments: Sequence[Given],
        name: str,
        top: bool = False,
        fixed: Fixed = (),
    ) -> BlockSymbol:
        """Return the instance `name` of a block, checked for its type arguments, constructor arguments, and
        the `fixed` numbers and texts that it is applied with; without these, not looked into.

        At the `top` its parameters are the architecture's. A tree that nobody has checked is taken as it is.
        """
        outer = self.scope, self.block, self.context, self.routine_body, self.loops
        bindings = dict(zip(symbol.declaration.type_parameters, types, strict=False))
        kinds = [substituted(item.type, bindings) for item in symbol.parameters]
        has_fixed = not fixed and any(kind in (INTEGER, TEXT) for kind in kinds)
        node = symbol.declaration if symbol.unchecked or has_fixed else fresh(symbol.declaration)
        symbol.unchecked = symbol.unchecked and has_fixed
        self.scope, self.routine_body, self.loops = Scope(symbol.scope), None, 0
        for parameter, kind in zip(node.type_parameters, types, strict=False):
            self.scope.names[parameter] = TypeSymbol(parameter, kind)
        for given in zip(symbol.constructor, arguments, strict=False):
            self.scope.names[given[0].name] = given[1]
        made = BlockSymbol(
            name, node, self.parameters_of(node.parameters), used=True, has_fixed_parameters=has_fixed
        )
        inside = [item for item in arguments if isinstance(item, BlockInstance) and item.is_new]
        made.blocks.update({item.name: item.block for item in inside})
        if not has_fixed:
            self.block = made
            before = self.begin_calls()
            self._block_body(made, top, fixed)
            self.end_calls(made, before)
        self.scope, self.block, self.context, self.routine_body, self.loops = outer
        symbol.used = True
        return made

    def _block_body(self, block: BlockSymbol, top: bool, fixed: Fixed) -> None:
        node, numbers = block.declaration, iter(fixed)
        ir_names = iter((ir.HEADERS, ir.METADATA, self.architecture.place) if top else ())
        deparser = False
        for parameter, written in zip(block.parameters, node.parameters, strict=True):
            if parameter.type in (INTEGER, TEXT):
                constant = ConstantSymbol(parameter.name, parameter.type, next(numbers), given=True)
                self.declare(parameter.name, constant, written.at)
                continue
            packet = isinstance(parameter.type, ExternType)
            deparser = deparser or (packet and str(parameter.type) == "extern packet_out")
            writable = parameter.direction in ("out", "inout")
            role = f"an {parameter.direction} parameter" if parameter.direction else WITHOUT_DIRECTION
            variable = self.place_of(parameter.name, parameter.type, writable, role)
            if not packet and top:
                block.variables.pop()
                variable.place = next(ir_names, variable.place)
            parameter.variable = variable
            if isinstance(parameter.type, ExternType) and parameter.type.symbol.name not in PACKET_PLACES:
                block.objects[parameter.name] = stand_in = Instance("", parameter.type)
                self.declare(parameter.name, stand_in, written.at)
            else:
                self.declare(parameter.name, variable, written.at)
        context = "parser" if node.kind == "parser" else "deparser" if deparser else "control"
        outside, inside = self.declared_at, {item.name: item.at for item in node.locals}
        self.declared_at = ChainMap(inside, outside.maps[-1])
        with self.inner_scope():  # what a block declares may hide a parameter of its own
            for local in node.locals:
                self._local(local, context)
            if node.kind == "parser":
                self.states(node)
            elif node.body is not None:
                self.body(node.body.statements, context)
        self.declared_at = outside

    def _local(self, node: syntax.Declaration, context: str) -> None:
        outer, self.context = self.context, context
        self.declaring = node.at
        self.evaluate_annotations(node.annotations)
        match node:
            case syntax.VariableDeclaration():
                self.beside = "a declaration"
                self.variable(node)
                self.beside = ""
            case syntax.Instantiation():
                self.instance(node)
            case syntax.ValueSetDeclaration():
                self._value_set(node)
            case syntax.ActionDeclaration():
                self._action(node)
            case syntax.TableDeclaration():
                assert self.block is not None
                table = TableSymbol(self.full_name(node), node, id=self.chosen_id(node, Prefix.TABLE))
                before = self.begin_calls()
                self.table_body(table)
                self.end_calls(table, before)
                self.declare(node.name, table, node.at)
                self.block.tables.append(table)
        self.context = outer

    def _value_set(self, node: syntax.ValueSetDeclaration) -> None:
        assert self.block is not None
        if self.context != "parser":
            self.reporter.error(node.at, f"a value set cannot stand in a {self.context}")
        kind = self.resolve(node.type_ref)
        size = self.constant_integer(node.size, "the size of a value set")
        if size is not None and not 0 < size <= MAX_TABLE_SIZE:
            self.reporter.error(
                node.size.at, f"a size of {self.shown(size)}; 1 to {MAX_TABLE_SIZE} was expected"
            )
        fields = dict(_parts(kind)) if _has_parts(kind) else {"f": (kind, ir.MatchKind.EXACT)}
        fits = _has_parts(kind) or isinstance(kind, ir.Bits | ir.Bool | NewType | EnumType)
        flat = all(scalar_of(part) is not None or part is UNKNOWN for part, _ in fields.values())
        if kind is not UNKNOWN and not (fits and flat):
            self.reporter.error(node.at, f"a value set of {kind}; a number or a struct of such was expected")
            kind = UNKNOWN
        name, number = self.full_name(node), self.chosen_id(node, Prefix.VALUE_SET)
        symbol = ValueSetSymbol(name, kind, size or 1, fields, node.at, number, node.annotations)
        self.declare(node.name, symbol, node.at)
        self.block.value_sets.append(symbol)


def _has_parts(kind: Type) -> TypeGuard[CompositeType]:
    return isinstance(kind, CompositeType) and kind.kind in ("struct", "tuple")


def _parts(kind: CompositeType, outer: str = "") -> Iterator[tuple[str, tuple[Type, ir.MatchKind]]]:
    """Yield what a struct or tuple holds, those in it to the end, by names with dots, and how it matches."""
    for name, part in kind.fields.items():
        if _has_parts(part):
            yield from _parts(part, f"{outer}{name}.")
        else:
            match_kind = kind.match_kinds.get(name, ir.MatchKind.EXACT.value)
            yield f"{outer}{name}", (part, ir.MatchKind(match_kind))


def _like(symbol: BlockSymbol) -> BlockSymbol:
    """Return a block that nobody has checked yet, declared as another one."""
    parameters = [replace(item, variable=None) for item in symbol.parameters]
    made = BlockSymbol(symbol.name, fresh(symbol.declaration), parameters)
    made.constructor, made.scope = symbol.constructor, symbol.scope
    return made


def _stand_in(parameter: ParameterSymbol, at: Location, number: int) -> Given:
    """Return what a constructor's parameter is while a block is checked for itself: some constant."""
    if isinstance(parameter.type, ExternType):
        return Instance(parameter.name, parameter.type)
    if isinstance(parameter.type, BlockType):
        kind = parameter.type.symbol
        known = called_as(parameter.type)
        return BlockInstance(parameter.name, BlockSymbol(kind.name, kind.declaration, known))
    if isinstance(parameter.type, CompositeType | StackType):
        made_by = some_constant(parameter.type, at)
        return ConstantSymbol(parameter.name, parameter.type, None, made_by, given=True)
    value = "" if parameter.type is TEXT else some_number(parameter.type, number)
    return ConstantSymbol(parameter.name, parameter.type, value, given=True)
