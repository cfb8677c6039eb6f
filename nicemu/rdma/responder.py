# SPDX-License-Identifier: Apache-2.0
"""The receiving half of a reliable connection: order, acknowledgements, replays, what came too early.

Source: InfiniBand Architecture Specification Volume 1, "Responder: Receiving Inbound Request Packets",
"Duplicate requests"; Annex A17 "RoCEv2".
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Int, Records, cold, hot
from nicemu.wire import (
    BTH_PLACE,
    EXTENSION_PLACE,
    PSN_MASK,
    PSN_PLACE,
    NakCode,
    RcOpcode,
    SyndromeKind,
    load_be32,
    load_u8,
)

from .held_frames import forget_held, free_held, held_frame, hold, take_held
from .responder_lists import (
    NO_CREDITS,
    acknowledge,
    acknowledge_selectively,
    add_answer,
    find_result,
)
from .responder_requests import (
    DONE,
    KIND,
    NOT_READY,
    REFUSED,
    SEGMENTS,
    execute,
    may_be_read,
    read_from,
    wait_with_read,
)
from .roce_error import enter_error
from .roce_lists import drop
from .roce_state import (
    ANSWER_ACK,
    ANSWER_ATOMIC,
    ANSWER_READ,
    DROP,
    HAS_HELD,
    HELD_PSN,
    IS_SELECTIVE,
    MAX_RD_ATOMIC,
    MAX_WAITING_ANSWERS,
    NONE,
    RoceState,
)
from .send_queue import packets_of, unwrap_psn

MAX_WAITING_REPLAYS = 64
"""Answers that may wait to be sent before repeated requests are dropped (they will be repeated again)."""

_NAK, _RNR_NAK = int(SyndromeKind.NAK) << 5, int(SyndromeKind.RNR_NAK) << 5
_SEQUENCE_NAK = _NAK | int(NakCode.PSN_SEQUENCE_ERROR)
_READ_REQUEST, _FETCH_ADD = int(RcOpcode.RDMA_READ_REQUEST), int(RcOpcode.FETCH_ADD)
_COMPARE_SWAP = int(RcOpcode.COMPARE_SWAP)
_GAP, _NO_RECEIVE = DROP["responder.psn_gap"], DROP["responder.not_ready"]
_DUPLICATE, _TOO_MANY = DROP["responder.duplicate"], DROP["responder.too_many_replays"]
_NO_REPLAY, _BAD_READ = DROP["responder.no_replay"], DROP["responder.bad_duplicate_read"]
_ANSWERS_FULL = DROP["responder.answers_full"]
_FIRST_REFUSAL = DROP["responder.invalid_request"] - int(NakCode.INVALID_REQUEST)


# Requests that were executed before


@hot
def _read_again(state: RoceState, pair: Records, frame: Int, psn: Int) -> None:
    """Read from `psn` on; a READ that still waits is answered from there, in its place."""
    end = psn + packets_of(load_be32(frame + EXTENSION_PLACE + 12), np.int64(pair.path_mtu))
    too_many = pair.reads_waiting > MAX_RD_ATOMIC
    if end > pair.expected_psn or too_many or not may_be_read(state, pair, frame):
        drop(state, _BAD_READ)
        return
    slot = np.int64(pair.answer_head)
    while slot != NONE:
        waiting = state.answers[slot]
        if waiting.kind == ANSWER_READ and waiting.end_psn == end:
            read_from(waiting, frame, psn, end)
            return
        slot = np.int64(waiting.next)
    wait_with_read(state, pair, frame, psn, end, 1)


@cold
def _repeat(state: RoceState, index: Int, frame: Int, psn: Int) -> None:
    """Answer a repeated request without executing it twice; a READ is read again."""
    pair = state.queue_pairs[index]
    opcode = load_u8(frame + BTH_PLACE)
    drop(state, _DUPLICATE)
    if SEGMENTS[opcode, KIND] != 0:
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
    if result == NOT_READY:
        pair.gap_answered = 1
        drop(state, _NO_RECEIVE)
        add_answer(state, pair, ANSWER_ACK, psn, _RNR_NAK | pair.rnr_timer)
        forget_held(state, pair)
        return
    code = result - REFUSED
    drop(state, _FIRST_REFUSAL + code)
    add_answer(state, pair, ANSWER_ACK, psn, _NAK | code)
    enter_error(state, index)


# Requests that came too early


@cold
def _keep_early(state: RoceState, index: Int, frame: Int, psn: Int) -> None:
    """Hold a packet behind a gap, and say what is here; a receiver that is not ready holds nothing."""
    pair = state.queue_pairs[index]
    if pair.gap_answered != 0:
        drop(state, _GAP)
        return
    reason = hold(state, pair, frame, psn)
    if reason != 0:
        drop(state, reason)
    acknowledge_selectively(state, pair)


@cold
def _execute_held(state: RoceState, index: Int) -> None:
    """Carry out what waited for the packet that has come, and say what is here now."""
    pair = state.queue_pairs[index]
    is_segment = False
    while pair.features & HAS_HELD != 0 and pair.answer_count < MAX_WAITING_ANSWERS:
        psn = np.int64(state.held[state.extras[pair.extra].held_head, HELD_PSN])
        if psn > pair.expected_psn:
            break
        slot = take_held(state, pair)
        if psn == pair.expected_psn:
            frame = held_frame(state, slot)
            opcode = load_u8(frame + BTH_PLACE)
            result = execute(state, index, pair, frame, opcode, load_be32(frame + PSN_PLACE))
            if result != DONE:
                free_held(state, slot)
                _refuse(state, index, result)
                return
            is_segment = SEGMENTS[opcode, KIND] != 0
        free_held(state, slot)
    if pair.answer_count >= MAX_WAITING_ANSWERS:
        return
    if pair.features & HAS_HELD != 0:
        acknowledge_selectively(state, pair)
    elif is_segment:
        acknowledge(state, pair, np.int64(pair.expected_psn) - 1)


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
        result = execute(state, index, pair, frame, opcode, psn_word)
        if result != DONE:
            _refuse(state, index, result)
    elif psn < expected:
        _repeat(state, index, frame, psn)
    elif pair.features & IS_SELECTIVE != 0:
        _keep_early(state, index, frame, psn)
        return
    else:
        drop(state, _GAP)
        if pair.gap_answered == 0:
            pair.gap_answered = 1
            add_answer(state, pair, ANSWER_ACK, expected, _SEQUENCE_NAK)
    if pair.features & HAS_HELD != 0:
        _execute_held(state, index)
