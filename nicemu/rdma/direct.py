# SPDX-License-Identifier: Apache-2.0
"""The transport between NICs of one machine: check the target's own table, copy once, post a record to its
inbox.

What a work request means is what the RoCEv2 responder would make of it, status for status; only the frames
are missing. The initiator raises a busy flag in the target's inbox around check and copy, so that a target
that takes a key back can wait until no copy under the old key is left.
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import OPERATION_SHIFT, Access, AtomicOperation, Opcode, registers
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, Records, hot
from nicemu.pcie import (
    compare_swap_u64,
    copy_memory,
    exchange_u64,
    fetch_add_u64,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)

from .memory_region import arrival_counter, check_region, raw_address
from .state import FLAG_IMPLICIT_RECEIVES, RdmaState

BUSY = -1
"""The target cannot take the request now (inbox full, no receive posted, memory not mapped yet): try again
later.
"""

READY_STATES = 2
"""Queue pairs accept requests from this state (ready to receive) up to ready to send."""

ARRIVED_WRITE, ARRIVED_RECEIVE, ARRIVED_TAGGED = 1, 2, 3
"""Kinds of inbox record: a write (into a counted region, or with immediate), one that consumed a receive, and
one that consumed a tagged receive (its place stands where the counter does).
"""

TAGGED_FREE, TAGGED_POSTED, TAGGED_TAKEN = 0, 1, 2
"""States of a tagged receive; its NIC posts and frees it, the peer takes it."""

_WRITE, _WRITE_IMM = int(Opcode.RDMA_WRITE), int(Opcode.RDMA_WRITE_WITH_IMM)
_READ, _SEND, _SEND_IMM = int(Opcode.RDMA_READ), int(Opcode.SEND), int(Opcode.SEND_WITH_IMM)
_COMPARE_SWAP, _FETCH_ADD = int(Opcode.COMPARE_SWAP), int(Opcode.FETCH_ADD)
_ATOMIC = int(Opcode.ATOMIC)
_SUM, _AND, _OR = int(AtomicOperation.SUM), int(AtomicOperation.AND), int(AtomicOperation.OR)
_XOR, _MIN, _MAX = int(AtomicOperation.XOR), int(AtomicOperation.MIN), int(AtomicOperation.MAX)
_CSWAP = int(AtomicOperation.COMPARE_SWAP)
_OK, _LOC_PROT = int(VerbsStatus.SUCCESS), int(VerbsStatus.LOC_PROT_ERR)
_REM_INV, _REM_ACCESS = int(VerbsStatus.REM_INV_REQ_ERR), int(VerbsStatus.REM_ACCESS_ERR)
_RETRY, _LOC_OP = int(VerbsStatus.RETRY_EXC_ERR), int(VerbsStatus.LOC_QP_OP_ERR)
_REM_OP = int(VerbsStatus.REM_OP_ERR)
_RIGHT_READ, _RIGHT_WRITE = np.uint32(Access.REMOTE_READ), np.uint32(Access.REMOTE_WRITE)
_RIGHT_ATOMIC, _LOCAL_WRITE = np.uint32(Access.REMOTE_ATOMIC), np.uint32(Access.LOCAL_WRITE)
_NO_RIGHT = np.uint32(0)

_REGIONS = np.uint64(registers.REGION_TABLE)
_QUEUE_PAIRS, _QUEUE_PAIR_BYTES = np.uint64(registers.QUEUE_PAIR_TABLE), np.uint64(registers.QUEUE_PAIR_BYTES)
_RECEIVES = np.uint64(registers.RECEIVE_QUEUES)
_RECEIVE_COUNT, _RECEIVE_BYTES = np.uint64(registers.RECEIVE_QUEUE_COUNT), np.uint64(registers.RECEIVE_BYTES)
_HEAD, _TAIL = np.uint64(registers.INBOX_HEAD), np.uint64(registers.INBOX_TAIL)
_BUSY_FLAG, _RECORDS = np.uint64(registers.INBOX_BUSY), np.uint64(registers.INBOX_RECORDS)
_INBOX_COUNT, _RECORD_BYTES = np.uint64(registers.INBOX_COUNT), np.uint64(registers.INBOX_RECORD_BYTES)
_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_SHIFT = np.uint64(32)
_TAGGED_SEND = int(Opcode.TAGGED_SEND)
_TAGGED, _TAGGED_BYTES = np.uint64(registers.TAGGED_RECEIVES), np.uint64(registers.TAGGED_RECEIVE_BYTES)
_TAGGED_COUNT = np.uint64(registers.TAGGED_RECEIVE_COUNT)
_IS_POSTED, _IS_TAKEN = np.uint64(TAGGED_POSTED), np.uint64(TAGGED_TAKEN)
_TX_TAG, _TX_IGNORE, _TX_ORDER, _TX_STATE = np.uint64(24), np.uint64(32), np.uint64(40), np.uint64(56)
# Offsets in a public queue-pair entry, a posted receive, an inbox record.
_QP_STATE, _QP_PD, _QP_FLAGS, _QP_RECEIVE_HEAD = np.uint64(0), np.uint64(4), np.uint64(8), np.uint64(24)
_RX_LENGTH, _RX_LKEY, _RX_WR_ID, _RX_READY = np.uint64(8), np.uint64(12), np.uint64(16), np.uint64(24)


@hot
def _gather(state: RdmaState, work: Records, pd: Int, target: Int) -> None:
    """Copy the (checked) local pieces to raw address `target`."""
    own = state.public[0] + _REGIONS
    if work.sge_count > 0 and work.sge0_length > 0:
        index = check_region(
            own, work.sge0_lkey, pd, work.sge0_address, np.uint64(work.sge0_length), _NO_RIGHT
        )
        source = raw_address(own, index, work.sge0_address, state.backings)
        copy_memory(target, source, np.uint64(work.sge0_length))
    if work.sge_count > 1 and work.sge1_length > 0:
        index = check_region(
            own, work.sge1_lkey, pd, work.sge1_address, np.uint64(work.sge1_length), _NO_RIGHT
        )
        source = raw_address(own, index, work.sge1_address, state.backings)
        copy_memory(target + np.uint64(work.sge0_length), source, np.uint64(work.sge1_length))


@hot
def _scatter(state: RdmaState, work: Records, pd: Int, source: Int) -> None:
    """Copy from raw address `source` to the (checked) local pieces."""
    own = state.public[0] + _REGIONS
    if work.sge_count > 0 and work.sge0_length > 0:
        index = check_region(
            own, work.sge0_lkey, pd, work.sge0_address, np.uint64(work.sge0_length), _NO_RIGHT
        )
        copy_memory(
            raw_address(own, index, work.sge0_address, state.backings), source, np.uint64(work.sge0_length)
        )
    if work.sge_count > 1 and work.sge1_length > 0:
        index = check_region(
            own, work.sge1_lkey, pd, work.sge1_address, np.uint64(work.sge1_length), _NO_RIGHT
        )
        target = raw_address(own, index, work.sge1_address, state.backings)
        copy_memory(target, source + np.uint64(work.sge0_length), np.uint64(work.sge1_length))


@hot
def _local_ok(state: RdmaState, work: Records, pd: Int, pieces: Int, right: Int) -> Flag:
    own = state.public[0] + _REGIONS
    if pieces > 0 and work.sge0_length > 0:
        length = np.uint64(work.sge0_length)
        index = check_region(own, work.sge0_lkey, pd, work.sge0_address, length, right)
        if index < 0 or raw_address(own, index, work.sge0_address, state.backings) == _ZERO:
            return False
    if pieces > 1 and work.sge1_length > 0:
        length = np.uint64(work.sge1_length)
        index = check_region(own, work.sge1_lkey, pd, work.sge1_address, length, right)
        if index < 0 or raw_address(own, index, work.sge1_address, state.backings) == _ZERO:
            return False
    return True


@hot
def _post_record(
    outbox: Int,
    kind: Int,
    qp: Int,
    opcode: Int,
    imm_data: Int,
    byte_len: Int,
    wr_id: Int,
    counter: Int,
) -> None:
    tail = np.uint64(load_u64(outbox + _TAIL))
    record = outbox + _RECORDS + (tail % _INBOX_COUNT) * _RECORD_BYTES
    store_u32(record, np.uint32(kind))
    store_u32(record + np.uint64(4), qp)
    store_u32(record + np.uint64(8), np.uint32(opcode))
    store_u32(record + np.uint64(12), imm_data)
    store_u64(record + np.uint64(16), byte_len)
    store_u64(record + np.uint64(24), wr_id)
    store_u32(record + np.uint64(32), np.uint32(counter + 1))
    store_u64(record + np.uint64(56), tail + _ONE)
    store_u64(outbox + _TAIL, tail + _ONE)


@hot
def _result(operation: Int, old: Int, operand: Int) -> Int:
    """Return what an atomic stores. Source: fi_atomic(3), "Atomic Operations"."""
    if operation == _AND:
        return old & operand
    if operation == _OR:
        return old | operand
    if operation == _XOR:
        return old ^ operand
    if operation == _MIN:
        return min(old, operand)
    if operation == _MAX:
        return max(old, operand)
    return operand


@hot
def _change(target: Int, operation: Int, operand: Int, swap: Int) -> Int:
    """Carry out an atomic at raw address `target`; return the old value."""
    if operation == _SUM:
        return np.uint64(fetch_add_u64(target, operand))
    if operation == _CSWAP:
        return np.uint64(compare_swap_u64(target, operand, swap))
    while True:
        old = np.uint64(load_u64(target))
        new = _result(operation, old, operand)
        if np.uint64(compare_swap_u64(target, old, new)) == old:
            return old


@hot
def _execute(state: RdmaState, qp: Int, work: Records) -> Int:
    pair = state.queue_pairs[qp]
    peer = state.peers[pair.peer]
    pd = pair.pd
    opcode = work.opcode
    length = _ZERO
    atomic = opcode == _COMPARE_SWAP or opcode == _FETCH_ADD or opcode == _ATOMIC
    pieces = np.int64(work.sge_count)
    if pieces > 0:
        length += np.uint64(work.sge0_length)
    if pieces > 1:
        length += np.uint64(work.sge1_length)
    writes_back = atomic or opcode == _READ
    if not _local_ok(state, work, pd, pieces, _LOCAL_WRITE if writes_back else _NO_RIGHT):
        return _LOC_PROT
    table = peer.public + _REGIONS
    entry = peer.public + _QUEUE_PAIRS + np.uint64(pair.remote_qp) * _QUEUE_PAIR_BYTES
    remote_state = np.int64(load_u32(entry + _QP_STATE))
    if remote_state < READY_STATES or remote_state > READY_STATES + 1:
        return _RETRY
    remote_pd = np.uint32(load_u32(entry + _QP_PD))
    backings = state.peer_backings[pair.peer]
    is_write = opcode == _WRITE or opcode == _WRITE_IMM
    target = _ZERO
    counter = -1
    if atomic:
        length = _EIGHT
    if atomic or (length > _ZERO and (is_write or opcode == _READ)):
        right = _RIGHT_WRITE
        if atomic:
            right = _RIGHT_ATOMIC
            if work.remote_address % _EIGHT != _ZERO:
                return _REM_INV
        elif opcode == _READ:
            right = _RIGHT_READ
        index = check_region(table, work.rkey, remote_pd, work.remote_address, length, right)
        if index < 0:
            return _REM_ACCESS
        target = raw_address(table, index, work.remote_address, backings)
        if target == _ZERO:
            return BUSY
        if opcode != _READ:
            counter = arrival_counter(table, index)
    consumes = opcode == _SEND or opcode == _SEND_IMM
    if opcode == _WRITE_IMM:
        consumes = np.int64(load_u32(entry + _QP_FLAGS)) & FLAG_IMPLICIT_RECEIVES == 0
    notify = counter >= 0 or opcode == _WRITE_IMM or consumes
    if notify:
        posted, taken = np.uint64(load_u64(peer.outbox + _TAIL)), np.uint64(load_u64(peer.outbox + _HEAD))
        if taken > posted or posted - taken >= _INBOX_COUNT:
            return BUSY
    wr_id = _ZERO
    if consumes:
        head = np.uint64(load_u64(entry + _QP_RECEIVE_HEAD))
        slot = np.uint64(pair.remote_qp) * _RECEIVE_COUNT + head % _RECEIVE_COUNT
        receive = peer.public + _RECEIVES + slot * _RECEIVE_BYTES
        if np.uint64(load_u64(receive + _RX_READY)) != head + _ONE:
            return BUSY
        if opcode != _WRITE_IMM and length > _ZERO:
            room = np.uint64(load_u32(receive + _RX_LENGTH))
            address = np.uint64(load_u64(receive))
            if length > room:
                return _REM_INV
            lkey = np.uint32(load_u32(receive + _RX_LKEY))
            index = check_region(table, lkey, remote_pd, address, length, _LOCAL_WRITE)
            if index < 0:
                return _REM_OP
            target = raw_address(table, index, address, backings)
            if target == _ZERO:
                return BUSY
        wr_id = np.uint64(load_u64(receive + _RX_WR_ID))
        store_u64(entry + _QP_RECEIVE_HEAD, head + _ONE)
    if opcode == _READ:
        _scatter(state, work, pd, target)
    elif atomic:
        operation: Int = np.int64(work.options) >> OPERATION_SHIFT & 7
        if opcode == _FETCH_ADD:
            operation = _SUM
        elif opcode == _COMPARE_SWAP:
            operation = _CSWAP
        swap = np.uint64(work.sge1_length) | (np.uint64(work.sge1_lkey) << _SHIFT)
        old = _change(target, operation, work.sge1_address, swap)
        if pieces > 0:
            own = state.public[0] + _REGIONS
            index = check_region(own, work.sge0_lkey, pd, work.sge0_address, _EIGHT, _LOCAL_WRITE)
            store_u64(raw_address(own, index, work.sge0_address, state.backings), old)
    elif length > _ZERO:
        _gather(state, work, pd, target)
    if notify:
        kind = ARRIVED_RECEIVE if consumes else ARRIVED_WRITE
        _post_record(peer.outbox, kind, pair.remote_qp, opcode, work.imm_data, length, wr_id, counter)
    return _OK


@hot
def _matching(receives: Int, tag: Int) -> Int:
    """Return the place of the oldest posted tagged receive that `tag` matches, or -1."""
    found = -1
    oldest = _ZERO
    for place in range(np.int64(_TAGGED_COUNT)):
        entry = receives + np.uint64(place) * _TAGGED_BYTES
        if np.uint64(load_u64(entry + _TX_STATE)) != _IS_POSTED:
            continue
        differs = (np.uint64(load_u64(entry + _TX_TAG)) ^ tag) & ~np.uint64(load_u64(entry + _TX_IGNORE))
        order = np.uint64(load_u64(entry + _TX_ORDER))
        if differs == _ZERO and (found < 0 or order < oldest):
            found = place
            oldest = order
    return found


@hot
def _execute_tagged(state: RdmaState, qp: Int, work: Records) -> Int:
    """Carry out a tagged send: the oldest receive whose tag matches takes the message."""
    pair = state.queue_pairs[qp]
    peer = state.peers[pair.peer]
    if not _local_ok(state, work, pair.pd, np.int64(work.sge_count), _NO_RIGHT):
        return _LOC_PROT
    length = np.uint64(work.sge0_length) if work.sge_count > 0 else _ZERO
    if work.sge_count > 1:
        length += np.uint64(work.sge1_length)
    entry = peer.public + _QUEUE_PAIRS + np.uint64(pair.remote_qp) * _QUEUE_PAIR_BYTES
    remote_state = np.int64(load_u32(entry + _QP_STATE))
    if remote_state < READY_STATES or remote_state > READY_STATES + 1:
        return _RETRY
    posted, taken = np.uint64(load_u64(peer.outbox + _TAIL)), np.uint64(load_u64(peer.outbox + _HEAD))
    if taken > posted or posted - taken >= _INBOX_COUNT:
        return BUSY
    receives = peer.public + _TAGGED + np.uint64(pair.remote_qp) * _TAGGED_COUNT * _TAGGED_BYTES
    place = _matching(receives, work.remote_address)
    if place < 0:
        return BUSY
    receive = receives + np.uint64(place) * _TAGGED_BYTES
    target = _ZERO
    if length > _ZERO:
        if length > np.uint64(load_u32(receive + _RX_LENGTH)):
            return _REM_INV
        table = peer.public + _REGIONS
        remote_pd, lkey = np.uint32(load_u32(entry + _QP_PD)), np.uint32(load_u32(receive + _RX_LKEY))
        address = np.uint64(load_u64(receive))
        index = check_region(table, lkey, remote_pd, address, length, _LOCAL_WRITE)
        if index < 0:
            return _REM_OP
        target = raw_address(table, index, address, state.peer_backings[pair.peer])
        if target == _ZERO:
            return BUSY
    if np.uint64(compare_swap_u64(receive + _TX_STATE, _IS_POSTED, _IS_TAKEN)) != _IS_POSTED:
        return BUSY
    if length > _ZERO:
        _gather(state, work, pair.pd, target)
    wr_id = np.uint64(load_u64(receive + _RX_WR_ID))
    _post_record(
        peer.outbox, ARRIVED_TAGGED, pair.remote_qp, _TAGGED_SEND, np.uint32(0), length, wr_id, place
    )
    return _OK


@hot
def direct_post(state: RdmaState, qp: Int, work: Records) -> Int:
    """Carry out one work request on a direct queue pair; return its VerbsStatus, or BUSY (nothing
    happened).
    """
    pair = state.queue_pairs[qp]
    peer = state.peers[pair.peer]
    if peer.public == _ZERO or peer.outbox == _ZERO:
        return _RETRY
    opcode = work.opcode
    tagged = opcode == _TAGGED_SEND
    if not _WRITE <= opcode <= _FETCH_ADD and opcode != _ATOMIC and not tagged:
        return _LOC_OP
    fewest, most = 0, 2
    if opcode >= _COMPARE_SWAP and not tagged:
        fewest, most = 0 if opcode == _ATOMIC else 1, 1
    if not fewest <= work.sge_count <= most:
        return _LOC_OP
    if most == 1 and work.sge_count == 1 and work.sge0_length != _EIGHT:
        return _LOC_OP
    exchange_u64(peer.outbox + _BUSY_FLAG, _ONE)
    status = _execute_tagged(state, qp, work) if tagged else _execute(state, qp, work)
    store_u64(peer.outbox + _BUSY_FLAG, _ZERO)
    return status
