# SPDX-License-Identifier: Apache-2.0
"""Frames that came before their turn, kept whole until what is missing before them has come.

Each queue pair has a list in the order of PSNs; the places for frames are a pool of all queue pairs. A frame
is checked and carried out only when it is its turn, so nothing is written out of order.
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Int, Records, cold
from nicemu.pcie import copy_memory
from nicemu.wire import ETHERNET_HEADER_BYTES, IP_PLACE, load_be16

from .roce_state import (
    DROP,
    HAS_HELD,
    HELD_NEXT,
    HELD_PSN,
    LONGEST_FRAME_BYTES,
    NONE,
    SELECTIVE_PACKETS,
    RoceState,
)

_GAP, _DUPLICATE = DROP["responder.psn_gap"], DROP["responder.duplicate"]
_NO_ROOM = DROP["responder.held_full"]
_ONE = np.uint64(1)


@cold
def held_frame(state: RoceState, slot: Int) -> Int:
    """Return the raw address of a frame that is kept."""
    return np.int64(state.engine[0].held_memory) + slot * LONGEST_FRAME_BYTES


@cold
def _take_place(state: RoceState) -> Int:
    engine = state.engine[0]
    slot = np.int64(engine.held_free)
    if slot != NONE:
        engine.held_free = state.held[slot, HELD_NEXT]
    elif engine.held_touched < len(state.held):
        slot = np.int64(engine.held_touched)
        engine.held_touched += 1
    return slot


@cold
def hold(state: RoceState, pair: Records, frame: Int, psn: Int) -> Int:
    """Keep a frame that is not expected yet; return 0, or the reason why it is not kept."""
    length = ETHERNET_HEADER_BYTES + load_be16(frame + IP_PLACE + 2)
    if psn - pair.expected_psn > SELECTIVE_PACKETS or length > LONGEST_FRAME_BYTES:
        return _GAP
    before: Int = NONE
    extra = state.extras[pair.extra]
    after = np.int64(extra.held_head)
    while after != NONE and state.held[after, HELD_PSN] < psn:
        before = after
        after = np.int64(state.held[after, HELD_NEXT])
    if after != NONE and state.held[after, HELD_PSN] == psn:
        return _DUPLICATE
    slot = _take_place(state)
    if slot == NONE:
        return _NO_ROOM
    copy_memory(held_frame(state, slot), frame, length)
    state.held[slot, HELD_PSN], state.held[slot, HELD_NEXT] = psn, after
    if before == NONE:
        extra.held_head = slot
        pair.features |= HAS_HELD
    else:
        state.held[before, HELD_NEXT] = slot
    return 0


@cold
def take_held(state: RoceState, pair: Records) -> Int:
    """Take the first frame out of a list that has one; return its place, to be freed later."""
    extra = state.extras[pair.extra]
    slot = np.int64(extra.held_head)
    extra.held_head = state.held[slot, HELD_NEXT]
    if extra.held_head == NONE:
        pair.features &= ~HAS_HELD
    return slot


@cold
def free_held(state: RoceState, slot: Int) -> None:
    """Give a frame's place back."""
    engine = state.engine[0]
    state.held[slot, HELD_NEXT] = engine.held_free
    engine.held_free = slot


@cold
def forget_held(state: RoceState, pair: Records) -> None:
    """Drop all frames that a queue pair keeps."""
    while pair.features & HAS_HELD != 0:
        free_held(state, take_held(state, pair))


@cold
def held_bits(state: RoceState, pair: Records) -> Int:
    """Return what is kept as 64 bits: bit n is the packet at n + 1 behind the one that is expected."""
    bits = np.uint64(0)
    slot = np.int64(state.extras[pair.extra].held_head)
    while slot != NONE:
        place = state.held[slot, HELD_PSN] - pair.expected_psn - 1
        if 0 <= place < SELECTIVE_PACKETS:
            bits |= _ONE << np.uint64(place)
        slot = np.int64(state.held[slot, HELD_NEXT])
    return bits
