# SPDX-License-Identifier: Apache-2.0
"""Memory regions, queue pairs, completion queues, and the transports that carry work between NICs.

Specification: InfiniBand Architecture Specification 1.4, volume 1 (transport, verbs) and annex A17 (RoCEv2).
"""

from .completion_queue import close_queues, open_queues, post_completion
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
from .queue_pair import AccessError, ArrivalKind, QpState, RemoteQp
from .roce import Arrival, Completion, RoceEngine
from .state import (
    FLAG_ARRIVAL_EVENTS,
    FLAG_IMMEDIATE_COUNTS,
    FLAG_IMPLICIT_RECEIVES,
    KIND_DIRECT,
    KIND_NONE,
    KIND_PORT,
    MAX_BACKINGS,
    MAX_PEERS,
    RdmaState,
    new_state,
)

__all__ = [
    "ARRIVED_RECEIVE",
    "ARRIVED_TAGGED",
    "ARRIVED_WRITE",
    "BUSY",
    "FLAG_ARRIVAL_EVENTS",
    "FLAG_IMMEDIATE_COUNTS",
    "FLAG_IMPLICIT_RECEIVES",
    "KIND_DIRECT",
    "KIND_NONE",
    "KIND_PORT",
    "MAX_BACKINGS",
    "MAX_PEERS",
    "TAGGED_FREE",
    "TAGGED_POSTED",
    "TAGGED_TAKEN",
    "AccessError",
    "Arrival",
    "ArrivalKind",
    "Completion",
    "MemoryRegion",
    "MemoryRegionTable",
    "QpState",
    "RdmaState",
    "RemoteQp",
    "RoceEngine",
    "check_region",
    "close_queues",
    "direct_post",
    "new_state",
    "open_queues",
    "post_completion",
    "raw_address",
]
