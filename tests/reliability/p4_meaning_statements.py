# SPDX-License-Identifier: Apache-2.0
"""Random, well-typed statements of v1model programs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from tests.reliability import p4_meaning_tree as tree
from tests.reliability.p4_meaning_declared import random_types
from tests.reliability.p4_meaning_expressions import Expressions, Scope
from tests.reliability.p4_meaning_tree import (
    Assign,
    Bits,
    Block,
    Bool,
    Call,
    Declare,
    Error,
    Literal,
    Record,
    StackOf,
    Statement,
    Type,
    Variable,
)


@dataclass
class Around:
    """What statements stand in."""

    scope: Scope
    tables: list[tree.Table] = field(default_factory=list)
    instances: list[tuple[str, tree.Control]] = field(default_factory=list)
    result: Type | None = None
    returns: bool = True
    leaves: bool = True
    loop: bool = False
    depth: int = 3


class Statements:
    """Makes statements of one random source, and what they stand in and declare."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.types = random_types(random)
        self.expressions = Expressions(
            random, [*self.types.numbers, *self.types.named, Bool()], self.types.headers
        )
        self.count = 0

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def kind(self) -> Type:
        """A type of variables and parameters."""
        types, random = self.types, self.random
        if random.random() < 0.6:
            scalars: list[Type] = [*types.numbers, *types.numbers, *types.named, Bool()]
            return random.choice(scalars)
        stacks = [kind for _, kind in (*types.whole.fields, *types.meta.fields) if isinstance(kind, StackOf)]
        rest: list[Type] = [
            *types.headers,
            types.pair,
            types.both,
            types.union,
            types.varied,
            Error(),
            *stacks,
        ]
        return random.choice(rest)

    def declaration(self, scope: Scope, start: bool) -> Declare:
        kind = self.kind()
        value = self.expressions.value(kind, scope, 2) if start else None
        made = Declare(kind, self.name("x"), value)
        scope.add(Variable(kind, made.name))
        return made

    def block(self, around: Around, most: int) -> Block:
        inner = replace(around, scope=around.scope.inner())
        made: list[Statement] = []
        for _ in range(self.random.randint(1, most)):
            one = self.statement(inner)
            if one is not None:
                made.append(one)
                if isinstance(one, tree.Leave | tree.Return):
                    break
        return Block(made)

    def statement(self, around: Around) -> Statement | None:
        random, scope, values = self.random, around.scope, self.expressions
        nested = replace(around, depth=around.depth - 1)
        what = random.choices(
            ["assign", "compound", "declare", "call", "if", "for", "forin", "switch", "method", "leave",
             "table", "control", "tableif"],
            [30, 6, 8, 14, 8, 3, 3, 4, 6, 2, 6, 6, 3],
        )[0]  # fmt: skip
        if around.depth <= 0 and what in ("if", "for", "forin", "switch", "tableif"):
            what = "assign"
        if what in ("assign", "compound"):
            target = values.target(None, scope)
            if target is None or target.kind is None:
                return None
            if (
                (
                    isinstance(target.kind, Bits)
                    and not isinstance(target, tree.Slice)
                    and random.random() < 0.15
                )
                and target.kind.width > 1
                and not target.kind.signed
            ):
                target = values.sliced_at(target, scope)
            assert target.kind is not None
            if what == "compound" and isinstance(target.kind, Bits):
                if random.random() < 0.2:
                    return Assign(target, values.value(Bits(8), scope, 2), random.choice(("<<", ">>")))
                operators = ["+", "-", "*", "&", "|", "^", "|+|", "|-|"]
                value = values.value(target.kind, scope, 2)
                if random.random() < 0.3:  # what stands there may be another place by then
                    sides = (value, target) if random.random() < 0.5 else (target, value)
                    value = tree.Binary(target.kind, random.choice(operators), *sides)
                return Assign(target, value, random.choice(operators))
            value = values.value(target.kind, scope, 3)
            if isinstance(value, tree.Parts) and random.random() < 0.5:
                value = replace(value, cast=False)
            return Assign(target, value)
        if what == "declare":
            return self.declaration(scope, random.random() < 0.7)
        if what == "call":
            for one in random.sample(scope.callables, len(scope.callables)):
                arguments = values.arguments(one.parameters, scope, 2)
                if arguments is not None and (around.leaves or one not in values.exiting):
                    return tree.Do(Call(one.result, one, arguments, values.order(len(arguments))))
            return None
        if what == "if" and random.random() < 0.05:
            return self.chain(nested)
        if what == "if":
            condition = values.value(Bool(), scope, 3)
            return tree.If(
                condition, self.block(nested, 3), self.block(nested, 2) if random.random() < 0.5 else None
            )
        if what in ("for", "forin"):
            return self.loop(nested, what == "forin")
        if what == "switch":
            unsigned: list[Type] = [one for one in self.types.numbers if not one.signed]
            kind = random.choice([*unsigned, *self.types.named])
            return self.switch(nested, values.value(kind, scope, 2), [values.number(kind) for _ in range(3)])
        if what == "method":
            return self.method(scope)
        if what == "leave":
            if around.loop and random.random() < 0.7:
                return tree.Leave(random.choice(("break", "continue")))
            if around.leaves and random.random() < 0.4:
                return tree.Leave("exit")
            if around.returns:
                result = around.result
                return tree.Return(None if result is None else values.value(result, scope, 2))
            return None
        if what == "control" and around.instances:
            name, control = random.choice(around.instances)
            found = values.arguments(control.parameters, scope, 2)
            return (
                None if found is None else tree.ApplyControl(name, control, found, values.order(len(found)))
            )
        if what in ("table", "tableif") and around.tables:
            table = around.tables.pop()
            if what == "table" and random.random() < 0.5:
                return tree.ApplyTable(table)
            if random.random() < 0.5:
                names: list[int | str] = [call.callee.name for call in table.actions]
                return self.switch(nested, table, names)
            condition = tree.Applied(Bool(), table, random.choice(("hit", "miss")))
            return tree.If(
                condition, self.block(nested, 3), self.block(nested, 2) if random.random() < 0.5 else None
            )
        return None

    def chain(self, around: Around) -> tree.If:
        """An `if` with many an `else if`, of one value."""
        kind = Bits(8)
        value = self.expressions.value(kind, around.scope, 1)
        made: tree.If | None = None
        for label in self.random.sample(range(40), self.random.randint(15, 35)):
            condition = tree.Binary(Bool(), "==", value, Literal(kind, label))
            made = tree.If(condition, self.block(around, 1), None if made is None else Block([made]))
        assert made is not None
        return made

    def loop(self, around: Around, over: bool) -> Statement:
        random, values = self.random, self.expressions
        name, byte = self.name("i"), Bits(8)
        inner = replace(around, scope=around.scope.inner(), loop=True)
        stacks = values.paths(lambda kind: isinstance(kind, StackOf), around.scope, False)
        if over and stacks and random.random() < 0.3:
            stack = values.mixed(random.choice(stacks), around.scope)
            assert isinstance(stack.kind, StackOf)
            inner.scope.add(Variable(stack.kind.element, name), False)
            return tree.LoopOver(stack.kind.element, name, stack, None, self.block(inner, 3))
        small = tree.Binary(byte, "&", values.value(byte, around.scope, 1), Literal(byte, 3))
        first, last = (
            (small, Literal(byte, 2))
            if random.random() < 0.3
            else (Literal(byte, random.randrange(3)), small)
        )
        inner.scope.add(Variable(byte, name), False)
        if over:
            return tree.LoopOver(byte, name, first, last, self.block(inner, 3))
        return tree.Loop(name, first, last, self.block(inner, 3))

    def switch(
        self, around: Around, subject: tree.Expression | tree.Table, labels: list[int | str] | list[int]
    ) -> tree.Switch:
        chosen: list[int | str | None] = list(dict.fromkeys(labels))
        self.random.shuffle(chosen)
        cases: list[tuple[int | str | None, Block | None]] = []
        for label in chosen:
            cases.append((label, None if self.random.random() < 0.3 else self.block(around, 2)))
        if self.random.random() < 0.6:
            cases.append((None, self.block(around, 2)))
        return tree.Switch(subject, cases)

    def method(self, scope: Scope) -> Statement | None:
        random, values = self.random, self.expressions
        stack = random.random() < 0.3 and not scope.lookahead
        found = values.paths(
            lambda kind: (
                isinstance(kind, StackOf) and kind.is_stack
                if stack
                else isinstance(kind, Record) and kind.kind == "header"
            ),
            scope,
            True,
        )
        if not found:
            return None
        target = values.mixed(random.choice(found), scope)
        if stack:
            return tree.Method(target, random.choice(("push_front", "pop_front")), random.randint(1, 3))
        return tree.Method(target, random.choice(("setValid", "setValid", "setInvalid")))
