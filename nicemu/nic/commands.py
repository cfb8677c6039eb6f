# SPDX-License-Identifier: Apache-2.0
"""Commands of an owner: taken from its ring, checked, carried out, answered."""

from __future__ import annotations

import numpy as np

from nicemu.abi import CommandCode, CommandStatus, Opcode, registers
from nicemu.hot import Flag, Int, hot
from nicemu.pcie import copy_memory, load_u32, load_u64, store_u32, store_u64
from nicemu.trigger import (
    NONE,
    add,
    arm,
    cancel,
    cancel_counter,
    check_armed,
    flush,
    put_slot,
    set_values,
    take_slot,
)

from .arena import STAT_NAMES, Arena
from .firing import FAIRNESS

_STAT = {name: np.int64(number) for number, name in enumerate(STAT_NAMES)}
_COMMANDS, _REFUSED = _STAT["commands"], _STAT["command.refused"]
_COUNTER_ADD, _FIRMWARE_EVENT = int(Opcode.COUNTER_ADD), int(Opcode.FIRMWARE_EVENT)
_PUBLIC_QUEUE_PAIRS = np.uint64(registers.QUEUE_PAIR_TABLE)
_QUEUE_PAIR_BYTES = np.uint64(registers.QUEUE_PAIR_BYTES)
_STAGING_COUNT = np.uint64(registers.STAGING_COUNT)
_STAGING, _ARMED_BYTES = np.uint64(registers.STAGING), np.uint64(128)
_SEQUENCE_OFFSET, _SLOT_OFFSET = np.uint64(72), np.uint64(100)
_COMMAND_RING, _COMMAND_COUNT = np.uint64(registers.COMMANDS), np.uint64(registers.COMMAND_COUNT)
_RESPONSE_RING, _RESPONSE_COUNT = np.uint64(registers.RESPONSES), np.uint64(registers.RESPONSE_COUNT)
_HOST_RESPONSES = np.uint64(registers.HOST_WORDS + registers.WORD_RESPONSES * registers.WORD_STRIDE)
_NIC_COMMANDS = np.uint64(registers.NIC_WORDS + registers.WORD_COMMANDS * registers.WORD_STRIDE)
_RECEIVE_QUEUES, _RECEIVE_BYTES = np.uint64(registers.RECEIVE_QUEUES), np.uint64(registers.RECEIVE_BYTES)
_RECEIVE_COUNT = np.uint64(registers.RECEIVE_QUEUE_COUNT)
_QUEUE_COUNT = registers.QUEUE_COUNT
_ENTRY = np.uint64(64)
_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)

_CODE_ADD, _CODE_SET = int(CommandCode.COUNTER_ADD), int(CommandCode.COUNTER_SET)
_CODE_ARM, _CODE_POST = int(CommandCode.ARM), int(CommandCode.POST)
_CODE_CANCEL, _CODE_CANCEL_COUNTER = int(CommandCode.CANCEL), int(CommandCode.CANCEL_COUNTER)
_CODE_FLUSH, _CODE_POST_RECEIVE = int(CommandCode.FLUSH), int(CommandCode.POST_RECEIVE)
_INVALID, _NO_SPACE = int(CommandStatus.INVALID), int(CommandStatus.NO_SPACE)
_PERMISSION, _NOT_SUPPORTED = int(CommandStatus.PERMISSION), int(CommandStatus.NOT_SUPPORTED)


@hot
def _arm_records(arena: Arena, owner: Int, first: Int, count: Int, post: bool) -> Int:
    """Arm (or post) `count` records of the owner's staging area, all or nothing; return a CommandStatus."""
    if count == _ZERO or count > _STAGING_COUNT or first > _STAGING_COUNT - count:
        return _INVALID
    if np.int64(count) > arena.trigger.unit[0].free_count:
        return _NO_SPACE
    base = arena.owners[owner].bar + _STAGING + first * _ARMED_BYTES
    slots_address = arena.link[0].slots_address
    taken: Int = NONE
    status: Int = 0
    for position in range(np.int64(count)):
        slot = take_slot(arena.trigger)
        copy_memory(
            slots_address + np.uint64(slot) * _ARMED_BYTES,
            base + np.uint64(position) * _ARMED_BYTES,
            _ARMED_BYTES,
        )
        record = arena.trigger.slots[slot]
        record.child = taken
        record.owner = owner
        taken = slot
        data = record.opcode < _COUNTER_ADD
        if data:
            qp = np.int64(record.qp)
            if qp <= 0 or qp >= len(arena.rdma.queue_pairs):
                status = _INVALID
            elif arena.rdma.queue_pairs[qp].owner != owner:
                status = _PERMISSION
            elif record.cq >= registers.QUEUE_COUNT:
                status = _INVALID
            elif post:
                record.trigger = arena.queue_counters[qp]
                record.threshold = _ZERO
        elif post or record.opcode == _FIRMWARE_EVENT:
            status = _NOT_SUPPORTED  # events of the firmware are the firmware's to arm
        if status == 0:
            status = check_armed(arena.trigger, slot)
        if status != 0:
            break
    if status != 0:
        while taken != NONE:
            slot = taken
            taken = arena.trigger.slots[slot].child
            put_slot(arena.trigger, slot)
        return status
    # The chain runs from the last record to the first; turn it round, then arm in order.
    ordered: Int = NONE
    while taken != NONE:
        following = np.int64(arena.trigger.slots[taken].child)
        arena.trigger.slots[taken].child = ordered
        ordered = taken
        taken = following
    position = 0
    while ordered != NONE:
        slot = np.int64(ordered)
        ordered = np.int64(arena.trigger.slots[slot].child)
        arm(arena.trigger, slot)
        staged = base + np.uint64(position) * _ARMED_BYTES
        store_u64(staged + _SEQUENCE_OFFSET, arena.trigger.slots[slot].sequence)
        store_u32(staged + _SLOT_OFFSET, np.uint32(slot))
        position += 1
    return 0


@hot
def _post_receives(arena: Arena, owner: Int, first: Int, count: Int) -> Int:
    """Post `count` receives of the staging area to their queue pairs' receive queues."""
    if count == _ZERO or count > _STAGING_COUNT or first > _STAGING_COUNT - count:
        return _INVALID
    public = arena.rdma.public[0]
    for position in range(np.int64(count)):
        staged = arena.owners[owner].bar + _STAGING + (first + np.uint64(position)) * _ARMED_BYTES
        qp = np.int64(load_u32(staged + np.uint64(4)))
        if qp <= 0 or qp >= len(arena.rdma.queue_pairs) or arena.rdma.queue_pairs[qp].owner != owner:
            return _PERMISSION
        entry = public + _PUBLIC_QUEUE_PAIRS + np.uint64(qp) * _QUEUE_PAIR_BYTES
        tail = np.uint64(load_u64(entry + np.uint64(16)))
        if tail - np.uint64(load_u64(entry + np.uint64(24))) >= _RECEIVE_COUNT:
            return _NO_SPACE
        slot = np.uint64(qp) * _RECEIVE_COUNT + tail % _RECEIVE_COUNT
        receive = public + _RECEIVE_QUEUES + slot * _RECEIVE_BYTES
        store_u64(receive, np.uint64(load_u64(staged + np.uint64(24))))
        store_u64(receive + _EIGHT, np.uint64(load_u64(staged + np.uint64(32))))
        store_u64(receive + np.uint64(16), np.uint64(load_u64(staged + np.uint64(56))))
        store_u64(receive + np.uint64(24), tail + _ONE)
        store_u64(entry + np.uint64(16), tail + _ONE)
    return 0


@hot
def _owns(arena: Arena, owner: Int, counter: Int) -> Flag:
    if counter >= np.uint64(len(arena.trigger.counters)):
        return False
    record = arena.trigger.counters[np.int64(counter)]
    return record.allocated != 0 and record.owner == owner


@hot
def poll_commands(arena: Arena, owner: Int) -> Int:
    """Carry out commands of an owner, a bounded number of them; return how many."""
    state = arena.owners[owner]
    unit = arena.trigger.unit[0]
    done = 0
    while done < FAIRNESS:
        entry = state.bar + _COMMAND_RING + (state.commands % _COMMAND_COUNT) * _ENTRY
        if np.uint64(load_u64(entry + np.uint64(56))) != state.commands + _ONE:
            break
        if state.responses - np.uint64(load_u64(state.bar + _HOST_RESPONSES)) >= _RESPONSE_COUNT:
            break
        head = np.uint64(load_u64(entry))
        code = np.int64(head & np.uint64(0xFFFF))
        tag = np.uint32(head >> np.uint64(32))
        a = np.uint64(load_u64(entry + np.uint64(8)))
        b = np.uint64(load_u64(entry + np.uint64(16)))
        c = np.uint64(load_u64(entry + np.uint64(24)))
        which = np.uint64(load_u64(entry + np.uint64(32)))
        state.commands += _ONE
        store_u64(state.bar + _NIC_COMMANDS, state.commands)
        status = 0
        value = _ZERO
        if code == _CODE_ADD or code == _CODE_SET:
            if not _owns(arena, owner, a) or b > unit.max_success or c > unit.max_errors:
                status = _INVALID
            elif code == _CODE_ADD:
                add(arena.trigger, np.int64(a), b, c)
            else:
                set_values(arena.trigger, np.int64(a), b, c, np.int64(which))
        elif code == _CODE_ARM or code == _CODE_POST:
            status = _arm_records(arena, owner, a, b, code == _CODE_POST)
        elif code == _CODE_CANCEL:
            if a >= np.uint64(unit.slot_count):
                status = _INVALID
            elif arena.trigger.slots[np.int64(a)].owner == owner and cancel(arena.trigger, np.int64(a), b):
                value = _ONE  # else it has fired, and the slot may be somebody else's by now
        elif code == _CODE_CANCEL_COUNTER:
            if not _owns(arena, owner, a):
                status = _INVALID
            else:
                value = np.uint64(cancel_counter(arena.trigger, np.int64(a)))
        elif code == _CODE_FLUSH:
            value = np.uint64(flush(arena.trigger, owner))
        elif code == _CODE_POST_RECEIVE:
            status = _post_receives(arena, owner, a, b)
        else:
            status = _NOT_SUPPORTED
        if status != 0:
            arena.stats[_REFUSED] += _ONE
        response = state.bar + _RESPONSE_RING + (state.responses % _RESPONSE_COUNT) * _ENTRY
        store_u32(response, tag)
        store_u32(response + np.uint64(4), np.uint32(status))
        store_u64(response + _EIGHT, value)
        state.responses += _ONE
        store_u64(response + np.uint64(56), state.responses)
        arena.stats[_COMMANDS] += _ONE
        done += 1
    return done
