# SPDX-License-Identifier: Apache-2.0
"""v1model's hash algorithms over bytes in memory, as hot functions: `length` bytes, then a payload's.

Source: as `nicemu.pipeline`'s checksums, to which tests hold them equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nicemu.hot import Int, hot
from nicemu.wire import crc32

from .octets import load_byte

u64 = np.uint64
_ZERO, _ONE, _EIGHT = u64(0), u64(1), u64(8)
_BYTE, _HALF, _WORD = u64(0xFF), u64(0xFFFF), u64(0xFFFFFFFF)
_SIXTEEN = u64(16)


def _crc16_table() -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return what each lowest byte of a CRC-16 becomes when eight bits are taken."""
    values = np.arange(256, dtype=u64)
    for _ in range(8):
        values = values >> _ONE ^ (values & _ONE) * u64(0xA001)
    return values


_CRC16_OF_BYTE = _crc16_table()


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
    for place in range(length):
        value = value >> _EIGHT ^ _CRC16_OF_BYTE[(value ^ u64(load_byte(data + u64(place)))) & _BYTE]
    return value


@hot
def sum_csum16(data: Int, length: Int, payload: Int, payload_length: Int) -> Int:
    """Return the Internet checksum."""
    total = _words(_ZERO, _ZERO, data, length) + _words(_ZERO, length & _ONE, payload, payload_length)
    while total >> _SIXTEEN != _ZERO:
        total = (total & _HALF) + (total >> _SIXTEEN)
    return total ^ _HALF


@hot
def _words(total: Int, odd: Int, data: Int, length: Int) -> Int:
    """Add up 16-bit words; `odd` is 1 where the first byte is the lower one of its word."""
    for place in range(length):
        byte = u64(load_byte(data + u64(place)))
        total += byte if (u64(place) ^ odd) & _ONE != _ZERO else byte << _EIGHT
    return total


@hot
def sum_xor16(data: Int, length: Int, payload: Int, payload_length: Int) -> Int:
    """Return the exclusive or of 16-bit words."""
    value = _ZERO
    for place in range(length + payload_length):
        at = data + u64(place) if u64(place) < length else payload + u64(place) - length
        byte = u64(load_byte(at))
        value ^= byte if u64(place) & _ONE != _ZERO else byte << _EIGHT
    return value


@hot
def sum_identity(data: Int, length: Int, payload: Int, payload_length: Int) -> Int:
    """Return the first eight bytes as a number."""
    value = _ZERO
    for place in range(min(length + payload_length, _EIGHT)):
        at = data + u64(place) if u64(place) < length else payload + u64(place) - length
        value = value << _EIGHT | u64(load_byte(at))
    return value
