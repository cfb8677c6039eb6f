# SPDX-License-Identifier: Apache-2.0
"""The order of waiting work: a pairing heap by (threshold, arming sequence), and lists sorted by other keys.

All of it is linked through the slots. Arming is a constant number of steps whatever is armed; taking the
first is logarithmic in the long run.
Source: Fredman, Sedgewick, Sleator, Tarjan, "The Pairing Heap: A New Form of Self-Adjusting Heap" (1986).
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Flag, Int, hot

from .state import NONE, WAITING, TriggerState


@hot
def _before(state: TriggerState, one: Int, other: Int) -> Flag:
    a = state.slots[one]
    b = state.slots[other]
    if a.threshold != b.threshold:
        return a.threshold < b.threshold
    return a.sequence < b.sequence


@hot
def _put_under(state: TriggerState, slot: Int, parent: Int) -> None:
    """Make a slot the first child of another one."""
    first = state.slots[parent].child
    state.slots[slot].next = first
    if first != NONE:
        state.slots[first].prev = slot
    state.slots[slot].prev = parent
    state.slots[parent].child = slot


@hot
def merge(state: TriggerState, one: Int, other: Int) -> Int:
    """Make one heap of two and return its root; either may be NONE."""
    if one == NONE:
        return other
    if other == NONE:
        return one
    if _before(state, other, one):
        one, other = other, one
    _put_under(state, other, one)
    return one


@hot
def insert(state: TriggerState, counter: Int, slot: Int) -> None:
    """Put a slot into its counter's heap; behind the one that came last, where it belongs behind that.

    So what is armed in ascending order is a chain, which lies in memory as it will be taken.
    """
    owner = state.counters[counter]
    last = owner.last
    owner.last = slot
    waits = last != NONE and last != slot and state.slots[last].state == WAITING
    if waits and state.slots[last].trigger == counter and not _before(state, slot, last):
        _put_under(state, slot, last)
    else:
        owner.heap = merge(state, owner.heap, slot)


@hot
def merge_children(state: TriggerState, slot: Int) -> Int:
    """Make one heap of the children of `slot`: pair them left to right, then fold the pairs right to left."""
    child = state.slots[slot].child
    state.slots[slot].child = NONE
    pairs = NONE
    while child != NONE:
        first = child
        second = state.slots[first].next
        child = NONE
        if second != NONE:
            child = state.slots[second].next
            state.slots[second].next = NONE
            state.slots[second].prev = NONE
        state.slots[first].next = NONE
        state.slots[first].prev = NONE
        pair = merge(state, first, second)
        state.slots[pair].next = pairs
        pairs = pair
    root = NONE
    while pairs != NONE:
        following = state.slots[pairs].next
        state.slots[pairs].next = NONE
        state.slots[pairs].prev = NONE
        root = merge(state, root, pairs)
        pairs = following
    return root


@hot
def unlink(state: TriggerState, counter: Int, slot: Int) -> None:
    """Take a waiting slot out of its counter's heap."""
    record = state.slots[slot]
    owner = state.counters[counter]
    if owner.heap == slot:
        owner.heap = merge_children(state, slot)
        return
    if state.slots[record.prev].child == slot:
        state.slots[record.prev].child = record.next
    else:
        state.slots[record.prev].next = record.next
    if record.next != NONE:
        state.slots[record.next].prev = record.prev
    record.next = NONE
    record.prev = NONE
    owner.heap = merge(state, owner.heap, merge_children(state, slot))


@hot
def drawn(state: TriggerState) -> Int:
    """Return the next number of the generator behind a shuffle. Source: Marsaglia, "Xorshift RNGs"."""
    unit = state.unit[0]
    number = unit.shuffle
    number ^= number << np.uint64(13)
    number ^= number >> np.uint64(7)
    number ^= number << np.uint64(17)
    unit.shuffle = number
    return number


@hot
def _merge_by_key(state: TriggerState, one: Int, other: Int) -> Int:
    """Merge two lists (linked by `next`) that are in ascending order of `key`."""
    head = NONE
    tail = NONE
    while one != NONE and other != NONE:
        if state.slots[one].key <= state.slots[other].key:
            taken = one
            one = state.slots[one].next
        else:
            taken = other
            other = state.slots[other].next
        if tail == NONE:
            head = taken
        else:
            state.slots[tail].next = taken
        tail = taken
    rest = one if one != NONE else other
    if tail == NONE:
        return rest
    state.slots[tail].next = rest
    return head


@hot
def sort_by_key(state: TriggerState, head: Int) -> Int:
    """Sort a list (linked by `next`) by `key`: runs of 1, 2, 4, ... are merged in pairs."""
    width = 1
    while True:
        runs = 0
        left = head
        head = NONE
        tail = NONE
        while left != NONE:
            runs += 1
            end = left
            for _ in range(width - 1):
                if state.slots[end].next == NONE:
                    break
                end = state.slots[end].next
            right = state.slots[end].next
            state.slots[end].next = NONE
            following = NONE
            if right != NONE:
                end = right
                for _ in range(width - 1):
                    if state.slots[end].next == NONE:
                        break
                    end = state.slots[end].next
                following = state.slots[end].next
                state.slots[end].next = NONE
            merged = _merge_by_key(state, left, right)
            if tail == NONE:
                head = merged
            else:
                state.slots[tail].next = merged
            tail = merged
            while state.slots[tail].next != NONE:
                tail = state.slots[tail].next
            left = following
        if runs <= 1:
            return head
        width *= 2
