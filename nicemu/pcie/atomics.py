# SPDX-License-Identifier: Apache-2.0
"""The only loads and stores that another process can see, on raw addresses.

Each function is written twice: here as plain Python (ctypes), and in `atomics_compiled` as LLVM instructions
that numba puts in its place inside a hot function. A contract test holds the two equal. The Python stores are
single aligned machine accesses; that they have acquire and release order is a property of x86-64 (total store
order). The Python read-modify-write functions are several steps: only the compiled ones are atomic towards
other threads and processes.
"""

from __future__ import annotations

import ctypes
import os
import time  # noqa: TID251 - the twin of a clock instruction
from contextlib import suppress

from nicemu.hot import Int, extend

_U32 = ctypes.c_uint32
_U64 = ctypes.c_uint64
_MASK = (1 << 64) - 1


def load_u64(address: Int) -> Int:
    """Load 8 bytes with acquire order."""
    return _U64.from_address(int(address)).value


def store_u64(address: Int, value: Int) -> None:
    """Store 8 bytes with release order."""
    _U64.from_address(int(address)).value = int(value)


def load_u32(address: Int) -> Int:
    """Load 4 bytes with acquire order."""
    return _U32.from_address(int(address)).value


def store_u32(address: Int, value: Int) -> None:
    """Store 4 bytes with release order."""
    _U32.from_address(int(address)).value = int(value)


def fetch_add_u64(address: Int, value: Int) -> Int:
    """Add to 8 bytes, wrapping, as one sequentially consistent step where compiled; return the old value."""
    cell = _U64.from_address(int(address))
    old = cell.value
    cell.value = (old + int(value)) & _MASK
    return old


def compare_swap_u64(address: Int, expected: Int, value: Int) -> Int:
    """Store `value` if the 8 bytes equal `expected`; return the old value. Atomic as `fetch_add_u64` is."""
    cell = _U64.from_address(int(address))
    old = cell.value
    if old == int(expected) & _MASK:
        cell.value = int(value)
    return old


def exchange_u64(address: Int, value: Int) -> Int:
    """Store 8 bytes and return the old value, with a full barrier where compiled."""
    cell = _U64.from_address(int(address))
    old = cell.value
    cell.value = int(value)
    return old


def copy_memory(target: Int, source: Int, length_bytes: Int) -> None:
    """Copy bytes between raw addresses; the ranges may overlap."""
    ctypes.memmove(int(target), int(source), int(length_bytes))


def monotonic_ns(scratch: Int) -> Int:
    """Return CLOCK_MONOTONIC in nanoseconds; `scratch` is the address of 16 bytes the compiled twin may
    use.
    """
    return time.monotonic_ns()


def nap_us(duration_us: Int) -> None:
    """Give the processor away for about `duration_us` microseconds."""
    time.sleep(int(duration_us) * 1e-6)


def signal_eventfd(fd: Int, one: Int) -> None:
    """Add 1 to an eventfd, waking whoever waits on it; `one` is the address of a 64-bit 1.

    Nothing happens if the eventfd is at its maximum: whoever waits has been woken already.
    """
    with suppress(BlockingIOError):
        os.eventfd_write(int(fd), 1)


def _register() -> None:
    from . import atomics_compiled

    atomics_compiled.register()


extend(_register)
