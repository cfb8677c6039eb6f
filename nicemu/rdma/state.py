# SPDX-License-Identifier: Apache-2.0
"""RDMA state of one NIC as arrays: where its tables lie, its queue pairs, its peers, its completion
queues.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nicemu.abi import registers
from nicemu.hot import Records

MAX_PEERS = 16
MAX_BACKINGS = 256
"""Pieces of shareable memory (memfds) that one NIC's regions may lie in."""

KIND_NONE, KIND_DIRECT, KIND_PORT, KIND_OUTSIDE = 0, 1, 2, 3
"""What carries a queue pair's work: nothing yet, a memory copy on this machine, a transport above a Port, an
RDMA device."""

FLAG_IMPLICIT_RECEIVES = 1
"""A write with immediate consumes no receive work request."""
FLAG_IMMEDIATE_COUNTS = 2
"""The immediate names a counter of this NIC, which counts the arrival."""
FLAG_ARRIVAL_EVENTS = 4
"""Arrivals are handed to firmware."""

QUEUE_PAIR = np.dtype(
    [
        ("kind", "u1"),
        ("state", "u1"),
        ("options", "u2"),
        ("pd", "u4"),
        ("peer", "i4"),
        ("remote_qp", "u4"),
        ("owner", "i4"),
        ("cq", "i4"),
    ],
    align=True,
)
PEER = np.dtype(
    [
        ("public", "u8"),  # raw address of the peer's public tables, 0: not mapped
        ("outbox", "u8"),  # of the inbox that the peer gave to us
        ("inbox", "u8"),  # of the inbox that we gave to the peer
    ],
    align=True,
)
COMPLETION_QUEUE = np.dtype(
    [("ring", "u8"), ("consumer", "u8"), ("tail", "u8"), ("error", "u1"), ("open", "u1")], align=True
)


class RdmaState(NamedTuple):
    """The arrays that the hot functions work on.

    public: uint64[1], raw address of this NIC's public tables. backings: uint64[MAX_BACKINGS], raw addresses
    of the memory its regions lie in. peer_backings: uint64[MAX_PEERS, MAX_BACKINGS], the same for each peer,
    as mapped here.
    """

    public: np.ndarray
    backings: np.ndarray
    peer_backings: np.ndarray
    queue_pairs: Records
    peers: Records
    completion_queues: Records


def new_state(public_address: int) -> RdmaState:
    """Return the state of a NIC without regions, queue pairs or peers."""
    queues = registers.MAX_OWNERS * registers.QUEUE_COUNT
    return RdmaState(
        np.array([public_address], np.uint64),
        np.zeros(MAX_BACKINGS, np.uint64),
        np.zeros((MAX_PEERS, MAX_BACKINGS), np.uint64),
        np.zeros(registers.MAX_QUEUE_PAIRS, QUEUE_PAIR).view(np.recarray),
        np.zeros(MAX_PEERS, PEER).view(np.recarray),
        np.zeros(queues, COMPLETION_QUEUE).view(np.recarray),
    )
