# SPDX-License-Identifier: Apache-2.0
"""What the traffic manager of a kernel works on: states, what waits, groups and sessions, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nicemu.hot import Records, hot
from nicemu.pipeline import MAX_COPIES, MAX_ROUNDS, CloneSession, Objects, Program, Replica, ir

from .not_compiled import NotCompiled
from .records import PACKET
from .traffic_words import DESK, FIELDS, ITEM_WORDS, LISTS_MOST
from .v1_externs import STANDARD
from .v1_requests import clones_behind_egress, comes_again
from .v1_stages import STAGES
from .v1_state import StateLayout
from .value_words import word_count

Array = np.ndarray[Any, Any]

LEFT_MOST: Final = 1 << 16
"""Copies that may leave between two batches."""
ROOM_BYTES: Final = 1 << 27
"""Memory for their frames; what is not needed is never touched."""


@hot
def merge(merged: Records, packets: Records, copies: Records) -> None:
    """Lay packets out in `merged`, and behind each the copies whose `port` is its number, in order."""
    at = copy = 0
    for number in range(len(packets)):
        merged[at] = packets[number]
        at += 1
        while copy < len(copies) and copies[copy]["port"] == number:
            merged[at] = copies[copy]
            at += 1
            copy += 1


class Desk:
    """The memory of the traffic manager of a program whose field lists `have_words`."""

    def __init__(self, program: Program, headroom_bytes: int, cpu_port: int, effect_words: int) -> None:
        layout = StateLayout(program)
        self.words = np.zeros(len(DESK), np.uint64)
        self._arrays: dict[str, Array] = {}
        states = np.zeros((MAX_COPIES + 8, layout.words), np.uint64)
        strides = np.arange(len(states), dtype=np.uint64) * np.uint64(8 * layout.words)
        starts, spans = _lists_of(program, layout)
        self._copies = np.zeros(LEFT_MOST, PACKET)
        self._states = states
        self._merged = np.zeros(0, PACKET)
        for name, array in {
            "record": np.zeros(1, PACKET),
            "effects": np.zeros(effect_words, np.uint64),
            "zeros": np.zeros(layout.words, np.uint64),
            "free": np.uint64(states.ctypes.data) + strides,
            "queue": np.zeros(ITEM_WORDS * (MAX_COPIES + 8), np.uint64),
            "left": self._copies,
            "lists": starts,
            "spans": spans,
            "room": np.empty(ROOM_BYTES, np.uint8),
        }.items():
            self._keep(name, array)
        metadata, standard = layout.variables[ir.METADATA], layout.variables[STANDARD]
        for name, (first, kind) in (("metadata", metadata), ("standard", standard)):
            self._set(**{name: 8 * first, f"{name}_bytes": 8 * word_count(layout.layouts, kind)})
        self._set(**{name: 8 * layout.standard[name] for name in FIELDS})
        empty = {control.role for control in program.controls if not control.body} - {"deparser"}
        self._set(
            free_count=len(states),
            state_bytes=8 * layout.words,
            room_end=self._arrays["room"].ctypes.data + ROOM_BYTES,
            left_most=LEFT_MOST,
            headroom=headroom_bytes,
            most_rounds=MAX_ROUNDS if comes_again(program) else 0,
            cpu_port=cpu_port,
            skipped=sum(1 << STAGES.index(role) for role in empty),
            colours=len(layout.colours),
        )
        self._is_bounded = not (comes_again(program) or clones_behind_egress(program))
        """Whether a packet becomes no more than its groups and sessions say."""
        self._seen: tuple[dict[int, tuple[Replica, ...]], dict[int, CloneSession]] | None = None

    @property
    def address(self) -> np.uint64:
        """Where the words of the desk lie."""
        return np.uint64(self.words.ctypes.data)

    def connect(self, **addresses: int) -> None:
        """Say where the kernel's functions lie, its context, and what its packets' states are written to."""
        self._set(**addresses)

    def clear(self, told: bool) -> None:
        """Forget what has left so far. Where effects are `told`, packets that have some are left alone."""
        self._set(left_count=0, room=self._arrays["room"].ctypes.data, told=told)

    def expect(self, longest: int) -> None:
        """Say how many bytes the frames have that come now, at most."""
        self._set(longest=longest)

    @property
    def copies(self) -> Array:
        """What has left since `clear`, PACKET[n]; `port` is the number of the packet that it comes of."""
        return self._copies[: int(self.words[DESK["left_count"]])]

    def merged(self, packets: Array) -> Array:
        """Return packets, PACKET[n], and behind each the copies that come of it, until the next `clear`."""
        count = len(packets) + len(self.copies)
        if len(self._merged) < count:
            self._merged = np.zeros(2 * count, PACKET)
        merge(self._merged, packets, self.copies)
        return self._merged[:count]

    def follow(self, objects: Objects) -> None:
        """Replicate as groups and sessions say now."""
        given = objects.multicast_groups, objects.clone_sessions
        if self._seen == given:
            return
        self._seen = dict(given[0]), dict(given[1])
        groups, sessions = sorted(given[0].items()), sorted(given[1].items())
        replicas = [replicas for _, replicas in groups]
        replicas += [session.replicas for _, session in sessions]
        ends = np.cumsum([0, *map(len, replicas)], dtype=np.uint64)
        pairs = [(one.port, one.rid) for chosen in replicas for one in chosen]
        for name, numbers in {
            "groups": [number for number, _ in groups],
            "sessions": [number for number, _ in sessions],
            "group_starts": ends[: len(groups) + 1],
            "session_starts": ends[len(groups) :],
            "truncations": [session.truncate_bytes for _, session in sessions],
            "replicas": pairs,
        }.items():
            self._keep(name, np.array(numbers, np.uint64))
        most = 1 + sum(
            max((len(one) for one in chosen), default=0)
            for chosen in (replicas[: len(groups)], replicas[len(groups) :])
        )
        self._set(group_count=len(groups), session_count=len(sessions))
        self._set(most_copies=min(most, MAX_COPIES) if self._is_bounded else MAX_COPIES)

    def _keep(self, name: str, array: Array) -> None:
        self._arrays[name] = array
        self.words[DESK[name]] = array.ctypes.data

    def _set(self, **numbers: int) -> None:
        for name, number in numbers.items():
            self.words[DESK[name]] = number


def have_words(lists: Sequence[ir.FieldList], layout: StateLayout) -> bool:
    """Return whether all that field lists name has words of its own in a state."""
    try:
        for item in lists:
            for place in item.fields:
                layout.bytes_of(place)
    except NotCompiled:
        return False
    return True


def _lists_of(program: Program, layout: StateLayout) -> tuple[Array, Array]:
    """Return for each number where a field list begins among spans, uint64[257], and the spans, uint64[n, 2]:
    how many bytes into a state something lies, and how many it is.
    """
    lists = {item.index: item.fields for item in program.field_lists}
    starts, spans = [], list[tuple[int, int]]()
    for number in range(LISTS_MOST + 1):
        starts.append(len(spans))
        spans += [layout.bytes_of(place) for place in lists.get(number, ())]
    return np.array(starts, np.uint64), np.array(spans, np.uint64).reshape(-1, 2)
