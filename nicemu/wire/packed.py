# SPDX-License-Identifier: Apache-2.0
"""Fields of headers at raw addresses: big-endian, at any alignment, in memory that nobody else writes now.

Each function is written twice: here as plain Python, and in `packed_compiled` as LLVM instructions that numba
puts in its place inside a hot function. Numbers of up to 32 bits are signed in compiled code (int64), so that
they mix with plain integers; those of 64 bits are not.
"""

from __future__ import annotations

import ctypes

from nicemu.hot import Int, extend


def _load(address: Int, length_bytes: int) -> int:
    return int.from_bytes(ctypes.string_at(int(address), length_bytes), "big")


def _store(address: Int, value: Int, length_bytes: int) -> None:
    ctypes.memmove(int(address), int(value).to_bytes(length_bytes, "big"), length_bytes)


def load_u8(address: Int) -> Int:
    """Load a byte."""
    return _load(address, 1)


def load_be16(address: Int) -> Int:
    """Load 2 bytes."""
    return _load(address, 2)


def load_be32(address: Int) -> Int:
    """Load 4 bytes."""
    return _load(address, 4)


def load_be64(address: Int) -> Int:
    """Load 8 bytes."""
    return _load(address, 8)


def store_u8(address: Int, value: Int) -> None:
    """Store a byte."""
    _store(address, value, 1)


def store_be16(address: Int, value: Int) -> None:
    """Store 2 bytes."""
    _store(address, value, 2)


def store_be32(address: Int, value: Int) -> None:
    """Store 4 bytes."""
    _store(address, value, 4)


def store_be64(address: Int, value: Int) -> None:
    """Store 8 bytes."""
    _store(address, value, 8)


def _register() -> None:
    from . import packed_compiled

    packed_compiled.register()


extend(_register)
