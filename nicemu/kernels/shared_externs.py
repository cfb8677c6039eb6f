# SPDX-License-Identifier: Apache-2.0
"""What every architecture has, in a kernel: arrays, hashes, sums, chance, and what selectors choose by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from nicemu.pipeline import HASH_ALGORITHMS, chance, ir, width_of

from .array_externs import ArrayExterns
from .division import divided
from .externs import Call
from .metering import draw_function
from .not_compiled import NotCompiled
from .parts import Part
from .places import BIT, WORD, Number
from .records import word_of_chance

_Packed: TypeAlias = tuple[Number, Number]
"""The address of bytes, and how many there are."""


class SharedExterns(ArrayExterns):
    """Hashes, sums of 16 bits, chance."""

    def shared_calls(self) -> dict[str, Call]:
        """Return what calls of externs make that every architecture has."""
        return {
            "hash": self._hash,
            "random": self._random,
            "Checksum16.get": self._checksum16,
            **self.array_calls(),
        }

    def sum(self, algorithm: ir.Expression, data: ir.Expression, with_payload: bool) -> Number:
        """Return the sum of some data, i64."""
        return self._summed(self._algorithm(algorithm), data, with_payload)

    def _algorithm(self, node: ir.Expression) -> int | Number:
        """Return the number of an algorithm, as a number of Python's where it is constant."""
        return node.value if isinstance(node, ir.Constant) else self.value(node)

    def _summed(self, algorithm: int | Number, data: ir.Expression, with_payload: bool = False) -> Number:
        if isinstance(algorithm, int):
            return self._sum_of(algorithm, [data], with_payload)
        return self._one_of_the_sums(0, algorithm, self.packed_bits([data]), with_payload)

    def _one_of_the_sums(self, first: int, chosen: Number, packed: _Packed, with_payload: bool) -> Number:
        """Return the sum by the algorithm that is `chosen`, number `first` or one behind."""
        if first == len(HASH_ALGORITHMS):
            return WORD(0)
        return self.choose(
            self.builder.icmp_unsigned("==", chosen, chosen.type(first)),
            lambda: self._sum_by(HASH_ALGORITHMS[first], packed, with_payload),
            lambda: self._one_of_the_sums(first + 1, chosen, packed, with_payload),
            ir.Bits(64),
        )

    def _sum_of(self, algorithm: int, data: Sequence[ir.Expression], with_payload: bool = False) -> Number:
        """Return the sum of the bits of some data."""
        packed = self.packed_bits(data)  # whatever is called in the data is called in any case
        if algorithm >= len(HASH_ALGORITHMS):
            return WORD(0)
        return self._sum_by(HASH_ALGORITHMS[algorithm], packed, with_payload)

    def _sum_by(self, name: str, packed: _Packed, with_payload: bool) -> Number:
        """Return the sum of bytes by an algorithm."""
        if name == "random":
            return self.builder.lshr(self.draw(), WORD(32))
        payload, left = WORD(0), WORD(0)
        if with_payload:
            at = self.builder.load(self.cursor)
            payload, left = self.address(self.frame, at), self.builder.sub(self.length, at)
        function = self.take(Part("sum", name))
        (result,) = self.look_up(function, *packed, payload, left)
        return result

    def selected(self, table: ir.Table) -> Number:
        """Return the hash of a table's selector keys."""
        profile = next(item for item in self.program.externs if item.name == table.profile)
        if profile.extern != "action_selector":
            return WORD(0)
        return self._sum_of(profile.number(0), table.selector_keys)

    def _checksum16(self, instance: str, arguments: tuple[ir.Expression, ...]) -> Number:
        algorithm = ir.Constant(HASH_ALGORITHMS.index("csum16"), ir.Bits(32))
        return self._truncated(self.sum(algorithm, arguments[0], False), 16)

    def _hash(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        result, algorithm, base, data, largest = arguments
        result = self.located(result)
        if isinstance(largest.type, ir.Bits) and largest.type.signed:
            raise NotCompiled("it hashes up to a signed number")
        by, start, count = self._algorithm(algorithm), self.value(base), self.value(largest)
        width = max(64, start.type.width) + 1
        wide = ir.Bits(width)
        zero = count.type(0)
        divisor = self._truncated(self.resized(count, largest.type, ir.Bits(max(64, count.type.width))), 64)
        is_larger = BIT(0)  # than any sum
        if count.type.width > 64:
            upper = self.builder.lshr(count, count.type(64))
            is_larger = self.builder.icmp_unsigned("!=", upper, zero)

        def rest() -> Number:
            number = self._summed(by, data)
            some = self.builder.select(is_larger, WORD(1), divisor)
            return self.builder.select(is_larger, number, self.builder.urem(number, some))

        is_zero = self.builder.icmp_unsigned("==", count, zero)
        number = self.choose(is_zero, lambda: WORD(0), rest, ir.Bits(64))
        start, number = self.resized(start, base.type, wide), self.resized(number, ir.Bits(64), wide)
        total = self.builder.add(start, number)
        signed = isinstance(base.type, ir.Bits) and base.type.signed
        self.store(result, self.resized(total, ir.Bits(width, signed), result.type))

    def _random(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        result, *ends = arguments
        result = self.located(result)
        count = chance.words_drawn(max(width_of(end.type) for end in ends))
        wide = ir.Bits(64 * count, True)
        low, high = (self.resized(self.value(end), end.type, wide) for end in ends)
        kind = low.type

        def drawn() -> Number:
            number: Number = kind(0)
            for _ in range(count):
                number = self.builder.shl(number, kind(64)) if count > 1 else number
                number = self.builder.or_(number, self.resized(self.draw(), ir.Bits(64), wide))
            span = self.builder.add(self.builder.sub(high, low), kind(1))
            return self.builder.add(low, divided(self.builder, number, span)[1])

        fits = self.builder.icmp_signed("<=", low, high)
        self.store(result, self.resized(self.choose(fits, drawn, lambda: low, wide), wide, result.type))

    def draw(self) -> Number:
        """Return 64 bits of the engine's chance."""
        state = self.builder.load(self.at(self.context, 8 * word_of_chance(self.program)))
        return self.builder.call(draw_function(self.builder.module), [state])
