# SPDX-License-Identifier: Apache-2.0
"""The states of a connection, and what its two sides say of themselves.

Source: InfiniBand Architecture Specification Volume 1, "Communication Management", "State Transition
Diagrams".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from nicemu.wire import check_mac, parse_ipv4

TICK_NS = 4096
"""What the exponents of the CM's timeouts count in: 4.096 us times 2 to the power."""
LATEST_NS = 1 << 62
"""The end of time: 146 years."""


class CmState(enum.Enum):
    """State of a connection. Passive sides begin in REQ_RCVD, active ones in REQ_SENT."""

    REQ_SENT = "REQ sent"
    REP_RCVD = "REP received, not confirmed yet"
    REQ_RCVD = "REQ received, not answered yet"
    REP_SENT = "REP sent"
    ESTABLISHED = "established"
    DREQ_SENT = "DREQ sent"
    TIMEWAIT = "waiting for what is on its way"
    CLOSED = "closed"


TRANSITIONS: dict[CmState, frozenset[CmState]] = {
    CmState.REQ_SENT: frozenset({CmState.REP_RCVD, CmState.CLOSED}),
    CmState.REP_RCVD: frozenset({CmState.ESTABLISHED, CmState.CLOSED}),
    CmState.REQ_RCVD: frozenset({CmState.REP_SENT, CmState.CLOSED}),
    CmState.REP_SENT: frozenset({CmState.ESTABLISHED, CmState.DREQ_SENT, CmState.TIMEWAIT, CmState.CLOSED}),
    CmState.ESTABLISHED: frozenset({CmState.DREQ_SENT, CmState.TIMEWAIT}),
    CmState.DREQ_SENT: frozenset({CmState.TIMEWAIT}),
    CmState.TIMEWAIT: frozenset({CmState.CLOSED}),
    CmState.CLOSED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class CmAddress:
    """Where a communication manager is: the MAC address (6 bytes) and the IP address of its NIC.

    Raises: UsageError if one of them is none.
    """

    mac: bytes
    ip: str

    def __post_init__(self) -> None:
        check_mac(self.mac)
        parse_ipv4(self.ip)


@dataclass(frozen=True, slots=True)
class QpOffer:
    """What one side says of its queue pair.

    `starting_psn` is what the other side shall begin with, and so what this side expects first.
    `responder_resources`: READs and atomics at a time that it answers; `initiator_depth`: that it asks.
    `rnr_retry_count` is what the other side shall have.
    """

    qp_num: int
    starting_psn: int
    responder_resources: int = 0
    initiator_depth: int = 0
    rnr_retry_count: int = 7
