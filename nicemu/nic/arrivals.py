# SPDX-License-Identifier: Apache-2.0
"""What peers did to this NIC: their records, counted, completed and handed to firmware."""

from __future__ import annotations

import numpy as np

from nicemu.abi import Opcode, registers
from nicemu.hot import Int, hot
from nicemu.pcie import load_u32, load_u64, store_u64
from nicemu.rdma import (
    ARRIVED_RECEIVE,
    ARRIVED_TAGGED,
    ARRIVED_WRITE,
    FLAG_ARRIVAL_EVENTS,
    FLAG_IMMEDIATE_COUNTS,
)
from nicemu.trigger import NONE, add, count_end

from .arena import STAT_NAMES, Arena
from .firing import FAIRNESS, UP_ARRIVAL, fail_queue_pair, push_up, up_full
from .notes import BY_ARRIVAL, note_arrival, note_count
from .receives import end_receive, end_tagged

_STAT = {name: np.int64(number) for number, name in enumerate(STAT_NAMES)}
_ARRIVALS, _ARRIVAL_BYTES = _STAT["arrivals"], _STAT["arrival_bytes"]
_BAD_IMMEDIATE = _STAT["immediate.refused"]
_WRITE_IMM, _SEND_IMM = int(Opcode.RDMA_WRITE_WITH_IMM), int(Opcode.SEND_WITH_IMM)
_ERROR_BIT, _COUNTER_BITS = np.uint32(1 << 31), np.uint32((1 << 31) - 1)
_INBOX_HEAD, _INBOX_RECORDS = np.uint64(registers.INBOX_HEAD), np.uint64(registers.INBOX_RECORDS)
_INBOX_COUNT = np.uint64(registers.INBOX_COUNT)
_ENTRY, _ZERO, _ONE = np.uint64(64), np.uint64(0), np.uint64(1)


@hot
def arrive(
    arena: Arena,
    qp: Int,
    opcode: Int,
    imm_data: Int,
    byte_len: Int,
    wr_id: Int,
    counter: Int,
    kind: Int,
) -> None:
    """Account for an operation of a peer whose bytes are visible: counters, completion queue, firmware.

    `kind`: as in an inbox record. `counter`: that of the region written to, -1 for none; of a tagged receive
    its place.
    """
    pair = arena.rdma.queue_pairs[qp]
    counters = arena.trigger.counters
    arena.stats[_ARRIVALS] += _ONE
    arena.stats[_ARRIVAL_BYTES] += byte_len
    has_imm = opcode == _WRITE_IMM or opcode == _SEND_IMM
    note_arrival(arena, qp, opcode, imm_data, byte_len, kind != ARRIVED_WRITE)
    if kind == ARRIVED_RECEIVE and not end_receive(arena, qp, byte_len, imm_data, 1 if has_imm else 0):
        fail_queue_pair(arena, qp)
    if kind == ARRIVED_TAGGED:
        if not end_tagged(arena, qp, counter, byte_len):
            fail_queue_pair(arena, qp)
        counter = -1
    consumed = kind != ARRIVED_WRITE
    if pair.options & FLAG_ARRIVAL_EVENTS and (has_imm or consumed):
        words = np.uint64(imm_data) | (np.uint64(opcode) << np.uint64(32))
        push_up(arena, UP_ARRIVAL, np.uint64(qp), words, byte_len, wr_id, NONE)
    if 0 <= counter < len(counters) and counters[counter].allocated != 0:
        count_end(arena.trigger, counter, False, byte_len)
        note_count(arena, counter, BY_ARRIVAL, 0, 0, _ZERO)
    if has_imm and pair.options & FLAG_IMMEDIATE_COUNTS:
        named = np.int64(imm_data & _COUNTER_BITS)
        if (
            named < len(counters)
            and counters[named].allocated != 0
            and counters[named].remote != 0
            and counters[named].pd == pair.pd
        ):
            if imm_data & _ERROR_BIT != np.uint32(0):
                add(arena.trigger, named, _ZERO, _ONE)
            else:
                add(arena.trigger, named, _ONE, _ZERO)
            note_count(arena, named, BY_ARRIVAL, 0, 0, _ZERO)
        else:
            arena.stats[_BAD_IMMEDIATE] += _ONE


@hot
def poll_inbox(arena: Arena, inbox: Int) -> Int:
    """Take what a peer has posted to `inbox` (raw address); return how many records."""
    head = np.uint64(load_u64(inbox + _INBOX_HEAD))
    taken = 0
    while taken < FAIRNESS and not up_full(arena):
        record = inbox + _INBOX_RECORDS + (head % _INBOX_COUNT) * _ENTRY
        if np.uint64(load_u64(record + np.uint64(56))) != head + _ONE:
            break
        kind = np.int64(load_u32(record))
        qp = np.int64(load_u32(record + np.uint64(4)))
        opcode = np.int64(load_u32(record + np.uint64(8)))
        imm_data = np.uint32(load_u32(record + np.uint64(12)))
        byte_len = np.uint64(load_u64(record + np.uint64(16)))
        wr_id = np.uint64(load_u64(record + np.uint64(24)))
        counter = np.int64(load_u32(record + np.uint64(32))) - 1
        if 0 < qp < len(arena.rdma.queue_pairs):
            arrive(arena, qp, opcode, imm_data, byte_len, wr_id, counter, kind)
        head += _ONE
        store_u64(inbox + _INBOX_HEAD, head)
        taken += 1
    return taken
