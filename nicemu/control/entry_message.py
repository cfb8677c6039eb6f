# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's TableEntry messages to and from the pipeline's table entries.

A match that accepts everything is left out of a message, as the specification demands. What the table
itself checks (ranges, priorities, the actions it allows, its size) is not checked here again.
Source: P4Runtime Specification 1.4, "TableEntry", "Match Format", "Action Specification".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import TypeAlias, cast

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import (
    ActionSet,
    Choice,
    Exact,
    Group,
    KeyInfo,
    Lpm,
    Match,
    Member,
    Optional,
    Range,
    TableEntry,
    Ternary,
    ir,
)

from .byte_string import decode_bytes, encode_bytes
from .messages import Message, messages
from .refusals import illegal, unimplemented
from .schema import ActionSchema, TableSchema
from .value_text import match_anything
from .watch import fill_watch, watch_of


def matches_of_message(message: Message, table: TableSchema) -> tuple[Match, ...]:
    """Return the match of every key, in the order of the table's keys.

    Raises: ControlError: INVALID_ARGUMENT for an unknown field id, a field given twice or of the wrong kind,
    a missing exact field, or a match that should have been left out; OUT_OF_RANGE for a value that is too
    wide.
    """
    return matches_of_fields(message.match, table.keys_by_id, table.owner)


def matches_of_fields(
    fields: Iterable[Message], keys: Mapping[int, tuple[int, KeyInfo]], owner: str
) -> tuple[Match, ...]:
    """Return the match of every key; `keys` has each with its place by its id. Raises: ControlError, as
    above.
    """
    given: list[Match | None] = [None] * len(keys)
    missing = len(keys)
    for field in fields:
        found = keys.get(field.field_id)
        if found is None:
            have = ", ".join(f"{key.id} ({key.name})" for _, key in keys.values())
            raise illegal(f"{owner} has no key of id {field.field_id}; it has {have or 'none'}")
        place, key = found
        if given[place] is not None:
            raise illegal(f"{owner}: key {key.name} is given twice")
        given[place] = _match_of_field(field, key, owner)
        missing -= 1
    if missing:
        for place, key in keys.values():
            if given[place] is None:
                given[place] = match_anything(key.match_kind, key.width, f"{owner}: key {key.name}")
    return cast("tuple[Match, ...]", tuple(given))


Call: TypeAlias = tuple[str, tuple[int, ...], Choice | None]
"""An action's name and data; or "", nothing, and what stands for them in a table with an action profile."""


def call_of_message(message: Message, table: TableSchema, *, default: bool) -> Call:
    """Return what a TableAction message names: an action with its data, in the order of its parameters, or
    a member, group or set of actions of the table's profile.

    `default` says that it is to be the table's default action.
    Raises: ControlError: INVALID_ARGUMENT for an action that the table does not have, for data missing or
    given twice, for an action where the table has a profile, or the other way round; PERMISSION_DENIED for an
    action that may not stand here.
    """
    form = message.WhichOneof("type")
    if form is None:
        raise illegal(f"{table.owner}: the entry has no action")
    has_profile = table.has_profile and not default
    if (form == "action") is has_profile:
        wanted = "a member, group or set of its action profile" if has_profile else "an action"
        takes = "its default entry takes" if default else "its entries take"
        raise illegal(f"{table.owner}: {form} given; {takes} {wanted}")
    if form == "action_profile_member_id":
        return "", (), Member(message.action_profile_member_id)
    if form == "action_profile_group_id":
        return "", (), Group(message.action_profile_group_id)
    if form == "action_profile_action_set":
        return "", (), _set_of_message(message.action_profile_action_set, table)
    call = message.action
    action = table.action_of_id(call.action_id)
    check_scope(action, table, default=default)
    return action.name, parameters_of_message(call, action), None


def check_scope(action: ActionSchema, table: TableSchema, *, default: bool) -> None:
    """Raise ControlError(PERMISSION_DENIED) if an action of a table may not stand in its entries, or may not
    be its default action.
    """
    if table.scopes[action.id] == ("table_only" if default else "default_only"):
        place = "may stand in entries only" if default else "may be the default action only"
        raise ControlError(P4RuntimeCode.PERMISSION_DENIED, f"{table.owner}: action {action.name} {place}")


def parameters_of_message(message: Message, action: ActionSchema) -> tuple[int, ...]:
    """Return the data of an Action message, in the order of the action's parameters.

    Raises: ControlError: INVALID_ARGUMENT for data missing, unknown or given twice, OUT_OF_RANGE for a value
    that is too wide.
    """
    given: list[int | None] = [None] * len(action.params)
    missing = len(given)
    for param in message.params:
        found = action.by_id.get(param.param_id)
        if found is None:
            have = ", ".join(f"{item.id} ({item.name})" for item in action.params)
            raise illegal(
                f"action {action.name} has no parameter of id {param.param_id}; it has {have or 'none'}"
            )
        place, width = found
        data = param.value
        number = int.from_bytes(data, "big")
        if given[place] is not None or not data or number >> width:
            what = f"action {action.name}: parameter {action.params[place].name}"
            decode_bytes(data, width, what)
            raise illegal(f"{what} is given twice")
        given[place] = number
        missing -= 1
    if missing:
        names = [item.name for item, value in zip(action.params, given, strict=True) if value is None]
        raise illegal(f"action {action.name}: no value for parameter {', '.join(names)}")
    return cast("tuple[int, ...]", tuple(given))


def _set_of_message(message: Message, table: TableSchema) -> ActionSet:
    if message.action_selection_mode or message.size_semantics or message.HasField("group_action"):
        raise unimplemented(
            f"{table.owner}: sets are chosen from by the selector's hash, and sized by their weights; leave "
            "group_action, action_selection_mode and size_semantics out"
        )
    actions, watched = [], []
    for item in message.action_profile_actions:
        action = table.action_of_id(item.action.action_id)
        check_scope(action, table, default=False)
        call = ir.ActionCall(action.name, parameters_of_message(item.action, action))
        actions.append((call, item.weight))
        watched.append(watch_of(item, table.owner))
    return ActionSet(tuple(actions), tuple(watched) if any(watched) else ())


def entry_message(entry: TableEntry, table: TableSchema) -> Message:
    """Return the TableEntry message of an entry."""
    message = messages().TableEntry(table_id=table.id, priority=entry.priority)
    message.idle_timeout_ns = entry.idle_timeout_ns
    add_matches(message.match, entry.matches, table.keys)
    fill_action(message.action, entry, table)
    return message


def add_matches(fields: Message, matches: Iterable[Match], keys: Iterable[KeyInfo]) -> None:
    """Add a FieldMatch for every match that does not accept everything."""
    for key, match in zip(keys, matches, strict=True):
        if key.match_kind != "exact" and match == match_anything(key.match_kind, key.width, key.name):
            continue
        field = fields.add(field_id=key.id)
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


def fill_action(message: Message, entry: TableEntry | ir.ActionCall, table: TableSchema) -> None:
    """Set a TableAction message to what an entry, or a table's default, runs."""
    match entry:
        case TableEntry(choice=Member(number)):
            message.action_profile_member_id = number
        case TableEntry(choice=Group(number)):
            message.action_profile_group_id = number
        case TableEntry(choice=ActionSet(actions, watched)):
            message.action_profile_action_set.SetInParent()
            for (call, weight), watch in zip_longest(actions, watched):
                item = message.action_profile_action_set.action_profile_actions.add(weight=weight)
                fill_call(item.action, call.parameters, table.action_named(call.action))
                fill_watch(item, watch)
        case _:
            fill_call(message.action, entry.parameters, table.action_named(entry.action))


def fill_call(message: Message, parameters: Iterable[int], action: ActionSchema) -> None:
    """Set an Action message."""
    message.action_id = action.id
    for parameter, value in zip(action.params, parameters, strict=True):
        message.params.add(param_id=parameter.id, value=encode_bytes(value))


def _match_of_field(field: Message, key: KeyInfo, owner: str) -> Match:
    width = key.width
    if key.match_kind == "exact" and (data := field.exact.value):
        value = int.from_bytes(data, "big")
        if not value >> width:
            return Exact(value)
    form = field.WhichOneof("field_match_type")
    if form != key.match_kind:
        raise illegal(f"{owner}: key {key.name} is {key.match_kind}; {form or 'no'} match was given")
    what = f"{owner}: key {key.name}"
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
        raise illegal(f"{what}: the match accepts every value; leave the field out instead")
    return match
