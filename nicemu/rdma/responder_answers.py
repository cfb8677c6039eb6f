# SPDX-License-Identifier: Apache-2.0
"""The answers of a responder as frames. READs are read when their responses are made.

Acknowledgements are made when frames are taken, so several become one, and never before the data is in
memory.
Source: InfiniBand Architecture Specification Volume 1, "Responder: Generating Responses".
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import Access
from nicemu.hot import Int, Records, cold, hot
from nicemu.wire import (
    EXTENSION_PLACE,
    PSN_MASK,
    TEMPLATE_BYTES,
    NakCode,
    RcOpcode,
    SyndromeKind,
    begin_frame,
    crc32,
    crc32_copy,
    end_frame,
    headers_crc,
    store_be32,
    store_be64,
)

from .congestion import make_notification
from .responder_lists import NO_CREDITS, add_answer, clear_answers, remove_answer
from .roce_error import enter_error
from .roce_lists import ahead, arrive, drop, memory_at
from .roce_state import (
    ANSWER_ACK,
    ANSWER_ATOMIC,
    ANSWER_CNP,
    ANSWER_READ,
    ANSWER_SELECTIVE,
    DROP,
    ERR,
    NONE,
    READ,
    RoceState,
)

SACK_BYTES = 8
"""What a selective acknowledgement carries behind its AETH."""
_ACKNOWLEDGE, _ATOMIC_ANSWER = int(RcOpcode.ACKNOWLEDGE), int(RcOpcode.ATOMIC_ACKNOWLEDGE)
_REMOTE_READ = int(Access.REMOTE_READ)
_ACCESS_NAK = int(SyndromeKind.NAK) << 5 | int(NakCode.REMOTE_ACCESS_ERROR)
_TAKEN_BACK = DROP["responder.key_taken_back"]
_NO_IMMEDIATE = np.uint32(0)
_NO_RECEIVE = np.uint64(0)
_RESPONSES = np.array(
    [
        [RcOpcode.RDMA_READ_RESPONSE_MIDDLE, RcOpcode.RDMA_READ_RESPONSE_LAST],
        [RcOpcode.RDMA_READ_RESPONSE_FIRST, RcOpcode.RDMA_READ_RESPONSE_ONLY],
    ],
    np.int64,
)
"""By [is the first response][is the last response]."""


@hot
def _answer_frame(pair: Records, template: Int, answer: Records, target: Int) -> Int:
    """Make an ACK, a NAK or an atomic's result; return the frame's length.

    A selective acknowledgement is a NAK with the bits of what is here behind it.
    """
    atomic = answer.kind == ANSWER_ATOMIC
    if answer.kind == ANSWER_CNP:
        return make_notification(np.int64(pair.remote_number), template, target)
    if answer.kind == ANSWER_SELECTIVE:
        end = begin_frame(
            target, template, _ACKNOWLEDGE, pair.remote_number, answer.psn & PSN_MASK, SACK_BYTES
        )
        store_be32(target + EXTENSION_PLACE, answer.syndrome << 24 | answer.msn)
        store_be64(end, answer.original)
        crc = crc32(headers_crc(target, _ACKNOWLEDGE), end, SACK_BYTES)
        return end_frame(target, end + SACK_BYTES, crc, SACK_BYTES)
    opcode = _ATOMIC_ANSWER if atomic else _ACKNOWLEDGE
    end = begin_frame(target, template, opcode, pair.remote_number, answer.psn & PSN_MASK, 0)
    store_be32(target + EXTENSION_PLACE, answer.syndrome << 24 | answer.msn)
    if atomic:
        store_be64(target + EXTENSION_PLACE + 4, answer.original)
    return end_frame(target, end, headers_crc(target, opcode), 0)


@cold
def _refuse_read(state: RoceState, index: Int, psn: Int, msn: Int) -> None:
    """The key of a READ that is being answered was taken back: say so, and nothing else."""
    pair = state.queue_pairs[index]
    clear_answers(state, pair)
    drop(state, _TAKEN_BACK)
    answer = state.answers[add_answer(state, pair, ANSWER_ACK, psn, _ACCESS_NAK)]
    answer.msn = msn
    if pair.state != ERR:
        enter_error(state, index)


@hot
def _read_response(state: RoceState, index: Int, template: Int, answer: Records, target: Int) -> Int:
    """Make a READ's next response; return the frame's length, or 0 if its key was taken back."""
    pair = state.queue_pairs[index]
    psn, mtu = np.int64(answer.psn), np.int64(pair.path_mtu)
    offset = (psn - answer.first_psn) * mtu
    length = min(mtu, answer.dma_length - offset)
    first, last = psn == answer.first_psn, psn + 1 == answer.end_psn
    source = 0
    if length != 0:
        address = ahead(np.uint64(answer.address), offset)
        source = memory_at(state, pair.pd, answer.rkey, address, length, _REMOTE_READ)
        if source == 0:
            _refuse_read(state, index, psn, np.int64(answer.msn))
            return 0
    answer.psn += 1
    opcode = _RESPONSES[np.int64(first), np.int64(last)]
    payload = begin_frame(target, template, opcode, pair.remote_number, psn & PSN_MASK, length)
    if first or last:
        store_be32(target + EXTENSION_PLACE, NO_CREDITS << 24 | answer.msn)
    crc = headers_crc(target, opcode)
    if length != 0:
        crc = crc32_copy(crc, payload, source, length)
    if last:
        remove_answer(state, pair, NONE, np.int64(pair.answer_head))
        if answer.reported == 0:
            byte_len = np.int64(answer.whole_length)
            arrive(state, pair, READ, byte_len, _NO_IMMEDIATE, 0, answer.rkey, _NO_RECEIVE)
    return end_frame(target, payload + length, crc, length)


@hot
def make_answer(state: RoceState, index: Int, target: Int) -> Int:
    """Make the next frame of those that wait at `target`; return its length, or 0 if none waits."""
    pair = state.queue_pairs[index]
    template = state.engine[0].templates + index * TEMPLATE_BYTES
    if pair.answer_head != NONE and state.answers[pair.answer_head].kind == ANSWER_READ:
        length = _read_response(state, index, template, state.answers[pair.answer_head], target)
        if length != 0:
            return length
    if pair.answer_head == NONE:
        return 0
    slot = np.int64(pair.answer_head)
    remove_answer(state, pair, NONE, slot)
    return _answer_frame(pair, template, state.answers[slot], target)
