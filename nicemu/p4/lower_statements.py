# SPDX-License-Identifier: Apache-2.0
"""Checked statements to statements of the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from nicemu.pipeline import ir

from . import syntax
from .constants import items_of
from .lower_expressions import FIXED, ExpressionLowering, arranged, has_effects, is_order_seen
from .symbols import (
    ActionSymbol,
    CallKind,
    CallTarget,
    Variable,
)
from .types import (
    ActionRun,
    CompositeType,
    P4ListType,
    Type,
    elements_of,
)

_NESTED_ARMS = 16
_PACKET_DIRECTIONS = {"extract": ("out", "in"), "verify": ("in", "in")}


class StatementLowering(ExpressionLowering):
    """Statements; actions that are used and stand outside all blocks are remembered."""

    def __init__(self, outside: Sequence[ActionSymbol], metadata: ir.StructType) -> None:
        super().__init__(metadata)
        self._outside = {action.name: action for action in outside}
        self._used: dict[str, ActionSymbol] = {}

    _returned: Variable | None = None

    def _use(self, action: ActionSymbol) -> str:
        if self._outside.get(action.name) is action:
            self._used[action.name] = action
        return action.name

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
                yield from self._assignment(node)
            case syntax.CallStatement():
                yield from self._call_statement(node.call)
            case syntax.IfStatement():
                yield from self._if(node)
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

    def _if(self, node: syntax.IfStatement) -> Iterator[ir.Statement]:
        """Make an if of each arm, in the else of the one before.

        No more than `_NESTED_ARMS` of them: behind these the next begin, if no condition has held yet.
        """
        arms = [(self._value(arm.condition), tuple(self._statement(arm.body))) for arm in node.arms]
        otherwise = tuple(self._statement(node.otherwise)) if node.otherwise is not None else ()
        if len(arms) <= _NESTED_ARMS:
            yield from _nested(arms, otherwise)
            return
        goes_on = self._extra(ir.BOOL, "else")
        yes, no = (ir.Assign(goes_on, ir.Constant(value, ir.BOOL)) for value in (1, 0))
        for start in range(0, len(arms), _NESTED_ARMS):
            here = arms[start : start + _NESTED_ARMS]
            last = otherwise if start + len(here) == len(arms) else (yes,)
            body = (no, *_nested(here, last))
            yield from body if start == 0 else (ir.If(goes_on, body, ()),)

    def _assignment(self, node: syntax.Assignment) -> Iterator[ir.Statement]:
        def value(old: ir.Expression) -> ir.Expression:
            """Return what is stored, where the target holds `old`."""
            combined = node.value
            if not node.is_compound or combined.value is not None:
                return self._value(combined)
            assert isinstance(combined, syntax.BinaryOp)
            return ir.Binary(combined.op, old, self._value(combined.right), self._types.of(combined.type))

        if isinstance(node.target, syntax.SliceRef) and node.target.low.value is None:
            yield from self._moving_slice(node.target, self._types.of(node.value.type), value)
            return
        target = self._value(node.target)
        if node.is_compound:  # what its index does is done once
            indices, target = self._once(target)
            yield from indices
        yield ir.Assign(target, value(target))

    def _moving_slice(
        self, node: syntax.SliceRef, kind: ir.Type, value: Callable[[ir.Expression], ir.Expression]
    ) -> Iterator[ir.Statement]:
        """Store into a slice whose low bit is known at run time; what is behind the last bit is lost.

        `value` returns what is stored, of a type, where the slice holds the expression that it is given.
        """
        indices, whole = self._once(self._value(node.base))
        yield from indices
        low, stored = self._extra(node.low.type, "low"), self._extra(kind, "stored")
        yield ir.Assign(low, self._value(node.low))
        bits = ir.Bits(node.base.type.width)
        given = whole if whole.type == bits else ir.Cast(whole, bits)
        behind, old = ir.Binary(">>", given, low, bits), self._types.of(node.type)
        yield ir.Assign(stored, value(behind if bits == old else ir.Cast(behind, old)))
        ones = ir.Binary("<<", ir.Constant((1 << node.type.width) - 1, bits), low, bits)
        kept = ir.Binary("&", given, ir.Unary("~", ones, bits), bits)
        placed = ir.Binary("<<", stored if bits == stored.type else ir.Cast(stored, bits), low, bits)
        changed = ir.Binary("|", kept, placed, bits)
        yield ir.Assign(whole, changed if whole.type == bits else ir.Cast(changed, whole.type))

    def _once(self, target: ir.Expression) -> tuple[list[ir.Statement], ir.Expression]:
        """Return a place whose indices are variables or constants, and what computes these first.

        The next or last element of a stack must be there, and is the one that it is now.
        """
        first: list[ir.Statement] = []

        def kept(path: ir.Expression) -> ir.Expression:
            match path:
                case ir.Member() | ir.Slice():
                    base = kept(path.base)
                    return path if base is path.base else replace(path, base=base)
                case ir.StackPlace():
                    bits, stack = ir.Bits(32), kept(path.stack)
                    index, last = self._extra(bits, "index"), ir.LastIndex(stack, bits)
                    number = last if path.last else ir.Binary("+", last, ir.Constant(1, bits), bits)
                    there = self._extra(path.type, "there")
                    first.extend((ir.Assign(there, replace(path, stack=stack)), ir.Assign(index, number)))
                    return ir.Element(stack, index, path.type)
                case ir.Element():
                    base = kept(path.base)
                    if isinstance(path.index, ir.Constant):
                        return replace(path, base=base)
                    index = self._extra(path.index.type, "index")
                    first.append(ir.Assign(index, path.index))
                    return replace(path, base=base, index=index)
            return path

        there = kept(target)
        return first, there

    def _select_keys(
        self, keys: Sequence[syntax.Expression]
    ) -> tuple[list[ir.Statement], list[ir.Expression]]:
        """Return the numbers that a select compares, and what computes them first.

        A tuple is as many numbers as it holds, and is computed only once.
        """
        first: list[ir.Statement] = []
        values = [self._value(key) for key in keys]
        tuples = [
            value for value, key in zip(values, keys, strict=True) if isinstance(key.type, CompositeType)
        ]
        if has_effects(tuples):
            places = [self._extra(value.type, "key") for value in values]
            first = [ir.Assign(place, value) for place, value in zip(places, values, strict=True)]
            values = list[ir.Expression](places)
        numbers = (self._numbers(value, key.type) for value, key in zip(values, keys, strict=True))
        return first, [number for each in numbers for number in each]

    def _numbers(self, value: ir.Expression, kind: Type) -> Iterator[ir.Expression]:
        """Yield a number, or the numbers that a tuple holds."""
        if not isinstance(kind, CompositeType):
            yield value
            return
        for place, (name, part) in enumerate(kind.fields.items()):
            if isinstance(value, ir.StructValue):
                yield from self._numbers(value.fields[place], part)
            else:
                yield from self._numbers(ir.Member(value, name, self._types.of(part)), part)

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
            place = self._place_of(variable, self._types.of(variable.type))
            counter = place if isinstance(place, ir.Name) else self._extra(place.type, f"{ir.FOR}.number")
            if counter is not place:
                body = (ir.Assign(place, counter), *body)
            yield ir.ForRange(counter.name, low, high, body)
            return
        if isinstance(node.collection.type, P4ListType):
            yield from self._for_list(node, body)
            return
        stack, known = self._value(node.collection), elements_of(node.collection.type)
        assert known is not None
        elements = self._extra(stack.type, f"{ir.FOR}.stack")
        index = self._extra(ir.Bits(32), f"{ir.FOR}.index")
        element = ir.Element(elements, index, self._types.of(variable.type))
        first = ir.Assign(self._place_of(variable, element.type), element)
        low, high = ir.Constant(0, index.type), ir.Constant(known[1] - 1, index.type)
        yield ir.Assign(elements, stack)
        yield ir.ForRange(index.name, low, high, (first, *body))

    def _for_list(
        self, node: syntax.ForInStatement, body: tuple[ir.Statement, ...]
    ) -> Iterator[ir.Statement]:
        """Evaluate the elements of a list, then take them by a number that counts the turns."""
        elements: list[ir.Expression] = []
        for item in items_of(node.collection):
            value = self._value(item)
            if not isinstance(value, ir.Constant):
                kept = self._extra(value.type, f"{ir.FOR}.item")
                yield ir.Assign(kept, value)
                value = kept
            elements.append(value)
        if not elements:
            return
        index = self._extra(ir.Bits(32), f"{ir.FOR}.index")
        variable: Variable = node.symbol
        first = ir.Assign(self._place_of(variable, elements[0].type), _chosen(elements, index, 0))
        low, high = ir.Constant(0, index.type), ir.Constant(len(elements) - 1, index.type)
        yield ir.ForRange(index.name, low, high, (first, *body))

    def _switch_values(self, node: syntax.SwitchStatement) -> ir.Statement:
        cases = [
            ir.ValueCase(tuple(label.value for label in labels), self._body(body))
            for labels, body in _bodies(node)
        ]
        return ir.Switch(self._value(node.subject), tuple(cases))

    def _switch(self, node: syntax.SwitchStatement) -> ir.Statement:
        if not isinstance(node.subject.type, ActionRun):
            return self._switch_values(node)
        assert isinstance(node.subject, syntax.MemberRef)
        cases = []
        for labels, body in _bodies(node):
            symbols = [label.symbol for label in labels if isinstance(label, syntax.NameRef)]
            cases.append(ir.SwitchCase(tuple(symbol.name for symbol in symbols), self._body(body)))
        return ir.SwitchAction(node.subject.type.table.name, tuple(cases))

    def _call_statement(self, node: syntax.Call) -> Iterator[ir.Statement]:
        meaning: CallTarget = node.symbol
        if meaning.kind is CallKind.STATIC_ASSERT:
            return
        if meaning.kind is CallKind.MOVE_STACK:
            assert isinstance(node.callee, syntax.MemberRef)
            stack = self._value(node.callee.base)
            yield ir.MoveStack(stack, node.arguments[0].value, meaning.name == "push_front")
            return
        if meaning.kind in (CallKind.ACTION, CallKind.ROUTINE, CallKind.BLOCK):
            yield self._routine_statement(node)
            return
        arguments = tuple(self._argument(argument) for argument in node.arguments)
        if meaning.is_own and is_order_seen(
            arguments, node.order, list(map(ir.Direction, meaning.directions))
        ):
            yield self._own_in_order(node, arguments)
            return
        directions = meaning.directions
        if meaning.kind is CallKind.PACKET:
            directions = _PACKET_DIRECTIONS.get(meaning.name, ())
        if 1 < len(arguments) == len(directions) and (
            is_order_seen(arguments, node.order) or has_effects(arguments)
        ):  # an extern takes what it needs, when it needs it
            order = node.order or range(len(arguments))
            first, arguments = self._evaluated(arguments, order, directions)
            yield from first
        match meaning.kind, meaning.name:
            case CallKind.TABLE, table:
                yield ir.ApplyTable(table)
            case ((CallKind.EXTERN_FUNCTION | CallKind.EXTERN_METHOD), _):
                yield self._extern_statement(node, arguments)
            case ((CallKind.SET_VALID | CallKind.SET_INVALID), _):
                assert isinstance(node.callee, syntax.MemberRef)
                yield ir.SetValid(self._value(node.callee.base), meaning.kind is CallKind.SET_VALID)
            case CallKind.PACKET, "extract" if len(arguments) == 2:
                yield ir.ExtractVarbit(arguments[0], arguments[1])
            case CallKind.PACKET, "extract":
                yield ir.Extract(arguments[0])
            case CallKind.PACKET, "advance":
                yield ir.Advance(arguments[0])
            case CallKind.PACKET, "verify":
                yield ir.Verify(arguments[0], arguments[1])
            case CallKind.PACKET, "emit":
                yield ir.Emit(arguments[0])

    def _extern_statement(self, node: syntax.Call, arguments: tuple[ir.Expression, ...]) -> ir.Statement:
        name = self._extern_name(node, arguments)
        if node.symbol.kind is CallKind.EXTERN_FUNCTION:
            return ir.CallFunction(name, arguments)
        return ir.CallMethod(node.symbol.subject.full_name, name, arguments)

    def _own_in_order(self, node: syntax.Call, arguments: tuple[ir.Expression, ...]) -> ir.Statement:
        """Return a call of a function that gives an extern its arguments, and takes them back, as written."""
        order = [place for place in node.order or () if not isinstance(arguments[place], FIXED)]
        written = [arguments[place] for place in order]
        ways = [ir.Direction(node.symbol.directions[place]) for place in order]
        places, taken = self._taken(written, ways)
        given = dict(enumerate(arguments)) | dict(zip(order, places, strict=True))
        name = self._function_of(taken, self._extern_statement(node, tuple(given.values())))
        return ir.CallRoutine(name, tuple(written))

    def _evaluated(
        self, arguments: Sequence[ir.Expression], order: Sequence[int], directions: Sequence[str]
    ) -> tuple[list[ir.Statement], tuple[ir.Expression, ...]]:
        """Return an extern's arguments as they are when they have been evaluated in an order, and what
        evaluates them.
        """
        first, given = list[ir.Statement](), list(arguments)
        for place in order:
            if isinstance(arguments[place], ir.StackPlace):  # which an extract also moves on
                first.append(ir.Assign(self._extra(arguments[place].type, "there"), arguments[place]))
            elif directions[place] in ("out", "inout"):
                indices, given[place] = self._once(arguments[place])
                first += indices
            elif not isinstance(arguments[place], FIXED):
                given[place] = self._extra(arguments[place].type, "written")
                first.append(ir.Assign(given[place], arguments[place]))
        return first, tuple(given)

    def _routine_statement(self, node: syntax.Call) -> ir.Statement:
        """Return a call of an action, function or control, if need be in the order of the arguments."""
        given, directions, order = self._passed_to(node)
        if not is_order_seen(list(given.values()), order, list(directions.values())):
            return self._routine_call(node, tuple(given.values()))
        written = [given[place] for place in order]
        places, taken = self._taken(written, [directions[place] for place in order])
        call = self._routine_call(node, tuple(arranged(places, order)))
        is_control = node.symbol.kind is not CallKind.ROUTINE  # an action or control may exit
        name = self._function_of(taken, call, is_control=is_control)
        return ir.CallRoutine(name, tuple(written))

    def _routine_call(self, node: syntax.Call, given: tuple[ir.Expression, ...]) -> ir.Statement:
        match node.symbol.kind:
            case CallKind.BLOCK:
                return ir.CallRoutine(self._function_name(node.symbol.name), given)
            case CallKind.ROUTINE:
                return ir.CallRoutine(self._routine(node.symbol.subject), given)
        return ir.CallAction(self._use(node.symbol.subject), given)


def _nested(
    arms: Sequence[tuple[ir.Expression, tuple[ir.Statement, ...]]], otherwise: tuple[ir.Statement, ...]
) -> tuple[ir.Statement, ...]:
    for condition, body in reversed(arms):
        otherwise = (ir.If(condition, body, otherwise),)
    return otherwise


def _bodies(node: syntax.SwitchStatement) -> list[tuple[list[syntax.Expression], syntax.Block]]:
    """Return the bodies of a switch and the labels that lead to each; none lead to that of `default`, which
    comes last wherever it stands.
    """
    found: list[tuple[list[syntax.Expression], syntax.Block]] = []
    labels: list[syntax.Expression | None] = []
    for case in node.cases:
        labels.append(case.label)
        if case.body is not None:
            found.append(([label for label in labels if label is not None and None not in labels], case.body))
            labels = []
    return sorted(found, key=lambda item: not item[0])


def _chosen(elements: Sequence[ir.Expression], index: ir.Name, first: int) -> ir.Expression:
    """Return the element that `index` numbers, the number of the first one being `first`."""
    if len(elements) == 1:
        return elements[0]
    half = len(elements) // 2
    below = ir.Binary("<", index, ir.Constant(first + half, index.type), ir.BOOL)
    lower, upper = _chosen(elements[:half], index, first), _chosen(elements[half:], index, first + half)
    return ir.Conditional(below, lower, upper, lower.type)
