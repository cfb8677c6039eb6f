# SPDX-License-Identifier: Apache-2.0
"""Unreliable datagrams: each message is one packet, which nobody acknowledges.

Source: InfiniBand Architecture Specification Volume 1, "Unreliable Datagram", "Q_Key"; ibv_post_recv(3).
"""

from __future__ import annotations

from collections.abc import Callable

from nicemu.abi import Opcode, WorkRequest
from nicemu.errors import VerbsStatus
from nicemu.rdma.queue_pair import AccessError, Arrival, ArrivalKind
from nicemu.wire import (
    PSN_MASK,
    Deth,
    RoceFramer,
    RocePacket,
    UdOpcode,
    encode_immediate,
    format_ipv4,
)
from tests.unit.rdma.reference.queue_pair import QueuePair, RdmaMemory, Reports, SgeList
from tests.unit.rdma.reference.requester import Requester
from tests.unit.rdma.reference.responder import Responder

GRH_BYTES = 40


class Datagrams:
    """Both halves of a queue pair of type UD; its queues are those of requester and responder."""

    def __init__(
        self,
        qp: QueuePair,
        requester: Requester,
        responder: Responder,
        memory: RdmaMemory,
        reports: Reports,
        framer_of: Callable[[int], RoceFramer | None],
    ) -> None:
        self._qp = qp
        self._requester = requester
        self._responder = responder
        self._memory = memory
        self._reports = reports
        self._framer_of = framer_of

    def error_of(self, work: WorkRequest) -> VerbsStatus | None:
        """Return what is wrong with a message that is posted."""
        if work.opcode not in (Opcode.SEND, Opcode.SEND_WITH_IMM):
            return VerbsStatus.LOC_QP_OP_ERR
        if work.length_bytes > self._qp.attributes.path_mtu:
            return VerbsStatus.LOC_LEN_ERR
        return None

    def next_frame(self) -> bytes | None:
        """Return the next datagram that may be sent now, or None."""
        found = self._requester.next_datagram()
        if found is None:
            return None
        work, sges, psn = found
        framer = self._framer_of(work.remote_address)
        if framer is None:
            self._requester.datagram_left(VerbsStatus.LOC_QP_OP_ERR)
            return None
        is_controlled = work.rkey >> 31
        q_key = self._qp.attributes.q_key if is_controlled else work.rkey
        extension = Deth(q_key, self._qp.number).encode()
        opcode = UdOpcode.SEND_ONLY
        if work.opcode is Opcode.SEND_WITH_IMM:
            extension += encode_immediate(work.imm_data)
            opcode = UdOpcode.SEND_ONLY_WITH_IMMEDIATE
        payload = sges.cut(0, sges.length)
        frame = framer.frame(opcode, work.compare_add, psn & PSN_MASK, extension=extension, payload=payload)
        self._requester.datagram_left(None)
        return frame

    def on_datagram(self, packet: RocePacket) -> None:
        """Take a datagram, or drop it."""
        drops, deth, payload = self._reports.drops, packet.deth, packet.payload
        if deth is None or deth.q_key != self._qp.attributes.q_key:
            drops["datagram.q_key"] += 1
            return
        receive = self._responder.first_receive()
        if receive is None:
            drops["datagram.no_receive"] += 1
            return
        wr_id, pieces = receive
        length = GRH_BYTES + len(payload)
        room = sum(piece.length for piece in pieces)
        if len(payload) > self._qp.attributes.path_mtu or length > room:
            drops["datagram.too_long"] += 1
            return
        try:
            sges = SgeList.resolve(self._memory, self._qp.attributes.pd, pieces, True)
        except AccessError as refused:
            self._responder.lose_receive(refused.status)
            return
        self._responder.drop_receive()
        sges.store(GRH_BYTES - 20, packet.ip.encode())
        sges.store(GRH_BYTES, payload)
        with_imm = packet.imm_data is not None
        kind = ArrivalKind.DATAGRAM_WITH_IMM if with_imm else ArrivalKind.DATAGRAM
        source = deth.source_qp, format_ipv4(packet.ip.source)
        self._reports.arrivals.append(
            Arrival(self._qp.number, kind, length, packet.imm_data, 0, wr_id, *source)
        )
