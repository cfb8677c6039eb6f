# SPDX-License-Identifier: Apache-2.0
"""Checked expressions to expressions of the IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from nicemu.pipeline import ir, nodes_of

from . import syntax
from .lower_types import TypeTable
from .symbols import (
    CallKind,
    CallTarget,
    ConstantSymbol,
    ParameterSymbol,
    Routine,
    Variable,
)
from .type_sizes import scalar_of
from .types import (
    INTEGER,
    NOTHING,
    TEXT,
    ApplyResult,
    CompositeType,
    ExternType,
    StackType,
)


class ExpressionLowering:
    """Expressions; functions that are called are remembered."""

    def __init__(self, metadata: ir.StructType) -> None:
        self._shared: dict[str, syntax.Expression] = {}
        self._places: dict[Variable, ir.Expression] = {}
        self._members: dict[int, tuple[ir.Expression, dict[str, ir.Member]]] = {}
        """Members that were made, by the identity of what they are of."""
        self._types = TypeTable(metadata)
        self._routines: dict[str, Routine] = {}
        self._extras: list[ir.Variable] = []
        self._made: list[ir.Function] = []
        self._action_names: frozenset[str] = frozenset()
        self._signatures: list[ir.ExternSignature] = []

    def _routine(self, routine: Routine) -> str:
        self._routines.setdefault(routine.name, routine)
        return self._function_name(routine.name)

    def _function_name(self, name: str) -> str:
        """Return the name of a function or inner control in the IR, where no action has it."""
        return f"{name}#" if name in self._action_names else name

    def _extra(self, kind: ir.Type, what: str) -> ir.Name:
        """Return a variable that the program does not name."""
        name = f"{what}.{len(self._extras)}"
        self._extras.append(ir.Variable(name, kind))
        return ir.Name(name, kind)

    def _argument(self, node: syntax.Expression) -> ir.Expression:
        """Return an argument; for `_` a variable that nothing reads."""
        if isinstance(node.type, ExternType):  # the packet, which has no place
            return ir.Zero(ir.BOOL)
        if isinstance(node, syntax.AnySet):
            return self._extra(self._types.of(node.type), "nowhere")
        return self._value(node)

    def _value(self, node: syntax.Expression) -> ir.Expression:
        if node.type is TEXT:
            return ir.Text(node.value)
        if node.type is INTEGER:
            return ir.Constant(node.value, ir.INTEGER)
        scalar = scalar_of(node.type)
        if node.value is not None and scalar is not None:
            return ir.Constant(node.value, scalar)
        kind = scalar or self._types.of(node.type)
        match node:
            case syntax.NameRef(symbol=ConstantSymbol(made_by=syntax.Expression() as made_by)):
                return self._value(made_by)
            case syntax.NameRef():
                assert isinstance(node.symbol, Variable)
                return self._place_of(node.symbol, kind)
            case syntax.MemberRef():
                base = node.base
                if isinstance(base, syntax.Call) and isinstance(base.type, ApplyResult):
                    return ir.TableApply(base.type.table.name, node.name == "hit")
                if isinstance(base.type, StackType):
                    if node.name == "lastIndex":
                        return ir.LastIndex(self._value(base), kind)
                    return ir.StackPlace(self._value(base), node.name == "last", kind)
                return self._member(self._value(base), node.name, kind)
            case syntax.IndexRef():
                place = node.index.value
                if isinstance(node.base.type, CompositeType) and place is not None:
                    name = list(node.base.type.fields)[place]
                    return self._member(self._value(node.base), name, kind)
                return ir.Element(self._value(node.base), self._value(node.index), kind)
            case syntax.SliceRef() if node.low.value is None:
                bits = ir.Bits(node.base.type.width)
                whole = self._value(node.base)
                whole = whole if whole.type == bits else ir.Cast(whole, bits)
                behind = ir.Binary(">>", whole, self._value(node.low), bits)
                return behind if bits == kind else ir.Cast(behind, kind)
            case syntax.SliceRef():
                return ir.Slice(self._value(node.base), node.high.value, node.low.value, kind)
            case syntax.UnaryOp():
                operand = self._value(node.operand)
                return operand if node.op == "+" else ir.Unary(node.op, operand, kind)
            case syntax.BinaryOp():
                return ir.Binary(node.op, self._value(node.left), self._value(node.right), kind)
            case syntax.ConditionalOp():
                return ir.Conditional(
                    self._value(node.condition), self._value(node.yes), self._value(node.no), kind
                )
            case syntax.CastOp():
                operand = self._value(node.operand)
                return operand if operand.type == kind else ir.Cast(operand, kind)
            case syntax.DefaultValue() | syntax.InvalidHeader():
                return ir.Zero(kind)
            case syntax.ListValue():
                return self._list(node, kind)
            case syntax.Call():
                return self._call(node, kind)
        raise AssertionError(f"{type(node).__name__} was not checked")

    def _place_of(self, symbol: Variable, kind: ir.Type) -> ir.Expression:
        """Return the place of a variable, the same each time."""
        found = self._places.get(symbol)
        if found is None:
            name, place = symbol.name, symbol.place
            if place in self._shared:
                found = self._value(self._shared[place])
            else:
                found = ir.Name(place, kind, name if name != place and "." not in place else "")
            self._places[symbol] = found
        return found

    def _member(self, base: ir.Expression, name: str, kind: ir.Type) -> ir.Member:
        """Return a member, of a variable or a member of one the same each time."""
        members = self._members.get(id(base))
        if members is None:
            made = ir.Member(base, name, kind)
            if isinstance(base, ir.Name | ir.Member):
                self._members[id(base)] = (base, {name: made})
            return made
        found = members[1].get(name)
        if found is None:
            found = members[1][name] = ir.Member(base, name, kind)
        return found

    def _list(self, node: syntax.ListValue, kind: ir.Type) -> ir.Expression:
        items = [self._value(item) for item in node.items]
        if isinstance(kind, ir.Stack):
            return ir.StackValue(tuple(items), kind)
        added = tuple(ir.Zero(part.type) for part in self._types.added_to(node.type))
        if node.names is None:
            return ir.StructValue((*items, *added), kind)
        order = [list(node.type.fields).index(name) for name in node.names]
        fields = arranged(items, order)
        if not is_order_seen(fields, order):
            return ir.StructValue((*fields, *added), kind)
        inside = [ir.Direction.IN] * len(items)
        return self._in_order(
            items, order, inside, kind, lambda given: ir.StructValue((*given, *added), kind)
        )

    def _in_order(
        self,
        written: Sequence[ir.Expression],
        order: Sequence[int],
        directions: Sequence[ir.Direction],
        kind: ir.Type,
        make: Callable[[tuple[ir.Expression, ...]], ir.Expression],
    ) -> ir.Expression:
        """Return what `make` makes of values in another order than that in which they are to be evaluated.

        It is a call of a function that takes them as they are written.
        """
        places, parameters = self._taken(written, directions)
        result = self._extra(kind, "made")
        body = ir.Assign(result, make(tuple(arranged(places, order))))
        return ir.Call(self._function_of(parameters, body, result.name), tuple(written), kind)

    def _function_of(
        self,
        parameters: tuple[ir.Parameter, ...],
        body: ir.Statement,
        result: str = "",
        *,
        is_control: bool = False,
    ) -> str:
        """Make a function that takes arguments as they are written; return its name."""
        name = f"in_order.{len(self._made)}"
        self._made.append(ir.Function(name, parameters, (body,), result, is_control=is_control))
        return name

    def _taken(
        self, written: Sequence[ir.Expression], directions: Sequence[ir.Direction]
    ) -> tuple[list[ir.Name], tuple[ir.Parameter, ...]]:
        """Return variables for arguments, and the parameters with them of a function that is made."""
        places = [self._extra(value.type, "written") for value in written]
        parameters = (
            ir.Parameter(f"p{count}", place.name, place.type, direction)
            for count, (place, direction) in enumerate(zip(places, directions, strict=True))
        )
        return places, tuple(parameters)

    def _has_place(self, parameter: ParameterSymbol) -> bool:
        """Return whether a parameter is copied: it is no packet, not known before, and not its argument."""
        variable = parameter.variable
        return (
            variable is not None
            and not isinstance(parameter.type, ExternType)
            and variable.place not in self._shared
        )

    def _passed_to(
        self, node: syntax.Call
    ) -> tuple[dict[int, ir.Expression], dict[int, ir.Direction], list[int]]:
        """Return what a call passes at run time, and how, by its places, and these as they are written."""
        given: dict[int, ir.Expression] = {}
        directions: dict[int, ir.Direction] = {}
        for place, argument in enumerate(node.arguments):
            parameter = node.symbol.subject.parameters[place]
            if self._has_place(parameter):
                given[place] = self._argument(argument)
                directions[place] = ir.Direction(parameter.direction)
        return given, directions, [place for place in node.order or given if place in given]

    def _call(self, node: syntax.Call, kind: ir.Type) -> ir.Expression:
        meaning: CallTarget = node.symbol
        if meaning.kind is CallKind.ROUTINE:
            name = self._routine(meaning.subject)
            given, directions, order = self._passed_to(node)
            if not is_order_seen(list(given.values()), order, list(directions.values())):
                return ir.Call(name, tuple(given.values()), kind)
            return self._in_order(
                [given[place] for place in order],
                order,
                [directions[place] for place in order],
                kind,
                lambda passed: ir.Call(name, passed, kind),
            )
        if meaning.kind in (CallKind.EXTERN_FUNCTION, CallKind.EXTERN_METHOD):
            return self._extern_value(node, kind)
        if meaning.kind is CallKind.IS_VALID:
            assert isinstance(node.callee, syntax.MemberRef)
            return ir.IsValid(self._value(node.callee.base))
        return ir.PacketLength(kind) if meaning.name == "length" else ir.Lookahead(kind)

    def _extern_value(self, node: syntax.Call, kind: ir.Type) -> ir.Expression:
        meaning: CallTarget = node.symbol
        arguments = tuple(self._argument(argument) for argument in node.arguments)
        instance = meaning.subject.full_name if meaning.kind is CallKind.EXTERN_METHOD else ""
        name = self._extern_name(node, arguments)
        if not is_order_seen(arguments, node.order, list(map(ir.Direction, meaning.directions))):
            return ir.ExternValue(instance, name, arguments, kind)
        order = [place for place in node.order or () if not isinstance(arguments[place], FIXED)]

        def call(passed: tuple[ir.Expression, ...]) -> ir.Expression:
            given = dict(enumerate(arguments)) | dict(zip(sorted(order), passed, strict=True))
            return ir.ExternValue(instance, name, tuple(given.values()), kind)

        written = [arguments[place] for place in order]
        inside = [ir.Direction(meaning.directions[place]) for place in order]
        return self._in_order(written, order, inside, kind, call)

    def _extern_name(self, node: syntax.Call, arguments: Sequence[ir.Expression]) -> str:
        """Return what the IR calls an extern: one that the program itself declares by its types, too."""
        meaning: CallTarget = node.symbol
        if not meaning.is_own:
            return meaning.name
        owner = meaning.subject.type.symbol.name if meaning.kind is CallKind.EXTERN_METHOD else ""
        takes = tuple(
            ir.ExternParameter(argument.type, ir.Direction(direction))
            for argument, direction in zip(arguments, meaning.directions, strict=True)
        )
        results = () if node.type is NOTHING else (self._types.of(node.type),)
        return self._signed(owner, meaning.name, takes, results)

    def _signed(
        self,
        owner: str,
        declared: str,
        parameters: tuple[ir.ExternParameter, ...],
        results: tuple[ir.Type, ...],
    ) -> str:
        """Return the name of an extern of the program's own with these types, which has one from now on."""
        alike = [item for item in self._signatures if (item.owner, item.declared) == (owner, declared)]
        for item in alike:
            if (item.parameters, item.results) == (parameters, results):
                return item.name
        name = f"{declared}.{len(alike) + 1}" if alike else declared
        self._signatures.append(ir.ExternSignature(owner, declared, name, parameters, results))
        return name


_Item = TypeVar("_Item")


def arranged(written: Sequence[_Item], order: Sequence[int]) -> list[_Item]:
    """Return the items in the order of their places; `order` says which place each has."""
    return [item for _, item in sorted(zip(order, written, strict=True), key=lambda pair: pair[0])]


def is_order_seen(
    items: Sequence[ir.Expression], order: Sequence[int] | None, directions: Sequence[ir.Direction] = ()
) -> bool:
    """Return whether values in their places were written in another `order`, and that makes a difference.

    One may change what another reads, or two may be stored into one variable.
    """
    if order is None or list(order) == sorted(order):
        return False
    if has_effects(items):
        return True
    stored = [_variable(value) for value, way in zip(items, directions, strict=False) if way in _STORED]
    return any(item in stored[:place] for place, item in enumerate(stored))


def has_effects(items: Sequence[ir.Expression]) -> bool:
    """Return whether an expression may change something, or do it only if it is evaluated."""
    return any(True for _ in nodes_of(tuple(items), *EFFECTS))


def _variable(value: ir.Expression) -> ir.Expression:
    """Return what an argument is a part of."""
    while isinstance(value, ir.Member | ir.Element | ir.Slice):
        value = value.base
    return value


_STORED = (ir.Direction.OUT, ir.Direction.INOUT)
FIXED = (ir.Constant, ir.Text)
EFFECTS = (ir.Call, ir.ExternValue, ir.TableApply)
