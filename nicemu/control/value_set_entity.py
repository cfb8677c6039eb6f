# SPDX-License-Identifier: Apache-2.0
"""ValueSetEntry: updates and reads. Source: P4Runtime Specification 1.4, "ValueSetEntry"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import Engine, Match, ValueSetInfo

from .changes import Change, Query, Undo
from .entry_message import add_matches, matches_of_fields
from .messages import MODIFY, Message, messages
from .refusals import illegal
from .schema import Schema

Members: TypeAlias = tuple[tuple[Match, ...], ...]


@dataclass(slots=True)
class SetMembers:
    """Give a value set its members."""

    name: str
    members: Members

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        engine.objects.value_sets[self.name].replace(self.members)

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        value_set = engine.objects.value_sets[self.name]
        present = list(value_set.members)
        return lambda: value_set.replace(present)


def value_set_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of a ValueSetEntry means. Raises: ControlError."""
    if update_type != MODIFY:
        raise illegal("a value set is always there; MODIFY it, do not INSERT or DELETE")
    info: ValueSetInfo = schema.item("value set", message.value_set_id)
    keys = {key.id: (place, key) for place, key in enumerate(info.keys)}
    owner = f"value set {info.name}"
    members = tuple(matches_of_fields(member.match, keys, owner) for member in message.members)
    if len(set(members)) != len(members):
        raise ControlError(P4RuntimeCode.ALREADY_EXISTS, f"{owner}: a member is given twice")
    return SetMembers(info.name, members)


def value_set_query(message: Message, schema: Schema) -> Query:
    """Return the query that a ValueSetEntry in a ReadRequest means. Raises: ControlError."""
    infos: list[ValueSetInfo] = list(schema.items("value set", message.value_set_id))

    def take(engine: Engine) -> list[tuple[ValueSetInfo, Members]]:
        return [(info, tuple(engine.objects.value_sets[info.name].members)) for info in infos]

    def render(seen: list[tuple[ValueSetInfo, Members]]) -> Iterator[Message]:
        for info, members in seen:
            entity = messages().Entity()
            entity.value_set_entry.value_set_id = info.id
            for member in members:
                add_matches(entity.value_set_entry.members.add().match, member, info.keys)
            yield entity

    return Query(take, render, lambda seen: sum(1 + len(members) for _, members in seen))
