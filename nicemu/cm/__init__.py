# SPDX-License-Identifier: Apache-2.0
"""Communication management: how queue pairs of NICs that know nothing of each other come to be connected.

A state machine for each connection, the communication manager of a NIC above them, and rdma_cm, which joins
that with a NIC's RoCEv2 engine. All of it is sans-IO.
Specifications: InfiniBand Architecture Specification Volume 1, "Communication Management", and Annex A11
"RDMA IP CM Service"; rdma_cm(7).
"""

from .connection import Connection
from .endpoint import CmEndpoint
from .event import ENDS, CmEvent, CmEventKind
from .rdma_cm import RdmaCm, eui64
from .state import TRANSITIONS, CmAddress, CmState, QpOffer

__all__ = [
    "ENDS",
    "TRANSITIONS",
    "CmAddress",
    "CmEndpoint",
    "CmEvent",
    "CmEventKind",
    "CmState",
    "Connection",
    "QpOffer",
    "RdmaCm",
    "eui64",
]
