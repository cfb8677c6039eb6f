# SPDX-License-Identifier: Apache-2.0
"""Checks the sets of values in select cases and table entries.

Source: P4-16 Language Specification 1.2.5, "Set operations", "Select expressions".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import TypeAlias

from nicemu.errors import counted
from nicemu.pipeline import ir

from . import syntax
from .check_declarations import DeclarationChecker
from .constants import part_of
from .symbols import ValueSetSymbol
from .type_sizes import scalar_of, width_of
from .type_variables import same
from .types import (
    INTEGER,
    UNKNOWN,
    CompositeType,
    EnumType,
    Type,
)

Alternatives: TypeAlias = tuple[ir.KeyRange, ...]
"""Ranges of which a value is to be in one: two for signed numbers around 0, none for an empty range."""


_SETS = (syntax.AnySet, syntax.MaskSet, syntax.RangeSet)


class KeysetChecker(DeclarationChecker):
    """Keysets; each is left with its `value`: what is compared, or Alternatives."""

    def keysets(self, case: syntax.SelectLabel | syntax.EntryElement, kinds: Sequence[Type]) -> None:
        """Check the keysets of a select case or an entry; fill in their values.

        One `_` stands for all keys, as in the example of P4-16, "Entries". A tuple is as many keys as it has
        fields, and is left with as many keysets.
        """
        value_set = self._value_set_of(case.keysets[0]) if len(case.keysets) == 1 else None
        if value_set is not None:
            self._check_value_set(case, value_set, [part for kind in kinds for part in parts_of(kind)])
            return
        if len(case.keysets) == 1 and isinstance(case.keysets[0], syntax.AnySet):
            case.keysets = [syntax.AnySet(at=case.at) for _ in kinds]
        if len(kinds) == 1 and isinstance(kinds[0], CompositeType) and len(case.keysets) > 1:
            kinds = list(kinds[0].fields.values())
        if len(case.keysets) != len(kinds):
            given, wanted = counted(len(case.keysets), "keyset"), counted(len(kinds), "key")
            self.reporter.error(case.at, f"{given} for {wanted}")
            kinds = [UNKNOWN for _ in kinds]
        spread = [pair for pair in zip(case.keysets, kinds, strict=False) for pair in self._spread(*pair)]
        case.keysets = [keyset for keyset, _ in spread]
        for keyset, kind in spread:
            of = kind if isinstance(case, syntax.EntryElement) else self.label_type(keyset, kind)
            keyset.value = self._keyset(keyset, of)
            if keyset.value == ():
                hint = "write the lower bound first"
                self.reporter.warning(keyset.at, "this range is empty: nothing matches it", hint)

    def label_type(self, node: syntax.Expression, kind: Type) -> Type:
        """Return the type of a case's label: of a serializable enum its representation, if the label is of
        that (p4c #5348).
        """
        if not isinstance(kind, EnumType) or kind.underlying is None or isinstance(node, _SETS):
            return kind
        if self._value_set_of(node) is not None:
            return kind
        return kind.underlying if self.expression(node) in (INTEGER, kind.underlying) else kind

    def _spread(self, keyset: syntax.Expression, kind: Type) -> Iterator[tuple[syntax.Expression, Type]]:
        """Yield a keyset and the type of its key; for a tuple those of its fields."""
        if not isinstance(kind, CompositeType):
            yield keyset, kind
            return
        parts: list[syntax.Expression] = []
        if isinstance(keyset, syntax.AnySet):
            parts = [syntax.AnySet(at=keyset.at) for _ in kind.fields]
        elif isinstance(keyset, syntax.MaskSet | syntax.RangeSet):
            self.reporter.error(keyset.at, f"a mask or range over {kind}; a list was expected")
        elif self._value_set_of(keyset) is not None:
            self.reporter.unsupported(keyset.at, f"a value set of {kind} beside other keys")
        elif self.expect(keyset, kind, "a keyset"):
            found = [part_of(keyset, name) for name in kind.fields]
            parts = [copy(part) for part in found if part is not None]  # a constant's are not this one's
            if len(parts) != len(kind.fields):
                self.reporter.error(keyset.at, "a keyset must be known at compile time")
        for part, field in zip(parts, kind.fields.values(), strict=False):
            yield from self._spread(part, field)

    def _value_set_of(self, node: syntax.Expression) -> ValueSetSymbol | None:
        symbol = self.scope.meant(node) if isinstance(node, syntax.NameRef) else None
        return symbol if isinstance(symbol, ValueSetSymbol) else None

    def _check_value_set(
        self,
        case: syntax.SelectLabel | syntax.EntryElement,
        value_set: ValueSetSymbol,
        kinds: Sequence[Type],
    ) -> None:
        """Check a value set that stands for all keys of a select."""
        if isinstance(case, syntax.EntryElement):
            self.reporter.error(case.at, "a value set stands only in a select")
        wanted = [kind for kind, _ in value_set.fields.values()]
        known = UNKNOWN not in (value_set.type, *kinds)
        if known and (len(wanted) != len(kinds) or not all(map(same, wanted, kinds))):
            shown = ", ".join(map(str, kinds))
            self.reporter.error(case.at, f"{value_set.name} holds {value_set.type}; the keys are {shown}")
        case.keysets[0].value = ir.KeyInSet(value_set.name)

    def _keyset(self, node: syntax.Expression, kind: Type) -> ir.Keyset | Alternatives | None:
        scalar = scalar_of(kind)
        self.is_value(node, "a keyset")
        value_set = self._value_set_of(node)
        if value_set is not None:
            if not same(value_set.type, kind):
                self.reporter.error(node.at, f"{value_set.name} holds {value_set.type}; the key is {kind}")
            return ir.KeyInSet(value_set.name)
        match node:
            case syntax.AnySet():
                return ir.KeyAny()
            case syntax.MaskSet():
                plain = self._plain(node, kind)
                value, mask = (self.constant(part, plain, "a keyset") for part in (node.left, node.mask))
                if value is None or mask is None:
                    return None
                ones = (1 << width_of(plain)) - 1
                return ir.KeyMask(value & mask & ones, mask & ones)
            case syntax.RangeSet():
                plain = self._plain(node, kind)
                low, high = (self.constant(part, plain, "a keyset") for part in (node.low, node.high))
                if low is None or high is None:
                    return None
                return self._range(low, high, plain)
        value = self.constant(node, kind, "a keyset")
        if value is None or scalar is None:
            return None
        ones = (1 << width_of(kind)) - 1
        return ir.KeyMask(value & ones, ones)

    def _plain(self, node: syntax.Expression, kind: Type) -> Type:
        plain = kind.underlying if isinstance(kind, EnumType) and kind.underlying else kind
        if isinstance(plain, ir.Bits) or plain is UNKNOWN:
            return plain
        self.reporter.error(node.at, f"a mask or range over {kind}; bit<N> or int<N> was expected")
        return UNKNOWN

    def _range(self, low: int, high: int, kind: Type) -> ir.Keyset | Alternatives:
        """Return the values from `low` to `high` as patterns of bits, in which those below 0 come last."""
        ones = (1 << width_of(kind)) - 1
        if low > high:
            return ()
        if low < 0 <= high:
            return ir.KeyRange(low & ones, ones), ir.KeyRange(0, high)
        return ir.KeyRange(low & ones, high & ones)


def parts_of(kind: Type) -> list[Type]:
    """Return the types of the numbers in a key of a select."""
    fields = kind.fields.values() if isinstance(kind, CompositeType) and kind.kind == "tuple" else ()
    return [part for field in fields for part in parts_of(field)] or [kind]
