# SPDX-License-Identifier: Apache-2.0
"""The traffic manager of v1model as hot functions: packets that become several, or come again.

It does what `nicemu.pipeline`'s does, a block of the program at a time, on states as kernels leave them, and
tests hold the two equal. `desk` is the address of the words that say where all lies that it works on.
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Int, cold, hot
from nicemu.pcie import copy_memory, load_u32, load_u64, store_u32, store_u64

from . import traffic_words as at
from .machine_calls import call_machine_code
from .records import (
    AFTER_EGRESS,
    AFTER_INGRESS,
    ASSERTION,
    DROPPED,
    NO_GROUP,
    OVERSIZED,
    SPLIT,
    TO_HOST,
    TO_PORT,
    TOO_MANY_COPIES,
    TOO_MANY_ROUNDS,
)

u64, u32 = np.uint64, np.uint32
_ZERO, _ONE, _EIGHT = u64(0), u64(1), u64(8)


@hot
def forward(desk: Int, packets: Int, first: Int, count: Int, fetches: Int) -> Int:
    """Take packets from number `first` on through the kernel and the traffic manager.

    packets: the address of PACKET[count]. Returns the number behind the last that was taken. Where a packet's
    effects are to be told, or there is not surely room for all that may become of it, that is this one, and
    its verdict says that the traffic manager has yet to see it. What has left goes first if it takes the room
    that the next packet may need; then no verdict says so. Effects of copies are lost.
    """
    done = u64(first)
    while done < count:
        if load_u64(desk + at.LEFT_COUNT) != _ZERO and not _has_room(desk, u64(load_u64(desk + at.LONGEST))):
            return done
        store_u64(load_u64(desk + at.NEXT_STATE), load_u64(desk + at.STATE))
        upcoming = packets + done * at.PACKET_BYTES
        run, context = load_u64(desk + at.RUN), load_u64(desk + at.CONTEXT)
        done += u64(call_machine_code(run, context, upcoming, u64(count) - done, fetches))
        last = packets + (done - _ONE) * at.PACKET_BYTES
        verdict = _verdict_of(last)
        if verdict == u64(AFTER_INGRESS) or verdict == u64(AFTER_EGRESS):
            told = load_u64(desk + at.TOLD) != _ZERO and load_u32(last + at.EFFECT_COUNT) != u32(0)
            if told or not _has_room(desk, u64(load_u32(last + at.LENGTH))):
                return done
            _journey(desk, last, done - _ONE)
    return done


@hot
def _verdict_of(packet: Int) -> Int:
    return u64(load_u32(packet + at.VERDICT)) & at.HALF


@hot
def _has_room(desk: Int, length: Int) -> Int:
    """Whether there is room for all copies of a frame, each as long as it may become."""
    headroom, most = u64(load_u64(desk + at.HEADROOM)), u64(load_u64(desk + at.MOST_OF_ONE))
    grown = u64(length) + headroom * u64(load_u64(desk + at.ROUNDS_OF_ONE))
    each = min(grown, max(u64(length), at.MOST_BYTES)) + headroom + headroom + at.LINE
    left = u64(load_u64(desk + at.ROOM_END)) - u64(load_u64(desk + at.ROOM))
    count = u64(load_u64(desk + at.LEFT_COUNT)) + most
    return left >= each * (most + _ONE) and count <= u64(load_u64(desk + at.LEFT_MOST))


@hot
def _journey(desk: Int, packet: Int, number: Int) -> None:
    """Do all that comes of a packet, which the kernel has left behind ingress or egress."""
    for place in (at.HEAD, at.TAIL, at.REASON, at.LIMIT):
        store_u64(desk + place, _ZERO)
    store_u64(desk + at.NUMBER, number)
    store_u64(desk + at.ARRIVAL_PORT, u64(load_u32(packet + at.IN_PORT)))
    store_u64(desk + at.NOW_NS, load_u64(packet + at.TIME))
    before = u64(load_u64(desk + at.LEFT_COUNT))
    frame, length = u64(load_u64(packet)), u64(load_u32(packet + at.LENGTH))
    state = _taken(desk, load_u64(packet + at.STATE_AT))
    next_effect = u64(load_u64(u64(load_u64(desk + at.NEXT_EFFECT))))
    if _verdict_of(packet) == u64(AFTER_INGRESS):
        store_u64(desk + at.COPIES, _ONE)
        _after_ingress(desk, state, frame, length, _ZERO)
    else:
        store_u64(desk + at.COPIES, _ONE + _ONE)
        _after_egress(desk, state, frame, length, u64(load_u64(state + at.AT_PORT)), _ZERO)
    while load_u64(desk + at.HEAD) != load_u64(desk + at.TAIL):
        head = u64(load_u64(desk + at.HEAD))
        item = u64(load_u64(desk + at.QUEUE)) + head * at.ITEM
        store_u64(desk + at.HEAD, head + _ONE)
        state, frame = u64(load_u64(item + _EIGHT)), u64(load_u64(item + u64(16)))
        length, port = u64(load_u64(item + u64(24))), u64(load_u64(item + u64(32)))
        rounds = u64(load_u64(item + u64(40)))
        if load_u64(item) == at.BEGIN:
            _ingress(desk, state, frame, length, rounds)
        else:
            _egress(desk, state, frame, length, port, rounds)
    store_u64(u64(load_u64(desk + at.NEXT_EFFECT)), next_effect)
    reason, limit = u64(load_u64(desk + at.REASON)), u64(load_u64(desk + at.LIMIT))
    if u64(load_u64(desk + at.LEFT_COUNT)) != before:
        store_u32(packet + at.VERDICT, u32(u64(SPLIT) | limit << u64(16)))
    else:
        store_u32(packet + at.VERDICT, u32((u64(DROPPED) | reason << u64(16)) & at.WORD))


# What is waiting, and what it works on


@hot
def _taken(desk: Int, source: Int) -> Int:
    """Return memory for a state, which holds what is at `source`."""
    count = u64(load_u64(desk + at.FREE_COUNT)) - _ONE
    store_u64(desk + at.FREE_COUNT, count)
    state = u64(load_u64(u64(load_u64(desk + at.FREE)) + count * _EIGHT))
    copy_memory(state, source, load_u64(desk + at.STATE_BYTES))
    return state


@hot
def _release(desk: Int, state: Int) -> None:
    count = u64(load_u64(desk + at.FREE_COUNT))
    store_u64(u64(load_u64(desk + at.FREE)) + count * _EIGHT, state)
    store_u64(desk + at.FREE_COUNT, count + _ONE)


@cold
def _wait(desk: Int, step: Int, state: Int, frame: Int, length: Int, port: Int, rounds: Int) -> None:
    """Have a step be done behind all that is waiting; its state is released where there are too many."""
    copies = u64(load_u64(desk + at.COPIES)) + _ONE
    store_u64(desk + at.COPIES, copies)
    if copies > at.MOST_COPIES:
        _stop(desk, u64(TOO_MANY_COPIES))
        _release(desk, state)
        return
    tail = u64(load_u64(desk + at.TAIL))
    item = u64(load_u64(desk + at.QUEUE)) + tail * at.ITEM
    store_u64(item, step)
    store_u64(item + _EIGHT, state)
    store_u64(item + u64(16), frame)
    store_u64(item + u64(24), length)
    store_u64(item + u64(32), port)
    store_u64(item + u64(40), rounds)
    store_u64(desk + at.TAIL, tail + _ONE)


@hot
def _drop(desk: Int, reason: Int) -> None:
    """Note why something is dropped; the first reason stays."""
    if u64(load_u64(desk + at.REASON)) == _ZERO:
        store_u64(desk + at.REASON, u64(reason) | at.GIVEN)


@hot
def _stop(desk: Int, limit: Int) -> None:
    """Drop what has passed a limit."""
    if u64(load_u64(desk + at.LIMIT)) == _ZERO:
        store_u64(desk + at.LIMIT, limit)
    _drop(desk, limit)


@cold
def _block(desk: Int, state: Int, frame: Int, length: Int, block: Int) -> Int:
    """Take a packet through a block of the program; return what its state says is the result."""
    if u64(load_u64(desk + at.SKIPPED)) >> u64(block) & _ONE != _ZERO:
        return _ZERO
    record = u64(load_u64(desk + at.RECORD))
    store_u64(record, frame)
    store_u32(record + at.LENGTH, u32(length))
    store_u64(record + at.TIME, load_u64(desk + at.NOW_NS))
    store_u64(load_u64(desk + at.NEXT_EFFECT), load_u64(desk + at.SCRATCH))
    call_machine_code(load_u64(desk + at.STAGE), load_u64(desk + at.CONTEXT), record, state, block)
    count = u64(load_u64(state + at.AT_EFFECTS)) + u64(load_u32(record + at.EFFECT_COUNT))
    store_u64(state + at.AT_EFFECTS, count)
    return u64(load_u64(state + at.AT_RESULT))


@hot
def _set(desk: Int, state: Int, field: Int, value: Int) -> None:
    """Set a field of the standard metadata."""
    store_u64(u64(state) + u64(load_u64(desk + field)), value)


@hot
def _get(desk: Int, state: Int, field: Int) -> Int:
    return u64(load_u64(u64(state) + u64(load_u64(desk + field))))


@hot
def _microseconds(desk: Int) -> Int:
    return u64(load_u64(desk + at.NOW_NS)) // at.MICROSECOND & at.TIME_MASK


@cold
def _restore(desk: Int, state: Int, source: Int, number: Int) -> None:
    """Copy what a field list names from one state into another."""
    if u64(number) >= at.MAX_LIST:
        return
    lists, spans = u64(load_u64(desk + at.LISTS)), u64(load_u64(desk + at.SPANS))
    span = u64(load_u64(lists + number * _EIGHT))
    end = u64(load_u64(lists + number * _EIGHT + _EIGHT))
    while span != end:
        begin = u64(load_u64(spans + span * u64(16)))
        copy_memory(state + begin, source + begin, load_u64(spans + span * u64(16) + _EIGHT))
        span += _ONE


@cold
def _replicate(
    desk: Int, state: Int, starts: Int, place: Int, truncation: Int, frame: Int, length: Int, rounds: Int
) -> None:
    """Send copies of a state to egress: by the replicas from one start to the next."""
    replica, end = u64(load_u64(starts + place * _EIGHT)), u64(load_u64(starts + place * _EIGHT + _EIGHT))
    behind = at.REQUESTS_END + u64(load_u64(desk + at.COLOURS)) * _EIGHT
    while replica != end:
        copy = _taken(desk, state)
        word = at.REQUESTS_BEGIN
        while word != behind:
            store_u64(copy + word, _ZERO)
            word += _EIGHT
        store_u64(copy + at.AT_FAILED, _ZERO)
        store_u64(copy + at.AT_EFFECTS, _ZERO)
        if truncation != _ZERO:
            store_u64(copy + at.TRUNCATE, at.ASKED)
            store_u64(copy + at.TRUNCATE_BYTES, truncation)
        pair = u64(load_u64(desk + at.REPLICAS)) + replica * u64(16)
        _set(desk, copy, at.RID, load_u64(pair + _EIGHT))
        _wait(desk, at.LEAVE, copy, frame, length, load_u64(pair), rounds)
        replica += _ONE


@hot
def _find(numbers: Int, count: Int, wanted: Int) -> Int:
    """Return the place of a number among `count` in order, `count` if it is not there."""
    low, high = _ZERO, u64(count)
    while low < high:
        middle = (low + high) >> _ONE
        if u64(load_u64(numbers + middle * _EIGHT)) < u64(wanted):
            low = middle + _ONE
        else:
            high = middle
    if low < u64(count) and u64(load_u64(numbers + low * _EIGHT)) == u64(wanted):
        return low
    return u64(count)


# Ingress


@cold
def _parsed(desk: Int, length: Int, instance_type: Int, comes: Int) -> Int:
    """Return the state of a packet before its parser; one that `comes` has a port and a time of arrival."""
    state = _taken(desk, load_u64(desk + at.ZEROS))
    if comes != _ZERO:
        _set(desk, state, at.INGRESS_PORT, u64(load_u64(desk + at.ARRIVAL_PORT)) & at.PORT_MASK)
        _set(desk, state, at.INGRESS_TIME, _microseconds(desk))
    _set(desk, state, at.PACKET_LENGTH, length)
    _set(desk, state, at.INSTANCE_TYPE, instance_type)
    return state


@cold
def _parse(desk: Int, state: Int, frame: Int, length: Int) -> Int:
    """Parse a frame; return 1 + the error, 0 for none."""
    error = u64(_block(desk, state, frame, length, at.PARSE))
    if error != _ZERO:
        _set(desk, state, at.PARSER_ERROR, error - _ONE)
    return error


@hot
def _ingress(desk: Int, state: Int, frame: Int, length: Int, rounds: Int) -> None:
    if u64(_parse(desk, state, frame, length)) == at.TIMEOUT:
        _stop(desk, at.TIMEOUT)
        _release(desk, state)
        return
    for block in (at.VERIFY, at.INGRESS):
        stuck = _block(desk, state, frame, length, block)
        if stuck != _ZERO:
            _stop(desk, stuck)
            _release(desk, state)
            return
    _after_ingress(desk, state, frame, length, rounds)


@cold
def _after_ingress(desk: Int, state: Int, frame: Int, length: Int, rounds: Int) -> None:
    clone = u64(load_u64(state + at.CLONE_I))
    if clone != _ZERO:
        store_u64(state + at.CLONE_I, _ZERO)
        _clone_of_ingress(desk, state, clone, frame, length, rounds)
    store_u64(state + at.AT_EFFECTS, _ZERO)
    group = _get(desk, state, at.GROUP)
    if load_u64(state + at.AT_FAILED) != _ZERO:
        _drop(desk, u64(ASSERTION))
    elif load_u64(state + at.RESUBMIT) != _ZERO:
        _again(desk, state, u64(load_u64(state + at.RESUBMIT_LIST)), at.RESUBMITTED, frame, length, rounds)
    elif group != _ZERO:
        place = _find(load_u64(desk + at.GROUPS), load_u64(desk + at.GROUP_COUNT), group)
        starts = u64(load_u64(desk + at.GROUP_STARTS))
        if place == u64(load_u64(desk + at.GROUP_COUNT)) or load_u64(starts + place * _EIGHT) == load_u64(
            starts + place * _EIGHT + _EIGHT
        ):
            _drop(desk, u64(NO_GROUP))
        else:
            _set(desk, state, at.INSTANCE_TYPE, at.REPLICATED)
            _replicate(desk, state, starts, place, _ZERO, frame, length, rounds)
    elif _get(desk, state, at.SPEC) == at.PORT_MASK:
        _drop(desk, _ZERO)
    else:
        _set(desk, state, at.INSTANCE_TYPE, at.NORMAL)
        _wait(desk, at.LEAVE, state, frame, length, _get(desk, state, at.SPEC), rounds)
        return
    _release(desk, state)


@hot
def _again(
    desk: Int, state: Int, number: Int, instance_type: Int, frame: Int, length: Int, rounds: Int
) -> None:
    """Have a packet begin again, with what a field list keeps of its state."""
    if u64(rounds) >= at.MOST_ROUNDS:
        _stop(desk, u64(TOO_MANY_ROUNDS))
        return
    if u64(length) > at.MOST_BYTES:
        _stop(desk, u64(OVERSIZED))
        return
    further = _parsed(desk, length, instance_type, _ZERO)
    _restore(desk, further, state, number)
    _wait(desk, at.BEGIN, further, frame, length, _ZERO, u64(rounds) + _ONE)


@hot
def _clone_of_ingress(desk: Int, state: Int, clone: Int, frame: Int, length: Int, rounds: Int) -> None:
    session = u64(load_u64(state + at.CLONE_I_SESSION))
    place = _find(load_u64(desk + at.SESSIONS), load_u64(desk + at.SESSION_COUNT), session)
    if place == u64(load_u64(desk + at.SESSION_COUNT)):
        return
    made = _parsed(desk, length, at.NORMAL, _ONE)
    _parse(desk, made, frame, length)
    _become_clone(desk, made, state, clone, u64(load_u64(state + at.CLONE_I_LIST)), at.OF_INGRESS)
    _send_clone(desk, made, place, frame, length, rounds)


@hot
def _become_clone(desk: Int, made: Int, state: Int, clone: Int, number: Int, instance_type: Int) -> None:
    """Give a clone the metadata that it has."""
    zeros = u64(load_u64(desk + at.ZEROS))
    begin = u64(load_u64(desk + at.METADATA))
    copy_memory(made + begin, zeros + begin, load_u64(desk + at.METADATA_BYTES))
    begin = u64(load_u64(desk + at.STANDARD))
    copy_memory(made + begin, zeros + begin, load_u64(desk + at.STANDARD_BYTES))
    if clone == at.WITH_LIST:
        _restore(desk, made, state, number)
    _set(desk, made, at.INSTANCE_TYPE, instance_type)


@hot
def _send_clone(desk: Int, made: Int, place: Int, frame: Int, length: Int, rounds: Int) -> None:
    """Send a clone by a session, and release its state."""
    truncation = u64(load_u64(u64(load_u64(desk + at.TRUNCATIONS)) + place * _EIGHT))
    _replicate(desk, made, u64(load_u64(desk + at.SESSION_STARTS)), place, truncation, frame, length, rounds)
    _release(desk, made)


# Egress


@hot
def _egress(desk: Int, state: Int, frame: Int, length: Int, port: Int, rounds: Int) -> None:
    now_us = _microseconds(desk)
    _set(desk, state, at.EGRESS_PORT, port)
    for field in (at.SPEC, at.ENQ_DEPTH, at.DEQ_DELTA, at.DEQ_DEPTH):
        _set(desk, state, field, _ZERO)
    _set(desk, state, at.EGRESS_TIME, now_us)
    _set(desk, state, at.ENQ_TIME, now_us & at.WORD)
    _set(desk, state, at.PACKET_LENGTH, length)
    store_u64(state + at.AT_TURNS, _ZERO)
    stuck = _block(desk, state, frame, length, at.EGRESS)
    if stuck != _ZERO:
        _stop(desk, stuck)
        _release(desk, state)
        return
    _after_egress(desk, state, frame, length, port, rounds)


@cold
def _after_egress(desk: Int, state: Int, frame: Int, length: Int, port: Int, rounds: Int) -> None:
    clone = u64(load_u64(state + at.CLONE_E))
    if clone != _ZERO:
        store_u64(state + at.CLONE_E, _ZERO)
        _clone_of_egress(desk, state, clone, frame, length, rounds)
    store_u64(state + at.AT_EFFECTS, _ZERO)
    if load_u64(state + at.AT_FAILED) != _ZERO:
        _drop(desk, u64(ASSERTION))
    elif _get(desk, state, at.SPEC) == at.PORT_MASK:
        _drop(desk, _ZERO)
    else:
        stuck = _block(desk, state, frame, length, at.COMPUTE)
        if stuck != _ZERO:
            _stop(desk, stuck)
        elif load_u64(state + at.AT_FAILED) != _ZERO:
            _drop(desk, u64(ASSERTION))
        else:
            _depart(desk, state, frame, length, port, rounds)
    _release(desk, state)


@hot
def _clone_of_egress(desk: Int, state: Int, clone: Int, frame: Int, length: Int, rounds: Int) -> None:
    session = u64(load_u64(state + at.CLONE_E_SESSION))
    place = _find(load_u64(desk + at.SESSIONS), load_u64(desk + at.SESSION_COUNT), session)
    if place == u64(load_u64(desk + at.SESSION_COUNT)):
        return
    if u64(rounds) >= at.MOST_ROUNDS:
        _stop(desk, u64(TOO_MANY_ROUNDS))
        return
    made = _taken(desk, state)
    _become_clone(desk, made, state, clone, u64(load_u64(state + at.CLONE_E_LIST)), at.OF_EGRESS)
    _send_clone(desk, made, place, frame, length, u64(rounds) + _ONE)


@hot
def _depart(desk: Int, state: Int, frame: Int, length: Int, port: Int, rounds: Int) -> None:
    """Have the deparser make a frame in memory of its own; it leaves, or begins again."""
    begin = (u64(load_u64(desk + at.ROOM)) | (at.LINE - _ONE)) + _ONE + u64(load_u64(desk + at.HEADROOM))
    copy_memory(begin, frame, length)
    store_u64(desk + at.ROOM, begin + length)
    stuck = _block(desk, state, begin, length, at.DEPARSER)
    if stuck != _ZERO:
        _stop(desk, stuck)
        return
    record = u64(load_u64(desk + at.RECORD))
    offset, left = u64(load_u32(record + at.OUT_OFFSET)), u64(load_u32(record + at.OUT_LENGTH))
    if load_u64(state + at.RECIRCULATE) != _ZERO:
        start = u64(np.int64(begin) + np.int64(np.int32(u32(offset))))
        number = u64(load_u64(state + at.RECIRCULATE_LIST))
        _again(desk, state, number, at.RECIRCULATED, start, left, rounds)
        return
    if load_u64(state + at.TRUNCATE) != _ZERO:
        left = min(left, u64(load_u64(state + at.TRUNCATE_BYTES)))
    count = u64(load_u64(desk + at.LEFT_COUNT))
    copy = u64(load_u64(desk + at.LEFT)) + count * at.PACKET_BYTES
    to_host = port == at.HOST or port == u64(load_u64(desk + at.CPU_PORT))
    store_u64(copy, begin)
    store_u32(copy + at.LENGTH, u32(length))
    store_u32(copy + at.IN_PORT, u32(load_u64(desk + at.NUMBER)))
    store_u64(copy + at.TIME, load_u64(desk + at.NOW_NS))
    store_u32(copy + at.VERDICT, u32(TO_HOST) if to_host else u32(TO_PORT))
    store_u32(copy + at.OUT_PORT, u32(at.HOST) if to_host else u32(port))
    store_u32(copy + at.OUT_OFFSET, u32(offset))
    store_u32(copy + at.OUT_LENGTH, u32(left))
    store_u64(desk + at.LEFT_COUNT, count + _ONE)
