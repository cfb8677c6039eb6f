# SPDX-License-Identifier: Apache-2.0
"""Carrying out what is due, and telling how it ended."""

from __future__ import annotations

import numpy as np

from nicemu.abi import Opcode, registers
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, hot
from nicemu.pcie import copy_memory, exchange_u64, load_u64, signal_eventfd, store_u32, store_u64
from nicemu.rdma import BUSY, KIND_DIRECT, KIND_PORT, direct_post, post_completion
from nicemu.trigger import (
    IN_FLIGHT,
    LANDED,
    NONE,
    add,
    count_end,
    next_due,
    publish,
    put_due,
    release,
    rotate_ready,
    set_values,
    take_due,
)

from .arena import FIRMWARE, RING_COUNT, STAT_NAMES, Arena
from .notes import BY_END, note_counter_work, note_end, note_entry, note_fired
from .pacing import leave, next_landed
from .receives import flush_receives, flush_tagged, post_receive, post_tagged

FAIRNESS = 64
"""Operations of one counter that fire in a row while another counter has due work."""

UP_WORK, UP_EVENT, UP_ARRIVAL, UP_TRANSMIT, UP_COMPLETION = 1, 2, 3, 4, 5
UP_RECEIVE, UP_NVME, UP_HOST_EVENT, UP_WINDOW = 6, 7, 8, 9
"""Records to the control thread: work for a Port's transport; a fired firmware event; an arrival; packets to
send; the end of work that firmware posted; a receive for a Port's transport; an NVMe command; an event that a
host process armed for the firmware; work of a window that has fired."""

HOST_EVENT = 8
"""Flag of a firmware event that a host process armed; the NIC's own."""

_STAT = {name: np.int64(number) for number, name in enumerate(STAT_NAMES)}
_FIRED, _WRITES, _WRITE_BYTES = _STAT["fired"], _STAT["writes"], _STAT["write_bytes"]
_ERRORS, _OVERRUN, _BUSY = (
    _STAT["completion.errors"],
    _STAT["completion_queue.overrun"],
    _STAT["transport.busy"],
)
_COUNTER_ADD, _COUNTER_SET = int(Opcode.COUNTER_ADD), int(Opcode.COUNTER_SET)
_FIRMWARE_EVENT, _WRITE_BACK = int(Opcode.FIRMWARE_EVENT), int(Opcode.WRITE_BACK)
_NVME_READ, _NVME_WRITE = int(Opcode.NVME_READ), int(Opcode.NVME_WRITE)
_RECV, _TAGGED_RECV = int(Opcode.RECV), int(Opcode.TAGGED_RECV)
_TAGGED_SEND = int(Opcode.TAGGED_SEND)
_OK, _FLUSHED = int(VerbsStatus.SUCCESS), int(VerbsStatus.WR_FLUSH_ERR)
_BAD_OPERATION = int(VerbsStatus.LOC_QP_OP_ERR)
READY_TO_SEND, ERROR_STATE = 3, 6
_READY_TO_SEND, _ERROR_STATE = READY_TO_SEND, ERROR_STATE
_PUBLIC_QUEUE_PAIRS = np.uint64(registers.QUEUE_PAIR_TABLE)
_QUEUE_PAIR_BYTES = np.uint64(registers.QUEUE_PAIR_BYTES)
_ARMED_BYTES = np.uint64(128)
_RING_COUNT = np.uint64(RING_COUNT)
_RECORD_BYTES, _RECORD_WORK = np.uint64(192), np.uint64(64)
_INBOX_HEAD, _INBOX_TAIL = np.uint64(registers.INBOX_HEAD), np.uint64(registers.INBOX_TAIL)
_UP_HEAD, _UP_TAIL = np.uint64(0), np.uint64(8)
_SLEEPING, _ONE_OFFSET = np.uint64(40), np.uint64(48)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@hot
def up_full(arena: Arena) -> Flag:
    """Whether the ring to the control thread has no room."""
    link = arena.link[0]
    return link.up_tail - np.uint64(load_u64(link.address + _UP_HEAD)) >= _RING_COUNT


@hot
def push_up(arena: Arena, kind: Int, a: Int, b: Int, c: Int, d: Int, slot: Int) -> None:
    """Hand a record to the control thread (there is room: the caller looked) and wake it if it sleeps."""
    link = arena.link[0]
    tail = link.up_tail
    record = arena.up[np.int64(tail % _RING_COUNT)]
    record.kind = np.uint64(kind)
    record.words[0] = a
    record.words[1] = b
    record.words[2] = c
    record.words[3] = d
    if slot != NONE:
        target = link.up_address + (tail % _RING_COUNT) * _RECORD_BYTES + _RECORD_WORK
        copy_memory(target, link.slots_address + np.uint64(slot) * _ARMED_BYTES, _ARMED_BYTES)
    store_u64(link.address + _UP_TAIL, tail + _ONE)
    if exchange_u64(link.address + _SLEEPING, _ZERO) != _ZERO:
        signal_eventfd(link.eventfd, link.address + _ONE_OFFSET)


@hot
def fail_queue_pair(arena: Arena, qp: Int) -> None:
    """Move a queue pair to the error state: what fires on it from here on completes with WR_FLUSH_ERR."""
    arena.rdma.queue_pairs[qp].state = _ERROR_STATE
    store_u32(
        arena.rdma.public[0] + _PUBLIC_QUEUE_PAIRS + np.uint64(qp) * _QUEUE_PAIR_BYTES,
        np.uint32(_ERROR_STATE),
    )
    flush_receives(arena, qp)
    flush_tagged(arena, qp)


@hot
def complete(
    arena: Arena,
    qp: Int,
    opcode: Int,
    completion: Int,
    status: Int,
    cq: Int,
    signaled: Int,
    wr_id: Int,
    byte_len: Int,
    sequence: Int,
) -> None:
    """Tell the end of an operation: completion counter, completion queue (always for an error), queue
    pair.
    """
    if status != _OK:
        arena.stats[_ERRORS] += _ONE
        if arena.rdma.queue_pairs[qp].state == _READY_TO_SEND:
            fail_queue_pair(arena, qp)
    pair = arena.rdma.queue_pairs[qp]
    if status != _OK or signaled != 0:
        if pair.owner == FIRMWARE:
            push_up(arena, UP_COMPLETION, wr_id, np.uint64(status), np.uint64(qp), byte_len, NONE)
        elif pair.cq >= 0 and not post_completion(
            arena.rdma, np.int64(pair.cq) + cq, wr_id, status, opcode, byte_len, qp, np.uint32(0), 0
        ):
            arena.stats[_OVERRUN] += _ONE
            fail_queue_pair(arena, qp)
        elif pair.cq >= 0:
            note_entry(arena, np.int64(pair.cq) + cq, BY_END, sequence)
    if completion != NONE:
        count_end(arena.trigger, completion, status != _OK, byte_len)
    note_end(arena, sequence, status, completion)


@hot
def _take(arena: Arena, slot: Int) -> None:
    """Take the slot that fires now."""
    take_due(arena.trigger)
    note_fired(arena, slot)


@hot
def _fire_receive(arena: Arena, slot: Int) -> Flag:
    record = arena.trigger.slots[slot]
    qp = np.int64(record.qp)
    pair = arena.rdma.queue_pairs[qp]
    is_port = pair.kind >= KIND_PORT
    if up_full(arena):
        return False
    opcode = np.int64(record.opcode)
    tagged = opcode == _TAGGED_RECV
    if pair.state == _ERROR_STATE or pair.state == 0 or (tagged and is_port):
        status = _FLUSHED if pair.state == _ERROR_STATE else _BAD_OPERATION
        _take(arena, slot)
        cq, wr_id, completion = np.int64(record.cq), record.wr_id, np.int64(record.completion)
        sequence = record.sequence
        release(arena.trigger, slot)
        complete(arena, qp, opcode, completion, status, cq, 1, wr_id, _ZERO, sequence)
        return True
    if tagged:
        if not post_tagged(arena, qp, record):
            return False
    elif not post_receive(arena, qp, record):
        return False
    _take(arena, slot)
    if is_port:
        push_up(arena, UP_RECEIVE, np.uint64(qp), _ZERO, _ZERO, _ZERO, slot)
    release(arena.trigger, slot)
    return True


@hot
def _fire_to_control(arena: Arena, slot: Int) -> Flag:
    """Hand a firmware event or an NVMe command to the control thread."""
    if up_full(arena):
        return False
    record = arena.trigger.slots[slot]
    _take(arena, slot)
    trigger, completion = np.uint64(record.trigger), np.int64(record.completion)
    if record.opcode != _FIRMWARE_EVENT:
        if completion != NONE:
            arena.trigger.counters[completion].in_flight += np.uint32(1)
        push_up(arena, UP_NVME, trigger, np.uint64(record.owner), _ZERO, _ZERO, slot)
    elif record.options & HOST_EVENT:
        owner = np.uint64(record.owner)
        push_up(arena, UP_HOST_EVENT, record.wr_id, trigger, record.remote_address, owner, NONE)
    else:
        push_up(arena, UP_EVENT, record.wr_id, trigger, _ZERO, _ZERO, NONE)
    release(arena.trigger, slot)
    return True


@hot
def _carry_out(arena: Arena, slot: Int) -> Flag:
    """Carry out a due slot, if that can be done now."""
    record = arena.trigger.slots[slot]
    opcode = record.opcode
    if opcode == _COUNTER_ADD or opcode == _COUNTER_SET:
        take_due(arena.trigger)
        target = np.int64(record.rkey)
        operand = record.remote_address
        release(arena.trigger, slot)
        if opcode == _COUNTER_ADD:
            add(arena.trigger, target, operand, _ZERO)
        else:
            set_values(arena.trigger, target, operand, _ZERO, 1)
        note_counter_work(arena, slot, target)
        return True
    if opcode == _FIRMWARE_EVENT or opcode == _NVME_READ or opcode == _NVME_WRITE:
        return _fire_to_control(arena, slot)
    if opcode == _WRITE_BACK:
        _take(arena, slot)
        counter = np.int64(record.trigger)
        release(arena.trigger, slot)
        publish(arena.trigger, counter)
        return True
    if opcode == _RECV or opcode == _TAGGED_RECV:
        return _fire_receive(arena, slot)
    qp = np.int64(record.qp)
    pair = arena.rdma.queue_pairs[qp]
    completion = np.int64(record.completion)
    length = _ZERO
    if record.sge_count > 0:
        length += np.uint64(record.sge0_length)
    if record.sge_count > 1:
        length += np.uint64(record.sge1_length)
    if pair.state == _READY_TO_SEND and pair.kind >= KIND_PORT and opcode != _TAGGED_SEND:
        if up_full(arena):
            return False
        _take(arena, slot)
        if completion != NONE:
            arena.trigger.counters[completion].in_flight += np.uint32(1)
        push_up(arena, UP_WORK, np.uint64(qp), length, _ZERO, _ZERO, slot)
        release(arena.trigger, slot)
        return True
    if pair.owner == FIRMWARE and up_full(arena):
        return False
    landed = record.state == LANDED
    if pair.state == _READY_TO_SEND and pair.kind == KIND_DIRECT:
        if arena.pacing.pace[0].on != 0 and not landed:
            _take(arena, slot)
            if completion != NONE:
                arena.trigger.counters[completion].in_flight += np.uint32(1)
            leave(arena.pacing, slot, qp, np.int64(pair.peer), np.int64(opcode), length)
            return True
        outbox = arena.rdma.peers[pair.peer].outbox
        status = direct_post(arena.rdma, qp, record)
        if landed and outbox != _ZERO and load_u64(outbox + _INBOX_TAIL) != load_u64(outbox + _INBOX_HEAD):
            arena.pacing.pace[0].told_peer = 1
        if status == BUSY:
            arena.stats[_BUSY] += _ONE
            return False
        if status == _OK:
            arena.stats[_WRITES] += _ONE
            arena.stats[_WRITE_BYTES] += length
    else:
        status = _FLUSHED if pair.state == _ERROR_STATE else _BAD_OPERATION
    if landed:
        take_due(arena.trigger)
        if completion != NONE:
            arena.trigger.counters[completion].in_flight -= np.uint32(1)
    else:
        _take(arena, slot)
    cq, signaled, wr_id = np.int64(record.cq), np.int64(record.options) & 1, record.wr_id
    sequence = record.sequence
    release(arena.trigger, slot)
    complete(arena, qp, opcode, completion, status, cq, signaled, wr_id, length, sequence)
    return True


@hot
def _fire(arena: Arena) -> Flag:
    """Carry out the slot that is next; False: it cannot be carried out now and stays where it is."""
    slot = next_due(arena.trigger)
    window = np.uint64(arena.trigger.slots[slot].window)
    if window == _ZERO:
        return _carry_out(arena, slot)
    link = arena.link[0]
    if link.up_tail + np.uint64(2) - np.uint64(load_u64(link.address + _UP_HEAD)) > _RING_COUNT:
        return False
    if not _carry_out(arena, slot):
        return False
    if arena.trigger.slots[slot].state != IN_FLIGHT:  # what is on its way has its slot until it has landed
        push_up(arena, UP_WINDOW, window, _ZERO, _ZERO, _ZERO, NONE)
    return True


@hot
def land(arena: Arena) -> Int:
    """Make due once more what has come through by now, to be carried out; return how much."""
    landed = 0
    while True:
        slot: Int = next_landed(arena.pacing)
        if slot == NONE:
            return landed
        put_due(arena.trigger, slot, True)
        arena.stats[_FIRED] -= _ONE  # it counts once more when it is carried out
        landed += 1


@hot
def fire_due(arena: Arena, budget: Int) -> Int:
    """Fire at most `budget` due operations; return how many fired."""
    fired = 0
    in_a_row = 0
    stalled = 0
    while fired < budget and next_due(arena.trigger) != NONE:
        counter = arena.trigger.unit[0].ready_head
        if _fire(arena):
            fired += 1
            stalled = 0
            in_a_row += 1
            if arena.trigger.unit[0].ready_head != counter:
                in_a_row = 0
            elif in_a_row >= FAIRNESS:
                rotate_ready(arena.trigger)
                in_a_row = 0
        else:
            stalled += 1
            in_a_row = 0
            arena.trigger.unit[0].stalls += _ONE
            if stalled >= arena.trigger.unit[0].ready_count:
                break
            rotate_ready(arena.trigger)
    arena.stats[_FIRED] += np.uint64(fired)
    return fired
