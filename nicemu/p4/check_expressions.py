# SPDX-License-Identifier: Apache-2.0
"""Gives every expression its type, and its value where it is a compile-time constant.

A number without a width takes the width of what it meets. Nothing else is converted silently, but a
serializable enum to its representation and {...} to a struct.
Source: P4-16 Language Specification 1.2.5, "Expressions", "Implicit casts".
"""

from __future__ import annotations

from nicemu.pipeline import arithmetic, ir

from . import syntax
from .check_operators import MAX_INTEGER_BITS, OperatorChecker
from .constants import is_constant, is_given, literal_of
from .diagnostics import Location, did_you_mean
from .symbols import (
    CallKind,
    ConstantSymbol,
    ErrorList,
    Instance,
    TypeSymbol,
    Variable,
)
from .type_sizes import scalar_of
from .types import (
    DEFAULT,
    INTEGER,
    INVALID,
    MATCH_KIND,
    TEXT,
    UNKNOWN,
    ActionRun,
    ApplyResult,
    CompositeType,
    EnumType,
    ListType,
    StackType,
    Type,
    elements_of,
)
from .v1model_advice import OF_BEFORE

_IN_PARSERS = ("next", "last", "lastIndex")
_PARTS = (syntax.MemberRef, syntax.SliceRef, syntax.IndexRef)

HEADER_METHODS = {
    "isValid": CallKind.IS_VALID,
    "setValid": CallKind.SET_VALID,
    "setInvalid": CallKind.SET_INVALID,
}
"""Methods of headers, and what calling them is."""


class ExpressionChecker(OperatorChecker):
    """Types and constant values of expressions; calls come in the subclass. `context` says where they stand.

    `measures` says that a size is asked for, and nothing is evaluated.
    """

    measures = False

    def call(self, node: syntax.Call) -> Type:
        """Return the type of what a call returns."""
        raise NotImplementedError

    def expression(self, node: syntax.Expression) -> Type:
        """Return the type of an expression, filled in with all that is found out; UNKNOWN if reported.

        An expression is looked at once: asked again, it has the type that it was given or converted to.
        """
        if node.type is None:
            node.type = self._typed(node)
        return node.type  # type: ignore[no-any-return]

    # Every kind of expression

    def _typed(self, node: syntax.Expression) -> Type:
        match node:  # what most nodes are stands first
            case syntax.NameRef():
                return self._name(node)
            case syntax.MemberRef():
                return self._member(node)
            case syntax.Number():
                node.value = node.number
                if node.width is None:
                    return INTEGER
                kind = ir.Bits(node.width, node.signed)
                if node.number >> kind.width - kind.signed:
                    what = f"{self.shown(node.number)} does not fit {kind}: it is cut"
                    self.reporter.warning(node.at, what)
                node.value = arithmetic.wrap(node.number, kind)
                return kind
            case syntax.BoolLiteral():
                node.value = int(node.truth)
                return ir.BOOL
            case syntax.StringLiteral():
                node.value = node.text
                return TEXT
            case syntax.SliceRef():
                return self._slice(node)
            case syntax.UnaryOp():
                return self._unary(node)
            case syntax.BinaryOp():
                return self._binary(node)
            case syntax.ConditionalOp():
                return self._conditional(node)
            case syntax.CastOp():
                return self._cast(node)
            case syntax.Call():
                return self.call(node)
            case syntax.ListValue():
                items = tuple(self.expression(item) for item in node.items)
                return ListType(items, tuple(node.names) if node.names else None, node.rest)
            case syntax.IndexRef():
                return self._index(node)
            case syntax.DefaultValue():
                return DEFAULT
            case syntax.InvalidHeader():
                return INVALID
            case syntax.ThisRef():
                what = "'this' stands for an object in its own abstract methods, before the name of a method"
                self.reporter.error(node.at, what)
            case syntax.TypeName():
                self.reporter.error(node.at, f"{node.ref.name} is no value")
            case _:
                self.reporter.error(node.at, "a set of values cannot stand here")
        return UNKNOWN

    def _name(self, node: syntax.NameRef) -> Type:
        if node.name in self.declared.match_kinds and self.scope.meant(node) is None:
            node.value = self.declared.match_kinds[node.name]
            return MATCH_KIND
        symbol = self.find(node, "value")
        node.symbol = symbol
        match symbol:
            case None:
                return UNKNOWN
            case Variable():
                return symbol.type
            case ConstantSymbol():
                node.value = symbol.value
                return symbol.type
            case Instance():
                return symbol.type
        self.reporter.error(node.at, f"{node.name} is no value")
        return UNKNOWN

    def _member(self, node: syntax.MemberRef) -> Type:
        if isinstance(node.base, syntax.NameRef):
            symbol = self.scope.meant(node.base)
            if isinstance(symbol, ErrorList):
                return self._error(node)
            if isinstance(symbol, TypeSymbol) and isinstance(symbol.type, EnumType):
                return self._enum_member(node, symbol.type)
        base = self.expression(node.base)
        match base:
            case CompositeType():
                if node.name in base.fields and base.kind not in ("tuple", "array"):
                    node.value = _constant_part(node)
                    return base.fields[node.name]
                self.reporter.error(
                    node.name_at, f"{base} has no field {node.name}", _field_hint(node.name, base)
                )
            case StackType():
                return self._stack_member(node, base)
            case ApplyResult():
                if node.name in ("hit", "miss"):
                    return ir.BOOL
                if node.name == "action_run":
                    return ActionRun(base.table)
                hint = did_you_mean(node.name, ["hit", "miss", "action_run"])
                self.reporter.error(node.name_at, f"{base} has no {node.name}", hint)
            case _ if base is not UNKNOWN:
                self.reporter.error(node.name_at, f"{base} has no field {node.name}")
        return UNKNOWN

    def _stack_member(self, node: syntax.MemberRef, stack: StackType) -> Type:
        match node.name:
            case "next" | "last":
                if self.context != "parser":
                    self.reporter.error(node.name_at, f"{node.name} of a stack stands only in parsers")
                elif is_constant(node.base):
                    self.reporter.error(
                        node.name_at, f"nothing is extracted into a constant: it has no {node.name}"
                    )
                return stack.element
            case "lastIndex":
                if self.context != "parser":
                    self.reporter.error(node.name_at, "lastIndex of a stack stands only in parsers")
                return ir.Bits(32)
            case "size":
                node.value = stack.size
                return ir.Bits(32)
        hint = did_you_mean(node.name, [*(_IN_PARSERS if self.context == "parser" else ()), "size"])
        if node.name == "nextIndex":
            hint = "write lastIndex + 1"
        elif node.name in stack.element.fields:
            hint = f"say of which header: [0].{node.name}"
        self.reporter.error(node.name_at, f"{stack} has no {node.name}", hint)
        return UNKNOWN

    def _index(self, node: syntax.IndexRef) -> Type:
        base, index = self.expression(node.base), self.bits(node.index)
        if UNKNOWN in (base, index):
            return UNKNOWN
        place: int | None = node.index.value
        if isinstance(base, ListType) and isinstance(node.base, syntax.ListValue):
            chosen = dict(enumerate(node.base.items)).get(-1 if place is None else place)
            if chosen is not None and chosen.type == INTEGER and is_constant(node.base) and not base.names:
                node.value = chosen.value
                return INTEGER
            base = self._written_tuple(node.base, base, place)
            if base is UNKNOWN:
                return UNKNOWN
        if isinstance(base, CompositeType) and base.kind == "tuple":
            kinds = list(base.fields.values())
            numeric = isinstance(index, ir.Bits | type(INTEGER))
            if place is None or not (numeric and 0 <= place < len(kinds)) or is_given(node.index):
                self.reporter.error(node.index.at, f"a constant from 0 to {len(kinds) - 1} was expected here")
                return UNKNOWN
            node.value = _constant_part(node)
            return kinds[place]
        elements = elements_of(base)
        if elements is None:
            what = f"{base} has no elements; an array, header stack or tuple was expected"
            self.reporter.error(node.at, what)
            return UNKNOWN
        kind, size = elements
        if not isinstance(index, ir.Bits | type(INTEGER)):
            self.reporter.error(node.index.at, f"the index is {index}; a number was expected")
            return UNKNOWN
        if place is not None and not 0 <= place < size and not self.measures:
            self.reporter.error(
                node.index.at, f"{base} has no element {self.shown(place)}", f"0 to {size - 1} it has"
            )
            return UNKNOWN
        if index is INTEGER:
            self._sized(node.index, ir.Bits(32))
        if place is not None and isinstance(base, CompositeType):
            node.value = _constant_part(node)
        return kind

    def _written_tuple(self, node: syntax.ListValue, found: ListType, place: int | None) -> Type:
        """Return the type of a list whose element at `place` is used; numbers at others need no width."""
        for position, item in enumerate(node.items):
            if item.type is INTEGER and item.value is not None and position != place:
                self._sized(item, ir.Bits(item.value.bit_length() + 1, True))
        items = tuple(item.type for item in node.items)
        kind = self.type_of_list(node, ListType(items, found.names, found.rest))
        if kind is not UNKNOWN:
            self.convert(node, kind, "the list")
        return kind

    def _error(self, node: syntax.MemberRef) -> Type:
        errors = self.declared.errors
        if node.name not in errors:
            hint = did_you_mean(node.name, errors)
            if node.name in ir.CORE_ERRORS:
                hint = "#include <core.p4>"
            self.reporter.error(node.name_at, f"unknown error {node.name}", hint)
            return UNKNOWN
        node.value = errors[node.name]
        return ir.ERROR

    def _enum_member(self, node: syntax.MemberRef, enum: EnumType) -> Type:
        if node.name not in enum.members:
            hint = did_you_mean(node.name, enum.members)
            self.reporter.error(node.name_at, f"{enum} has no member {node.name}", hint)
            return UNKNOWN
        if node.name not in self.architecture.enums.get(enum.name, enum.members):
            self.reporter.unsupported(node.name_at, f"{node.name} of {enum}")
        node.value = enum.members[node.name]
        return enum

    def _slice(self, node: syntax.SliceRef) -> Type:
        base = self.bits(node.base)
        bits = self.local_integer(node.width, "the width of a slice") if node.width is not None else None
        if node.width is not None and bits is None:
            return UNKNOWN
        if bits is not None and isinstance(self.bits(node.low), ir.Bits) and node.low.value is None:
            return self._slice_anywhere(node, base, bits)
        if bits == 0:
            return self._empty_slice(node, base)
        high = self.local_integer(node.high, "the high bit of a slice")
        low = self.local_integer(node.low, "the low bit of a slice")
        if high is None or low is None or base is UNKNOWN:
            return UNKNOWN
        if not isinstance(base, ir.Bits) and base is not INTEGER:
            hint = "cast it" if scalar_of(base) is not None else ""
            self.reporter.error(node.at, f"a slice of {base}; bit<N> or int<N> was expected", hint)
            return UNKNOWN
        known = base is INTEGER and node.base.value is not None and high < MAX_INTEGER_BITS
        width = base.width if isinstance(base, ir.Bits) else MAX_INTEGER_BITS if known else 0
        if not 0 <= low <= high < width:
            bound = (
                f"; bits {base.width - 1} down to 0 were expected"
                if isinstance(base, ir.Bits) and base.width
                else ""
            )
            self.reporter.error(node.at, f"[{self.shown(high)}:{self.shown(low)}] of {base}{bound}")
            return UNKNOWN
        if node.base.value is not None:
            node.value = node.base.value >> low & ((1 << (high - low + 1)) - 1)
        return ir.Bits(high - low + 1)

    def _empty_slice(self, node: syntax.SliceRef, base: Type) -> Type:
        """Return the type of `[low+:0]`, whose value is 0."""
        low = self.local_integer(node.low, "the low bit of a slice")
        if low is None or base is UNKNOWN:
            return UNKNOWN
        if not isinstance(base, ir.Bits) or not 0 <= low <= base.width:
            self.reporter.error(node.at, f"[{self.shown(low)}+:0] of {base}")
            return UNKNOWN
        node.value = 0
        return ir.Bits(0)

    def _slice_anywhere(self, node: syntax.SliceRef, base: Type, bits: int) -> Type:
        """Return the type of a slice whose low bit is known at run time: what is behind the last bit is 0."""
        if base is UNKNOWN:
            return UNKNOWN
        if not isinstance(base, ir.Bits) or not 0 <= bits <= base.width:
            self.reporter.error(node.at, f"a slice of {self.shown(bits)} bits of {base}")
            return UNKNOWN
        if node.low.type.signed:
            what = f"the low bit of a slice is {node.low.type}; bit<N> was expected"
            self.reporter.error(node.low.at, what)
            return UNKNOWN
        return ir.Bits(bits)

    def lvalue(self, node: syntax.Expression, what: str, is_assigned: bool = False) -> bool:
        """Check that a checked expression can be stored into, by an assignment or otherwise; return if so."""
        at: Location = node.at
        if node.type is UNKNOWN and isinstance(node, _PARTS):
            return False  # already reported
        whole, is_in_tuple = node, False
        while isinstance(node, _PARTS):
            base = node.base
            if isinstance(node, syntax.SliceRef) and node.type == ir.Bits(0):
                self.reporter.unsupported(node.at, "an empty slice to store into")
                return False
            is_moving = isinstance(node, syntax.SliceRef) and node.low.value is None
            if is_moving and node.type is not UNKNOWN and not (is_assigned and node is whole):
                self.reporter.unsupported(node.at, "a slice from a low bit that is known at run time here")
                return False
            if isinstance(node, syntax.SliceRef) and isinstance(kind := _declared(base), EnumType):
                hint = "store a whole one: an enum is a number where it is read alone"
                self.reporter.error(node.at, f"{what} bits of {kind}", hint)
                return False
            if (
                isinstance(node, syntax.MemberRef)
                and isinstance(base.type, StackType)
                and node.name != "next"
                and node.type is not UNKNOWN
            ):
                hint = "write an index: stack[...]" if node.name == "last" else ""
                self.reporter.error(node.name_at, f"{what} {node.name} of a stack, which is read-only", hint)
                return False
            if isinstance(base.type, CompositeType) and base.type.kind == "tuple":
                is_in_tuple = True
            node = base
        symbol = node.symbol if isinstance(node, syntax.NameRef) else None
        if isinstance(symbol, Variable):
            if not symbol.writable:
                self.reporter.error(at, f"{what} {symbol.name}, which is read-only ({symbol.role})")
            elif is_in_tuple:
                hint = "P4-16 wants a whole one stored; other compilers may refuse this"
                self.reporter.warning(at, f"{what} a part of a tuple", hint)
            return symbol.writable
        if isinstance(symbol, ConstantSymbol):
            self.reporter.error(at, f"{what} {symbol.name}, which is read-only (a constant)")
        elif node.type is not UNKNOWN:
            self.reporter.error(at, f"{what} something that is no variable")
        return False


def _declared(node: syntax.Expression) -> Type:
    """Return the type that an l-value was declared with: read, an enum has that of its numbers."""
    if isinstance(node, syntax.NameRef) and isinstance(node.symbol, Variable):
        kind: Type = node.symbol.type
        return kind
    if isinstance(node, syntax.MemberRef) and isinstance(node.base.type, CompositeType):
        return node.base.type.fields.get(node.name, UNKNOWN)
    found: Type = node.type
    if isinstance(node, syntax.IndexRef) and isinstance(node.base.type, CompositeType):
        found = next(iter(node.base.type.fields.values()), UNKNOWN)
    return found


def _field_hint(name: str, kind: CompositeType) -> str:
    if kind.kind == "array" and name == "size":
        return f"only header stacks have size; this one has {len(kind.fields)} elements"
    if kind.kind in ("tuple", "array"):
        return f"write an index: {kind.kind}[0]"
    if kind.kind in ("header", "header_union") and name in HEADER_METHODS:
        return f"call it: {name}()"
    if kind.kind in ("header", "header_union") and name.lower() in ("valid", "isvalid", "is_valid"):
        return "write isValid()"
    if kind.name == "standard_metadata_t" and name in OF_BEFORE:
        return OF_BEFORE[name]
    return did_you_mean(name, kind.fields)


def _constant_part(node: syntax.MemberRef | syntax.IndexRef) -> int | None:
    """Return the number that a field of a constant, or an element of it, is; None if it is none."""
    made = literal_of(node) if is_constant(node.base) else None
    value: int | None = made.value if made is not None else None
    return value
