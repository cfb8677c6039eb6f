# SPDX-License-Identifier: Apache-2.0
"""A queue pair: its type, its states, its attributes, its peer, and what it reports.

Source: InfiniBand Architecture Specification Volume 1, "Queue Pair State Machine" and "Modify Queue Pair";
ibv_modify_qp(3).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypedDict

from nicemu.abi import Opcode
from nicemu.arguments import check_flag, check_type, check_whole
from nicemu.errors import ProtocolError, UsageError, VerbsStatus
from nicemu.wire import PSN_BITS, RNR_TIMER_NS, check_mac

PATH_MTUS = (256, 512, 1024, 2048, 4096)
MOST_QUEUED = 1 << 20
"""Depth of a queue at most."""
LONGEST_TIMEOUT_NS = 4096 << 31
"""2.4 hours: the longest that the 5 bits of a timeout say."""
LARGEST_NUMBER = (1 << 24) - 1
"""Of a queue pair."""
_MASK_32 = (1 << 32) - 1


class QpType(enum.Enum):
    """Service that a queue pair offers."""

    RC = "reliable connection"
    UD = "unreliable datagram"


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
SENDING = frozenset({QpState.RTS, QpState.SQD})


class AccessError(ProtocolError):
    """Memory that a request may not touch; `status` says whose key or range was wrong."""

    def __init__(self, status: VerbsStatus, message: str = "") -> None:
        super().__init__(f"{status.name}: {message}" if message else status.name)
        self.status = status


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
    DATAGRAM = "datagram"
    DATAGRAM_WITH_IMM = "datagram with immediate"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A peer's message that is complete here, reported once, after its data is visible.

    A READ is reported when its last response has been read from memory. `wr_id` is the receive that the
    message consumed (SEND, datagram; WRITE_WITH_IMM unless receives are implicit); `rkey` is what the peer
    named (not for those). Of a datagram, `byte_len` counts the 40 bytes before its payload, and `source_qp`
    and `source_ip` say who sent it.
    """

    qp_num: int
    kind: ArrivalKind
    byte_len: int
    imm_data: int | None = None
    rkey: int = 0
    wr_id: int = 0
    source_qp: int = 0
    source_ip: str = ""


@dataclass(frozen=True, slots=True)
class RemoteQp:
    """The other end of a connection: where its NIC is, its number, and the first PSN it will send."""

    mac: bytes
    ip: str
    qp_num: int
    psn: int


@dataclass(frozen=True, slots=True)
class Datagram:
    """Where a datagram goes: an address handle of the engine, a queue pair there, and its Q_Key."""

    handle: int
    qp_num: int
    q_key: int


class QpOptions(TypedDict, total=False):
    """Attributes of a queue pair that have defaults, which QpAttributes says."""

    path_mtu: int
    send_queue_depth: int
    receive_queue_depth: int
    retry_count: int
    rnr_retry: int
    timeout_ns: int
    min_rnr_timer_ns: int
    implicit_receives: bool
    qp_type: QpType
    q_key: int
    traffic_class: int
    selective_retransmission: bool
    congestion_control: bool


@dataclass(frozen=True, slots=True)
class QpAttributes:
    """What is fixed when a queue pair is created.

    `retry_count`: retransmissions without progress before giving up; `rnr_retry` the same after
    receiver-not-ready NAKs, 7 meaning for ever; `timeout_ns` of 0 means that no answer is waited for ever.
    `min_rnr_timer_ns` is how long a peer is asked to wait for a receive. With `implicit_receives`,
    WRITE_WITH_IMM consumes no receive. `q_key` is what datagrams to a queue pair of type UD must carry.
    `traffic_class` is the type of service that IP headers of a connection carry, four times a DSCP.
    With `selective_retransmission`, which both ends must have, a lost packet alone is sent again; without it,
    all behind it too. With `congestion_control` packets may be marked on their way, marks are told to the
    peer, and what the peer tells lowers the rate.
    Raises: UsageError for a value of another type or out of range, or one that `qp_type` has no use for.
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
    qp_type: QpType = QpType.RC
    q_key: int = 0
    traffic_class: int = 0
    selective_retransmission: bool = False
    congestion_control: bool = False

    def __post_init__(self) -> None:
        for name, most in _WHOLES.items():
            check_whole(name, getattr(self, name), 1 if name.endswith("_depth") else 0, most)
        for name in ("implicit_receives", "selective_retransmission", "congestion_control"):
            check_flag(name, getattr(self, name))
        check_type("qp_type", self.qp_type, QpType, "QpType.RC or QpType.UD")
        check_traffic_class(self.traffic_class)
        if not isinstance(self.path_mtu, int) or self.path_mtu not in PATH_MTUS:
            raise UsageError(f"path_mtu is {self.path_mtu!r}; allowed are {', '.join(map(str, PATH_MTUS))}")
        if self.qp_type is QpType.UD and (self.selective_retransmission or self.congestion_control):
            raise UsageError(
                "selective retransmission and congestion control are for connections, not type UD"
            )
        if self.qp_type is not QpType.UD and self.q_key:
            raise UsageError(
                f"q_key is {self.q_key:#x} and qp_type {self.qp_type.name}; type UD alone has a Q_Key: leave "
                "it out, or pass qp_type=QpType.UD"
            )


_WHOLES = {
    "pd": _MASK_32,
    "send_queue_depth": MOST_QUEUED,
    "receive_queue_depth": MOST_QUEUED,
    "retry_count": 7,
    "rnr_retry": 7,
    "timeout_ns": LONGEST_TIMEOUT_NS,
    "min_rnr_timer_ns": max(RNR_TIMER_NS),
    "q_key": _MASK_32,
}
"""The most that a whole number among the attributes may be."""


def check_traffic_class(traffic_class: int) -> None:
    """Raise UsageError unless `traffic_class` is a byte whose two bits for ECN are 0."""
    if check_whole("traffic_class", traffic_class, 0, 255) & 3:
        raise UsageError(f"traffic_class is {traffic_class}; it is a multiple of 4 (a DSCP) from 0 to 252")


def check_transition(number: int, before: QpState, state: QpState) -> None:
    """Raise UsageError unless queue pair `number` may go from `before` to `state`."""
    allowed = TRANSITIONS[before]
    if state not in allowed:
        names = ", ".join(sorted(other.name for other in allowed))
        raise UsageError(
            f"queue pair {number} is in {before.name} and cannot go to {state.name}; allowed are {names}"
        )


def check_remote(remote: RemoteQp) -> None:
    """Raise UsageError unless every field of `remote` fits the wire (its IP address is parsed elsewhere)."""
    check_type("remote", remote, RemoteQp, "RemoteQp(mac, ip, qp_num, psn)")
    check_mac(remote.mac)
    check_whole("qp_num of remote", remote.qp_num, 0, LARGEST_NUMBER)
    check_whole("psn of remote", remote.psn, 0, (1 << PSN_BITS) - 1)


def check_destination(to: object) -> None:
    """Raise UsageError unless `to` says where a datagram goes (its address handle is looked up elsewhere)."""
    if not isinstance(to, Datagram):
        raise UsageError(f"to is {to!r}; pass Datagram(handle, qp_num, q_key)")
    check_whole("qp_num of to", to.qp_num, 0, LARGEST_NUMBER)
    check_whole("q_key of to", to.q_key, 0, _MASK_32)
