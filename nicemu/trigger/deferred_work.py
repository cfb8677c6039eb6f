# SPDX-License-Identifier: Apache-2.0
"""Slots of armed work in threshold order, and the list of what is due.

Waiting work of a counter is a pairing heap ordered by (threshold, arming sequence), linked through the slots,
so that arming and a count that fires nothing cost the same with one slot armed or with a million. A count
that reaches thresholds moves the slots to the counter's due list, in order; the lists are served a batch of
slots at a time, counter by counter. Nothing recurses: a counter operation that fires only makes other work
due.
Source: fi_trigger(3), DEFERRED WORK QUEUES and FI_TRIGGER_THRESHOLD; fi_cntr(3).
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import POSTED, CommandStatus, FiringOrder, Opcode
from nicemu.hot import Flag, Int, hot

from .order import drawn, insert, merge_children, sort_by_key, unlink
from .state import DUE, FREE, IN_FLIGHT, LANDED, NONE, U64_MAX, WAITING, TriggerState

_COUNTER_ADD = int(Opcode.COUNTER_ADD)
_COUNTER_SET = int(Opcode.COUNTER_SET)
_DATA_FIRST, _DATA_LAST = int(Opcode.RDMA_WRITE), int(Opcode.TAGGED_RECV)
_FIRMWARE_EVENT, _WRITE_BACK = int(Opcode.FIRMWARE_EVENT), int(Opcode.WRITE_BACK)
_NVME_READ, _NVME_WRITE = int(Opcode.NVME_READ), int(Opcode.NVME_WRITE)
_COMPARE_SWAP, _FETCH_ADD = int(Opcode.COMPARE_SWAP), int(Opcode.FETCH_ADD)
_ATOMIC, _RECV, _TAGGED_RECV = int(Opcode.ATOMIC), int(Opcode.RECV), int(Opcode.TAGGED_RECV)
_ORDER_ISSUE, _ORDER_SHUFFLE = int(FiringOrder.ISSUE), int(FiringOrder.SHUFFLE)
_POSTED = int(POSTED)
_INVALID, _NOT_SUPPORTED = int(CommandStatus.INVALID), int(CommandStatus.NOT_SUPPORTED)
_PERMISSION = int(CommandStatus.PERMISSION)
_ONE = np.uint64(1)


@hot
def _check_counter(state: TriggerState, counter: Int, owner: Int) -> Int:
    if counter < 0 or counter >= len(state.counters) or state.counters[counter].allocated == 0:
        return _INVALID
    if state.counters[counter].owner != owner:
        return _PERMISSION
    return 0


@hot
def check_armed(state: TriggerState, slot: Int) -> Int:
    """Return why the filled, not yet armed slot cannot be armed (a CommandStatus), or 0.

    Its counters must be allocated and belong to its owner; counter operations and firmware events have no
    completion counter; threshold and operand must fit the counter. Keys and bounds of data operations are
    checked when they fire.
    """
    record = state.slots[slot]
    unit = state.unit[0]
    status = _check_counter(state, record.trigger, record.owner)
    if status != 0:
        return status
    if record.threshold > unit.max_success:
        return _INVALID
    opcode = record.opcode
    if opcode == _COUNTER_ADD or opcode == _COUNTER_SET:
        if record.completion != NONE or record.remote_address > unit.max_success:
            return _INVALID
        return _check_counter(state, np.int64(record.rkey), record.owner)
    if opcode == _FIRMWARE_EVENT or opcode == _WRITE_BACK:
        return 0 if record.completion == NONE else _INVALID
    if record.completion != NONE:
        status = _check_counter(state, record.completion, record.owner)
        if status != 0:
            return status
    nvme = opcode == _NVME_READ or opcode == _NVME_WRITE
    if not nvme and (opcode < _DATA_FIRST or opcode > _DATA_LAST):
        return _NOT_SUPPORTED
    if opcode == _COMPARE_SWAP or opcode == _FETCH_ADD or opcode == _ATOMIC:
        pieces = record.sge_count
        fetches = opcode != _ATOMIC or pieces != 0
        return _INVALID if pieces > 1 or (fetches and (pieces != 1 or record.sge0_length != 8)) else 0
    if record.sge_count > unit.local_pieces:
        return _INVALID
    receives = opcode == _RECV or opcode == _TAGGED_RECV
    if receives and (record.sge_count > 1 or (unit.receives_at_zero != 0 and record.threshold > 0)):
        return _INVALID
    length = np.uint64(record.sge0_length) if record.sge_count > 0 else np.uint64(0)
    if record.sge_count > 1:
        length += np.uint64(record.sge1_length)
    return _INVALID if length > unit.max_message_bytes else 0


@hot
def value_of(state: TriggerState, counter: Int) -> Int:
    """Return success plus errors, without wrapping: what thresholds are compared with."""
    record = state.counters[counter]
    if state.unit[0].stall_on_error != 0:
        return record.success
    if record.success > U64_MAX - record.errors:
        return U64_MAX
    return record.success + record.errors


@hot
def _make_ready(state: TriggerState, counter: Int) -> None:
    """Put a counter that has something due on the ready list, at its end."""
    owner = state.counters[counter]
    unit = state.unit[0]
    if owner.ready == 0:
        owner.ready = 1
        owner.ready_next = NONE
        if unit.ready_tail == NONE:
            unit.ready_head = counter
        else:
            state.counters[unit.ready_tail].ready_next = counter
        unit.ready_tail = counter
        unit.ready_count += 1


@hot
def _make_due(state: TriggerState, counter: Int, slot: Int) -> None:
    record = state.slots[slot]
    owner = state.counters[counter]
    record.state = DUE
    record.next = NONE
    if owner.due_tail == NONE:
        owner.due_head = slot
    else:
        state.slots[owner.due_tail].next = slot
    owner.due_tail = slot
    _make_ready(state, counter)


@hot
def _make_reached_due_in_order(state: TriggerState, counter: Int, value: Int, order: Int) -> None:
    """As `make_reached_due`, in arming order, or shuffled."""
    owner = state.counters[counter]
    reached = NONE
    while owner.heap != NONE and state.slots[owner.heap].threshold <= value:
        slot = owner.heap
        owner.heap = merge_children(state, slot)
        state.slots[slot].key = (
            drawn(state) if order == _ORDER_SHUFFLE else np.uint64(state.slots[slot].sequence)
        )
        state.slots[slot].next = reached
        reached = slot
    if reached != NONE:
        reached = sort_by_key(state, reached)
    while reached != NONE:
        following = state.slots[reached].next
        _make_due(state, counter, reached)
        reached = following


@hot
def make_reached_due(state: TriggerState, counter: Int) -> None:
    """Move what the counter's value has reached to its due list: in threshold order, then arming order,
    unless the unit's limits say otherwise.
    """
    value = value_of(state, counter)
    owner = state.counters[counter]
    if owner.heap == NONE or state.slots[owner.heap].threshold > value:
        return
    if state.unit[0].order != 0:
        _make_reached_due_in_order(state, counter, value, np.int64(state.unit[0].order))
        return
    while owner.heap != NONE and state.slots[owner.heap].threshold <= value:
        slot = owner.heap
        owner.heap = merge_children(state, slot)
        _make_due(state, counter, slot)


@hot
def take_slot(state: TriggerState) -> Int:
    """Return a free slot, or NONE."""
    unit = state.unit[0]
    slot: Int = unit.free_head
    if slot != NONE:
        unit.free_head = state.slots[slot].next
    elif unit.touched < unit.slot_count:
        slot = unit.touched
        unit.touched += 1
    else:
        return NONE
    unit.free_count -= 1
    return slot


@hot
def room_for(state: TriggerState, owner: Int, count: Int, posted: Flag) -> Flag:
    """Whether `count` operations of `owner` find slots: of the NIC, and of what host processes share."""
    unit = state.unit[0]
    if count > unit.free_count:
        return False
    return owner == 0 or posted or count <= unit.service_slots - unit.service_used


@hot
def _aim(state: TriggerState, slot: Int, step: Int) -> None:
    """Count (step 1) or uncount (step -1) the slot at the counters it refers to."""
    record = state.slots[slot]
    one = np.uint32(1)
    if record.owner != 0 and record.options & _POSTED == 0:
        state.unit[0].service_used += step
    if step > 0:
        state.counters[record.trigger].armed += one
        if record.completion != NONE:
            state.counters[record.completion].aimed += one
        if record.opcode == _COUNTER_ADD or record.opcode == _COUNTER_SET:
            state.counters[np.int64(record.rkey)].aimed += one
    else:
        state.counters[record.trigger].armed -= one
        if record.completion != NONE:
            state.counters[record.completion].aimed -= one
        if record.opcode == _COUNTER_ADD or record.opcode == _COUNTER_SET:
            state.counters[np.int64(record.rkey)].aimed -= one


@hot
def arm(state: TriggerState, slot: Int) -> None:
    """Arm a filled slot: it waits in its counter's heap, or is due at once if its threshold is met already.

    The check and the insertion are one step, so no count is lost between them.
    """
    record = state.slots[slot]
    unit = state.unit[0]
    counter = record.trigger
    record.sequence = unit.sequence
    unit.sequence += _ONE
    record.child = NONE
    record.next = NONE
    record.prev = NONE
    _aim(state, slot, 1)
    if record.threshold <= value_of(state, counter):
        _make_due(state, counter, slot)
    else:
        record.state = WAITING
        insert(state, counter, slot)


@hot
def next_due(state: TriggerState) -> Int:
    """Return the slot that fires next (it stays at the head), or NONE."""
    head = state.unit[0].ready_head
    if head == NONE:
        return NONE
    return state.counters[head].due_head


@hot
def rotate_ready(state: TriggerState) -> None:
    """Let the next ready counter have its turn."""
    unit = state.unit[0]
    head = unit.ready_head
    if head == NONE or unit.ready_tail == head:
        return
    unit.ready_head = state.counters[head].ready_next
    state.counters[head].ready_next = NONE
    state.counters[unit.ready_tail].ready_next = head
    unit.ready_tail = head


@hot
def take_due(state: TriggerState) -> Int:
    """Take the slot that fires next off the due list; it is in flight until `release` gives it back."""
    unit = state.unit[0]
    counter = unit.ready_head
    owner = state.counters[counter]
    slot = owner.due_head
    owner.due_head = state.slots[slot].next
    if owner.due_head == NONE:
        owner.due_tail = NONE
        owner.ready = 0
        unit.ready_head = owner.ready_next
        owner.ready_next = NONE
        unit.ready_count -= 1
        if unit.ready_head == NONE:
            unit.ready_tail = NONE
    state.slots[slot].state = IN_FLIGHT
    unit.fired += _ONE
    return slot


@hot
def put_due(state: TriggerState, slot: Int, landed: Flag) -> None:
    """Put a slot that was taken back on its counter's due list: first of all, or behind those that have
    landed before it.
    """
    record = state.slots[slot]
    counter = np.int64(record.trigger)
    owner = state.counters[counter]
    behind: Int = NONE
    following: Int = np.int64(owner.due_head)
    while landed and following != NONE and state.slots[following].state == LANDED:
        behind = following
        following = np.int64(state.slots[following].next)
    record.state = LANDED if landed else DUE
    record.next = following
    if behind == NONE:
        owner.due_head = slot
    else:
        state.slots[behind].next = slot
    if following == NONE:
        owner.due_tail = slot
    _make_ready(state, counter)
    state.unit[0].fired -= _ONE


@hot
def put_slot(state: TriggerState, slot: Int) -> None:
    """Put a slot that was taken but not armed back on the free list."""
    unit = state.unit[0]
    state.slots[slot].state = FREE
    unit.free_count += 1
    if slot == unit.touched - 1:
        unit.touched -= 1
        return
    state.slots[slot].next = unit.free_head
    unit.free_head = slot


@hot
def release(state: TriggerState, slot: Int) -> None:
    """Give a slot back; its counters no longer know it."""
    _aim(state, slot, -1)
    put_slot(state, slot)


@hot
def cancel(state: TriggerState, slot: Int, sequence: Int) -> Flag:
    """Remove one waiting slot. True: it will never fire. False: it has fired (or is due, or was never
    armed).
    """
    record = state.slots[slot]
    if record.state != WAITING or record.sequence != sequence:
        return False
    unlink(state, record.trigger, slot)
    state.unit[0].cancelled += _ONE
    release(state, slot)
    return True


@hot
def cancel_counter(state: TriggerState, counter: Int) -> Int:
    """Remove all work that waits for `counter`; return how much."""
    owner = state.counters[counter]
    count = 0
    while owner.heap != NONE:
        slot = owner.heap
        owner.heap = merge_children(state, slot)
        state.unit[0].cancelled += _ONE
        release(state, slot)
        count += 1
    return count


@hot
def flush(state: TriggerState, owner: Int) -> Int:
    """Remove all waiting work of `owner` (of everybody: NONE); return how much."""
    count = 0
    for slot in range(state.unit[0].touched):
        record = state.slots[slot]
        if record.state == WAITING and (owner == NONE or record.owner == owner):
            unlink(state, record.trigger, slot)
            state.unit[0].cancelled += _ONE
            release(state, slot)
            count += 1
    return count


@hot
def _concerns(state: TriggerState, slot: Int, counter: Int) -> Flag:
    record = state.slots[slot]
    if record.trigger == counter or record.completion == counter:
        return True
    counter_operation = record.opcode == _COUNTER_ADD or record.opcode == _COUNTER_SET
    return counter_operation and np.int64(record.rkey) == counter


@hot
def _leave_ready(state: TriggerState, counter: Int) -> None:
    """Take a counter that has nothing due out of the ready list."""
    unit = state.unit[0]
    before = NONE
    at = unit.ready_head
    while at != counter:
        before = at
        at = state.counters[at].ready_next
    following = state.counters[counter].ready_next
    if before == NONE:
        unit.ready_head = following
    else:
        state.counters[before].ready_next = following
    if unit.ready_tail == counter:
        unit.ready_tail = before
    unit.ready_count -= 1
    state.counters[counter].ready_next = NONE
    state.counters[counter].ready = 0


@hot
def _discard_due(state: TriggerState, trigger: Int, counter: Int) -> Int:
    owner = state.counters[trigger]
    count = 0
    kept = NONE
    slot = owner.due_head
    while slot != NONE:
        following = state.slots[slot].next
        if not _concerns(state, slot, counter):
            kept = slot
        else:
            if kept == NONE:
                owner.due_head = following
            else:
                state.slots[kept].next = following
            completion = np.int64(state.slots[slot].completion)
            landed = completion != NONE and state.slots[slot].state == LANDED
            if landed and state.counters[completion].in_flight != 0:  # 0: its owner goes, and its counts
                state.counters[completion].in_flight -= np.uint32(1)
            state.unit[0].cancelled += _ONE
            release(state, slot)
            count += 1
        slot = following
    owner.due_tail = kept
    if owner.due_head == NONE:
        _leave_ready(state, trigger)
    return count


@hot
def discard(state: TriggerState, counter: Int) -> Int:
    """Remove all work that `counter` triggers or that will change it, waiting or due; return how much."""
    count = 0
    for slot in range(state.unit[0].touched):
        if state.slots[slot].state == WAITING and _concerns(state, slot, counter):
            unlink(state, state.slots[slot].trigger, slot)
            state.unit[0].cancelled += _ONE
            release(state, slot)
            count += 1
    for trigger in range(len(state.counters)):
        if state.counters[trigger].ready != 0:
            count += _discard_due(state, trigger, counter)
    return count
