# SPDX-License-Identifier: Apache-2.0
"""Triggered operations: counters, and deferred work that fires once when a counter reaches its threshold.

`TriggerUnit` is the face for Python; the hot functions work on a `TriggerState` and are what the datapath
calls. Specification: fi_trigger(3) and fi_cntr(3); widths and the write-back word as in Cassini's public
headers.
"""

from .counter import ERRORS, SUCCESS, add, count_end, publish, set_values
from .deferred_work import (
    arm,
    cancel,
    cancel_counter,
    check_armed,
    discard,
    flush,
    make_reached_due,
    next_due,
    put_due,
    put_slot,
    release,
    room_for,
    rotate_ready,
    take_due,
    take_slot,
    value_of,
)
from .state import DUE, FREE, IN_FLIGHT, LANDED, NONE, WAITING, TriggerState, new_state
from .unit import TriggerUnit

__all__ = [
    "DUE",
    "ERRORS",
    "FREE",
    "IN_FLIGHT",
    "LANDED",
    "NONE",
    "SUCCESS",
    "WAITING",
    "TriggerState",
    "TriggerUnit",
    "add",
    "arm",
    "cancel",
    "cancel_counter",
    "check_armed",
    "count_end",
    "discard",
    "flush",
    "make_reached_due",
    "new_state",
    "next_due",
    "publish",
    "put_due",
    "put_slot",
    "release",
    "room_for",
    "rotate_ready",
    "set_values",
    "take_due",
    "take_slot",
    "value_of",
]
