# SPDX-License-Identifier: Apache-2.0
"""What a responder has to make of each packet, written from the specification alone, over plain arrays.

It decides which frames are valid, whether a request is executed, repeated, early or refused, what that writes
into a second copy of the memory, and in which state the queue pair is then. It knows no retransmission, makes
no packet, and shares nothing with the engine but the CRC, which other tests hold against zlib.
Source: InfiniBand Architecture Specification Volume 1, "Packet Header Validation", "Responder: Receiving
Inbound Request Packets", "NAK Codes", "Queue Pair State Machine", "Datagram Extended Transport Header"; Annex
A17 "RoCEv2", "RoCEv2 Congestion Management"; RFC 791, RFC 768.
"""

from __future__ import annotations

import numpy as np

from nicemu.abi import Access
from nicemu.hot import Flag, Int, Records, hot
from nicemu.wire import NakCode, RcOpcode, icrc32

PEER = np.dtype(
    [
        (name, "i8")
        for name in (
            "modelled",  # what is sent to others of our queue pairs is not followed
            "pd",
            "mtu",
            "alive",
            "expected",  # PSN
            "kind",  # of the message in progress
            "done",
            "total",
            "address_high",
            "address_low",
            "rkey",
            "receives",
            "receive_place",
            "receive_room",
            "reads",  # that wait to be answered
            "nak",  # the code that ended it
            "heard",  # bits: which answers have come that are well-formed
        )
    ]
)
REGION = np.dtype([(name, "i8") for name in ("key", "pd", "rights", "iova", "length", "place")])
COUNTS = np.dtype(
    [
        (name, "i8")
        for name in (
            "malformed",
            "elsewhere",
            "not_alive",
            "other_service",
            "answers",
            "early",
            "repeated",
            "not_ready",
            "done",
        )
    ]
)
ARRIVAL = np.dtype([("number", "i8"), ("length", "i8"), ("imm", "i8"), ("kind", "i8")])
FIRST_NUMBER = 16
HEARD_DATA, HEARD_RNR, HEARD_NAKS = 1, 2, 4

_NOTHING, _SEND, _WRITE = range(3)
_ENDS_WELL, _WAITS = 0, -1
_INVALID, _ACCESS = int(NakCode.INVALID_REQUEST), int(NakCode.REMOTE_ACCESS_ERROR)
_READ_REQUEST, _SWAP, _ADD = (
    int(RcOpcode.RDMA_READ_REQUEST),
    int(RcOpcode.COMPARE_SWAP),
    int(RcOpcode.FETCH_ADD),
)
_FIRST_ANSWER, _LAST_ANSWER = int(RcOpcode.RDMA_READ_RESPONSE_FIRST), int(RcOpcode.ATOMIC_ACKNOWLEDGE)
_ACKNOWLEDGE = int(RcOpcode.ACKNOWLEDGE)
_TO_WRITE, _TO_READ = int(Access.REMOTE_WRITE), int(Access.REMOTE_READ)
_TO_OPERATE = int(Access.REMOTE_ATOMIC)
_HALF, _PSNS, _LONGEST, _READS = 1 << 23, 1 << 24, 1 << 31, 16
ARRIVED_WRITE, ARRIVED_SEND, ARRIVED_ATOMIC = 0, 2, 5

# By opcode: kind, first, last, with immediate, bytes of extended headers ("Base Transport Header", OpCode)
_TABLE = np.zeros((256, 5), np.int64)
for _row in (
    (0, _SEND, 1, 0, 0, 0), (1, _SEND, 0, 0, 0, 0), (2, _SEND, 0, 1, 0, 0), (3, _SEND, 0, 1, 1, 4),
    (4, _SEND, 1, 1, 0, 0), (5, _SEND, 1, 1, 1, 4), (6, _WRITE, 1, 0, 0, 16), (7, _WRITE, 0, 0, 0, 0),
    (8, _WRITE, 0, 1, 0, 0), (9, _WRITE, 0, 1, 1, 4), (10, _WRITE, 1, 1, 0, 16), (11, _WRITE, 1, 1, 1, 20),
    (12, 0, 0, 0, 0, 16), (13, 0, 0, 0, 0, 4), (15, 0, 0, 0, 0, 4), (16, 0, 0, 0, 0, 4), (17, 0, 0, 0, 0, 4),
    (18, 0, 0, 0, 0, 12), (19, 0, 0, 0, 0, 28), (20, 0, 0, 0, 0, 28),
    (0x64, 0, 0, 0, 0, 8), (0x65, 0, 0, 0, 0, 12), (0x81, 0, 0, 0, 0, 16),
):  # fmt: skip
    _TABLE[_row[0]] = _row[1:]
TABLE = _TABLE


@hot
def number_at(frames: np.ndarray, row: Int, place: Int, count: Int) -> Int:
    """Return the big-endian number of `count` bytes (4 at most) at `place` of a frame."""
    value = np.int64(0)
    for step in range(count):
        value = value * 256 + np.int64(frames[row, place + step])
    return value


@hot
def well_formed(frames: np.ndarray, row: Int, length: Int, address: Int) -> Flag:
    """True if a frame of `length` bytes at raw `address` is a RoCEv2 packet that a NIC has to read.

    So are those of reliable connections, unreliable datagrams of one packet, and congestion notifications.
    """
    if length < 34 or number_at(frames, row, 12, 2) != 0x0800 or frames[row, 14] != 0x45:
        return False
    words = np.int64(0)
    for place in range(14, 34, 2):
        words += number_at(frames, row, place, 2)
    while words > 0xFFFF:
        words = words // 0x10000 + words % 0x10000
    if words != 0xFFFF:
        return False
    total = number_at(frames, row, 16, 2)
    fragmented = number_at(frames, row, 20, 2) % 0x4000 != 0
    if fragmented or total < 28 or total > length - 14 or frames[row, 23] != 17:
        return False
    datagram = number_at(frames, row, 38, 2)
    if datagram < 24 or datagram > total - 20 or number_at(frames, row, 36, 2) != 4791:
        return False
    rest = datagram - 24
    crc = np.int64(icrc32(address, rest))
    for step in range(4):  # it goes low byte first
        if frames[row, 54 + rest + step] != crc // (1 << (8 * step)) % 256:
            return False
    opcode, flags = np.int64(frames[row, 42]), np.int64(frames[row, 43])
    if (opcode >= 32 and opcode != 0x64 and opcode != 0x65 and opcode != 0x81) or flags % 16 != 0:
        return False
    return rest >= TABLE[opcode, 4] + flags // 16 % 4


@hot
def _covered(
    regions: Records, pd: Int, rkey: Int, high: Int, low: Int, offset: Int, length: Int, right: Int
) -> Int:
    """Return where in memory a range lies that a peer names, or -1 if it may not touch it."""
    for number in range(len(regions)):
        region = regions[number]
        if region.key != rkey or region.pd != pd or region.rights & right == 0 or high != 0:
            continue
        start = low + offset - region.iova
        if start >= 0 and low >= region.iova and start + length <= region.length:
            return np.int64(region.place + start)
    return np.int64(-1)


@hot
def _copy(memory: np.ndarray, target: Int, frames: np.ndarray, row: Int, place: Int, length: Int) -> None:
    for step in range(length):
        memory[target + step] = frames[row, place + step]


@hot
def _report(reports: Records, place: Int, number: Int, kind: Int, length: Int, imm: Int) -> Int:
    report = reports[place]
    report.number, report.kind, report.length, report.imm = number, kind, length, imm
    return place + 1


@hot
def _operate(
    pair: Records, frames: np.ndarray, row: Int, opcode: Int, regions: Records, memory: np.ndarray
) -> Int:
    """An atomic: FETCH_ADD adds with carry, COMPARE_SWAP compares and replaces, little-endian in memory."""
    high, low = number_at(frames, row, 54, 4), number_at(frames, row, 58, 4)
    if low % 8 != 0:
        return _INVALID
    place = _covered(regions, pair.pd, number_at(frames, row, 62, 4), high, low, 0, 8, _TO_OPERATE)
    if place < 0:
        return _ACCESS
    equal, carry = True, np.int64(0)
    for step in range(8):
        if memory[place + step] != frames[row, 81 - step]:
            equal = False
    for step in range(8):
        operand = np.int64(frames[row, 73 - step])
        if opcode == _ADD:
            carry += np.int64(memory[place + step]) + operand
            memory[place + step] = carry % 256
            carry //= 256
        elif equal:
            memory[place + step] = operand
    return _ENDS_WELL


@hot
def _segment(
    pair: Records,
    frames: np.ndarray,
    row: Int,
    opcode: Int,
    payload: Int,
    regions: Records,
    memory: np.ndarray,
) -> Int:
    """A packet of a SEND or WRITE; what it completes is left in `done`."""
    kind, first, last = TABLE[opcode, 0], TABLE[opcode, 1] != 0, TABLE[opcode, 2] != 0
    if pair.kind != (_NOTHING if first else kind) or payload > pair.mtu:
        return _INVALID
    if (not last and payload != pair.mtu) or (last and not first and payload == 0):
        return _INVALID
    source = 54 + TABLE[opcode, 4]
    if kind == _WRITE:
        if first:
            pair.address_high, pair.address_low = number_at(frames, row, 54, 4), number_at(frames, row, 58, 4)
            pair.rkey, pair.total = number_at(frames, row, 62, 4), number_at(frames, row, 66, 4)
            pair.done = 0
        left = pair.total - pair.done - payload
        if pair.total > _LONGEST or left < 0 or (left == 0) != last:
            return _INVALID
        high, low = np.int64(pair.address_high), np.int64(pair.address_low)
        whole = pair.total if first else np.int64(0)
        if whole != 0 and _covered(regions, pair.pd, pair.rkey, high, low, 0, whole, _TO_WRITE) < 0:
            return _ACCESS
        if TABLE[opcode, 3] != 0 and pair.receives == 0:
            return _WAITS
        if payload != 0:
            place = _covered(regions, pair.pd, pair.rkey, high, low, pair.done, payload, _TO_WRITE)
            _copy(memory, place, frames, row, source, payload)
        if TABLE[opcode, 3] != 0:
            pair.receives -= 1
    else:
        if first:
            if pair.receives == 0:
                return _WAITS
            pair.receives -= 1
            pair.done = 0
        if pair.done + payload > pair.receive_room:
            return _INVALID
        _copy(memory, np.int64(pair.receive_place + pair.done), frames, row, source, payload)
    pair.done += payload
    pair.kind = _NOTHING if last else kind
    return _ENDS_WELL


@hot
def follow(
    pairs: Records,
    frames: np.ndarray,
    lengths: np.ndarray,
    address: Int,
    own_ip: Int,
    peer_ip: Int,
    regions: Records,
    memory: np.ndarray,
    counts: Records,
    reports: Records,
) -> Int:
    """Follow frames, rows of `frames` at raw `address`, in order; return how many messages they completed.

    pairs: PEER records, of queue pairs FIRST_NUMBER and up; memory: uint8, as `regions` lie in it; reports:
    ARRIVAL records, what is completed (READs are not, they complete when they are answered).
    """
    count = counts[0]
    reported = np.int64(0)
    for row in range(len(lengths)):
        if not well_formed(frames, row, lengths[row], address + row * frames.shape[1]):
            count.malformed += 1
            continue
        index = number_at(frames, row, 47, 3) - FIRST_NUMBER
        if number_at(frames, row, 30, 4) != own_ip or index < 0 or index >= len(pairs):
            count.elsewhere += 1
            continue
        pair = pairs[index]
        opcode = np.int64(frames[row, 42])
        wrong = number_at(frames, row, 26, 4) != peer_ip or number_at(frames, row, 44, 2) % 0x8000 != 0x7FFF
        if wrong or pair.alive == 0:
            count.not_alive += 1
            continue
        if opcode >= 32:  # a connection that did not ask for it makes nothing of it
            count.other_service += 1
            continue
        if opcode >= _FIRST_ANSWER and opcode <= _LAST_ANSWER:
            count.answers += 1
            syndrome = np.int64(frames[row, 54])
            if opcode != _ACKNOWLEDGE:
                pair.heard |= HEARD_DATA
            elif syndrome // 32 % 4 == 1:
                pair.heard |= HEARD_RNR
            elif syndrome // 32 % 4 == 3:
                pair.heard |= HEARD_NAKS << (syndrome % 32)
            continue
        if pair.modelled == 0:
            continue
        ahead = (number_at(frames, row, 51, 3) - pair.expected) % _PSNS
        if ahead != 0:
            if ahead < _HALF:
                count.early += 1
            else:
                count.repeated += 1
            continue
        payload = number_at(frames, row, 38, 2) - 24 - TABLE[opcode, 4] - np.int64(frames[row, 43]) // 16 % 4
        packets = np.int64(1)
        kind = TABLE[opcode, 0]
        if kind != _NOTHING:
            outcome = _segment(pair, frames, row, opcode, payload, regions, memory)
        elif pair.kind != _NOTHING or payload != 0:
            outcome = _INVALID
        elif opcode == _READ_REQUEST:
            length = number_at(frames, row, 66, 4)
            high, low = number_at(frames, row, 54, 4), number_at(frames, row, 58, 4)
            outcome = _ENDS_WELL
            if length > _LONGEST or pair.reads >= _READS:
                outcome = _INVALID
            elif length != 0:
                rkey = number_at(frames, row, 62, 4)
                if _covered(regions, pair.pd, rkey, high, low, 0, length, _TO_READ) < 0:
                    outcome = _ACCESS
            pair.reads += 1
            packets = max(np.int64(1), (length + pair.mtu - 1) // pair.mtu)
        elif _SWAP <= opcode <= _ADD:
            outcome = _operate(pair, frames, row, opcode, regions, memory)
        else:
            outcome = _INVALID
        if outcome == _WAITS:
            count.not_ready += 1
        elif outcome != _ENDS_WELL:
            pair.alive, pair.nak = 0, outcome
        else:
            count.done += 1
            pair.expected = (pair.expected + packets) % _PSNS
            imm = np.int64(-1)
            if TABLE[opcode, 3] != 0:
                imm = number_at(frames, row, 50 + TABLE[opcode, 4], 4)
            number = index + FIRST_NUMBER
            if _SWAP <= opcode <= _ADD:
                reported = _report(reports, reported, number, ARRIVED_ATOMIC, 8, np.int64(-1))
            elif kind != _NOTHING and TABLE[opcode, 2] != 0:
                way = ARRIVED_WRITE if kind == _WRITE else ARRIVED_SEND
                reported = _report(
                    reports, reported, number, way + TABLE[opcode, 3], np.int64(pair.done), imm
                )
    return reported


@hot
def seal(frames: np.ndarray, lengths: np.ndarray, sealed: np.ndarray, address: Int) -> None:
    """Make IPv4 checksum and ICRC fit where `sealed` says so, so that a change reaches what lies behind."""
    for row in range(len(lengths)):
        length = lengths[row]
        if sealed[row] == 0 or length < 58:
            continue
        frames[row, 24] = frames[row, 25] = 0
        words = np.int64(0)
        for place in range(14, 34, 2):
            words += number_at(frames, row, place, 2)
        while words > 0xFFFF:
            words = words // 0x10000 + words % 0x10000
        frames[row, 24], frames[row, 25] = (0xFFFF - words) // 256, (0xFFFF - words) % 256
        rest = number_at(frames, row, 38, 2) - 24
        if rest < 0 or 58 + rest > length:
            rest = length - 58
        crc = np.int64(icrc32(address + row * frames.shape[1], rest))
        for step in range(4):
            frames[row, 54 + rest + step] = crc // (1 << (8 * step)) % 256
