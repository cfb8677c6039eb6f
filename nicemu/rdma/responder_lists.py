# SPDX-License-Identifier: Apache-2.0
"""What a responder keeps: posted receives, answers that wait to be sent, results of atomics for replay.

Source: InfiniBand Architecture Specification Volume 1, "Receive Queue" and "Responder: Generating Responses".
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import Access, Opcode
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, Records, cold, hot
from nicemu.wire import PSN_MASK, NakCode, SyndromeKind

from .held_frames import forget_held, held_bits
from .roce_lists import end, memory_at
from .roce_state import (
    ANSWER_ACK,
    ANSWER_READ,
    ANSWER_SELECTIVE,
    ERR,
    MAX_RD_ATOMIC,
    NONE,
    RESET,
    RoceState,
)
from .send_queue import NOT_READY, POSTED, QUEUE_FULL

NO_CREDITS = 0x1F
"""Syndrome of an ACK that takes no part in end-to-end flow control."""
INCOMING_SEND, INCOMING_WRITE = 1, 2
_SEQUENCE_NAK = int(SyndromeKind.NAK) << 5 | int(NakCode.PSN_SEQUENCE_ERROR)
_FLUSHED, _RECV = int(VerbsStatus.WR_FLUSH_ERR), int(Opcode.RECV)
_LOCAL_WRITE = int(Access.LOCAL_WRITE)
_NOTHING = np.uint64(0)


# Receives


@hot
def post_receive(state: RoceState, pair: Records, work: Records) -> Int:
    """Queue a receive: POSTED, QUEUE_FULL, or NOT_READY in RESET. In ERR it is flushed at once."""
    if pair.state == RESET:
        return NOT_READY
    if pair.state == ERR:
        end(state, pair, _NOTHING, work.wr_id, _FLUSHED, _RECV, 0)
        return POSTED
    if pair.receive_count >= pair.receive_depth:
        return QUEUE_FULL
    engine = state.engine[0]
    slot = np.int64(engine.receive_free)
    if slot == NONE:
        slot = np.int64(engine.receive_touched)
        engine.receive_touched += 1
    else:
        engine.receive_free = state.receives[slot].next
    receive = state.receives[slot]
    receive.wr_id, receive.sge_count, receive.next = work.wr_id, work.sge_count, NONE
    receive.address0, receive.length0, receive.lkey0 = work.address0, work.length0, work.lkey0
    receive.address1, receive.length1, receive.lkey1 = work.address1, work.length1, work.lkey1
    if pair.receive_tail == NONE:
        pair.receive_head = slot
    else:
        state.receives[pair.receive_tail].next = slot
    pair.receive_tail = slot
    pair.receive_count += 1
    return POSTED


@hot
def take_receive(state: RoceState, pair: Records) -> Int:
    """Take the oldest receive out of a queue that has one; return its slot, to be freed later."""
    slot = np.int64(pair.receive_head)
    pair.receive_head = state.receives[slot].next
    if pair.receive_head == NONE:
        pair.receive_tail = NONE
    pair.receive_count -= 1
    return slot


@hot
def receive_is_ours(state: RoceState, pair: Records, receive: Records) -> Flag:
    """True if the keys of a receive cover its pieces, to be written."""
    if receive.sge_count > 0 and receive.length0 != 0:
        length = np.int64(receive.length0)
        if memory_at(state, pair.pd, receive.lkey0, receive.address0, length, _LOCAL_WRITE) == 0:
            return False
    if receive.sge_count > 1 and receive.length1 != 0:
        length = np.int64(receive.length1)
        if memory_at(state, pair.pd, receive.lkey1, receive.address1, length, _LOCAL_WRITE) == 0:
            return False
    return True


@hot
def room_of(receive: Records) -> Int:
    """Return how many bytes a receive has room for."""
    room = np.int64(0)
    if receive.sge_count > 0:
        room += receive.length0
    if receive.sge_count > 1:
        room += receive.length1
    return room


@hot
def free_receive(state: RoceState, slot: Int) -> None:
    """Give a receive's slot back; its content stays for now."""
    engine = state.engine[0]
    state.receives[slot].next = engine.receive_free
    engine.receive_free = slot


@hot
def end_receive(state: RoceState, pair: Records, slot: Int, status: Int) -> None:
    """Complete a receive that did not end well, and give its slot back."""
    end(state, pair, _NOTHING, state.receives[slot].wr_id, status, _RECV, 0)
    free_receive(state, slot)


@hot
def flush_responder(state: RoceState, pair: Records) -> None:
    """Complete every receive, also the one in use, with WR_FLUSH_ERR; answers due are still sent."""
    if pair.incoming == INCOMING_SEND:
        end_receive(state, pair, np.int64(pair.incoming_receive), _FLUSHED)
    pair.incoming = NONE
    forget_held(state, pair)
    while pair.receive_head != NONE:
        end_receive(state, pair, take_receive(state, pair), _FLUSHED)


@hot
def drop_receives(state: RoceState, pair: Records) -> None:
    """Forget the receives, without completions, as the transition to RESET does."""
    while pair.receive_head != NONE:
        free_receive(state, take_receive(state, pair))


@hot
def reset_responder(state: RoceState, pair: Records, psn: Int) -> None:
    """Forget everything but the receives; the peer's next packet will have `psn`."""
    if pair.incoming == INCOMING_SEND:
        free_receive(state, np.int64(pair.incoming_receive))
    clear_answers(state, pair)
    forget_held(state, pair)
    pair.expected_psn = psn
    pair.msn = pair.replay_count = pair.gap_answered = 0
    pair.incoming = NONE


# Answers


@hot
def _new_answer(state: RoceState, pair: Records, kind: Int, psn: Int, syndrome: Int) -> Int:
    engine = state.engine[0]
    slot = np.int64(engine.answer_free)
    if slot == NONE:
        slot = np.int64(engine.answer_touched)
        engine.answer_touched += 1
    else:
        engine.answer_free = state.answers[slot].next
    answer = state.answers[slot]
    answer.kind, answer.psn, answer.syndrome, answer.msn = kind, psn, syndrome, pair.msn & PSN_MASK
    answer.coalesces, answer.next = 0, NONE
    pair.answer_count += 1
    return slot


@cold
def add_first_answer(state: RoceState, pair: Records, kind: Int, psn: Int, syndrome: Int) -> None:
    """Put an answer before all that wait."""
    slot = _new_answer(state, pair, kind, psn, syndrome)
    state.answers[slot].next = pair.answer_head
    if pair.answer_tail == NONE:
        pair.answer_tail = slot
    pair.answer_head = slot


@hot
def add_answer(state: RoceState, pair: Records, kind: Int, psn: Int, syndrome: Int) -> Int:
    """Put an answer at the end of the list; return its slot."""
    slot = _new_answer(state, pair, kind, psn, syndrome)
    if pair.answer_tail == NONE:
        pair.answer_head = slot
    else:
        state.answers[pair.answer_tail].next = slot
    pair.answer_tail = slot
    if kind == ANSWER_READ:
        pair.reads_waiting += 1
    return slot


@hot
def remove_answer(state: RoceState, pair: Records, before: Int, slot: Int) -> None:
    """Take an answer out of the list; `before` is the one before it, or NONE."""
    engine, answer = state.engine[0], state.answers[slot]
    if before == NONE:
        pair.answer_head = answer.next
    else:
        state.answers[before].next = answer.next
    if pair.answer_tail == slot:
        pair.answer_tail = before
    if answer.kind == ANSWER_READ:
        pair.reads_waiting -= 1
    pair.answer_count -= 1
    answer.next = engine.answer_free
    engine.answer_free = slot


@hot
def clear_answers(state: RoceState, pair: Records) -> None:
    """Take all answers out of the list."""
    while pair.answer_head != NONE:
        remove_answer(state, pair, NONE, np.int64(pair.answer_head))


@hot
def acknowledge(state: RoceState, pair: Records, psn: Int) -> None:
    """Acknowledge all up to `psn`; an ACK that waits at the end is brought up to date."""
    if pair.answer_tail != NONE:
        last = state.answers[pair.answer_tail]
        if last.coalesces != 0:
            last.psn, last.msn = psn, pair.msn & PSN_MASK
            return
    state.answers[add_answer(state, pair, ANSWER_ACK, psn, NO_CREDITS)].coalesces = 1


@cold
def acknowledge_selectively(state: RoceState, pair: Records) -> None:
    """Say what is expected, and what is kept behind it; such an answer at the end is brought up to date."""
    slot = np.int64(pair.answer_tail)
    if slot == NONE or state.answers[slot].kind != ANSWER_SELECTIVE:
        slot = add_answer(state, pair, ANSWER_SELECTIVE, np.int64(pair.expected_psn), _SEQUENCE_NAK)
    answer = state.answers[slot]
    answer.psn, answer.msn = pair.expected_psn, pair.msn & PSN_MASK
    answer.original = held_bits(state, pair)


# Results of atomics


@hot
def keep_result(state: RoceState, index: Int, psn: Int, original: Int) -> None:
    """Remember an atomic's answer; the oldest of more than MAX_RD_ATOMIC is forgotten."""
    pair = state.queue_pairs[index]
    replay = state.replays[index * MAX_RD_ATOMIC + pair.replay_count % MAX_RD_ATOMIC]
    replay.psn, replay.original, replay.msn = psn, original, pair.msn & PSN_MASK
    pair.replay_count += 1


@hot
def find_result(state: RoceState, index: Int, psn: Int) -> Int:
    """Return the place of the answer to the atomic at `psn`, or NONE."""
    kept = min(np.int64(state.queue_pairs[index].replay_count), MAX_RD_ATOMIC)
    for place in range(index * MAX_RD_ATOMIC, index * MAX_RD_ATOMIC + kept):
        if state.replays[place].psn == psn:
            return place
    return NONE
