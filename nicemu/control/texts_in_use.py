# SPDX-License-Identifier: Apache-2.0
"""Which texts of translated types the state of a program still names, so that the others can be given back.

Source: P4Runtime Specification 1.4, "User-defined types".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from nicemu.pipeline import Engine, Value

from .data_message import fill_data
from .entities import query_of
from .messages import Message, messages
from .schema import Schema
from .target import PipelineTarget


def show_all(target: PipelineTarget, schema: Schema) -> None:
    """Have each value of a translated type that a program's state holds be shown once, as to a controller."""
    translator = schema.translator
    if translator is None:
        return
    for entity in _holders(schema):
        query = query_of(entity, schema)
        for _ in query.render(target.run(query.take)):
            pass
    for register in translator.registers_with_texts():
        for value in target.run(partial(_values_of, register.name)):
            entity = messages().Entity()
            entity.register_entry.register_id = register.id
            fill_data(entity.register_entry.data, value, register.type, schema.layouts)
            translator.outgoing(entity)


def _holders(schema: Schema) -> Iterator[Message]:
    """Yield a wildcard for each kind of entity that may hold texts, registers aside."""
    for kind in ("table_entry", "action_profile_member", "value_set_entry"):
        entity = messages().Entity()
        getattr(entity, kind).SetInParent()
        yield entity
    for table in schema.tables:
        yield messages().Entity(table_entry={"table_id": table.id, "is_default_action": True})


def _values_of(register: str, engine: Engine) -> list[Value]:
    """Return what a register holds, each value once; it may have millions of places."""
    array = engine.objects.register(register)
    found = {repr(value): value for value in (*array.values.values(), array.others)}
    return [value for value in found.values() if value is not None]
