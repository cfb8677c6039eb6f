# SPDX-License-Identifier: Apache-2.0
"""Statements of the IR as LLVM instructions. Actions and functions stand in line wherever they are called.

A call has blocks of its own for `return` and for `exit`, because both copy out what it has written.
Source: P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out", "Statements".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nicemu.pipeline import MAX_TURNS, ir, width_of

from .expressions import Expressions, path_of
from .not_compiled import NotCompiled
from .paths import own_path
from .places import BIT, INDEX, NEXT, VALID, Composite, Number, Place
from .records import STUCK

MAX_STATEMENTS = 30_000
"""Statements of a kernel, those of actions and functions counted at each call."""


@dataclass(slots=True)
class Ends:
    """Where the ways out of a body lead: blocks. None where there is no such way."""

    returning: Any = None
    exiting: Any = None
    breaking: Any = None
    continuing: Any = None
    stuck: Any = None


class Statements(Expressions):
    """Bodies; `ends` says where their ways out lead."""

    ends = Ends()
    _statements = 0

    def body(self, statements: Sequence[ir.Statement]) -> None:
        """Make a body; nothing stands behind a way out."""
        for statement in statements:
            self._statements += 1
            if self._statements > MAX_STATEMENTS:
                raise NotCompiled(f"it would have more than {MAX_STATEMENTS} statements")
            self.statement(statement)
            if self.builder.block.is_terminated:
                return

    def statement(self, node: ir.Statement) -> None:
        """Make one statement."""
        match node:
            case ir.Assign(target, value):
                target = self.located(target)
                self.store(target, self.value(value))
            case ir.Reset(variable):
                kind = self.types[variable]
                self.places.store(Place(variable, kind), self.places.zero(kind), self.builder)
            case ir.If(condition, then, otherwise):
                self._if(self.value(condition), then, otherwise)
            case ir.ApplyTable(table):
                self.apply(table)
            case ir.SwitchAction(table, cases):
                self._switch_action(table, cases)
            case ir.Switch():
                self._switch(node)
            case ir.Loop(condition, body, update):
                self._loop(condition, body, update)
            case ir.ForRange():
                self._for_range(node)
            case ir.Break():
                self.builder.branch(self.ends.breaking)
            case ir.Continue():
                self.builder.branch(self.ends.continuing)
            case ir.CallRoutine(function, arguments):
                self.call(function, arguments)
            case ir.CallAction(action, arguments):
                self.call_action(action, arguments)
            case ir.CallFunction(function, arguments):
                self.extern("", function, arguments)
            case ir.CallMethod(instance, method, arguments):
                self.extern(instance, method, arguments)
            case ir.SetValid(header, valid):
                self._set_valid(self.located(header), valid)
            case ir.MoveStack():
                self._move_stack(node)
            case ir.Exit():
                self.builder.branch(self.ends.exiting)
            case ir.Return():
                self.builder.branch(self.ends.returning)
            case _:
                self.packet_statement(node)

    def packet_statement(self, node: ir.Statement) -> None:
        """Make a statement that reads or writes the packet."""
        raise NotImplementedError

    def _if(self, condition: Number, then: Sequence[ir.Statement], otherwise: Sequence[ir.Statement]) -> None:
        yes, no, after = self.block("then"), self.block("else"), self.block("end")
        self.builder.cbranch(condition, yes, no)
        for block, statements in ((yes, then), (no, otherwise)):
            self.builder.position_at_end(block)
            self.body(statements)
            if not self.builder.block.is_terminated:
                self.builder.branch(after)
        self.builder.position_at_end(after)

    def _switch_action(self, table: str, cases: Sequence[ir.SwitchCase]) -> None:
        self.apply(table)
        ran = self.builder.load(self.ran(table))
        after = self.block("end")
        for case in cases:
            body, further = self.block("case"), self.block("further")
            taken = BIT(not case.actions)
            for action in case.actions:
                is_it = self.builder.icmp_unsigned("==", ran, INDEX(self.action_number(action)))
                taken = self.builder.or_(taken, is_it)
            self.builder.cbranch(taken, body, further)
            self.builder.position_at_end(body)
            self.body(case.body)
            if not self.builder.block.is_terminated:
                self.builder.branch(after)
            self.builder.position_at_end(further)
        self.go(after)

    def ran(self, table: str) -> Any:  # noqa: ANN401
        """Return the address of the number of the action that a table has run last."""
        return self.places.slot(Place(own_path(f"ran.{table}"), ir.Bits(32)), self.builder)

    def action_number(self, name: str) -> int:
        """Return the number of an action."""
        return next(number for number, item in enumerate(self.program.actions) if item.name == name)

    def _switch(self, node: ir.Switch) -> None:
        subject, after = self.value(node.subject), self.block("end")
        for case in node.cases:
            body, further = self.block("case"), self.block("further")
            taken = BIT(not case.values)
            for number in case.values:
                wanted = subject.type(number & (1 << width_of(node.subject.type)) - 1)
                taken = self.builder.or_(taken, self.builder.icmp_unsigned("==", subject, wanted))
            self.builder.cbranch(taken, body, further)
            self.builder.position_at_end(body)
            self.body(case.body)
            if not self.builder.block.is_terminated:
                self.builder.branch(after)
            self.builder.position_at_end(further)
        self.go(after)

    # Loops

    def _count_turn(self) -> None:
        """Count a turn of a loop, or a call; at the last one the packet is stuck."""
        if not self.has_turns:
            return
        slot = self.turns
        turns = self.builder.add(self.builder.load(slot), INDEX(1))
        self.builder.store(turns, slot)
        self.give_up_if(self.builder.icmp_unsigned(">", turns, INDEX(MAX_TURNS)), STUCK)

    def give_up_if(self, condition: Number, reason: int) -> None:
        """End everything that is done for this packet where a limit is passed."""
        ended, going = self.block("ended"), self.block("going")
        self.builder.cbranch(condition, ended, going)
        self.builder.position_at_end(ended)
        self.builder.store(INDEX(reason), self.given_up)
        self.builder.branch(self.ends.stuck)
        self.builder.position_at_end(going)

    @property
    def given_up(self) -> Any:  # noqa: ANN401
        """The address of the reason of a packet that has passed a limit (i32)."""
        return self.places.slot(Place(own_path("given_up"), ir.Bits(32)), self.builder)

    has_turns = False
    """Whether a packet may take more turns, of loops and calls, than stand in the program."""
    repeats = False
    """Whether a packet may come to a statement again."""

    def forget_turns(self) -> None:
        """Say that no turns were taken yet."""
        if self.has_turns:
            self.builder.store(INDEX(0), self.turns)

    @property
    def turns(self) -> Any:  # noqa: ANN401
        """The address of the number of turns that the packet has taken (i32)."""
        return self.places.slot(Place(own_path("turns"), ir.Bits(32)), self.builder)

    def _turn(self, body: Sequence[ir.Statement], breaking: Any, continuing: Any) -> None:  # noqa: ANN401
        outer = self.ends
        self.ends = Ends(outer.returning, outer.exiting, breaking, continuing, outer.stuck)
        self.body(body)
        self.ends = outer
        self.go(continuing)

    def _loop(
        self, condition: ir.Expression, body: Sequence[ir.Statement], update: Sequence[ir.Statement]
    ) -> None:
        again, turn = self.block("again"), self.block("turn")
        updating, after = self.block("update"), self.block("end")
        self.go(again)
        self.builder.cbranch(self.value(condition), turn, after)
        self.builder.position_at_end(turn)
        self._count_turn()
        self._turn(body, after, updating)
        self.body(update)
        if not self.builder.block.is_terminated:
            self.builder.branch(again)
        self.builder.position_at_end(after)

    def _for_range(self, node: ir.ForRange) -> None:
        kind = self.types[node.variable]
        assert isinstance(kind, ir.Bits)
        low, high = self.value(node.low), self.value(node.high)
        counter = Place(own_path(f"for{self._temporary()}"), kind)
        variable = Place(node.variable, kind)
        self.places.store(counter, low, self.builder)
        turn, updating, after = self.block("turn"), self.block("update"), self.block("end")
        compare = self.builder.icmp_signed if kind.signed else self.builder.icmp_unsigned
        self.builder.cbranch(compare("<=", low, high), turn, after)
        self.builder.position_at_end(turn)
        self._count_turn()
        number = self.places.load(counter, self.builder)
        self.places.store(variable, number, self.builder)
        self._turn(node.body, after, updating)
        number = self.places.load(counter, self.builder)
        self.places.store(counter, self.builder.add(number, number.type(1)), self.builder)
        is_last = self.builder.icmp_unsigned("==", number, high)
        self.builder.cbranch(is_last, after, turn)
        self.builder.position_at_end(after)

    # Calls

    def call(self, function: str, arguments: tuple[ir.Expression, ...]) -> None:
        """Run a function of the program, or a control inside another."""
        called = next(item for item in self.program.functions if item.name == function)
        self.run(called, arguments)

    def call_action(self, action: str, arguments: tuple[ir.Expression, ...]) -> None:
        """Run an action by a direct call."""
        self.run(self.program.actions[self.action_number(action)], arguments)

    def run(
        self,
        called: ir.Action | ir.Function,
        arguments: tuple[ir.Expression, ...],
        data: Sequence[Number] | None = None,
    ) -> None:
        """Run an action or function; `data` are an action's data where a table runs it."""
        self._count_turn()
        given, rest = iter(arguments), iter(data or ())
        copies_in: list[tuple[Place, Any]] = []
        copies_out: list[tuple[ir.Expression, Place]] = []
        for parameter in called.parameters:
            place = Place(parameter.variable, parameter.type)
            if parameter.direction is ir.Direction.NONE and data is not None:
                copies_in.append((place, next(rest)))
                continue
            argument = next(given)
            if parameter.direction in (ir.Direction.OUT, ir.Direction.INOUT):
                argument = self.located(argument)
                copies_out.append((argument, place))
            if parameter.direction is ir.Direction.OUT:
                copies_in.append((place, self.places.zero(parameter.type)))
            else:
                copies_in.append((place, self.value(argument)))
        for place, value in copies_in:
            self.places.store(place, value, self.builder)
        outer = self.ends
        returned, exited = self.block("returned"), self.block("exited")
        self.ends = Ends(returned, exited, stuck=outer.stuck)
        self.body(called.body)
        self.ends = outer
        if not self.builder.block.is_terminated:
            self.builder.branch(returned)
        for block, further in ((exited, outer.exiting), (returned, None)):
            self.builder.position_at_end(block)
            for target, place in copies_out:
                self.store(target, self.places.load(place, self.builder))
            if further is not None:
                self.builder.branch(further)
            elif block is exited:
                self.builder.unreachable()

    # Headers and stacks

    def _set_valid(self, header: ir.Expression, valid: bool) -> None:
        if valid:
            was_valid = self.value(ir.Member(header, VALID, ir.BOOL))
            with self.builder.if_then(self.builder.not_(was_valid)):
                self.store(header, self.places.zero(header.type))
                self.forget_origin(header)
        self._store_validity(header, BIT(int(valid)))

    def forget_origin(self, header: ir.Expression) -> None:
        """Say that the bytes of a header are no more those that the parser has found; the subclass that takes
        them does it.
        """
        raise NotImplementedError

    def _store_validity(self, header: ir.Expression, valid: Number) -> None:
        if isinstance(header, ir.Member) and self.places.is_union(header.base.type):
            if any(isinstance(node, ir.Element) for node in path_of(header)):
                union = self.value(header.base)
                assert isinstance(union, Composite)
                for name, part in union.parts.items():
                    part.parts[VALID] = valid if name == header.field else BIT(0)
                self.store(header.base, union)
                return
            self.set_union_valid(self.place(header.base), header.field, valid)
            return
        self.store(ir.Member(header, VALID, ir.BOOL), valid)

    def _move_stack(self, node: ir.MoveStack) -> None:
        assert isinstance(node.stack.type, ir.Stack)
        size = node.stack.type.size
        count = min(node.count, size)
        stack = self.value(node.stack)
        assert isinstance(stack, Composite)
        empty = self.places.zero(ir.Named(node.stack.type.element))
        elements = [stack.parts[str(number)] for number in range(size)]
        elements = ([empty] * count + elements)[:size] if node.front else (elements + [empty] * count)[-size:]
        upcoming = stack.parts[NEXT]
        if node.front:
            moved = self.builder.add(upcoming, INDEX(count))
            full = self.builder.icmp_unsigned(">", moved, INDEX(size))
            moved = self.builder.select(full, INDEX(size), moved)
        else:
            gone = self.builder.icmp_unsigned("<", upcoming, INDEX(count))
            moved = self.builder.select(gone, INDEX(0), self.builder.sub(upcoming, INDEX(count)))
        parts = {NEXT: moved, **{str(number): element for number, element in enumerate(elements)}}
        self.store(node.stack, Composite(node.stack.type, parts))
