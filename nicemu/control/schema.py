# SPDX-License-Identifier: Apache-2.0
"""A P4Info, looked up by name and by id.

The server makes its P4Info from the program it runs, the client from the message it is sent; both then
speak of the same tables. Names are found whole, or by any suffix behind a dot that only one has.
Source: P4Runtime Specification 1.4, "P4Info Objects".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import (
    METER_TYPES,
    ActionInfo,
    KeyInfo,
    P4Info,
    ParameterInfo,
    Prefix,
    TableInfo,
)

from .data_message import data_layouts
from .texts import Texts
from .translation import Translator


class ActionSchema:
    """One action, with the place of each parameter by its id."""

    def __init__(self, info: ActionInfo) -> None:
        self.name = info.name
        self.id = info.id
        self.params = info.params
        self.by_id = {item.id: (place, item.width) for place, item in enumerate(self.params)}


class TableSchema:
    """One table, with its actions looked up."""

    def __init__(
        self,
        info: TableInfo,
        actions: dict[int, ActionSchema],
        meter_type: str = METER_TYPES[0],
    ) -> None:
        self.info = info
        self.name = info.name
        self.id = info.id
        self.keys = info.keys
        self.owner = f"table {self.name}"
        self.has_profile = info.implementation_id != 0
        self.keys_by_id = {key.id: (place, key) for place, key in enumerate(self.keys)}
        prefixes = {number >> 24 for number in info.direct_resource_ids}
        self.has_counter = Prefix.DIRECT_COUNTER in prefixes
        self.has_meter = Prefix.DIRECT_METER in prefixes
        self.meter_type = meter_type
        self.scopes = {ref.id: ref.scope for ref in info.actions}
        self.actions = tuple(actions[ref.id] for ref in info.actions)
        self._actions_by_name = {action.name: action for action in self.actions}
        self._actions_by_id = {action.id: action for action in self.actions}
        self.has_priority = any(key.match_kind in ("ternary", "range", "optional") for key in self.keys)

    def key(self, name: str) -> KeyInfo:
        """Return the key of that name. Raises: ControlError(NOT_FOUND)."""
        return _find(name, self.keys, f"table {self.name}", "key")

    def action(self, name: str) -> ActionSchema:
        """Return the action of that name. Raises: ControlError(NOT_FOUND)."""
        return _find(name, self.actions, f"table {self.name}", "action")

    def action_named(self, full_name: str) -> ActionSchema:
        """Return the action of exactly that name, which the table has."""
        return self._actions_by_name[full_name]

    def action_of_id(self, action_id: int) -> ActionSchema:
        """Return the action of that id.

        Raises: ControlError(INVALID_ARGUMENT), as the specification wants.
        """
        action = self._actions_by_id.get(action_id)
        if action is not None:
            return action
        have = ", ".join(f"{action.name} ({action.id})" for action in self.actions)
        raise ControlError(
            P4RuntimeCode.INVALID_ARGUMENT,
            f"table {self.name} has no action of id {action_id}; it has {have or 'none'}",
        )


class Schema:
    """Every table of a P4Info; on a server with `texts`, which stand for values of translated types."""

    def __init__(self, p4info: P4Info, texts: Texts | None = None) -> None:
        self.p4info = p4info
        translator = Translator(p4info, texts) if texts is not None else None
        self.translator = translator if translator is not None and translator.is_needed else None
        actions = {action.id: ActionSchema(action) for action in p4info.actions}
        types = {meter.table_id: meter.type for meter in p4info.direct_meters}
        self.tables = tuple(
            TableSchema(info, actions, types.get(info.id, METER_TYPES[0])) for info in p4info.tables
        )
        self._by_id = {table.id: table for table in self.tables}
        self.layouts = data_layouts(p4info)
        self.digests = {digest.name: digest for digest in p4info.digests}
        self.packet_headers = {header.name: header for header in p4info.packet_metadata}
        self._actions = actions
        self._actions_by_name = {action.name: action for action in actions.values()}
        self._groups_of = {
            "action profile": p4info.profiles,
            "counter": p4info.counters,
            "meter": p4info.meters,
            "register": p4info.registers,
            "value set": p4info.value_sets,
            "digest": p4info.digests,
        }

    def table(self, name: str) -> TableSchema:
        """Return the table of that name. Raises: ControlError(NOT_FOUND)."""
        return _find(name, self.tables, "the program", "table")

    def items(self, noun: str, item_id: int) -> Sequence[Any]:
        """Return what has an id, or everything of this kind for 0: an action profile, counter, meter,
        register, value set or digest. Raises: ControlError(NOT_FOUND).
        """
        return self._groups_of[noun] if item_id == 0 else [self.item(noun, item_id)]

    def item(self, noun: str, item_id: int) -> Any:  # noqa: ANN401 - as many types as nouns
        """Return what has an id, likewise. Raises: ControlError(NOT_FOUND)."""
        for item in self._groups_of[noun]:
            if item.id == item_id:
                return item
        have = ", ".join(f"{item.name} ({item.id})" for item in self._groups_of[noun])
        raise ControlError(
            P4RuntimeCode.NOT_FOUND,
            f"there is no {noun} of id {item_id}; the program has {have or 'none'}",
        )

    def named(self, noun: str, name: str) -> Any:  # noqa: ANN401 - as many types as nouns
        """Return what has a name, or ends in it. Raises: ControlError(NOT_FOUND)."""
        return _find(name, self._groups_of[noun], "the program", noun)

    def action_of_id(self, action_id: int) -> ActionSchema:
        """Return the action of that id, whatever table has it. Raises: ControlError(INVALID_ARGUMENT)."""
        action = self._actions.get(action_id)
        if action is None:
            raise ControlError(P4RuntimeCode.INVALID_ARGUMENT, f"the program has no action of id {action_id}")
        return action

    def action(self, name: str) -> ActionSchema:
        """Return the action of that name. Raises: ControlError(NOT_FOUND)."""
        return _find(name, tuple(self._actions.values()), "the program", "action")

    def action_named(self, full_name: str) -> ActionSchema:
        """Return the action of exactly that name, which the program has."""
        return self._actions_by_name[full_name]

    def table_of_id(self, table_id: int) -> TableSchema:
        """Return the table of that id. Raises: ControlError(NOT_FOUND)."""
        table = self._by_id.get(table_id)
        if table is None:
            have = ", ".join(f"{table.name} ({table.id})" for table in self.tables)
            raise ControlError(
                P4RuntimeCode.NOT_FOUND,
                f"there is no table of id {table_id}; the program has {have or 'no table'}",
            )
        return table


def parameter_of(action: ActionSchema, name: str) -> ParameterInfo:
    """Return the parameter of that name. Raises: ControlError(NOT_FOUND)."""
    return _find(name, action.params, f"action {action.name}", "parameter")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=_Named)


def _find(name: str, items: Sequence[Item], owner: str, kind: str) -> Item:
    whole = [item for item in items if item.name == name]
    found = whole or [item for item in items if item.name.endswith("." + name)]
    if len(found) == 1:
        return found[0]
    if not found:
        sentence = f"{owner} has no {kind} {name!r}; it has {_listed(items)}"
    else:
        sentence = f"{owner} has several {kind}s {name!r}: {_listed(found)}; write more of the name"
    raise ControlError(P4RuntimeCode.NOT_FOUND, sentence)


def _listed(items: Iterable[_Named]) -> str:
    names = [item.name for item in items]
    return (
        ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        if names
        else "none"
    )
