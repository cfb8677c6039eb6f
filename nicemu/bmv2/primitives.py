# SPDX-License-Identifier: Apache-2.0
"""Primitives: what actions and parser states do, as statements.

Source: p4lang/behavioral-model, "BMv2 JSON input format", "actions" and "parser operations"; "The BMv2 Simple
Switch target".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nicemu.pipeline import DROP_PORT, ir

from . import numbers
from .document import Json
from .expressions import Expressions, is_validity, located
from .graph import Statements
from .places import V1MODEL, FieldPlace
from .scope import Scope

_CLONE_TYPES = V1MODEL.enums["CloneType"]
_WORD = ir.Bits(32)
_CHANGES = {"add_to_field": "+", "subtract_from_field": "-"}
_COMPUTATIONS = {
    "add": "+",
    "subtract": "-",
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}
"""P4-14's primitives, which simple_switch has and p4c does not write."""


class Primitives:
    """Translates primitives whose operands are read by `expressions`."""

    def __init__(self, scope: Scope, expressions: Expressions) -> None:
        self._scope = scope
        self._expressions = expressions
        self._known: dict[str, tuple[tuple[int, ...], Callable[..., Statements]]] = {
            "assign": ((2,), self._assign),
            "set": ((2,), self._assign),
            "modify_field": ((2,), self._assign),
            "assign_VL": ((2,), self._assign),
            "assign_header": ((2,), self._assign_thing),
            "copy_header": ((2,), self._assign_thing),
            "assign_union": ((2,), self._assign_thing),
            "assign_header_stack": ((2,), self._assign_thing),
            "assign_union_stack": ((2,), self._assign_thing),
            "add_header": ((1,), lambda header: self._validate(header, True)),
            "remove_header": ((1,), lambda header: self._validate(header, False)),
            "push": ((2,), lambda stack, count: self._move(stack, count, True)),
            "pop": ((2,), lambda stack, count: self._move(stack, count, False)),
            "mark_to_drop": ((0, 1), self._mark_to_drop),
            "drop": ((0,), self._mark_to_drop),
            "no_op": ((0,), tuple),
            "exit": ((0,), lambda: (ir.Exit(),)),
            "assert": ((1,), lambda check: self._call("assert", self._expressions.truth(check))),
            "assume": ((1,), lambda check: self._call("assume", self._expressions.truth(check))),
            "log_msg": ((1, 2), self._log),
            "truncate": ((1,), lambda count: self._call("truncate", self._expressions.of(count, 32))),
            "modify_field_with_hash_based_offset": ((4,), self._hash),
            "modify_field_rng_uniform": ((3,), self._random),
            "generate_digest": ((2,), self._digest),
            "clone_ingress_pkt_to_egress": ((1, 2), lambda *given: self._clone("I2E", *given)),
            "clone_egress_pkt_to_egress": ((1, 2), lambda *given: self._clone("E2E", *given)),
            "resubmit": ((0, 1), lambda *given: self._again("resubmit", *given)),
            "recirculate": ((0, 1), lambda *given: self._again("recirculate", *given)),
            "count": ((2,), self._count),
            "execute_meter": ((3,), self._execute_meter),
            "register_read": ((3,), self._register_read),
            "register_write": ((3,), self._register_write),
            **{name: ((2,), partial(self._changed, op)) for name, op in _CHANGES.items()},
            **{name: ((3,), partial(self._computed, op)) for name, op in _COMPUTATIONS.items()},
        }

    def statements(self, primitive: Json) -> Statements:
        """Return what a primitive does. Raises: Bmv2Error."""
        op = primitive["op"].text()
        if op not in self._known:
            raise primitive["op"].unsupported(f"primitive {op}")
        if op == "exit" and self._expressions.in_parser:
            raise primitive["op"].unsupported("exit in a parser")
        counts, translate = self._known[op]
        given = primitive.list("parameters")
        if len(given) not in counts:
            wanted = " or ".join(map(str, counts))
            raise primitive["parameters"].fault(f"has {len(given)} items; {op} takes {wanted}")
        with located(primitive):
            return translate(*given)

    def stored(self, place: FieldPlace, value: numbers.Number) -> ir.Statement:
        """Return the statement that stores a number in a field, cut off where it does not fit."""
        target = place.expression
        if isinstance(target.type, ir.ErrorCode):
            return self._scope.errors.stored(target, value)
        assert isinstance(target.type, ir.Bits)
        if place.is_plain:
            return ir.Assign(target, value.of(place.kind))
        return ir.Assign(target, numbers.cast(value.of(place.kind), target.type))

    def read_into(
        self, place: FieldPlace, kind: ir.Bits, call: Callable[[ir.Expression], ir.Statement]
    ) -> Statements:
        """Return a call that gives a value of `kind`, and what brings that to a field."""
        if place.expression.type == kind:
            return (call(place.expression),)
        result = self._scope.variable("result", kind)
        return (call(result), self.stored(place, numbers.held(result)))

    def _mark_to_drop(self, header: Json | None = None) -> Statements:
        """Have a packet dropped, or have a copy of its standard_metadata say so."""
        places = self._scope.places
        place = None if header is None else self._expressions.thing(header)
        if header is None or place is None or places.is_standard(place):
            return (ir.CallFunction("mark_to_drop"),)
        fields = places.fields_of(place)
        if "egress_spec" not in fields:
            raise header.fault(f"is a {place.type}, which has no egress_spec")
        marks = {"egress_spec": DROP_PORT, "mcast_grp": 0}
        return tuple(
            self.stored(fields[name], numbers.constant(number))
            for name, number in marks.items()
            if name in fields
        )

    # Headers and fields

    def _assign(self, target: Json, source: Json) -> Statements:
        if self._expressions.in_parser and is_validity(target):
            return ()  # the field is read-only; p4c set it until 2019 where a header was looked ahead for
        place = self._expressions.field(target)
        if isinstance(place.expression.type, ir.Varbit):
            return (self._same(place.expression, source),)
        return (self.stored(place, self._expressions.number(source)),)

    def _changed(self, op: str, target: Json, amount: Json) -> Statements:
        return self._computed(op, target, target, amount)

    def _computed(self, op: str, target: Json, left: Json, right: Json) -> Statements:
        value = numbers.binary(op, self._expressions.number(left), self._expressions.number(right))
        return (self.stored(self._written(target), value),)

    def _assign_thing(self, target: Json, source: Json) -> Statements:
        places, place = self._scope.places, self._expressions.thing(target)
        whole = self._same(place, source)
        if not places.is_standard(place) and not places.is_standard(whole.value):
            return (whole,)
        copied: list[ir.Statement] = []  # of which the architecture has the fields that it knows
        fields = zip(places.fields_of(place).values(), places.fields_of(whole.value).values(), strict=True)
        for to, found in fields:
            value = self._expressions.read(found)
            copied.append(
                self.stored(to, value)
                if isinstance(value, numbers.Number)
                else ir.Assign(to.expression, value.node)
            )
        return tuple(copied)

    def _same(self, place: ir.Expression, source: Json) -> ir.Assign:
        value = self._expressions.thing(source)
        if value.type != place.type:
            raise source.fault(f"is a {value.type}; a {place.type} was expected")
        return ir.Assign(place, value)

    def _validate(self, item: Json, valid: bool) -> Statements:
        header = self._expressions.thing(item)
        if not self._scope.places.is_header(header.type):
            raise item.fault(f"is a {header.type}; a header was expected")
        return (ir.SetValid(header, valid),)

    def _move(self, item: Json, count: Json, front: bool) -> Statements:
        stack = self._expressions.thing(item)
        moved = self._expressions.number(count).constant
        if not isinstance(stack.type, ir.Stack) or moved is None or not 0 <= moved < 1 << 31:
            raise item.fault(f"is a {stack.type}; a stack, and behind it a constant, were expected")
        return (ir.MoveStack(stack, moved, front),)

    # Externs

    def _call(self, function: str, *arguments: ir.Expression) -> Statements:
        return (ir.CallFunction(function, arguments),)

    def _log(self, text: Json, values: Json | None = None) -> Statements:
        text["type"].choice(["string"])
        words = ir.Text(text["value"].text())
        given = []
        if values is not None:
            values["type"].choice(["parameters_vector"])
            given = [] if values["value"].is_object else values["value"].items()
        if not given:
            return self._call("log_msg", words)
        numbers_given = tuple(self._expressions.exact(item) for item in given)
        return self._call("log_msg", words, self._scope.tuple_of("log", numbers_given))

    def _written(self, item: Json) -> FieldPlace:
        place = self._expressions.field(item)
        if not place.width_bits:
            raise item.fault("is a field of variable length; a number was expected")
        return place

    def _hash(self, target: Json, base: Json, calculation: Json, size: Json) -> Statements:
        calculation["type"].choice(["calculation"])
        found = self._scope.calculation(calculation["value"])
        if found.with_payload:
            raise calculation.unsupported("the payload in a hash")
        place, lowest, largest = self._written(target), *map(self._expressions.exact, (base, size))
        result = place.expression if place.is_plain else self._scope.variable("result", place.kind)
        call = ir.CallFunction("hash", (result, found.algorithm, lowest, found.data, largest))
        return (call,) if place.is_plain else (call, self.stored(place, numbers.held(result)))

    def _random(self, target: Json, low: Json, high: Json) -> Statements:
        place, lowest, highest = self._written(target), *map(self._expressions.exact, (low, high))
        return self.read_into(
            place, place.kind, lambda result: ir.CallFunction("random", (result, lowest, highest))
        )

    def _digest(self, receiver: Json, number: Json) -> Statements:
        return self._call("digest", self._expressions.of(receiver, 32), self._scope.digest(number))

    def _clone(self, kind: str, session: Json, number: Json | None = None) -> Statements:
        arguments = (ir.Constant(_CLONE_TYPES.index(kind), _WORD), self._expressions.of(session, 32))
        return self._call("clone_preserving_field_list", *arguments, self._scope.field_list(number))

    def _again(self, how: str, number: Json | None = None) -> Statements:
        return self._call(f"{how}_preserving_field_list", self._scope.field_list(number))

    def _count(self, array: Json, index: Json) -> Statements:
        name = self._scope.array(array, "counter")
        return (ir.CallMethod(name, "count", (self._expressions.exact(index),)),)

    def _execute_meter(self, array: Json, index: Json, target: Json) -> Statements:
        name, place = self._scope.array(array, "meter"), self._written(target)
        at = self._expressions.exact(index)
        return self.read_into(
            place, place.kind, lambda result: ir.CallMethod(name, "execute_meter", (at, result))
        )

    def _register_read(self, target: Json, array: Json, index: Json) -> Statements:
        name, place = self._scope.array(array, "register"), self._written(target)
        at = self._expressions.exact(index)
        kind = self._scope.registers[name]
        return self.read_into(place, kind, lambda result: ir.CallMethod(name, "read", (result, at)))

    def _register_write(self, array: Json, index: Json, value: Json) -> Statements:
        name = self._scope.array(array, "register")
        written = self._expressions.of(value, self._scope.registers[name].width)
        return (ir.CallMethod(name, "write", (self._expressions.exact(index), written)),)
