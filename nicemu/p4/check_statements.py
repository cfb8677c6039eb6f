# SPDX-License-Identifier: Apache-2.0
"""Checks statements and functions.

Source: P4-16 Language Specification 1.2.5, "Statements", "Function declarations".
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence

from nicemu.pipeline import ir

from . import syntax
from .check_calls import is_object
from .check_keysets import KeysetChecker
from .diagnostics import TooManyErrors, did_you_mean
from .symbols import (
    NO_ACTION,
    WITHOUT_DIRECTION,
    ActionSymbol,
    CallKind,
    ConstantSymbol,
    Fixed,
    Instance,
    Routine,
    RoutineSymbol,
    Scope,
    TableSymbol,
    TypeSymbol,
    Variable,
)
from .syntax_copy import fresh
from .type_sizes import is_storable, scalar_of
from .type_variables import same
from .types import (
    INTEGER,
    NOTHING,
    TEXT,
    UNKNOWN,
    ActionRun,
    EnumType,
    ExternType,
    P4ListType,
    Type,
    TypeVariable,
    elements_of,
)

_LEAVING = (syntax.ExitStatement, syntax.ReturnStatement)
OTHER_NUMBERS = (2, 3, 0, 8)
"""What a parameter may be given, beside 1, where it is checked that something can."""
MAX_ROUTINES = 1 << 11
"""How many functions may be made of those that take types, numbers or objects: each level may double them."""


class StatementChecker(KeysetChecker):
    """Bodies of actions, states and blocks; `block` is the one being checked.

    `branches` counts the ifs around a statement: in a parser's states, what stands in one may be more.
    """

    branches = 0
    _routines_made = 0

    def body(self, statements: Sequence[syntax.Statement], context: str) -> None:
        """Check statements that stand in a parser, control, action or deparser."""
        outer, self.context = self.context, context
        with self.inner_scope():
            self._statements(statements)
        self.context = outer

    def _statements(self, statements: Sequence[syntax.Statement]) -> None:
        ended = False
        for statement in statements:
            if ended:
                self.reporter.warning(statement.at, "this is never reached")
                ended = False
            if isinstance(statement, syntax.VariableDeclaration):
                self._check_hidden(statement)
            self._statement(statement)
            ended = isinstance(statement, _LEAVING)

    def _check_hidden(self, node: syntax.VariableDeclaration) -> None:
        """Check that what is declared in a body hides no parameter."""
        symbol = self.scope.find(node.name)
        if isinstance(symbol, Variable) and symbol.role not in ("variable", "result"):
            what = f"{node.name} hides {symbol.role}"
            self.reporter.error(node.at, what, "choose another name")

    def _statement(self, node: syntax.Statement) -> None:
        match node:
            case syntax.Block():
                with self.inner_scope():
                    self._statements(node.statements)
            case syntax.VariableDeclaration():
                self.variable(node)
            case syntax.Instantiation():
                self.reporter.error(
                    node.at,
                    "an object cannot be declared inside a body",
                    "declare it beside the bodies, in its parser or control",
                )
                self.declare_unknown(node)
            case syntax.Assignment():
                self._assignment(node)
            case syntax.CallStatement():
                found = self.expression(node.call)
                if (
                    node.call.symbol
                    and node.call.symbol.kind is CallKind.PACKET
                    and node.call.symbol.name == "lookahead"
                ):
                    self.reporter.warning(node.at, "the value of lookahead is not used")
                elif scalar_of(found) is not None and node.call.value is None:
                    self.reporter.warning(node.at, "the value of this call is not used")
            case syntax.IfStatement():
                self.branches += 1
                for arm in node.arms:
                    self.condition(arm.condition, "the condition of if")
                    with self.inner_scope():
                        self._statement(arm.body)
                if node.otherwise is not None:
                    with self.inner_scope():
                        self._statement(node.otherwise)
                self.branches -= 1
            case syntax.SwitchStatement():
                self._not_in(node, "switch", "parser")
                self._switch(node)
            case syntax.ForStatement() | syntax.ForInStatement():
                if not self.branches:
                    self._not_in(node, "for", "parser")
                if isinstance(node, syntax.ForStatement):
                    self._for(node)
                else:
                    self._for_in(node)
            case syntax.BreakStatement() | syntax.ContinueStatement():
                if not self.loops:
                    self.reporter.error(node.at, "there is no loop around this")
            case syntax.ExitStatement():
                self._not_in(node, "exit", "parser", "function")
            case syntax.ReturnStatement():
                self._not_in(node, "return", "parser")
                self._return(node)

    def _return(self, node: syntax.ReturnStatement) -> None:
        returns = self.routine_body.returns if self.routine_body is not None else NOTHING
        if node.result is None:
            if returns is not NOTHING:
                self.reporter.error(node.at, f"{returns} is to be returned here", "return a value")
            return
        if returns is NOTHING:
            self.expression(node.result)
            self.reporter.error(node.result.at, "nothing here returns a value")
            return
        self.expect(node.result, returns, "the value that is returned")

    def _for(self, node: syntax.ForStatement) -> None:
        with self.inner_scope():
            for first in node.initial:
                self._statement(first)
            self.condition(node.condition, "the condition of for")
            self._statements(node.update)
            self._turn(node.body)

    def _turn(self, body: syntax.Statement) -> None:
        self.loops += 1
        with self.inner_scope():
            self._statement(body)
        self.loops -= 1

    def _for_in(self, node: syntax.ForInStatement) -> None:
        collection = node.collection
        wanted = self.resolve(node.type_ref) if node.type_ref is not None else None
        if wanted is None:
            symbol = self.find(syntax.NameRef(at=node.name_at, name=node.name), "variable")
            wanted = symbol.type if isinstance(symbol, Variable) else UNKNOWN
            node.symbol = symbol
            if isinstance(symbol, Variable) and not symbol.writable:
                what = f"this stores into {node.name}, which is read-only ({symbol.role})"
                self.reporter.error(node.name_at, what)
            elif symbol is not None and not isinstance(symbol, Variable):
                self.reporter.error(node.name_at, f"{node.name} is no variable; for stores into it")
        if isinstance(collection, syntax.RangeSet):
            if not isinstance(wanted, ir.Bits) and wanted is not UNKNOWN:
                self.reporter.error(node.name_at, f"{node.name} is {wanted}; bit<N> or int<N> was expected")
                wanted = UNKNOWN
            for bound, what in ((collection.low, "the lower bound"), (collection.high, "the upper bound")):
                if self.is_value(bound, what):
                    self.expect(bound, wanted, what)
        else:
            found = self.expression(collection)
            elements = (found.element, 0) if isinstance(found, P4ListType) else elements_of(found)
            kind = UNKNOWN if elements is None else elements[0]
            if elements is None:
                if found is not UNKNOWN:
                    what = f"for goes through ranges, lists, arrays and header stacks; this is {found}"
                    self.reporter.error(collection.at, what)
            elif not is_storable(kind):
                self.reporter.error(node.name_at, f"a variable cannot be {kind}", "give it a width: bit<8>")
                wanted = UNKNOWN
            elif not same(kind, wanted):
                self.reporter.error(node.name_at, f"{node.name} is {wanted}; {kind} was expected")
        with self.inner_scope():
            if node.type_ref is not None:
                node.symbol = self.place_of(node.name, wanted, True, "variable")
                self.declare(node.name, node.symbol, node.name_at)
            self._turn(node.body)

    def _not_in(self, node: syntax.Statement, what: str, *contexts: str) -> None:
        if self.context in contexts:
            self.reporter.error(node.at, f"{what} cannot stand in a {self.context}")

    def _assignment(self, node: syntax.Assignment) -> None:
        kind = self.expression(node.target)
        if not self.lvalue(node.target, "this stores into", is_assigned=True):
            self.expression(node.value)
            return
        if node.op == "=":
            self.expect(node.value, kind, "the value")
        else:
            combined = syntax.BinaryOp(at=node.at, op=node.op[:-1], left=node.target, right=node.value)
            self.expression(combined)
            if isinstance(kind, EnumType):
                self.reporter.error(node.at, f"{node.op} does not apply to {kind}", "bit<N> was expected")
            kind = node.target.type
            if self.convert(combined, kind, "the value"):
                node.value, node.op, node.is_compound = combined, "=", True
        self.expression(node.target)

    def _switch(self, node: syntax.SwitchStatement) -> None:
        subject = self.expression(node.subject)
        table = subject.table if isinstance(subject, ActionRun) else None
        if table is None:
            subject = self._key_type(node.subject, "the subject of switch")
            if subject == ir.BOOL:
                what = "the subject of switch is bool; bit<N>, int<N>, an enum or error was expected"
                self.reporter.error(node.subject.at, what, "write if")
                subject = UNKNOWN
        seen: set[str] = set()
        for case in node.cases:
            if table is not None and case.label is not None:
                self._switch_label(case.label, table, seen)
            elif case.label is not None and subject is not UNKNOWN:
                self._switch_value(case.label, subject, seen)
            if case.body is not None:
                with self.inner_scope():
                    self._statements(case.body.statements)
        defaults = [case for case in node.cases if case.label is None]
        if len(defaults) > 1:
            self.reporter.error(defaults[1].at, "switch has two default cases")
        elif defaults and node.cases[-1] is not defaults[0]:
            self.reporter.error(defaults[0].at, "default is not the last case of switch", "write it last")
        if node.cases and node.cases[-1].body is None:
            node.cases[-1].body = syntax.Block(at=node.cases[-1].at, statements=[])

    def _switch_label(self, label: syntax.Expression, table: TableSymbol, seen: set[str]) -> None:
        name = label.name if isinstance(label, syntax.NameRef) else ""
        actions = table.actions
        if name == NO_ACTION and table.declaration.default_action is None:
            implied = self.scope.outermost.find(name)
            actions = {name: implied, **actions} if isinstance(implied, ActionSymbol) else actions
        listed = table.declaration.actions or []
        if any(item.symbol is None and item.name == name for item in listed):
            pass  # already reported
        elif name not in actions:
            hint = did_you_mean(name, actions)
            self.reporter.error(
                label.at, f"{name or 'this'} is no action of table {table.declaration.name}", hint
            )
        elif name in seen:
            self.reporter.error(label.at, f"switch has two cases {name}")
        elif isinstance(label, syntax.NameRef):
            label.symbol = actions[name]
        seen.add(name)

    def _switch_value(self, label: syntax.Expression, subject: Type, seen: set[str]) -> None:
        if not self.is_value(label, "a label of switch"):
            return
        value = self.constant(label, self.label_type(label, subject), "a label of switch")
        if value is not None and str(value) in seen:
            self.reporter.error(label.at, "switch has two cases for this value")
        seen.add(str(value))

    # Functions

    def function(self, node: syntax.FunctionDeclaration) -> None:
        """Check a function, and declare it."""
        self.required(node.parameters, f"function {node.name}")
        symbol = RoutineSymbol(node.name, node, self.scope)
        variables = tuple(TypeVariable(name) for name in node.type_parameters)
        known, count = self.functions_of(node), len(node.parameters)
        if known.routines:
            symbol.name = f"{node.name}.of{count}"
            if count in known.lengths:
                symbol.name += "." + ".".join(item.name for item in node.parameters)
        known.routines.append(symbol)
        known.lengths.add(count)
        if variables or any(item.direction == "" for item in node.parameters):  # looked at again where called
            symbol.scope = self.scope.copy()
        mark = self.reporter.mark()
        self._routine(symbol, variables, node)
        kinds = [item.type for item in symbol.made[variables, ()].parameters]
        if INTEGER in kinds:
            self.unless_for_others(
                mark,
                lambda number: self._routine(symbol, variables, fresh(node), _fixed(kinds, number)),
            )

    def unless_for_others(self, mark: int, check: Callable[[int], None]) -> None:
        """Forget what was reported since `mark` where `check` finds nothing wrong for another number."""
        if not self.reporter.has_failed_since(mark):
            return
        found = self.reporter.take_back(mark)
        for number in OTHER_NUMBERS:
            check(number)
            if not self.reporter.has_failed_since(mark):
                return
            self.reporter.rewind(mark)
        self.reporter.replay(found)

    def routine(self, symbol: RoutineSymbol, types: tuple[Type, ...], given: Fixed) -> Routine:
        """Return a function for some type arguments, numbers, texts and objects."""
        if (types, given) not in symbol.made:
            self._routines_made += 1
            if self._routines_made > MAX_ROUTINES:
                what = f"more than {MAX_ROUTINES} functions, one for each type and number that they are given"
                self.reporter.error(symbol.declaration.at, what)
                raise TooManyErrors
            self._routine(symbol, types, fresh(symbol.declaration), given)
        return symbol.made[types, given]

    def _routine(
        self,
        symbol: RoutineSymbol,
        types: tuple[Type, ...],
        node: syntax.FunctionDeclaration,
        given: Fixed | None = None,
    ) -> None:
        """Check a function; without what is `given`, with some number, text or object."""
        outer = self.scope, self.block, self.routine_body, self.loops, self.open_routines
        outside, self.declared_at = self.declared_at, ChainMap(self.declared_at.maps[-1])
        self.scope, self.block, self.loops = Scope(symbol.scope), None, 0
        self.open_routines = (*self.open_routines, symbol)
        self.declare_type_variables(node.type_parameters, node.at)
        for name, kind in zip(node.type_parameters, types, strict=True):
            self.scope.names[name] = TypeSymbol(name, kind)
        name = f"{symbol.name}.{len(symbol.made)}" if types or given else symbol.name
        returns = self.returned(node.returns)
        if not is_storable(returns) and returns not in (NOTHING, UNKNOWN):
            self.reporter.error(node.returns.at, f"a function cannot return {returns}")
            returns = UNKNOWN
        routine = Routine(name, node, self.value_parameters(node.parameters, "function"), returns)
        symbol.made[types, given or ()] = self.routine_body = routine
        rest = iter(given or ())
        for parameter, written in zip(routine.parameters, node.parameters, strict=True):
            if parameter.type in (INTEGER, TEXT) or is_object(parameter.type):
                fixed = next(rest, None)
                if isinstance(parameter.type, ExternType):
                    known = fixed if isinstance(fixed, Instance) else Instance("", parameter.type)
                    self.declare(parameter.name, known, written.at)
                else:
                    value = ("" if parameter.type is TEXT else 1) if fixed is None else fixed
                    constant = ConstantSymbol(parameter.name, parameter.type, value, given=True)
                    self.declare(parameter.name, constant, written.at)
                continue
            writable = parameter.direction in ("out", "inout")
            role = f"an {parameter.direction} parameter" if parameter.direction else WITHOUT_DIRECTION
            parameter.variable = self.place_of(parameter.name, parameter.type, writable, role)
            self.declare(parameter.name, parameter.variable, written.at)
        if routine.returns is not NOTHING:
            routine.result = self.place_of("return", routine.returns, True, "result")
        runs, self.reporter.runs = self.reporter.runs, True  # another block may call it later
        before = self.begin_calls()
        self.body(node.body.statements, "function")
        self.end_calls(routine, before)
        self.reporter.runs = runs
        if routine.returns not in (NOTHING, UNKNOWN) and not _returns(node.body):
            self.reporter.error(node.at, f"function {node.name} can end without returning {routine.returns}")
        self.declared_at = outside
        self.scope, self.block, self.routine_body, self.loops, self.open_routines = outer

    def _key_type(self, node: syntax.Expression, what: str) -> Type:
        found = self.expression(node)
        if found is INTEGER:
            self.reporter.error(node.at, f"{what} is a number without a width", "give it one: 8w1")
            return UNKNOWN
        if scalar_of(found) is None and found is not UNKNOWN:
            self.reporter.error(node.at, f"{what} is {found}; a number was expected")
            return UNKNOWN
        return found


def _fixed(kinds: Sequence[Type], number: int) -> Fixed:
    """Return what parameters of some types are given that are no values at run time, among them a number."""
    given: list[int | str | Instance] = []
    for kind in kinds:
        if is_object(kind):
            assert isinstance(kind, ExternType)
            given.append(Instance("", kind))
        elif kind in (INTEGER, TEXT):
            given.append("" if kind is TEXT else number)
    return tuple(given)


def _returns(node: syntax.Statement) -> bool:
    """Return whether a statement cannot be passed without returning."""
    match node:
        case syntax.ReturnStatement() | syntax.ExitStatement():  # exit in a function is refused
            return True
        case syntax.Block():
            return any(map(_returns, node.statements))
        case syntax.IfStatement():
            bodies = [arm.body for arm in node.arms]
            return node.otherwise is not None and all(map(_returns, (*bodies, node.otherwise)))
        case syntax.SwitchStatement():
            blocks = [case.body for case in node.cases if case.body is not None]
            return any(case.label is None for case in node.cases) and all(map(_returns, blocks))
    return False
