# SPDX-License-Identifier: Apache-2.0
"""Arrays in a kernel's memory are the interpreter's arrays, whatever a controller writes."""

from __future__ import annotations

from nicemu.kernels.kernel_arrays import KernelCounters, KernelRegisters
from nicemu.pipeline import Count, Layouts, Program, ir

LAYOUTS = Layouts(Program("p", "v1model", (), (), (), (), (), ir.Parser("start", ()), ()))


def test_a_register_that_is_filled_has_the_value_in_every_place_of_memory() -> None:
    register = KernelRegisters("r", 5, ir.Bits(100), LAYOUTS)
    value = 1 << 99 | 7
    register.fill(value)
    assert [register.read(index, 0) for index in range(5)] == [value] * 5
    register.write(2, 0)
    assert [register.read(index, 0) for index in range(5)] == [value, value, 0, value, value]
    register.fill(None)
    assert dict(register.values) == {}
    register.memory.close()


def test_a_signed_register_that_is_filled_stays_signed() -> None:
    register = KernelRegisters("r", 2, ir.Bits(8, signed=True), LAYOUTS)
    register.fill(-3)
    assert [register.read(index, 0) for index in range(2)] == [-3, -3]
    register.memory.close()


def test_a_counter_that_is_filled_goes_on_from_there() -> None:
    counters = KernelCounters("c", 3)
    counters.fill(Count(5, 60))
    counters.count(1, 40)
    found = [counters.counts[index] for index in range(3)]
    assert [(count.packets, count.bytes) for count in found] == [(5, 60), (6, 100), (5, 60)]
    counters.memory.close()
