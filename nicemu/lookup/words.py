# SPDX-License-Identifier: Apache-2.0
"""The instructions that lookups are made of, on raw addresses and 64-bit words.

Each function is written twice: here as plain Python, and in `words_compiled` as LLVM instructions that numba
puts in its place inside a hot function. A test holds the two equal. Loads here have no order of their own:
`fence_loads` says which came before, and what is published goes through `nicemu.pcie`.
"""

from __future__ import annotations

import ctypes
import struct

from nicemu.hot import Int, extend

SLOTS = 15
"""How many 32-bit slots of a 64-byte line `matching_slots` compares; the sixteenth word means something
else.
"""
_MASK = (1 << 64) - 1
_LINE = struct.Struct(f"<{SLOTS}I")


def load_word(address: Int) -> Int:
    """Load 8 bytes, aligned to 8."""
    return ctypes.c_uint64.from_address(int(address)).value


def word_of(words: Int, place: Int) -> Int:
    """Load the word number `place` of those at `words`, aligned to 8.

    Where a kernel has just stored them, and nobody else sees them, compiled code takes them from registers.
    """
    return load_word(int(words) + 8 * int(place))


def fence_loads() -> None:
    """Have every load before this be done before every load after it."""


def prefetch(address: Int) -> None:
    """Begin to fetch the 64-byte line at `address` for reading; never faults, whatever the address."""


def multiply_fold(one: Int, other: Int) -> Int:
    """Multiply to 128 bits and return the upper half xor the lower half."""
    product = int(one) * int(other)
    return product >> 64 ^ product & _MASK


def trailing_zeros(word: Int) -> Int:
    """Return the position of the lowest bit that is set; the word must not be 0."""
    word = int(word)
    return (word & -word).bit_length() - 1


def matching_slots(line: Int, wanted: Int, mask: Int) -> Int:
    """Return which slots of the line at `line`, aligned to 64, equal `wanted` under `mask`: slot n as bit
    n.
    """
    slots = _LINE.unpack(ctypes.string_at(int(line), _LINE.size))
    wanted, mask = int(wanted), int(mask)
    return sum(1 << number for number, slot in enumerate(slots) if slot & mask == wanted)


def _register() -> None:
    from . import words_compiled

    words_compiled.register()


extend(_register)
