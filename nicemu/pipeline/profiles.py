# SPDX-License-Identifier: Apache-2.0
"""Action profiles and selectors: actions with their data that several entries of tables share.

Source: P4Runtime Specification 1.4, "ActionProfileMember & ActionProfileGroup"; BMv2's selection of a group's
member, the hash of the selector keys modulo the number of its members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from nicemu.errors import ControlError, P4RuntimeCode, counted

from . import ir
from .selector_limits import NO_LIMITS, SelectorLimits


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a profile, by its number."""

    id: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group of a selector's members, by its number."""

    id: int


@dataclass(frozen=True, slots=True)
class ActionSet:
    """Actions of an entry's own, each with its weight. `notes` are what the controller keeps with them."""

    actions: tuple[tuple[ir.ActionCall, int], ...]
    notes: tuple[Hashable, ...] = ()


MAX_GROUPS = 65_536
"""Groups of one selector, which may all be empty."""

Choice: TypeAlias = Member | Group | ActionSet


@dataclass(slots=True, eq=False)
class ActionProfile:
    """The members of a profile and the groups of a selector; a profile has no `algorithm` and no groups.

    `size` is how many members there may be, and how large all groups together, as `limits` counts; `actions`
    are those that all tables that use the profile have, with the widths of their data in bits.
    """

    name: str
    size: int
    algorithm: int | None = None
    members: dict[int, ir.ActionCall] = field(default_factory=dict)
    groups: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    max_sizes: dict[int, int] = field(default_factory=dict)
    """How large each group may be, 0 for as large as there is room."""
    notes: dict[int, Hashable] = field(default_factory=dict)
    """What the controller keeps with a group."""
    actions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    limits: SelectorLimits = NO_LIMITS
    _is_used: bool = False
    """Whether a table uses the profile."""
    _uses: Counter[Choice] = field(default_factory=Counter)
    _choices: int = 0
    """Entries that have chosen, some of them in one shot; `_shot_size` is how large the sets of these are."""
    _one_shots: int = 0
    _shot_size: int = 0
    _group_size: int = 0
    """How large all groups are together."""
    _holders: Counter[int] = field(default_factory=Counter)
    """How many groups hold each member."""

    def serve(self, actions: dict[str, tuple[int, ...]]) -> None:
        """Be used by a table that has these actions, before there is any member.

        Source: P4Runtime Specification 1.4, "ActionProfileMember & ActionProfileGroup".
        """
        kept = self.actions if self._is_used else actions
        self.actions = {name: widths for name, widths in kept.items() if name in actions}
        self._is_used = True

    def insert_member(self, member: int, call: ir.ActionCall) -> None:
        """Add a member. Raises: ControlError."""
        if member in self.members:
            raise self._error(P4RuntimeCode.ALREADY_EXISTS, f"has a member {member} already; modify it")
        if len(self.members) >= self.size:
            raise self._error(P4RuntimeCode.RESOURCE_EXHAUSTED, f"is full: its size is {self.size} members")
        self.check_call(call)
        self.members[member] = call

    def modify_member(self, member: int, call: ir.ActionCall) -> None:
        """Give a member another action; every entry that uses it does at once. Raises: ControlError."""
        self._member(member)
        self.check_call(call)
        self.members[member] = call

    def delete_member(self, member: int) -> None:
        """Remove a member that nothing uses. Raises: ControlError."""
        self._member(member)
        if self._uses[Member(member)] or self._holders[member]:
            raise self._error(
                P4RuntimeCode.FAILED_PRECONDITION, f"member {member} is used by a group or an entry"
            )
        del self.members[member]
        del self._holders[member]

    def insert_group(self, group: int, members: tuple[tuple[int, int], ...], max_size: int = 0) -> None:
        """Add a group of (member, weight). Raises: ControlError."""
        if group in self.groups:
            raise self._error(P4RuntimeCode.ALREADY_EXISTS, f"has a group {group} already; modify it")
        if max_size > self.size:
            raise self._error(
                P4RuntimeCode.RESOURCE_EXHAUSTED, f"max_size {max_size} given; its size is {self.size}"
            )
        if len(self.groups) >= MAX_GROUPS:
            raise self._error(P4RuntimeCode.RESOURCE_EXHAUSTED, f"has {MAX_GROUPS} groups, and takes no more")
        self._set_group(group, members, max_size)
        self.max_sizes[group] = max_size

    def modify_group(
        self, group: int, members: tuple[tuple[int, int], ...], max_size: int | None = None
    ) -> None:
        """Replace what a group holds; its `max_size` cannot be changed. Raises: ControlError."""
        self._group(group)
        present = self.max_sizes[group]
        if max_size not in (None, present):
            raise self._error(
                P4RuntimeCode.INVALID_ARGUMENT,
                f"group {group} was made with max_size {present}; {max_size} given",
            )
        self._set_group(group, members, present)

    def delete_group(self, group: int) -> None:
        """Remove a group that no entry uses. Raises: ControlError."""
        self._group(group)
        if self._uses[Group(group)]:
            raise self._error(P4RuntimeCode.FAILED_PRECONDITION, f"group {group} is used by an entry")
        self._hold(group, ())
        del self.groups[group], self.max_sizes[group]
        self.notes.pop(group, None)

    def put_back_group(self, group: int, members: tuple[tuple[int, int], ...] | None, max_size: int) -> None:
        """Have a group be as it was, unchecked: the members that it held may be put back after it."""
        self._hold(group, members or ())
        self.groups.pop(group, None)
        self.max_sizes.pop(group, None)
        if members is not None:
            self.groups[group], self.max_sizes[group] = members, max_size

    def use(self, choice: Choice) -> None:
        """Note that an entry names a member, group or set. Raises: ControlError if there is no such thing,
        or if other entries have chosen the other way: in one shot, or by members and groups.
        """
        one_shot = isinstance(choice, ActionSet)
        others = self._choices - self._one_shots if one_shot else self._one_shots
        if others:
            raise self._error(
                P4RuntimeCode.INVALID_ARGUMENT,
                "is used with sets of actions, and with members or groups; choose one of both ways",
            )
        match choice:
            case Member(member):
                self._member(member)
            case _ if self.algorithm is None:
                raise self._error(P4RuntimeCode.INVALID_ARGUMENT, "has no selector; groups and sets need one")
            case Group(group):
                self._group(group)
            case ActionSet(actions):
                self._check_set(actions)
        self._uses[choice] += 1
        self._choices += 1
        self._count_shot(choice, 1)

    def release(self, choice: Choice) -> None:
        """Note that an entry names it no more."""
        self._uses[choice] -= 1
        self._choices -= 1
        self._count_shot(choice, -1)
        if not self._uses[choice]:
            del self._uses[choice]

    def _check_set(self, actions: tuple[tuple[ir.ActionCall, int], ...]) -> None:
        """Refuse a set of actions that its selector cannot hold, beside those that it holds."""
        for call, weight in actions:
            self._check_weight(weight)
            self.check_call(call)
        size, most = self._size_of(actions), self.limits.max_group_size
        if most and size > most:
            raise self._error(
                P4RuntimeCode.INVALID_ARGUMENT, f"a set of size {size} given; {most} is allowed"
            )
        if self._shot_size + size > self.size:
            raise self._error(
                P4RuntimeCode.RESOURCE_EXHAUSTED,
                f"its sets would have a size of {self._shot_size + size}; its size is {self.size}",
            )

    def _count_shot(self, choice: Choice, sign: int) -> None:
        if isinstance(choice, ActionSet):
            self._one_shots += sign
            self._shot_size += sign * self._size_of(choice.actions)

    def _size_of(self, weighted: Iterable[tuple[object, int]]) -> int:
        return self.limits.size_of([weight for _, weight in weighted])

    def call_of(self, choice: Choice, hash_value: int) -> ir.ActionCall | None:
        """Return the action of an entry for a packet with this hash; None for a group without members."""
        match choice:
            case Member(member):
                return self.members[member]
            case Group(group):
                weighted = [(self.members[member], weight) for member, weight in sorted(self.groups[group])]
            case ActionSet(actions):
                weighted = list(actions)
        total = sum(weight for _, weight in weighted)
        place = hash_value % total if total else 0
        for call, weight in weighted:
            if place < weight:
                return call
            place -= weight
        return None

    def check_call(self, call: ir.ActionCall) -> None:
        """Raise ControlError unless the tables that use this profile can run an action with this data."""
        if call.action not in self.actions:
            known = ", ".join(self.actions) or "none"
            raise self._error(
                P4RuntimeCode.INVALID_ARGUMENT, f"has no action {call.action}; there is {known}"
            )
        widths = self.actions[call.action]
        if len(widths) != len(call.parameters):
            given = len(call.parameters)
            raise self._error(
                P4RuntimeCode.INVALID_ARGUMENT,
                f"{call.action} takes {counted(len(widths), 'parameter')}; {given} given",
            )
        for number, width in zip(call.parameters, widths, strict=True):
            if not 0 <= number < 1 << width:
                raise self._error(
                    P4RuntimeCode.OUT_OF_RANGE, f"{call.action}: {number:#x} does not fit bit<{width}>"
                )

    def _set_group(self, group: int, members: tuple[tuple[int, int], ...], max_size: int) -> None:
        if self.algorithm is None:
            raise self._error(P4RuntimeCode.INVALID_ARGUMENT, "is no selector; it has no groups")
        for member, weight in members:
            self._member(member)
            self._check_weight(weight)
        if len({member for member, _ in members}) != len(members):
            raise self._error(P4RuntimeCode.INVALID_ARGUMENT, f"group {group} names a member twice")
        others = self._group_size - self._size_of(self.groups.get(group, ()))
        size, most = self._size_of(members), max_size or self.limits.max_group_size
        if most and size > most:
            raise self._error(
                P4RuntimeCode.RESOURCE_EXHAUSTED,
                f"group {group} would have a size of {size}; its max_size is {most}",
            )
        if others + size > self.size:
            raise self._error(
                P4RuntimeCode.RESOURCE_EXHAUSTED,
                f"its groups would have a size of {others + size}; its size is {self.size}",
            )
        self._hold(group, members)
        self.groups[group] = members

    def _hold(self, group: int, members: tuple[tuple[int, int], ...]) -> None:
        """Count what a group is to hold, in place of what it does."""
        before = self.groups.get(group, ())
        self._group_size += self._size_of(members) - self._size_of(before)
        self._holders.subtract(member for member, _ in before)
        self._holders.update(member for member, _ in members)

    def _check_weight(self, weight: int) -> None:
        if weight <= 0:
            raise self._error(P4RuntimeCode.INVALID_ARGUMENT, f"weight {weight} given; above 0 was expected")
        most = self.limits.max_member_weight
        if most and weight > most:
            raise self._error(P4RuntimeCode.INVALID_ARGUMENT, f"weight {weight} given; {most} is allowed")

    def _member(self, member: int) -> None:
        if member not in self.members:
            raise self._error(P4RuntimeCode.NOT_FOUND, f"has no member {member}")

    def _group(self, group: int) -> None:
        if group not in self.groups:
            raise self._error(P4RuntimeCode.NOT_FOUND, f"has no group {group}")

    def _error(self, code: P4RuntimeCode, sentence: str) -> ControlError:
        return ControlError(code, f"action profile {self.name}: {sentence}")
