# SPDX-License-Identifier: Apache-2.0
"""Receives of one NIC: posting them, plain and tagged, ending them when a message has landed, flushing them.

Plain receives of a queue pair are consumed in order, from a ring; tagged ones in any order, from a table that
the peer searches. What the end of a receive concerns (a counter, a completion) the NIC notes for itself.
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import Opcode, registers
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, Records, hot
from nicemu.pcie import compare_swap_u64, load_u64, store_u64
from nicemu.rdma import KIND_DIRECT, TAGGED_FREE, TAGGED_POSTED, post_completion
from nicemu.trigger import NONE, count_end

from .arena import STAT_NAMES, Arena
from .notes import BY_ARRIVAL, BY_FLUSH, note_count, note_entry

_OVERRUN = np.int64(STAT_NAMES.index("completion_queue.overrun"))
_RECV, _TAGGED_RECV = int(Opcode.RECV), int(Opcode.TAGGED_RECV)
_OK, _FLUSHED = int(VerbsStatus.SUCCESS), int(VerbsStatus.WR_FLUSH_ERR)
_QUEUE_PAIRS, _QUEUE_PAIR_BYTES = np.uint64(registers.QUEUE_PAIR_TABLE), np.uint64(registers.QUEUE_PAIR_BYTES)
_RECEIVE_QUEUES, _RECEIVE_BYTES = np.uint64(registers.RECEIVE_QUEUES), np.uint64(registers.RECEIVE_BYTES)
_RECEIVE_COUNT = np.uint64(registers.RECEIVE_QUEUE_COUNT)
_RECEIVE_TAIL = np.uint64(16)
_TAGGED, _TAGGED_BYTES = np.uint64(registers.TAGGED_RECEIVES), np.uint64(registers.TAGGED_RECEIVE_BYTES)
_TAGGED_COUNT = registers.TAGGED_RECEIVE_COUNT
_TAGGED_STATE = np.uint64(56)
_FREE, _POSTED = np.uint64(TAGGED_FREE), np.uint64(TAGGED_POSTED)
_ZERO, _ONE, _SHIFT = np.uint64(0), np.uint64(1), np.uint64(32)


@hot
def _note(arena: Arena, note: Records, record: Records) -> None:
    """Remember what the end of a receive concerns."""
    note.completion = record.completion
    note.wr_id = record.wr_id
    note.cq = record.cq
    note.signaled = record.options & 1
    if record.completion != NONE:
        arena.trigger.counters[record.completion].in_flight += np.uint32(1)


@hot
def _end(
    arena: Arena, qp: Int, note: Records, opcode: Int, status: Int, byte_len: Int, imm: Int, has_imm: Int
) -> Flag:
    """Tell the end of a receive: completion queue (always for an error), then counter. False: overrun."""
    pair = arena.rdma.queue_pairs[qp]
    room = True
    if pair.cq >= 0 and (note.signaled != 0 or status != _OK):
        cq = np.int64(pair.cq) + np.int64(note.cq)
        room = post_completion(arena.rdma, cq, note.wr_id, status, opcode, byte_len, qp, imm, has_imm)
        if not room:
            arena.stats[_OVERRUN] += _ONE
        else:
            note_entry(arena, cq, BY_ARRIVAL if status == _OK else BY_FLUSH, 0)
    counter = np.int64(note.completion)
    if counter != NONE and arena.trigger.counters[counter].in_flight > 0:
        arena.trigger.counters[counter].in_flight -= np.uint32(1)
        count_end(arena.trigger, counter, status != _OK, byte_len)
        note_count(arena, counter, BY_ARRIVAL if status == _OK else BY_FLUSH, 0, 0, _ZERO)
    return room


@hot
def _entry(arena: Arena, qp: Int) -> Int:
    return arena.rdma.public[0] + _QUEUE_PAIRS + np.uint64(qp) * _QUEUE_PAIR_BYTES


@hot
def post_receive(arena: Arena, qp: Int, record: Records) -> Flag:
    """Put a receive into its queue pair's receive queue; False if that is full."""
    entry = _entry(arena, qp)
    tail = np.uint64(load_u64(entry + _RECEIVE_TAIL))
    if tail - arena.received[qp] >= _RECEIVE_COUNT:
        return False
    place = tail % _RECEIVE_COUNT
    _note(arena, arena.receives[qp, np.int64(place)], record)
    if arena.rdma.queue_pairs[qp].kind == KIND_DIRECT:
        receive = arena.rdma.public[0] + _RECEIVE_QUEUES
        receive += (np.uint64(qp) * _RECEIVE_COUNT + place) * _RECEIVE_BYTES
        length = np.uint64(record.sge0_length) if record.sge_count > 0 else _ZERO
        store_u64(receive, record.sge0_address)
        store_u64(receive + np.uint64(8), length | (np.uint64(record.sge0_lkey) << _SHIFT))
        store_u64(receive + np.uint64(16), record.wr_id)
        store_u64(receive + np.uint64(24), tail + _ONE)
    store_u64(entry + _RECEIVE_TAIL, tail + _ONE)
    return True


@hot
def end_receive(arena: Arena, qp: Int, byte_len: Int, imm_data: Int, has_imm: Int) -> Flag:
    """The oldest receive of a queue pair has its message. False: its completion queue has overrun."""
    if arena.received[qp] == np.uint64(load_u64(_entry(arena, qp) + _RECEIVE_TAIL)):
        return True  # it was flushed in between
    note = arena.receives[qp, np.int64(arena.received[qp] % _RECEIVE_COUNT)]
    arena.received[qp] += _ONE
    return _end(arena, qp, note, _RECV, _OK, byte_len, imm_data, has_imm)


@hot
def flush_receives(arena: Arena, qp: Int) -> None:
    """End every receive that is still posted with WR_FLUSH_ERR."""
    tail = np.uint64(load_u64(_entry(arena, qp) + _RECEIVE_TAIL))
    while arena.received[qp] != tail:
        note = arena.receives[qp, np.int64(arena.received[qp] % _RECEIVE_COUNT)]
        arena.received[qp] += _ONE
        _end(arena, qp, note, _RECV, _FLUSHED, _ZERO, np.uint32(0), 0)


@hot
def _tagged(arena: Arena, qp: Int, place: Int) -> Int:
    """Return the raw address of a tagged receive in the public tables."""
    number = np.uint64(qp) * np.uint64(_TAGGED_COUNT) + np.uint64(place)
    return arena.rdma.public[0] + _TAGGED + number * _TAGGED_BYTES


@hot
def post_tagged(arena: Arena, qp: Int, record: Records) -> Flag:
    """Put a tagged receive into its queue pair's table; False if that is full."""
    for place in range(_TAGGED_COUNT):
        receive = _tagged(arena, qp, place)
        if np.uint64(load_u64(receive + _TAGGED_STATE)) != _FREE:
            continue
        _note(arena, arena.tagged[qp, place], record)
        arena.tagged_posted[qp] += _ONE
        length = np.uint64(record.sge0_length) if record.sge_count > 0 else _ZERO
        store_u64(receive, record.sge0_address)
        store_u64(receive + np.uint64(8), length | (np.uint64(record.sge0_lkey) << _SHIFT))
        store_u64(receive + np.uint64(16), record.wr_id)
        store_u64(receive + np.uint64(24), record.remote_address)
        store_u64(receive + np.uint64(32), record.sge1_address)
        store_u64(receive + np.uint64(40), arena.tagged_posted[qp])
        store_u64(receive + _TAGGED_STATE, _POSTED)
        return True
    return False


@hot
def end_tagged(arena: Arena, qp: Int, place: Int, byte_len: Int) -> Flag:
    """A tagged receive has its message. False: its completion queue has overrun."""
    if not 0 <= place < _TAGGED_COUNT:
        return True
    note = arena.tagged[qp, place]
    room = _end(arena, qp, note, _TAGGED_RECV, _OK, byte_len, np.uint32(0), 0)
    note.completion = NONE
    store_u64(_tagged(arena, qp, place) + _TAGGED_STATE, _FREE)
    return room


@hot
def flush_tagged(arena: Arena, qp: Int) -> None:
    """End every tagged receive that no message has taken with WR_FLUSH_ERR."""
    if arena.tagged_posted[qp] == _ZERO:
        return
    for place in range(_TAGGED_COUNT):
        state = _tagged(arena, qp, place) + _TAGGED_STATE
        if np.uint64(compare_swap_u64(state, _POSTED, _FREE)) == _POSTED:
            note = arena.tagged[qp, place]
            _end(arena, qp, note, _TAGGED_RECV, _FLUSHED, _ZERO, np.uint32(0), 0)
            note.completion = NONE
