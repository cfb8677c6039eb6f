# SPDX-License-Identifier: Apache-2.0
"""The extern objects of a running program, and what else outlives a packet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from . import ir
from .arrays import CounterArray, MeterArray, RegisterArray
from .chance import Chance
from .externs import ExternType
from .names import full_name
from .profiles import ActionProfile
from .value_sets import ValueSet
from .verdict import DigestConfig

_State = TypeVar("_State", CounterArray, MeterArray, RegisterArray, ActionProfile)


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy that a multicast group or clone session makes: `rid` becomes its egress_rid."""

    port: int
    rid: int = 0


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

    def __init__(self, program: ir.Program, types: Mapping[str, ExternType], seed: int = 0) -> None:
        self.instances = {instance.name: instance for instance in program.externs}
        self.states: dict[str, Any] = {
            instance.name: types[instance.extern].make(instance) for instance in program.externs
        }
        self.value_sets = {item.name: ValueSet(item) for item in program.value_sets}
        self.multicast_groups: dict[int, tuple[Replica, ...]] = {}
        self.group_notes: dict[int, bytes] = {}
        """What the controller keeps with a multicast group."""
        self.clone_sessions: dict[int, CloneSession] = {}
        self.replica_count = 0
        """How many replicas the controller has made."""
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

    def _state(self, name: str, kind: type[_State], noun: str) -> _State:
        known = {key: state for key, state in self.states.items() if isinstance(state, kind)}
        return known[full_name(name, known, noun)]
