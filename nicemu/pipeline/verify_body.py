# SPDX-License-Identifier: Apache-2.0
"""Checks the bodies of a program, statement by statement, and that nothing runs itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from . import ir
from .ir_walk import nodes_of
from .verify_expressions import EMITS, MAX_NESTING, TAKES, Expressions, Uses

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
    ir.CallFunction,
    ir.CallMethod,
)
_ACTION = (*_ANYWHERE, ir.CallAction, ir.Exit, ir.Return)
_CONTROL = (*_ACTION, ir.ApplyTable, ir.SwitchAction)
_TAKING = (ir.Extract, ir.ExtractVarbit, ir.Advance)
_ALLOWED = {
    "function": (*_ANYWHERE, *_TAKING, ir.Emit, ir.Return),
    "parser": (*_ANYWHERE, *_TAKING, ir.Verify),
    "control": _CONTROL,
    "action": (*_ACTION, ir.Emit),
    "deparser": (*_CONTROL, ir.Emit),
}


@dataclass(slots=True)
class Bodies(Expressions):
    """Checks bodies against everything that the program declares."""

    _loops: int = field(default=0)

    def body(self, statements: Sequence[ir.Statement], place: str, name: str) -> None:
        """Check statements that stand in a "parser", "control", "action", "function" or "deparser".

        What they use is noted under a `name`.
        """
        self.begin(name, place)
        self._loops = 0
        self._statements(statements)

    def begin(self, name: str, place: str) -> Uses:
        """Check what stands in a place from now on, and note under a name what it uses besides."""
        self.place = place
        self._uses = self.uses.setdefault(name, Uses())
        return self._uses

    def refuse_recursion(self) -> None:
        """Raise if an action, function or table, all of which were checked, can come to run while it runs."""
        done: set[str] = set()
        for root in self.uses:
            path: list[tuple[str, Iterator[str]]] = [(root, iter(sorted(self.uses[root].calls)))]
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
                elif callee not in done:
                    path.append((callee, iter(sorted(self.uses[callee].calls))))
                    on_path.add(callee)
                    if len(path) > ir.MAX_CALLS:
                        self.faults.raise_("actions", f"{root} calls deeper than {ir.MAX_CALLS} levels")

    def called_by(self, name: str) -> Iterator[str]:
        """Yield the names of what something calls, and those of what that calls, each once."""
        pending, seen = [name], {name}
        while pending:
            new = self.uses[pending.pop()].calls - seen
            seen |= new
            pending += new
            yield from new

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
                if any(True for _ in nodes_of(update, ir.Return, ir.Exit, ir.Break, ir.Continue)):
                    self.faults.raise_("update", "leaves the loop; only its condition and body may")
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
                self._uses.calls.add(action)
                self.arguments(action, self.actions[action].parameters, arguments)
            case ir.CallFunction(function, arguments):
                self._extern("", function, arguments)
            case ir.CallMethod(instance, method, arguments):
                self._extern(instance, method, arguments)
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
                self._uses.packets.add(TAKES)
            case ir.ExtractVarbit(header, bits):
                self._extracted(header, True)
                self._expect(bits, ir.Bits(32))
                self._uses.packets.add(TAKES)
            case ir.Advance(bits):
                self._expect(bits, ir.Bits(32))
                self._uses.packets.add(TAKES)
            case ir.Verify(condition, error):
                self._expect(condition, ir.BOOL)
                self._expect(error, ir.ERROR)
            case ir.Emit(value):
                self._emitted(self._type(value))
                self._uses.packets.add(EMITS)

    def _turns(self, body: Sequence[ir.Statement]) -> None:
        self._loops += 1
        self._statements(body)
        self._loops -= 1

    def _emitted(self, kind: ir.Type) -> None:
        if isinstance(kind, ir.Stack):
            return
        if not isinstance(kind, ir.Named):
            self.faults.raise_("value", f"is {kind}; only headers and structs of headers can be emitted")
        for part in self.structs[kind.name].fields if kind.name in self.structs else ():
            self._emitted(part.type)
