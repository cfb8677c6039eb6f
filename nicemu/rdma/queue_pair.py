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
from nicemu.errors import ProtocolError, UsageError, VerbsStatus
from nicemu.wire import PSN_BITS, format_mac

PATH_MTUS = (256, 512, 1024, 2048, 4096)


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
        if self.path_mtu not in PATH_MTUS:
            raise UsageError(f"path_mtu is {self.path_mtu}; allowed are {', '.join(map(str, PATH_MTUS))}")
        if not (0 <= self.retry_count <= 7 and 0 <= self.rnr_retry <= 7):
            raise UsageError(f"retry_count {self.retry_count} and rnr_retry {self.rnr_retry} must be 0 to 7")
        if self.send_queue_depth < 1 or self.receive_queue_depth < 1:
            raise UsageError("a queue needs a depth of 1 at least")
        if not 0 <= self.q_key < 1 << 32:
            raise UsageError(f"q_key is {self.q_key:#x}; it is a 32-bit number")
        check_traffic_class(self.traffic_class)
        if self.qp_type is QpType.UD and (self.selective_retransmission or self.congestion_control):
            raise UsageError(
                "selective retransmission and congestion control are for connections, not type UD"
            )
        if self.timeout_ns < 0 or self.min_rnr_timer_ns < 0:
            raise UsageError("a time in nanoseconds cannot be negative")


def check_traffic_class(traffic_class: int) -> None:
    """Raise UsageError unless `traffic_class` is a byte whose two bits for ECN are 0."""
    if not 0 <= traffic_class < 1 << 8 or traffic_class & 3:
        raise UsageError(f"traffic_class is {traffic_class}; it is a multiple of 4 (a DSCP) from 0 to 252")


def check_transition(number: int, before: QpState, state: QpState) -> None:
    """Raise UsageError unless queue pair `number` may go from `before` to `state`."""
    allowed = TRANSITIONS[before]
    if state not in allowed:
        names = ", ".join(sorted(other.name for other in allowed))
        raise UsageError(
            f"queue pair {number} is in {before.name} and cannot go to {state.name}; allowed are {names}"
        )


def check_mac(mac: bytes) -> None:
    """Raise UsageError unless `mac` has the length of a MAC address."""
    if len(mac) != 6:
        raise UsageError(f"a MAC address has 6 bytes, {format_mac(mac)!r} has {len(mac)}")


def check_remote(remote: RemoteQp) -> None:
    """Raise UsageError unless every field of `remote` fits the wire (its IP address is parsed elsewhere)."""
    check_mac(remote.mac)
    if not 0 <= remote.qp_num < 1 << 24 or not 0 <= remote.psn < 1 << PSN_BITS:
        raise UsageError(f"qp_num {remote.qp_num:#x} and psn {remote.psn:#x} must be 24-bit numbers")
