# SPDX-License-Identifier: Apache-2.0
"""Values, matches and entries as text and JSON that `value_text` and `nicemu.switch` read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from nicemu.pipeline import (
    ActionSet,
    Exact,
    Group,
    KeyInfo,
    Lpm,
    Match,
    Member,
    Optional,
    ParameterInfo,
    Range,
    TableEntry,
    Ternary,
    ir,
)

from .refusals import unimplemented
from .text_values import TextValues
from .value_text import ANY, TEXT_BITS, text_of

_SMALL_BITS = 16


class NamedAction(Protocol):
    """An action as a controller knows it."""

    @property
    def name(self) -> str:
        """Its full name."""

    @property
    def params(self) -> Sequence[ParameterInfo]:
        """Its action data."""


def number_text(value: int, width_bits: int) -> str:
    """Return a number in decimal if it is small, else in hexadecimal; or the text that it is."""
    if width_bits == TEXT_BITS:
        return text_of(value)
    return str(value) if width_bits <= _SMALL_BITS else f"{value:#x}"


def match_text(match: Match, width_bits: int) -> str:
    """Return a match as `parse_match` reads it."""
    ones = (1 << width_bits) - 1
    match match:
        case Lpm(_, 0) | Ternary(_, 0) | Optional(None):
            return ANY
        case Optional(maybe):
            return number_text(maybe or 0, width_bits)
        case Range(low, high) if (low, high) == (0, ones):
            return ANY
        case Exact(value):
            return number_text(value, width_bits)
        case Lpm(value, prefix_len):
            return f"{number_text(value, width_bits)}/{prefix_len}"
        case Ternary(value, mask):
            return f"{number_text(value, width_bits)}&&&{mask:#x}"
        case Range(low, high):
            return f"{number_text(low, width_bits)}..{number_text(high, width_bits)}"


def matches_json(
    keys: Sequence[KeyInfo], matches: Sequence[Match], values: TextValues | None = None
) -> dict[str, str]:
    """Return matches by the names of their keys; `values` has the texts that stand for numbers."""

    def shown(key: KeyInfo, match: Match) -> str:
        if values is not None and key.type_name in values:
            match match:
                case Exact(value) | Optional(int(value)):
                    text = values.text(key.type_name, value)
                    if text == ANY:
                        raise unimplemented(f"key {key.name} is the text {text}, which means anything here")
                    return text
        return match_text(match, key.width)

    return {key.name: shown(key, match) for key, match in zip(keys, matches, strict=True)}


def call_json(
    actions: Iterable[NamedAction], call: ir.ActionCall, values: TextValues | None = None
) -> dict[str, Any]:
    """Return an action with its data by name; `values` as for `matches_json`."""

    def shown(param: ParameterInfo, value: int) -> str:
        if values is not None and param.type_name in values:
            return values.text(param.type_name, value)
        return number_text(value, param.width)

    params = next(action.params for action in actions if action.name == call.action)
    pairs = zip(params, call.parameters, strict=True)
    return {"name": call.action, "parameters": {param.name: shown(param, value) for param, value in pairs}}


def choice_json(
    actions: Sequence[NamedAction], entry: TableEntry, values: TextValues | None = None
) -> Mapping[str, Any]:
    """Return what an entry runs: under one of action, member, group and actions."""
    match entry.choice:
        case Member(number):
            return {"member": number}
        case Group(number):
            return {"group": number}
        case ActionSet(calls):
            told = [{**call_json(actions, call, values), "weight": weight} for call, weight in calls]
            return {"actions": told}
        case _:
            return {"action": call_json(actions, ir.ActionCall(entry.action, entry.parameters), values)}


def entry_json(
    keys: Sequence[KeyInfo],
    actions: Sequence[NamedAction],
    entry: TableEntry,
    values: TextValues | None = None,
) -> dict[str, Any]:
    """Return an entry of a table with these keys and actions; `values` as for `matches_json`."""
    timeout = {"idle_timeout_ns": entry.idle_timeout_ns} if entry.idle_timeout_ns else {}
    return {
        "keys": matches_json(keys, entry.matches, values),
        "priority": entry.priority,
        **choice_json(actions, entry, values),
        **timeout,
    }
