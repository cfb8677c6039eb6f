# SPDX-License-Identifier: Apache-2.0
"""The ways into a RoCEv2 engine and out of it, for many frames and much work at a time.

What cannot be taken now, because there is no room to report what it would bring, is left to the next call:
every function says how far it came.
Source: InfiniBand Architecture Specification Volume 1, "Transport Layer"; Annex A17, "RoCEv2".
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Flag, Int, Records, cold, hot
from nicemu.wire import (
    BTH_PLACE,
    CNP_OPCODE,
    IP_DESTINATION_PLACE,
    IP_PLACE,
    IP_SOURCE_PLACE,
    PARTITION_KEY_PLACE,
    QUEUE_PAIR_PLACE,
    RC_OPCODE_LIMIT,
    RcOpcode,
    check_frame,
    load_be16,
    load_be32,
    load_u8,
)

from .congestion import count_frame, must_wait, on_marked, on_notification
from .datagrams import is_datagram, make_datagram, on_datagram
from .requester import make_request, may_send
from .requester_answers import fail_at_head, on_deadline, on_response
from .responder import on_request
from .responder_answers import make_answer
from .responder_lists import post_receive
from .roce_lists import (
    activate,
    deactivate,
    drop,
    expect,
    find_pair,
    first_deadline,
    forget_first,
    has_room,
)
from .roce_state import (
    ANSWER_READ,
    DROP,
    HAS_CONGESTION_CONTROL,
    HAS_SACKS,
    IS_DATAGRAM,
    IS_LIMITED,
    NONE,
    RTR,
    SQE,
    TIMER_DUE,
    TIMER_PAIR,
    RoceState,
)
from .selective import make_missing
from .send_queue import NOT_READY, POSTED, post_work

BURST_FRAMES = 16
"""Frames that one queue pair gives before the next one has its turn."""
UNKNOWN = -2
"""What posting comes to where there is no such queue pair."""

_DESTINATION, _UNKNOWN_PAIR = DROP["ip.destination"], DROP["rocev2.unknown_qp"]
_STATE, _SOURCE = DROP["rocev2.qp_state"], DROP["rocev2.source"]
_PARTITION, _TRANSPORT = DROP["rocev2.partition_key"], DROP["rocev2.transport"]
_FULL_MEMBERS = 0x7FFF
_ECN, _CE = 3, 3
"""The low bits of the type of service, and congestion experienced among them (RFC 3168)."""
_IS_RESPONSE = np.zeros(RC_OPCODE_LIMIT, np.int64)
_IS_RESPONSE[RcOpcode.RDMA_READ_RESPONSE_FIRST : RcOpcode.ATOMIC_ACKNOWLEDGE + 1] = 1


@cold
def _goes_on(state: RoceState, index: Int, frame: Int, opcode: Int) -> Flag:
    """Take a datagram, a notification, or a mark; True if the frame is one of a connection, to go on with."""
    pair = state.queue_pairs[index]
    if pair.features & IS_DATAGRAM != 0:
        if is_datagram(opcode):
            on_datagram(state, index, frame, opcode)
        else:
            drop(state, _TRANSPORT)
        return False
    is_peer = load_be32(frame + IP_SOURCE_PLACE) == pair.peer_address
    if opcode < RC_OPCODE_LIMIT:
        if is_peer and load_u8(frame + IP_PLACE + 1) & _ECN == _CE:
            on_marked(state, index)
        return True
    if opcode != CNP_OPCODE:
        drop(state, _TRANSPORT)
    elif not is_peer:
        drop(state, _SOURCE)
    else:
        on_notification(state, index)
    return False


@hot
def _on_frame(state: RoceState, frame: Int, length: Int) -> None:
    refused = check_frame(frame, length)
    if refused != 0:
        drop(state, refused)
        return
    if load_be32(frame + IP_DESTINATION_PLACE) != state.engine[0].address:
        drop(state, _DESTINATION)
        return
    index = find_pair(state, load_be32(frame + QUEUE_PAIR_PLACE) & 0xFFFFFF)
    if index == NONE:
        drop(state, _UNKNOWN_PAIR)
        return
    pair = state.queue_pairs[index]
    opcode = load_u8(frame + BTH_PLACE)
    if pair.state < RTR or pair.state > SQE:
        drop(state, _STATE)
        return
    if load_be16(frame + PARTITION_KEY_PLACE) & _FULL_MEMBERS != _FULL_MEMBERS:
        drop(state, _PARTITION)
        return
    special = pair.features & (IS_DATAGRAM | HAS_CONGESTION_CONTROL) != 0 or opcode >= RC_OPCODE_LIMIT
    if special and not _goes_on(state, index, frame, opcode):
        return
    if load_be32(frame + IP_SOURCE_PLACE) != pair.peer_address:
        drop(state, _SOURCE)
    elif _IS_RESPONSE[opcode] == 0:
        on_request(state, index, frame, opcode)
        activate(state, index)
    elif pair.state == RTR:
        drop(state, _STATE)
    else:
        on_response(state, index, frame, opcode)
        activate(state, index)


@hot
def take_in(
    state: RoceState, memory: Int, offsets: np.ndarray, lengths: np.ndarray, first: Int, now_ns: Int
) -> Int:
    """Take whole frames, which lie at `offsets` from raw address `memory`; return the next one's number.

    offsets, lengths: int64[frames]. `first` is where an earlier call came to.
    """
    state.engine[0].now_ns = now_ns
    for number in range(first, len(offsets)):
        if not has_room(state):
            return number
        _on_frame(state, memory + offsets[number], lengths[number])
    return len(offsets)


@hot
def _ready_frame(state: RoceState, index: Int, target: Int) -> Int:
    """Make a queue pair's next frame at `target`; return its length, or 0 if there is none."""
    length = make_answer(state, index, target)
    if length != 0:
        return length
    if may_send(state, state.queue_pairs[index]):
        length = make_request(state, index, target)
        if length == 0:
            fail_at_head(state, index)
    return length


@cold
def _special_frame(state: RoceState, index: Int, target: Int) -> Int:
    """As `_ready_frame`, of datagrams; or where packets are known to be missing, or there is a rate to keep.

    Answers without data are not held back.
    """
    pair = state.queue_pairs[index]
    answers = pair.answer_head != NONE
    if answers and state.answers[pair.answer_head].kind != ANSWER_READ:
        return make_answer(state, index, target)
    if pair.features & IS_DATAGRAM != 0:
        length = make_datagram(state, index, target) if may_send(state, pair) else 0
        fail_at_head(state, index)
        return length
    if not answers and pair.features & HAS_SACKS == 0 and not may_send(state, pair):
        return 0
    if pair.features & IS_LIMITED != 0 and must_wait(state, index):
        return 0
    length = 0
    if not answers and pair.features & HAS_SACKS != 0:
        length = make_missing(state, index, target)
    if length == 0:
        length = _ready_frame(state, index, target)
    if length != 0 and pair.features & IS_LIMITED != 0:
        count_frame(state, index, length)
    return length


@hot
def _next_frame(state: RoceState, index: Int, target: Int) -> Int:
    """Make a queue pair's next frame at `target`; return its length, or 0 if there is none now."""
    if state.queue_pairs[index].features & (IS_DATAGRAM | HAS_SACKS | IS_LIMITED) != 0:
        return _special_frame(state, index, target)
    return _ready_frame(state, index, target)


@hot
def give_out(
    state: RoceState,
    memory: Int,
    room: Int,
    longest: Int,
    offsets: np.ndarray,
    lengths: np.ndarray,
    limit: Int,
) -> Int:
    """Make frames to send now, from raw address `memory` on; return how many.

    At most `limit` and len(offsets), one behind the other in `room` bytes, each of up to `longest` bytes.
    Queue pairs take turns of BURST_FRAMES; `limit` ends a turn, a lack of room interrupts it.
    """
    engine = state.engine[0]
    count, used = 0, 0
    while count < limit and engine.active_head != NONE:
        index = np.int64(engine.active_head)
        if engine.burst_left == 0:
            engine.burst_left = min(BURST_FRAMES, limit - count)
        more = True
        while engine.burst_left > 0:
            if count == len(offsets) or used + longest > room or not has_room(state):
                return count
            length = _next_frame(state, index, memory + used)
            if length == 0:
                more = False
                break
            offsets[count] = used
            lengths[count] = length
            count += 1
            used += length + -length % 64
            engine.burst_left -= 1
        deactivate(state, index)
        if more:
            activate(state, index)
    return count


@hot
def post(state: RoceState, works: Records, first: Int, now_ns: Int) -> Int:
    """Post work, POSTED records, from number `first` on, until one is refused; return its number."""
    engine = state.engine[0]
    engine.now_ns = now_ns
    for number in range(first, len(works)):
        work = works[number]
        index = find_pair(state, np.int64(work.number))
        if index == NONE or engine.ended_count > engine.ended_limit:
            return number
        result = post_work(state, state.queue_pairs[index], work)
        if result == NOT_READY:
            return number
        fail_at_head(state, index)
        activate(state, index)
        if result != POSTED:
            return number
    return len(works)


@hot
def receive(state: RoceState, works: Records, first: Int) -> Int:
    """Post receives, POSTED records, from number `first` on, until one is refused; return its number."""
    engine = state.engine[0]
    for number in range(first, len(works)):
        work = works[number]
        index = find_pair(state, np.int64(work.number))
        if index == NONE or engine.ended_count > engine.ended_limit:
            return number
        if post_receive(state, state.queue_pairs[index], work) != POSTED:
            return number
    return len(works)


@hot
def _put_by_age(state: RoceState, count: Int, index: Int) -> None:
    """Put a queue pair into the first `count` of `due`, a binary heap by age with the youngest first."""
    sequence = state.queue_pairs[index].sequence
    place = count
    while place > 0:
        parent = (place - 1) // 2
        if state.queue_pairs[state.timers[parent, TIMER_DUE]].sequence >= sequence:
            break
        state.timers[place, TIMER_DUE] = state.timers[parent, TIMER_DUE]
        place = parent
    state.timers[place, TIMER_DUE] = index


@hot
def _sort_by_age(state: RoceState, count: Int) -> None:
    """Sort the first `count` of `due`, which are a heap with the youngest first: the oldest comes first."""
    for end in range(count - 1, 0, -1):
        index = np.int64(state.timers[end, TIMER_DUE])
        state.timers[end, TIMER_DUE] = state.timers[0, TIMER_DUE]
        sequence = state.queue_pairs[index].sequence
        place = 0
        while True:
            child = 2 * place + 1
            if child >= end:
                break
            if child + 1 < end:
                other = state.queue_pairs[state.timers[child + 1, TIMER_DUE]].sequence
                if state.queue_pairs[state.timers[child, TIMER_DUE]].sequence < other:
                    child += 1
            if state.queue_pairs[state.timers[child, TIMER_DUE]].sequence <= sequence:
                break
            state.timers[place, TIMER_DUE] = state.timers[child, TIMER_DUE]
            place = child
        state.timers[place, TIMER_DUE] = index


@hot
def run_timers(state: RoceState, now_ns: Int) -> Int:
    """Let every queue pair whose deadline has passed retry, the oldest first; return how many are left.

    They are left where there is no room to report what they would bring.
    """
    engine = state.engine[0]
    engine.now_ns = now_ns
    count = 0
    while True:
        deadline_ns = first_deadline(state)
        if deadline_ns == NONE or deadline_ns > now_ns:
            break
        _put_by_age(state, count, np.int64(state.timers[0, TIMER_PAIR]))
        count += 1
        forget_first(state)
    _sort_by_age(state, count)
    left = 0
    for place in range(count):
        index = np.int64(state.timers[place, TIMER_DUE])
        if engine.ended_count > engine.ended_limit:
            expect(state, index, now_ns)
            left += 1
            continue
        on_deadline(state, index)
        activate(state, index)
    return left
