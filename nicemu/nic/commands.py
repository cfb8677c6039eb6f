# SPDX-License-Identifier: Apache-2.0
"""Commands of an owner: taken from its ring, checked, carried out, answered."""

from __future__ import annotations

import numpy as np

from nicemu.abi import POSTED, Access, CommandCode, CommandStatus, Opcode, registers
from nicemu.hot import Flag, Int, hot
from nicemu.pcie import copy_memory, load_u64, store_u32, store_u64
from nicemu.rdma import KIND_PORT, check_region, raw_address
from nicemu.trigger import (
    NONE,
    add,
    arm,
    cancel,
    cancel_counter,
    check_armed,
    flush,
    put_slot,
    room_for,
    set_values,
    take_slot,
)

from .arena import STAT_NAMES, Arena
from .firing import FAIRNESS, HOST_EVENT, UP_RECEIVE, push_up, up_full
from .notes import BY_COMMAND, note_count
from .receives import post_receive

_STAT = {name: np.int64(number) for number, name in enumerate(STAT_NAMES)}
_COMMANDS, _REFUSED = _STAT["commands"], _STAT["command.refused"]
_COUNTER_ADD, _FIRMWARE_EVENT = int(Opcode.COUNTER_ADD), int(Opcode.FIRMWARE_EVENT)
_NVME_READ, _NVME_WRITE, _RECV = int(Opcode.NVME_READ), int(Opcode.NVME_WRITE), int(Opcode.RECV)
_POSTED, _HOST_EVENT = np.uint8(POSTED), np.uint8(HOST_EVENT)
_OWNERS_OPTIONS = np.uint8(~(POSTED | HOST_EVENT) & 0xFF)
_LOCAL_WRITE = np.uint32(Access.LOCAL_WRITE)
_REGIONS = np.uint64(registers.REGION_TABLE)
_STAGING_COUNT = np.uint64(registers.STAGING_COUNT)
_STAGING, _ARMED_BYTES = np.uint64(registers.STAGING), np.uint64(128)
_SEQUENCE_OFFSET, _SLOT_OFFSET = np.uint64(72), np.uint64(100)
_COMMAND_RING, _COMMAND_COUNT = np.uint64(registers.COMMANDS), np.uint64(registers.COMMAND_COUNT)
_RESPONSE_RING, _RESPONSE_COUNT = np.uint64(registers.RESPONSES), np.uint64(registers.RESPONSE_COUNT)
_HOST_RESPONSES = np.uint64(registers.HOST_WORDS + registers.WORD_RESPONSES * registers.WORD_STRIDE)
_NIC_COMMANDS = np.uint64(registers.NIC_WORDS + registers.WORD_COMMANDS * registers.WORD_STRIDE)
_ENTRY = np.uint64(64)
_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)

_CODE_ADD, _CODE_SET = int(CommandCode.COUNTER_ADD), int(CommandCode.COUNTER_SET)
_CODE_ARM, _CODE_POST = int(CommandCode.ARM), int(CommandCode.POST)
_CODE_CANCEL, _CODE_CANCEL_COUNTER = int(CommandCode.CANCEL), int(CommandCode.CANCEL_COUNTER)
_CODE_FLUSH, _CODE_POST_RECEIVE = int(CommandCode.FLUSH), int(CommandCode.POST_RECEIVE)
_CODE_ARM_PROGRAM, _AGAIN = int(CommandCode.ARM_PROGRAM), int(CommandStatus.AGAIN)
_INVALID, _NO_SPACE = int(CommandStatus.INVALID), int(CommandStatus.NO_SPACE)
_PERMISSION, _NOT_SUPPORTED = int(CommandStatus.PERMISSION), int(CommandStatus.NOT_SUPPORTED)


@hot
def _check_record(arena: Arena, owner: Int, slot: Int, post: Flag, window: Int) -> Int:
    """Make a copied record the owner's, and return why it cannot be armed, or 0."""
    record = arena.trigger.slots[slot]
    record.owner = owner
    record.window = window
    record.options &= _OWNERS_OPTIONS
    nvme = record.opcode == _NVME_READ or record.opcode == _NVME_WRITE
    if record.opcode < _COUNTER_ADD:
        qp = np.int64(record.qp)
        if qp <= 0 or qp >= len(arena.rdma.queue_pairs):
            return _INVALID
        if arena.rdma.queue_pairs[qp].owner != owner:
            return _PERMISSION
        if post:
            record.trigger = arena.queue_counters[qp]
            record.threshold = _ZERO
            record.options |= _POSTED
    elif post:
        return _NOT_SUPPORTED
    elif record.opcode == _FIRMWARE_EVENT:
        record.options |= _HOST_EVENT
    elif nvme and not arena.link[0].has_storage:
        return _NOT_SUPPORTED
    if record.cq >= registers.QUEUE_COUNT:
        return _INVALID
    return check_armed(arena.trigger, slot)


@hot
def arm_records(arena: Arena, owner: Int, base: Int, count: Int, post: Flag, window: Int) -> Int:
    """Arm (or post) `count` records at raw address `base`, all or nothing; return a CommandStatus.

    They are copied before they are checked, and sequence and slot of each are stored into it when all are
    armed.
    """
    if not room_for(arena.trigger, owner, np.int64(count), post):
        return _NO_SPACE
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
        arena.trigger.slots[slot].child = taken
        taken = slot
        status = _check_record(arena, owner, slot, post, window)
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
    staged = base
    while ordered != NONE:
        slot = np.int64(ordered)
        ordered = np.int64(arena.trigger.slots[slot].child)
        arm(arena.trigger, slot)
        store_u64(staged + _SEQUENCE_OFFSET, arena.trigger.slots[slot].sequence)
        store_u32(staged + _SLOT_OFFSET, np.uint32(slot))
        staged += _ARMED_BYTES
    return 0


@hot
def check_records(arena: Arena, owner: Int, base: Int, count: Int) -> Int:
    """Return why `count` records at raw address `base` could not be armed, each for itself, or 0."""
    slot = take_slot(arena.trigger)
    if slot == NONE:
        return _NO_SPACE
    status: Int = 0
    for position in range(np.int64(count)):
        copy_memory(
            arena.link[0].slots_address + np.uint64(slot) * _ARMED_BYTES,
            base + np.uint64(position) * _ARMED_BYTES,
            _ARMED_BYTES,
        )
        status = _check_record(arena, owner, slot, False, np.uint32(0))
        if status != 0:
            break
    put_slot(arena.trigger, slot)
    return status


@hot
def _staged(arena: Arena, owner: Int, first: Int, count: Int) -> Int:
    """Return the raw address of `count` records of the owner's staging area; 0 if they lie outside it."""
    if count == _ZERO or count > _STAGING_COUNT or first > _STAGING_COUNT - count:
        return _ZERO
    return arena.owners[owner].bar + _STAGING + first * _ARMED_BYTES


@hot
def _program_at(arena: Arena, owner: Int, address: Int, count: Int, key: Int) -> Int:
    """Return the raw address of `count` records in registered memory of the owner; 0 if it is not theirs."""
    if count == _ZERO or count > np.uint64(arena.trigger.unit[0].slot_count):
        return _ZERO
    table = arena.rdma.public[0] + _REGIONS
    pd, length = np.uint32(arena.owners[owner].pd), count * _ARMED_BYTES
    index = check_region(table, np.uint32(key), pd, address, length, _LOCAL_WRITE)
    if index < 0:
        return _ZERO
    return raw_address(table, index, address, arena.rdma.backings)


@hot
def _post_receives(arena: Arena, owner: Int, base: Int, count: Int) -> Int:
    """Post `count` receives at raw address `base` to their queue pairs' receive queues, in order, until one
    is refused.
    """
    for position in range(np.int64(count)):
        slot = take_slot(arena.trigger)
        if slot == NONE:
            return _NO_SPACE
        copy_memory(
            arena.link[0].slots_address + np.uint64(slot) * _ARMED_BYTES,
            base + np.uint64(position) * _ARMED_BYTES,
            _ARMED_BYTES,
        )
        record = arena.trigger.slots[slot]
        record.completion = NONE
        status = _check_record(arena, owner, slot, True, np.uint32(0))
        record.options |= np.uint8(1)
        if status == 0 and record.opcode != _RECV:
            status = _INVALID
        if status == 0 and arena.rdma.queue_pairs[np.int64(record.qp)].kind >= KIND_PORT:
            if up_full(arena):
                status = _AGAIN
            elif post_receive(arena, np.int64(record.qp), record):
                push_up(arena, UP_RECEIVE, np.uint64(record.qp), _ZERO, _ZERO, _ZERO, slot)
            else:
                status = _NO_SPACE
        elif status == 0 and not post_receive(arena, np.int64(record.qp), record):
            status = _NO_SPACE
        put_slot(arena.trigger, slot)
        if status != 0:
            return status
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
            if status == 0:
                note_count(arena, np.int64(a), BY_COMMAND, owner, state.commands, np.uint64(code))
        elif code == _CODE_ARM or code == _CODE_POST:
            base = _staged(arena, owner, a, b)
            status = _INVALID
            if base != _ZERO:
                status = arm_records(arena, owner, base, b, code == _CODE_POST, np.uint32(0))
        elif code == _CODE_ARM_PROGRAM:
            base = _program_at(arena, owner, a, b, c)
            status = _PERMISSION
            if base != _ZERO:
                status = arm_records(arena, owner, base, b, False, np.uint32(0))
        elif code == _CODE_CANCEL:
            if unit.single_cancel == 0:
                status = _NOT_SUPPORTED
            elif a >= np.uint64(unit.touched):
                status = _INVALID
            elif arena.trigger.slots[np.int64(a)].owner == owner and cancel(arena.trigger, np.int64(a), b):
                value = _ONE  # else it has fired, and the slot may be somebody else's by now
        elif code == _CODE_CANCEL_COUNTER:
            if not _owns(arena, owner, a):
                status = _INVALID
            elif unit.domain_flush != 0:
                value = np.uint64(flush(arena.trigger, owner))
            else:
                value = np.uint64(cancel_counter(arena.trigger, np.int64(a)))
        elif code == _CODE_FLUSH:
            value = np.uint64(flush(arena.trigger, owner))
        elif code == _CODE_POST_RECEIVE:
            base = _staged(arena, owner, a, b)
            status = _post_receives(arena, owner, base, b) if base != _ZERO else _INVALID
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
