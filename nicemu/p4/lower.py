# SPDX-License-Identifier: Apache-2.0
"""Checked syntax to IR. Nothing can go wrong here that the checker has not reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product

from nicemu.pipeline import Program, ir

from . import syntax
from .annotations import given_name, kept
from .check import Checked
from .lower_parameters import shared_parameters
from .lower_tables import TableLowering, alternatives
from .symbols import (
    ActionSymbol,
    BlockSymbol,
    CallKind,
    CallTarget,
    Instance,
    ParameterSymbol,
    ValueSetSymbol,
)
from .types import (
    CompositeType,
    ExternType,
    Type,
)


def lower(checked: Checked, name: str) -> Program:
    """Return the IR of a program without errors; `name` is its name."""
    return _Lowering(checked).program(name)


class _Lowering(TableLowering):
    def __init__(self, checked: Checked) -> None:
        super().__init__(checked.actions, checked.architecture.metadata)
        self._checked = checked
        self._functions: list[ir.Function] = []
        self._arguments: set[str] = set()
        """The places of parameters of parsers that are arguments in some call."""
        self._copied: set[str] = set()
        """Those that are not, in some call."""
        self._may_share = True

    def program(self, program_name: str) -> Program:
        checked = self._checked
        inside = (inner for block in checked.controls for inner in (block, *_inner(block)))
        named = (action.name for block in inside for action in block.actions)
        self._action_names = frozenset((*named, *(action.name for action in checked.actions)))
        ragged = checked.declared.ragged
        for kind in checked.declared.composites:
            if (kind.controller or ragged) and kind.name not in ragged:
                self._types.of(kind)  # controllers have it, or it may have what none can
        blocks = [block for top in (checked.parser, *checked.controls) for block in (top, *_inner(top))]
        # a method may store into what stands around its object, and so into what an argument is
        self._may_share = not any(instance.methods for block in blocks for instance in block.instances)
        for block in checked.controls:
            for inner in _inner(block) if self._may_share else ():
                self._shared |= shared_parameters(inner, inner.applied)
        parser = self._parser(checked.parser)
        controls = []
        for role, block in zip(checked.architecture.roles, checked.controls, strict=False):
            controls.append(ir.Control(role.name, block.name, self._block(block)))
            for inner in _inner(block):
                given = self._parameters(inner.parameters)
                name = self._function_name(inner.name)
                self._functions.append(ir.Function(name, given, self._block(inner), is_control=True))
        tops = (checked.parser, *checked.controls)
        blocks = [inner for block in tops for inner in (block, *_inner(block))]
        tables = tuple(self.table(table) for block in blocks for table in block.tables)
        actions = [self._action(action) for action in _one_of_each(blocks)]
        done: set[str] = set()
        while len(done) < len(self._used):
            for action in list(self._used.values()):
                if action.name not in done:
                    done.add(action.name)
                    actions.append(self._action(action))
        self._lower_routines()
        variables = tuple(self._variables())
        objects = [*checked.instances, *(item for block in blocks for item in block.instances)]
        externs = tuple(self._extern(item) for item in objects)
        value_sets = tuple(
            self._value_set(item)
            for block in (checked.parser, *_inner(checked.parser))
            for item in block.value_sets
        )
        layouts = self._types.layouts
        return Program(
            name=program_name,
            architecture=checked.architecture.name,
            headers=tuple(item for item in layouts if isinstance(item, ir.HeaderType)),
            structs=tuple(item for item in layouts if isinstance(item, ir.StructType)),
            unions=tuple(item for item in layouts if isinstance(item, ir.UnionType)),
            errors=tuple(sorted(checked.declared.errors, key=checked.declared.errors.__getitem__)),
            variables=variables,
            externs=externs,
            parser=parser,
            controls=tuple(controls),
            actions=tuple(actions),
            tables=tables,
            functions=(*self._functions, *self._made),
            field_lists=self._field_lists(),
            value_sets=value_sets,
            new_types=tuple(self._types.new_types.values()),
            enums=tuple(self._types.enums.values()),
            annotations=kept(checked.annotations),
            package=checked.package,
            extern_signatures=tuple(self._signatures),
        )

    def _value_set(self, symbol: ValueSetSymbol) -> ir.ValueSet:
        made = symbol.type if isinstance(symbol.type, CompositeType) else None
        fields = tuple(
            ir.ValueSetField(
                made.field_names.get(name, name) if made is not None else name,
                self._types.of(kind),
                match_kind,
                self._types.name_of(kind),
                made.field_ids.get(name, 0) if made is not None else 0,
                made.field_notes.get(name, ()) if made is not None else (),
            )
            for name, (kind, match_kind) in symbol.fields.items()
        )
        return ir.ValueSet(symbol.name, symbol.size, fields, symbol.id, kept(symbol.annotations))

    def _field_lists(self) -> tuple[ir.FieldList, ...]:
        """Return the field lists of the program's metadata, by their numbers."""
        lists: dict[int, list[ir.Expression]] = {}
        metadata = [item.type for item in self._checked.parser.parameters][2:3]
        pending: list[tuple[ir.Expression, Type]] = [
            (ir.Name(ir.METADATA, self._types.of(kind)), kind) for kind in metadata
        ]
        while pending:
            place, kind = pending.pop(0)
            if not isinstance(kind, CompositeType) or kind.kind not in ("struct", "array"):
                continue
            for name, part in kind.fields.items():
                member = ir.Member(place, name, self._types.of(part))
                for index in kind.field_lists.get(name, ()):
                    lists.setdefault(index, []).append(member)
                pending.append((member, part))
        return tuple(ir.FieldList(index, tuple(lists[index])) for index in sorted(lists))

    def _block(self, block: BlockSymbol) -> tuple[ir.Statement, ...]:
        return (*self._cleared(block), *self._locals(block), *self._body(block.declaration.body))

    def _cleared(self, block: BlockSymbol) -> Iterator[ir.Statement]:
        """Yield what gives the arguments that are `out` parameters of a block their first values."""
        for parameter in block.parameters:
            if parameter.direction == "out" and parameter.variable is not None:
                argument = self._shared.get(parameter.variable.place)
                if argument is not None:
                    place = self._value(argument)
                    yield ir.Assign(place, ir.Zero(place.type))

    # Declarations

    def _variables(self) -> Iterator[ir.Variable]:
        tops = (self._checked.parser, *self._checked.controls)
        blocks = [block for top in tops for block in (top, *_inner(top))]
        for parameter in self._checked.parser.parameters:
            assert parameter.variable is not None
            if isinstance(parameter.type, ExternType):
                continue
            yield ir.Variable(parameter.variable.place, self._types.of(parameter.type))
        unused = set(self._shared) | (self._arguments - self._copied)
        for block in blocks:
            for variable in block.variables:
                if variable.place not in unused:
                    yield ir.Variable(variable.place, self._types.of(variable.type))
        yield from self._extras
        for routine in self._routines.values():
            for variable in routine.variables:
                yield ir.Variable(variable.place, self._types.of(variable.type))
        for action in self._used.values():
            for variable in action.variables:
                yield ir.Variable(variable.place, self._types.of(variable.type))

    def _extern(self, instance: Instance) -> ir.ExternInstance:
        symbol, types, constructor = instance.type.symbol, instance.type.arguments, ""
        if instance.constructor is not None:
            takes = tuple(
                ir.ExternParameter(self._types.of(kind), ir.Direction.IN) for kind in instance.constructor
            )
            constructor = self._signed(symbol.name, symbol.name, takes, ())
            types = ()
        names = tuple(map(self._types.name_of, types))
        return ir.ExternInstance(
            instance.name,
            symbol.name,
            instance.arguments,
            tuple(map(self._types.of, types)),
            instance.id,
            names if any(names) else (),
            kept(instance.annotations),
            constructor,
        )

    def _locals(self, block: BlockSymbol) -> Iterator[ir.Statement]:
        for local in block.declaration.locals:
            if isinstance(local, syntax.VariableDeclaration) and not local.constant:
                yield from self._variable(local)

    def _action(self, action: ActionSymbol) -> ir.Action:
        parameters = self._parameters(action.parameters)
        node = action.declaration
        return ir.Action(action.name, parameters, self._body(node.body), action.id, kept(node.annotations))

    def _parameters(self, symbols: Sequence[ParameterSymbol]) -> tuple[ir.Parameter, ...]:
        parameters = []
        for item in symbols:
            if item.variable is None or not self._has_place(item):
                continue
            kind = self._types.of(item.type)
            direction = ir.Direction(item.direction)
            type_name = self._types.name_of(item.type)
            parameters.append(
                ir.Parameter(
                    given_name(item.annotations).removeprefix(".") or item.name,
                    item.variable.place,
                    kind,
                    direction,
                    item.id,
                    type_name,
                    kept(item.annotations),
                )
            )
        return tuple(parameters)

    def _lower_routines(self) -> None:
        """Lower the functions that are called, and those that they call."""
        done = 0
        while done < len(self._routines):
            for routine in list(self._routines.values())[done:]:
                done += 1
                self._returned = routine.result
                body = self._body(routine.declaration.body)
                result = routine.result.place if routine.result is not None else ""
                given = self._parameters(routine.parameters)
                name = self._function_name(routine.name)
                self._functions.append(ir.Function(name, given, body, result))
        self._returned = None

    def _parser(self, block: BlockSymbol) -> ir.Parser:
        return ir.Parser(block.name, tuple(self._states(block, "", ir.ACCEPT)), tuple(self._locals(block)))

    def _states(self, block: BlockSymbol, prefix: str, accept: str) -> Iterator[ir.State]:
        """Lower the states of a parser, with `prefix` before their names; `accept` is where it ends."""

        def target(name: str) -> str:
            return accept if name == ir.ACCEPT else name if name == ir.REJECT else prefix + name

        for node in block.declaration.states or []:
            transition: ir.Transition
            first: list[ir.Statement] = []
            if node.keys is None:
                transition = ir.Goto(target(node.goto))
            else:
                first, keys = self._select_keys(node.keys)
                transition = ir.Select(
                    tuple(keys),
                    tuple(
                        ir.SelectCase(keysets, target(case.state))
                        for case in node.cases
                        for keysets in product(*map(alternatives, case.keysets))
                    ),
                )
            yield from self._state(prefix + node.name, node.body, transition, first)

    def _state(
        self,
        name: str,
        statements: Sequence[syntax.Statement],
        transition: ir.Transition,
        first: Sequence[ir.Statement] = (),
    ) -> Iterator[ir.State]:
        """Lower a state; a parser that is applied in it becomes states, and so does an `if` around one.

        `first` is what is done between its statements and the transition.
        """
        start, body = name, list[ir.Statement]()
        for count, statement in enumerate(_flat(statements)):
            behind = f"{start}.{count}"
            inner = _applied(statement)
            if inner is not None:
                assert isinstance(statement, syntax.CallStatement)
                with self._sharing(inner, statement.call):
                    into, back = self._passed(inner, statement.call)
                    body += (*into, *self._locals(inner))
                    within = f"{behind}.{inner.name.rpartition('.')[2]}."
                    yield ir.State(name, tuple(body), ir.Goto(f"{within}start"))
                    yield from self._states(inner, within, behind)
                name, body = behind, back
            elif isinstance(statement, syntax.IfStatement) and any(map(_applied, _inside(statement))):
                for turn, arm in enumerate(statement.arms):
                    yes, no = f"{behind}.{turn}.then", f"{behind}.{turn}.else"
                    cases = (ir.SelectCase((ir.KeyMask(1, 1),), yes), ir.SelectCase((ir.KeyAny(),), no))
                    yield ir.State(name, tuple(body), ir.Select((self._value(arm.condition),), cases))
                    yield from self._state(yes, [arm.body], ir.Goto(behind))
                    name, body = no, []
                otherwise = [statement.otherwise] if statement.otherwise is not None else []
                yield from self._state(name, otherwise, ir.Goto(behind))
                name, body = behind, []
            else:
                body += self._statement(statement)
        yield ir.State(name, (*body, *first), transition)

    @contextmanager
    def _sharing(self, block: BlockSymbol, call: syntax.Call) -> Iterator[None]:
        """Have parameters of a parser be what it is given by one call, where they may."""
        variables = [item.variable for item in block.parameters if item.variable is not None]
        shared = shared_parameters(block, [call]) if self._may_share else {}
        self._shared |= shared
        self._arguments |= set(shared)
        self._copied.update(variable.place for variable in variables if variable.place not in shared)
        for variable in variables:
            self._places.pop(variable, None)
        yield
        for variable in variables:
            self._places.pop(variable, None)
            self._shared.pop(variable.place, None)

    def _passed(self, block: BlockSymbol, call: syntax.Call) -> tuple[list[ir.Statement], list[ir.Statement]]:
        """Return what copies the arguments of a parser inside another in, and what copies them out, both as
        they are written.
        """
        into, back = list[ir.Statement](), list[ir.Statement]()
        for place in call.order or range(len(call.arguments)):
            parameter = block.parameters[place]
            if parameter.variable is None or not self._has_place(parameter):
                continue
            indices, argument = self._once(self._argument(call.arguments[place]))
            into += indices
            inside = ir.Name(parameter.variable.place, argument.type)
            if parameter.direction == "out":
                into.append(ir.Reset(inside.name))
            else:
                into.append(ir.Assign(inside, argument))
            if parameter.direction in ("out", "inout"):
                back.append(ir.Assign(argument, inside))
        return [*into, *self._cleared(block)], back  # what is an `out` argument may be read in others


def _one_of_each(blocks: Sequence[BlockSymbol]) -> Iterator[ActionSymbol]:
    """Yield the actions of blocks, the first one of each name: those of one name are the same."""
    found: dict[str, ActionSymbol] = {}
    for block in blocks:
        for action in block.actions:
            found.setdefault(action.name, action)
    yield from found.values()


def _inner(block: BlockSymbol) -> Iterator[BlockSymbol]:
    """Yield the instances inside a block, and those inside these."""
    for inner in block.blocks.values():
        is_applied = not inner.has_fixed_parameters and all(item.full_name for item in inner.objects.values())
        if is_applied:
            yield inner
            yield from _inner(inner)


def _flat(nodes: Sequence[syntax.Statement]) -> Iterator[syntax.Statement]:
    """Yield statements, those of blocks one by one."""
    for node in nodes:
        if isinstance(node, syntax.Block):
            yield from _flat(node.statements)
        else:
            yield node


def _inside(node: syntax.IfStatement) -> Iterator[syntax.Statement]:
    """Yield the statements of all branches, and of ifs in them."""
    branches = [arm.body for arm in node.arms]
    if node.otherwise is not None:
        branches.append(node.otherwise)
    for statement in _flat(branches):
        yield statement
        if isinstance(statement, syntax.IfStatement):
            yield from _inside(statement)


def _applied(node: syntax.Statement) -> BlockSymbol | None:
    """Return the parser that a statement applies, if it does."""
    meaning = node.call.symbol if isinstance(node, syntax.CallStatement) else None
    return meaning.subject if isinstance(meaning, CallTarget) and meaning.kind is CallKind.BLOCK else None
