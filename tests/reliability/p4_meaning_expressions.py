# SPDX-License-Identifier: Apache-2.0
"""Random expressions and l-values of a type, over the variables that are in scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.reliability import p4_meaning_tree as tree
from tests.reliability.p4_meaning_tree import (
    Binary,
    Bits,
    Bool,
    Callable_,
    Error,
    Expression,
    Index,
    Literal,
    Member,
    Named,
    Parameter,
    Record,
    StackOf,
    Type,
    Varbit,
    Variable,
)

ERRORS = ("NoError", "NotGood", "NotBetter", "NoMatch")


@dataclass
class Scope:
    """Variables, each with whether it may be written, and what may be called."""

    variables: list[tuple[Variable, bool]]
    callables: list[Callable_]
    lookahead: bool = False
    outer: list[tuple[Variable, bool]] = field(default_factory=list)

    def inner(self) -> Scope:
        return Scope(list(self.variables), self.callables, self.lookahead)

    def add(self, variable: Variable, written: bool = True) -> None:
        self.variables.append((variable, written))

    def add_parameters(self, parameters: Sequence[Parameter]) -> None:
        for one in parameters:
            if one.name != "standard":
                self.add(Variable(one.kind, one.name), one.direction in ("inout", "out"))


class Expressions:
    """Makes expressions of one random source."""

    def __init__(self, random: Random, scalars: Sequence[Type], headers: Sequence[Record]) -> None:
        self.random = random
        self.scalars = scalars
        self.headers = headers
        self.exiting: set[Callable_] = set()
        self.counters: list[Callable_] = []
        """Functions that are called for indices more often than others."""
        self.nesting = 0
        """How many indices the expression that is being made stands in."""

    # L-values

    def paths(self, wanted: Callable[[Type], bool], scope: Scope, written: bool) -> list[Expression]:
        """Everything of a type that variables hold."""
        found: list[Expression] = []
        for variable, may in scope.variables:
            if may or not written:
                self._walk(variable, variable.kind, wanted, found)
        return found

    def _walk(
        self, base: Expression, kind: Type, wanted: Callable[[Type], bool], found: list[Expression]
    ) -> None:
        if wanted(kind):
            found.append(base)
        if isinstance(kind, Record):
            for name, inner in kind.fields:
                if name != "o":
                    self._walk(Member(inner, base, name), inner, wanted, found)
        elif isinstance(kind, StackOf):
            index = Literal(Bits(8), self.random.randrange(kind.size))
            self._walk(Index(kind.element, base, index), kind.element, wanted, found)

    def mixed(self, path: Expression, scope: Scope) -> Expression:
        """The same place or another element of its stacks, at an index that is computed."""
        if isinstance(path, Member):
            return Member(path.kind, self.mixed(path.base, scope), path.name)
        if isinstance(path, Index):
            base, index = self.mixed(path.base, scope), path.index
            assert isinstance(base.kind, StackOf)
            if self.nesting < 2 and self.random.random() < 0.5:
                bits = 1 if base.kind.size == 2 else 2
                self.nesting += 1
                inner = self._counted(scope) or self.value(Bits(8), scope, 1)
                self.nesting -= 1
                index = Binary(Bits(8), "&", inner, Literal(Bits(8), (1 << bits) - 1))
            return Index(path.kind, base, index)
        return path

    def _counted(self, scope: Scope) -> Expression | None:
        """A call of a counter, where there is one, now and then."""
        known = [one for one in self.counters if one in scope.callables]
        if not known or self.random.random() < 0.5:
            return None
        arguments = self.arguments(known[0].parameters, scope, 0)
        return tree.Call(Bits(8), known[0], arguments) if arguments is not None else None

    def target(self, kind: Type | None, scope: Scope) -> Expression | None:
        """An l-value of a type, or of any."""
        random = self.random
        if kind is None:
            scalar = random.random() < 0.65
            found = self.paths(lambda one: isinstance(one, Record | StackOf | Varbit) != scalar, scope, True)
            found = [
                one for one in found if not (isinstance(one.kind, Record) and one.kind.name in NEVER_WHOLE)
            ]
        else:
            found = self.paths(lambda one: one == kind, scope, True)
        if isinstance(kind, Bits) and not kind.signed and (not found or random.random() < 0.3):
            wider = self.paths(lambda one: isinstance(one, Bits) and one.width >= kind.width, scope, True)
            if wider:
                return self.sliced(self.mixed(random.choice(wider), scope), kind)
        if not found:
            return None
        path = self.mixed(random.choice(found), scope)
        if kind is None and isinstance(path.kind, Bits) and random.random() < 0.25:
            return self.sliced(path, Bits(random.randint(1, path.kind.width)))
        return path

    def sliced(self, base: Expression, kind: Bits) -> Expression:
        assert isinstance(base.kind, Bits)
        spare = base.kind.width - kind.width
        if spare > 1 and self.random.random() < 0.3:
            rest = self.random.randint(0, spare)
            low = self.random.randint(0, rest)
            base = tree.Slice(Bits(base.kind.width - rest), base, low + base.kind.width - rest - 1, low)
            spare -= rest
        low = self.random.randint(0, spare)
        return tree.Slice(kind, base, low + kind.width - 1, low)

    def sliced_at(self, base: Expression, scope: Scope) -> Expression:
        """Some bits of a number of at least two, from one on that is computed."""
        assert isinstance(base.kind, Bits)
        wide = base.kind.width
        bits = self.random.randint(1, min(7, wide.bit_length() - 1))
        low = Binary(Bits(8), "&", self.value(Bits(8), scope, 1), Literal(Bits(8), (1 << bits) - 1))
        return tree.SliceAt(Bits(self.random.randint(1, wide - (1 << bits) + 1)), base, low)

    def order(self, count: int) -> tuple[int, ...]:
        """An order of named arguments, now and then."""
        return tuple(self.random.sample(range(count), count)) if self.random.random() < 0.2 else ()

    def arguments(
        self, parameters: tuple[Parameter, ...], scope: Scope, depth: int, bound: bool = False
    ) -> tuple[Expression, ...] | None:
        """Arguments of a call, or, `bound`, of an action in a table's list."""
        made: list[Expression] = []
        for one in parameters:
            found = self.target(one.kind, scope) if one.direction in ("out", "inout") else None
            if one.direction == "out" and not bound and self.random.random() < 0.1:
                found = tree.Ignored(one.kind)
            if one.direction not in ("out", "inout"):
                found = self.value(one.kind, scope, depth)
            if found is None:
                return None
            made.append(found)
        return tuple(made)

    # Values

    def number(self, kind: Type) -> int:
        assert isinstance(kind, Bits | Named)
        if isinstance(kind, Named) and kind.members and self.random.random() < 0.8:
            return self.random.choice(kind.members)[1]
        most = (1 << kind.width) - 1
        signed = isinstance(kind, Bits) and kind.signed
        found = self.random.choice(
            (0, 1, 2, 3, most, most >> 1, (most >> 1) + 1, self.random.randint(0, most))
        )
        found &= most
        return found - most - 1 if signed and found > most >> 1 else found

    def value(self, kind: Type, scope: Scope, depth: int) -> Expression:
        random = self.random
        chance = random.random()
        if depth > 0 and chance < 0.25:
            made = self.called(kind, scope, depth)
            if made is not None:
                return made
        if depth > 0 and chance > 0.94 and isinstance(kind, Bits | Named | Bool):
            yes, no = self.value(kind, scope, depth - 1), self.value(kind, scope, depth - 1)
            return tree.Conditional(kind, self.value(Bool(), scope, depth - 1), yes, no)
        if depth <= 0 or chance < 0.5 or _only_read(kind):
            made = self.read(kind, scope)
            if made is not None:
                return made
        if scope.lookahead and chance < 0.55 and isinstance(kind, Bits):
            return tree.Lookahead(kind)
        match kind:
            case Bits():
                return self.bits(kind, scope, depth - 1)
            case Named():
                if depth <= 0 or random.random() < 0.5:
                    return Literal(kind, self.number(kind))
                return tree.Cast(kind, self.value(Bits(kind.width), scope, depth - 1))
            case Bool():
                return self.boolean(scope, depth - 1)
            case Error():
                return Literal(kind, random.choice(ERRORS))
            case Record():
                return self.record(kind, scope, depth - 1)
            case StackOf(element, size) if not kind.is_stack:
                parts = tuple((str(at), self.value(element, scope, depth - 1)) for at in range(size))
                return tree.Parts(kind, parts, False)
            case _:
                # A stack or varbit is only ever read where there is one.
                raise NothingThere

    def called(self, kind: Type, scope: Scope, depth: int) -> Expression | None:
        for one in self.random.sample(scope.callables, len(scope.callables)):
            if one.result == kind:
                arguments = self.arguments(one.parameters, scope, depth - 1)
                if arguments is not None:
                    return tree.Call(kind, one, arguments, self.order(len(arguments)))
        return None

    def read(self, kind: Type, scope: Scope) -> Expression | None:
        found = self.paths(lambda one: one == kind, scope, False)
        if not found:
            return None
        path = self.mixed(self.random.choice(found), scope)
        if self.nesting > 1:
            return path
        header = path.base if isinstance(path, Member) else None
        guarded = header is not None and isinstance(header.kind, Record) and header.kind.kind == "header"
        if (
            guarded
            and header is not None
            and isinstance(kind, Bits | Named | Bool)
            and self.random.random() < 0.8
        ):
            if str(header) == "headers.a" and self.random.random() < 0.9:
                return path
            rest: Expression = Literal(kind, False if isinstance(kind, Bool) else self.number(kind))
            return tree.Conditional(kind, tree.IsValid(Bool(), header), path, rest)
        return path

    def bits(self, kind: Bits, scope: Scope, depth: int) -> Expression:
        random = self.random
        if depth < 0:
            return Literal(kind, self.number(kind))
        what = random.choice(
            ("binary", "binary", "binary", "unary", "cast", "slice", "concat", "shift", "divide", "literal")
        )
        if what == "binary":
            operator = random.choice(("+", "-", "*", "&", "|", "^", "|+|", "|-|"))
            return Binary(kind, operator, self.value(kind, scope, depth), self.value(kind, scope, depth))
        if what == "unary":
            return tree.Unary(kind, random.choice(("-", "~", "+")), self.value(kind, scope, depth))
        if what == "cast":
            other: Type = Bits(random.choice((1, 8, 13, 64, 127)), kind.signed)
            if random.random() < 0.3:
                other = Bits(kind.width, not kind.signed)
            elif kind == Bits(1):
                other = Bool()
            return tree.Cast(kind, self.value(other, scope, depth))
        if what == "slice" and not kind.signed and random.random() < 0.3:
            bits = random.randint(1, 5)
            first = Binary(Bits(8), "&", self.value(Bits(8), scope, depth), Literal(Bits(8), (1 << bits) - 1))
            return tree.SliceAt(kind, self.value(Bits(kind.width + (1 << bits) - 1), scope, depth), first)
        if what == "slice" and not kind.signed:
            wide = random.choice(
                [one for one in self.scalars if isinstance(one, Bits) and one.width >= kind.width] or [kind]
            )
            return self.sliced(self.value(wide, scope, depth), kind)
        if what == "concat" and kind.width > 1:
            low = random.randint(1, kind.width - 1)
            sides = Bits(kind.width - low, kind.signed), Bits(low, random.random() < 0.3 and low > 1)
            if sides[0] != Bits(1, True):
                return Binary(
                    kind, "++", self.value(sides[0], scope, depth), self.value(sides[1], scope, depth)
                )
        if what == "shift":
            by = self.value(Bits(8), scope, depth)
            if random.random() < 0.5:
                by = Literal(Bits(8), random.choice((0, 1, 2, kind.width - 1, kind.width, 200)))
            return Binary(kind, random.choice(("<<", ">>")), self.value(kind, scope, depth), by)
        if what == "divide" and not kind.signed and kind.width > 1:
            by = Binary(kind, "|", self.value(kind, scope, depth), Literal(kind, 1))
            return Binary(kind, random.choice(("/", "%")), self.value(kind, scope, depth), by)
        return Literal(kind, self.number(kind))

    def boolean(self, scope: Scope, depth: int) -> Expression:
        random, kind = self.random, Bool()
        if depth < 0:
            return Literal(kind, random.random() < 0.5)
        what = random.choice(("compare", "compare", "equal", "and", "or", "not", "valid", "cast"))
        if what == "compare":
            other = random.choice([one for one in self.scalars if isinstance(one, Bits)])
            left, right = self.value(other, scope, depth), self.value(other, scope, depth)
            return Binary(kind, random.choice(("<", "<=", ">", ">=", "==", "!=")), left, right)
        if what == "equal":
            found = self.paths(
                lambda one: not isinstance(one, Record) or one.name not in NEVER_WHOLE, scope, False
            )
            if found:
                first = self.mixed(random.choice(found), scope)
                assert first.kind is not None
                second = (
                    self.called(first.kind, scope, depth) if depth > 0 and random.random() < 0.5 else None
                )
                second = second or self.value(first.kind, scope, depth)
                return Binary(kind, random.choice(("==", "!=")), first, second)
        if what in ("and", "or"):
            operator = "&&" if what == "and" else "||"
            chosen = self.called(kind, scope, depth) if depth > 0 and random.random() < 0.6 else None
            return Binary(
                kind, operator, self.value(kind, scope, depth), chosen or self.value(kind, scope, depth)
            )
        if what == "not":
            return tree.Unary(kind, "!", self.value(kind, scope, depth))
        if what == "valid":
            headers = self.paths(
                lambda one: isinstance(one, Record) and one.kind in ("header", "header_union"), scope, False
            )
            if headers:
                return tree.IsValid(kind, self.mixed(random.choice(headers), scope))
        return tree.Cast(kind, self.value(Bits(1), scope, depth))

    def record(self, kind: Record, scope: Scope, depth: int) -> Expression:
        if kind.kind == "header_union" or any(isinstance(one, Varbit) for _, one in kind.fields):
            raise NothingThere
        if kind.kind == "header" and self.random.random() < 0.1:
            return tree.Parts(kind, (), invalid=True)
        parts = [(name, self.value(inner, scope, depth)) for name, inner in kind.fields]
        named = kind.kind != "tuple" and self.random.random() < 0.5
        if named:
            parts = self.random.sample(parts, len(parts))
        return tree.Parts(kind, tuple(parts), named)


class NothingThere(Exception):  # noqa: N818 - the caller begins again
    """No value of a type can be had."""


NEVER_WHOLE = ("headers_t", "meta_t")


def _only_read(kind: Type) -> bool:
    """Whether values of a type are had from variables alone."""
    return (isinstance(kind, StackOf) and kind.is_stack) or isinstance(kind, Varbit) or wholly(kind)


def wholly(kind: Type) -> bool:
    return isinstance(kind, Record) and (kind.kind == "header_union" or kind.name in (*NEVER_WHOLE, "v_t"))
