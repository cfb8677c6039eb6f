# SPDX-License-Identifier: Apache-2.0
"""Which texts of translated types the state of a program still names, so that the others can be given back.

Source: P4Runtime Specification 1.4, "User-defined types".
"""

from __future__ import annotations

from collections.abc import Iterator

from .entities import query_of
from .messages import Message, messages
from .schema import Schema
from .target import PipelineTarget


def show_all(target: PipelineTarget, schema: Schema) -> None:
    """Have each value of a translated type that a program's state holds be shown once, as to a controller."""
    for entity in _holders(schema):
        query = query_of(entity, schema)
        for _ in query.render(target.run(query.take)):
            pass


def _holders(schema: Schema) -> Iterator[Message]:
    """Yield a wildcard for each kind of entity that may hold texts."""
    translator = schema.translator
    if translator is None:
        return
    for kind in ("table_entry", "action_profile_member", "value_set_entry"):
        entity = messages().Entity()
        getattr(entity, kind).SetInParent()
        yield entity
    for table in schema.tables:
        yield messages().Entity(table_entry={"table_id": table.id, "is_default_action": True})
    for register in translator.registers_with_texts():
        yield messages().Entity(register_entry={"register_id": register})
