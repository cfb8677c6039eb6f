# SPDX-License-Identifier: Apache-2.0
"""Checked syntax to IR. Nothing can go wrong here that the checker has not reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nicemu.pipeline import ARCHITECTURE, Program, ir

from . import syntax
from .check import Checked
from .check_tables import key_name
from .lower_types import TypeTable
from .types import (
    ActionRun,
    ActionSymbol,
    ApplyResult,
    BlockSymbol,
    CompositeType,
    ExternType,
    Instance,
    Meaning,
    ParameterSymbol,
    Routine,
    StackType,
    TableSymbol,
    Type,
    Variable,
    scalar_of,
)

DEFAULT_TABLE_SIZE = 1024
NO_ACTION = "NoAction"


def lower(checked: Checked, name: str) -> Program:
    """Return the IR of a program without errors; `name` is its name."""
    return _Lowering(checked).program(name)


class _Lowering:
    _returned: Variable | None = None

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._outside = {action.name: action for action in checked.actions}
        self._used: dict[str, ActionSymbol] = {}
        self._types = TypeTable()
        self._routines: dict[str, Routine] = {}
        self._functions: list[ir.Function] = []
        self._extras: list[ir.Variable] = []

    def program(self, name: str) -> Program:
        checked = self._checked
        for kind in checked.declared.composites:
            self._types.of(kind)
        parser, control, deparser = checked.parser, checked.control, checked.deparser
        lowered_parser = self._parser(parser)
        body = (*self._locals(control), *self._body(control.declaration.body))
        for inner in _inner(control):
            given = self._parameters(inner.parameters)
            inside = (*self._locals(inner), *self._body(inner.declaration.body))
            self._functions.append(ir.Function(inner.name, given, inside, is_control=True))
        controls = [control, *_inner(control)]
        tables = tuple(self._table(table) for block in controls for table in block.tables)
        actions = [self._action(action) for block in controls for action in block.actions]
        done: set[str] = set()
        while len(done) < len(self._used):
            for action in list(self._used.values()):
                if action.name not in done:
                    done.add(action.name)
                    actions.append(self._action(action))
        emits = (*self._locals(deparser), *self._body(deparser.declaration.body))
        self._lower_routines()
        variables = tuple(self._variables())
        externs = tuple(self._extern(item) for block in controls for item in block.instances)
        layouts = self._types.layouts
        return Program(
            name=name,
            architecture=ARCHITECTURE,
            headers=tuple(item for item in layouts if isinstance(item, ir.HeaderType)),
            structs=tuple(item for item in layouts if isinstance(item, ir.StructType)),
            unions=tuple(item for item in layouts if isinstance(item, ir.UnionType)),
            errors=tuple(checked.declared.errors),
            variables=variables,
            externs=externs,
            parser=lowered_parser,
            control=ir.Control(control.name, body, tuple(actions), tables),
            deparser=ir.Control(deparser.name, emits),
            functions=tuple(self._functions),
        )

    # Declarations

    def _variables(self) -> Iterator[ir.Variable]:
        tops = (self._checked.parser, self._checked.control, self._checked.deparser)
        blocks = [block for top in tops for block in (top, *_inner(top))]
        for parameter in self._checked.control.parameters:
            assert parameter.variable is not None
            yield ir.Variable(parameter.variable.place, self._types.of(parameter.type))
        for block in blocks:
            for variable in block.variables:
                yield ir.Variable(variable.place, self._types.of(variable.type))
        yield from self._extras
        for routine in self._routines.values():
            for variable in routine.variables:
                yield ir.Variable(variable.place, self._types.of(variable.type))
        for action in self._used.values():
            for parameter in action.parameters:
                assert parameter.variable is not None
                yield ir.Variable(parameter.variable.place, self._types.of(parameter.type))

    def _extern(self, instance: Instance) -> ir.ExternInstance:
        symbol = instance.type.symbol
        return ir.ExternInstance(
            instance.name,
            symbol.name,
            instance.arguments,
            tuple(self._types.of(argument) for argument in instance.type.arguments),
        )

    def _locals(self, block: BlockSymbol) -> Iterator[ir.Statement]:
        for local in block.declaration.locals:
            if isinstance(local, syntax.VariableDeclaration) and not local.constant:
                yield from self._variable(local)

    def _action(self, action: ActionSymbol) -> ir.Action:
        parameters = self._parameters(action.parameters)
        return ir.Action(action.name, parameters, self._body(action.declaration.body), action.id)

    def _parameters(self, symbols: Sequence[ParameterSymbol]) -> tuple[ir.Parameter, ...]:
        parameters = []
        for item in symbols:
            assert item.variable is not None
            kind = self._types.of(item.type)
            direction = ir.Direction(item.direction)
            parameters.append(ir.Parameter(item.name, item.variable.place, kind, direction, item.id))
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
                self._functions.append(ir.Function(routine.name, given, body, result))
        self._returned = None

    def _routine(self, routine: Routine) -> str:
        self._routines.setdefault(routine.name, routine)
        return routine.name

    def _extra(self, kind: ir.Type, what: str) -> ir.Name:
        """Return a variable that the program does not name."""
        name = f"{what}.{len(self._extras)}"
        self._extras.append(ir.Variable(name, kind))
        return ir.Name(name, kind)

    def _use(self, action: ActionSymbol) -> str:
        if self._outside.get(action.name) is action:
            self._used[action.name] = action
        return action.name

    def _parser(self, block: BlockSymbol) -> ir.Parser:
        return ir.Parser(block.name, tuple(self._states(block, "", ir.ACCEPT)), tuple(self._locals(block)))

    def _states(self, block: BlockSymbol, prefix: str, accept: str) -> Iterator[ir.State]:
        """Lower the states of a parser, with `prefix` before their names; `accept` is where it ends."""

        def target(name: str) -> str:
            return accept if name == ir.ACCEPT else name if name == ir.REJECT else prefix + name

        for node in block.declaration.states or []:
            transition: ir.Transition
            if node.keys is None:
                transition = ir.Goto(target(node.goto))
            else:
                transition = ir.Select(
                    tuple(self._value(key) for key in node.keys),
                    tuple(
                        ir.SelectCase(tuple(item.value for item in case.keysets), target(case.state))
                        for case in node.cases
                    ),
                )
            name = prefix + node.name
            body: list[ir.Statement] = []
            for count, statement in enumerate(_flat(node.body)):
                inner = _applied(statement)
                if inner is None:
                    body += self._statement(statement)
                    continue
                assert isinstance(statement, syntax.CallStatement)
                inside, behind = f"{prefix}{node.name}.{count}.", f"{prefix}{node.name}.{count}"
                given = [self._argument(argument) for argument in statement.call.arguments]
                start = ir.Goto(f"{inside}start")
                yield ir.State(name, (*body, *self._passed(inner, given), *self._locals(inner)), start)
                yield from self._states(inner, inside, behind)
                name, body = behind, list(self._passed_back(inner, given))
            yield ir.State(name, tuple(body), transition)

    def _passed(self, block: BlockSymbol, given: Sequence[ir.Expression]) -> Iterator[ir.Statement]:
        """Copy the arguments of a parser inside another in."""
        for parameter, argument in zip(block.parameters, given, strict=True):
            if isinstance(parameter.type, ExternType) or parameter.variable is None:
                continue
            if parameter.direction == "out":
                yield ir.Reset(parameter.variable.place)
            else:
                yield ir.Assign(ir.Name(parameter.variable.place, argument.type), argument)

    def _passed_back(self, block: BlockSymbol, given: Sequence[ir.Expression]) -> Iterator[ir.Statement]:
        for parameter, argument in zip(block.parameters, given, strict=True):
            if parameter.direction in ("out", "inout") and parameter.variable is not None:
                yield ir.Assign(argument, ir.Name(parameter.variable.place, argument.type))

    # Tables

    def _table(self, table: TableSymbol) -> ir.Table:
        node = table.declaration
        keys = tuple(
            ir.Key(key_name(key), self._value(key.expression), ir.MatchKind(key.match_kind), _key_id(key))
            for key in node.keys
        )
        refs = [self._action_ref(element) for element in node.actions or []]
        if node.default_action is not None:
            default = self._action_call(node.default_action)
        else:
            default = ir.ActionCall(NO_ACTION)
            no_action = self._outside.get(NO_ACTION)
            if all(ref.action != NO_ACTION for ref in refs) and no_action is not None:
                refs.append(ir.ActionRef(self._use(no_action), default_only=True))
        return ir.Table(
            table.name,
            keys,
            tuple(refs),
            default,
            node.size.value if node.size is not None else max(DEFAULT_TABLE_SIZE, len(node.entries or [])),
            node.const_default,
            tuple(self._entries(node)),
            node.const_entries,
            table.id,
        )

    def _action_ref(self, element: syntax.ActionElement) -> ir.ActionRef:
        marks = {annotation.name for annotation in element.annotations}
        return ir.ActionRef(
            self._use(element.symbol),
            tuple(self._argument(argument) for argument in element.arguments or []),
            "defaultonly" in marks,
            "tableonly" in marks,
        )

    def _action_call(self, element: syntax.ActionElement) -> ir.ActionCall:
        data = [item for item in element.symbol.parameters if not item.direction]
        given = (element.arguments or [])[-len(data) :] if data else []
        values = tuple(
            argument.value & ((1 << _width(item.type)) - 1)
            for argument, item in zip(given, data, strict=True)
        )
        return ir.ActionCall(self._use(element.symbol), values)

    def _entries(self, node: syntax.TableDeclaration) -> Iterator[ir.Entry]:
        ordered = any(key.match_kind in ("ternary", "range") for key in node.keys)
        entries = node.entries or []
        for position, entry in enumerate(entries):
            priority = 0
            if ordered:
                priority = entry.priority.value if entry.priority is not None else len(entries) - position
            yield ir.Entry(
                tuple(item.value for item in entry.keysets), self._action_call(entry.action), priority
            )

    # Statements

    def _body(self, block: syntax.Block | None) -> tuple[ir.Statement, ...]:
        return tuple(self._statements(block.statements if block else []))

    def _statements(self, nodes: Sequence[syntax.Statement]) -> Iterator[ir.Statement]:
        for node in nodes:
            yield from self._statement(node)

    def _statement(self, node: syntax.Statement) -> Iterator[ir.Statement]:
        match node:
            case syntax.Block():
                yield from self._statements(node.statements)
            case syntax.VariableDeclaration() if not node.constant:
                yield from self._variable(node)
            case syntax.Assignment():
                yield ir.Assign(self._value(node.target), self._value(node.value))
            case syntax.CallStatement():
                yield from self._call_statement(node.call)
            case syntax.IfStatement():
                otherwise = self._statement(node.otherwise) if node.otherwise is not None else ()
                yield ir.If(self._value(node.condition), tuple(self._statement(node.then)), tuple(otherwise))
            case syntax.SwitchStatement():
                yield self._switch(node)
            case syntax.ExitStatement():
                yield ir.Exit()
            case syntax.ReturnStatement():
                if node.result is not None and self._returned is not None:
                    kind = self._types.of(self._returned.type)
                    yield ir.Assign(ir.Name(self._returned.place, kind), self._value(node.result))
                yield ir.Return()
            case syntax.ForStatement():
                yield from self._statements(node.initial)
                body, update = tuple(self._statement(node.body)), tuple(self._statements(node.update))
                yield ir.Loop(self._value(node.condition), body, update)
            case syntax.ForInStatement():
                yield from self._for_in(node)
            case syntax.BreakStatement():
                yield ir.Break()
            case syntax.ContinueStatement():
                yield ir.Continue()

    def _variable(self, node: syntax.VariableDeclaration) -> Iterator[ir.Statement]:
        variable = node.symbol
        if node.initial is None:
            yield ir.Reset(variable.place)
        else:
            yield ir.Assign(ir.Name(variable.place, self._types.of(variable.type)), self._value(node.initial))

    def _for_in(self, node: syntax.ForInStatement) -> Iterator[ir.Statement]:
        variable: Variable = node.symbol
        body = tuple(self._statement(node.body))
        if isinstance(node.collection, syntax.RangeSet):
            low, high = self._value(node.collection.low), self._value(node.collection.high)
            yield ir.ForRange(variable.place, low, high, body)
            return
        stack = self._value(node.collection)
        assert isinstance(stack.type, ir.Stack)
        elements, index = self._extra(stack.type, "for.stack"), self._extra(ir.Bits(32), "for.index")
        element = ir.Element(elements, index, ir.Named(stack.type.element))
        first = ir.Assign(ir.Name(variable.place, element.type), element)
        low, high = ir.Constant(0, index.type), ir.Constant(stack.type.size - 1, index.type)
        yield ir.Assign(elements, stack)
        yield ir.ForRange(index.name, low, high, (first, *body))

    def _switch_values(self, node: syntax.SwitchStatement) -> ir.Statement:
        cases = []
        values: list[int] = []
        for case in node.cases:
            if case.label is not None:
                values.append(case.label.value)
            if case.body is not None:
                labels = () if case.label is None else tuple(values)
                cases.append(ir.ValueCase(labels, self._body(case.body)))
                values = []
        return ir.Switch(self._value(node.subject), tuple(cases))

    def _switch(self, node: syntax.SwitchStatement) -> ir.Statement:
        if not isinstance(node.subject.type, ActionRun):
            return self._switch_values(node)
        assert isinstance(node.subject, syntax.MemberRef)
        cases = []
        names: list[str] = []
        for case in node.cases:
            if isinstance(case.label, syntax.NameRef):
                assert isinstance(case.label.symbol, ActionSymbol)
                names.append(case.label.symbol.name)
            if case.body is not None:
                # An empty list of actions is `default`, whatever labels fall through to it.
                labels = () if case.label is None else tuple(names)
                cases.append(ir.SwitchCase(labels, self._body(case.body)))
                names = []
        return ir.SwitchAction(node.subject.type.table.name, tuple(cases))

    def _call_statement(self, node: syntax.Call) -> Iterator[ir.Statement]:
        meaning: Meaning = node.symbol
        if meaning.kind == "move_stack":
            assert isinstance(node.callee, syntax.MemberRef)
            stack = self._value(node.callee.base)
            yield ir.MoveStack(stack, node.arguments[0].value, meaning.name == "push_front")
            return
        arguments = tuple(self._argument(argument) for argument in node.arguments)
        match meaning.kind, meaning.name:
            case "block", name:
                yield ir.CallRoutine(name, arguments)
            case "routine", _:
                yield ir.CallRoutine(self._routine(meaning.subject), arguments)
            case "apply", table:
                yield ir.ApplyTable(table)
            case "action", _:
                yield ir.CallAction(self._use(meaning.subject), arguments)
            case "function", function:
                yield ir.CallFunction(function, arguments)
            case "method", method:
                yield ir.CallMethod(meaning.subject.name, method, arguments)
            case (("set_valid" | "set_invalid"), _):
                assert isinstance(node.callee, syntax.MemberRef)
                yield ir.SetValid(self._value(node.callee.base), meaning.kind == "set_valid")
            case "packet", "extract" if len(arguments) == 2:
                yield ir.ExtractVarbit(arguments[0], arguments[1])
            case "packet", "extract":
                yield ir.Extract(arguments[0])
            case "packet", "advance":
                yield ir.Advance(arguments[0])
            case "packet", "verify":
                yield ir.Verify(arguments[0], arguments[1])
            case "packet", "emit":
                yield ir.Emit(arguments[0])

    # Expressions

    def _argument(self, node: syntax.Expression) -> ir.Expression:
        """Return an argument; for `_` a variable that nothing reads."""
        if isinstance(node.type, ExternType):  # the packet, which has no place
            return ir.Zero(ir.BOOL)
        if isinstance(node, syntax.AnySet):
            return self._extra(self._types.of(node.type), "nowhere")
        return self._value(node)

    def _value(self, node: syntax.Expression) -> ir.Expression:
        scalar = scalar_of(node.type)
        if node.value is not None and scalar is not None:
            return ir.Constant(node.value, scalar)
        kind = self._types.of(node.type)
        match node:
            case syntax.NameRef():
                assert isinstance(node.symbol, Variable)
                return ir.Name(node.symbol.place, kind)
            case syntax.MemberRef():
                base = node.base
                if isinstance(base, syntax.Call) and isinstance(base.type, ApplyResult):
                    return ir.TableApply(base.type.table.name, node.name == "hit")
                if isinstance(base.type, StackType):
                    if node.name == "lastIndex":
                        return ir.LastIndex(self._value(base), kind)
                    return ir.StackPlace(self._value(base), node.name == "last", kind)
                return ir.Member(self._value(base), node.name, kind)
            case syntax.IndexRef():
                if isinstance(node.base.type, CompositeType):
                    return ir.Member(self._value(node.base), f"f{node.index.value}", kind)
                return ir.Element(self._value(node.base), self._value(node.index), kind)
            case syntax.SliceRef():
                return ir.Slice(self._value(node.base), node.high.value, node.low.value, kind)
            case syntax.UnaryOp():
                operand = self._value(node.operand)
                return operand if node.op == "+" else ir.Unary(node.op, operand, kind)
            case syntax.BinaryOp():
                return ir.Binary(node.op, self._value(node.left), self._value(node.right), kind)
            case syntax.ConditionalOp():
                return ir.Conditional(
                    self._value(node.condition), self._value(node.yes), self._value(node.no), kind
                )
            case syntax.CastOp():
                operand = self._value(node.operand)
                return operand if operand.type == kind else ir.Cast(operand, kind)
            case syntax.DefaultValue() | syntax.InvalidHeader():
                return ir.Zero(kind)
            case syntax.ListValue():
                return self._list(node, kind)
            case syntax.Call():
                return self._call(node, kind)
        raise AssertionError(f"{type(node).__name__} was not checked")

    def _list(self, node: syntax.ListValue, kind: ir.Type) -> ir.Expression:
        items = [self._value(item) for item in node.items]
        if isinstance(kind, ir.Stack):
            return ir.StackValue(tuple(items), kind)
        if node.names is not None:
            given = dict(zip(node.names, items, strict=True))
            items = [given[name] for name in node.type.fields]
        return ir.StructValue(tuple(items), kind)

    def _call(self, node: syntax.Call, kind: ir.Type) -> ir.Expression:
        meaning: Meaning = node.symbol
        if meaning.kind == "routine":
            arguments = tuple(self._argument(argument) for argument in node.arguments)
            return ir.Call(self._routine(meaning.subject), arguments, kind)
        if meaning.kind == "valid":
            assert isinstance(node.callee, syntax.MemberRef)
            return ir.IsValid(self._value(node.callee.base))
        return ir.PacketLength(kind) if meaning.name == "length" else ir.Lookahead(kind)


def _width(kind: Type) -> int:
    scalar = scalar_of(kind)
    return scalar.width if isinstance(scalar, ir.Bits) else 1 if scalar == ir.BOOL else 32


def _key_id(key: syntax.KeyElement) -> int:
    for annotation in key.annotations:
        if annotation.name == "id" and annotation.tokens and annotation.tokens[0].isdecimal():
            return int(annotation.tokens[0])
    return 0


def _inner(block: BlockSymbol) -> Iterator[BlockSymbol]:
    """Yield the instances inside a block, and those inside these."""
    for inner in block.blocks.values():
        yield inner
        yield from _inner(inner)


def _flat(nodes: Sequence[syntax.Statement]) -> Iterator[syntax.Statement]:
    """Yield statements, those of blocks one by one."""
    for node in nodes:
        if isinstance(node, syntax.Block):
            yield from _flat(node.statements)
        else:
            yield node


def _applied(node: syntax.Statement) -> BlockSymbol | None:
    """Return the parser that a statement applies, if it does."""
    meaning = node.call.symbol if isinstance(node, syntax.CallStatement) else None
    return meaning.subject if isinstance(meaning, Meaning) and meaning.kind == "block" else None
