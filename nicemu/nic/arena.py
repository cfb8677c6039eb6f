# SPDX-License-Identifier: Apache-2.0
"""All per-event state of one NIC in arrays: trigger unit, RDMA tables, owners, and the rings between its two
threads.

The datapath alone changes what lies here, but for what is noted; the control thread asks it by records in the
`down` ring and hears from it by records in the `up` ring. Both rings have one producer and one consumer.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from nicemu import rdma, trigger
from nicemu.abi import ARMED, registers
from nicemu.hot import Records
from nicemu.pcie import Backing
from nicemu.timing import Timings

from .pacing import PaceState, new_pace

RING_COUNT = 4096
NOTE_COUNT = 16384
"""Notes that the control thread may be behind; the ring takes no memory before the first one."""
RING_RECORD = np.dtype([("kind", "u8"), ("words", "u8", 6), ("ready", "u8"), ("work", ARMED)])
"""A record between the threads: a kind, operands, and armed work where the kind has some."""

OWNER = np.dtype(
    [
        ("bar", "u8"),  # raw address of the owner's BAR, 0: nobody
        ("pd", "u4"),
        ("doorbells", "i4"),  # cells to look at: one more than the highest that is open
        ("active", "u1"),
        ("commands", "u8"),  # commands taken
        ("responses", "u8"),  # responses given
    ],
    align=True,
)
RECEIVE = np.dtype([("wr_id", "u8"), ("completion", "i4"), ("cq", "u1"), ("signaled", "u1")], align=True)
"""What the end of a posted receive concerns: a counter (-1: none), and whether a completion is wanted."""
FOLLOWED = np.dtype(
    [
        ("address", "u8"),  # raw address of the word, 0: nobody follows anything here
        ("seen", "u8"),
        ("at_least", "u8"),  # 0: count every step; else count once, when the word gets there
        ("counter", "i4"),
        ("owner", "i4"),
        ("key", "u4"),
    ],
    align=True,
)
MAX_FOLLOWED = 1024
MAX_WINDOWS = 256
LINK = np.dtype(
    [
        ("up_head", "u8"),
        ("up_tail", "u8"),
        ("down_head", "u8"),
        ("down_tail", "u8"),
        ("stop", "u8"),
        ("sleeping", "u8"),  # 1 while the control thread waits for its eventfd
        ("one", "u8"),
        ("scratch", "u8", 2),
        ("address", "u8"),  # raw address of this record
        ("up_address", "u8"),  # raw addresses of the arrays
        ("down_address", "u8"),
        ("slots_address", "u8"),
        ("eventfd", "i8"),
        ("polls", "u8"),
        ("naps", "u8"),
        ("pause", "u8"),  # the control thread asks the datapath to stand still
        ("parked", "u8"),  # and it does
        ("has_storage", "u8"),
        ("followed", "i8"),  # entries of `followed` to look at
        ("noting", "u8"),  # 1: somebody wants notes
        ("note_head", "u8"),
        ("note_tail", "u8"),
        ("notes_lost", "u8"),  # notes that found no room
        ("notes_address", "u8"),
    ],
    align=True,
)
STAT_NAMES = (
    "doorbells",
    "doorbell.backwards",
    "flags.followed",
    "flags.backwards",
    "commands",
    "command.refused",
    "fired",
    "writes",
    "write_bytes",
    "arrivals",
    "arrival_bytes",
    "immediate.refused",
    "completion.errors",
    "completion_queue.overrun",
    "transport.busy",
)
"""Names of the datapath's counts, in the order of the `stats` array."""

FIRMWARE = 0
"""The owner number of the NIC's own firmware; host processes are 1 and up."""

NO_CELL, TRANSMIT_CELL = -1, -2
"""What a doorbell cell rings when it is no counter: nothing, or the transmit ring."""


class Arena(NamedTuple):
    """The arrays that the datapath works on.

    doorbells: int32[owner, cell], the counter a cell rings. rung: uint64[owner, cell], the last total seen.
    queue_counters: int32[queue pair], the counter that orders its posted work. receives: RECEIVE[queue pair,
    place in its receive queue]; received: uint64[queue pair], receives consumed; tagged: as `receives`, of
    tagged receives; tagged_posted: uint64[queue pair], how many. followed:
    FOLLOWED[MAX_FOLLOWED], words that feed counters. windows: uint32[MAX_WINDOWS], numbers of the programs
    that are armed piece by piece. stats: uint64[len(STAT_NAMES)]. notes: what the datapath puts down; see
    `notes.py`. pacing: what transfers cost, and those on their way; see `pacing.py`.
    """

    trigger: trigger.TriggerState
    rdma: rdma.RdmaState
    owners: Records
    doorbells: np.ndarray
    rung: np.ndarray
    queue_counters: np.ndarray
    receives: Records
    received: np.ndarray
    tagged: Records
    tagged_posted: np.ndarray
    followed: Records
    windows: np.ndarray
    link: Records
    up: Records
    down: Records
    stats: np.ndarray
    notes: Records
    pacing: PaceState


def new_arena(
    unit: trigger.TriggerUnit, public: Backing, timings: Timings, stages: tuple[Records, int] | None
) -> Arena:
    """Return the arena of a NIC whose public tables lie in `public`, and whose blocks cost what is told.

    `stages`: see `new_pace`.
    """
    up = np.zeros(RING_COUNT, RING_RECORD).view(np.recarray)
    down = np.zeros(RING_COUNT, RING_RECORD).view(np.recarray)
    notes = np.zeros(NOTE_COUNT, RING_RECORD).view(np.recarray)
    link = np.zeros(1, LINK).view(np.recarray)
    link["one"] = 1
    link["address"] = link.ctypes.data
    link["up_address"], link["down_address"] = up.ctypes.data, down.ctypes.data
    link["slots_address"] = unit.state.slots.ctypes.data
    link["notes_address"] = notes.ctypes.data
    link["eventfd"] = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    owners = registers.MAX_OWNERS
    return Arena(
        unit.state,
        rdma.new_state(public.address),
        np.zeros(owners, OWNER).view(np.recarray),
        np.full((owners, registers.DOORBELL_COUNT), NO_CELL, np.int32),
        np.zeros((owners, registers.DOORBELL_COUNT), np.uint64),
        np.full(registers.MAX_QUEUE_PAIRS, trigger.NONE, np.int32),
        np.zeros((registers.MAX_QUEUE_PAIRS, registers.RECEIVE_QUEUE_COUNT), RECEIVE).view(np.recarray),
        np.zeros(registers.MAX_QUEUE_PAIRS, np.uint64),
        np.zeros((registers.MAX_QUEUE_PAIRS, registers.TAGGED_RECEIVE_COUNT), RECEIVE).view(np.recarray),
        np.zeros(registers.MAX_QUEUE_PAIRS, np.uint64),
        np.zeros(MAX_FOLLOWED, FOLLOWED).view(np.recarray),
        np.zeros(MAX_WINDOWS, np.uint32),
        link,
        up,
        down,
        np.zeros(len(STAT_NAMES), np.uint64),
        notes,
        new_pace(timings, unit.limits.slot_count, registers.MAX_QUEUE_PAIRS, stages),
    )
