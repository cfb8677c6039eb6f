# SPDX-License-Identifier: Apache-2.0
"""Parsers. A select's values are its keys one behind the other, each filled up with zeros to whole bytes.

Source: p4lang/behavioral-model, "BMv2 JSON input format", "parsers" and "parse_vsets".
"""

from __future__ import annotations

from nicemu.pipeline import MAX_TABLE_SIZE, ir

from . import numbers
from .document import Json
from .expressions import Expressions
from .graph import Statements
from .layouts import Names
from .primitives import Primitives
from .scope import Scope

VALUE_SET_SIZE = 1024
"""Members that a value set has room for where the file does not say how many, as older ones do not."""

_TRANSITIONS = ("default", "hexstr", "parse_vset")
_WORD = ir.Bits(32)


class Parsers:
    """Translates the parser, and with it the value sets that it compares with."""

    def __init__(self, document: Json, scope: Scope) -> None:
        self._document = document
        self._scope = scope
        self._expressions = Expressions(scope.places, scope.errors, in_parser=True)
        self._primitives = Primitives(scope, self._expressions)
        self._widths = {item["name"].text(): item for item in document.list("parse_vsets")}
        self._value_sets: dict[str, ir.ValueSet] = {}
        self._names: dict[str, str] = {}

    @property
    def value_sets(self) -> tuple[ir.ValueSet, ...]:
        """The value sets that the parser uses, or that nothing uses."""
        for name, item in self._widths.items():
            if name not in self._value_sets:
                kind = ir.Bits(item["compressed_bitwidth"].number(1, ir.MAX_WIDTH_BITS))
                self._value_sets[name] = ir.ValueSet(name, _size(item), (ir.ValueSetField("f", kind),))
        return tuple(self._value_sets[name] for name in self._widths)

    def parser(self) -> ir.Parser:
        """Return the program's parser."""
        parsers = self._document["parsers"].items()
        if len(parsers) != 1:
            raise self._document["parsers"].fault(f"has {len(parsers)} items; v1model has one parser")
        states = parsers[0]["parse_states"].items()
        names = Names((ir.ACCEPT, ir.REJECT))
        for state in states:
            name = state["name"].text()
            if name in self._names:
                raise state["name"].fault(f"is {name}, which stands there twice")
            self._names[name] = names.unique(name)
        start = parsers[0].get("init_state")
        return ir.Parser(
            parsers[0]["name"].text(), tuple(self._state(item) for item in states), (), self._target(start)
        )

    def _target(self, name: Json | None) -> str:
        if name is None:
            return ir.ACCEPT
        if name.text() not in self._names:
            raise name.fault(f"is {name.text()}, which is no state of the parser")
        return self._names[name.text()]

    def _state(self, item: Json) -> ir.State:
        body = tuple(part for op in item["parser_ops"].items() for part in self._operation(op))
        return ir.State(self._names[item["name"].text()], body, self._transition(item))

    # Operations

    def _operation(self, item: Json) -> Statements:
        op, given = item["op"].text(), item["parameters"].items()
        counts = {
            "extract": 1,
            "extract_VL": 2,
            "set": 2,
            "verify": 2,
            "shift": 1,
            "advance": 1,
            "primitive": 1,
        }
        if op not in counts:
            raise item["op"].unsupported(f"parser operation {op}")
        given = item["parameters"].items(counts[op])
        match op:
            case "extract":
                return (ir.Extract(self._extracted(given[0], False)),)
            case "extract_VL":
                header = self._extracted(given[0], True)
                return (ir.ExtractVarbit(header, self._expressions.of(given[1], 32)),)
            case "verify":
                return self._verify(*given)
            case "shift":
                return (ir.Advance(ir.Constant(8 * given[0].number(0, 1 << 24), _WORD)),)
            case "advance":
                return (ir.Advance(self._expressions.of(given[0], 32)),)
            case "primitive":
                return self._primitives.statements(given[0])
        return self._primitives.statements(item)

    def _extracted(self, item: Json, with_varbit: bool) -> ir.Expression:
        kind, places = item["type"].text(), self._scope.places
        header: ir.Expression
        match kind:
            case "regular":
                header = places.header(item["value"])
            case "stack":
                stack = places.stack(item["value"])
                assert isinstance(stack.type, ir.Stack)
                header = ir.StackPlace(stack, False, ir.Named(stack.type.element))
            case "union_stack":
                name, member = item["value"].items(2)
                stack = places.union_stack(name)
                assert isinstance(stack.type, ir.Stack)
                header = places.member(ir.StackPlace(stack, False, ir.Named(stack.type.element)), member)
            case _:
                raise item["type"].fault(f"is {kind}; regular, stack or union_stack was expected")
        if not places.is_header(header.type):
            raise item.fault("names metadata; a header was expected")
        if places.has_varbit(header) is not with_varbit:
            wanted = "extract_VL" if places.has_varbit(header) else "extract"
            raise item.fault(f"is a {header.type}, which takes {wanted}")
        return header

    def _verify(self, condition: Json, error: Json) -> Statements:
        holds, number = self._expressions.truth(condition), self._error(error)
        if number.constant is not None and not self._scope.errors.has(number.constant):
            raise error.fault(f"is {number.constant}, which is the number of none of errors")
        if number.constant is not None or number.error is not None:
            place: ir.Expression = ir.Name("", ir.ERROR)
            stored = self._scope.errors.stored(place, number)
            assert isinstance(stored, ir.Assign)
            return (ir.Verify(holds, stored.value),)
        place = self._scope.variable("error", ir.ERROR)
        return (self._scope.errors.stored(place, number), ir.Verify(holds, place))

    def _error(self, item: Json) -> numbers.Number:
        """Return the number of an error, which stands there bare in files of 2017."""
        return self._expressions.number(item) if item.is_object else numbers.constant(item.number())

    # Transitions

    def _transition(self, item: Json) -> ir.Transition:
        keys = [self._expressions.key(key) for key in item.list("transition_key")]
        cases: list[ir.SelectCase] = []
        for transition in item["transitions"].items():
            kind, state = _kind(transition), self._target(transition.get("next_state"))
            if kind == "default":
                if not keys or not cases:
                    return ir.Goto(state)
                cases.append(ir.SelectCase(tuple(ir.KeyAny() for _ in keys), state))
                break
            if not keys:
                raise transition.fault("compares, and the state has no transition_key")
            keysets = self._keysets(transition, kind, keys)
            if keysets is not None:
                cases.append(ir.SelectCase(keysets, state))
        if not keys:
            return ir.Goto(ir.ACCEPT)
        return ir.Select(tuple(keys), tuple(cases))

    def _keysets(self, item: Json, kind: str, keys: list[ir.Expression]) -> tuple[ir.Keyset, ...] | None:
        """Return what a case compares with, None where it can match nothing."""
        if kind == "parse_vset":
            return (self._in_set(item, keys),)
        widths = [_width(key) for key in keys]
        room = 8 * sum((width + 7) // 8 for width in widths)
        value, given = item["value"].unsigned_hexstr(), item.get("mask")
        mask = given.unsigned_hexstr() if given is not None else (1 << room) - 1
        for part, number in (("value", value), ("mask", mask)):
            if number >= 1 << room:
                raise item[part].fault(f"has more than the {room} bits of the transition key")
        keysets: list[ir.Keyset] = []
        for width in widths:
            room -= 8 * ((width + 7) // 8)
            ones = (1 << 8 * ((width + 7) // 8)) - 1
            wanted, compared = value >> room & ones, mask >> room & ones
            if wanted & compared >= 1 << width:
                return None
            within = (1 << width) - 1
            if compared & within:
                keysets.append(ir.KeyMask(wanted & within, compared & within))
            else:
                keysets.append(ir.KeyAny())
        return tuple(keysets)

    def _in_set(self, item: Json, keys: list[ir.Expression]) -> ir.Keyset:
        name = item["value"].text()
        if name not in self._widths:
            raise item["value"].fault(f"is {name}, which is none of parse_vsets")
        mask = item.get("mask")
        if mask is not None and mask.value != 0 and mask.unsigned_hexstr():
            raise mask.unsupported(
                "a mask with a value set"
            )  # one of 0 is what p4c wrote until 2020 for none
        width = self._widths[name]["compressed_bitwidth"]
        if width.number() != sum(map(_width, keys)):
            raise width.fault(
                f"is {width.value}; the keys that are compared have {sum(map(_width, keys))} bits"
            )
        fields = tuple(
            ir.ValueSetField(f"f{place}" if len(keys) > 1 else "f", key.type)
            for place, key in enumerate(keys, start=1)
        )
        known = self._value_sets.setdefault(name, ir.ValueSet(name, _size(self._widths[name]), fields))
        if known.fields != fields:
            raise item["value"].unsupported("a value set that is compared with keys of different widths")
        return ir.KeyInSet(name)


def _kind(transition: Json) -> str:
    """Return what a transition is; older compilers wrote no type, and "default" as a value."""
    given = transition.get("type")
    kind = "hexstr" if given is None else given.choice(_TRANSITIONS)
    return "default" if kind == "hexstr" and transition.value.get("value") == "default" else kind


def _size(value_set: Json) -> int:
    given = value_set.get("max_size")
    return VALUE_SET_SIZE if given is None else given.number(1, MAX_TABLE_SIZE)


def _width(key: ir.Expression) -> int:
    assert isinstance(key.type, ir.Bits)
    return key.type.width
