# SPDX-License-Identifier: Apache-2.0
"""Unreliable datagrams: each message is one packet, which nobody acknowledges.

A receive begins with the 40 bytes that verbs keep for a global route header. Over IPv4 the header of the
packet lies in the last 20 of them; the first 20 are left as they are.
Source: InfiniBand Architecture Specification Volume 1, "Unreliable Datagram", "Q_Key", "Datagram Extended
Transport Header"; Annex A17 "RoCEv2"; ibv_post_recv(3).
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import Access, Opcode
from nicemu.errors import VerbsStatus
from nicemu.hot import Flag, Int, Records, cold, hot
from nicemu.wire import (
    EXTENSION_PLACE,
    IP_PLACE,
    IP_SOURCE_PLACE,
    IPV4_HEADER_BYTES,
    PSN_MASK,
    UdOpcode,
    begin_frame,
    end_frame,
    extension_bytes,
    headers_crc,
    load_be32,
    payload_bytes,
    store_be32,
)

from .requester import gather
from .responder_lists import end_receive, free_receive, receive_is_ours, room_of, take_receive
from .roce_error import enter_error
from .roce_lists import arrive, drop, handle_place, scatter
from .roce_state import DATAGRAM, DATAGRAM_WITH_IMM, DROP, NONE, RoceState
from .send_queue import end_first

GRH_BYTES = 40
_IP_IN_GRH = GRH_BYTES - IPV4_HEADER_BYTES
_OK, _LOC_OPCODE = int(VerbsStatus.SUCCESS), int(VerbsStatus.LOC_QP_OP_ERR)
_LOC_PROTECTION, _LOCAL_WRITE = int(VerbsStatus.LOC_PROT_ERR), int(Access.LOCAL_WRITE)
_WITH_IMM = int(Opcode.SEND_WITH_IMM)
_ONLY, _ONLY_WITH_IMM = int(UdOpcode.SEND_ONLY), int(UdOpcode.SEND_ONLY_WITH_IMMEDIATE)
_WRONG_KEY, _NO_RECEIVE = DROP["datagram.q_key"], DROP["datagram.no_receive"]
_TOO_LONG = DROP["datagram.too_long"]
_FIRST_CONTROLLED = np.uint32(1 << 31)
_NO_IMMEDIATE = np.uint32(0)


@hot
def is_datagram(opcode: Int) -> Flag:
    """True if a queue pair of type UD takes such packets."""
    return _ONLY <= opcode <= _ONLY_WITH_IMM


@cold
def make_datagram(state: RoceState, index: Int, target: Int) -> Int:
    """Make the packet of the message whose turn it is, and complete it; return the frame's length.

    A controlled Q_Key, one with the high bit set, is never the work's: the queue pair's own is sent instead.
    0: its memory or its address handle is ours no more. Then the message has an error, with which it ends.
    """
    pair = state.queue_pairs[index]
    message = state.sends[pair.cursor]
    template = handle_place(state, message.remote_address)
    if template == 0:
        message.error = _LOC_OPCODE
        return 0
    has_imm = message.opcode == _WITH_IMM
    opcode = _ONLY_WITH_IMM if has_imm else _ONLY
    length = np.int64(message.length)
    number = np.int64(message.compare_add & np.uint64(PSN_MASK))
    payload = begin_frame(target, template, opcode, number, message.first_psn & PSN_MASK, length)
    q_key = np.uint32(message.rkey)
    if q_key >= _FIRST_CONTROLLED:
        q_key = np.uint32(state.extras[pair.extra].q_key)
    store_be32(target + EXTENSION_PLACE, q_key)
    store_be32(target + EXTENSION_PLACE + 4, pair.number)
    if has_imm:
        store_be32(payload - 4, message.imm_data)
    crc = gather(state, pair, message, 0, length, payload, headers_crc(target, opcode))
    if crc < 0:
        message.error = _LOC_PROTECTION
        return 0
    pair.send_psn = pair.unanswered_psn = pair.sent_end_psn = message.end_psn
    end_first(state, pair, _OK, length)
    return end_frame(target, payload + length, crc, length)


@hot
def _land(state: RoceState, pair: Records, receive: Records, frame: Int, payload: Int, length: Int) -> Flag:
    if not scatter(state, pair.pd, receive, _IP_IN_GRH, frame + IP_PLACE, IPV4_HEADER_BYTES, _LOCAL_WRITE):
        return False
    return scatter(state, pair.pd, receive, GRH_BYTES, payload, length, _LOCAL_WRITE)


@cold
def on_datagram(state: RoceState, index: Int, frame: Int, opcode: Int) -> None:
    """Take a datagram; one with another Q_Key, without a receive, or that is too long is dropped."""
    pair = state.queue_pairs[index]
    if load_be32(frame + EXTENSION_PLACE) != state.extras[pair.extra].q_key:
        drop(state, _WRONG_KEY)
        return
    if pair.receive_head == NONE:
        drop(state, _NO_RECEIVE)
        return
    length = payload_bytes(frame, opcode)
    if length > pair.path_mtu or GRH_BYTES + length > room_of(state.receives[pair.receive_head]):
        drop(state, _TOO_LONG)
        return
    slot = take_receive(state, pair)
    receive = state.receives[slot]
    payload = frame + EXTENSION_PLACE + extension_bytes(opcode)
    if not receive_is_ours(state, pair, receive) or not _land(state, pair, receive, frame, payload, length):
        end_receive(state, pair, slot, _LOC_PROTECTION)
        enter_error(state, index)
        return
    free_receive(state, slot)
    has_imm = np.int64(opcode == _ONLY_WITH_IMM)
    imm_data = np.uint32(load_be32(payload - 4)) if has_imm != 0 else _NO_IMMEDIATE
    kind = DATAGRAM_WITH_IMM if has_imm != 0 else DATAGRAM
    wr_id = np.uint64(receive.wr_id)
    arrive(state, pair, kind, GRH_BYTES + length, imm_data, has_imm, _NO_IMMEDIATE, wr_id)
    entry = state.arrived[state.engine[0].arrived_count - 1]
    entry.source_qp = load_be32(frame + EXTENSION_PLACE + 4) & PSN_MASK
    entry.source_address = load_be32(frame + IP_SOURCE_PLACE)
