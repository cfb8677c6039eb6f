# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's TableEntry messages to and from the pipeline's table entries.

A match that accepts everything is left out of a message, as the specification demands. What the table
itself checks (ranges, priorities, the actions it allows, its size) is not checked here again.
Source: P4Runtime Specification 1.4, "TableEntry", "Match Format", "Action Specification".
"""

from __future__ import annotations

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Exact, KeyInfo, Lpm, Match, Optional, Range, TableEntry, Ternary

from .byte_string import decode_bytes, encode_bytes
from .messages import Message, messages
from .schema import TableSchema
from .value_text import match_anything


def matches_of_message(message: Message, table: TableSchema) -> tuple[Match, ...]:
    """Return the match of every key, in the order of the table's keys.

    Raises: ControlError: NOT_FOUND for an unknown field id, INVALID_ARGUMENT for a field given twice or
    of the wrong kind, a missing exact field, or a match that should have been left out; OUT_OF_RANGE for
    a value that is too wide.
    """
    keys = {key.id: key for key in table.keys}
    given: dict[int, Match] = {}
    for field in message.match:
        key = keys.get(field.field_id)
        if key is None:
            have = ", ".join(f"{key.id} ({key.name})" for key in table.keys)
            raise ControlError(
                P4RuntimeCode.NOT_FOUND,
                f"table {table.name} has no key of id {field.field_id}; it has {have or 'none'}",
            )
        if key.id in given:
            raise _illegal(f"table {table.name}: key {key.name} is given twice")
        given[key.id] = _match_of_field(field, key, table)
    return tuple(
        given.get(key.id) or match_anything(key.match_kind, key.width, f"table {table.name}: key {key.name}")
        for key in table.keys
    )


def call_of_message(message: Message, table: TableSchema, *, default: bool) -> tuple[str, tuple[int, ...]]:
    """Return the action and its data, in the order of its parameters, that a TableAction message names.

    `default` says that it is to be the table's default action.
    Raises: ControlError: INVALID_ARGUMENT for an action that the table does not have, for data missing or
    given twice; PERMISSION_DENIED for an action that may not stand here; UNIMPLEMENTED for members and
    groups of action profiles.
    """
    form = message.WhichOneof("type")
    if form is None:
        raise _illegal(f"table {table.name}: the entry has no action")
    if form != "action":
        raise ControlError(
            P4RuntimeCode.UNIMPLEMENTED,
            f"table {table.name}: {form} given; tables here take an action, no profiles",
        )
    action = table.action_of_id(message.action.action_id)
    if table.scopes[action.id] == ("table_only" if default else "default_only"):
        place = "may stand in entries only" if default else "may be the default action only"
        raise ControlError(
            P4RuntimeCode.PERMISSION_DENIED, f"table {table.name}: action {action.name} {place}"
        )
    parameters = {parameter.id: parameter for parameter in action.params}
    given: dict[int, int] = {}
    for param in message.action.params:
        parameter = parameters.get(param.param_id)
        if parameter is None:
            have = ", ".join(f"{item.id} ({item.name})" for item in action.params)
            raise _illegal(
                f"action {action.name} has no parameter of id {param.param_id}; it has {have or 'none'}"
            )
        if parameter.id in given:
            raise _illegal(f"action {action.name}: parameter {parameter.name} is given twice")
        what = f"action {action.name}: parameter {parameter.name}"
        given[parameter.id] = decode_bytes(param.value, parameter.width, what)
    missing = [parameter.name for parameter in action.params if parameter.id not in given]
    if missing:
        raise _illegal(f"action {action.name}: no value for parameter {', '.join(missing)}")
    return action.name, tuple(given[parameter.id] for parameter in action.params)


def entry_message(entry: TableEntry, table: TableSchema) -> Message:
    """Return the TableEntry message of an entry."""
    message = messages().TableEntry(table_id=table.id, priority=entry.priority)
    add_matches(message, entry.matches, table)
    fill_action(message, entry.action, entry.parameters, table)
    return message


def add_matches(message: Message, matches: tuple[Match, ...], table: TableSchema) -> None:
    """Add a FieldMatch for every match that does not accept everything."""
    for key, match in zip(table.keys, matches, strict=True):
        if key.match_kind != "exact" and match == match_anything(key.match_kind, key.width, key.name):
            continue
        field = message.match.add(field_id=key.id)
        match match:
            case Exact(value):
                field.exact.value = encode_bytes(value)
            case Lpm(value, prefix_len):
                field.lpm.value, field.lpm.prefix_len = encode_bytes(value), prefix_len
            case Ternary(value, mask):
                field.ternary.value, field.ternary.mask = encode_bytes(value), encode_bytes(mask)
            case Range(low, high):
                field.range.low, field.range.high = encode_bytes(low), encode_bytes(high)
            case Optional(maybe):
                field.optional.value = encode_bytes(maybe or 0)


def fill_action(message: Message, action_name: str, parameters: tuple[int, ...], table: TableSchema) -> None:
    """Set the action of a TableEntry message."""
    action = next(item for item in table.actions if item.name == action_name)
    message.action.action.action_id = action.id
    for parameter, value in zip(action.params, parameters, strict=True):
        message.action.action.params.add(param_id=parameter.id, value=encode_bytes(value))


def _match_of_field(field: Message, key: KeyInfo, table: TableSchema) -> Match:
    what = f"table {table.name}: key {key.name}"
    form = field.WhichOneof("field_match_type")
    if form != key.match_kind:
        raise _illegal(f"{what} is {key.match_kind}; {form or 'no'} match was given")
    width = key.width
    if form == "exact":
        return Exact(decode_bytes(field.exact.value, width, what))
    if form == "lpm":
        match: Match = Lpm(decode_bytes(field.lpm.value, width, what), field.lpm.prefix_len)
    elif form == "ternary":
        value = decode_bytes(field.ternary.value, width, what)
        match = Ternary(value, decode_bytes(field.ternary.mask, width, f"{what}: its mask"))
    elif form == "optional":
        match = Optional(decode_bytes(field.optional.value, width, what))
    else:
        low = decode_bytes(field.range.low, width, what)
        match = Range(low, decode_bytes(field.range.high, width, what))
    if match == match_anything(key.match_kind, width, what):
        raise _illegal(f"{what}: the match accepts every value; leave the field out instead")
    return match


def _illegal(sentence: str) -> ControlError:
    return ControlError(P4RuntimeCode.INVALID_ARGUMENT, sentence)
