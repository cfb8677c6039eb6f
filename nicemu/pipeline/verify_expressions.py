# SPDX-License-Identifier: Apache-2.0
"""Checks the expressions of a program: types recomputed from below, calls against declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NoReturn

from nicemu.errors import counted

from . import ir
from .architecture import Architecture
from .arithmetic import BINARY, COMPARISONS, CONCATENATION, LOGICAL, SHIFTS, UNARY, bounds
from .externs import Argument, ExternFunction, Kind
from .ir_json import fault
from .matches import width_of

TAKES, EMITS = "takes from packets", "emits"
"""What is done with packets."""
MAX_NESTING = 150
"""Statements and expressions that may stand inside one another; it bounds the interpreter's recursion."""


_PLACES = (ir.Member, ir.Slice, ir.Element, ir.StackPlace)
_SCALARS = (ir.Bits, ir.Bool, ir.ErrorCode)


class _Path(list[str]):
    """A list that loses an item at the end of each `with`; no object is made for one, there are thousands."""

    def __enter__(self) -> None:
        """Nothing: the item was put there before."""

    def __exit__(self, *_: object) -> None:
        self.pop()


class Faults:
    """Where in the program the check stands."""

    def __init__(self) -> None:
        self._path = _Path(["$"])

    def at(self, place: str) -> AbstractContextManager[None]:
        """Check `place` inside the present one."""
        self._path.append(place)
        return self._path

    def raise_(self, place: str, sentence: str) -> NoReturn:
        """Raise the ControlError for a fault at `place`."""
        raise fault(".".join([*self._path, place]).rstrip("."), sentence)


@dataclass(slots=True)
class Uses:
    """What a body calls, by name, tables as "table NAME", and what it does with packets: TAKES, EMITS."""

    calls: set[str] = field(default_factory=set)
    packets: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Expressions:
    """Expressions, and the arguments of calls."""

    faults: Faults
    architecture: Architecture
    headers: Mapping[str, ir.HeaderType]
    structs: Mapping[str, ir.StructType]
    unions: Mapping[str, ir.UnionType]
    variables: Mapping[str, ir.Type]
    errors: Sequence[str]
    instances: Mapping[str, ir.ExternInstance]
    actions: dict[str, ir.Action]
    tables: Mapping[str, ir.Table]
    functions: Mapping[str, ir.Function] = field(default_factory=dict)
    place: str = "control"
    uses: dict[str, Uses] = field(default_factory=dict)
    """What has been found in actions, functions and blocks, by their names, and "table NAME"."""
    _uses: Uses = field(default_factory=Uses)
    _depth: int = field(default=0)
    _fields: dict[str, dict[str, ir.Type]] = field(default_factory=dict)
    _checked: dict[int, ir.Expression] = field(default_factory=dict)
    """Names, and members of such, that were found right, by their identity: a compiler uses them again."""

    def scalar(self, node: ir.Expression) -> None:
        """Check an expression that must be a number, a bool or an error."""
        if not is_scalar(self._type(node)):
            self.faults.raise_("", f"a {node.type} stands where a number was expected")

    def number(self, node: ir.Expression) -> None:
        """Check an expression that must be bit<N> or int<N>."""
        if not isinstance(self._type(node), ir.Bits):
            self.faults.raise_("", f"a {node.type} stands where a number was expected")

    def known(self, kind: ir.Type) -> None:
        """Check that the program has a type."""
        name = kind.element if isinstance(kind, ir.Stack) else kind.name if isinstance(kind, ir.Named) else ""
        elements: Mapping[str, object] = {**self.headers, **self.unions}
        if isinstance(kind, ir.String | ir.Integer | ir.List):
            self.faults.raise_("type", f"is {kind}, which no value has")
        if name and name not in elements and (isinstance(kind, ir.Stack) or name not in self.structs):
            self.faults.raise_("type", f"is {kind}, which the program does not have")
        if isinstance(kind, ir.Stack) and not 0 < kind.size <= ir.MAX_STACK_SIZE:
            self.faults.raise_("type", f"{kind} has more than {ir.MAX_STACK_SIZE} elements")

    def is_flat(self, kind: ir.Type) -> bool:
        """Return whether a type is a fixed number of bits: a scalar, or a header or struct of such."""
        if not isinstance(kind, ir.Named):
            return isinstance(kind, ir.Bits | ir.Bool)
        layout = self.headers.get(kind.name) or self.structs.get(kind.name)
        return layout is not None and all(self.is_flat(part.type) for part in layout.fields)

    def _has_fixed_width(self, kind: ir.Type) -> bool:
        """Return whether a type can be looked ahead for: a flat one, a stack, or a struct with such."""
        if isinstance(kind, ir.Stack):
            return kind.element in self.headers and self.is_flat(ir.Named(kind.element))
        struct = self.structs.get(kind.name) if isinstance(kind, ir.Named) else None
        return (
            all(self._has_fixed_width(part.type) for part in struct.fields) if struct else self.is_flat(kind)
        )

    def kept(self, node: ir.Expression) -> None:
        """Check a place that a field list names."""
        self._type(node)
        self._lvalue(node)

    def _only_in_parser(self, node: ir.Expression) -> None:
        if self.place not in ("parser", "function"):
            self.faults.raise_("", f"has a {type(node).__name__} in a {self.place}")
        self._uses.packets.add(TAKES)

    def arguments(
        self, action: str, parameters: Sequence[ir.Parameter], given: Sequence[ir.Expression]
    ) -> None:
        """Check the arguments of one call of an action."""
        if len(parameters) != len(given):
            self.faults.raise_(
                "", f"{action} takes {counted(len(parameters), 'argument')}; {len(given)} are given"
            )
        for parameter, argument in zip(parameters, given, strict=True):
            self._expect(argument, parameter.type)
            if parameter.direction in (ir.Direction.OUT, ir.Direction.INOUT):
                self._lvalue(argument)

    def _function(self, name: str, arguments: Sequence[ir.Expression]) -> ir.Function:
        if name not in self.functions:
            self.faults.raise_("function", f"{name} is unknown")
        if self.functions[name].is_control and self.place not in ("control", "deparser", "action"):
            self.faults.raise_("function", f"{name} is a control, which cannot be applied here")
        self._uses.calls.add(name)
        self.arguments(name, self.functions[name].parameters, arguments)
        return self.functions[name]

    def _extern(self, instance: str, name: str, given: Sequence[ir.Expression]) -> ExternFunction:
        """Check a call of a function of the architecture, or of a method of an `instance`."""
        declared = self.instances.get(instance)
        if instance and declared is None:
            self.faults.raise_("instance", f"{instance} is unknown")
        known = self.architecture.functions
        if declared is not None:
            known = self.architecture.objects[declared.extern].methods
        if name not in known:
            owner = self.architecture.name if declared is None else declared.extern
            self.faults.raise_("name", f"{name} is unknown; {owner} has {', '.join(known)}")
        function = known[name]
        takes = function.signature(len(given))
        if takes is None:
            counts = " or ".join(str(len(item)) for item in function.signatures)
            self.faults.raise_("arguments", f"{name} takes {counts}; {len(given)} are given")
        if self.place not in function.places:
            self.faults.raise_("", f"calls {name}, which cannot be called in a {self.place}")
        for argument, node in zip(takes, given, strict=True):
            self._given(node, argument, declared)
        return function

    def _given(self, node: ir.Expression, argument: Argument, declared: ir.ExternInstance | None) -> None:
        if not isinstance(argument.type, Kind):
            self._expect(node, argument.type)
        elif argument.type is Kind.CARRIED:
            assert declared is not None
            self._expect(node, declared.types[0])
        elif not self._is_a(self._type(node), argument.type):
            self.faults.raise_("", f"has a {node.type} where {argument.type.value} was expected")
        if argument.is_written:
            self._lvalue(node)

    def _is_a(self, kind: ir.Type, wanted: Kind) -> bool:
        match wanted:
            case Kind.NUMBER:
                return isinstance(kind, ir.Bits)
            case Kind.SCALAR:
                return is_scalar(kind)
            case Kind.FLAT:
                return is_scalar(kind) or self.is_flat(kind)
        return not isinstance(kind, ir.String | ir.Integer | ir.List)

    def _table(self, name: str) -> ir.Table:
        if name not in self.tables or self.place not in ("control", "deparser"):
            self.faults.raise_("table", f"{name} cannot be applied here")
        self._uses.calls.add(f"table {name}")
        return self.tables[name]

    def _expect(self, node: ir.Expression, wanted: ir.Type) -> None:
        found = self._type(node)
        if found is not wanted and found != wanted:
            self.faults.raise_("", f"has a {type(node).__name__} of type {found} where {wanted} was expected")

    def _header(self, node: ir.Expression) -> None:
        kind = self._type(node)
        if not isinstance(kind, ir.Named) or kind.name not in self.headers:
            self.faults.raise_("", f"has a {kind} where a header was expected")

    def _extracted(self, node: ir.Expression, with_varbit: bool) -> None:
        self._header(node)
        self._lvalue(node)
        assert isinstance(node.type, ir.Named)
        varbits = [part for part in self.headers[node.type.name].fields if isinstance(part.type, ir.Varbit)]
        if bool(varbits) is not with_varbit:
            needed = "needs the length of its varbit" if varbits else "has no varbit"
            self.faults.raise_("header", f"{node.type} {needed}")

    def _stack(self, node: ir.Expression) -> ir.Named:
        """Check that an expression is a header stack; return the type of its elements."""
        kind = self._type(node)
        if not isinstance(kind, ir.Stack):
            self.faults.raise_("", f"has a {kind} where a header stack was expected")
        return ir.Named(kind.element)

    def _elements_of(self, node: ir.Expression) -> ir.Type:
        """Check that an expression is an array or header stack; return the type of its elements."""
        kind = self._type(node)
        struct = self.structs.get(kind.name) if isinstance(kind, ir.Named) else None
        return self._stack(node) if struct is None or struct.element is None else struct.element

    def _lvalue(self, node: ir.Expression) -> None:
        while isinstance(node, _PLACES):
            node = node.stack if isinstance(node, ir.StackPlace) else node.base
        if not isinstance(node, ir.Name):
            self.faults.raise_("", f"stores into a {type(node).__name__}; a variable or field was expected")

    def _type(self, node: ir.Expression) -> ir.Type:
        if id(node) in self._checked:
            return node.type
        self._depth += 1
        if self._depth > MAX_NESTING:
            self.faults.raise_("", "is nested too deeply")
        found = self._computed(node)
        if found is not node.type and found != node.type:
            self.faults.raise_("type", f"of a {type(node).__name__} is given as {node.type}; it is {found}")
        self._depth -= 1
        if isinstance(node, ir.Name) or (isinstance(node, ir.Member) and id(node.base) in self._checked):
            self._checked[id(node)] = node
        return found

    def _computed(self, node: ir.Expression) -> ir.Type:
        match node:
            case ir.Constant(value, kind):
                self._constant(value, kind)
                return kind
            case ir.Name(name, _, shown):
                if shown and not shown.isidentifier():
                    self.faults.raise_("shown", f"is {shown!r}, which is no name")
                if name not in self.variables:
                    self.faults.raise_("name", f"{name} is unknown")
                return self.variables[name]
            case ir.Member(base, name, _):
                return self._field(self._type(base), name)
            case ir.Element(base, index, _):
                self.number(index)
                return self._elements_of(base)
            case ir.StackPlace(stack, _, _):
                self._only_in_parser(node)
                return self._stack(stack)
            case ir.LastIndex(stack, _):
                self._stack(stack)
                return ir.Bits(32)
            case ir.PacketLength():
                self._only_in_parser(node)
                return ir.Bits(32)
            case ir.Call(name, arguments, _):
                result = self._function(name, arguments).result
                if not result:
                    self.faults.raise_("function", f"{name} returns nothing")
                return self.variables[result]
            case ir.Unary(op, operand, _):
                kind = self._type(operand)
                if (
                    op not in UNARY
                    or (op == "!") != (kind == ir.BOOL)
                    or not isinstance(kind, ir.Bits | ir.Bool)
                ):
                    self.faults.raise_("op", f"{op} does not apply to {kind}")
                return kind
            case ir.Binary(op, left, right, _):
                return self._binary(op, self._type(left), self._type(right))
            case ir.Conditional(condition, yes, no, _):
                self._expect(condition, ir.BOOL)
                self._expect(no, self._type(yes))
                return yes.type
            case ir.Cast(operand, kind):
                self.scalar(operand)
                pair = (operand.type, kind)
                if not all(isinstance(side, ir.Bits | ir.Bool) for side in pair) or (
                    ir.BOOL in pair and {width_of(side) for side in pair} != {1}
                ):
                    self.faults.raise_("", f"casts {operand.type} to {kind}")
                return kind
            case ir.Slice(base, high, low, _):
                self.scalar(base)
                if not isinstance(base.type, ir.Bits) or not 0 <= low <= high < base.type.width:
                    self.faults.raise_("", f"slices [{high}:{low}] of {base.type}")
                return ir.Bits(high - low + 1)
            case ir.IsValid(header, _):
                kind = self._type(header)
                if not isinstance(kind, ir.Named) or kind.name not in self.unions:
                    self._header(header)
                return ir.BOOL
            case ir.TableApply(table, _, _):
                self._table(table)
                return ir.BOOL
            case ir.Lookahead(kind):
                self._only_in_parser(node)
                self.known(kind)
                if not self._has_fixed_width(kind):
                    self.faults.raise_("", f"looks ahead for a {kind}")
                return kind
            case ir.StructValue(fields, kind):
                self._struct_value(fields, kind)
                return kind
            case ir.StackValue(elements, kind):
                if not isinstance(kind, ir.Stack) or kind.size != len(elements):
                    self.faults.raise_("", f"makes a {kind} of {len(elements)} values")
                for element in elements:
                    self._expect(element, ir.Named(kind.element))
                self.known(kind)
                return kind
            case ir.Zero(kind):
                self.known(kind)
                return kind
            case ir.Text():
                return ir.STRING
            case ir.ExternValue(instance, name, arguments, _):
                returns = self._extern(instance, name, arguments).returns
                if returns is None:
                    self.faults.raise_("name", f"{name} returns nothing")
                if isinstance(returns, Kind):
                    return self.instances[instance].types[0]
                return returns

    def _constant(self, value: int, kind: ir.Type) -> None:
        match kind:
            case ir.Bits():
                low, high = bounds(kind)
            case ir.Bool():
                low, high = 0, 1
            case ir.ErrorCode():
                low, high = 0, len(self.errors) - 1
            case ir.Integer():  # for an extern of the program's own
                low = high = value
            case _:
                self.faults.raise_("", f"has a constant of type {kind}")
        if not low <= value <= high:
            self.faults.raise_("value", f"{value} is not a {kind}")

    def _field(self, kind: ir.Type, name: str) -> ir.Type:
        if isinstance(kind, ir.Named):
            fields = self._fields.get(kind.name)
            if fields is None:
                layouts = self.headers, self.structs, self.unions
                layout = next((known[kind.name] for known in layouts if kind.name in known), None)
                fields = {part.name: part.type for part in layout.fields} if layout else {}
                self._fields[kind.name] = fields
            if name in fields:
                return fields[name]
        self.faults.raise_("field", f"{name} is not one of {kind}")

    def _binary(self, op: str, left: ir.Type, right: ir.Type) -> ir.Type:
        both_bits = isinstance(left, ir.Bits) and isinstance(right, ir.Bits)
        if op in ("==", "!=") and left == right:
            return ir.BOOL
        if op in LOGICAL and left == right == ir.BOOL:
            return ir.BOOL
        if op == CONCATENATION and isinstance(left, ir.Bits) and isinstance(right, ir.Bits):
            if left.width + right.width > ir.MAX_WIDTH_BITS:
                self.faults.raise_("op", f"++ makes more than {ir.MAX_WIDTH_BITS} bits")
            return ir.Bits(left.width + right.width, left.signed)
        if op in SHIFTS and both_bits and isinstance(right, ir.Bits) and not right.signed:
            return left
        if op in BINARY and op not in LOGICAL | SHIFTS and both_bits and left == right:
            return ir.BOOL if op in COMPARISONS else left
        self.faults.raise_("op", f"{op} does not apply to {left} and {right}")

    def _struct_value(self, values: Sequence[ir.Expression], kind: ir.Type) -> None:
        layout = None
        if isinstance(kind, ir.Named):
            layout = self.headers.get(kind.name) or self.structs.get(kind.name)
        if layout is None or len(layout.fields) != len(values):
            self.faults.raise_("", f"makes a {kind} of {len(values)} values")
        for part, value in zip(layout.fields, values, strict=True):
            self._expect(value, part.type)


def is_scalar(kind: ir.Type) -> bool:
    """Return whether values of a type are numbers at run time."""
    return isinstance(kind, _SCALARS)
