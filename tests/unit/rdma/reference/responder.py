# SPDX-License-Identifier: Apache-2.0
"""The receiving half of a reliable connection: order, rights, acknowledgements, replays.

Every right is checked before a byte is written: the whole range at a message's first packet, and each
packet's own range again when it arrives, for a key may be taken back in between. Acknowledgements are made
when frames are taken, so several become one, and never before the data is in memory.
Source: InfiniBand Architecture Specification Volume 1, "Responder: Receiving Inbound Request Packets",
"Responder: Generating Responses", "Duplicate requests"; Annex A17 "RoCEv2".
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from nicemu.abi import Access, Opcode, Sge
from nicemu.errors import UsageError, VerbsStatus
from nicemu.rdma.queue_pair import AccessError, Arrival, ArrivalKind, Completion, QpState
from nicemu.wire import (
    ETHERNET_HEADER_BYTES,
    PSN_MASK,
    Aeth,
    AtomicAckEth,
    AtomicEth,
    NakCode,
    RcOpcode,
    Reth,
    RocePacket,
    rnr_timer_code,
)
from tests.unit.rdma.reference.queue_pair import (
    MAX_RD_ATOMIC,
    MAX_WAITING_ANSWERS,
    QueuePair,
    RdmaMemory,
    Reports,
    SgeList,
    packets_of,
    unwrap_psn,
)

MAX_DMA_BYTES = 1 << 31
MAX_WAITING_REPLAYS = 64
"""Answers that may wait to be sent before repeated requests are dropped (they will be repeated again)."""
SELECTIVE_PACKETS = 64
LONGEST_FRAME_BYTES = 4352
_ATOMIC_BYTES = 8
_MASK_64 = (1 << 64) - 1


class _Kind(enum.Enum):
    SEND = enum.auto()
    WRITE = enum.auto()


@dataclass(frozen=True, slots=True)
class _Segment:
    """Place of a SEND or WRITE packet in its message."""

    kind: _Kind
    first: bool
    last: bool


_SEGMENTS = {
    RcOpcode.SEND_FIRST: _Segment(_Kind.SEND, True, False),
    RcOpcode.SEND_MIDDLE: _Segment(_Kind.SEND, False, False),
    RcOpcode.SEND_LAST: _Segment(_Kind.SEND, False, True),
    RcOpcode.SEND_LAST_WITH_IMMEDIATE: _Segment(_Kind.SEND, False, True),
    RcOpcode.SEND_ONLY: _Segment(_Kind.SEND, True, True),
    RcOpcode.SEND_ONLY_WITH_IMMEDIATE: _Segment(_Kind.SEND, True, True),
    RcOpcode.RDMA_WRITE_FIRST: _Segment(_Kind.WRITE, True, False),
    RcOpcode.RDMA_WRITE_MIDDLE: _Segment(_Kind.WRITE, False, False),
    RcOpcode.RDMA_WRITE_LAST: _Segment(_Kind.WRITE, False, True),
    RcOpcode.RDMA_WRITE_LAST_WITH_IMMEDIATE: _Segment(_Kind.WRITE, False, True),
    RcOpcode.RDMA_WRITE_ONLY: _Segment(_Kind.WRITE, True, True),
    RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE: _Segment(_Kind.WRITE, True, True),
}
_READ_RESPONSES = (
    (RcOpcode.RDMA_READ_RESPONSE_MIDDLE, RcOpcode.RDMA_READ_RESPONSE_LAST),
    (RcOpcode.RDMA_READ_RESPONSE_FIRST, RcOpcode.RDMA_READ_RESPONSE_ONLY),
)


class _Refused(Exception):  # noqa: N818 - never leaves this file
    """A request that is answered with a fatal NAK."""

    def __init__(self, code: NakCode) -> None:
        self.code = code


class _NotReady(Exception):  # noqa: N818 - never leaves this file
    """A request that needs a receive where none is posted."""


@dataclass(slots=True, eq=False)
class _Incoming:
    """A SEND or WRITE of which not all packets are here."""

    kind: _Kind
    done: int = 0
    reth: Reth | None = None
    wr_id: int = 0
    sges: SgeList | None = None


@dataclass(slots=True, eq=False)
class _Answer:
    """An ACK, a NAK or an atomic's result that waits to be sent."""

    psn: int
    aeth: Aeth
    original: int | None = None
    coalesces: bool = False
    bits: int | None = None


@dataclass(slots=True, eq=False)
class _ReadAnswer:
    """A READ whose responses wait to be sent: `psn` moves on, `reth` belongs to `first_psn`."""

    psn: int
    first_psn: int
    end_psn: int
    reth: Reth
    msn: int
    reported: bool
    whole_length: int


class Responder:
    """Executes a peer's requests in order, once each, and answers them."""

    def __init__(
        self, qp: QueuePair, memory: RdmaMemory, reports: Reports, enter_error: Callable[[], None]
    ) -> None:
        self._qp = qp
        self._memory = memory
        self._reports = reports
        self._enter_error = enter_error
        self._receives: deque[tuple[int, tuple[Sge, ...]]] = deque()
        self._answers: deque[_Answer | _ReadAnswer | bytes] = deque()
        self._replays: OrderedDict[int, _Answer] = OrderedDict()
        self._held: dict[int, RocePacket] = {}
        self.reset(0)

    def reset(self, psn: int) -> None:
        """Forget everything but the receives; the peer's next packet will have `psn`."""
        self._expected_psn = psn
        self._msn = 0
        self._incoming: _Incoming | None = None
        self._gap_answered = False
        self._answers.clear()
        self._replays.clear()
        self._held.clear()

    def drop_receives(self) -> None:
        """Forget the receives, without completions, as the transition to RESET does."""
        self._receives.clear()

    def post_receive(self, wr_id: int, sges: tuple[Sge, ...]) -> bool:
        """Queue a receive; False if the receive queue is full.

        Raises: UsageError in RESET.
        """
        if self._qp.state is QpState.RESET:
            raise UsageError(f"queue pair {self._qp.number} is in RESET; modify it to INIT to post receives")
        if self._qp.state is QpState.ERR:
            self._complete_receive(wr_id, VerbsStatus.WR_FLUSH_ERR)
            return True
        if len(self._receives) >= self._qp.attributes.receive_queue_depth:
            return False
        self._receives.append((wr_id, sges))
        return True

    def first_receive(self) -> tuple[int, tuple[Sge, ...]] | None:
        """Return the oldest receive, which stays where it is; None if there is none."""
        return self._receives[0] if self._receives else None

    def drop_receive(self) -> None:
        """Take the oldest receive away."""
        self._receives.popleft()

    def lose_receive(self, status: VerbsStatus) -> None:
        """Complete the oldest receive, which did not end well, and leave the queue pair in ERR."""
        self._complete_receive(self._receives.popleft()[0], status)
        self._enter_error()

    def may_answer(self) -> bool:
        """True if there is room for one more answer."""
        return len(self._answers) < MAX_WAITING_ANSWERS

    def answer_first(self, frame: bytes) -> None:
        """Send a frame before all answers that wait."""
        self._answers.appendleft(frame)

    def has_none(self) -> bool:
        """True if no answer waits."""
        return not self._answers

    def answers_without_data(self) -> bool:
        """True if the next answer is no READ response."""
        return bool(self._answers) and not isinstance(self._answers[0], _ReadAnswer)

    def flush(self) -> None:
        """Complete every receive, also the one in use, with WR_FLUSH_ERR; answers due are still sent."""
        self._held.clear()
        incoming, self._incoming = self._incoming, None
        if incoming is not None and incoming.kind is _Kind.SEND:
            self._complete_receive(incoming.wr_id, VerbsStatus.WR_FLUSH_ERR)
        while self._receives:
            self._complete_receive(self._receives.popleft()[0], VerbsStatus.WR_FLUSH_ERR)

    def on_request(self, packet: RocePacket) -> None:
        """Take a request: execute it, answer it again, or say what is missing."""
        if len(self._answers) >= MAX_WAITING_ANSWERS:
            self._reports.drops["responder.answers_full"] += 1
            return
        psn = unwrap_psn(self._expected_psn, packet.bth.psn)
        if psn > self._expected_psn and self._qp.attributes.selective_retransmission:
            self._keep_early(psn, packet)
            return
        if psn > self._expected_psn:
            self._reports.drops["responder.psn_gap"] += 1
            if not self._gap_answered:
                self._gap_answered = True
                self._answer(Aeth.nak(NakCode.PSN_SEQUENCE_ERROR, self._msn & PSN_MASK))
        elif psn < self._expected_psn:
            self._repeat(psn, packet)
        else:
            self._carry_out(packet)
        if self._held:
            self._execute_held()

    def _keep_early(self, psn: int, packet: RocePacket) -> None:
        """Keep a packet behind a gap, and say what is here; a receiver that is not ready keeps nothing."""
        frame_bytes = ETHERNET_HEADER_BYTES + packet.ip.total_length
        if self._gap_answered:
            self._reports.drops["responder.psn_gap"] += 1
            return
        if psn - self._expected_psn > SELECTIVE_PACKETS or frame_bytes > LONGEST_FRAME_BYTES:
            self._reports.drops["responder.psn_gap"] += 1
        elif psn in self._held:
            self._reports.drops["responder.duplicate"] += 1
        else:
            self._held[psn] = replace(packet, payload=memoryview(bytes(packet.payload)))
        self._acknowledge_selectively()

    def _execute_held(self) -> None:
        """Carry out what waited for the packet that has come, and say what is here now."""
        last: RocePacket | None = None
        while self._held and len(self._answers) < MAX_WAITING_ANSWERS:
            psn = min(self._held)
            if psn > self._expected_psn:
                break
            packet = self._held.pop(psn)
            if psn == self._expected_psn:
                if not self._carry_out(packet):
                    return
                last = packet
        if len(self._answers) >= MAX_WAITING_ANSWERS:
            return
        if self._held:
            self._acknowledge_selectively()
        elif last is not None and last.bth.opcode in _SEGMENTS:
            self._acknowledge(self._expected_psn - 1)

    def _acknowledge_selectively(self) -> None:
        """Say what is expected and kept behind it; such an answer at the end is brought up to date."""
        expected = self._expected_psn
        bits = sum(1 << psn - expected - 1 for psn in self._held if 0 < psn - expected <= SELECTIVE_PACKETS)
        if not self._answers or getattr(self._answers[-1], "bits", None) is None:
            self._answer(Aeth.ack(0))
        last = self._answers[-1]
        assert isinstance(last, _Answer)
        last.psn, last.bits = expected, bits
        last.aeth = Aeth.nak(NakCode.PSN_SEQUENCE_ERROR, self._msn & PSN_MASK)

    def _carry_out(self, packet: RocePacket) -> bool:
        """Execute the request that is expected; False if it was refused, or the receiver is not ready."""
        try:
            self._execute(packet)
        except _NotReady:
            self._gap_answered = True
            self._held.clear()
            timer = rnr_timer_code(self._qp.attributes.min_rnr_timer_ns)
            self._reports.drops["responder.not_ready"] += 1
            self._answer(Aeth.rnr_nak(timer, self._msn & PSN_MASK))
        except _Refused as refused:
            self._reports.drops[f"responder.{refused.code.name.lower()}"] += 1
            self._answer(Aeth.nak(refused.code, self._msn & PSN_MASK))
            self._enter_error()
        else:
            return True
        return False

    def next_frame(self) -> bytes | None:
        """Return the next answer that waits, or None."""
        while self._answers:
            answer = self._answers[0]
            if isinstance(answer, _ReadAnswer):
                frame = self._read_response(answer)
                if frame is not None:
                    return frame
                continue
            self._answers.popleft()
            if isinstance(answer, bytes):
                return answer
            extension = answer.aeth.encode()
            opcode = RcOpcode.ACKNOWLEDGE
            if answer.original is not None:
                extension += AtomicAckEth(answer.original).encode()
                opcode = RcOpcode.ATOMIC_ACKNOWLEDGE
            psn = answer.psn & PSN_MASK
            payload = [] if answer.bits is None else [answer.bits.to_bytes(8, "big")]
            framer, remote = self._qp.framer, self._qp.remote_number
            return framer.frame(opcode, remote, psn, extension=extension, payload=payload)
        return None

    # Requests in order

    def _execute(self, packet: RocePacket) -> None:
        opcode = packet.bth.opcode
        segment = _SEGMENTS.get(opcode)  # type: ignore[call-overload]
        if segment is None:
            if self._incoming is not None or len(packet.payload):
                raise _Refused(NakCode.INVALID_REQUEST)
            if opcode == RcOpcode.RDMA_READ_REQUEST and packet.reth is not None:
                self._read(packet.reth)
            elif packet.atomic is not None:
                self._atomic(opcode, packet.atomic)
            else:
                raise _Refused(NakCode.INVALID_REQUEST)
            return
        self._check_place(segment, packet)
        if segment.kind is _Kind.WRITE:
            self._write(segment, packet)
        else:
            self._send(segment, packet)
        psn = self._expected_psn
        self._expected_psn += 1
        self._gap_answered = False
        if segment.last:
            self._msn += 1
        if packet.bth.ack_request:
            self._acknowledge(psn)

    def _check_place(self, segment: _Segment, packet: RocePacket) -> None:
        """The packet must continue what came before, and be full unless it is the last."""
        incoming = self._incoming
        in_sequence = incoming is None if segment.first else (incoming and incoming.kind is segment.kind)
        mtu, length = self._qp.attributes.path_mtu, len(packet.payload)
        shortest = 0 if segment.first and segment.last else 1 if segment.last else mtu
        if not in_sequence or not shortest <= length <= mtu:
            raise _Refused(NakCode.INVALID_REQUEST)

    def _write(self, segment: _Segment, packet: RocePacket) -> None:
        payload = packet.payload
        incoming = self._incoming
        done = 0 if incoming is None else incoming.done
        reth = packet.reth if incoming is None else incoming.reth
        if reth is None:
            raise _Refused(NakCode.INVALID_REQUEST)
        left = reth.dma_length - done - len(payload)
        if reth.dma_length > MAX_DMA_BYTES or (left != 0 if segment.last else left <= 0):
            raise _Refused(NakCode.INVALID_REQUEST)
        if segment.first and reth.dma_length:
            self._remote(reth.rkey, reth.address, reth.dma_length, Access.REMOTE_WRITE)
        consumes = packet.imm_data is not None and not self._qp.attributes.implicit_receives
        if consumes and not self._receives:
            raise _NotReady
        if len(payload):
            address = reth.address + done
            self._remote(reth.rkey, address, len(payload), Access.REMOTE_WRITE)[:] = payload
        if not segment.last:
            self._incoming = _Incoming(_Kind.WRITE, done + len(payload), reth)
            return
        self._incoming = None
        wr_id = self._receives.popleft()[0] if consumes else 0
        kind = ArrivalKind.WRITE if packet.imm_data is None else ArrivalKind.WRITE_WITH_IMM
        self._arrive(kind, reth.dma_length, packet.imm_data, reth.rkey, wr_id)

    def _send(self, segment: _Segment, packet: RocePacket) -> None:
        incoming = self._incoming
        if incoming is None:
            incoming = self._take_receive()
        sges = incoming.sges
        payload = packet.payload
        if sges is None or incoming.done + len(payload) > sges.length:
            self._incoming = None
            self._complete_receive(incoming.wr_id, VerbsStatus.LOC_LEN_ERR)
            raise _Refused(NakCode.INVALID_REQUEST)
        sges.store(incoming.done, payload)
        incoming.done += len(payload)
        self._incoming = incoming
        if segment.last:
            self._incoming = None
            kind = ArrivalKind.SEND if packet.imm_data is None else ArrivalKind.SEND_WITH_IMM
            self._arrive(kind, incoming.done, packet.imm_data, 0, incoming.wr_id)

    def _take_receive(self) -> _Incoming:
        if not self._receives:
            raise _NotReady
        wr_id, pieces = self._receives.popleft()
        try:
            sges = SgeList.resolve(self._memory, self._qp.attributes.pd, pieces, True)
        except AccessError as refused:
            self._complete_receive(wr_id, refused.status)
            raise _Refused(NakCode.REMOTE_OPERATIONAL_ERROR) from refused
        return _Incoming(_Kind.SEND, wr_id=wr_id, sges=sges)

    def _read(self, reth: Reth) -> None:
        agreed_on = sum(isinstance(a, _ReadAnswer) and not a.reported for a in self._answers)
        if reth.dma_length > MAX_DMA_BYTES or agreed_on >= MAX_RD_ATOMIC:
            raise _Refused(NakCode.INVALID_REQUEST)
        if reth.dma_length:
            self._remote(reth.rkey, reth.address, reth.dma_length, Access.REMOTE_READ)
        first = self._expected_psn
        self._expected_psn += packets_of(reth.dma_length, self._qp.attributes.path_mtu)
        self._msn += 1
        self._gap_answered = False
        msn = self._msn & PSN_MASK
        self._answers.append(_ReadAnswer(first, first, self._expected_psn, reth, msn, False, reth.dma_length))

    def _atomic(self, opcode: int, atomic: AtomicEth) -> None:
        if atomic.address % _ATOMIC_BYTES:
            raise _Refused(NakCode.INVALID_REQUEST)
        cell = self._remote(atomic.rkey, atomic.address, _ATOMIC_BYTES, Access.REMOTE_ATOMIC)
        original = int.from_bytes(cell, "little")
        if opcode == RcOpcode.FETCH_ADD:
            cell[:] = (original + atomic.swap_add & _MASK_64).to_bytes(_ATOMIC_BYTES, "little")
        elif original == atomic.compare:
            cell[:] = atomic.swap_add.to_bytes(_ATOMIC_BYTES, "little")
        self._msn += 1
        answer = _Answer(self._expected_psn, Aeth.ack(self._msn & PSN_MASK), original)
        self._answers.append(answer)
        self._replays[self._expected_psn] = answer
        if len(self._replays) > MAX_RD_ATOMIC:
            self._replays.popitem(last=False)
        self._expected_psn += 1
        self._gap_answered = False
        self._arrive(ArrivalKind.ATOMIC, _ATOMIC_BYTES, None, atomic.rkey, 0)

    # Requests that were executed before

    def _repeat(self, psn: int, packet: RocePacket) -> None:
        """Answer a repeated request without executing it twice; a READ is read again."""
        self._reports.drops["responder.duplicate"] += 1
        opcode = packet.bth.opcode
        if opcode in _SEGMENTS:
            self._acknowledge(self._expected_psn - 1)
        elif len(self._answers) >= MAX_WAITING_REPLAYS:
            self._reports.drops["responder.too_many_replays"] += 1
        elif opcode == RcOpcode.RDMA_READ_REQUEST and packet.reth is not None:
            self._read_again(psn, packet.reth)
        elif packet.atomic is not None and psn in self._replays:
            self._answers.append(self._replays[psn])
        else:
            self._reports.drops["responder.no_replay"] += 1

    def _read_again(self, psn: int, reth: Reth) -> None:
        """Read from `psn` on; a READ that still waits is answered from there, in its place."""
        end = psn + packets_of(reth.dma_length, self._qp.attributes.path_mtu)
        try:
            if end > self._expected_psn or self._reads_waiting() > MAX_RD_ATOMIC:
                raise AccessError(VerbsStatus.REM_INV_REQ_ERR)
            if reth.dma_length:
                self._memory.remote(
                    self._qp.attributes.pd, reth.rkey, reth.address, reth.dma_length, Access.REMOTE_READ
                )
        except AccessError:
            self._reports.drops["responder.bad_duplicate_read"] += 1
            return
        for waiting in self._answers:
            if isinstance(waiting, _ReadAnswer) and waiting.end_psn == end:
                waiting.psn, waiting.first_psn, waiting.reth = psn, psn, reth
                return
        msn = self._msn & PSN_MASK
        self._answers.append(_ReadAnswer(psn, psn, end, reth, msn, True, reth.dma_length))

    # Answers

    def _reads_waiting(self) -> int:
        return sum(isinstance(answer, _ReadAnswer) for answer in self._answers)

    def _acknowledge(self, psn: int) -> None:
        """Acknowledge all up to `psn`; an ACK that waits at the end is brought up to date."""
        aeth = Aeth.ack(self._msn & PSN_MASK)
        last = self._answers[-1] if self._answers else None
        if isinstance(last, _Answer) and last.coalesces:
            last.psn, last.aeth = psn, aeth
        else:
            self._answers.append(_Answer(psn, aeth, coalesces=True))

    def _answer(self, aeth: Aeth) -> None:
        """Send a NAK for the packet that is expected."""
        self._answers.append(_Answer(self._expected_psn, aeth))

    def _read_response(self, answer: _ReadAnswer) -> bytes | None:
        """Return a READ's next response; None if its key was taken back since the request."""
        psn, reth = answer.psn, answer.reth
        mtu = self._qp.attributes.path_mtu
        offset = (psn - answer.first_psn) * mtu
        length = min(mtu, reth.dma_length - offset)
        is_first, is_last = psn == answer.first_psn, psn + 1 == answer.end_psn
        data: tuple[memoryview, ...] = ()
        if length:
            pd = self._qp.attributes.pd
            try:
                data = (
                    self._memory.remote(pd, reth.rkey, reth.address + offset, length, Access.REMOTE_READ),
                )
            except AccessError:
                self._answers.clear()
                self._reports.drops["responder.key_taken_back"] += 1
                self._answers.append(_Answer(psn, Aeth.nak(NakCode.REMOTE_ACCESS_ERROR, answer.msn)))
                if self._qp.state is not QpState.ERR:
                    self._enter_error()
                return None
        answer.psn += 1
        extension = Aeth.ack(answer.msn).encode() if is_first or is_last else b""
        frame = self._qp.framer.frame(
            _READ_RESPONSES[is_first][is_last],
            self._qp.remote_number,
            psn & PSN_MASK,
            extension=extension,
            payload=data,
        )
        if is_last:
            self._answers.popleft()
            if not answer.reported:
                self._arrive(ArrivalKind.READ, answer.whole_length, None, reth.rkey, 0)
        return frame

    # What the rest of the NIC hears

    def _remote(self, rkey: int, address: int, length: int, access: Access) -> memoryview:
        try:
            return self._memory.remote(self._qp.attributes.pd, rkey, address, length, access)
        except AccessError as refused:
            raise _Refused(NakCode.REMOTE_ACCESS_ERROR) from refused

    def _arrive(self, kind: ArrivalKind, byte_len: int, imm_data: int | None, rkey: int, wr_id: int) -> None:
        self._reports.arrivals.append(Arrival(self._qp.number, kind, byte_len, imm_data, rkey, wr_id))

    def _complete_receive(self, wr_id: int, status: VerbsStatus) -> None:
        self._reports.completions.append(Completion(0, self._qp.number, status, Opcode.RECV, 0, wr_id))
