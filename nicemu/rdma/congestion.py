# SPDX-License-Identifier: Apache-2.0
"""DCQCN: marks become notifications, notifications lower the rate of a queue pair, time and bytes raise it.

The notification point answers packets that carry CE with a congestion notification packet (CNP), one an
interval at most. The reaction point keeps the rate of what the queue pair sends, requests and READ
responses; a queue pair that was never notified, or is back at the rate of the line, is not limited. Its
timers are caught up with when it is about to send: of them it needs no deadline, only for the next frame.
Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015; InfiniBand
Architecture Specification Volume 1, Annex A17 "RoCEv2", "Congestion Notification Packet".
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Flag, Int, Records, cold
from nicemu.wire import (
    BTH_PLACE,
    CNP_OPCODE,
    EXTENSION_PLACE,
    QUEUE_PAIR_PLACE,
    begin_frame,
    end_frame,
    headers_crc,
    store_be64,
    store_u8,
)

from .responder_lists import add_first_answer
from .roce_lists import drop, expect
from .roce_state import (
    ANSWER_CNP,
    DROP,
    HAS_CONGESTION_CONTROL,
    IS_LIMITED,
    MAX_WAITING_ANSWERS,
    RoceState,
)

NEARLY = 0.999
"""A rate of so much of the line's is no limit any more."""
_MOST_DECAYS = 10_000
_BECN = 0x40
_NOT_ASKED_FOR = DROP["congestion.not_asked_for"]
_ZEROS = np.uint64(0)


@cold
def on_marked(state: RoceState, index: Int) -> None:
    """A packet has met congestion on its way here: notify the peer, unless that was done just now."""
    pair, now_ns = state.queue_pairs[index], state.engine[0].now_ns
    extra = state.extras[pair.extra]
    if now_ns < extra.cnp_after_ns or pair.answer_count >= MAX_WAITING_ANSWERS:
        return
    extra.cnp_after_ns = now_ns + state.engine[0].cnp_interval_ns
    add_first_answer(state, pair, ANSWER_CNP, 0, 0)


@cold
def make_notification(remote_number: Int, template: Int, target: Int) -> Int:
    """Make a CNP; return the frame's length."""
    end = begin_frame(target, template, CNP_OPCODE, remote_number, 0, 0)
    store_u8(target + BTH_PLACE + 1, 0)
    store_u8(target + QUEUE_PAIR_PLACE, _BECN)
    store_be64(target + EXTENSION_PLACE, _ZEROS)
    store_be64(target + EXTENSION_PLACE + 8, _ZEROS)
    return end_frame(target, end, headers_crc(target, CNP_OPCODE), 0)


@cold
def _raise_rate(pair: Records, extra: Records, settings: Records) -> None:
    """A stage has ended: fast recovery, then additive increase, then hyper increase."""
    stages = settings.fast_recovery_stages
    if max(extra.byte_stage, extra.time_stage) >= stages:
        least = min(extra.byte_stage, extra.time_stage)
        if least > stages:
            extra.target_rate += (least - stages) * settings.hyper_increase
        else:
            extra.target_rate += settings.additive_increase
        extra.target_rate = min(extra.target_rate, settings.line_rate)
    extra.rate = (extra.rate + extra.target_rate) / 2.0
    if extra.rate >= NEARLY * settings.line_rate:
        pair.features &= ~IS_LIMITED


@cold
def _catch_up(pair: Records, extra: Records, settings: Records, now_ns: Int) -> None:
    """Let the timers run that have ended by now."""
    decays = 0
    while extra.alpha_at_ns <= now_ns:
        if decays == _MOST_DECAYS:
            extra.alpha_at_ns = now_ns + settings.alpha_timer_ns
            break
        decays += 1
        extra.alpha *= 1.0 - settings.g
        extra.alpha_at_ns += settings.alpha_timer_ns
    while pair.features & IS_LIMITED != 0 and extra.increase_at_ns <= now_ns:
        extra.time_stage += 1
        extra.increase_at_ns += settings.increase_timer_ns
        _raise_rate(pair, extra, settings)


@cold
def on_notification(state: RoceState, index: Int) -> None:
    """Lower the rate of a queue pair; one without congestion control goes on as it was."""
    pair, settings = state.queue_pairs[index], state.engine[0]
    now_ns = settings.now_ns
    if pair.features & HAS_CONGESTION_CONTROL == 0:
        drop(state, _NOT_ASKED_FOR)
        return
    extra = state.extras[pair.extra]
    if extra.notified == 0:
        extra.notified, extra.alpha = 1, 1.0
    else:
        _catch_up(pair, extra, settings, now_ns)
    if pair.features & IS_LIMITED == 0:
        pair.features |= IS_LIMITED
        extra.rate, extra.pace_ns = settings.line_rate, now_ns
    extra.target_rate = extra.rate
    extra.rate = max(extra.rate * (1.0 - extra.alpha / 2.0), settings.least_rate)
    extra.alpha = (1.0 - settings.g) * extra.alpha + settings.g
    extra.byte_stage = extra.time_stage = 0
    extra.bytes_left = settings.byte_counter
    extra.alpha_at_ns = now_ns + settings.alpha_timer_ns
    extra.increase_at_ns = now_ns + settings.increase_timer_ns


@cold
def must_wait(state: RoceState, index: Int) -> Flag:
    """True if it is not yet time for the next frame of a limited queue pair; the timer will tell."""
    pair, settings = state.queue_pairs[index], state.engine[0]
    extra, now_ns = state.extras[pair.extra], settings.now_ns
    _catch_up(pair, extra, settings, now_ns)
    if pair.features & IS_LIMITED == 0 or extra.pace_ns <= now_ns:
        return False
    extra.paced_until_ns = extra.pace_ns
    expect(state, index, np.int64(extra.pace_ns))
    return True


@cold
def count_frame(state: RoceState, index: Int, length: Int) -> None:
    """A frame of so many bytes has been made: the next one has to wait as long as the rate says."""
    pair, settings = state.queue_pairs[index], state.engine[0]
    extra = state.extras[pair.extra]
    if pair.features & IS_LIMITED == 0:
        return
    extra.pace_ns = max(extra.pace_ns, settings.now_ns) + np.int64(length / extra.rate) + 1
    extra.bytes_left -= length
    if extra.bytes_left <= 0:
        extra.bytes_left += settings.byte_counter
        extra.byte_stage += 1
        _raise_rate(pair, extra, settings)
