# SPDX-License-Identifier: Apache-2.0
"""The send queue: posted work in order, the packets that each piece of it takes, its end.

Local memory is checked when work is posted, so that it fails in its turn, and again when it is read or
written: a key may be taken back in between. Packets are counted without end; only the wire sees 24 bits.
Source: InfiniBand Architecture Specification Volume 1, "Send Queue"; rdma-core, ibv_post_send(3).
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import MAX_SGE, Access, Opcode
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, Records, hot
from nicemu.wire import PSN_BITS, PSN_MASK

from .roce_lists import end, is_handle, memory_at
from .roce_state import (
    ERR,
    HAS_CONGESTION_CONTROL,
    HAS_SACKS,
    IS_DATAGRAM,
    IS_LIMITED,
    NONE,
    RTS,
    SQD,
    SQE,
    RoceState,
)

MAX_MESSAGE_BYTES = 1 << 30
ATOMIC_BYTES = 8
POSTED, QUEUE_FULL, NOT_READY = 1, 0, -1
"""What posting comes to."""
KIND_NONE, KIND_SEND, KIND_WRITE, KIND_READ, KIND_ATOMIC = range(5)

_OPCODES = 256
_FLUSHED = int(VerbsStatus.WR_FLUSH_ERR)
_LOC_LENGTH, _LOC_OPCODE = int(VerbsStatus.LOC_LEN_ERR), int(VerbsStatus.LOC_QP_OP_ERR)
_LOC_PROTECTION = int(VerbsStatus.LOC_PROT_ERR)
_NO_RIGHT, _LOCAL_WRITE = 0, int(Access.LOCAL_WRITE)


def _kinds() -> np.ndarray:
    kinds = np.zeros(_OPCODES, np.int64)
    kinds[[Opcode.SEND, Opcode.SEND_WITH_IMM]] = KIND_SEND
    kinds[[Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM]] = KIND_WRITE
    kinds[Opcode.RDMA_READ] = KIND_READ
    kinds[[Opcode.COMPARE_SWAP, Opcode.FETCH_ADD]] = KIND_ATOMIC
    return kinds


_KINDS = _kinds()


@hot
def unwrap_psn(near: Int, psn: Int) -> Int:
    """Return the count of packets, nearest to `near`, whose low 24 bits are `psn`.

    Both halves count packets without end; only the wire sees 24 bits.
    """
    further = (psn - near) & PSN_MASK
    return near + further if further < 1 << (PSN_BITS - 1) else near + further - (1 << PSN_BITS)


@hot
def packets_of(length_bytes: Int, path_mtu: Int) -> Int:
    """Return how many packets carry a message of `length_bytes`; an empty message still takes one."""
    return max(1, (length_bytes + path_mtu - 1) // path_mtu)


# The list


@hot
def _take_slot(state: RoceState) -> Int:
    engine = state.engine[0]
    slot = np.int64(engine.send_free)
    if slot == NONE:
        slot = np.int64(engine.send_touched)
        engine.send_touched += 1
    else:
        engine.send_free = state.sends[slot].next
    return slot


@hot
def take_first(state: RoceState, pair: Records) -> Int:
    """Take the first message out of a queue that has one; return its slot, whose content stays for now."""
    slot, engine = np.int64(pair.send_head), state.engine[0]
    message = state.sends[slot]
    if pair.cursor == slot:
        pair.cursor = message.next
    elif message.kind >= KIND_READ:
        pair.data_awaited -= 1
    pair.send_head = message.next
    if pair.send_head == NONE:
        pair.send_tail = NONE
    pair.send_count -= 1
    message.next = engine.send_free
    engine.send_free = slot
    return slot


@hot
def rewind(pair: Records) -> None:
    """Let the first message be sent next."""
    pair.cursor = pair.send_head
    pair.data_awaited = 0


@hot
def end_first(state: RoceState, pair: Records, status: Int, byte_len: Int) -> None:
    """Complete the first message."""
    message = state.sends[take_first(state, pair)]
    end(state, pair, message.context, message.wr_id, status, message.opcode, byte_len)


@hot
def flush_requester(state: RoceState, pair: Records) -> None:
    """Complete everything that is queued with WR_FLUSH_ERR."""
    pair.deadline_ns = pair.wait_until_ns = NONE
    pair.features &= ~HAS_SACKS
    if pair.features & HAS_CONGESTION_CONTROL != 0:
        state.extras[pair.extra].paced_until_ns = NONE
    while pair.send_head != NONE:
        end_first(state, pair, _FLUSHED, 0)
    rewind(pair)


@hot
def reset_requester(state: RoceState, pair: Records, psn: Int) -> None:
    """Forget everything; the next packet has `psn`."""
    while pair.send_head != NONE:
        take_first(state, pair)
    pair.next_psn = pair.unanswered_psn = pair.send_psn = pair.sent_end_psn = psn
    pair.gap_psn = pair.deadline_ns = pair.wait_until_ns = NONE
    pair.features &= ~(HAS_SACKS | IS_LIMITED)
    if pair.features & HAS_CONGESTION_CONTROL != 0:
        extra = state.extras[pair.extra]
        extra.notified = extra.cnp_after_ns = 0
        extra.paced_until_ns = NONE
    pair.retries_left, pair.rnr_retries_left = pair.retry_count, pair.rnr_retry
    rewind(pair)


# Posting


@hot
def _piece_is_ours(state: RoceState, pair: Records, key: Int, address: Int, length: Int, access: Int) -> Flag:
    return length == 0 or memory_at(state, pair.pd, key, address, length, access) != 0


@hot
def _error_of(state: RoceState, pair: Records, work: Records, kind: Int, length: Int) -> Int:
    """Return the status that work ends with which no packet can carry, or 0."""
    if pair.send_head != NONE and state.sends[pair.send_tail].error != 0:
        return _FLUSHED
    if kind == KIND_NONE or work.sge_count > MAX_SGE:
        return _LOC_OPCODE
    if length > MAX_MESSAGE_BYTES or (kind == KIND_ATOMIC and length != ATOMIC_BYTES):
        return _LOC_LENGTH
    if pair.features & IS_DATAGRAM != 0:
        if kind != KIND_SEND or not is_handle(state, work.remote_address):
            return _LOC_OPCODE
        if length > pair.path_mtu:
            return _LOC_LENGTH
    access = _LOCAL_WRITE if kind >= KIND_READ else _NO_RIGHT
    if work.sge_count > 0 and not _piece_is_ours(
        state, pair, work.lkey0, work.address0, np.int64(work.length0), access
    ):
        return _LOC_PROTECTION
    if work.sge_count > 1 and not _piece_is_ours(
        state, pair, work.lkey1, work.address1, np.int64(work.length1), access
    ):
        return _LOC_PROTECTION
    return 0


@hot
def post_work(state: RoceState, pair: Records, work: Records) -> Int:
    """Queue work: POSTED, QUEUE_FULL or NOT_READY.

    What cannot be sent, and all after it, completes with an error in its turn; the caller sees to the first
    one (`requester_answers.fail_at_head`). In an error state work is flushed at once.
    """
    if pair.state == ERR or pair.state == SQE:
        end(state, pair, work.context, work.wr_id, _FLUSHED, work.opcode, 0)
        return POSTED
    if pair.state != RTS and pair.state != SQD:
        return NOT_READY
    if pair.send_count >= pair.send_depth:
        return QUEUE_FULL
    kind = _KINDS[work.opcode]
    length = np.int64(0)
    if work.sge_count > 0:
        length += work.length0
    if work.sge_count > 1:
        length += work.length1
    error = _error_of(state, pair, work, kind, length)
    slot = _take_slot(state)
    message = state.sends[slot]
    message.context, message.wr_id, message.opcode = work.context, work.wr_id, work.opcode
    message.address0, message.length0, message.lkey0 = work.address0, work.length0, work.lkey0
    message.address1, message.length1, message.lkey1 = work.address1, work.length1, work.lkey1
    message.remote_address, message.rkey, message.imm_data = work.remote_address, work.rkey, work.imm_data
    message.compare_add, message.swap, message.sge_count = work.compare_add, work.swap, work.sge_count
    message.kind, message.error, message.next = kind, error, NONE
    message.length = length if error == 0 else 0
    message.first_psn = message.end_psn = pair.next_psn
    if error == 0:
        message.end_psn += packets_of(length, np.int64(pair.path_mtu))
    pair.next_psn = message.end_psn
    if pair.send_head == NONE:
        pair.send_head = slot
    else:
        state.sends[pair.send_tail].next = slot
    pair.send_tail = slot
    if pair.cursor == NONE:
        pair.cursor = slot
    pair.send_count += 1
    return POSTED
