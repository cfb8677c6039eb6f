# SPDX-License-Identifier: Apache-2.0
"""Expressions of a BMv2 JSON file as the IR's.

Source: p4lang/behavioral-model, "BMv2 JSON input format", "The type value object".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from nicemu.pipeline import ir

from . import numbers
from .document import Json
from .errors import ErrorNumbers
from .numbers import Number, TooWide
from .places import VALIDITY, FieldPlace, Places

MAX_DEPTH = 90
"""Operators that may stand inside one another."""

_PARSER_ONLY = ("lookahead", "stack_field", "union_stack_field")
_LOGICAL = {"and": "&&", "or": "||"}


@dataclass(frozen=True, slots=True)
class Truth:
    """A bool."""

    node: ir.Expression


@dataclass(frozen=True, slots=True)
class Thing:
    """A header, union, stack, or varbit: its type is its expression's."""

    node: ir.Expression


Value: TypeAlias = Number | Truth | Thing


@contextmanager
def located(item: Json) -> Iterator[None]:
    """Say of a value that is too wide where it is."""
    try:
        yield
    except TooWide as error:
        raise item.fault(str(error)) from None


class Expressions:
    """Reads expressions that stand in a parser, or in an action with these `parameters`, or in neither."""

    def __init__(
        self, places: Places, errors: ErrorNumbers, in_parser: bool = False, parameters: Sequence[Number] = ()
    ) -> None:
        self.places = places
        self.errors = errors
        self.in_parser = in_parser
        self._parameters = parameters

    def number(self, item: Json) -> Number:
        """Return a number. Raises: Bmv2Error."""
        with located(item):
            value = self._value(item, 0)
        if isinstance(value, Truth):
            return numbers.of_truth(value.node)
        if not isinstance(value, Number):
            raise item.fault(f"is a {value.node.type}; a number was expected")
        return value

    def truth(self, item: Json) -> ir.Expression:
        """Return a bool. Raises: Bmv2Error."""
        with located(item):
            return self._truth(item, 0)

    def exact(self, item: Json) -> ir.Expression:
        """Return a number in the narrowest type that holds it. Raises: Bmv2Error."""
        with located(item):
            return self.number(item).exact()

    def of(self, item: Json, width_bits: int) -> ir.Expression:
        """Return a number as bit<width>, cut off. Raises: Bmv2Error."""
        with located(item):
            return self.number(item).bits(width_bits)

    def thing(self, item: Json) -> ir.Expression:
        """Return a header, union, stack or varbit field. Raises: Bmv2Error."""
        with located(item):
            value = self._value(item, 0)
        if not isinstance(value, Thing):
            raise item.fault("is a number; a header, union, stack or varbit was expected")
        return value.node

    def field(self, item: Json) -> FieldPlace:
        """Return the field that a type value object names, for storing into it. Raises: Bmv2Error."""
        item = unwrapped(item)
        kind = item["type"].text()
        with located(item):
            if kind == "field":
                return self.places.field(item["value"])
            if kind in ("stack_field", "union_stack_field"):
                return self._last_field(item, kind)
            if kind == "expression" and item["value"]["op"].text() == "access_field":
                operator = item["value"]
                return self.places.field_at(self._header(operator["left"], 0), operator["right"])
        raise item.fault(f"is a {kind}; a field was expected")

    def key(self, item: Json) -> ir.Expression:
        """Return a field, or what is looked ahead for, as bit<N> with all its bits. Raises: Bmv2Error."""
        if item["type"].value == "lookahead":
            return self.exact(item)
        if item["type"].value == "field":
            return self.key_of(item["value"])
        return self._whole(item, self.field(item))

    def key_of(self, pair: Json) -> ir.Expression:
        """Return the field that [header, field] names, likewise."""
        header, name = pair.items(2)
        if name.value == VALIDITY:
            return numbers.of_truth(self.places.validity(self.places.header(header))).bits(1)
        return self._whole(pair, self.places.field(pair))

    def _whole(self, item: Json, place: FieldPlace) -> ir.Expression:
        value = self.read(place)
        if not isinstance(value, Number):
            raise item.fault("is a field of variable length; a number was expected")
        return value.bits(place.width_bits)

    # Values

    def _value(self, item: Json, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise item.fault(f"lies deeper than {MAX_DEPTH} operators; break the expression up")
        item = unwrapped(item)
        kind, value = item["type"].text(), item.value.get("value")
        if kind in _PARSER_ONLY and not self.in_parser:
            raise item.unsupported(f"{kind} outside the parser")
        match kind:
            case "hexstr":
                return numbers.constant(item["value"].hexstr())
            case "bool":
                return Truth(ir.Constant(int(Json(value, f"{item.path}.value", item.name).flag()), ir.BOOL))
            case "field":
                return self._field(item["value"])
            case "stack_field" | "union_stack_field":
                return self.read(self._last_field(item, kind))
            case "lookahead":
                offset, width = item["value"].items(2)
                skipped = offset.number(0, ir.MAX_WIDTH_BITS)
                wanted = width.number(1, ir.MAX_WIDTH_BITS)
                seen = ir.Lookahead(ir.Bits(_at_most(skipped + wanted, item)))
                return numbers.held(numbers.cast(seen, ir.Bits(wanted)))
            case "local" | "runtime_data":
                if not self._parameters:
                    raise item.fault("stands where there is no action data")
                return self._parameters[item["value"].number(0, len(self._parameters) - 1)]
            case "header":
                return Thing(self.places.header_or_union(item["value"]))
            case "header_stack":
                return Thing(self.places.stack(item["value"]))
            case "header_union":
                return Thing(self.places.union(item["value"]))
            case "header_union_stack":
                return Thing(self.places.union_stack(item["value"]))
            case "expression":
                return self._operation(item["value"], depth)
        raise item["type"].unsupported(f"a value of type {kind} in an expression")

    def _field(self, pair: Json) -> Value:
        header, name = pair.items(2)
        if name.value == VALIDITY:
            return numbers.of_truth(self.places.validity(self.places.header(header)))
        return self.read(self.places.field(pair))

    def read(self, place: FieldPlace) -> Value:
        """Return what a field holds."""
        node = place.expression
        if isinstance(node.type, ir.Varbit):
            return Thing(node)
        if isinstance(node.type, ir.ErrorCode):
            return self.errors.number_of(node)
        if place.is_plain:
            return numbers.held(node)
        return numbers.held(numbers.cast(node, place.kind))

    def _last_field(self, item: Json, kind: str) -> FieldPlace:
        """Return a field of the header, or of the union's header, that a stack has last."""
        names = item["value"].items(2 if kind == "stack_field" else 3)
        is_union = kind == "union_stack_field"
        stack = self.places.union_stack(names[0]) if is_union else self.places.stack(names[0])
        assert isinstance(stack.type, ir.Stack)
        last: ir.Expression = ir.StackPlace(stack, True, ir.Named(stack.type.element))
        if is_union:
            last = self.places.member(last, names[1])
        return self.places.field_of(last, names[-1])

    def _operation(self, item: Json, depth: int) -> Value:
        op = item["op"].text()
        depth += 1
        match op:
            case "d2b":
                return Truth(self._truth(item["right"], depth))
            case "b2d":
                return numbers.of_truth(self._truth(item["right"], depth))
            case "not":
                return Truth(ir.Unary("!", self._truth(item["right"], depth), ir.BOOL))
            case "and" | "or":
                left, right = self._truth(item["left"], depth), self._truth(item["right"], depth)
                return Truth(ir.Binary(_LOGICAL[op], left, right, ir.BOOL))
            case "valid":
                return Truth(self.places.validity(self._header(item["right"], depth)))
            case "valid_union":
                return Truth(ir.IsValid(self._thing(item["right"], depth)))
            case "?":
                return self._ternary(item, depth)
            case "~":
                return numbers.complement(self._number(item["right"], depth))
            case "two_comp_mod" | "sat_cast" | "usat_cast":
                return self._cast(op, item, depth)
            case "access_field":
                return self.read(self.places.field_at(self._header(item["left"], depth), item["right"]))
            case "access_union_header":
                return Thing(self.places.member_at(self._union(item["left"], depth), item["right"]))
            case "dereference_header_stack" | "dereference_stack" | "dereference_union_stack":
                return self._element(item, depth)
            case "last_stack_index" | "size_stack":
                return self._stack_number(op, item["right"], depth)
        if op not in numbers.OPERATORS:
            raise item["op"].unsupported(f"operator {op}")
        if op in ("+", "-") and item.get("left") is None:
            return numbers.binary(op, numbers.constant(0), self._number(item["right"], depth))
        left_value, right_value = self._value(item["left"], depth), self._value(item["right"], depth)
        if isinstance(left_value, Number) and isinstance(right_value, Number):
            error = self.errors.compared(op, left_value, right_value)
            if error is not None:
                return Truth(error)
            if op in numbers.COMPARED:
                return Truth(numbers.compare(op, left_value, right_value))
            return numbers.binary(op, left_value, right_value)
        if op not in ("==", "!=") or isinstance(left_value, Number) or isinstance(right_value, Number):
            raise item.fault(f"applies {op} to what are no numbers")
        if left_value.node.type != right_value.node.type:
            raise item.fault(f"compares a {left_value.node.type} with a {right_value.node.type}")
        return Truth(ir.Binary(op, left_value.node, right_value.node, ir.BOOL))

    def _ternary(self, item: Json, depth: int) -> Value:
        condition = self._truth(item["cond"], depth)
        yes, no = self._value(item["left"], depth), self._value(item["right"], depth)
        if isinstance(yes, Number) and isinstance(no, Number):
            return numbers.chosen(condition, yes, no)
        if isinstance(yes, Truth) and isinstance(no, Truth):
            return Truth(ir.Conditional(condition, yes.node, no.node, ir.BOOL))
        raise item.unsupported("?: of what are neither two numbers nor two bools")

    def _cast(self, op: str, item: Json, depth: int) -> Number:
        operand, width = self._number(item["left"], depth), self._number(item["right"], depth).constant
        if width is None or not 0 < width <= ir.MAX_WIDTH_BITS:
            raise item["right"].fault(f"is no constant from 1 to {ir.MAX_WIDTH_BITS}; a width was expected")
        if op == "two_comp_mod":
            return numbers.wrapped(operand, width)
        return numbers.saturated(operand, width, op == "sat_cast")

    def _element(self, item: Json, depth: int) -> Thing:
        stack = self._stack(item["left"], depth)
        assert isinstance(stack.type, ir.Stack)
        index = self._number(item["right"], depth).exact()
        return Thing(ir.Element(stack, index, ir.Named(stack.type.element)))

    def _stack_number(self, op: str, item: Json, depth: int) -> Number:
        stack = self._stack(item, depth)
        assert isinstance(stack.type, ir.Stack)
        if op == "last_stack_index":
            return numbers.held(ir.LastIndex(stack, ir.Bits(32)))
        kind = ir.Named(stack.type.element)
        counts = [
            numbers.of_truth(ir.IsValid(ir.Element(stack, ir.Constant(place, ir.Bits(32)), kind)))
            for place in range(stack.type.size)
        ]
        return numbers.folded("+", counts)

    # One kind of value

    def _number(self, item: Json, depth: int) -> Number:
        value = self._value(item, depth)
        if not isinstance(value, Number):
            raise item.fault("is no number; one was expected, or a b2d around a bool")
        return value

    def _truth(self, item: Json, depth: int) -> ir.Expression:
        value = self._value(item, depth)
        if isinstance(value, Truth):
            return value.node
        if isinstance(value, Number):
            return numbers.truth_of(value)
        raise item.fault(f"is a {value.node.type}; a bool was expected")

    def _thing(self, item: Json, depth: int) -> ir.Expression:
        value = self._value(item, depth)
        if not isinstance(value, Thing):
            raise item.fault("is a number; a header, union or stack was expected")
        return value.node

    def _header(self, item: Json, depth: int) -> ir.Expression:
        node = self._thing(item, depth)
        if not isinstance(node.type, ir.Named) or self.places.is_union(node.type):
            raise item.fault(f"is a {node.type}; a header was expected")
        return node

    def _union(self, item: Json, depth: int) -> ir.Expression:
        node = self._thing(item, depth)
        if not isinstance(node.type, ir.Named) or not self.places.is_union(node.type):
            raise item.fault(f"is a {node.type}; a header union was expected")
        return node

    def _stack(self, item: Json, depth: int) -> ir.Expression:
        node = self._thing(item, depth)
        if not isinstance(node.type, ir.Stack):
            raise item.fault(f"is a {node.type}; a stack was expected")
        return node


def unwrapped(item: Json) -> Json:
    """Return what an expression that holds nothing but another type value object holds."""
    while item["type"].value == "expression":
        inner = item["value"]
        if inner.get("type") is None:
            break
        item = inner
    return item


def is_validity(item: Json) -> bool:
    """Return whether a type value object names the hidden field that says whether a header is valid."""
    item = unwrapped(item)
    return bool(item["type"].value == "field" and item["value"].items(2)[1].value == VALIDITY)


def _at_most(width_bits: int, item: Json) -> int:
    if width_bits > ir.MAX_WIDTH_BITS:
        raise item.fault(f"looks ahead {width_bits} bits; {ir.MAX_WIDTH_BITS} are allowed")
    return width_bits
