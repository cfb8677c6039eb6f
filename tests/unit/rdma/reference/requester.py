# SPDX-License-Identifier: Apache-2.0
"""The sending half of a reliable connection: segmentation, packet sequence numbers, retries, timers.

Retransmission is go-back-N. Local memory is looked up when work is posted and read when its packets are made.
Source: InfiniBand Architecture Specification Volume 1, "Reliable Service", "Requester: Receiving Responses"
and "Timeouts and retries"; rdma-core, ibv_post_send(3).
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from nicemu.abi import MAX_SGE, Opcode, WorkRequest
from nicemu.errors import UsageError, VerbsStatus
from nicemu.rdma.queue_pair import AccessError, Completion, QpState, QpType
from nicemu.wire import (
    PSN_MASK,
    RNR_TIMER_NS,
    Aeth,
    AtomicEth,
    NakCode,
    RcOpcode,
    Reth,
    RocePacket,
    SyndromeKind,
    encode_immediate,
)
from tests.unit.rdma.reference.queue_pair import (
    INFINITE_RNR_RETRY,
    MAX_RD_ATOMIC,
    SENDING,
    QueuePair,
    RdmaMemory,
    Reports,
    SgeList,
    packets_of,
    unwrap_psn,
)

if TYPE_CHECKING:
    from tests.unit.rdma.reference.datagrams import Datagrams

WINDOW_PACKETS = 64
"""Packets that may be sent beyond the oldest one without an answer."""
ACK_INTERVAL_PACKETS = 16
"""An answer is asked for at least this often, and at the end of every message."""
MAX_MESSAGE_BYTES = 1 << 30
ATOMIC_BYTES = 8
SACK_BYTES = 8


class _Kind(enum.Enum):
    SEND = enum.auto()
    WRITE = enum.auto()
    READ = enum.auto()
    ATOMIC = enum.auto()


_KINDS = {
    Opcode.RDMA_WRITE: _Kind.WRITE,
    Opcode.RDMA_WRITE_WITH_IMM: _Kind.WRITE,
    Opcode.RDMA_READ: _Kind.READ,
    Opcode.SEND: _Kind.SEND,
    Opcode.SEND_WITH_IMM: _Kind.SEND,
    Opcode.COMPARE_SWAP: _Kind.ATOMIC,
    Opcode.FETCH_ADD: _Kind.ATOMIC,
}
_MASK_32, _MASK_64 = (1 << 32) - 1, (1 << 64) - 1
# Indexed by [is the first packet][is the last packet].
_SEGMENTS = {
    Opcode.SEND: (
        (RcOpcode.SEND_MIDDLE, RcOpcode.SEND_LAST),
        (RcOpcode.SEND_FIRST, RcOpcode.SEND_ONLY),
    ),
    Opcode.SEND_WITH_IMM: (
        (RcOpcode.SEND_MIDDLE, RcOpcode.SEND_LAST_WITH_IMMEDIATE),
        (RcOpcode.SEND_FIRST, RcOpcode.SEND_ONLY_WITH_IMMEDIATE),
    ),
    Opcode.RDMA_WRITE: (
        (RcOpcode.RDMA_WRITE_MIDDLE, RcOpcode.RDMA_WRITE_LAST),
        (RcOpcode.RDMA_WRITE_FIRST, RcOpcode.RDMA_WRITE_ONLY),
    ),
    Opcode.RDMA_WRITE_WITH_IMM: (
        (RcOpcode.RDMA_WRITE_MIDDLE, RcOpcode.RDMA_WRITE_LAST_WITH_IMMEDIATE),
        (RcOpcode.RDMA_WRITE_FIRST, RcOpcode.RDMA_WRITE_ONLY_WITH_IMMEDIATE),
    ),
}
_NAK_STATUS = {
    NakCode.INVALID_REQUEST: VerbsStatus.REM_INV_REQ_ERR,
    NakCode.REMOTE_ACCESS_ERROR: VerbsStatus.REM_ACCESS_ERR,
    NakCode.REMOTE_OPERATIONAL_ERROR: VerbsStatus.REM_OP_ERR,
}


@dataclass(slots=True, eq=False)
class _Message:
    """Posted work and the packets it takes: [first_psn, end_psn). `error` is set where it cannot be sent."""

    work: WorkRequest
    context: int
    kind: _Kind
    sges: SgeList
    first_psn: int
    end_psn: int
    error: VerbsStatus | None = None

    @property
    def answered_with_data(self) -> bool:
        return self.kind is _Kind.READ or self.kind is _Kind.ATOMIC


def _length_fits(kind: _Kind, length_bytes: int) -> bool:
    return length_bytes == ATOMIC_BYTES if kind is _Kind.ATOMIC else length_bytes <= MAX_MESSAGE_BYTES


class Requester:
    """Turns posted work into frames, and answers into completions, in order, each exactly once."""

    def __init__(
        self, qp: QueuePair, memory: RdmaMemory, reports: Reports, enter_error: Callable[[], None]
    ) -> None:
        self._qp = qp
        self._memory = memory
        self._reports = reports
        self._enter_error = enter_error
        self._messages: deque[_Message] = deque()
        self.reset(0)

    def reset(self, psn: int) -> None:
        """Forget everything; the next packet has `psn`."""
        self._messages.clear()
        self._next_psn = psn  # the next message's first packet
        self._unanswered_psn = psn  # the oldest packet without an answer
        self._send_psn = psn  # the next packet to send or to repeat
        self._sent_end_psn = psn  # first packet never sent so far
        self._cursor = 0  # the message that holds _send_psn
        self._gap_psn: int | None = None  # where an answer was missed and asked for again
        self._deadline_ns: int | None = None
        self._sacked: set[int] = set()  # packets that have arrived behind one that has not
        self._sack_end_psn = self._resend_psn = self._pass_end_psn = psn
        self._wait_until_ns: int | None = None  # a receiver-not-ready NAK asked for it
        self._retries_left = self._qp.attributes.retry_count
        self._rnr_retries_left = self._qp.attributes.rnr_retry

    @property
    def psn(self) -> int:
        """The 24-bit PSN of the next message."""
        return self._next_psn & PSN_MASK

    def post(self, work: WorkRequest, context: int, datagrams: Datagrams | None = None) -> bool:
        """Queue work; False if the send queue is full.

        Work that cannot be sent, and all after it, completes with an error in its turn.
        Raises: UsageError before the queue pair is ready to send.
        """
        state = self._qp.state
        if state in (QpState.ERR, QpState.SQE):
            self._complete(work, context, VerbsStatus.WR_FLUSH_ERR)
            return True
        if state not in SENDING:
            raise UsageError(
                f"queue pair {self._qp.number} is in {state.name}; modify it to RTS before posting sends"
            )
        if len(self._messages) >= self._qp.attributes.send_queue_depth:
            return False
        message = self._prepare(work, context, datagrams)
        self._messages.append(message)
        self._next_psn = message.end_psn
        self._fail_at_head()
        return True

    def next_frame(self, now_ns: int) -> bytes | None:
        """Return the next frame that may be sent now, or None."""
        state = self._qp.state
        if self._wait_until_ns is not None or state not in SENDING:
            return None
        if self._sacked and (missing := self._next_missing(now_ns)) is not None:
            return missing
        if not self._next_may_be_sent():
            return None
        message, psn = self._messages[self._cursor], self._send_psn
        if self._deadline_ns is None and self._qp.attributes.timeout_ns:
            self._deadline_ns = now_ns + self._qp.attributes.timeout_ns
        frame, self._send_psn = self._make_frame(message, psn)
        self._sent_end_psn = max(self._sent_end_psn, self._send_psn)
        if self._send_psn == message.end_psn:
            self._cursor += 1
        return frame

    def may_send(self) -> bool:
        """True if there may be a packet to send now."""
        return bool(self._sacked) or self._next_may_be_sent()

    def _next_may_be_sent(self) -> bool:
        state = self._qp.state
        if self._wait_until_ns is not None or state not in SENDING or self._cursor >= len(self._messages):
            return False
        message, psn = self._messages[self._cursor], self._send_psn
        if message.error is not None or psn - self._unanswered_psn >= WINDOW_PACKETS:
            return False
        if psn == message.first_psn and psn >= self._sent_end_psn:
            awaits = message.answered_with_data and self._data_answers_awaited() >= MAX_RD_ATOMIC
            return state is not QpState.SQD and not awaits
        return True

    def on_response(self, packet: RocePacket, now_ns: int) -> None:
        """Take an acknowledgement, a NAK, a READ response or an atomic's result."""
        psn = unwrap_psn(self._unanswered_psn, packet.bth.psn)
        if psn < self._unanswered_psn:
            self._reports.drops["requester.stale_response"] += 1
        elif psn >= self._sent_end_psn:
            self._reports.drops["requester.unexpected_psn"] += 1
        elif packet.bth.opcode != RcOpcode.ACKNOWLEDGE:
            self._on_data(psn, packet, now_ns)
        elif packet.aeth is not None:
            self._on_acknowledge(psn, packet.aeth, packet.payload, now_ns)

    def on_timer(self, now_ns: int) -> None:
        """Resume after a receiver-not-ready wait, or repeat what got no answer in time."""
        if self._wait_until_ns is not None:
            if now_ns >= self._wait_until_ns:
                self._wait_until_ns = None
        elif self._deadline_ns is not None and now_ns >= self._deadline_ns:
            self._retry(None)

    def next_deadline_ns(self) -> int | None:
        """When `on_timer` wants to be called."""
        return self._deadline_ns if self._wait_until_ns is None else self._wait_until_ns

    def flush(self) -> None:
        """Complete everything that is queued with WR_FLUSH_ERR."""
        self._deadline_ns = self._wait_until_ns = None
        self._cursor = 0
        self._sacked = set()
        while self._messages:
            message = self._messages.popleft()
            self._complete(message.work, message.context, VerbsStatus.WR_FLUSH_ERR)

    # Posting

    def _prepare(self, work: WorkRequest, context: int, datagrams: Datagrams | None) -> _Message:
        kind = _KINDS.get(work.opcode)
        psn = self._next_psn
        sges = SgeList(())
        error = None
        if self._messages and self._messages[-1].error is not None:
            error = VerbsStatus.WR_FLUSH_ERR
        elif kind is None or len(work.sges) > MAX_SGE:
            error = VerbsStatus.LOC_QP_OP_ERR
        elif not _length_fits(kind, work.length_bytes):
            error = VerbsStatus.LOC_LEN_ERR
        elif datagrams is not None and datagrams.error_of(work) is not None:
            error = datagrams.error_of(work)
        else:
            lands_here = kind is _Kind.READ or kind is _Kind.ATOMIC
            try:
                sges = SgeList.resolve(self._memory, self._qp.attributes.pd, work.sges, lands_here)
            except AccessError as refused:
                error = refused.status
        packet_count = 0
        if error is None:
            packet_count = packets_of(sges.length, self._qp.attributes.path_mtu)
        return _Message(work, context, kind or _Kind.SEND, sges, psn, psn + packet_count, error)

    # Sending

    def _data_answers_awaited(self) -> int:
        return sum(message.answered_with_data for message in islice(self._messages, self._cursor))

    def _make_frame(self, message: _Message, psn: int) -> tuple[bytes, int]:
        """Return the frame at `psn` and the PSN after it (a READ request stands for all its responses)."""
        work = message.work
        mtu = self._qp.attributes.path_mtu
        framer, remote = self._qp.framer, self._qp.remote_number
        offset = (psn - message.first_psn) * mtu
        length = message.sges.length
        address, rkey = work.remote_address & _MASK_64, work.rkey & _MASK_32
        if message.kind is _Kind.READ:
            extension = Reth(address + offset & _MASK_64, rkey, length - offset).encode()
            opcode = RcOpcode.RDMA_READ_REQUEST
            frame = framer.frame(opcode, remote, psn & PSN_MASK, ack_request=True, extension=extension)
            return frame, message.end_psn
        if message.kind is _Kind.ATOMIC:
            swaps = work.opcode == Opcode.COMPARE_SWAP
            compare, operand = (work.compare_add, work.swap) if swaps else (0, work.compare_add)
            atomic = AtomicEth(address, rkey, operand & _MASK_64, compare & _MASK_64)
            opcode = RcOpcode.COMPARE_SWAP if swaps else RcOpcode.FETCH_ADD
            frame = framer.frame(opcode, remote, psn & PSN_MASK, ack_request=True, extension=atomic.encode())
            return frame, psn + 1
        is_first, is_last = psn == message.first_psn, psn + 1 == message.end_psn
        extension = b""
        if is_first and message.kind is _Kind.WRITE:
            extension = Reth(address, rkey, length).encode()
        if is_last and work.opcode in (Opcode.RDMA_WRITE_WITH_IMM, Opcode.SEND_WITH_IMM):
            extension += encode_immediate(work.imm_data & _MASK_32)
        window_ends = psn + 1 - self._unanswered_psn >= WINDOW_PACKETS
        frame = framer.frame(
            _SEGMENTS[work.opcode][is_first][is_last],
            remote,
            psn & PSN_MASK,
            ack_request=is_last or window_ends or (psn + 1) % ACK_INTERVAL_PACKETS == 0,
            extension=extension,
            payload=message.sges.cut(offset, mtu),
        )
        return frame, psn + 1

    # Answers

    def _on_acknowledge(self, psn: int, aeth: Aeth, bits: memoryview, now_ns: int) -> None:
        if aeth.kind is SyndromeKind.ACK:
            self._answered_before(psn + 1, now_ns)
            self._fail_at_head()
        elif aeth.kind is SyndromeKind.RNR_NAK:
            if self._answered_before(psn, now_ns) and self._wait_until_ns is None:
                self._wait_for_receiver(RNR_TIMER_NS[aeth.value], now_ns)
        elif aeth.kind is SyndromeKind.NAK and aeth.value == NakCode.PSN_SEQUENCE_ERROR:
            if not self._answered_before(psn, now_ns):
                return
            if self._qp.attributes.selective_retransmission and len(bits) == SACK_BYTES:
                self._take_sack(int.from_bytes(bits, "big"))
            elif self._gap_psn != psn:
                self._retry(psn)
        elif aeth.kind is SyndromeKind.NAK and aeth.value in _NAK_STATUS:
            if self._answered_before(psn, now_ns):
                self._fail(_NAK_STATUS[NakCode(aeth.value)])
        else:
            self._reports.drops["requester.syndrome"] += 1

    def _on_data(self, psn: int, packet: RocePacket, now_ns: int) -> None:
        if not self._answered_before(psn, now_ns):
            self._reports.drops["requester.out_of_order"] += 1
            return
        message = self._messages[0]
        data = self._data_of(message, psn, packet)
        if data is None:
            self._reports.drops["requester.bad_response"] += 1
            self._fail(VerbsStatus.BAD_RESP_ERR)
            return
        message.sges.store((psn - message.first_psn) * self._qp.attributes.path_mtu, data)
        self._advance(psn + 1, now_ns)
        self._fail_at_head()

    def _data_of(self, message: _Message, psn: int, packet: RocePacket) -> bytes | memoryview | None:
        """Return what a response brings, or None if it is no answer to the request at `psn`."""
        opcode = packet.bth.opcode
        if message.kind is _Kind.ATOMIC and opcode == RcOpcode.ATOMIC_ACKNOWLEDGE and packet.atomic_ack:
            return packet.atomic_ack.original.to_bytes(ATOMIC_BYTES, "little")
        if message.kind is not _Kind.READ or opcode == RcOpcode.ATOMIC_ACKNOWLEDGE:
            return None
        is_last = psn + 1 == message.end_psn
        says_last = opcode in (RcOpcode.RDMA_READ_RESPONSE_LAST, RcOpcode.RDMA_READ_RESPONSE_ONLY)
        mtu = self._qp.attributes.path_mtu
        expected = min(mtu, message.sges.length - (psn - message.first_psn) * mtu)
        return packet.payload if says_last == is_last and len(packet.payload) == expected else None

    def _answered_before(self, psn: int, now_ns: int) -> bool:
        """Take every packet before `psn` as answered; False where a response with data was missed."""
        while self._unanswered_psn < psn:
            message = self._messages[0]
            if message.answered_with_data:
                if self._gap_psn != self._unanswered_psn:
                    self._retry(self._unanswered_psn)
                return False
            self._advance(min(psn, message.end_psn), now_ns)
        return True

    def _advance(self, psn: int, now_ns: int) -> None:
        """All before `psn` is answered; it lies in the first message or at its end."""
        self._sacked = {one for one in self._sacked if one > psn}
        self._unanswered_psn = psn
        attributes = self._qp.attributes
        self._retries_left = attributes.retry_count
        self._rnr_retries_left = attributes.rnr_retry
        self._gap_psn = self._wait_until_ns = self._deadline_ns = None
        if psn == self._messages[0].end_psn:
            message = self._messages.popleft()
            self._cursor = max(0, self._cursor - 1)
            self._complete(message.work, message.context, VerbsStatus.SUCCESS, message.sges.length)
        if self._send_psn < psn:
            self._send_psn = psn
            self._cursor = 0
        if psn < self._send_psn and attributes.timeout_ns:
            self._deadline_ns = now_ns + attributes.timeout_ns

    # Retries

    def _retry(self, gap_psn: int | None) -> None:
        """Send again from the oldest packet without an answer; None means that the timer asked for it."""
        if self._retries_left == 0:
            self._fail(VerbsStatus.RETRY_EXC_ERR)
            return
        self._retries_left -= 1
        self._gap_psn = gap_psn
        self._go_back()

    def _wait_for_receiver(self, wait_ns: int, now_ns: int) -> None:
        if self._qp.attributes.rnr_retry != INFINITE_RNR_RETRY:
            if self._rnr_retries_left == 0:
                self._fail(VerbsStatus.RNR_RETRY_EXC_ERR)
                return
            self._rnr_retries_left -= 1
        self._wait_until_ns = now_ns + wait_ns
        self._go_back()

    def _go_back(self) -> None:
        self._deadline_ns = None
        self._send_psn = self._unanswered_psn
        self._cursor = 0
        self._sacked = set()

    # Selective retransmission

    def _take_sack(self, bits: int) -> None:
        """Take note of packets that have arrived behind the oldest one without an answer."""
        begins = not self._sacked
        first = self._unanswered_psn + 1
        self._sacked |= {first + n for n in range(64) if bits >> n & 1 and first + n < self._sent_end_psn}
        if not self._sacked:
            return
        self._sack_end_psn = max(self._sacked) + 1
        if begins or self._sack_end_psn > self._pass_end_psn:
            self._resend_psn, self._pass_end_psn = self._unanswered_psn, self._sent_end_psn

    def _next_missing(self, now_ns: int) -> bytes | None:
        """Return the frame of a packet that is missing, or None if there is none to send again now."""
        psn, end = max(self._resend_psn, self._unanswered_psn), min(self._sack_end_psn, self._send_psn)
        while psn < end:
            message = next((one for one in self._messages if one.end_psn > psn), None)
            if message is None or message.error is not None:
                return None
            is_request = not message.answered_with_data or psn == message.first_psn
            if is_request and psn not in self._sacked:
                frame, self._resend_psn = self._make_frame(message, psn)
                if self._deadline_ns is None and self._qp.attributes.timeout_ns:
                    self._deadline_ns = now_ns + self._qp.attributes.timeout_ns
                return frame
            psn = message.end_psn if message.kind is _Kind.READ else psn + 1
        self._resend_psn = psn
        return None

    # Endings

    def _fail_at_head(self) -> None:
        if self._messages and self._messages[0].error is not None:
            self._fail(self._messages[0].error)

    def _fail(self, status: VerbsStatus) -> None:
        """Complete the first message with `status`, the rest as flushed, and leave the queue pair in ERR.

        One of datagrams goes to SQE: what it receives is not concerned.
        """
        message = self._messages.popleft()
        self._complete(message.work, message.context, status)
        if self._qp.attributes.qp_type is QpType.RC:
            self._enter_error()
            return
        self._qp.transition(QpState.SQE)
        self.flush()
        self._all_answered()

    def _all_answered(self) -> None:
        self._send_psn = self._unanswered_psn = self._sent_end_psn = self._next_psn

    # Datagrams

    def next_datagram(self) -> tuple[WorkRequest, SgeList, int] | None:
        """Return the message that may be sent next, with its memory and its PSN, or None."""
        if self._qp.state not in SENDING or not self._messages or self._messages[0].error is not None:
            return None
        message = self._messages[0]
        if self._qp.state is QpState.SQD:
            return None
        return message.work, message.sges, message.first_psn

    def datagram_left(self, error: VerbsStatus | None) -> None:
        """Complete the first message, of which the packet was made; or could not be."""
        message = self._messages[0]
        if error is not None:
            self._fail(error)
            return
        self._messages.popleft()
        self._send_psn = self._unanswered_psn = self._sent_end_psn = message.end_psn
        self._complete(message.work, message.context, VerbsStatus.SUCCESS, message.sges.length)
        self._fail_at_head()

    def _complete(self, work: WorkRequest, context: int, status: VerbsStatus, byte_len: int = 0) -> None:
        self._reports.completions.append(
            Completion(context, self._qp.number, status, work.opcode, byte_len, work.wr_id)
        )
