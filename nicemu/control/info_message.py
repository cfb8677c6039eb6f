# SPDX-License-Identifier: Apache-2.0
"""P4Info as P4Runtime's message, to and from the pipeline's own description.

Every table gets a direct counter of packets in the message: the hits of its entries, which Read can ask for.
Source: P4Runtime Specification 1.4, "The P4Info Message"; p4info.proto.
"""

from __future__ import annotations

import json
from typing import Any

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import P4Info, allocate_ids

from .messages import Message, messages

_MATCH_TYPES = {"exact": 2, "lpm": 3, "ternary": 4, "range": 5, "optional": 6}
"""MatchField.MatchType. Its OPTIONAL (6) has no counterpart in the pipeline."""
_MATCH_KINDS = {number: kind for kind, number in _MATCH_TYPES.items()}
_SCOPES = ("both", "table_only", "default_only")
"""ActionRef.Scope, by number."""
_DIRECT_COUNTER_PREFIX = 0x13
_PACKETS = 2
"""CounterSpec.Unit."""


def info_message(p4info: P4Info) -> Message:
    """Return the P4Info message of a program's description."""
    message = messages().P4Info()
    message.pkg_info.name, message.pkg_info.arch = p4info.program, p4info.architecture
    counter_ids = allocate_ids(_DIRECT_COUNTER_PREFIX, {table.name: 0 for table in p4info.tables})
    for table in p4info.tables:
        item = message.tables.add(
            size=table.size,
            is_const_table=table.const_entries,
            const_default_action_id=table.const_default_action_id,
            direct_resource_ids=[counter_ids[table.name]],
        )
        _fill_preamble(item.preamble, table.id, table.name, table.alias)
        for key in table.keys:
            item.match_fields.add(
                id=key.id, name=key.name, bitwidth=key.width, match_type=_MATCH_TYPES[key.match_kind]
            )
        for ref in table.actions:
            item.action_refs.add(id=ref.id, scope=_SCOPES.index(ref.scope))
    for action in p4info.actions:
        item = message.actions.add()
        _fill_preamble(item.preamble, action.id, action.name, action.alias)
        for param in action.params:
            item.params.add(id=param.id, name=param.name, bitwidth=param.width)
    for table in p4info.tables:
        counter = message.direct_counters.add(direct_table_id=table.id)
        _fill_preamble(counter.preamble, counter_ids[table.name], table.name, table.alias)
        counter.spec.unit = _PACKETS
    return message


def p4info_of_message(message: Message) -> P4Info:
    """Return the description that a P4Info message holds.

    Raises: ControlError(INVALID_ARGUMENT) for ids that occur twice or refer to nothing, and for kinds of
    match that the pipeline does not have.
    """
    actions: dict[int, str] = {}
    for action in message.actions:
        _add_once(actions, action.preamble, "action")
    tables: dict[int, str] = {}
    for table in message.tables:
        _add_once(tables, table.preamble, "table")
    document = {
        "program": message.pkg_info.name,
        "architecture": message.pkg_info.arch,
        "tables": [_table_document(table, actions) for table in message.tables],
        "actions": [
            _preamble_document(action.preamble)
            | {
                "params": [
                    {"name": item.name, "id": item.id, "width": item.bitwidth} for item in action.params
                ]
            }
            for action in message.actions
        ],
    }
    return P4Info.from_json(json.dumps(document))


def _table_document(table: Message, actions: dict[int, str]) -> dict[str, Any]:
    name = table.preamble.name
    for ref in table.action_refs:
        if ref.id not in actions:
            raise _illegal(f"table {name} refers to an action of id {ref.id}, which p4info does not have")
    for field in table.match_fields:
        if field.match_type not in _MATCH_KINDS:
            kinds = ", ".join(f"{kind} ({number})" for kind, number in _MATCH_TYPES.items())
            found = field.other_match_type or field.match_type
            raise _illegal(f"table {name}: key {field.name} has match type {found}; the pipeline has {kinds}")
    return _preamble_document(table.preamble) | {
        "size": table.size,
        "keys": [
            {
                "name": key.name,
                "id": key.id,
                "width": key.bitwidth,
                "match_kind": _MATCH_KINDS[key.match_type],
            }
            for key in table.match_fields
        ],
        "actions": [
            {"name": actions[ref.id], "id": ref.id, "scope": _SCOPES[ref.scope if 0 <= ref.scope < 3 else 0]}
            for ref in table.action_refs
        ],
        "const_entries": table.is_const_table,
        "const_default_action_id": table.const_default_action_id,
    }


def _preamble_document(preamble: Message) -> dict[str, Any]:
    return {"name": preamble.name, "alias": preamble.alias, "id": preamble.id}


def _fill_preamble(preamble: Message, item_id: int, name: str, alias: str) -> None:
    preamble.id, preamble.name, preamble.alias = item_id, name, alias


def _add_once(seen: dict[int, str], preamble: Message, kind: str) -> None:
    if preamble.id in seen:
        raise _illegal(f"{kind} id {preamble.id} occurs twice: {seen[preamble.id]}, {preamble.name}")
    seen[preamble.id] = preamble.name


def _illegal(sentence: str) -> ControlError:
    return ControlError(P4RuntimeCode.INVALID_ARGUMENT, f"p4info: {sentence}")
