# SPDX-License-Identifier: Apache-2.0
"""The engine as plain objects, easily read: what `nicemu.rdma.RoceEngine` is held against, frame for frame.

Source: InfiniBand Architecture Specification Volume 1, "Transport Layer"; Annex A17, "RoCEv2".
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from nicemu.abi import Sge, WorkRequest
from nicemu.errors import UsageError
from nicemu.rdma.dcqcn import Dcqcn
from nicemu.rdma.queue_pair import (
    Arrival,
    Completion,
    Datagram,
    QpAttributes,
    QpOptions,
    QpState,
    QpType,
    RemoteQp,
    check_remote,
)
from nicemu.wire import (
    CNP_OPCODE,
    PSN_BITS,
    RC_OPCODE_LIMIT,
    MalformedError,
    RcOpcode,
    RoceFramer,
    decode_roce_frame,
    parse_ipv4,
)
from tests.unit.rdma.reference.congestion import Congestion
from tests.unit.rdma.reference.datagrams import Datagrams
from tests.unit.rdma.reference.queue_pair import RECEIVING, QueuePair, RdmaMemory, Reports
from tests.unit.rdma.reference.requester import Requester
from tests.unit.rdma.reference.responder import Responder

BURST_FRAMES = 16
"""Frames that one queue pair gives before the next one has its turn."""

_RESPONSES = frozenset(
    {
        RcOpcode.RDMA_READ_RESPONSE_FIRST,
        RcOpcode.RDMA_READ_RESPONSE_MIDDLE,
        RcOpcode.RDMA_READ_RESPONSE_LAST,
        RcOpcode.RDMA_READ_RESPONSE_ONLY,
        RcOpcode.ACKNOWLEDGE,
        RcOpcode.ATOMIC_ACKNOWLEDGE,
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class _Connection:
    """A queue pair with its two halves."""

    qp: QueuePair
    requester: Requester
    responder: Responder
    congestion: Congestion
    datagrams: Datagrams | None = None


class RoceEngine:
    """The RoCEv2 transport of one NIC with address `mac` and `ip`.

    Frames are made when they are taken, so after every way in (`post_send`, `on_frame`, `on_timer`) take
    frames, then completions and arrivals. `drops` counts under a name each whatever was not accepted from
    the wire.
    """

    def __init__(
        self,
        memory: RdmaMemory,
        mac: bytes,
        ip: str,
        rng: random.Random,
        drops: Counter[str],
        dcqcn: Dcqcn | None = None,
    ) -> None:
        self._dcqcn = dcqcn or Dcqcn()
        self._memory = memory
        self._mac = mac
        self._ip = ip
        self._address = parse_ipv4(ip)
        self._rng = rng
        self._reports = Reports(drops)
        self._connections: dict[int, _Connection] = {}
        self._peers: dict[int, bytes] = {}
        self._active: dict[int, None] = {}
        self._framers: dict[int, RoceFramer] = {}
        self._free_handles: list[int] = []
        self._now_ns = 0

    @property
    def drops(self) -> Counter[str]:
        """What was not accepted from the wire, by name."""
        return self._reports.drops

    def create_qp(self, qp_num: int, pd: int, **options: Unpack[QpOptions]) -> None:
        """Create a queue pair in RESET, with a random first PSN; the attributes are those of QpAttributes.

        Raises: UsageError if the number is taken or no 24-bit number, or an attribute is out of range.
        """
        if not 0 <= qp_num < 1 << 24 or qp_num in self._connections:
            raise UsageError(f"queue pair number {qp_num:#x} is taken or has more than 24 bits")
        attributes = QpAttributes(pd, **options)
        qp = QueuePair(qp_num, attributes)

        def enter_error() -> None:
            self._enter_error(qp_num)

        requester = Requester(qp, self._memory, self._reports, enter_error)
        responder = Responder(qp, self._memory, self._reports, enter_error)
        requester.reset(self._rng.getrandbits(PSN_BITS))
        congestion = Congestion(self._dcqcn, attributes.congestion_control, self._reports.drops)
        datagrams = None
        if attributes.qp_type is QpType.UD:
            datagrams = Datagrams(qp, requester, responder, self._memory, self._reports, self._framer_of)
        self._connections[qp_num] = _Connection(qp, requester, responder, congestion, datagrams)

    def modify(
        self, qp_num: int, state: QpState, *, remote: RemoteQp | None = None, sq_psn: int | None = None
    ) -> None:
        """Move a queue pair to `state`; RTR needs `remote`, and RTS from RTR may set the first PSN, `sq_psn`.

        Going to ERR flushes both queues; going to RESET forgets them and draws a new first PSN.
        Raises: UsageError if the transition is not allowed or a value is missing or wrong; nothing is
        changed.
        """
        connection = self._find(qp_num)
        qp, before = connection.qp, connection.qp.state
        framer = None
        if connection.datagrams is not None:
            if remote is not None:
                raise UsageError(f"queue pair {qp_num} sends datagrams and has no peer; pass no remote")
        elif state is QpState.RTR:
            if remote is None:
                raise UsageError(
                    f"queue pair {qp_num} cannot go to RTR without its peer; pass remote=RemoteQp(...)"
                )
            check_remote(remote)
            traffic_class = qp.attributes.traffic_class | (2 if qp.attributes.congestion_control else 0)
            framer = self._new_framer(remote.mac, remote.ip, traffic_class)
        elif remote is not None:
            raise UsageError(f"the peer of queue pair {qp_num} is set on the way to RTR, not to {state.name}")
        starts = state is QpState.RTS and before is QpState.RTR
        if sq_psn is not None and (not starts or not 0 <= sq_psn < 1 << PSN_BITS):
            raise UsageError(f"sq_psn {sq_psn:#x} is a 24-bit number, set on the way from RTR to RTS")
        if state is QpState.ERR:
            qp.transition(state)
            self._flush(connection)
            return
        qp.transition(state)
        if state is QpState.RESET:
            connection.requester.reset(self._rng.getrandbits(PSN_BITS))
            connection.congestion.reset()
            connection.responder.reset(0)
            connection.responder.drop_receives()
            self._active.pop(qp_num, None)
            self._peers.pop(qp_num, None)
        elif remote is not None and framer is not None:
            qp.connect(remote, framer)
            self._peers[qp_num] = parse_ipv4(remote.ip)
            connection.responder.reset(remote.psn)
        elif state is QpState.RTR:
            connection.responder.reset(0)
        elif state is QpState.RTS:
            if sq_psn is not None:
                connection.requester.reset(sq_psn)
                connection.congestion.reset()
            self._active[qp_num] = None

    def destroy_qp(self, qp_num: int) -> None:
        """Remove a queue pair; its work goes without completions, as ibv_destroy_qp(3) says.

        Raises: UsageError if there is none of this number.
        """
        self._find(qp_num)
        del self._connections[qp_num]
        self._active.pop(qp_num, None)
        self._peers.pop(qp_num, None)

    def state(self, qp_num: int) -> QpState:
        """Return the state of a queue pair."""
        return self._find(qp_num).qp.state

    def local(self, qp_num: int) -> RemoteQp:
        """Return what a peer has to know to connect to this queue pair."""
        return RemoteQp(self._mac, self._ip, qp_num, self._find(qp_num).requester.psn)

    def _new_framer(self, mac: bytes, ip: str, traffic_class: int) -> RoceFramer:
        return RoceFramer(self._mac, mac, self._address, parse_ipv4(ip), type_of_service=traffic_class)

    def create_address_handle(self, mac: bytes, ip: str, *, traffic_class: int = 0) -> int:
        """Return the number of a path that datagrams may take."""
        number = self._free_handles.pop() if self._free_handles else len(self._framers)
        self._framers[number] = self._new_framer(mac, ip, traffic_class)
        return number

    def destroy_address_handle(self, handle: int) -> None:
        """Give a path back.

        Raises: UsageError if there is no such handle.
        """
        if self._framers.pop(handle, None) is None:
            raise UsageError(f"there is no address handle {handle}; create it first")
        self._free_handles.append(handle)

    def _framer_of(self, handle: int) -> RoceFramer | None:
        return self._framers.get(handle)

    def post_send(
        self, qp_num: int, work: WorkRequest, context: int, now_ns: int, *, to: Datagram | None = None
    ) -> bool:
        """Post work; False if the send queue is full. In an error state it completes with WR_FLUSH_ERR.

        Raises: UsageError if there is no such queue pair, or it is not ready to send.
        """
        connection = self._find(qp_num)
        if to is not None:
            if to.handle not in self._framers:
                raise UsageError(f"there is no address handle {to.handle}; create it first")
            work = replace(work, remote_address=to.handle, rkey=to.q_key, compare_add=to.qp_num)
        self._now_ns = now_ns
        posted = connection.requester.post(work, context, connection.datagrams)
        self._active[qp_num] = None
        return posted

    def post_receive(self, qp_num: int, wr_id: int, sges: Sequence[Sge] = ()) -> bool:
        """Post a receive; False if the receive queue is full.

        Raises: UsageError if there is no such queue pair, or it is in RESET.
        """
        return self._find(qp_num).responder.post_receive(wr_id, tuple(sges))

    def on_frame(self, frame: bytes | memoryview, now_ns: int) -> None:
        """Take a whole Ethernet frame; nothing in it makes this raise.

        The frame is not kept: its memory may be reused afterwards.
        """
        self._now_ns = now_ns
        drops = self._reports.drops
        try:
            packet = decode_roce_frame(frame)
        except MalformedError as error:
            drops[error.reason] += 1
            return
        if packet.ip.destination != self._address:
            drops["ip.destination"] += 1
            return
        qp_num = packet.bth.destination_qp
        connection = self._connections.get(qp_num)
        if connection is None:
            drops["rocev2.unknown_qp"] += 1
            return
        if connection.qp.state not in RECEIVING:
            drops["rocev2.qp_state"] += 1
        elif packet.bth.partition_key & 0x7FFF != 0x7FFF:
            drops["rocev2.partition_key"] += 1
        elif connection.datagrams is not None or packet.bth.opcode >= RC_OPCODE_LIMIT:
            is_notification = packet.bth.opcode == CNP_OPCODE
            if connection.datagrams is not None and packet.deth is not None:
                connection.datagrams.on_datagram(packet)
            elif connection.datagrams is not None or not is_notification:
                drops["rocev2.transport"] += 1
            elif packet.ip.source != self._peers[qp_num]:
                drops["rocev2.source"] += 1
            else:
                connection.congestion.on_notification(now_ns)
        elif packet.ip.source != self._peers[qp_num]:
            drops["rocev2.source"] += 1
        else:
            if connection.qp.attributes.congestion_control and packet.ip.type_of_service & 3 == 3:
                self._on_marked(connection)
            if packet.bth.opcode not in _RESPONSES:
                connection.responder.on_request(packet)
                self._active[qp_num] = None
            elif connection.qp.state is QpState.RTR:
                drops["rocev2.qp_state"] += 1
            else:
                connection.requester.on_response(packet, now_ns)
                self._active[qp_num] = None

    def _on_marked(self, connection: _Connection) -> None:
        """Notify the peer of congestion, unless that was done just now, before all else that waits."""
        if connection.congestion.may_notify(self._now_ns) and connection.responder.may_answer():
            connection.congestion.notified(self._now_ns)
            connection.responder.answer_first(connection.qp.framer.cnp(connection.qp.remote_number))

    def on_timer(self, now_ns: int) -> None:
        """Let every queue pair whose deadline has passed retry."""
        self._now_ns = now_ns
        for qp_num, connection in list(self._connections.items()):
            deadline_ns = connection.requester.next_deadline_ns()
            if connection.congestion.time_has_come(now_ns):
                self._active[qp_num] = None
            if deadline_ns is not None and deadline_ns <= now_ns:
                connection.requester.on_timer(now_ns)
                self._active[qp_num] = None

    def next_deadline_ns(self) -> int | None:
        """When `on_timer` wants to be called; None while nothing is waited for."""
        return min(
            (
                deadline_ns
                for connection in self._connections.values()
                for one in (connection.requester, connection.congestion)
                if (deadline_ns := one.next_deadline_ns()) is not None
            ),
            default=None,
        )

    def take_frames(self, limit: int | None = None) -> list[bytes]:
        """Return frames to send now, at most `limit`; what is over is made at the next call."""
        frames: list[bytes] = []
        while self._active and (limit is None or len(frames) < limit):
            qp_num = next(iter(self._active))
            del self._active[qp_num]
            burst = BURST_FRAMES if limit is None else min(BURST_FRAMES, limit - len(frames))
            if self._take_burst(self._connections[qp_num], burst, frames):
                self._active[qp_num] = None
        return frames

    def take_completions(self) -> list[Completion]:
        """Return the completions since the last call, oldest first."""
        taken, self._reports.completions = self._reports.completions, []
        return taken

    def take_arrivals(self) -> list[Arrival]:
        """Return the arrivals since the last call, oldest first."""
        taken, self._reports.arrivals = self._reports.arrivals, []
        return taken

    def _take_burst(self, connection: _Connection, burst: int, frames: list[bytes]) -> bool:
        """Append up to `burst` frames; True if there may be more."""
        for _ in range(burst):
            is_data = not connection.responder.answers_without_data()
            if is_data and connection.congestion.limited:
                nothing = connection.responder.has_none() and not connection.requester.may_send()
                if nothing or connection.congestion.must_wait(self._now_ns):
                    return False
            frame = connection.responder.next_frame()
            if frame is None and connection.datagrams is not None:
                frame = connection.datagrams.next_frame()
            elif frame is None:
                frame = connection.requester.next_frame(self._now_ns)
            if frame is None:
                return False
            if is_data:
                connection.congestion.count_frame(len(frame), self._now_ns)
            frames.append(frame)
        return True

    def _find(self, qp_num: int) -> _Connection:
        connection = self._connections.get(qp_num)
        if connection is None:
            raise UsageError(f"there is no queue pair {qp_num:#x}; create it first")
        return connection

    def _enter_error(self, qp_num: int) -> None:
        connection = self._connections[qp_num]
        connection.qp.transition(QpState.ERR)
        self._flush(connection)

    def _flush(self, connection: _Connection) -> None:
        connection.requester.flush()
        connection.congestion.wait_for_nothing()
        connection.responder.flush()
