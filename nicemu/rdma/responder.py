# SPDX-License-Identifier: Apache-2.0
"""The receiving half of a reliable connection: order, rights, acknowledgements, replays.

Every right is checked before a byte is written: the whole range at a message's first packet, and each
packet's own range again when it arrives, for a key may be taken back in between.
Source: InfiniBand Architecture Specification Volume 1, "Responder: Receiving Inbound Request Packets",
"Duplicate requests"; Annex A17 "RoCEv2".
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import Access
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, Records, cold, hot
from nicemu.pcie import compare_swap_u64, copy_memory, fetch_add_u64
from nicemu.wire import (
    BTH_PLACE,
    EXTENSION_PLACE,
    PSN_MASK,
    PSN_PLACE,
    NakCode,
    RcOpcode,
    SyndromeKind,
    extension_bytes,
    load_be32,
    load_be64,
    load_u8,
    payload_bytes,
)

from .responder_lists import (
    INCOMING_SEND,
    INCOMING_WRITE,
    NO_CREDITS,
    acknowledge,
    add_answer,
    end_receive,
    find_result,
    free_receive,
    keep_result,
    receive_is_ours,
    room_of,
    take_receive,
)
from .roce_error import enter_error
from .roce_lists import ahead, arrive, drop, memory_at, scatter
from .roce_state import (
    ANSWER_ACK,
    ANSWER_ATOMIC,
    ANSWER_READ,
    ATOMIC,
    DROP,
    MAX_RD_ATOMIC,
    MAX_WAITING_ANSWERS,
    NONE,
    SENT,
    SENT_WITH_IMM,
    WRITE,
    WRITE_WITH_IMM,
    RoceState,
)
from .send_queue import packets_of, unwrap_psn

MAX_DMA_BYTES = 1 << 31
MAX_WAITING_REPLAYS = 64
"""Answers that may wait to be sent before repeated requests are dropped (they will be repeated again)."""
ATOMIC_BYTES = 8

_DONE, _NOT_READY, _REFUSED = 0, 1, 2
"""What executing a request comes to; from _REFUSED on a NAK's code is added."""
_INVALID = _REFUSED + int(NakCode.INVALID_REQUEST)
_NO_ACCESS = _REFUSED + int(NakCode.REMOTE_ACCESS_ERROR)
_NOT_POSSIBLE = _REFUSED + int(NakCode.REMOTE_OPERATIONAL_ERROR)
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


_SEGMENTS = _segments()
_KIND, _IS_FIRST, _IS_LAST, _HAS_IMMEDIATE = range(4)


# Requests in order


@hot
def _in_place(pair: Records, opcode: Int, length: Int) -> Flag:
    """True if a packet continues what came before, and is full unless it is the last."""
    first, last, mtu = _SEGMENTS[opcode, _IS_FIRST], _SEGMENTS[opcode, _IS_LAST], pair.path_mtu
    if first != 0:
        if pair.incoming != NONE:
            return False
    elif pair.incoming != _SEGMENTS[opcode, _KIND]:
        return False
    shortest = np.int64(mtu)
    if last != 0:
        shortest = np.int64(0) if first != 0 else np.int64(1)
    return shortest <= length and length <= mtu


@hot
def _write(state: RoceState, pair: Records, frame: Int, opcode: Int, length: Int) -> Int:
    reth = frame + EXTENSION_PLACE
    payload = reth + extension_bytes(opcode)
    first, last = _SEGMENTS[opcode, _IS_FIRST] != 0, _SEGMENTS[opcode, _IS_LAST] != 0
    has_imm = _SEGMENTS[opcode, _HAS_IMMEDIATE]
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
        return _NOT_READY
    if length != 0:
        target = memory_at(state, pair.pd, rkey, ahead(address, done), length, _REMOTE_WRITE)
        if target == 0:
            return _NO_ACCESS
        copy_memory(target, payload, length)
    if not last:
        pair.incoming, pair.incoming_done = INCOMING_WRITE, done + length
        return _DONE
    pair.incoming = NONE
    wr_id = _ZERO
    if consumes:
        slot = take_receive(state, pair)
        wr_id = np.uint64(state.receives[slot].wr_id)
        free_receive(state, slot)
    imm_data = np.uint32(load_be32(payload - 4)) if has_imm != 0 else _NO_IMMEDIATE
    kind = WRITE_WITH_IMM if has_imm != 0 else WRITE
    arrive(state, pair, kind, dma_length, imm_data, has_imm, rkey, wr_id)
    return _DONE


@hot
def _send(state: RoceState, pair: Records, frame: Int, opcode: Int, length: Int) -> Int:
    payload = frame + EXTENSION_PLACE + extension_bytes(opcode)
    if pair.incoming == NONE:
        if pair.receive_head == NONE:
            return _NOT_READY
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
    if _SEGMENTS[opcode, _IS_LAST] != 0:
        pair.incoming = NONE
        has_imm = _SEGMENTS[opcode, _HAS_IMMEDIATE]
        imm_data = np.uint32(load_be32(payload - 4)) if has_imm != 0 else _NO_IMMEDIATE
        kind = SENT_WITH_IMM if has_imm != 0 else SENT
        free_receive(state, slot)
        arrive(state, pair, kind, done + length, imm_data, has_imm, _NO_IMMEDIATE, np.uint64(receive.wr_id))
    return _DONE


@hot
def _read_from(answer: Records, frame: Int, psn: Int, end: Int) -> None:
    reth = frame + EXTENSION_PLACE
    answer.psn, answer.first_psn, answer.end_psn = psn, psn, end
    answer.address, answer.rkey, answer.dma_length = (
        load_be64(reth),
        load_be32(reth + 8),
        load_be32(reth + 12),
    )


@hot
def _wait_with_read(state: RoceState, pair: Records, frame: Int, psn: Int, end: Int, reported: Int) -> None:
    """Put a READ among the answers."""
    answer = state.answers[add_answer(state, pair, ANSWER_READ, psn, NO_CREDITS)]
    _read_from(answer, frame, psn, end)
    answer.reported, answer.whole_length = reported, answer.dma_length


@hot
def _may_be_read(state: RoceState, pair: Records, frame: Int) -> Flag:
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
    if not _may_be_read(state, pair, frame):
        return _NO_ACCESS
    first = np.int64(pair.expected_psn)
    pair.expected_psn += packets_of(length, np.int64(pair.path_mtu))
    pair.msn += 1
    pair.gap_answered = 0
    _wait_with_read(state, pair, frame, first, np.int64(pair.expected_psn), 0)
    return _DONE


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
    return _DONE


@hot
def _execute(state: RoceState, index: Int, pair: Records, frame: Int, opcode: Int, psn_word: Int) -> Int:
    """Carry out the request that is expected: _DONE, or why not."""
    length = payload_bytes(frame, opcode)
    kind = _SEGMENTS[opcode, _KIND]
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
    if result != _DONE:
        return result
    psn = np.int64(pair.expected_psn)
    pair.expected_psn += 1
    pair.gap_answered = 0
    if _SEGMENTS[opcode, _IS_LAST] != 0:
        pair.msn += 1
    if psn_word & _ACK_REQUEST != 0:
        acknowledge(state, pair, psn)
    return _DONE


# Requests that were executed before


@hot
def _read_again(state: RoceState, pair: Records, frame: Int, psn: Int) -> None:
    """Read from `psn` on; a READ that still waits is answered from there, in its place."""
    end = psn + packets_of(load_be32(frame + EXTENSION_PLACE + 12), np.int64(pair.path_mtu))
    too_many = pair.reads_waiting > MAX_RD_ATOMIC
    if end > pair.expected_psn or too_many or not _may_be_read(state, pair, frame):
        drop(state, _BAD_READ)
        return
    slot = np.int64(pair.answer_head)
    while slot != NONE:
        waiting = state.answers[slot]
        if waiting.kind == ANSWER_READ and waiting.end_psn == end:
            _read_from(waiting, frame, psn, end)
            return
        slot = np.int64(waiting.next)
    _wait_with_read(state, pair, frame, psn, end, 1)


@cold
def _repeat(state: RoceState, index: Int, frame: Int, psn: Int) -> None:
    """Answer a repeated request without executing it twice; a READ is read again."""
    pair = state.queue_pairs[index]
    opcode = load_u8(frame + BTH_PLACE)
    drop(state, _DUPLICATE)
    if _SEGMENTS[opcode, _KIND] != 0:
        acknowledge(state, pair, np.int64(pair.expected_psn) - 1)
    elif pair.answer_count >= MAX_WAITING_REPLAYS:
        drop(state, _TOO_MANY)
    elif opcode == _READ_REQUEST:
        _read_again(state, pair, frame, psn)
    else:
        place = NONE
        if opcode == _FETCH_ADD or opcode == _COMPARE_SWAP:
            place = find_result(state, index, psn)
        if place == NONE:
            drop(state, _NO_REPLAY)
            return
        replay = state.replays[place]
        answer = state.answers[add_answer(state, pair, ANSWER_ATOMIC, psn, NO_CREDITS)]
        answer.original, answer.msn = replay.original, replay.msn


@cold
def _refuse(state: RoceState, index: Int, result: Int) -> None:
    """Answer a request that was not carried out with a NAK."""
    pair = state.queue_pairs[index]
    psn = np.int64(pair.expected_psn)
    if result == _NOT_READY:
        pair.gap_answered = 1
        drop(state, _NO_RECEIVE)
        add_answer(state, pair, ANSWER_ACK, psn, _RNR_NAK | pair.rnr_timer)
        return
    code = result - _REFUSED
    drop(state, _FIRST_REFUSAL + code)
    add_answer(state, pair, ANSWER_ACK, psn, _NAK | code)
    enter_error(state, index)


@hot
def on_request(state: RoceState, index: Int, frame: Int, opcode: Int) -> None:
    """Take a request: execute it, answer it again, or say what is missing."""
    pair = state.queue_pairs[index]
    if pair.answer_count >= MAX_WAITING_ANSWERS:
        drop(state, _ANSWERS_FULL)
        return
    psn_word = load_be32(frame + PSN_PLACE)
    expected = np.int64(pair.expected_psn)
    psn = unwrap_psn(expected, psn_word & PSN_MASK)
    if psn == expected:
        result = _execute(state, index, pair, frame, opcode, psn_word)
        if result != _DONE:
            _refuse(state, index, result)
    elif psn < expected:
        _repeat(state, index, frame, psn)
    else:
        drop(state, _GAP)
        if pair.gap_answered == 0:
            pair.gap_answered = 1
            add_answer(state, pair, ANSWER_ACK, expected, _SEQUENCE_NAK)
