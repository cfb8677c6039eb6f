# SPDX-License-Identifier: Apache-2.0
"""The chance of a program: numbers that look random and are the same for the same seed.

The generator is SplitMix64. Its state is one 64-bit word in memory, so that compiled code can draw from the
same numbers.
Source: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014).
"""

from __future__ import annotations

import ctypes
from typing import Final

_WORD: Final = (1 << 64) - 1
STEP: Final = 0x9E3779B97F4A7C15
ROUNDS: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST_SHIFT: Final = 31


class Chance:
    """One sequence of numbers; `address` is where its state lies, which others may advance, too."""

    def __init__(self, seed: int = 0) -> None:
        self._state = ctypes.c_uint64()
        self.seed(seed)

    @property
    def address(self) -> int:
        """The address of the state, valid as long as this object."""
        return ctypes.addressof(self._state)

    def seed(self, seed: int) -> None:
        """Begin again."""
        self._state.value = seed & _WORD

    def word(self) -> int:
        """Draw 64 bits."""
        self._state.value = number = (self._state.value + STEP) & _WORD
        for shift, factor in ROUNDS:
            number = (number ^ number >> shift) * factor & _WORD
        return number ^ number >> LAST_SHIFT

    def between(self, low: int, high: int, width_bits: int) -> int:
        """Draw a number from `low` to `high`, both inside; where there is none, return `low` undrawn.

        Both are numbers of at most `width_bits` bits. As many words are drawn as hold a bit more, the first
        one the uppermost, and the number is the rest of a division.
        """
        if low > high:
            return low
        drawn = 0
        for _ in range(words_drawn(width_bits)):
            drawn = drawn << 64 | self.word()
        return low + drawn % (high - low + 1)


def words_drawn(width_bits: int) -> int:
    """Return how many words are drawn for a number of so many bits."""
    return width_bits // 64 + 1
