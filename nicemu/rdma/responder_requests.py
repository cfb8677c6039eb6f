# SPDX-License-Identifier: Apache-2.0
"""Requests that a responder carries out: rights, what they do to memory, what they need of the receive queue.

Every right is checked before a byte is written: the whole range at a message's first packet, and each
packet's own range again when it arrives, for a key may be taken back in between.
Source: InfiniBand Architecture Specification Volume 1, "Responder: Receiving Inbound Request Packets";
Annex A17 "RoCEv2".
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import Access
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, Records, hot
from nicemu.pcie import compare_swap_u64, copy_memory, fetch_add_u64
from nicemu.wire import (
    EXTENSION_PLACE,
    NakCode,
    RcOpcode,
    SyndromeKind,
    extension_bytes,
    load_be32,
    load_be64,
    payload_bytes,
)

from .responder_lists import (
    INCOMING_SEND,
    INCOMING_WRITE,
    NO_CREDITS,
    acknowledge,
    add_answer,
    end_receive,
    free_receive,
    keep_result,
    receive_is_ours,
    room_of,
    take_receive,
)
from .roce_lists import ahead, arrive, memory_at, scatter
from .roce_state import (
    ANSWER_ATOMIC,
    ANSWER_READ,
    ATOMIC,
    DROP,
    MAX_RD_ATOMIC,
    NONE,
    SENT,
    SENT_WITH_IMM,
    WRITE,
    WRITE_WITH_IMM,
    RoceState,
)
from .send_queue import packets_of

MAX_DMA_BYTES = 1 << 31
MAX_WAITING_REPLAYS = 64
"""Answers that may wait to be sent before repeated requests are dropped (they will be repeated again)."""
ATOMIC_BYTES = 8

DONE, NOT_READY, REFUSED = 0, 1, 2
"""What executing a request comes to; from REFUSED on a NAK's code is added."""
_INVALID = REFUSED + int(NakCode.INVALID_REQUEST)
_NO_ACCESS = REFUSED + int(NakCode.REMOTE_ACCESS_ERROR)
_NOT_POSSIBLE = REFUSED + int(NakCode.REMOTE_OPERATIONAL_ERROR)
_NAK, _RNR_NAK = int(SyndromeKind.NAK) << 5, int(SyndromeKind.RNR_NAK) << 5
_SEQUENCE_NAK = _NAK | int(NakCode.PSN_SEQUENCE_ERROR)
_REMOTE_WRITE, _REMOTE_READ = int(Access.REMOTE_WRITE), int(Access.REMOTE_READ)
_REMOTE_ATOMIC, _LOCAL_WRITE = int(Access.REMOTE_ATOMIC), int(Access.LOCAL_WRITE)
_LOC_LENGTH, _LOC_PROTECTION = int(VerbsStatus.LOC_LEN_ERR), int(VerbsStatus.LOC_PROT_ERR)
_READ_REQUEST, _FETCH_ADD = int(RcOpcode.RDMA_READ_REQUEST), int(RcOpcode.FETCH_ADD)
_COMPARE_SWAP = int(RcOpcode.COMPARE_SWAP)
_GAP, _NO_RECEIVE = DROP["responder.psn_gap"], DROP["responder.not_ready"]
_DUPLICATE, _TOO_MANY = DROP["responder.duplicate"], DROP["responder.too_many_replays"]
_NO_REPLAY, _BAD_READ = DROP["responder.no_replay"], DROP["responder.bad_duplicate_read"]
_ANSWERS_FULL = DROP["responder.answers_full"]
_FIRST_REFUSAL = DROP["responder.invalid_request"] - int(NakCode.INVALID_REQUEST)
_ZERO, _EIGHT, _NO_IMMEDIATE = np.uint64(0), np.uint64(8), np.uint32(0)
_ACK_REQUEST = 1 << 31


def _segments() -> np.ndarray:
    """Return kind, whether it is the first, whether the last, and whether it has an immediate, by opcode."""
    segments = np.zeros((32, 4), np.int64)
    for opcode in RcOpcode:
        name = opcode.name
        kind = INCOMING_SEND if name.startswith("SEND") else INCOMING_WRITE
        if not name.startswith(("SEND", "RDMA_WRITE")):
            continue
        only = "_ONLY" in name
        segments[opcode] = kind, only or "_FIRST" in name, only or "_LAST" in name, "IMMEDIATE" in name
    return segments


SEGMENTS = _segments()
"""By opcode: kind of the message, or 0, then what the packet is of it."""
KIND, _IS_FIRST, _IS_LAST, _HAS_IMMEDIATE = range(4)


# Requests in order


@hot
def _in_place(pair: Records, opcode: Int, length: Int) -> Flag:
    """True if a packet continues what came before, and is full unless it is the last."""
    first, last, mtu = SEGMENTS[opcode, _IS_FIRST], SEGMENTS[opcode, _IS_LAST], pair.path_mtu
    if first != 0:
        if pair.incoming != NONE:
            return False
    elif pair.incoming != SEGMENTS[opcode, KIND]:
        return False
    shortest = np.int64(mtu)
    if last != 0:
        shortest = np.int64(0) if first != 0 else np.int64(1)
    return shortest <= length and length <= mtu


@hot
def _write(state: RoceState, pair: Records, frame: Int, opcode: Int, length: Int) -> Int:
    reth = frame + EXTENSION_PLACE
    payload = reth + extension_bytes(opcode)
    first, last = SEGMENTS[opcode, _IS_FIRST] != 0, SEGMENTS[opcode, _IS_LAST] != 0
    has_imm = SEGMENTS[opcode, _HAS_IMMEDIATE]
    if first:
        pair.incoming_address = load_be64(reth)
        pair.incoming_rkey = load_be32(reth + 8)
        pair.incoming_length = load_be32(reth + 12)
        pair.incoming_done = 0
    done, dma_length = np.int64(pair.incoming_done), np.int64(pair.incoming_length)
    address, rkey = np.uint64(pair.incoming_address), np.uint32(pair.incoming_rkey)
    left = dma_length - done - length
    if dma_length > MAX_DMA_BYTES or left < 0 or (left == 0) != last:
        return _INVALID
    whole = dma_length if first else np.int64(0)
    if whole != 0 and memory_at(state, pair.pd, rkey, address, whole, _REMOTE_WRITE) == 0:
        return _NO_ACCESS
    consumes = has_imm != 0 and pair.implicit_receives == 0
    if consumes and pair.receive_head == NONE:
        return NOT_READY
    if length != 0:
        target = memory_at(state, pair.pd, rkey, ahead(address, done), length, _REMOTE_WRITE)
        if target == 0:
            return _NO_ACCESS
        copy_memory(target, payload, length)
    if not last:
        pair.incoming, pair.incoming_done = INCOMING_WRITE, done + length
        return DONE
    pair.incoming = NONE
    wr_id = _ZERO
    if consumes:
        slot = take_receive(state, pair)
        wr_id = np.uint64(state.receives[slot].wr_id)
        free_receive(state, slot)
    imm_data = np.uint32(load_be32(payload - 4)) if has_imm != 0 else _NO_IMMEDIATE
    kind = WRITE_WITH_IMM if has_imm != 0 else WRITE
    arrive(state, pair, kind, dma_length, imm_data, has_imm, rkey, wr_id)
    return DONE


@hot
def _send(state: RoceState, pair: Records, frame: Int, opcode: Int, length: Int) -> Int:
    payload = frame + EXTENSION_PLACE + extension_bytes(opcode)
    if pair.incoming == NONE:
        if pair.receive_head == NONE:
            return NOT_READY
        slot = take_receive(state, pair)
        if not receive_is_ours(state, pair, state.receives[slot]):
            end_receive(state, pair, slot, _LOC_PROTECTION)
            return _NOT_POSSIBLE
        pair.incoming, pair.incoming_receive, pair.incoming_done = INCOMING_SEND, slot, 0
    slot, done = np.int64(pair.incoming_receive), np.int64(pair.incoming_done)
    receive = state.receives[slot]
    if done + length > room_of(receive):
        pair.incoming = NONE
        end_receive(state, pair, slot, _LOC_LENGTH)
        return _INVALID
    if not scatter(state, pair.pd, receive, done, payload, length, _LOCAL_WRITE):
        pair.incoming = NONE
        end_receive(state, pair, slot, _LOC_PROTECTION)
        return _NOT_POSSIBLE
    pair.incoming_done = done + length
    if SEGMENTS[opcode, _IS_LAST] != 0:
        pair.incoming = NONE
        has_imm = SEGMENTS[opcode, _HAS_IMMEDIATE]
        imm_data = np.uint32(load_be32(payload - 4)) if has_imm != 0 else _NO_IMMEDIATE
        kind = SENT_WITH_IMM if has_imm != 0 else SENT
        free_receive(state, slot)
        arrive(state, pair, kind, done + length, imm_data, has_imm, _NO_IMMEDIATE, np.uint64(receive.wr_id))
    return DONE


@hot
def read_from(answer: Records, frame: Int, psn: Int, end: Int) -> None:
    """Let a READ among the answers be what a request asks for."""
    reth = frame + EXTENSION_PLACE
    answer.psn, answer.first_psn, answer.end_psn = psn, psn, end
    answer.address, answer.rkey, answer.dma_length = (
        load_be64(reth),
        load_be32(reth + 8),
        load_be32(reth + 12),
    )


@hot
def wait_with_read(state: RoceState, pair: Records, frame: Int, psn: Int, end: Int, reported: Int) -> None:
    """Put a READ among the answers."""
    answer = state.answers[add_answer(state, pair, ANSWER_READ, psn, NO_CREDITS)]
    read_from(answer, frame, psn, end)
    answer.reported, answer.whole_length = reported, answer.dma_length


@hot
def may_be_read(state: RoceState, pair: Records, frame: Int) -> Flag:
    """True if the key of a READ request covers what it asks for."""
    reth = frame + EXTENSION_PLACE
    length = load_be32(reth + 12)
    return (
        length == 0
        or memory_at(state, pair.pd, load_be32(reth + 8), load_be64(reth), length, _REMOTE_READ) != 0
    )


@hot
def _reads_agreed_on(state: RoceState, pair: Records) -> Int:
    """Return how many READs wait that are not repeated ones."""
    count: Int = 0
    slot = np.int64(pair.answer_head)
    while slot != NONE:
        waiting = state.answers[slot]
        if waiting.kind == ANSWER_READ and waiting.reported == 0:
            count += 1
        slot = np.int64(waiting.next)
    return count


@hot
def _read(state: RoceState, pair: Records, frame: Int) -> Int:
    length = load_be32(frame + EXTENSION_PLACE + 12)
    if length > MAX_DMA_BYTES:
        return _INVALID
    if pair.reads_waiting >= MAX_RD_ATOMIC and _reads_agreed_on(state, pair) >= MAX_RD_ATOMIC:
        return _INVALID
    if not may_be_read(state, pair, frame):
        return _NO_ACCESS
    first = np.int64(pair.expected_psn)
    pair.expected_psn += packets_of(length, np.int64(pair.path_mtu))
    pair.msn += 1
    pair.gap_answered = 0
    wait_with_read(state, pair, frame, first, np.int64(pair.expected_psn), 0)
    return DONE


@hot
def _atomic(state: RoceState, index: Int, pair: Records, frame: Int, opcode: Int) -> Int:
    header = frame + EXTENSION_PLACE
    address, rkey = np.uint64(load_be64(header)), load_be32(header + 8)
    operand, compare = np.uint64(load_be64(header + 12)), np.uint64(load_be64(header + 20))
    if address % _EIGHT != _ZERO:
        return _INVALID
    cell = memory_at(state, pair.pd, rkey, address, ATOMIC_BYTES, _REMOTE_ATOMIC)
    if cell == 0:
        return _NO_ACCESS
    original = _ZERO
    if opcode == _FETCH_ADD:
        original = np.uint64(fetch_add_u64(cell, operand))
    else:
        original = np.uint64(compare_swap_u64(cell, compare, operand))
    pair.msn += 1
    psn = np.int64(pair.expected_psn)
    answer = state.answers[add_answer(state, pair, ANSWER_ATOMIC, psn, NO_CREDITS)]
    answer.original = original
    keep_result(state, index, psn, original)
    pair.expected_psn += 1
    pair.gap_answered = 0
    arrive(state, pair, ATOMIC, ATOMIC_BYTES, _NO_IMMEDIATE, 0, np.uint32(rkey), _ZERO)
    return DONE


@hot
def execute(state: RoceState, index: Int, pair: Records, frame: Int, opcode: Int, psn_word: Int) -> Int:
    """Carry out the request that is expected: DONE, or why not."""
    length = payload_bytes(frame, opcode)
    kind = SEGMENTS[opcode, KIND]
    if kind == 0:
        if pair.incoming != NONE or length != 0:
            return _INVALID
        if opcode == _READ_REQUEST:
            return _read(state, pair, frame)
        if opcode == _FETCH_ADD or opcode == _COMPARE_SWAP:
            return _atomic(state, index, pair, frame, opcode)
        return _INVALID
    if not _in_place(pair, opcode, length):
        return _INVALID
    if kind == INCOMING_WRITE:
        result = _write(state, pair, frame, opcode, length)
    else:
        result = _send(state, pair, frame, opcode, length)
    if result != DONE:
        return result
    psn = np.int64(pair.expected_psn)
    pair.expected_psn += 1
    pair.gap_answered = 0
    if SEGMENTS[opcode, _IS_LAST] != 0:
        pair.msn += 1
    if psn_word & _ACK_REQUEST != 0:
        acknowledge(state, pair, psn)
    return DONE
