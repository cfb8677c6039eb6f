# SPDX-License-Identifier: Apache-2.0
"""Makes expressions the types that are wanted, where P4 does so by itself.

Source: P4-16 Language Specification 1.2.5, "Implicit casts", "Default initializers".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicemu.pipeline import arithmetic, ir

from . import syntax
from .check_types import TypeChecker
from .constants import is_constant, is_given
from .diagnostics import did_you_mean
from .symbols import ParameterSymbol
from .syntax_copy import fresh
from .type_sizes import is_storable, scalar_of
from .type_variables import same, variables_in
from .types import (
    DEFAULT,
    INTEGER,
    INVALID,
    MATCH_KIND,
    NOTHING,
    TEXT,
    UNKNOWN,
    BlockType,
    CompositeType,
    DefaultType,
    EnumType,
    ExternType,
    Family,
    InvalidType,
    ListType,
    NewType,
    P4ListType,
    StackType,
    Type,
    is_header_or_union,
)

_GIVE_TYPE = "write the type before it: (type) {...}"


UNTYPED = (DefaultType, InvalidType, ListType)
"""What takes the type that is wanted where it stands."""


class ConversionChecker(TypeChecker):
    """What an expression may become. `context` says where code stands: in a parser, control, action."""

    context = "program"

    def expression(self, node: syntax.Expression) -> Type:
        """Return the type of an expression; the subclass that knows all kinds does it."""
        raise NotImplementedError

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
        """Make a checked expression the type `wanted` if P4 does so by itself; report it otherwise.

        A number without a width becomes a new type of such, too: the specification is silent, p4c does so.
        """
        found = node.type
        if same(found, wanted):
            return True
        if isinstance(found, UNTYPED) and isinstance(node, syntax.ConditionalOp):
            return self._convert_choice(node, wanted, what)
        if found is INTEGER and isinstance(wanted, ir.Bits | NewType):
            width = scalar_of(wanted)
            if isinstance(width, ir.Bits):
                self._sized(node, width)
                node.type = wanted
                return True
        if isinstance(wanted, ir.Bits) and isinstance(found, EnumType) and found.underlying == wanted:
            node.type = wanted
            return True
        if wanted is INTEGER and isinstance(found, ir.Bits) and isinstance(node.value, int):
            self.reporter.warning(
                node.at, f"{what} is {found}, which P4 makes no int by itself", "write (int)"
            )
            node.type = INTEGER
            return True
        if isinstance(found, ListType) and isinstance(wanted, CompositeType):
            return self._convert_list(node, wanted, what)
        if isinstance(found, ListType) and isinstance(wanted, StackType):
            return self._convert_stack(node, wanted, what)
        if isinstance(found, ListType) and isinstance(wanted, P4ListType):
            return self._convert_p4_list(node, wanted, what)
        if found is DEFAULT and (isinstance(wanted, ExternType | BlockType) or wanted is MATCH_KIND):
            self.reporter.error(node.at, f"{what} is '...', and {wanted} has no default value")
            node.type = UNKNOWN
            return False
        if found is DEFAULT or (found is INVALID and is_header_or_union(wanted)):
            node.type = wanted
            number = wanted is INTEGER or scalar_of(wanted) is not None
            node.value = 0 if number else "" if wanted is TEXT else None
            return True
        self.reporter.error(node.at, f"{what} is {found}; {wanted} was expected", cast_hint(found, wanted))
        return False

    def is_value(self, node: syntax.Expression, what: str) -> bool:
        """Return whether an expression is a value; `...`, which stands where one is stored, is reported."""
        if isinstance(node, syntax.DefaultValue):
            self.reporter.error(node.at, f"{what} is '...', which stands only where a value is stored")
            node.type = UNKNOWN
            return False
        return True

    def constant(self, node: syntax.Expression, wanted: Type, what: str) -> Any:  # noqa: ANN401
        """Return the value of a compile-time constant of a type, None if it was reported."""
        mark = self.reporter.mark()
        is_number = isinstance(self.expression(node), ir.Bits) and isinstance(wanted, ir.Bits)
        if is_number and node.type != wanted and node.value is None and not is_constant(node):
            self.reporter.error(node.at, f"{what} must be known at compile time")
            return None
        if not self.expect(node, wanted, what) or UNKNOWN in (node.type, wanted):
            return None
        if self.reporter.has_failed_since(mark):  # a part of it is not there
            return node.value
        if node.value is None and not is_constant(node):
            self.reporter.error(node.at, f"{what} must be known at compile time")
        return node.value

    def check_defaults(
        self, nodes: Sequence[syntax.ParameterDeclaration], parameters: Sequence[ParameterSymbol]
    ) -> None:
        """Check the default values of parameters, where they are declared: calls need not use them."""
        for node, item in zip(nodes, parameters, strict=True):
            if node.default is not None and not variables_in(item.type):
                self.constant(fresh(node.default), item.type, f"the default value of {node.name}")

    def constant_integer(self, node: syntax.Expression, what: str) -> int | None:
        """Return the value of a compile-time integer of any width, None if it was reported."""
        found = self.bits(node)
        if not isinstance(found, ir.Bits) and not same(found, INTEGER):
            self.reporter.error(node.at, f"{what} is {found}; a number was expected")
            return None
        if node.value is None and found is not UNKNOWN:
            self.reporter.error(node.at, f"{what} must be known at compile time")
        return node.value if isinstance(node.value, int) else None  # a fault may have made a text of it

    def local_integer(self, node: syntax.Expression, what: str) -> int | None:
        """Return the value of a compile-time integer, None if it was reported: no parameter."""
        value = self.constant_integer(node, what)
        if value is not None and is_given(node):
            hint = "a parameter is another with each instance, or each call"
            self.reporter.error(node.at, f"{what} must be known where it is written", hint)
            return None
        return value

    def _sized(self, node: syntax.Expression, wanted: ir.Bits) -> None:
        """Give a number without a width the type `wanted`."""
        value = node.value
        if value is not None:
            low, high = arithmetic.bounds(wanted)
            if not low <= value <= high and not (not wanted.signed and -(high + 1) // 2 <= value < 0):
                self.reporter.warning(
                    node.at,
                    f"{self.shown(value)} does not fit {wanted}: it is cut",
                    f"{self.shown(low)} to {self.shown(high)} would",
                )
            node.value = arithmetic.wrap(value, wanted)
        node.type = wanted

    def _convert_choice(self, node: syntax.ConditionalOp, wanted: Type, what: str) -> bool:
        """Make both values of `?:` a type that neither has by itself."""
        if not is_storable(wanted):
            self.reporter.error(node.at, f"?: does not apply to {node.type} as {wanted}")
            return False
        agreed = [self.convert(value, wanted, what) for value in (node.yes, node.no)]
        if node.condition.value is not None:
            node.value = (node.yes if node.condition.value else node.no).value
        node.type = wanted
        return all(agreed)

    def _convert_list(self, node: syntax.Expression, wanted: CompositeType, what: str) -> bool:
        assert isinstance(node, syntax.ListValue)
        if wanted.kind == "header_union":
            self.reporter.error(node.at, f"{wanted} cannot be made of a list", "assign to one of its headers")
            return False
        if node.names is not None:
            if wanted.kind in ("tuple", "array"):
                self.reporter.error(node.at, f"{wanted} has no names for its values", "remove them")
                return False
            for name in node.names:
                if name not in wanted.fields:
                    self.reporter.error(
                        node.at, f"{wanted} has no field {name}", did_you_mean(name, wanted.fields)
                    )
                    return False
            twice = [name for place, name in enumerate(node.names) if name in node.names[:place]]
            if twice:
                self.reporter.error(node.at, f"{what} names {twice[0]} twice")
                return False
            if not node.rest and sorted(node.names) != sorted(wanted.fields):
                missing = sorted(set(wanted.fields) - set(node.names))
                self.reporter.error(node.at, f"{what} lacks {', '.join(missing)}")
                return False
        elif len(node.items) > len(wanted.fields) or (len(node.items) < len(wanted.fields) and not node.rest):
            parts = "elements" if wanted.kind == "array" else "fields"
            self.reporter.error(
                node.at, f"{what} has {len(node.items)} values; {wanted} has {len(wanted.fields)} {parts}"
            )
            return False
        names = list(node.names or wanted.fields)
        for name in wanted.fields if node.rest else ():
            if name not in names[: len(node.items)]:
                names = [*names[: len(node.items)], name]
                node.items.append(syntax.DefaultValue(at=node.at, type=DEFAULT))
        if node.rest and node.names is not None:
            node.names = names
        agreed = [
            self.convert(
                item, wanted.fields[name], "an element" if wanted.kind == "array" else f"field {name}"
            )
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

    def _convert_p4_list(self, node: syntax.Expression, wanted: P4ListType, what: str) -> bool:
        assert isinstance(node, syntax.ListValue)
        if node.names or node.rest:
            self.reporter.error(node.at, f"{what} has names or '...'; {wanted} has neither")
            return False
        agreed = [self.convert(item, wanted.element, "an element") for item in node.items]
        node.type = wanted
        return all(agreed)

    def type_of_list(self, node: syntax.Expression, found: ListType) -> Type:
        """Return the type that a list has where nothing says another: a tuple, or a struct of its names."""
        if isinstance(node, syntax.ConditionalOp) and isinstance(node.yes.type, ListType):
            return self.type_of_list(node.yes, found)
        if isinstance(node, syntax.ConditionalOp):
            return self.type_of_list(node.no, found)
        inner = node.items if isinstance(node, syntax.ListValue) else []
        items = tuple(
            self.type_of_list(part, kind) if isinstance(kind, ListType) else kind
            for part, kind in zip(inner, found.items, strict=True)
        )
        for part, kind in zip(inner, items, strict=True):
            if isinstance(kind, ExternType):
                self.reporter.error(part.at, f"{kind} is an object and no value")
                return UNKNOWN
            if not is_storable(kind) and kind not in (INTEGER, UNKNOWN):
                self.reporter.error(part.at, f"{kind} cannot stand in a list without a type", _GIVE_TYPE)
                return UNKNOWN
        if found.rest:
            self.reporter.error(node.at, "'...' cannot stand in a list without a type", _GIVE_TYPE)
            return UNKNOWN
        found = ListType(items, found.names)
        if UNKNOWN in items:
            return UNKNOWN
        if INTEGER in found.items:
            at = found.items.index(INTEGER)
            place = node.items[at].at if isinstance(node, syntax.ListValue) else node.at
            self.reporter.error(place, "this number has no width, and nothing gives it one", "write 8w1")
            return UNKNOWN
        if found.names is None:
            return self.tuples.of(found.items)
        names = found.names
        if names not in self._records:

            def record(items: tuple[Type, ...]) -> CompositeType:
                shown = ", ".join(map(str, names))
                return CompositeType(f"{{{shown}}}", "struct", dict(zip(names, items, strict=True)))

            self._records[names] = Family("list_of_" + "_".join(names), len(names), record)
        return self._records[names].of(found.items)

    def bits(self, node: syntax.Expression) -> Type:
        """Return the type of an expression, an enum's representation for an enum."""
        found = self.expression(node)
        if isinstance(found, EnumType) and found.underlying is not None:
            node.type = found.underlying
        return node.type  # type: ignore[no-any-return]


def cast_hint(found: Type, wanted: Type) -> str:
    """Return what to write so that a value of one type becomes another, "" where nothing helps."""
    if isinstance(found, ir.Bits) and isinstance(wanted, ir.Bits):
        return f"cast it: {_casts(found, wanted)}..."
    if isinstance(found, ir.Bits) and isinstance(wanted, EnumType):
        if wanted.underlying is None:
            return f"name a member: {wanted.name}.{next(iter(wanted.members), '')}"
        return f"cast it: ({wanted.name}){_casts(found, wanted.underlying)}..."
    if wanted == ir.BOOL and isinstance(found, ir.Bits):
        return "compare it with 0"
    kinds = [kind.kind if isinstance(kind, CompositeType) else "" for kind in (found, wanted)]
    if kinds[0] == "tuple" and kinds[1] in ("struct", "header"):
        return "list its values: { t[0], t[1] }"
    return "it returns nothing: call it as a statement" if found is NOTHING else ""


def _casts(found: ir.Bits, wanted: ir.Bits) -> str:
    """Return the casts from one type to another; a cast changes width or sign."""
    if found.signed != wanted.signed and found.width != wanted.width:
        return f"({wanted})({ir.Bits(wanted.width, found.signed)})"
    return "" if found == wanted else f"({wanted})"
