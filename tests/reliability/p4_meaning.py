# SPDX-License-Identifier: Apache-2.0
"""What a P4 program means, from the words of the specification: a plain evaluator of the syntax tree.

It knows nothing of nicemu's compiler or pipeline, and makes nothing fast.
Specification: P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out",
"Expression evaluation order", "Statements", "Packet parsing".
"""

from __future__ import annotations

import contextlib

from tests.reliability import p4_meaning_tree as tree
from tests.reliability.p4_meaning_places import Bounds, Frame, Place, alone, part
from tests.reliability.p4_meaning_values import (
    BitString,
    Elements,
    Fields,
    NotDefined,
    Value,
    cast,
    computed,
    copied,
    default,
    elements,
    emitted,
    fields,
    from_bits,
    is_valid,
    number,
    set_valid,
    width,
    wrapped,
)

MOST_TURNS = 5_000


class Exited(Exception):  # noqa: N818 - control flow of the program
    """`exit`."""


class Rejected(Exception):  # noqa: N818 - control flow of the program
    """The parser ends with an error."""


class Returned(Exception):  # noqa: N818 - control flow of the program
    """`return`."""

    def __init__(self, value: Value | None) -> None:
        super().__init__()
        self.value = value


class Broken(Exception):  # noqa: N818 - control flow of the program
    """`break`."""


class Continued(Exception):  # noqa: N818 - control flow of the program
    """`continue`."""


class Machine:
    """A program and one packet."""

    def __init__(self, program: tree.Tree, packet: bytes) -> None:
        self.program = program
        self.bits = "".join(f"{byte:08b}" for byte in packet)
        self.position = 0
        self.error = "NoError"
        self.turns = 0

    # Expressions

    def place(self, target: tree.Expression, frame: Frame) -> Place:
        """Evaluate an l-value: its indices, from left to right."""
        match target:
            case tree.Variable(_, name):
                return Place(frame.of(name), name)
            case tree.Member(_, base, name):
                inner = self.place(base, frame)
                return Place(inner.root, inner.name, (*inner.steps, name))
            case tree.Index(_, base, index):
                inner = self.place(base, frame)
                return Place(inner.root, inner.name, (*inner.steps, number(self.value(index, frame))))
            case tree.Slice(_, base, high, low):
                inner = self.place(base, frame)
                assert base.kind is not None
                return Place(inner.root, inner.name, (*inner.steps, Bounds(high, low, base.kind)))
            case tree.SliceAt(kind, base, low_bit):
                inner = self.place(base, frame)
                low = number(self.value(low_bit, frame))
                assert base.kind is not None
                bounds = Bounds(low + kind.width - 1, low, base.kind)
                return Place(inner.root, inner.name, (*inner.steps, bounds))
            case tree.Ignored(kind):
                return Place({"_": default(kind)}, "_")
            case _:
                raise AssertionError(target)

    def value(self, expression: tree.Expression, frame: Frame) -> Value:
        match expression:
            case tree.Literal(_, value):
                return value
            case tree.Variable(_, name):
                return copied(frame.of(name)[name])
            case tree.Member(_, base, name):
                if isinstance(base, tree.Variable | tree.Member | tree.Index):
                    return self.place(expression, frame).read()
                return part(self.value(base, frame), name)
            case tree.Index():
                return self.place(expression, frame).read()
            case tree.Slice(_, base, high, low):
                assert base.kind is not None
                return part(self.value(base, frame), Bounds(high, low, base.kind))
            case tree.SliceAt(kind, base, low_bit):
                assert base.kind is not None
                whole = self.value(base, frame)
                low = number(self.value(low_bit, frame))
                return part(whole, Bounds(low + kind.width - 1, low, base.kind))
            case tree.Unary(kind, operator, operand):
                inner = self.value(operand, frame)
                if operator == "!":
                    return not inner
                bits = number(inner)
                return wrapped(kind, {"-": -bits, "~": ~bits, "+": bits}[operator])
            case tree.Binary():
                return self.binary(expression, frame)
            case tree.Conditional(_, condition, yes, no):
                return self.value(yes if self.value(condition, frame) else no, frame)
            case tree.Cast(kind, operand):
                return cast(kind, self.value(operand, frame))
            case tree.IsValid(_, base):
                return is_valid(fields(self.value(base, frame)))
            case tree.Parts(tree.StackOf() as kind, parts):
                return Elements(kind, [self.value(each, frame) for _, each in parts])
            case tree.Parts(kind, parts, _, invalid):
                assert isinstance(kind, tree.Record)
                made = fields(default(kind))
                for name, each in parts:
                    made.values[name] = self.value(each, frame)
                made.valid = kind.kind == "header" and not invalid
                return made
            case tree.Call():
                result = self.call(expression, frame)
                assert result is not None
                return result
            case tree.Applied(_, table, what):
                hit, _ = self.apply_table(table, frame)
                return hit == (what == "hit")
            case tree.Lookahead(kind):
                self.need(width(kind))
                return from_bits(kind, int(self.bits[self.position : self.position + width(kind)], 2))
            case tree.Ignored():
                raise AssertionError(expression)
            case tree.LastIndex(_, base, what):
                stack = elements(self.value(base, frame))
                return stack.kind.size if what == "size" else wrapped(tree.Bits(32), stack.following - 1)

    def binary(self, expression: tree.Binary, frame: Frame) -> Value:
        left = self.value(expression.left, frame)
        if expression.operator == "&&":
            return bool(left) and bool(self.value(expression.right, frame))
        if expression.operator == "||":
            return bool(left) or bool(self.value(expression.right, frame))
        right = self.value(expression.right, frame)
        kinds = expression.left.kind, expression.right.kind
        assert kinds[0] is not None
        assert kinds[1] is not None
        return computed(expression.kind, expression.operator, left, right, kinds[0], kinds[1])

    # Calls

    def call(self, call: tree.Call, frame: Frame) -> Value | None:
        """Copy in from left to right, run the body, copy out from left to right, however the body ends."""
        outer = None
        if call.callee.action:
            outer = frame
            while outer.outer is not None:
                outer = outer.outer
        inner = Frame({}, outer)
        results = self.copy_in(call.callee.parameters, call.arguments, inner, frame, call.order)
        return self.run_body(call.callee.body, inner, results)

    def run_body(self, body: tree.Block, inner: Frame, results: list[tuple[str, Place]]) -> Value | None:
        value: Value | None = None
        try:
            self.block(body, inner)
        except Returned as returned:
            value = returned.value
        except Exited:
            self.copy_out(results, inner)
            raise
        self.copy_out(results, inner)
        return value

    def copy_in(
        self,
        parameters: tuple[tree.Parameter, ...],
        arguments: tuple[tree.Expression, ...],
        inner: Frame,
        frame: Frame,
        order: tuple[int, ...] = (),
    ) -> list[tuple[str, Place]]:
        results = []
        for at in order or range(len(arguments)):
            parameter, argument = parameters[at], arguments[at]
            if parameter.direction in ("inout", "out"):
                place = self.place(argument, frame)
                results.append((parameter.name, place))
                wanted = parameter.direction == "inout"
                inner.values[parameter.name] = place.read() if wanted else default(parameter.kind)
            else:
                inner.values[parameter.name] = self.value(argument, frame)
        return results

    def copy_out(self, results: list[tuple[str, Place]], inner: Frame) -> None:
        for name, place in results:
            place.write(inner.values[name])

    def apply_table(self, table: tree.Table, frame: Frame) -> tuple[bool, str]:
        keys = [(number(self.value(key, frame)), key.kind, how) for key, how in table.keys]
        chosen, hit, longest = (table.default, table.default_data), False, -1
        for matchers, action, data in table.entries:
            if not all(matches(key, kind, one) for (key, kind, _), one in zip(keys, matchers, strict=True)):
                continue
            prefix = 0
            if not any(how in ("ternary", "range") for _, how in table.keys):
                lengths = [
                    one[2].bit_count()
                    for (_, how), one in zip(table.keys, matchers, strict=True)
                    if how == "lpm"
                ]
                prefix = sum(lengths)
            if prefix > longest:
                chosen, hit, longest = (action, data), True, prefix
        call = table.actions[chosen[0]]
        inner = Frame({}, frame)
        results = self.copy_in(call.callee.parameters, call.arguments, inner, frame)
        rest = call.callee.parameters[len(call.arguments) :]
        inner.values.update({each.name: value for each, value in zip(rest, chosen[1], strict=True)})
        self.run_body(call.callee.body, inner, results)
        return hit, call.callee.name

    # Statements

    def block(self, block: tree.Block, frame: Frame) -> None:
        for statement in block.statements:
            self.statement(statement, frame)

    def statement(self, statement: tree.Statement, frame: Frame) -> None:
        match statement:
            case tree.Block():
                self.block(statement, frame)
            case tree.Declare(kind, name, start):
                frame.values[name] = default(kind) if start is None else self.value(start, frame)
            case tree.Assign():
                self.assign(statement, frame)
            case tree.Do(call):
                self.call(call, frame)
            case tree.If(condition, yes, no):
                if self.value(condition, frame):
                    self.block(yes, frame)
                elif no is not None:
                    self.block(no, frame)
            case tree.Leave(how):
                raise {"exit": Exited, "break": Broken, "continue": Continued}[how]()
            case tree.Return(value):
                raise Returned(None if value is None else self.value(value, frame))
            case tree.Loop() | tree.LoopOver():
                self.loop(statement, frame)
            case tree.Switch():
                self.switch(statement, frame)
            case tree.ApplyTable(table):
                self.apply_table(table, frame)
            case tree.ApplyControl(_, callee, arguments, order):
                inner = Frame({})
                results = self.copy_in(callee.parameters, arguments, inner, frame, order)
                self.run_block(callee, inner, results)
            case tree.Method():
                self.method(statement, frame)
            case tree.Extract():
                self.extract(statement, frame)
            case tree.Advance(length):
                self.need(length)
                self.position += length
            case tree.Verify(condition, error):
                if not self.value(condition, frame):
                    self.reject(error)

    def assign(self, statement: tree.Assign, frame: Frame) -> None:
        place = self.place(statement.target, frame)
        if not statement.operator:
            place.write(self.value(statement.value, frame))
            return
        left = place.read()
        right = self.value(statement.value, frame)
        kind, other = statement.target.kind, statement.value.kind
        assert kind is not None
        assert other is not None
        place.write(computed(kind, statement.operator, left, right, kind, other))

    def loop(self, statement: tree.Loop | tree.LoopOver, frame: Frame) -> None:
        try:
            if isinstance(statement, tree.Loop):
                frame.values[statement.name] = self.value(statement.first, frame)
                while number(frame.values[statement.name]) < number(self.value(statement.last, frame)):
                    self.turn(statement.body, frame)
                    frame.values[statement.name] = wrapped(
                        tree.Bits(8), number(frame.values[statement.name]) + 1
                    )
                return
            first = self.value(statement.first, frame)
            over: list[Value]
            if statement.last is None:
                over = list(elements(first).values)
            else:
                over = list(range(number(first), number(self.value(statement.last, frame)) + 1))
            for one in over:
                frame.values[statement.name] = copied(one)
                self.turn(statement.body, frame)
        except Broken:
            pass

    def turn(self, body: tree.Block, frame: Frame) -> None:
        self.turns += 1
        if self.turns > MOST_TURNS:
            raise NotDefined("more turns of loops than the device may take")
        with contextlib.suppress(Continued):
            self.block(body, frame)

    def switch(self, statement: tree.Switch, frame: Frame) -> None:
        value: Value
        if isinstance(statement.subject, tree.Table):
            _, value = self.apply_table(statement.subject, frame)
        else:
            value = self.value(statement.subject, frame)
        labels = [label for label, _ in statement.cases]
        wanted = value if value in labels else None
        if wanted is None and None not in labels:
            return
        for _, block in statement.cases[labels.index(wanted) :]:
            if block is not None:
                self.block(block, frame)
                return

    def method(self, statement: tree.Method, frame: Frame) -> None:
        place = self.place(statement.base, frame)
        found = place.object()
        if found is None:
            return
        if statement.name in ("setValid", "setInvalid"):
            header = fields(found)
            owner = Place(place.root, place.name, place.steps[:-1]).object() if place.steps else None
            inside = isinstance(owner, Fields) and owner.kind.kind == "header_union"
            if statement.name == "setValid":
                set_valid(header)
                if inside:
                    alone(fields(owner or found), str(place.steps[-1]))
            else:
                header.valid = False
                if inside:
                    alone(fields(owner or found), str(place.steps[-1]))
            return
        stack, count = elements(found), statement.count or 0
        empty = [default(stack.kind.element) for _ in range(count)]
        size = stack.kind.size
        if statement.name == "push_front":
            stack.values = (empty + stack.values)[:size]
            stack.following = min(size, stack.following + count)
        else:
            stack.values = (stack.values + empty)[-size:]
            stack.following = max(0, stack.following - count)

    # Parsers, controls

    def need(self, length: int) -> None:
        if self.position + length > len(self.bits):
            self.reject("PacketTooShort")

    def reject(self, error: str) -> None:
        self.error = error
        raise Rejected

    def extract(self, statement: tree.Extract, frame: Frame) -> None:
        place = self.place(statement.target, frame)
        if statement.following:
            stack = elements(place.object() or 0)
            if stack.following >= stack.kind.size:
                self.reject("StackOutOfBounds")
            place = Place(place.root, place.name, (*place.steps, stack.following))
        found = fields(place.object() or 0)
        length = number(self.value(statement.length, frame)) if statement.length is not None else 0
        self.need(width(found.kind) + length)
        made = fields(default(found.kind))
        for name, kind in found.kind.fields:
            long = length if isinstance(kind, tree.Varbit) else width(kind)
            bits = self.bits[self.position : self.position + long]
            self.position += long
            if isinstance(kind, tree.Varbit):
                if length > kind.most:
                    self.reject("HeaderTooShort")
                made.values[name] = BitString(long, int(bits or "0", 2))
            else:
                made.values[name] = from_bits(kind, int(bits, 2))
        made.valid = True
        place.write(made)
        if statement.following:
            elements(Place(place.root, place.name, place.steps[:-1]).object() or 0).following += 1

    def run_block(
        self, block: tree.Control | tree.Parser, frame: Frame, results: list[tuple[str, Place]]
    ) -> None:
        """Run a control or parser whose parameters are copied in, then copy out.

        The `reject` of a parser inside another is that of the other ("Invoking subparsers"); what it leaves
        in arguments is not said.
        """
        try:
            for one in block.locals:
                if isinstance(one, tree.Declare):
                    self.statement(one, frame)
            if isinstance(block, tree.Control):
                with contextlib.suppress(Returned):
                    self.block(block.body, frame)
            else:
                self.parse(block, frame)
        except Exited:
            self.copy_out(results, frame)
            raise
        except Rejected:
            if results:
                raise NotDefined("what a parser that rejects leaves in its arguments") from None
            raise
        self.copy_out(results, frame)

    def parse(self, parser: tree.Parser, frame: Frame) -> None:
        states = {one.name: one for one in parser.states}
        name = "start"
        while name != "accept":
            if name == "reject":
                self.reject(self.error)
            state = states[name]
            self.block(state.body, frame)
            keys = [(self.value(one, frame), one.kind) for one in state.subjects]
            for matchers, to in state.cases:
                if all(
                    matches(number(key), kind, one) for (key, kind), one in zip(keys, matchers, strict=True)
                ):
                    name = to
                    break
            else:
                self.reject("NoMatch")


def matches(key: int, kind: tree.Type | None, matcher: tree.Matcher) -> bool:
    what, first, second = matcher
    if what == "exact":
        return key == first
    if what == "mask":
        return key & second == first & second
    return what == "any" or first <= key <= second


def output(program: tree.Tree, packet: bytes) -> bytes:
    """The packet that leaves by port 0, which nothing changes. Raises: NotDefined."""
    machine = Machine(program, packet)
    headers = default(program.parser.parameters[0].kind)
    meta = default(program.parser.parameters[1].kind)
    whole = Frame({"headers": headers, "meta": meta})
    with contextlib.suppress(Rejected):
        machine.run_block(program.parser, whole, [])
    for control in (program.ingress, program.egress):
        frame = Frame(dict(whole.values))
        frame.values["standard"] = Fields(STANDARD, {"parser_error": machine.error})
        with contextlib.suppress(Exited):
            machine.run_block(control, frame, [])
        whole = frame
    bits = emitted(whole.values["headers"]) + machine.bits[machine.position :]
    return int("1" + bits, 2).to_bytes(len(bits) // 8 + 1, "big")[1:] if bits else b""


STANDARD = tree.Record("struct", "standard_metadata_t", (("parser_error", tree.Error()),))
