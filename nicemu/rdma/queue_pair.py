# SPDX-License-Identifier: Apache-2.0
"""A reliable connection's queue pair: its states, its attributes, and what both of its halves share.

Source: InfiniBand Architecture Specification Volume 1, "Queue Pair State Machine" and "Modify Queue Pair";
ibv_modify_qp(3).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nicemu.abi import Access, Opcode, Sge
from nicemu.errors import ProtocolError, UsageError, VerbsStatus
from nicemu.wire import PSN_BITS, PSN_MASK, RoceFramer, format_mac

PATH_MTUS = (256, 512, 1024, 2048, 4096)
MAX_RD_ATOMIC = 16
"""READ and atomic requests that may be unanswered at once, and atomic results kept for replay."""
INFINITE_RNR_RETRY = 7


class QpState(enum.Enum):
    """State of a queue pair."""

    RESET = "reset"
    INIT = "init"
    RTR = "ready to receive"
    RTS = "ready to send"
    SQD = "send queue drained"
    SQE = "send queue error"
    ERR = "error"


_FROM_ANY = frozenset({QpState.RESET, QpState.ERR})
TRANSITIONS: dict[QpState, frozenset[QpState]] = {
    QpState.RESET: _FROM_ANY | {QpState.INIT},
    QpState.INIT: _FROM_ANY | {QpState.INIT, QpState.RTR},
    QpState.RTR: _FROM_ANY | {QpState.RTS},
    QpState.RTS: _FROM_ANY | {QpState.RTS, QpState.SQD, QpState.SQE},
    QpState.SQD: _FROM_ANY | {QpState.RTS, QpState.SQD},
    QpState.SQE: _FROM_ANY | {QpState.RTS},
    QpState.ERR: _FROM_ANY,
}
RECEIVING = frozenset({QpState.RTR, QpState.RTS, QpState.SQD, QpState.SQE})
SENDING = frozenset({QpState.RTS, QpState.SQD})


class AccessError(ProtocolError):
    """Memory that a request may not touch; `status` says whose key or range was wrong."""

    def __init__(self, status: VerbsStatus, message: str = "") -> None:
        super().__init__(f"{status.name}: {message}" if message else status.name)
        self.status = status


class RdmaMemory(Protocol):
    """Registered memory, as the engine sees it: every access names a protection domain and a key."""

    def local(self, pd: int, address: int, length: int, lkey: int, write: bool) -> memoryview:
        """Return the bytes of a local piece. Raises: AccessError(LOC_PROT_ERR)."""

    def remote(self, pd: int, rkey: int, address: int, length: int, access: Access) -> memoryview:
        """Return the bytes that a peer names. Raises: AccessError(REM_ACCESS_ERR)."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The end of a posted send, good or bad, or of a receive that did not end well.

    `context` is what the poster gave (0 for receives). Every send is reported, signaled or not: who wants a
    completion queue entry is for the caller to decide.
    """

    context: int
    qp_num: int
    status: VerbsStatus
    opcode: Opcode
    byte_len: int
    wr_id: int


class ArrivalKind(enum.Enum):
    """What a peer did here."""

    WRITE = "write"
    WRITE_WITH_IMM = "write with immediate"
    SEND = "send"
    SEND_WITH_IMM = "send with immediate"
    READ = "read"
    ATOMIC = "atomic"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A peer's message that is complete here, reported once, after its data is visible.

    A READ is reported when its last response has been read from memory. `wr_id` is the receive that the
    message consumed (SEND; WRITE_WITH_IMM unless receives are implicit); `rkey` is what the peer named (not
    for SEND).
    """

    qp_num: int
    kind: ArrivalKind
    byte_len: int
    imm_data: int | None = None
    rkey: int = 0
    wr_id: int = 0


@dataclass(slots=True, eq=False)
class Reports:
    """Where the halves of all queue pairs leave what happened."""

    drops: Counter[str]
    completions: list[Completion] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RemoteQp:
    """The other end of a connection: where its NIC is, its number, and the first PSN it will send."""

    mac: bytes
    ip: str
    qp_num: int
    psn: int


@dataclass(frozen=True, slots=True)
class QpAttributes:
    """What is fixed when a queue pair is created.

    `retry_count`: retransmissions without progress before giving up; `rnr_retry` the same after
    receiver-not-ready NAKs, 7 meaning for ever; `timeout_ns` of 0 means that no answer is waited for ever.
    `min_rnr_timer_ns` is how long a peer is asked to wait for a receive. With `implicit_receives`,
    WRITE_WITH_IMM consumes no receive.
    """

    pd: int
    path_mtu: int = 1024
    send_queue_depth: int = 128
    receive_queue_depth: int = 128
    retry_count: int = 7
    rnr_retry: int = 7
    timeout_ns: int = 67_108_864
    min_rnr_timer_ns: int = 640_000
    implicit_receives: bool = False

    def __post_init__(self) -> None:
        if self.path_mtu not in PATH_MTUS:
            raise UsageError(f"path_mtu is {self.path_mtu}; allowed are {', '.join(map(str, PATH_MTUS))}")
        if not (0 <= self.retry_count <= 7 and 0 <= self.rnr_retry <= 7):
            raise UsageError(f"retry_count {self.retry_count} and rnr_retry {self.rnr_retry} must be 0 to 7")
        if self.send_queue_depth < 1 or self.receive_queue_depth < 1:
            raise UsageError("a queue needs a depth of 1 at least")
        if self.timeout_ns < 0 or self.min_rnr_timer_ns < 0:
            raise UsageError("a time in nanoseconds cannot be negative")


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


def check_remote(remote: RemoteQp) -> None:
    """Raise UsageError unless every field of `remote` fits the wire (its IP address is parsed elsewhere)."""
    if len(remote.mac) != 6:
        raise UsageError(f"a MAC address has 6 bytes, {format_mac(remote.mac)!r} has {len(remote.mac)}")
    if not 0 <= remote.qp_num < 1 << 24 or not 0 <= remote.psn < 1 << PSN_BITS:
        raise UsageError(f"qp_num {remote.qp_num:#x} and psn {remote.psn:#x} must be 24-bit numbers")


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
