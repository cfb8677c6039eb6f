# SPDX-License-Identifier: Apache-2.0
"""The extern objects of a running program, and what else outlives a packet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from nicemu.errors import ControlError, P4RuntimeCode

from . import ir
from .arrays import CounterArray, MeterArray, RegisterArray
from .chance import Chance
from .names import full_name
from .profiles import ActionProfile
from .value_sets import ValueSet
from .verdict import DigestConfig

MAX_ALL_REPLICAS = 1 << 20
"""Copies that all multicast groups and clone sessions may name; each of these counts as one, too."""

_State = TypeVar("_State", CounterArray, MeterArray, RegisterArray, ActionProfile)
_Held = TypeVar("_Held")


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy that a multicast group or clone session makes: `rid` becomes its egress_rid."""

    port: int
    rid: int = 0

    @property
    def places(self) -> int:
        """How many of `MAX_ALL_REPLICAS` it takes."""
        return 1


@dataclass(frozen=True, slots=True)
class CloneSession:
    """Where the copies of a clone session go; `truncate_bytes` 0 leaves them whole.

    `class_of_service` is kept for the controller; there are no queues that it could choose.
    """

    replicas: tuple[Replica, ...]
    truncate_bytes: int = 0
    class_of_service: int = 0


class Objects:
    """The state of every extern object by its full name, replication, and the engine's seeded chance."""

    def __init__(self, program: ir.Program, states: Mapping[str, Any], seed: int = 0) -> None:
        self.instances = {instance.name: instance for instance in program.externs}
        self.states = dict(states)
        self.value_sets = {item.name: ValueSet(item) for item in program.value_sets}
        self.multicast_groups: dict[int, tuple[Replica, ...]] = {}
        self.group_notes: dict[int, bytes] = {}
        """What the controller keeps with a multicast group."""
        self.clone_sessions: dict[int, CloneSession] = {}
        self.replica_count = 0
        """How many replicas these hold, with one for each of them."""
        self.digests: dict[str, DigestConfig] = {}
        """The digests that the controller wants."""
        self.random = Chance(seed)

    def counter(self, name: str) -> CounterArray:
        """Return a counter by its full name or unique suffix. Raises: ControlError(NOT_FOUND)."""
        return self._state(name, CounterArray, "counter")

    def meter(self, name: str) -> MeterArray:
        """Return a meter likewise."""
        return self._state(name, MeterArray, "meter")

    def register(self, name: str) -> RegisterArray:
        """Return a register likewise."""
        return self._state(name, RegisterArray, "register")

    def profile(self, name: str) -> ActionProfile:
        """Return an action profile or selector likewise."""
        return self._state(name, ActionProfile, "action profile")

    def value_set(self, name: str) -> ValueSet:
        """Return a value set likewise."""
        return self.value_sets[full_name(name, self.value_sets, "value set")]

    def hold_group(self, number: int, replicas: tuple[Replica, ...] | None) -> None:
        """Have a multicast group in its place, or none.

        Raises: ControlError(RESOURCE_EXHAUSTED), and nothing has changed.
        """
        self._count(_size(replicas) - _size(self.multicast_groups.get(number)))
        _put(self.multicast_groups, number, replicas)

    def hold_session(self, number: int, session: CloneSession | None) -> None:
        """As `hold_group`, a clone session."""
        before, after = (
            _size(item.replicas if item is not None else None)
            for item in (self.clone_sessions.get(number), session)
        )
        self._count(after - before)
        _put(self.clone_sessions, number, session)

    def _count(self, added: int) -> None:
        if added > 0 and self.replica_count + added > MAX_ALL_REPLICAS:
            raise ControlError(
                P4RuntimeCode.RESOURCE_EXHAUSTED,
                f"multicast groups and clone sessions hold {self.replica_count} replicas already; "
                f"{MAX_ALL_REPLICAS} are allowed",
            )
        self.replica_count += added

    def _state(self, name: str, kind: type[_State], noun: str) -> _State:
        known = {key: state for key, state in self.states.items() if isinstance(state, kind)}
        others = [key for key in self.states.keys() - known.keys() if key == name or key.endswith(f".{name}")]
        if len(others) == 1 and not any(key == name or key.endswith(f".{name}") for key in known):
            extern = self.instances[others[0]].extern.replace("_", " ")
            of_entries = ": each entry of its table has one" if extern.startswith("direct") else ""
            raise ControlError(P4RuntimeCode.NOT_FOUND, f"{others[0]} is a {extern}, no {noun}{of_entries}")
        return known[full_name(name, known, noun)]


def _size(replicas: tuple[Replica, ...] | None) -> int:
    """Return how many replicas a group or session holds, with one for itself."""
    return 0 if replicas is None else 1 + sum(replica.places for replica in replicas)


def _put(places: dict[int, _Held], number: int, item: _Held | None) -> None:
    if item is None:
        places.pop(number, None)
    else:
        places[number] = item
