# SPDX-License-Identifier: Apache-2.0
"""CRC-32 by carry-less multiplication, as LLVM instructions: long data folded onto 16 bytes, then reduced.

The constants are powers of x modulo the polynomial, computed here, in the reflected bit order that the CRC
has. `lanes` is how many 16-byte parts one vector holds: 4 or 2 where the processor has VPCLMULQDQ, else 1.
Source: Gopal et al., Intel white paper, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
Instruction" (2009), "Folding", "Barrett Reduction" and "Bit-Reflected Data".
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

POLYNOMIAL = 0x104C11DB7
BLOCK_BYTES = 16
_CLMUL = {1: "llvm.x86.pclmulqdq", 2: "llvm.x86.pclmulqdq.256", 4: "llvm.x86.pclmulqdq.512"}
_ACCUMULATORS = 4
"""Vectors that are folded side by side, so that one multiplication need not wait for the one before."""
_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_PAIR = ir.VectorType(_I64, 2)
_LOW_HALF = 0xFFFFFFFF
Value = Any
"""A value of the instructions that are built (llvmlite has no types)."""


def power_of_x(exponent: int) -> int:
    """Return x to the power `exponent` modulo the polynomial: 32 bits, not reflected."""
    remainder = 1
    for _ in range(exponent):
        remainder <<= 1
        if remainder >> 32:
            remainder ^= POLYNOMIAL
    return remainder


def _reflected(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2)


def fold_constants(distance_bits: int) -> tuple[int, int]:
    """Return what the low and the high half of 16 bytes are multiplied by to move on by `distance_bits`."""
    powers = power_of_x(distance_bits + 32), power_of_x(distance_bits - 32)
    return _reflected(powers[0], 32) << 1, _reflected(powers[1], 32) << 1


def barrett_constants() -> tuple[int, int]:
    """Return the reflected polynomial and the reflected quotient of x^64 by it, 33 bits each."""
    quotient, remainder = 0, 1 << 64
    for place in range(64, 31, -1):
        if remainder >> place & 1:
            quotient |= 1 << (place - 32)
            remainder ^= POLYNOMIAL << (place - 32)
    return _reflected(POLYNOMIAL, 33), _reflected(quotient, 33)


class Folding:
    """Builds the instructions at `builder`'s place. Addresses, lengths and CRCs are 64-bit words, 16 bytes a
    vector of two of them.
    """

    def __init__(self, builder: Value, lanes: int = 1) -> None:
        self._builder = builder
        self._lanes = lanes
        self._wide = ir.VectorType(_I64, 2 * lanes)
        self._wide_bytes = BLOCK_BYTES * lanes

    def word(self, number: int) -> Value:
        """Return a constant."""
        return ir.Constant(_I64, number)

    def load(self, address: Value, kind: Value = _PAIR) -> Value:
        """Load a value from any address."""
        return self._builder.load(self._builder.inttoptr(address, kind.as_pointer()), align=1)

    def pair(self, low: Value, high: Value) -> Value:
        """Return two words as 16 bytes."""
        vector = self._builder.insert_element(ir.Constant(_PAIR, [0, 0]), low, ir.Constant(_I32, 0))
        return self._builder.insert_element(vector, high, ir.Constant(_I32, 1))

    def plus(self, address: Value, offset: int) -> Value:
        """Return an address further on."""
        return self._builder.add(address, self.word(offset))

    def minus(self, target: Value, source: Value) -> Value:
        """Return how far `target` lies from `source`."""
        return self._builder.sub(target, source)

    def masked(self, address: Value, offset: int, mask: int) -> Value:
        """Load a word, with the bits of `mask` set."""
        return self._builder.or_(self.load(self.plus(address, offset), _I64), self.word(mask))

    def step(self, value: Value, distance_bits: int = 8 * BLOCK_BYTES) -> Value:
        """Move 16 bytes, or a vector of such, on by `distance_bits`."""
        constants = ir.Constant(value.type, list(fold_constants(distance_bits)) * (value.type.count // 2))
        low, high = self._multiply(value, constants, 0x00), self._multiply(value, constants, 0x11)
        return self._builder.xor(low, high)

    def reduce(self, value: Value) -> Value:
        """Return the CRC of 16 bytes."""
        low, high = self._word(value, 0), self._word(value, 1)
        moved = self._product(low, fold_constants(8 * BLOCK_BYTES)[1])
        return self._reduce_96(self._builder.xor(high, self._word(moved, 0)), self._word(moved, 1))

    def reduce_8(self, word: Value) -> Value:
        """Return the CRC of 8 bytes."""
        return self._reduce_96(word, self.word(0))

    def reduce_4(self, word: Value) -> Value:
        """Return the CRC of 4 bytes, which lie in the low half of `word`."""
        builder = self._builder
        polynomial, quotient = barrett_constants()
        half = builder.and_(word, self.word(_LOW_HALF))
        times = builder.and_(self._word(self._product(half, quotient), 0), self.word(_LOW_HALF))
        nearest = self._word(self._product(times, polynomial), 0)
        return builder.lshr(builder.xor(word, nearest), self.word(32))

    def blocks(self, seed: Value, source: Value, length: Value, shift: Value = None) -> Value:
        """Fold `length` bytes (16 or more, a multiple of 16) onto 16; `seed` is added to the first 16.

        With `shift` the bytes are copied, as they are read, to where that lies from their own place.
        """
        builder = self._builder
        self._shift = shift
        self._place = cgutils.alloca_once_value(builder, source)
        self._left = cgutils.alloca_once_value(builder, length)
        remainder = cgutils.alloca_once(builder, _PAIR)
        enough = self.word(_ACCUMULATORS * self._wide_bytes)
        with builder.if_else(builder.icmp_unsigned(">=", length, enough)) as (many, few):
            with many:
                builder.store(self._many(seed), remainder)
            with few:
                builder.store(builder.xor(seed, self._take(_PAIR)), remainder)
        with self._while_left(BLOCK_BYTES):
            builder.store(self.onto(builder.load(remainder), self._take(_PAIR)), remainder)
        return builder.load(remainder)

    def onto(self, value: Value, following: Value) -> Value:
        """Fold a vector onto the one behind it."""
        return self._builder.xor(self.step(value, 64 * value.type.count), following)

    def onto_blocks(self, remainder: Value, source: Value, length: Value) -> Value:
        """As `blocks`, of any multiple of 16 bytes behind the 16 that were folded onto `remainder`."""
        builder = self._builder
        result = cgutils.alloca_once_value(builder, remainder)
        with builder.if_then(builder.icmp_unsigned(">=", length, self.word(BLOCK_BYTES))):
            builder.store(self.blocks(self.step(remainder), source, length), result)
        return builder.load(result)

    def _many(self, seed: Value) -> Value:
        """Fold as much as vectors fit into what is left."""
        builder = self._builder
        widened = self._widened(seed)
        accumulators = []
        for number in range(_ACCUMULATORS):
            first = self._take(self._wide)
            value = builder.xor(first, widened) if number == 0 else first
            accumulators.append(cgutils.alloca_once_value(builder, value))
        with self._while_left(_ACCUMULATORS * self._wide_bytes):
            for accumulator in accumulators:
                moved = self.step(builder.load(accumulator), 8 * _ACCUMULATORS * self._wide_bytes)
                builder.store(builder.xor(moved, self._take(self._wide)), accumulator)
        folded = cgutils.alloca_once_value(builder, builder.load(accumulators[0]))
        for accumulator in accumulators[1:]:
            builder.store(self.onto(builder.load(folded), builder.load(accumulator)), folded)
        with self._while_left(self._wide_bytes):
            builder.store(self.onto(builder.load(folded), self._take(self._wide)), folded)
        whole = builder.load(folded)
        result = self._lane(whole, 0)
        for lane in range(1, self._lanes):
            result = self.onto(result, self._lane(whole, lane))
        return result

    def _take(self, kind: Value) -> Value:
        """Load the next vector, and copy it where that is asked for."""
        builder = self._builder
        place, taken = builder.load(self._place), self.word(8 * kind.count)
        value = self.load(place, kind)
        if self._shift is not None:
            target = builder.inttoptr(builder.add(place, self._shift), kind.as_pointer())
            builder.store(value, target, align=1)
        builder.store(builder.add(place, taken), self._place)
        builder.store(builder.sub(builder.load(self._left), taken), self._left)
        return value

    def _while_left(self, length_bytes: int) -> Value:
        """Loop while so many bytes are left."""
        builder = self._builder
        enough = self.word(length_bytes)
        return _While(builder, lambda: builder.icmp_unsigned(">=", builder.load(self._left), enough))

    def _reduce_96(self, low: Value, high: Value) -> Value:
        """Return the CRC of 12 bytes: a word, and 4 bytes in the low half of the second one."""
        builder = self._builder
        moved = self._product(builder.and_(low, self.word(_LOW_HALF)), fold_constants(96)[1])
        shifted = builder.or_(builder.lshr(low, self.word(32)), builder.shl(high, self.word(32)))
        return self.reduce_4(builder.xor(shifted, self._word(moved, 0)))

    def _word(self, vector: Value, place: int) -> Value:
        return self._builder.extract_element(vector, ir.Constant(_I32, place))

    def _lane(self, vector: Value, lane: int) -> Value:
        return self.pair(self._word(vector, 2 * lane), self._word(vector, 2 * lane + 1))

    def _widened(self, pair: Value) -> Value:
        vector = ir.Constant(self._wide, [0] * (2 * self._lanes))
        for place in range(2):
            number = ir.Constant(_I32, place)
            vector = self._builder.insert_element(vector, self._word(pair, place), number)
        return vector

    def _product(self, word: Value, constant: int) -> Value:
        """Multiply two words."""
        return self._multiply(self.pair(word, self.word(0)), ir.Constant(_PAIR, [constant, 0]), 0x00)

    def _multiply(self, first: Value, second: Value, halves: int) -> Value:
        """Multiply the low words (`halves` 0x00) or the high words (0x11) of each 16 bytes, without carry."""
        kind = ir.FunctionType(first.type, [first.type, first.type, _I8])
        name = _CLMUL[first.type.count // 2]
        function = cgutils.get_or_insert_function(self._builder.module, kind, name)
        return self._builder.call(function, [first, second, ir.Constant(_I8, halves)])


class _While:
    """A loop: `with _While(builder, condition):` builds its body."""

    def __init__(self, builder: Value, condition: Value) -> None:
        self._builder = builder
        self._head = builder.append_basic_block("while")
        body = builder.append_basic_block("while.body")
        self._end = builder.append_basic_block("while.end")
        builder.branch(self._head)
        builder.position_at_end(self._head)
        builder.cbranch(condition(), body, self._end)
        builder.position_at_end(body)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._builder.branch(self._head)
        self._builder.position_at_end(self._end)
