# SPDX-License-Identifier: Apache-2.0
"""What P4Runtime has entities for, and the file that knows each.

Source: P4Runtime Specification 1.4, "P4 Entity Messages".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from .array_entity import (
    counter_change,
    counter_query,
    meter_change,
    meter_query,
    register_change,
    register_query,
)
from .changes import Change, Query
from .digest_entity import digest_change, digest_query
from .messages import DELETE, INSERT, MODIFY, Message
from .profile_entity import group_change, group_query, member_change, member_query
from .refusals import illegal, unimplemented
from .replication_entity import replication_change, replication_query
from .schema import Schema
from .table_entity import (
    direct_counter_change,
    direct_counter_query,
    direct_meter_change,
    direct_meter_query,
    entry_change,
    entry_query,
)
from .texts import UnknownTextError
from .value_set_entity import value_set_change, value_set_query

_Changer: TypeAlias = Callable[[int, Message, Schema], Change]
_Asker: TypeAlias = Callable[[Message, Schema], Query]


def _extern_change(update_type: int, message: Message, schema: Schema) -> Change:
    raise unimplemented("extern_entry is not implemented: no extern has entities of its own here")


def _extern_query(message: Message, schema: Schema) -> Query:
    """Return the query for entities of externs that the specification does not know: there are none."""
    if message.extern_type_id or message.extern_id:
        _extern_change(0, message, schema)
    return Query(lambda engine: [], iter)


_ENTITIES: dict[str, tuple[_Changer, _Asker]] = {
    "table_entry": (entry_change, entry_query),
    "direct_counter_entry": (direct_counter_change, direct_counter_query),
    "direct_meter_entry": (direct_meter_change, direct_meter_query),
    "action_profile_member": (member_change, member_query),
    "action_profile_group": (group_change, group_query),
    "counter_entry": (counter_change, counter_query),
    "meter_entry": (meter_change, meter_query),
    "register_entry": (register_change, register_query),
    "packet_replication_engine_entry": (replication_change, replication_query),
    "value_set_entry": (value_set_change, value_set_query),
    "digest_entry": (digest_change, digest_query),
    "extern_entry": (_extern_change, _extern_query),
}


def change_of(update: Message, schema: Schema) -> Change:
    """Return the change that an Update means. Raises: ControlError."""
    if update.type not in (INSERT, MODIFY, DELETE):
        raise illegal(f"update type is {update.type}; INSERT (1), MODIFY (2) or DELETE (3) was expected")
    entity = update.entity
    form = _form_of(entity)
    if schema.translator is not None:
        entity = schema.translator.incoming(entity, allot=update.type != DELETE)
    return _ENTITIES[form][0](update.type, getattr(entity, form), schema)


def query_of(entity: Message, schema: Schema) -> Query:
    """Return the query that an Entity in a ReadRequest means. Raises: ControlError."""
    form = _form_of(entity)
    translator = schema.translator
    if translator is None:
        return _ENTITIES[form][1](getattr(entity, form), schema)
    try:
        entity = translator.incoming(entity, allot=False)
    except UnknownTextError:
        if form != "table_entry":
            raise
        return Query(lambda engine: [], iter)
    query = _ENTITIES[form][1](getattr(entity, form), schema)
    shown = translator.at_present()
    return replace(query, render=lambda seen: map(shown.outgoing, query.render(seen)))


def _form_of(entity: Message) -> str:
    form = entity.WhichOneof("entity")
    if form is None:
        raise illegal(f"the entity is empty; one of {', '.join(_ENTITIES)} was expected")
    if form not in _ENTITIES:
        raise unimplemented(f"{form} is not implemented; there is {', '.join(_ENTITIES)}")
    known: str = form
    return known
