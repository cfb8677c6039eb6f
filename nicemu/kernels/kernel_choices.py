# SPDX-License-Identifier: Apache-2.0
"""What the entries of a table with an action profile choose from, in memory that kernels read.

Each member, group or set that entries name has a cell with the address of a list. A list never changes: a new
one takes its place, and the one before stays for packets that still read it.
"""

from __future__ import annotations

import ctypes
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from nicemu.pipeline import ActionProfile, ActionSet, Choice, Group, Member, ir

from .choices import LIST_WORDS

KEPT_LISTS = 256
"""Lists and cells that are kept after they were given up."""

Call = Callable[[str, Sequence[int]], tuple[int, list[int]]]
Words = ctypes.Array[ctypes.c_uint64]


class _Watched(dict[int, Any]):
    """Members or groups of a profile; `watchers` are told of each that is set or removed."""

    def __init__(self, held: dict[int, Any]) -> None:
        super().__init__(held)
        self.watchers: list[Callable[[int], None]] = []

    def __setitem__(self, number: int, value: Any) -> None:  # noqa: ANN401
        super().__setitem__(number, value)
        self._tell(number)

    def __delitem__(self, number: int) -> None:
        super().__delitem__(number)
        self._tell(number)

    def pop(self, number: int, *default: Any) -> Any:  # noqa: ANN401
        """Remove one, if it is there."""
        found = super().pop(number, *default)
        self._tell(number)
        return found

    def _tell(self, number: int) -> None:
        for watcher in self.watchers:
            watcher(number)


def watch(profile: ActionProfile) -> None:
    """Have a profile's members and groups tell of changes, nobody at first."""
    profile.members, profile.groups = _Watched(profile.members), _Watched(profile.groups)


class KernelChoices:
    """The cells of one table: `call_of` returns the number and the words of an action."""

    def __init__(self, call_of: Call, words: int) -> None:
        self._call_of, self._words = call_of, words
        self._profile: ActionProfile | None = None
        self._cells: dict[Choice, Words] = {}
        self._lists: dict[Choice, Words] = {}
        self._named: dict[Choice, list[int]] = {}
        """The members that each choice names; `_naming` is the other way round."""
        self._naming: dict[int, set[Choice]] = {}
        self._uses: Counter[Choice] = Counter()
        self._given_up: deque[object] = deque(maxlen=KEPT_LISTS)

    def follow(self, profile: ActionProfile) -> None:
        """Hold what a profile's members and groups are, from now on; `watch` has prepared it."""
        self._profile = profile
        assert isinstance(profile.members, _Watched)
        assert isinstance(profile.groups, _Watched)
        profile.members.watchers.append(self._member_changed)
        profile.groups.watchers.append(self._group_changed)

    def take(self, choice: Choice) -> int:
        """Return the address of a choice's cell, which an entry holds from now on."""
        self._uses[choice] += 1
        if choice not in self._cells:
            self._cells[choice] = (ctypes.c_uint64 * 1)()
            self._settle(choice)
        return ctypes.addressof(self._cells[choice])

    def release(self, choice: Choice) -> None:
        """Say that an entry holds it no longer."""
        self._uses[choice] -= 1
        if not self._uses[choice]:
            del self._uses[choice]
            self._name(choice, ())
            self._given_up.append((self._cells.pop(choice), self._lists.pop(choice)))

    def _settle(self, choice: Choice) -> None:
        """Have a cell hold what its choice is now."""
        weighted = self._weighted(choice)
        stride = 2 + self._words
        made = (ctypes.c_uint64 * (LIST_WORDS + stride * len(weighted)))()
        total = 0
        for place, (call, weight) in enumerate(weighted):
            total += weight
            action, data = self._call_of(call.action, call.parameters)
            at = LIST_WORDS + stride * place
            made[at : at + 2 + len(data)] = [total, action << 32, *data]
        made[0], made[1] = total, not isinstance(choice, Member)
        self._put(choice, made)

    def _put(self, choice: Choice, made: Words) -> None:
        """Have a list take the place of the one before."""
        if choice in self._lists:
            self._given_up.append(self._lists[choice])
        self._lists[choice] = made
        self._cells[choice][0] = ctypes.addressof(made)

    def _weighted(self, choice: Choice) -> list[tuple[ir.ActionCall, int]]:
        """Return what a choice is between; while writes are undone, a member that it names may be gone."""
        profile = self._profile
        assert profile is not None
        match choice:
            case Member(member):
                named = [(member, 1)]
            case Group(group):
                named = sorted(profile.groups.get(group, ()))
            case ActionSet(actions):
                return list(actions)
        self._name(choice, [member for member, _ in named])
        return [(profile.members[member], weight) for member, weight in named if member in profile.members]

    def _group_changed(self, group: int) -> None:
        if Group(group) in self._cells:
            self._settle(Group(group))

    def _member_changed(self, member: int) -> None:
        assert self._profile is not None
        call, stride = self._profile.members.get(member), 2 + self._words
        action, data = self._call_of(call.action, call.parameters) if call is not None else (0, [])
        for choice in list(self._naming.get(member, ())):
            named, before = self._named[choice], self._lists[choice]
            if call is None or len(before) != LIST_WORDS + stride * len(named):  # one is gone, or was
                self._settle(choice)
                continue
            at = LIST_WORDS + stride * named.index(member)
            made = type(before).from_buffer_copy(before)
            made[at + 1 : at + 2 + len(data)] = [action << 32, *data]
            self._put(choice, made)

    def _name(self, choice: Choice, members: Sequence[int]) -> None:
        """Remember which members a choice names, in place of those before."""
        for member in self._named.pop(choice, ()):
            naming = self._naming[member]
            naming.discard(choice)
            if not naming:
                del self._naming[member]
        if members:
            self._named[choice] = list(members)
            for member in members:
                self._naming.setdefault(member, set()).add(choice)
