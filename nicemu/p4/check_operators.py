# SPDX-License-Identifier: Apache-2.0
"""Types and constant values of operators and casts.

Source: P4-16 Language Specification 1.2.5, "Expressions", "Explicit casts".
"""

from __future__ import annotations

from nicemu.pipeline import arithmetic, ir

from . import syntax
from .check_conversions import UNTYPED, ConversionChecker, cast_hint
from .constants import are_equal, is_constant
from .type_sizes import has_lacking, is_storable, scalar_of
from .type_variables import same
from .types import (
    INTEGER,
    MATCH_KIND,
    TEXT,
    UNKNOWN,
    ActionRun,
    BlockType,
    CompositeType,
    DefaultType,
    EnumType,
    ExternType,
    InvalidType,
    ListType,
    NewType,
    StackType,
    Type,
    TypeVariable,
)

MAX_TEXT = 1 << 16
"""Characters of a string."""
MAX_INTEGER_BITS = 8192
"""Largest number that the compiler computes with."""


_OF_BITS = ("|+|", "|-|")
_WITHOUT_WIDTH = (*UNTYPED, type(INTEGER))
_NUMBERS = (ir.Bits, type(INTEGER))


class OperatorChecker(ConversionChecker):
    """Operators, `?:` and casts."""

    def _unary(self, node: syntax.UnaryOp) -> Type:
        found = self.bits(node.operand)
        fits = found == ir.BOOL if node.op == "!" else isinstance(found, ir.Bits)
        if found is INTEGER and node.op in "-+":
            value = node.operand.value
            node.value = -value if node.op == "-" and value is not None else value
            return INTEGER
        if not fits:
            if found is not UNKNOWN:
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
            sides = node.left.value, node.right.value
            if None not in sides:
                node.value = int(all(sides) if node.op == "&&" else any(sides))
            return ir.BOOL
        if node.op in arithmetic.SHIFTS:
            return self._shift(node, left, right)
        if left is TEXT and right is TEXT and node.op == arithmetic.CONCATENATION:
            if node.left.value is not None and node.right.value is not None:
                node.value = node.left.value + node.right.value
                if len(node.value) > MAX_TEXT:
                    self.reporter.error(node.at, f"a string of more than {MAX_TEXT} characters")
                    node.value = ""
            return TEXT
        if not isinstance(left, _NUMBERS) or not isinstance(right, _NUMBERS):
            self.reporter.error(node.at, f"{node.op} does not apply to {left} and {right}")
            return UNKNOWN
        if node.op == arithmetic.CONCATENATION:
            return self._concatenation(node, left, right)
        if node.op in ("/", "%") and any(
            side.type is INTEGER and (side.value or 0) < 0 for side in (node.left, node.right)
        ):
            self.reporter.error(node.at, f"{node.op} of a number below 0")
            return UNKNOWN
        if left is INTEGER and isinstance(right, ir.Bits):
            self._sized(node.left, right)
            left = right
        elif right is INTEGER and isinstance(left, ir.Bits):
            self._sized(node.right, left)
            right = left
        if left != right:
            self.reporter.error(
                node.at,
                f"{node.op} of {left} and {right}; both sides must have one type",
                _widening_hint(left, right),
            )
            return UNKNOWN
        return self._folded(node, left)

    def _equality(self, node: syntax.BinaryOp, left: Type, right: Type) -> Type:
        for side in (node.left, node.right):
            if isinstance(side.type, ActionRun):
                self.reporter.error(side.at, "action_run is what a switch goes by, and nothing else")
                return UNKNOWN
            if not self.is_value(side, f"a side of {node.op}"):
                return UNKNOWN
            items = side.type.items if isinstance(side.type, ListType) else (side.type,)
            if any(has_lacking(item, self.architecture.metadata) for item in items):
                what = f"comparing {side.type}, of which fields are not declared here"
                self.reporter.unsupported(node.at, what, "compare the fields that are meant")
                return UNKNOWN
        if isinstance(left, ListType) and isinstance(right, ListType):
            if left.rest or right.rest:
                self.type_of_list(node.left if left.rest else node.right, left if left.rest else right)
                return UNKNOWN
            if _names_fields(left) or _names_fields(right):
                hint = "write the type before one: (type) {...}"
                self.reporter.error(node.at, f"nothing tells of what struct the sides of {node.op} are", hint)
                return UNKNOWN
            if not _have_one_shape(left, right):
                hint = "write as many values on both sides"
                self.reporter.error(node.at, f"{node.op} compares lists of different shapes", hint)
                return UNKNOWN
            self._give_widths(node.left, node.right)
            kind = self.type_of_list(node.left, _with_widths(node.left.type, node.right.type))
            self.convert(node.left, kind, "the left side")
            self.convert(node.right, kind, f"the right side of {node.op}")
        elif left != right:
            if isinstance(left, ListType | InvalidType) and isinstance(right, CompositeType | StackType):
                self.convert(node.left, right, "the left side")
            elif (
                left is INTEGER
                or (isinstance(left, EnumType) and isinstance(right, ir.Bits))
                or (isinstance(right, EnumType) and not isinstance(left, EnumType))
            ):
                self.convert(node.left, self.bits(node.right), "the left side")
            else:
                self.convert(node.right, self.bits(node.left), f"the right side of {node.op}")
        elif isinstance(left, TypeVariable) or not (is_storable(left) or left in (INTEGER, MATCH_KIND)):
            self.reporter.error(node.at, f"{node.op} does not apply to {left}")
        if is_constant(node.left) and is_constant(node.right):
            node.value = int(are_equal(node.left, node.right) == (node.op == "=="))
        return ir.BOOL

    def _give_widths(self, left: syntax.Expression, right: syntax.Expression) -> None:
        """Give numbers without a width that two lists compare with one another one that holds both."""
        if left.type == right.type is INTEGER and left.value is not None and right.value is not None:
            wide = ir.Bits(max(left.value.bit_length(), right.value.bit_length()) + 1, True)
            if wide.width <= ir.MAX_WIDTH_BITS:
                self._sized(left, wide)
                self._sized(right, wide)
        if not isinstance(left, syntax.ListValue) or not isinstance(right, syntax.ListValue):
            return
        for item, other in zip(left.items, right.items, strict=False):
            self._give_widths(item, other)
        for node in (left, right):
            node.type = ListType(tuple(item.type for item in node.items), rest=node.type.rest)

    def _shift(self, node: syntax.BinaryOp, left: Type, right: Type) -> Type:
        amount = node.right.value
        if isinstance(right, NewType) and isinstance(right.scalar, ir.Bits):  # p4c #5087
            what = f"shifts by {right}, a type of its own"
            self.reporter.warning(node.right.at, what, "other compilers may refuse it: cast it")
            node.right.type = right = right.scalar
        if isinstance(right, ir.Bits) and right.signed and amount is not None and amount >= 0:
            node.right.type = right = ir.Bits(right.width)  # the same number: its highest bit is 0
        if isinstance(right, ir.Bits) and right.signed and amount is not None:
            self.reporter.error(node.right.at, "shifts by a number below 0")
            return UNKNOWN
        if (isinstance(right, ir.Bits) and right.signed) or not isinstance(right, _NUMBERS):
            self.reporter.error(node.right.at, f"shifts by {right}; bit<N> was expected")
            return UNKNOWN
        if right is INTEGER:
            if amount is None or amount < 0 or (amount > ir.MAX_WIDTH_BITS and left is INTEGER):
                self.reporter.error(node.right.at, "shifts by a number below 0, or too large")
                return UNKNOWN
            node.right.type, node.right.value = ir.Bits(32), min(amount, ir.MAX_WIDTH_BITS)
        if left is INTEGER:
            if amount is None or amount > ir.MAX_WIDTH_BITS:
                what = "shifts a number without a width by an unknown amount"
                self.reporter.error(node.at, what, _of_the_result(node.left))
                return UNKNOWN
            if node.left.value is None:  # `...`, which means nothing here and was refused, or will be
                return UNKNOWN
            node.value = node.left.value << amount if node.op == "<<" else node.left.value >> amount
            return self._bounded(node)
        if not isinstance(left, ir.Bits):
            self.reporter.error(node.at, f"{node.op} does not apply to {left}")
            return UNKNOWN
        return self._folded(node, left)

    def _concatenation(self, node: syntax.BinaryOp, left: Type, right: Type) -> Type:
        if not isinstance(left, ir.Bits) or not isinstance(right, ir.Bits):
            bare = node.right if isinstance(left, ir.Bits) else node.left
            self.reporter.error(node.at, "++ of a number without a width", _with_width(bare))
            return UNKNOWN
        if left.width + right.width > ir.MAX_WIDTH_BITS:
            self.reporter.error(node.at, f"++ makes more than {ir.MAX_WIDTH_BITS} bits")
            return UNKNOWN
        return self._folded(node, ir.Bits(left.width + right.width, left.signed))

    def _folded(self, node: syntax.BinaryOp, kind: Type) -> Type:
        """Compute a constant result; return its type."""
        left, right = node.left.value, node.right.value
        comparison = node.op in arithmetic.COMPARISONS
        if node.op in ("/", "%") and isinstance(kind, ir.Bits) and kind.signed:
            what = f"P4-16 has no {node.op} of {kind}"
            self.reporter.warning(node.at, what, "other compilers may refuse it; bit<N> can be divided")
        if node.op in ("/", "%") and right is not None and right == 0:
            self.reporter.error(node.at, "division by zero")
            return UNKNOWN
        if left is None or right is None:
            return ir.BOOL if comparison else kind
        if kind is INTEGER and not comparison:
            if node.op in _OF_BITS:
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
        if isinstance(yes, UNTYPED) and isinstance(no, UNTYPED):
            return no if isinstance(no, ListType) and not isinstance(yes, ListType) else yes
        if yes != no and not isinstance(yes, UNTYPED) and not isinstance(no, UNTYPED):
            yes, no = self.bits(node.yes), self.bits(node.no)
        if isinstance(yes, UNTYPED) or (yes is INTEGER and not isinstance(no, _WITHOUT_WIDTH)):
            self.convert(node.yes, no, "the first value of ?:")
        elif not same(yes, no):
            self.convert(node.no, yes, "the second value of ?:")
        kind = node.yes.type
        if kind is INTEGER and node.condition.value is None:
            if same(node.condition.type, ir.BOOL):
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
        if isinstance(wanted, ExternType | BlockType):
            self.reporter.error(node.at, f"{found} cannot be cast to {wanted}")
            return UNKNOWN
        inner = scalar_of(wanted)
        named = isinstance(wanted, EnumType) and wanted.underlying is None  # an enum without numbers
        if found is INTEGER and isinstance(inner, ir.Bits) and not named:
            node.value = (
                arithmetic.wrap(node.operand.value, inner) if node.operand.value is not None else None
            )
            node.operand.type, node.operand.value = inner, node.value
            return wanted
        if found is INTEGER and inner == ir.BOOL and node.operand.value in (0, 1):
            node.value = node.operand.value
            node.operand.type = ir.BOOL
            return wanted
        is_known = node.operand.value is not None
        if wanted is INTEGER and is_known and isinstance(self.bits(node.operand), ir.Bits):
            node.value = node.operand.value
            return wanted
        if isinstance(found, NewType) or isinstance(wanted, NewType):
            one_of_other = wanted in (found, _underlying_of(found)) or _underlying_of(wanted) == found
            both_new = isinstance(found, NewType) and isinstance(wanted, NewType)
            if scalar_of(found) != inner or (both_new and not one_of_other):
                self.reporter.error(node.at, f"{found} cannot be cast to {wanted}")
            node.value = node.operand.value
            return wanted
        if isinstance(found, ListType | InvalidType | DefaultType):
            self.convert(node.operand, wanted, "the operand of the cast")
            node.value = node.operand.value
            return wanted
        if same(found, wanted):
            node.value = node.operand.value
            return found
        source = self.bits(node.operand)
        target = scalar_of(wanted)
        one_bit = {source, target} <= {ir.BOOL, ir.Bits(1)}
        both = isinstance(source, ir.Bits) and isinstance(target, ir.Bits)
        if isinstance(wanted, EnumType):
            both = both and source == wanted.underlying
        if not same(found, wanted) and not one_bit and not both:
            self.reporter.error(node.at, f"{found} cannot be cast to {wanted}")
            return wanted
        if isinstance(source, ir.Bits) and isinstance(target, ir.Bits):
            self._check_sign(node, source, target)
        if node.operand.value is not None and target is not None:
            node.value = arithmetic.cast(node.operand.value, target)
        return wanted

    def _check_sign(self, node: syntax.CastOp, source: ir.Bits, target: ir.Bits) -> None:
        if source.signed != target.signed and source.width != target.width:
            hint = f"cast to {ir.Bits(target.width, source.signed)} first"
            self.reporter.error(node.at, f"a cast from {source} to {target} changes width and sign", hint)


def _widening_hint(left: Type, right: Type) -> str:
    """Return what to write so that both sides have one type: of two widths, the greater."""
    if isinstance(left, ir.Bits) and isinstance(right, ir.Bits) and left.width < right.width:
        return cast_hint(left, right)
    return cast_hint(right, left)


def _underlying_of(kind: Type) -> Type | None:
    """Return the original type of a new type."""
    return kind.underlying if isinstance(kind, NewType) else None


def _names_fields(kind: ListType) -> bool:
    """Return whether a list, or one in it, has names for its values."""
    return kind.names is not None or any(
        isinstance(item, ListType) and _names_fields(item) for item in kind.items
    )


def _have_one_shape(left: Type, right: Type) -> bool:
    """Return whether two lists have as many values, and lists where the other has what is none but could be
    one.
    """
    if isinstance(left, ListType) and isinstance(right, ListType):
        return len(left.items) == len(right.items) and all(map(_have_one_shape, left.items, right.items))
    lists = [isinstance(kind, ListType) for kind in (left, right)]
    scalars = [isinstance(kind, ir.Bool | ir.Bits | type(INTEGER)) for kind in (left, right)]
    return not (any(lists) and any(scalars))


def _with_widths(left: ListType, right: ListType) -> ListType:
    """Return the type of a list of one shape with another: numbers without a width, and lists that stand
    where the other has a value of a type, get what is at their places there.
    """
    items: list[Type] = []
    for mine, other in zip(left.items, right.items, strict=True):
        if isinstance(mine, ListType) and isinstance(other, ListType):
            items.append(_with_widths(mine, other))
        else:
            items.append(other if mine is INTEGER or isinstance(mine, ListType) else mine)
    return ListType(tuple(items), rest=left.rest)


def _constants(node: syntax.BinaryOp, right: ir.Type, kind: ir.Type) -> ir.Binary:
    """Return the IR node that tells arithmetic the types of a constant operation."""
    return ir.Binary(node.op, ir.Constant(0, kind), ir.Constant(0, right), kind)


def _with_width(node: syntax.Expression) -> str:
    """Return a hint that gives a number of no width one that it fits into."""
    number = node.value if isinstance(node.value, int) and node.value >= 0 else 1
    return f"give it a width: {max(8, number.bit_length())}w{number}"


def _of_the_result(node: syntax.Expression) -> str:
    """Return a hint for a number that is shifted: of a width of its own, bits would be lost."""
    number = node.value if isinstance(node.value, int) else 1
    return f"give it the width that the result is to have, such as 32w{number}, or 64w{number}"
