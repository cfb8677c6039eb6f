# SPDX-License-Identifier: Apache-2.0
"""Checks statements, local declarations, parser states and tables.

Source: P4-16 Language Specification 1.2.5, "Statements", "Packet parsing", "Match-action units".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nicemu.pipeline import OBJECTS, ir

from . import syntax
from .check_calls import CallChecker
from .check_types import is_storable
from .diagnostics import did_you_mean
from .types import (
    INTEGER,
    UNKNOWN,
    ActionRun,
    BlockSymbol,
    CompositeType,
    ConstantSymbol,
    EnumType,
    ExternType,
    Instance,
    ListType,
    TableSymbol,
    Type,
    Variable,
    scalar_of,
)


class StatementChecker(CallChecker):
    """Bodies of actions, states and blocks; `block` is the one being checked."""

    block: BlockSymbol | None = None

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._places: set[str] = set()

    def body(self, statements: Sequence[syntax.Statement], place: str) -> None:
        """Check statements that stand in a parser, control, action or deparser."""
        outer, self.place = self.place, place
        with self.inner_scope():
            self._statements(statements)
        self.place = outer

    def _statements(self, statements: Sequence[syntax.Statement]) -> None:
        ended = False
        for statement in statements:
            if ended:
                self.reporter.warning(statement.at, "this is never reached")
                ended = False
            self._statement(statement)
            ended = isinstance(statement, syntax.ExitStatement | syntax.ReturnStatement)

    def _statement(self, node: syntax.Statement) -> None:
        match node:
            case syntax.Block():
                with self.inner_scope():
                    self._statements(node.statements)
            case syntax.VariableDeclaration():
                self.variable(node)
            case syntax.Instantiation():
                self.reporter.error(
                    node.at, "an object cannot be declared inside a body", "declare it in the control"
                )
            case syntax.Assignment():
                self._assignment(node)
            case syntax.CallStatement():
                found = self.expression(node.call)
                if (
                    node.call.symbol
                    and node.call.symbol.kind == "packet"
                    and node.call.symbol.name == "lookahead"
                ):
                    self.reporter.warning(node.at, "the value of lookahead is not used")
                elif scalar_of(found) is not None:
                    self.reporter.warning(node.at, "the value of this call is not used")
            case syntax.IfStatement():
                self.condition(node.condition, "the condition of if")
                for branch in (node.then, node.otherwise):
                    if branch is not None:
                        with self.inner_scope():
                            self._statement(branch)
            case syntax.SwitchStatement():
                self._switch(node)
            case syntax.ForStatement() | syntax.ForInStatement():
                self.reporter.unsupported(node.at, "'for'")
            case syntax.BreakStatement() | syntax.ContinueStatement():
                self.reporter.error(node.at, "there is no loop around this")
            case syntax.ExitStatement():
                self._not_in(node, "exit", "parser", "deparser")
            case syntax.ReturnStatement():
                self._not_in(node, "return", "parser")
                if node.result is not None:
                    self.expression(node.result)
                    self.reporter.error(node.result.at, "nothing here returns a value")

    def _not_in(self, node: syntax.Statement, what: str, *places: str) -> None:
        if self.place in places:
            self.reporter.error(node.at, f"{what} cannot stand in a {self.place}")

    def _assignment(self, node: syntax.Assignment) -> None:
        kind = self.expression(node.target)
        if node.op == "=":
            self.expect(node.value, kind, "the value")
        else:
            combined = syntax.BinaryOp(at=node.at, op=node.op[:-1], left=node.target, right=node.value)
            self.expression(combined)
            kind = node.target.type
            if self.convert(combined, kind, "the value"):
                node.value, node.op = combined, "="
        self.expression(node.target)
        self.lvalue(node.target, "this stores into")

    def _switch(self, node: syntax.SwitchStatement) -> None:
        subject = self.expression(node.subject)
        table = subject.table if isinstance(subject, ActionRun) else None
        if table is None and subject != UNKNOWN:
            self.reporter.unsupported(
                node.subject.at, f"switch over {subject}", "switch over table.apply().action_run, or use if"
            )
        seen: set[str] = set()
        for case in node.cases:
            if table is not None and case.label is not None:
                self._switch_label(case.label, table, seen)
            if case.body is not None:
                with self.inner_scope():
                    self._statements(case.body.statements)
        defaults = [case for case in node.cases if case.label is None]
        if len(defaults) > 1:
            self.reporter.error(defaults[1].at, "switch has two default cases")
        elif defaults and defaults[0] is not node.cases[-1]:
            self.reporter.error(defaults[0].at, "default must be the last case")
        if node.cases and node.cases[-1].body is None:
            self.reporter.error(node.cases[-1].at, "the last case has no body", "add { }")

    def _switch_label(self, label: syntax.Expression, table: TableSymbol, seen: set[str]) -> None:
        name = label.name if isinstance(label, syntax.NameRef) else ""
        if name not in table.actions:
            hint = did_you_mean(name, table.actions)
            self.reporter.error(
                label.at, f"{name or 'this'} is no action of table {table.declaration.name}", hint
            )
        elif name in seen:
            self.reporter.error(label.at, f"switch has two cases {name}")
        elif isinstance(label, syntax.NameRef):
            label.symbol = table.actions[name]
        seen.add(name)

    # Local declarations

    def variable(self, node: syntax.VariableDeclaration) -> None:
        """Check a variable or constant, and declare it."""
        kind = self.resolve(node.type_ref)
        if node.constant:
            assert node.initial is not None
            value = self.constant(node.initial, kind, f"constant {node.name}")
            if value is None or isinstance(node.initial.type, CompositeType | ListType):
                kind = UNKNOWN
            self.declare(node.name, ConstantSymbol(node.name, kind, value), node.at)
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
        start = prefix or (self.block.name if self.block else "program")
        place, number = f"{start}.{name}", 1
        while place in self._places:
            number += 1
            place = f"{start}.{name}_{number}"
        self._places.add(place)
        variable = Variable(name, kind, place, writable, role)
        if self.block is not None and not isinstance(kind, ExternType):
            self.block.variables.append(variable)
        return variable

    def instance(self, node: syntax.Instantiation) -> None:
        """Check an extern object and declare it."""
        kind = self.resolve(node.type_ref)
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

    def _check_constructor(self, node: syntax.Instantiation, kind: ExternType) -> None:
        declaration = kind.symbol.declaration
        known = OBJECTS.get(declaration.name)
        if known is None:
            hint = did_you_mean(declaration.name, OBJECTS)
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

    # Parser states

    def states(self, block: syntax.BlockDeclaration) -> None:
        """Check the states of a parser: bodies, transitions, and that all can be reached."""
        nodes = block.states or []
        names: dict[str, syntax.StateDeclaration] = {}
        for node in nodes:
            if node.name in names or node.name in (ir.ACCEPT, ir.REJECT):
                self.reporter.error(node.at, f"parser {block.name} has two states {node.name}")
            names[node.name] = node
        if "start" not in names:
            self.reporter.error(
                block.at, f"parser {block.name} has no state start", did_you_mean("start", names)
            )
        targets = [*names, ir.ACCEPT, ir.REJECT]
        for node in nodes:
            outer, self.place = self.place, "parser"
            with self.inner_scope():
                self._statements(node.body)
                self._transition(node, targets)
            self.place = outer
        self._warn_unreachable(names)

    def _warn_unreachable(self, names: dict[str, syntax.StateDeclaration]) -> None:
        reached = {"start"}
        pending = ["start"]
        while pending:
            node = names.get(pending.pop())
            for target in [node.goto, *(case.state for case in node.cases)] if node else []:
                if target not in reached:
                    reached.add(target)
                    pending.append(target)
        for name, node in names.items():
            if name not in reached:
                self.reporter.warning(node.at, f"state {name} is never reached")

    def _transition(self, node: syntax.StateDeclaration, targets: Sequence[str]) -> None:
        if node.keys is None:
            if not node.goto:
                node.goto = ir.REJECT
                self.reporter.warning(
                    node.at,
                    f"state {node.name} has no transition: packets are rejected",
                    "add transition accept;",
                )
            elif node.goto not in targets:
                hint = did_you_mean(node.goto, targets)
                self.reporter.error(node.goto_at or node.at, f"unknown state {node.goto}", hint)
            return
        kinds = [self._key_type(key, "a key of select") for key in node.keys]
        final: syntax.SelectLabel | None = None
        for case in node.cases:
            if case.state not in targets:
                self.reporter.error(
                    case.state_at, f"unknown state {case.state}", did_you_mean(case.state, targets)
                )
            self.keysets(case, kinds)
            if final is not None:
                self.reporter.warning(case.at, "this case is never reached: the one before takes everything")
                final = None
            elif all(isinstance(item, syntax.AnySet) for item in case.keysets):
                final = case

    def _key_type(self, node: syntax.Expression, what: str) -> Type:
        found = self.expression(node)
        if found == INTEGER:
            self.reporter.error(node.at, f"{what} is a number without a width", "give it one: 8w1")
            return UNKNOWN
        if scalar_of(found) is None and found != UNKNOWN:
            self.reporter.error(node.at, f"{what} is {found}; a number was expected")
            return UNKNOWN
        return found

    def keysets(self, case: syntax.SelectLabel | syntax.EntryElement, kinds: Sequence[Type]) -> None:
        """Check the keysets of a select case or an entry; fill in their values."""
        if len(case.keysets) == 1 and isinstance(case.keysets[0], syntax.AnySet):
            case.keysets = [syntax.AnySet(at=case.at) for _ in kinds]
        if len(case.keysets) != len(kinds):
            self.reporter.error(case.at, f"{len(case.keysets)} keysets for {len(kinds)} keys")
        for keyset, kind in zip(case.keysets, kinds, strict=False):
            keyset.value = self._keyset(keyset, kind)

    def _keyset(self, node: syntax.Expression, kind: Type) -> ir.Keyset | None:
        scalar = scalar_of(kind)
        match node:
            case syntax.AnySet():
                return ir.KeyAny()
            case syntax.MaskSet():
                plain = self._plain(node, kind)
                value, mask = (self.constant(part, plain, "a keyset") for part in (node.left, node.mask))
                return None if value is None or mask is None else ir.KeyMask(value, mask)
            case syntax.RangeSet():
                plain = self._plain(node, kind)
                low, high = (self.constant(part, plain, "a keyset") for part in (node.low, node.high))
                if low is None or high is None:
                    return None
                if low > high:
                    self.reporter.error(node.at, "this range is empty", "write the lower bound first")
                return ir.KeyRange(low, high)
        value = self.constant(node, kind, "a keyset")
        if value is None or scalar is None:
            return None
        width = scalar.width if isinstance(scalar, ir.Bits) else 1 if scalar == ir.BOOL else 32
        ones = (1 << width) - 1
        return ir.KeyMask(value & ones, ones)

    def _plain(self, node: syntax.Expression, kind: Type) -> Type:
        plain = kind.underlying if isinstance(kind, EnumType) and kind.underlying else kind
        if (isinstance(plain, ir.Bits) and not plain.signed) or plain == UNKNOWN:
            return plain
        self.reporter.unsupported(node.at, f"a mask or range over {kind}")
        return UNKNOWN
