# SPDX-License-Identifier: Apache-2.0
"""Completion queues: rings that the NIC fills and an owner drains; a full one overruns, which is an error.

Source: InfiniBand Architecture Specification 1.4, volume 1, "Completion Queues" (CQ overrun); ibv_poll_cq(3).
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import registers
from nicemu.hot import Flag, Int, Records, hot
from nicemu.pcie import load_u64, store_u32, store_u64

from .state import RdmaState

_ENTRY = np.uint64(64)
_COUNT = np.uint64(registers.COMPLETION_COUNT)
_ONE = np.uint64(1)


@hot
def post_completion(
    state: RdmaState,
    cq: Int,
    wr_id: Int,
    status: Int,
    opcode: Int,
    byte_len: Int,
    qp: Int,
    imm_data: Int,
    has_imm: Int,
) -> Flag:
    """Write one entry. False: the queue has overrun (its consumer fell a whole ring behind) and takes no
    more.

    A consumer that claims more than was produced counts as an overrun too.
    """
    queue = state.completion_queues[cq]
    if queue.open == 0 or queue.error != 0:
        return False
    consumed = np.uint64(load_u64(queue.consumer))
    if consumed > queue.tail or queue.tail - consumed >= _COUNT:
        queue.error = 1
        return False
    entry = queue.ring + (queue.tail % _COUNT) * _ENTRY
    store_u64(entry, wr_id)
    store_u32(entry + np.uint64(8), np.uint32(status))
    store_u32(entry + np.uint64(12), np.uint32(opcode))
    store_u64(entry + np.uint64(16), byte_len)
    store_u32(entry + np.uint64(24), np.uint32(qp))
    store_u32(entry + np.uint64(28), imm_data)
    store_u32(entry + np.uint64(32), np.uint32(has_imm))
    store_u32(entry + np.uint64(36), np.uint32(cq))
    queue.tail += _ONE
    store_u64(entry + np.uint64(56), queue.tail)
    return True


def _queues_of(state: RdmaState, owner: int) -> Records:
    first = owner * registers.QUEUE_COUNT
    return state.completion_queues[first : first + registers.QUEUE_COUNT]


def open_queues(state: RdmaState, owner: int, bar_address: int) -> None:
    """Let the queues of a process begin, empty, in its BAR at a raw address."""
    for position, queue in enumerate(_queues_of(state, owner)):
        ring = registers.COMPLETIONS + position * registers.COMPLETION_COUNT * 64
        word = registers.WORD_COMPLETIONS + position
        queue.ring = bar_address + ring
        queue.consumer = bar_address + registers.HOST_WORDS + word * registers.WORD_STRIDE
        queue.tail = queue.error = 0
        queue.open = 1


def close_queues(state: RdmaState, owner: int) -> None:
    """Write no more into the queues of a process."""
    for queue in _queues_of(state, owner):
        queue.open = 0
