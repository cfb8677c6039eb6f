# SPDX-License-Identifier: Apache-2.0
"""v1model's functions in a kernel: those that ask for nothing but this packet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import ARCHITECTURES, chance, ir, width_of

from .division import divided
from .externs import Call
from .metering import draw_function
from .not_compiled import NotCompiled
from .parts import Part
from .paths import own_path
from .places import BIT, WORD, Number, Place
from .records import DROP_PORT, word_of_chance
from .v1_requests import V1Requests

STANDARD = "standard_metadata"
_ALGORITHMS = ARCHITECTURES["v1model"].enums["HashAlgorithm"]


class V1Externs(V1Requests):
    """Drops, hashes, checksums, chance, messages."""

    def calls(self) -> dict[str, Call]:
        """Return what each extern's call makes."""
        return {
            "mark_to_drop": self._mark_to_drop,
            "hash": self._hash,
            "verify_checksum": lambda instance, given: self._checksum(given, False, False),
            "update_checksum": lambda instance, given: self._checksum(given, False, True),
            "verify_checksum_with_payload": lambda instance, given: self._checksum(given, True, False),
            "update_checksum_with_payload": lambda instance, given: self._checksum(given, True, True),
            "assert": lambda instance, given: self._assert(given),
            "assume": lambda instance, given: self._assert(given),
            "random": self._random,
            "digest": self._digest,
            "log_msg": self._log,
            "Checksum16.get": self._checksum16,
            **self.array_calls(),
            **self.request_calls(),
        }

    def standard(self, field: str) -> Place:
        """Return the place of a field of the standard metadata."""
        whole = Place(STANDARD, self.types[STANDARD])
        kind = next(part.type for part in self.places.fields(whole.type) if part.name == field)
        return whole.part(field, kind)

    @property
    def failed(self) -> Any:  # noqa: ANN401
        """The address of whether an assertion has failed (i1)."""
        return self.places.slot(Place(own_path("failed"), ir.BOOL), self.builder)

    def _mark_to_drop(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        base = arguments[0] if arguments else ir.Name(STANDARD, self.types[STANDARD])
        for field, number in (("egress_spec", DROP_PORT), ("mcast_grp", 0)):
            kind = self.standard(field).type
            self.store(ir.Member(base, field, kind), llvm.IntType(width_of(kind))(number))

    def _assert(self, arguments: tuple[ir.Expression, ...]) -> None:
        holds = self.value(arguments[0])
        failed = self.builder.or_(self.builder.load(self.failed), self.builder.not_(holds))
        self.builder.store(failed, self.failed)

    # Sums

    def sum(self, algorithm: ir.Expression, data: ir.Expression, with_payload: bool) -> Number:
        """Return the sum of some data, i64."""
        if not isinstance(algorithm, ir.Constant):
            raise NotCompiled("a hash algorithm is no constant")
        return self._sum_of(algorithm.value, [data], with_payload)

    def _sum_of(self, algorithm: int, data: Sequence[ir.Expression], with_payload: bool = False) -> Number:
        """Return the sum of the bits of some data."""
        buffer, length = self.packed_bits(data)  # whatever is called in the data is called in any case
        if algorithm >= len(_ALGORITHMS):
            return WORD(0)
        name = _ALGORITHMS[algorithm]
        if name == "random":
            return self.builder.lshr(self.draw(), WORD(32))
        payload, left = WORD(0), WORD(0)
        if with_payload:
            at = self.builder.load(self.cursor)
            payload, left = self.address(self.frame, at), self.builder.sub(self.length, at)
        function = self.take(Part("sum", name))
        (result,) = self.look_up(function, buffer, length, payload, left)
        return result

    def selected(self, table: ir.Table) -> Number:
        """Return the hash of a table's selector keys."""
        profile = next(item for item in self.program.externs if item.name == table.profile)
        if profile.extern != "action_selector":
            return WORD(0)
        return self._sum_of(int(profile.arguments[0]), table.selector_keys)

    def _checksum(self, arguments: tuple[ir.Expression, ...], with_payload: bool, update: bool) -> None:
        condition, data, checksum, algorithm = arguments
        given, is_there = self.held(checksum)
        does, after = self.block("sums"), self.block("summed")
        wanted = self.value(condition)
        self.builder.cbranch(wanted if update else self.builder.and_(wanted, is_there), does, after)
        self.builder.position_at_end(does)
        found = self.resized(self.sum(algorithm, data, with_payload), ir.Bits(64), checksum.type)
        if update:
            self.store(checksum, found)
        else:
            error = self.standard("checksum_error")
            wrong = self.builder.icmp_unsigned("!=", found, given)
            before = self.places.load(error, self.builder)
            self.places.store(error, self.builder.or_(before, wrong), self.builder)
        self.go(after)

    def _hash(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        result, algorithm, base, data, largest = arguments
        result = self.located(result)
        if isinstance(largest.type, ir.Bits) and largest.type.signed:
            raise NotCompiled("it hashes up to a signed number")
        start, count = self.value(base), self.value(largest)
        width = max(64, start.type.width) + 1
        wide = ir.Bits(width)
        zero = count.type(0)
        divisor = self._truncated(self.resized(count, largest.type, ir.Bits(max(64, count.type.width))), 64)
        is_larger = BIT(0)  # than any sum
        if count.type.width > 64:
            upper = self.builder.lshr(count, count.type(64))
            is_larger = self.builder.icmp_unsigned("!=", upper, zero)

        def rest() -> Number:
            number = self.sum(algorithm, data, False)
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

    # Messages

    def _digest(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        values = [(argument.type, self.value(argument)) for argument in arguments]
        self.leave_effect(instance, "digest", values)

    def _log(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        text, *data = arguments
        if not isinstance(text, ir.Text):
            raise NotCompiled("a text is no constant")
        values = [(argument.type, self.value(argument)) for argument in data]
        self.leave_effect(instance, "log_msg", values, text.text)

    def _checksum16(self, instance: str, arguments: tuple[ir.Expression, ...]) -> Number:
        algorithm = ir.Constant(_ALGORITHMS.index("csum16"), ir.Bits(32))
        return self._truncated(self.sum(algorithm, arguments[0], False), 16)

    def forget_failures(self) -> None:
        """Say that no assertion has failed."""
        self.builder.store(BIT(0), self.failed)
