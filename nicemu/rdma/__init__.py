# SPDX-License-Identifier: Apache-2.0
"""Memory regions, queue pairs, completion queues, and the transports that carry work between NICs.

Specification: InfiniBand Architecture Specification 1.4, volume 1 (transport, verbs) and annex A17 (RoCEv2).
"""

from .completion_queue import close_queues, open_queues, post_completion
from .dcqcn import Dcqcn
from .direct import (
    ARRIVED_RECEIVE,
    ARRIVED_TAGGED,
    ARRIVED_WRITE,
    BUSY,
    TAGGED_FREE,
    TAGGED_POSTED,
    TAGGED_TAKEN,
    direct_post,
)
from .memory_region import MemoryRegion, MemoryRegionTable, check_region, raw_address
from .outside import OutsideTransport
from .queue_pair import LONGEST_TIMEOUT_NS, AccessError, ArrivalKind, Datagram, QpState, QpType, RemoteQp
from .roce import Arrival, Completion, RoceEngine, load_engine
from .roce_batch import give_out, run_timers, take_in
from .roce_state import ARRIVED, ENDED, MAX_RD_ATOMIC, POSTED, RoceState
from .state import (
    FLAG_ARRIVAL_EVENTS,
    FLAG_IMMEDIATE_COUNTS,
    FLAG_IMPLICIT_RECEIVES,
    KIND_DIRECT,
    KIND_NONE,
    KIND_OUTSIDE,
    KIND_PORT,
    MAX_BACKINGS,
    MAX_PEERS,
    RdmaState,
    new_state,
)

__all__ = [
    "ARRIVED",
    "ARRIVED_RECEIVE",
    "ARRIVED_TAGGED",
    "ARRIVED_WRITE",
    "BUSY",
    "ENDED",
    "FLAG_ARRIVAL_EVENTS",
    "FLAG_IMMEDIATE_COUNTS",
    "FLAG_IMPLICIT_RECEIVES",
    "KIND_DIRECT",
    "KIND_NONE",
    "KIND_OUTSIDE",
    "KIND_PORT",
    "LONGEST_TIMEOUT_NS",
    "MAX_BACKINGS",
    "MAX_PEERS",
    "MAX_RD_ATOMIC",
    "POSTED",
    "TAGGED_FREE",
    "TAGGED_POSTED",
    "TAGGED_TAKEN",
    "AccessError",
    "Arrival",
    "ArrivalKind",
    "Completion",
    "Datagram",
    "Dcqcn",
    "MemoryRegion",
    "MemoryRegionTable",
    "OutsideTransport",
    "QpState",
    "QpType",
    "RdmaState",
    "RemoteQp",
    "RoceEngine",
    "RoceState",
    "check_region",
    "close_queues",
    "direct_post",
    "give_out",
    "load_engine",
    "new_state",
    "open_queues",
    "post_completion",
    "raw_address",
    "run_timers",
    "take_in",
]
