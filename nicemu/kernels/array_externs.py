# SPDX-License-Identifier: Apache-2.0
"""Counters, registers and meters in a kernel."""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import ir

from .externs import Call, Externs
from .kernel_meters import METER_BYTES
from .metering import mark_place_function
from .places import INDEX, WORD, Number, Value
from .value_words import word_count

_IN_BYTES = 1


class ArrayExterns(Externs):
    """Arrays that lie at addresses which the context holds, and what direct meters have said."""

    def array_calls(self) -> dict[str, Call]:
        """Return what the methods of arrays make."""
        return {
            "register.read": self._read,
            "register.write": self._write,
            "counter.count": self._count,
            "direct_counter.count": lambda instance, given: None,
            "meter.execute_meter": self._execute_meter,
            "direct_meter.read": self._read_colour,
        }

    def _array(self, instance: str) -> tuple[Number, int]:
        """Return the address of an array's memory (i64), and its size."""
        number = next(n for n, item in enumerate(self.program.externs) if item.name == instance)
        size = self.program.externs[number].arguments[0]
        assert isinstance(size, int)
        return self.builder.load(self.object_word(number)), size

    def _inside(self, index: ir.Expression, size: int) -> tuple[Number, Number]:
        """Return whether an index is inside, and the index, i64."""
        number = self.value(index)
        kind = llvm.IntType(max(number.type.width, 64))
        signed = isinstance(index.type, ir.Bits) and index.type.signed
        wide = self.builder.sext(number, kind) if signed else self.builder.zext(number, kind)
        inside = self.builder.icmp_unsigned("<", wide, kind(size))
        return inside, self._truncated(wide, 64)

    def _place(self, base: Number, index: Number, length_bytes: int) -> Number:
        """Return the address of a place of an array."""
        return self.builder.add(base, self.builder.mul(index, WORD(length_bytes)))

    def _element_of_array(self, instance: str) -> tuple[ir.Type, int]:
        """Return the type of a register's values, and their words."""
        kind = next(item.types[0] for item in self.program.externs if item.name == instance)
        return kind, word_count(self.layouts, kind)

    def _read(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        target, index = self.located(arguments[0]), arguments[1]
        kind, words = self._element_of_array(instance)
        base, size = self._array(instance)
        inside, number = self._inside(index, size)

        def stored() -> Value:
            return self.load_value(kind, self._place(base, number, 8 * words))

        self.store(target, self.choose(inside, stored, lambda: self.places.zero(kind), kind))

    def _write(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        index, value = arguments
        kind, words = self._element_of_array(instance)
        base, size = self._array(instance)
        inside, number = self._inside(index, size)
        given = self.value(value)
        self._when(inside, lambda: self.store_value(kind, given, self._place(base, number, 8 * words)))

    def _count(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        base, size = self._array(instance)
        inside, number = self._inside(arguments[0], size)

        def count() -> None:
            at = self._place(base, number, 16)
            self._add(self.at(at, 0), WORD(1))
            self._add(self.at(at, 8), self.length)

        self._when(inside, count)

    def _when(self, condition: Number, make: Any) -> None:  # noqa: ANN401
        does, after = self.block("does"), self.block("done")
        self.builder.cbranch(condition, does, after)
        self.builder.position_at_end(does)
        make()
        self.go(after)

    # Meters

    def _execute_meter(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        index, result = arguments[0], self.located(arguments[1])
        base, size = self._array(instance)
        inside, number = self._inside(index, size)
        in_bytes = next(item.arguments[1] for item in self.program.externs if item.name == instance)

        def marked() -> Number:
            place, others = self._place(base, number, METER_BYTES), self.address(base, METER_BYTES * size)
            units = self.length if in_bytes == _IN_BYTES else WORD(1)
            mark = mark_place_function(self.builder.module)
            return self.builder.call(mark, [others, place, units, self.now_ns, self.length])

        colour = self.choose(inside, marked, lambda: WORD(0), ir.Bits(64))
        self.store(result, self.resized(colour, ir.Bits(64), result.type))

    def _read_colour(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        result = self.located(arguments[0])
        colour = self.builder.load(self.colour(instance))
        self.store(result, self.resized(colour, ir.Bits(32), result.type))

    def forget_colours(self) -> None:
        """Say that no direct meter has marked the packet."""
        for instance in self.program.externs:
            if instance.extern == "direct_meter":
                self.builder.store(INDEX(0), self.colour(instance.name))
