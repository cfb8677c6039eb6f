# SPDX-License-Identifier: Apache-2.0
"""Checks the statements and expressions of a program: types recomputed from below, calls against
declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from . import ir
from .arithmetic import BINARY, COMPARISONS, CONCATENATION, LOGICAL, SHIFTS, UNARY, bounds
from .externs import FUNCTIONS, OBJECTS
from .ir_json import fault
from .tables import width_of

MAX_NESTING = 120
"""Statements and expressions that may stand inside one another; it bounds the interpreter's recursion."""

MAX_CALLS = 24
"""Actions, functions and tables that may call one another in a row."""

_ANYWHERE = (
    ir.Assign,
    ir.Reset,
    ir.If,
    ir.Switch,
    ir.Loop,
    ir.ForRange,
    ir.Break,
    ir.Continue,
    ir.CallRoutine,
    ir.SetValid,
    ir.MoveStack,
)
_ACTION = (*_ANYWHERE, ir.CallAction, ir.CallFunction, ir.CallMethod, ir.Exit, ir.Return)
_ALLOWED = {
    "function": (*_ANYWHERE, ir.Return),
    "parser": (*_ANYWHERE, ir.Extract, ir.ExtractVarbit, ir.Advance, ir.Verify),
    "control": (*_ACTION, ir.ApplyTable, ir.SwitchAction),
    "action": _ACTION,
    "deparser": (*_ANYWHERE, ir.Emit, ir.Return),
}


class Faults:
    """Where in the program the check stands."""

    def __init__(self) -> None:
        self._path = ["$"]

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Check `place` inside the present one."""
        self._path.append(place)
        yield
        self._path.pop()

    def raise_(self, place: str, sentence: str) -> NoReturn:
        """Raise the ControlError for a fault at `place`."""
        raise fault(".".join([*self._path, place]).rstrip("."), sentence)


@dataclass(slots=True)
class Bodies:
    """Checks bodies against everything that the program declares."""

    faults: Faults
    headers: Mapping[str, ir.HeaderType]
    structs: Mapping[str, ir.StructType]
    unions: Mapping[str, ir.UnionType]
    variables: Mapping[str, ir.Type]
    errors: Sequence[str]
    instances: Mapping[str, ir.ExternInstance]
    actions: dict[str, ir.Action]
    tables: Mapping[str, ir.Table]
    functions: Mapping[str, ir.Function] = field(default_factory=dict)
    place: str = "control"
    _loops: int = field(default=0)
    _depth: int = field(default=0)

    def body(self, statements: Sequence[ir.Statement], place: str) -> None:
        """Check statements that stand in a "parser", "control", "action", "function" or "deparser"."""
        self.place = place
        self._loops = 0
        self._statements(statements)

    def scalar(self, node: ir.Expression) -> None:
        """Check an expression that must be a number, a bool or an error."""
        if not is_scalar(self._type(node)):
            self.faults.raise_("", f"a {node.type} stands where a number was expected")

    def number(self, node: ir.Expression) -> None:
        """Check an expression that must be bit<N> or int<N>."""
        if not isinstance(self._type(node), ir.Bits):
            self.faults.raise_("", f"a {node.type} stands where a number was expected")

    def known(self, kind: ir.Type) -> None:
        """Check that the program has a type."""
        name = kind.element if isinstance(kind, ir.Stack) else kind.name if isinstance(kind, ir.Named) else ""
        elements: Mapping[str, object] = {**self.headers, **self.unions}
        if name and name not in elements and (isinstance(kind, ir.Stack) or name not in self.structs):
            self.faults.raise_("type", f"is {kind}, which the program does not have")
        if isinstance(kind, ir.Stack) and not 0 < kind.size <= ir.MAX_STACK_SIZE:
            self.faults.raise_("type", f"{kind} has more than {ir.MAX_STACK_SIZE} elements")

    def is_flat(self, kind: ir.Type) -> bool:
        """Return whether a type is a fixed number of bits: a scalar, or a header or struct of such."""
        if not isinstance(kind, ir.Named):
            return isinstance(kind, ir.Bits | ir.Bool)
        layout = self.headers.get(kind.name) or self.structs.get(kind.name)
        return layout is not None and all(self.is_flat(part.type) for part in layout.fields)

    def _only_in_parser(self, node: ir.Expression) -> None:
        if self.place != "parser":
            self.faults.raise_("", f"has a {type(node).__name__} in a {self.place}")

    def arguments(
        self, action: str, parameters: Sequence[ir.Parameter], given: Sequence[ir.Expression]
    ) -> None:
        """Check the arguments of one call of an action."""
        if len(parameters) != len(given):
            self.faults.raise_("", f"{action} takes {len(parameters)} arguments; {len(given)} are given")
        for parameter, argument in zip(parameters, given, strict=True):
            self._expect(argument, parameter.type)
            if parameter.direction in (ir.Direction.OUT, ir.Direction.INOUT):
                self._lvalue(argument)

    def refuse_recursion(self) -> None:
        """Raise if an action, function or table can come to run while it runs."""
        calls: dict[str, set[str]] = {}
        routines: list[ir.Action | ir.Function] = [*self.actions.values(), *self.functions.values()]
        for routine in routines:
            calls[routine.name] = set(_called(routine.body))
        for table in self.tables.values():
            refs = {ref.action for ref in table.actions}
            calls[f"table {table.name}"] = refs | set(_called((table.keys, table.actions)))
        done: set[str] = set()
        for root in calls:
            path: list[tuple[str, Iterator[str]]] = [(root, iter(sorted(calls[root])))]
            on_path = {root}
            while path:
                name, pending = path[-1]
                callee = next(pending, None)
                if callee is None:
                    path.pop()
                    on_path.discard(name)
                    done.add(name)
                elif callee in on_path:
                    self.faults.raise_("actions", f"{callee} calls itself; P4 has no recursion")
                elif callee not in done and callee in calls:
                    path.append((callee, iter(sorted(calls[callee]))))
                    on_path.add(callee)
                    if len(path) > MAX_CALLS:
                        self.faults.raise_("actions", f"{root} calls deeper than {MAX_CALLS} levels")

    # Statements

    def _statements(self, statements: Sequence[ir.Statement]) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self.faults.raise_("", "is nested too deeply")
        for position, statement in enumerate(statements):
            with self.faults.at(f"[{position}]"):
                if not isinstance(statement, _ALLOWED[self.place]):
                    name = type(statement).__name__
                    self.faults.raise_("", f"is {name}, which cannot stand in a {self.place}")
                self._statement(statement)
        self._depth -= 1

    def _statement(self, statement: ir.Statement) -> None:
        match statement:
            case ir.Assign(target, value):
                self._expect(value, self._type(target))
                self._lvalue(target)
            case ir.Reset(variable):
                if variable not in self.variables:
                    self.faults.raise_("variable", f"{variable} is unknown")
            case ir.If(condition, then, otherwise):
                self._expect(condition, ir.BOOL)
                self._statements(then)
                self._statements(otherwise)
            case ir.ApplyTable(table):
                self._table(table)
            case ir.SwitchAction(table, cases):
                allowed = {ref.action for ref in self._table(table).actions}
                for case in cases:
                    if not allowed.issuperset(case.actions):
                        self.faults.raise_("cases", f"{case.actions} are not all actions of {table}")
                    self._statements(case.body)
            case ir.Switch(subject, values):
                self.scalar(subject)
                for value_case in values:
                    for number in value_case.values:
                        self._constant(number, subject.type)
                    self._statements(value_case.body)
            case ir.Loop(condition, body, update):
                self._expect(condition, ir.BOOL)
                self._turns(body)
                self._statements(update)
            case ir.ForRange(variable, low, high, body):
                kind = self.variables.get(variable)
                if not isinstance(kind, ir.Bits):
                    self.faults.raise_("variable", f"{variable} is no variable with a number")
                self._expect(low, kind)
                self._expect(high, kind)
                self._turns(body)
            case ir.Break() | ir.Continue():
                if not self._loops:
                    self.faults.raise_("", "stands outside all loops")
            case ir.CallRoutine(function, arguments):
                self._function(function, arguments)
            case ir.CallAction(action, arguments):
                if action not in self.actions:
                    self.faults.raise_("action", f"{action} is unknown")
                self.arguments(action, self.actions[action].parameters, arguments)
            case ir.CallFunction(function, arguments):
                if function not in FUNCTIONS:
                    self.faults.raise_(
                        "function", f"{function} is unknown; this NIC has {', '.join(FUNCTIONS)}"
                    )
                self._call(function, FUNCTIONS[function].parameters, arguments)
            case ir.CallMethod(instance, method, arguments):
                self._method(instance, method, arguments)
            case ir.SetValid(header, _):
                self._header(header)
                self._lvalue(header)
            case ir.MoveStack(stack, count, _):
                self._stack(stack)
                self._lvalue(stack)
                if count < 0:
                    self.faults.raise_("count", f"is {count}")
            case ir.Extract(header):
                self._extracted(header, False)
            case ir.ExtractVarbit(header, bits):
                self._extracted(header, True)
                self._expect(bits, ir.Bits(32))
            case ir.Advance(bits):
                self._expect(bits, ir.Bits(32))
            case ir.Verify(condition, error):
                self._expect(condition, ir.BOOL)
                self._expect(error, ir.ERROR)
            case ir.Emit(value):
                self._emitted(self._type(value))

    def _turns(self, body: Sequence[ir.Statement]) -> None:
        self._loops += 1
        self._statements(body)
        self._loops -= 1

    def _function(self, name: str, arguments: Sequence[ir.Expression]) -> ir.Function:
        if name not in self.functions:
            self.faults.raise_("function", f"{name} is unknown")
        if self.functions[name].is_control and self.place != "control":
            self.faults.raise_("function", f"{name} is a control, which cannot be applied here")
        self.arguments(name, self.functions[name].parameters, arguments)
        return self.functions[name]

    def _method(self, instance: str, method: str, arguments: Sequence[ir.Expression]) -> None:
        if instance not in self.instances:
            self.faults.raise_("instance", f"{instance} is unknown")
        declared = self.instances[instance]
        methods = OBJECTS[declared.extern].methods
        if method not in methods:
            self.faults.raise_("method", f"{declared.extern} has no {method}; it has {', '.join(methods)}")
        wanted = [declared.types[0] if kind is None else kind for kind in methods[method].parameters]
        self._call(f"{instance}.{method}", wanted, arguments)

    def _call(self, name: str, wanted: Sequence[ir.Type], given: Sequence[ir.Expression]) -> None:
        if len(wanted) != len(given):
            self.faults.raise_("arguments", f"{name} takes {len(wanted)}; {len(given)} are given")
        for kind, argument in zip(wanted, given, strict=True):
            self._expect(argument, kind)

    def _table(self, name: str) -> ir.Table:
        if name not in self.tables or self.place != "control":
            self.faults.raise_("table", f"{name} cannot be applied here")
        return self.tables[name]

    def _emitted(self, kind: ir.Type) -> None:
        if isinstance(kind, ir.Stack):
            return
        if not isinstance(kind, ir.Named):
            self.faults.raise_("value", f"is {kind}; only headers and structs of headers can be emitted")
        for part in self.structs[kind.name].fields if kind.name in self.structs else ():
            self._emitted(part.type)

    # Expressions

    def _expect(self, node: ir.Expression, wanted: ir.Type) -> None:
        found = self._type(node)
        if found != wanted:
            self.faults.raise_("", f"has a {type(node).__name__} of type {found} where {wanted} was expected")

    def _header(self, node: ir.Expression) -> None:
        kind = self._type(node)
        if not isinstance(kind, ir.Named) or kind.name not in self.headers:
            self.faults.raise_("", f"has a {kind} where a header was expected")

    def _extracted(self, node: ir.Expression, with_varbit: bool) -> None:
        self._header(node)
        self._lvalue(node)
        assert isinstance(node.type, ir.Named)
        varbits = [part for part in self.headers[node.type.name].fields if isinstance(part.type, ir.Varbit)]
        if bool(varbits) is not with_varbit:
            needed = "needs the length of its varbit" if varbits else "has no varbit"
            self.faults.raise_("header", f"{node.type} {needed}")

    def _stack(self, node: ir.Expression) -> ir.Named:
        """Check that an expression is a header stack; return the type of its elements."""
        kind = self._type(node)
        if not isinstance(kind, ir.Stack):
            self.faults.raise_("", f"has a {kind} where a header stack was expected")
        return ir.Named(kind.element)

    def _lvalue(self, node: ir.Expression) -> None:
        while isinstance(node, ir.Member | ir.Slice | ir.Element | ir.StackPlace):
            node = node.stack if isinstance(node, ir.StackPlace) else node.base
        if not isinstance(node, ir.Name):
            self.faults.raise_("", f"stores into a {type(node).__name__}; a variable or field was expected")

    def _type(self, node: ir.Expression) -> ir.Type:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self.faults.raise_("", "is nested too deeply")
        found = self._computed(node)
        if found != node.type:
            self.faults.raise_("type", f"of a {type(node).__name__} is given as {node.type}; it is {found}")
        self._depth -= 1
        return found

    def _computed(self, node: ir.Expression) -> ir.Type:
        match node:
            case ir.Constant(value, kind):
                self._constant(value, kind)
                return kind
            case ir.Name(name, _):
                if name not in self.variables:
                    self.faults.raise_("name", f"{name} is unknown")
                return self.variables[name]
            case ir.Member(base, name, _):
                return self._field(self._type(base), name)
            case ir.Element(base, index, _):
                self.number(index)
                return self._stack(base)
            case ir.StackPlace(stack, _, _):
                self._only_in_parser(node)
                return self._stack(stack)
            case ir.LastIndex(stack, _):
                self._only_in_parser(node)
                self._stack(stack)
                return ir.Bits(32)
            case ir.PacketLength():
                self._only_in_parser(node)
                return ir.Bits(32)
            case ir.Call(name, arguments, _):
                result = self._function(name, arguments).result
                if not result:
                    self.faults.raise_("function", f"{name} returns nothing")
                return self.variables[result]
            case ir.Unary(op, operand, _):
                kind = self._type(operand)
                if (
                    op not in UNARY
                    or (op == "!") != (kind == ir.BOOL)
                    or not isinstance(kind, ir.Bits | ir.Bool)
                ):
                    self.faults.raise_("op", f"{op} does not apply to {kind}")
                return kind
            case ir.Binary(op, left, right, _):
                return self._binary(op, self._type(left), self._type(right))
            case ir.Conditional(condition, yes, no, _):
                self._expect(condition, ir.BOOL)
                self._expect(no, self._type(yes))
                return yes.type
            case ir.Cast(operand, kind):
                self.scalar(operand)
                pair = (operand.type, kind)
                if not all(isinstance(side, ir.Bits | ir.Bool) for side in pair) or (
                    ir.BOOL in pair and {width_of(side) for side in pair} != {1}
                ):
                    self.faults.raise_("", f"casts {operand.type} to {kind}")
                return kind
            case ir.Slice(base, high, low, _):
                self.scalar(base)
                if not isinstance(base.type, ir.Bits) or not 0 <= low <= high < base.type.width:
                    self.faults.raise_("", f"slices [{high}:{low}] of {base.type}")
                return ir.Bits(high - low + 1)
            case ir.IsValid(header, _):
                kind = self._type(header)
                if not isinstance(kind, ir.Named) or kind.name not in self.unions:
                    self._header(header)
                return ir.BOOL
            case ir.TableApply(table, _, _):
                self._table(table)
                return ir.BOOL
            case ir.Lookahead(kind):
                self._only_in_parser(node)
                if not self.is_flat(kind):
                    self.faults.raise_("", f"looks ahead for a {kind}")
                return kind
            case ir.StructValue(fields, kind):
                self._struct_value(fields, kind)
                return kind
            case ir.StackValue(elements, kind):
                if not isinstance(kind, ir.Stack) or kind.size != len(elements):
                    self.faults.raise_("", f"makes a {kind} of {len(elements)} values")
                for element in elements:
                    self._expect(element, ir.Named(kind.element))
                self.known(kind)
                return kind
            case ir.Zero(kind):
                self.known(kind)
                return kind

    def _constant(self, value: int, kind: ir.Type) -> None:
        match kind:
            case ir.Bits():
                low, high = bounds(kind)
            case ir.Bool():
                low, high = 0, 1
            case ir.ErrorCode():
                low, high = 0, len(self.errors) - 1
            case _:
                self.faults.raise_("", f"has a constant of type {kind}")
        if not low <= value <= high:
            self.faults.raise_("value", f"{value} is not a {kind}")

    def _field(self, kind: ir.Type, name: str) -> ir.Type:
        if isinstance(kind, ir.Named):
            layout = self.headers.get(kind.name) or self.structs.get(kind.name) or self.unions.get(kind.name)
            for part in layout.fields if layout else ():
                if part.name == name:
                    return part.type
        self.faults.raise_("field", f"{name} is not one of {kind}")

    def _binary(self, op: str, left: ir.Type, right: ir.Type) -> ir.Type:
        both_bits = isinstance(left, ir.Bits) and isinstance(right, ir.Bits)
        if op in ("==", "!=") and left == right:
            return ir.BOOL
        if op in LOGICAL and left == right == ir.BOOL:
            return ir.BOOL
        if op == CONCATENATION and isinstance(left, ir.Bits) and isinstance(right, ir.Bits):
            if left.width + right.width > ir.MAX_WIDTH_BITS:
                self.faults.raise_("op", f"++ makes more than {ir.MAX_WIDTH_BITS} bits")
            return ir.Bits(left.width + right.width, left.signed)
        if op in SHIFTS and both_bits and isinstance(right, ir.Bits) and not right.signed:
            return left
        if op in BINARY and op not in LOGICAL | SHIFTS and both_bits and left == right:
            return ir.BOOL if op in COMPARISONS else left
        self.faults.raise_("op", f"{op} does not apply to {left} and {right}")

    def _struct_value(self, values: Sequence[ir.Expression], kind: ir.Type) -> None:
        layout = None
        if isinstance(kind, ir.Named):
            layout = self.headers.get(kind.name) or self.structs.get(kind.name)
        if layout is None or len(layout.fields) != len(values):
            self.faults.raise_("", f"makes a {kind} of {len(values)} values")
        for part, value in zip(layout.fields, values, strict=True):
            self._expect(value, part.type)


def is_scalar(kind: ir.Type) -> bool:
    """Return whether values of a type are numbers at run time."""
    return isinstance(kind, ir.Bits | ir.Bool | ir.ErrorCode)


def _called(node: object) -> Iterator[str]:
    """Return the names of the actions and functions that a piece of the program calls, and "table NAME"."""
    pending = [node]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending.extend(item)
            continue
        match item:
            case ir.CallAction(name, _) | ir.CallRoutine(name, _) | ir.Call(name, _, _):
                yield name
            case ir.ApplyTable(name) | ir.TableApply(name, _, _) | ir.SwitchAction(name, _):
                yield f"table {name}"
        for name in getattr(item, "__dataclass_fields__", ()):
            pending.append(getattr(item, name))
