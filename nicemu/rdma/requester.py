# SPDX-License-Identifier: Apache-2.0
"""The sending half of a reliable connection: when packets may be sent, segmentation, packet sequence numbers.

Source: InfiniBand Architecture Specification Volume 1, "Reliable Service"; rdma-core, ibv_post_send(3).
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import Opcode
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, Records, hot
from nicemu.wire import (
    ACK_REQUEST,
    EXTENSION_PLACE,
    PSN_MASK,
    TEMPLATE_BYTES,
    RcOpcode,
    begin_frame,
    crc32_copy,
    end_frame,
    headers_crc,
    store_be32,
    store_be64,
)

from .roce_lists import ahead, expect, memory_at
from .roce_state import MAX_RD_ATOMIC, NONE, RTS, SQD, RoceState
from .send_queue import KIND_ATOMIC, KIND_READ, KIND_WRITE

WINDOW_PACKETS = 64
"""Packets that may be sent beyond the oldest one without an answer."""
ACK_INTERVAL_PACKETS = 16
"""An answer is asked for at least this often, and at the end of every message."""

_OPCODES = 256
_LOC_PROTECTION = int(VerbsStatus.LOC_PROT_ERR)
_NO_RIGHT = 0
_COMPARE_SWAP = int(Opcode.COMPARE_SWAP)
_READ_REQUEST = int(RcOpcode.RDMA_READ_REQUEST)
_SWAP_PACKET, _ADD_PACKET = int(RcOpcode.COMPARE_SWAP), int(RcOpcode.FETCH_ADD)
_ZERO = np.uint64(0)


def _segments() -> np.ndarray:
    """Return the packet's opcode by [opcode of the work][is the first packet][is the last packet]."""
    segments = np.zeros((_OPCODES, 2, 2), np.int64)
    for name in ("SEND", "RDMA_WRITE"):
        for suffix, ending in (("", ""), ("_WITH_IMM", "_WITH_IMMEDIATE")):
            segments[Opcode[name + suffix]] = (
                (RcOpcode[f"{name}_MIDDLE"], RcOpcode[f"{name}_LAST{ending}"]),
                (RcOpcode[f"{name}_FIRST"], RcOpcode[f"{name}_ONLY{ending}"]),
            )
    return segments


_SEGMENTS = _segments()
_HAS_IMMEDIATE = np.zeros(_OPCODES, np.int64)
_HAS_IMMEDIATE[[Opcode.SEND_WITH_IMM, Opcode.RDMA_WRITE_WITH_IMM]] = 1


@hot
def may_send(state: RoceState, pair: Records) -> Flag:
    """True if the packet that comes next may be sent now."""
    if pair.cursor == NONE or pair.wait_until_ns != NONE or (pair.state != RTS and pair.state != SQD):
        return False
    message = state.sends[pair.cursor]
    if message.error != 0 or pair.send_psn - pair.unanswered_psn >= WINDOW_PACKETS:
        return False
    if pair.send_psn == message.first_psn and pair.send_psn >= pair.sent_end_psn:
        if pair.state == SQD:
            return False
        if message.kind >= KIND_READ and pair.data_awaited >= MAX_RD_ATOMIC:
            return False
    return True


@hot
def gather(
    state: RoceState, pair: Records, message: Records, offset: Int, length: Int, target: Int, crc: Int
) -> Int:
    """Copy from the local pieces, addressed as if they were one, to `target`; return the CRC that continues
    `crc`, or -1 if a key does not cover its part any more.
    """
    for number in range(message.sge_count):
        size = np.int64(message.length0 if number == 0 else message.length1)
        if offset >= size or length == 0:
            offset -= min(offset, size)
            continue
        part = min(size - offset, length)
        address = ahead(np.uint64(message.address0 if number == 0 else message.address1), offset)
        key = message.lkey0 if number == 0 else message.lkey1
        source = memory_at(state, pair.pd, key, address, part, _NO_RIGHT)
        if source == 0:
            return -1
        crc = crc32_copy(crc, target, source, part)
        target += part
        length -= part
        offset = 0
    return crc


@hot
def _request_frame(state: RoceState, pair: Records, template: Int, message: Records, target: Int) -> Int:
    """Make a READ or atomic request (a READ's stands for all its responses); return the frame's length."""
    psn = np.int64(pair.send_psn)
    place = target + EXTENSION_PLACE
    offset = (psn - message.first_psn) * pair.path_mtu
    opcode = _READ_REQUEST
    if message.kind == KIND_ATOMIC:
        opcode = _SWAP_PACKET if message.opcode == _COMPARE_SWAP else _ADD_PACKET
    begin_frame(target, template, opcode, pair.remote_number, psn & PSN_MASK | ACK_REQUEST, 0)
    store_be64(place, ahead(np.uint64(message.remote_address), offset))
    store_be32(place + 8, message.rkey)
    if message.kind == KIND_READ:
        store_be32(place + 12, message.length - offset)
        pair.send_psn = message.end_psn
        return end_frame(target, place + 16, headers_crc(target, opcode), 0)
    swaps = message.opcode == _COMPARE_SWAP
    store_be64(place + 12, message.swap if swaps else message.compare_add)
    store_be64(place + 20, message.compare_add if swaps else _ZERO)
    pair.send_psn = psn + 1
    return end_frame(target, place + 28, headers_crc(target, opcode), 0)


@hot
def _segment_frame(state: RoceState, pair: Records, template: Int, message: Records, target: Int) -> Int:
    """Make a packet of a SEND or WRITE; return the frame's length, or 0 if its memory is ours no more."""
    psn = np.int64(pair.send_psn)
    mtu = np.int64(pair.path_mtu)
    offset = (psn - message.first_psn) * mtu
    length = min(mtu, message.length - offset)
    first, last = psn == message.first_psn, psn + 1 == message.end_psn
    opcode = _SEGMENTS[message.opcode, np.int64(first), np.int64(last)]
    psn_word = psn & PSN_MASK
    if last or psn + 1 - pair.unanswered_psn >= WINDOW_PACKETS or (psn + 1) % ACK_INTERVAL_PACKETS == 0:
        psn_word |= ACK_REQUEST
    payload = begin_frame(target, template, opcode, pair.remote_number, psn_word, length)
    if first and message.kind == KIND_WRITE:
        store_be64(target + EXTENSION_PLACE, message.remote_address)
        store_be32(target + EXTENSION_PLACE + 8, message.rkey)
        store_be32(target + EXTENSION_PLACE + 12, message.length)
    if last and _HAS_IMMEDIATE[message.opcode] != 0:
        store_be32(payload - 4, message.imm_data)
    crc = gather(state, pair, message, offset, length, payload, headers_crc(target, opcode))
    if crc < 0:
        message.error = _LOC_PROTECTION
        return 0
    pair.send_psn = psn + 1
    return end_frame(target, payload + length, crc, length)


@hot
def make_frame(state: RoceState, pair: Records, template: Int, message: Records, target: Int) -> Int:
    """Make the packet of a message at `send_psn`, which moves on; return the frame's length, or 0 if its
    memory is ours no more.
    """
    if message.kind >= KIND_READ:
        return _request_frame(state, pair, template, message, target)
    return _segment_frame(state, pair, template, message, target)


@hot
def start_timer(state: RoceState, index: Int, pair: Records) -> None:
    """Wait for an answer, if none is waited for yet."""
    if pair.deadline_ns == NONE and pair.timeout_ns != 0:
        pair.deadline_ns = state.engine[0].now_ns + pair.timeout_ns
        expect(state, index, np.int64(pair.deadline_ns))


@hot
def make_request(state: RoceState, index: Int, target: Int) -> Int:
    """Make the frame that `may_send` allows; return its length, or 0 if its memory is not ours any more.

    Then the message has an error, with which it ends when it is the first one.
    """
    pair = state.queue_pairs[index]
    message = state.sends[pair.cursor]
    psn = np.int64(pair.send_psn)
    length = make_frame(state, pair, state.engine[0].templates + index * TEMPLATE_BYTES, message, target)
    if length == 0:
        return 0
    if psn < pair.sent_end_psn:
        state.engine[0].retransmitted += 1
    start_timer(state, index, pair)
    pair.sent_end_psn = max(pair.sent_end_psn, pair.send_psn)
    if pair.send_psn == message.end_psn:
        pair.cursor = message.next
        if message.kind >= KIND_READ:
            pair.data_awaited += 1
    return length
