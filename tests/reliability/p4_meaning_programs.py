# SPDX-License-Identifier: Apache-2.0
"""Random, well-typed v1model programs as syntax trees."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.reliability import p4_meaning_tree as tree
from tests.reliability.p4_meaning import STANDARD
from tests.reliability.p4_meaning_declared import ERRORS, observed_leaves
from tests.reliability.p4_meaning_expressions import NothingThere, Scope
from tests.reliability.p4_meaning_statements import Around, Statements
from tests.reliability.p4_meaning_tree import (
    Assign,
    Bits,
    Block,
    Bool,
    Call,
    Callable_,
    Declare,
    Literal,
    Matcher,
    Member,
    Named,
    Parameter,
    Record,
    StackOf,
    Statement,
    Type,
    Varbit,
    Variable,
)


class Programs(Statements):
    """Makes programs of one random source."""

    def program(self) -> tree.Tree:
        types, random = self.types, self.random
        headers, meta = Parameter("out", types.whole, "headers"), Parameter("inout", types.meta, "meta")
        standard = Parameter("inout", STANDARD, "standard")
        callables: list[Callable_] = []
        if random.random() < 0.7:
            callables.append(self.counter())
        for _ in range(random.randint(2, 6)):
            callables.append(self.callable(callables, None))
        inner = self.subparser(callables)
        subparsers = [inner, *(self.around(callables, inner) for _ in range(random.randint(0, 1)))]
        parser = self.parser(callables, (headers, meta, standard), subparsers)
        blocks: list[tree.Control | tree.Parser] = [*subparsers]
        controls: list[tree.Control] = []
        for _ in range(random.randint(0, 2)):
            parameters = self.parameters(("in", "inout", "out"), 3)
            controls.append(self.control(self.name("C"), parameters, callables, controls, 4))
        blocks += controls
        inout = (replace(headers, direction="inout"), meta, standard)
        ingress = self.control("TheIngress", inout, callables, controls, 12)
        egress = tree.Control("TheEgress", inout, [], Block(self.observed()))
        types_: list[Named | Record] = [
            *types.named, *types.headers, types.varied, types.union, types.pair,
            types.meta,
            *(kind for _, kind in types.whole.fields[:1] if isinstance(kind, Record)), types.whole,
        ]  # fmt: skip
        return tree.Tree(types_, ERRORS, callables, blocks, parser, ingress, egress)

    def observed(self) -> list[Statement]:
        whole = Variable(self.types.whole, "headers")
        record = self.types.whole.fields[0][1]
        assert isinstance(record, Record)
        header = Member(record, whole, "o")
        made: list[Statement] = [tree.Method(header, "setValid")]
        for (name, kind), (value, needed) in zip(
            record.fields, observed_leaves(self.types.meta), strict=False
        ):
            one: Statement = Assign(Member(kind, header, name), value)
            if needed:
                one = tree.If(tree.IsValid(Bool(), needed[0]), Block([one]), None)
            made.append(one)
        return made

    # Declarations

    def parameters(self, directions: tuple[str, ...], most: int) -> tuple[Parameter, ...]:
        made = []
        for _ in range(self.random.randint(0 if most < 3 else 1, most)):
            direction, kind = self.random.choice(directions), self.kind()
            made.append(Parameter(direction, kind, self.name("p")))
        return tuple(sorted(made, key=lambda one: one.direction == ""))

    def counter(self) -> Callable_:
        """A function that gives another number each time: what calls it twice, or in another order, shows."""
        parameter = Parameter("inout", Bits(8), self.name("p"))
        place = Variable(Bits(8), parameter.name)
        body = Block([Assign(place, Literal(Bits(8), 1), "+"), tree.Return(place)])
        made = Callable_(self.name("counter"), (parameter,), Bits(8), body)
        self.expressions.counters.append(made)
        return made

    def callable(self, before: list[Callable_], inside: Scope | None) -> Callable_:
        """A function, or an action of a control whose scope is given."""
        action = inside is not None
        parameters = self.parameters(("in", "inout", "inout", "out", *([""] if action else [])), 3)
        if action:
            numbers = [one for one in self.types.numbers if one.width > 1]
            inner = self.expressions.paths(lambda one: True, inside, True) if inside is not None else []
            parameters = tuple(
                replace(one, kind=self.random.choice(inner).kind or one.kind)
                if inner and one.direction in ("out", "inout") and self.random.random() < 0.5
                else one
                for one in parameters
            )
            parameters = tuple(
                replace(one, kind=self.random.choice(numbers)) if not one.direction else one
                for one in parameters
            )
        result = None if action or self.random.random() < 0.1 else self.kind()
        if result is not None and self.random.random() < 0.4:
            result = self.random.choice((Bits(8), Bits(8), Bool()))
        if isinstance(result, StackOf | Varbit) or result in (self.types.varied, self.types.union):
            result = Bool()
        scope = (inside or Scope([], before)).inner()
        scope.callables = list(before)
        scope.add_parameters(parameters)
        may_exit = action and self.random.random() < 0.4
        around = Around(scope, result=result, leaves=may_exit, depth=2)
        body = self.block(around, self.random.randint(1, 4))
        if may_exit:
            ending: Statement = tree.Leave("exit")
            if self.random.random() < 0.6:
                ending = tree.If(self.expressions.value(Bool(), scope, 2), Block([ending]), None)
            body.statements.insert(self.random.randint(0, len(body.statements)), ending)
        if result is not None:
            body.statements.append(tree.Return(self.expressions.value(result, scope, 2)))
        name = self.name("action" if action else "function")
        if not action and self.random.random() < 0.3:
            name = self.overloaded(before, len(parameters)) or name
        made = Callable_(name, parameters, result, body, action)
        text = str(body)
        if "exit;" in text or any(
            f"{one.name}(" in text for one in before if one in self.expressions.exiting
        ):
            self.expressions.exiting.add(made)
        return made

    def overloaded(self, before: list[Callable_], count: int) -> str | None:
        """The name of functions that all take another number of arguments."""
        taken = {one.name for one in before if len(one.parameters) == count}
        names = [one.name for one in before if one.name not in taken and not one.action]
        return self.random.choice(names) if names else None

    def control(
        self,
        name: str,
        parameters: tuple[Parameter, ...],
        callables: list[Callable_],
        controls: list[tree.Control],
        size: int,
    ) -> tree.Control:
        scope = Scope([], list(callables))
        scope.add_parameters(parameters)
        locals_: list[Declare | Callable_ | tree.Table | tuple[str, tree.Control]] = []
        for _ in range(self.random.randint(0, 3)):
            locals_.append(self.declaration(scope, self.random.random() < 0.5))
        for _ in range(self.random.randint(1, 4)):
            action = self.callable(scope.callables, scope)
            locals_.append(action)
            scope.callables.append(action)
        tables = [self.table(scope) for _ in range(self.random.randint(0, 3))]
        instances = [
            (self.name("instance"), one) for one in controls for _ in range(2) if self.random.random() < 0.6
        ]
        locals_ += [*tables, *instances]
        around = Around(scope, list(tables), instances)
        return tree.Control(name, parameters, locals_, self.block(around, size))

    def table(self, scope: Scope) -> tree.Table:
        random = self.random
        keys = []
        kinds: list[Type] = [*self.types.numbers, *self.types.named]
        lpm = False
        for _ in range(random.randint(1, 3)):
            kind: Type = random.choice(kinds)
            hows = ["exact", "ternary"] if isinstance(kind, Named) else ["exact", "ternary", "range"]
            if not lpm and isinstance(kind, Bits) and not kind.signed:
                hows.append("lpm")
            how = random.choice(hows)
            lpm = lpm or how == "lpm"
            keys.append((self.expressions.value(kind, scope, 2), how))
        actions: list[Call] = []
        for one in scope.callables:
            if one.action and one.name not in [call.callee.name for call in actions]:
                bound = [each for each in one.parameters if each.direction]
                arguments = self.expressions.arguments(tuple(bound), scope, 1, True)
                if arguments is not None:
                    actions.append(Call(None, one, arguments))
        if not actions:
            empty = Callable_("NoAction", (), None, Block(), True)
            actions.append(Call(None, empty, ()))
        entries: list[tuple[tuple[Matcher, ...], int, tuple[int, ...]]] = []
        for _ in range(random.randint(0, 4)):
            matchers = tuple(self.matcher(key.kind or Bits(8), how) for key, how in keys)
            if matchers not in [one[0] for one in entries] and not self.overlaps_exactly(
                keys, entries, matchers
            ):
                entries.append((matchers, *self.chosen(actions)))
        return tree.Table(
            self.name("table"), tuple(keys), tuple(actions), tuple(entries), *self.chosen(actions)
        )

    def overlaps_exactly(
        self,
        keys: list[tuple[tree.Expression, str]],
        entries: list[tuple[tuple[Matcher, ...], int, tuple[int, ...]]],
        matchers: tuple[Matcher, ...],
    ) -> bool:
        """Whether a table of exact and lpm keys has such an entry: a second one would be a fault."""
        if any(how in ("ternary", "range") for _, how in keys):
            return False
        return any(
            all((one[1] & one[2] == two[1] & two[2] and one[2] == two[2]) or one[0] == "any" == two[0]
                for one, two in zip(matchers, each[0], strict=True))
            for each in entries
        )  # fmt: skip

    def chosen(self, actions: list[Call]) -> tuple[int, tuple[int, ...]]:
        number = self.random.randrange(len(actions))
        call = actions[number]
        rest = call.callee.parameters[len(call.arguments) :]
        return number, tuple(self.expressions.number(each.kind) for each in rest)

    def matcher(self, kind: Type, how: str) -> Matcher:
        random = self.random
        assert isinstance(kind, Bits | Named)
        value = self.expressions.number(kind)
        if how == "exact":
            return ("exact", value, 0)
        if how == "lpm":
            ones = random.randint(0, kind.width)
            mask = ((1 << ones) - 1) << (kind.width - ones)
            return ("mask", value & mask, mask)
        if how == "ternary":
            if random.random() < 0.2:
                return ("any", 0, 0)
            if isinstance(kind, Named) or kind.signed:
                return ("exact", value, 0)
            mask = random.choice((1, 3, self.expressions.number(kind))) & ((1 << kind.width) - 1)
            return ("mask", value & mask, mask)
        first, second = sorted((value, self.expressions.number(kind)))
        return ("range", first, second)

    # Parsers

    def subparser(self, callables: list[Callable_]) -> tree.Parser:
        parameters = (
            Parameter("inout", self.types.headers[1], self.name("p")),
            Parameter("in", Bits(8), self.name("p")),
            Parameter("inout", Bits(8), self.name("p")),
            Parameter("out", self.types.numbers[0], self.name("p")),
        )
        scope = self.parser_scope(callables)
        scope.add_parameters(parameters)
        local = self.declaration(scope, False)
        around = Around(scope, returns=False, leaves=False, depth=0)
        body = self.block(around, 3)
        body.statements.append(tree.Extract(Variable(self.types.headers[1], parameters[0].name)))
        return tree.Parser("Sub", parameters, [local], [tree.State("start", body, (), (((), "accept"),))])

    def around(self, callables: list[Callable_], sub: tree.Parser) -> tree.Parser:
        """A parser that applies another, in states of its own."""
        random, values, header = self.random, self.expressions, self.types.headers[1]
        ways = random.choice((("inout", "inout"), ("out", "inout"), ("inout", "out")))
        parameters = (
            Parameter(ways[0], header, self.name("p")),
            Parameter("inout", Bits(8), self.name("p")),
            Parameter(ways[1], self.types.numbers[0], self.name("p")),
            Parameter("in", self.types.pair, self.name("p")),
        )
        scope = self.parser_scope(callables)
        scope.add_parameters(parameters)
        locals_: list[Declare | tuple[str, tree.Parser]] = [self.declaration(scope, True), ("inner", sub)]
        states, names = [], ["start", "second", "third"][: random.randint(2, 3)]
        for at, name in enumerate(names):
            body = self.block(Around(scope, returns=False, leaves=False, depth=0), 2)
            given = values.arguments(sub.parameters, scope, 1)
            if given is not None:
                body.statements.append(tree.ApplyControl("inner", sub, given, values.order(len(given))))
            subject, later = values.value(Bits(8), scope, 1), [*names[at + 1 :], "accept"]
            cases = [((self.matcher(Bits(8), "exact"),), random.choice(later)), ((("any", 0, 0),), later[0])]
            states.append(tree.State(name, body, (subject,), tuple(cases)))
        return tree.Parser("Around", parameters, locals_, states)

    def parser_scope(self, callables: list[Callable_]) -> Scope:
        return Scope([], [one for one in callables if one not in self.expressions.exiting], lookahead=True)

    def parser(
        self, callables: list[Callable_], parameters: tuple[Parameter, ...], subparsers: list[tree.Parser]
    ) -> tree.Parser:
        random, types, values = self.random, self.types, self.expressions
        scope = self.parser_scope(callables)
        scope.add_parameters(parameters)
        locals_: list[Declare | tuple[str, tree.Parser]] = [self.declaration(scope, True)]
        locals_ += [(f"the_{one.name}", one) for one in subparsers]
        whole = Variable(types.whole, "headers")
        fields = {name: Member(kind, whole, name) for name, kind in types.whole.fields}
        length = tree.Binary(Bits(8), "&", Member(Bits(8), fields["v"], "k"), Literal(Bits(8), 0x18))
        number = Member(types.numbers[0], Variable(types.meta, "meta"), "n0")
        plain = fields["b"], Literal(Bits(8), 7), Member(Bits(8), fields["a"], "k"), number
        states = []
        names = ["start", *(f"state{at}" for at in range(random.randint(2, 5)))]
        extracts: list[list[Statement]] = [
            [tree.Extract(fields["a"])],
            *[list[Statement]([self.applied(one, scope, plain)]) for one in subparsers],
            [tree.Extract(fields["s"], True)],
            [tree.Extract(fields["s"], True)],
            [
                tree.Extract(fields["v"], False, Literal(Bits(8), 16)),
                tree.Extract(fields["w"], False, length),
            ],
            [tree.Extract(Member(types.headers[0], fields["u"], "a"))],
            [tree.Extract(fields["c"])],
            [tree.Advance(8)],
        ]
        for at, name in enumerate(names):
            body = Block(list(extracts[0]) if at == 0 else [])
            for _ in range(random.randint(0, 2)):
                body.statements += random.choice(extracts)
            if random.random() < 0.5:
                body.statements += self.block(
                    Around(scope, returns=False, leaves=False, depth=0), 3
                ).statements[:1]
            body.statements = [one for one in body.statements if not isinstance(one, Declare)]
            if random.random() < 0.1:
                body.statements.append(tree.Verify(values.value(Bool(), scope, 2), random.choice(ERRORS)))
            later = [*names[at + 1 :], "accept"]
            subjects: list[tree.Expression] = []
            cases: list[tuple[tuple[Matcher, ...], str]] = []
            if random.random() < 0.6:
                kinds = [random.choice(types.numbers) for _ in range(random.randint(1, 2))]
                subjects = [values.value(kind, scope, 2) for kind in kinds]
                for _ in range(random.randint(1, 3)):
                    hows = [random.choice(("exact", "ternary", "range")) for _ in kinds]
                    found = tuple(self.matcher(kind, how) for kind, how in zip(kinds, hows, strict=True))
                    cases.append((found, random.choice(later)))
            if not subjects or random.random() < 0.9:
                cases.append((tuple(("any", 0, 0) for _ in subjects), later[0]))
            states.append(tree.State(name, body, tuple(subjects), tuple(cases)))
        return tree.Parser("TheParser", parameters, locals_, states)

    def applied(
        self, sub: tree.Parser, scope: Scope, plain: tuple[tree.Expression, ...]
    ) -> tree.ApplyControl:
        given = self.expressions.arguments(sub.parameters, scope, 2)
        if given is None and len(plain) != len(sub.parameters):
            raise NothingThere
        order = () if given is None else self.expressions.order(len(given))
        return tree.ApplyControl(f"the_{sub.name}", sub, plain if given is None else given, order)


def random_program(seed: int) -> tree.Tree:
    """The program of a seed: the first that comes to an end."""
    random = Random(seed)
    while True:
        try:
            return Programs(random).program()
        except NothingThere:
            continue
