# SPDX-License-Identifier: Apache-2.0
"""The reference's queue pair: state, attributes, peer and memory as plain objects.

Only the values that an engine takes and gives are those of `nicemu.rdma`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nicemu.abi import Access, Sge
from nicemu.errors import UsageError
from nicemu.rdma.queue_pair import (
    TRANSITIONS,
    Arrival,
    Completion,
    QpAttributes,
    QpState,
    RemoteQp,
)
from nicemu.wire import PSN_BITS, PSN_MASK, RoceFramer

MAX_RD_ATOMIC = 16
INFINITE_RNR_RETRY = 7
MAX_WAITING_ANSWERS = 256
RECEIVING = frozenset({QpState.RTR, QpState.RTS, QpState.SQD, QpState.SQE})
SENDING = frozenset({QpState.RTS, QpState.SQD})


class RdmaMemory(Protocol):
    """Registered memory, as the engine sees it: every access names a protection domain and a key."""

    def local(self, pd: int, address: int, length: int, lkey: int, write: bool) -> memoryview:
        """Return the bytes of a local piece. Raises: AccessError(LOC_PROT_ERR)."""

    def remote(self, pd: int, rkey: int, address: int, length: int, access: Access) -> memoryview:
        """Return the bytes that a peer names. Raises: AccessError(REM_ACCESS_ERR)."""


@dataclass(slots=True, eq=False)
class Reports:
    """Where the halves of all queue pairs leave what happened."""

    drops: Counter[str]
    completions: list[Completion] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)


class QueuePair:
    """Number, attributes, state and peer of a queue pair; its requester and responder hold the rest."""

    def __init__(self, number: int, attributes: QpAttributes) -> None:
        self.number = number
        self.attributes = attributes
        self.state = QpState.RESET
        self.remote: RemoteQp | None = None
        self._framer: RoceFramer | None = None

    def transition(self, state: QpState) -> None:
        """Go to `state`.

        Raises: UsageError if the table has no such arrow; nothing is changed.
        """
        allowed = TRANSITIONS[self.state]
        if state not in allowed:
            names = ", ".join(sorted(other.name for other in allowed))
            raise UsageError(
                f"queue pair {self.number} is in {self.state.name} and cannot go to {state.name}; "
                f"allowed are {names}"
            )
        self.state = state
        if state is QpState.RESET:
            self.remote = None
            self._framer = None

    def connect(self, remote: RemoteQp, framer: RoceFramer) -> None:
        """Remember the other end and the path to it."""
        self.remote = remote
        self._framer = framer

    @property
    def framer(self) -> RoceFramer:
        """What assembles frames to the peer.

        Raises: UsageError before the queue pair is connected.
        """
        if self._framer is None:
            raise UsageError(f"queue pair {self.number} has no peer yet; modify it to RTR first")
        return self._framer

    @property
    def remote_number(self) -> int:
        """The peer's queue pair number, 0 while there is none."""
        return self.remote.qp_num if self.remote else 0


def unwrap_psn(near: int, psn: int) -> int:
    """Return the count of packets, nearest to `near`, whose low 24 bits are `psn`.

    Both halves count packets without end; only the wire sees 24 bits.
    """
    ahead = (psn - near) & PSN_MASK
    return near + ahead if ahead < 1 << (PSN_BITS - 1) else near + ahead - (1 << PSN_BITS)


def packets_of(length_bytes: int, path_mtu: int) -> int:
    """Return how many packets carry a message of `length_bytes`; an empty message still takes one."""
    return max(1, -(-length_bytes // path_mtu))


class SgeList:
    """Local memory in pieces, addressed as if it were one."""

    __slots__ = ("_pieces", "length")

    def __init__(self, pieces: Sequence[memoryview]) -> None:
        self._pieces = pieces
        self.length = sum(len(piece) for piece in pieces)

    @classmethod
    def resolve(cls, memory: RdmaMemory, pd: int, sges: Sequence[Sge], write: bool) -> SgeList:
        """Look up every piece; empty ones are not checked.

        Raises: AccessError if a key does not cover its piece.
        """
        return cls([memory.local(pd, sge.address, sge.length, sge.lkey, write) for sge in sges if sge.length])

    def cut(self, offset: int, length: int) -> list[memoryview]:
        """Return the memory of `length` bytes from `offset` on, piece by piece."""
        found = []
        for piece in self._pieces:
            size = len(piece)
            if offset < size and length:
                part = piece[offset : offset + length]
                found.append(part)
                length -= len(part)
                offset = 0
            else:
                offset = max(0, offset - size)
        return found

    def store(self, offset: int, data: bytes | memoryview) -> None:
        """Write `data` from `offset` on; it must fit."""
        source = memoryview(data)
        for part in self.cut(offset, len(source)):
            part[:] = source[: len(part)]
            source = source[len(part) :]
