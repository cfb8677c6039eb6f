# SPDX-License-Identifier: Apache-2.0
"""ActionProfileMember and ActionProfileGroup: updates as changes, reads as queries.

Source: P4Runtime Specification 1.4, "ActionProfileMember & ActionProfileGroup".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from nicemu.pipeline import ActionProfile, Engine, ProfileInfo, ir

from .changes import Change, Query, Undo
from .entry_message import check_scope, fill_call, parameters_of_message
from .messages import DELETE, INSERT, Message, messages
from .refusals import illegal
from .schema import Schema
from .watch import Watch, fill_watch, watch_of

Item = TypeVar("Item")


@dataclass(slots=True)
class ChangeMember:
    """Add a member, give it another action, or remove it."""

    update_type: int
    profile: str
    member: int
    call: ir.ActionCall

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        profile = _profile(engine, self.profile)
        if self.update_type == DELETE:
            profile.delete_member(self.member)
        elif self.update_type == INSERT:
            profile.insert_member(self.member, self.call)
        else:
            profile.modify_member(self.member, self.call)

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        members = _profile(engine, self.profile).members
        present = members.get(self.member)

        def put_back() -> None:
            members.pop(self.member, None)
            if present is not None:
                members[self.member] = present

        return put_back


@dataclass(slots=True)
class ChangeProfileGroup:
    """Add a group of members with their weights, change or remove it."""

    update_type: int
    profile: str
    group: int
    members: tuple[tuple[int, int], ...]
    max_size: int
    watched: tuple[Watch, ...] = ()

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        profile = _profile(engine, self.profile)
        if self.update_type == DELETE:
            profile.delete_group(self.group)
            return
        if self.update_type == INSERT:
            profile.insert_group(self.group, self.members, self.max_size)
        else:
            profile.modify_group(self.group, self.members, self.max_size)
        profile.notes[self.group] = self.watched

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        profile = _profile(engine, self.profile)
        present, max_size = profile.groups.get(self.group), profile.max_sizes.get(self.group, 0)
        note = profile.notes.get(self.group)

        def put_back() -> None:
            profile.put_back_group(self.group, present, max_size)
            if present is not None:
                profile.notes[self.group] = note

        return put_back


def member_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of an ActionProfileMember means. Raises: ControlError."""
    profile: ProfileInfo = schema.item("action profile", message.action_profile_id)
    _check_id(message.member_id, f"action profile {profile.name}: member_id")
    call = ir.ActionCall("")
    if update_type != DELETE:
        if not message.HasField("action"):
            raise illegal(f"action profile {profile.name}: member {message.member_id} has no action")
        action = schema.action_of_id(message.action.action_id)
        for table in schema.tables:
            if table.info.implementation_id == profile.id and action.id in table.scopes:
                check_scope(action, table, default=False)
        call = ir.ActionCall(action.name, parameters_of_message(message.action, action))
    return ChangeMember(update_type, profile.name, message.member_id, call)


def group_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of an ActionProfileGroup means. Raises: ControlError."""
    profile: ProfileInfo = schema.item("action profile", message.action_profile_id)
    what = f"action profile {profile.name}"
    _check_id(message.group_id, f"{what}: group_id")
    members, watched = [], []
    if update_type != DELETE:
        if message.max_size < 0:
            raise illegal(f"{what}: max_size is {message.max_size}; 0 or more was expected")
        most = profile.limits.max_group_size
        if most and not 0 < message.max_size <= most:
            raise illegal(
                f"{what}: max_size is {message.max_size}; 1 to {most}, its max_group_size, was expected"
            )
        for member in message.members:
            members.append((member.member_id, member.weight))
            watched.append(watch_of(member, what))
    return ChangeProfileGroup(
        update_type, profile.name, message.group_id, tuple(members), message.max_size, tuple(watched)
    )


def member_query(message: Message, schema: Schema) -> Query:
    """Return the query that an ActionProfileMember in a ReadRequest means. Raises: ControlError."""
    profiles: list[ProfileInfo] = list(schema.items("action profile", message.action_profile_id))
    wanted = message.member_id

    def take(engine: Engine) -> list[tuple[ProfileInfo, int, ir.ActionCall]]:
        return [
            (info, number, call)
            for info in profiles
            for number, call in _asked_for(_profile(engine, info.name).members, wanted)
        ]

    def render(seen: list[tuple[ProfileInfo, int, ir.ActionCall]]) -> Iterator[Message]:
        for info, number, call in seen:
            entity = messages().Entity()
            member = entity.action_profile_member
            member.action_profile_id, member.member_id = info.id, number
            fill_call(member.action, call.parameters, schema.action_named(call.action))
            yield entity

    return Query(take, render)


def group_query(message: Message, schema: Schema) -> Query:
    """Return the query that an ActionProfileGroup in a ReadRequest means. Raises: ControlError."""
    profiles: list[ProfileInfo] = list(schema.items("action profile", message.action_profile_id))
    wanted = message.group_id

    def take(engine: Engine) -> list[_SeenGroup]:
        return [
            _SeenGroup(info.id, number, profile.max_sizes[number], members, profile.notes.get(number))
            for info in profiles
            for profile in [_profile(engine, info.name)]
            for number, members in _asked_for(profile.groups, wanted)
        ]

    def render(seen: list[_SeenGroup]) -> Iterator[Message]:
        for item in seen:
            entity = messages().Entity()
            group = entity.action_profile_group
            group.action_profile_id, group.group_id, group.max_size = item.profile, item.group, item.max_size
            for place, (member, weight) in enumerate(item.members):
                added = group.members.add(member_id=member, weight=weight)
                if isinstance(item.watched, tuple):
                    fill_watch(added, item.watched[place])
            yield entity

    return Query(take, render, lambda seen: sum(1 + len(item.members) for item in seen))


@dataclass(frozen=True, slots=True)
class _SeenGroup:
    """A group as it was."""

    profile: int
    group: int
    max_size: int
    members: tuple[tuple[int, int], ...]
    watched: object


def _asked_for(items: Mapping[int, Item], wanted: int) -> list[tuple[int, Item]]:
    """Return the item of that number, or all for 0."""
    if wanted == 0:
        return list(items.items())
    return [(wanted, items[wanted])] if wanted in items else []


def _profile(engine: Engine, name: str) -> ActionProfile:
    profile: ActionProfile = engine.objects.states[name]
    return profile


def _check_id(number: int, what: str) -> None:
    if number == 0:
        raise illegal(f"{what} is 0, which stands for all; write a number above 0")
