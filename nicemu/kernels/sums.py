# SPDX-License-Identifier: Apache-2.0
"""v1model's hash algorithms over bytes in memory, as hot functions: `length` bytes, then a payload's.

Source: as `nicemu.pipeline`'s checksums, to which tests hold them equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nicemu.hot import Int, hot
from nicemu.wire import crc32

from .octets import load_byte, load_octets

u64 = np.uint64
_ZERO, _ONE, _EIGHT = u64(0), u64(1), u64(8)
_BYTE, _HALF, _WORD = u64(0xFF), u64(0xFFFF), u64(0xFFFFFFFF)
_SIXTEEN = u64(16)


def _crc16_tables() -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Return what each byte makes of a CRC-16 behind which 0 to 7 bytes follow, uint16[8, 256]."""
    values, tables = np.arange(256, dtype=u64), []
    for place in range(64):
        values = values >> _ONE ^ (values & _ONE) * u64(0xA001)
        if place % 8 == 7:
            tables.append(values.astype(np.uint16))
    return np.array(tables)


_CRC16_TABLES = _crc16_tables()


@hot
def sum_crc32(data: Int, length: Int, payload: Int, payload_length: Int) -> Int:
    """Return the CRC-32 of Ethernet."""
    value = u64(crc32(u64(0), data, length))
    return u64(crc32(value, payload, payload_length)) & _WORD


@hot
def sum_crc16(data: Int, length: Int, payload: Int, payload_length: Int) -> Int:
    """Return the CRC-16 with polynomial 0x8005, reflected."""
    return _crc16(_crc16(_ZERO, data, length), payload, payload_length)


@hot
def _crc16(value: Int, data: Int, length: Int) -> Int:
    whole = u64(length) >> u64(3)
    for word in range(whole):
        octets = u64(load_octets(data, word)) ^ value
        value = _ZERO
        for place in range(8):
            value ^= u64(_CRC16_TABLES[7 - place, (octets >> u64(8 * place)) & _BYTE])
    for place in range(whole << u64(3), length):
        byte = (value ^ u64(load_byte(data, place))) & _BYTE
        value = value >> _EIGHT ^ u64(_CRC16_TABLES[0, byte])
    return value


@hot
def sum_csum16(data: Int, length: Int, payload: Int, payload_length: Int) -> Int:
    """Return the Internet checksum."""
    total = _words(_ZERO, data, length) + _words(u64(length) & _ONE, payload, payload_length)
    return _folded(total) ^ _HALF


@hot
def _words(odd: Int, data: Int, length: Int) -> Int:
    """Add up 16-bit words; `odd` is 1 where the first byte is the lower one of its word.

    The sum is folded, and its bytes are exchanged where they stand the other way round: that is what it would
    be of words that are read so (RFC 1071, "Byte Order Independence").
    """
    total, whole = _ZERO, u64(length) >> u64(3)
    for word in range(whole):
        octets = u64(load_octets(data, word))
        total += (octets & _WORD) + (octets >> u64(32))
    for place in range(whole << u64(3), length):
        byte = u64(load_byte(data, place))
        total += byte << _EIGHT if u64(place) & _ONE != _ZERO else byte
    total = _folded(total)
    return total if odd != _ZERO else (total >> _EIGHT | total << _EIGHT) & _HALF


@hot
def _folded(total: Int) -> Int:
    """Return a sum in 16 bits, what is carried out of them added to it."""
    while total >> _SIXTEEN != _ZERO:
        total = (total & _HALF) + (total >> _SIXTEEN)
    return total


@hot
def sum_xor16(data: Int, length: Int, payload: Int, payload_length: Int) -> Int:
    """Return the exclusive or of 16-bit words."""
    value = _ZERO
    for place in range(length + payload_length):
        byte = _byte(data, length, payload, place)
        value ^= byte if u64(place) & _ONE != _ZERO else byte << _EIGHT
    return value


@hot
def sum_identity(data: Int, length: Int, payload: Int, payload_length: Int) -> Int:
    """Return the first eight bytes as a number."""
    value = _ZERO
    for place in range(min(length + payload_length, _EIGHT)):
        value = value << _EIGHT | _byte(data, length, payload, place)
    return value


@hot
def _byte(data: Int, length: Int, payload: Int, place: Int) -> Int:
    """Return a byte of data, or of the payload behind it."""
    if u64(place) < u64(length):
        return u64(load_byte(data, place))
    return u64(load_byte(payload, u64(place) - u64(length)))
