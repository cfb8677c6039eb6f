# SPDX-License-Identifier: Apache-2.0
"""Checks tables: keys, actions, default action, size and entries.

Source: P4-16 Language Specification 1.2.5, "Match-action units".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from nicemu.errors import counted
from nicemu.pipeline import MAX_TABLE_SIZE, ir

from . import syntax
from .annotations import given_name
from .check_blocks import constructed
from .check_members import MemberChecker
from .diagnostics import Reporter, did_you_mean
from .includes import include_of
from .key_names import is_compared, key_name
from .parse_tables import PROPERTIES
from .priorities import MAX_PRIORITY, check_priorities, has_priority, priorities_of
from .symbols import (
    NO_ACTION,
    ActionSymbol,
    Instance,
    ParameterSymbol,
    TableSymbol,
)
from .syntax_copy import has_call, same_text
from .type_sizes import width_of
from .types import (
    UNKNOWN,
    CompositeType,
    ExternType,
    Type,
)

_MATCH_KINDS = (*(item.value for item in ir.MatchKind), "selector")
VALUE_PROPERTIES = ("largest_priority_wins", "priority_delta", "support_timeout")
OBJECT_PROPERTIES = {
    "implementation": ("action_profile", "action_selector"),
    "counters": ("direct_counter",),
    "meters": ("direct_meter",),
}
"""Properties of v1model's tables that name an extern object, and the types that it may have."""
MAX_WIDTH_SPELT_OUT = 8
MAX_SPELT_OUT = 4096
"""How wide an exact key may be where `_` is an entry for each of its values, and how many one may be."""


class TableChecker(MemberChecker):
    """Tables of a control."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._owners: dict[Instance, TableSymbol] = {}
        self._selected: dict[Instance, tuple[object, list[syntax.Expression]]] = {}

    def table_body(self, table: TableSymbol) -> None:
        """Check keys, actions, default action, size and entries of a table."""
        node = table.declaration
        outer, self.context = self.context, "control"
        kinds = [self._key_type(key.expression, "a key") for key in node.keys]
        for key in node.keys:
            self.evaluate_annotations(key.annotations)
            if key.match_kind not in self.declared.match_kinds:
                hint = include_of(key.match_kind) or did_you_mean(key.match_kind, self.declared.match_kinds)
                self.reporter.error(key.match_kind_at, f"unknown match kind {key.match_kind}", hint)
            elif key.match_kind not in _MATCH_KINDS:
                hint = f"there is {', '.join(_MATCH_KINDS)}"
                self.reporter.unsupported(key.match_kind_at, f"match kind {key.match_kind}", hint)
            if (
                not key_name(key)
                and key.expression.type is not UNKNOWN
                and not self.reporter.has_error_at(key.at)
            ):
                self.reporter.error(
                    key.at, "this key needs a name", 'write @name("...") behind the match kind'
                )
        if node.actions is None:
            self.reporter.error(node.at, f"table {node.name} has no actions", "add actions = { NoAction; }")
        self.beside = "an argument of a table's action"
        for element in node.actions or []:
            self._listed_action(element, table)
        default = node.default_action
        if default is not None:
            self._chosen_action(default, table)
            self._not_marked(default, node, "tableonly", "the default action")
        elif any(item.name == NO_ACTION and _is_marked(item, "tableonly") for item in node.actions or ()):
            what = f"table {node.name} has no default action, and {NO_ACTION} is @tableonly"
            self.reporter.error(node.at, what, "write default_action = ...;")
        elif self.scope.outermost.find(NO_ACTION) is None and not self.reporter.has_error_at(node.at):
            what = f"table {node.name} has no default action, and there is no {NO_ACTION}"
            self.reporter.error(node.at, what, "#include <core.p4>, or write default_action = ...;")
        self.beside = ""
        if node.size is not None:
            size = self.constant_integer(node.size, "the size of a table")
            if size is not None and not 0 <= size <= MAX_TABLE_SIZE:
                self.reporter.error(
                    node.size.at, f"a size of {self.shown(size)}; 0 to {MAX_TABLE_SIZE} was expected"
                )
        for item in node.properties:
            self._property(item, table)
        self._check_selector(node, table)
        self._entries(node, table, kinds)
        self._check_key_kinds(node)
        self.context = outer

    def _property(self, item: syntax.PropertyElement, table: TableSymbol) -> None:
        """Check a property whose value is an expression."""
        match item.name:
            case "largest_priority_wins":
                value = self.constant(item.value, ir.BOOL, item.name)
                table.smaller_wins = value == 0
            case "priority_delta":
                delta = self.constant_integer(item.value, item.name)
                if delta is not None and delta <= 0:
                    self.reporter.error(item.value.at, f"priority_delta is {delta}; above 0 was expected")
                table.priority_delta = max(delta or 1, 1)
            case "support_timeout":
                table.idle_timeout = bool(self.constant(item.value, ir.BOOL, item.name))
            case name if name in OBJECT_PROPERTIES:
                self._object_property(item, table)
            case _:
                known = (*PROPERTIES, *VALUE_PROPERTIES, *OBJECT_PROPERTIES)
                hint, mark = did_you_mean(item.name, known), self.reporter.mark()
                self.expression(item.value)
                if hint.startswith("did") and self.reporter.has_failed_since(mark):
                    self.reporter.rewind(mark)
                    self.reporter.error(item.at, f"unknown table property {item.name}", hint)
                else:
                    what = f"table property {item.name} is not known, and ignored"
                    self.reporter.warning(item.at, what, hint)

    def _object_property(self, item: syntax.PropertyElement, table: TableSymbol) -> None:
        node, externs = item.value, OBJECT_PROPERTIES[item.name]
        found: object = None
        if isinstance(node, syntax.NameRef):
            found = self.find(node, "object")
            if found is None:
                return
        elif isinstance(node, syntax.Call):
            ref = constructed(node)
            kind = self.instantiated(ref) if ref is not None else self.expression(node)
            if kind is UNKNOWN:
                return
            if ref is not None and isinstance(kind, ExternType) and kind.symbol.name in externs:
                name = table.name
                if given := given_name(item.annotations):  # of which p4c makes the whole name
                    self.evaluate_annotations(item.annotations)
                    name = given.removeprefix(".")
                elif any(other.name == name for other in table.objects.values()):
                    name += f".{item.name}"
                found = self.object_of(node, kind, name)
        if not isinstance(found, Instance) or found.type.symbol.name not in externs:
            self.reporter.error(node.at, f"{item.name} must be an object: {' or '.join(externs)}")
            return
        owner = self._owners.setdefault(found, table)
        if owner.name != table.name and item.name != "implementation":
            self.reporter.error(node.at, f"{found.name} is the counter or meter of two tables")
        elif _action_names(owner) != _action_names(table):
            what = f"tables {owner.name} and {table.name} share {found.name}, and have not the same actions"
            self.reporter.warning(node.at, what, "its members may have those alone that both have")
        table.objects[item.name] = found

    def _check_selector(self, node: syntax.TableDeclaration, table: TableSymbol) -> None:
        selectors = [key for key in node.keys if key.match_kind == "selector"]
        profile = table.objects.get("implementation")
        has_selector = profile is not None and profile.type.symbol.name == "action_selector"
        if selectors and not has_selector:
            self.reporter.warning(
                selectors[0].match_kind_at,
                "a selector key means nothing in a table without an action selector",
                "write implementation = action_selector(...);",
            )
        if has_selector and not selectors:
            what = f"table {node.name} has an action selector and no selector key: a group has one member"
            self.reporter.warning(
                node.at, f"{what} for all packets", "write key: selector for what is hashed"
            )
        if profile is not None and has_selector and self.architecture.name == "v1model":
            found = [key.expression for key in selectors]
            block, inputs = self._selected.setdefault(profile, (self.block, found))
            if block is self.block and not same_text(inputs, found):  # BMv2 has them with the selector
                self.reporter.error(
                    selectors[0].at if selectors else node.at,
                    f"{profile.name} selects by other keys in another table",
                    "write the same selector keys",
                )
        if profile is not None and node.entries:
            self.reporter.error(node.entries[0].at, "a table with an action profile cannot have entries here")

    def _check_key_kinds(self, node: syntax.TableDeclaration) -> None:
        prefixes = [key for key in node.keys if key.match_kind == "lpm"]
        if len(prefixes) > ir.MAX_LPM_KEYS:
            what = (
                f"table {node.name} has {len(prefixes)} lpm keys; {ir.MAX_LPM_KEYS} are allowed, beside keys "
                "of other kinds"
            )
            hint = "ternary takes prefixes, too, and its entries have priorities"
            self.reporter.error(prefixes[ir.MAX_LPM_KEYS].match_kind_at, what, hint)
        for key in node.keys:
            key.id = self.chosen_id(key)
        self.distinct(f"keys of table {node.name}", ((key.at, key.id) for key in node.keys))
        compared = [key for key in node.keys if is_compared(key)]
        names = [key_name(key) for key in compared]
        counts = Counter(names)
        for key, name in zip(compared, names, strict=True):
            if name and counts[name] > 1:
                self.reporter.error(key.at, f"two keys are called {name}", 'write @name("...") behind one')

    def _action_named(self, element: syntax.ActionElement) -> ActionSymbol | None:
        """Return the action that an element names, None if it was reported."""
        symbol = self.find(element, "action")
        if isinstance(symbol, ActionSymbol):
            element.symbol = symbol
            return symbol
        if symbol is not None:
            self.reporter.error(element.at, f"{element.name} is no action")
        return None

    def _listed_action(self, element: syntax.ActionElement, table: TableSymbol) -> None:
        """Check an element of the list of actions, which gives arguments for parameters with a direction."""
        self.evaluate_annotations(element.annotations)
        symbol = self._action_named(element)
        if symbol is None:
            return
        directed = [item for item in symbol.parameters if item.direction]
        as_written = list(element.arguments or [])
        self.arrange(element, directed, f"action {element.name}")
        if _is_order_meant(as_written, element.arguments or [], directed):
            what = (
                "arguments by name in an order that matters, and is not the parameters', in a list of actions"
            )
            self.reporter.unsupported(element.at, what, "write them in the order of the parameters")
        if _is_marked(element, "tableonly") and _is_marked(element, "defaultonly"):
            what = f"action {element.name} is @tableonly and @defaultonly: nothing may have it"
            self.reporter.error(element.at, what, "remove one")
        if element.name in table.actions:
            self.reporter.error(element.at, f"action {element.name} stands in the list twice")
        table.actions[element.name] = symbol
        self.count_call(element.at, symbol.calls)
        for item, written in zip(symbol.parameters, symbol.declaration.parameters, strict=True):
            if item.direction and not written.direction:
                what = f"action {element.name} has {item.type} as action data; a table holds numbers"
                has_fields = isinstance(item.type, CompositeType)
                hint = "give the action its fields as parameters" if has_fields else ""
                self.reporter.unsupported(element.at, what, hint)
                return
        given = element.arguments or []
        if len(given) > len(directed):
            hint = "the control plane gives the parameters without a direction"
            takes = f"{element.name} takes {counted(len(directed), 'argument')} here"
            self.reporter.error(element.at, takes, hint)
            return
        self.arguments(given, directed, f"action {element.name}", element)

    def _chosen_action(self, element: syntax.ActionElement, table: TableSymbol) -> None:
        """Check the action of an entry or a miss, which is of the list, and gives all its arguments."""
        self.evaluate_annotations(element.annotations)
        listed = table.declaration.actions or []
        if any(item.symbol is None and item.name == element.name for item in listed):
            return  # already reported
        symbol = self._action_named(element)
        if symbol is None:
            return
        directed = [item for item in symbol.parameters if item.direction]
        data = [item for item in symbol.parameters if not item.direction]
        if any(other.symbol is symbol and len(other.arguments or ()) != len(directed) for other in listed):
            return  # already reported
        if _are_missing(element, directed, data):
            what = f"the arguments that the list of actions gives {element.name} are missing"
            if any(other.symbol is symbol and _are_same(element, other) for other in listed):
                what = (
                    f"the action data of {element.name} are missing: {', '.join(item.name for item in data)}"
                )
            self.reporter.error(element.at, what, "write them here, too")
            return
        self.arrange(element, symbol.parameters, f"action {element.name}")
        given = element.arguments or []
        if element.name not in table.actions:
            hint = did_you_mean(element.name, table.actions)
            self.reporter.error(
                element.at, f"{element.name} is not among the actions of table {table.declaration.name}", hint
            )
        self.arguments(given, symbol.parameters, f"action {element.name}", element)
        for other in listed:
            if other.symbol is symbol and len(given) == len(symbol.parameters):
                self._repeats(given, other)
        for argument in given[-len(data) :] if data else ():
            if argument.value is None and argument.type is not UNKNOWN:
                self.reporter.error(argument.at, "action data must be known at compile time")

    def _repeats(self, given: Sequence[syntax.Expression], listed: syntax.ActionElement) -> None:
        """Check that arguments for parameters with a direction are those in the list of actions."""
        for argument, there in zip(given, listed.arguments or [], strict=False):
            if not same_text(argument, there):
                what = f"this is not what the list of actions gives {listed.name}"
                self.reporter.error(argument.at, what, "write the same here")

    def _not_marked(
        self, element: syntax.ActionElement, node: syntax.TableDeclaration, mark: str, what: str
    ) -> None:
        """Check that the list of actions does not keep an action from being what it is."""
        for listed in node.actions or []:
            if listed.symbol is element.symbol and _is_marked(listed, mark):
                self.reporter.error(element.at, f"{element.name} is @{mark}, and cannot be {what}")

    def _entries(self, node: syntax.TableDeclaration, table: TableSymbol, kinds: Sequence[Type]) -> None:
        priorities = in_range = has_priority(node)
        self._check_given_priorities(node)
        if node.entries and not node.keys:
            hint = "write a key, such as key = { hdr.ethernet.dst: exact; }"
            self.reporter.error(node.entries[0].at, "a table without keys has no entries", hint)
            return
        for entry in node.entries or []:
            self.keysets(
                entry, [kind for kind, key in zip(kinds, node.keys, strict=True) if is_compared(key)]
            )
            self._chosen_action(entry.action, table)
            self._not_marked(entry.action, node, "defaultonly", "an entry")
            for note in entry.annotations:
                if note.name == "priority" and not (len(note.tokens) == 1 and note.tokens[0].isdecimal()):
                    self.reporter.error(note.at, "@priority needs a number", "write @priority(1)")
            if entry.priority is not None:
                priority = self.constant_integer(entry.priority, "a priority")
                least = 0 if table.smaller_wins else 1
                in_range = in_range and priority is not None and least <= priority <= MAX_PRIORITY
                if priority is not None and not least <= priority <= MAX_PRIORITY:
                    what = f"a priority of {self.shown(priority)}; {least} to {MAX_PRIORITY} was expected"
                    self.reporter.error(entry.priority.at, what)
                if not priorities:
                    what = "a priority beside exact and lpm keys, where it is ignored"
                    self.reporter.warning(entry.priority.at, what, "remove it")
            compared = [key for key in node.keys if is_compared(key)]
            for keyset, key in zip(entry.keysets, compared, strict=False):
                self._check_entry_keyset(keyset, key)
        if in_range:
            check_priorities(table, self.reporter)
        if UNKNOWN not in kinds and (in_range or not priorities):
            self._check_distinct_entries(table, priorities_of(table) if priorities else [])
        self._check_room(node)

    def _check_distinct_entries(self, table: TableSymbol, priorities: Sequence[int]) -> None:
        """Report an entry whose keys another has; warn of it where one of the two has the lower priority."""
        seen: dict[tuple[object, ...], int] = {}
        entries = table.declaration.entries or []
        compared = [key for key in table.declaration.keys if is_compared(key)]
        widths = [width_of(key.expression.type) for key in compared]
        for place, entry in enumerate(entries):
            values = tuple(
                _as_compared(keyset.value, width)
                for keyset, width in zip(entry.keysets, widths, strict=False)
            )
            before = seen.setdefault(values, place)
            if before == place:
                continue
            what = f"there is an entry for these keys already, in line {entries[before].at.line}"
            if priorities and priorities[before] != priorities[place]:
                self.reporter.warning(entry.at, f"{what}: one of them never matches", "remove one")
            else:
                self.reporter.error(entry.at, what, "remove one")  # p4c #5248

    def _check_room(self, node: syntax.TableDeclaration) -> None:
        """Warn of a table that is to hold more entries than its size; a keyset may be several."""
        count = 0
        for entry in node.entries or []:
            values = [keyset.value for keyset in entry.keysets]
            several = prod(len(value) if isinstance(value, tuple) else 1 for value in values)
            if several > MAX_SPELT_OUT:
                what = f"an entry that is {several} entries, one for each value of its exact keys"
                self.reporter.unsupported(entry.at, what, f"{MAX_SPELT_OUT} would be")
                return
            count += several
        size = node.size.value if node.size is not None else None
        if node.size is not None and isinstance(size, int) and count > size > 0:
            what = f"a size of {size}, and {counted(count, 'entry', 'entries')}"
            self.reporter.warning(node.size.at, what, "the table gets room for them")

    def _check_given_priorities(self, node: syntax.TableDeclaration) -> None:
        """Check where priorities stand: not before const entries; else before the first, or nowhere."""
        entries = node.entries or []
        given = [entry.priority for entry in entries if entry.priority is not None]
        if given and node.const_entries:
            what = "const entries have no priorities: they match in the order in which they stand"
            self.reporter.error(given[0].at, what, "remove priority, or const before entries")
        elif given and entries[0].priority is None:
            what = "the first entry has no priority, and others have"
            self.reporter.error(entries[0].at, what, "write priority = ...: before the first")

    def _check_entry_keyset(self, keyset: syntax.Expression, key: syntax.KeyElement) -> None:
        inverse = (1 << width_of(key.expression.type)) - 1
        match keyset.value:
            case ir.KeyMask(_, mask):
                inverse ^= mask
                wrong = inverse and (
                    key.match_kind in ("exact", "range", "optional")
                    or (key.match_kind == "lpm" and inverse & inverse + 1)
                )
            case ir.KeyRange() | tuple():
                wrong = key.match_kind != "range"
            case ir.KeyAny() if key.match_kind == "exact":
                width, wrong = width_of(key.expression.type), False
                if width > MAX_WIDTH_SPELT_OUT:
                    what = f"'_' in an exact key of {width} bits, an entry for each of its values"
                    hint = f"up to {MAX_WIDTH_SPELT_OUT} bits; write ternary"
                    self.reporter.unsupported(keyset.at, what, hint)
                else:
                    keyset.value = tuple(ir.KeyMask(value, inverse) for value in range(inverse + 1))
            case _:
                wrong = False
        if wrong and key.match_kind == "lpm" and isinstance(keyset.value, ir.KeyMask):
            what = "a mask in a key of match kind lpm has ones, and behind them zeros"
            self.reporter.error(keyset.at, what, "write ternary in the key for any mask")
        elif wrong:
            form = "mask" if isinstance(keyset.value, ir.KeyMask) else "range"
            self.reporter.error(keyset.at, f"a {form} cannot stand in a key of match kind {key.match_kind}")


def _as_compared(value: object, width: int) -> object:
    """Return what an entry has for a key, written in the one way that all have who match the same."""
    ones = (1 << width) - 1
    match value:
        case ir.KeyMask(_, 0):
            return ir.KeyAny()
        case ir.KeyMask(number, mask):
            return ir.KeyMask(number & mask, mask)
        case ir.KeyRange(low, high) if low == high:
            return ir.KeyMask(low & ones, ones)
        case ir.KeyRange(0, high) if high == ones:
            return ir.KeyAny()
    return value


def _are_same(one: syntax.ActionElement, other: syntax.ActionElement) -> bool:
    """Return whether two have arguments, and the same."""
    given, there = one.arguments or [], other.arguments or []
    return 0 < len(given) == len(there) and all(map(same_text, given, there))


def _are_missing(
    element: syntax.ActionElement, directed: Sequence[ParameterSymbol], data: Sequence[ParameterSymbol]
) -> bool:
    """Return whether a default action or an entry gives nothing for parameters with a direction, and has to.

    Source: P4-16 Language Specification 1.2.5, "Default action".
    """
    if element.names is not None:
        return any(item.default is None for item in directed) and not any(
            item.name in element.names for item in directed
        )
    needed = sum(item.default is None for item in (*directed, *data))
    return bool(directed) and len(element.arguments or ()) <= min(len(data), needed - 1)


def _is_order_meant(
    written: Sequence[syntax.Expression],
    arranged: Sequence[syntax.Expression],
    parameters: Sequence[ParameterSymbol],
) -> bool:
    """Return whether it may matter in which order arguments are written: one calls something, or several are
    stored into.
    """
    kept = {id(item) for item in written}
    if [id(item) for item in written] == [id(item) for item in arranged if id(item) in kept]:
        return False  # default values may stand between them
    stored = sum(item.direction in ("out", "inout") for item in parameters)
    return stored > 1 or any(has_call(item) for item in written)


def _is_marked(element: syntax.ActionElement, mark: str) -> bool:
    return any(item.name == mark for item in element.annotations)


def _action_names(table: TableSymbol) -> set[str]:
    return {action.name for action in table.actions.values()}
