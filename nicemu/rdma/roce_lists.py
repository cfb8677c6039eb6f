# SPDX-License-Identifier: Apache-2.0
"""What an engine keeps in order: queue pairs that have frames to give, deadlines, ends, arrivals, drops.

None of it costs more with more queue pairs: those that have something to send stand in a list, deadlines in
a binary heap. A deadline that moves away, as every answer makes it, leaves its entry where it is; what stands
first is set right when it is looked at.
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Flag, Int, Records, cold, hot
from nicemu.pcie import copy_memory
from nicemu.wire import TEMPLATE_BYTES, load_u8

from .memory_region import check_region, raw_address
from .roce_state import (
    ARRIVED_LIMIT,
    HANDLE_BYTES,
    HAS_CONGESTION_CONTROL,
    NONE,
    NUMBERS_OF_PAGE,
    TIMER_KEY,
    TIMER_PAIR,
    RoceState,
)

_ONE = np.uint64(1)


@hot
def find_pair(state: RoceState, number: Int) -> Int:
    """Return the index of a queue pair by its 24-bit number, or NONE."""
    page = np.int64(state.number_pages[number // NUMBERS_OF_PAGE])
    if page == NONE:
        return NONE
    return np.int64(state.numbers[page, number % NUMBERS_OF_PAGE])


@hot
def activate(state: RoceState, index: Int) -> None:
    """Let a queue pair have its turn, after those that wait for theirs already."""
    pair, engine = state.queue_pairs[index], state.engine[0]
    if pair.active != 0:
        return
    pair.active = 1
    pair.active_next = NONE
    pair.active_prev = engine.active_tail
    if engine.active_tail == NONE:
        engine.active_head = index
        engine.burst_left = 0
    else:
        state.queue_pairs[engine.active_tail].active_next = index
    engine.active_tail = index


@hot
def deactivate(state: RoceState, index: Int) -> None:
    """Take a queue pair out of the list of those that wait for their turn."""
    pair, engine = state.queue_pairs[index], state.engine[0]
    if pair.active == 0:
        return
    pair.active = 0
    if pair.active_prev == NONE:
        engine.active_head = pair.active_next
        engine.burst_left = 0
    else:
        state.queue_pairs[pair.active_prev].active_next = pair.active_next
    if pair.active_next == NONE:
        engine.active_tail = pair.active_prev
    else:
        state.queue_pairs[pair.active_next].active_prev = pair.active_prev


# Deadlines


@hot
def _deadline_of(state: RoceState, pair: Records) -> Int:
    deadline_ns = np.int64(pair.deadline_ns if pair.wait_until_ns == NONE else pair.wait_until_ns)
    if pair.features & HAS_CONGESTION_CONTROL == 0:
        return deadline_ns
    paced_ns = np.int64(state.extras[pair.extra].paced_until_ns)
    return paced_ns if paced_ns != NONE and (deadline_ns == NONE or paced_ns < deadline_ns) else deadline_ns


@hot
def _put_timer(state: RoceState, place: Int, key: Int, index: Int) -> None:
    state.timers[place, TIMER_KEY] = key
    state.timers[place, TIMER_PAIR] = index
    state.queue_pairs[index].timer_place = place


@hot
def _sift_up(state: RoceState, place: Int, key: Int, index: Int) -> None:
    while place > 0:
        parent = (place - 1) // 2
        if state.timers[parent, TIMER_KEY] <= key:
            break
        _put_timer(state, place, state.timers[parent, TIMER_KEY], np.int64(state.timers[parent, TIMER_PAIR]))
        place = parent
    _put_timer(state, place, key, index)


@hot
def _sift_down(state: RoceState, place: Int, key: Int, index: Int) -> None:
    count = state.engine[0].timer_count
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and state.timers[child + 1, TIMER_KEY] < state.timers[child, TIMER_KEY]:
            child += 1
        if key <= state.timers[child, TIMER_KEY]:
            break
        _put_timer(state, place, state.timers[child, TIMER_KEY], np.int64(state.timers[child, TIMER_PAIR]))
        place = child
    _put_timer(state, place, key, index)


@cold
def _expect_earlier(state: RoceState, index: Int, deadline_ns: Int) -> None:
    pair, engine = state.queue_pairs[index], state.engine[0]
    place = np.int64(pair.timer_place)
    if place == NONE:
        place = np.int64(engine.timer_count)
        engine.timer_count += 1
    _sift_up(state, place, deadline_ns, index)


@hot
def expect(state: RoceState, index: Int, deadline_ns: Int) -> None:
    """Have the timer look at a queue pair at `deadline_ns`, or earlier."""
    place = np.int64(state.queue_pairs[index].timer_place)
    if place == NONE or deadline_ns < state.timers[place, TIMER_KEY]:
        _expect_earlier(state, index, deadline_ns)


@hot
def forget_first(state: RoceState) -> None:
    """Take the first entry out of the heap."""
    engine = state.engine[0]
    state.queue_pairs[state.timers[0, TIMER_PAIR]].timer_place = NONE
    engine.timer_count -= 1
    last = np.int64(engine.timer_count)
    if last > 0:
        _sift_down(state, 0, state.timers[last, TIMER_KEY], np.int64(state.timers[last, TIMER_PAIR]))


@hot
def first_deadline(state: RoceState) -> Int:
    """Return the earliest deadline, or NONE; its queue pair stands first in the heap then."""
    engine = state.engine[0]
    while engine.timer_count > 0:
        index = np.int64(state.timers[0, TIMER_PAIR])
        deadline_ns = _deadline_of(state, state.queue_pairs[index])
        if deadline_ns == NONE:
            forget_first(state)
        elif deadline_ns > state.timers[0, TIMER_KEY]:
            _sift_down(state, 0, deadline_ns, index)
        else:
            return deadline_ns
    return NONE


# Address handles


@hot
def handle_place(state: RoceState, number: Int) -> Int:
    """Return the raw address of an address handle's template, or 0 if there is no such handle."""
    engine = state.engine[0]
    if np.uint64(number) >= np.uint64(engine.handle_count):
        return 0
    place = np.int64(engine.handles) + np.int64(number) * HANDLE_BYTES
    return place if load_u8(place + TEMPLATE_BYTES) != 0 else 0


@hot
def is_handle(state: RoceState, number: Int) -> Flag:
    """True if there is such an address handle."""
    return handle_place(state, number) != 0


# What the rest of the NIC hears


@hot
def drop(state: RoceState, reason: Int) -> None:
    """Count something that was not accepted from the wire."""
    state.drops[reason] += 1


@hot
def end(
    state: RoceState, pair: Records, context: Int, wr_id: Int, status: Int, opcode: Int, byte_len: Int
) -> None:
    """Report the end of posted work; there is room, see `ended_limit`."""
    engine = state.engine[0]
    entry = state.ended[engine.ended_count]
    entry.context, entry.wr_id, entry.byte_len = context, wr_id, byte_len
    entry.number, entry.status, entry.opcode = pair.number, status, opcode
    engine.ended_count += 1


@hot
def arrive(
    state: RoceState,
    pair: Records,
    kind: Int,
    byte_len: Int,
    imm_data: Int,
    has_imm: Int,
    rkey: Int,
    wr_id: Int,
) -> None:
    """Report a message that is complete here; there is room, see `has_room`."""
    engine = state.engine[0]
    entry = state.arrived[engine.arrived_count]
    entry.byte_len, entry.wr_id, entry.rkey, entry.imm_data = byte_len, wr_id, rkey, imm_data
    entry.number, entry.kind, entry.has_imm = pair.number, kind, has_imm
    engine.arrived_count += 1


@hot
def has_room(state: RoceState) -> Flag:
    """True if whatever one frame brings can be reported."""
    engine = state.engine[0]
    return engine.ended_count <= engine.ended_limit and engine.arrived_count <= ARRIVED_LIMIT


# Memory


@hot
def memory_at(state: RoceState, pd: Int, key: Int, address: Int, length: Int, access: Int) -> Int:
    """Return the raw address of `length` bytes (not 0) that a key covers with these rights, or 0."""
    table = np.uint64(state.engine[0].regions)
    index = check_region(
        table, np.uint32(key), np.uint32(pd), np.uint64(address), np.uint64(length), np.uint32(access)
    )
    if index < 0:
        return 0
    return np.int64(raw_address(table, index, np.uint64(address), state.backings))


@hot
def ahead(address: Int, offset: Int) -> Int:
    """Return an address `offset` bytes on; past the last one it begins anew, and no key covers that."""
    steps, room = np.uint64(offset), ~address
    return address + steps if steps <= room else steps - room - _ONE


@hot
def scatter(
    state: RoceState, pd: Int, sges: Records, offset: Int, source: Int, length: Int, access: Int
) -> Flag:
    """Copy to the local pieces, addressed as if they were one; False if a key does not cover its part.

    `sges` is posted work or a receive, and has room from `offset` on.
    """
    for number in range(sges.sge_count):
        size = np.int64(sges.length0 if number == 0 else sges.length1)
        if offset >= size or length == 0:
            offset -= min(offset, size)
            continue
        part = min(size - offset, length)
        address = ahead(np.uint64(sges.address0 if number == 0 else sges.address1), offset)
        target = memory_at(state, pd, sges.lkey0 if number == 0 else sges.lkey1, address, part, access)
        if target == 0:
            return False
        copy_memory(target, source, part)
        source += part
        length -= part
        offset = 0
    return True
