# SPDX-License-Identifier: Apache-2.0
"""What answers do to posted work: completions in order, each exactly once; retries, timers, endings.

Source: InfiniBand Architecture Specification Volume 1, "Requester: Receiving Responses" and "Timeouts and
retries".
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import Access
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, Records, cold, hot
from nicemu.pcie import store_u64
from nicemu.wire import (
    AETH_BYTES,
    EXTENSION_PLACE,
    PSN_MASK,
    PSN_PLACE,
    RNR_TIMER_NS,
    NakCode,
    RcOpcode,
    SyndromeKind,
    extension_bytes,
    load_be32,
    load_be64,
    load_u8,
    payload_bytes,
)

from .responder_answers import SACK_BYTES
from .roce_error import enter_error, enter_send_error
from .roce_lists import drop, expect, scatter
from .roce_state import DROP, HAS_CONGESTION_CONTROL, HAS_SACKS, IS_DATAGRAM, IS_SELECTIVE, NONE, RoceState
from .selective import shift_sacks, take_sack
from .send_queue import ATOMIC_BYTES, KIND_ATOMIC, KIND_READ, end_first, rewind, unwrap_psn

INFINITE_RNR_RETRY = 7

_OK, _RETRY_EXCEEDED = int(VerbsStatus.SUCCESS), int(VerbsStatus.RETRY_EXC_ERR)
_RNR_EXCEEDED, _BAD_RESPONSE = int(VerbsStatus.RNR_RETRY_EXC_ERR), int(VerbsStatus.BAD_RESP_ERR)
_LOC_PROTECTION, _LOCAL_WRITE = int(VerbsStatus.LOC_PROT_ERR), int(Access.LOCAL_WRITE)
_ACKNOWLEDGE, _ATOMIC_ANSWER = int(RcOpcode.ACKNOWLEDGE), int(RcOpcode.ATOMIC_ACKNOWLEDGE)
_READ_LAST, _READ_ONLY = int(RcOpcode.RDMA_READ_RESPONSE_LAST), int(RcOpcode.RDMA_READ_RESPONSE_ONLY)
_ACK, _RNR_NAK, _NAK = int(SyndromeKind.ACK), int(SyndromeKind.RNR_NAK), int(SyndromeKind.NAK)
_SEQUENCE_ERROR = int(NakCode.PSN_SEQUENCE_ERROR)
_WAITS_NS = np.array(RNR_TIMER_NS, np.int64)
_STALE, _UNEXPECTED = DROP["requester.stale_response"], DROP["requester.unexpected_psn"]
_SYNDROME, _OUT_OF_ORDER = DROP["requester.syndrome"], DROP["requester.out_of_order"]
_BAD = DROP["requester.bad_response"]


def _statuses() -> np.ndarray:
    """Return the status that ends the message which a NAK complains of, by its code; 0: none."""
    statuses = np.zeros(32, np.int64)
    statuses[NakCode.INVALID_REQUEST] = VerbsStatus.REM_INV_REQ_ERR
    statuses[NakCode.REMOTE_ACCESS_ERROR] = VerbsStatus.REM_ACCESS_ERR
    statuses[NakCode.REMOTE_OPERATIONAL_ERROR] = VerbsStatus.REM_OP_ERR
    return statuses


_NAK_STATUS = _statuses()


# Endings


@cold
def fail(state: RoceState, index: Int, status: Int) -> None:
    """Complete the first message with `status`, the rest as flushed, and leave the queue pair in ERR.

    One of datagrams goes to SQE: what it receives is not concerned.
    """
    pair = state.queue_pairs[index]
    end_first(state, pair, status, 0)
    if pair.features & IS_DATAGRAM != 0:
        enter_send_error(state, index)
    else:
        enter_error(state, index)


@hot
def fail_at_head(state: RoceState, index: Int) -> None:
    """Complete work that could not be sent, if it is its turn."""
    head = np.int64(state.queue_pairs[index].send_head)
    if head != NONE and state.sends[head].error != 0:
        fail(state, index, np.int64(state.sends[head].error))


# Retries


@hot
def _go_back(pair: Records) -> None:
    pair.deadline_ns = NONE
    pair.send_psn = pair.unanswered_psn
    pair.features &= ~HAS_SACKS
    rewind(pair)


@cold
def retry(state: RoceState, index: Int, gap_psn: Int) -> None:
    """Send again from the oldest packet without an answer; NONE means that the timer asked for it."""
    pair = state.queue_pairs[index]
    if pair.retries_left == 0:
        fail(state, index, _RETRY_EXCEEDED)
        return
    pair.retries_left -= 1
    pair.gap_psn = gap_psn
    _go_back(pair)


@cold
def _wait_for_receiver(state: RoceState, index: Int, wait_ns: Int) -> None:
    pair = state.queue_pairs[index]
    if pair.rnr_retry != INFINITE_RNR_RETRY:
        if pair.rnr_retries_left == 0:
            fail(state, index, _RNR_EXCEEDED)
            return
        pair.rnr_retries_left -= 1
    pair.wait_until_ns = state.engine[0].now_ns + wait_ns
    expect(state, index, np.int64(pair.wait_until_ns))
    _go_back(pair)


@hot
def on_deadline(state: RoceState, index: Int) -> None:
    """Resume after a wait, for a receiver or of congestion control, or repeat what got no answer in time."""
    pair, now_ns = state.queue_pairs[index], state.engine[0].now_ns
    if pair.features & HAS_CONGESTION_CONTROL != 0 and state.extras[pair.extra].paced_until_ns != NONE:
        extra = state.extras[pair.extra]
        if extra.paced_until_ns <= now_ns:
            extra.paced_until_ns = NONE
        else:
            expect(state, index, np.int64(extra.paced_until_ns))
        retry_ns = np.int64(pair.deadline_ns if pair.wait_until_ns == NONE else pair.wait_until_ns)
        if retry_ns == NONE:
            return
        if retry_ns > now_ns:
            expect(state, index, retry_ns)
            return
    if pair.wait_until_ns != NONE:
        pair.wait_until_ns = NONE
    elif pair.deadline_ns != NONE:
        retry(state, index, NONE)


# Answers


@hot
def _advance(state: RoceState, index: Int, pair: Records, psn: Int) -> None:
    """All before `psn` is answered; it lies in the first message or at its end."""
    if pair.features & HAS_SACKS != 0:
        shift_sacks(state, index, psn)
    pair.unanswered_psn = psn
    pair.retries_left, pair.rnr_retries_left = pair.retry_count, pair.rnr_retry
    pair.gap_psn = pair.wait_until_ns = pair.deadline_ns = NONE
    message = state.sends[pair.send_head]
    if psn == message.end_psn:
        end_first(state, pair, _OK, np.int64(message.length))
    if pair.send_psn < psn:
        pair.send_psn = psn
        rewind(pair)
    if psn < pair.send_psn and pair.timeout_ns != 0:
        pair.deadline_ns = state.engine[0].now_ns + pair.timeout_ns
        expect(state, index, np.int64(pair.deadline_ns))


@hot
def _answered_before(state: RoceState, index: Int, pair: Records, psn: Int) -> Flag:
    """Take every packet before `psn` as answered; False where a response with data was missed."""
    while pair.unanswered_psn < psn:
        message = state.sends[pair.send_head]
        if message.kind >= KIND_READ:
            if pair.gap_psn != pair.unanswered_psn:
                retry(state, index, np.int64(pair.unanswered_psn))
            return False
        _advance(state, index, pair, min(psn, np.int64(message.end_psn)))
    return True


@hot
def _on_acknowledge(state: RoceState, index: Int, pair: Records, psn: Int, frame: Int) -> None:
    syndrome = load_u8(frame + EXTENSION_PLACE)
    kind, value = syndrome >> 5 & 3, syndrome & 0x1F
    if kind == _ACK:
        _answered_before(state, index, pair, psn + 1)
        fail_at_head(state, index)
        return
    fatal = kind == _NAK and _NAK_STATUS[value] != 0
    if kind != _RNR_NAK and not fatal and not (kind == _NAK and value == _SEQUENCE_ERROR):
        drop(state, _SYNDROME)
        return
    if not _answered_before(state, index, pair, psn):
        return
    if state.sends[pair.send_head].error != 0:
        fail_at_head(state, index)
    elif kind == _RNR_NAK:
        if pair.wait_until_ns == NONE:
            _wait_for_receiver(state, index, _WAITS_NS[value])
    elif fatal:
        fail(state, index, _NAK_STATUS[value])
    elif pair.features & IS_SELECTIVE != 0 and payload_bytes(frame, _ACKNOWLEDGE) == SACK_BYTES:
        take_sack(state, index, load_be64(frame + EXTENSION_PLACE + AETH_BYTES))
        fail_at_head(state, index)
    elif pair.gap_psn != psn:
        retry(state, index, psn)
        fail_at_head(state, index)


@hot
def _data_fits(pair: Records, message: Records, psn: Int, opcode: Int, length: Int) -> Flag:
    """True if a response is an answer to the request at `psn`."""
    if message.kind == KIND_ATOMIC and opcode == _ATOMIC_ANSWER:
        return True
    if message.kind != KIND_READ or opcode == _ATOMIC_ANSWER:
        return False
    last = psn + 1 == message.end_psn
    says_last = opcode == _READ_LAST or opcode == _READ_ONLY
    expected = min(np.int64(pair.path_mtu), message.length - (psn - message.first_psn) * pair.path_mtu)
    return says_last == last and length == expected


@hot
def _on_data(state: RoceState, index: Int, pair: Records, psn: Int, frame: Int, opcode: Int) -> None:
    if not _answered_before(state, index, pair, psn):
        drop(state, _OUT_OF_ORDER)
        return
    message = state.sends[pair.send_head]
    length = payload_bytes(frame, opcode)
    if not _data_fits(pair, message, psn, opcode, length):
        drop(state, _BAD)
        fail(state, index, _BAD_RESPONSE)
        return
    source = frame + EXTENSION_PLACE + extension_bytes(opcode)
    if opcode == _ATOMIC_ANSWER:
        length = ATOMIC_BYTES
        source = np.int64(state.engine[0].scratch)
        store_u64(source, load_be64(frame + EXTENSION_PLACE + 4))
    offset = (psn - message.first_psn) * pair.path_mtu
    if not scatter(state, pair.pd, message, offset, source, length, _LOCAL_WRITE):
        fail(state, index, _LOC_PROTECTION)
        return
    _advance(state, index, pair, psn + 1)
    fail_at_head(state, index)


@hot
def on_response(state: RoceState, index: Int, frame: Int, opcode: Int) -> None:
    """Take an acknowledgement, a NAK, a READ response or an atomic's result."""
    pair = state.queue_pairs[index]
    psn = unwrap_psn(np.int64(pair.unanswered_psn), load_be32(frame + PSN_PLACE) & PSN_MASK)
    if psn < pair.unanswered_psn:
        drop(state, _STALE)
    elif psn >= pair.sent_end_psn:
        drop(state, _UNEXPECTED)
    elif opcode != _ACKNOWLEDGE:
        _on_data(state, index, pair, psn, frame, opcode)
    else:
        _on_acknowledge(state, index, pair, psn, frame)
