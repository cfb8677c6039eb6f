# SPDX-License-Identifier: Apache-2.0
"""CRC-32 over raw memory, as Ethernet and the invariant CRC of RoCEv2 have it.

Each function is written twice: here as plain Python (zlib), and in `crc_compiled` with the processor's
carry-less multiplication (or tables, where it has none), which numba puts in its place inside a hot function.
Tests hold them equal.
Source: IEEE 802.3, "Frame Check Sequence (FCS) field"; InfiniBand Architecture Specification Volume 1, Annex
A17 "RoCEv2", "ICRC".
"""

from __future__ import annotations

import ctypes
import zlib

from nicemu.hot import Int, extend

COVERED_HEADERS_BYTES = 40
"""IPv4, UDP and BTH, which lie behind the Ethernet header; the ICRC sees them masked."""
_LRH_STAND_IN = b"\xff" * 8
_ETHERNET_BYTES = 14


def crc32(crc: Int, address: Int, length_bytes: Int) -> Int:
    """Continue `crc` (0 at the start) over memory, as zlib.crc32 does."""
    return zlib.crc32(_bytes_at(address, length_bytes), int(crc))


def crc32_copy(crc: Int, target: Int, source: Int, length_bytes: Int) -> Int:
    """Continue `crc` over memory and copy it, in one pass; the ranges must not overlap."""
    data = _bytes_at(source, length_bytes)
    ctypes.memmove(int(target), data, len(data))
    return zlib.crc32(data, int(crc))


def icrc32(frame: Int, length_bytes: Int) -> Int:
    """Return the CRC of a RoCEv2 frame's masked headers and the `length_bytes` behind its BTH.

    Fields that change on the way count as ones: a whole local route header, TOS, TTL, both checksums, the
    BTH's congestion byte.
    """
    headers = _bytes_at(frame + _ETHERNET_BYTES, COVERED_HEADERS_BYTES)
    masked = bytearray(_LRH_STAND_IN + headers)
    for place in (9, 16, 18, 19, 34, 35, 40):
        masked[place] = 0xFF
    rest = _bytes_at(frame + _ETHERNET_BYTES + COVERED_HEADERS_BYTES, length_bytes)
    return zlib.crc32(rest, zlib.crc32(masked))


def _bytes_at(address: Int, length_bytes: Int) -> bytes:
    return ctypes.string_at(int(address), int(length_bytes))


def _register() -> None:
    from . import crc_compiled

    crc_compiled.register()


extend(_register)
