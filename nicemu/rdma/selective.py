# SPDX-License-Identifier: Apache-2.0
"""Selective retransmission: what is missing alone is sent again, not all behind it.

An option between engines of nicemu, in the way of IRN; the specification has go-back-N. A responder keeps
packets behind a gap, and its NAK for the packet that it expects carries 64 bits: which of those behind it are
here. What is missing before the last of these is sent again, once; once more where a packet that was first
sent after it has arrived and it has not. All else is for the retry timer, which goes back. The window of
64 packets bounds what is under way, as IRN's bandwidth-delay product does.
Source: Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018, "IRN's Loss Recovery Mechanism".
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Flag, Int, cold
from nicemu.wire import TEMPLATE_BYTES

from .requester import make_frame, start_timer
from .roce_state import HAS_SACKS, NONE, RTS, SELECTIVE_PACKETS, SQD, RoceState
from .send_queue import KIND_READ

_ONE, _ZERO = np.uint64(1), np.uint64(0)


@cold
def shift_sacks(state: RoceState, index: Int, psn: Int) -> None:
    """All before `psn` is answered."""
    pair = state.queue_pairs[index]
    extra = state.extras[pair.extra]
    steps = psn - pair.unanswered_psn
    extra.sacked = extra.sacked >> np.uint64(steps) if steps < SELECTIVE_PACKETS else _ZERO
    if extra.sacked == _ZERO:
        pair.features &= ~HAS_SACKS


@cold
def take_sack(state: RoceState, index: Int, bits: Int) -> None:
    """Take note of packets that have arrived behind the oldest one without an answer."""
    pair = state.queue_pairs[index]
    extra = state.extras[pair.extra]
    bits = np.uint64(bits)
    sent = pair.sent_end_psn - pair.unanswered_psn - 1
    if sent < SELECTIVE_PACKETS:
        bits &= (_ONE << np.uint64(sent)) - _ONE
    begins = pair.features & HAS_SACKS == 0
    extra.sacked = bits if begins else extra.sacked | bits
    if extra.sacked == _ZERO:
        return
    pair.features |= HAS_SACKS
    left, last = np.uint64(extra.sacked), 0
    while left != _ZERO:
        left >>= _ONE
        last += 1
    extra.sack_end_psn = pair.unanswered_psn + 1 + last
    if begins or extra.sack_end_psn > extra.pass_end_psn:
        extra.resend_psn, extra.pass_end_psn = pair.unanswered_psn, pair.sent_end_psn


@cold
def _is_missing(sacked: Int, place: Int) -> Flag:
    return place < 0 or np.uint64(sacked) >> np.uint64(place) & _ONE == _ZERO


@cold
def make_missing(state: RoceState, index: Int, target: Int) -> Int:
    """Make the frame of a packet that is missing again; return its length, or 0 if there is none now."""
    pair = state.queue_pairs[index]
    if pair.wait_until_ns != NONE or (pair.state != RTS and pair.state != SQD):
        return 0
    extra = state.extras[pair.extra]
    slot = np.int64(pair.send_head)
    psn = max(np.int64(extra.resend_psn), np.int64(pair.unanswered_psn))
    end = min(np.int64(extra.sack_end_psn), np.int64(pair.send_psn))
    while psn < end:
        while slot != NONE and state.sends[slot].end_psn <= psn:
            slot = np.int64(state.sends[slot].next)
        if slot == NONE or state.sends[slot].error != 0:
            return 0
        message = state.sends[slot]
        is_request = message.kind < KIND_READ or psn == message.first_psn
        if is_request and _is_missing(np.uint64(extra.sacked), psn - pair.unanswered_psn - 1):
            break
        psn = np.int64(message.end_psn) if message.kind == KIND_READ else psn + 1
    if psn >= end:
        extra.resend_psn = psn
        return 0
    send_psn = np.int64(pair.send_psn)
    pair.send_psn = psn
    length = make_frame(state, pair, state.engine[0].templates + index * TEMPLATE_BYTES, message, target)
    extra.resend_psn, pair.send_psn = pair.send_psn, send_psn
    if length != 0:
        state.engine[0].retransmitted += 1
        start_timer(state, index, pair)
    return length
