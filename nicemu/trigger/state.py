# SPDX-License-Identifier: Apache-2.0
"""The trigger unit's memory: counters, slots of armed work, and what is due, as structured arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nicemu.abi import ARMED, Limits
from nicemu.hot import Records

NONE = -1
FREE, WAITING, DUE, IN_FLIGHT, LANDED = 0, 1, 2, 3, 4
"""State of a slot. WAITING: in its counter's heap; DUE: fires next; IN_FLIGHT: handed to a transport;
LANDED: back from one that takes time, and on its counter's due list once more, to be carried out."""

COUNTER = np.dtype(
    [
        ("success", "u8"),
        ("errors", "u8"),
        ("published", "u8"),  # raw address of the 64-byte write-back entry, 0: none
        ("version", "u8"),  # of the write-back entry; odd while it is written
        ("heap", "i4"),  # root slot of the waiting work
        ("last", "i4"),  # slot that was armed last; it may be free or another counter's by now
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
        ("counts_bytes", "u1"),  # a success counts the bytes it moved
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
        ("max_message_bytes", "u8"),
        ("shuffle", "u8"),  # state of the generator behind FiringOrder.SHUFFLE
        ("free_head", "i4"),
        ("free_count", "i4"),
        ("touched", "i4"),  # slots from here on have never been taken
        ("service_slots", "i4"),  # what host processes may have together
        ("service_used", "i4"),
        ("local_pieces", "i4"),
        ("ready_head", "i4"),
        ("ready_tail", "i4"),
        ("ready_count", "i4"),
        ("slot_count", "i4"),
        ("order", "u1"),
        ("stall_on_error", "u1"),
        ("set_replaces_both", "u1"),
        ("receives_at_zero", "u1"),
        ("domain_flush", "u1"),
        ("single_cancel", "u1"),
    ],
    align=True,
)
U64_MAX = np.uint64(0xFFFFFFFFFFFFFFFF)


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
    for links in ("heap", "last", "due_head", "due_tail", "ready_next", "owner"):
        counters[links] = NONE
    slots = np.zeros(limits.slot_count, ARMED).view(np.recarray)  # pages are taken as slots are
    unit = np.zeros(1, UNIT).view(np.recarray)
    unit["max_success"], unit["max_errors"] = limits.max_success, limits.max_errors
    unit["free_count"] = unit["slot_count"] = limits.slot_count
    unit["ready_head"] = unit["ready_tail"] = unit["free_head"] = NONE
    unit["service_slots"], unit["local_pieces"] = limits.host_slots, limits.local_pieces
    unit["max_message_bytes"], unit["shuffle"] = limits.max_message_bytes, limits.seed | 1
    unit["order"], unit["stall_on_error"] = limits.order, limits.stall_on_error
    unit["set_replaces_both"], unit["receives_at_zero"] = limits.set_replaces_both, limits.receives_at_zero
    unit["domain_flush"], unit["single_cancel"] = limits.domain_flush, limits.single_cancel
    return TriggerState(counters, slots, unit)
