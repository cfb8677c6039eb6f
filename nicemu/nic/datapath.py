# SPDX-License-Identifier: Apache-2.0
"""The datapath: doorbells, commands, arrivals and fired work, from shared memory to shared memory.

`poll` does what is to be done now and returns; `run_datapath` polls until told to stop, spinning and then
napping. Both run without the GIL where compiled. Nothing here allocates, and nothing that a process or peer
writes is read twice.
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import Opcode, registers
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, hot
from nicemu.pcie import copy_memory, load_u64, monotonic_ns, nap_us, store_u64
from nicemu.rdma import ARRIVED_RECEIVE, ARRIVED_WRITE, post_completion
from nicemu.trigger import NONE, add, arm, check_armed, count_end, put_slot, set_values, take_slot

from .arena import NO_CELL, RING_COUNT, STAT_NAMES, TRANSMIT_CELL, Arena
from .arrivals import arrive, poll_inbox
from .commands import poll_commands
from .firing import FAIRNESS, UP_TRANSMIT, UP_WINDOW, complete, fire_due, land, push_up, up_full
from .notes import (
    BY_CONTROL,
    BY_DOORBELL,
    BY_END,
    BY_WORD,
    note_count,
    note_end,
    note_entry,
)

DOWN_ADD, DOWN_SET, DOWN_ARM, DOWN_COMPLETE, DOWN_ARRIVAL, DOWN_NVME = 1, 2, 3, 4, 5, 6
"""Records from the control thread: counter operations, arming, the completion of UP_WORK, an arrival that
came through a Port, and the end of UP_NVME."""

_STAT = {name: np.int64(number) for number, name in enumerate(STAT_NAMES)}
_DOORBELLS, _BACKWARDS = _STAT["doorbells"], _STAT["doorbell.backwards"]
_FOLLOWED, _FLAGS_BACKWARDS = _STAT["flags.followed"], _STAT["flags.backwards"]
_ERRORS, _OVERRUN = _STAT["completion.errors"], _STAT["completion_queue.overrun"]
_REFUSED = _STAT["command.refused"]
_WRITES, _WRITE_BYTES = _STAT["writes"], _STAT["write_bytes"]
_OK, _COUNTER_ADD = int(VerbsStatus.SUCCESS), int(Opcode.COUNTER_ADD)
_ARMED_BYTES = np.uint64(128)
_RING_COUNT = np.uint64(RING_COUNT)
_RECORD_BYTES, _RECORD_WORK = np.uint64(192), np.uint64(64)
_UP_HEAD, _DOWN_HEAD, _DOWN_TAIL = np.uint64(0), np.uint64(16), np.uint64(24)
_STOP, _SCRATCH, _PAUSE, _PARKED = np.uint64(32), np.uint64(56), np.uint64(128), np.uint64(136)
_CELLS = np.uint64(registers.DOORBELLS)
_BUDGET, _NOT_YET = np.int64(256), np.int64(0)
"""Of a type: numba compiles a function anew for each literal that it is called with."""
_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)


@hot
def _poll_doorbells(arena: Arena) -> Int:
    rung = 0
    for owner in range(len(arena.owners)):
        if arena.owners[owner].active == 0:
            continue
        cells = arena.owners[owner].bar + _CELLS
        for cell in range(arena.owners[owner].doorbells):
            counter = np.int64(arena.doorbells[owner, cell])
            if counter == NO_CELL:
                continue
            total = np.uint64(load_u64(cells + np.uint64(cell) * _EIGHT))
            before = arena.rung[owner, cell]
            if total == before:
                continue
            if total < before:
                arena.stats[_BACKWARDS] += _ONE
                arena.rung[owner, cell] = total
                continue
            if counter == TRANSMIT_CELL:
                if up_full(arena):
                    continue
                arena.rung[owner, cell] = total
                push_up(arena, UP_TRANSMIT, np.uint64(owner), total, _ZERO, _ZERO, NONE)
            else:
                arena.rung[owner, cell] = total
                add(arena.trigger, counter, total - before, _ZERO)
                note_count(arena, counter, BY_DOORBELL, owner, cell, total)
            arena.stats[_DOORBELLS] += _ONE
            rung += 1
    return rung


@hot
def _poll_followed(arena: Arena) -> Int:
    """Look at the words in registered memory that feed counters."""
    counted = 0
    for place in range(arena.link[0].followed):
        word = arena.followed[place]
        if word.address == _ZERO:
            continue
        value = np.uint64(load_u64(word.address))
        if value == word.seen:
            continue
        if value < word.seen:
            arena.stats[_FLAGS_BACKWARDS] += _ONE
        elif word.at_least == _ZERO:
            add(arena.trigger, np.int64(word.counter), value - word.seen, _ZERO)
            note_count(arena, np.int64(word.counter), BY_WORD, place, value, word.seen)
            counted += 1
        elif word.seen < word.at_least and value >= word.at_least:
            add(arena.trigger, np.int64(word.counter), _ONE, _ZERO)
            note_count(arena, np.int64(word.counter), BY_WORD, place, value, word.seen)
            counted += 1
        word.seen = value
    arena.stats[_FOLLOWED] += np.uint64(counted)
    return counted


@hot
def _end_nvme(
    arena: Arena, completion: Int, status: Int, byte_len: Int, wr_id: Int, packed: Int, sequence: Int
) -> None:
    """Tell the end of an NVMe command. `packed`: owner, completion queue, flags and opcode, 8 bits each."""
    if completion != NONE:
        counted = arena.trigger.counters[completion]
        if counted.allocated != 0 and counted.in_flight != 0:
            counted.in_flight -= np.uint32(1)
            count_end(arena.trigger, completion, status != _OK, byte_len)
        else:
            completion = NONE
    note_end(arena, sequence, status, completion)
    owner = np.int64(packed & np.uint64(0xFF))
    if status != _OK:
        arena.stats[_ERRORS] += _ONE
    if (status != _OK or packed & np.uint64(1 << 16) != _ZERO) and arena.owners[owner].active != 0:
        cq = owner * registers.QUEUE_COUNT + np.int64((packed >> _EIGHT) & np.uint64(0xFF))
        opcode = np.int64(packed >> np.uint64(24))
        if not post_completion(arena.rdma, cq, wr_id, status, opcode, byte_len, 0, np.uint32(0), 0):
            arena.stats[_OVERRUN] += _ONE
        else:
            note_entry(arena, cq, BY_END, sequence)


@hot
def _may_arm(arena: Arena, slot: Int) -> Flag:
    """Whether a record of a window may still be armed: its window is open, its queue pair its owner's."""
    record = arena.trigger.slots[slot]
    if record.window == 0:
        return True
    if arena.windows[np.int64(record.window) % len(arena.windows)] != record.window:
        return False
    qp = np.int64(record.qp)
    return record.opcode >= _COUNTER_ADD or arena.rdma.queue_pairs[qp].owner == record.owner


@hot
def _poll_down(arena: Arena) -> Int:
    link = arena.link[0]
    taken = 0
    while taken < FAIRNESS and not up_full(arena):
        if np.uint64(load_u64(link.address + _DOWN_TAIL)) == link.down_head:
            break
        record = arena.down[np.int64(link.down_head % _RING_COUNT)]
        kind = np.int64(record.kind)
        a, b = record.words[0], record.words[1]
        c, d = record.words[2], record.words[3]
        if kind == DOWN_ADD:
            add(arena.trigger, np.int64(a), b, c)
            note_count(arena, np.int64(a), BY_CONTROL, 0, 0, _ZERO)
        elif kind == DOWN_SET:
            set_values(arena.trigger, np.int64(a), b, c, np.int64(d))
            note_count(arena, np.int64(a), BY_CONTROL, 1, 0, _ZERO)
        elif kind == DOWN_ARM:
            slot = take_slot(arena.trigger)
            if slot == NONE:
                break
            target = link.slots_address + np.uint64(slot) * _ARMED_BYTES
            source = link.down_address + (link.down_head % _RING_COUNT) * _RECORD_BYTES + _RECORD_WORK
            copy_memory(target, source, _ARMED_BYTES)
            if _may_arm(arena, slot) and check_armed(arena.trigger, slot) == 0:
                arm(arena.trigger, slot)
            else:  # its counter, queue pair or window was closed while the record waited
                arena.stats[_REFUSED] += _ONE
                window = np.uint64(arena.trigger.slots[slot].window)
                if window != _ZERO:
                    push_up(arena, UP_WINDOW, window, _ZERO, _ZERO, _ZERO, NONE)
                put_slot(arena.trigger, slot)
        elif kind == DOWN_COMPLETE:
            qp = np.int64(a)
            completion: Int = np.int64(b) - 1
            if completion != NONE:
                counted = arena.trigger.counters[completion]
                if counted.allocated == 0 or counted.in_flight == 0:
                    completion = NONE  # its owner is gone
                else:
                    counted.in_flight -= np.uint32(1)
            cq = np.int64(record.words[5] & np.uint64(0xFF))
            signaled = np.int64((record.words[5] >> _EIGHT) & _ONE)
            opcode = np.int64((record.words[5] >> np.uint64(16)) & np.uint64(0xFF))
            sequence = record.words[5] >> np.uint64(24)
            status = np.int64(c)
            if status == _OK:
                arena.stats[_WRITES] += _ONE
                arena.stats[_WRITE_BYTES] += d
            complete(arena, qp, opcode, completion, status, cq, signaled, record.words[4], d, sequence)
        elif kind == DOWN_NVME:
            _end_nvme(arena, np.int64(a) - 1, np.int64(b), c, record.words[4], d, record.words[5])
        elif kind == DOWN_ARRIVAL:
            arrived = ARRIVED_RECEIVE if d != _ZERO else ARRIVED_WRITE
            counter = np.int64(record.words[5]) - 1
            imm_data = np.uint32(b & np.uint64(0xFFFFFFFF))
            opcode = np.int64(b >> np.uint64(32))
            arrive(arena, np.int64(a), opcode, imm_data, c, record.words[4], counter, arrived)
        link.down_head += _ONE
        store_u64(link.address + _DOWN_HEAD, link.down_head)
        taken += 1
    return taken


@hot
def poll(arena: Arena, budget: Int, until_ns: Int) -> Int:
    """Do what is to be done now, firing at most `budget` operations; return how many things were done.

    `until_ns`, unless 0: time may pass up to then, from the landing of one transfer to the next, as long as
    neither a peer nor the control thread has to hear of what happens.
    """
    done = 0
    pace = arena.pacing.pace[0]
    link = arena.link[0]
    pace.told_peer = 0
    while True:
        here = _poll_doorbells(arena) + _poll_followed(arena)
        for owner in range(len(arena.owners)):
            if arena.owners[owner].active != 0:
                here += poll_commands(arena, owner)
        for peer in range(len(arena.rdma.peers)):
            if arena.rdma.peers[peer].inbox != _ZERO:
                here += poll_inbox(arena, arena.rdma.peers[peer].inbox)
        here += _poll_down(arena)
        if pace.count != 0:
            here += land(arena)
        here += fire_due(arena, budget)
        done += here
        if (
            until_ns == 0
            or pace.told_peer != 0
            or link.up_tail != np.uint64(load_u64(link.address + _UP_HEAD))
        ):
            return done
        if here == 0:
            if pace.count == 0 or arena.pacing.flights[0].lands_ns > np.uint64(until_ns):
                return done
            pace.now_ns = arena.pacing.flights[0].lands_ns


@hot
def run_datapath(arena: Arena, spin_ns: Int, idle_nap_us: Int) -> None:
    """Poll until the stop word is set: spin for `spin_ns` after the last event, then nap between polls.

    Naps grow from a tenth of `idle_nap_us` to `idle_nap_us` while nothing happens. While the pause word is
    set it says so in the parked word and touches nothing.
    """
    link = arena.link[0]
    scratch = link.address + _SCRATCH
    idle_since = np.uint64(monotonic_ns(scratch))
    nap = max(1, idle_nap_us // 10)
    while np.uint64(load_u64(link.address + _STOP)) == _ZERO:
        if np.uint64(load_u64(link.address + _PAUSE)) != _ZERO:
            store_u64(link.address + _PARKED, _ONE)
            while np.uint64(load_u64(link.address + _PAUSE)) != _ZERO:
                nap_us(5)
            store_u64(link.address + _PARKED, _ZERO)
        link.polls += _ONE
        if arena.pacing.pace[0].on != 0:
            arena.pacing.pace[0].now_ns = np.uint64(monotonic_ns(scratch))
        if poll(arena, _BUDGET, _NOT_YET) != 0 or arena.pacing.pace[0].count != 0:
            idle_since = np.uint64(monotonic_ns(scratch))
            nap = max(1, idle_nap_us // 10)
        elif np.uint64(monotonic_ns(scratch)) - idle_since > np.uint64(spin_ns):
            link.naps += _ONE
            nap_us(nap)
            if nap < idle_nap_us:
                nap += 1
