# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 frames as UDP datagrams, as hot functions: many datagrams to one peer make one message.

The kernel cuts a message that is sent with UDP_SEGMENT into datagrams, all of one length but the last, and
gives a receiver that asked for it (UDP_GRO) such a row of datagrams back as one message.
Source: udp(7), "UDP_SEGMENT" and "UDP_GRO"; cmsg(3).
"""

from __future__ import annotations

import errno
from typing import NamedTuple

import numpy as np

from nicemu.hot import Flag, Int, Records, hot
from nicemu.pcie import copy_memory
from nicemu.wire import (
    CANONICAL_REFUSALS,
    HEADERS_BYTES,
    IP_DESTINATION_PLACE,
    TEMPLATE_BYTES,
    UDP_LENGTH_PLACE,
    check_canonical,
    load_be16,
    load_be32,
    put_headers,
)

from .socket_calls import MESSAGE, PIECE, receive_messages, send_messages

MAX_SEGMENTS = 64
MAX_MESSAGE_BYTES = 65_507
"""What one UDP message may hold, as one IP packet."""
MESSAGE_ROOM_BYTES = 1 << 16
CONTROL_BYTES = 24
"""A control message with the length of the datagrams."""
NAME_BYTES = 16
"""struct sockaddr_in: family, port and address are its first word."""
SEND_DROPS = (*CANONICAL_REFUSALS, "udp.unknown_destination", "udp.refused")
RECEIVE_DROPS = ("", "udp.unknown_sender", "udp.too_long", "udp.truncated", "udp.receive_error")
"""Why a frame is not sent, or not received, by the number that it is counted under."""

_UNKNOWN_DESTINATION, _REFUSED = len(CANONICAL_REFUSALS), len(CANONICAL_REFUSALS) + 1
_UDP_HEADER_BYTES = 8
_ALIGNMENT_BYTES = 64
_CONTROL_USED = 20
SHORTEST_EXPECTED = 512
PIECES = MESSAGE_ROOM_BYTES // SHORTEST_EXPECTED + 1
"""Pieces that a message may be received into: rows of shorter datagrams are not expected, but copied."""
_TRUNCATED = 0x20
_UNKNOWN_SENDER, _TOO_LONG, _CUT, _ERROR = 1, 2, 3, 4
_AGAIN, _NO_BUFFERS, _IO = errno.EAGAIN, errno.ENOBUFS, errno.EIO
_MESSAGE_SIZE, _PIECE_SIZE = MESSAGE.itemsize, PIECE.itemsize
_OWN, _NAMES, _SEGMENTS, _MESSAGES, _PIECES = range(5)
_NEXT, _DONE, _COUNT, _ROOM, _TEMPLATES, _RECEIVED, _PIECES_IN, _EXPECTED = range(8)


class Outgoing(NamedTuple):
    """Frames on their way into messages."""

    words: np.ndarray
    """int64[5]: the IP address that frames come from; raw address of the peers' socket addresses; datagrams
    in a message at most; raw addresses of `messages` and of `pieces`."""
    peers: np.ndarray
    """int64[peers]: their IP addresses, sorted, as their socket addresses are."""
    why: np.ndarray
    """int64[frames]: 0 for a frame that is sent, else a number of SEND_DROPS."""
    ends: np.ndarray
    """int64[frames]: the number of the first frame behind each message."""
    messages: Records
    pieces: Records
    controls: np.ndarray
    """int64[frames, 3]: of each message, the control message with the length of its datagrams."""
    dropped: np.ndarray
    """int64[len(SEND_DROPS)]: how many frames were not sent."""


class Incoming(NamedTuple):
    """Messages, and how far frames have been made of them."""

    words: np.ndarray
    """int64[8]: the message and the byte in it where making frames goes on, and how many messages there are;
    raw addresses of the port's own memory for them, of the peers' header templates, of `messages` and of
    `pieces`; how long the datagrams of the next row are expected to be."""
    peers: np.ndarray
    """int64[peers]: family, port and address of their sockets as one number, sorted as the templates are."""
    messages: Records
    pieces: Records
    """PIECES of each message."""
    controls: np.ndarray
    names: np.ndarray
    """int64[messages, 2]: of each message, its sender's socket address."""
    dropped: np.ndarray
    """int64[len(RECEIVE_DROPS)]: how many datagrams were not taken."""


@hot
def _find(keys: np.ndarray, wanted: Int) -> Int:
    """Return the place of a number in a sorted array, or -1."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < len(keys) and keys[low] == wanted else -1


@hot
def _gather(
    out: Outgoing, memory: Int, offsets: np.ndarray, lengths: np.ndarray, first: Int, most: Int
) -> Int:
    """Make messages of frames from number `first` on, with up to `most` datagrams; return how many."""
    count, used = 0, 0
    peer, size, total, is_open = -1, 0, 0, False
    for number in range(first, len(offsets)):
        frame = memory + offsets[number]
        refused = check_canonical(frame, lengths[number], out.words[_OWN])
        found = -1
        if refused == 0:
            found = _find(out.peers, load_be32(frame + IP_DESTINATION_PLACE))
            if found < 0:
                refused = _UNKNOWN_DESTINATION
        out.why[number] = refused
        if refused != 0:
            continue
        length = load_be16(frame + UDP_LENGTH_PLACE) - _UDP_HEADER_BYTES
        fits = is_open and found == peer and length <= size and total + length <= MAX_MESSAGE_BYTES
        if not fits or out.messages[count - 1].piece_count >= most:
            message = out.messages[count]
            message.name = out.words[_NAMES] + found * NAME_BYTES
            message.name_bytes = NAME_BYTES
            message.pieces = out.words[_PIECES] + used * _PIECE_SIZE
            message.piece_count = 0
            message.control_bytes = 0
            peer, size, total = found, length, 0
            count += 1
        elif out.messages[count - 1].control_bytes == 0:
            out.messages[count - 1].control_bytes = CONTROL_BYTES
            out.controls[count - 1, 2] = size
        out.pieces[used].address = frame + HEADERS_BYTES
        out.pieces[used].length = length
        used += 1
        total += length
        out.messages[count - 1].piece_count += 1
        out.ends[count - 1] = number + 1
        is_open = length == size and length != 0
    return count


@hot
def _is_full(error: Int) -> Flag:
    if error == 0:
        return True
    if error == _AGAIN:
        return True
    return error == _NO_BUFFERS


@hot
def send_frames(
    fd: Int, out: Outgoing, memory: Int, offsets: np.ndarray, lengths: np.ndarray, first: Int
) -> Int:
    """Send frames, which lie at `offsets` from raw address `memory`, from number `first` on.

    Returns the number of the first one that the socket's buffer has no room for. What the kernel refuses is
    counted as dropped; first, what it refuses as one message is tried as one message for each datagram.
    """
    reached, most = first, out.words[_SEGMENTS]
    while reached < len(offsets):
        count = _gather(out, memory, offsets, lengths, reached, most)
        sent, error = 0, 0
        while sent < count:
            done = send_messages(fd, out.words[_MESSAGES] + sent * _MESSAGE_SIZE, count - sent)
            if done > 0:
                sent += done
                continue
            error = -done
            if _is_full(error) or out.messages[sent].piece_count > 1:
                break
            error = 0
            out.dropped[_REFUSED] += 1
            sent += 1
        end = reached
        if sent == count:
            end = len(offsets)
        elif sent > 0:
            end = out.ends[sent - 1]
        for number in range(reached, end):
            out.dropped[out.why[number]] += 1
        reached = end
        if sent < count:
            if _is_full(error):
                return reached
            most = 1
            if error == _IO:  # the device makes no checksums, so it cannot cut messages
                out.words[_SEGMENTS] = 1
    return reached


@hot
def _length_of_each(into: Incoming, number: Int) -> Int:
    """Return how long the datagrams in a received message are, all but the last."""
    message = into.messages[number]
    total = np.int64(message.length)
    size = np.int64(into.controls[number, 2]) & 0xFFFF
    if message.control_bytes < _CONTROL_USED or size == 0:
        return total
    return min(total, size)


@hot
def _sender_of(into: Incoming, number: Int, size: Int, longest: Int) -> Int:
    """Return the place of a message's sender among the peers, or -1 for one that is counted as dropped."""
    message = into.messages[number]
    found = _find(into.peers, into.names[number, 0])
    is_cut = message.received_flags & _TRUNCATED != 0
    if found >= 0 and size <= longest - HEADERS_BYTES and not is_cut:
        return found
    total = np.int64(message.length)
    datagrams = (total + size - 1) // size if size > 0 else 1
    into.dropped[_UNKNOWN_SENDER if found < 0 else _CUT if is_cut else _TOO_LONG] += datagrams
    return -1


@hot
def _scatter(
    into: Incoming,
    longest: Int,
    memory: Int,
    room: Int,
    offsets: np.ndarray,
    lengths: np.ndarray,
    limit: Int,
) -> Int:
    """Make frames of messages in the port's own memory; return how many."""
    count, used, words = 0, 0, into.words
    while words[_NEXT] < words[_COUNT]:
        number, done = words[_NEXT], words[_DONE]
        total = np.int64(into.messages[number].length)
        size = _length_of_each(into, number)
        found = _sender_of(into, number, size, longest)
        if found < 0:
            words[_NEXT] += 1
            continue
        template = words[_TEMPLATES] + found * TEMPLATE_BYTES
        source = words[_ROOM] + number * MESSAGE_ROOM_BYTES
        while True:
            if count == limit or count == len(offsets) or used + longest > room:
                words[_DONE] = done
                return count
            length = min(size, total - done)
            put_headers(memory + used, template, length)
            copy_memory(memory + used + HEADERS_BYTES, source + done, length)
            offsets[count] = used
            lengths[count] = HEADERS_BYTES + length
            used += lengths[count] + -lengths[count] % _ALIGNMENT_BYTES
            count += 1
            done += length
            if done >= total or length == 0:
                break
        words[_NEXT] += 1
        words[_DONE] = 0
    return count


@hot
def _aim(into: Incoming, memory: Int, count: Int, stride: Int, each: Int, size: Int) -> None:
    """Have `count` messages received into pieces of `size` bytes, each with room for headers before it."""
    place = memory + HEADERS_BYTES
    for number in range(count):
        message = into.messages[number]
        message.pieces = into.words[_PIECES_IN] + number * each * _PIECE_SIZE
        message.piece_count = each
        message.name_bytes = NAME_BYTES
        message.control_bytes = CONTROL_BYTES
        for piece in range(number * each, (number + 1) * each):
            into.pieces[piece].address = place
            into.pieces[piece].length = size
            place += stride


@hot
def _keep(into: Incoming, number: Int, memory: Int, stride: Int, each: Int, size: Int) -> None:
    """Move a message out of its pieces into the port's own memory; the next row may be as this one is."""
    length = _length_of_each(into, number)
    if length >= SHORTEST_EXPECTED and into.messages[number].length > 2 * length:
        into.words[_EXPECTED] = length
    target = into.words[_ROOM] + number * MESSAGE_ROOM_BYTES
    place = memory + number * each * stride + HEADERS_BYTES
    left = np.int64(into.messages[number].length)
    while left > 0:
        copy_memory(target, place, min(size, left))
        target += size
        place += stride
        left -= size


@hot
def receive_frames(
    fd: Int,
    into: Incoming,
    longest: Int,
    memory: Int,
    room: Int,
    offsets: np.ndarray,
    lengths: np.ndarray,
    limit: Int,
) -> Int:
    """Receive frames of up to `longest` bytes to raw address `memory`, which has `room` bytes.

    Returns how many, up to `limit` and len(offsets); there may be none where others sent. Rows of datagrams
    as long as those of the last row land where their frames will be, and headers are put before them. Others
    are copied; what finds no room is kept for the next call.
    """
    words = into.words
    if words[_NEXT] < words[_COUNT]:
        return _scatter(into, longest, memory, room, offsets, lengths, limit)
    size = words[_EXPECTED]
    stride = size + HEADERS_BYTES + -(size + HEADERS_BYTES) % _ALIGNMENT_BYTES
    each = MESSAGE_ROOM_BYTES // size + 1
    most = min(limit, len(offsets))
    wanted = min(len(into.messages), min(room // (each * stride), most // each))
    aimed = wanted > 0
    if not aimed:  # a small batch: everything goes by way of the port's own memory
        if most <= 0:
            return 0
        wanted, stride, each, size = len(into.messages), MESSAGE_ROOM_BYTES, 1, MESSAGE_ROOM_BYTES
        _aim(into, words[_ROOM] - HEADERS_BYTES, wanted, stride, each, size)
    else:
        _aim(into, memory, wanted, stride, each, size)
    words[_NEXT] = words[_DONE] = words[_COUNT] = 0
    came = receive_messages(fd, words[_RECEIVED], wanted)
    if came <= 0:
        if came != -_AGAIN:
            into.dropped[_ERROR] += 1
        return 0
    number, count = 0, 0
    while aimed and number < came:
        total, length = np.int64(into.messages[number].length), _length_of_each(into, number)
        step, fits = stride, length == size or length == total <= size
        if not fits:  # not what was expected: it has to be laid out anew, if there is room
            step = length + HEADERS_BYTES + -(length + HEADERS_BYTES) % _ALIGNMENT_BYTES
            datagrams = (total + length - 1) // length
            if datagrams > each or datagrams * step > each * stride:
                break
            _keep(into, number, memory, stride, each, size)
        found = _sender_of(into, number, length, longest)
        if found >= 0:
            place, done = memory + number * each * stride, 0
            while True:
                piece = min(length, total - done)
                put_headers(place, words[_TEMPLATES] + found * TEMPLATE_BYTES, piece)
                if not fits:
                    source = words[_ROOM] + number * MESSAGE_ROOM_BYTES + done
                    copy_memory(place + HEADERS_BYTES, source, piece)
                offsets[count] = place - memory
                lengths[count] = HEADERS_BYTES + piece
                count += 1
                place += step
                done += piece
                if done >= total:
                    break
        number += 1
    if aimed:
        for rest in range(number, came):
            _keep(into, rest, memory, stride, each, size)
    words[_NEXT], words[_COUNT] = number, came
    if count != 0 or number == came:
        return count
    return _scatter(into, longest, memory, room, offsets, lengths, limit)
