# SPDX-License-Identifier: Apache-2.0
"""Gives every expression its type, and its value where it is a compile-time constant.

A number without a width takes the width of what it meets. Nothing else is converted silently, but a
serializable enum to its representation and {...} to a struct.
Source: P4-16 Language Specification 1.2.5, "Expressions", "Implicit casts".
"""

from __future__ import annotations

from typing import Any

from nicemu.pipeline import arithmetic, ir

from . import syntax
from .check_types import TypeChecker, is_storable
from .diagnostics import Location, did_you_mean
from .types import (
    DEFAULT,
    INTEGER,
    INVALID,
    NOTHING,
    TEXT,
    UNKNOWN,
    ActionRun,
    ApplyResult,
    CompositeType,
    ConstantSymbol,
    DefaultType,
    EnumType,
    ErrorList,
    InvalidType,
    ListType,
    NewType,
    StackType,
    Type,
    TypeSymbol,
    Variable,
    same,
    scalar_of,
)

MAX_INTEGER_BITS = 8192
"""Largest number that the compiler computes with."""


class ExpressionChecker(TypeChecker):
    """Types and constant values of expressions; calls come in the subclass. `place` says where they stand."""

    place = "program"

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

    def expect(self, node: syntax.Expression, wanted: Type, what: str) -> bool:
        """Check that an expression has a type, or becomes it; report it otherwise."""
        self.expression(node)
        return self.convert(node, wanted, what)

    def condition(self, node: syntax.Expression, what: str) -> None:
        """Check that an expression is a bool."""
        found = self.expression(node)
        if not same(found, ir.BOOL):
            hint = "compare it with 0" if isinstance(found, ir.Bits | type(INTEGER)) else ""
            self.reporter.error(node.at, f"{what} is {found}; bool was expected", hint)

    def convert(self, node: syntax.Expression, wanted: Type, what: str) -> bool:
        """Make a checked expression the type `wanted` if P4 does so by itself; report it otherwise."""
        found = node.type
        if same(found, wanted):
            return True
        if isinstance(wanted, ir.Bits):
            if found == INTEGER:
                self._sized(node, wanted)
                return True
            if isinstance(found, EnumType) and found.underlying == wanted:
                node.type = wanted
                return True
        if isinstance(found, ListType) and isinstance(wanted, CompositeType):
            return self._convert_list(node, wanted, what)
        if isinstance(found, ListType) and isinstance(wanted, StackType):
            return self._convert_stack(node, wanted, what)
        if found == DEFAULT or (found == INVALID and _can_be_invalid(wanted)):
            node.type = wanted
            return True
        self.reporter.error(node.at, f"{what} is {found}; {wanted} was expected", _cast_hint(found, wanted))
        return False

    def constant(self, node: syntax.Expression, wanted: Type, what: str) -> Any:  # noqa: ANN401
        """Return the value of a compile-time constant of a type, None if it was reported."""
        if not self.expect(node, wanted, what) or node.type == UNKNOWN:
            return None
        if node.value is None:
            self.reporter.error(node.at, f"{what} must be known at compile time")
        return node.value

    def constant_integer(self, node: syntax.Expression, what: str) -> int | None:
        """Return the value of a compile-time integer of any width, None if it was reported."""
        found = self.expression(node)
        if not isinstance(found, ir.Bits | EnumType) and not same(found, INTEGER):
            self.reporter.error(node.at, f"{what} is {found}; a number was expected")
            return None
        if node.value is None and found != UNKNOWN:
            self.reporter.error(node.at, f"{what} must be known at compile time")
        return node.value  # type: ignore[no-any-return]

    def _sized(self, node: syntax.Expression, wanted: ir.Bits) -> None:
        """Give a number without a width the type `wanted`."""
        value = node.value
        if value is not None:
            low, high = arithmetic.bounds(wanted)
            if not low <= value <= high and not (not wanted.signed and -(high + 1) // 2 <= value < 0):
                self.reporter.error(
                    node.at,
                    f"{self.shown(value)} does not fit {wanted}",
                    f"{self.shown(low)} to {self.shown(high)} would",
                )
            node.value = arithmetic.wrap(value, wanted)
        node.type = wanted

    def _convert_list(self, node: syntax.Expression, wanted: CompositeType, what: str) -> bool:
        assert isinstance(node, syntax.ListValue)
        if node.names is not None:
            for name in node.names:
                if name not in wanted.fields:
                    self.reporter.error(
                        node.at, f"{wanted} has no field {name}", did_you_mean(name, wanted.fields)
                    )
                    return False
            if wanted.kind == "tuple":
                self.reporter.error(node.at, f"{wanted} has no names for its values")
                return False
            if not node.rest and sorted(node.names) != sorted(wanted.fields):
                missing = sorted(set(wanted.fields) - set(node.names))
                self.reporter.error(
                    node.at, f"{what} lacks {', '.join(missing) or 'nothing, but names one twice'}"
                )
                return False
        elif len(node.items) > len(wanted.fields) or (len(node.items) < len(wanted.fields) and not node.rest):
            self.reporter.error(
                node.at, f"{what} has {len(node.items)} values; {wanted} has {len(wanted.fields)} fields"
            )
            return False
        if wanted.kind == "header_union":
            self.reporter.error(node.at, f"{wanted} cannot be made of a list", "assign to one of its headers")
            return False
        names = list(node.names or wanted.fields)
        for name in wanted.fields if node.rest else ():
            if name not in names[: len(node.items)]:
                names = [*names[: len(node.items)], name]
                node.items.append(syntax.DefaultValue(at=node.at, type=DEFAULT))
        if node.rest and node.names is not None:
            node.names = names
        agreed = [
            self.convert(item, wanted.fields[name], f"field {name}")
            for name, item in zip(names, node.items, strict=True)
        ]
        node.type = wanted
        return all(agreed)

    def _convert_stack(self, node: syntax.Expression, wanted: StackType, what: str) -> bool:
        assert isinstance(node, syntax.ListValue)
        if node.rest and len(node.items) < wanted.size:
            missing = wanted.size - len(node.items)
            node.items += [syntax.DefaultValue(at=node.at, type=DEFAULT) for _ in range(missing)]
        if len(node.items) != wanted.size or node.names:
            self.reporter.error(
                node.at, f"{what} has {len(node.items)} values; {wanted} has {wanted.size} headers"
            )
            return False
        agreed = [self.convert(item, wanted.element, "an element") for item in node.items]
        node.type = wanted
        return all(agreed)

    # Every kind of expression

    def _typed(self, node: syntax.Expression) -> Type:
        match node:
            case syntax.Number():
                kind = ir.Bits(node.width, node.signed) if node.width else INTEGER
                node.value = node.number
                if isinstance(kind, ir.Bits):
                    if node.number > arithmetic.bounds(kind)[1]:
                        self.reporter.error(node.at, f"{self.shown(node.number)} does not fit {kind}")
                    node.value = arithmetic.wrap(node.number, kind)
                return kind
            case syntax.BoolLiteral():
                node.value = int(node.truth)
                return ir.BOOL
            case syntax.StringLiteral():
                node.value = node.text
                return TEXT
            case syntax.NameRef():
                return self._name(node)
            case syntax.MemberRef():
                return self._member(node)
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
                self.reporter.unsupported(node.at, "'this'")
            case syntax.TypeName():
                self.reporter.error(node.at, f"{node.ref.name} is no value")
            case _:
                self.reporter.error(node.at, "a set of values cannot stand here")
        return UNKNOWN

    def _name(self, node: syntax.NameRef) -> Type:
        if node.absolute:
            scope = self.scope
            while scope.parent is not None:
                scope = scope.parent
            symbol = scope.find(node.name)
            if symbol is None:
                self.reporter.error(
                    node.at, f"unknown name .{node.name}", did_you_mean(node.name, scope.names)
                )
        else:
            symbol = self.find(node.name, node.at)
        node.symbol = symbol
        match symbol:
            case None:
                return UNKNOWN
            case Variable():
                return symbol.type
            case ConstantSymbol():
                node.value = symbol.value
                return symbol.type
        self.reporter.error(node.at, f"{node.name} is no value")
        return UNKNOWN

    def _member(self, node: syntax.MemberRef) -> Type:
        if isinstance(node.base, syntax.NameRef):
            symbol = self.scope.find(node.base.name)
            if isinstance(symbol, ErrorList):
                return self._error(node)
            if isinstance(symbol, TypeSymbol) and isinstance(symbol.type, EnumType):
                return self._enum_member(node, symbol.type)
        base = self.expression(node.base)
        match base:
            case CompositeType():
                if node.name in base.fields:
                    return base.fields[node.name]
                self.reporter.error(
                    node.name_at, f"{base} has no field {node.name}", did_you_mean(node.name, base.fields)
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
            case _ if base != UNKNOWN:
                self.reporter.error(node.name_at, f"{base} has no field {node.name}")
        return UNKNOWN

    def _stack_member(self, node: syntax.MemberRef, stack: StackType) -> Type:
        match node.name:
            case "next" | "last":
                if self.place != "parser":
                    self.reporter.error(node.name_at, f"{node.name} of a stack stands only in parsers")
                return stack.element
            case "lastIndex":
                if self.place != "parser":
                    self.reporter.error(node.name_at, "lastIndex of a stack stands only in parsers")
                return ir.Bits(32)
            case "size":
                node.value = stack.size
                return ir.Bits(32)
        hint = did_you_mean(node.name, ["next", "last", "lastIndex", "size"])
        self.reporter.error(node.name_at, f"{stack} has no {node.name}", hint)
        return UNKNOWN

    def _index(self, node: syntax.IndexRef) -> Type:
        base, index = self.expression(node.base), self.bits(node.index)
        if UNKNOWN in (base, index):
            return UNKNOWN
        place: int | None = node.index.value
        if isinstance(base, CompositeType) and base.kind == "tuple":
            kinds = list(base.fields.values())
            if place is None or not 0 <= place < len(kinds):
                self.reporter.error(node.index.at, f"a constant from 0 to {len(kinds) - 1} was expected here")
                return UNKNOWN
            return kinds[place]
        if not isinstance(base, StackType):
            self.reporter.error(node.at, f"{base} has no elements; a header stack or tuple was expected")
            return UNKNOWN
        if not isinstance(index, ir.Bits | type(INTEGER)):
            self.reporter.error(node.index.at, f"the index is {index}; a number was expected")
            return UNKNOWN
        if place is not None and not 0 <= place < base.size:
            self.reporter.error(
                node.index.at, f"{base} has no element {self.shown(place)}", f"0 to {base.size - 1} it has"
            )
            return UNKNOWN
        if index == INTEGER:
            self._sized(node.index, ir.Bits(32))
        return base.element

    def _error(self, node: syntax.MemberRef) -> Type:
        errors = self.declared.errors
        if node.name not in errors:
            self.reporter.error(node.name_at, f"unknown error {node.name}", did_you_mean(node.name, errors))
            return UNKNOWN
        node.value = errors.index(node.name)
        return ir.ERROR

    def _enum_member(self, node: syntax.MemberRef, enum: EnumType) -> Type:
        if node.name not in enum.members:
            hint = did_you_mean(node.name, enum.members)
            self.reporter.error(node.name_at, f"{enum} has no member {node.name}", hint)
            return UNKNOWN
        node.value = enum.members[node.name]
        return enum

    def _slice(self, node: syntax.SliceRef) -> Type:
        base = self.bits(node.base)
        high = self.constant_integer(node.high, "the high bit of a slice")
        low = self.constant_integer(node.low, "the low bit of a slice")
        if high is None or low is None or base == UNKNOWN:
            return UNKNOWN
        if not isinstance(base, ir.Bits) or not 0 <= low <= high < base.width:
            bound = f"; bits {base.width - 1} down to 0 were expected" if isinstance(base, ir.Bits) else ""
            self.reporter.error(node.at, f"[{self.shown(high)}:{self.shown(low)}] of {base}{bound}")
            return UNKNOWN
        if node.base.value is not None:
            node.value = node.base.value >> low & ((1 << (high - low + 1)) - 1)
        return ir.Bits(high - low + 1)

    def bits(self, node: syntax.Expression) -> Type:
        """Return the type of an expression, an enum's representation for an enum."""
        found = self.expression(node)
        if isinstance(found, EnumType) and found.underlying is not None:
            node.type = found.underlying
        return node.type  # type: ignore[no-any-return]

    def _unary(self, node: syntax.UnaryOp) -> Type:
        found = self.bits(node.operand)
        fits = found == ir.BOOL if node.op == "!" else isinstance(found, ir.Bits)
        if found == INTEGER and node.op in "-+":
            value = node.operand.value
            node.value = -value if node.op == "-" and value is not None else value
            return INTEGER
        if not fits:
            if found != UNKNOWN:
                self.reporter.error(node.at, f"{node.op} does not apply to {found}")
            return UNKNOWN
        if node.operand.value is not None:
            value = node.operand.value
            node.value = value if node.op == "+" else arithmetic.unary(node.op, value, found)  # type: ignore[arg-type]
        return found

    def _binary(self, node: syntax.BinaryOp) -> Type:
        left, right = self.expression(node.left), self.expression(node.right)
        if UNKNOWN in (left, right):
            return ir.BOOL if node.op in arithmetic.COMPARISONS | arithmetic.LOGICAL else UNKNOWN
        if node.op in ("==", "!="):
            return self._equality(node, left, right)
        left, right = self.bits(node.left), self.bits(node.right)
        if node.op in arithmetic.LOGICAL:
            for side in (node.left, node.right):
                if side.type != ir.BOOL:
                    self.reporter.error(side.at, f"{node.op} of {side.type}; bool was expected")
            return ir.BOOL
        if node.op in arithmetic.SHIFTS:
            return self._shift(node, left, right)
        if not isinstance(left, ir.Bits | type(INTEGER)) or not isinstance(right, ir.Bits | type(INTEGER)):
            self.reporter.error(node.at, f"{node.op} does not apply to {left} and {right}")
            return UNKNOWN
        if node.op == arithmetic.CONCATENATION:
            return self._concatenation(node, left, right)
        if left == INTEGER and isinstance(right, ir.Bits):
            self._sized(node.left, right)
            left = right
        elif right == INTEGER and isinstance(left, ir.Bits):
            self._sized(node.right, left)
            right = left
        if left != right:
            self.reporter.error(
                node.at,
                f"{node.op} of {left} and {right}; both sides must have one type",
                _cast_hint(right, left),
            )
            return UNKNOWN
        return self._folded(node, left)

    def _equality(self, node: syntax.BinaryOp, left: Type, right: Type) -> Type:
        if left != right:
            if isinstance(left, ListType) and isinstance(right, CompositeType):
                self.convert(node.left, right, "the left side")
            elif (
                left == INTEGER
                or (isinstance(left, EnumType) and isinstance(right, ir.Bits))
                or (isinstance(right, EnumType) and not isinstance(left, EnumType))
            ):
                self.convert(node.left, self.bits(node.right), "the left side")
            else:
                self.convert(node.right, self.bits(node.left), f"the right side of {node.op}")
        elif not is_storable(left) and not isinstance(left, type(INTEGER)):
            self.reporter.error(node.at, f"{node.op} does not apply to {left}")
        if node.left.value is not None and node.right.value is not None:
            node.value = int((node.left.value == node.right.value) == (node.op == "=="))
        return ir.BOOL

    def _shift(self, node: syntax.BinaryOp, left: Type, right: Type) -> Type:
        amount = node.right.value
        if (isinstance(right, ir.Bits) and right.signed) or not isinstance(right, ir.Bits | type(INTEGER)):
            self.reporter.error(node.right.at, f"shifts by {right}; bit<N> was expected")
            return UNKNOWN
        if right == INTEGER:
            if amount is None or amount < 0 or amount > ir.MAX_WIDTH_BITS:
                self.reporter.error(node.right.at, "shifts by a number below 0, or too large")
                return UNKNOWN
            node.right.type = ir.Bits(32)
        if left == INTEGER:
            if amount is None or amount > ir.MAX_WIDTH_BITS:
                self.reporter.error(
                    node.at, "shifts a number without a width by an unknown amount", "give it a width: 8w1"
                )
                return UNKNOWN
            node.value = node.left.value << amount if node.op == "<<" else node.left.value >> amount
            return self._bounded(node)
        if not isinstance(left, ir.Bits):
            self.reporter.error(node.at, f"{node.op} does not apply to {left}")
            return UNKNOWN
        return self._folded(node, left)

    def _concatenation(self, node: syntax.BinaryOp, left: Type, right: Type) -> Type:
        if not isinstance(left, ir.Bits) or not isinstance(right, ir.Bits):
            self.reporter.error(node.at, "++ of a number without a width", "give it a width: 8w1")
            return UNKNOWN
        if left.width + right.width > ir.MAX_WIDTH_BITS:
            self.reporter.error(node.at, f"++ makes more than {ir.MAX_WIDTH_BITS} bits")
            return UNKNOWN
        return self._folded(node, ir.Bits(left.width + right.width, left.signed))

    def _folded(self, node: syntax.BinaryOp, kind: Type) -> Type:
        """Compute a constant result; return its type."""
        left, right = node.left.value, node.right.value
        comparison = node.op in arithmetic.COMPARISONS
        if node.op in ("/", "%") and right is not None and right == 0:
            self.reporter.error(node.at, "division by zero")
            return UNKNOWN
        if left is None or right is None:
            return ir.BOOL if comparison else kind
        if kind == INTEGER and not comparison:
            if node.op in ("|+|", "|-|"):
                self.reporter.error(node.at, f"{node.op} of numbers without a width", "give them one: 8w1")
                return UNKNOWN
            wide = ir.Bits(2 * MAX_INTEGER_BITS + 2, True)
            node.value = arithmetic.binary(node.op, left, right, _constants(node, wide, wide))
            return self._bounded(node)
        operands = node.left.type if isinstance(node.left.type, ir.Bits) else ir.Bits(MAX_INTEGER_BITS, True)
        other = node.right.type if isinstance(node.right.type, ir.Bits) else operands
        scalar = ir.BOOL if comparison else kind
        assert isinstance(scalar, ir.Bits | ir.Bool)
        node.value = arithmetic.binary(node.op, left, right, _constants(node, other, scalar))
        return scalar

    def _bounded(self, node: syntax.Expression) -> Type:
        if node.value is not None and node.value.bit_length() > MAX_INTEGER_BITS:
            self.reporter.error(node.at, f"this number has more than {MAX_INTEGER_BITS} bits")
            node.value = None
            return UNKNOWN
        return INTEGER

    def _conditional(self, node: syntax.ConditionalOp) -> Type:
        self.condition(node.condition, "the condition of ?:")
        yes, no = self.expression(node.yes), self.expression(node.no)
        if yes == INTEGER and no != INTEGER:
            self.convert(node.yes, no, "the first value of ?:")
        elif not same(yes, no):
            self.convert(node.no, yes, "the second value of ?:")
        kind = node.yes.type
        if kind == INTEGER and node.condition.value is None:
            self.reporter.error(node.at, "both values of ?: lack a width", "give them one: 8w1")
            return UNKNOWN
        if not is_storable(kind) and kind not in (UNKNOWN, INTEGER):
            self.reporter.error(node.at, f"?: does not apply to {kind}")
            return UNKNOWN
        if node.condition.value is not None:
            node.value = (node.yes if node.condition.value else node.no).value
        return kind  # type: ignore[no-any-return]

    def _cast(self, node: syntax.CastOp) -> Type:
        wanted = self.resolve(node.target)
        found = self.expression(node.operand)
        if UNKNOWN in (wanted, found):
            return wanted
        inner = scalar_of(wanted)
        if found == INTEGER and isinstance(inner, ir.Bits) and not isinstance(wanted, EnumType):
            node.value = (
                arithmetic.wrap(node.operand.value, inner) if node.operand.value is not None else None
            )
            node.operand.type, node.operand.value = inner, node.value
            return wanted
        if isinstance(found, NewType) or isinstance(wanted, NewType):
            if scalar_of(found) != inner:
                self.reporter.error(node.at, f"{found} cannot be cast to {wanted}")
            node.value = node.operand.value
            return wanted
        if isinstance(found, ListType | InvalidType | DefaultType):
            self.convert(node.operand, wanted, "the operand of the cast")
            return wanted
        if same(found, wanted):
            node.value = node.operand.value
            return found
        source = self.bits(node.operand)
        target = scalar_of(wanted)
        one_bit = {source, target} <= {ir.BOOL, ir.Bits(1)}
        both = isinstance(source, ir.Bits) and isinstance(target, ir.Bits)
        if isinstance(wanted, EnumType) and wanted.underlying is None:
            both = False
        if not same(found, wanted) and not one_bit and not both:
            self.reporter.error(node.at, f"{found} cannot be cast to {wanted}")
            return wanted
        if isinstance(source, ir.Bits) and isinstance(target, ir.Bits):
            self._check_sign(node, source, target)
        if node.operand.value is not None and target is not None:
            node.value = arithmetic.cast(node.operand.value, target, target)
        return wanted

    def _check_sign(self, node: syntax.CastOp, source: ir.Bits, target: ir.Bits) -> None:
        if source.signed != target.signed and source.width != target.width:
            hint = f"cast to {ir.Bits(target.width, source.signed)} first"
            self.reporter.error(node.at, f"a cast from {source} to {target} changes width and sign", hint)

    def lvalue(self, node: syntax.Expression, what: str) -> None:
        """Check that a checked expression can be stored into."""
        at: Location = node.at
        while isinstance(node, syntax.MemberRef | syntax.SliceRef | syntax.IndexRef):
            node = node.base
        symbol = node.symbol if isinstance(node, syntax.NameRef) else None
        if isinstance(symbol, Variable):
            if not symbol.writable:
                self.reporter.error(at, f"{what} {symbol.name}, which is read-only ({symbol.role})")
        elif node.type != UNKNOWN or isinstance(symbol, ConstantSymbol):
            self.reporter.error(at, f"{what} something that is no variable")

    @staticmethod
    def shown(value: int) -> str:
        """Return a number for a message, cut if it is long."""
        text = hex(value) if abs(value) >= 1 << 64 else str(value)
        return text if len(text) <= 40 else text[:37] + "..."


def _can_be_invalid(kind: Type) -> bool:
    return isinstance(kind, CompositeType) and kind.kind in ("header", "header_union")


def _constants(node: syntax.BinaryOp, right: ir.Type, kind: ir.Type) -> ir.Binary:
    """Return the IR node that tells arithmetic the types of a constant operation."""
    return ir.Binary(node.op, ir.Constant(0, kind), ir.Constant(0, right), kind)


def _cast_hint(found: Type, wanted: Type) -> str:
    if isinstance(found, ir.Bits) and isinstance(wanted, ir.Bits | EnumType):
        return f"cast it: ({wanted if isinstance(wanted, ir.Bits) else wanted.name})..."
    if wanted == ir.BOOL and isinstance(found, ir.Bits):
        return "compare it with 0"
    return "an action is called as a statement" if found == NOTHING else ""
