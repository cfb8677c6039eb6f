# SPDX-License-Identifier: Apache-2.0
"""The sending half of a reliable connection: posted work, segmentation, packet sequence numbers.

Retransmission is go-back-N. Local memory is checked when work is posted, so that it fails in its turn, and
again when it is read or written: a key may be taken back in between.
Source: InfiniBand Architecture Specification Volume 1, "Reliable Service"; rdma-core, ibv_post_send(3).
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import MAX_SGE, Access, Opcode
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, Records, hot
from nicemu.wire import (
    ACK_REQUEST,
    EXTENSION_PLACE,
    PSN_BITS,
    PSN_MASK,
    TEMPLATE_BYTES,
    RcOpcode,
    begin_frame,
    crc32_copy,
    end_frame,
    headers_crc,
    store_be32,
    store_be64,
)

from .roce_lists import ahead, end, expect, memory_at
from .roce_state import ERR, MAX_RD_ATOMIC, NONE, RTS, SQD, SQE, RoceState

WINDOW_PACKETS = 64
"""Packets that may be sent beyond the oldest one without an answer."""
ACK_INTERVAL_PACKETS = 16
"""An answer is asked for at least this often, and at the end of every message."""
MAX_MESSAGE_BYTES = 1 << 30
ATOMIC_BYTES = 8
POSTED, QUEUE_FULL, NOT_READY = 1, 0, -1
"""What posting comes to."""
KIND_NONE, KIND_SEND, KIND_WRITE, KIND_READ, KIND_ATOMIC = range(5)

_OPCODES = 256
_OK, _FLUSHED = int(VerbsStatus.SUCCESS), int(VerbsStatus.WR_FLUSH_ERR)
_LOC_LENGTH, _LOC_OPCODE = int(VerbsStatus.LOC_LEN_ERR), int(VerbsStatus.LOC_QP_OP_ERR)
_LOC_PROTECTION = int(VerbsStatus.LOC_PROT_ERR)
_NO_RIGHT, _LOCAL_WRITE = 0, int(Access.LOCAL_WRITE)
_COMPARE_SWAP = int(Opcode.COMPARE_SWAP)
_READ_REQUEST = int(RcOpcode.RDMA_READ_REQUEST)
_SWAP_PACKET, _ADD_PACKET = int(RcOpcode.COMPARE_SWAP), int(RcOpcode.FETCH_ADD)
_ZERO = np.uint64(0)


def _kinds() -> np.ndarray:
    kinds = np.zeros(_OPCODES, np.int64)
    kinds[[Opcode.SEND, Opcode.SEND_WITH_IMM]] = KIND_SEND
    kinds[[Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM]] = KIND_WRITE
    kinds[Opcode.RDMA_READ] = KIND_READ
    kinds[[Opcode.COMPARE_SWAP, Opcode.FETCH_ADD]] = KIND_ATOMIC
    return kinds


def _segments() -> np.ndarray:
    """Return the packet's opcode by [opcode of the work][is the first packet][is the last packet]."""
    segments = np.zeros((_OPCODES, 2, 2), np.int64)
    for name in ("SEND", "RDMA_WRITE"):
        for suffix, ending in (("", ""), ("_WITH_IMM", "_WITH_IMMEDIATE")):
            segments[Opcode[name + suffix]] = (
                (RcOpcode[f"{name}_MIDDLE"], RcOpcode[f"{name}_LAST{ending}"]),
                (RcOpcode[f"{name}_FIRST"], RcOpcode[f"{name}_ONLY{ending}"]),
            )
    return segments


_KINDS, _SEGMENTS = _kinds(), _segments()
_HAS_IMMEDIATE = np.zeros(_OPCODES, np.int64)
_HAS_IMMEDIATE[[Opcode.SEND_WITH_IMM, Opcode.RDMA_WRITE_WITH_IMM]] = 1


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


# The list of posted work


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


# Sending


@hot
def may_send(state: RoceState, pair: Records) -> Flag:
    """True if the packet that comes next may be sent now."""
    if pair.cursor == NONE or pair.wait_until_ns != NONE or (pair.state != RTS and pair.state != SQD):
        return False
    message = state.sends[pair.cursor]
    if message.error != 0 or pair.send_psn - pair.unanswered_psn >= WINDOW_PACKETS:
        return False
    if pair.send_psn == message.first_psn and pair.send_psn >= pair.sent_end_psn:
        if pair.state == SQD:
            return False
        if message.kind >= KIND_READ and pair.data_awaited >= MAX_RD_ATOMIC:
            return False
    return True


@hot
def _gather(
    state: RoceState, pair: Records, message: Records, offset: Int, length: Int, target: Int, crc: Int
) -> Int:
    """Copy from the local pieces, addressed as if they were one, to `target`; return the CRC that continues
    `crc`, or -1 if a key does not cover its part any more.
    """
    for number in range(message.sge_count):
        size = np.int64(message.length0 if number == 0 else message.length1)
        if offset >= size or length == 0:
            offset -= min(offset, size)
            continue
        part = min(size - offset, length)
        address = ahead(np.uint64(message.address0 if number == 0 else message.address1), offset)
        key = message.lkey0 if number == 0 else message.lkey1
        source = memory_at(state, pair.pd, key, address, part, _NO_RIGHT)
        if source == 0:
            return -1
        crc = crc32_copy(crc, target, source, part)
        target += part
        length -= part
        offset = 0
    return crc


@hot
def _request_frame(state: RoceState, pair: Records, template: Int, message: Records, target: Int) -> Int:
    """Make a READ or atomic request (a READ's stands for all its responses); return the frame's length."""
    psn = np.int64(pair.send_psn)
    place = target + EXTENSION_PLACE
    offset = (psn - message.first_psn) * pair.path_mtu
    opcode = _READ_REQUEST
    if message.kind == KIND_ATOMIC:
        opcode = _SWAP_PACKET if message.opcode == _COMPARE_SWAP else _ADD_PACKET
    begin_frame(target, template, opcode, pair.remote_number, psn & PSN_MASK | ACK_REQUEST, 0)
    store_be64(place, ahead(np.uint64(message.remote_address), offset))
    store_be32(place + 8, message.rkey)
    if message.kind == KIND_READ:
        store_be32(place + 12, message.length - offset)
        pair.send_psn = message.end_psn
        return end_frame(target, place + 16, headers_crc(target, opcode), 0)
    swaps = message.opcode == _COMPARE_SWAP
    store_be64(place + 12, message.swap if swaps else message.compare_add)
    store_be64(place + 20, message.compare_add if swaps else _ZERO)
    pair.send_psn = psn + 1
    return end_frame(target, place + 28, headers_crc(target, opcode), 0)


@hot
def _segment_frame(state: RoceState, pair: Records, template: Int, message: Records, target: Int) -> Int:
    """Make a packet of a SEND or WRITE; return the frame's length, or 0 if its memory is ours no more."""
    psn = np.int64(pair.send_psn)
    mtu = np.int64(pair.path_mtu)
    offset = (psn - message.first_psn) * mtu
    length = min(mtu, message.length - offset)
    first, last = psn == message.first_psn, psn + 1 == message.end_psn
    opcode = _SEGMENTS[message.opcode, np.int64(first), np.int64(last)]
    psn_word = psn & PSN_MASK
    if last or psn + 1 - pair.unanswered_psn >= WINDOW_PACKETS or (psn + 1) % ACK_INTERVAL_PACKETS == 0:
        psn_word |= ACK_REQUEST
    payload = begin_frame(target, template, opcode, pair.remote_number, psn_word, length)
    if first and message.kind == KIND_WRITE:
        store_be64(target + EXTENSION_PLACE, message.remote_address)
        store_be32(target + EXTENSION_PLACE + 8, message.rkey)
        store_be32(target + EXTENSION_PLACE + 12, message.length)
    if last and _HAS_IMMEDIATE[message.opcode] != 0:
        store_be32(payload - 4, message.imm_data)
    crc = _gather(state, pair, message, offset, length, payload, headers_crc(target, opcode))
    if crc < 0:
        message.error = _LOC_PROTECTION
        return 0
    pair.send_psn = psn + 1
    return end_frame(target, payload + length, crc, length)


@hot
def make_request(state: RoceState, index: Int, target: Int) -> Int:
    """Make the frame that `may_send` allows; return its length, or 0 if its memory is not ours any more.

    Then the message has an error, with which it ends when it is the first one.
    """
    pair, engine = state.queue_pairs[index], state.engine[0]
    message = state.sends[pair.cursor]
    template = engine.templates + index * TEMPLATE_BYTES
    if message.kind >= KIND_READ:
        length = _request_frame(state, pair, template, message, target)
    else:
        length = _segment_frame(state, pair, template, message, target)
        if length == 0:
            return 0
    if pair.deadline_ns == NONE and pair.timeout_ns != 0:
        pair.deadline_ns = engine.now_ns + pair.timeout_ns
        expect(state, index, np.int64(pair.deadline_ns))
    pair.sent_end_psn = max(pair.sent_end_psn, pair.send_psn)
    if pair.send_psn == message.end_psn:
        pair.cursor = message.next
        if message.kind >= KIND_READ:
            pair.data_awaited += 1
    return length
