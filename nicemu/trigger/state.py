# SPDX-License-Identifier: Apache-2.0
"""The trigger unit's memory: counters, slots of armed work, and what is due, as structured arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nicemu.abi import ARMED
from nicemu.errors import UsageError
from nicemu.hot import Records

NONE = -1
FREE, WAITING, DUE, IN_FLIGHT = 0, 1, 2, 3
"""State of a slot. WAITING: in its counter's heap; DUE: fires next; IN_FLIGHT: handed to a transport."""

COUNTER = np.dtype(
    [
        ("success", "u8"),
        ("errors", "u8"),
        ("published", "u8"),  # raw address of the 64-byte write-back entry, 0: none
        ("version", "u8"),  # of the write-back entry; odd while it is written
        ("heap", "i4"),  # root slot of the waiting work
        ("due_head", "i4"),
        ("due_tail", "i4"),
        ("ready_next", "i4"),
        ("owner", "i4"),
        ("pd", "u4"),
        ("armed", "u4"),  # slots that this counter triggers
        ("aimed", "u4"),  # slots that will change this counter
        ("in_flight", "u4"),  # fired operations that will complete here
        ("allocated", "u1"),
        ("ready", "u1"),
        ("overflow", "u1"),
        ("remote", "u1"),  # a peer's immediate may bump it
    ],
    align=True,
)
UNIT = np.dtype(
    [
        ("max_success", "u8"),
        ("max_errors", "u8"),
        ("sequence", "u8"),
        ("fired", "u8"),
        ("cancelled", "u8"),
        ("stalls", "u8"),
        ("unsettled_sets", "u8"),  # set while counted operations were in flight
        ("free_head", "i4"),
        ("free_count", "i4"),
        ("ready_head", "i4"),
        ("ready_tail", "i4"),
        ("ready_count", "i4"),
        ("slot_count", "i4"),
    ],
    align=True,
)
U64_MAX = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a trigger unit can hold. `cassini` widths are the ones of its headers (48-bit success, 7-bit
    error).
    """

    counter_count: int = 2048
    slot_count: int = 65536
    max_success: int = (1 << 64) - 1
    max_errors: int = (1 << 64) - 1

    def __post_init__(self) -> None:
        if not 1 <= self.counter_count <= 65536 or not 1 <= self.slot_count <= 1 << 24:
            raise UsageError("a trigger unit has 1 to 65536 counters and 1 to 16777216 slots")


class TriggerState(NamedTuple):
    """The arrays that the hot functions work on: `counters` COUNTER, `slots` ARMED, `unit` one UNIT
    record.
    """

    counters: Records
    slots: Records
    unit: Records


def new_state(limits: Limits) -> TriggerState:
    """Return an empty trigger unit: no counter allocated, every slot free."""
    counters = np.zeros(limits.counter_count, COUNTER).view(np.recarray)
    for links in ("heap", "due_head", "due_tail", "ready_next", "owner"):
        counters[links] = NONE
    slots = np.zeros(limits.slot_count, ARMED).view(np.recarray)
    slots["next"] = np.arange(1, limits.slot_count + 1, dtype=np.int32)
    slots["next"][-1] = NONE
    unit = np.zeros(1, UNIT).view(np.recarray)
    unit["max_success"], unit["max_errors"] = limits.max_success, limits.max_errors
    unit["free_count"] = unit["slot_count"] = limits.slot_count
    unit["ready_head"] = unit["ready_tail"] = NONE
    return TriggerState(counters, slots, unit)
