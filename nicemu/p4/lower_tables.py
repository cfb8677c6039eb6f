# SPDX-License-Identifier: Apache-2.0
"""Tables to IR: keys, lists of actions, entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from nicemu.pipeline import ir, numbers_of

from . import syntax
from .annotations import kept
from .key_names import is_compared, key_name
from .lower_expressions import has_effects
from .lower_statements import StatementLowering
from .priorities import has_priority, priorities_of
from .symbols import NO_ACTION, TableSymbol
from .type_sizes import width_of
from .types import CompositeType, StackType

DEFAULT_TABLE_SIZE = 1024
_TABLE_OBJECTS = {"profile": "implementation", "counter": "counters", "meter": "meters"}


class TableLowering(StatementLowering):
    """Lowers tables, on top of statements."""

    def table(self, table: TableSymbol) -> ir.Table:
        """Return a table, its keys, actions and entries."""
        node = table.declaration
        compared = [key for key in node.keys if is_compared(key)]
        values = self._keys(table)
        keys = tuple(
            ir.Key(
                key_name(key),
                values[node.keys.index(key)],
                ir.MatchKind(key.match_kind),
                number,
                self._types.name_of(key.expression.type),
                kept(key.annotations),
            )
            for key, number in zip(compared, _numbers_of_keys(node.keys), strict=True)
        )
        refs = [self._action_ref(element) for element in node.actions or []]
        if node.default_action is not None:
            default = self._action_call(node.default_action)
        else:
            default = ir.ActionCall(NO_ACTION)
            no_action = self._outside.get(NO_ACTION)
            if all(ref.action != NO_ACTION for ref in refs) and no_action is not None:
                refs.append(ir.ActionRef(self._use(no_action), default_only=True))
        entries = tuple(self._entries(table))
        return ir.Table(
            table.name,
            keys,
            tuple(refs),
            default,
            max((node.size.value if node.size is not None else 0) or DEFAULT_TABLE_SIZE, len(entries)),
            node.const_default,
            entries,
            node.const_entries,
            table.id,
            **{
                part: table.objects[name].full_name
                for part, name in _TABLE_OBJECTS.items()
                if name in table.objects
            },
            selector_keys=tuple(
                value for key, value in zip(node.keys, values, strict=True) if not is_compared(key)
            ),
            idle_timeout=table.idle_timeout,
            annotations=kept(node.annotations),
        )

    def _keys(self, table: TableSymbol) -> list[ir.Expression]:
        """Return what each key is.

        A selector's are looked at where a group is hit, and behind the others: where that can be told, the
        first key that is compared calls what evaluates all of them, in their order.
        """
        keys = table.declaration.keys
        values = [
            self._key(key.expression) if is_compared(key) else self._value(key.expression) for key in keys
        ]
        first = next((place for place, key in enumerate(keys) if is_compared(key)), None)
        chosen = [value for key, value in zip(keys, values, strict=True) if not is_compared(key)]
        if first is None or not chosen or not has_effects(chosen):
            return values
        kept = [self._extra(value.type, "key") for value in values]
        body = tuple(ir.Assign(place, value) for place, value in zip(kept, values, strict=True))
        name = f"keys.{table.name}"
        self._made.append(ir.Function(name, (), body, kept[first].name, is_control=True))
        called: list[ir.Expression] = [*kept]
        called[first] = ir.Call(name, (), kept[first].type)
        return called

    def _key(self, node: syntax.Expression) -> ir.Expression:
        """Return what is looked up: 0 of a header that is not valid, as for simple_switch; P4 leaves it open.

        That goes for a field, bits of one, and one with a mask; what is computed has what the field held.
        """
        match node:
            case syntax.MemberRef() | syntax.IndexRef() if (header := _header_of(node)) is not None:
                field = self._value(node)
                if has_effects([field]):
                    return field
                none = ir.Constant(0, field.type)
                return ir.Conditional(ir.IsValid(self._value(header)), field, none, field.type)
            case syntax.SliceRef() if node.value is None and node.low.value is not None:
                kind = self._types.of(node.type)
                return ir.Slice(self._key(node.base), node.high.value, node.low.value, kind)
            case syntax.BinaryOp(op="&") if node.value is None and _mask_in(node) is not None:
                mask = _mask_in(node)
                sides = [
                    self._value(side) if side is mask else self._key(side) for side in (node.left, node.right)
                ]
                return ir.Binary("&", sides[0], sides[1], self._types.of(node.type))
        return self._value(node)

    def _action_ref(self, element: syntax.ActionElement) -> ir.ActionRef:
        marks = {annotation.name for annotation in element.annotations}
        return ir.ActionRef(
            self._use(element.symbol),
            tuple(self._argument(argument) for argument in element.arguments or []),
            "defaultonly" in marks,
            "tableonly" in marks,
            kept(element.annotations),
        )

    def _action_call(self, element: syntax.ActionElement) -> ir.ActionCall:
        data = [item for item in element.symbol.parameters if not item.direction]
        given = (element.arguments or [])[-len(data) :] if data else []
        values = tuple(
            argument.value & ((1 << width_of(item.type)) - 1)
            for argument, item in zip(given, data, strict=True)
        )
        return ir.ActionCall(self._use(element.symbol), values)

    def _entries(self, table: TableSymbol) -> Iterator[ir.Entry]:
        entries = table.declaration.entries or []
        priorities = priorities_of(table) if has_priority(table.declaration) else [0] * len(entries)
        seen: set[tuple[ir.Keyset, ...]] = set()
        for entry, priority in zip(entries, priorities, strict=True):
            for keysets in product(*map(alternatives, entry.keysets)):
                if priority or keysets not in seen:  # without priorities the first of the same is the one
                    yield ir.Entry(keysets, self._action_call(entry.action), priority, entry.constant)
                seen.add(keysets)


def _header_of(node: syntax.Expression) -> syntax.Expression | None:
    """Return the header that a field, or a part of one, is in; None if it is in none, or one of several."""
    while isinstance(node, syntax.MemberRef | syntax.IndexRef) and not isinstance(node.base.type, StackType):
        node = node.base
        if isinstance(node.type, CompositeType) and node.type.header:
            return node if _is_fixed(node) else None
    return None


def _mask_in(node: syntax.BinaryOp) -> syntax.Expression | None:
    """Return the side of an & that is known at compile time."""
    return next((side for side in (node.right, node.left) if side.value is not None), None)


def _is_fixed(node: syntax.Expression) -> bool:
    """Return whether an expression names one place, the same for every packet."""
    match node:
        case syntax.NameRef():
            return True
        case syntax.MemberRef():
            return not isinstance(node.base.type, StackType) and _is_fixed(node.base)
        case syntax.IndexRef():
            return node.index.value is not None and _is_fixed(node.base)
    return False


def alternatives(keyset: syntax.Expression) -> tuple[ir.Keyset, ...]:
    """Return the keysets that one stands for."""
    return keyset.value if isinstance(keyset.value, tuple) else (keyset.value,)


def _numbers_of_keys(keys: Sequence[syntax.KeyElement]) -> list[int]:
    """Return the numbers of the keys that are compared, 0 where they follow from their places among these:
    the keys of a selector are counted, too.
    """
    chosen = [key.id for key in keys if is_compared(key)]
    numbers = [
        number
        for key, number in zip(keys, numbers_of([key.id for key in keys]), strict=True)
        if is_compared(key)
    ]
    return chosen if numbers == numbers_of(chosen) else numbers
